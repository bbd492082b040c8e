"""A reader that scans only dirty paths ends with the content of the disk, whatever happens."""

from __future__ import annotations

import os
import queue
import random
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from memsyncd.config import SyncConfig
from memsyncd.core.changes.debounce import Debouncer, Settled
from memsyncd.core.changes.diff import is_within
from memsyncd.core.changes.watchplan import is_relevant, plan_watches
from memsyncd.core.paths import is_note_name
from memsyncd.engine.worker import WorkerPool
from memsyncd.watch.watcher import Plan, Watcher
from tests.watch.faults import fake_overflow, kill_reader

if TYPE_CHECKING:
    from tests.watch.conftest import Event

N_STEPS = 120
SETTLE_LIMIT_S = 45.0
STOP = "stop"


def read_note(path: Path) -> str | None:
    try:
        return path.read_text()
    except OSError:
        return None


def read_disk(root: Path) -> dict[str, str]:
    """Return the notes that are on the disk now, by path."""
    notes = {"MEMORY.md": read_note(root / "MEMORY.md")}
    for folder, _, names in os.walk(root / ".memories"):
        for name in filter(is_note_name, names):
            path = Path(folder) / name
            notes[str(path.relative_to(root))] = read_note(path)
    return {path: text for path, text in notes.items() if text is not None}


