"""Recorded messages of agents and SDKs get the answers that these expect: each transcript is sent to a
real daemon. `tests/clients/test_agents.py` records them.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.clients.transcripts import TRANSCRIPTS, read_transcript
from tests.daemon.conftest import (
    daemon,
    home,
    make_home,
    make_place,
    place,
    pytest_runtest_makereport,
    root,
)

if TYPE_CHECKING:
    from tests.daemon.conftest import Home, Place

__all__ = [
    "daemon",
    "home",
    "make_home",
    "make_place",
    "place",
    "pytest_runtest_makereport",
    "root",
]

LIMIT_S = 20.0
RECORDED = sorted(TRANSCRIPTS.glob("*.jsonl"))
# It calls one tool and leaves.
CALLED = {"inspector-search": ["memory_search"], "inspector-remember": ["memory_remember"]}
EXPECTED = {
    "claude-code", "codex", "gemini", "opencode", "python-sdk", "typescript-sdk", *CALLED,
}  # fmt: skip


def replay(socket_path: str, messages: list[dict[str, Any]]) -> Iterator[tuple[Any, Any]]:
    """Send the messages, wait for the answer to each request like a client, and yield both."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(LIMIT_S)
        connection.connect(socket_path)
        lines = connection.makefile("rb")
        for message in messages:
            connection.sendall(json.dumps(message).encode() + b"\n")
            if "id" in message and message["method"] != "subscriptions/listen":
                yield message, wait(lines, message["id"])


def wait(lines: Any, request_id: object) -> dict[str, Any]:
    for line in lines:
        answer = json.loads(line)
        if "method" not in answer and answer.get("id") == request_id:
            return dict(answer)
    raise AssertionError(f"no answer to {request_id}")


def test_every_client_has_a_transcript_without_paths_of_a_machine() -> None:
    assert {path.stem for path in RECORDED} >= EXPECTED
    for path in RECORDED:
        assert not any(f"/{name}/" in path.read_text() for name in ("home", "root", "tmp", "var"))


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_a_client_gets_what_it_expects(path: Path, home: Home, place: Place) -> None:
    (place.root / "MEMORY.md").write_text("# Larch\n\nThe larch stands by the gate.\n")
    (place.root / ".memories" / "fresh.md").write_text("# Quince\n\nThe quince is new.\n")
    messages = read_transcript(path, place.root)
    called: list[str] = []
    for request, answer in replay(home.socket_path, messages):
        assert "result" in answer, (request, answer)
        result = answer["result"]
        match request["method"]:
            case "initialize":
                assert result["protocolVersion"] == request["params"]["protocolVersion"]
                assert "memory_context" in result["instructions"]
            case "server/discover":
                assert "2026-07-28" in result["supportedVersions"]
            case "tools/list":
                assert result["tools"][0]["name"] == "memory_search"
            case "resources/list":
                uris = {resource["uri"] for resource in result["resources"]}
                assert f"memsyncd:///{place.root.name}/MEMORY.md" in uris
            case "tools/call":
                called.append(check_call(request["params"], result))
    wanted = CALLED.get(path.stem, ["memory_search", "memory_remember"])
    assert [name for name in called if name != "memory_hook"][:2] == wanted
    if "memory_remember" in wanted:
        place.wait_found("medlar", ".memories/notes.md")


def check_call(params: dict[str, Any], result: dict[str, Any]) -> str:
    """Check the result of one call, and return the tool's name."""
    text, name = result["content"][0]["text"], str(params["name"])
    is_wrong = "colour" in params["arguments"]
    assert result.get("isError", False) == is_wrong
    if name == "memory_search" and not is_wrong:
        assert text.startswith(".memories/fresh.md:1-3  Quince")
    elif name == "memory_hook":
        assert "The quince is new" in json.loads(text)["hookSpecificOutput"]["additionalContext"]
    elif name == "memory_remember":
        assert text.startswith("Remembered at .memories/notes.md:")
    return name
