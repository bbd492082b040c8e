"""`memsyncd hook`: answer the hooks of coding agents from their JSON on stdin.

A hook must not disturb its agent: with no daemon, a folder without memory, or input that is not
JSON, it prints nothing and exits with 0; `--verbose` gives the reason on stderr. It waits at most
two seconds, and no daemon is started.
"""

from __future__ import annotations

import os
import sys

from memsyncd.cli.parser import Argument, Command, Option, make_workspace_option, parse_count
from memsyncd.client.connection import connect
from memsyncd.client.fastjson import encode_json, parse_json
from memsyncd.errors import BadRequest, MemsyncdError
from memsyncd.integrations import hooks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any, Final, NoReturn

    from memsyncd.cli.console import Console

LIMIT_BYTES: Final = 4 << 20
TIMEOUT_MS: Final = 2_000
SESSION_TOKENS, PROMPT_TOKENS = 2_000, 1_000
_META: Final = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Silence(Exception):
    """There is nothing to answer; the message says why."""


def _answer(event: str, args: Args, console: Console) -> int:
    try:
        text = _find_answer(event, args, console)
    except (Silence, MemsyncdError, OSError) as reason:
        if args.verbose:
            console.terminal.report(f"memsyncd hook {event}: {reason}")
        return 0
    console.terminal.print(text)
    return 0


def _find_answer(event: str, args: Args, console: Console) -> str:
    given = read_input()
    client = args.client or hooks.detect_client(given)
    if event in (hooks.POST_TOOL_USE, hooks.STOP):
        return _capture(event, client, given, args, console)
    name = hooks.SESSION_START if event == hooks.PRE_COMPACT else event
    if client == "cursor" and event != hooks.SESSION_START:
        raise Silence(f"{client} takes no text from this hook")
    if event == hooks.PRE_COMPACT and client != "claude-code":
        raise Silence(f"{client} takes no text from this hook")
    text = _recall(name, given, args, console)
    if not text:
        raise Silence("memory holds nothing on this")
    if event == hooks.PRE_COMPACT:
        return hooks.COMPACT_TEXT.rstrip("\n")
    answer = hooks.render_answer(client, event, text)
    if answer is None:
        raise Silence(f"{client} takes no text from this hook")
    return encode_json(answer)


def read_input() -> dict[str, Any]:
    """Return the client's JSON. Raises Silence if stdin has none."""
    if sys.stdin is None or sys.stdin.isatty():
        raise Silence("stdin is a terminal: the client's JSON is expected there")
    data = sys.stdin.buffer.read(LIMIT_BYTES + 1)
    if len(data) > LIMIT_BYTES:
        raise Silence(f"stdin holds more than {LIMIT_BYTES:,} bytes")
    try:
        given = parse_json(data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        raise Silence("stdin holds no JSON object")
    return given


def _recall(event: str, given: dict[str, Any], args: Args, console: Console) -> str:
    """Return what memory holds for the event, as the daemon renders it for agents."""
    tokens = args.max_tokens or (SESSION_TOKENS if event == hooks.SESSION_START else PROMPT_TOKENS)
    arguments = {
        "event": event,
        "prompt": hooks.read_prompt(given)[: hooks.MAX_PROMPT_CHARS],
        "cwd": _find_workspace(given, args, console),
        "max_tokens": tokens,
    }
    result = _call(
        args, console, "tools/call", name=hooks.HOOK_TOOL, arguments=arguments, _meta=_META
    )
    content = result.get("content")
    if not isinstance(content, list) or not content or result.get("isError"):
        raise Silence(f"the daemon refused: {content}")
    return hooks.read_answer(parse_json(content[0]["text"]))


def _capture(event: str, client: str, given: dict[str, Any], args: Args, console: Console) -> str:
    captures = hooks.find_captures(client, event, given)
    for capture in captures:
        workspace = _find_workspace(given, args, console)
        answer = _call(args, console, "capture", workspace=workspace, **capture)
        if args.verbose:
            done = f"{len(answer['added'])} sections added"
            hint = "off: see [capture] of the configuration"
            console.terminal.report(
                f"memsyncd hook {event}: {capture['trigger']}: "
                + (done if answer["is_allowed"] else hint)
            )
    raise Silence("done" if captures else "there is nothing to capture")


def _find_workspace(given: dict[str, Any], args: Args, console: Console) -> str:
    """Return the named workspace, else the folder that the client works in."""
    if args.workspace is not None:
        return console.name_workspace(args.workspace)
    folder = hooks.read_field(given, "folder")
    if not folder.startswith("/"):
        folder = os.path.join(console.cwd, folder) if folder else console.cwd
    if not folder:
        raise Silence("no folder is known")
    return folder


def _call(args: Args, console: Console, method: str, **params: object) -> dict[str, Any]:
    timeout_s = (args.timeout_ms or TIMEOUT_MS) / 1000
    with connect(env=console.env, timeout_s=timeout_s) as client:
        return client.call(method, **params)


def _print_instructions(_args: Args, console: Console) -> int:
    from memsyncd.integrations.instructions import INSTRUCTIONS

    console.terminal.print(INSTRUCTIONS.rstrip("\n"))
    return 0


def _refuse_hook(_args: Args, _console: Console) -> NoReturn:
    raise BadRequest("hook: name a command first", hint="see `memsyncd hook --help`")


def _parse_client(text: str) -> str:
    if text not in hooks.CLIENTS:
        raise ValueError(f"expected one of {', '.join(hooks.CLIENTS)}")
    return text


_OPTIONS = (
    Option(
        "--client",
        "whose JSON is read and printed; by default it is told by the JSON's fields",
        metavar="CLIENT",
        parse=_parse_client,
    ),
    make_workspace_option("use this workspace"),
    Option("-n --max-tokens", "at most N tokens of context", metavar="N", parse=parse_count),
    Option(
        "--timeout-ms",
        f"give up after this long (default {TIMEOUT_MS})",
        metavar="MS",
        parse=parse_count,
    ),
    Option("-v --verbose", "say on stderr why nothing is printed"),
)
_SUMMARIES = {
    hooks.SESSION_START: "print what every session should know: MEMORY.md and pinned notes",
    hooks.USER_PROMPT: "print what memory holds on the prompt",
    hooks.POST_TOOL_USE: "capture a failed tool, an approved plan, answers; see [capture]",
    hooks.PRE_COMPACT: "print what a summary of the conversation should keep",
    hooks.STOP: "capture decisions and the last message of a turn; see [capture]",
}


def _make_command(event: str) -> Command:
    return Command(
        lambda args, console: _answer(event, args, console),
        summary=_SUMMARIES[event],
        options=_OPTIONS,
        examples=(f"""echo '{{"cwd": "'$PWD'"}}' | memsyncd hook {event} --verbose""",),
    )


_HOOKS = {
    **{event: _make_command(event) for event in hooks.EVENTS},
    "instructions": Command(
        _print_instructions,
        summary="print the instructions for a model on when and how to use memory",
        examples=("memsyncd hook instructions >> AGENTS.md",),
    ),
}

COMMANDS = {
    "hook": Command(
        _refuse_hook,
        arguments=(
            Argument("action", "COMMAND", "one of the commands above", choices=tuple(_HOOKS)),
        ),
        commands=_HOOKS,
        examples=("memsyncd hook session-start", "memsyncd hook instructions"),
    ),
}
