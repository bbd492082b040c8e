from __future__ import annotations

import json
from itertools import pairwise

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import UNSET

from memsyncd.errors import Conflict
from memsyncd.operations.changes.declare import Subscribed
from memsyncd.operations.fields import NoParams, Result
from memsyncd.operations.notes.declare import GetParams, Got
from memsyncd.operations.search.declare import SearchParams
from memsyncd.operations.status.declare import Problems
from memsyncd.protocol.jsonrpc import (
    MAX_BATCH,
    TOO_LONG,
    Batch,
    Fault,
    LineSplitter,
    MessageParser,
    RpcRequest,
    TooLong,
    describe_error,
    encode_error,
    encode_notification,
    encode_result,
)

PIECES = st.lists(st.binary(max_size=20), max_size=20)
STREAMS = st.lists(
    st.sampled_from([b"a", b"bc", b"\n", b"\r\n", b" ", b"{}", b"x" * 9, b"\xff"]), max_size=40
).map(b"".join)


def read_all(pieces: list[bytes], *, max_line_bytes: int) -> list[bytes | TooLong]:
    splitter = LineSplitter(max_line_bytes)
    return [line for piece in pieces for line in splitter.push(piece)] + splitter.end()


def expect(stream: bytes, *, max_line_bytes: int) -> list[bytes | TooLong]:
    """Return the expected lines of a complete stream, by a simple implementation."""
    lines = (line for line in stream.split(b"\n") if line.strip() or len(line) > max_line_bytes)
    return [TOO_LONG if len(line) > max_line_bytes else line for line in lines]


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(stream) + 1) for place in places), len(stream)]
    return [stream[start:end] for start, end in pairwise(edges)]


@given(STREAMS, st.lists(st.integers(0, 1000), max_size=12), st.integers(1, 12))
@example(b"abc\ndef", [1, 3, 4], 3)
@example(b"abcd\ndef\n", [1, 2, 3, 4, 5], 3)
@example(b"12345\n123456", [], 5)
@example(b"\n\r\n  \n\ta\n\nb", [], 9)
def test_any_split_of_the_bytes_is_read_alike(
    stream: bytes, places: list[int], max_line_bytes: int
) -> None:
    assert read_all(cut(stream, places), max_line_bytes=max_line_bytes) == expect(
        stream, max_line_bytes=max_line_bytes
    )


def test_a_line_is_returned_with_its_newline_and_not_before() -> None:
    splitter = LineSplitter(100)
    assert splitter.push(b'{"id"') == []
    assert splitter.is_inside_line
    assert splitter.push(b":1}\n{") == [b'{"id":1}']
    assert splitter.is_inside_line
    assert splitter.push(b"}\n") == [b"{}"]
    assert not splitter.is_inside_line


def test_a_line_over_the_limit_is_reported_once_and_at_once_and_the_next_lines_are_read() -> None:
    splitter = LineSplitter(5)
    assert splitter.push(b"1234") == []
    assert splitter.push(b"56") == [TOO_LONG]
    assert [line for _ in range(1000) for line in splitter.push(b"more")] == []
    assert splitter.is_inside_line
    assert splitter.push(b"\nnext\n") == [b"next"]


PARSER = MessageParser()

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=10,
)
UNUSUAL_REQUESTS = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | JSON,
        "id": JSON,
        "method": st.sampled_from(["ping", "search", "get", "nothing"]) | JSON,
        "params": st.dictionaries(
            st.sampled_from(["query", "limit", "filters", "wait", "qurey"]), JSON, max_size=3
        )
        | JSON,
    },
)


def request(**parts: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **parts}).encode()


def parse_fault(line: bytes) -> Fault:
    fault = PARSER.parse_line(line)
    assert isinstance(fault, Fault)
    return fault


def test_a_request_becomes_a_call_with_checked_parameters() -> None:
    line = request(id=7, method="search", params={"query": "redis", "limit": 3})
    assert PARSER.parse_line(line) == RpcRequest("search", SearchParams(query="redis", limit=3), 7)


@pytest.mark.parametrize("request_id", [0, -3, 1.5, "", "a-1", None, 2**80])
def test_an_id_is_returned_unchanged(request_id: object) -> None:
    call = PARSER.parse_line(request(id=request_id, method="ping"))
    assert isinstance(call, RpcRequest)
    assert not isinstance(call.id, msgspec.UnsetType)
    assert json.loads(encode_result(call.id, Problems(problems=[])))["id"] == request_id


