"""Whatever happens to the files, the watcher or the daemon, the index becomes equal to the disk by
itself.

Hypothesis generates scenarios of writes, moves, swaps and faults on a real folder. In one kind the
engine runs in this process, where its watcher can be made to fail; in the other the daemon is a
process that is killed and started again. After each scenario the index must become equal to the
disk without a requested scan, and a sync must find no difference.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from memsyncd.client import Client
from memsyncd.config import Config, SyncConfig
from memsyncd.engine.clock import Clock
from memsyncd.engine.plan import RunOptions
from memsyncd.engine.registry import Registry
from memsyncd.engine.search import search
from memsyncd.engine.sync import SyncDone
from memsyncd.engine.workspace import Workspace
from memsyncd.engine.workspaces import Workspaces
from memsyncd.errors import MemsyncdError
from memsyncd.operations.notes.declare import ListParams
from memsyncd.operations.notes.read import list_notes
from memsyncd.operations.search.declare import SearchParams
from tests.daemon.conftest import list_digests
from tests.watch.faults import fake_overflow, kill_reader

if TYPE_CHECKING:
    from concurrent.futures import Future

    from tests.daemon.conftest import Daemon, Home

    ReadNotes = Callable[[Path], dict[str, str]]

# A guard: a watcher that died repeatedly is only rebuilt after some seconds.
SETTLE_S = 20.0
GRACE_S = 0.3
FAULTS = 3
MEMORY, MEMORIES = "MEMORY.md", ".memories"

FILES = st.sampled_from(
    [
        MEMORY,
        *(
            f"{MEMORIES}/{name}"
            for name in ("a.md", "b.md", "x/a.md", "x/b.md", "x/y/a.md", "z/c.txt")
        ),
    ]
)
FOLDERS = st.sampled_from([f"{MEMORIES}/{name}" for name in ("x", "x/y", "z")] + [MEMORIES])
PAUSES = st.sampled_from([0.0, 0.0, 0.02, 0.12, 0.5])


class IndexUnderTest(Protocol):
    """The program under test: something that keeps an index of one folder."""

    def notes(self) -> dict[str, str]: ...
    def find_fresh(self, word: str) -> set[str]: ...
    def state(self) -> str:
        """The workspace's state; another word while known changes are not indexed."""
        ...

    def sync(self) -> int:
        """Sync and return how many notes it found changed."""
        ...

    def close(self) -> None: ...


class EngineUnderTest:
    """The engine in this process, on a loop of its own."""

    def __init__(self, home: Home, root: Path) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.workspaces, self._workspace = self._on_loop(lambda: self._open(home, root))

    def _open(self, home: Home, root: Path) -> tuple[Workspaces, Workspace]:
        workspaces = Workspaces(
            registry=Registry(
                home.folder / f"{root.parent.name}.json", home=str(home.folder), uid=os.geteuid()
            ),
            state_dir=home.folder / "state",
            cache_dir=home.folder / "cache",
            config=Config(sync=SyncConfig(delete_grace_ms=round(GRACE_S * 1000))),
            clock=Clock(now_s=time.monotonic, wall_ns=time.time_ns),
        )
        workspaces.start(())
        return workspaces, workspaces.add(str(root))

    def notes(self) -> dict[str, str]:
        try:
            return {
                note.path: note.digest
                for note in list_notes(self._workspace, Config(), ListParams()).notes
            }
        except MemsyncdError as failure:
            return {"": failure.message}

    def find_fresh(self, word: str) -> set[str]:
        looked: Future[SyncDone] = self._on_loop(
            lambda: self.workspaces.scheduler.scan(self._workspace)
        )
        absent = looked.result(SETTLE_S).absent
        options = RunOptions(absent=frozenset((self._workspace.id, path) for path in absent))
        found = search([self._workspace], SearchParams(query=word), Config(), options)
        return {hit.path for hit in found.hits}

    def state(self) -> str:
        condition = self._workspace.condition
        return (
            f"{condition.pending} pending"
            if condition.pending and condition.state == "ready"
            else condition.state
        )

    def sync(self) -> int:
        future: Future[SyncDone] = self._on_loop(
            lambda: self.workspaces.scheduler.sync(self._workspace)
        )
        done = future.result(SETTLE_S)
        return len(done.added) + len(done.modified) + len(done.moved) + len(done.removed)

    def close(self) -> None:
        self.workspaces.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _on_loop(self, call: Callable[[], object]) -> object:
        async def run() -> object:
            return call()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(SETTLE_S)


