"""A daemon that is killed while it changes many notes: before the next one answers, all of them are
changed or none.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from memsyncd.errors import MemsyncdError

if TYPE_CHECKING:
    from tests.daemon.conftest import Daemon, Home

N_ADDED, N_CLEARED = 6, 30
# Kills of each kind; the engine's own tests kill at each step.
N_KILLS = 2
MUCH = 110
# About as long as the write takes, so that most kills occur in the middle of it.
KILL_WITHIN_S = {"note.add_many": 0.06, "memory.clear": 0.25}


class KillLoop:
    """A workspace whose daemon is killed repeatedly in the middle of one kind of write."""

    def __init__(self, home: Home, method: str, seed: int) -> None:
        self.home, self.method, self.chance = home, method, random.Random(seed)
        self.root = home.make_folder()
        (self.root / ".memories").mkdir()
        self.n_half_done = 0
        self.n_happened = 0

    def write_notes(self) -> None:
        for number in range(N_ADDED if self.method == "note.add_many" else N_CLEARED):
            (self.root / ".memories" / f"{number}.md").write_text(
                f"# Note {number}\n\nbystander{number}\n"
            )

    def start(self) -> tuple[Daemon, str]:
        daemon = self.home.start()
        with daemon.client() as client:
            return daemon, client.call("workspace.add", path=str(self.root))["workspaces"][0]["id"]

    def run(self) -> None:
        """One round: write, kill, check with the next daemon."""
        daemon, place_id = self.start()
        with daemon.client() as client:
            self.write_notes()
            client.call("sync", workspace=place_id)
            client.call("history", workspace=place_id)
        before = self.read()
        writer = threading.Thread(target=self._write, args=(daemon, place_id))
        writer.start()
        time.sleep(self.chance.uniform(0.0, KILL_WITHIN_S[self.method]))
        daemon.kill()
        writer.join()
        after = self.read()
        self.n_half_done += after != before and not self.is_done(after)
        self.check(before)

    def _write(self, daemon: Daemon, place_id: str) -> None:
        items = [
            {"note": f"/memories/{number}.md", "content": "added everywhere"}
            for number in range(N_ADDED)
        ]
        params: dict[str, Any] = (
            {"items": items} if self.method == "note.add_many" else {"confirm": True}
        )
        with contextlib.suppress(MemsyncdError), daemon.client() as client:
            client.call(self.method, workspace=place_id, **params)

    def check(self, before: dict[str, str]) -> None:
        """Search at once for half of a change set, and then compare the disk."""
        daemon, place_id = self.start()
        with daemon.client() as client:
            ask = self.chance.choice([self._search, self._view])
            shown = ask(client, place_id)
            now = self.read()
            assert now == before or self.is_done(now), f"half done: {sorted(now)}"
            self.n_happened += now != before
            assert shown in (set(), set(before)), shown
            client.call("sync", workspace=place_id)
            assert not [
                problem
                for problem in client.call("problems", workspace=place_id)["problems"]
                if "change_set" in problem["code"]
            ]
        daemon.kill()

    def _search(self, client: Any, place_id: str) -> set[str]:
        """The notes that have the text of a complete change set, or none."""
        word = "everywhere" if self.method == "note.add_many" else "note"
        # On a busy machine the index is opened in more than the second that a search waits.
        found = client.call("search", query=word, workspace=place_id, limit=50, timeout_ms=30_000)
        return {hit["path"] for hit in found["hits"]}

    def _view(self, client: Any, place_id: str) -> set[str]:
        number = self.chance.randrange(N_ADDED)
        with contextlib.suppress(MemsyncdError):
            text = client.call(
                "memory", workspace=place_id, command="view", path=f"/memories/{number}.md"
            )["text"]
            is_old = "everywhere" not in text
            return set() if self.method == "note.add_many" and is_old else set(self.read())
        return set()

    def read(self) -> dict[str, str]:
        return {
            str(path.relative_to(self.root)): path.read_text()
            for path in (self.root / ".memories").rglob("*")
        }

    def is_done(self, notes: dict[str, str]) -> bool:
        if self.method == "memory.clear":
            return not notes
        return len(notes) == N_ADDED and all("added everywhere" in text for text in notes.values())


@pytest.mark.timeout(300)
@pytest.mark.parametrize("method", KILL_WITHIN_S)
def test_a_killed_daemon_leaves_no_change_of_many_notes_half_done(
    make_home: Callable[[], Home], method: str
) -> None:
    kill_loop = KillLoop(make_home(), method, 1)
    for _ in range(N_KILLS):
        kill_loop.run()


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("method", KILL_WITHIN_S)
def test_a_daemon_killed_a_hundred_times_leaves_no_change_half_done(
    make_home: Callable[[], Home], method: str
) -> None:
    kill_loop = KillLoop(make_home(), method, 1)
    for _ in range(MUCH):
        kill_loop.run()
    print(
        f"{method}: {kill_loop.n_half_done} of {MUCH} kills left a half, {kill_loop.n_happened} had happened"
    )
    assert kill_loop.n_half_done