PIECES = [
    "\ud83d",
    "\ude00",
    "\ud83d\ude00",
    "a",
    "é",
    "\\",
    "\\ud83d",
    '"',
    "\n",
    "\udfff",
    "\ud800",
]


@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join), st.booleans())
@example(text="\ud83d", in_batch=False)
def test_half_of_a_surrogate_pair_is_read_as_a_replacement_character(
    text: str, in_batch: bool
) -> None:
    request = json.dumps(
        {"jsonrpc": "2.0", "id": 7, "method": "search", "params": {"query": text}}
    ).encode()
    message = PARSER.parse_line(b"[" + request + b"]" if in_batch else request)
    call = message.items[0] if isinstance(message, Batch) else message
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    assert call == RpcRequest("search", SearchParams(query=whole), 7)
    params = json.dumps({"query": text}).encode()
    assert PARSER.parse_params("search", params, 7) == RpcRequest(
        "search", SearchParams(query=whole), 7
    )


def test_parameters_by_themselves_that_are_no_json_are_asked_for_as_such() -> None:
    fault = PARSER.parse_params("search", b'{"query": ', 7)
    assert isinstance(fault, Fault)
    assert fault.error.data["hint"] == "send the parameters as a JSON object"


def test_without_an_id_it_is_a_notification() -> None:
    assert PARSER.parse_line(request(method="ping")) == RpcRequest("ping", NoParams(), UNSET)
    assert PARSER.parse_line(request(method="nothing")) == parse_fault(request(method="nothing"))
    assert parse_fault(request(method="nothing")).id is UNSET


@pytest.mark.parametrize("params", [{}, None, []])
def test_empty_parameters_are_none(params: object) -> None:
    assert PARSER.parse_line(request(id=1, method="get", params=params)) == RpcRequest(
        "get", GetParams(), 1
    )


def test_white_space_around_a_request_and_a_carriage_return_are_ignored() -> None:
    assert PARSER.parse_line(b" " + request(id=1, method="ping") + b" \r") == RpcRequest(
        "ping", NoParams(), 1
    )


def test_the_last_of_duplicate_keys_counts() -> None:
    line = b'{"jsonrpc":"2.0","id":1,"id":2,"method":"get","method":"ping"}'
    assert PARSER.parse_line(line) == RpcRequest("ping", NoParams(), 2)


def test_text_that_is_not_json_is_a_parse_error() -> None:
    for line, message in (
        (b"{", "the request is not valid JSON"),
        (b"GET /v1/search?q=x HTTP/1.1\r", "the request is not valid JSON"),
        (b'{"jsonrpc":"2.0","id":NaN,"method":"ping"}', "the request is not valid JSON"),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping"} {}', "the request is not valid JSON"),
        (b'{"jsonrpc":1,"id":1,"method":nothing}', "the request is not valid JSON"),
        (b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', "the request is not valid UTF-8"),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}', "the request is not valid JSON"),
        (b"[" * 100_000, "the request is nested too deeply"),
        (
            b'{"jsonrpc":"2.0","id":1,"method":"get","params":{"path":' + b"[" * 100_000,
            "the request is nested too deeply",
        ),
    ):
        fault = parse_fault(line)
        assert (fault.error.code, fault.id) == (-32700, None), line
        assert fault.error.message.startswith(message), line


def test_invalid_utf8_within_parameters_is_answered_with_the_id() -> None:
    fault = parse_fault(b'{"jsonrpc":"2.0","id":9,"method":"get","params":{"path":"\xff"}}')
    assert (fault.error.code, fault.id) == (-32700, 9)


