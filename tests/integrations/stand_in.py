"""A plugin for the pytest that runs Anthropic's own tests: where they make the SDK's tool, they get
memsyncd's.

Their folder becomes a workspace, whose `memories` is called `.memories`. The outcomes are written
as JSON to the file that OUTCOMES names: `Class::test[parameter]` to the outcome and, if it failed,
the reason in a line.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from anyio import Path as AsyncPath

from memsyncd.client import connect
from memsyncd.integrations.anthropic import AsyncMemsyncdMemoryTool, MemsyncdMemoryTool

if TYPE_CHECKING:
    from types import ModuleType

OUTCOMES: dict[str, tuple[str, str]] = {}
ADDED: list[str] = []


def add_workspace(base_path: str) -> str:
    with connect() as client:
        (info,) = client.call("workspace.add", path=base_path)["workspaces"]
    ADDED.append(info["id"])
    return str(info["id"])


class Tool(MemsyncdMemoryTool):
    def __init__(self, base_path: str) -> None:
        super().__init__(add_workspace(base_path), dialect="sdk")
        self.base_path = Path(base_path)
        self.memory_root = self.base_path / ".memories"
        self.memory_root.mkdir()


class AsyncTool(AsyncMemsyncdMemoryTool):
    def __init__(self, base_path: str) -> None:
        super().__init__(add_workspace(base_path), dialect="sdk")
        self.base_path = AsyncPath(base_path)
        self.memory_root = self.base_path / ".memories"
        Path(self.memory_root).mkdir()


@pytest.fixture(autouse=True)
def stand_in(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    module: ModuleType = request.module
    find_files = module.get_directory_snapshot
    monkeypatch.setattr(module, "BetaLocalFilesystemMemoryTool", Tool)
    monkeypatch.setattr(module, "BetaAsyncLocalFilesystemMemoryTool", AsyncTool)
    monkeypatch.setattr(
        module,
        "get_directory_snapshot",
        lambda base: {path.removeprefix("."): text for path, text in find_files(base).items()},
    )
    yield
    while ADDED:
        with connect() as client:
            client.call("workspace.remove", workspace=ADDED.pop())


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    name = report.nodeid.partition("::")[2]
    if report.when == "call" or not report.passed:
        crash = getattr(report.longrepr, "reprcrash", None)
        OUTCOMES[name] = (report.outcome, str(crash.message if crash else report.longrepr or ""))


def pytest_sessionfinish() -> None:
    Path(os.environ["OUTCOMES"]).write_text(json.dumps(OUTCOMES))
