"""Make the plan of a search from the parameters of a request.

A query is parsed, and its filters are joined with the filters of the request. The meaning of a
query may depend on the notes. A comparison such as `rating>=7` needs a note with this key. The `-m`
of `git commit -m` is an exclusion, but a passage that holds `commit -m`, as typed, is not excluded;
if there is such a passage, the search looks for both words in a row.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import date
from typing import Final, Protocol, TypedDict, TypeVar

import msgspec
from msgspec.structs import replace

from memsyncd.config import Config
from memsyncd.core.editing.kinds import find_kind
from memsyncd.core.model import CHOICES, WORTH_ORDERS, find_choice
from memsyncd.core.search.dates import DAY_FORM, parse_day
from memsyncd.core.search.filters import (
    NO_FILTERS,
    Filters,
    fold_value,
    list_compared_keys,
    name_comparisons,
    parse_condition,
)
from memsyncd.core.search.plan import SearchPlan, plan_search
from memsyncd.core.search.query import (
    Term,
    TypedCommand,
    compile_term,
    find_query_problems,
    find_typed,
    parse_query,
)
from memsyncd.core.search.ranking import DEFAULT_RANKING, RankingPolicy
from memsyncd.engine.clock import find_local_day
from memsyncd.engine.metadata import NO_ACCESSES, Valuation, complete_worth, make_valuation
from memsyncd.engine.workspace import Workspace, index_fingerprint
from memsyncd.errors import BadRequest, MemsyncdError, NotFresh
from memsyncd.operations import sections
from memsyncd.operations.context.declare import ContextParams
from memsyncd.operations.notes.declare import ListParams
from memsyncd.operations.search.declare import SearchParams
from memsyncd.store.candidates import HURRIED
from memsyncd.store.counts import META
from memsyncd.store.lookup import count_values
from memsyncd.store.pool import MEMO_LIMIT, Reader
from memsyncd.store.search import find_best_matching, find_matching_among, find_rows
from memsyncd.store.texts import read_texts

Asked = TypeVar("Asked", SearchParams, ContextParams)
# Processor time for finding in a hurried search, and for its explanation. A search that is stopped
# has to run again: the number of its matches decides whether it begins, and the limit is only for
# filters that take long. Other processes that take the cores must not stop it, so its limit in real
# time is longer.
HURRIED_CPU_S = 0.012
# The signs of exclusions and comparisons.
_DEPENDS = re.compile("[-<>]")


class Timed(Protocol):
    """Parameters of a question; `timeout_ms` is None for the configured limit."""

    @property
    def timeout_ms(self) -> int | None: ...


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How the daemon runs a search or builds a context, besides the parameters of the client.

    `absent` are notes that must not be shown: workspace ids and paths. If `within` is not empty,
    only notes at or in these places are. `now_s` is seconds since 1970. `timeout_s` is None for the
    request's own limit, or the configured one.

    With `is_hurried`, NotFresh is raised at once if there is much to look up, to find hits or to
    explain why there are none. The limit then counts only for finding; reading the hits never takes
    long.
    """

    now_s: float = 0.0
    timeout_s: float | None = None
    absent: frozenset[tuple[str, str]] = msgspec.field(default_factory=frozenset)
    within: tuple[str, ...] = ()
    is_hurried: bool = False
    # The accesses of sections by anchor, on which worth depends; for a read of a single workspace.
    accesses: Mapping[str, int] = msgspec.field(default_factory=dict)
    # The commands of the query that a passage holds; None if they were not looked up yet.
    commands: frozenset[str] | None = None

    def limit_s(self, params: Timed, config: Config) -> float:
        """The time that the request may take."""
        if self.timeout_s is not None:
            return self.timeout_s
        return params.timeout_ms / 1000 if params.timeout_ms else config.search.timeout_s


DEFAULT_OPTIONS = RunOptions()


