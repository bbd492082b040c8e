"""Examinations over the socket when an index is not open, or several run at once."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from memsyncd.config import Config, SyncConfig
from memsyncd.engine.clock import Clock
from memsyncd.engine.registry import Registry
from memsyncd.engine.worker import Job, QueryPool
from memsyncd.engine.workspace import Workspace
from memsyncd.engine.workspaces import Workspaces
from memsyncd.errors import WorkspaceNotFound
from memsyncd.operations.status.declare import DoctorParams, FindingInfo
from memsyncd.server.doctor import Doctor
from memsyncd.server.session import Session

LIMIT_S = 60.0


class DoctorBench:
    """A doctor, and workspaces."""

    def __init__(self, folder: Path) -> None:
        clock = Clock(now_s=time.monotonic, wall_ns=time.time_ns)
        registry = Registry(folder / "workspaces.json", home="/nowhere", uid=os.geteuid())
        self.workspaces = Workspaces(
            registry=registry,
            state_dir=folder / "s",
            cache_dir=folder / "c",
            config=Config(),
            clock=clock,
        )
        self.workspaces.start([])
        self._threads = QueryPool(2)
        self._doctor = Doctor(self.workspaces, clock, self._in_thread, lambda: ("", "", ""))
        self._session = Session(session_id=1, peer_pid=1, send=lambda _line: True)

    async def _in_thread(self, call: Callable[[], Any], **_: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    async def add(self, root: Path) -> Workspace:
        write_note(root / "MEMORY.md", "# Memory\n\nlarch\n")
        workspace = self.workspaces.add(str(root))
        await wait_for(lambda: workspace.condition.state == "ready")
        return workspace

    async def examine(self, **params: Any) -> dict[str, FindingInfo]:
        """The worst finding of each check."""
        result = await self._doctor.examine(self._session, DoctorParams(**params))
        order = ("ok", "info", "warning", "error")
        return {
            finding.check: finding
            for finding in sorted(result.findings, key=lambda each: order.index(each.level))
        }

    def close(self) -> None:
        self.workspaces.stop()
        self._threads.shutdown()


def write_note(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)


async def wait_for(is_so: Callable[[], bool]) -> None:
    end_s = time.monotonic() + LIMIT_S
    while not is_so():
        assert time.monotonic() < end_s, "it did not come to pass"
        await asyncio.sleep(0.01)


def play(folder: Path, scene: Callable[[DoctorBench], Awaitable[None]]) -> None:
    async def open_and_play() -> None:
        bench = DoctorBench(folder)
        try:
            await asyncio.wait_for(scene(bench), LIMIT_S)
        finally:
            bench.close()

    asyncio.run(open_and_play())


def test_a_long_overdue_scan_is_an_error_unless_a_sync_makes_progress(tmp_path: Path) -> None:
    async def scene(bench: DoctorBench) -> None:
        workspace = await bench.add(tmp_path / "w")
        # The jobs of the start must be done, or nothing is overdue any more.
        await asyncio.wrap_future(bench.workspaces.scheduler.sync(workspace))
        await wait_for(lambda: not bench.workspaces.count_jobs())
        workspace.change(synced_at_s=time.time() - 500)  # the clock was set forward
        assert (await bench.examine())["freshness"].level == "ok"
        long_ago_s = (workspace.condition.scanned_s or 0.0) - 500
        workspace.change(scanned_s=long_ago_s)
        assert (await bench.examine())["freshness"].level == "error"
        workspace.change(progressed_s=long_ago_s + 499, n_to_sync=9)
        finding = (await bench.examine())["freshness"]
        assert (finding.level, finding.what) == ("info", "syncing: 9 of 9 notes")

    play(tmp_path, scene)


def close_index(workspace: Workspace, *_: object) -> Job[None]:
    yield
    workspace.close_index()


def test_an_unopened_index_is_reported_without_further_findings(
    tmp_path: Path,
) -> None:
    async def scene(bench: DoctorBench) -> None:
        bench.workspaces.reload(
            Config(sync=SyncConfig(enabled=False)), []
        )  # or a scan of the notes would open it again
        workspace = await bench.add(tmp_path / "w")
        await asyncio.wrap_future(bench.workspaces.scheduler.run(workspace, close_index))
        findings = await bench.examine(verify=True)
        assert findings["index"].level == "error"
        assert findings["verify"].level == "error"
        assert not {"problems"} & findings.keys()

    play(tmp_path, scene)


def test_an_index_being_built_is_reported_at_once_and_verification_waits_for_it(
    tmp_path: Path,
) -> None:
    async def scene(bench: DoctorBench) -> None:
        bench.workspaces.reload(Config(sync=SyncConfig(enabled=False)), [])
        workspace = await bench.add(tmp_path / "w")
        await asyncio.wrap_future(bench.workspaces.scheduler.run(workspace, close_index))
        workspace.change(is_indexing=True)
        findings = await bench.examine()
        assert (findings["index"].level, findings["freshness"].level) == ("info", "info")
        rebuild = bench.workspaces.scheduler.rebuild(workspace)
        assert (await bench.examine(verify=True))["verify"].level == "ok"
        assert rebuild.done()

    play(tmp_path, scene)


def test_several_clients_can_examine_and_verify_at_once(tmp_path: Path) -> None:
    async def scene(bench: DoctorBench) -> None:
        workspaces = [await bench.add(tmp_path / f"w{number}") for number in range(3)]
        requested = [bench.examine(verify=True) for _ in range(4)]
        requested += [
            bench.examine(workspace=workspace.id, verify=True) for workspace in workspaces
        ]
        for findings in await asyncio.gather(*requested):
            assert {finding.level for finding in findings.values()} == {"ok"}

    play(tmp_path, scene)


def test_verifying_during_a_rebuild_finds_no_difference(tmp_path: Path) -> None:
    async def scene(bench: DoctorBench) -> None:
        workspace = await bench.add(tmp_path / "w")
        for number in range(50):
            write_note(
                tmp_path / "w" / ".memories" / f"{number}.md", f"# N\n\nlarch {number}\n" * 9
            )
        await asyncio.wrap_future(bench.workspaces.scheduler.sync(workspace))
        rebuilds = [bench.workspaces.scheduler.rebuild(workspace) for _ in range(3)]
        while not all(rebuild.done() for rebuild in rebuilds):
            findings = await bench.examine(verify=True)
            assert "error" not in {finding.level for finding in findings.values()}, findings

    play(tmp_path, scene)


def test_an_unknown_workspace_is_refused(tmp_path: Path) -> None:
    async def scene(bench: DoctorBench) -> None:
        with pytest.raises(WorkspaceNotFound):
            await bench.examine(workspace="nowhere")

    play(tmp_path, scene)
