"""Read the dates that a question or a filter names, and compare them with the day of a note.

Dates are read as people write them: 2023-05-07, 7 May 2023, May 7th, 2023, May 2023, and May 7
without a year; in a filter also relative to today: yesterday, monday, 7d, last week. A note's day
is the day of creation that it states, else the day in its name. A section's day is the day that it
states, else the day of a heading, such as `## 2026-03-01`. Notes often record an event some days
after it.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterable
from datetime import date, timedelta

import msgspec

from memsyncd.core.model import Meta

DAY_FORM = "a day, month or year such as 2026-03-01, or yesterday, 7d, last week"
"""The texts that `parse_day` reads, in words."""

LATER_DAYS = 7
_MONTHS = (
    "january february march april may june july august september october november december"
).split()
_NAMES = "|".join(f"{month[:3]}(?:{month[3:]})?" if len(month) > 3 else month for month in _MONTHS)
_DIGIT = re.compile(r"\d")
_ISO = re.compile(r"(?<!\d)((?:19|20)\d\d)[-/.](\d{1,2})(?:[-/.](\d{1,2}))?(?!\d)")
# Dates in file names, whose words are often joined by the sign that joins the parts of a date.
_IN_NAME = re.compile(r"(?<!\d)((?:19|20)\d\d)([-_.])(\d{1,2})\2(\d{1,2})(?!\d)")
_COMPACT = re.compile(r"(?<!\d)((?:19|20)\d\d)(\d\d)(\d\d)(?!\d)")
_MONTH_FIRST = re.compile(
    rf"\b({_NAMES})\.?(?:\s+(\d{{1,2}})(?:st|nd|rd|th)?\b(?!\d))?(?:,?\s+((?:19|20)\d\d))?\b",
    re.IGNORECASE,
)
_DAY_FIRST = re.compile(
    rf"\b(\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?({_NAMES})\b\.?(?:,?\s+((?:19|20)\d\d))?",
    re.IGNORECASE,
)
_SLASHED = re.compile(r"(?<!\d)(\d{1,2})[/.-](\d{1,2})[/.-]((?:19|20)\d\d)(?!\d)")
_MONTHS_OF_YEAR = 12
# Dates in headings of logs and changelogs: `2026-03-01`, `Monday, 2 March 2026: Deploy`, `Mar 1st,
# 2026`, `[1.2.0] - 2026-03-01`, `1.2.0 (2026-03-01)`.
_FULL_DAY = (
    r"(?:(?:19|20)\d\d(?P<sign>[-/.])\d{1,2}(?P=sign)\d{1,2}"
    rf"|(?:{_NAMES})\.?\s+\d{{1,2}}(?:st|nd|rd|th)?,?\s+(?:19|20)\d\d"
    rf"|\d{{1,2}}(?:st|nd|rd|th|\.)?\s+(?:of\s+)?(?:{_NAMES})\.?,?\s+(?:19|20)\d\d)"
)
_WEEKDAY = r"(?:(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?[.,]?\s+)?"
_DAY_HEADING = re.compile(
    rf"\W*{_WEEKDAY}(?P<day>{_FULL_DAY})(?:(?=T\d)|(?![\w-]|[./]\d))|.*(?:\s[-–—|]+\s+|[(])(?P<last>"
    rf"{_FULL_DAY.replace('sign', 'sign_2')})\W*\Z",
    re.IGNORECASE,
)
_DATE_KEYS = ("date", "day", "created", "created_at")
_DAY = re.compile(r"(\d{4})(?:[-/.](\d{1,2})(?:[-/.](\d{1,2}))?)?")
_AGO = re.compile(r"(\d{1,5})\s*(d|w|m|y)")
_DAY_NAMES = "monday tuesday wednesday thursday friday saturday sunday".split()


class NamedDate(msgspec.Struct, frozen=True):
    """A date that a question names; None for a part that it does not name."""

    year: int | None
    month: int
    day: int | None

    def fit(self, when: date) -> float:
        """1 for the same day or month, less for the days after it, 0 for any other."""
        if self.day is None:
            return 1.0 if when.month == self.month and self.year in (None, when.year) else 0.0
        try:
            named = date(self.year or when.year, self.month, self.day)
        except ValueError:
            return 0.0
        n_days = (when - named).days
        return 1.0 - n_days / (2 * LATER_DAYS) if 0 <= n_days <= LATER_DAYS else 0.0


def find_named_dates(question: str) -> tuple[NamedDate, ...]:
    """The dates that a question names.

    A month's name alone counts only with a day or a year, because "may" is also a word.
    """
    if not _DIGIT.search(question):
        return ()
    dates = [
        NamedDate(int(m[1]), int(m[2]), int(m[3]) if m[3] else None)
        for m in _ISO.finditer(question)
    ]
    dates += [
        NamedDate(_number(m[3]), _month(m[2]), int(m[1])) for m in _DAY_FIRST.finditer(question)
    ]
    if not dates:
        firsts = [m for m in _MONTH_FIRST.finditer(question) if m[2] or m[3]]
        dates += [NamedDate(_number(m[3]), _month(m[1]), _number(m[2])) for m in firsts]
    return tuple(dict.fromkeys(named for named in dates if 1 <= named.month <= 12))


def fit_dates(named: Iterable[NamedDate], when: str | None) -> float:
    """The fit of the day `when` (ISO) with the best of the named dates, 0-1."""
    day = _parse_day(when or "")
    return max((date.fit(day) for date in named), default=0.0) if day else 0.0


# --- Days of filters ------------------------------------------------------------------------------


def parse_day(text: str, today: date | None = None) -> str | None:
    """Read a day, month or year (`2026-03-01`, `2026-3`, `2026`) as the ISO day on which it begins;
    None if there is no such day.

    With `today`, relative days too: `today`, `yesterday`, `monday` (the latest Monday, which may be
    today), `7d`, `2w`, `3m` and `1y` ago, `last week`, `this month`. Weeks begin on Monday.
    """
    words = " ".join(re.split(r"[\s_-]+", text.strip().lower()))
    try:
        day = _parse_absolute(text.strip()) or (today and _parse_relative(words, today))
    except (ValueError, OverflowError):
        return None
    return day.isoformat() if day else None


def parse_last_day(text: str, today: date) -> str | None:
    """Read a day, month or year as `parse_day`, and return the ISO day on which it ends."""
    begins = parse_day(text, today)
    if begins is None:
        return None
    words, last = text.strip().lower(), date.fromisoformat(begins)
    parts = _DAY.fullmatch(words)
    if words.endswith("year") or (parts and parts[2] is None):
        return last.replace(month=12, day=31).isoformat()
    if words.endswith("month") or (parts and parts[3] is None):
        return last.replace(day=monthrange(last.year, last.month)[1]).isoformat()
    # The last days of the calendar are in no whole week.
    n_days = min(6, (date.max - last).days) if words.endswith("week") else 0
    return (last + timedelta(days=n_days)).isoformat()


def _parse_absolute(text: str) -> date | None:
    match = _DAY.fullmatch(text)
    return date(int(match[1]), int(match[2] or 1), int(match[3] or 1)) if match else None


def _parse_relative(words: str, today: date) -> date | None:
    if words in ("today", "yesterday"):
        return today - timedelta(days=words == "yesterday")
    for number, name in enumerate(_DAY_NAMES):
        if words in (name, name[:3]):
            return today - timedelta(days=(today.weekday() - number) % 7)
    if match := _AGO.fullmatch(words):
        return _go_back(today, int(match[1]), match[2])
    which, _, unit = words.partition(" ")
    if which in ("this", "last") and unit in ("week", "month", "year"):
        start = _find_start(today, unit)
        return _go_back(start, 1, unit[0]) if which == "last" else start
    return None


def _find_start(day: date, unit: str) -> date:
    """The first day of the week, month or year of a day."""
    if unit == "week":
        return day - timedelta(days=day.weekday())
    return day.replace(day=1) if unit == "month" else day.replace(month=1, day=1)


def _go_back(today: date, n: int, unit: str) -> date:
    """The day `n` days, weeks, months or years earlier; the last of the month if it is shorter."""
    if unit in ("d", "w"):
        return today - timedelta(days=n * (7 if unit == "w" else 1))
    months = today.year * 12 + today.month - 1 - n * (12 if unit == "y" else 1)
    year, month = months // 12, months % 12 + 1
    return date(year, month, min(today.day, monthrange(year, month)[1]))


# --- The days of notes ----------------------------------------------------------------------------


def find_note_date(path: str, meta: Meta) -> str | None:
    """A note's day in ISO form: the day that it states, else the day in its name, else None."""
    return find_stated_date(meta) or _find_date_of_name(path.rpartition("/")[2])


