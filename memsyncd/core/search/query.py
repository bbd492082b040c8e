"""Parse queries and compile them to FTS5.

Any text is a query: words, `"phrases"`, `-not`, `prefix*`, and filters, which `filters` reads.
Everything else is words, including an unclosed quote and a `--flag`. The compiler quotes every
term, so that no syntax of FTS5 passes through. Plain words are joined by OR, without stopwords
unless nothing else is left: questions come as sentences, and an AND of their words finds next to
nothing. Phrases, `-not` and filters are strict.

In `git commit -m` the last word may exclude, or be an option of a command. A passage that holds the
word and the one before it as they were typed, `commit -m`, is found in spite of the exclusion.

A longer query than `QUERY_LIMIT` is shortened by whole words.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from datetime import date
from enum import Enum
from typing import Final

import msgspec
from msgspec.structs import replace

from memsyncd.core.model import CHOICES, find_choice
from memsyncd.core.paths import NOTE_SUFFIXES
from memsyncd.core.search.dates import DAY_FORM, NamedDate, find_named_dates
from memsyncd.core.search.filters import (
    FIELDS,
    FILTER_NAMES,
    FILTER_PATTERN,
    NO_FILTERS,
    FilterReader,
    Filters,
    extract_filters,
    parse_condition,
    read_filter_value,
)
from memsyncd.core.search.words import (
    WordSequence,
    find_identifiers,
    fold,
    fold_word,
    is_unspaced,
    respell,
    split_pictures,
    split_words,
    suggest_words,
)

# --- Oddities of a query --------------------------------------------------------------------------

_FORMS: Final = {
    "after": DAY_FORM,
    "before": DAY_FORM,
    "is": "archived or expired",
    "importance": "a number from 0 to 1",
    "worth": "a number such as 0.5, or hot, warm, cold",
    "meta": "KEY=VALUE, or KEY>=7 with a number or day",
    "path": "a note, a folder or a glob within the workspace",
}
# The keys of front matter that have a filter of their own, which `meta:` does not search.
_OWN_KEYS: Final = frozenset(
    "kind tags importance priority lifecycle task session source status".split()
)
_OUTSIDE: Final = re.compile(r"~/|\.\.?/?$|\.\./")
SHOWN_CHARACTERS = 60
MAX_SHOWN = 8
_NO_VALUE: Final = "takes a value, without a blank before it"
# In a longer text a word with a colon and a blank, such as `Task: …`, is prose.
_FEW_WORDS: Final = 6


# The names by which other programs know a filter.
_OTHER_NAMES: Final = {
    "file": "path",
    "folder": "path",
    "from": "after",
    "heading": "section",
    "label": "tag",
    "since": "after",
    "title": "section",
    "type": "kind",
    "until": "before",
}
# A value that begins with a digit is a port, a time, a line or a version: `localhost:8080`.
_PREFIXED_VALUE: Final = re.compile(
    r'"[^"]*"|(?<!\S)-?(?P<name>[a-z][a-z_]{1,19}):(?P<value>"[^"]+"|(?!//)[^\W\d][^\s"]*)',
    re.IGNORECASE,
)


def find_query_problems(text: str, today: date | None = None) -> list[str]:
    """Describe the parts of a query that do not count as typed: filters that are read as words or
    that nothing can pass, and words beyond the limits.
    """
    typed, text = text, shorten_query(text)
    problems = []
    if ":" in text:
        reader = FilterReader(today)
        tried = ((match, reader.accept(match)) for match in FILTER_PATTERN.finditer(text))
        problems = [_describe_filter(*filter_, today) for filter_ in tried if filter_[0]["name"]]
        if len(text.split()) > _FEW_WORDS:
            problems = [problem for problem in problems if not problem.endswith(_NO_VALUE)]
        problems += _describe_unknown_filters(text)
    if "-" in text and not text.isascii():
        problems += _find_lost_exclusions(extract_filters(text, today)[1])
    n_dropped = parse_query(text, today).n_dropped if _may_be_long(text) else 0
    if n_dropped:
        words = "one word" if n_dropped == 1 else f"{n_dropped} words"
        problems.append(f"{words} did not count: a query has at most {TERM_LIMIT}")
    if len(typed) > QUERY_LIMIT:
        problems.append(_describe_shortened(typed, text))
    return list(dict.fromkeys(filter(None, problems)))


def _describe_shortened(typed: str, kept: str) -> str:
    """Say how much of a text counts, and which of its exclusions and filters do not."""
    lost = [
        condition
        for condition in _list_conditions(typed)
        if condition not in {*_list_conditions(kept)}
    ]
    named = " ".join(map(_show, lost[:MAX_SHOWN]))
    more = f" and {len(lost) - MAX_SHOWN} more" if len(lost) > MAX_SHOWN else ""
    return (
        f"{len(kept):,} of {len(typed):,} characters count: a query is shortened to "
        f"{QUERY_LIMIT:,}, by whole words{f', and {named}{more} did not count' if lost else ''}"
    )


def _list_conditions(text: str) -> list[str]:
    """The filters and exclusions of a text, in their typed form."""
    filters = (match[0] for match in FILTER_PATTERN.finditer(text) if match["name"])
    terms = (match[0] for match in _TERM.finditer(extract_filters(text)[1]) if match["no"])
    return [*dict.fromkeys((*filters, *terms))]


def _describe_unknown_filters(text: str) -> Iterator[str]:
    """Describe the texts that may have been meant as filters, such as `knid:decision`."""
    is_short = len(text.split()) <= _FEW_WORDS
    for match in _PREFIXED_VALUE.finditer(text):
        name = (match["name"] or "").lower()
        if not name or name in FILTER_NAMES:
            continue
        other = _OTHER_NAMES.get(name) or _find_near_filter(name)
        value = match["value"]
        if other or (is_short and match["name"] == name):
            remedy = f"{other}:{value}" if other else f"meta:{name}={value} for a key of notes"
            yield (
                f"{_show(match[0])} was read as words, because {name}: is no filter; write "
                f"{_show(remedy)}"
            )


def _find_near_filter(name: str) -> str:
    """The filter that a mistyped name may mean; empty if there is none."""
    filters = [(filter_name, 1) for filter_name in FILTER_NAMES]
    return next(iter(suggest_words(name, filters)), "")


def _find_lost_exclusions(text: str) -> list[str]:
    """Describe exclusions without any letter or digit, such as an emoji: the index has none.

    ASCII signs such as `->` are no exclusions.
    """
    exclusions = (match for match in _TERM.finditer(text) if match["no"] and not match[0].isascii())
    return [
        f"{_show(match[0])} did not count: only letters, digits, arrows and emoji are indexed"
        for match in exclusions
        if not _read_terms(match)
    ]


def _may_be_long(text: str) -> bool:
    """False if a query has no more terms than the limits. Each word and phrase is one term:
    parsing it takes longer.
    """
    n_terms = len(text.split()) + text.count('"')
    return not text.isascii() or n_terms > TERM_LIMIT or text.count("-") > TERM_LIMIT // 2


def _describe_filter(match: re.Match[str], is_filter: bool, today: date | None) -> str:
    """Describe the oddity of a text that looks like a filter; empty if there is none."""
    name = match["name"].lower()
    value = read_filter_value(match, name)
    typed = _show(match[0])
    if is_filter and name == "meta":
        condition = parse_condition(value, today)
        own = condition.key.lower() if condition else ""
        filter_ = f"{'tag' if own == 'tags' else own}:{condition.value if condition else ''}"
        return f"{typed} searches other keys; write {filter_}" if own in _OWN_KEYS else ""
    if is_filter:
        if name in CHOICES and find_choice(name, value) is None:
            return f"nothing can pass {typed}; {name}: takes {', '.join(CHOICES[name])}"
        if name == "path" and _OUTSIDE.match(value):
            return (
                f"nothing can pass {typed}; a path begins at the workspace's root, as docs/plan.md"
            )
        return ""
    if match["no"] and name not in FIELDS:
        return f"{typed} was read as words; {name}: cannot be excluded"
    if not value.strip():
        return f"{typed} was read as words; {name}: {_NO_VALUE}"
    form = _FORMS.get(name)
    return f"{typed} was read as words; {name}: takes {form}" if form else ""


def _show(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"


# --- Queries --------------------------------------------------------------------------------------

QUERY_LIMIT = 1024
"""Characters of a query; a longer text is shortened."""
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

    @property
    def spelling(self) -> str:
        """The words of another spelling of a word, joined by blanks; empty if it has none."""
        return " ".join(respell(self.words)) if self.form is Form.WORD else ""

    @property
    def note_name(self) -> str:
        """The words of the name of a note, joined by blanks, if the text is one with its ending."""
        is_name = len(self.words) > 1 and self.text.lower().endswith(NOTE_SUFFIXES)
        return " ".join(self.words[:-1]) if is_name and self.form is not Form.PREFIX else ""


class TypedCommand(msgspec.Struct, frozen=True, kw_only=True):
    """An excluded term with the word beside it, as in `commit -m`: a text that holds both as they
    were typed is not excluded by this term.

    `phrase` finds texts that hold the words of both in a row.
    """

    excluded: Term
    phrase: Term

    def make_pattern(self) -> re.Pattern[str]:
        """The pattern of the text in a folded text."""
        words = fold(self.phrase.text).casefold().split()
        before = "" if is_unspaced(words[0][0]) else r"(?<!\w)"
        after = "" if is_unspaced(words[-1][-1]) else r"(?!\w)"
        return re.compile(before + r"\s+".join(map(re.escape, words)) + after)


def find_typed(pattern: re.Pattern[str], text: str) -> bool:
    """True if a command's pattern matches a text, in any spelling."""
    return pattern.search(fold(text).casefold()) is not None


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
    # Names of code that the words contain.
    identifiers: tuple[str, ...] = ()
    # Terms beyond the limit, which are ignored.
    n_dropped: int = 0
    # The text without filters.
    text: str = ""
    # Exclusions that may be options of commands.
    commands: tuple[TypedCommand, ...] = ()
    # The exclusions of the query as typed: words, phrases and values of filters.
    excluded: tuple[str, ...] = ()

    @property
    def plain_text(self) -> str:
        """The text without filters, quotes and exclusions, in the order in which it was typed."""
        return _join_terms(self.text)

    @property
    def positive(self) -> tuple[Term, ...]:
        return self.must + self.should

    @property
    def relaxed(self) -> Query | None:
        """The query for notes that lack a phrase of a sentence; None for phrases alone."""
        if not (self.must and self.should):
            return None
        return replace(self, must=(), should=self.positive)

    def add_phrases(self, texts: Collection[str]) -> Query:
        """The query that also looks for the commands with these texts, which notes hold."""
        phrases = [command.phrase for command in self.commands if command.phrase.text in texts]
        room = TERM_LIMIT - len(self.positive) - len(self.must_not)
        query = replace(self, should=(*self.should, *phrases[: max(0, room)]))
        if self.positive:
            return query
        return replace(query, text=" ".join(phrase.text for phrase in phrases))


