"""Two agents and an editor work on one note at once, by all acts of the life cycle: no act is lost
and no reader sees a torn note.
"""

from __future__ import annotations

import collections
import os
import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from memsyncd.client import Memsyncd
from memsyncd.core.digest import digest_bytes
from memsyncd.errors import Conflict, NoteNotFound
from tests.daemon.conftest import Place as DaemonPlace
from tests.daemon.conftest import wait_until

if TYPE_CHECKING:
    from tests.daemon.conftest import Home, Place

pytestmark = pytest.mark.shared_daemon

NOTE = ".memories/log.md"
START = "# Log\n\n## Editor\n\nThe editor's lines:\n"
TASK = "WU-1"
N_ACTS, MINUTE_S = 25, 60.0
# A guard against hanging.
LONGEST_S = 120.0


class Agent:
    """Carries out acts by chance, and keeps what the daemon has acknowledged."""

    def __init__(self, place: Place, name: str, other: str) -> None:
        self.memory = Memsyncd(place.root, env=place.env, client=name)
        self.name, self.other = name, other
        self.added: list[str] = []
        self.headings: dict[str, str] = {}
        self.changes: list[tuple[int | str, str]] = []
        """The change set of each act on the note, or the note's digest after it, and its line."""
        self.missing: set[str] = set()
        """The anchors that an act did not find."""
        self.promoted: set[str] = set()
        self.checkpoints: list[str] = []
        self.accesses: collections.Counter[str] = collections.Counter()
        self.sent: list[str] = []
        self.received: list[str] = []
        self._chance = random.Random(name)
        self._chosen = ""

    def act(self) -> None:
        acts: list[Callable[[], None]] = [self._add, self._checkpoint, self._send, self._receive]
        if self.added:
            acts += [self._archive, self._archive, self._promote, self._access, self._recall]
        try:
            self._chance.choice(acts)()
        except NoteNotFound:
            self.missing.add(self._chosen)

    def _choose(self) -> str:
        self._chosen = self._chance.choice(self.added)
        return self._chosen

    def _add(self) -> None:
        heading = f"{self.name} {len(self.added)}"
        line = f"Said by {heading}."
        added = self.memory.add(line, summary=heading, note=NOTE, task=TASK, kind="note")
        self.added.append(added["anchor"])
        self.headings[added["anchor"]] = heading
        self.changes.append((added["digest"], f"+{line}"))

    def _archive(self) -> None:
        anchor = self._choose()
        done = self.memory.archive(anchor, apply=True)
        status = "+"
        if not done["archived"]:
            done, status = self.memory.unarchive(anchor, apply=True), "-"
        if done["change_set"] is not None:
            self.changes.append((done["change_set"], f"{status}<!-- memory:"))

    def _promote(self) -> None:
        anchor = self._choose()
        done = self.memory.promote(anchor, tag="decision", apply=True)
        if done["promoted"]:
            self.promoted.add(self.headings[anchor])

    def _checkpoint(self) -> None:
        text = f"Step {len(self.checkpoints)} of {self.name}."
        self.memory.checkpoint(text, task=TASK)
        self.checkpoints.append(text)

    def _access(self) -> None:
        anchor = self._choose()
        self.memory.record_access(anchor)
        self.accesses[anchor] += 1

    def _recall(self) -> None:
        self.memory.recall(text=self.name, track_access=False)
        self.memory.task_context(TASK, track_access=False)

    def _send(self) -> None:
        text = f"{self.name} says {len(self.sent)}"
        self.memory.send_signal(text, agent=self.other)
        self.sent.append(text)

    def _receive(self) -> None:
        found = self.memory.inbox(agent=self.name)
        if found:
            self.memory.ack_signals(*(signal["id"] for signal in found), agent=self.name)
            self.received += [signal["content"] for signal in found]


class Editor:
    """Adds lines to its section, as editors save: it reads, looks again, and replaces the file."""

    def __init__(self, place: Place) -> None:
        self._note = place.root / NOTE
        self._fresh = place.root / ".memories" / ".log.md.swp"
        self.lines: list[str] = []
        self.seen: set[str] = set()
        self.saved: set[str] = set()

    def act(self) -> None:
        text = self._note.read_text()
        self.seen.add(digest_bytes(text.encode()))
        assert text.startswith("# Log\n"), text[:80]
        line = f"Edited {len(self.lines)}."
        before, _, after = text.partition("The editor's lines:\n")
        self._fresh.write_text(f"{before}The editor's lines:\n{line}\n{after}")
        if self._note.read_text() != text:
            return  # like an editor that reports the changed file and loads it again
        self.saved.add(digest_bytes(self._fresh.read_bytes()))
        os.replace(self._fresh, self._note)
        self.lines.append(line)


def work(act: Callable[[], None], is_over: Callable[[int], bool]) -> None:
    n_acts = 0
    end_s = time.monotonic() + LONGEST_S
    while not is_over(n_acts):
        assert time.monotonic() < end_s, "the acts take too long"
        try:
            act()
        except Conflict:
            continue  # another agent was first, and nothing has changed
        n_acts += 1
        time.sleep(0.005)


