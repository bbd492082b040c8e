"""Lists, reads, makes and changes topics, and appends to their fields.

A topic is a note and its fields are sections. What writes is a decision for `edit`, as of any other
write; the values that a field had before are read from the history of its note.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from memsyncd.config import Config
from memsyncd.core.decay import compute_salience
from memsyncd.core.digest import digest_bytes
from memsyncd.core.editing.additions import (
    Addition,
    quote_value,
    quote_values,
    raise_faults,
    render_metadata,
)
from memsyncd.core.editing.additions import find_faults as find_addition_faults
from memsyncd.core.editing.kinds import find_importance
from memsyncd.core.editing.sections import find_sections_bytes, split_note_sections
from memsyncd.core.editing.topics import (
    Appended,
    DatedValue,
    RelationLink,
    add_field,
    append_value,
    find_field,
    find_relation_faults,
    find_title,
    find_topic_faults,
    list_fields,
    list_relations,
    make_topic,
    merge_relations,
    patch_front_matter,
    read_summary,
    read_values,
    replace_summary,
)
from memsyncd.core.guard.secrets import redact
from memsyncd.core.markdown.frontmatter import distinct_tags, find_front_matter
from memsyncd.core.markdown.notenames import NoteNames, make_key
from memsyncd.core.markdown.parse import parse_note
from memsyncd.core.markdown.sections import make_slug
from memsyncd.core.model import ARCHIVED, Meta, Section
from memsyncd.core.notepath import NotePath, is_markdown
from memsyncd.core.search.query import EVERYTHING, Filters
from memsyncd.engine.additions import choose_note, copy_fields
from memsyncd.engine.browse import find_stored_section
from memsyncd.engine.clock import Clock
from memsyncd.engine.edit import Decide, Edit, make_put
from memsyncd.engine.history import (
    Target,
    is_beginning,
    iter_revisions,
    open_history,
    read_texts,
)
from memsyncd.engine.memory_tool import check_digest
from memsyncd.engine.metadata import (
    NO_ACCESSES,
    NO_META,
    DatedSection,
    Valuation,
    describe_meta,
    find_stored_moment_s,
)
from memsyncd.engine.redaction import must_redact, redact_notes
from memsyncd.engine.similar import describe_similar, find_nearly_same
from memsyncd.engine.upkeep import Act, Planned, plan_notes
from memsyncd.engine.worker import Job
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import (
    AlreadyExists,
    BadRequest,
    EditRefused,
    MemsyncdError,
    NoteNotFound,
)
from memsyncd.files.read import TextFile, read_text_file
from memsyncd.operations.similar.declare import SimilarSection
from memsyncd.operations.topics.declare import (
    FieldAppendParams,
    FieldHistory,
    FieldHistoryParams,
    FieldInfo,
    FieldValue,
    FieldVersion,
    NewRelation,
    Topic,
    TopicArchiveParams,
    TopicCreateParams,
    TopicGetParams,
    TopicInfo,
    TopicList,
    TopicListParams,
    TopicPatchParams,
    TopicRelation,
)
from memsyncd.operations.writes import AddedSection, OnSimilar
from memsyncd.store.history import Revision
from memsyncd.store.links import StoredLinks
from memsyncd.store.lookup import (
    StoredNote,
    StoredSection,
    by_path,
    read_digest,
    read_sections_of,
    stream_notes,
    stream_sections,
)
from memsyncd.store.pool import Reader
from memsyncd.store.texts import read_note_text

READ_LIMIT_S = 5.0
# If a note would be too large.
WAY_OUT: Final = "begin another topic"
# Of what a new topic says, so many texts are compared with what there is.
COMPARED_TEXTS: Final = 8
SIMILAR_LIMIT: Final = 5
# A field's history reads so many revisions of its note at most; `before` goes on.
REVISIONS_LIMIT: Final = 5_000

# --- names --------------------------------------------------------------------------------------


def find_topic(workspace: Workspace, config: Config, name: str) -> NotePath:
    """Return the note that is named by its path, its name in the memory folder, its title, an
    alias, or the anchor of a section. Raises NoteNotFound, also for a section that the note does
    not have, BadRequest and PathRefused.
    """
    path, heading = _find_topic(workspace, config, name)
    if heading:
        with workspace.acquire(READ_LIMIT_S) as reader:
            find_stored_section(reader, f"{path.text}#{heading}")
    return path


def _find_topic(workspace: Workspace, config: Config, name: str) -> tuple[NotePath, str]:
    """Return the note, and the section's part of the name if the name is that of a section."""
    note, _, heading = name.rpartition("#")
    # A name may contain the mark of an anchor.
    named = {text: part for one, part in ((name, ""), (note, heading)) if (text := one.strip())}
    with workspace.acquire(READ_LIMIT_S) as reader:
        names = StoredLinks(reader).names
        for text, part in named.items():
            path = _find_named(workspace, reader, config, names, text)
            if path is not None:
                if not is_markdown(path.text):
                    hint = "only markdown notes have fields"
                    raise BadRequest(f"{path.text} is no topic", hint=hint)
                return path, part
        near = next(filter(None, map(names.find_similar, named)), None)
    hint = f"did you mean {near}?" if near else "see: memsyncd topic list"
    raise NoteNotFound(f"no topic {name.strip()}", hint=hint)


