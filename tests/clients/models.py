"""The APIs of three providers on loopback, for agents: a scripted model that calls tools.

A request that offers the tools of memsyncd is a turn of the agent: as many of the wishes as it has
results of tools are done. Other requests, such as those for a title, get a word.
"""

from __future__ import annotations

import gzip
import json
import threading
import zlib
from collections.abc import Callable, Iterable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

LAST_WORDS = "That is all."


class Wish(NamedTuple):
    """A call of a tool that the model makes. Agents put a prefix before the tool's name."""

    tool: str
    input: dict[str, Any]


class ToolUse(NamedTuple):
    id: str
    tool: str
    namespace: str | None
    input: dict[str, Any]


class ScriptedModel(ThreadingHTTPServer):
    """`requests` has the path and the body of every request."""

    daemon_threads = True

    def __init__(self, wishes: Sequence[Wish]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.wishes = wishes
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.url = f"http://127.0.0.1:{self.server_port}"
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    def close(self) -> None:
        self.shutdown()
        self.server_close()
        self._thread.join()

    @property
    def turns(self) -> list[dict[str, Any]]:
        """The requests that offer memsyncd's tools."""
        return [body for _, body in self.requests if list(list_tools(body))]

    def choose(self, body: dict[str, Any]) -> ToolUse | None:
        offered = list(list_tools(body))
        number = len(list(list_results(body)))
        if not offered or number >= len(self.wishes):
            return None
        wish = self.wishes[number]
        for name, namespace in offered:
            if name.endswith(wish.tool):
                return ToolUse(f"call_{number}", name, namespace, wish.input)
        return ToolUse(f"call_{number}", wish.tool, None, wish.input)


def list_tools(body: dict[str, Any]) -> Iterable[tuple[str, str | None]]:
    """The names of memsyncd's tools in a request, each with its namespace."""
    tools: list[tuple[str, str | None]] = []
    for tool in body.get("tools") or ():
        inner = tool.get("tools") or tool.get("functionDeclarations")
        if inner:
            tools += [(each.get("name", ""), tool.get("name")) for each in inner]
        else:
            tools.append((tool.get("function", tool).get("name", ""), None))
    return [(name, namespace) for name, namespace in tools if name.endswith("memory_search")] and [
        tool for tool in tools if "memory" in tool[0]
    ]


def list_results(body: dict[str, Any]) -> Iterable[str]:
    """The texts of the results of tools in a request, of any of the providers."""
    for item in body.get("input") or ():
        if isinstance(item, dict) and str(item.get("type")).endswith("_call_output"):
            yield json.dumps(item.get("output"))
    for message in body.get("messages") or ():
        content = message.get("content")
        if message.get("role") == "tool":
            yield json.dumps(content)
        for part in content if isinstance(content, list) else ():
            if part.get("type") == "tool_result":
                yield json.dumps(part.get("content"))
    for message in body.get("contents") or ():
        for part in message.get("parts") or ():
            if "functionResponse" in part:
                yield json.dumps(part["functionResponse"]["response"])


class Handler(BaseHTTPRequestHandler):
    server: ScriptedModel
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._send("application/json", b"")

    def do_GET(self) -> None:
        self._send("application/json", b'{"data": [], "object": "list", "models": []}')

    def do_POST(self) -> None:
        body = read_body(
            self.rfile.read(int(self.headers.get("Content-Length") or 0)), self.headers
        )
        path = self.path.partition("?")[0]
        self.server.requests.append((path, body))
        if "count_tokens" in path or "countTokens" in path:
            self._send("application/json", b'{"input_tokens": 10, "totalTokens": 10}')
            return
        call = self.server.choose(body)
        for end, render in RENDERERS.items():
            if path.endswith(end):
                self._send(*render(body, call))
                return
        self._send("application/json", b"{}")

    def _send(self, kind: str, data: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def read_body(data: bytes, headers: Any) -> dict[str, Any]:
    coding = headers.get("Content-Encoding", "")
    if coding == "gzip":
        data = gzip.decompress(data)
    elif coding == "deflate":
        data = zlib.decompress(data)
    try:
        body = json.loads(data or b"{}")
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def render_events(events: Iterable[tuple[str, Any]]) -> tuple[str, bytes]:
    text = "".join(
        (f"event: {name}\n" if name else "") + f"data: {json.dumps(event)}\n\n"
        for name, event in events
    )
    return "text/event-stream", text.encode()


def render_anthropic(body: dict[str, Any], call: ToolUse | None) -> tuple[str, bytes]:
    block: dict[str, Any] = {"type": "text", "text": LAST_WORDS}
    empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": LAST_WORDS}
    if call is not None:
        block = {"type": "tool_use", "id": call.id, "name": call.tool, "input": call.input}
        empty = {**block, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(call.input)}
    reason = "end_turn" if call is None else "tool_use"
    message = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": body.get("model"),
        "content": [block], "stop_reason": reason, "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 5},
    }  # fmt: skip
    if not body.get("stream"):
        return "application/json", json.dumps(message).encode()
    begun = {**message, "content": [], "stop_reason": None}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": empty},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": reason, "stop_sequence": None},
            "usage": {"output_tokens": 5},
        },
        {"type": "message_stop"},
    ]
    return render_events((event["type"], event) for event in events)


