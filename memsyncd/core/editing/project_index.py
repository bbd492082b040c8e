"""Keep a summary section for each source file of a project in one note, with its provenance.

A section belongs to a source if its metadata has that `source_path`. `source_hash` is the digest of
the file that it summarises: an unchanged file leaves the section as it is, edits of people
included; a changed one replaces it; a file that is gone takes it with it. All else in the note
stays, byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, Literal

import msgspec

from memsyncd.core.digest import digest_bytes
from memsyncd.core.editing.additions import Addition, append_section, render_section
from memsyncd.core.editing.notetext import open_text, write_line_ends
from memsyncd.core.editing.sections import replace_section, split_note_sections
from memsyncd.core.editing.source_summary import summarize_source
from memsyncd.core.markdown.decode import decode_note
from memsyncd.core.markdown.frontmatter import find_section_meta

INDEX_KIND: Final = "summary"
INDEX_LIFECYCLE: Final = "project"
SOURCE_PATH_KEY: Final = "source_path"
SOURCE_HASH_KEY: Final = "source_hash"
INDEXED_AT_KEY: Final = "indexed_at"

Action = Literal["created", "updated", "unchanged", "removed"]


class Source(msgspec.Struct, frozen=True):
    """Files of a project, by a path with wildcards in its last part alone, and the tags of their
    summaries.
    """

    path: str
    tags: tuple[str, ...]


_ARCHITECTURE = "index:architecture"
_CONVENTIONS = "index:conventions"
_COMMANDS = "index:commands"
_INVARIANTS = "index:invariants"

DEFAULT_SOURCES: Final = (
    Source("README.md", (_ARCHITECTURE,)),
    Source("ARCHITECTURE.md", (_ARCHITECTURE, _INVARIANTS)),
    Source("CONTRIBUTING.md", (_CONVENTIONS,)),
    Source("AGENTS.md", (_CONVENTIONS, _INVARIANTS)),
    Source("CLAUDE.md", (_CONVENTIONS, _INVARIANTS)),
    Source("pyproject.toml", (_ARCHITECTURE, _COMMANDS)),
    Source("package.json", (_ARCHITECTURE, _COMMANDS)),
    Source("Cargo.toml", (_ARCHITECTURE, _COMMANDS)),
    Source("Makefile", (_COMMANDS,)),
    Source("justfile", (_COMMANDS,)),
    Source(".github/workflows/*.yml", (_COMMANDS,)),
    Source(".github/workflows/*.yaml", (_COMMANDS,)),
    Source(".gitlab-ci.yml", (_COMMANDS,)),
)


def merge_sources(*groups: Iterable[Source]) -> list[Source]:
    """All sources, each path once, with the tags of the last group that names it."""
    merged: dict[str, Source] = {}
    for source in chain(*groups):
        merged[source.path] = source
    return list(merged.values())


class SourceFile(msgspec.Struct, frozen=True):
    """A source as it was read; `data` is None if it could not be read, so that nothing is said of
    it.
    """

    path: str
    tags: tuple[str, ...]
    data: bytes | None


class SectionChange(msgspec.Struct, frozen=True):
    """What is done with the section of one source."""

    path: str
    action: Action


class _Known(msgspec.Struct, frozen=True):
    anchor: str
    source_hash: str
    tags: tuple[str, ...]


def plan_index(
    path: str, data: bytes | None, files: Sequence[SourceFile], *, at: str
) -> tuple[bytes | None, list[SectionChange]]:
    """Return the note with a current section for each source, and what is done with each.

    `files` are all sources that exist now; `at` is the current time as ISO text. A source that says
    nothing gets no section. None for a note that does not exist and is not needed.
    """
    changes: list[SectionChange] = []
    for file in files:
        known = _find_known(path, data)
        change, data = _update(path, data, file, known.get(file.path), at)
        if change is not None:
            changes.append(change)
    present = {file.path for file in files}
    for source, section in _find_known(path, data).items():
        if source not in present:
            data = replace_section(path, data or b"", section.anchor, b"")
            changes.append(SectionChange(source, "removed"))
    return data, changes


def _update(
    path: str, data: bytes | None, file: SourceFile, known: _Known | None, at: str
) -> tuple[SectionChange | None, bytes | None]:
    if file.data is None:
        return None, data
    source_hash = digest_bytes(file.data)
    if known is not None and (known.source_hash, known.tags) == (source_hash, file.tags):
        return SectionChange(file.path, "unchanged"), data
    summary = summarize_source(file.path, file.data.decode("utf-8", "replace"))
    if not summary:
        if known is None:
            return None, data
        data = replace_section(path, data or b"", known.anchor, b"")
        return SectionChange(file.path, "removed"), data
    addition = _make_addition(file, summary, source_hash, at)
    if known is None:
        return SectionChange(file.path, "created"), append_section(path, data, [addition], at=at)[0]
    note = open_text(path, data or b"")
    section = "\n".join((*render_section(addition, at), ""))
    by = write_line_ends(section, note.line_end).encode()
    return SectionChange(file.path, "updated"), replace_section(path, data or b"", known.anchor, by)


def _make_addition(file: SourceFile, summary: str, source_hash: str, at: str) -> Addition:
    return Addition(
        content=summary,
        summary=file.path,
        kind=INDEX_KIND,
        lifecycle=INDEX_LIFECYCLE,
        tags=file.tags,
        source=file.path,
        metadata={SOURCE_PATH_KEY: file.path, SOURCE_HASH_KEY: source_hash, INDEXED_AT_KEY: at},
    )


def _find_known(path: str, data: bytes | None) -> Mapping[str, _Known]:
    """The sections of sources by the paths of their sources, the first of each."""
    found: dict[str, _Known] = {}
    for source, known in _list_known(path, data) if data else ():
        found.setdefault(source, known)
    return found


def _list_known(path: str, data: bytes) -> Iterator[tuple[str, _Known]]:
    lines = decode_note(path, data).lines
    for section in split_note_sections(path, data):
        if not section.level:
            continue
        meta, _ = find_section_meta(path, lines, section.start + 1, section.end)
        extra = dict(meta.extra)
        if SOURCE_PATH_KEY in extra:
            source_hash = extra.get(SOURCE_HASH_KEY, "")
            yield extra[SOURCE_PATH_KEY], _Known(section.anchor, source_hash, meta.tags)
