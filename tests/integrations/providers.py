"""The replies of a model in the forms of several providers, whole and as streams."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Iterable
from typing import Any

Call = tuple[str, str, dict[str, Any]]
"""The id, the tool's name and its input."""

EVENT_STREAM = "application/vnd.amazon.eventstream"


def render_reply(
    path: str, request: dict[str, Any], message_id: str, call: Call | None, words: str
) -> tuple[str, bytes]:
    """Return a call of a tool, or the last words, in the form of the path's API."""
    path = path.partition("?")[0]
    if path.endswith("/chat/completions"):
        return "application/json", dump(make_completion(request, message_id, call, words))
    if path.endswith("/responses"):
        return "application/json", dump(make_response(request, message_id, call, words))
    if path.endswith("/converse"):
        return "application/json", dump(make_converse(call, words))
    if path.endswith("/converse-stream"):
        return EVENT_STREAM, b"".join(
            encode_event(kind, dump(event)) for kind, event in stream_converse(call, words)
        )
    message = make_message(request, message_id, call, words)
    if path.endswith("/invoke-with-response-stream"):
        return EVENT_STREAM, b"".join(
            encode_event("chunk", dump({"bytes": base64.b64encode(dump(event)).decode()}))
            for event in stream_message(message)
        )
    if request.get("stream"):
        return "text/event-stream", b"".join(
            f"event: {event['type']}\n".encode() + b"data: " + dump(event) + b"\n\n"
            for event in stream_message(message)
        )
    return "application/json", dump(message)


def dump(value: object) -> bytes:
    return json.dumps(value).encode()


# --- Anthropic ---


def make_message(
    request: dict[str, Any], message_id: str, call: Call | None, words: str
) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "text", "text": words}
    if call is not None:
        block = {"type": "tool_use", "id": call[0], "name": call[1], "input": call[2]}
    return {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": request.get("model", "none"),
        "content": [block],
        "stop_reason": "end_turn" if call is None else "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def render_lost_thread() -> bytes:
    """The answer to a request that continues a conversation which the server does not hold."""
    details = {"error_code": "thread_not_found"}
    error = {"type": "not_found_error", "message": "no such thread", "details": details}
    return dump({"type": "error", "error": error})


def stream_message(message: dict[str, Any]) -> Iterable[dict[str, Any]]:
    (block,) = message["content"]
    empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": block.get("text")}
    if block["type"] == "tool_use":
        empty = {**block, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    begun = {**message, "content": [], "stop_reason": None}
    yield {"type": "message_start", "message": begun}
    yield {"type": "content_block_start", "index": 0, "content_block": empty}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    ended = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": {"output_tokens": 1}}
    yield {"type": "message_stop"}


# --- Amazon Bedrock ---


def make_converse(call: Call | None, words: str) -> dict[str, Any]:
    part: dict[str, Any] = {"text": words}
    if call is not None:
        part = {"toolUse": {"toolUseId": call[0], "name": call[1], "input": call[2]}}
    return {
        "output": {"message": {"role": "assistant", "content": [part]}},
        "stopReason": "end_turn" if call is None else "tool_use",
        "usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2},
        "metrics": {"latencyMs": 1},
    }


def stream_converse(call: Call | None, words: str) -> Iterable[tuple[str, dict[str, Any]]]:
    yield "messageStart", {"role": "assistant"}
    if call is not None:
        start = {"toolUse": {"toolUseId": call[0], "name": call[1]}}
        yield "contentBlockStart", {"contentBlockIndex": 0, "start": start}
    delta = {"text": words} if call is None else {"toolUse": {"input": json.dumps(call[2])}}
    yield "contentBlockDelta", {"contentBlockIndex": 0, "delta": delta}
    yield "contentBlockStop", {"contentBlockIndex": 0}
    yield "messageStop", {"stopReason": "end_turn" if call is None else "tool_use"}


def encode_event(kind: str, payload: bytes) -> bytes:
    """One message of `application/vnd.amazon.eventstream`."""
    named = {":message-type": "event", ":event-type": kind, ":content-type": "application/json"}
    headers = b"".join(
        bytes([len(name)])
        + name.encode()
        + b"\x07"
        + struct.pack(">H", len(value))
        + value.encode()
        for name, value in named.items()
    )
    total = 16 + len(headers) + len(payload)
    prelude = struct.pack(">II", total, len(headers))
    head = prelude + struct.pack(">I", zlib.crc32(prelude)) + headers + payload
    return head + struct.pack(">I", zlib.crc32(head))


# --- OpenAI ---


def make_completion(
    request: dict[str, Any], message_id: str, call: Call | None, words: str
) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": words}
    if call is not None:
        function = {"name": call[1], "arguments": json.dumps(call[2])}
        message["content"] = None
        message["tool_calls"] = [{"id": call[0], "type": "function", "function": function}]
    reason = "stop" if call is None else "tool_calls"
    return {
        "id": message_id,
        "object": "chat.completion",
        "created": 1,
        "model": request["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }


def make_response(
    request: dict[str, Any], message_id: str, call: Call | None, words: str
) -> dict[str, Any]:
    text = {"type": "output_text", "text": words, "annotations": []}
    item: dict[str, Any] = {
        "type": "message",
        "id": message_id,
        "role": "assistant",
        "status": "completed",
        "content": [text],
    }
    if call is not None:
        arguments = json.dumps(call[2])
        item = {"type": "function_call", "id": message_id, "call_id": call[0], "name": call[1]}
        item["arguments"] = arguments
    return {
        "id": message_id,
        "object": "response",
        "created_at": 1,
        "model": request["model"],
        "output": [item],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": request["tools"],
    }
