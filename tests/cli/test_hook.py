"""The JSON of agents' hooks: as Claude Code, Codex and Gemini CLI send it, and as Cursor documents
it.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.cli.hook import (
    CLIENTS,
    EVENTS,
    MAX_ERROR_CHARS,
    detect_client,
    find_captures,
    read_field,
    read_prompt,
    render_answer,
)

BASE = {"session_id": "s-1", "cwd": "/p", "transcript_path": "/t.jsonl"}
CLAUDE = {**BASE, "hook_event_name": "SessionStart", "source": "startup"}
CODEX = {
    **BASE,
    "hook_event_name": "UserPromptSubmit",
    "model": "gpt",
    "turn_id": "t",
    "prompt": "",
}
GEMINI = {**BASE, "hook_event_name": "SessionStart", "timestamp": "2026-11-22T00:00:00Z"}
CURSOR = {
    "conversation_id": "c-1",
    "hook_event_name": "sessionStart",
    "cursor_version": "2.4",
    "workspace_roots": ["/p"],
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10),
    lambda values: (
        st.lists(values, max_size=3)
        | st.dictionaries(st.sampled_from(["error", "answers", "plan", "is_error", "x"]), values)
    ),
    max_leaves=8,
)
NAMES = st.sampled_from(
    ["tool_name", "tool_response", "tool_input", "error", "cwd", "prompt", "session_id", "text"]
)


@pytest.mark.parametrize(
    ("fields", "client"),
    [(CLAUDE, "claude-code"), (CODEX, "codex"), (GEMINI, "gemini"), (CURSOR, "cursor")],
)
def test_a_client_is_told_by_its_fields(fields: dict[str, Any], client: str) -> None:
    assert detect_client(fields) == client
    assert read_field(fields, "folder") == "/p"
    assert read_field(fields, "run")[1:] == "-1"


@pytest.mark.parametrize(
    ("client", "event", "answer"),
    [
        ("claude-code", "session-start", "SessionStart"),
        ("codex", "session-start", "SessionStart"),
        ("gemini", "session-start", "SessionStart"),
        ("claude-code", "user-prompt", "UserPromptSubmit"),
        ("codex", "user-prompt", "UserPromptSubmit"),
        ("gemini", "user-prompt", "BeforeAgent"),
        ("opencode", "session-start", "SessionStart"),
        ("opencode", "user-prompt", "UserPromptSubmit"),
    ],
)
def test_text_is_given_under_the_clients_name_of_the_event(
    client: str, event: str, answer: str
) -> None:
    assert render_answer(client, event, "x", "memory: 1 note") == {
        "hookSpecificOutput": {"hookEventName": answer, "additionalContext": "x"},
        "systemMessage": "memory: 1 note",
    }
    assert render_answer(client, event, "", "") is None


@pytest.mark.parametrize(
    ("event", "name"), [("session-start", "SessionStart"), ("user-prompt", "UserPromptSubmit")]
)
def test_each_kind_of_session_in_vscode_finds_the_text(event: str, name: str) -> None:
    assert render_answer("vscode", event, "x", "") == {
        "hookSpecificOutput": {"hookEventName": name, "additionalContext": "x"},
        "additionalContext": "x",
    }
    fields = {"sessionId": "s-1", "hookEventName": name, "timestamp": "", "cwd": "/p"}
    assert read_field(fields, "run") == "s-1"


def test_cursor_takes_text_at_the_start_of_a_session_alone() -> None:
    assert render_answer("cursor", "session-start", "x", "") == {"additional_context": "x"}
    assert render_answer("cursor", "user-prompt", "x", "") is None


def test_the_context_that_gemini_puts_before_a_prompt_is_no_part_of_it() -> None:
    prompt = "<hook_context>## Prior Knowledge\n\nredis</hook_context>\n\nwhy apsw?"
    assert read_prompt({**GEMINI, "prompt": prompt}) == "why apsw?"
    assert read_prompt({**CLAUDE, "prompt": "why apsw?"}) == "why apsw?"
    assert read_prompt(CURSOR) == ""


# --- captures ---


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        ({"error": "exit code 2\nno rule"}, "exit code 2\nno rule"),
        ({"error_message": "timed out"}, "timed out"),
        ({"tool_response": {"error": {"message": "no such file"}}}, "no such file"),
        ({"tool_response": {"exit_code": 3, "stderr": "bad"}}, "exit status 3: bad"),
        ({"tool_response": {"is_error": True}}, "no message"),
        ({"tool_response": {"success": False, "output": "why"}}, "no message: why"),
    ],
)
def test_a_failed_tool_can_be_captured(sent: dict[str, Any], error: str) -> None:
    event = {**BASE, "tool_name": "Bash", "tool_input": {"command": "make x"}, **sent}
    (capture,) = find_captures("claude-code", "post-tool-use", event)
    assert (capture["trigger"], capture["step"], capture["run_id"]) == ("failure", "Bash", "s-1")
    assert capture["error"] == f"make x\n\n{error}"


@pytest.mark.parametrize(
    "sent",
    [
        {"tool_response": {"exit_code": 0, "stderr": "a warning"}},
        {"tool_response": "plain text with error in it"},
        {"tool_response": {"success": True, "error": ""}},
        {"error": "stopped by the user", "is_interrupt": True},
    ],
)
def test_a_tool_that_did_not_fail_is_not_captured(sent: dict[str, Any]) -> None:
    assert not find_captures("codex", "post-tool-use", {**BASE, "tool_name": "Bash", **sent})


def test_an_approved_plan_and_answers_can_be_captured() -> None:
    plan = {**BASE, "tool_name": "ExitPlanMode", "tool_input": {"plan": "# Plan\n\n## A\n\nb"}}
    (capture,) = find_captures("claude-code", "post-tool-use", plan)
    assert (capture["trigger"], capture["step"]) == ("decision", "plan")
    interview = {
        "tool_name": "AskUserQuestion",
        "tool_response": {"answers": {"Which?": "Postgres"}},
    }
    (capture,) = find_captures("claude-code", "post-tool-use", {**BASE, **interview})
    assert (capture["trigger"], capture["answers"]) == ("interview", {"Which?": "Postgres"})


def test_the_last_message_of_a_turn_can_be_captured_with_its_decisions() -> None:
    message = f"Decision: use apsw.\n\n**Decision:** no pool.\n\nDecision:\n\n{'More text. ' * 20}"
    for name in ("last_assistant_message", "prompt_response", "text"):
        captures = find_captures("gemini", "stop", {**BASE, name: message})
        triggers = [capture["trigger"] for capture in captures]
        assert triggers == ["decision", "decision", "summary"]
        assert captures[0]["artifacts"] == [{"content": "Decision: use apsw."}]
    assert not find_captures("gemini", "stop", {**BASE, "prompt_response": "Done."})


def test_a_long_error_keeps_its_beginning_and_its_end() -> None:
    error = "begin " + "x" * 100_000 + " end"
    (capture,) = find_captures("codex", "post-tool-use", {"tool_name": "t", "error": error})
    assert len(capture["error"]) < MAX_ERROR_CHARS + 100
    assert capture["error"].startswith("begin ")
    assert capture["error"].endswith(" end")


@given(st.sampled_from(CLIENTS), st.sampled_from(EVENTS), st.dictionaries(NAMES, JSON))
def test_no_json_breaks_a_hook(client: str, event: str, sent: dict[str, Any]) -> None:
    assert detect_client(sent) in CLIENTS
    for capture in find_captures(client, event, sent):
        assert capture["step"]
        assert capture["trigger"] in {"failure", "decision", "interview", "summary"}
