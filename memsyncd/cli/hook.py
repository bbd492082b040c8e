"""`memsyncd hook`: answer the hooks of coding agents from their JSON on stdin.

A hook must not disturb its agent. Without a daemon, in a folder without memory, or with input that
is not JSON, it prints nothing and exits with 0; `--verbose` gives the reason on stderr. It waits at
most two seconds for its input, and two seconds for each answer. If no daemon runs, it starts one.
At the start of a session it waits longer for this daemon, because the session needs its memory.

The clients send nearly the same values under different names, which `FIELDS` lists. A hook runs for
every prompt, so it imports little.
"""

from __future__ import annotations

import os
import select
import sys
import time

from memsyncd.client.connection import connect, encode_json, parse_json
from memsyncd.errors import MemsyncdError, NoDaemon
from memsyncd.terminal.parser import Command, Option, make_group, make_workspace_option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import SimpleNamespace as Args
    from typing import Any, Final

    from memsyncd.client.connection import Client
    from memsyncd.terminal.console import Console

LIMIT_BYTES: Final = 4 << 20
TIMEOUT_MS: Final = 2_000
START_MS: Final = 8_000
"""From the beginning of the hook to the answer of a daemon that it has started; the clients end a
hook after ten seconds."""
POLL_S: Final = 0.02
SESSION_TOKENS, PROMPT_TOKENS = 2_000, 1_000
_META: Final = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


# --- what clients send and accept ---------------------------------------------------------------

CLIENTS: Final = ("claude-code", "codex", "cursor", "gemini", "opencode", "vscode")
COMPACT_CLIENTS: Final = ("claude-code", "opencode")
"""The clients that take a text before a compaction."""
SESSION_START, USER_PROMPT = "session-start", "user-prompt"
POST_TOOL_USE, PRE_COMPACT, STOP = "post-tool-use", "pre-compact", "stop"
EVENTS: Final = (SESSION_START, USER_PROMPT, POST_TOOL_USE, PRE_COMPACT, STOP)
HOOK_TOOL: Final = "memory_hook"
"""The tool of MCP that answers a hook."""

MAX_PROMPT_CHARS: Final = 2_000
MAX_ERROR_CHARS: Final = 4_000
MIN_SUMMARY_CHARS: Final = 80
"""A shorter last message, such as "Done.", is no summary."""
COMPACT_TEXT: Final = """\
Keep in the summary what the project's memory does not hold yet: decisions with their reasons,
errors and how they were solved, what the user prefers, the state of unfinished work and the next
step. Keep that memory_search finds and memory_remember adds to this memory.
"""
CHECKPOINT_TEXT: Final = """\
Before the compaction, keep the state of the work with memory_agent (action checkpoint{named}): the
session-start hook after the compaction shows the last checkpoint of this session. If no tool can be
called now, name this session in the summary, and keep the checkpoint first thing afterwards.
"""

# By client: the name of an event in the answer, for clients that take `hookSpecificOutput`.
_ANSWER_NAMES: Final = {
    SESSION_START: {
        "claude-code": "SessionStart",
        "codex": "SessionStart",
        "gemini": "SessionStart",
        "opencode": "SessionStart",
        "vscode": "SessionStart",
    },
    USER_PROMPT: {
        "claude-code": "UserPromptSubmit",
        "codex": "UserPromptSubmit",
        "gemini": "BeforeAgent",
        "opencode": "UserPromptSubmit",
        "vscode": "UserPromptSubmit",
    },
}
_GEMINI_EVENTS: Final = frozenset({"BeforeAgent", "AfterAgent", "AfterTool", "PreCompress"})
# The names of a value. The first name with a value counts.
FIELDS: Final = {
    "run": ("session_id", "conversation_id", "sessionId"),
    "source": ("source",),
    "folder": ("cwd", "workspace_roots"),
    "prompt": ("prompt",),
    "last_message": ("last_assistant_message", "prompt_response", "text"),
    "error": ("error", "error_message"),
}


