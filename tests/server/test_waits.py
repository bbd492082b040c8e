"""Waiting for work of a workspace whose client leaves."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from concurrent.futures import Future
from pathlib import Path

from memsyncd.server.dispatch import wait_for_turn
from memsyncd.server.reads import wait_for, wait_for_work
from tests.server.test_handlers import HandlersBench, run


def test_a_failure_after_its_client_has_left_is_no_error_of_the_loop(tmp_path: Path) -> None:
    (tmp_path / "proj").mkdir()

    async def leave(bench: HandlersBench) -> None:
        reported: list[object] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, context: reported.append(context))
        workspace = await bench.add(tmp_path / "proj")
        for wait in (
            lambda work: wait_for_turn(bench.workspaces, workspace, work, 60.0),
            lambda work: wait_for_work(bench.workspaces, workspace, work, 60.0),
            lambda work: wait_for(asyncio.gather(asyncio.wrap_future(work)), 60.0),
        ):
            work: Future[None] = Future()
            task = asyncio.ensure_future(wait(work))
            await asyncio.sleep(0)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            work.set_exception(ValueError("nobody waits"))
            del task, work
            await asyncio.sleep(0.01)
            gc.collect()
        assert reported == []

    run(tmp_path, leave)