def read_plain_text(text: str, today: date | None = None) -> str:
    """Return the `plain_text` of a query without parsing the rest of it."""
    return _join_terms(extract_filters(shorten_query(text), today)[1])


def _join_terms(text: str) -> str:
    matches = (match for match in _TERM.finditer(text) if not match["no"])
    return " ".join(match["phrase"] or match["word"] or "" for match in matches)


def shorten_query(text: str) -> str:
    """Return the whole words at the beginning of a text that are within the limit together.

    A word that is too long is left out, except in a script without spaces, where any character ends
    a word. A quoted phrase may be shortened; an excluded phrase or the quoted value of a filter is
    left out if it is not whole.
    """
    if len(text) <= QUERY_LIMIT:
        return text
    kept: list[str] = []
    # One character is left for a quote.
    room = QUERY_LIMIT - 1
    for match in re.finditer(r"\S+", text):
        word = match[0]
        if len(word) > room:
            part = word[: _find_cut(word, room)]
            kept.append(part)
            if part or len(word) <= QUERY_LIMIT:
                break
            continue
        kept.append(word)
        room -= len(word) + 1
        if room <= 0:
            break
    shortened = " ".join(filter(None, kept))
    if shortened.count('"') % 2 and text.count('"') > shortened.count('"'):
        start = 1 + max(map(shortened[: shortened.rindex('"')].rfind, " \n"))
        is_phrase = shortened[start] == '"'
        shortened = f'{shortened}"' if is_phrase else shortened[:start].rstrip()
    return shortened


