"""Lists, reads, makes and changes topics, and appends to their fields.

A topic is a note and its fields are sections. A write is a decision for `edit`, as of any other
write; the values that a field had before are read from the history of its note.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Final

import msgspec
from msgspec.structs import asdict, replace

from memsyncd.config import Config
from memsyncd.core.digest import digest_bytes
from memsyncd.core.editing.additions import (
    Addition,
    quote_value,
    quote_values,
    raise_faults,
    render_metadata,
)
from memsyncd.core.editing.additions import find_faults as find_addition_faults
from memsyncd.core.editing.fields import (
    count_field,
    find_title,
    list_fields,
    value_field,
    value_topic,
)
from memsyncd.core.editing.sections import find_sections_bytes, split_note_sections
from memsyncd.core.editing.topics import (
    DatedValue,
    RelationLink,
    find_field,
    find_relation_faults,
    find_topic_faults,
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
from memsyncd.core.markdown.links import NoteNames, make_key
from memsyncd.core.markdown.sections import make_slug
from memsyncd.core.model import ARCHIVED, WORTH_ORDERS, weigh_accesses
from memsyncd.core.paths import NotePath, is_markdown
from memsyncd.core.search.filters import EVERYTHING, Filters
from memsyncd.engine.accesses import count_accesses
from memsyncd.engine.additions import choose_note, copy_fields
from memsyncd.engine.browse import find_stored_section
from memsyncd.engine.clock import Clock
from memsyncd.engine.edit import Decide, Edit, EditOutcome, make_put
from memsyncd.engine.field_edits import (
    READ_LIMIT_S,
    SIMILAR_LIMIT,
    WAY_OUT,
    FieldWritten,
    append_to_field,
    choose_near,
    choose_path,
    find_near,
    is_anchor,
    leave_out_stated,
    make_append_there_decision,
    read_for_edit,
    write_field,
)
from memsyncd.engine.metadata import (
    NO_ACCESSES,
    NO_META,
    Valuation,
    describe_meta,
)
from memsyncd.engine.places import NAMED_LINES, find_note_path, strip_brackets
from memsyncd.engine.redaction import must_redact, redact_notes
from memsyncd.engine.similar import describe_similar
from memsyncd.engine.worker import Job
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import (
    AlreadyExists,
    BadRequest,
    NoteNotFound,
)
from memsyncd.files.read import TextFile, read_text_file
from memsyncd.operations.call import Call
from memsyncd.operations.fields import AddedSection, WriteAction
from memsyncd.operations.plans import Act, Page, Planned, keep_up, plan_notes
from memsyncd.operations.revisions import (
    Target,
    is_beginning,
    iter_revisions,
    open_history,
    read_texts,
)
from memsyncd.operations.similar.declare import SimilarSection
from memsyncd.operations.topics.declare import (
    FieldAppended,
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
    TopicWritten,
)
from memsyncd.operations.upkeep.declare import Upkept
from memsyncd.store.filters import find_file_ids
from memsyncd.store.history import Revision, RevisionFilter
from memsyncd.store.links import StoredLinks
from memsyncd.store.lookup import StoredNote, stream_notes
from memsyncd.store.pool import Reader
from memsyncd.store.sections import StoredSection, read_digest, read_sections_of
from memsyncd.store.texts import read_note_text
from memsyncd.store.topics import Topics

# The history of a field reads at most so many revisions of its note; `before` continues it.
REVISIONS_LIMIT: Final = 5_000
# So many topics that were recalled are read at once, until no other can be among the first.
READ_TOPICS: Final = 32
# Worths are rounded.
ROUNDING: Final = 0.0002

# --- names --------------------------------------------------------------------------------------


def find_topic(workspace: Workspace, config: Config, name: str) -> NotePath:
    """Return the note that `name` names: by its path, its name in the memory folder, its title, an
    alias, or the anchor of a section.

    Raises NoteNotFound, also for a section that the note does not have, BadRequest and PathRefused.
    """
    path, heading = _find_topic(workspace, config, name)
    if heading:
        with workspace.acquire(READ_LIMIT_S) as reader:
            find_stored_section(reader, f"{path.text}#{heading}")
    return path


def _find_topic(workspace: Workspace, config: Config, name: str) -> tuple[NotePath, str]:
    """Return the note, and the heading part of the name if it names a section."""
    name = strip_brackets(name)
    note, _, heading = name.rpartition("#")
    lines = NAMED_LINES.fullmatch(name)
    # A name may contain `#` as an anchor does, or `:` as lines do.
    readings = ((name, ""), (note, heading), (lines["path"] if lines else "", ""))
    named = {text.strip(): part for text, part in readings if text.strip()}
    with workspace.acquire(READ_LIMIT_S) as reader:
        names = StoredLinks(reader).names
        for text, part in named.items():
            path = _find_named(workspace, reader, config, names, text)
            if path is not None:
                if not is_markdown(path.text):
                    hint = "only markdown notes have fields"
                    raise BadRequest(f"{path.text} is no topic", hint=hint)
                return path, part
        similar = next(filter(None, map(names.find_similar, named)), None)
    hint = f"did you mean {similar}?" if similar else "see: memsyncd topic list"
    raise NoteNotFound(f"no topic {name}", hint=hint)


def _find_named(
    workspace: Workspace, reader: Reader, config: Config, names: NoteNames, text: str
) -> NotePath | None:
    path = choose_path(workspace, config, text)
    named = find_note_path(reader, names, text, [] if path is None else [path.text])
    if named is None:
        is_saved = path is not None and read_text_file(workspace.scope, path) is not None
        return path if is_saved else None
    return NotePath(named)


def find_field_topic(workspace: Workspace, config: Config, name: str) -> NotePath:
    """Like `find_topic`, but refuse a section, because fields belong to the whole note."""
    path, heading = _find_topic(workspace, config, name)
    if heading:
        raise BadRequest(
            f"{name} is a section, and a field is looked for in the whole note",
            hint=f"name the note, {path.text}, and the field by its heading or anchor",
        )
    return path


def find_written_topic(workspace: Workspace, config: Config, name: str) -> NotePath:
    """Like `find_topic`, but also raise PathRefused for a note that must not be written, and
    BadRequest for a section.
    """
    path = _find_whole_topic(workspace, config, name)
    return choose_note(workspace.scope, config, note=f"./{path.text}")


def _find_whole_topic(workspace: Workspace, config: Config, name: str) -> NotePath:
    """Like `find_topic`, but refuse a section, because the whole note would be changed."""
    path, heading = _find_topic(workspace, config, name)
    if heading:
        raise BadRequest(
            f"{name} is a section, and this changes the whole note",
            hint=f"name the note, {path.text}; `set` and `archive` change one section",
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
    """List the markdown notes in the order that the parameters name."""
    filters = Filters(includes_archived=params.include_archived, includes_expired=True)
    with workspace.acquire(READ_LIMIT_S) as reader:
        files = None if params.path is None else find_file_ids(reader, [params.path])
        topics = Topics(reader, is_all=params.include_archived, files=files)
        order = "worth" if params.sort in WORTH_ORDERS else params.sort
        listed = topics.list_first(order, limit=params.limit)
        if order == "worth" and accesses:
            listed = _raise_recalled(
                reader, config, topics, filters, listed, accesses, params.limit
            )
        # Sections are read and redacted only for the topics in the answer.
        places = {path: at for at, (path, _) in enumerate(listed)}
        chosen = stream_notes(reader, among=places, filters=filters)
        redacted = list(redact_notes(reader, chosen, config))
        n_topics = topics.count()
    described = [_describe_topic(note, config, accesses, now_s) for note in redacted]
    described.sort(key=lambda topic: places[topic.path])
    return TopicList(workspace=workspace.id, topics=described, n_topics=n_topics)


def _raise_recalled(
    reader: Reader,
    config: Config,
    topics: Topics,
    filters: Filters,
    listed: Sequence[tuple[str, float]],
    accesses: Mapping[str, int],
    limit: int,
) -> list[tuple[str, float]]:
    """Return the first topics by worth, which a recall raises. `listed` are the first
    topics as long as nothing was recalled.
    """
    recalled: Counter[str] = Counter()
    for anchor, n in accesses.items():
        recalled[anchor.rpartition("#")[0]] += n
    # No topic is worth more than if all of its recalls had raised all of its fields.
    bounds = {
        path: value * weigh_accesses(recalled[path])
        for path, value in topics.read(json.dumps([*recalled]))
    }
    first, values = sorted(bounds, key=lambda path: -bounds[path]), dict(listed)
    for at in range(0, len(first), READ_TOPICS):
        best = sorted(values.values(), reverse=True)[:limit]
        if len(best) == limit and bounds[first[at]] + ROUNDING < best[-1]:
            break
        among = first[at : at + READ_TOPICS]
        for note in stream_notes(reader, among=among, filters=filters):
            values[note.path] = value_topic(note.sections, config.kinds, accesses)
    return sorted(values.items(), key=lambda topic: (-topic[1], topic[0]))[:limit]


def _describe_topic(
    note: StoredNote, config: Config, accesses: Mapping[str, int], now_s: float
) -> TopicInfo:
    fields = list(list_fields(note.sections))
    worth = value_topic(note.sections, config.kinds, accesses)
    meta = note.sections[0] if note.sections else replace(NO_META, mtime_ns=note.mtime_ns)
    return TopicInfo(
        path=note.path,
        title=note.title,
        digest=note.digest,
        modified_at=note.mtime_ns / 1e9,
        fields=[head.heading[-1] for head, _ in fields],
        worth=worth,
        salience=worth,
        accesses=sum(accesses.get(section.anchor, 0) for section in note.sections),
        **describe_meta(meta, config.kinds, now_s),
    )


def read_topic(
    workspace: Workspace,
    config: Config,
    params: TopicGetParams,
    *,
    now_s: float,
    accesses: Mapping[str, int] = NO_ACCESSES,
) -> Topic:
    """Read a topic from the index. Raises NoteNotFound."""
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
    worth = value_topic(sections, config.kinds, accesses)
    return Topic(
        workspace=workspace.id,
        path=path.text,
        title=show(note.title),
        summary=show(read_summary(path.text, data)),
        digest=note.digest,
        worth=worth,
        salience=worth,
        accesses=sum(accesses.get(section.anchor, 0) for section in sections),
        fields=fields,
        relations=[
            TopicRelation(kind=relation.kind, to=show(relation.to))
            for relation in list_relations(path.text, data)
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
    worth = round(value_field(part, config.kinds, accesses), 4)
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
        values=[FieldValue(at=value.at, text=show(value.text)) for value in values],
        worth=worth,
        salience=worth,
        accesses=count_field(part, accesses),
        **describe_meta(head, config.kinds, now_s),
    )


# --- similar topics ----------------------------------------------------------------------------


def find_near_topic(
    workspace: Workspace, config: Config, params: TopicCreateParams, *, now_s: float
) -> list[SimilarSection]:
    """Return the sections that are similar to a new topic. A note with its title comes first."""
    texts = [f"{params.title}\n\n{params.summary}"]
    texts += [f"{name}\n\n{value}" for name, value in params.fields.items()]
    similar = find_near(workspace, config, texts, now_s=now_s)
    with workspace.acquire(READ_LIMIT_S) as reader:
        path = StoredLinks(reader).names.find("", params.title.strip())
        if path is None or not is_markdown(path):
            return similar
        sections = read_sections_of(reader, path)
        head = find_title(sections) or next(iter(sections), None)
        digest = read_digest(reader, path)
        if head is None or digest is None or head.status == ARCHIVED:
            return similar
        same = describe_similar(reader, workspace, head, digest, 1.0, config, now_s)
    return [same, *(section for section in similar if section.anchor != same.anchor)][
        :SIMILAR_LIMIT
    ]


# --- writing ------------------------------------------------------------------------------------


class TopicChange(msgspec.Struct, frozen=True, kw_only=True):
    """A topic after a write."""

    path: str
    digest: str
    is_changed: bool
    fields: tuple[str, ...] = ()


def make_append_decision(
    workspace: Workspace, config: Config, params: FieldAppendParams, *, client: str, at: str
) -> Decide[FieldWritten]:
    """Make the decision to append a value to a field. Raises BadRequest, NoteNotFound and
    PathRefused at once, not when the decision is carried out.
    """
    addition = make_field_addition(config, params)
    path = find_written_topic(workspace, config, params.topic)

    def decide() -> tuple[Edit, FieldWritten]:
        file = read_for_edit(workspace, path, params.if_digest)
        appended = append_to_field(path, file.data, params.field, addition, config, at, params.keep)
        return write_field(workspace, config, file, appended, "field.append", client)

    return decide


def make_field_addition(config: Config, params: FieldAppendParams) -> Addition:
    """Make the addition of a value. Raises BadRequest, which names every wrong parameter."""
    # `topic` of the request names the note; `topic` of an addition is metadata of a section.
    addition = copy_fields(params, topic=None)
    faults = find_addition_faults(addition, most_chars=config.memory.max_content_chars)
    if not params.field.strip():
        faults.append(BadRequest("field: is empty", hint="name it, such as status"))
    elif not is_anchor(params.field):
        named = Addition(content="x", summary=params.field)
        faults += [
            BadRequest(fault.message.replace("summary: ", "field: ", 1), hint=fault.hint)
            for fault in find_addition_faults(named)
        ]
    raise_faults(faults)
    return addition


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
    and PathRefused at once, not when the decision is carried out.
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
    return [RelationLink(relation.kind, relation.to) for relation in relations]


def _add_to_topic(
    workspace: Workspace,
    config: Config,
    params: TopicCreateParams,
    was: TextFile,
    metadata: Addition,
    at: str,
) -> tuple[bytes, list[str]]:
    """Append the summary and the fields of a new topic to an existing one."""
    path, data = was.path, was.data
    fields = dict(params.fields)
    if params.summary.strip():
        fields = {params.title: params.summary, **fields}
    anchors = []
    for name, value in fields.items():
        appended = append_to_field(path, data, name, Addition(content=value), config, at, None)
        data = appended.data
        anchors.append(appended.anchor)
    front = find_front_matter(path.text, data.decode("utf-8", "surrogateescape").splitlines())
    missing = leave_out_stated(metadata, front.meta)
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
    """Make the decision to change a topic. Raises BadRequest, NoteNotFound and PathRefused at once,
    not when the decision is carried out.
    """
    changes = _list_changes(config, params)
    relate, unrelate = _list_relations(params.relate), _list_relations(params.unrelate)
    path = find_written_topic(workspace, config, params.topic)

    def decide() -> tuple[Edit, TopicChange]:
        file = read_for_edit(workspace, path, params.if_digest)
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
    """Return the keys of the front matter that change, with their values in YAML; an empty value
    removes the key. Raises BadRequest, which names every wrong parameter.
    """
    named = {name: getattr(params, name) for name in _PATCHED}
    stated = {name: value for name, value in named.items() if value}
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
    changed = [name for name, value in named.items() if value is not None]
    changed += [name for name in ("tags", "keywords") if getattr(params, name) is not None]
    changed += ["importance"] if params.importance is not None else []
    changes = {name: rendered.get(name, "") for name in changed}
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
    """Plan to archive or restore whole topics. Raises NoteNotFound for an unknown topic, BadRequest
    for a section.
    """
    paths = {_find_whole_topic(workspace, config, name).text for name in params.topics}
    page = Page(params.offset, params.limit)
    return plan_notes(workspace, config, act, paths, valuation, page)


# --- history of a field -------------------------------------------------------------------------


def list_field_history(
    workspace: Workspace, config: Config, clock: Clock, path: NotePath, params: FieldHistoryParams
) -> Job[FieldHistory]:
    """List the present and earlier values of a field, from the history of its note. Raises
    BadRequest if no history is kept, NoteNotFound if there was never such a field.
    """
    history = open_history(workspace, config, clock)
    file = read_text_file(workspace.scope, path)
    reader = _FieldReader(params.field)
    current = reader.read(path.text, file.data if file else None)
    origins: dict[DatedValue, Revision | None] = {}
    if params.before is None:
        origins = dict.fromkeys(current)
    n_read = n_found = 0
    is_complete = False
    for revision in iter_revisions(
        history, Target(path=path.text), RevisionFilter(before=params.before)
    ):
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
            if value not in before and origins.get(value) is None:
                origins[value] = revision
                n_found += 1
    if not origins and params.before is None:
        hint = f"see: memsyncd topic get {path.text}"
        raise NoteNotFound(
            f"{path.text} has no field {params.field}, nor has its history", hint=hint
        )
    show = redact if config.guard.is_masking else str
    values = [_describe_version(value, origin, current, show) for value, origin in origins.items()]
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
        self._cached: dict[bytes, list[DatedValue]] = {}

    def read(self, path: str, data: bytes | None) -> list[DatedValue]:
        if data is None:
            return []
        if data not in self._cached:
            if len(self._cached) > 1:
                # The old text of a revision is the new text of the revision before it.
                self._cached.pop(next(iter(self._cached)))
            self._cached[data] = self._parse(path, data)
        return self._cached[data]

    def _parse(self, path: str, data: bytes) -> list[DatedValue]:
        name = self._field
        if is_anchor(name):
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


def _find_version_moment_s(version: FieldVersion) -> float:
    """Return when a value was written: the time that it states, else the time of its revision."""
    if version.at is not None:
        return datetime.fromisoformat(version.at).timestamp()
    return version.recorded_at or 0.0


# --- the operations -----------------------------------------------------------------------------


def list_all(call: Call, params: TopicListParams) -> TopicList:
    accesses = count_accesses(call.workspace)
    return list_topics(call.workspace, call.config, params, now_s=call.now_s, accesses=accesses)


async def get(call: Call, params: TopicGetParams) -> Topic:
    workspace = await call.open()

    def read() -> Topic:
        accesses = count_accesses(workspace)
        return read_topic(workspace, call.config, params, now_s=call.now_s, accesses=accesses)

    topic = await call.read(read)
    call.note_accesses([field.anchor for field in topic.fields] or [topic.path], params)
    return topic


async def list_history(call: Call, params: FieldHistoryParams) -> FieldHistory:
    workspace = await call.open()
    find = partial(find_field_topic, workspace, call.config, params.topic)
    path = await call.read(find, on_disk=True)
    return await call.run_job(partial(list_field_history, path=path, params=params))


async def create(call: Call, params: TopicCreateParams) -> TopicWritten:
    workspace, config = call.workspace, call.config
    decide = partial(make_create_decision, workspace, config, params, **call.stamp)
    new_topic = decide()
    similar = await call.find_near(partial(find_near_topic, params=params), params.on_similar)
    section = choose_near(workspace, config, similar, params.on_similar)
    if section is None:
        return _describe_written(call, await call.edit(new_topic), "added", similar)
    if params.on_similar == "report":
        change = TopicChange(path=section.path, digest=section.digest, is_changed=False)
        return _describe_written(call, EditOutcome(answer=change), "reported", similar)
    outcome = await call.edit(decide(into=section.path))
    return _describe_written(call, outcome, "appended", similar)


async def patch(call: Call, params: TopicPatchParams) -> TopicWritten:
    workspace = await call.open()
    make = partial(make_patch_decision, workspace, call.config, params, **call.stamp)
    outcome = await call.edit(await call.read(make, on_disk=True))
    return _describe_written(call, outcome, "changed", ())


async def archive(call: Call, params: TopicArchiveParams) -> Upkept:
    plan = partial(plan_topics, call.workspace, call.config, "topic.archive", params)
    return await keep_up(call, "topic.archive", params, plan, is_long=False)


async def restore(call: Call, params: TopicArchiveParams) -> Upkept:
    plan = partial(plan_topics, call.workspace, call.config, "topic.restore", params)
    return await keep_up(call, "topic.restore", params, plan, is_long=False)


async def append(call: Call, params: FieldAppendParams) -> FieldAppended:
    config = call.config
    addition = make_field_addition(config, params)
    workspace = await call.open()
    make = partial(make_append_decision, workspace, config, params, **call.stamp)
    decide = await call.read(make, on_disk=True)
    similar = await call.find_near(partial(find_near, texts=[params.content]), params.on_similar)
    section = choose_near(workspace, config, similar, params.on_similar)
    action: WriteAction = "added"
    if section is not None and params.on_similar == "report":
        return _report_field(call, similar)
    if section is not None:
        action = "appended"
        decide = make_append_there_decision(
            workspace, config, addition, section, command="field.append", **call.stamp
        )
    outcome = await call.edit(decide)
    return FieldAppended(
        **asdict(outcome.answer), action=action, similar=similar, **call.describe_write(outcome)
    )


def _describe_written(
    call: Call,
    outcome: EditOutcome[TopicChange],
    action: WriteAction,
    similar: Sequence[SimilarSection],
) -> TopicWritten:
    change = outcome.answer
    is_written = change.is_changed or action == "reported"
    return TopicWritten(
        path=change.path,
        digest=change.digest,
        action=action if is_written else "unchanged",
        fields=list(change.fields),
        similar=list(similar),
        **call.describe_write(outcome),
    )


def _report_field(call: Call, similar: Sequence[SimilarSection]) -> FieldAppended:
    """Return the answer for a value that was not written, with the section that is similar."""
    return FieldAppended(
        n_values=0,
        n_dropped=0,
        **asdict(msgspec.convert(similar[0], AddedSection, from_attributes=True)),
        action="reported",
        similar=list(similar),
        **call.describe_write(EditOutcome(answer=None)),
    )
