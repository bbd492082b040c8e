"""Parse the filters that a person types, such as `kind:decision`, `after:7d` and `rating>=7`.

Several values of one filter mean any of them; different filters must all hold. A `-` excludes the
value of a filter. A text that looks like an invalid filter (`kind:` alone, `after:spring`, a glob
that leads out of the root) stays text and is read as words.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterator
from datetime import date
from operator import ge, gt, le, lt
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from memsyncd.core.model import ARCHIVED
from memsyncd.core.paths import find_glob_refusal, has_wildcard
from memsyncd.core.search.dates import parse_day

# --- Free metadata --------------------------------------------------------------------------------
# A value is a text, in which commas separate the values of a list; its case does not count. Numbers
# are compared with numbers, and days with days or years.

EQUAL = "="
_COMPARISONS = {">=": ge, "<=": le, ">": gt, "<": lt}
_CONDITION = re.compile(r"\s*([^=<>\s](?:[^=<>]*[^=<>\s])?)\s*(=|[<>]=?)\s*(\S.*?)\s*", re.DOTALL)
_NUMBER = re.compile(r"[+-]?\d{1,15}(?:\.\d{1,15})?")
_DAY = re.compile(r"\d{4}(?:-\d\d(?:-\d\d)?)?(?=\Z|[T ])")
_BARE = re.compile(r'"[^"]*"|(?<!\S)-?(?P<key>[^\W\d][\w.-]*)[<>]=?[^\s"<>=]+(?=\s|$)')
_LINK = re.compile(r"\[\[([^\[\]|#]*)[^\[\]]*\]\]")


class PropertyCondition(NamedTuple):
    """A condition on a key: `sign` is one of `= >= <= > <`, and `value` is a number or an ISO day
    unless the sign is `=`.
    """

    key: str
    sign: str
    value: str


def parse_condition(text: str, today: date | None = None) -> PropertyCondition | None:
    """Read `key=value`, `key>=7` or `key<2000`; None for any other text."""
    match = _CONDITION.fullmatch(text)
    if not match:
        return None
    key, sign, value = match.groups()
    value = strip_links(value).strip()
    if sign != EQUAL and not _NUMBER.fullmatch(value):
        value = parse_day(value, today) or ""
    return PropertyCondition(key, sign, value) if value else None


def list_compared_keys(text: str) -> set[str]:
    """The keys, folded, that a typed text seems to compare outside of quotes: `rating>=7`."""
    return {fold_value(match["key"]) for match in _find_comparisons(text)}


def name_comparisons(text: str, keys: Collection[str]) -> str:
    """The text with `meta:` before each comparison whose key is among these folded keys; other
    comparisons may be prose, such as `python>=3.11`.
    """
    parts: list[str] = []
    done = 0
    for match in _find_comparisons(text):
        if fold_value(match["key"]) in keys:
            parts += (text[done : match.start("key")], "meta:")
            done = match.start("key")
    return "".join((*parts, text[done:]))


def _find_comparisons(text: str) -> list[re.Match[str]]:
    if "<" not in text and ">" not in text:
        return []
    matches = (match for match in _BARE.finditer(text) if match["key"])
    return [match for match in matches if parse_condition(match[0].rstrip(".,;:!?").lstrip("-"))]


def strip_links(value: str) -> str:
    """The value with `[[links]]` as the names that they hold."""
    return _LINK.sub(r"\1", value) if "[[" in value else value


def find_nested_value(text: str, name: str) -> str | None:
    """Return a part of a nested value, which is stored as `client: acme; date: 2026-03-01`; None
    without such a part.
    """
    for part in text.split(";"):
        key, colon, value = part.partition(":")
        if colon and key.strip().casefold() == name.casefold():
            return value.strip() or None
    return None


def split_list(value: str) -> Iterator[str]:
    """The values of a list; a text without commas is one value."""
    return filter(None, (each.strip() for each in value.split(",")))


def is_passing(value: str, sign: str, wanted: str) -> bool:
    """True if a value, or any of its values if it is a list, passes the condition."""
    if sign == EQUAL:
        parts, sought = (f",{','.join(split_list(fold_value(text)))}," for text in (value, wanted))
        return sought in parts
    compare = _COMPARISONS[sign]
    for each in split_list(value):
        if _NUMBER.fullmatch(each) and _NUMBER.fullmatch(wanted):
            if compare(float(each), float(wanted)):
                return True
        elif (day := _DAY.match(each)) and _DAY.match(wanted):
            # A day is compared with a year by its year, a year with a day by its first day.
            own = day[0][: len(wanted)] if len(wanted) == len("2026") else day[0]
            if compare(own, wanted[: len(own)] if len(own) == len("2026") else wanted):
                return True
    return False


def fold_value(text: str) -> str:
    """A value without case, the same for composed and for decomposed accents."""
    return unicodedata.normalize("NFC", text).casefold()


# --- Filters --------------------------------------------------------------------------------------

EXPIRED = "expired"
# The limit for one text; further values stay text.
VALUE_LIMIT = 32

# The fields of `Filters` by the words that type them.
FIELDS: Final = {
    "kind": "kinds",
    "tag": "tags",
    "path": "paths",
    "section": "sections",
    "task": "tasks",
    "session": "sessions",
    "source": "sources",
    "topic": "topics",
    "priority": "priorities",
    "lifecycle": "lifecycles",
    "status": "statuses",
    "meta": "metas",
    "has": "keys",
    "related_to": "related_to",
    "tier": "tiers",
}
FILTER_NAMES: Final = (*FIELDS, "is", "importance", "worth", "after", "before")
_NAMES = "|".join(FILTER_NAMES)
_IMPORTANCE = re.compile(r"0?\.\d+|[01](?:\.0*)?")
_WORTH = re.compile(r"\d{0,3}\.?\d{1,9}")
FILTER_PATTERN = re.compile(
    (
        rf'"[^"]*"|(?<!\S)(?P<no>-?)(?P<name>{_NAMES}):'
        r'(?:"(?P<quoted>[^"]*)"'
        r'|(?P<pair>(?:(?<=meta:)|(?<=related_to:)|(?<=source:))[^\s"=<>]+(?:=|[<>]=?)"[^"]*")'
        # Few people type quotes around `last week`.
        r"|(?P<bare>(?:(?<=after:)|(?<=before:))(?:last|this) (?:week|month|year)\b"
        # An empty value is no filter, and the answer says so.
        r'|[^\s"]+)|(?=\s|$))'
    ),
    re.IGNORECASE,
)


_STATES: Final = {ARCHIVED: "is_archived", EXPIRED: "is_expired"}


WorthFinder = Callable[
    [str, str | None, str | None, float | None, str | None, str | None, str], float
]
"""The worth of a section by its anchor, kind, priority, importance, updated, created and day."""


class Filters(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions on sections. Without conditions, all sections match that are not archived.

    Values ignore case, except in `paths` and anchors. `paths` are paths, folders or globs;
    `sections` are words of a heading, or anchors, and include subsections. The topic of a section
    is its key `topic`, else the title of its note. `tags` are tags or keywords. A source may be a
    part of a nested source, `client=acme`. `after` and `before` are
    ISO days: from that day on, and up to the day before; without a date, a note has the day on
    which it was saved.
    `is_archived` and `is_expired` select archived or expired sections instead of the others;
    `includes_archived` and `includes_expired` select them besides.
    """

    kinds: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    sections: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    priorities: tuple[str, ...] = ()
    lifecycles: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()
    after: str | None = None
    before: str | None = None
    # `key=value`, or `key>=7` with one of `>= <= > <`, for keys of metadata that have no filter of
    # their own. All comparisons must hold.
    metas: tuple[str, ...] = ()
    # Keys of metadata, of any kind.
    keys: tuple[str, ...] = ()
    # Notes that link to or from this note, `note` or `relation=note`.
    related_to: tuple[str, ...] = ()
    min_importance: float | None = None
    is_archived: bool = False
    is_expired: bool = False
    includes_archived: bool = False
    includes_expired: bool = False
    # The time that decides which sections have expired: seconds since 1970.
    now_s: float = 0.0
    # The importance of kinds, for sections that state none; the last value counts for other kinds.
    kind_importance: tuple[tuple[str, float], ...] = ()
    tiers: tuple[str, ...] = ()
    min_worth: float | None = None
    # The function that computes the worth of a section, and the worth from which on a section is
    # warm and hot; `tiers` and `min_worth` need them.
    find_worth: WorthFinder | None = None
    tiers_from: tuple[float, float] = (0.0, 0.0)
    # Sections that match any value of these are excluded.
    exclude: Filters | None = None
    # Further filters that must hold.
    and_: Filters | None = None

    @property
    def is_empty(self) -> bool:
        return replace(self, now_s=0.0, kind_importance=(), find_worth=None) == NO_FILTERS

    @property
    def needs_worth(self) -> bool:
        return bool(self.tiers) or self.min_worth is not None

    @property
    def is_hiding_alone(self) -> bool:
        """True if these filters select nothing and only leave out archived or expired sections."""
        return replace(self, includes_archived=False, includes_expired=False).is_empty

    @property
    def words(self) -> tuple[str, ...]:
        """The names of the filters that are set, as people type them."""
        named = [name for name, attribute in FIELDS.items() if getattr(self, attribute)]
        named += [name for name in ("after", "before") if getattr(self, name)]
        named += ["importance"] if self.min_importance is not None else []
        named += ["worth"] if self.min_worth is not None else []
        named += [f"is:{name}" for name, attribute in _STATES.items() if getattr(self, attribute)]
        named += [f"-{word}" for word in self.exclude.words] if self.exclude else []
        return tuple(dict.fromkeys((*named, *(self.and_.words if self.and_ else ()))))

    @property
    def asks_for_metadata(self) -> bool:
        """True if these filters select by more than the place of a section, or by a link."""
        place = replace(
            self,
            paths=(),
            sections=(),
            related_to=(),
            includes_archived=False,
            includes_expired=False,
            exclude=None,
            and_=None,
        )
        others = (self.exclude, self.and_)
        return not place.is_empty or any(other.asks_for_metadata for other in others if other)

    def chain(self) -> Iterator[Filters]:
        """These filters, then the further filters that must hold."""
        yield self
        if self.and_ is not None:
            yield from self.and_.chain()

    def join(self, other: Filters) -> Filters:
        """Filters that match if both match; archived sections if either selects them."""
        if self.is_empty or other.is_empty:
            return other if self.is_empty else self
        return replace(self, and_=self.and_.join(other) if self.and_ else other)


