"""A change set of many notes is complete or absent, wherever a kill interrupts it, and whatever
others write meanwhile.
"""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from memsyncd.config import HistoryConfig
from memsyncd.core.digest import digest_bytes
from memsyncd.core.paths import NotePath
from memsyncd.engine import browse, edit, recovery
from memsyncd.engine.edit import Edit, Put
from memsyncd.engine.recovery import recover
from memsyncd.errors import Conflict, Unwritable
from memsyncd.files.read import read_text_file
from memsyncd.files.write import put_text_file
from memsyncd.store.history import Intended

REPOSITORY = Path(__file__).resolve().parents[2]
KILLED = -9
# In the short run only every third step is killed; a note takes five.
STRIDE = 3

CHILDREN = """
import json, os, signal, sys, time, traceback
from pathlib import Path
from memsyncd.engine import additions, edit
from memsyncd.operations.notes import run as memory_tool
from memsyncd.operations.history.undo import undo_revisions
from memsyncd.operations.revisions import Target
from memsyncd.engine.rebuild import open_workspace
from memsyncd.config import Config
from memsyncd.engine.clock import Clock
from memsyncd.engine.metadata import make_valuation
from memsyncd.engine.workspace import Entry, Workspace
from memsyncd.store.history import History
from memsyncd.files import write
from memsyncd.operations.plans import make_upkeep_decision
from memsyncd.operations.upkeep.declare import ArchiveParams
from memsyncd.operations.upkeep.run import plan_archive
from memsyncd.operations.notes.declare import MemoryParams, NewSection
from memsyncd.operations.history.declare import UndoParams

clock, policy = Clock(now_s=time.monotonic, wall_ns=time.time_ns), Config()

def kill_at(n_left):
    # Each call that changes something on the disk, and each commit, is a step.
    def count(real):
        def step(*arguments, **named):
            nonlocal n_left
            if real is not os_open or arguments[1] & os.O_CREAT:
                if not n_left:
                    os.kill(os.getpid(), signal.SIGKILL)
                n_left -= 1
            return real(*arguments, **named)
        return step
    os_open = os.open
    for name in ("open", "rename", "unlink", "rmdir", "mkdir", "link", "fsync"):
        setattr(os, name, count(getattr(os, name)))
    rename_at = count(write.choose_rename())
    write.choose_rename = lambda: rename_at
    for name in ("begin", "settle", "record_external"):
        setattr(History, name, count(getattr(History, name)))

def run(steps):
    for _ in steps:
        pass

def add_many(workspace):
    notes = [f"/memories/n{number}.md" for number in range(4)]
    items = [NewSection(content=f"added to {note}", note=note) for note in notes]
    decide = additions.make_addition_decision(
        workspace, policy, items, command="note.add_many", client="c", at="2026-01-01T00:00:00Z")
    run(edit.edit_workspace(workspace, policy, clock, decide))

def use_memory(workspace, **asked):
    run(edit.edit_workspace(workspace, policy, clock, memory_tool.make_decision(workspace, policy, MemoryParams(**asked))))

def rename_with_links(workspace):
    run(open_workspace(workspace, policy, clock))
    use_memory(workspace, command="rename", old_path="/memories/n1.md",
               new_path="/memories/new/place.md", update_links=True)

def archive(workspace):
    run(open_workspace(workspace, policy, clock))
    params = ArchiveParams(path="**")
    planned = plan_archive(workspace, policy, params, make_valuation(policy, 0.0))
    decide = make_upkeep_decision(workspace, "archive", planned.notes, client="c", command="archive",
                                  continues=None)
    run(edit.edit_workspace(workspace, policy, clock, decide))

COMMANDS = {
    "archive": archive,
    "archive many": archive,
    "open": lambda workspace: run(open_workspace(workspace, policy, clock)),
    "add_many": add_many,
    "clear": lambda workspace: run(edit.edit_workspace(
        workspace, policy, clock, memory_tool.make_clear_decision(workspace, client="c"))),
    "delete a folder": lambda workspace: use_memory(workspace, command="delete", path="/memories/folder"),
    "rename a folder": lambda workspace: use_memory(
        workspace, command="rename", old_path="/memories/folder", new_path="/memories/new/place"),
    "rename with links": rename_with_links,
    "undo": lambda workspace: run(undo_revisions(
        workspace, policy, clock, Target(), UndoParams(change_set=1, client="c"))),
}

for line in sys.stdin:
    id, root, index, records, command, n = json.loads(line)
    pid = os.fork()
    if not pid:
        try:
            workspace = Workspace(Entry(id=id, name="project", root=root), policy,
                                  index_path=Path(index), records_path=Path(records))
            kill_at(n)
            COMMANDS[command](workspace)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


class Killer:
    """One process for all tests of this module, which forks one for each command: importing the
    package takes longer than most commands.
    """

    def __init__(self, errors: Path) -> None:
        self._errors = errors
        with errors.open("wb") as stream:
            self._process = subprocess.Popen(
                [sys.executable, "-c", CHILDREN],
                cwd=REPOSITORY,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stream,
                text=True,
            )

    def run(self, bench: Any, command: str, n: int) -> int:
        """Run the command on the bench in a process that is killed before its n-th step; return
        the exit status.
        """
        words = (
            bench.workspace.id,
            str(bench.root),
            str(bench.workspace.index_path),
            str(bench.workspace.records_path),
            command,
            n,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(words), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        assert answer.strip() in ("0", str(KILLED)), self._errors.read_text()
        return int(answer)

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture(scope="module")
def killer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Killer]:
    killer = Killer(tmp_path_factory.mktemp("killer") / "errors")
    yield killer
    killer.close()


COMMANDS = (
    "add_many",
    "archive",
    "clear",
    "delete a folder",
    "rename a folder",
    "rename with links",
    "undo",
)


class Benches:
    """Copies of one workspace that is ready for a command, and its content before and after it."""

    def __init__(self, make_bench: Callable[..., Any], killer: Killer, command: str) -> None:
        self._make, self._killer, self.command = make_bench, killer, command
        self._n_made = 0
        self.first = make_bench("first")
        for number in range(2):
            self.first.write(
                f".memories/n{number}.md",
                f"# Note {number}\n\nthe old text {number}\n[1](n1.md) [0](n0.md)\n",
            )
        if command == "archive many":
            text = "".join(f"## Section {at}\n\ntext {at}\n\n" for at in range(20))
            for number in range(25):
                self.first.write(f".memories/many/m{number}.md", text)
        for name in ("a.md", "deep/b.md", "deep/data.xml"):
            self.first.write(f".memories/folder/{name}", f"in a folder: {name}\n")
        self.first.open()
        self.first.sync()
        self.first.see()
        self.first.workspace.close()
        if command == "undo":
            assert killer.run(self.first, "add_many", 10_000) == 0
        self.before = self.first.files()
        done = self.copy()
        assert killer.run(done, command, 10_000) == 0
        self.after = done.files()
        assert self.after != self.before

    def copy(self, bench: Any = None) -> Any:
        """The workspace as it was, or as another bench's is now."""
        self._n_made += 1
        source, copy = (
            bench or self.first,
            self._make(f"copy-{self._n_made}", id=self.first.workspace.id),
        )
        shutil.rmtree(copy.root)
        shutil.copytree(source.root, copy.root)
        for kind in ("index_path", "records_path"):
            old, new = getattr(source.workspace, kind), getattr(copy.workspace, kind)
            shutil.copytree(old.parent, new.parent)
        return copy

    def kill_at_steps(self, stride: int, command: str = "", bench: Any = None) -> list[Any]:
        """A bench for every n-th step of the command, killed right before it; of the same command,
        unless another is given.
        """
        killed: list[Any] = []
        for at in itertools.count():
            made = self.copy(bench)
            if self._killer.run(made, command or self.command, at * stride) == 0:
                break
            killed.append(made)
        return killed

    def check(self, bench: Any, where: object) -> bool:
        """Check that the state before the first answer is consistent; True if the command has
        happened.
        """
        bench.open()
        files, history = bench.files(), bench.workspace.records.history
        assert files in (self.before, self.after), where
        assert dict(bench.ask("SELECT path, digest FROM files")) in (
            find_notes(self.before),
            find_notes(self.after),
        ), where
        assert history.find_intended() == [], where
        assert {
            path: digest for path, digest in history.heads().items() if path.endswith(".md")
        } == find_notes(files), where
        assert not bench.workspace.condition.notices, where
        bench.workspace.close()
        return bool(files == self.after)

    def check_undo(self, bench: Any) -> None:
        """A change set that has happened can be undone."""
        bench.open()
        bench.follow()
        bench.undo(change_set=bench.past()[0].change_set)
        assert bench.files() == self.before