def detect_client(fields: Mapping[str, Any]) -> str:
    """Return the client that sends such fields, by default `claude-code`."""
    if "cursor_version" in fields or "workspace_roots" in fields:
        return "cursor"
    if "timestamp" in fields or fields.get("hook_event_name") in _GEMINI_EVENTS:
        return "gemini"
    return "codex" if "turn_id" in fields else "claude-code"


def read_field(fields: Mapping[str, Any], field: str) -> str:
    """Return a text of the client's JSON by its name in `FIELDS`; empty if it is missing."""
    for name in FIELDS[field]:
        value = fields.get(name)
        if isinstance(value, list) and value:
            value = value[0]
        if isinstance(value, str) and value:
            return value
    return ""


def read_prompt(fields: Mapping[str, Any]) -> str:
    """Return the user's prompt, without the context that Gemini CLI puts before it."""
    return read_field(fields, "prompt").rpartition("</hook_context>")[2].strip()


def render_answer(client: str, event: str, text: str, summary: str) -> dict[str, Any] | None:
    """Return the answer that shows the text to the model, and the summary to the user; None if
    there is no text, or if the client accepts no text from this hook. Cursor shows no summary.
    """
    if not text:
        return None
    if client == "cursor":
        return {"additional_context": text} if event == SESSION_START else None
    name = _ANSWER_NAMES.get(event, {}).get(client)
    if name is None:
        return None
    answer: dict[str, Any] = {
        "hookSpecificOutput": {"hookEventName": name, "additionalContext": text}
    }
    if summary:
        answer["systemMessage"] = summary
    # A Copilot session of VS Code reads the field outside, a local session the one inside.
    return {**answer, "additionalContext": text} if client == "vscode" else answer


def read_answer(answer: object) -> tuple[str, str]:
    """Return the text and the summary of an answer that `render_answer` made for Claude Code."""
    answer = answer if isinstance(answer, dict) else {}
    output = answer.get("hookSpecificOutput")
    text = output.get("additionalContext") if isinstance(output, dict) else None
    summary = answer.get("systemMessage")
    return text if isinstance(text, str) else "", summary if isinstance(summary, str) else ""


# --- what can be captured -----------------------------------------------------------------------


