"""Which sections may an answer come from, whatever they say? Filters as values, and as people type them among their words.

Several values of one filter mean any of them; different filters must all hold. A `-` leaves out what a filter names. What looks
like a filter and cannot be one (`kind:` alone, `after:spring`, a glob that leads out) stays text, to be read as words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date
from typing import Final

from memsyncd.core.changes.globs import find_glob_refusal, has_wildcard

ARCHIVED = "archived"
VALUE_LIMIT = 32
"""Of one text; what comes after them stays text."""

_FIELDS: Final = {"kind": "kinds", "tag": "tags", "path": "paths", "section": "sections", "task": "tasks"}
_PIECE = re.compile(
    r'"[^"]*"|(?<!\S)(?P<no>-?)(?P<name>kind|tag|path|section|task|is|after|before):(?:"(?P<quoted>[^"]*)"|(?P<bare>[^\s"]+))',
    re.IGNORECASE,
)
_DAY = re.compile(r"(\d{4})(?:[-/.](\d{1,2})(?:[-/.](\d{1,2}))?)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Empty means all that is not archived. Values mean the same whatever their case, but in `paths` and anchors.

    `paths` are paths, folders or globs; `sections` words of a heading, or anchors: what is beneath counts too. `after` and
    `before` are ISO days: from that day on, and up to the day before; they let through only what has a day. `is_archived` asks
    for what is archived instead of what is not.
    """

    kinds: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    sections: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    after: str | None = None
    before: str | None = None
    is_archived: bool = False
    exclude: Filters | None = None
    """Any value of these is left out."""
    and_: Filters | None = None
    """These must hold too."""

    @property
    def is_empty(self) -> bool:
        return self == NO_FILTERS

    @property
    def words(self) -> tuple[str, ...]:
        """Which filters there are, as people call them."""
        named = [name for name, attribute in _FIELDS.items() if getattr(self, attribute)]
        named += [name for name in ("after", "before") if getattr(self, name)]
        named += [f"is:{ARCHIVED}"] if self.is_archived else []
        named += [f"-{word}" for word in self.exclude.words] if self.exclude else []
        return tuple(dict.fromkeys((*named, *(self.and_.words if self.and_ else ()))))

    def chain(self) -> Iterator[Filters]:
        """These, then those that must hold too."""
        yield self
        if self.and_ is not None:
            yield from self.and_.chain()

    def join(self, other: Filters) -> Filters:
        """Filters that let through what both do; archived sections if either asks for them."""
        if self.is_empty or other.is_empty:
            return other if self.is_empty else self
        return replace(self, and_=self.and_.join(other) if self.and_ else other)


NO_FILTERS = Filters()


def extract_filters(text: str) -> tuple[Filters, str]:
    """The filters that stand in what somebody typed, outside of quotes, and the text without them. Never raises."""
    reader = _FilterReader()
    rest = _PIECE.sub(lambda piece: " " if reader.accept(piece) else piece[0], text)
    return reader.filters, rest


def parse_day(text: str) -> str | None:
    """A day, month or year (`2026-03-01`, `2026-3`, `2026`) as the ISO day on which it begins; None if there is no such day."""
    found = _DAY.fullmatch(text)
    try:
        return date(int(found[1]), int(found[2] or 1), int(found[3] or 1)).isoformat() if found else None
    except ValueError:
        return None


class _FilterReader:
    """The filters of one text, as they are met."""

    def __init__(self) -> None:
        self._included: dict[str, list[str]] = {name: [] for name in _FIELDS}
        self._excluded: dict[str, list[str]] = {name: [] for name in _FIELDS}
        self._days: dict[str, str] = {}
        self._is_archived = False
        self._n_values = 0

    @property
    def filters(self) -> Filters:
        exclude = _gather(self._excluded)
        return replace(
            _gather(self._included),
            after=self._days.get("after"),
            before=self._days.get("before"),
            is_archived=self._is_archived,
            exclude=None if exclude.is_empty else exclude,
        )

    def accept(self, piece: re.Match[str]) -> bool:
        """True if the piece is a filter."""
        name = (piece["name"] or "").lower()
        value = _tidy(name, piece["quoted"] or _end_word(name, piece["bare"] or ""))
        if not value or self._n_values == VALUE_LIMIT:
            return False
        if name in _FIELDS:
            (self._excluded if piece["no"] else self._included)[name].append(value)
        elif piece["no"]:
            return False
        elif name == "is":
            self._is_archived = True
        else:
            choose = max if name == "after" else min
            self._days[name] = choose(value, self._days.get(name, value))
        self._n_values += 1
        return True


def _gather(values: dict[str, list[str]]) -> Filters:
    kinds, tags, paths, sections, tasks = (tuple(dict.fromkeys(values[name])) for name in _FIELDS)
    return Filters(kinds=kinds, tags=tags, paths=paths, sections=sections, tasks=tasks)


def _end_word(name: str, value: str) -> str:
    """Without what ends a sentence or a part of it; in a path it may be a wildcard or belong to a name."""
    return value if name == "path" else value.rstrip(".,;:!?")


def _tidy(name: str, value: str) -> str:
    """The value as the filter takes it, empty if it cannot."""
    value = value.strip()
    if not value.isprintable():  # a NUL, or half a character that SQLite would not take
        return ""
    if name in ("after", "before"):
        return parse_day(value) or ""
    if name == "is":
        return ARCHIVED if value.lower() == ARCHIVED else ""
    if name == "path":
        return "" if has_wildcard(value) and find_glob_refusal(value) else value
    if not any(map(str.isalnum, value)):
        return ""
    return value.lstrip("#").strip() if name == "tag" else value
