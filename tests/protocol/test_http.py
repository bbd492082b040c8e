"""Targets, query strings, heads and headers are read exactly or refused; the documents are whole."""

from __future__ import annotations

import html
import json
import re
import shlex
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.errors import BadRequest
from memsyncd.operations.table import OPERATIONS
from memsyncd.protocol import http, openapi
from memsyncd.protocol.jsonrpc import ErrorBody, is_http_start
from memsyncd.protocol.openrpc import find_errors

ACCESS = http.Access(port=7777, token=b"secret-token")
SEARCH = OPERATIONS["search"].params


def attempt(call: Callable[..., Any], *args: Any) -> tuple[Any, Any]:
    """Return the result of the function, or its refusal."""
    try:
        return call(*args), None
    except (http.HttpRefusal, BadRequest) as refusal:
        return None, refusal


def quote(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode())


def test_http_is_told_from_json_by_its_first_bytes() -> None:
    for start, is_http in (
        (b"GET ", True), (b"POST /rpc HTTP/1.1\r\n", True), (b"PRI * HTTP/2.0", True),
        (b"G", None), (b"OPTIONS", None), (b"ABCDEFGHIJKLMNO", None),
        (b'{"jsonrpc"', False), (b"[", False), (b"\n", False), (b" GET /", False), (b"get / ", False),
        (b"ABCDEFGHIJKLMNOPQ", False), (b"GET\n", False), (b"G1T /", False), (b"\x16\x03\x01", False),
    ):  # fmt: skip
        assert is_http_start(start) is is_http, start


@given(st.binary(max_size=40))
def test_a_decision_by_the_first_bytes_does_not_change_with_more_of_them(data: bytes) -> None:
    decisions = [is_http_start(data[:end]) for end in range(1, len(data) + 1)]
    decided = [decision for decision in decisions if decision is not None]
    assert len(set(decided)) <= 1
    assert decisions[: len(decisions) - len(decided)].count(None) == len(decisions) - len(decided)


@given(st.lists(st.tuples(st.text(min_size=1), st.text()), max_size=5))
def test_a_query_string_is_decoded_to_what_was_encoded(pairs: list[tuple[str, str]]) -> None:
    pairs = [
        (name.encode("utf-8", "replace").decode(), value.encode("utf-8", "replace").decode())
        for name, value in pairs
    ]
    query = "&".join(f"{quote(name)}={quote(value)}" for name, value in pairs)
    target = http.parse_request_target(f"/v1/search?{query}".encode())
    assert target == http.RequestTarget("", "/v1/search", tuple(pairs))


@given(st.text(alphabet=st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1))
def test_any_target_is_parsed_or_refused(text: str) -> None:
    target, refusal = attempt(http.parse_request_target, text.encode())
    assert target or (refusal.status == 400 and refusal.error.hint)


def test_targets_of_proxies_are_understood() -> None:
    whole = http.parse_request_target(b"http://127.0.0.1:1/v1/get?path=a+b%2Bc&x")
    assert whole == http.RequestTarget("127.0.0.1:1", "/v1/get", (("path", "a b+c"), ("x", "")))
    assert http.parse_request_target(b"HTTP://d").path == "/"


@pytest.mark.parametrize(
    "target", [b"v1/get", b"/a%", b"/a%4", b"/%zz", b"/a%FF", b"/a#b", b"a:80"]
)
def test_a_malformed_target_is_refused(target: bytes) -> None:
    with pytest.raises(http.HttpRefusal):
        http.parse_request_target(target)


@pytest.mark.parametrize("path", ["/v1/remember", "/rpc"])
def test_no_parameter_of_a_query_string_is_ignored_where_the_body_has_them(path: str) -> None:
    route = http.find_route("POST", path)
    http.check_query(route, ())
    with pytest.raises(http.HttpRefusal, match="`workspace` is in the query string"):
        http.check_query(route, (("workspace", "notes"),))
    http.check_query(http.find_route("POST", "/mcp"), (("workspace", "notes"),))
    http.check_query(http.find_route("GET", "/v1/status"), (("workspace", "notes"),))


