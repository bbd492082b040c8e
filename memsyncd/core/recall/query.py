"""What did somebody type, and what does FTS5 get to see of it?

Any text is a query: words, `"phrases"`, `-not`, `prefix*`; all else is words. The compiler quotes every piece, so that no syntax
of FTS5 passes through. Plain words are joined by OR, without stopwords unless nothing else is left: questions come as sentences,
and an AND of their words finds next to nothing. Phrases and `-not` are strict.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from memsyncd.core.recall.stopwords import STOPWORDS
from memsyncd.errors import TooLarge

QUERY_LIMIT_BYTES = 1024
TERM_LIMIT = 32
"""FTS5's parser is outside every time limit, so what it gets to parse is bounded."""
PREFIX_MIN_CHARACTERS = 2

_PIECE = re.compile(r'(?P<no>-)?(?:"(?P<phrase>[^"]*)"?|(?P<word>[^\s"]+))')
_WORD = re.compile(r"\w+", re.UNICODE)


class Form(Enum):
    """How a term must be met."""

    WORD = "word"
    PHRASE = "phrase"
    PREFIX = "prefix"


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One thing to look for. `words` are what the tokenizer will see; a term with several must meet them in a row."""

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
    wanted: dict[tuple[str, ...], Term] = {}
    needed: dict[tuple[str, ...], Term] = {}
    unwanted: dict[tuple[str, ...], Term] = {}
    n_dropped = 0
    for piece in _PIECE.finditer(text):
        term = _read_term(piece)
        if term is None:
            continue
        place = unwanted if piece["no"] else needed if term.form is Form.PHRASE else wanted
        if len(wanted) + len(needed) + len(unwanted) >= TERM_LIMIT:
            n_dropped += 1
        else:
            place.setdefault(term.words, term)
    kept = [term for term in wanted.values() if not _is_stopword(term)]
    return Query(
        wanted=tuple(kept if kept or needed else wanted.values()),
        needed=tuple(needed.values()),
        unwanted=tuple(unwanted.values()),
        n_dropped=n_dropped,
    )


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


def _read_term(piece: re.Match[str]) -> Term | None:
    text = piece["phrase"] if piece["phrase"] is not None else piece["word"]
    words = tuple(_WORD.findall(text.lower()))
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
    return term.form is Form.WORD and all(word in STOPWORDS for word in term.words)


def _quote(term: Term) -> str:
    quoted = '"' + " ".join(term.words) + '"'
    return f"{quoted} *" if term.form is Form.PREFIX else quoted
