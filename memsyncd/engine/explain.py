"""Explains an empty answer, and suggests the query that may have been meant.

The first true reason becomes a sentence that a person can act on: nothing is indexed; the matching
notes were deleted a moment ago; all matches are excluded by filters, `-words`, or because they are
archived; words occur nowhere, but similar words do. A query is suggested only if it finds something
under the same filters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from memsyncd.core.guard.secrets import redact
from memsyncd.core.paths import show_path
from memsyncd.core.search.filters import EQUAL, FIELDS, Filters, parse_condition
from memsyncd.core.search.plan import SearchPlan
from memsyncd.core.search.query import (
    Form,
    Query,
    Term,
    compile_query,
    parse_query,
)
from memsyncd.core.search.words import fold, fold_word, max_edit_distance, suggest_words
from memsyncd.engine.checks import UNREADABLE
from memsyncd.engine.plan import acquire
from memsyncd.engine.redaction import is_secret_word
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import NotFresh
from memsyncd.store.counts import META, name_meta_field
from memsyncd.store.filters import compile_match_filters
from memsyncd.store.links import StoredLinks
from memsyncd.store.lookup import (
    MAX_COUNTED,
    count_matches,
    count_values,
    find_matching_kinds,
    find_matching_tags,
    find_similar_words,
    find_words_by_first_letter,
)
from memsyncd.store.pool import MEMO_LIMIT, Reader
from memsyncd.store.search import find_filtered, is_matching

# Problems of files and folders, which may hold the answer.
MISSING_TEXT = UNREADABLE | {"bad_name", "evicted", "too_large"}
# The most absent words for which similar words are looked up.
MAX_LOOKED_UP_WORDS = 4
# Workspaces whose reasons are listed.
MAX_WORKSPACES = 5
# Words or values in one list.
MAX_LISTED = 8
# Characters shown of a word that a person typed.
MAX_SHOWN_CHARS = 48


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """Why there is no hit. `did_you_mean` is a similar query that finds something.

    With `is_of_words` the index has no word of the query: a note that is not read yet may have it.
    """

    why: str
    did_you_mean: str | None = None
    is_of_words: bool = False


def explain_nothing(workspaces: Sequence[Workspace], plan: SearchPlan) -> Explanation:
    """Explain why these workspaces have no hit.

    Raises the errors of `Workspace.acquire`, except for NotFresh: a lack of time is an explanation,
    too, unless the plan is hurried.
    """
    if not workspaces:
        return Explanation(why="there is no workspace yet: add a folder with memsyncd add PATH")
    if plan.is_empty:
        return Explanation(why=_explain_empty_question(plan.query))
    explanations: list[tuple[str, Explanation]] = []
    for workspace in workspaces[:MAX_WORKSPACES]:
        try:
            with acquire(workspace, plan) as reader:
                explanations.append((workspace.entry.name, _explain_one(reader, workspace, plan)))
        except NotFresh:
            if plan.is_hurried:
                raise
            late = Explanation(why="nothing matches, and there was no time to find out why")
            explanations.append((workspace.entry.name, late))
    suggested = (
        explanation.did_you_mean for _, explanation in explanations if explanation.did_you_mean
    )
    why = _join_reasons(explanations, n_more=len(workspaces) - MAX_WORKSPACES)
    return Explanation(why=why, did_you_mean=next(suggested, None))


def _join_reasons(explanations: Sequence[tuple[str, Explanation]], *, n_more: int) -> str:
    reasons = dict.fromkeys(explanation.why for _, explanation in explanations)
    if len(reasons) == 1:
        return next(iter(reasons))
    more = [f"{n_more} more have nothing either"] if n_more > 0 else []
    return "; ".join([f"in {name}: {explanation.why}" for name, explanation in explanations] + more)


def _explain_one(reader: Reader, workspace: Workspace, plan: SearchPlan) -> Explanation:
    if workspace.condition.counts.files == 0:
        return Explanation(why=explain_empty_index(workspace))
    # A program that waits for a note asks again and again.
    explained: dict[_Key, Explanation] = reader.memo.setdefault("explained", {})
    key = _make_key(reader, plan)
    explanation = explained.get(key) if key else None
    if explanation is None:
        match = compile_query(plan.query)
        n_matching = count_matches(reader, match) if match else 0
        if n_matching and count_matches(reader, match, plan.filters):
            # The search and its explanation may see two generations of the index.
            if any(workspace.id == workspace_id for workspace_id, _ in plan.absent):
                return Explanation(why="the only notes that match were deleted just now")
            return Explanation(why="what matches was indexed just now: ask again")
        explanation = _explain_snapshot(reader, plan, match, n_matching)
        if key:
            if len(explained) >= MEMO_LIMIT:
                explained.clear()
            explained[key] = explanation
    if not explanation.is_of_words:
        return explanation
    unread = (_explain_unread(workspace), _explain_skipped(workspace))
    return replace(
        explanation, why="; ".join(reason for reason in (explanation.why, *unread) if reason)
    )


# The query as typed, its filters without the time, the same compiled with the time, and how an
# index is made as configured.
_Key = tuple[str, Filters, str, tuple[object, ...], str]


def _make_key(reader: Reader, plan: SearchPlan) -> _Key | None:
    """Return all that an explanation depends on besides the index; None for filters that are more
    than a list of values.
    """
    filters = plan.filters
    if filters.and_ or filters.exclude or filters.find_worth or plan.query.commands:
        return None
    passing = compile_match_filters(reader, filters)
    timeless = replace(filters, now_s=0.0)
    return plan.text, timeless, passing.allowed, tuple(passing.bindings.values()), plan.fingerprint


def _explain_snapshot(reader: Reader, plan: SearchPlan, match: str, n_matching: int) -> Explanation:
    """Explain why no passage passes the filters, of which `n_matching` match the words alone."""
    if not match:
        _check_time(plan)
        return Explanation(why=_explain_filters_alone(reader, plan))
    if n_matching:
        _check_time(plan)
        return Explanation(why=_explain_filters(reader, match, n_matching, plan.filters))
    return replace(_explain_words(reader, plan), is_of_words=True)


def _check_time(plan: SearchPlan) -> None:
    """Raise NotFresh if the plan is hurried: the next step may take milliseconds."""
    if plan.is_hurried:
        raise NotFresh("there is no hit, and no time to explain why")


# --- nothing to search for, nothing to search in ------------------------------------------------


def _explain_empty_question(query: Query) -> str:
    return (
        f"the query has no word to search "
        f"for{', only words to leave out' if query.must_not else ''}"
    )


def explain_empty_index(workspace: Workspace) -> str:
    condition = workspace.condition
    if condition.state == "indexing":
        return "the first index is still being made"
    if condition.state == "missing":
        return "the workspace's folder is missing"
    if condition.faults:
        return f"no note is indexed: {'; '.join(condition.faults.values())}"
    is_whole = "**" in workspace.scope.includes.whole.patterns
    place = "in the folder" if is_whole else "as MEMORY.md or under .memories/"
    return f"no note is indexed yet: save one {place}"


def _explain_unread(workspace: Workspace) -> str:
    condition = workspace.condition
    if not condition.n_pending and condition.state != "indexing":
        return ""
    faults = "; ".join(condition.faults.values())
    return (
        f"{condition.n_pending} {'is' if condition.n_pending == 1 else 'are'} still to be "
        f"read{': ' if faults else ''}{faults}"
    )


def _explain_skipped(workspace: Workspace) -> str:
    """Name the notes and folders whose text on the disk is not in the index."""
    skipped = [
        problem for problem in workspace.condition.scan_problems if problem.code in MISSING_TEXT
    ]
    if not skipped:
        return ""
    first = f"{show_path(skipped[0].path)}: {skipped[0].problem}"
    return first if len(skipped) == 1 else f"{first}; {len(skipped) - 1} more: memsyncd problems"


# --- matches that are filtered out --------------------------------------------------------------


def _explain_filters(reader: Reader, match: str, n_matching: int, filters: Filters) -> str:
    """Describe how many of the matches each filter leaves."""
    matching = _count(n_matching, "passage matches", "passages match")
    parts = list(_split(filters))
    if not parts:
        return f"{matching}, {_explain_hidden(reader, match, filters)}"
    if _is_any(reader, match, _show_hidden(filters)):
        passing = " and ".join(word for word, _ in parts)
        hidden = _explain_hidden(reader, match, filters)
        return f"{matching}, and what passes {passing} is {hidden}"
    if len(parts) == 1:
        return (
            f"{matching}, and {parts[0][0]} leaves none{_name_others(reader, match, parts[0][1])}"
        )
    left = [(word, count_matches(reader, match, filter_)) for word, filter_ in parts]
    found_counts = ", ".join(
        f"{word} leaves {_count(n, '', '') if n else 'none'}" for word, n in left
    )
    together = "" if any(not n for _, n in left) else ", together none"
    first_empty = next(
        (filter_ for (_, filter_), (_, n) in zip(parts, left, strict=True) if not n), None
    )
    others = _name_others(reader, match, first_empty) if first_empty else ""
    return f"{matching}: {found_counts}{together}{others}"


def _show_hidden(filters: Filters) -> Filters:
    """The filters, which now select archived and expired sections, too."""
    return replace(filters, includes_archived=True, includes_expired=True)


def _explain_hidden(reader: Reader, match: str, filters: Filters) -> str:
    """Say in which sections, which ordinary searches leave out, the matches are."""
    if _is_any(reader, match, replace(filters, includes_archived=True)):
        return "in archived sections only: ask with is:archived to see them"
    is_archived_too = not _is_any(reader, match, replace(filters, includes_expired=True))
    both = " is:archived" if is_archived_too else ""
    return f"in expired sections only: ask with is:expired{both} to see them"


def _is_any(reader: Reader, match: str, filters: Filters) -> bool:
    """Whether the filters leave any match; without `match`, whether they leave any section."""
    if match:
        return bool(count_matches(reader, match, filters, most=1))
    return bool(find_filtered(reader, filters, limit=1).rows)


def _explain_filters_alone(reader: Reader, plan: SearchPlan) -> str:
    if _is_any(reader, "", plan.filters):
        return _explain_empty_question(plan.query)
    parts = list(_split(plan.filters))
    if parts and _is_any(reader, "", _show_hidden(plan.filters)):
        passing = " and ".join(word for word, _ in parts)
        return f"what passes {passing} is {_explain_hidden(reader, '', plan.filters)}"
    similar = dict.fromkeys(
        value for _, filter_ in parts for value in _find_similar(reader, filter_)
    )
    related_to = [value for _, filter_ in parts for value in filter_.related_to]
    return f"nothing that is indexed passes {' and '.join(word for word, _ in parts)}" + (
        f"; similar: {', '.join(map(redact, similar))}"
        if similar
        else _name_unknown(reader, related_to)
    )


EXPIRED_ALONE = Filters(is_expired=True)


def _split(filters: Filters) -> Iterator[tuple[str, Filters]]:
    """Each filter alone, with its name as typed."""
    for word, filter_ in _split_chain(filters):
        yield word, replace(filter_, now_s=filters.now_s, kind_importance=filters.kind_importance)


def _split_chain(filters: Filters) -> Iterator[tuple[str, Filters]]:
    for joined in filters.chain():
        yield from _split_one(joined, "")
        if joined.exclude is not None:
            yield from (
                (word, Filters(exclude=each)) for word, each in _split_one(joined.exclude, "-")
            )
    for word, state in (("is:archived", Filters(is_archived=True)), ("is:expired", EXPIRED_ALONE)):
        if word in filters.words:
            yield word, state


# The words that type the filters of these fields.
_WORDS = {field: word for word, field in FIELDS.items()}
_WORDS |= {"min_importance": "importance", "min_worth": "worth"}
_WORDS |= {"after": "after", "before": "before"}


def _split_one(filters: Filters, sign: str) -> Iterator[tuple[str, Filters]]:
    for field, word in _WORDS.items():
        value = getattr(filters, field)
        values = value if isinstance(value, tuple) else () if value in (None, "") else (str(value),)
        listed = _list(map(_shorten, values), " or ")
        if listed:
            alone: dict[str, Any] = {field: value}
            if field in ("tiers", "min_worth"):
                alone["find_worth"] = filters.find_worth
                alone["tiers_from"] = filters.tiers_from
            yield f"{sign}{word}:{listed}", Filters(**alone)


def _name_others(reader: Reader, match: str, filters: Filters) -> str:
    """Name kinds, tags or notes to ask for instead of the filters that leave nothing."""
    similar = _find_similar(reader, filters)
    if filters.kinds:
        existing, what = find_matching_kinds(reader, match), "kind"
    elif filters.tags:
        existing, what = find_matching_tags(reader, match), "tag"
    elif filters.paths:
        if similar:
            return f"; similar: {', '.join(map(redact, similar))}"
        is_outside = any(path.startswith("/") for path in filters.paths)
        return "; a path begins at the workspace's root, as docs/plan.md" if is_outside else ""
    elif filters.metas or filters.keys or filters.related_to:
        if similar or not filters.related_to:
            return f"; similar: {', '.join(map(redact, similar))}" if similar else ""
        return _name_unknown(reader, filters.related_to)
    elif filters.after or filters.before:
        stated = "what it, a heading, its note or its name states, else when saved"
        return f"; the date of a section is {stated}"
    else:
        return ""
    existing, similar = [*map(redact, existing)], [*map(redact, similar)]
    theirs = (
        f"the {what}{'s' if len(existing) > 1 else ''} {', '.join(existing)}"
        if existing
        else f"no {what}"
    )
    return f"; what matches has {theirs}{'; similar: ' if similar else ''}{', '.join(similar)}"


def _name_unknown(reader: Reader, related_to: Sequence[str]) -> str:
    """Name the notes of filters `related_to:` that do not exist."""
    names = StoredLinks(reader).names
    targets = (value.rpartition("=")[2] for value in related_to)
    unknown = [_shorten(name) for name in targets if not names.find("", name)]
    return f"; there is no note {_list(unknown, ' or ')}" if unknown else ""


def _find_similar(reader: Reader, filters: Filters) -> list[str]:
    """Return existing kinds, tags or notes that are similar to a filter without hits."""
    if filters.kinds:
        return _find_similar_values(filters.kinds, count_values(reader, "kind"))
    if filters.tags:
        return _find_similar_values(filters.tags, count_values(reader, "tag"))
    if filters.metas:
        return _find_similar_metas(reader, filters.metas)
    if filters.keys:
        return [
            f"has:{key}" for key in _find_similar_values(filters.keys, count_values(reader, META))
        ]
    if filters.related_to:
        names = StoredLinks(reader).names
        targets = [value.rpartition("=")[2] for value in filters.related_to]
        similar = [names.find_similar(name) for name in targets if not names.find("", name)]
        return [path for path in similar if path]
    if filters.paths and not find_filtered(reader, filters, limit=1).rows:
        names = StoredLinks(reader).names
        similar = [names.find("", path) or names.find_similar(path) for path in filters.paths]
        return [path for path in similar if path]
    return []


def _find_similar_metas(reader: Reader, metas: Sequence[str]) -> list[str]:
    """Return existing keys, or values of these keys, similar to keys of filters `meta:`."""
    similar: list[str] = []
    for condition in filter(None, map(parse_condition, metas[:MAX_LOOKED_UP_WORDS])):
        keys = count_values(reader, META)
        if condition.key.casefold() not in {key.casefold() for key, _ in keys}:
            similar += (
                f"meta:{key}{condition.sign}{_quote(condition.value)}"
                for key in _find_similar_values([condition.key], keys)
            )
        elif condition.sign == EQUAL:
            values = _find_similar_values(
                [condition.value], count_values(reader, name_meta_field(condition.key))
            )
            similar += (f"meta:{condition.key}={_quote(value)}" for value in values)
    return similar


def _quote(value: str) -> str:
    return f'"{value}"' if " " in value else value


def _find_similar_values(values: Sequence[str], existing: Sequence[tuple[str, int]]) -> list[str]:
    """Existing kinds or tags that are similar to unknown kinds or tags in `values`."""
    by_folded = {fold_word(value): value for value, _ in existing}
    counted = [(fold_word(value), n) for value, n in existing]
    unknown = [
        value.lstrip("#") for value in values if fold_word(value.lstrip("#")) not in by_folded
    ]
    return [
        by_folded[similar]
        for value in unknown[:MAX_LOOKED_UP_WORDS]
        for similar in suggest_words(value, counted)
    ]


# --- nothing matches ----------------------------------------------------------------------------


def _explain_words(reader: Reader, plan: SearchPlan) -> Explanation:
    query = plan.query
    if query.must_not:
        left_out = count_matches(reader, compile_query(replace(query, must_not=())))
        if left_out:
            words = _list((f"-{_show(term)}" for term in query.must_not), " ")
            return Explanation(
                why=(
                    f"{_count(left_out, 'passage matches', 'passages match')}, and {words} "
                    f"leaves none"
                )
            )
    # One absent phrase is reason enough; plain words have no match only if all are absent.
    absent = [term for term in query.must or query.should if not _occurs(reader, term)]
    if not absent:
        return Explanation(
            why=(
                f"no passage contains all of {_list(map(_show, query.must))}, though each occurs "
                f"somewhere"
            )
        )
    similar_words = _list_similar_words(reader, plan, absent)
    why = _describe_absent(absent)
    if similar_words:
        similar = dict.fromkeys(word for others in similar_words.values() for word in others)
        why += f"; similar words in notes: {_list(similar)}"
    elif any(term.form is Form.PHRASE and len(term.words) > 1 for term in absent):
        why += ", in this order"
    return Explanation(why=why, did_you_mean=_suggest(reader, plan, similar_words))


def _describe_absent(absent: Sequence[Term]) -> str:
    if len(absent) == 1:
        word = "the word " if absent[0].form is Form.WORD else ""
        return f"no note contains {word}{_show(absent[0])}"
    return (
        f"no note contains any of these{'' if absent[0].form is Form.PHRASE else ' words'}: "
        f"{_list(map(_show, absent))}"
    )


def _occurs(reader: Reader, term: Term) -> bool:
    return is_matching(reader, compile_query(Query(should=(term,))))


def _list_similar_words(
    reader: Reader, plan: SearchPlan, absent: Sequence[Term]
) -> dict[str, tuple[str, ...]]:
    """Indexed words that are similar to absent words, by absent word."""
    words = dict.fromkeys(word for term in absent for word in term.words)
    spelt = [word for word in words if _may_have_similar(fold_word(word))]
    if spelt:
        _check_time(plan)
    gone = [
        word
        for word in spelt
        if not _occurs(reader, Term(text=word, words=(word,), form=Form.WORD))
    ]
    similar_words = {
        word: _find_similar_words(reader, fold_word(word)) for word in gone[:MAX_LOOKED_UP_WORDS]
    }
    # A reader who guesses a password must not learn that the guess is close.
    public = {
        word: tuple(
            other for other in similar if not is_secret_word(reader, other, plan.fingerprint)
        )
        for word, similar in similar_words.items()
    }
    return {word: similar for word, similar in public.items() if similar}


def _may_have_similar(word: str) -> bool:
    # Versions, tickets and hashes have no similar words. A program that waits until such a word
    # appears asks for it again and again.
    return max_edit_distance(word) > 0 and word.isalpha()


def _find_similar_words(reader: Reader, word: str) -> tuple[str, ...]:
    return suggest_words(word, find_similar_words(reader, word)) or suggest_words(
        word, find_words_by_first_letter(reader, word)
    )


def _suggest(
    reader: Reader, plan: SearchPlan, similar_words: dict[str, tuple[str, ...]]
) -> str | None:
    """The query with the most similar words that find anything in place of absent words."""
    typed = fold(plan.text)
    for choice in range(max(map(len, similar_words.values()), default=0)):
        text = typed
        for word, similar in similar_words.items():
            text = re.sub(
                rf"(?<!\w){re.escape(word)}(?!\w)", similar[min(choice, len(similar) - 1)], text
            )
        match = compile_query(parse_query(text))
        if text != typed and match and count_matches(reader, match, plan.filters):
            return text
    return None


# --- wording ------------------------------------------------------------------------------------


def _count(n: int, singular: str, many: str) -> str:
    number = f"over {n - 1:,}" if n >= MAX_COUNTED else f"{n:,}"
    return f"{number} {singular if n == 1 else many}".rstrip()


def _list(words: Iterable[str], between: str = ", ") -> str:
    listed = [*words]
    more = [f"{len(listed) - MAX_LISTED} more"] if len(listed) > MAX_LISTED else []
    return between.join(listed[:MAX_LISTED] + more)


def _show(term: Term) -> str:
    return f'"{_shorten(term.text)}"' if term.form is Form.PHRASE else _shorten(term.text)


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_SHOWN_CHARS else f"{text[:MAX_SHOWN_CHARS]}…"