def work_together(place: Place, is_over: Callable[[int], bool]) -> None:
    (place.root / NOTE).write_text(START)
    place.wait_found("editor", NOTE)
    agents = [Agent(place, "ann", "bob"), Agent(place, "bob", "ann")]
    editor = Editor(place)
    actors: list[Callable[[], None]] = [*(agent.act for agent in agents), editor.act]
    try:
        with ThreadPoolExecutor(len(actors)) as threads:
            for done in [threads.submit(work, act, is_over) for act in actors]:
                done.result()
        place.client.call("sync", workspace=place.id)
        past = read_history(place)
        check_note(place, past, agents, editor)
        check_the_rest(place, agents)
    finally:
        for agent in agents:
            agent.memory.close()


def read_history(place: Place) -> list[dict[str, Any]]:
    """The revisions of the note, the oldest first, each with its diff."""
    text = digest_bytes((place.root / NOTE).read_bytes())
    found: list[dict[str, Any]] = []

    def is_complete() -> bool:
        found.clear()
        before = None
        while page := place.client.call(
            "history", workspace=place.id, path=NOTE, limit=200, before=before
        )["revisions"]:
            found.extend(page)
            before = page[-1]["revision"]
        return bool(found[0]["new_digest"] == text)

    wait_until(is_complete, "the last text of the note is in no revision")
    for revision in found:
        asked = {"workspace": place.id, "revision": revision["revision"]}
        revision["diff"] = place.client.call("diff", **asked)["diff"].splitlines()[2:]
    return found[::-1]


def check_note(
    place: Place, past: list[dict[str, Any]], agents: list[Agent], editor: Editor
) -> None:
    assert all(newer["old_digest"] == older["new_digest"] for older, newer in pairwise(past))
    # Whoever reads the note sees one of its texts as a whole.
    assert editor.seen <= {revision["new_digest"] for revision in past} | editor.saved
    shown_by: dict[int | str, list[str]] = collections.defaultdict(list)
    for revision in past:
        for key in (revision["change_set"], revision["new_digest"]):
            shown_by[key] += revision["diff"]
    for agent in agents:
        for act, line in agent.changes:
            assert any(text.startswith(line) for text in shown_by[act]), line
    # No act removes others' lines; only an editor that saves an older text may.
    removed_by_acts = [
        text
        for revision in past
        if revision["command"] != "external"
        for text in revision["diff"]
        if text.startswith("-") and not text.startswith("-<!-- memory:")
    ]
    assert [text for text in removed_by_acts if text != "-"] == []
    overwritten = {
        text[1:]
        for revision in past
        if revision["command"] == "external"
        for text in revision["diff"]
        if text.startswith("-")
    }
    text = (place.root / NOTE).read_text()
    said = [line[1:] for agent in agents for _, line in agent.changes if "Said by" in line]
    assert {line for line in said if text.count(f"{line}\n") != 1} <= overwritten
    for agent in agents:
        assert {f"Said by {agent.headings[anchor]}." for anchor in agent.missing} <= overwritten
    assert all(text.count(f"{line}\n") == 1 for line in editor.lines)


def check_the_rest(place: Place, agents: list[Agent]) -> None:
    notes = {path.name: path.read_text() for path in (place.root / ".memories").glob("*.md")}
    others = "".join(text for name, text in notes.items() if name != "log.md")
    for agent, other in (agents, agents[::-1]):
        assert all(others.count(f"{line}\n") == 1 for line in agent.checkpoints)
        project = notes.get("project.md", "")
        assert all(project.count(f"## {heading}\n") == 1 for heading in agent.promoted)
        present = {section["anchor"] for section in list_sections(place)}
        counted = {anchor: count(place, anchor) for anchor in agent.accesses if anchor in present}
        assert counted == {anchor: agent.accesses[anchor] for anchor in counted}
        left = [signal["content"] for signal in agent.memory.inbox(agent=agent.name)]
        assert sorted(agent.received + left) == sorted(other.sent)


def list_sections(place: Place) -> list[dict[str, Any]]:
    filters = {"include_archived": True}
    notes = place.client.call("list", workspace=place.id, path=NOTE, filters=filters)["notes"]
    return [section for note in notes for section in note["sections"]]


def count(place: Place, anchor: str) -> int:
    counts = place.client.call("access.stats", workspace=place.id, anchor=anchor)["counts"]
    return sum(row["count"] for row in counts)


@pytest.mark.timeout(300)
def test_no_act_of_two_agents_and_an_editor_on_one_note_is_lost(place: Place) -> None:
    work_together(place, lambda n_acts: n_acts >= N_ACTS)


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_no_act_of_two_agents_and_an_editor_on_one_note_for_a_minute_is_lost(
    make_home: Callable[..., Home],
) -> None:
    home = make_home("[history]\nmax_revisions = 100_000\n")
    place = DaemonPlace(home, home.start(), home.make_folder())
    (place.root / NOTE).parent.mkdir()
    end_s = time.monotonic() + MINUTE_S
    work_together(place, lambda _: time.monotonic() > end_s)
    place.close()