def find_notes(files: dict[str, bytes]) -> dict[str, str]:
    return {path: digest_bytes(data) for path, data in files.items() if path.endswith(".md")}


def kill_commands(benches: Benches, stride: int) -> None:
    killed = benches.kill_at_steps(stride)
    happened = [benches.check(bench, f"step {at}") for at, bench in enumerate(killed)]
    assert happened == sorted(happened)
    assert set(happened) == {False, True}
    benches.check_undo(killed[-1])


def kill_recoveries(benches: Benches, killed: list[Any], stride: int) -> None:
    """Kill the recovery of each of these."""
    for bench in killed:
        for at, again in enumerate(benches.kill_at_steps(stride, "open", bench)):
            benches.check(again, f"recovery {at}")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("stride", [3 * STRIDE, pytest.param(STRIDE, marks=pytest.mark.life)])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_is_killed_has_happened_whole_or_not_at_all(
    make_bench: Any, killer: Killer, command: str, stride: int
) -> None:
    kill_commands(Benches(make_bench, killer, command), stride)


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_is_killed_at_any_step_has_happened_whole_or_not_at_all(
    make_bench: Any, killer: Killer, command: str
) -> None:
    kill_commands(Benches(make_bench, killer, command), 1)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_an_archive_of_500_sections_that_is_killed_has_happened_whole_or_not_at_all(
    make_bench: Any, killer: Killer
) -> None:
    kill_commands(Benches(make_bench, killer, "archive many"), 1)


