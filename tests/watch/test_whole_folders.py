"""Recursive watches that leave folders out, and their limit."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from memsyncd.core.changes.watchplan import Includes, plan_watches
from memsyncd.core.paths import is_pruned_path
from memsyncd.watch.health import RunLater
from memsyncd.watch.watcher import Plan, Watcher
from tests.watch.conftest import Recorder, is_folder

if sys.platform != "linux":
    pytest.skip("other systems watch whole trees", allow_module_level=True)

WHOLE = Includes.parse(["**"])
LIMIT = 6


class Vault:
    """A whole folder that is watched without `pruned`."""

    def __init__(self, watcher: Watcher, recorder: Recorder, root: Path) -> None:
        self.watcher, self.recorder, self.root = watcher, recorder, root
        self.pruned: set[str] = set()

    def plan(self, workspace_id: str = "ws", root: Path | None = None) -> None:
        root = root or self.root
        watches = plan_watches(str(root), WHOLE, is_folder=is_folder)
        self.watcher.set_plans({workspace_id: Plan(str(root), watches, self.is_pruned)})

    def is_pruned(self, path: str) -> bool:
        return is_pruned_path(path) or path in self.pruned

    def make(self, *folders: str) -> None:
        for folder in folders:
            (self.root / folder).mkdir(parents=True, exist_ok=True)

    @property
    def watched(self) -> set[str]:
        observer = self.watcher._targets.observer
        assert observer is not None
        groups = [emitter._group for emitter in observer.emitters]
        folders = {os.fsdecode(path) for group in groups if group for path in list(group._wds)}
        return {os.path.relpath(folder, self.root) for folder in folders}

    def expect(self, *folders: str) -> None:
        self.recorder.wait_until(lambda: self.watched == {".", *folders})


@pytest.fixture
def vault(recorder: Recorder, run_later: RunLater, tmp_path: Path) -> Iterator[Vault]:
    watcher = Watcher(
        recorder.on_event, recorder.on_events_lost, run_later, find_max_folders=lambda: LIMIT
    )
    root = tmp_path.resolve() / "vault"
    root.mkdir()
    yield Vault(watcher, recorder, root)
    watcher.stop()


def test_pruned_folders_are_not_watched_and_new_folders_are(vault: Vault) -> None:
    vault.make("a/b", ".git/objects", "a/node_modules/x", "ignored/y", ".memories/z")
    vault.pruned = {"ignored"}
    vault.plan()
    vault.expect("a", "a/b", ".memories", ".memories/z")
    vault.make("c", ".trash", "node_modules", "a/b/d")
    vault.expect("a", "a/b", ".memories", ".memories/z", "c", "a/b/d")


def test_a_folder_that_moves_to_a_pruned_name_loses_its_watches_and_regains_them(
    vault: Vault,
) -> None:
    vault.make("a/b")
    vault.plan()
    vault.expect("a", "a/b")
    (vault.root / "a").rename(vault.root / ".trash")
    vault.expect()
    (vault.root / ".trash").rename(vault.root / "c")
    vault.expect("c", "c/b")


def test_a_walk_follows_a_change_of_the_pruned_folders(vault: Vault) -> None:
    vault.make("a/b", "c")
    vault.plan()
    vault.expect("a", "a/b", "c")
    vault.pruned = {"a"}
    vault.watcher.walk({"ws"})
    vault.expect("c")
    vault.pruned = set()
    assert vault.watcher.walk({"ws"}) == {"ws"}
    vault.expect("a", "a/b", "c")


def test_a_folder_that_one_of_two_workspaces_needs_is_watched(vault: Vault) -> None:
    vault.make("a", "docs/node_modules/x")
    vault.plan()
    vault.expect("a", "docs")
    other = Includes.parse(["docs/**"])
    watches = plan_watches(str(vault.root), other, is_folder=is_folder)
    vault.watcher.set_plans({"other": Plan(str(vault.root), watches)})
    vault.expect("a", "docs", "docs/node_modules", "docs/node_modules/x")


def test_over_the_limit_one_reason_is_reported_and_room_is_used_again(vault: Vault) -> None:
    vault.make(*(f"{name}/x" for name in "abcdefgh"))
    vault.plan()
    assert len(vault.watched) == LIMIT
    assert vault.watcher._targets.unwatched == {str(vault.root): errno.EDQUOT}
    health = vault.watcher.health("ws")
    assert (health.mode, health.faults, len(health.reasons)) == ("timed", (), 1)
    assert "max_watched_folders" in health.limit
    assert len(vault.recorder.losses) == 1
    for now_s in (0.0, 1e4, 2e4):
        assert vault.watcher.check(now_s) == ()
        assert not vault.watcher.walk()
    assert len(vault.recorder.losses) <= 2
    for name in "abcdef":
        for folder in (vault.root / name / "x", vault.root / name):
            folder.rmdir()

    def has_room() -> bool:
        vault.watcher.walk()  # as each check does, until the watcher knows the last removal
        return vault.watched == {".", "g", "g/x", "h", "h/x"}

    vault.recorder.wait_until(has_room)
    assert vault.watcher.health("ws").mode == "events"
