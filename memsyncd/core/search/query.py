"""Parse queries and compile them to FTS5.

Any text is a query: words, `"phrases"`, `-not`, `prefix*`, and filters such as `kind:decision`.
Everything else is words, including an unclosed quote and a `--flag`. The compiler quotes every
term, so that no syntax of FTS5 passes through. Plain words are joined by OR, without stopwords
unless nothing else is left: questions come as sentences, and an AND of their words finds next to
nothing. Phrases, `-not` and filters are strict.

Several values of one filter mean any of them; different filters must all hold. A `-` excludes the
value of a filter. Text that looks like an invalid filter (`kind:` alone, `after:spring`, a glob
that leads out of the root) stays text and is read as words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import date
from enum import Enum
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from memsyncd.core.globs import find_glob_refusal, has_wildcard
from memsyncd.core.model import ARCHIVED
from memsyncd.core.search.dates import NamedDate, find_named_dates, parse_day
from memsyncd.core.search.words import WordSequence, is_unspaced, split_words
from memsyncd.errors import TooLarge

# --- Filters --------------------------------------------------------------------------------------

EXPIRED = "expired"
# In one text; further values stay text.
VALUE_LIMIT = 32

_FIELDS: Final = {
    "kind": "kinds",
    "tag": "tags",
    "path": "paths",
    "section": "sections",
    "task": "tasks",
    "session": "sessions",
    "source": "sources",
    "priority": "priorities",
    "lifecycle": "lifecycles",
    "status": "statuses",
    "meta": "metas",
    "tier": "tiers",
}
_NAMES = "|".join((*_FIELDS, "is", "importance", "after", "before"))
_IMPORTANCE = re.compile(r"0?\.\d+|[01](?:\.0*)?")
_FILTER = re.compile(
    (
        rf'"[^"]*"|(?<!\S)(?P<no>-?)(?P<name>{_NAMES}):'
        r'(?:"(?P<quoted>[^"]*)"'
        # Few people type quotes around `last week`.
        r"|(?P<bare>(?:(?<=after:)|(?<=before:))(?:last|this) (?:week|month|year)\b"
        r'|[^\s"]+))'
    ),
    re.IGNORECASE,
)


_STATES: Final = {ARCHIVED: "is_archived", EXPIRED: "is_expired"}


TierFinder = Callable[[str, str | None, str | None, float | None, str | None, str | None, str], str]
"""The tier of a section by its anchor, kind, priority, importance, updated, created and day."""


class Filters(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions on sections. Without any, all sections match that are not archived.

    Values ignore case, except in `paths` and anchors. `paths` are paths, folders or globs;
    `sections` are words of a heading, or anchors, and include subsections. `after` and `before` are
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
    priorities: tuple[str, ...] = ()
    lifecycles: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()
    after: str | None = None
    before: str | None = None
    # `key=value`, for keys of metadata that have no filter of their own.
    metas: tuple[str, ...] = ()
    min_importance: float | None = None
    is_archived: bool = False
    is_expired: bool = False
    includes_archived: bool = False
    includes_expired: bool = False
    # What decides which sections have expired: seconds since 1970.
    now_s: float = 0.0
    # The importance of kinds, for sections that state none; the last is that of all other kinds.
    kind_importance: tuple[tuple[str, float], ...] = ()
    tiers: tuple[str, ...] = ()
    # What tells the tier of a section; `tiers` need it.
    find_tier: TierFinder | None = None
    # Sections that match any value of these are excluded.
    exclude: Filters | None = None
    # Further filters that must hold.
    and_: Filters | None = None

    @property
    def is_empty(self) -> bool:
        return replace(self, now_s=0.0, kind_importance=(), find_tier=None) == NO_FILTERS

    @property
    def is_hiding_alone(self) -> bool:
        """True if these filters select nothing and only leave out archived or expired sections."""
        return replace(self, includes_archived=False, includes_expired=False).is_empty

    @property
    def words(self) -> tuple[str, ...]:
        """The names of the filters that are set, as people type them."""
        named = [name for name, attribute in _FIELDS.items() if getattr(self, attribute)]
        named += [name for name in ("after", "before") if getattr(self, name)]
        named += ["importance"] if self.min_importance is not None else []
        named += [f"is:{name}" for name, attribute in _STATES.items() if getattr(self, attribute)]
        named += [f"-{word}" for word in self.exclude.words] if self.exclude else []
        return tuple(dict.fromkeys((*named, *(self.and_.words if self.and_ else ()))))

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


def extract_filters(text: str, today: date | None = None) -> tuple[Filters, str]:
    """Separate the filters, outside of quotes, from the rest of a typed text. Never raises."""
    reader = _FilterReader(today)
    rest = _FILTER.sub(lambda match: " " if reader.accept(match) else match[0], text)
    return reader.filters, rest


class _FilterReader:
    """Collect the filters of one text."""

    def __init__(self, today: date | None) -> None:
        self._today = today
        self._included: dict[str, list[str]] = {name: [] for name in _FIELDS}
        self._excluded: dict[str, list[str]] = {name: [] for name in _FIELDS}
        self._days: dict[str, str] = {}
        self._states: set[str] = set()
        self._min_importance: float | None = None
        self._n_values = 0

    @property
    def filters(self) -> Filters:
        exclude = _gather(self._excluded)
        return replace(
            _gather(self._included),
            after=self._days.get("after"),
            before=self._days.get("before"),
            min_importance=self._min_importance,
            is_archived=ARCHIVED in self._states,
            is_expired=EXPIRED in self._states,
            exclude=None if exclude.is_empty else exclude,
        )

    def accept(self, match: re.Match[str]) -> bool:
        """Read one match; True if it is a filter."""
        name = (match["name"] or "").lower()
        value = match["quoted"] or _end_word(name, match["bare"] or "")
        value = _tidy(name, value, self._today)
        if not value or self._n_values == VALUE_LIMIT:
            return False
        if name in _FIELDS:
            (self._excluded if match["no"] else self._included)[name].append(value)
        elif match["no"]:
            return False
        elif name == "is":
            self._states.add(value)
        elif name == "importance":
            self._min_importance = max(float(value), self._min_importance or 0.0)
        else:
            choose = max if name == "after" else min
            self._days[name] = choose(value, self._days.get(name, value))
        self._n_values += 1
        return True


def _gather(values: dict[str, list[str]]) -> Filters:
    named: dict[str, Any] = {_FIELDS[name]: tuple(dict.fromkeys(values[name])) for name in _FIELDS}
    return Filters(**named)


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
        key, _, wanted = value.partition("=")
        return value if key.strip() and wanted.strip() else ""
    if name == "path":
        return "" if has_wildcard(value) and find_glob_refusal(value) else value
    if not any(map(str.isalnum, value)):
        return ""
    return value.lstrip("#").strip() if name == "tag" else value


# --- Queries --------------------------------------------------------------------------------------

QUERY_LIMIT_BYTES = 1024
# FTS5's parser runs outside every time limit, so its input is bounded.
TERM_LIMIT = 32
PREFIX_MIN_CHARACTERS = 2

_TERM = re.compile(r'(?P<no>-(?!-))?(?:"(?P<phrase>[^"]*)"|(?P<word>[^\s"]+))')
_POSSESSIVE = re.compile(r"['’][sS](?=\W*$)")
_APOSTROPHES = ("'", "’")


class Form(Enum):
    """How a term must match."""

    WORD = "word"
    PHRASE = "phrase"
    PREFIX = "prefix"


class Term(msgspec.Struct, frozen=True, kw_only=True):
    """One term to look for.

    `words` are the words that the tokenizer sees; several words must follow each other. They keep
    their case, because the tokenizer folds case in its own way.
    """

    text: str
    words: tuple[str, ...]
    form: Form


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed query: the more `should` terms match, the better; all `must` terms have to match, no
    `must_not` term may.
    """

    should: tuple[Term, ...] = ()
    must: tuple[Term, ...] = ()
    must_not: tuple[Term, ...] = ()
    filters: Filters = NO_FILTERS
    # Days that the words name; a day in a filter is not the subject of the question.
    days: tuple[NamedDate, ...] = ()
    # Terms beyond the limit, which are ignored.
    n_dropped: int = 0

    @property
    def positive(self) -> tuple[Term, ...]:
        return self.must + self.should


