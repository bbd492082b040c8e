"""After any sequence of moves, exchanges, overflows and root renames, every folder is watched.

The reference is the kernel: /proc/self/fdinfo lists the inode of each watch. Each folder on the
disk must have a watch, no other folder may have one, and the watcher's table must name each by its
path.
"""

from __future__ import annotations

import os
import queue
import re
import shutil
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    precondition,
    rule,
    run_state_machine_as_test,
)

from memsyncd.core.changes.watchplan import NO_INCLUDES, Includes, is_relevant, plan_watches
from memsyncd.core.paths import is_pruned_path
from memsyncd.engine.worker import WorkerPool
from memsyncd.watch.watcher import Plan, Watcher
from tests.watch.faults import exchange, fake_overflow, find_reader, kill_reader

if sys.platform != "linux":
    pytest.skip("inotify is Linux's", allow_module_level=True)

SETTLE_S = 20.0
# Rebuilds have growing intervals, so more of them would take long.
MAX_KILLS = 2
NAMES = ["a", "b", "a/c", "a/d", "b/c", "b/c/e"]
FOLDERS = st.sampled_from(NAMES)
PAUSES = st.sampled_from([0.0, 0.0, 0.001, 0.01, 0.03])
Entry = tuple[int, int]
STOP = object()


class WatchedRoot:
    """Keeps a root watched as the daemon does.

    It plans, walks and checks when an event asks for it.
    """

    def __init__(self, root: Path, includes: Includes) -> None:
        self.root, self.includes = root, includes
        self._inbox: queue.Queue[object] = queue.Queue()
        self._pool = WorkerPool("folders", 2)
        self.watcher = Watcher(
            self._on_event, lambda _reason: self._inbox.put("lost"), self._pool.call
        )
        self._thread = threading.Thread(target=self._run)
        self._inbox.put("begin")
        self._thread.start()

    def close(self) -> None:
        self._inbox.put(STOP)
        self._thread.join()
        self.watcher.stop()
        assert self._pool.stop(SETTLE_S)

    def _on_event(self, _id: str, path: str, _is_finished: bool, is_folder: bool) -> None:
        if is_folder and is_relevant(path, is_folder=True, includes=self.includes):
            self._inbox.put("folder")

    def _run(self) -> None:
        while (word := self._inbox.get()) is not STOP:
            self._plan()
            if word != "folder":
                self.watcher.walk()
                while self.watcher.check(time.monotonic()):
                    if self.watcher.rebuild(time.monotonic()) is not None:
                        time.sleep(0.01)
                    self._plan()

    def _plan(self) -> None:
        def is_folder(path: str) -> bool:
            return os.path.isdir(path) and not os.path.islink(path)

        root = str(self.root)

        def make_plan() -> Plan:
            watches = plan_watches(root, self.includes, is_folder=is_folder)
            return Plan(root, watches, is_pruned_path)

        while self.watcher.set_plans({"ws": make_plan()}):
            pass


def find_watched_inodes(watcher: Watcher) -> set[Entry]:
    """Return device and inode of each watch in the kernel."""
    reader = find_reader(watcher)
    info = Path(f"/proc/self/fdinfo/{reader._inotify_fd}").read_text()
    lines = re.findall(r"^inotify wd:\w+ ino:(\w+) sdev:(\w+)", info, re.MULTILINE)
    return {(int(device, 16), int(inode, 16)) for inode, device in lines}


def find_known_paths(watcher: Watcher) -> dict[str, Entry]:
    """Return device and inode of each watched folder, by its path in the watcher's table."""
    observer = watcher._targets.observer
    assert observer is not None
    groups = [emitter._group for emitter in observer.emitters]
    return {
        os.fsdecode(folder.path): folder.identity
        for group in groups
        if group is not None
        for folder in list(group._folders.values())
    }


def find_folders(root: Path, *, is_whole: bool) -> dict[str, Entry]:
    """Return all folders that must be watched: the root, and the memories with all beneath.

    In a whole folder all other folders count too, without pruned folders.
    """
    folders = [str(root)]
    for folder, _, _ in os.walk(root / ".memories"):
        folders.append(folder)
    for folder, names, _ in os.walk(root) if is_whole else ():
        names[:] = [name for name in names if not is_pruned_path(name)]
        folders += [os.path.join(folder, name) for name in names]
    return {folder: (os.stat(folder).st_dev, os.stat(folder).st_ino) for folder in folders}


def to_kernel_device(device: int) -> int:
    return (os.major(device) << 20) | os.minor(device)