def test_a_query_string_becomes_parameters_of_their_types() -> None:
    query = [
        ("query", "why postgres"), ("limit", "3"), ("min_score", "0.5"), ("explain", "true"),
        ("kind", "decision"), ("kind", "error"), ("archived", "1"), ("workspace", "null"),
    ]  # fmt: skip
    params = http.make_query_params("search", query)
    expected = {
        "query": "why postgres",
        "limit": 3,
        "min_score": 0.5,
        "explain": True,
        "workspace": "null",
        "filters": {"kind": ["decision", "error"], "archived": True},
    }
    assert params == msgspec.convert(expected, SEARCH)
    assert http.make_query_params("search", [("query", "x")]) == SEARCH(query="x")


def test_a_name_that_a_parameter_begins_with_is_completed() -> None:
    with pytest.raises(BadRequest) as refusal:
        http.make_query_params("search", [("q", "x")])
    assert refusal.value.hint == "did you mean `query`?"


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ([], "parameter `query` is missing"),
        ([("query", "a"), ("query", "b")], "parameter `query` is given twice"),
        ([("query", "a"), ("limt", "2")], "no parameter named `limt`"),
        ([("query", "a"), ("limit", "0")], "parameter `limit`: expected a whole number from 1"),
        ([("query", "a"), ("limit", "")], "parameter `limit`: "),
        ([("query", "a"), ("limit", "Null")], "parameter `limit` is null"),
        ([("query", "a"), ("explain", "perhaps")], "parameter `explain`: "),
        ([("query", "a"), ("filters", "x")], "no parameter named `filters`"),
    ],
)
def test_a_wrong_query_string_is_refused_by_name(query: Any, message: str) -> None:
    with pytest.raises(BadRequest) as refusal:
        http.make_query_params("search", query)
    assert refusal.value.message.startswith(message)
    assert refusal.value.hint
    # A query string has no `filters`: that is a name of JSON-RPC.
    assert "filters" not in refusal.value.hint


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("/v1/serch", "did you mean `/v1/search`?"),
        ("/V1/search/", "did you mean `/v1/search`?"),
        ("/search", "did you mean `/v1/search`?"),
        ("/v1/topic/get", "did you mean `/v1/topics/get`?"),
        ("/mcp/", "did you mean `/mcp`?"),
        ("/v1/nope", "paths: /v1/status, "),
        ("/v1/", "paths: /v1/status, "),
    ],
)
def test_a_path_is_suggested_by_what_follows_the_version(path: str, hint: str) -> None:
    with pytest.raises(http.HttpRefusal) as refusal:
        http.find_route("GET", path)
    assert refusal.value.error.hint.startswith(hint)


@given(st.lists(st.tuples(st.sampled_from(["query", "limit", "kind", "after", "wait"]), st.text())))
def test_any_query_string_gives_parameters_or_a_reason(query: list[tuple[str, str]]) -> None:
    params, refusal = attempt(http.make_query_params, "search", query)
    assert isinstance(params, SEARCH) or refusal.hint


def test_every_parameter_of_a_method_is_reached_by_its_query_string() -> None:
    for method, operation in OPERATIONS.items():
        if "GET" in operation.route:
            fields = http.list_query_fields(method).values()
            reached = {field.outer or field.parameter for field in fields}
            assert reached == set(operation.params.__struct_fields__), method


# --- heads --------------------------------------------------------------------------------------

HEAD = b"GET /v1/status HTTP/1.1\r\nHost: d\r\n\r\n"


@given(st.integers(1, len(HEAD) - 1))
def test_a_head_is_complete_with_its_empty_line(cut: int) -> None:
    assert http.find_head_end(HEAD[:cut]) == -1
    assert http.find_head_end(HEAD, cut) == len(HEAD)
    assert http.find_head_end(HEAD + b"body\nof any bytes\r") == len(HEAD)


@pytest.mark.parametrize(
    "lines",
    [
        b"Host: d\nX: y", b"Host: d\r\r\nX: y", b"Host: d\rX: y", b"Host: d\r\n X: y",
        b"Host: d\r\n\tfolded", b"Host: d\r\nX: \x00", b"Host: d\r\nX: \x0b", b"Host: d\r\nX: \x7f",
        b"Content-Length: 5\r\nContent-Length: 5", b"Content-Length: 5\r\nContent-Length: 6",
        b"Content-Length: 5\r\nTransfer-Encoding: chunked", b"Content-Length: 5, 5",
        b"Transfer-Encoding: chunked\r\ncontent-length: 0", b"Content-Length: +5",
        b"Content-Length: 0x5", b"Content-Length: -1", b"Content-Length:", b"Content-Length: 5 5",
        b"Content-Length : 5\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
    ],
)  # fmt: skip
def test_a_head_that_two_programs_could_read_differently_is_refused(lines: bytes) -> None:
    head = b"POST /rpc HTTP/1.1\r\n" + lines + b"\r\n\r\n"
    with pytest.raises(http.HttpRefusal) as refusal:
        http.check_head(head[: http.find_head_end(head)])
    assert refusal.value.status == 400


