"""Order the memories of a task or session, and summarise them.

`context` makes a block of them.

Everything is decided by the sections alone, so that the same notes give the same text.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

import msgspec

from memsyncd.core.model import ARCHIVED, QUARTERS_PER_TOKEN, Span
from memsyncd.core.search.context import SOURCE_LINE, ContextChunk, MemoryFacts, shorten

FINISHED = frozenset({"done", "closed", "resolved", "fixed", "cancelled", "wontfix"})
CLOSED = FINISHED | {ARCHIVED}
BLOCKED = "blocked"
ENDED = "done"
"""The status of the section that records the end of a session."""
# Kinds that record events: nobody works on them.
RECORDS = frozenset({"session", "checkpoint", "summary"})
LAST_PRIORITY = "P9"
PROJECT = "project"
# A longer memory is cut, so that it does not take the room of all: to this part of the room, and at
# least to so many bytes.
ENTRY_SHARE = 8
ENTRY_BYTES = 600
PROFILE_SHARE = 0.5
_OWN_PARTS = ("checkpoint", "summary", "discovery")
_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|\n\s*\n|\n(?=\s*[-*+] )")
_WORD = re.compile(r"\w{3,}")
_LIST_MARK = re.compile(r"^[-*+>#\s]+")


class TaskItem(msgspec.Struct, frozen=True, kw_only=True):
    """A section, with the metadata that tasks need. `time` is when it was created, in ISO form;
    `stated` is further metadata to show behind its text. `source` is the anchor of the section that
    it was promoted from. `conflict` is the mark of the other text of a conflict. `body` begins in
    the line `body_line`.
    """

    anchor: str
    path: str
    start_line: int
    end_line: int
    body_line: int
    heading: str
    body: str
    kind: str
    priority: str | None
    task: str
    lifecycle: str | None
    status: str
    tags: tuple[str, ...]
    importance: float
    time: str
    blocked_by: tuple[str, ...] = ()
    session: str = ""
    stated: str = ""
    source: str = ""
    conflict: str = ""

    @property
    def fact(self) -> str:
        """The text on one line, without the line that names its source."""
        return " ".join(SOURCE_LINE.sub("", self.body).split())

    @property
    def is_open(self) -> bool:
        return self.status not in CLOSED


ItemValue = Callable[[TaskItem], float]

# --- order --------------------------------------------------------------------------------------


def find_ready(
    items: Sequence[TaskItem], task: str | None, *, closed: Collection[str] = CLOSED
) -> tuple[list[TaskItem], int]:
    """Return the sections of a task, or of all tasks, that are not `closed`, P0 first and then the
    oldest; and how many are left out because they are blocked.

    A section is blocked by its status, or by a task, section or note that it names in `blocked_by`
    and that is not known to be done.
    """
    work = [
        item
        for item in items
        if item.status not in closed
        and item.kind not in RECORDS
        and (item.task == task if task else item.task)
    ]
    done = _find_done(items)
    ready = [item for item in work if item.status != BLOCKED and done.issuperset(item.blocked_by)]
    return sorted(ready, key=_by_priority), len(work) - len(ready)


def _find_done(items: Iterable[TaskItem]) -> set[str]:
    """The anchors of closed sections, and the tasks and notes whose sections with a status are all
    closed.
    """
    states: dict[str, list[bool]] = {}
    for item in items:
        if item.status:
            states.setdefault(item.anchor, []).append(not item.is_open)
            states.setdefault(item.task, []).append(not item.is_open)
            states.setdefault(item.path, []).append(not item.is_open)
    return {name for name, are_closed in states.items() if all(are_closed)}


def _by_priority(item: TaskItem) -> tuple[object, ...]:
    return item.priority or LAST_PRIORITY, item.time, item.path, item.start_line


def order_profile(items: Iterable[TaskItem], value: ItemValue | None = None) -> list[TaskItem]:
    """Return the sections about the whole project: by `value`, else the most important first.

    Archived sections are among the items only if they are asked for.
    """
    lasting = [item for item in items if item.lifecycle == PROJECT and item.status not in FINISHED]
    return _order(lasting, value or (lambda item: item.importance))


def _order(items: Iterable[TaskItem], value: ItemValue | None) -> list[TaskItem]:
    """By `value`, the largest first; then the latest, and by place."""
    ordered = sorted(items, key=lambda item: (item.path, item.start_line))
    ordered.sort(key=lambda item: item.time, reverse=True)
    return sorted(ordered, key=lambda item: -value(item)) if value else ordered


class WorkPart(NamedTuple):
    """Sections beneath one heading of a block, best first. `reason` says in an answer why they are
    there; they take `share` of the room at most, until all others have had their turn.
    """

    title: str
    reason: str
    items: Sequence[TaskItem]
    share: float = 1.0


def list_memory_parts(
    items: Sequence[TaskItem],
    lasting: Sequence[TaskItem] = (),
    *,
    task: str | None = None,
    session: str | None = None,
    is_resuming: bool = False,
    is_whole: bool = False,
    value: ItemValue | None = None,
) -> list[WorkPart]:
    """Return the parts of a block about a project, whose sections are `lasting`, and a task or
    session, each by `value`, else the latest first. A section may be in several.

    With `is_resuming`, the parts have what an agent needs to go on; with `is_whole`, all other
    sections, too.
    """
    own = [
        item
        for item in items
        if (task and item.task == task) or (session and item.session == session)
    ]
    kinds: dict[str, list[TaskItem]] = {}
    for item in _order(own, value):
        kinds.setdefault(item.kind if item.kind in _OWN_PARTS else "", []).append(item)
    checkpoints, summaries, discoveries = (kinds.get(kind, []) for kind in _OWN_PARTS)
    profile = order_profile([item for item in lasting if not task or item.task != task], value)
    parts = [WorkPart("Project profile", "profile", profile, PROFILE_SHARE)]
    if is_resuming:
        others = [item for item in kinds.get("", []) if not session or item.session == session]
        goals = [item for item in others if _states_goal(item)]
        if not is_whole:  # else the session's other sections have it
            parts.append(WorkPart("Goal", "session", _order(goals, None)[:1]))
        parts.append(WorkPart("Last checkpoint", "checkpoint", _order(checkpoints, None)[:1]))
    parts.append(WorkPart("Summaries", "summary", summaries if is_whole else summaries[:1]))
    if is_resuming:
        tasks = sorted({item.task for item in own if item.task})
        ready = [item for name in tasks for item in find_ready(items, name)[0]]
        opened = [item for item in discoveries if item.is_open]
        parts += [
            WorkPart("Open discoveries", "discovery", opened),
            WorkPart("Ready", "ready", [item for item in ready if item.kind != "discovery"]),
        ]
    if is_whole:
        others = _order([*checkpoints, *kinds.get("", [])], value)
        title = f"Task {task}" if task else f"Session {session}"
        parts += [
            WorkPart(title, "task" if task else "session", others),
            WorkPart("Discoveries", "discovery", discoveries),
        ]
    return parts


def describe_beginning(session: str, task: str | None) -> str:
    """The text of the section that records the beginning of a session without a goal."""
    return f"Session {session}{f' of task {task}' if task else ''} began."


def _states_goal(item: TaskItem) -> bool:
    return (
        item.kind == "session"
        and item.status != ENDED
        and item.body != describe_beginning(item.session, item.task)
    )


def make_memory_chunks(parts: Iterable[WorkPart], *, max_bytes: int) -> list[ContextChunk]:
    """Return the sections of the parts as chunks of a block of `max_bytes`, in the order of
    filling: a part with less than all of the room comes first. They come before other chunks in the
    block.
    """
    parts = [*parts]
    chunks = [
        _make_chunk(item, part, group, rank, max(ENTRY_BYTES, max_bytes // ENTRY_SHARE))
        for group, part in enumerate(parts, -len(parts))
        for rank, item in enumerate(part.items)
    ]
    return sorted(chunks, key=lambda chunk: chunk.share)


def _make_chunk(
    item: TaskItem, part: WorkPart, group: int, rank: int, max_bytes: int
) -> ContextChunk:
    # A line that names the source counts as shown: it stays as a blank line.
    body = SOURCE_LINE.sub("", item.body)
    said = body.rstrip()
    stated = f" ({item.stated})" if item.stated else ""
    text = f"{said}{stated}".strip() + body[len(said) :]
    lines = shorten(text, QUARTERS_PER_TOKEN * max_bytes, max_bytes).split("\n")
    above = [""] * (item.body_line - item.start_line)
    # A memory without a summary has the beginning of its text as its heading.
    is_repeated = item.fact.startswith(item.heading.removesuffix("…"))
    facts = (item.time[:10], item.kind, item.priority, item.status, item.conflict)
    marks = ", ".join(filter(None, facts))
    return ContextChunk(
        path=item.path,
        anchor=item.anchor,
        heading=() if is_repeated else (item.heading,),
        kind=item.kind or None,
        span=Span(item.start_line, item.start_line + len(above) + len(lines) - 1),
        text="\n".join((*above, *lines)),
        reason=part.reason,
        place=(0, float(rank)),
        group=group,
        part=f"## {part.title}",
        memory=MemoryFacts(marks, item.source, is_work=bool(item.priority or item.status)),
        share=part.share,
    )


# --- summaries ----------------------------------------------------------------------------------


def summarize(items: Sequence[TaskItem], *, max_bytes: int) -> str:
    """Return the sentences with the most frequent words of these sections, in their order, as a
    list that cites each.

    Extractive after Luhn (1958): a sentence's score is the mean weight of its words, where a word
    weighs the logarithm of its occurrences; very short sentences count for less.
    """
    sentences = [
        (item, " ".join(_LIST_MARK.sub("", part).split()))
        for item in items
        for part in _SENTENCE_END.split(SOURCE_LINE.sub("", item.body))
    ]
    counts = Counter(word for _, text in sentences for word in _list_words(text))
    scored = [(_score(text, counts), at) for at, (_, text) in enumerate(sentences) if text]
    chosen: dict[int, str] = {}
    seen: set[str] = set()
    left = max_bytes
    for score, at in sorted(scored, key=lambda sentence: (-sentence[0], sentence[1])):
        item, text = sentences[at]
        line = f"- {text} ({item.path}:{item.start_line})\n"
        if score > 0 and text not in seen and len(line.encode()) <= left:
            chosen[at] = line
            seen.add(text)
            left -= len(line.encode())
    return "".join(chosen[at] for at in sorted(chosen))


def _list_words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _score(text: str, counts: Counter[str]) -> float:
    words = _list_words(text)
    return sum(math.log1p(counts[word]) for word in words) / (len(words) + 3)