def parse_query(text: str, today: date | None = None) -> Query:
    """Parse a typed text; with `today`, days in filters may be relative to it.

    Raises TooLarge over 1 KiB, and nothing else on any text.
    """
    if len(text.encode("utf-8", "replace")) > QUERY_LIMIT_BYTES:
        raise TooLarge(f"the query is over {QUERY_LIMIT_BYTES} bytes", hint="ask in fewer words")
    filters, text = extract_filters(text, today)
    should: dict[object, Term] = {}
    must: dict[object, Term] = {}
    must_not: dict[object, Term] = {}
    for match in _TERM.finditer(text):
        for term in _read_terms(match):
            place = must_not if match["no"] else must if term.form is Form.PHRASE else should
            place.setdefault((term.form, tuple(word.lower() for word in term.words)), term)
    kept = [term for term in should.values() if not _is_stopword(term)]
    query = _limit(
        kept if kept or must else [*should.values()], [*must.values()], [*must_not.values()]
    )
    return replace(query, filters=filters, days=find_named_dates(text))


def drop_terms(query: Query, common: Collection[Term]) -> Query:
    """The query without the `should` terms that are in nearly all chunks, which cost much and
    select little.

    With them if no other term is left.
    """
    rare = tuple(term for term in query.should if term not in common)
    return replace(query, should=rare) if rare or query.must else query


def choose_rarest(terms: Sequence[Term], counts: Sequence[int], *, most: int) -> tuple[Term, ...]:
    """The rarest of `terms`, which match so many chunks each, as long as their matches add up to
    `most`; at least one that matches anything, if there is one.

    They keep their order. A chunk without any of them has common words alone, and ranks low.
    """
    chosen: set[int] = set()
    n_matches = 0
    for at in sorted(range(len(terms)), key=lambda at: counts[at]):
        if n_matches and n_matches + counts[at] > most:
            break
        chosen.add(at)
        n_matches += counts[at]
    return tuple(term for at, term in enumerate(terms) if at in chosen)


