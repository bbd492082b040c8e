"""What did somebody type, and what does FTS5 get to see of it?

Any text is a query: words, `"phrases"`, `-not`, `prefix*`; all else is words, so are a quote that nothing closes and a `--flag`.
The compiler quotes every piece, so that no syntax of FTS5 passes through. Plain words are joined by OR, without stopwords unless
nothing else is left: questions come as sentences, and an AND of their words finds next to nothing. Phrases and `-not` are strict.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import Enum

from memsyncd.core.recall.stopwords import STOPWORDS
from memsyncd.errors import TooLarge

QUERY_LIMIT_BYTES = 1024
TERM_LIMIT = 32
"""FTS5's parser is outside every time limit, so what it gets to parse is bounded."""
PREFIX_MIN_CHARACTERS = 2

_PIECE = re.compile(r'(?P<no>-(?!-))?(?:"(?P<phrase>[^"]*)"|(?P<word>[^\s"]+))')
# What FTS5's unicode61 takes for one word: letters and digits, and the accents that follow them where a text is decomposed.
_WORD = re.compile(r"[^\W_](?:[^\W_]|[\u0300-\u036f])*")
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
    """`wanted` words are better the more of them are met; `needed` must all be met; `unwanted` must not."""

    wanted: tuple[Term, ...] = ()
    needed: tuple[Term, ...] = ()
    unwanted: tuple[Term, ...] = ()
    n_dropped: int = 0
    """Terms beyond the limit that were left out."""

    @property
    def positive(self) -> tuple[Term, ...]:
        return self.needed + self.wanted


def parse_query(text: str) -> Query:
    """Read what somebody typed. Raises TooLarge over 1 KiB, and nothing else on any text."""
    if len(text.encode("utf-8", "replace")) > QUERY_LIMIT_BYTES:
        raise TooLarge(f"the query is over {QUERY_LIMIT_BYTES} bytes", hint="ask in fewer words")
    wanted: dict[object, Term] = {}
    needed: dict[object, Term] = {}
    unwanted: dict[object, Term] = {}
    for piece in _PIECE.finditer(text):
        term = _read_term(piece)
        if term is not None:
            place = unwanted if piece["no"] else needed if term.form is Form.PHRASE else wanted
            place.setdefault((term.form, tuple(word.lower() for word in term.words)), term)
    kept = [term for term in wanted.values() if not _is_stopword(term)]
    return _limit(kept if kept or needed else [*wanted.values()], [*needed.values()], [*unwanted.values()])


def compile_query(query: Query) -> str:
    """The FTS5 expression for `query`, empty if it looks for nothing."""
    if not query.positive:
        return ""
    needed = [_quote(term) for term in query.needed]
    wanted = [_quote(term) for term in query.wanted]
    if needed and wanted:
        # The needed ones stand in the OR too: the words only add to the rank then.
        expression = f"{' AND '.join(needed)} AND ({' OR '.join(needed + wanted)})"
    else:
        expression = " AND ".join(needed) or " OR ".join(wanted)
    for term in query.unwanted:
        expression = f"({expression}) NOT {_quote(term)}"
    return expression


def _limit(wanted: list[Term], needed: list[Term], unwanted: list[Term]) -> Query:
    """Keep as many terms as FTS5 may be given. What is strict goes first, for without it an answer would be wrong, not worse."""
    n_unwanted = min(TERM_LIMIT // 2, max(0, TERM_LIMIT - len(needed)))
    query = Query(
        needed=tuple(needed[:TERM_LIMIT]),
        unwanted=tuple(unwanted[:n_unwanted]),
        wanted=tuple(wanted[: max(0, TERM_LIMIT - len(needed) - len(unwanted[:n_unwanted]))]),
    )
    n_kept = len(query.positive) + len(query.unwanted)
    return replace(query, n_dropped=len(wanted) + len(needed) + len(unwanted) - n_kept)


def _read_term(piece: re.Match[str]) -> Term | None:
    text = piece["phrase"] if piece["phrase"] is not None else piece["word"]
    words = tuple(_WORD.findall(text))
    if not words:
        return None
    if piece["phrase"] is not None:
        form = Form.PHRASE
    elif text.endswith("*") and len(words[-1]) >= PREFIX_MIN_CHARACTERS:
        form = Form.PREFIX
    else:
        form = Form.WORD
    return Term(text=text, words=words, form=form)


def _is_stopword(term: Term) -> bool:
    """True for `the` and `what's`; what else is joined (`to-do`, `and/or`, `is_a`) stands for more than its parts."""
    if term.form is not Form.WORD or not all(word.lower() in STOPWORDS for word in term.words):
        return False
    return len(term.words) == 1 or any(mark in term.text for mark in _APOSTROPHES)


def _quote(term: Term) -> str:
    quoted = '"' + " ".join(term.words) + '"'
    return f"{quoted} *" if term.form is Form.PREFIX else quoted
