"""The cache folder cannot be used: requests are answered with the reason, and work as soon as it
can.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from memsyncd.client import Client
from memsyncd.errors import MemsyncdError, StoreFailed
from tests.daemon.conftest import wait_until

if TYPE_CHECKING:
    from tests.daemon.conftest import Home

# So that only a request tries it again.
CONFIG = "[sync]\nreconcile_s = 3600\n"
QUESTIONS = [
    ("search", {"query": "larch"}),
    ("search", {"query": "larch", "wait": "disk"}),
    ("context", {"query": "larch"}),
    ("get", {"path": "MEMORY.md"}),
    ("list", {}),
    ("sync", {}),
]


def put_file(folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.write_text("a file where the cache folder should be")


def put_closed_folder(folder: Path) -> None:
    folder.mkdir(parents=True)
    folder.chmod(0)
    if os.access(folder, os.W_OK):
        folder.chmod(0o700)
        pytest.skip("every folder is open to this user")


def clear(folder: Path) -> None:
    if folder.is_dir():
        folder.chmod(0o700)
    else:
        folder.unlink()


@pytest.fixture(params=[put_file, put_closed_folder])
def closed(
    request: pytest.FixtureRequest, make_home: Callable[..., Home]
) -> Iterator[tuple[Client, Path, str]]:
    home = make_home(CONFIG)
    cache = home.folder / "cache" / "memsyncd"
    request.param(cache)
    root = home.make_folder()
    (root / "MEMORY.md").write_text("# Memory\n\nlarch\n")
    daemon = home.start()
    with daemon.client() as client:
        yield client, cache, client.call("workspace.add", path=str(root))["workspaces"][0]["id"]
    with contextlib.suppress(OSError):
        cache.chmod(0o700)


@pytest.mark.parametrize(("method", "params"), QUESTIONS)
def test_a_request_is_answered_with_the_reason_while_the_cache_folder_is_unusable(
    closed: tuple[Client, Path, str], method: str, params: dict[str, object]
) -> None:
    client, _cache, id_ = closed
    for _ in range(3):
        with pytest.raises(MemsyncdError) as caught:
            client.call(method, workspace=id_, **params)
        assert isinstance(caught.value, StoreFailed)
        assert "the cache folder cannot be used" in caught.value.message
        assert "readable and writable for you" in caught.value.hint


def test_an_unusable_cache_folder_is_reported_and_requests_work_as_soon_as_it_is_usable(
    closed: tuple[Client, Path, str],
) -> None:
    client, cache, id_ = closed

    def finds() -> bool:
        try:
            return len(client.call("search", workspace=id_, query="larch")["hits"]) == 1
        except StoreFailed:
            return False

    wait_until(
        lambda: bool(client.call("status", workspace=id_)["workspaces"][0]["reasons"]),
        "status says nothing",
    )
    status = client.call("status", workspace=id_)["workspaces"][0]
    assert status["state"] == "degraded"
    assert "the cache folder cannot be used" in status["reasons"][0]
    problems = client.call("problems", workspace=id_)["problems"]
    assert any("the cache folder cannot be used" in problem["problem"] for problem in problems)
    findings = [
        finding
        for finding in client.call("doctor", workspace=id_)["findings"]
        if finding["check"] == "index"
    ]
    assert [(finding["level"], str(cache) in finding["where"]) for finding in findings] == [
        ("error", True)
    ]
    assert "the cache folder cannot be used" in findings[0]["what"]
    assert not finds()
    clear(cache)
    wait_until(finds, "it was not tried again")
    wait_until(
        lambda: client.call("status", workspace=id_)["workspaces"][0]["state"] == "ready",
        "the fault stays",
    )
    assert client.call("problems", workspace=id_)["problems"] == []