def make_search_plan(
    params: SearchParams | ContextParams,
    config: Config,
    options: RunOptions = DEFAULT_OPTIONS,
    ranking: RankingPolicy | None = None,
) -> SearchPlan:
    """Parse and compile the query and the filters of a request. Raises BadRequest."""
    today, timeout_s = find_local_day(options.now_s), options.limit_s(params, config)
    fingerprint, is_masking = index_fingerprint(config), config.guard.is_masking
    is_boosted = config.search.has_boosts
    query = parse_query(params.query, today)
    if options.commands:
        query = query.add_phrases(options.commands)
    filters = query.filters
    if params.filters != NO_CONDITIONS:
        filters = read_filters(params.filters, today).join(filters)
    if options.within:
        filters = filters.join(Filters(paths=options.within))
    if filters is NO_FILTERS:
        filters = replace(filters, now_s=options.now_s)
    else:
        filters = _complete(
            filters, config, make_valuation(config, options.now_s, options.accesses)
        )
    return plan_search(
        params.query,
        query,
        filters,
        ranking or DEFAULT_RANKING,
        timeout_s=timeout_s,
        is_hurried=options.is_hurried,
        now_s=options.now_s,
        accesses=options.accesses,
        absent=options.absent,
        fingerprint=fingerprint,
        is_masking=is_masking,
        is_boosted=is_boosted,
    )


NO_CONDITIONS = sections.Filters()


def add_accesses(
    workspace: Workspace, params: SearchParams | ContextParams | ListParams, options: RunOptions
) -> RunOptions:
    """Add the accesses of the sections of a workspace, if the answer depends on them."""
    if not needs_accesses(params):
        return options
    # The module imports the editing of notes, which no start needs.
    from memsyncd.engine.accesses import count_accesses

    return replace(options, accesses=count_accesses(workspace))


def needs_accesses(params: SearchParams | ContextParams | ListParams) -> bool:
    """True if the answer depends on the worth of sections."""
    asked = params.filters
    if params.sort in WORTH_ORDERS or asked.tier or asked.min_worth is not None:
        return True
    if isinstance(params, SearchParams | ListParams) and params.explain:
        return True
    query = "" if isinstance(params, ListParams) else params.query.lower()
    return "tier:" in query or "worth:" in query


# --- queries whose meaning depends on the notes ---------------------------------------------------


def may_name_commands(query: str) -> bool:
    """True if an exclusion in the query may be an option of a command, as in `git commit -m`."""
    return "-" in query and bool(parse_query(query).commands)


def must_prepare(query: str) -> bool:
    """True if the meaning of the query depends on the notes: if it compares (`rating>=7`), or may
    name commands.
    """
    if not _DEPENDS.search(query):
        return False
    return may_name_commands(query) or bool(list_compared_keys(query))


def read_query(
    workspaces: Sequence[Workspace], params: Asked, config: Config, options: RunOptions
) -> tuple[Asked, RunOptions]:
    """Look up in the notes of the workspaces how to read the query.

    Raises NotFresh if the request is hurried and there is anything to look up, BadRequest, and the
    errors of `Workspace.acquire`.
    """
    if not must_prepare(params.query):
        return params, options
    params = _read_comparisons(workspaces, params, config, options)
    if options.commands is None and may_name_commands(params.query):
        options = replace(options, commands=find_commands(workspaces, params, config, options))
    return params, options


def find_commands(
    workspaces: Sequence[Workspace],
    params: SearchParams | ContextParams,
    config: Config,
    options: RunOptions,
) -> frozenset[str]:
    """Return the commands of the query that any of the workspaces holds.

    Raises BadRequest, and NotFresh if the request is hurried and there is any to read.
    """
    plan = make_search_plan(params, config, options)
    texts: set[str] = set()
    for workspace in workspaces:
        try:
            with acquire(workspace, plan) as reader:
                texts |= list_held_commands(reader, plan)
        except MemsyncdError:
            if plan.is_hurried:
                raise
            continue  # the search of this workspace says why, and others may hold commands
    return frozenset(texts)