class DaemonUnderTest:
    """The daemon as a process, which can be killed."""

    def __init__(self, home: Home, root: Path) -> None:
        self._home = home
        home.config.write_text(f"[sync]\ndelete_grace_ms = {int(GRACE_S * 1000)}\n")
        self._root = root
        self.start()
        self.join()

    def notes(self) -> dict[str, str]:
        try:
            return list_digests(self._client, workspace=self._id)
        except MemsyncdError as failure:
            return {"": failure.message}

    def find_fresh(self, word: str) -> set[str]:
        try:
            found = self._client.call("search", query=word, workspace=self._id, wait="disk")
        except MemsyncdError as failure:
            return {failure.message}
        return {hit["path"] for hit in found["hits"]}

    def state(self) -> str:
        status = self._client.call("status", workspace=self._id)["workspaces"][0]
        return (
            f"{status['pending']} pending"
            if status["pending"] and status["state"] == "ready"
            else str(status["state"])
        )

    def sync(self) -> int:
        report = self._client.call("sync", workspace=self._id)
        return int(sum(report[change] for change in ("added", "modified", "moved", "removed")))

    def start(self) -> None:
        self._daemon: Daemon = self._home.start()
        self._client: Client = self._daemon.client()

    def kill(self) -> None:
        self._client.close()
        self._daemon.kill()

    def pause(self) -> None:
        self._daemon.process.send_signal(signal.SIGSTOP)

    def wake(self) -> None:
        self._daemon.process.send_signal(signal.SIGCONT)

    def join(self) -> None:
        self._id = self._client.call("workspace.add", path=str(self._root))["workspaces"][0]["id"]

    def leave(self) -> None:
        self._client.call("workspace.remove", workspace=self._id)

    def close(self) -> None:
        self.leave()
        self._client.close()
        status = self._daemon.stop()
        assert status == 0, self._home.read_log()


