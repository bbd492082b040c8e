"""The SDK's own tool loop, sync and async: after each step the answer is right, and disk, search
and history agree.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from memsyncd.integrations.instructions import INSTRUCTIONS

if TYPE_CHECKING:
    from memsyncd.integrations.anthropic import AsyncMemsyncdMemoryTool, MemsyncdMemoryTool
    from tests.daemon.conftest import Place
    from tests.integrations.conftest import Model

# Slow: each test has a daemon of its own, and the SDKs take seconds to import.
pytestmark = pytest.mark.life

KEPT = {
    "MEMORY.md": "# Memory\n\nkeepsake of the first hour\n",
    ".memories/context.md": "# Context\n\nbystander\n",
}
SESSIONS = "# Sessions\n\n## Store\n\nSessions live in Postgres.\n"
MOVED = SESSIONS.replace("Postgres", "Redis")
GROWN = MOVED + "\n## Lifetime\n\nThey expire after a fortnight.\n"


@dataclass(frozen=True, kw_only=True)
class Step:
    """The call of the model, the expected answer, and the expected state afterwards."""

    wish: dict[str, Any]
    reported: str
    is_error: bool = False
    # The files on the disk, in addition to the first notes.
    files: Mapping[str, str] = field(default_factory=dict)
    # The notes in which a search finds each word.
    found: Mapping[str, set[str]] = field(default_factory=dict)
    # The newest revision; None if no step has changed it.
    revision: Mapping[str, object] | None = None


STEPS = (
    Step(
        wish={"command": "view", "path": "/memories"},
        reported=(
            "Here're the files and directories up to 2 levels deep in /memories, excluding"
            " hidden items and node_modules:\n"
        ),
        found={"bystander": {".memories/context.md"}, "Postgres": set()},
    ),
    Step(
        wish={"command": "create", "path": "/memories/auth/sessions.md", "file_text": SESSIONS},
        reported="File created successfully at: /memories/auth/sessions.md",
        files={".memories/auth/sessions.md": SESSIONS},
        found={"Postgres": {".memories/auth/sessions.md"}},
        revision={"command": "create", "path": ".memories/auth/sessions.md", "old_digest": None},
    ),
    Step(
        wish={
            "command": "create",
            "path": "/memories/auth/sessions.md",
            "file_text": "something else",
        },
        reported="Error: File /memories/auth/sessions.md already exists",
        is_error=True,
        files={".memories/auth/sessions.md": SESSIONS},
        found={"Postgres": {".memories/auth/sessions.md"}},
    ),
    Step(
        wish={"command": "view", "path": "/memories/auth/sessions.md", "view_range": [3, 5]},
        reported=(
            "Here's the content of /memories/auth/sessions.md with line numbers:\n"
            "     3\t## Store\n     4\t\n     5\tSessions live in Postgres."
        ),
        files={".memories/auth/sessions.md": SESSIONS},
    ),
    Step(
        wish={
            "command": "str_replace",
            "path": "/memories/auth/sessions.md",
            "old_str": "in Postgres",
            "new_str": "in Redis",
        },
        reported="The memory file has been edited.",
        files={".memories/auth/sessions.md": MOVED},
        found={"Postgres": set(), "Redis": {".memories/auth/sessions.md"}},
        revision={"command": "str_replace", "path": ".memories/auth/sessions.md"},
    ),
    Step(
        wish={
            "command": "str_replace",
            "path": "/memories/auth/sessions.md",
            "old_str": "in MySQL",
            "new_str": "in Redis",
        },
        reported=(
            "No replacement was performed, old_str `in MySQL` did not appear verbatim in"
            " /memories/auth/sessions.md."
        ),
        is_error=True,
        files={".memories/auth/sessions.md": MOVED},
    ),
    Step(
        wish={
            "command": "insert",
            "path": "/memories/auth/sessions.md",
            "insert_line": 5,
            "insert_text": "\n## Lifetime\n\nThey expire after a fortnight.\n",
        },
        reported="The file /memories/auth/sessions.md has been edited.",
        files={".memories/auth/sessions.md": GROWN},
        found={
            "fortnight": {".memories/auth/sessions.md"},
            "Redis": {".memories/auth/sessions.md"},
        },
        revision={"command": "insert", "path": ".memories/auth/sessions.md"},
    ),
    Step(
        wish={
            "command": "rename",
            "old_path": "/memories/auth/sessions.md",
            "new_path": "/memories/sessions.md",
        },
        reported="Successfully renamed /memories/auth/sessions.md to /memories/sessions.md",
        files={".memories/sessions.md": GROWN},
        found={"fortnight": {".memories/sessions.md"}, "Redis": {".memories/sessions.md"}},
        revision={
            "command": "rename",
            "path": ".memories/sessions.md",
            "old_path": ".memories/auth/sessions.md",
        },
    ),
    Step(
        wish={"command": "delete", "path": "/memories/sessions.md"},
        reported="Successfully deleted /memories/sessions.md",
        found={"fortnight": set(), "Redis": set()},
        revision={"command": "delete", "path": ".memories/sessions.md", "new_digest": None},
    ),
    Step(
        wish={"command": "view", "path": "/memories/sessions.md"},
        reported="The path /memories/sessions.md does not exist. Please provide a valid path.",
        is_error=True,
    ),
    Step(
        wish={"command": "view", "path": "/memories/../../etc/passwd"},
        reported="",
        is_error=True,
    ),
)


@pytest.fixture
def model(make_model: Callable[..., Model]) -> Model:
    return make_model(*(step.wish for step in STEPS))


def options(model: Model) -> dict[str, Any]:
    return {"base_url": model.url, "api_key": "none is needed", "max_retries": 0}


def question(memory: MemsyncdMemoryTool | AsyncMemsyncdMemoryTool) -> dict[str, Any]:
    messages = [{"role": "user", "content": "Where do our sessions live?"}]
    return {
        "model": "claude",
        "max_tokens": 100,
        "system": INSTRUCTIONS,
        "messages": messages,
        "tools": [memory],
    }


class ConsistencyCheck:
    """Compares disk, search and history after each step."""

    def __init__(self, place: Place, model: Model) -> None:
        self._place, self._model = place, model
        self._newest = self._find_newest()

    def check(self, number: int) -> None:
        step, result = STEPS[number], self._model.results[number]
        assert result["tool_use_id"] == f"toolu_{number}"
        assert bool(result.get("is_error")) == step.is_error, result
        assert result["content"].startswith(step.reported), result
        assert read_files(self._place.root) == {**KEPT, **step.files}
        for word, paths in step.found.items():
            assert self._place.find(word) == paths, (number, word)
        self._check_history(step)

    def _check_history(self, step: Step) -> None:
        if step.revision is not None:
            self._place.wait(
                lambda: self._find_newest() != self._newest, f"{step.wish} left no revision"
            )
            newest = self._find_newest()
            assert {key: newest[key] for key in step.revision} == step.revision
            assert newest["client"] == "the loop"
            assert newest["new_digest"] == self._place.notes().get(newest["path"])
            self._newest = newest
        assert self._find_newest() == self._newest

    def _find_newest(self) -> dict[str, Any]:
        revisions = self._place.client.call("history", workspace=self._place.id, limit=1)[
            "revisions"
        ]
        return dict(revisions[0]) if revisions else {}


def read_files(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()
    }


def test_each_step_of_the_model_is_on_disk_found_and_in_history(
    place: Place, model: Model, socket: str, make_tool: Any
) -> None:
    from anthropic import Anthropic

    check = ConsistencyCheck(place, model)
    memory = make_tool(place.id, client="the loop")
    with Anthropic(**options(model)) as client:
        number = 0
        for number, _ in enumerate(client.beta.messages.tool_runner(**question(memory))):
            if number:
                check.check(number - 1)
    assert number == len(STEPS)


def test_the_async_loop_does_the_same(
    place: Place, model: Model, socket: str, make_async_tool: Any
) -> None:
    from anthropic import AsyncAnthropic

    check = ConsistencyCheck(place, model)
    memory = make_async_tool(place.id, client="the loop")

    async def talk() -> int:
        number = 0
        async with AsyncAnthropic(**options(model)) as client:
            async for _ in client.beta.messages.tool_runner(**question(memory)):
                if number:
                    await asyncio.to_thread(check.check, number - 1)
                number += 1
        return number - 1

    assert asyncio.run(talk()) == len(STEPS)


def test_the_model_gets_the_tool_and_its_instructions(
    place: Place, make_model: Callable[..., Model], socket: str, make_tool: Any
) -> None:
    from anthropic import Anthropic

    model = make_model()
    memory = make_tool(place.id, cache_control={"type": "ephemeral"})
    with Anthropic(**options(model)) as client:
        client.beta.messages.tool_runner(**question(memory)).until_done()
    (request,) = model.requests
    assert request["system"] == INSTRUCTIONS
    assert request["tools"] == [
        {"type": "memory_20250818", "name": "memory", "cache_control": {"type": "ephemeral"}}
    ]
