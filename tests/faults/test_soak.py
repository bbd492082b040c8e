"""Everything that people and agents do, all at once, for some time.

In the end the index equals the disk, and no resource has grown. The suite runs some seconds of it;
`pytest -m soak` runs ten minutes, which is the only way to see whether memory grows. The same for a
workspace of 240,000 sections: no call of an agent may fail there.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from memsyncd.client import Client
from memsyncd.errors import MemsyncdError
from tests.daemon.conftest import list_digests, read_notes, wait_until
from tests.growing import CALLS, SECTIONS_A_NOTE, name_note, name_word, write_notes
from tests.proc import count_watches, list_names, read_file

if TYPE_CHECKING:
    from tests.daemon.conftest import Daemon, Home

SHORT_S, LONG_S = 2.0, 600.0
WARM_UP_S = 120.0
FEW, MANY = 8, 64
"""Clients."""
N_EDITORS = 3
RSS_GROWTH_BYTES = 12 * 1024 * 1024
FEW_FILES = 8
"""Connections for queries stay open for the next ones, and SQLite keeps a file that another
connection has locked."""
# The loop, the worker, the watcher, three query threads, one of long works and two of watchdog's;
# each starts on its first use.
THREADS = 10
SETTLE_S = 60.0
# A large workspace.
N_AGENTS, N_FEW_SECTIONS, N_MANY_SECTIONS = 8, 400, 240_000
SYNC_MS = 60_000
INDEXED_S = 3600.0
# Reading calls of agents while they work.
EVERYDAY = (
    "context", "recall by keywords", "get", "list of a note with sections", "links of a note",
    "task.ready of a task", "task.context", "session.resume", "topic.get", "history of a note",
    "stats by tag", "signal.inbox",
)  # fmt: skip
WORDS = "larch maple hazel rowan aspen birch alder willow poplar linden".split()

Action = Callable[[random.Random, str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceUsage:
    """The resources of a daemon at a moment."""

    rss_bytes: int
    files: int
    threads: int
    watches: int


def read_taken(daemon: Daemon) -> ResourceUsage:
    pid = daemon.process.pid
    status = dict(line.split(":", 1) for line in read_file(f"/proc/{pid}/status").splitlines())
    return ResourceUsage(
        rss_bytes=int(status["VmRSS"].split()[0]) * 1024,
        files=len(list_names(pid, "fd")),
        threads=int(status["Threads"]),
        watches=count_watches(pid),
    )


class Workload:
    """Editors and agents, each a thread, that work on one workspace until the end."""

    def __init__(self, home: Home, daemon: Daemon, root: Path) -> None:
        self.home, self.daemon, self.root = home, daemon, root
        self.is_over = threading.Event()
        self.failures: list[BaseException] = []
        self._threads: list[threading.Thread] = []

    def employ(self, n_editors: int, n_agents: int) -> None:
        lives = [*[self.edit] * n_editors, *[self.ask] * n_agents]
        self._threads = [
            threading.Thread(target=self._live, args=(life, number))
            for number, life in enumerate(lives)
        ]
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self.is_over.set()
        for thread in self._threads:
            thread.join()

    def _live(self, life: Callable[[random.Random, int], None], number: int) -> None:
        chance = random.Random(number)
        try:
            while not self.is_over.is_set():
                life(chance, number)
        except BaseException as failure:  # noqa: BLE001 - told at the end
            self.failures.append(failure)

    # --- editors

    def edit(self, chance: random.Random, number: int) -> None:
        """Make a change of files as programs do it."""
        own = self.root / ".memories" / f"editor{number}"
        note = own / f"{chance.choice('abcd')}" / f"{chance.randrange(12)}.md"
        actions = [
            self._write,
            self._write,
            self._save_whole,
            self._append,
            self._delete,
            self._rename_folder,
            self._remove_folder,
        ]
        chance.choice(actions)(chance, note)
        self.is_over.wait(chance.uniform(0.005, 0.05))

    def _write(self, chance: random.Random, note: Path) -> None:
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(make_text(chance))

    def _save_whole(self, chance: random.Random, note: Path) -> None:
        note.parent.mkdir(parents=True, exist_ok=True)
        aside = note.with_name(f"{note.name}.tmp.{chance.randrange(9)}")
        aside.write_text(make_text(chance))
        aside.replace(note)

    def _append(self, chance: random.Random, note: Path) -> None:
        note.parent.mkdir(parents=True, exist_ok=True)
        with note.open("a") as stream:
            stream.write(f"\n{make_text(chance)}")
        if note.stat().st_size > 50_000:
            note.write_text(make_text(chance))

    def _delete(self, _chance: random.Random, note: Path) -> None:
        note.unlink(missing_ok=True)

    def _rename_folder(self, chance: random.Random, note: Path) -> None:
        other = note.parent.with_name(f"{note.parent.name}{chance.randrange(3)}")
        if note.parent.is_dir() and not other.exists():
            note.parent.rename(other)

    def _remove_folder(self, chance: random.Random, note: Path) -> None:
        shutil.rmtree(
            note.parent.with_name(f"{note.parent.name}{chance.randrange(3)}"), ignore_errors=True
        )

    # --- agents

    def ask(self, chance: random.Random, number: int) -> None:
        """Use a connection: some queries and writes, and sometimes an invalid one."""
        with self.daemon.client() as client:
            if chance.random() < 0.2:
                client.call("subscribe")
            for _ in range(chance.randrange(1, 40)):
                if self.is_over.is_set():
                    return
                method, params = self._choose(chance, number)
                with contextlib.suppress(MemsyncdError):
                    client.call(method, **params)
                self.is_over.wait(chance.uniform(0.0, 0.4))

    def _choose(self, chance: random.Random, number: int) -> tuple[str, dict[str, object]]:
        word, path = chance.choice(WORDS), f"/memories/agent{number}/{chance.randrange(4)}.md"
        note = f".memories/agent{number}/{chance.randrange(4)}.md"
        choices: list[tuple[str, dict[str, object]]] = [
            *[("search", {"query": f"{word} {chance.choice(WORDS)}"})] * 4,
            ("search", {"query": f'"{word}" -maple kind:decision', "wait": "disk"}),
            ("search", {"query": f"{word}x{chance.random()}"}),
            ("context", {"query": word, "max_tokens": 500}),
            ("status", {}),
            ("list", {}),
            ("problems", {}),
            ("get", {"path": note}),
            ("memory", {"command": "create", "path": path, "file_text": make_text(chance)}),
            ("memory", {"command": "insert", "path": path, "insert_line": 0, "insert_text": word}),
            (
                "memory",
                {
                    "command": "str_replace",
                    "path": path,
                    "old_str": word,
                    "new_str": chance.choice(WORDS),
                },
            ),
            ("memory", {"command": "delete", "path": path}),
            ("memory", {"command": "view", "path": "/memories"}),
            ("note.add", {"content": make_text(chance), "kind": "decision", "note": note}),
            ("history", {"path": note}),
            ("undo", {"path": note}),
            ("search", {"query": "x" * 5000}),
            ("memory", {"command": "view", "path": "/memories/../../etc/passwd"}),
        ]
        return chance.choice(choices)


class LargeWorkload(Workload):
    """Editors and agents in a large workspace, whose agents do nothing that fails."""

    def __init__(self, home: Home, daemon: Daemon, root: Path, n_notes: int) -> None:
        super().__init__(home, daemon, root)
        self.searches_s: list[float] = []
        self.n_calls = 0
        self._n_notes = n_notes

    def edit(self, chance: random.Random, number: int) -> None:
        """Save a note as an editor does: append a line, write a new note, save one whole."""
        note = self.root / name_note(chance.randrange(self._n_notes))
        new = note.with_name(f"editor{number}-{chance.randrange(50)}.md")
        action = chance.choice([self._append, self._append, self._write, self._save_whole])
        action(chance, note if action is self._append else new)
        self.is_over.wait(chance.uniform(0.2, 1.0))

    def ask(self, chance: random.Random, number: int) -> None:
        with self.daemon.client() as client:
            while not self.is_over.is_set():
                method, params = self._choose(chance, number)
                began_s = time.monotonic()
                client.call(method, **params)
                if method == "search":
                    self.searches_s.append(time.monotonic() - began_s)
                self.n_calls += 1
                # No model answers faster.
                self.is_over.wait(chance.uniform(0.0, 2.0))

    def _choose(self, chance: random.Random, number: int) -> tuple[str, dict[str, object]]:
        word = name_word(chance.randrange(self._n_notes))
        case = chance.choice(EVERYDAY)
        own = f"/memories/agent{number}-{chance.randrange(10**9)}.md"
        choices: list[tuple[str, dict[str, object]]] = [
            ("search", {"query": word}),
            ("search", {"query": f"{word} {chance.choice(WORDS)} cache"}),
            ("search", {"query": "which socket retries the queue of the broker"}),
            ("search", {"query": "cache", "filters": {"task": [f"T-{chance.randrange(9)}"]}}),
            *[(case.split(maxsplit=1)[0], CALLS[case])] * 4,
            ("memory", {"command": "create", "path": own, "file_text": make_text(chance)}),
            ("note.add", {"content": make_text(chance), "kind": "decision"}),
            ("signal.send", {"content": word, "agents": [f"a-{chance.randrange(N_AGENTS)}"]}),
        ]
        return chance.choice(choices)


def make_text(chance: random.Random) -> str:
    parts = (
        f"## {chance.choice(WORDS)}\n\n{' '.join(chance.choices(WORDS, k=30))}\n"
        for _ in range(chance.randrange(1, 6))
    )
    return "# Note\n\n" + "\n".join(parts)


def find_index(home: Home, client: Client) -> Path:
    return (
        home.folder
        / "cache"
        / "memsyncd"
        / str(client.call("status")["workspaces"][0]["id"])
        / "index.db"
    )


def live_through(
    home: Home, *, seconds: float, n_clients: int
) -> tuple[ResourceUsage, ResourceUsage]:
    """Return the resources of the daemon in the middle and at the end.

    Everything but memory is compared here.
    """
    home.config.write_text(f"[sync]\nreconcile_s = 5\n[socket]\nmax_clients = {MANY + 16}\n")
    root = home.make_folder()
    (root / ".memories").mkdir()
    (root / "MEMORY.md").write_text("larch\n")
    daemon = home.start()
    with daemon.client() as client:
        client.call("workspace.add", path=str(root))
        client.call("sync")
        before = read_taken(daemon)
        workload = Workload(home, daemon, root)
        end_s = time.monotonic() + seconds
        workload.employ(N_EDITORS, n_clients)
        time.sleep(min(WARM_UP_S, seconds / 4))
        midst = read_taken(daemon)
        for _ in itertools.takewhile(lambda _: time.monotonic() < end_s, itertools.count()):
            assert client.call("ping")["pid"] == daemon.process.pid
            time.sleep(0.2)
        workload.end()
        assert workload.failures == []

        def equals_disk() -> bool:
            return list_digests(client) == read_notes(root)

        wait_until(equals_disk, "the index differs from the disk", limit_s=SETTLE_S)
        wait_until(
            lambda: client.call("status")["workspaces"][0]["state"] == "ready",
            "it is not ready",
            limit_s=SETTLE_S,
        )
        report = client.call("sync")
        assert [report[change] for change in ("added", "modified", "moved", "removed")] == [
            0,
            0,
            0,
            0,
        ]
        status = client.call("status")["workspaces"][0]
        assert (status["missed_events"], status["reasons"]) == (0, [])
        shutil.rmtree(root / ".memories")
        (root / ".memories").mkdir()
        client.call("sync")
        wait_until(
            lambda: read_taken(daemon).watches <= before.watches,
            "watches are left",
            limit_s=SETTLE_S,
        )
        wait_until(
            lambda: read_taken(daemon).files <= before.files + FEW_FILES,
            "files are left",
            limit_s=SETTLE_S,
        )
        wait_until(
            lambda: os.path.getsize(f"{find_index(home, client)}-wal") == 0,
            "the log was not emptied",
            limit_s=SETTLE_S,
        )
        end = read_taken(daemon)
        assert end.threads <= THREADS
    assert daemon.stop() == 0
    assert [line for line in home.log.read_text().splitlines() if "Traceback" in line] == []
    return midst, end


def live_in_large(
    home: Home, *, n_sections: int, seconds: float
) -> tuple[ResourceUsage, ResourceUsage, LargeWorkload]:
    """Return the resources of the daemon after a tenth of the time and at the end."""
    home.config.write_text("[sync]\nmax_watched_folders = 100000\n")
    root = home.make_folder()
    n_notes = n_sections // SECTIONS_A_NOTE
    write_notes(root, n_notes)
    daemon = home.start()
    with daemon.client() as client:

        def is_ready() -> bool:
            status = client.call("status")["workspaces"][0]
            return (status["state"], status["pending"]) == ("ready", 0)

        client.call("workspace.add", path=str(root))
        wait_until(is_ready, "it is not indexed", limit_s=INDEXED_S)
        workload = LargeWorkload(home, daemon, root, n_notes)
        workload.employ(2, N_AGENTS)
        workload.is_over.wait(seconds / 10)
        midst = read_taken(daemon)
        workload.is_over.wait(seconds * 9 / 10)
        workload.end()
        assert workload.failures == []
        assert workload.n_calls
        end = read_taken(daemon)
        wait_until(is_ready, "it is not ready", limit_s=SETTLE_S)
        client.call("sync", timeout_ms=SYNC_MS)
        report = client.call("sync", timeout_ms=SYNC_MS)
        changes = [report[change] for change in ("added", "modified", "moved", "removed")]
        assert changes == [0, 0, 0, 0]
    assert daemon.stop() == 0
    assert [line for line in home.log.read_text().splitlines() if "Traceback" in line] == []
    return midst, end, workload


@pytest.mark.skipif(
    not Path("/proc/self/fdinfo").exists(), reason="only Linux says what a process takes"
)
class TestSoak:
    def test_after_mixed_work_of_people_and_agents_the_index_equals_the_disk_and_no_resource_has_grown(
        self, own: Home
    ) -> None:
        live_through(own, seconds=SHORT_S, n_clients=FEW)

    @pytest.mark.soak
    @pytest.mark.timeout(1800)
    def test_after_ten_minutes_of_mixed_work_memory_has_not_grown(self, own: Home) -> None:
        midst, end = live_through(own, seconds=LONG_S, n_clients=MANY)
        assert end.rss_bytes < midst.rss_bytes + RSS_GROWTH_BYTES

    @pytest.mark.parametrize(
        ("n_sections", "seconds"),
        [
            (N_FEW_SECTIONS, SHORT_S),
            pytest.param(
                N_MANY_SECTIONS, LONG_S, marks=[pytest.mark.soak, pytest.mark.timeout(7200)]
            ),
        ],
    )
    def test_no_call_of_eight_agents_fails_while_two_editors_save_and_memory_does_not_grow(
        self, own: Home, n_sections: int, seconds: float
    ) -> None:
        midst, end, workload = live_in_large(own, n_sections=n_sections, seconds=seconds)
        times_ms = sorted(1000 * second for second in workload.searches_s)
        p50_ms, p99_ms = (times_ms[len(times_ms) * percent // 100] for percent in (50, 99))
        print(
            f"{workload.n_calls:,} calls, {len(times_ms):,} searches: p50 {p50_ms:.1f} ms, p99"
            f" {p99_ms:.1f} ms; memory {midst.rss_bytes >> 20} MB, at the end"
            f" {end.rss_bytes >> 20} MB"
        )
        if seconds == LONG_S:  # in less time the daemon still loads what each call needs
            assert end.rss_bytes < midst.rss_bytes + RSS_GROWTH_BYTES