def find_captures(client: str, event: str, fields: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the parameters of each call of `capture` for this event.

    After a tool they capture its failure, an approved plan, or the user's answers to questions. At
    the end of a turn they capture paragraphs that begin with `Decision:`, and the last message.
    The daemon's `[capture]` decides whether they are written, so a hook reads no configuration.
    """
    if event == POST_TOOL_USE:
        captures = _find_tool_captures(fields)
    elif event == STOP:
        captures = _find_message_captures(read_field(fields, "last_message"))
    else:
        return []
    run_id = read_field(fields, "run")[:200] or None
    return [{**capture, "run_id": run_id, "client": client} for capture in captures]


def _find_tool_captures(fields: Mapping[str, Any]) -> list[dict[str, Any]]:
    tool = fields.get("tool_name")
    if not isinstance(tool, str) or not tool or fields.get("is_interrupt"):
        return []
    answer, request = fields.get("tool_response"), fields.get("tool_input")
    error = read_field(fields, "error") or _find_error(answer)
    if error:
        command = request.get("command") if isinstance(request, dict) else None
        text = f"{_clip(command, 500)}\n\n{error}" if isinstance(command, str) else error
        failure = {"trigger": "failure", "step": tool[:100], "error": _clip(text, MAX_ERROR_CHARS)}
        return [failure]
    plan = request.get("plan") if isinstance(request, dict) else None
    if isinstance(plan, str) and plan.strip():
        return [{"trigger": "decision", "step": "plan", "artifacts": [{"content": plan}]}]
    answers = _find_answers(answer) or _find_answers(request)
    return [{"trigger": "interview", "step": "interview", "answers": answers}] if answers else []


def _find_error(answer: object) -> str:
    """Return the error of a tool, empty without one. Each client reports errors in its own way."""
    if not isinstance(answer, dict):
        return ""
    error = answer.get("error")
    if isinstance(error, dict):
        error = error.get("message")
    if isinstance(error, str) and error:
        return error
    code = answer.get("exit_code", answer.get("exitCode"))
    has_failed = (
        answer.get("is_error") is True
        or answer.get("isError") is True
        or answer.get("success") is False
        or (isinstance(code, int) and code != 0)
    )
    if not has_failed:
        return ""
    texts = (answer.get(name) for name in ("stderr", "output", "stdout", "content"))
    text = next((text for text in texts if isinstance(text, str) and text.strip()), "")
    status = f"exit status {code}" if isinstance(code, int) else "no message"
    return f"{status}: {text}" if text else status


def _find_answers(value: object) -> dict[str, str]:
    answers = value.get("answers") if isinstance(value, dict) else None
    if not isinstance(answers, dict):
        return {}
    return {
        str(question)[:500]: _clip(str(answer), MAX_ERROR_CHARS)
        for question, answer in list(answers.items())[:100]
        if isinstance(answer, str | int | float) and str(answer).strip() and str(question).strip()
    }


def _find_message_captures(text: str) -> list[dict[str, Any]]:
    paragraphs = text.replace("\r\n", "\n").split("\n\n")
    decisions = [paragraph.strip() for paragraph in paragraphs if _is_decision(paragraph)]
    captures: list[dict[str, Any]] = [
        {
            "trigger": "decision",
            "step": "decision",
            "artifacts": [{"content": paragraph}],
            "overview": "",
        }
        for paragraph in decisions
    ]
    if len(text.strip()) >= MIN_SUMMARY_CHARS:
        artifacts = [{"content": text}]
        summary = {"trigger": "summary", "step": "summary", "artifacts": artifacts, "overview": ""}
        captures.append(summary)
    return captures


def _is_decision(paragraph: str) -> bool:
    start = paragraph.strip().lstrip("*_>- ").casefold()
    head, colon, rest = start.partition(":")
    return bool(colon) and head.strip("*_ ") == "decision" and bool(rest.strip("*_ "))


def _clip(text: str, limit: int) -> str:
    """Cut a text to about `limit` characters: a quarter of its beginning, the rest of its end."""
    if len(text) <= limit:
        return text
    head, tail = text[: limit // 4], text[-(limit - limit // 4) :]
    return f"{head}\n… ({len(text) - limit:,} characters left out) …\n{tail}"


# --- the commands -------------------------------------------------------------------------------


class NothingToAnswer(Exception):
    """There is nothing to answer; the message says why."""


def _answer(event: str, args: Args, console: Console) -> int:
    try:
        text = _find_answer(event, args, console)
    except (NothingToAnswer, MemsyncdError, OSError) as reason:
        if args.verbose:
            console.terminal.report(f"memsyncd hook {event}: {reason}")
        return 0
    console.terminal.print(text)
    return 0


def _find_answer(event: str, args: Args, console: Console) -> str:
    fields = read_input(_find_timeout_s(args))
    client = args.client or detect_client(fields)
    if event in (POST_TOOL_USE, STOP):
        return _capture(event, client, fields, args, console)
    if client == "cursor" and event != SESSION_START:
        raise NothingToAnswer(f"{client} takes no text from this hook")
    if event == PRE_COMPACT and client not in COMPACT_CLIENTS:
        raise NothingToAnswer(f"{client} takes no text from this hook")
    # Before a compaction, the question is only whether there is a memory.
    sent = {**fields, "session_id": ""} if event == PRE_COMPACT else fields
    text, summary = _recall(event, client, sent, args, console)
    if not text:
        raise NothingToAnswer("memory holds nothing on this")
    if event == PRE_COMPACT:
        return COMPACT_TEXT + _name_checkpoint(fields)
    answer = render_answer(client, event, text, summary)
    if answer is None:
        raise NothingToAnswer(f"{client} takes no text from this hook")
    if args.verbose:
        console.terminal.report(f"memsyncd hook {event}: {summary}")
    return encode_json(answer)


def _name_checkpoint(fields: dict[str, Any]) -> str:
    """Return the text that says how a checkpoint of the client's session is written."""
    session = " ".join(read_field(fields, "run").split())[:200]
    text = CHECKPOINT_TEXT.format(named=f", session={session}" if session else "")
    return text.rstrip("\n")


def read_input(timeout_s: float) -> dict[str, Any]:
    """Return the client's JSON object from stdin. Raises NothingToAnswer if stdin has none."""
    if sys.stdin is None or sys.stdin.isatty():
        raise NothingToAnswer("stdin is a terminal: the client's JSON is expected there")
    data = _read_stdin(timeout_s)
    if len(data) > LIMIT_BYTES:
        raise NothingToAnswer(f"stdin holds more than {LIMIT_BYTES:,} bytes")
    try:
        fields = parse_json(data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace"))
        # JavaScript may cut a text within a surrogate pair; half a pair is not valid UTF-8.
        fields = parse_json(encode_json(fields).encode("utf-8", "replace").decode())
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise NothingToAnswer("stdin holds no JSON object")
    return fields


def _read_stdin(timeout_s: float) -> bytes:
    """Return the bytes until the end of stdin or until the time limit, because a client may leave
    stdin open.
    """
    data, until_s = b"", time.monotonic() + timeout_s
    while len(data) <= LIMIT_BYTES:
        left_s = max(0.0, until_s - time.monotonic())
        if not select.select([sys.stdin], [], [], left_s)[0]:
            break
        part = os.read(sys.stdin.fileno(), 1 << 16)
        if not part:
            break
        data += part
    return data


def _recall(
    event: str, client: str, fields: dict[str, Any], args: Args, console: Console
) -> tuple[str, str]:
    """Return the daemon's context for the event, as text for the agent, and its summary for the
    user. Raises NothingToAnswer.
    """
    is_start = event in (SESSION_START, PRE_COMPACT)
    # The printed text before a compaction does not depend on the number of tokens.
    tokens = getattr(args, "max_tokens", None) or (SESSION_TOKENS if is_start else PROMPT_TOKENS)
    arguments = {
        "event": event,
        "prompt": read_prompt(fields)[:MAX_PROMPT_CHARS],
        "cwd": _find_workspace(fields, args, console),
        "max_tokens": tokens,
        "session_id": read_field(fields, "run"),
        "source": read_field(fields, "source"),
        "client": client,
        "host": os.getppid(),
    }
    result = _call(
        args,
        console,
        "tools/call",
        start_ms=START_MS if is_start else TIMEOUT_MS,
        name=HOOK_TOOL,
        arguments=arguments,
        _meta=_META,
    )
    content = result.get("content")
    if not isinstance(content, list) or not content or result.get("isError"):
        raise NothingToAnswer(f"the daemon refused: {content}")
    reason = _REASONS.get(result.get("_meta", {}).get("memsyncd/error"))
    if reason is not None:
        raise NothingToAnswer(reason)
    return read_answer(parse_json(content[0]["text"]))


_REASONS = {
    "workspace_not_found": "this folder has no memory",
    "timeout": "memory did not answer in time",
}


def _capture(event: str, client: str, fields: dict[str, Any], args: Args, console: Console) -> str:
    captures = find_captures(client, event, fields)
    for capture in captures:
        workspace = _find_workspace(fields, args, console)
        answer = _call(args, console, "capture", workspace=workspace, **capture)
        if args.verbose:
            n_added = len(answer["added"])
            done = f"{n_added} section{'' if n_added == 1 else 's'} added"
            hint = "off: see [capture] of the configuration"
            console.terminal.report(
                f"memsyncd hook {event}: {capture['trigger']}: "
                + (done if answer["is_allowed"] else hint)
            )
    raise NothingToAnswer("done" if captures else "there is nothing to capture")


def _find_workspace(fields: dict[str, Any], args: Args, console: Console) -> str:
    """Return the named workspace, else the folder in which the client works."""
    if named := console.name_workspace(args.workspace):
        return named
    folder = read_field(fields, "folder")
    if not folder.startswith("/"):
        folder = os.path.join(console.cwd, folder) if folder else console.cwd
    if not folder:
        raise NothingToAnswer("no folder is known")
    return folder


def _call(
    args: Args, console: Console, method: str, *, start_ms: int = TIMEOUT_MS, **params: object
) -> dict[str, Any]:
    """Call a method. If no daemon runs, start one and wait up to `start_ms` for it."""
    try:
        client = connect(env=console.env, timeout_s=_find_timeout_s(args))
    except NoDaemon:
        client = _connect_to_started(console, (args.timeout_ms or start_ms) / 1000)
    with client:
        return client.call(method, **params)


def _connect_to_started(console: Console, timeout_s: float) -> Client:
    """Start a daemon and connect to it. Raises NoDaemon if it does not answer in time; it may
    answer later.
    """
    from memsyncd.cli.background import start_aside

    deadline_s = time.monotonic() + timeout_s
    starting = start_aside(console.env)
    while True:
        has_ended = starting.poll() is not None
        left_s = deadline_s - time.monotonic()
        try:
            return connect(env=console.env, timeout_s=max(left_s, POLL_S))
        except NoDaemon:
            if has_ended or left_s < 0:
                raise
        time.sleep(POLL_S)


def _find_timeout_s(args: Args) -> float:
    return (args.timeout_ms or TIMEOUT_MS) / 1000


def _print_instructions(_args: Args, console: Console) -> int:
    from memsyncd.integrations.instructions import INSTRUCTIONS

    console.terminal.print(INSTRUCTIONS.rstrip("\n"))
    return 0


_OPTIONS = (
    Option(
        "--client CLIENT",
        "the client whose JSON is read and printed; by default the fields of the JSON decide",
        choices=CLIENTS,
    ),
    make_workspace_option("use this workspace"),
    Option("--timeout-ms MS", f"give up after this long (default {TIMEOUT_MS})"),
    Option("-v --verbose", "say on stderr what is printed, or why nothing is"),
)
_TOKENS = Option("--max-tokens N", "at most N tokens of context")
_SUMMARIES = {
    SESSION_START: "print what every session should know: its last state, signals, pinned notes",
    USER_PROMPT: "print what memory holds on the prompt, and new signals",
    POST_TOOL_USE: "capture a failed tool, an approved plan, answers; see [capture]",
    PRE_COMPACT: "print what a summary of the conversation should keep",
    STOP: "capture decisions and the last message of a turn; see [capture]",
}


def _make_command(event: str) -> Command:
    return Command(
        lambda args, console: _answer(event, args, console),
        summary=_SUMMARIES[event],
        options=(_TOKENS, *_OPTIONS) if event in _ANSWER_NAMES else _OPTIONS,
        examples=(f"""echo '{{"cwd": "'$PWD'"}}' | memsyncd hook {event} --verbose""",),
    )


_HOOKS = {
    **{event: _make_command(event) for event in EVENTS},
    "instructions": Command(
        _print_instructions,
        summary="print the instructions for a model on when and how to use memory",
        examples=("memsyncd hook instructions >> AGENTS.md",),
    ),
}

COMMANDS = {
    "hook": make_group(
        "hook", _HOOKS, ("memsyncd hook session-start", "memsyncd hook instructions")
    ),
}