class Scenario(RuleBasedStateMachine):
    """What people, programs and faults do to files."""

    home: ClassVar[Home]
    read_notes: ClassVar[ReadNotes]
    subject: IndexUnderTest

    def __init__(self) -> None:
        super().__init__()
        self.root = self.home.make_folder()
        self.outside = self.root.parent
        self._numbers = itertools.count(1)
        self.steps: list[str] = []
        self._aside: list[Path] = []
        self._is_linked = False

    def is_there(self) -> bool:
        return self.root.is_dir()

    @initialize(is_empty=st.booleans())
    def begin(self, is_empty: bool) -> None:
        if not is_empty:
            self._put(self.root / MEMORY)
            self._put(self.root / MEMORIES / "x" / "a.md")
        self.subject = self.open_body()

    open_body: Callable[[], IndexUnderTest]
    """The program that indexes the folder: each kind of scenario starts its own."""

    # --- what programs do ---

    @precondition(is_there)
    @rule(path=FILES)
    def write(self, path: str) -> None:
        place = self.root / path
        if self._has_room(place):
            self._log(f"write {path}")
            self._put(place)

    @precondition(is_there)
    @rule(path=FILES)
    def save_whole(self, path: str) -> None:
        place = self.root / path
        if self._has_room(place):
            self._log(f"save {path} whole")
            self._put(place.with_name(f"{place.name}.tmp.1")).rename(place)

    @precondition(is_there)
    @rule(path=FILES)
    def append(self, path: str) -> None:
        place = self.root / path
        if place.is_file():
            self._log(f"append to {path}")
            with place.open("a") as stream:
                stream.write(f"\nword{next(self._numbers)}\n")

    @precondition(is_there)
    @rule(path=FILES, pause=PAUSES)
    def write_slowly(self, path: str, pause: float) -> None:
        place = self.root / path
        if place.is_file():
            self._log(f"write {path} over {pause} s")
            with place.open("w") as stream:
                stream.write("# Half\n")
                stream.flush()
                time.sleep(pause)
                stream.write(f"\nword{next(self._numbers)}\n")

    @precondition(is_there)
    @rule(path=FILES)
    def delete(self, path: str) -> None:
        place = self.root / path
        if place.is_file():
            self._log(f"delete {path}")
            place.unlink()

    @precondition(is_there)
    @rule(old=FILES | FOLDERS, new=FILES | FOLDERS)
    def rename(self, old: str, new: str) -> None:
        source, target = self.root / old, self.root / new
        if self._may_move(source, target):
            self._log(f"rename {old} to {new}")
            target.parent.mkdir(parents=True, exist_ok=True)
            source.rename(target)

    @precondition(is_there)
    @rule(path=FILES | FOLDERS)
    def move_out(self, path: str) -> None:
        place = self.root / path
        if place.exists():
            self._log(f"move {path} out")
            self._aside.append(place.rename(self.outside / f"aside{next(self._numbers)}"))

    @precondition(is_there)
    @rule(path=FILES | FOLDERS)
    def move_in(self, path: str) -> None:
        target = self.root / path
        if self._aside and self._may_move(self._aside[-1], target):
            self._log(f"move {self._aside[-1].name} in as {path}")
            target.parent.mkdir(parents=True, exist_ok=True)
            self._aside.pop().rename(target)

    @rule()
    def write_to_what_was_moved_out(self) -> None:
        for place in self._aside:
            if place.is_dir() and not (place / "a.md").is_dir():
                self._log(f"write in {place.name}, which was moved out")
                self._put(place / "a.md")

    @precondition(is_there)
    @rule(path=FOLDERS)
    def make_folder(self, path: str) -> None:
        if self._has_room(self.root / path):
            self._log(f"make {path}")
            (self.root / path).mkdir(parents=True, exist_ok=True)

    @precondition(is_there)
    @rule(path=FOLDERS)
    def remove_folder(self, path: str) -> None:
        if (self.root / path).is_dir():
            self._log(f"remove {path}")
            shutil.rmtree(self.root / path)

    @precondition(is_there)
    @rule(path=FOLDERS, n_notes=st.integers(2, 80))
    def copy_in_many(self, path: str, n_notes: int) -> None:
        folder = self.outside / f"many{next(self._numbers)}"
        for number in range(n_notes):
            self._put(folder / f"d{number % 7}" / f"{number}.md")
        if self._has_room(self.root / path):
            self._log(f"copy {n_notes} notes to {path}")
            shutil.copytree(folder, self.root / path, dirs_exist_ok=True)

    @precondition(is_there)
    @rule(path=st.sampled_from([f"{MEMORIES}/link.md", MEMORY]))
    def link(self, path: str) -> None:
        place = self.root / path
        if not self._is_linked and self._has_room(place):
            self._log(f"link {path} to docs/real.md")
            self._is_linked = True
            place.parent.mkdir(exist_ok=True)
            self._put(self.root / "docs" / "real.md")
            place.unlink(missing_ok=True)
            place.symlink_to("docs/real.md" if path == MEMORY else "../docs/real.md")

    @precondition(is_there)
    @rule(is_whole=st.booleans())
    def write_what_is_linked(self, is_whole: bool) -> None:
        real = self.root / "docs" / "real.md"
        if real.is_file():
            self._log(f"write docs/real.md{' whole' if is_whole else ''}")
            if is_whole:
                self._put(real.with_name("real.tmp")).rename(real)
            else:
                self._put(real)

    # --- what happens to the workspace as a whole ---

    @precondition(is_there)
    @rule(n_notes=st.integers(0, 3))
    def swap_the_root(self, n_notes: int) -> None:
        self._log(f"swap the root for another with {n_notes} notes")
        other = self.outside / f"other{next(self._numbers)}"
        other.mkdir()
        for number in range(n_notes):
            self._put(other / MEMORIES / "x" / f"{number}.md")
        self._aside.append(self.root.rename(self.outside / f"aside{next(self._numbers)}"))
        other.rename(self.root)

    @precondition(is_there)
    @rule()
    def take_the_root_away(self) -> None:
        self._log("take the root away")
        self.root.rename(self.outside / "away")

    @precondition(lambda self: not self.is_there())
    @rule(is_another=st.booleans())
    def bring_the_root_back(self, is_another: bool) -> None:
        self._log(f"bring {'another' if is_another else 'the'} root back")
        if is_another:
            shutil.rmtree(self.outside / "away")
            self._put(self.root / MEMORIES / "a.md")
        else:
            (self.outside / "away").rename(self.root)

    # --- what must hold ---

    @rule(pause=PAUSES)
    def wait(self, pause: float) -> None:
        self._log(f"wait {pause} s")
        time.sleep(pause)

    @rule()
    def settle(self) -> None:
        self._log("settle")
        if self.is_there():
            self._expect(
                lambda: self.subject.notes() == self.read_disk(), "the index differs from the disk"
            )
            self._expect(lambda: self.subject.state() == "ready", "it is not ready")
        else:
            self._expect(lambda: self.subject.state() == "missing", "it did not miss its root")

    @precondition(is_there)
    @rule(path=FILES)
    def save_and_find(self, path: str) -> None:
        place = self.root / path
        if self._has_room(place):
            word = f"word{next(self._numbers)}"
            self._log(f"write {path} with {word} and look for it")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(f"# Note\n\n{word}\n")
            found = self.subject.find_fresh(word)
            if found != {path}:
                self._fail(f"{word} was found in {found}")

    def teardown(self) -> None:
        if not hasattr(self, "subject"):
            return
        try:
            if not self.is_there():
                self.bring_the_root_back(is_another=False)
            self.settle()
            if self.subject.sync() or self.subject.notes() != self.read_disk():
                self._fail("a sync found what nobody had seen")
        finally:
            self.subject.close()
            shutil.rmtree(self.outside)

    def read_disk(self) -> dict[str, str]:
        return type(self).read_notes(self.root)

    def _expect(self, is_so: Callable[[], bool], complaint: str) -> None:
        deadline_s = time.monotonic() + SETTLE_S
        while not is_so():
            if time.monotonic() > deadline_s:
                self._fail(complaint)
            time.sleep(0.01)

    def _put(self, place: Path) -> Path:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"# Note\n\nword{next(self._numbers)} of {place.name}\n")
        return place

    def _has_room(self, place: Path) -> bool:
        """True if this can be created as a file or folder: nothing of another kind is there or
        above, and no dangling link.
        """
        is_file = bool(place.suffix)
        is_free = not os.path.lexists(place) or (place.is_file() if is_file else place.is_dir())
        above = [
            folder
            for folder in place.parents
            if folder != self.root and folder.is_relative_to(self.root)
        ]
        return is_free and all(not folder.exists() or folder.is_dir() for folder in above)

    def _may_move(self, source: Path, target: Path) -> bool:
        is_kin = target.is_relative_to(source)
        # A folder replaces nothing, not even a dangling link; a file replaces all but a folder.
        is_free = not (target.is_dir() if source.is_file() else os.path.lexists(target))
        return source.exists() and not is_kin and is_free and self._has_room(target.parent / "a.md")

    def _log(self, step: str) -> None:
        self.steps.append(step)

    def _fail(self, complaint: str) -> None:
        reported = "\n".join(self.steps)
        state = (
            f"index {self.subject.notes()}\ndisk  {self.read_disk()}\nstate {self.subject.state()}"
        )
        # At once: a repeated scenario may succeed, and then Hypothesis reports only that.
        print(f"{complaint}\n{state}\n{reported}\n{self.home.read_log()}")
        raise AssertionError(f"{complaint}\n{state}\n{reported}")