def render_responses(_body: dict[str, Any], call: ToolUse | None) -> tuple[str, bytes]:
    item: dict[str, Any] = {
        "type": "message",
        "role": "assistant",
        "id": "msg_1",
        "content": [{"type": "output_text", "text": LAST_WORDS}],
    }
    if call is not None:
        named = {} if call.namespace is None else {"namespace": call.namespace}
        arguments = json.dumps(call.input)
        item = {"type": "function_call", "call_id": call.id, "name": call.tool, **named}
        item["arguments"] = arguments
    usage = {
        "input_tokens": 1, "input_tokens_details": None, "output_tokens": 1,
        "output_tokens_details": None, "total_tokens": 2,
    }  # fmt: skip
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {"id": "resp_1"}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {"id": "resp_1", "usage": usage}},
    ]
    return render_events((event["type"], event) for event in events)


def render_completions(body: dict[str, Any], call: ToolUse | None) -> tuple[str, bytes]:
    message: dict[str, Any] = {"role": "assistant", "content": LAST_WORDS}
    if call is not None:
        function = {"name": call.tool, "arguments": json.dumps(call.input)}
        calls = [{"index": 0, "id": call.id, "type": "function", "function": function}]
        message = {"role": "assistant", "content": None, "tool_calls": calls}
    reason = "stop" if call is None else "tool_calls"
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    head = {"id": "c", "created": 1, "model": body.get("model")}
    if not body.get("stream"):
        choice = {"index": 0, "message": message, "finish_reason": reason}
        whole = {**head, "object": "chat.completion", "choices": [choice], "usage": usage}
        return "application/json", json.dumps(whole).encode()
    head["object"] = "chat.completion.chunk"
    chunk = {**head, "choices": [{"index": 0, "delta": message, "finish_reason": None}]}
    end = {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage}
    kind, data = render_events([("", chunk), ("", end)])
    return kind, data + b"data: [DONE]\n\n"


def render_gemini(_body: dict[str, Any], call: ToolUse | None) -> tuple[str, bytes]:
    part: dict[str, Any] = {"text": LAST_WORDS}
    if call is not None:
        part = {"functionCall": {"id": call.id, "name": call.tool, "args": call.input}}
    answer = {
        "candidates": [
            {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        ],
        "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
    }
    return "application/json", json.dumps(answer).encode()


def render_gemini_stream(body: dict[str, Any], call: ToolUse | None) -> tuple[str, bytes]:
    return render_events([("", json.loads(render_gemini(body, call)[1]))])


RENDERERS: dict[str, Callable[[dict[str, Any], ToolUse | None], tuple[str, bytes]]] = {
    "/messages": render_anthropic,
    "/responses": render_responses,
    "/chat/completions": render_completions,
    ":generateContent": render_gemini,
    ":streamGenerateContent": render_gemini_stream,
}