def _find_named(
    workspace: Workspace, reader: Reader, config: Config, names: NoteNames, text: str
) -> NotePath | None:
    if read_digest(reader, text) is not None:
        return NotePath(text)
    path = _choose(workspace, config, text)
    if path is not None and (
        read_digest(reader, path.text) is not None
        or read_text_file(workspace.scope, path) is not None
    ):
        return path
    found = names.find("", text)
    return None if found is None else NotePath(found)


def _choose(workspace: Workspace, config: Config, named: str) -> NotePath | None:
    try:
        return choose_note(workspace.scope, config, note=named)
    except MemsyncdError:
        return None


def find_written_topic(workspace: Workspace, config: Config, name: str) -> NotePath:
    """Like `find_topic`; also raises PathRefused for a note that must not be written, and
    BadRequest for a section.
    """
    path = _find_whole_topic(workspace, config, name)
    return choose_note(workspace.scope, config, note=f"./{path.text}")


def _find_whole_topic(workspace: Workspace, config: Config, name: str) -> NotePath:
    """Like `find_topic`, but a section is refused: the whole note would be changed."""
    path, heading = _find_topic(workspace, config, name)
    if heading:
        raise BadRequest(
            f"{name} is a section, and this changes the whole note",
            hint=f"name the note, {path.text}; `archive` and the memory tool change one section",
        )
    return path


# --- reading ------------------------------------------------------------------------------------


def list_topics(
    workspace: Workspace,
    config: Config,
    params: TopicListParams,
    *,
    now_s: float,
    accesses: Mapping[str, int] = NO_ACCESSES,
) -> TopicList:
    """List the markdown notes, by salience unless another order is asked for."""
    filters = Filters(includes_archived=params.include_archived, includes_expired=True)
    with workspace.acquire(READ_LIMIT_S) as reader:
        found = stream_notes(reader, path=params.path, filters=filters, has_sections=False)
        notes = sorted((one for one in found if is_markdown(one.path)), key=by_path)
        if params.sort == "salience":
            valued = _value_topics(reader, config, params.path, filters, accesses)
            notes.sort(key=lambda one: (-valued.get(one.path, 0.0), one.path))
        elif params.sort == "recency":
            moments = _find_moments_s(reader, params.path, filters)
            notes.sort(key=lambda one: (-moments.get(one.path, one.mtime_ns / 1e9), one.path))
        # All sections are read, and redacted, of those topics alone that are shown.
        among = [one.path for one in notes[: params.limit]]
        places = {path: at for at, path in enumerate(among)}
        notes_shown = stream_notes(reader, among=among, filters=filters)
        shown = list(redact_notes(reader, notes_shown, config))
    listed = [_describe_topic(one, config, accesses, now_s) for one in shown]
    listed.sort(key=lambda one: places[one.path])
    return TopicList(workspace=workspace.id, topics=listed, n_topics=len(notes))