def test_http_1_0_has_no_chunks() -> None:
    with pytest.raises(http.HttpRefusal):
        http.check_head(b"POST /rpc HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n")


@given(st.lists(st.sampled_from([b"GET", b"\r", b"\n", b"\r\n", b":", b"\r\n\r\n"]), max_size=12))
def test_a_head_is_judged_alike_in_pieces_and_as_a_whole(parts: list[bytes]) -> None:
    whole, refusal = attempt(http.find_head_end, b"".join(parts))
    data, in_pieces = b"", -1
    for byte in b"".join(parts):
        data += bytes([byte])
        end, refused = attempt(http.find_head_end, data, len(data) - 1)
        if refused or end >= 0:
            in_pieces = None if refused else end
            break
    assert in_pieces == whole
    assert bool(refusal) == (whole is None)


@given(st.binary(max_size=200))
def test_any_head_is_found_or_refused(data: bytes) -> None:
    end, refusal = attempt(http.find_head_end, data)
    assert refusal.status == 400 if refusal else end == -1 or data[:end].endswith(b"\r\n\r\n")


@pytest.mark.parametrize("tail", [b"", b"\r\n\r\n"])
def test_a_head_over_the_limit_is_refused_before_and_after_its_end(tail: bytes) -> None:
    with pytest.raises(http.HttpRefusal) as refusal:
        http.find_head_end(b"GET / HTTP/1.1\r\nX: " + b"y" * http.MAX_HEAD_BYTES + tail)
    assert refusal.value.status == 431


def test_a_header_that_decides_something_is_given_once() -> None:
    pairs = [(b"accept", b"a/b"), (b"accept", b"c/d"), (b"x", b"1")]
    assert http.collect_headers(pairs) == {b"accept": b"a/b, c/d", b"x": b"1"}
    with pytest.raises(http.HttpRefusal):
        http.collect_headers([(b"origin", b"http://localhost"), (b"origin", b"http://evil")])


# --- who may ask ----------------------------------------------------------------------------------


def check(path: str = "/v1/status", authority: str = "", access: Any = ACCESS, **given: str) -> int:
    """Return the status of the refusal; 0 if the request is accepted."""
    headers = {name.encode(): value.encode("latin-1") for name, value in given.items()}
    _, refusal = attempt(http.check_access, access, headers, authority, path)
    if refusal is None:
        return 0
    assert "secret" not in refusal.error.message + refusal.error.hint
    return int(refusal.status)


GOOD = {"host": "127.0.0.1:7777", "authorization": "Bearer secret-token"}


@pytest.mark.parametrize(
    "host", ["127.0.0.1:7777", "localhost:7777", "[::1]:7777", "LOCALHOST:7777"]
)
def test_a_client_with_the_token_may_ask_by_any_name_of_the_loopback(host: str) -> None:
    assert check(**GOOD | {"host": host}) == 0
    assert check(**GOOD | {"host": host, "origin": f"http://{host}"}) == 0


def test_a_request_for_another_host_is_forbidden() -> None:
    for host in ("evil.example:7777", "127.0.0.1", "127.0.0.1:80", "", "localhost.evil.example:7777", "d:7777",
     "127.0.0.1.evil.example:7777", "127.0.0.1:7777:7777", "localhost:7777 ", "192.168.0.2:7777"):  # fmt: skip
        assert check(**GOOD | {"host": host}) == 403, host
        assert check("/docs", host=host) == 403, host


def test_a_whole_url_counts_more_than_the_host() -> None:
    assert check(authority="evil.example:7777", **GOOD) == 403
    assert check(authority="localhost:7777", **GOOD | {"host": "x"}) == 0


@pytest.mark.parametrize("access", [None, ACCESS])
@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://localhost.evil", "file://"]
)
def test_pages_of_other_sites_are_forbidden_everywhere(access: Any, origin: str) -> None:
    assert check(access=access, **GOOD | {"origin": origin}) == 403


