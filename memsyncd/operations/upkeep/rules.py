"""Plan by a rule, which judges every memory of a workspace by its age, its worth or its expiry.

A memory that nobody has recalled and that has not expired is judged by its outlook and its age
alone. So an index counts the memories that a rule changes, retains and skips, in the order of their
moments. Another index counts the expired ones. Memories are judged one by one where this does not
tell: near a moment at which the verdict changes, because the index knows a moment to about a day
only, and if they were recalled. Then the notes of the page that is shown are read. In a list with
up to MAX_LISTED memories the index tells which notes these are; otherwise notes are read by path
until the page is full.

A plan that would judge or read more than a short read may is made as a long work.

Such a plan has a digest of the memories that it changes, and the generation at which it was made.
It is out of date if these memories are others, or if one of their notes has changed since.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cached_property

import msgspec

from memsyncd.config import Config
from memsyncd.core.digest import digest_bytes
from memsyncd.core.editing.kinds import find_importance, find_kind
from memsyncd.core.memories import Outlook, find_outlook
from memsyncd.core.model import compute_worth
from memsyncd.engine.memories import PLAN_LIMIT_S, Memory, list_memories
from memsyncd.engine.metadata import (
    Valuation,
    find_moment_s,
    find_stored_day,
    find_stored_moment_s,
    is_expired,
)
from memsyncd.engine.workspace import Workspace
from memsyncd.operations.plans import (
    Act,
    LongPlan,
    Page,
    PlanMaker,
    Planned,
    Verdict,
    explain_protection,
    read_notes,
)
from memsyncd.store.connection import pause_or_end
from memsyncd.store.integrity import read_generation
from memsyncd.store.lookup import read_note_paths
from memsyncd.store.outlooks import (
    Range,
    TimedMemory,
    count_expired,
    count_memories,
    find_expired,
    find_memory_ids,
    mark_section,
    place_memories,
    read_outlooks,
    read_timed_by_anchor,
    stream_timed,
)
from memsyncd.store.pool import Reader
from memsyncd.store.sections import read_outlines

# The index has the moment of a text without a time zone as if it were in UTC, and the day on which
# a note was saved in UTC: so far it may be from the time from which the age of a memory counts.
MARGIN_S = 25 * 3600
_FIRST, _AFTER = -(2**62), 2**62
NOTES_PER_WALK = 20
MAX_LISTED = 2_000
# A short read judges at most so many memories one by one, and reads so many notes by path.
MAX_JUDGED, MAX_WALKED = 2_000, 200


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """Judges memories. `below` is a limit of worth; `limits_s` has the greatest age by lifecycle.
    Expired memories are changed if `is_expiring`.
    """

    config: Config
    valuation: Valuation
    below: float | None
    limits_s: Mapping[str, float] = {}
    is_expiring: bool = False
    is_protected_first: bool = False
    """A protected memory is skipped, also if the rule would retain it, and an archived one counts
    as protected. Each other memory that is not changed counts as retained. Otherwise the rule
    concerns no archived memory.
    """

    def judge(
        self, outlook: Outlook, moment_s: float, n_accesses: int, *, has_expired: bool
    ) -> Verdict | None:
        """Judge a memory whose age counts from a moment; None if the rule does not concern it."""
        if self.is_protected_first and (refusal := explain_protection(outlook, self.config)):
            return "skip", refusal
        if outlook.is_archived:
            return None
        reason = self._find_reason(outlook, moment_s, n_accesses, has_expired=has_expired)
        if reason is None:
            if self.is_protected_first:
                return "retain", "worth"
            is_concerned = self.below is not None or (outlook.lifecycle or "") in self.limits_s
            return ("retain", "in time") if is_concerned else None
        refusal = explain_protection(outlook, self.config)
        return ("skip", refusal) if refusal else ("change", reason)

    def _find_reason(
        self, outlook: Outlook, moment_s: float, n_accesses: int, *, has_expired: bool
    ) -> str | None:
        if has_expired and self.is_expiring:
            return "expired"
        limit_s = self.limits_s.get(outlook.lifecycle or "")
        if limit_s is not None and self.valuation.now_s - moment_s > limit_s:
            return outlook.lifecycle
        if self.below is not None:
            worth = compute_worth(
                age_s=self.valuation.now_s - moment_s,
                half_life=find_kind(self.valuation.kinds, outlook.kind).half_life,
                n_accesses=n_accesses,
                priority=outlook.priority,
                importance=self._find_importance(outlook),
            ).value
            if round(worth, 4) < self.below:
                return "worth"
        return None

    def judge_memory(self, memory: Memory) -> Verdict | None:
        head = memory.head
        return self.judge(
            find_outlook(memory.sections),
            find_stored_moment_s(head),
            self.valuation.accesses.get(head.anchor, 0),
            has_expired=self.is_expiring and is_expired(head.expires, self.valuation.now_s),
        )

    def find_cuts(self, outlook: Outlook) -> list[float]:
        """Return the moments at which the verdict changes, if it was not recalled."""
        now_s, cuts = self.valuation.now_s, list[float]()
        if outlook.is_archived:
            return cuts
        if (limit_s := self.limits_s.get(outlook.lifecycle or "")) is not None:
            cuts.append(now_s - limit_s)
        if self.below is not None and self.below > 0:
            newest = compute_worth(
                age_s=0.0,
                half_life=1.0,
                n_accesses=0,
                priority=outlook.priority,
                importance=self._find_importance(outlook),
            ).value
            # The worth is rounded before it is compared.
            limit = (math.ceil(self.below * 1e4 - 1e-7) - 0.5) / 1e4
            if newest > 0 and limit > 0:
                half_life_s = find_kind(self.valuation.kinds, outlook.kind).half_life * 86_400
                cuts.append(now_s - half_life_s * max(0.0, math.log(newest / limit)))
        return cuts

    def _find_importance(self, outlook: Outlook) -> float:
        return find_importance(self.valuation.kinds, outlook.kind, outlook.importance)


class _Part(msgspec.Struct):
    """The memories of an outlook between two moments. Without a verdict they are judged one by one,
    or the rule does not concern them.
    """

    range: Range
    is_certain: bool
    verdict: Verdict | None = None


_Verdicts = tuple[Verdict | None, Verdict | None]
"""The verdict of the part of a memory, and its own."""


def divide(rule: Rule, number: int, outlook: Outlook) -> list[_Part]:
    """Divide the memories of an outlook by their moments, into parts that adjoin."""
    edges = [_FIRST]
    for cut in sorted(rule.find_cuts(outlook)):
        edges += max(edges[-1], math.floor(cut) - MARGIN_S), math.ceil(cut) + MARGIN_S
    parts = []
    for at, (first, after) in enumerate(zip(edges, [*edges[1:], _AFTER], strict=True)):
        if first < after:
            part = _Part(Range(number, first, after), is_certain=at % 2 == 0)
            if part.is_certain:
                moment = after - 1 if first == _FIRST else first
                part.verdict = rule.judge(outlook, moment, 0, has_expired=False)
            parts.append(part)
    return parts


class RuleCounts:
    """The numbers of the memories that a rule changes, retains and skips, and the sum of the
    marks of the changed ones. Raises LongPlan if a short read would have to judge too many.
    """

    def __init__(self, reader: Reader, rule: Rule, *, is_short: bool = False) -> None:
        self._reader = reader
        self._rule = rule
        self._outlooks = read_outlooks(reader)
        self._parts = {
            number: divide(rule, number, outlook) for number, outlook in self._outlooks.items()
        }
        self.counts = {"change": 0, "retain": 0, "skip": 0}
        self.total = 0
        self._moved: dict[int, _Verdicts] = {}
        """The memories that were judged one by one."""
        now_s = rule.valuation.now_s
        local, utc = (datetime.fromtimestamp(now_s, zone).isoformat() for zone in (None, UTC))
        self._now = local, utc
        n_others = self._count()
        if is_short and n_others > MAX_JUDGED:
            raise LongPlan
        self._judge_others()

    def _list_parts(self) -> Iterator[_Part]:
        for parts in self._parts.values():
            yield from parts

    def _count(self) -> int:
        """Count the memories of the parts, and the expired ones by the verdict that these have;
        return at most how many others must be judged.
        """
        n_others = 0
        parts = [part for part in self._list_parts() if part.verdict or not part.is_certain]
        counts = count_memories(self._reader, [part.range for part in parts])
        for part, (n, total) in zip(parts, counts, strict=True):
            self._add(part.verdict, n, total)
            n_others += 0 if part.is_certain else n
        if self._rule.is_expiring:
            edges = {part.range.first for part in self._list_parts()} - {_FIRST}
            expired = count_expired(self._reader, *self._now, edges)
            for number, moment, n, total in expired:
                self._add(self._find_part(number, moment).verdict, -n, -total)
                self._add(self._expired_verdicts[number], n, total)
        return n_others + (
            len(self._rule.valuation.accesses) if self._rule.below is not None else 0
        )

    @cached_property
    def _expired_verdicts(self) -> dict[int, Verdict | None]:
        """The verdict of an expired memory by its outlook."""
        return {
            number: self._rule.judge(outlook, 0, 0, has_expired=True)
            for number, outlook in self._outlooks.items()
        }

    def _find_part(self, number: int, moment: int) -> _Part:
        parts = self._parts[number]
        return parts[bisect_right(parts, moment, key=lambda part: part.range.after)]

    def _add(self, verdict: Verdict | None, n: int, total: int) -> None:
        if verdict is not None:
            self.counts[verdict[0]] += n
            self.total += total if verdict[0] == "change" else 0

    def _judge_others(self) -> None:
        valuation = self._rule.valuation
        done: set[int] = set()
        if self._rule.below is not None and valuation.accesses:
            named = read_timed_by_anchor(self._reader, valuation.accesses)
            self._judge_timed(
                ((memory, valuation.accesses[anchor]) for anchor, memory in named.items()), done
            )
        uncertain = [part.range for part in self._list_parts() if not part.is_certain]
        with stream_timed(self._reader, uncertain) as timed:
            self._judge_timed(((memory, 0) for memory in timed), done)

    def _judge_timed(self, memories: Iterable[tuple[TimedMemory, int]], done: set[int]) -> None:
        """Count memories that have not expired by their own verdict, not by that of their part."""
        rule, now_s = self._rule, self._rule.valuation.now_s
        for memory, n_accesses in memories:
            pause_or_end()
            section = memory.section
            if section in done or (rule.is_expiring and is_expired(memory.expires, now_s)):
                continue
            done.add(section)
            moment_s = find_moment_s(memory.updated, memory.created, find_stored_day(memory))
            outlook = self._outlooks[memory.outlook]
            old = self._find_part(memory.outlook, memory.moment).verdict
            new = rule.judge(outlook, moment_s, n_accesses, has_expired=False)
            self._add(old, -1, -mark_section(section))
            self._add(new, 1, mark_section(section))
            self._moved[section] = old, new

    def find_sections(self, kind: str) -> set[int]:
        """Return the ids of the first sections of the memories with a verdict. The time grows with
        their number.
        """
        ranges = [
            part.range
            for part in self._list_parts()
            if part.verdict is not None and part.verdict[0] == kind
        ]
        sections = {*find_memory_ids(self._reader, ranges)}
        for section, (before, after) in self._list_moved():
            if before and before[0] == kind:
                sections.discard(section)
            if after and after[0] == kind:
                sections.add(section)
        return sections

    def _list_moved(self) -> Iterator[tuple[int, _Verdicts]]:
        yield from self._moved.items()
        if self._rule.is_expiring:
            for section, number, moment in find_expired(self._reader, *self._now):
                pause_or_end()
                part = self._find_part(number, moment)
                yield section, (part.verdict, self._expired_verdicts[number])


def plan_by_rule(
    workspace: Workspace,
    act: Act,
    rule: Rule,
    page: Page,
    *,
    is_whole: bool,
    is_short: bool = False,
) -> Planned:
    """Plan to change the memories of a workspace by a rule. With `is_whole`, the plan has all of
    them, otherwise the memories of the page. With `is_short`, raises LongPlan instead of reading
    more than a short read may.
    """
    shown: dict[str, set[int]] = {}
    left: set[str] = set()
    n_last = page.offset + page.limit
    with workspace.acquire(PLAN_LIMIT_S) as reader:
        counted = RuleCounts(reader, rule, is_short=is_short)
        for kind, n in counted.counts.items():
            must_read = is_whole and kind == "change"
            if page.offset >= n and not must_read:
                shown[kind] = set()
            elif n <= MAX_LISTED or must_read:
                placed = place_memories(reader, counted.find_sections(kind))
                shown[kind] = {section for section, _ in placed[page.offset : n_last]}
                read = placed if must_read else placed[page.offset : n_last]
                left.update(path for _, path in read)
        walked = counted.counts.keys() - shown.keys()
        generation = read_generation(reader)
    maker = PlanMaker(act, rule.judge_memory, rule.valuation)

    def has(kind: str, memory: Memory, at: int) -> bool:
        return page.has(at) if kind in walked else memory.head.section in shown[kind]

    after, n_walked = "", 0
    while any(maker.counts[kind] < min(n_last, counted.counts[kind]) for kind in walked):
        if is_short and n_walked >= MAX_WALKED:
            raise LongPlan
        with workspace.acquire(PLAN_LIMIT_S) as reader:
            paths = read_note_paths(reader, after=after, limit=NOTES_PER_WALK)
            notes = read_outlines(reader, paths)
        if not paths:
            break
        after, n_walked = paths[-1], n_walked + len(paths)
        left.difference_update(paths)
        maker.add(list_memories(notes), has)
    for _, notes in read_notes(workspace, sorted(left)):
        maker.add(list_memories(notes), has)
    counts, total = counted.counts, counted.total
    if is_whole:
        # A save may have come between.
        counts, total = counts | {"change": maker.counts["change"]}, maker.total
    digest = digest_bytes(msgspec.json.encode([act, counts["change"], total]))
    return maker.finish(f"{generation}-{digest}", counts)
