"""Limits of the system, in separate namespaces: few watches, a small memory disk, a read-only disk."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from tests.programs import succeeds

if TYPE_CHECKING:
    from tests.daemon.conftest import Home

OWN_USERS = ["unshare", "--user", "--map-root-user", "--mount"]
PROGRAM = f"'{sys.executable}' -m memsyncd"


def has_namespaces() -> bool:
    script = "echo 8 > /proc/sys/user/max_inotify_watches && mount -t tmpfs none /mnt"
    return succeeds(*OWN_USERS, "sh", "-c", script)


pytestmark = pytest.mark.skipif(
    not has_namespaces(), reason="needs Linux with user namespaces, to limit nobody else"
)


def examine_in(home: Home, script: str, **env: str) -> list[dict[str, Any]]:
    """The findings of `memsyncd doctor --json`, called last in a script of its own namespaces."""
    command = [*OWN_USERS, "sh", "-ec", f"{script}\n{PROGRAM} doctor --json || true"]
    done = subprocess.run(
        command, env={**home.env, **env}, capture_output=True, text=True, check=False, timeout=50
    )
    assert done.stdout, done.stderr
    findings: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])["findings"]
    return findings


def find(findings: list[dict[str, Any]], check: str, level: str) -> list[dict[str, Any]]:
    return [
        finding for finding in findings if (finding["check"], finding["level"]) == (check, level)
    ]


def test_exhausted_watches_are_found_with_the_setting_that_raises_the_limit(
    make_home: Callable[[], Home],
) -> None:
    home = make_home()
    root = home.make_folder()
    for number in range(30):
        (root / ".memories" / str(number)).mkdir(parents=True)
    script = f"""
        echo 20 > /proc/sys/user/max_inotify_watches
        trap '{PROGRAM} stop' EXIT
        {PROGRAM} start {root} >/dev/null
        {PROGRAM} sync >/dev/null
    """
    findings = examine_in(home, script)
    [watcher] = find(findings, "watcher", "warning")
    assert "inotify watch limit reached" in watcher["what"]
    assert "sysctl" in watcher["what"]


def test_a_small_memory_disk_is_found(make_home: Callable[[], Home]) -> None:
    home = make_home()
    place = home.folder / "small"
    place.mkdir()
    findings = examine_in(
        home, f"mount -t tmpfs -o size=1m small '{place}'", XDG_STATE_HOME=str(place)
    )
    [low] = find(findings, "disk", "error")
    assert str(place) in low["where"]
    [fleeting] = find(findings, "filesystem", "warning")
    assert "tmpfs" in fleeting["what"]


def test_a_disk_that_cannot_be_written_is_found(make_home: Callable[[], Home]) -> None:
    home = make_home()
    place = home.folder / "fixed"
    place.mkdir()
    findings = examine_in(home, f"mount -t tmpfs -o ro fixed '{place}'", XDG_CACHE_HOME=str(place))
    assert [finding["where"] for finding in find(findings, "filesystem", "error")] == [
        os.path.join(place, "memsyncd")
    ]