@pytest.mark.timeout(300)
def test_a_killed_recovery_continues_at_the_next_start(make_bench: Any, killer: Killer) -> None:
    benches = Benches(make_bench, killer, "add_many")
    kill_recoveries(benches, benches.kill_at_steps(15)[1:2], STRIDE)


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("command", COMMANDS)
def test_any_recovery_killed_at_any_step_continues_at_the_next_start(
    make_bench: Any, killer: Killer, command: str
) -> None:
    benches = Benches(make_bench, killer, command)
    kill_recoveries(benches, benches.kill_at_steps(1), 1)


# --- other programs, and what the system refuses ----------------------------------------------------------------------


PATHS = tuple(f".memories/n{number}.md" for number in range(4))
OLD, NEW, THEIRS = b"the old text\n", b"the new text\n", b"saved by an editor\n"


@pytest.fixture
def bench(bench: Any) -> Any:
    """Four notes that are known."""
    for path in PATHS:
        bench.write(path, OLD)
    bench.sync()
    bench.see()
    return bench


def interrupt(bench: Any, *texts: bytes) -> int:
    """Leave the state of a killed change of all four notes, with the later writes of others."""
    changes = [Intended(path=path, old=OLD, new=NEW) for path in PATHS]
    number = begin(bench, "many", changes)
    bench.workspace.close()
    for path, text in zip(PATHS, texts, strict=True):
        bench.write(path, text)
    return number


def begin(bench: Any, command: str, changes: list[Intended]) -> int:
    """Record an intended change set, as the daemon does before it changes a note."""
    history = bench.workspace.records.history
    return int(
        history.begin(
            at_s=bench.clock.wall_s(), client="c", command=command, path=PATHS[0], changes=changes
        )
    )