def compile_selection(rare: Sequence[Term], others: Sequence[Term]) -> str:
    """The FTS5 expression for what contains any of the rare terms, or two of the others."""
    each = [compile_term(term) for term in others]
    pairs = [
        f"({one} AND ({' OR '.join(each[number:])}))" for number, one in enumerate(each[:-1], 1)
    ]
    return " OR ".join([*map(compile_term, rare), *pairs])


def compile_term(term: Term) -> str:
    """The FTS5 expression for one term."""
    quoted = '"' + " ".join(term.words) + '"'
    return f"{quoted} *" if term.form is Form.PREFIX else quoted


def compile_query(query: Query) -> str:
    """The FTS5 expression for the matches of `query`, empty if it looks for nothing.

    For ranking see `compile_positive`.
    """
    expression = compile_positive(query)
    if expression:
        for term in query.must_not:
            expression = f"({expression}) NOT {compile_term(term)}"
    return expression


def compile_positive(query: Query) -> str:
    """The FTS5 expression for the terms that `query` looks for, without its `must_not` terms; empty
    if there are none.

    Under a NOT bm25 misses words in some rows, depending on the rows before them.
    """
    must = [compile_term(term) for term in query.must]
    should = [compile_term(term) for term in query.should]
    if must and should:
        # The OR repeats the `must` terms: the `should` terms then only add to the rank.
        return f"{' AND '.join(must)} AND ({' OR '.join(must + should)})"
    return " AND ".join(must) or " OR ".join(should)


def compile_must_not(query: Query) -> str:
    """The FTS5 expression for the `must_not` terms, empty if there are none."""
    return " OR ".join(map(compile_term, query.must_not))


def _limit(should: list[Term], must: list[Term], must_not: list[Term]) -> Query:
    """Keep as many terms as FTS5 may get.

    Strict terms go first: without them an answer would be wrong, not only worse.
    """
    n_must_not = min(TERM_LIMIT // 2, max(0, TERM_LIMIT - len(must)))
    query = Query(
        must=tuple(must[:TERM_LIMIT]),
        must_not=tuple(must_not[:n_must_not]),
        should=tuple(should[: max(0, TERM_LIMIT - len(must) - len(must_not[:n_must_not]))]),
    )
    n_kept = len(query.positive) + len(query.must_not)
    return replace(query, n_dropped=len(should) + len(must) + len(must_not) - n_kept)


def _read_terms(match: re.Match[str]) -> list[Term]:
    """The terms of one typed word or phrase: one, unless scripts with and without spaces are mixed
    in it.
    """
    is_phrase = match["phrase"] is not None
    # A possessive is no part of a name: notes about Ann answer a question about Ann's.
    text = match["phrase"] if is_phrase else _POSSESSIVE.sub("", match["word"])
    rows = split_words(text, is_strict=is_phrase or bool(match["no"]))
    return [
        Term(
            text=row.text,
            words=row.words,
            form=Form.PHRASE
            if is_phrase
            else _term_form(row, is_last=row is rows[-1], match=match),
        )
        for row in rows
    ]


def _term_form(row: WordSequence, *, is_last: bool, match: re.Match[str]) -> Form:
    if is_unspaced(row.text):
        # One character alone is the beginning of a pair.
        return Form.PREFIX if len(row.words[0]) == 1 else Form.WORD
    has_star = is_last and match["word"].endswith("*")
    return Form.PREFIX if has_star and len(row.words[-1]) >= PREFIX_MIN_CHARACTERS else Form.WORD


def _is_stopword(term: Term) -> bool:
    """True for `the` and `what's`; other joined words (`to-do`, `and/or`, `is_a`) mean more than
    their parts.
    """
    if term.form is not Form.WORD or not all(word.lower() in STOPWORDS for word in term.words):
        return False
    return len(term.words) == 1 or any(mark in term.text for mark in _APOSTROPHES)


# --- Stopwords: English; other languages join by adding their set here ----------------------------

ENGLISH = frozenset(
    """
    a about above after again against all am an and any are aren as at be because been before
    being below between both but by can cannot could couldn d did didn do does doesn doing don
    down during each few for from further had hadn has hasn have haven having he her here hers
    herself him himself his how i if in into is isn it its itself just ll let m me might more
    most must mustn my myself no nor not now of off on once only or other ought our ours
    ourselves out over own please re s same shall shan she should shouldn so some such t than
    that the their theirs them themselves then there these they this those through to too under
    until up upon us ve very was wasn we were weren what when where which while who whom why
    will with won would wouldn you your yours yourself yourselves
    """.split()
)
# Words with which a question refers to itself, as in: what do we know of it, who spoke about it?
ENGLISH_QUESTION_WORDS = frozenset(
    """
    knew know knowing known knows mention mentioned mentioning mentions said say saying says
    speak speaking speaks spoke spoken talk talked talking talks tell telling tells told
    """.split()
)

STOPWORDS = ENGLISH | ENGLISH_QUESTION_WORDS