def _find_cut(word: str, most: int) -> int:
    """The last place up to `most` where a word of a script without spaces may end, else 0."""
    for end in range(max(0, most), 0, -1):
        is_edge = is_unspaced(word[end - 1]) or is_unspaced(word[end])
        if is_edge and not unicodedata.category(word[end]).startswith("M"):
            return end
    return 0


def parse_query(text: str, today: date | None = None) -> Query:
    """Parse a typed text; with `today`, days in filters may be relative to it. Never raises."""
    filters, text = extract_filters(shorten_query(text), today)
    should: dict[object, Term] = {}
    must: dict[object, Term] = {}
    must_not: dict[object, Term] = {}
    matches = [*_TERM.finditer(text)]
    commands: list[TypedCommand] = []
    excluded: dict[str, Term] = {}
    for number, match in enumerate(matches):
        for term in _read_terms(match):
            place = must_not if match["no"] else must if term.form is Form.PHRASE else should
            key = (term.form, tuple(map(str.lower, term.words)))
            kept_term = place.setdefault(key, term)
            if match["no"]:
                excluded[match[0]] = kept_term
                is_alone = len(matches) == 1 and not filters.is_empty
                phrase = None if is_alone else _read_command(matches, number)
                commands += [TypedCommand(excluded=kept_term, phrase=phrase)] if phrase else []
    stopwords = _choose_stopwords(should.values())
    kept = [term for term in should.values() if not _is_stopword(term, stopwords)]
    # Beside words a sign tells little: `a → b`.
    kept = [term for term in kept if any(map(str.isalnum, term.text))] or kept
    query = _limit(
        kept if kept or must else [*should.values()], [*must.values()], [*must_not.values()]
    )
    return replace(
        query,
        filters=filters,
        days=find_named_dates(text),
        identifiers=find_identifiers(text),
        text=text,
        commands=tuple(command for command in commands if command.excluded in query.must_not),
        excluded=(
            *_list_excluded_values(filters),
            *(typed for typed, term in excluded.items() if term in query.must_not),
        ),
    )