def read_all(bench: Any) -> tuple[bytes, ...]:
    return tuple(bench.files()[path] for path in PATHS)


def find_problems(bench: Any) -> dict[str, str]:
    """Code and hint of the faults of the workspace."""
    return {
        problem.code: problem.hint
        for problem in browse.find_problems(bench.workspace)
        if not problem.path
    }


@pytest.mark.parametrize(
    ("left", "end"),
    [
        ((NEW, NEW, OLD, OLD), (OLD, OLD, OLD, OLD)),
        ((NEW, NEW, NEW, NEW), (NEW, NEW, NEW, NEW)),
        ((NEW, OLD, THEIRS, OLD), (OLD, OLD, THEIRS, OLD)),
        ((THEIRS, NEW, OLD, OLD), (THEIRS, NEW, NEW, NEW)),
    ],
)
def test_texts_of_other_programs_stay_and_decide_the_direction(
    bench: Any, left: tuple[bytes, ...], end: tuple[bytes, ...]
) -> None:
    interrupt(bench, *left)
    bench.open()
    assert read_all(bench) == end
    assert sorted(bench.texts().values()) == sorted(text.decode().strip() for text in end)
    assert find_problems(bench) == {}
    bench.follow()
    bench.see()
    assert {
        path: digest_bytes(text) for path, text in zip(PATHS, end, strict=True)
    } == bench.workspace.records.history.heads()
    expected = {command for command, text in (("many", NEW), ("external", THEIRS)) if text in end}
    assert {revision.command for revision in bench.past()} == expected


def test_a_change_set_that_can_go_neither_way_is_reported_until_it_is_resolved(
    bench: Any,
) -> None:
    number = interrupt(bench, THEIRS, NEW, OLD, THEIRS)
    bench.open()
    assert read_all(bench) == (THEIRS, NEW, OLD, THEIRS)
    assert "memsyncd undo N" in find_problems(bench)["change_set_half_done"]
    assert (
        f"change set {number} (many)" in bench.workspace.condition.notices["change_set_half_done"]
    )
    bench.follow()
    bench.see()
    assert {revision.path for revision in bench.past() if revision.change_set == number} == set(
        PATHS[:2]
    )
    bench.workspace.close()
    bench.open()
    assert "change_set_half_done" in find_problems(bench)
    for path in PATHS[:2]:
        bench.memory(
            "insert",
            f"/memories/{path.removeprefix('.memories/')}",
            insert_line=0,
            insert_text="by hand",
        )
    assert find_problems(bench) == {}
    bench.workspace.close()
    bench.open()
    assert find_problems(bench) == {}


def test_a_note_of_uncertain_state_is_named(bench: Any) -> None:
    interrupt(bench, NEW, THEIRS, OLD, OLD)
    bench.open()
    assert read_all(bench) == (OLD, THEIRS, OLD, OLD)
    assert "memsyncd history" in find_problems(bench)["change_set_uncertain"]
    assert PATHS[1] in bench.workspace.condition.notices["change_set_uncertain"]


def test_a_refused_direction_is_replaced_by_the_other(bench: Any) -> None:
    interrupt(bench, NEW, NEW, OLD, OLD)
    (bench.root / PATHS[0]).chmod(0o444)
    bench.open()
    assert read_all(bench) == (NEW, NEW, NEW, NEW)
    assert find_problems(bench) == {}


def test_an_operation_that_the_system_refuses_is_reported_and_retried(bench: Any) -> None:
    interrupt(bench, NEW, NEW, OLD, OLD)
    for path in (PATHS[0], PATHS[3]):
        (bench.root / path).chmod(0o444)
    bench.open()
    assert "memsyncd sync" in find_problems(bench)["change_set_unfinished"]
    assert "read-only" in bench.workspace.condition.notices["change_set_unfinished"]
    (bench.root / PATHS[0]).chmod(0o644)
    bench.follow()
    assert read_all(bench) == (OLD, OLD, OLD, OLD)
    bench.follow()
    assert find_problems(bench) == {}