class _WeighedSection(NamedTuple):
    """A section as far as the salience of its topic depends on it."""

    path: str
    anchor: str
    level: int
    kind: str | None
    importance: float | None


_get_path: Callable[[tuple[Any, ...]], str] = itemgetter(0)


def _value_topics(
    reader: Reader,
    config: Config,
    path: str | None,
    filters: Filters,
    accesses: Mapping[str, int],
) -> dict[str, float]:
    """Return the salience of each topic with sections, by its path."""
    with stream_sections(reader, _WeighedSection, filters=filters, path=path) as sections:
        return {
            topic: _value_topic([*of_topic], config, accesses)
            for topic, of_topic in groupby(sections, _get_path)
        }


def _find_moments_s(reader: Reader, path: str | None, filters: Filters) -> dict[str, float]:
    """Return when a section of each topic was changed last, by the topic's path."""
    with stream_sections(reader, DatedSection, filters=filters, path=path) as sections:
        # Most sections of a note state the same times, or none.
        return {
            topic: max(map(find_stored_moment_s, {*of_topic}))
            for topic, of_topic in groupby(sections, _get_path)
        }


def _describe_topic(
    note: StoredNote, config: Config, accesses: Mapping[str, int], now_s: float
) -> TopicInfo:
    fields = list(list_fields(note.sections))
    meta = note.sections[0] if note.sections else replace(NO_META, mtime_ns=note.mtime_ns)
    return TopicInfo(
        path=note.path,
        title=note.title,
        digest=note.digest,
        modified_at=note.mtime_ns / 1e9,
        fields=[head.heading[-1] for head, _ in fields],
        salience=_value_topic(note.sections, config, accesses),
        accesses=sum(accesses.get(one.anchor, 0) for one in note.sections),
        **describe_meta(meta, config.kinds, now_s),
    )


def _value_topic(
    sections: Sequence[StoredSection | _WeighedSection], config: Config, accesses: Mapping[str, int]
) -> float:
    """Return the salience of a topic; one without fields has that of its text."""
    parts = [part for _, part in list_fields(sections)] or ([sections] if sections else [])
    return round(compute_salience([_weigh_field(part, config, accesses) for part in parts]), 4)


def _weigh_field(
    part: Sequence[StoredSection | _WeighedSection], config: Config, accesses: Mapping[str, int]
) -> tuple[float, int]:
    """Return the importance of a field, and how often it or what is beneath it was recalled."""
    importance = find_importance(config.kinds, part[0].kind, part[0].importance)
    return importance, sum(accesses.get(one.anchor, 0) for one in part)


def read_topic(
    workspace: Workspace,
    config: Config,
    params: TopicGetParams,
    *,
    now_s: float,
    accesses: Mapping[str, int] = NO_ACCESSES,
) -> Topic:
    """Read a topic as indexed. Raises NoteNotFound."""
    path = find_topic(workspace, config, params.topic)
    with workspace.acquire(READ_LIMIT_S) as reader:
        note = next(stream_notes(reader, among=[path.text], filters=EVERYTHING), None)
        if note is None:
            raise NoteNotFound(f"{path.text} is not indexed yet", hint="try again in a moment")
        text = read_note_text(reader, path.text)
        show: Callable[[str], str] = redact if must_redact(reader, config) else str
    lines, sections = text.split("\n"), note.sections
    fields = [
        _describe_field(part, lines, config, accesses, now_s, show)
        for head, part in list_fields(sections)
        if params.include_archived or head.status != ARCHIVED
    ]
    data = text.encode("utf-8", "surrogateescape")
    meta = sections[0] if sections else replace(NO_META, mtime_ns=note.mtime_ns)
    return Topic(
        workspace=workspace.id,
        path=path.text,
        title=show(note.title),
        summary=show(read_summary(path.text, data)),
        digest=note.digest,
        salience=_value_topic(sections, config, accesses),
        accesses=sum(accesses.get(one.anchor, 0) for one in sections),
        fields=fields,
        relations=[
            TopicRelation(kind=one.kind, to=show(one.to)) for one in list_relations(path.text, data)
        ],
        **describe_meta(meta, config.kinds, now_s),
    )


