"""Order the memories of a task, render them within a number of bytes, and summarise them.

Everything is decided by the sections alone, so that the same notes give the same text.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence

import msgspec

from memsyncd.core.model import ARCHIVED

FINISHED = frozenset({"done", "closed", "resolved", "fixed", "cancelled", "wontfix"})
CLOSED = FINISHED | {ARCHIVED}
BLOCKED = "blocked"
ENDED = "done"
"""The status of the section that records the end of a session."""
# Kinds that record events: nobody works on them.
RECORDS = frozenset({"session", "checkpoint", "summary"})
LAST_PRIORITY = "P9"
PROJECT = "project"
# A longer entry is cut, so that one memory does not take the room of all.
ENTRY_BYTES = 600
LEAST_BYTES = 60
_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|\n\s*\n|\n(?=\s*[-*+] )")
_WORD = re.compile(r"\w{3,}")
# The line that names the source of a promotion.
_SOURCE_LINE = re.compile(r"^[ \t]*[-*+] discovered_from \[\[[^\]\n]*\]\][ \t]*$", re.MULTILINE)
# A shorter text may be in another one by chance.
LEAST_TOLD_WORDS = 4
_CITATION = re.compile(r"\(\S+:\d+\)\s*$")
_ANY_WORD = re.compile(r"\w+")
_LIST_MARK = re.compile(r"^[-*+>#\s]+")


class TaskItem(msgspec.Struct, frozen=True, kw_only=True):
    """A section, with the metadata that tasks need. `time` is when it was created, in ISO form;
    `stated` is further metadata to show behind its text. `source` is the anchor of the section that
    it was promoted from.
    """

    anchor: str
    path: str
    start_line: int
    end_line: int
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

    @property
    def fact(self) -> str:
        """The text on one line, without the line that names its source."""
        return " ".join(_SOURCE_LINE.sub("", self.body).split())

    @property
    def is_open(self) -> bool:
        return self.status not in CLOSED


class TaskGroup(msgspec.Struct, frozen=True):
    """Sections beneath one heading of a block, best first; they take `share` of its bytes at
    most.
    """

    title: str
    items: Sequence[TaskItem]
    share: float = 1.0


class WorkItems(msgspec.Struct, frozen=True, kw_only=True):
    """The sections of a task or session. `first` and `last` are the times of the first and the last
    section, in ISO form; `tasks` has their tasks in order of name.
    """

    name: str
    items: Sequence[TaskItem]
    n_open: int
    first: str
    last: str
    tasks: Sequence[str]
    is_ended: bool


class TaskBlock(msgspec.Struct, frozen=True, kw_only=True):
    """A block of markdown, and the anchors of the sections that it includes and leaves out."""

    text: str
    included: tuple[str, ...]
    left_out: tuple[str, ...]


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


def group_by(items: Iterable[TaskItem], read_name: Callable[[TaskItem], str]) -> list[WorkItems]:
    """Group the sections by name, the group with the latest section first; sections without a name
    are left out.

    A group is ended if its latest section records the end of a session.
    """
    named: dict[str, list[TaskItem]] = {}
    for item in items:
        if name := read_name(item):
            named.setdefault(name, []).append(item)
    groups = []
    for name, group in named.items():
        times = [item.time for item in group]
        ends = [item.time for item in group if item.kind == "session" and item.status == ENDED]
        groups.append(
            WorkItems(
                name=name,
                items=group,
                n_open=sum(1 for item in group if item.is_open and item.kind not in RECORDS),
                first=min(times),
                last=max(times),
                tasks=sorted({item.task for item in group if item.task}),
                is_ended=bool(ends) and max(ends) == max(times),
            )
        )
    groups.sort(key=lambda group: group.name)
    return sorted(groups, key=lambda group: group.last, reverse=True)


def group_for_task(
    items: Sequence[TaskItem], task: str, value: ItemValue | None = None
) -> tuple[TaskGroup, ...]:
    """Return profile, summaries, task and discoveries, each by `value`, else the latest first."""
    own = [item for item in items if item.task == task]
    lasting = [item for item in items if item.task != task]
    return (
        TaskGroup("Project profile", order_profile(lasting, value), 0.5),
        TaskGroup(
            "Summaries",
            _order([own_section for own_section in own if own_section.kind == "summary"], value),
        ),
        TaskGroup(
            f"Task {task}",
            _order(
                [
                    own_section
                    for own_section in own
                    if own_section.kind not in ("summary", "discovery")
                ],
                value,
            ),
        ),
        TaskGroup(
            "Discoveries",
            _order([own_section for own_section in own if own_section.kind == "discovery"], value),
        ),
    )


def group_for_session(
    items: Sequence[TaskItem], *, task: str | None, session_anchors: Collection[str]
) -> tuple[TaskGroup, ...]:
    """Return the groups that restore an agent: the last checkpoint, open discoveries and ready
    sections, of a task or of the session's own sections.
    """
    own = [item for item in items if item.anchor in session_anchors or (task and item.task == task)]
    checkpoints = _order(
        [own_section for own_section in own if own_section.kind == "checkpoint"], None
    )
    summaries = _order([own_section for own_section in own if own_section.kind == "summary"], None)
    discoveries = [
        own_section
        for own_section in own
        if own_section.kind == "discovery" and own_section.is_open
    ]
    tasks = {own_section.task for own_section in own if own_section.task}
    ready = [section for name in sorted(tasks) for section in find_ready(items, name)[0]]
    return (
        TaskGroup("Last checkpoint", checkpoints[:1]),
        TaskGroup("Summary", summaries[:1]),
        TaskGroup("Open discoveries", _order(discoveries, None)),
        TaskGroup("Ready", [section for section in ready if section.kind != "discovery"]),
    )


# --- blocks -------------------------------------------------------------------------------------


def render_block(groups: Iterable[TaskGroup], *, max_bytes: int, top: str = "") -> TaskBlock:
    """Render groups in their order, at most `max_bytes` of UTF-8; empty if no section fits.

    `top` comes first, if anything follows it or if it says something by itself. A fact stands in it
    once: a section is left out if the block has its promotion or the whole of its text.
    """
    lines = [top] if top else []
    room = max_bytes - len(top.encode())
    included: list[str] = []
    left_out: list[str] = []
    told = _Told()
    for group in groups:
        title = f"## {group.title}"
        # Its title, and the blank line above.
        left = min(room, int(max_bytes * group.share)) - len(title.encode()) - 3
        entries: list[str] = []
        for item in group.items:
            entry = "" if told.holds(item) else _render_entry(item, left)
            if entry:
                entries.append(entry)
                told.add(item, entry)
                left -= len(entry.encode()) + 1
            (included if entry else left_out).append(item.anchor)
        if entries:
            text = "\n".join((title, *entries))
            room -= len(text.encode()) + 2
            lines.append(text)
    text = "\n\n".join(lines)
    return TaskBlock(
        text=f"{text}\n" if text and len(text.encode()) < max_bytes else "",
        included=tuple(included),
        left_out=tuple(left_out),
    )


class _Told:
    """The facts that a block has."""

    def __init__(self) -> None:
        self._sources: set[str] = set()
        self._facts: set[tuple[str, str]] = set()
        self._entries: list[str] = []

    def holds(self, item: TaskItem) -> bool:
        """True if the block has a promotion of a section, its heading and text, or a text that
        includes its own. Work is shown even if other sections mention it.
        """
        if item.anchor in self._sources or (item.heading, item.fact) in self._facts:
            return True
        if item.priority or item.status:
            return False
        # Each line of a summary is a fact, with a citation behind it.
        lines = item.body.splitlines() if item.kind == "summary" else [item.fact]
        texts = [_list_all_words(_CITATION.sub("", line)) for line in lines if line.strip()]
        if sum(text.count(" ") - 1 for text in texts) < LEAST_TOLD_WORDS:
            return False
        return all(any(text in entry for entry in self._entries) for text in texts)

    def add(self, item: TaskItem, entry: str) -> None:
        """Add a section, and its entry as the block shows it."""
        if item.source:
            self._sources.add(item.source)
        if item.fact:
            self._facts.add((item.heading, item.fact))
        self._entries.append(_list_all_words(entry))


def _list_all_words(text: str) -> str:
    """The words of a text, in lower case, with a blank before and behind each."""
    return f" {' '.join(_ANY_WORD.findall(text.lower()))} "


def _render_entry(item: TaskItem, room: int) -> str:
    """One line, cut to the room; empty if there is too little."""
    marks = ", ".join(filter(None, (item.time[:10], item.kind, item.priority, item.status)))
    place = f"- {item.path}:{item.start_line}-{item.end_line} ({marks})"
    text = " ".join(filter(None, (item.fact, f"({item.stated})" if item.stated else "")))
    # A memory without a summary has the beginning of its text as its heading.
    is_repeated = text.startswith(item.heading.removesuffix("…"))
    head = place if is_repeated else f"{place} {item.heading}"
    line = f"{head}{' ' if is_repeated else ': '}{text}" if text else head
    limit = min(room, ENTRY_BYTES)
    if len(line.encode()) <= limit:
        return line
    if limit < LEAST_BYTES or limit < len(head.encode()) + 4:
        return ""
    return cut_text(line, limit)


def cut_text(text: str, max_bytes: int) -> str:
    """Cut a text between words to at most `max_bytes`, with `…` at its end."""
    if len(text.encode()) <= max_bytes:
        return text
    kept = text.encode()[: max_bytes - len("…".encode())].decode(errors="ignore")
    return (kept.rpartition(" ")[0] or kept) + "…"


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
        for part in _SENTENCE_END.split(_SOURCE_LINE.sub("", item.body))
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
