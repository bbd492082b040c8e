"""Messages of MCP are read by the rules of their revision, and no line raises."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd import errors
from memsyncd.core.editing.kinds import DEFAULT_KINDS
from memsyncd.errors import BadRequest, MemsyncdError, NotFresh
from memsyncd.operations.notes import text as notes_text
from memsyncd.operations.notes.declare import Added, Got, MemoryResult
from memsyncd.operations.search import text as search_text
from memsyncd.operations.search.declare import Freshness, Hit, SearchResult
from memsyncd.operations.sections import Filters
from memsyncd.operations.table import OPERATIONS
from memsyncd.protocol import mcp, mcp_tools
from memsyncd.protocol.jsonrpc import Batch, Fault, MessageParser, RpcRequest

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
FRESH = Freshness(generation=1, pending=0, unrecorded=0, synced_at=1.0, state="ready", reason=None)


def line(method: str, request_id: object = 1, **params: Any) -> bytes:
    message = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
    return json.dumps(message).encode()


def initialize(version: str) -> bytes:
    return line("initialize", protocolVersion=version, capabilities={}, clientInfo={"name": "c"})


def test_native_methods_and_methods_of_mcp_differ_by_name() -> None:
    parser = MessageParser()
    assert isinstance(parser.parse_line(line("ping")), RpcRequest)
    assert isinstance(parser.parse_line(line("pong")), Fault)
    assert not isinstance(parser.parse_line(line("ping", _meta=META)), RpcRequest | Fault)
    assert not isinstance(parser.parse_line(line("tools/list")), RpcRequest | Fault | Batch)
    assert not isinstance(
        parser.parse_line(b"[%b]" % line("tools/list")), RpcRequest | Fault | Batch
    )
    assert not [name for name in OPERATIONS if name in mcp.MCP_METHODS and name != "ping"]


@pytest.mark.parametrize("version", mcp.HANDSHAKE_VERSIONS)
def test_a_handshake_keeps_its_version_for_later_requests(version: str) -> None:
    parser = mcp.McpParser()
    assert parser.parse_line(initialize(version)).params.version == version
    assert parser.parse_line(line("tools/list")).params.version == version
    assert parser.parse_line(line("tools/list")).params.client == "c"


@pytest.mark.parametrize("version", ["2026-07-28", "2030-01-01", ""])
def test_a_handshake_for_another_version_is_answered_with_the_latest(version: str) -> None:
    assert mcp.McpParser().parse_line(initialize(version)).params.version == "2025-11-25"


def test_half_of_a_surrogate_pair_in_arguments_is_replaced() -> None:
    parser = mcp.McpParser()
    parser.parse_line(initialize("2025-11-25"))
    arguments = {"query": "half \ud83d"}
    call = parser.parse_line(line("tools/call", 7, name="memory_search", arguments=arguments))
    assert call.id == 7
    assert call.params.params.arguments == {"query": "half \ufffd"}


def test_a_request_with_a_version_of_its_own_is_modern_even_after_a_handshake() -> None:
    parser = mcp.McpParser()
    parser.parse_line(initialize("2025-06-18"))
    assert parser.parse_line(line("tools/list", _meta=META)).params.is_modern
    assert not parser.parse_line(line("tools/list")).params.is_modern


def test_a_wrong_message_gets_the_code_that_mcp_prescribes() -> None:
    for message, code in (
        (line("tools/list"), -32602),
        (line("server/discover"), -32602),
        (
            line("tools/list", _meta={"io.modelcontextprotocol/protocolVersion": "2026-07-28"}),
            -32602,
        ),
        (line("tools/list", _meta=META | {"io.modelcontextprotocol/protocolVersion": 3}), -32602),
        (line("tools/list", _meta=META | {"io.modelcontextprotocol/protocolVersion": "x"}), -32022),
        (line("ping", _meta=META), -32601),
        (line("initialize", _meta=META), -32601),
        (line("initialized/x", _meta=META), -32601),
        (line("tools/call", _meta=META), -32602),
        (line("tools/call", _meta=META, name=7), -32602),
        (line("tools/list", _meta=META, cursor=7), -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[1]}', -32602),
        (b'{"jsonrpc":"1.0","id":1,"method":"tools/list"}', -32600),
        (b'{"jsonrpc":"2.0","id":{},"method":"tools/list"}', -32600),
        (b"nonsense", -32700),
        (b"[]", -32600),
    ):
        fault = mcp.McpParser().parse_line(message)
        assert isinstance(fault, Fault), message
        assert fault.error.code == code, message
        assert fault.error.data["hint"], message


def test_an_unknown_version_is_answered_with_the_known_versions() -> None:
    meta = META | {"io.modelcontextprotocol/protocolVersion": "2099-01-01"}
    fault = mcp.McpParser().parse_line(line("tools/list", _meta=meta))
    assert fault.error.data["requested"] == "2099-01-01"
    assert "2026-07-28" in fault.error.data["supported"]


@pytest.mark.parametrize("version", mcp.HANDSHAKE_VERSIONS)
def test_batches_are_read_only_in_the_revisions_that_have_them(version: str) -> None:
    parser = mcp.McpParser()
    parser.parse_line(initialize(version))
    read = parser.parse_line(b"[%b,%b]" % (line("ping"), line("tools/list", 2)))
    assert isinstance(read, Batch) == (version in {"2024-11-05", "2025-03-26"})


def test_an_answer_from_a_client_is_ignored() -> None:
    for answer in (b'{"jsonrpc":"2.0","id":1,"result":{}}', b'{"jsonrpc":"2.0","id":1,"error":{}}'):
        assert mcp.McpParser().parse_line(answer) == Batch(())


@given(
    st.binary(max_size=200)
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=20),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["jsonrpc", "id", "method", "params", "_meta", "name", *META]),
                inner,
            )
        ),
        max_leaves=12,
    ).map(lambda value: json.dumps(value).encode())
)
def test_no_line_raises(data: bytes) -> None:
    assert isinstance(mcp.McpParser().parse_line(data), RpcRequest | Fault | Batch)


def test_modern_results_say_how_long_they_may_be_kept() -> None:
    parser = mcp.McpParser()
    request = parser.parse_line(line("tools/list", _meta=META)).params
    result = mcp.complete_result("tools/list", request, mcp.ToolList(tools=[]), "1")
    plain = json.loads(msgspec.json.encode(result))
    assert (plain["resultType"], plain["cacheScope"]) == ("complete", "private")
    assert plain["ttlMs"] >= 0
    parser.parse_line(initialize("2025-06-18"))
    legacy = parser.parse_line(line("tools/list")).params
    plain = json.loads(
        msgspec.json.encode(mcp.complete_result("tools/list", legacy, mcp.ToolList(tools=[]), "1"))
    )
    assert plain == {"tools": []}


@given(st.text(min_size=1), st.text(min_size=1))
def test_an_address_names_its_workspace_and_note(workspace: str, path: str) -> None:
    assert mcp.parse_uri(mcp.make_uri(workspace, path)) == (workspace, path)


@given(st.text())
def test_no_address_raises_anything_else(uri: str) -> None:
    for text in (uri, mcp.SCHEME + uri):
        with contextlib.suppress(BadRequest):
            assert all(mcp.parse_uri(text))


@given(st.text(st.characters(exclude_categories=("Cs",))))
def test_a_cursor_holds_a_key(key: str) -> None:
    assert mcp.read_cursor(mcp.make_cursor(key)) == key


@pytest.mark.parametrize("cursor", ["?", "!!", "é", "AA A", "////"])
def test_a_cursor_that_was_not_made_here_is_refused(cursor: str) -> None:
    with pytest.raises(BadRequest, match="cursor is not valid"):
        mcp.read_cursor(cursor)


def test_a_daemon_imports_mcp_only_with_its_first_message() -> None:
    program = (
        "import sys, memsyncd.daemon.main as _; "
        "print([m for m in sys.modules if 'mcp' in m or 'h11' in m or '.http' in m])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout.strip() == b"[]"


def test_the_instructions_have_at_most_three_lines() -> None:
    assert len(mcp.INSTRUCTIONS.splitlines()) <= 3


@pytest.mark.parametrize("is_read_only", [False, True])
@pytest.mark.parametrize("has_memory", [False, True])
def test_the_tools_cost_a_session_few_tokens(*, is_read_only: bool, has_memory: bool) -> None:
    tools = mcp_tools.list_tools(is_read_only=is_read_only, has_memory=has_memory)
    text = json.dumps(tools, separators=(",", ":"), ensure_ascii=False)
    assert len(tools) <= 7
    assert len(text) / 4 <= 2000


@pytest.mark.parametrize("tool", mcp_tools.TOOLS.values(), ids=mcp_tools.TOOLS)
def test_a_tool_is_described_whole_with_the_required_arguments_of_its_method(
    tool: mcp_tools.OfferedTool,
) -> None:
    described = mcp_tools.describe_tool(tool.tool.name)
    # By the protocol, a tool may destroy unless it says that it only reads or adds.
    hints = described["annotations"]
    assert hints.get("readOnlyHint", False) == tool.tool.is_read_only
    may_destroy = hints.get("destructiveHint", not tool.tool.is_read_only)
    assert may_destroy == tool.tool.is_destructive
    operations = tool.operations.values()
    is_loaded = described.get("_meta", {}).get("anthropic/alwaysLoad", False)
    assert is_loaded == tool.tool.is_always_loaded
    schema = described["inputSchema"]
    assert all("type" in part and part["description"] for part in schema["properties"].values())
    named = set(schema.get("required", ()))
    assert named <= set(schema["properties"])
    required = {
        field.name
        for operation in operations
        for field in msgspec.structs.fields(operation.params)
        if field.required
    }
    if not tool.has_actions and tool.tool.name != mcp_tools.INIT_TOOL:
        assert required <= named


def test_arguments_become_parameters() -> None:
    for name, arguments, fields in (
        ("memory_search", {"query": "a", "kind": "decision", "limit": None}, {"query": "a"}),
        ("memory_get", {"path": "a/b.md:3-9"}, {"path": "a/b.md", "start_line": 3, "end_line": 9}),
        ("memory_get", {"path": "b.md:3"}, {"path": "b.md", "start_line": 3, "end_line": 3}),
        ("memory_get", {"path": "b.md#x/y"}, {"anchor": "b.md#x/y", "path": None}),
        ("memory_get", {"path": "c#.md"}, {"anchor": None, "path": "c#.md"}),
        ("memory_get", {"path": "no #1.MD:3"}, {"anchor": None, "path": "no #1.MD", "end_line": 3}),
        ("memory_get", {"path": "c#.md#x"}, {"anchor": "c#.md#x", "path": None}),
        ("memory_get", {"path": "c.md#"}, {"anchor": "c.md#", "path": None}),
        ("memory_get", {"path": "b.md", "start_line": 2}, {"path": "b.md", "start_line": 2}),
        (
            "memory_search",
            {"query": "a", "limit": "5", "follow": "x"},
            {"limit": 5, "follow": ["x"]},
        ),
        (
            "memory_remember",
            {"content": "5", "tags": "auth, db"},
            {"content": "5", "tags": ["auth", "db"]},
        ),
        ("memory", {"command": "view", "view_range": ["1", "3"]}, {"view_range": (1, 3)}),
        ("memory", {"command": "view", "view_range": "[1, 3]"}, {"view_range": (1, 3)}),
        (
            "memory_search",
            {"query": "[1]", "kind": '["error"]', "path": "[a].md", "workspace": '["a", "b"]'},
            {
                "query": "[1]",
                "filters": Filters(kind=["error"], path=["[a].md"]),
                "workspace": ["a", "b"],
            },
        ),
        (
            "memory_search",
            {"query": "a", "kind": "", "path": "", "tag": []},
            {"query": "a", "filters": Filters()},
        ),
    ):
        _, params = mcp_tools.choose_call(mcp_tools.TOOLS[name], arguments)
        assert {field: getattr(params, field) for field in fields} == fields, name


def test_an_action_of_a_tool_is_a_call_of_its_method() -> None:
    for arguments, method, fields in (
        ({"action": "resume", "session": "s"}, "session.resume", {"session": "s"}),
        ({"action": "checkpoint", "content": "x", "task": "T"}, "task.checkpoint", {"task": "T"}),
        ({"action": "inbox", "agent": "a"}, "signal.inbox", {"agent": "a"}),
        (
            {"action": "send", "content": "x", "agent": "a", "task": ["T"]},
            "signal.send",
            {"agents": ["a"], "tasks": ["T"], "content": "x"},
        ),
        ({"action": "ack", "signals": 3, "agent": "a"}, "signal.ack", {"signals": [3]}),
    ):
        called, params = mcp_tools.choose_call(mcp_tools.TOOLS["memory_agent"], arguments)
        assert called.name == method, arguments
        assert {field: getattr(params, field) for field in fields} == fields, arguments


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("memory_agent", {}),
        ("memory_agent", {"action": "delete"}),
        ("memory_agent", {"action": "resume", "content": "x"}),
        ("memory_agent", {"action": "send", "signals": [1]}),
        ("memory_agent", {"action": "ack", "agent": "a"}),
        ("memory_agent", {"action": "inbox", "agent": 3}),
        ("memory_search", {}),
        ("memory_search", {"quer": "x"}),
        ("memory_search", {"query": 3}),
        ("memory_search", {"query": "x", "limit": 0}),
        ("memory_search", {"query": None}),
    ],
)
def test_wrong_arguments_are_refused_with_a_remedy(name: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(BadRequest) as caught:
        mcp_tools.choose_call(mcp_tools.TOOLS[name], arguments)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        (
            "memory_search",
            {"query": "x", "kind": ["x" * 600]},
            "argument `kind[0]`: expected at most 512 characters",
        ),
        (
            "memory_agent",
            {"action": "send", "content": "x", "session": 3},
            "argument `session[0]`: expected text, got a whole number",
        ),
        (
            "memory_agent",
            {"action": "checkpoint", "task": "T"},
            "argument `content` is missing\nWhat to do: arguments: content, task, session, workspace",
        ),
    ],
)
def test_an_error_names_the_arguments_of_the_tool(
    name: str, arguments: dict[str, Any], said: str
) -> None:
    with pytest.raises(BadRequest) as caught:
        mcp_tools.choose_call(mcp_tools.TOOLS[name], arguments)
    assert mcp_tools.render_error(caught.value).startswith(said)


SECTION_META: dict[str, Any] = {
    "kind": "decision", "tags": [], "importance": 0.7, "is_importance_stated": False, "priority": None,
    "lifecycle": None, "task": None, "session": None, "source": None, "created": None, "updated": None,
    "expires": None, "is_expired": False, "status": None, "day": "2026-03-01", "is_day_of_file": True,
    "is_day_of_name": False, "meta": {},
}  # fmt: skip


# The daemon's errors; a client's own errors are in the client's module.
KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, MemsyncdError)
]


def make_hit(snippet: str) -> Hit:
    return Hit(
        workspace="w", anchor="a", path="MEMORY.md", start_line=3, end_line=5, heading=["A", "B"],
        snippet=snippet, score=0.5, digest="", matched=[], matched_related=[], **SECTION_META,
    )  # fmt: skip


def test_a_hit_is_cited_by_its_lines_and_its_mark_comes_before_its_snippet() -> None:
    hit = msgspec.structs.replace(make_hit("ignore **previous** words"), mark="[WARNING: data.]")
    result = SearchResult(
        hits=[hit], relaxed=False, why_empty=None,
        did_you_mean=None, workspaces=[], freshness=FRESH, took_ms=1.0,
    )  # fmt: skip
    assert search_text.render_hits(result).splitlines() == [
        "MEMORY.md:3-5  A › B (decision)",
        "[WARNING: data.]",
        "  ignore **previous** words",
    ]


def test_an_answer_of_related_words_alone_says_so() -> None:
    related = msgspec.structs.replace(make_hit("x"), matched=[], matched_related=["posts"])
    both = msgspec.structs.replace(make_hit("x"), matched=["a"], matched_related=["posts"])
    for hits, said in (([related], "related ones"), ([related, both], "hold some")):
        result = SearchResult(
            hits=hits, relaxed=True, why_empty=None,
            did_you_mean=None, workspaces=[], freshness=FRESH, took_ms=1.0,
        )  # fmt: skip
        assert said in search_text.render_hits(result).splitlines()[0]


def test_ignored_parts_of_a_query_are_named_before_the_hits() -> None:
    result = SearchResult(
        hits=[make_hit("x")], relaxed=False, why_empty=None, did_you_mean=None, workspaces=[],
        freshness=FRESH, took_ms=1.0, query_problems=["is:open was read as words"],
    )  # fmt: skip
    first, second, _ = search_text.render_hits(result).splitlines()
    assert first == "Note: is:open was read as words."
    assert second.startswith("MEMORY.md:3-5")


def test_an_agent_is_told_of_a_file_that_is_not_searched() -> None:
    kept = MemoryResult(
        workspace="w", generation=1, is_indexed=True, change_set=1, text="File created successfully at: /memories/a",
        digest="d", is_searched=False,
    )  # fmt: skip
    first, second = notes_text.render_memory(kept, lambda _: "").splitlines()
    assert (first, ".md" in second) == (kept.text, True)
    searched = msgspec.structs.replace(kept, is_searched=True)
    assert notes_text.render_memory(searched, lambda _: "") == kept.text


def test_an_agent_is_told_of_a_kind_that_is_similar_to_an_unknown_one() -> None:
    added = Added(
        workspace="w", generation=1, is_indexed=True, change_set=1, anchor="a.md#a", path="a.md", start_line=1,
        end_line=2, digest="d", similar_kind="decision",
    )  # fmt: skip
    assert "similar one is decision" in notes_text.render_added(added)
    plain = msgspec.structs.replace(added, similar_kind=None)
    assert notes_text.render_added(plain) == "Remembered at a.md:1-2"


@pytest.mark.parametrize("kind", KINDS)
def test_an_agent_is_not_told_to_run_a_command(kind: type[MemsyncdError]) -> None:
    for hint in ("see: memsyncd status", "restore it with --adopt"):
        advice = mcp_tools.render_error(kind("it failed", hint=hint)).partition("What to do: ")[2]
        assert advice
        assert hint not in advice or advice.endswith(f"tell the user: {hint}")


def test_a_hint_that_an_agent_can_follow_is_kept() -> None:
    error = BadRequest("no parameter `colour`", hint="one of: query, limit")
    assert mcp_tools.advise_agent(error) == error.hint


def test_an_agent_is_not_told_to_change_a_time_limit() -> None:
    for hint, advice in (
        ("ask again, or with a longer timeout_ms", "ask again"),
        ("use fewer or rarer words, or a longer timeout_ms", "use fewer or rarer words"),
        (
            "ask again, send fewer requests at once, or ask with a longer timeout_ms",
            "ask again, send fewer requests at once",
        ),
    ):
        assert mcp_tools.advise_agent(NotFresh("it takes too long", hint=hint)) == advice, hint


def test_a_long_note_is_cut_at_a_line_with_where_to_go_on() -> None:
    text = "\n".join(f"line {number} " + "x" * 100 for number in range(1, 1001))
    got = Got(
        workspace="w", anchor=None, path="n.md", start_line=1, end_line=1000, text=text, digest="",
        heading=[], n_lines=1000, n_links=0, n_backlinks=0, **SECTION_META,
    )  # fmt: skip
    lines_shown = search_text.render_note(got, lambda _: "").splitlines()
    last = int(lines_shown[-3].split()[1])
    assert lines_shown[0] == f"n.md:1-{last} of 1000 lines"
    assert lines_shown[-1] == f"… continues: read n.md:{last + 1}-1000"


def test_a_long_view_is_cut_at_a_line_with_where_to_go_on() -> None:
    lines = [f"{number:6}\tline {number} " + "x" * 100 for number in range(1, 1001)]
    lines_shown = notes_text.render_memory(make_view(*lines), lambda _: "").splitlines()
    assert len("\n".join(lines_shown)) < search_text.TEXT_LIMIT_CHARS + 200
    last = int(lines_shown[-3].split()[0])
    assert lines_shown[1:-2] == lines[:last]
    assert lines_shown[-1] == f"… continues: view_range [{last + 1}, -1] shows the rest"
    files = [f"4B\t/memories/{number}-{'x' * 100}.md" for number in range(1000)]
    listed = notes_text.render_memory(make_view(*files), lambda _: "").splitlines()
    assert listed[1:-2] == files[: len(listed) - 3]
    assert listed[-1].startswith("… and more")


def test_the_rest_of_a_line_that_is_too_long_is_not_left_out_silently() -> None:
    line = "x" * 50_000
    for lines, n_more in (([f"     1\t{line}"], 0), ([f"     1\t{line}", "     2\ty"], 1)):
        lines_shown = notes_text.render_memory(make_view(*lines), lambda _: "").splitlines()
        assert lines_shown[3].startswith("… line 1 is longer than")
        assert len(lines_shown) == 4 + n_more
    got = Got(
        workspace="w", anchor=None, path="n.md", start_line=3, end_line=4, text=f"{line}\ny", digest="",
        heading=[], n_lines=4, n_links=0, n_backlinks=0, **SECTION_META,
    )  # fmt: skip
    note = search_text.render_note(got, lambda _: "").splitlines()
    assert note[4].startswith("… line 3 is longer than")
    assert note[-1] == "… continues: read n.md:4-4"


def make_view(*lines: str) -> MemoryResult:
    return MemoryResult(
        workspace="w", generation=1, is_indexed=True, change_set=None,
        text="\n".join(["Here's what there is:", *lines]), digest="d",
    )  # fmt: skip


def test_the_kinds_that_a_model_is_offered_have_a_note_of_their_own() -> None:
    (offered,) = (
        argument.description
        for argument in mcp_tools.TOOLS["memory_remember"].tool.arguments
        if argument.name == "kind"
    )
    named = offered.removeprefix("Such as ").rstrip(".").split(", ")
    assert len(named) > 3
    assert [kind for kind in named if kind not in DEFAULT_KINDS] == []