def _describe_field(
    part: Sequence[StoredSection],
    lines: Sequence[str],
    config: Config,
    accesses: Mapping[str, int],
    now_s: float,
    show: Callable[[str], str],
) -> FieldInfo:
    head = part[0]
    importance, n_accesses = _weigh_field(part, config, accesses)
    values = read_values("\n".join(lines[head.span.start - 1 : head.span.end]))
    beneath = "\n".join(lines[head.span.end : part[-1].span.end]).strip("\n")
    if beneath:
        text = values.pop().text if values and values[-1].at is None else ""
        values.append(DatedValue(None, f"{text}\n\n{beneath}".lstrip("\n")))
    return FieldInfo(
        anchor=head.anchor,
        name=show(head.heading[-1]),
        start_line=head.span.start,
        end_line=part[-1].span.end,
        values=[FieldValue(at=one.at, text=show(one.text)) for one in values],
        salience=round(compute_salience([(importance, n_accesses)]), 4),
        accesses=n_accesses,
        **describe_meta(head, config.kinds, now_s),
    )


# --- what nearly exists already -----------------------------------------------------------------


def find_near(
    workspace: Workspace, config: Config, texts: Sequence[str], *, now_s: float
) -> list[SimilarSection]:
    """Return the sections that say nearly what one of the texts says, the most similar first.

    Raises what `Workspace.acquire` raises.
    """
    found: dict[str, SimilarSection] = {}
    for text in texts[:COMPARED_TEXTS]:
        if not text.strip():
            continue
        for one in find_nearly_same(workspace, text, config, now_s=now_s, limit=SIMILAR_LIMIT):
            known = found.get(one.anchor)
            if known is None or known.similarity < one.similarity:
                found[one.anchor] = one
    ordered = sorted(found.values(), key=lambda one: (-one.similarity, one.path, one.start_line))
    return ordered[:SIMILAR_LIMIT]


def find_near_topic(
    workspace: Workspace, config: Config, params: TopicCreateParams, *, now_s: float
) -> list[SimilarSection]:
    """Return the sections that say nearly what a new topic says. A note with its title comes
    first.
    """
    texts = [f"{params.title}\n\n{params.summary}"]
    texts += [f"{name}\n\n{value}" for name, value in params.fields.items()]
    near = find_near(workspace, config, texts, now_s=now_s)
    with workspace.acquire(READ_LIMIT_S) as reader:
        path = StoredLinks(reader).names.find("", params.title.strip())
        if path is None or not is_markdown(path):
            return near
        sections = read_sections_of(reader, path)
        head = find_title(sections) or next(iter(sections), None)
        digest = read_digest(reader, path)
        if head is None or digest is None or head.status == ARCHIVED:
            return near
        same = describe_similar(reader, workspace, head, digest, 1.0, config, now_s)
    return [same, *(one for one in near if one.anchor != same.anchor)][:SIMILAR_LIMIT]


def choose_near(
    workspace: Workspace, config: Config, near: Sequence[SimilarSection], on_similar: OnSimilar
) -> SimilarSection | None:
    """Return the section that is appended to or reported instead of writing a new one; None if a
    new one is to be written.
    """
    if on_similar == "report":
        return next(iter(near), None)
    if on_similar == "append":
        return next((one for one in near if _can_append(workspace, config, one)), None)
    return None


def _can_append(workspace: Workspace, config: Config, near: SimilarSection) -> bool:
    """Whether a value may be appended to a section: its note is markdown that may be written."""
    is_writable = _choose(workspace, config, f"./{near.path}") is not None
    return is_writable and not near.anchor.endswith("#")


# --- writing ------------------------------------------------------------------------------------


class FieldWritten(AddedSection, frozen=True, kw_only=True):
    """Where a value was written."""

    n_values: int
    n_dropped: int


