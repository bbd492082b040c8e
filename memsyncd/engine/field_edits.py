"""Append memories to existing sections: values to the fields of topics, and texts to sections that
say nearly the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec.structs import replace

from memsyncd.config import Config
from memsyncd.core.digest import digest_bytes
from memsyncd.core.editing.additions import Addition
from memsyncd.core.editing.topics import Appended, add_field, append_value, find_field
from memsyncd.core.markdown.parse import parse_note
from memsyncd.core.markdown.sections import make_slug
from memsyncd.core.model import ARCHIVED, Meta, Section
from memsyncd.core.paths import NotePath, is_markdown
from memsyncd.engine.additions import choose_note
from memsyncd.engine.edit import Decide, Edit, check_digest, make_put
from memsyncd.engine.similar import find_nearly_same
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import EditRefused, MemsyncdError, NoteNotFound
from memsyncd.files.read import TextFile, read_text_file
from memsyncd.operations.fields import AddedSection, OnSimilar
from memsyncd.operations.similar.declare import SimilarSection

READ_LIMIT_S = 5.0
# The beginning of the hint if a note would become too large.
WAY_OUT: Final = "begin another topic"
# So many texts of a new topic are compared with existing sections.
COMPARED_TEXTS: Final = 8
SIMILAR_LIMIT: Final = 5


def choose_path(workspace: Workspace, config: Config, named: str) -> NotePath | None:
    try:
        return choose_note(workspace.scope, config, note=named)
    except MemsyncdError:
        return None


def find_near(
    workspace: Workspace, config: Config, texts: Sequence[str], *, now_s: float
) -> list[SimilarSection]:
    """Return the sections that say nearly what one of the texts says, the most similar first.

    Raises what `Workspace.acquire` raises.
    """
    sections: dict[str, SimilarSection] = {}
    for text in texts[:COMPARED_TEXTS]:
        if not text.strip():
            continue
        for section in find_nearly_same(workspace, text, config, now_s=now_s, limit=SIMILAR_LIMIT):
            other = sections.get(section.anchor)
            if other is None or other.similarity < section.similarity:
                sections[section.anchor] = section
    ordered = sorted(
        sections.values(),
        key=lambda section: (-section.similarity, section.path, section.start_line),
    )
    return ordered[:SIMILAR_LIMIT]


def choose_near(
    workspace: Workspace, config: Config, similar: Sequence[SimilarSection], on_similar: OnSimilar
) -> SimilarSection | None:
    """Return the section that is appended to, or reported, instead of writing a new section; None
    if a new section is to be written.
    """
    if on_similar == "report":
        return next(iter(similar), None)
    if on_similar == "append":
        return next(
            (section for section in similar if _can_append(workspace, config, section)), None
        )
    return None


def _can_append(workspace: Workspace, config: Config, similar: SimilarSection) -> bool:
    """Whether a value may be appended to a section: its note is markdown that may be written."""
    is_writable = choose_path(workspace, config, f"./{similar.path}") is not None
    return is_writable and not similar.anchor.endswith("#")


class FieldWritten(AddedSection, frozen=True, kw_only=True):
    """A value that was written to a field, and how many values the field has now and has
    dropped.
    """

    n_values: int
    n_dropped: int


def make_append_there_decision(
    workspace: Workspace,
    config: Config,
    addition: Addition,
    similar: SimilarSection,
    *,
    command: str,
    client: str,
    at: str,
) -> Decide[FieldWritten]:
    """Make the decision to append a memory to an existing section. The section's own metadata
    stays; a heading of the memory's own goes into the text.
    """
    path = choose_note(workspace.scope, config, note=f"./{similar.path}")

    def decide() -> tuple[Edit, FieldWritten]:
        file = read_for_edit(workspace, path)
        section = find_named_section(path, file.data, similar.anchor, config)
        if section is None:
            raise NoteNotFound(f"no section {similar.anchor}", hint="repeat the request")
        value = _keep_heading(leave_out_stated(addition, section.meta), section.heading[-1])
        appended = append_to_field(path, file.data, similar.anchor, value, config, at, None)
        return write_field(workspace, config, file, appended, command, client)

    return decide


def _keep_heading(addition: Addition, heading: str) -> Addition:
    summary = " ".join(addition.summary.split())
    if not summary or make_slug(summary) == make_slug(heading):
        return replace(addition, summary="")
    return replace(addition, summary="", content=f"{summary}\n\n{addition.content}")


def leave_out_stated(addition: Addition, meta: Meta) -> Addition:
    """Return the addition without the metadata that a section states already. The higher importance
    counts.
    """
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


def append_to_field(
    path: NotePath,
    data: bytes,
    field: str,
    addition: Addition,
    config: Config,
    at: str,
    keep: int | None,
) -> Appended:
    """Append to the section of this name; without such a section, add one. Raises EditRefused for
    an archived one.
    """
    section = find_named_section(path, data, field, config)
    if section is None and is_anchor(field):
        raise NoteNotFound(f"no section {field}", hint=f"see: memsyncd topic get {path.text}")
    if section is None:
        return add_field(path.text, data, field, addition, at=at)
    if section.meta.status == ARCHIVED:
        hint = f"restore it first: memsyncd topic restore {path.text}, or memsyncd unarchive"
        raise EditRefused(f"{section.anchor} is archived", hint=hint)
    # Without a history a value that is dropped would be lost.
    most = (keep or config.memory.field_values) if config.history.enabled else None
    return append_value(path.text, data, section.anchor, addition, at=at, keep=most)


def is_anchor(field: str) -> bool:
    """True for an anchor, with or without its note, but not for a name such as `C# tips`."""
    path, mark, _ = field.rpartition("#")
    return bool(mark) and (not path or is_markdown(path))


def find_named_section(path: NotePath, data: bytes, name: str, config: Config) -> Section | None:
    return find_field(parse_note(path, data, config.chunking).sections, name)


def write_field(
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
    span = next(section.span for section in sections if section.anchor == appended.anchor)
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


def read_for_edit(workspace: Workspace, path: NotePath, if_digest: str | None = None) -> TextFile:
    """Read a note that must be there. Raises Conflict if the writer had read another text."""
    file = read_text_file(workspace.scope, path)
    check_digest(if_digest, path.text, file)
    if file is None:
        raise NoteNotFound(f"{path.text} is not there", hint="see: memsyncd topic list")
    return file