def test_no_decision_is_made_while_the_folder_is_missing(bench: Any) -> None:
    number = interrupt(bench, NEW, NEW, OLD, OLD)
    away = bench.root.with_name("away")
    bench.root.rename(away)
    bench.open()
    assert [change_set for change_set, _ in bench.workspace.records.history.find_intended()] == [
        number
    ]
    assert not bench.root.exists()
    away.rename(bench.root)
    bench.follow()
    assert read_all(bench) == (OLD, OLD, OLD, OLD)


def test_a_change_set_without_history_is_all_or_nothing_too(bench: Any) -> None:
    bench.config = structs.replace(bench.config, history=HistoryConfig(enabled=False))
    changes = [Intended(path=path, old=OLD, new=NEW) for path in PATHS]
    begin(bench, recovery.UNKEPT, changes)
    bench.workspace.close()
    bench.write(PATHS[0], NEW)
    bench.open()
    assert read_all(bench) == (OLD, OLD, OLD, OLD)
    assert bench.workspace.records.history.find_intended() == []


def put_all(bench: Any) -> Callable[[], tuple[Edit, None]]:
    """Decide to change all four notes."""

    def decide() -> tuple[Edit, None]:
        files = [read_text_file(bench.workspace.scope, NotePath(path)) for path in PATHS]
        puts = tuple(
            Put(path=NotePath(path), data=NEW, was=file)
            for path, file in zip(PATHS, files, strict=True)
        )
        return Edit(command="many", client="c", path=PATHS[0], operations=puts), None

    return decide


def test_a_failed_change_set_with_later_changes_is_not_retried(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second try would repeat what remains of the first: the note that others have changed since.
    The note that they have not is as before.
    """
    real = edit.put_text_file

    def be_overtaken(scope: Any, path: NotePath, data: bytes, **named: Any) -> Any:
        if path.text == PATHS[2]:
            for other in (PATHS[0], PATHS[2]):
                bench.write(other, THEIRS)
        return real(scope, path, data, **named)

    monkeypatch.setattr(edit, "put_text_file", be_overtaken)
    with pytest.raises(Conflict, match="have already built on a part") as caught:
        bench.edit(put_all(bench))
    assert read_all(bench) == (THEIRS, OLD, THEIRS, OLD)
    assert (
        f"change set {caught.value.data['half_done']}"
        in bench.workspace.condition.notices["change_set_half_done"]
    )


def test_a_failed_rollback_is_retried_later(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real = put_text_file

    def be_refused(scope: Any, path: NotePath, data: bytes, **named: Any) -> Any:
        if data == OLD or path.text == PATHS[2]:
            raise Unwritable("the disk is read-only")
        return real(scope, path, data, **named)

    with monkeypatch.context() as refusing:
        refusing.setattr(edit, "put_text_file", be_refused)
        refusing.setattr(recovery, "put_text_file", be_refused)
        with pytest.raises(Unwritable):
            bench.edit(put_all(bench))
    assert read_all(bench) == (NEW, NEW, OLD, OLD)
    assert "change_set_unfinished" in find_problems(bench)
    assert recover(bench.workspace, bench.clock) == set(PATHS)
    assert read_all(bench) == (OLD, OLD, OLD, OLD)
    assert bench.past() == []


def test_notes_of_a_deleted_folder_are_whole_when_others_save_in_it_meanwhile(
    bench: Any,
) -> None:
    """The folder is restored with what they saved, and so is every note of it."""
    folder = bench.root / ".memories"
    changes = [Intended(path=path, old=OLD, new=None) for path in PATHS]
    begin(bench, "delete", changes)
    bench.workspace.close()
    aside = folder.with_name(".memsyncd-0123456789abcdef.tmp")
    folder.rename(aside)
    (aside / "n0.md").unlink()
    (aside / "theirs.md").write_bytes(THEIRS)
    bench.open()
    assert bench.files() == dict.fromkeys(PATHS, OLD) | {".memories/theirs.md": THEIRS}