class TopicChange(msgspec.Struct, frozen=True, kw_only=True):
    """A topic after it was written."""

    path: str
    digest: str
    is_changed: bool
    fields: tuple[str, ...] = ()


def make_append_decision(
    workspace: Workspace, config: Config, params: FieldAppendParams, *, client: str, at: str
) -> Decide[FieldWritten]:
    """Make the decision to append a value to a field. Raises BadRequest, NoteNotFound and
    PathRefused at once.
    """
    addition = make_field_addition(config, params)
    path = find_written_topic(workspace, config, params.topic)

    def decide() -> tuple[Edit, FieldWritten]:
        file = _read(workspace, path, params.if_digest)
        appended = _append(path, file.data, params.field, addition, config, at, params.keep)
        return _write_field(workspace, config, file, appended, "field.append", client)

    return decide


def make_field_addition(config: Config, params: FieldAppendParams) -> Addition:
    """Make the addition of a value. Raises BadRequest that names everything that is wrong."""
    # `topic` of the request names the note; `topic` of an addition is metadata of a section.
    addition = copy_fields(params, topic=None)
    faults = find_addition_faults(addition, most_chars=config.memory.max_content_chars)
    if not params.field.strip():
        faults.append(BadRequest("field: is empty", hint="name it, such as status"))
    elif not _is_anchor(params.field):
        named = Addition(content="x", summary=params.field)
        faults += [
            BadRequest(one.message.replace("summary: ", "field: ", 1), hint=one.hint)
            for one in find_addition_faults(named)
        ]
    raise_faults(faults)
    return addition


def make_append_there_decision(
    workspace: Workspace,
    config: Config,
    addition: Addition,
    near: SimilarSection,
    *,
    command: str,
    client: str,
    at: str,
) -> Decide[FieldWritten]:
    """Make the decision to append a memory to a section that is there. What the section states of
    itself stays; a heading of its own goes into the text.
    """
    path = choose_note(workspace.scope, config, note=f"./{near.path}")

    def decide() -> tuple[Edit, FieldWritten]:
        file = _read(workspace, path)
        section = _find_section(path, file.data, near.anchor, config)
        if section is None:
            raise NoteNotFound(f"no section {near.anchor}", hint="repeat the request")
        value = _keep_heading(_leave_out_stated(addition, section.meta), section.heading[-1])
        appended = _append(path, file.data, near.anchor, value, config, at, None)
        return _write_field(workspace, config, file, appended, command, client)

    return decide


def _keep_heading(addition: Addition, heading: str) -> Addition:
    summary = " ".join(addition.summary.split())
    if not summary or make_slug(summary) == make_slug(heading):
        return replace(addition, summary="")
    return replace(addition, summary="", content=f"{summary}\n\n{addition.content}")


def _leave_out_stated(addition: Addition, meta: Meta) -> Addition:
    """The addition without what a section states already. The higher importance counts."""
    extra = dict(meta.extra)
    left: dict[str, Any] = {}
    for name in Addition.__struct_fields__:
        value = getattr(addition, name)
        stated = getattr(meta, name, None) if name in Meta.__struct_fields__ else extra.get(name)
        if name in ("content", "summary", "tags", "metadata", "importance") or not stated:
            left[name] = value
    metadata = {key: value for key, value in addition.metadata.items() if key not in extra}
    if meta.importance is not None and (addition.importance or 0) <= meta.importance:
        left["importance"] = None
    return Addition(**{**left, "metadata": metadata, "created": None, "updated": None})


def _append(
    path: NotePath,
    data: bytes,
    field: str,
    addition: Addition,
    config: Config,
    at: str,
    keep: int | None,
) -> Appended:
    """Append to the section of this name, or make it. Raises EditRefused for an archived one."""
    section = _find_section(path, data, field, config)
    if section is None and _is_anchor(field):
        raise NoteNotFound(f"no section {field}", hint=f"see: memsyncd topic get {path.text}")
    if section is None:
        return add_field(path.text, data, field, addition, at=at)
    if section.meta.status == ARCHIVED:
        hint = f"restore it first: memsyncd topic restore {path.text}, or memsyncd unarchive"
        raise EditRefused(f"{section.anchor} is archived", hint=hint)
    # Without a history a value that is dropped would be lost.
    most = (keep or config.memory.field_values) if config.history.enabled else None
    return append_value(path.text, data, section.anchor, addition, at=at, keep=most)