def _find_date_of_name(name: str) -> str | None:
    for match in _IN_NAME.finditer(name):
        try:
            return date(int(match[1]), int(match[3]), int(match[4])).isoformat()
        except ValueError:
            continue
    named = _parse_day(name)
    return named.isoformat() if named else None


def find_stated_date(meta: Meta) -> str | None:
    """The day in ISO form that a note or a section states."""
    if meta.created is None and not meta.extra:
        return None
    stated = (
        meta.created or "",
        *(value for key, value in meta.extra if key.lower() in _DATE_KEYS),
    )
    return next((day.isoformat() for day in map(_parse_stated, stated) if day), None)


def find_heading_date(headings: Iterable[str]) -> str | None:
    """The ISO day of the last heading that has a day; None without any. A heading has a day if it
    begins with it, or ends with it after a dash or in brackets.
    """
    latest = None
    for heading in headings:
        match = _DAY_HEADING.match(heading) if _DIGIT.search(heading) else None
        day = _parse_stated(match["day"] or match["last"]) if match else None
        latest = day or latest
    return latest.isoformat() if latest else None


def _parse_stated(text: str) -> date | None:
    """A day as people write it: ISO, `21/12/2020` where it can be only one day, or with a name."""
    day = _parse_day(text)
    if day or not text:
        return day
    try:
        if match := _SLASHED.search(text):
            first, second, year = (int(part) for part in match.groups())
            if max(first, second) > _MONTHS_OF_YEAR or first == second:
                return date(year, min(first, second), max(first, second))
            return None
        for named in find_named_dates(text):
            if named.year and named.day:
                return date(named.year, named.month, named.day)
    except ValueError:
        return None
    return None


def _parse_day(text: str) -> date | None:
    for match in (*_ISO.finditer(text), *_COMPACT.finditer(text)):
        try:
            return date(int(match[1]), int(match[2]), int(match[3] or 1))
        except ValueError:
            continue
    return None


def _number(text: str | None) -> int | None:
    return int(text) if text else None


def _month(name: str) -> int:
    return next(
        number for number, month in enumerate(_MONTHS, 1) if month.startswith(name.lower()[:3])
    )
