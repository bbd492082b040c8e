"""Memory for Amazon Bedrock's Converse API, with a client of boto3.

    bedrock = with_memory(boto3.client("bedrock-runtime"), "~/code/api")
    reply = bedrock.converse(modelId=..., messages=messages, toolConfig=tool_config())
    message = reply["output"]["message"]
    messages += [message, {"role": "user", "content": answer_tools(message, "~/code/api")}]

For `converse` and `converse_stream`, `with_memory` puts the memory that belongs to a request before
it; `chat_context` says how. For the Anthropic SDK's own client of Bedrock use `with_memory` of
`memsyncd.integrations.anthropic`. This module does not import boto3; install it with
`pip install 'memsyncd[bedrock]'`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from memsyncd.client import TIMEOUT_S, Memsyncd, connect
from memsyncd.client.workspace import choose_workspace
from memsyncd.errors import BadRequest, MemsyncdError
from memsyncd.integrations.chat_context import MAX_TOKENS, MemoryContext, OnFailure
from memsyncd.integrations.chat_context import TIMEOUT_S as CONTEXT_S

if TYPE_CHECKING:
    from memsyncd.client.types import Added


Provider = Literal["openai", "openai-responses", "anthropic", "bedrock"]

TOOLS_CLIENT = "tools"
DOWN = "Memory is not available now: go on without it, and tell the user"


class ToolAnswer(NamedTuple):
    """The answer to a model's call of a tool."""

    text: str
    is_error: bool


def schema(provider: Provider, *, is_read_only: bool = False) -> list[dict[str, Any]]:
    """Return the tools in the form of a provider's API, in a fixed order.

    `openai` is for chat completions and APIs that imitate them, `openai-responses` for the
    Responses API, `bedrock` for `toolConfig["tools"]` of Converse. Raises ValueError for another
    provider.
    """
    if provider not in _SHAPES:
        raise ValueError(f"no provider {provider!r}; one of: {', '.join(_SHAPES)}")
    # Imported late, because it loads msgspec and the declarations, and `call` needs neither.
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
    input: Mapping[str, Any] | str,  # noqa: A002 - the name that providers use
    *,
    workspace: str | os.PathLike[str] | None = None,
    client: str = TOOLS_CLIENT,
    is_read_only: bool = False,
    timeout_s: float = TIMEOUT_S,
) -> ToolAnswer:
    """Call a tool with a model's input: an object, or a text with its JSON.

    `workspace` is a name, an id or a path inside it; by default it is the workspace of the current
    folder, else the only workspace. `client` is the writer's name in the history. With
    `is_read_only`, tools that write are refused.
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


def _read_input(tool_input: Mapping[str, Any] | str) -> dict[str, Any]:
    try:
        if isinstance(tool_input, str):
            arguments = json.loads(tool_input or "{}")
        else:
            arguments = dict(tool_input)
    except ValueError as error:
        raise ValueError(f"the input is not JSON ({error}): send an object") from error
    if not isinstance(arguments, dict):
        # The model made the mistake, not the program: so ValueError, as for text that is not JSON.
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
    """Append a section, such as a decision, with the parameters of `Memsyncd.add`.

    The next block of memory and the next search can contain it. Raises MemsyncdError.
    """
    with Memsyncd(workspace, client=client, timeout_s=timeout_s) as memory:
        return memory.add(content, **section)


CLIENT = "bedrock"
EVENTS = tuple(
    f"provide-client-params.bedrock-runtime.{operation}"
    for operation in ("Converse", "ConverseStream")
)

ClientT = TypeVar("ClientT")


def with_memory(
    client: ClientT,
    workspace: str | os.PathLike[str] | None = None,
    *,
    query: str | None = None,
    max_tokens: int = MAX_TOKENS,
    timeout_s: float = CONTEXT_S,
    on_failure: OnFailure | None = None,
) -> ClientT:
    """Let this client of boto3 put memory into its requests, and return the client. A second call
    replaces the settings of the first. `MemoryContext` has the same parameters.
    """
    context = MemoryContext(
        workspace, query=query, max_tokens=max_tokens, timeout_s=timeout_s, on_failure=on_failure
    )
    events: Any = client.meta.events  # type: ignore[attr-defined]
    for event in EVENTS:
        # boto3 ignores a new handler while an earlier handler has the same id.
        events.unregister(event, unique_id="memsyncd")
        events.register(event, partial(_insert, context), unique_id="memsyncd")
    return client


def _insert(memory: MemoryContext, params: Mapping[str, Any], **_: object) -> Any:
    """Return the parameters to send; the caller's own parameters do not change."""
    messages = params.get("messages")
    if not isinstance(messages, list):
        return None
    return {**params, "messages": memory.insert(messages, "bedrock")}


def tool_config(*, is_read_only: bool = False) -> dict[str, Any]:
    """Return memsyncd's tools as the `toolConfig` of a request."""
    return {"tools": schema("bedrock", is_read_only=is_read_only)}


def answer_tools(
    message: Mapping[str, Any],
    workspace: str | os.PathLike[str] | None = None,
    *,
    client: str = CLIENT,
    is_read_only: bool = False,
    timeout_s: float = TIMEOUT_S,
) -> list[dict[str, Any]]:
    """Carry out the calls of memsyncd's tools in a model's message; return a `toolResult` for each.

    The program itself must answer calls of other tools. A failure becomes a result with the status
    `error`.
    """
    names = {tool["toolSpec"]["name"] for tool in schema("bedrock")}
    calls = [part["toolUse"] for part in message.get("content", ()) if "toolUse" in part]
    results = []
    for use in calls:
        if use["name"] in names:
            answer = call(
                use["name"], use.get("input") or {}, workspace=workspace, client=client,
                is_read_only=is_read_only, timeout_s=timeout_s,
            )  # fmt: skip
            result = {
                "toolUseId": use["toolUseId"],
                "content": [{"text": answer.text}],
                "status": "error" if answer.is_error else "success",
            }
            results.append({"toolResult": result})
    return results