def _is_anchor(field: str) -> bool:
    """True for an anchor, with or without its note, but not for a name such as `C# tips`."""
    path, mark, _ = field.rpartition("#")
    return bool(mark) and (not path or is_markdown(path))


def _find_section(path: NotePath, data: bytes, name: str, config: Config) -> Section | None:
    return find_field(parse_note(path, data, config.chunking).sections, name)


def _write_field(
    workspace: Workspace,
    config: Config,
    file: TextFile,
    appended: Appended,
    command: str,
    client: str,
) -> tuple[Edit, FieldWritten]:
    path = file.path
    put = make_put(workspace.scope, path, appended.data, file, way_out=WAY_OUT)
    sections = parse_note(path, appended.data, config.chunking).sections
    span = next(one.span for one in sections if one.anchor == appended.anchor)
    written = FieldWritten(
        anchor=appended.anchor,
        path=path.text,
        start_line=span.start,
        end_line=span.end,
        digest=digest_bytes(appended.data),
        n_values=appended.n_values,
        n_dropped=appended.n_dropped,
    )
    return Edit(command=command, client=client, path=path.text, operations=(put,)), written


def _read(workspace: Workspace, path: NotePath, if_digest: str | None = None) -> TextFile:
    """Read a note that must be there. Raises Conflict if the writer had read another text."""
    file = read_text_file(workspace.scope, path)
    check_digest(if_digest, path.text, file)
    if file is None:
        raise NoteNotFound(f"{path.text} is not there", hint="see: memsyncd topic list")
    return file


# --- topics -------------------------------------------------------------------------------------


def make_create_decision(
    workspace: Workspace,
    config: Config,
    params: TopicCreateParams,
    *,
    client: str,
    at: str,
    into: str | None = None,
) -> Decide[TopicChange]:
    """Make the decision to create a topic, or to append it to the note `into`. Raises BadRequest
    and PathRefused at once.
    """
    metadata = copy_fields(params, content=params.summary, summary=params.title)
    relations = _list_relations(params.relations)
    raise_faults(
        [
            *find_topic_faults(
                metadata, params.fields, relations, most_chars=config.memory.max_content_chars
            )
        ]
    )
    name = into or params.note or make_slug(params.title)
    path = choose_note(workspace.scope, config, note=f"./{name}" if into else name)

    def decide() -> tuple[Edit, TopicChange]:
        was = read_text_file(workspace.scope, path)
        if was is not None and into is None:
            hint = "append to it with on_similar: append, or name another note"
            raise AlreadyExists(f"the topic {path.text} is there already", hint=hint)
        if was is None:
            data, anchors = make_topic(path.text, metadata, params.fields, relations, at=at)
        else:
            data, anchors = _add_to_topic(workspace, config, params, was, metadata, at)
        return _write_topic(workspace, path, data, was, "topic.create", client, anchors)

    return decide


def _list_relations(relations: Sequence[NewRelation]) -> list[RelationLink]:
    return [RelationLink(one.kind, one.to) for one in relations]


def _add_to_topic(
    workspace: Workspace,
    config: Config,
    params: TopicCreateParams,
    was: TextFile,
    metadata: Addition,
    at: str,
) -> tuple[bytes, list[str]]:
    """Append the summary and the fields of a new topic to one that is there."""
    path, data = was.path, was.data
    fields = dict(params.fields)
    if params.summary.strip():
        fields = {params.title: params.summary, **fields}
    anchors = []
    for name, value in fields.items():
        appended = _append(path, data, name, Addition(content=value), config, at, None)
        data = appended.data
        anchors.append(appended.anchor)
    front = find_front_matter(path.text, data.decode("utf-8", "surrogateescape").splitlines())
    missing = _leave_out_stated(metadata, front.meta)
    changes = render_metadata(replace(missing, tags=()), None)
    if tags := distinct_tags((*front.meta.tags, *metadata.tags)):
        changes["tags"] = quote_values(tags)
    if changes:
        data = patch_front_matter(path.text, data, {**changes, "updated": quote_value(at)})
    return _merge(workspace, path, data, _list_relations(params.relations), ()), anchors