def test_json_that_is_not_a_request_is_refused_with_the_reason() -> None:
    for line, message, request_id in (
        (b"1", "a request is a JSON object", None),
        (b'"ping"', "a request is a JSON object", None),
        (b"[]", "the batch is empty", None),
        (b"{}", '`jsonrpc` is not "2.0"', None),
        (b'{"id":5,"method":"ping"}', '`jsonrpc` is not "2.0"', 5),
        (b'{"jsonrpc":"1.0","id":5,"method":"ping"}', '`jsonrpc` is not "2.0"', 5),
        (b'{"jsonrpc":"2.0","id":5}', "`method` is not a string", 5),
        (b'{"jsonrpc":"2.0","id":5,"result":{}}', "`method` is not a string", 5),
        (
            b'{"jsonrpc":"2.0","id":true,"method":"ping"}',
            "`id` is a string, a number or null",
            None,
        ),
        (b'{"jsonrpc":"2.0","id":[1],"method":"ping"}', "`id` is a string, a number or null", None),
        (
            b'{"jsonrpc":"2.0","id":1e999,"method":"ping"}',
            "`id` is a string, a number or null",
            None,
        ),
        (
            b'{"jsonrpc":"2.0","id":' + b"9" * 9_999 + b',"method":"ping"}',
            "`id` is a string, a number or null",
            None,
        ),
    ):
        fault = parse_fault(line)
        assert (fault.error.code, fault.error.message, fault.id) == (-32600, message, request_id), (
            line
        )


@pytest.mark.parametrize(
    ("method", "hint"),
    [("serach", "search"), ("Search", "search"), ("workspace.lst", "workspace.list")],
)
def test_an_unknown_method_is_refused_with_the_nearest(method: str, hint: str) -> None:
    fault = parse_fault(request(id=1, method=method))
    assert fault.error.code == -32601
    assert fault.error.data == {"code": "bad_request", "hint": f"did you mean `{hint}`?"}


def test_a_method_without_a_similar_one_is_refused_with_all() -> None:
    fault = parse_fault(request(id=1, method="x" * 5_000_000))
    assert fault.error.data["hint"].startswith("methods: ping, ")
    assert len(fault.error.message) < 100


@pytest.mark.parametrize(
    ("method", "params", "message", "hint"),
    [
        ("search", {"query": "x", "limt": 3}, "no parameter named `limt`", "did you mean `limit`?"),
        (
            "search",
            {"query": "x", "filters": {"tags": []}},
            "no parameter named `tags`",
            "did you mean `tag`?",
        ),
        (
            "search",
            {},
            "parameter `query` is missing",
            "parameters: query, limit, filters",
        ),
        (
            "note.add_many",
            {"items": [{"content": "x", "knd": "y"}]},
            "no parameter named `knd`",
            "did you mean `kind`?",
        ),
        (
            "note.add_many",
            {"items": [{}]},
            "parameter `content` is missing",
            "parameters: content, summary, kind",
        ),
        (
            "memory",
            {"command": "veiw"},
            "parameter `command`: invalid enum value 'veiw'",
            "one of: view, create, str_replace",
        ),
        ("undo", {"path": ""}, "parameter `path`: is empty", ""),
        (
            "diff",
            {"revision": 2**63},
            "parameter `revision`: expected a whole number up to 9223372036854775807",
            "",
        ),
        (
            "history.purge",
            {"containing": "x"},
            "parameter `containing`: expected at least 4 characters",
            "",
        ),
        ("signal.ack", {"signals": []}, "parameter `signals`: expected a list of at least 1", ""),
        (
            "search",
            {"query": "x", "limit": "a"},
            "parameter `limit`: expected a whole number, got text",
            "",
        ),
        ("history", {"before": 0}, "parameter `before`: expected a whole number from 1", ""),
        (
            "memory",
            {"command": "view", "view_range": [1]},
            "parameter `view_range`: expected a list of 2",
            "",
        ),
        ("search", {"query": 1}, "parameter `query`: expected text, got a whole number", ""),
        (
            "search",
            {"query": "x", "limit": 0},
            "parameter `limit`: expected a whole number from 1",
            "",
        ),
        (
            "search",
            {"query": "x", "filters": {"tag": [1]}},
            "parameter `filters.tag[0]`: expected text, got a whole number",
            "",
        ),
        (
            "search",
            {"query": "x", "wait": "long"},
            "parameter `wait`: invalid enum value 'long'",
            "one of: none, disk",
        ),
        ("search", ["x"], "parameters are given by name, as an object", "parameters: query"),
        ("search", "x", "parameters are given by name, as an object", "parameters: query"),
        (
            "ping",
            {"a`b - at `$.c": 1},
            "no parameter named `a`b - at `$.c`",
            "it takes no parameters",
        ),
    ],
)
def test_invalid_parameters_are_refused_with_their_names_and_the_right_form(
    method: str, params: object, message: str, hint: str
) -> None:
    fault = parse_fault(request(id="q", method=method, params=params))
    assert (fault.error.code, fault.id, fault.error.data["code"]) == (-32602, "q", "bad_request")
    assert fault.error.message == message
    assert fault.error.data["hint"].startswith(hint)