def acquire(workspace: Workspace, plan: SearchPlan) -> AbstractContextManager[Reader]:
    """Acquire a reader of a workspace for the time of a plan."""
    return workspace.acquire(plan.timeout_s, HURRIED_CPU_S if plan.is_hurried else math.inf)


def _read_comparisons(
    workspaces: Sequence[Workspace], params: Asked, config: Config, options: RunOptions
) -> Asked:
    """Return the parameters with `meta:` before each comparison in the query, such as `rating>=7`,
    of a key that a note has. Raises the errors of `Workspace.acquire`.
    """
    if not list_compared_keys(params.query):
        return params
    keys: set[str] = set()
    for workspace in workspaces:
        with workspace.acquire(options.limit_s(params, config)) as reader:
            keys.update(fold_value(key) for key, _ in count_values(reader, META))
    return replace(params, query=name_comparisons(params.query, keys))


# --- commands ------------------------------------------------------------------------------------

# The most texts that are read, and how many at a time: the best matches among passages with both
# words in a row. Each takes up to 0.15 ms.
MAX_READ, PORTION = 2_000, 500


def list_held_commands(reader: Reader, plan: SearchPlan) -> set[str]:
    """Return the texts of the plan's commands that stand in a passage which the plan may find.

    Raises NotFresh if the plan is hurried and there are texts to read.
    """
    excluded = plan.must_not._replace(spared=_find_spared(reader, plan))
    texts = set()
    for command in plan.query.commands:
        holding = _find_holding(reader, command, plan)
        if find_rows(reader, holding, plan.filters, excluded):
            texts.add(command.phrase.text)
    return texts


def spare_commands(reader: Reader, plan: SearchPlan) -> SearchPlan:
    """Return the plan that excludes no passage with one of its commands."""
    spared = _find_spared(reader, plan) if plan.query.commands else ()
    return plan.spare(spared) if spared else plan


def _find_spared(reader: Reader, plan: SearchPlan) -> list[int]:
    """Return the chunks with commands in which no other excluded word stands."""
    holding: dict[Term, set[int]] = {}
    for command in plan.query.commands:
        chunks = _find_holding(reader, command, plan)
        holding.setdefault(command.excluded, set()).update(chunks)
    spared = set().union(*holding.values())
    for term in plan.query.must_not:
        if spared:
            matching = find_matching_among(reader, compile_term(term), sorted(spared))
            spared.difference_update(set(matching) - holding.get(term, set()))
    return sorted(spared)


def _find_holding(reader: Reader, command: TypedCommand, plan: SearchPlan) -> list[int]:
    """Return the chunks whose text holds a command as it was typed.

    Secrets are not masked in these texts, because the index has no word of them.
    """
    remembered: dict[str, list[int]] = reader.memo.setdefault("commands", {})
    if command.phrase.text not in remembered:
        chunks = find_best_matching(reader, compile_term(command.phrase), limit=MAX_READ)
        if chunks and plan.is_hurried:
            raise NotFresh(HURRIED)
        pattern = command.make_pattern()
        holding: list[int] = []
        for at in range(0, len(chunks), PORTION):
            texts = read_texts(reader, chunks[at : at + PORTION])
            holding += (chunk for chunk, text in texts.items() if find_typed(pattern, text))
        if len(remembered) >= MEMO_LIMIT:
            remembered.clear()
        remembered[command.phrase.text] = holding
    return remembered[command.phrase.text]


# --- filters -------------------------------------------------------------------------------------


class QueryReport(TypedDict):
    """The fields of an answer that say how its query was read."""

    query_problems: list[str]
    excluded: list[str]


NOTHING_TO_SAY = QueryReport(query_problems=[], excluded=[])


def describe_query(params: SearchParams | ContextParams, now_s: float) -> QueryReport:
    """Describe the parts of the query that do not count as typed, and its exclusions."""
    today = find_local_day(now_s)
    return QueryReport(
        query_problems=find_query_problems(params.query, today),
        excluded=list(parse_query(params.query, today).excluded) if "-" in params.query else [],
    )


