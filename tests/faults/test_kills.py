"""The daemon is killed while it indexes or rebuilds.

The next daemon continues, answers at once, and leaves no temporary file.
"""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from memsyncd.errors import MemsyncdError
from tests.daemon.conftest import list_digests, read_notes, wait_until

if TYPE_CHECKING:
    from tests.daemon.conftest import Daemon, Home

N_NOTES = 150
N_KILLS = 2
"""Of each kind; among those while it rebuilds, one at least must come before the end of that."""
MUCH = 1000
KILL_WITHIN_S = 0.5
REBUILD_S = 0.15
"""A rebuild of so many notes takes longer, on any machine."""


class KillLoop:
    """A workspace whose daemon is killed again and again."""

    def __init__(self, home: Home, chance: random.Random) -> None:
        self.home, self.chance = home, chance
        self.root = home.make_folder()
        (self.root / ".memories").mkdir()
        self.save(N_NOTES)
        self.n_killed_rebuilding = 0

    def save(self, n_notes: int) -> None:
        """Change or create so many notes."""
        for number in self.chance.sample(range(N_NOTES), n_notes):
            parts = "\n\n".join(
                f"## Part {part}\n\nlarch {self.chance.getrandbits(40):x}" for part in range(20)
            )
            (self.root / ".memories" / f"{number}.md").write_text(
                f"# Note {number}\n\nnumber{number}\n\n{parts}\n"
            )

    def begin(self) -> Daemon:
        daemon = self.home.start()
        with daemon.client() as client:
            self.id = client.call("workspace.add", path=str(self.root))["workspaces"][0]["id"]
        return daemon

    def die(self, daemon: Daemon, within_s: float) -> None:
        """Kill the daemon at a random moment soon."""
        time.sleep(self.chance.uniform(0, within_s))
        daemon.kill()
        self.n_killed_rebuilding += self.new_index.exists()

    @property
    def index(self) -> Path:
        return self.home.folder / "cache" / "memsyncd" / self.id / "index.db"

    @property
    def new_index(self) -> Path:
        return self.index.with_name("index.db.new")

    def assert_recovers(self) -> None:
        daemon = self.home.start()
        with daemon.client() as client:

            def is_whole() -> bool:
                status: dict[str, Any] = client.call("status")["workspaces"][0]
                is_ready = status["state"] == "ready" and not status["pending"]
                return is_ready and list_digests(client) == read_notes(self.root)

            wait_until(is_whole, "the index does not equal the disk")
            for number in self.chance.sample(range(N_NOTES), 3):
                assert [
                    hit["path"] for hit in client.call("search", query=f"number{number}")["hits"]
                ] == [f".memories/{number}.md"]
        assert daemon.stop() == 0, self.home.read_log()
        names = {path.name for path in self.index.parent.iterdir()}
        assert names == {"index.db", "index.db-check"}
        with sqlite3.connect(f"file:{self.index}?mode=ro", uri=True) as file:
            assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def kill_while_indexing(kill_loop: KillLoop, n_kills: int) -> None:
    for _ in range(n_kills):
        daemon = kill_loop.begin()
        kill_loop.save(N_NOTES // 2)
        kill_loop.die(daemon, KILL_WITHIN_S)
        kill_loop.save(N_NOTES // 4)


def kill_while_rebuilding(kill_loop: KillLoop, n_kills: int) -> None:
    for _ in range(n_kills):
        daemon = kill_loop.begin()
        with daemon.client() as client:
            try:
                client.call("sync", rebuild=True, timeout_ms=1)
            except MemsyncdError as failure:
                assert failure.code == "timeout"  # noqa: PT017 - nobody waits for what will not end
            wait_until(kill_loop.new_index.exists, "nothing is rebuilt")
            kill_loop.die(daemon, REBUILD_S)
    assert kill_loop.n_killed_rebuilding


def test_an_interrupted_index_or_rebuild_is_complete_after_the_next_start(own: Home) -> None:
    kill_loop = KillLoop(own, random.Random(1))
    kill_while_indexing(kill_loop, N_KILLS)
    kill_while_rebuilding(kill_loop, N_KILLS)
    kill_loop.assert_recovers()


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(
    "kill", [kill_while_indexing, kill_while_rebuilding], ids=lambda kill: kill.__name__
)
def test_an_interrupted_index_is_complete_after_a_thousand_kills(
    kill: Callable[[KillLoop, int], None], make_home: Callable[[], Home]
) -> None:
    for seed in range(MUCH // 20):
        kill_loop = KillLoop(make_home(), random.Random(seed))
        kill(kill_loop, 20)
        kill_loop.assert_recovers()