class FolderScenario(RuleBasedStateMachine):
    """Changes that programs make to folders, at any speed, while the reader may be held up."""

    base: ClassVar[Path]
    includes: ClassVar[Includes] = NO_INCLUDES
    top: ClassVar[str] = ".memories"
    n_scenarios: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        FolderScenario.n_scenarios += 1
        self.above = self.base / f"{FolderScenario.n_scenarios}"
        self.root = self.above / "proj"
        self.outside = self.base / f"{FolderScenario.n_scenarios}-outside"
        self.outside.mkdir(parents=True)
        (self.root / self.top / "a" / "c").mkdir(parents=True)
        self.watched_root = WatchedRoot(self.root, self.includes)
        self._held: threading.Lock | None = None
        self.n_kills = 0
        self.steps: list[str] = []

    def place(self, name: str) -> Path:
        return self.root / self.top / name

    def try_to(self, step: str, action: Callable[[], object]) -> None:
        """Take a step, unless the disk refuses it because an entry is missing or exists."""
        try:
            action()
        except (OSError, shutil.Error):
            return
        self.steps.append(step)

    @rule(name=FOLDERS)
    def make(self, name: str) -> None:
        self.try_to(f"make {name}", lambda: self.place(name).mkdir(parents=True))

    @rule(name=FOLDERS)
    def remove(self, name: str) -> None:
        self.try_to(f"remove {name}", lambda: shutil.rmtree(self.place(name)))

    @rule(old=FOLDERS, new=FOLDERS)
    def move(self, old: str, new: str) -> None:
        self.try_to(f"move {old} to {new}", lambda: self.place(old).rename(self.place(new)))

    @rule(old=FOLDERS, new=FOLDERS)
    def make_beneath_and_move(self, old: str, new: str) -> None:
        self.try_to(f"make {old}/new", (self.place(old) / "new").mkdir)
        self.move(old, new)

    @rule(one=FOLDERS, other=FOLDERS)
    def exchange(self, one: str, other: str) -> None:
        both = self.place(one), self.place(other)
        self.try_to(f"exchange {one} and {other}", lambda: exchange(*both))

    @rule(name=FOLDERS, aside=st.sampled_from("xy"))
    def move_out(self, name: str, aside: str) -> None:
        self.try_to(f"{name} out", lambda: self.place(name).rename(self.outside / aside))

    @rule(name=FOLDERS, aside=st.sampled_from("xy"))
    def move_in(self, name: str, aside: str) -> None:
        self.try_to(f"{name} in", lambda: (self.outside / aside).rename(self.place(name)))

    @rule(name=FOLDERS, aside=st.sampled_from("xy"))
    def exchange_with_outside(self, name: str, aside: str) -> None:
        both = self.place(name), self.outside / aside
        self.try_to(f"exchange {name} with {aside} outside", lambda: exchange(*both))

    @rule(pause=PAUSES, is_above=st.booleans(), name=FOLDERS)
    def move_the_root_away_and_back(self, pause: float, is_above: bool, name: str) -> None:
        folder = self.above if is_above else self.root
        away = folder.with_name(f"{folder.name}-away")
        self.make(name)
        folder.rename(away)
        self.steps.append(f"{folder.name} away for {pause} s")
        time.sleep(pause)
        away.rename(folder)

    @rule(is_kept=st.booleans())
    def swap_the_root(self, is_kept: bool) -> None:
        other = self.above / "other"
        (other / self.top / "a").mkdir(parents=True)
        exchange(self.root, other)
        if is_kept:
            exchange(self.root, other)
        shutil.rmtree(other)
        self.steps.append(f"swap the root{' and back' if is_kept else ''}")

    @rule()
    def remove_the_memories_and_make_them_again(self) -> None:
        self.try_to("remove the memories", lambda: shutil.rmtree(self.root / self.top))
        self.try_to("make the memories", lambda: (self.root / self.top / "b").mkdir(parents=True))

    @rule(is_away=st.booleans())
    def overflow(self, is_away: bool) -> None:
        self.let_go()
        away = self.root.with_name("proj-away")
        if is_away:
            self.root.rename(away)
        self.steps.append(f"overflow{' while the root is away' if is_away else ''}")
        fake_overflow(self.watched_root.watcher)
        if is_away:
            away.rename(self.root)

    @precondition(lambda self: self.n_kills < MAX_KILLS)
    @rule()
    def kill_the_reader(self) -> None:
        self.let_go()
        self.n_kills += 1
        self.steps.append("kill the reader")
        kill_reader(self.watched_root.watcher)

    @rule()
    def hold_the_reader(self) -> None:
        """Hold up the reader until `let_go`; then it reads all events at once."""
        reader = find_reader(self.watched_root.watcher)
        if self._held is None and reader is not None:
            self._held = reader._lock
            self._held.acquire()
            self.steps.append("hold the reader")

    @rule()
    def let_go(self) -> None:
        if self._held is not None:
            self._held.release()
            self._held = None
            self.steps.append("let it go")

    @rule(pause=PAUSES)
    def wait(self, pause: float) -> None:
        self.steps.append(f"wait {pause} s")
        time.sleep(pause)

    @rule()
    def settle(self) -> None:
        self.let_go()
        self.steps.append("settle")
        deadline_s = time.monotonic() + SETTLE_S
        while difference := self.find_difference():
            if time.monotonic() > deadline_s:
                steps = "\n".join(self.steps)
                print(f"{difference}\n{steps}")
                raise AssertionError(f"{difference}\n{steps}")
            time.sleep(0.005)

    def find_difference(self) -> str:
        if find_reader(self.watched_root.watcher) is None:
            return "nothing is watched"
        try:
            watched = find_watched_inodes(self.watched_root.watcher)
            known_paths = find_known_paths(self.watched_root.watcher)
        except (OSError, AssertionError):
            return "the watcher is being rebuilt"
        there = find_folders(self.root, is_whole=bool(self.includes.whole.patterns))
        inodes = {(to_kernel_device(device), inode) for device, inode in there.values()}
        if watched != inodes or known_paths != there:
            return (
                f"not watched {inodes - watched}, too many {watched - inodes},\n"
                f"known as {known_paths},\nand there are {there}"
            )
        return ""

    def teardown(self) -> None:
        try:
            self.settle()
        finally:
            self.watched_root.close()
            shutil.rmtree(self.above)
            shutil.rmtree(self.outside)


