"""Limits of open files under which no workspace, or not all, could be served."""

from __future__ import annotations

import resource
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING

import pytest

from memsyncd.daemon.resources import OPEN_FILES_NEEDED
from memsyncd.errors import StoreFailed
from memsyncd.store.connection import FILES_PER_WORKSPACE, FILES_RESERVED
from tests.daemon.conftest import wait_until

if TYPE_CHECKING:
    from tests.daemon.conftest import Home

# With so many workspaces, the records of the refused ones would need all files.
N_WORKSPACES = 16
N_SERVED = (OPEN_FILES_NEEDED - FILES_RESERVED) // FILES_PER_WORKSPACE


@pytest.mark.parametrize("limit", [20, OPEN_FILES_NEEDED - 1])
def test_a_daemon_refuses_to_start_where_it_may_open_too_few_files(home: Home, limit: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "memsyncd", "run"],
        env=home.env,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        preexec_fn=partial(resource.setrlimit, resource.RLIMIT_NOFILE, (limit, limit)),
    )
    assert done.returncode == 78, done.stderr
    assert f"may open only {limit} files" in done.stderr
    assert "LimitNOFILE" in done.stderr
    assert "Traceback" not in done.stderr


def test_as_many_workspaces_are_served_as_there_are_files_for_and_the_others_say_why(
    own: Home,
) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    daemon = own.start()
    resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE, (OPEN_FILES_NEEDED, hard))
    reason = f"too many open files ({OPEN_FILES_NEEDED}): raise `ulimit -n`"
    with daemon.client() as client:
        added = []
        for _ in range(N_WORKSPACES):
            root = own.make_folder()
            (root / "MEMORY.md").write_text("larch\n")
            added.append(client.call("workspace.add", path=str(root))["workspaces"][0]["id"])

        def find(workspace: str) -> bool:
            try:
                return bool(client.call("search", query="larch", workspace=workspace)["hits"])
            except StoreFailed as failure:
                assert reason in str(failure)  # noqa: PT017 - both outcomes are right
                return False

        def list_states() -> dict[str, str]:
            status = client.call("status")["workspaces"]
            return {workspace["id"]: workspace["state"] for workspace in status}

        def is_settled() -> bool:
            return "indexing" not in list_states().values()

        wait_until(is_settled, "workspaces are neither served nor refused")
        served = [workspace_id for workspace_id in added if find(workspace_id)]
        assert len(served) == N_SERVED
        for workspace in client.call("status")["workspaces"]:
            if workspace["id"] not in served:
                assert workspace["state"] == "degraded"
                assert reason in "; ".join(workspace["reasons"])
                findings = client.call("doctor", workspace=workspace["id"])["findings"]
                assert any(reason in finding["what"] for finding in findings)
                assert not any("deleted" in finding["what"] for finding in findings)
        # A workspace that is removed makes room.
        client.call("workspace.remove", workspace=served[0])
        waiting = [workspace_id for workspace_id in added if workspace_id not in served]
        wait_until(lambda: any(map(find, waiting)), "the room is not used")
    assert daemon.stop() == 0
    assert "Traceback" not in own.read_log()
