"""Give memsyncd's tools to any model: their schemas for a provider, and a function that calls them.

    from memsyncd.integrations import tools

    reply = client.chat.completions.create(..., tools=tools.schema("openai"))
    for call in reply.choices[0].message.tool_calls or ():
        answer = tools.call(call.function.name, call.function.arguments, workspace="~/code/api")

The tools are those that agents have over MCP, from the same table, and the daemon renders the same
text. `call` raises nothing: a failure is an answer with `is_error` that says what to do, also if no
daemon runs. `remember` is for the program: it writes what a turn decided.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from memsyncd.client import TIMEOUT_S, Memsyncd, connect
from memsyncd.client.memory import choose_workspace
from memsyncd.errors import BadRequest, MemsyncdError

if TYPE_CHECKING:
    from memsyncd.client.types import Added

Provider = Literal["openai", "openai-responses", "anthropic", "bedrock"]

TOOLS_CLIENT = "tools"
DOWN = "Memory is not available now: go on without it, and tell the user"


class ToolAnswer(NamedTuple):
    """What a model gets for a call."""

    text: str
    is_error: bool


def schema(provider: Provider, *, is_read_only: bool = False) -> list[dict[str, Any]]:
    """Return the tools as a provider's API takes them, in a fixed order.

    `openai` is for chat completions and what imitates them, `openai-responses` for the Responses
    API, `bedrock` for `toolConfig["tools"]` of Converse. Raises ValueError for another provider.
    """
    if provider not in _SHAPES:
        raise ValueError(f"no provider {provider!r}; one of: {', '.join(_SHAPES)}")
    # It needs msgspec and the methods of the protocol, which `call` does without.
    from memsyncd.protocol.mcp_tools import list_tools

    return [
        _SHAPES[provider](tool["name"], tool["description"], tool["inputSchema"])
        for tool in list_tools(is_read_only=is_read_only, has_memory=True)
    ]


_SHAPES: dict[str, Callable[[str, str, dict[str, Any]], dict[str, Any]]] = {
    "openai": lambda name, description, parameters: {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": parameters},
    },
    "openai-responses": lambda name, description, parameters: {
        "type": "function",
        "name": name,
        "description": description,
        "parameters": parameters,
        # Strict schemas demand a value for every argument.
        "strict": False,
    },
    "anthropic": lambda name, description, parameters: {
        "name": name,
        "description": description,
        "input_schema": parameters,
    },
    "bedrock": lambda name, description, parameters: {
        "toolSpec": {
            "name": name,
            "description": description,
            "inputSchema": {"json": parameters},
        }
    },
}


def call(
    name: str,
    input: Mapping[str, Any] | str,  # noqa: A002 - what providers call it
    *,
    workspace: str | os.PathLike[str] | None = None,
    client: str = TOOLS_CLIENT,
    is_read_only: bool = False,
    timeout_s: float = TIMEOUT_S,
) -> ToolAnswer:
    """Call a tool with the input that a model gave, as an object or as its JSON.

    `workspace` is a name, an id or a path inside one; by default that of the current folder, else
    the only one. `client` is the writer's name in the history. With `is_read_only` the tools that
    write are refused.
    """
    try:
        arguments = _read_input(input)
        with connect(timeout_s=timeout_s) as daemon:
            meta = _make_meta(client)
            where = choose_workspace(daemon, workspace) or ""
            bound = {"workspace": where, "readOnly": is_read_only, "_meta": meta}
            daemon.send("notifications/memsyncd/bind", **bound)
            result = daemon.call("tools/call", name=name, arguments=arguments, _meta=meta)
    except ValueError as error:
        return ToolAnswer(str(error), is_error=True)
    except BadRequest as error:
        return ToolAnswer(f"{error.message}\nWhat to do: {error.hint}", is_error=True)
    except MemsyncdError as error:
        return ToolAnswer(f"{DOWN}: {error.message}; {error.hint}", is_error=True)
    text = "\n".join(str(part.get("text", "")) for part in result["content"])
    return ToolAnswer(text, is_error=bool(result.get("isError")))


def _read_input(given: Mapping[str, Any] | str) -> dict[str, Any]:
    try:
        arguments = json.loads(given or "{}") if isinstance(given, str) else dict(given)
    except ValueError as error:
        raise ValueError(f"the input is not JSON ({error}): send an object") from error
    if not isinstance(arguments, dict):
        # A model's mistake, not a program's: ValueError as for text that is not JSON.
        raise ValueError("the input is not an object: send one")  # noqa: TRY004
    return arguments


def _make_meta(client: str) -> dict[str, Any]:
    prefix = "io.modelcontextprotocol/"
    return {
        f"{prefix}protocolVersion": "2026-07-28",
        f"{prefix}clientCapabilities": {},
        f"{prefix}clientInfo": {"name": client, "version": "1"},
    }


def remember(
    content: str,
    *,
    workspace: str | os.PathLike[str] | None = None,
    client: str = TOOLS_CLIENT,
    timeout_s: float = TIMEOUT_S,
    **section: Any,
) -> Added:
    """Append a section, such as what a turn decided, with the parameters of `Memsyncd.add`.

    The next block of memory and the next search have it. Raises MemsyncdError.
    """
    with Memsyncd(workspace, client=client, timeout_s=timeout_s) as memory:
        return memory.add(content, **section)
