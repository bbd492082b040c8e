"""Folders of memsyncd that its user may not use: closed, made by root, or replaced by a file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from memsyncd.errors import MemsyncdError
from tests.daemon.conftest import wait_until
from tests.faults.conftest import code_of, connect
from tests.programs import succeeds

if TYPE_CHECKING:
    from tests.daemon.conftest import Home
    from tests.faults.conftest import Launch

# Root without the rights to ignore permissions.
WITHOUT_RIGHTS = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")
PREFIX = WITHOUT_RIGHTS if os.geteuid() == 0 else ()

pytestmark = pytest.mark.skipif(
    bool(PREFIX) and not succeeds(*PREFIX, "true"), reason="root may use every folder"
)


def call(home: Home, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PREFIX, sys.executable, "-m", "memsyncd", *words],
        env=home.env,
        cwd=home.folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("kind", ["closed", "file"])
def test_a_state_folder_that_cannot_be_created_is_named_by_doctor(own: Home, kind: str) -> None:
    state = Path(own.env["XDG_STATE_HOME"])
    if kind == "closed":
        state.mkdir(mode=0o500)
    else:
        state.touch()
    started = call(own, "start")
    assert started.returncode == 6
    assert "`memsyncd doctor`" in started.stderr
    examined = call(own, "doctor")
    assert examined.returncode == 3
    assert f"{state}/memsyncd cannot be " in examined.stdout
    assert "set XDG_STATE_HOME" in examined.stdout


def test_a_cache_folder_that_cannot_be_created_is_named_by_doctor(
    own: Home, launch: Launch
) -> None:
    cache = Path(own.env["XDG_CACHE_HOME"])
    cache.mkdir(mode=0o500)
    root = own.make_folder()
    (root / "MEMORY.md").write_text("larch\n")
    launch(own, PREFIX)
    with connect(own) as client:
        client.call("workspace.add", path=str(root))
        with pytest.raises(MemsyncdError) as refused:
            client.call("search", query="larch", wait="disk")
        assert "memsyncd doctor" in refused.value.hint
        assert f"{cache}/memsyncd cannot be created" in call(own, "doctor").stdout
        cache.chmod(0o700)
        wait_until(
            lambda: not code_of(lambda: client.call("search", query="larch", wait="disk")),
            "it stays closed",
        )
        assert client.call("search", query="larch")["hits"]


def test_an_index_that_may_not_be_written_is_named_by_doctor(own: Home, launch: Launch) -> None:
    root = own.make_folder()
    (root / "MEMORY.md").write_text("larch\n")
    daemon = own.start()
    with daemon.client() as client:
        client.call("workspace.add", path=str(root))
        client.call("search", query="larch", wait="disk")
    assert daemon.stop() == 0
    [index] = (Path(own.env["XDG_CACHE_HOME"]) / "memsyncd").glob("*/index.db")
    folder = index.parent
    for path in (index, folder):
        path.chmod(path.stat().st_mode & 0o500)
    launch(own, PREFIX)
    with connect(own) as client:
        with pytest.raises(MemsyncdError) as refused:
            client.call("search", query="larch", wait="disk")
        assert "may not be written" in refused.value.message
        assert "memsyncd doctor" in refused.value.hint
        assert f"chmod 700 {folder}" in call(own, "doctor").stdout


def test_an_index_that_is_closed_while_the_daemon_runs_is_reported_until_it_is_opened(
    own: Home, launch: Launch
) -> None:
    root = own.make_folder()
    (root / "MEMORY.md").write_text("larch\n")
    launch(own, PREFIX)
    cache = Path(own.env["XDG_CACHE_HOME"]) / "memsyncd"
    with connect(own) as client:

        def status() -> dict[str, Any]:
            return dict(client.call("status")["workspaces"][0])

        client.call("workspace.add", path=str(root))
        client.call("search", query="larch", wait="disk")
        cache.chmod(0)
        client.call("sync")
        assert status()["state"] == "degraded"
        assert status()["reasons"] == ["index.db cannot be opened for searches: Permission denied"]
        assert f"chmod 700 {cache}" in call(own, "doctor").stdout
        cache.chmod(0o700)
        client.call("sync")
        assert status()["state"] == "ready"
        assert client.call("search", query="larch")["hits"]


def test_a_history_that_is_closed_while_the_daemon_runs_is_a_finding(
    own: Home, launch: Launch
) -> None:
    root = own.make_folder()
    (root / "MEMORY.md").write_text("larch\n")
    launch(own, PREFIX)
    state = Path(own.env["XDG_STATE_HOME"]) / "memsyncd"
    with connect(own) as client:
        client.call("workspace.add", path=str(root))
        client.call("search", query="larch", wait="disk")
        state.chmod(0)
        findings = client.call("doctor")["findings"]
        state.chmod(0o700)
    [closed] = [finding for finding in findings if finding["check"] == "records"]
    assert closed["what"] == "this could not be checked: Permission denied"
    assert "memsyncd doctor" in closed["remedy"]


def test_a_runtime_folder_that_is_closed_is_named_by_doctor(own: Home, launch: Launch) -> None:
    launch(own, PREFIX)
    connect(own).close()
    folder = Path(own.socket_path).parent
    folder.chmod(0)
    try:
        answer = call(own, "status")
        examined = call(own, "doctor")
    finally:
        folder.chmod(0o700)
    assert answer.returncode == 6
    assert "closed to you" in answer.stderr
    assert "unset XDG_RUNTIME_DIR" in answer.stderr
    assert f"chmod 700 {folder}" in examined.stdout