def _complete(filters: Filters, config: Config, valuation: Valuation) -> Filters:
    """Add the time that decides which sections have expired, the importance of sections that state
    none, and the function that computes their worth.
    """
    filters, now_s = complete_worth(filters, valuation), valuation.now_s
    if filters.min_importance is None and filters.and_ is None:
        return replace(filters, now_s=now_s)
    kinds = [(name, kind.importance) for name, kind in config.kinds.items()]
    rest = ("", find_kind({}, None).importance)
    and_ = filters.and_ and _complete(filters.and_, config, valuation)
    return replace(filters, now_s=now_s, kind_importance=(*kinds, rest), and_=and_)


def complete_filters(
    filters: sections.Filters,
    config: Config,
    now_s: float,
    accesses: Mapping[str, int] = NO_ACCESSES,
    base: Filters = NO_FILTERS,
) -> Filters:
    """Parse the filters of a request at this time; join them with `base`. Raises the errors of
    `read_filters`.
    """
    parsed = read_filters(filters, find_local_day(now_s)).join(base)
    return _complete(parsed, config, make_valuation(config, now_s, accesses))


# The filters whose values are names.
_NAMING: Final = "kind tag path section task session source topic status has related_to".split()


def read_filters(filters: sections.Filters, today: date) -> Filters:
    """Parse the filters of a request, with days relative to `today`.

    Raises BadRequest for a value that is empty or cannot be read, with the name of its filter.
    """
    for name in _NAMING:
        _refuse_empty(name, getattr(filters, name))
    return Filters(
        kinds=tuple(filters.kind),
        tags=tuple(filters.tag),
        paths=tuple(filters.path),
        sections=tuple(filters.section),
        tasks=tuple(filters.task),
        after=_read_day("after", filters.after, today),
        before=_read_day("before", filters.before, today),
        sessions=tuple(filters.session),
        sources=tuple(filters.source),
        topics=tuple(filters.topic),
        priorities=_read_choices("priority", filters.priority),
        lifecycles=_read_choices("lifecycle", filters.lifecycle),
        statuses=tuple(filters.status),
        metas=tuple(_read_condition(text, today) for text in filters.meta),
        keys=tuple(map(str.strip, filters.has)),
        related_to=tuple(filters.related_to),
        tiers=_read_choices("tier", filters.tier),
        min_importance=filters.min_importance,
        min_worth=filters.min_worth,
        is_archived=filters.archived,
        is_expired=filters.expired,
        includes_archived=filters.include_archived,
        includes_expired=filters.include_expired,
    )


def _refuse_empty(name: str, values: Sequence[str]) -> None:
    if not all(map(str.strip, values)):
        raise BadRequest(f"filter `{name}` has an empty value", hint="name one, or leave it out")


def _read_choices(name: str, values: Sequence[str]) -> tuple[str, ...]:
    choices = []
    for value in values:
        choice = find_choice(name, value)
        if choice is None:
            raise BadRequest(
                f"filter `{name}` is none of {', '.join(CHOICES[name])}: {value[:40]}",
                hint="use one of these",
            )
        choices.append(choice)
    return tuple(choices)


def _read_condition(text: str, today: date) -> str:
    condition = parse_condition(text, today)
    if condition is None:
        raise BadRequest(
            f"filter `meta` is neither KEY=VALUE nor a comparison: {text[:40]}",
            hint="write for example owner=infra, rating>=7 or due<2026-12-01",
        )
    return "".join(condition)


def _read_day(name: str, text: str | None, today: date) -> str | None:
    if text is None:
        return None
    day = parse_day(text, today)
    if day is None:
        raise BadRequest(
            f"filter `{name}` is no date: {text[:40]}",
            hint=f"write {DAY_FORM}",
        )
    return day