def test_a_parameter_name_of_a_megabyte_is_shortened_in_the_error() -> None:
    fault = parse_fault(request(id=1, method="search", params={"x`" * 500_000: 1}))
    assert fault.error.message.startswith("no parameter named `x`x`")
    assert len(fault.error.message) < 100


def test_a_batch_holds_calls_and_faults_in_order() -> None:
    batch = PARSER.parse_line(
        b" ["
        + b",".join([request(id=1, method="ping"), b"1", request(method="ping"), b"[]"])
        + b"]"
    )
    assert isinstance(batch, Batch)
    assert [type(item) for item in batch.items] == [RpcRequest, Fault, RpcRequest, Fault]


def test_a_batch_of_too_many_is_refused_as_a_whole() -> None:
    def line(n: int) -> bytes:
        return b"[" + b",".join([request(id=1, method="ping")] * n) + b"]"

    assert isinstance(PARSER.parse_line(line(MAX_BATCH)), Batch)
    assert parse_fault(line(MAX_BATCH + 1)).error.data["code"] == "too_large"


@given(st.binary(max_size=200))
def test_no_bytes_make_the_parser_raise(line: bytes) -> None:
    check(PARSER.parse_line(line))


@given(UNUSUAL_REQUESTS | st.lists(UNUSUAL_REQUESTS | JSON, max_size=4) | JSON, st.booleans())
def test_no_json_makes_the_parser_raise(value: object, is_ascii: bool) -> None:
    check(
        PARSER.parse_line(json.dumps(value, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass"))
    )


@given(st.data())
def test_a_damaged_request_never_makes_the_parser_raise(data: st.DataObject) -> None:
    whole = bytearray(
        request(id=1, method="search", params={"query": "π", "limit": 3, "filters": {"tag": ["a"]}})
    )
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    check(PARSER.parse_line(bytes(whole)))


def check(message: RpcRequest | Fault | Batch) -> None:
    """Check that each fault can be sent as one line, and that this line is an error."""
    for item in message.items if isinstance(message, Batch) else [message]:
        if isinstance(item, Fault) and not isinstance(item.id, msgspec.UnsetType):
            line = encode_error(item.id, item.error)
            assert b"\n" not in line
            answer = json.loads(line)
            assert answer["error"]["code"] in {-32700, -32600, -32601, -32602, -32007}
            assert answer["error"]["data"]["code"]
            assert answer["error"]["data"]["hint"]


def test_an_answer_is_one_compact_line() -> None:
    line = encode_result("a", Subscribed(subscription="1\n2", generations={"ä": 3}))
    assert (
        line
        == '{"jsonrpc":"2.0","id":"a","result":{"subscription":"1\\n2","generations":{"ä":3}}}'.encode()
    )


def test_a_notification_has_no_id() -> None:
    line = encode_notification("changed", Problems(problems=[]))
    assert line == b'{"jsonrpc":"2.0","method":"changed","params":{"problems":[],"n_problems":0}}'


def test_text_that_is_not_utf8_is_answered_with_replacement_characters() -> None:
    answer = json.loads(
        encode_result(1, Subscribed(subscription="bad\udcff😀name", generations={}))
    )
    assert answer["result"]["subscription"] == "bad�😀name"


def test_an_error_whose_data_cannot_be_written_keeps_its_code_and_hint() -> None:
    error = describe_error(Conflict("it has changed", hint="read it again", digest=object()))
    assert json.loads(encode_error(3, error))["error"]["data"] == {
        "code": "conflict",
        "hint": "read it again",
    }


def test_optional_fields_of_a_result_are_present_even_if_empty() -> None:
    class Part(Result, frozen=True, kw_only=True):
        why_empty: str | None = None

    assert json.loads(encode_result(1, Part()))["result"] == {"why_empty": None}
    assert "importance" in Got.__struct_fields__
