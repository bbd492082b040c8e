from __future__ import annotations

import io
import tomllib
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.cli.commands import load_command
from memsyncd.operations.semantic.show import switch
from memsyncd.terminal.console import Console
from memsyncd.terminal.terminal import Terminal

HEADERS = ["[semantic]", "  [ semantic ]  # vectors", "[log]", "[[workspace]]"]
LINES = st.sampled_from(
    ["", "# a comment", "enabled = false # why", "  enabled=true", "model = 'm'", *HEADERS]
)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "[semantic]\nenabled = true\n"),
        ("[log]\nlevel = 'info'", "[log]\nlevel = 'info'\n\n[semantic]\nenabled = true\n"),
        ("[semantic]\nenabled = false # mine\n", "[semantic]\nenabled = true # mine\n"),
        ("[semantic]", "[semantic]\nenabled = true\n"),
        (
            "[semantic]\nmodel = 'm'\n\n[sync]\nenabled = false\n",
            "[semantic]\nenabled = true\nmodel = 'm'\n\n[sync]\nenabled = false\n",
        ),
    ],
)
def test_one_line_of_the_configuration_changes(before: str, after: str) -> None:
    assert switch(before, is_on=True) == after


@given(st.lists(LINES, max_size=8), st.booleans())
def test_a_switched_file_means_the_same_but_for_the_switch(lines: list[str], is_on: bool) -> None:
    before = "\n".join(lines)
    try:
        wanted = tomllib.loads(before)
    except tomllib.TOMLDecodeError:
        return
    wanted.setdefault("semantic", {})["enabled"] = is_on
    assert tomllib.loads(switch(before, is_on=is_on)) == wanted


class Answering(Console):
    """Answers each request with one state of one workspace."""

    def __init__(self, state: dict[str, Any]) -> None:
        super().__init__(Terminal(io.StringIO(), io.StringIO(), {}), {})
        workspaces = [{"name": "w", "semantic": state}]
        self._answer = {
            "enabled": True, "process": None, "reason": None, "workspaces": workspaces
        }  # fmt: skip

    def call(self, method: str, **params: object) -> dict[str, Any]:
        return self._answer


@pytest.mark.parametrize(
    ("state", "reason", "failed", "status"),
    [
        ("ready", None, False, 0),
        ("ready", "the model is not in memory", False, 0),
        ("partial", "vectors are being made", False, 0),
        ("partial", "there is no room", True, 1),
        ("off", "the endpoint hangs", True, 1),
    ],
)
def test_the_exit_status_is_the_same_for_people_and_programs(
    state: str, reason: str | None, failed: bool, status: int
) -> None:
    described = {"state": state, "reason": reason, "failed": failed, "embedder": "e"}
    console = Answering({**described, "total": 2, "pending": 1 if state == "partial" else 0})
    for is_json in (False, True):
        args = SimpleNamespace(json=is_json, workspace=None)
        run = load_command("semantic").commands["status"].run
        assert run(args, console) == status