def _merge(
    workspace: Workspace,
    path: NotePath,
    data: bytes,
    relate: Sequence[RelationLink],
    unrelate: Sequence[RelationLink],
) -> bytes:
    if not (relate or unrelate):
        return data
    with workspace.acquire(READ_LIMIT_S) as reader:
        names = StoredLinks(reader).names

        def identify(target: str) -> str:
            return names.find(path.text, target) or make_key(target)

        return merge_relations(path.text, data, relate, unrelate, identify=identify)


def _write_topic(
    workspace: Workspace,
    path: NotePath,
    data: bytes,
    was: TextFile | None,
    command: str,
    client: str,
    anchors: Sequence[str] = (),
) -> tuple[Edit, TopicChange]:
    is_changed = was is None or data != was.data
    puts = (make_put(workspace.scope, path, data, was, way_out=WAY_OUT),) if is_changed else ()
    change = TopicChange(
        path=(was.path if was else path).text,
        digest=digest_bytes(data),
        is_changed=is_changed,
        fields=tuple(anchors),
    )
    return Edit(command=command, client=client, path=path.text, operations=puts), change


_PATCHED: Final = "kind priority lifecycle source task session scope expires".split()


def make_patch_decision(
    workspace: Workspace, config: Config, params: TopicPatchParams, *, client: str, at: str
) -> Decide[TopicChange]:
    """Make the decision to change a topic. Raises BadRequest, NoteNotFound and PathRefused at
    once.
    """
    changes = _list_changes(config, params)
    relate, unrelate = _list_relations(params.relate), _list_relations(params.unrelate)
    path = find_written_topic(workspace, config, params.topic)

    def decide() -> tuple[Edit, TopicChange]:
        file = _read(workspace, path, params.if_digest)
        data = _merge(workspace, path, file.data, relate, unrelate)
        if params.summary is not None and params.summary.strip() != read_summary(path.text, data):
            data = replace_summary(path.text, data, params.summary)
        is_restated = changes and patch_front_matter(path.text, data, changes) != data
        if data != file.data or is_restated:
            stamped = {**changes, "updated": quote_value(at)}
            data = patch_front_matter(path.text, data, stamped)
        return _write_topic(workspace, path, data, file, "topic.patch", client)

    return decide


def _list_changes(config: Config, params: TopicPatchParams) -> dict[str, str]:
    """Return the keys of the front matter that change, with values of YAML, empty ones to remove.

    Raises BadRequest that names everything that is wrong.
    """
    given = {name: getattr(params, name) for name in _PATCHED}
    stated = {name: value for name, value in given.items() if value}
    metadata = Addition(
        content=params.summary or "x",
        summary=params.title or "x",
        tags=tuple(params.tags or ()),
        keywords=tuple(params.keywords or ()),
        importance=params.importance,
        metadata={key: value or "x" for key, value in params.metadata.items()},
        **stated,
    )
    most_chars = config.memory.max_content_chars
    raise_faults(
        [
            *find_topic_faults(metadata, {}, (), most_chars=most_chars),
            *find_relation_faults("relate", _list_relations(params.relate)),
            *find_relation_faults("unrelate", _list_relations(params.unrelate)),
        ]
    )
    rendered = render_metadata(metadata, None)
    asked = [name for name, value in given.items() if value is not None]
    asked += [name for name in ("tags", "keywords") if getattr(params, name) is not None]
    asked += ["importance"] if params.importance is not None else []
    changes = {name: rendered.get(name, "") for name in asked}
    if params.title is not None:
        changes["title"] = quote_value(params.title)
    return changes | {key: rendered[key] if value else "" for key, value in params.metadata.items()}