NO_FILTERS = Filters()
EVERYTHING = Filters(includes_archived=True, includes_expired=True)


def extract_filters(text: str, today: date | None = None) -> tuple[Filters, str]:
    """Separate the filters, outside of quotes, from the rest of a typed text. Never raises."""
    if ":" not in text:
        return NO_FILTERS, text
    reader = FilterReader(today)
    rest = FILTER_PATTERN.sub(lambda match: " " if reader.accept(match) else match[0], text)
    return reader.filters, rest


class FilterReader:
    """Collect the filters of one text."""

    def __init__(self, today: date | None) -> None:
        self._today = today
        self._included: dict[str, list[str]] = {name: [] for name in FIELDS}
        self._excluded: dict[str, list[str]] = {name: [] for name in FIELDS}
        self._days: dict[str, str] = {}
        self._states: set[str] = set()
        self._min_importance: float | None = None
        self._min_worth: float | None = None
        self._n_values = 0

    @property
    def filters(self) -> Filters:
        exclude = _gather(self._excluded)
        return replace(
            _gather(self._included),
            after=self._days.get("after"),
            before=self._days.get("before"),
            min_importance=self._min_importance,
            min_worth=self._min_worth,
            is_archived=ARCHIVED in self._states,
            is_expired=EXPIRED in self._states,
            exclude=None if exclude.is_empty else exclude,
        )

    def accept(self, match: re.Match[str]) -> bool:
        """Read one match; True if it is a filter."""
        name = (match["name"] or "").lower()
        value = read_filter_value(match, name)
        if name == "worth" and not _WORTH.fullmatch(value.strip()):
            name = "tier"  # the name of a worth
        value = _tidy(name, value, self._today)
        if not value or self._n_values == VALUE_LIMIT:
            return False
        if name in FIELDS:
            (self._excluded if match["no"] else self._included)[name].append(value)
        elif match["no"]:
            return False
        elif name == "is":
            self._states.add(value)
        elif name == "importance":
            self._min_importance = max(float(value), self._min_importance or 0.0)
        elif name == "worth":
            self._min_worth = max(float(value), self._min_worth or 0.0)
        else:
            choose = max if name == "after" else min
            self._days[name] = choose(value, self._days.get(name, value))
        self._n_values += 1
        return True


