"""What is a note once it has been read? The values that reading makes and that the store keeps."""

from __future__ import annotations

from dataclasses import dataclass, field

from memsyncd.core.span import Span

NO_EXTRA: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something odd, reported and never raised. `line` is 1-based, 0 for the note as a whole. `code` is a stable word."""

    path: str
    line: int
    code: str
    problem: str
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Meta:
    """What a note or a section says of itself. None means that it does not say.

    `importance` is 0-1. `extra` holds unknown keys as text, in the order written.
    """

    kind: str | None = None
    tags: tuple[str, ...] = ()
    importance: float | None = None
    priority: str | None = None
    lifecycle: str | None = None
    task: str | None = None
    session: str | None = None
    source: str | None = None
    created: str | None = None
    expires: str | None = None
    status: str | None = None
    extra: tuple[tuple[str, str], ...] = NO_EXTRA


EMPTY_META = Meta()


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """What is under one heading. `heading` is the breadcrumb from the outermost heading to this one, as plain text.

    `anchor` is unique in a workspace; the section before the first heading has level 0, no heading and the anchor `path#`.
    `meta` has what the section says itself over what its note says. `tags` of meta include `#tags` of the section's own prose.
    """

    anchor: str
    heading: tuple[str, ...]
    level: int
    span: Span
    meta: Meta = EMPTY_META


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """The indexed piece of a section: whole lines of the note, joined by newlines."""

    anchor: str
    span: Span
    text: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A link out of a section. `target` is as written, `heading` what follows a `#`, `relation` the word before a typed link."""

    anchor: str
    line: int
    target: str
    heading: str = ""
    relation: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretLines:
    """Lines that hold a secret; `what` says which sort."""

    span: Span
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """One note as read: sections in order of lines, chunks in order of lines, each chunk's anchor one of the sections'.

    `digest` is that of the file's bytes, `n_lines` as an editor counts them.
    """

    path: str
    digest: str
    n_lines: int
    title: str
    meta: Meta = EMPTY_META
    sections: tuple[Section, ...] = ()
    chunks: tuple[Chunk, ...] = ()
    links: tuple[Link, ...] = ()
    problems: tuple[Problem, ...] = field(default=())
    secrets: tuple[SecretLines, ...] = ()