# --- archive ------------------------------------------------------------------------------------


def plan_topics(
    workspace: Workspace,
    config: Config,
    act: Act,
    params: TopicArchiveParams,
    valuation: Valuation,
) -> Planned:
    """Plan to archive or restore whole topics. Raises NoteNotFound for one that is not there,
    BadRequest for a section.
    """
    paths = {_find_whole_topic(workspace, config, name).text for name in params.topics}
    return plan_notes(workspace, config, act, paths, valuation)


# --- history of a field -------------------------------------------------------------------------


def list_field_history(
    workspace: Workspace, config: Config, clock: Clock, path: NotePath, params: FieldHistoryParams
) -> Job[FieldHistory]:
    """List the values that a field has and had, from the history of its note. Raises BadRequest if
    no history is kept, NoteNotFound if there was never such a field.
    """
    history = open_history(workspace, config, clock)
    file = read_text_file(workspace.scope, path)
    reader = _FieldReader(params.field)
    current = reader.read(path.text, file.data if file else None)
    found: dict[DatedValue, Revision | None] = {}
    if params.before is None:
        found = dict.fromkeys(current)
    n_read = n_found = 0
    is_complete = False
    for revision in iter_revisions(history, Target(path=path.text), before=params.before):
        yield
        n_read += 1
        if n_read > REVISIONS_LIMIT or n_found >= params.limit:
            is_complete = False
            break
        is_complete = is_beginning(revision)
        try:
            old, new = read_texts(history, revision)
        except NoteNotFound:
            continue
        before = reader.read(revision.old_path or revision.path, old)
        for value in reader.read(revision.path, new):
            if value not in before and found.get(value) is None:
                found[value] = revision
                n_found += 1
    if not found and params.before is None:
        hint = f"see: memsyncd topic get {path.text}"
        raise NoteNotFound(f"{path.text} has and had no field {params.field}", hint=hint)
    show = redact if config.guard.is_masking else str
    values = [_describe_version(value, one, current, show) for value, one in found.items()]
    values.sort(key=_find_version_moment_s, reverse=True)
    return FieldHistory(
        workspace=workspace.id,
        path=path.text,
        field=params.field,
        values=values[: params.limit],
        is_complete=is_complete and len(values) <= params.limit,
    )


class _FieldReader:
    """Reads the values of one field from the texts of its note, each text once."""

    def __init__(self, field: str) -> None:
        self._field = field
        self._known: dict[bytes, list[DatedValue]] = {}

    def read(self, path: str, data: bytes | None) -> list[DatedValue]:
        if data is None:
            return []
        if data not in self._known:
            if len(self._known) > 1:
                # A revision's old text is the new one of the revision before it.
                self._known.pop(next(iter(self._known)))
            self._known[data] = self._read(path, data)
        return self._known[data]

    def _read(self, path: str, data: bytes) -> list[DatedValue]:
        name = self._field
        if _is_anchor(name):
            # The note may have had another path.
            name = f"{path}#{name.rpartition('#')[2]}"
        try:
            section = find_field(split_note_sections(path, data), name)
        except BadRequest:
            return []
        place = find_sections_bytes(path, data).get(section.anchor) if section else None
        own = data[slice(*place)] if place else b""
        return read_values(own.decode("utf-8", "replace")) if place else []


def _describe_version(
    value: DatedValue,
    revision: Revision | None,
    current: Sequence[DatedValue],
    show: Callable[[str], str],
) -> FieldVersion:
    return FieldVersion(
        at=value.at,
        text=show(value.text),
        is_current=value in current,
        revision=revision.id if revision else None,
        change_set=revision.change_set if revision else None,
        recorded_at=revision.at_s if revision else None,
        client=revision.client if revision else "",
        command=revision.command if revision else "",
    )


def _find_version_moment_s(one: FieldVersion) -> float:
    """When a value was written; the time that it states counts before that of its revision."""
    if one.at is not None:
        return datetime.fromisoformat(one.at).timestamp()
    return one.recorded_at or 0.0