def _list_excluded_values(filters: Filters) -> list[str]:
    """The values of filters that are excluded, as people type them."""
    if filters.exclude is None:
        return []
    typed = [
        (f"-{name}:", value)
        for name, field in FIELDS.items()
        for value in getattr(filters.exclude, field)
    ]
    return [f'{name}"{value}"' if " " in value else f"{name}{value}" for name, value in typed]


# The signs around a command in a sentence.
_AROUND: Final = re.compile(r"""^["'`([{«“‘]+|["'`)\]}»”’.,;:!?…]+$""")


def _read_command(matches: Sequence[re.Match[str]], number: int) -> Term | None:
    """The phrase of an exclusion and the word before it, or after it if it is the first; None if it
    has no words.
    """
    pair = matches[number - 1 : number + 1] if number else matches[:2]
    text = _AROUND.sub("", " ".join(map(_read_typed, pair)))
    words = [word for row in split_words(fold(text), is_strict=True) for word in row.words]
    return Term(text=text, words=tuple(words), form=Form.PHRASE) if words else None


def _read_typed(match: re.Match[str]) -> str:
    """A word or phrase as it was typed, without quotes."""
    return match[0].replace('"', "")


def drop_terms(query: Query, common: Collection[Term]) -> Query:
    """The query without the `should` terms that are in nearly all chunks, which cost much and
    select little. If no other term is left, the query keeps them.
    """
    rare = tuple(term for term in query.should if term not in common)
    return replace(query, should=rare) if rare or query.must else query