def _gather(values: dict[str, list[str]]) -> Filters:
    named: dict[str, Any] = {FIELDS[name]: tuple(dict.fromkeys(values[name])) for name in FIELDS}
    return Filters(**named)


def read_filter_value(match: re.Match[str], name: str) -> str:
    """The value as typed, without quotes around it or its last part."""
    if match["pair"]:
        return match["pair"].replace('"', "")
    return match["quoted"] or _end_word(name, match["bare"] or "")


def _end_word(name: str, value: str) -> str:
    """The value without the punctuation that ends a sentence or clause; in a path it may be a
    wildcard or part of a name.
    """
    return value if name == "path" else value.rstrip(".,;:!?")


def _tidy(name: str, value: str, today: date | None) -> str:
    """The value in the filter's form, empty if it is invalid."""
    value = value.strip()
    if not value.isprintable():  # a NUL, or a lone surrogate that SQLite would not accept
        return ""
    if name in ("after", "before"):
        return parse_day(value, today) or ""
    if name == "is":
        return value.lower() if value.lower() in _STATES else ""
    if name == "importance":
        return value if _IMPORTANCE.fullmatch(value) else ""
    if name == "meta":
        return "".join(parse_condition(value, today) or ())
    if name == "path":
        return "" if has_wildcard(value) and find_glob_refusal(value) else value
    if not any(map(str.isalnum, value)):
        return ""
    return value.lstrip("#").strip() if name == "tag" else value