class Mirror:
    """Keeps a copy of a workspace's notes in memory by events alone, like a small daemon."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.notes: dict[str, str] = {}
        self._inbox: queue.Queue[Event | str] = queue.Queue()
        self._debouncer: Debouncer[str] = Debouncer(SyncConfig(debounce_ms=20, max_wait_ms=200))
        self._pool = WorkerPool("folders", 2)
        self.watcher = Watcher(
            lambda *event: self._inbox.put(event), self._inbox.put, self._pool.call
        )
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        self._inbox.put("begin")
        self._thread.start()

    def stop(self) -> None:
        self._inbox.put(STOP)
        self._thread.join()
        self.watcher.stop()
        assert self._pool.stop(SETTLE_LIMIT_S)

    def _run(self) -> None:
        while (word := self._next()) != STOP:
            if isinstance(word, str) and word:
                self._recover()
            elif word:
                workspace_id, path, is_finished, is_folder = word
                if is_relevant(path, is_folder=is_folder):
                    self._debouncer.push(
                        workspace_id,
                        path,
                        time.monotonic(),
                        is_finished=is_finished,
                        is_folder=is_folder,
                    )
            for settled in self._debouncer.pop_settled(time.monotonic()):
                self._scan(settled)

    def _next(self) -> Event | str:
        deadline_s = self._debouncer.next_deadline_s()
        try:
            return self._inbox.get(
                timeout=None if deadline_s is None else max(0.0, deadline_s - time.monotonic())
            )
        except queue.Empty:
            return ""

    def _recover(self) -> None:
        self._plan()
        self.watcher.walk()
        if self.watcher.check(time.monotonic()):
            while self.watcher.rebuild(time.monotonic()) is not None:
                time.sleep(0.01)
        self._debouncer.push_all("ws", time.monotonic())

    def _plan(self) -> None:
        def is_folder(path: str) -> bool:
            return os.path.isdir(path) and not os.path.islink(path)

        from memsyncd.core.changes.watchplan import NO_INCLUDES

        while self.watcher.set_plans(
            {
                "ws": Plan(
                    str(self.root), plan_watches(str(self.root), NO_INCLUDES, is_folder=is_folder)
                )
            }
        ):
            pass

    def _scan(self, settled: Settled[str]) -> None:
        if settled.folders:
            self._plan()
            within = partial(is_within, places=settled.folders)
            elsewhere = {path: text for path, text in self.notes.items() if not within(path)}
            beneath = {path: text for path, text in read_disk(self.root).items() if within(path)}
            self.notes = elsewhere | beneath
        for path in settled.paths:
            text = read_note(self.root / path)
            if text is None:
                self.notes.pop(path, None)
            else:
                self.notes[path] = text


class Chaos:
    """Makes random changes of the kinds that people and tools make."""

    def __init__(self, mirror: Mirror, outside: Path, chance: random.Random) -> None:
        self.mirror, self.root, self.outside, self.chance = mirror, mirror.root, outside, chance
        self.memories = self.root / ".memories"
        self.steps: list[Callable[[], object]] = [
            *[
                self.write,
                self.write,
                self.replace,
                self.replace,
                self.append,
                self.make_folders,
                self.make_folders,
            ],
            *[
                self.move_note,
                self.delete_note,
                self.move_folder,
                self.move_folder_out,
                self.move_folder_in,
            ],
            *[
                self.delete_folder,
                self.swap_memories,
                self.delete_memories,
                self.move_root_and_back,
            ],
            *[partial(fake_overflow, mirror.watcher), partial(kill_reader, mirror.watcher)],
        ]

    def step(self) -> None:
        try:
            self.chance.choice(self.steps)()
        except OSError:
            self.memories.mkdir(parents=True, exist_ok=True)

    def folder(self) -> Path:
        return self.chance.choice(
            [self.memories, *(path for path in self.memories.rglob("*") if path.is_dir())]
        )

    def note(self) -> Path:
        return self.chance.choice(
            [self.root / "MEMORY.md", self.folder() / f"{self.chance.choice('abc')}.md"]
        )

    def text(self) -> str:
        return f"{self.chance.random()}"

    def write(self) -> None:
        self.note().write_text(self.text())

    def append(self) -> None:
        with self.note().open("a") as note:
            note.write(self.text())
            note.flush()
            note.write(self.text())

    def replace(self) -> None:
        note = self.note()
        temporary = note.with_name(f"{note.name}.tmp")
        temporary.write_text(self.text())
        temporary.replace(note)

    def make_folders(self) -> None:
        deep = self.folder() / self.chance.choice("de") / self.chance.choice("fg")
        deep.mkdir(parents=True, exist_ok=True)
        (deep / "a.md").write_text(self.text())

    def move_note(self) -> None:
        self.note().rename(self.note())

    def delete_note(self) -> None:
        self.note().unlink()

    def move_folder(self) -> None:
        self.folder().rename(self.folder() / self.chance.choice("de"))

    def move_folder_out(self) -> None:
        self.folder().rename(self.outside / f"{self.chance.randrange(3)}")

    def move_folder_in(self) -> None:
        (self.outside / f"{self.chance.randrange(3)}").rename(
            self.folder() / self.chance.choice("de")
        )

    def delete_folder(self) -> None:
        shutil.rmtree(self.folder())

    def swap_memories(self) -> None:
        other = self.root / "other"
        (other / "h").mkdir(parents=True, exist_ok=True)
        (other / "h" / "b.md").write_text(self.text())
        self.memories.rename(self.outside / "old")
        other.rename(self.memories)

    def delete_memories(self) -> None:
        shutil.rmtree(self.memories)

    def move_root_and_back(self) -> None:
        self.root.rename(self.root.with_name("away"))
        self.root.with_name("away").rename(self.root)


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[Mirror]:
    root = tmp_path.resolve() / "proj"
    (root / ".memories").mkdir(parents=True)
    mirror = Mirror(root)
    mirror.start()
    yield mirror
    mirror.stop()


@pytest.mark.parametrize("seed", range(4))
def test_scanning_dirty_paths_only_ends_with_the_content_of_the_disk(
    mirror: Mirror, tmp_path: Path, seed: int
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    chance = random.Random(seed)
    chaos = Chaos(mirror, outside, chance)
    for _ in range(N_STEPS):
        chaos.step()
        if chance.random() < 0.3:
            time.sleep(chance.choice([0.0, 0.001, 0.01, 0.05]))
    until_s = time.monotonic() + SETTLE_LIMIT_S
    while mirror.notes != read_disk(mirror.root) and time.monotonic() < until_s:
        time.sleep(0.02)
    assert mirror.notes == read_disk(mirror.root)
