"""What did somebody type, and what does FTS5 get to see of it?

Any text is a query: words, `"phrases"`, `-not`, `prefix*`, and filters such as `kind:decision`, which `filters` takes out first;
all else is words, so are a quote that nothing closes and a `--flag`. The compiler quotes every piece, so that no syntax of FTS5
passes through. Plain words are joined by OR, without stopwords unless nothing else is left: questions come as sentences, and an
AND of their words finds next to nothing. Phrases, `-not` and filters are strict.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import Enum

from memsyncd.core.recall.dates import NamedDate, find_named_dates
from memsyncd.core.recall.filters import NO_FILTERS, Filters, extract_filters
from memsyncd.core.recall.stopwords import STOPWORDS
from memsyncd.core.recall.words import WordSequence, is_unspaced, split_words
from memsyncd.errors import TooLarge

QUERY_LIMIT_BYTES = 1024
TERM_LIMIT = 32
"""FTS5's parser is outside every time limit, so what it gets to parse is bounded."""
PREFIX_MIN_CHARACTERS = 2

_PIECE = re.compile(r'(?P<no>-(?!-))?(?:"(?P<phrase>[^"]*)"|(?P<word>[^\s"]+))')
_POSSESSIVE = re.compile(r"['’][sS](?=\W*$)")
_APOSTROPHES = ("'", "’")


class Form(Enum):
    """How a term must be met."""

    WORD = "word"
    PHRASE = "phrase"
    PREFIX = "prefix"


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One thing to look for. `words` are what the tokenizer will see; a term with several must meet them in a row.

    They keep their case: the tokenizer folds it, and in its own way.
    """

    text: str
    words: tuple[str, ...]
    form: Form


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """`should` words are better the more of them are met; `must` must all be met; `must_not` must not."""

    should: tuple[Term, ...] = ()
    must: tuple[Term, ...] = ()
    must_not: tuple[Term, ...] = ()
    filters: Filters = NO_FILTERS
    days: tuple[NamedDate, ...] = ()
    """Days that the words name; a filter's is none that the question is about."""
    n_dropped: int = 0
    """Terms beyond the limit that were left out."""

    @property
    def positive(self) -> tuple[Term, ...]:
        return self.must + self.should


def parse_query(text: str) -> Query:
    """Read what somebody typed. Raises TooLarge over 1 KiB, and nothing else on any text."""
    if len(text.encode("utf-8", "replace")) > QUERY_LIMIT_BYTES:
        raise TooLarge(f"the query is over {QUERY_LIMIT_BYTES} bytes", hint="ask in fewer words")
    filters, text = extract_filters(text)
    should: dict[object, Term] = {}
    must: dict[object, Term] = {}
    must_not: dict[object, Term] = {}
    for piece in _PIECE.finditer(text):
        for term in _read_terms(piece):
            place = must_not if piece["no"] else must if term.form is Form.PHRASE else should
            place.setdefault((term.form, tuple(word.lower() for word in term.words)), term)
    kept = [term for term in should.values() if not _is_stopword(term)]
    query = _limit(kept if kept or must else [*should.values()], [*must.values()], [*must_not.values()])
    return replace(query, filters=filters, days=find_named_dates(text))


def drop_terms(query: Query, common: Collection[Term]) -> Query:
    """Without the should terms that stand nearly everywhere, which cost much and tell little; with them if no other is left."""
    rare = tuple(term for term in query.should if term not in common)
    return replace(query, should=rare) if rare or query.must else query


def compile_term(term: Term) -> str:
    """The FTS5 expression for one term."""
    quoted = '"' + " ".join(term.words) + '"'
    return f"{quoted} *" if term.form is Form.PREFIX else quoted


def compile_query(query: Query) -> str:
    """The FTS5 expression for what `query` lets through, empty if it looks for nothing. To rank by, see `compile_positive`."""
    expression = compile_positive(query)
    if expression:
        for term in query.must_not:
            expression = f"({expression}) NOT {compile_term(term)}"
    return expression


def compile_positive(query: Query) -> str:
    """The FTS5 expression for what `query` looks for, empty if that is nothing, whatever it leaves out.

    Under a NOT bm25 forgets words in some rows, by which rows happen to stand before them.
    """
    must = [compile_term(term) for term in query.must]
    should = [compile_term(term) for term in query.should]
    if must and should:
        # The OR repeats the `must` terms: the `should` terms then only add to the rank.
        return f"{' AND '.join(must)} AND ({' OR '.join(must + should)})"
    return " AND ".join(must) or " OR ".join(should)


def compile_must_not(query: Query) -> str:
    """The FTS5 expression for what must not be met, empty if there is none."""
    return " OR ".join(map(compile_term, query.must_not))


def _limit(should: list[Term], must: list[Term], must_not: list[Term]) -> Query:
    """Keep as many terms as FTS5 may be given. What is strict goes first, for without it an answer would be wrong, not worse."""
    n_must_not = min(TERM_LIMIT // 2, max(0, TERM_LIMIT - len(must)))
    query = Query(
        must=tuple(must[:TERM_LIMIT]),
        must_not=tuple(must_not[:n_must_not]),
        should=tuple(should[: max(0, TERM_LIMIT - len(must) - len(must_not[:n_must_not]))]),
    )
    n_kept = len(query.positive) + len(query.must_not)
    return replace(query, n_dropped=len(should) + len(must) + len(must_not) - n_kept)


def _read_terms(piece: re.Match[str]) -> list[Term]:
    """The terms of one piece: one, unless scripts with spaces and without stand in it side by side."""
    is_phrase = piece["phrase"] is not None
    # Whose it is, is no part of a name: what is known of Ann answers a question about Ann's.
    text = piece["phrase"] if is_phrase else _POSSESSIVE.sub("", piece["word"])
    rows = split_words(text, is_strict=is_phrase or bool(piece["no"]))
    return [
        Term(
            text=row.text,
            words=row.words,
            form=Form.PHRASE if is_phrase else _find_form(row, is_last=row is rows[-1], piece=piece),
        )
        for row in rows
    ]


def _find_form(row: WordSequence, *, is_last: bool, piece: re.Match[str]) -> Form:
    if is_unspaced(row.text):
        # One character alone is the beginning of some pair.
        return Form.PREFIX if len(row.words[0]) == 1 else Form.WORD
    has_star = is_last and piece["word"].endswith("*")
    return Form.PREFIX if has_star and len(row.words[-1]) >= PREFIX_MIN_CHARACTERS else Form.WORD


def _is_stopword(term: Term) -> bool:
    """True for `the` and `what's`; what else is joined (`to-do`, `and/or`, `is_a`) stands for more than its parts."""
    if term.form is not Form.WORD or not all(word.lower() in STOPWORDS for word in term.words):
        return False
    return len(term.words) == 1 or any(mark in term.text for mark in _APOSTROPHES)
