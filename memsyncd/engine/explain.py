"""Why is an answer empty, and what might have been meant? The first reason that holds, in a
sentence that a person can act on.

Nothing is indexed; what matched was deleted just now; filters, archived sections or `-words` leave
none of what matches; words stand nowhere, others that are near do. A question is suggested only if
it finds something under the same filters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from memsyncd.core.guard.secrets import redact
from memsyncd.core.search.query import Filters, Form, Query, Term, compile_query, parse_query
from memsyncd.core.search.spelling import fold_word, max_edit_distance, suggest_words
from memsyncd.engine.masking import is_secret_word
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import NotFresh
from memsyncd.store.lookup import (
    MAX_COUNTED,
    count_kinds,
    count_matches,
    count_tags,
    find_matching_kinds,
    find_matching_tags,
    find_similar_words,
    find_words_by_first_letter,
)
from memsyncd.store.pool import Reader
from memsyncd.store.search import find_filtered, is_matching

N_WORDS_LOOKED_UP = 4
"""Words that stand nowhere and are looked for near ones, at most."""
N_WORKSPACES = 5
"""Whose reasons are told, at most."""
N_SHOWN = 8
"""Of words or values, in one list."""
SHOWN_CHARS = 48
"""Of a word that somebody typed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nothing:
    """Why there is no hit. `meant` is the question as it may have been meant, one that finds
    something.
    """

    why: str
    meant: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What was asked: as typed, as read, and all filters that must hold. `hidden` as in
    `recall.Asked`.
    """

    text: str
    query: Query
    filters: Filters
    hidden: frozenset[tuple[str, str]] = frozenset()


def explain_nothing(
    workspaces: Sequence[Workspace], question: Question, timeout_s: float
) -> Nothing:
    """The reason for an answer without hits from these workspaces. Raises as `Workspace.lend`, but
    not for want of time.
    """
    if not workspaces:
        return Nothing(why="there is no workspace yet: add a folder with memsyncd add PATH")
    if not question.query.positive and question.filters.is_empty:
        return Nothing(why=_explain_empty_question(question.query))
    found: list[tuple[str, Nothing]] = []
    for workspace in workspaces[:N_WORKSPACES]:
        try:
            with workspace.acquire(timeout_s) as reader:
                found.append((workspace.entry.name, _explain_one(reader, workspace, question)))
        except NotFresh:
            found.append(
                (
                    workspace.entry.name,
                    Nothing(why="nothing matches, and there was no time to find out why"),
                )
            )
    reasons = dict.fromkeys(nothing.why for _, nothing in found)
    more = (
        [f"{len(workspaces) - N_WORKSPACES} more have nothing either"]
        if len(workspaces) > N_WORKSPACES
        else []
    )
    told = (
        [*reasons]
        if len(reasons) == 1
        else [f"in {name}: {nothing.why}" for name, nothing in found] + more
    )
    return Nothing(
        why="; ".join(told),
        meant=next((nothing.meant for _, nothing in found if nothing.meant), None),
    )


def _explain_one(reader: Reader, workspace: Workspace, question: Question) -> Nothing:
    if workspace.condition.counts.files == 0:
        return Nothing(why=explain_empty_index(workspace))
    match = compile_query(question.query)
    if not match:
        return Nothing(why=_explain_filters_alone(reader, question))
    if count_matches(reader, match, question.filters):
        # The answer and its explanation see two states of the index, and nearly always the same.
        is_hidden = any(workspace.id == hidden_in for hidden_in, _ in question.hidden)
        what = (
            "the only notes that match were deleted just now"
            if is_hidden
            else "what matches was indexed just now: ask again"
        )
        return Nothing(why=what)
    n_matching = count_matches(reader, match)
    if n_matching:
        return Nothing(why=_explain_filters(reader, match, n_matching, question.filters))
    nothing = _explain_words(reader, question)
    unread = _explain_unread(workspace)
    return replace(nothing, why=f"{nothing.why}; {unread}") if unread else nothing


# --- nothing to look for, nothing to look in ------------------------------------------------------


def _explain_empty_question(query: Query) -> str:
    return f"the query holds no word to look for{', only words to leave out' if query.must_not else ''}"


def explain_empty_index(workspace: Workspace) -> str:
    condition = workspace.condition
    if condition.state == "indexing":
        return "the first index is still being made"
    if condition.state == "missing":
        return "the workspace's folder is missing"
    if condition.faults:
        return f"no note is indexed: {'; '.join(condition.faults.values())}"
    return "no note is indexed yet: save one as MEMORY.md or under .memories/"


def _explain_unread(workspace: Workspace) -> str:
    condition = workspace.condition
    if not condition.pending and condition.state != "indexing":
        return ""
    trouble = "; ".join(condition.faults.values())
    return f"{condition.pending} {'is' if condition.pending == 1 else 'are'} still to be read{': ' if trouble else ''}{trouble}"


# --- something matches, and is left out -----------------------------------------------------------


def _explain_filters(reader: Reader, match: str, n_matching: int, filters: Filters) -> str:
    """Which filter leaves how much of what matches."""
    matching = _count(n_matching, "passage matches", "passages match")
    pieces = list(_split(filters))
    if not pieces:
        return f"{matching}, in archived sections only: ask with is:archived to see them"
    if len(pieces) == 1:
        return (
            f"{matching}, and {pieces[0][0]} leaves none{_name_others(reader, match, pieces[0][1])}"
        )
    left = [(word, count_matches(reader, match, one)) for word, one in pieces]
    told = ", ".join(f"{word} leaves {_count(n, '', '') if n else 'none'}" for word, n in left)
    together = "" if any(not n for _, n in left) else ", together none"
    vain = next((one for (_, one), (_, n) in zip(pieces, left, strict=True) if not n), None)
    return f"{matching}: {told}{together}{_name_others(reader, match, vain) if vain else ''}"


def _explain_filters_alone(reader: Reader, question: Question) -> str:
    if find_filtered(reader, question.filters, "", limit=1):
        return _explain_empty_question(question.query)
    return f"nothing that is indexed passes {' and '.join(word for word, _ in _split(question.filters))}"


def _split(filters: Filters) -> Iterator[tuple[str, Filters]]:
    """Each filter alone, with how it is typed."""
    for one in filters.chain():
        yield from _split_one(one, "")
        if one.exclude is not None:
            yield from (
                (word, Filters(exclude=each)) for word, each in _split_one(one.exclude, "-")
            )
    if any(one.is_archived for one in filters.chain()):
        yield "is:archived", Filters(is_archived=True)


def _split_one(one: Filters, sign: str) -> Iterator[tuple[str, Filters]]:
    alone = {
        "kind": (one.kinds, Filters(kinds=one.kinds)),
        "tag": (one.tags, Filters(tags=one.tags)),
        "path": (one.paths, Filters(paths=one.paths)),
        "section": (one.sections, Filters(sections=one.sections)),
        "task": (one.tasks, Filters(tasks=one.tasks)),
        "after": (filter(None, [one.after]), Filters(after=one.after)),
        "before": (filter(None, [one.before]), Filters(before=one.before)),
    }
    for name, (values, each) in alone.items():
        shown = _list(map(_shorten, values), " or ")
        if shown:
            yield f"{sign}{name}:{shown}", each


def _name_others(reader: Reader, match: str, filters: Filters) -> str:
    """What could have been asked for in place of a kind or tag that leaves nothing."""
    if filters.kinds:
        found, what = find_matching_kinds(reader, match), "kind"
        near = _find_near_values(filters.kinds, count_kinds(reader))
    elif filters.tags:
        found, what = find_matching_tags(reader, match), "tag"
        near = _find_near_values(filters.tags, count_tags(reader))
    elif filters.after or filters.before:
        return "; a section has a date if it says when it was created, or its note's name does"
    else:
        return ""
    found, near = [*map(redact, found)], [*map(redact, near)]
    theirs = (
        f"the {what}{'s' if len(found) > 1 else ''} {', '.join(found)}" if found else f"no {what}"
    )
    return f"; what matches has {theirs}{'; near to what was asked for: ' if near else ''}{', '.join(near)}"


def _find_near_values(asked: Sequence[str], known: Sequence[tuple[str, int]]) -> list[str]:
    """Kinds or tags that there are, near to those of `asked` that there are not."""
    by_folded = {fold_word(value): value for value, _ in known}
    counted = [(fold_word(value), n) for value, n in known]
    strange = [
        value.lstrip("#") for value in asked if fold_word(value.lstrip("#")) not in by_folded
    ]
    return [
        by_folded[near]
        for value in strange[:N_WORDS_LOOKED_UP]
        for near in suggest_words(value, counted)
    ]


# --- nothing matches ------------------------------------------------------------------------------


def _explain_words(reader: Reader, question: Question) -> Nothing:
    query = question.query
    if query.must_not:
        left_out = count_matches(reader, compile_query(replace(query, must_not=())))
        if left_out:
            words = _list((f"-{_show(term)}" for term in query.must_not), " ")
            return Nothing(
                why=f"{_count(left_out, 'passage matches', 'passages match')}, and {words} leaves none"
            )
    # Where phrases are asked for, one that is nowhere is reason enough; plain words are all absent.
    absent = [term for term in query.must or query.should if not _is_there(reader, term)]
    if not absent:
        return Nothing(
            why=f"no passage holds all of {_list(map(_show, query.must))}, though each stands somewhere"
        )
    near = _find_near_words(reader, absent)
    why = _say_absent(absent)
    if near:
        there = dict.fromkeys(word for found in near.values() for word in found)
        why += f"; near words that do stand in notes: {_list(there)}"
    elif any(term.form is Form.PHRASE and len(term.words) > 1 for term in absent):
        why += ", in this order"
    return Nothing(why=why, meant=_suggest(reader, question, near))


def _say_absent(absent: Sequence[Term]) -> str:
    if len(absent) == 1:
        return (
            f"no note holds {'the word ' if absent[0].form is Form.WORD else ''}{_show(absent[0])}"
        )
    return f"no note holds any of these{'' if absent[0].form is Form.PHRASE else ' words'}: {_list(map(_show, absent))}"


def _is_there(reader: Reader, term: Term) -> bool:
    return is_matching(reader, compile_query(Query(should=(term,))))


def _find_near_words(reader: Reader, absent: Sequence[Term]) -> dict[str, tuple[str, ...]]:
    """By each word that stands nowhere the words near it, if there are any."""
    words = dict.fromkeys(word for term in absent for word in term.words)
    gone = [
        word
        for word in words
        if not _is_there(reader, Term(text=word, words=(word,), form=Form.WORD))
    ]
    near = {word: _find_near(reader, fold_word(word)) for word in gone[:N_WORDS_LOOKED_UP]}
    # Who guesses at a password must not be told that he is near.
    told = {
        word: tuple(one for one in found if not is_secret_word(reader, one))
        for word, found in near.items()
    }
    return {word: found for word, found in told.items() if found}


def _find_near(reader: Reader, word: str) -> tuple[str, ...]:
    # Names of versions, tickets and hashes have no near ones, and whoever waits for a word to
    # appear asks for it again and again.
    if not max_edit_distance(word) or not word.isalpha():
        return ()
    return suggest_words(word, find_similar_words(reader, word)) or suggest_words(
        word, find_words_by_first_letter(reader, word)
    )


def _suggest(reader: Reader, question: Question, near: dict[str, tuple[str, ...]]) -> str | None:
    """The question with the words in it that were near, the nearest that find anything."""
    for choice in range(max(map(len, near.values()), default=0)):
        text = question.text
        for word, found in near.items():
            text = re.sub(
                rf"(?<!\w){re.escape(word)}(?!\w)", found[min(choice, len(found) - 1)], text
            )
        match = compile_query(parse_query(text))
        if text != question.text and match and count_matches(reader, match, question.filters):
            return text
    return None


# --- how it is said -------------------------------------------------------------------------------


def _count(n: int, one: str, many: str) -> str:
    number = f"over {n - 1:,}" if n >= MAX_COUNTED else f"{n:,}"
    return f"{number} {one if n == 1 else many}".rstrip()


def _list(words: Iterable[str], between: str = ", ") -> str:
    shown = [*words]
    more = [f"{len(shown) - N_SHOWN} more"] if len(shown) > N_SHOWN else []
    return between.join(shown[:N_SHOWN] + more)


def _show(term: Term) -> str:
    return f'"{_shorten(term.text)}"' if term.form is Form.PHRASE else _shorten(term.text)


def _shorten(text: str) -> str:
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…"