@pytest.mark.parametrize(
    "given",
    ["", "Bearer", "Bearer wrong", "Basic secret-token", "Bearer secret-token2", "Bearer secret"],
)
def test_a_request_without_the_token_is_unauthorized(given: str) -> None:
    assert check(**GOOD | {"authorization": given}) == 401


def test_the_documents_need_no_token_and_the_socket_needs_none_at_all() -> None:
    assert check("/docs", host="localhost:7777") == 0
    assert check("/openapi.json", host="localhost:7777") == 0
    assert check(access=None, host="anything") == 0


# --- types --------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/v1/search", "/v1/context", "/v1/get"])
def test_a_request_for_text_learns_which_paths_give_it(path: str) -> None:
    with pytest.raises(http.HttpRefusal) as refusal:
        http.check_accept(http.find_route("GET", path), b"text/plain")
    assert (refusal.value.status, "/v1/context.txt" in refusal.value.error.hint) == (406, True)


@pytest.mark.parametrize("path", ["/v1/search", "/v1/context.txt", "/metrics", "/docs"])
@pytest.mark.parametrize("accept", [None, b"*/*", b"text/html, */*;q=0.1", b"application/json"])
def test_any_other_accept_gives_the_type_of_the_path(path: str, accept: bytes | None) -> None:
    http.check_accept(http.find_route("GET", path), accept)
    http.check_accept(http.find_route("GET", "/v1/context.txt"), b"text/plain")


def test_a_body_that_is_not_json_is_refused() -> None:
    for header in (b"application/json", b"application/json; charset=utf-8"):
        http.check_content_type(header)
    for header in (None, b"", b"text/plain", b"application/json; charset=latin-1"):
        with pytest.raises(http.HttpRefusal) as refusal:
            http.check_content_type(header)
        assert refusal.value.status == 415


# --- answers ------------------------------------------------------------------------------------


def test_each_error_has_a_status_and_keeps_its_code() -> None:
    for error in find_errors():
        body = ErrorBody(error.rpc_code, "m", {"code": error.code, "hint": "h", "status": 1})
        response = http.make_error_response(body)
        problem = json.loads(response.body)
        assert (response.status, problem["status"]) == (error.http_status, error.http_status)
        assert (problem["code"], problem["hint"], problem["detail"]) == (error.code, "h", "m")
        assert (response.status == 503) == any(
            name == "Retry-After" for name, _ in response.headers
        )


@given(
    st.dictionaries(
        st.from_regex(r"[0-9a-z-]{1,20}", fullmatch=True), st.integers(0, 10**9), max_size=5
    )
)
def test_the_id_of_an_event_names_the_generations(generations: dict[str, int]) -> None:
    assert http.parse_event_id(http.make_event_id(generations)) == generations


@given(st.text())
def test_any_id_of_an_event_is_read(text: str) -> None:
    assert all(number >= 0 for number in http.parse_event_id(text).values())


def test_a_wrapped_name_is_decoded() -> None:
    assert http.decode_name("=?base64?w6Q=?=") == "ä"
    assert http.decode_name("=?base64?!?=") == "=?base64?!?="
    assert http.decode_name("memory_search") == "memory_search"


# --- documents ------------------------------------------------------------------------------------


@pytest.fixture(scope="module", name="document")
def make_document() -> dict[str, Any]:
    return json.loads(openapi.encode_openapi("1.2.3"))


def test_every_route_is_described_with_its_errors(document: Any) -> None:
    described = {
        (verb.upper(), path) for path, verbs in document["paths"].items() for verb in verbs
    }
    routes = {tuple(each.route.split()) for each in OPERATIONS.values() if each.route}
    assert described == routes | {(resource.verb, resource.path) for resource in http.RESOURCES}
    for name, method in OPERATIONS.items():
        verb, _, path = method.route.partition(" ")
        if verb:
            responses = document["paths"][path][verb.lower()]["responses"]
            for error in method.every_error:
                assert error.code in responses[str(error.http_status)]["description"], name


def test_every_reference_of_the_document_resolves(document: Any) -> None:
    named = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(document)))
    assert named
    assert named <= set(document["components"]["schemas"])


