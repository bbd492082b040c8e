"""Compare the free metadata of notes with what a filter asks for: `owner=Ann Lee`, `rating>=7`.

A value is a text, in which commas separate the values of a list; its case does not count. Numbers
are compared with numbers, and days with days or years.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator
from datetime import date
from operator import ge, gt, le, lt
from typing import NamedTuple

from memsyncd.core.search.dates import parse_day

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
    found = _CONDITION.fullmatch(text)
    if not found:
        return None
    key, sign, value = found.groups()
    value = strip_links(value).strip()
    if sign != EQUAL and not _NUMBER.fullmatch(value):
        value = parse_day(value, today) or ""
    return PropertyCondition(key, sign, value) if value else None


def list_compared_keys(text: str) -> set[str]:
    """The keys, folded, that a typed text seems to compare outside of quotes: `rating>=7`."""
    return {fold_value(match["key"]) for match in _find_comparisons(text)}


def name_comparisons(text: str, keys: Collection[str]) -> str:
    """The text with `meta:` before each comparison of one of these folded keys; others may be
    prose, such as `python>=3.11`.
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
    found = (match for match in _BARE.finditer(text) if match["key"])
    return [match for match in found if parse_condition(match[0].rstrip(".,;:!?").lstrip("-"))]


def strip_links(value: str) -> str:
    """The value with `[[links]]` as the names that they hold."""
    return _LINK.sub(r"\1", value) if "[[" in value else value


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
    """A value without case, whatever its accents are composed of."""
    return unicodedata.normalize("NFC", text).casefold()