class EngineScenario(Scenario):
    """With a watcher that fails, too."""

    subject: EngineUnderTest

    def __init__(self) -> None:
        super().__init__()
        self.n_faults = 0

    def open_body(self) -> EngineUnderTest:
        return EngineUnderTest(self.home, self.root)

    def has_faults_left(self) -> bool:
        return self.n_faults < FAULTS

    @precondition(has_faults_left)
    @rule()
    def kill_the_reader(self) -> None:
        self._log("kill the watcher's reader")
        self.n_faults += 1
        kill_reader(self.subject.workspaces.watching.watcher)

    @rule()
    def overflow(self) -> None:
        self._log("overflow the watcher's queue")
        fake_overflow(self.subject.workspaces.watching.watcher)


class DaemonScenario(Scenario):
    """With a daemon that is killed, too, and files that change while none runs."""

    subject: DaemonUnderTest
    is_up = True

    def open_body(self) -> DaemonUnderTest:
        return DaemonUnderTest(self.home, self.root)

    @rule(
        path=FILES,
        is_deleted=st.booleans(),
        fate=st.sampled_from(["kept", "kept", "lost", "damaged"]),
    )
    def crash_and_restart(self, path: str, is_deleted: bool, fate: str) -> None:
        self._log(f"kill the daemon, its index is {fate}")
        self.subject.kill()
        if self.is_there():
            (self.delete if is_deleted else self.write)(path)
        if fate == "lost":
            # There is none if the root was missing when it was lost before.
            shutil.rmtree(self.home.folder / "cache", ignore_errors=True)
        elif fate == "damaged":
            self._damage_indexes()
        self._log("start it again")
        self.subject.start()

    @rule(path=FILES, other=FILES)
    def sleep_through_it(self, path: str, other: str) -> None:
        self._log("let the daemon sleep")
        self.subject.pause()
        if self.is_there():
            self.write(path)
            self.rename(path, other)
            self.write(path)
        self._log("wake it")
        self.subject.wake()

    @precondition(Scenario.is_there)
    @rule(path=FILES)
    def leave_and_join(self, path: str) -> None:
        self._log("remove the workspace")
        self.subject.leave()
        self.write(path)
        self._log("add it again")
        self.subject.join()

    def _damage_indexes(self) -> None:
        for index in (self.home.folder / "cache").rglob("index.db"):
            size_bytes = index.stat().st_size
            with index.open("r+b") as stream:
                for offset in range(0, size_bytes, 1024):
                    stream.seek(offset)
                    stream.write(b"not what was written")


