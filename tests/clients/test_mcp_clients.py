"""The official SDK, the Inspector and the conformance suite of MCP, against a real daemon."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.clients.http_bridge import serve_port
from tests.daemon.conftest import Home

if TYPE_CHECKING:
    from tests.clients.conftest import Tools

pytestmark = [pytest.mark.clients, pytest.mark.timeout(600)]

LIMIT_S = 120
SDK_PROGRAM = """
import asyncio, sys
from mcp import Client, StdioServerParameters

async def main(mode, command, *args):
    server = StdioServerParameters(command=command, args=list(args), env=None)
    server = command if command.startswith("http") else server
    async with Client(server, **({} if mode == "auto" else {"mode": mode})) as client:
        print(client.protocol_version)
        print(*[tool.name for tool in (await client.list_tools()).tools])
        async def call(name, **arguments):
            result = await client.call_tool(name, arguments)
            print(result.is_error, result.content[0].text)
        await call("memory_search", query="larch")
        await call("memory_remember", content="The spruce is older.", summary="Spruces")
        await call("memory_search", query="spruces")
        await call("memory_search", query="x", colour="red")
        uri = (await client.list_resources()).resources[-1].uri
        print((await client.read_resource(uri)).contents[0].text)
        print((await client.get_prompt("recall", {"query": "larch"})).messages[0].content.text)
asyncio.run(main(*sys.argv[1:]))
"""
FIXTURE = "it needs a prompt or resource that only a server made for the suite has"
TOOL = "it needs a diagnostic tool that only a server made for the suite has"
# Checks that fail, by scenario, with the reason.
EXCEPTIONS: dict[str, dict[str, str]] = {
    "completion-complete": {"completion-complete": FIXTURE},
    "resources-subscribe": {"resources-subscribe": FIXTURE},
    "resources-unsubscribe": {"resources-unsubscribe": FIXTURE},
    "server-stateless": {
        "sep-2575-server-rejects-undeclared-capability": TOOL,
        "sep-2575-missing-capability-http-400": TOOL,
        "sep-2575-http-server-no-independent-requests-on-stream": TOOL,
        "sep-2575-server-no-log-without-loglevel": TOOL,
    },
}
SCENARIOS = {
    "2025-06-18": ("server-initialize", "ping", "logging-set-level", "tools-list", "prompts-list"),
    "2025-11-25": (
        "server-initialize", "server-session-lifecycle", "ping", "logging-set-level", "tools-list",
        "completion-complete", "resources-list", "resources-subscribe", "resources-unsubscribe",
        "prompts-list", "dns-rebinding-protection",
    ),
    "2026-07-28": (
        "server-stateless", "caching", "tools-list", "resources-list", "prompts-list",
        "completion-complete", "sep-2164-resource-not-found", "dns-rebinding-protection",
        "input-required-result-unsupported-methods", "http-header-validation",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Home, Path]]:
    """A home with a running daemon and a workspace that has a note."""
    home = Home(tmp_path_factory.mktemp("h"))
    root = home.make_folder()
    (root / "MEMORY.md").write_text("# Larch\n\nThe larch is tall.\n")
    daemon = home.start()
    with daemon.client() as client:
        client.call("workspace.add", path=str(root))
        client.call("sync")
    yield home, root
    home.close()


@pytest.mark.parametrize(("mode", "version"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
@pytest.mark.parametrize("command", ["memsyncd mcp", "nc -U"])
def test_the_python_sdk_finds_remembers_and_reads(
    tools: Tools, place: tuple[Home, Path], mode: str, version: str, command: str
) -> None:
    home, root = place
    server = [sys.executable, "-m", "memsyncd", "mcp", "-w", str(root)]
    environment = [f"{name}={value}" for name, value in home.env.items()]
    words = ["env", *environment, *server] if "mcp" in command else ["nc", "-U", home.socket_path]
    done = subprocess.run(
        [tools.python, "-c", SDK_PROGRAM, mode, *words],
        capture_output=True, text=True, timeout=LIMIT_S, check=False, cwd=root,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    lines = done.stdout.splitlines()
    assert lines[0] == version
    assert lines[1] == (
        "memory_search memory_context memory_remember memory memory_get memory_update memory_agent"
    )
    assert "False MEMORY.md:1-3  Larch" in lines
    # Earlier runs may have remembered the same text.
    remembered = r"^False Remembered at \S+\.md:\d+-\d+(\. Nearly the same: .+)?$"
    assert re.search(remembered, done.stdout, re.MULTILINE)
    assert any("The **spruce** is older" in line or "spruce is older" in line for line in lines)
    assert "True no argument named `colour`" in lines
    assert "The larch is tall." in lines


@pytest.mark.parametrize(("mode", "version"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
def test_the_python_sdk_works_by_http(
    tools: Tools, place: tuple[Home, Path], mode: str, version: str
) -> None:
    with serve_port(place[0].socket_path) as url:
        done = subprocess.run(
            [tools.python, "-c", SDK_PROGRAM, mode, f"{url}/mcp"],
            capture_output=True, text=True, timeout=LIMIT_S, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines()[0] == version
    assert "False MEMORY.md:1-3  Larch" in done.stdout
    assert "True no argument named `colour`" in done.stdout


@pytest.mark.parametrize(
    ("method", "found"),
    [
        ("tools/list", "memory_search"),
        ("resources/list", "memsyncd:///"),
        ("prompts/list", "recall"),
    ],
)
def test_the_inspector_lists_everything(
    tools: Tools, place: tuple[Home, Path], method: str, found: str
) -> None:
    home, root = place
    package = tools.modules / "@modelcontextprotocol" / "inspector"
    program = package / next(iter(read_programs(package)))
    done = subprocess.run(
        [tools.node, program, "--cli", "nc", "-U", home.socket_path, "--method", method],
        capture_output=True, text=True, timeout=LIMIT_S, check=False, cwd=root,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert found in done.stdout


@pytest.mark.parametrize(
    ("version", "scenario"),
    [(version, scenario) for version, names in SCENARIOS.items() for scenario in names],
)
def test_the_conformance_suite_passes_but_for_listed_checks(
    tools: Tools, place: tuple[Home, Path], version: str, scenario: str
) -> None:
    package = tools.modules / "@modelcontextprotocol" / "conformance"
    program = package / next(iter(read_programs(package)))
    with serve_port(place[0].socket_path) as url:
        words = [tools.node, program, "server", "--url", f"{url}/mcp", "--scenario", scenario]
        done = subprocess.run(
            [*words, "--spec-version", version],
            capture_output=True, text=True, timeout=LIMIT_S, check=False, cwd=place[1].parent,
        )  # fmt: skip
    text = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
    results = dict(re.findall(r"\[([\w-]+) *\] (SUCCESS|FAILURE)", text))
    assert "SUCCESS" in results.values() or scenario in EXCEPTIONS, text[-3000:]
    failed = {name for name, result in results.items() if result == "FAILURE"}
    assert failed == EXCEPTIONS.get(scenario, {}).keys() & failed, text[-3000:]
    assert bool(failed) == (done.returncode != 0), text[-3000:]


def read_programs(package: Path) -> list[str]:
    programs = json.loads((package / "package.json").read_text())["bin"]
    return [programs] if isinstance(programs, str) else list(programs.values())