class WholeFolderScenario(FolderScenario):
    """The same in a whole folder, where folders also move to names that are left out, and back."""

    includes = Includes.parse(["**"])
    top = "notes"

    @rule(name=FOLDERS, aside=st.sampled_from([".trash", "node_modules"]))
    def move_to_a_pruned_name(self, name: str, aside: str) -> None:
        pruned = self.root / aside
        self.try_to(f"{name} to {aside}", lambda: self.place(name).rename(pruned))

    @rule(name=FOLDERS, aside=st.sampled_from([".trash", "node_modules"]))
    def move_back_from_a_pruned_name(self, name: str, aside: str) -> None:
        pruned = self.root / aside
        self.try_to(f"{name} from {aside}", lambda: pruned.rename(self.place(name)))


def run_scenarios(
    base: Path,
    *,
    n_scenarios: int,
    n_steps: int,
    scenario: type[FolderScenario] = FolderScenario,
) -> None:
    FolderScenario.base = base.resolve()
    how = settings(
        max_examples=n_scenarios,
        stateful_step_count=n_steps,
        deadline=None,
        database=None,
        phases=[Phase.generate],  # timing cannot be shrunk: a failure prints its steps
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    run_state_machine_as_test(scenario, settings=how)


few_or_many = pytest.mark.parametrize("n_scenarios", [8, pytest.param(40, marks=pytest.mark.life)])


@few_or_many
def test_every_folder_is_watched_whatever_happens_to_folders(
    tmp_path: Path, n_scenarios: int
) -> None:
    run_scenarios(tmp_path, n_scenarios=n_scenarios, n_steps=30)


@few_or_many
def test_every_folder_of_a_whole_folder_is_watched_and_no_pruned_one(
    tmp_path: Path, n_scenarios: int
) -> None:
    run_scenarios(tmp_path, n_scenarios=n_scenarios, n_steps=30, scenario=WholeFolderScenario)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_every_folder_is_watched_through_long_sequences_of_changes(tmp_path: Path) -> None:
    run_scenarios(tmp_path, n_scenarios=2000, n_steps=50)
    run_scenarios(tmp_path, n_scenarios=2000, n_steps=50, scenario=WholeFolderScenario)


def test_a_folder_that_left_another_before_that_moved_is_not_watched(tmp_path: Path) -> None:
    FolderScenario.base = tmp_path.resolve()
    folders = FolderScenario()
    folders.make("b/c/e")
    folders.settle()
    folders.hold_the_reader()
    folders.make("a/d")
    folders.move_out("b/c", "x")
    # The walk that follows the first event meets the folder at its new place.
    folders.move("b", "a/d")
    assert folders.steps[-1] == "move b to a/d"
    folders.teardown()