def choose_rarest(terms: Sequence[Term], counts: Sequence[int], *, most: int) -> tuple[Term, ...]:
    """The rarest of `terms`, as many as match at most `most` chunks in total; at least one term
    that matches anything, if there is one. `counts` are the numbers of chunks that each matches.

    The terms keep their order. A chunk without any of them has only common words, and ranks low.
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
    """The FTS5 expression for chunks with any of the rare terms, or with two of the others."""
    each = [compile_term(term) for term in others]
    pairs = [
        f"({expression} AND ({' OR '.join(each[number:])}))"
        for number, expression in enumerate(each[:-1], 1)
    ]
    return " OR ".join([*map(compile_term, rare), *pairs])


def compile_term(term: Term) -> str:
    """The FTS5 expression of a term."""
    expressions = compile_spellings(term)
    return expressions[0] if len(expressions) == 1 else f"({' OR '.join(expressions)})"


def compile_spellings(term: Term) -> list[str]:
    """The one or two FTS5 expressions of a term's spellings; either may match."""
    name = [f'heading : "{term.note_name}"'] if term.note_name else []
    quoted = '"' + " ".join(term.words) + '"'
    if term.form is Form.PREFIX:
        return [f"{quoted} *"]
    if term.form is Form.PHRASE and len(term.words) > 1 and any(map(str.isalnum, term.text)):
        # Subwords follow one another in another order than in the text.
        return [f"-subwords : {quoted}", *name]
    return [quoted, f'"{term.spelling}"'] if term.spelling else [quoted, *name]


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
    """The terms of a typed word or phrase: a single term, unless a word mixes scripts with and
    without spaces.
    """
    word = match["word"] or ""
    if word.isalnum() and word.isascii():  # most words: the steps below change nothing of it
        return [Term(text=word, words=(word,), form=Form.WORD)]
    is_phrase = match["phrase"] is not None
    # A possessive is no part of a name: notes about Ann answer a question about Ann's.
    text = match["phrase"] if is_phrase else _POSSESSIVE.sub("", word)
    folded = fold(text)
    rows = split_words(folded, is_strict=is_phrase or bool(match["no"])) or split_pictures(folded)
    return [
        Term(
            text=text if row.text == folded else row.text,
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
        return Form.PREFIX if len("".join(row.words)) == 1 else Form.WORD
    has_star = is_last and match["word"].endswith("*")
    return Form.PREFIX if has_star and len(row.words[-1]) >= PREFIX_MIN_CHARACTERS else Form.WORD


def _is_stopword(term: Term, stopwords: frozenset[str]) -> bool:
    """True for `the` and `what's`; other joined words (`to-do`, `and/or`, `is_a`) mean more than
    their parts.
    """
    if term.form is not Form.WORD:
        return False
    is_one = len(term.words) == 1 or any(mark in term.text for mark in _APOSTROPHES)
    return is_one and stopwords.issuperset(map(fold_word, term.words))


def has_only_stopwords(query: Query) -> bool:
    """True if all words of a query are stopwords of one language: `and now?`, `und jetzt?`."""
    return bool(query.positive) and any(
        all(_is_stopword(term, STOPWORDS | stopwords) for term in query.positive)
        for stopwords in LANGUAGES.values()
    )


def _choose_stopwords(terms: Collection[Term]) -> frozenset[str]:
    """The words without information in a question: the English stopwords, and the stopwords of the
    language of which the question has most. They count only if the question has two at least, and
    more than English ones, because `die`, `war` and `no` are words, too.
    """
    words = [fold_word(word) for term in terms if term.form is Form.WORD for word in term.words]
    least = max(MIN_LANGUAGE_WORDS, 1 + sum(word in STOPWORDS for word in words))
    foreign = [word for word in words if word in _LANGUAGE_WORDS]
    if len(foreign) < least:
        return STOPWORDS
    counts = {
        name: sum(word in stopwords for word in foreign) for name, stopwords in LANGUAGES.items()
    }
    most = max(counts.values())
    if most < least:
        return STOPWORDS
    return STOPWORDS.union(*(LANGUAGES[name] for name, n in counts.items() if n == most))


# --- Stopwords ------------------------------------------------------------------------------------

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


def _fold_words(text: str) -> frozenset[str]:
    return frozenset(map(fold_word, text.split()))


# Folded, as words are compared without accents.
LANGUAGES: Final = {
    "German": _fold_words(
        """
        aber alle allem allen aller alles als also am an ander andere anderem anderen anderer
        anderes auch auf aus bei beim bin bis bist da damit dann das dass dem den denn der des
        dessen die dies diese diesem diesen dieser dieses doch dort du durch ein eine einem einen
        einer eines einige er es etwas euch euer fur gegen gibt hab habe haben hat hatte hatten
        hier hinter ich ihm ihn ihnen ihr ihre ihrem ihren ihrer im in ins ist jede jedem jeden
        jeder jedes jetzt kann kein keine keinem keinen keiner konnen konnte machen man manche mein
        meine meinem meinen meiner mich mir mit muss mussen musste nach nicht nichts noch nun nur
        ob oder ohne sehr sein seine seinem seinen seiner seit sich sie sind so soll sollen sollte
        sondern uber um und uns unser unsere unserem unseren unserer unter viel vom von vor war
        waren warst warum was weil welche welchem welchen welcher welches wem wen wenn wer werde
        werden wessen wie wieder will wir wird wo wollen wollte woran worin wurde wurden zu zum zur
        zwischen
        """
    ),
    "Spanish": _fold_words(
        """
        a al algo algunas algunos ante antes como con contra cual cuales cuando cuanto cuantos de
        del desde donde durante e el ella ellas ellos en entre era eran es esa esas ese eso esos
        esta estaba estado estan estar estas este esto estos fue fueron ha habia han hasta hay he
        hemos la las le les lo los mas me mi mis mucho muchos muy nada ni no nos nosotros nuestra
        nuestro o os otra otro otros para pero poco por porque puede pueden que quien quienes se sea
        ser si sin sobre solo somos son soy su sus tambien te tenemos tengo tiene tienen todo todos
        tu tus un una uno unos y ya yo
        """
    ),
    "French": _fold_words(
        """
        a ai au aucun aussi autre aux avec avez avoir avons bien c ce cela ces cet cette ceux chez
        comme comment d dans de depuis des donc dont du elle elles en encore est et etaient etait
        ete etes etre eu eux fait fait il ils j je l la laquelle le lequel les leur leurs lors lui m
        ma mais me meme mes moi mon n ne nos notre nous on ont ou par parce pas peut peuvent plus
        pour pourquoi qu quand que quel quelle quelles quels qui quoi s sa sans se sera ses si son
        sont sous sur t ta te tes toi ton tous tout toute toutes tres tu un une vos votre vous y
        """
    ),
    "Italian": _fold_words(
        """
        a abbiamo ad agli ai al alla alle allo anche avere aveva c che chi ci come con contro cosa
        cui da dagli dai dal dalla dalle dallo degli dei del dell della delle dello di dopo dove e
        era erano essere fa fare fra fu gli ha hai hanno ho i il in io l la le lei li lo loro lui ma
        me mi mia mio molto ne negli nei nel nella nelle nello no noi non nostra nostro o ogni per
        perche piu poi prima puo qual quale quali quando quanti quanto quella quelle quelli quello
        questa queste questi questo qui se sei senza si sia siamo sono sta stato su sua sugli sui
        sul sulla sulle sullo suo suoi te ti tra tu tutti tutto un una uno vi voi
        """
    ),
    "Portuguese": _fold_words(
        """
        a ao aos aquela aquele aquilo as ate com como da das de dela dele deles depois do dos e ela
        elas ele eles em entre era eram essa esse esta estao estar estava este eu foi foram ha isso
        isto ja la lhe mais mas me mesmo meu meus minha muito muitos na nao nas nem no nos nossa
        nosso num numa o onde os ou para pela pelas pelo pelos pode podem por porque qual quais
        quando quanto que quem se seja sem ser seu seus so sobre sua suas sao tambem te tem temos
        tenho ter tinha toda todas todo todos tu tudo um uma umas uns voce voces
        """
    ),
    "Russian": _fold_words(
        """
        а без был была были было быть в вам вас вот все всего всех вы где да даже для до его ее если
        есть еще же за здесь и из или им их к как какая какие какой какое каким каких когда кого ком
        кому которая которого которой которое которые который кто ли между меня мне много может
        можно мой мы на над надо нам нас наш наша наше наши не него нее нет ни них но о об один он
        она они оно от перед по под после потом почему при про раз с сам себя со так также такой там
        тем то того тоже той только том тот ты у уже чего чем через что чтобы чтоб эта эти это этого
        этой этом этот я
        """
    ),
}
MIN_LANGUAGE_WORDS = 2
_LANGUAGE_WORDS = frozenset().union(*LANGUAGES.values())
