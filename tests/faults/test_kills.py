"""The daemon is killed while it indexes or rebuilds: the next one goes on, answers at once, and leaves nothing lying about."""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from memsyncd.errors import MemsyncdError
from tests.daemon.conftest import read_notes, wait_until

if TYPE_CHECKING:
    from tests.daemon.conftest import Daemon, Home

N_NOTES = 150
N_KILLS = 4
MUCH = 1000
KILL_WITHIN_S = 0.5


class Life:
    """A workspace of a daemon that dies again and again."""

    def __init__(self, home: Home, chance: random.Random) -> None:
        self.home, self.chance = home, chance
        self.root = home.make_folder()
        (self.root / ".memories").mkdir()
        self.save(N_NOTES)
        self.n_killed_rebuilding = 0

    def save(self, n_notes: int) -> None:
        """Change so many notes, or make them."""
        for number in self.chance.sample(range(N_NOTES), n_notes):
            parts = "\n\n".join(f"## Part {part}\n\nlarch {self.chance.getrandbits(40):x}" for part in range(20))
            (self.root / ".memories" / f"{number}.md").write_text(f"# Note {number}\n\nnumber{number}\n\n{parts}\n")

    def begin(self) -> Daemon:
        daemon = self.home.start()
        with daemon.client() as client:
            self.id = client.call("workspace.add", path=str(self.root))["workspaces"][0]["id"]
        return daemon

    def die(self, daemon: Daemon) -> None:
        """At any moment of the next while."""
        time.sleep(self.chance.uniform(0, KILL_WITHIN_S))
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
                return is_ready and {note["path"]: note["digest"] for note in client.call("list")["notes"]} == read_notes(
                    self.root
                )

            wait_until(is_whole, "the index does not equal the disk")
            for number in self.chance.sample(range(N_NOTES), 3):
                assert [hit["path"] for hit in client.call("search", query=f"number{number}")["hits"]] == [
                    f".memories/{number}.md"
                ]
        assert daemon.stop() == 0, self.home.read_log()
        assert [path.name for path in self.index.parent.iterdir()] == ["index.db"]
        with sqlite3.connect(f"file:{self.index}?mode=ro", uri=True) as file:
            assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def kill_while_indexing(home: Home, n_kills: int, seed: int) -> None:
    life = Life(home, random.Random(seed))
    for _ in range(n_kills):
        daemon = life.begin()
        life.save(N_NOTES // 2)
        life.die(daemon)
        life.save(N_NOTES // 4)
    life.assert_recovers()


def kill_while_rebuilding(home: Home, n_kills: int, seed: int) -> None:
    life = Life(home, random.Random(seed))
    life.begin().stop()
    for _ in range(n_kills):
        daemon = life.begin()
        with daemon.client() as client:
            try:
                client.call("sync", rebuild=True, timeout_ms=1)
            except MemsyncdError as failure:
                assert failure.code == "timeout"  # noqa: PT017 - nobody waits for what will not end
            wait_until(life.new_index.exists, "nothing is rebuilt")
            life.die(daemon)
    life.assert_recovers()
    assert life.n_killed_rebuilding


@pytest.mark.parametrize("kill", [kill_while_indexing, kill_while_rebuilding], ids=lambda kill: kill.__name__)
def test_what_was_being_indexed_is_whole_after_the_next_start(kill: Callable[[Home, int, int], None], own: Home) -> None:
    kill(own, N_KILLS, 1)


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kill", [kill_while_indexing, kill_while_rebuilding], ids=lambda kill: kill.__name__)
def test_what_was_being_indexed_is_whole_after_a_thousand_kills(
    kill: Callable[[Home, int, int], None], make_home: Callable[[], Home]
) -> None:
    for seed in range(MUCH // 20):
        kill(make_home(), 20, seed)