def run_scenarios(
    scenario: type[Scenario], home: Home, on_disk: ReadNotes, *, n_scenarios: int, n_steps: int
) -> None:
    scenario.home, scenario.read_notes = home, staticmethod(on_disk)
    how = settings(
        max_examples=n_scenarios,
        stateful_step_count=n_steps,
        deadline=None,
        database=None,
        phases=[Phase.generate],  # Timing cannot be shrunk; a failure prints its steps instead.
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    run_state_machine_as_test(scenario, settings=how)


def test_the_index_equals_the_disk_after_any_events_on_files_and_watcher(
    home: Home, on_disk: ReadNotes
) -> None:
    run_scenarios(EngineScenario, home, on_disk, n_scenarios=6, n_steps=20)


def test_the_index_equals_the_disk_after_kills_of_the_daemon(
    make_home: Callable[[], Home], on_disk: ReadNotes
) -> None:
    run_scenarios(DaemonScenario, make_home(), on_disk, n_scenarios=2, n_steps=15)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_the_index_equals_the_disk_after_long_sequences_of_events(
    home: Home, on_disk: ReadNotes
) -> None:
    run_scenarios(EngineScenario, home, on_disk, n_scenarios=200, n_steps=50)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_the_index_equals_the_disk_after_many_kills(
    make_home: Callable[[], Home], on_disk: ReadNotes
) -> None:
    run_scenarios(DaemonScenario, make_home(), on_disk, n_scenarios=100, n_steps=30)