def test_the_page_shows_every_route_and_method_and_loads_nothing() -> None:
    response = openapi.make_page("1.2.3")
    page = response.body.decode()
    assert not [name for name in OPERATIONS if f"<code>{name}</code>" not in page]
    assert not [path for path in http.ROUTES if path not in page]
    assert not re.search(r"<script|src=|@import|url\(|https?://(?!localhost)", page)
    policy = dict(response.headers)["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy


def test_the_page_shows_examples_of_curl() -> None:
    page = openapi.make_page("1.2.3").body.decode()
    [examples] = re.findall(r"<pre><code>(.*?)</code></pre>", page, re.DOTALL)
    for line in html.unescape(examples).splitlines():
        words = shlex.split(line)
        url = urlsplit(words[-1])
        http.find_route("POST" if "Content-Type: application/json" in words else "GET", url.path)
        assert (words[0], url.hostname) == ("curl", "localhost")


# --- the panel's cookie ---------------------------------------------------------------------------

NONCE = "abcdefghijklmnop"
NOW_S = 1_800_000_000.0


def with_cookie(value: str, **more: str) -> dict[str, str]:
    return {"host": "127.0.0.1:7777", "cookie": f"a=b; memsyncd-7777={value}"} | more


def check_at(now_s: float, path: str = "/panel/", **given: str) -> int:
    headers = {name.encode(): value.encode("latin-1") for name, value in given.items()}
    _, refusal = attempt(http.check_access, ACCESS, headers, "", path, now_s)
    return int(refusal.status) if refusal is not None else 0


@given(age_s=st.floats(0, 2 * http.COOKIE_AGE_S))
def test_a_cookie_is_valid_until_it_is_too_old(age_s: float) -> None:
    cookie = http.make_cookie(ACCESS.token, NONCE, NOW_S)
    is_valid = int(NOW_S + age_s) - int(NOW_S) < http.COOKIE_AGE_S
    assert http.is_cookie_valid(ACCESS.token, cookie, NOW_S + age_s) == is_valid
    assert (check_at(NOW_S + age_s, **with_cookie(cookie)) == 0) == is_valid


@given(at=st.integers(0, 105), to=st.characters(codec="ascii"))
def test_a_cookie_that_was_changed_anywhere_is_refused(at: int, to: str) -> None:
    cookie = http.make_cookie(ACCESS.token, NONCE, NOW_S)
    at %= len(cookie)
    changed = cookie[:at] + to + cookie[at + 1 :]
    assert http.is_cookie_valid(ACCESS.token, changed, NOW_S + 5) == (changed == cookie)


def test_a_cookie_of_another_token_or_of_the_future_is_refused() -> None:
    cookie = http.make_cookie(b"another-token", NONCE, NOW_S)
    assert check_at(NOW_S, **with_cookie(cookie)) == 401
    cookie = http.make_cookie(ACCESS.token, NONCE, NOW_S + 60)
    assert check_at(NOW_S, **with_cookie(cookie)) == 401


def test_a_cookie_counts_only_for_pages_of_the_panel_itself() -> None:
    for more, status in (
        ({}, 0),
        ({"origin": "http://127.0.0.1:7777", "sec-fetch-site": "same-origin"}, 0),
        ({"sec-fetch-site": "none"}, 0),
        ({"origin": "http://127.0.0.1:8888"}, 403),
        ({"origin": "http://localhost:7777"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"host": "evil.example:7777"}, 403),
        ({"authorization": "Bearer wrong"}, 401),
    ):
        cookie = http.make_cookie(ACCESS.token, NONCE, NOW_S)
        assert check_at(NOW_S, "/rpc", **with_cookie(cookie, **more)) == status, more


@pytest.mark.parametrize("path", ["/panel/", "/panel/app.js", "/rpc", "/v1/events", "/v1/status"])
def test_without_a_cookie_or_a_token_nothing_of_the_panel_is_served(path: str) -> None:
    assert check_at(NOW_S, path, host="127.0.0.1:7777") == 401
    assert check_at(NOW_S, path, **with_cookie("")) == 401


@pytest.mark.parametrize(
    "path", ["/panel/..%2fx.js", "/panel/a/b.js", "/panel/__init__.py", "/panel/x", "/panel/.js"]
)
def test_only_names_of_files_of_a_page_are_asked_for(path: str) -> None:
    with pytest.raises(http.HttpRefusal) as refusal:
        http.find_route("GET", path)
    assert refusal.value.status == 404
