"""Memory for Amazon Bedrock's Converse API, with a client of boto3.

    bedrock = with_memory(boto3.client("bedrock-runtime"), "~/code/api")
    reply = bedrock.converse(modelId=..., messages=messages, toolConfig=tool_config())
    message = reply["output"]["message"]
    messages += [message, {"role": "user", "content": answer_tools(message, "~/code/api")}]

`with_memory` puts what memory holds on a request before it, as `context` describes, for `converse`
and `converse_stream`. For the Anthropic SDK's own client of Bedrock use `with_memory` of
`memsyncd.integrations.anthropic`. boto3 itself is not imported: `pip install 'memsyncd[bedrock]'`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import Any, TypeVar

from memsyncd.client import TIMEOUT_S
from memsyncd.integrations import tools
from memsyncd.integrations.chat_context import MAX_TOKENS, MemoryContext, OnFailure
from memsyncd.integrations.chat_context import TIMEOUT_S as CONTEXT_S

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
    """Have the requests of this client of boto3 carry memory, and return it; called again, it
    replaces what was set before. The parameters are of `MemoryContext`.
    """
    context = MemoryContext(
        workspace, query=query, max_tokens=max_tokens, timeout_s=timeout_s, on_failure=on_failure
    )
    events: Any = client.meta.events  # type: ignore[attr-defined]
    for event in EVENTS:
        # A handler with the id of an earlier one is not registered beside it.
        events.unregister(event, unique_id="memsyncd")
        events.register(event, partial(_insert, context), unique_id="memsyncd")
    return client


def _insert(memory: MemoryContext, params: Mapping[str, Any], **_: object) -> Any:
    """Return the parameters to send; boto3 leaves those of the caller as they are."""
    messages = params.get("messages")
    if not isinstance(messages, list):
        return None
    return {**params, "messages": memory.insert(messages, "bedrock")}


def tool_config(*, is_read_only: bool = False) -> dict[str, Any]:
    """Return memsyncd's tools as the `toolConfig` of a request."""
    return {"tools": tools.schema("bedrock", is_read_only=is_read_only)}


def answer_tools(
    message: Mapping[str, Any],
    workspace: str | os.PathLike[str] | None = None,
    *,
    client: str = CLIENT,
    is_read_only: bool = False,
    timeout_s: float = TIMEOUT_S,
) -> list[dict[str, Any]]:
    """Carry out the calls of memsyncd's tools in a model's message; return a `toolResult` for each.

    Calls of other tools are the program's to answer. A failure is a result with the status `error`.
    """
    names = {tool["toolSpec"]["name"] for tool in tools.schema("bedrock")}
    calls = [part["toolUse"] for part in message.get("content", ()) if "toolUse" in part]
    results = []
    for use in calls:
        if use["name"] in names:
            answer = tools.call(
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
