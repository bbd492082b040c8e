"""JSON-RPC 2.0 over a byte stream: split it into lines, parse requests, encode answers.

Each line is one JSON value, with parameters by name. A line becomes an `RpcRequest`, a `Batch`, or
a `Fault`: an invalid request together with its answer. No line raises an exception, whatever its
depth, numbers or bytes. If a key occurs twice, the last value counts. Keys other than `jsonrpc`,
`id`, `method` and `params` are ignored. Half of a surrogate pair becomes U+FFFD. The server carries
the requests out.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Literal, get_args, get_origin

import msgspec
from msgspec import UNSET, UnsetType

from memsyncd.errors import BadRequest, MemsyncdError, TooLarge
from memsyncd.operations.fields import FORMER_NAMES, Params, TrackedParams, WriteParams
from memsyncd.operations.operation import Operation
from memsyncd.operations.table import OPERATIONS

MAX_BATCH = 100
"""Requests in one batch; a larger batch is refused as a whole."""
SHOWN_CHARS = 64
"""Number of characters of an unknown name that an error message quotes."""

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602

Id = str | int | float | None


# --- lines of a byte stream -------------------------------------------------------------------


class TooLong:
    """Stands in place of a line that exceeds the limit; returned once per line, as soon as the line
    exceeds it.
    """

    __slots__ = ()


TOO_LONG = TooLong()


class LineSplitter:
    """Splits a stream of bytes at newlines and holds at most `max_line_bytes` of an unfinished
    line.

    Blank lines are dropped. A carriage return before the newline stays: JSON treats it as white
    space.
    """

    __slots__ = ("_is_discarding", "_max_line_bytes", "_partial")

    def __init__(self, max_line_bytes: int) -> None:
        self._max_line_bytes = max_line_bytes
        self._partial = bytearray()
        self._is_discarding = False

    @property
    def is_inside_line(self) -> bool:
        """True from the first byte of a line to its end, even if its bytes are discarded."""
        return bool(self._partial) or self._is_discarding

    @property
    def n_held_bytes(self) -> int:
        """Number of bytes of the unfinished line."""
        return len(self._partial)

    @property
    def held(self) -> bytes:
        """The bytes of the unfinished line."""
        return bytes(self._partial)

    def clear(self) -> None:
        """Forget the bytes of the unfinished line."""
        self._partial = bytearray()

    def push(self, data: bytes) -> list[bytes | TooLong]:
        """Add the next bytes of the stream. Return the lines that are now complete, in order and
        without newlines.
        """
        lines: list[bytes | TooLong] = []
        first, newline, rest = data.partition(b"\n")
        self._hold(first, lines)
        if newline:
            self._finish(lines)
            whole, _, tail = rest.rpartition(b"\n")
            self._add_whole(whole, lines)
            self._hold(tail, lines)
        return lines

    def end(self) -> list[bytes | TooLong]:
        """End the stream. The remaining bytes count as a line."""
        lines: list[bytes | TooLong] = []
        self._finish(lines)
        return lines

    def _hold(self, data: bytes, lines: list[bytes | TooLong]) -> None:
        if self._is_discarding or not data:
            return
        if len(self._partial) + len(data) > self._max_line_bytes:
            self._is_discarding = True
            self._partial = bytearray()  # clear() would keep the memory of a long line
            lines.append(TOO_LONG)
        else:
            self._partial += data

    def _finish(self, lines: list[bytes | TooLong]) -> None:
        if self._partial:
            line = bytes(self._partial)
            self._partial = bytearray()
            if not line.isspace():
                lines.append(line)
        self._is_discarding = False

    def _add_whole(self, data: bytes, lines: list[bytes | TooLong]) -> None:
        for line in data.split(b"\n"):
            if len(line) > self._max_line_bytes:
                lines.append(TOO_LONG)
            elif line and not line.isspace():
                lines.append(line)


_CAPITALS = re.compile(rb"[A-Z]{1,16}")


def is_http_start(data: bytes) -> bool | None:
    """True if a stream that begins with these bytes is HTTP; None if more bytes are needed.

    HTTP begins with a method in capital letters and a space. No JSON begins so.
    """
    match = _CAPITALS.match(data)
    if match is None:
        return False
    is_open = match.end() == len(data) < 16
    return None if is_open else data[match.end() :].startswith(b" ")


def join_lines(answers: list[bytes]) -> bytes:
    """Return the bytes that send these messages, one a line."""
    return b"\n".join(answers) + b"\n"


# --- requests ---------------------------------------------------------------------------------


class ErrorBody(msgspec.Struct, frozen=True):
    """The `error` of an answer. `data` has at least `code`, a stable word, and `hint`, which says
    what to do next.
    """

    code: int
    message: str
    data: dict[str, Any]


class RpcRequest(msgspec.Struct, frozen=True):
    """A valid request. Without an `id` it is a notification and is never answered."""

    method: str
    params: Params
    id: Id | UnsetType = UNSET


class Fault(msgspec.Struct, frozen=True):
    """An invalid request and its error. Without an `id` it is a notification and is never
    answered.
    """

    error: ErrorBody
    id: Id | UnsetType = None
    method: str = ""
    """The method of the request, if it exists."""


class Batch(msgspec.Struct, frozen=True):
    """One or more requests in one line, answered in one line."""

    items: tuple[RpcRequest | Fault, ...]


class McpLine(msgspec.Struct, frozen=True):
    """A line of the Model Context Protocol, which `protocol.mcp` parses."""


MCP_LINE = McpLine()


def is_mcp_method(name: str) -> bool:
    """True for the name of a method of the Model Context Protocol. `ping` is native, too, so it is
    not counted here.
    """
    return name == "initialize" or "/" in name


MCP_WAITING = frozenset({"tools/call", "prompts/get"})
"""Methods of MCP that call operations: their own tasks mostly wait."""


class MessageParser:
    """Parses lines according to a table of methods."""

    __slots__ = ("_readers",)

    def __init__(self, methods: Mapping[str, Operation] = OPERATIONS) -> None:
        self._readers = {name: _ParamsReader(method.params) for name, method in methods.items()}

    def parse_line(self, line: bytes) -> RpcRequest | Fault | Batch | McpLine:
        """Parse one line without its newline."""
        message = self._parse_line(line)
        if isinstance(message, Fault) and message.error.code == PARSE_ERROR:
            replaced = replace_half_pairs(line)
            return message if replaced == line else self._parse_line(replaced)
        return message

    def _parse_line(self, line: bytes) -> RpcRequest | Fault | Batch | McpLine:
        try:
            return self._read_call(_decode_envelope(line))
        except msgspec.ValidationError:
            return self._parse_irregular_line(line)
        except BAD_JSON as error:
            return _fault_of_json(error)

    def _read_call(self, envelope: Envelope) -> RpcRequest | Fault | McpLine:
        reader = self._readers.get(envelope.method)
        if reader is None:
            if is_mcp_method(envelope.method):
                return MCP_LINE
            message, hint = explain_name(envelope.method, self._readers, what="method")
            return Fault(make_error_body(METHOD_NOT_FOUND, message, hint), envelope.id)
        try:
            params = reader.decode(envelope.params)
        except msgspec.ValidationError as error:
            if b'"_meta"' in bytes(envelope.params):
                return MCP_LINE  # `ping` is a method of both
            message, hint = explain_params(str(error), reader.shape)
            return Fault(
                make_error_body(INVALID_PARAMS, message, hint), envelope.id, envelope.method
            )
        except BAD_JSON as error:
            return _fault_of_json(error, envelope.id)
        return RpcRequest(envelope.method, params, envelope.id)

    def parse_params(self, name: str, text: bytes, request_id: Id) -> RpcRequest | Fault:
        """Return a request for a known method; `text` is the JSON of its parameters."""
        reader = self._readers[name]
        try:
            return RpcRequest(name, reader.decode(msgspec.Raw(text)), request_id)
        except msgspec.ValidationError as error:
            message, hint = explain_params(str(error), reader.shape)
            return Fault(make_error_body(INVALID_PARAMS, message, hint), request_id, name)
        except BAD_JSON as error:
            replaced = replace_half_pairs(text)
            if replaced != text:
                return self.parse_params(name, replaced, request_id)
            return _fault_of_json(error, request_id, "send the parameters as a JSON object")

    def _parse_irregular_line(self, line: bytes) -> RpcRequest | Fault | Batch | McpLine:
        """Parse a line that is not a single valid request: a batch or an invalid request."""
        if not line.lstrip().startswith(b"["):
            return self._parse_item(line)
        try:
            items = _decode_items(line)
        except BAD_JSON as error:
            return _fault_of_json(error)
        if not items:
            return Fault(
                make_error_body(
                    INVALID_REQUEST, "the batch is empty", "put at least one request into it"
                )
            )
        if len(items) > MAX_BATCH:
            hint = f"send at most {MAX_BATCH} requests in one"
            return Fault(describe_error(TooLarge(f"a batch of {len(items)}", hint=hint)))
        parsed = [self._parse_item(bytes(item)) for item in items]
        native = tuple(item for item in parsed if not isinstance(item, McpLine))
        return Batch(native) if len(native) == len(parsed) else MCP_LINE

    def _parse_item(self, text: bytes) -> RpcRequest | Fault | McpLine:
        try:
            return self._read_call(_decode_envelope(text))
        except msgspec.ValidationError:
            pass
        except BAD_JSON as error:
            return _fault_of_json(error)
        try:
            return _fault_of_shape(text)
        except BAD_JSON as error:  # in a line, a wrong type can precede bad JSON
            return _fault_of_json(error)


# A surrogate pair, half of a pair, or another escape.
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)


def replace_half_pairs(text: bytes) -> bytes:
    r"""Return the JSON with `\ufffd` in place of each half of a surrogate pair.

    JavaScript writes such a half when a program cuts a text inside an emoji.
    """
    return _ESCAPE.sub(lambda match: rb"\ufffd" if match["half"] else match[0], text)


# --- answers ----------------------------------------------------------------------------------


def encode_result(request_id: Id, result: msgspec.Struct) -> bytes:
    """Return the answer's line without its newline. Bytes that are not UTF-8 become U+FFFD."""
    return _encode(_Answer(id=request_id, result=result))


def encode_error(request_id: Id, error: ErrorBody) -> bytes:
    """Return the line of an error answer, without its newline."""
    try:
        return _encode(_Refusal(id=request_id, error=error))
    except (TypeError, ValueError):  # nobody checks the extra data when an error is raised
        data = {key: str(error.data.get(key, "")) for key in ("code", "hint")}
        return _encode(_Refusal(id=request_id, error=ErrorBody(error.code, error.message, data)))


def encode_notification(method: str, params: msgspec.Struct) -> bytes:
    """Return the line of a notification, without its newline."""
    return _encode(_Notice(method=method, params=params))


def encode_batch(answers: list[bytes]) -> bytes:
    """Return the line that answers a batch, without its newline."""
    return b"[" + b",".join(answers) + b"]"


def describe_error(error: Exception) -> ErrorBody:
    """Return the error body for a failure. If memsyncd does not define the error, the body reveals
    nothing of it.
    """
    if not isinstance(error, MemsyncdError):
        data = {"code": MemsyncdError.code, "hint": "see the daemon's log"}
        return ErrorBody(MemsyncdError.rpc_code, "internal error", data)
    return ErrorBody(
        error.rpc_code, error.message, {"code": error.code, "hint": error.hint, **error.data}
    )


# --- explanations of invalid names and parameters -----------------------------------------------

_REASON_CHARS = 1000
_UNKNOWN = re.compile(
    r"Object contains unknown field `(?P<name>.*?)`(?: - at `\$\.?(?P<place>[^`]*)`)?", re.DOTALL
)
_MISSING = re.compile(
    r"Object missing required field `(?P<name>[^`]*)`(?: - at `\$\.?(?P<place>[^`]*)`)?"
)
_WRONG = re.compile(r"(?P<rule>.*?)(?: - at `\$\.?(?P<place>[^`]*)`)?", re.DOTALL)
_TYPE_WORDS = {
    "array": "a list",
    "bool": "true or false",
    "float": "a number",
    "int": "a whole number",
    "object": "an object",
    "str": "text",
}
_TYPES = re.compile(r"`([a-z]+(?: \| [a-z]+)*)`")
# Patterns of msgspec's words for a limit, with plain words for it.
_LIMITS = {
    # `RelationName` alone has a pattern.
    r"text matching regex .*": "lower-case letters, digits and _, such as resolved_by",
    r"expected text of length >= 1$": "is empty",
    r"text of length >= (\d+)$": r"at least \1 characters",
    r"text of length <= (\d+)$": r"at most \1 characters",
    r"of length >= (\d+)$": r"of at least \1",
    r"of length <= (\d+)$": r"of at most \1",
    r"of length (\d+)$": r"of \1",
    r">= (\S+)$": r"from \1",
    r"<= (\S+)$": r"up to \1",
}


class ParamsShape(msgspec.Struct, frozen=True):
    """The valid names and closed choices of a method's parameters.

    `names` lists the fields of each object by its place. The place of the outermost object is `""`;
    the place of another object, or of a list of objects, is the name of its parameter. `words`
    lists the closed choices by parameter.
    """

    names: dict[str, tuple[str, ...]]
    words: dict[str, tuple[str, ...]]


_COMMON = frozenset((*WriteParams.__struct_fields__, *TrackedParams.__struct_fields__))


def describe_shape(params: type[msgspec.Struct]) -> ParamsShape:
    """Return the shape of a struct of parameters."""
    fields = msgspec.structs.fields(params)
    # A method's own parameters come first, then the parameters that many methods share.
    names = {"": tuple(sorted((field.encode_name for field in fields), key=_COMMON.__contains__))}
    for field in fields:
        for struct in _find_structs(field.type):
            inner = msgspec.structs.fields(struct)
            names[field.encode_name] = tuple(inner_field.encode_name for inner_field in inner)
    literals = [field for field in fields if get_origin(field.type) is Literal]
    return ParamsShape(names, {field.encode_name: get_args(field.type) for field in literals})


def _find_structs(kind: Any) -> Iterator[type[msgspec.Struct]]:
    """Yield the structs in the type of a field: its own, or the struct of its list's items."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield kind
    else:
        for inner in get_args(kind):
            yield from _find_structs(inner)


def explain_params(reason: str, shape: ParamsShape) -> tuple[str, str]:
    """Return a message and a hint for a validation error of msgspec."""
    names = shape.names[""]
    if len(reason) > _REASON_CHARS:  # it quotes the client's text; both ends are enough
        reason = reason[: _REASON_CHARS // 2] + reason[-_REASON_CHARS // 2 :]
    if match := _UNKNOWN.fullmatch(reason):
        return explain_name(match["name"], _names_at(shape, match["place"]), what="parameter")
    if match := _MISSING.fullmatch(reason):
        hint = _list_names(_names_at(shape, match["place"]), what="parameter")
        return f"parameter `{match['name']}` is missing", hint
    match = _WRONG.fullmatch(reason)
    place, rule = (match["place"], match["rule"]) if match else ("", reason)
    if not place:
        return "parameters are given by name, as an object", _list_names(names, what="parameter")
    words = shape.words.get(place)
    hint = f"one of: {', '.join(words)}" if words else "rpc.discover describes every parameter"
    return f"parameter `{place}`: {_put_plainly(rule)[: 4 * SHOWN_CHARS]}", hint


def _put_plainly(rule: str) -> str:
    """Return msgspec's complaint about a value in plain words, without names of types."""

    def name_types(match: re.Match[str]) -> str:
        # The client can leave the parameter out, so null is not mentioned.
        kinds = [kind for kind in match[1].split(" | ") if kind != "null"]
        return " or ".join(_TYPE_WORDS.get(kind, kind) for kind in kinds) or "null"

    rule = _TYPES.sub(name_types, rule[:1].lower() + rule[1:]).replace("`", "")
    for limit, plain in _LIMITS.items():
        rule = re.sub(limit, plain, rule)
    return rule


def explain_name(
    name: str, known: Iterable[str], *, what: str, prefix: str = ""
) -> tuple[str, str]:
    """Return a message and a hint for an unknown name. A common `prefix` does not count when names
    are compared.
    """
    valid = {valid_name.removeprefix(prefix): valid_name for valid_name in known}
    quoted = name if len(name) <= SHOWN_CHARS else f"{name[:SHOWN_CHARS]}…"
    rest = name[:SHOWN_CHARS].lower().removeprefix(prefix)
    similar = difflib.get_close_matches(rest, valid, n=1, cutoff=0.6)
    longer = [valid_name for valid_name in valid if rest and valid_name.startswith(rest)]
    if not similar and len(longer) == 1:
        similar = longer
    present, advice = FORMER_NAMES.get(name, ("", ""))
    if present in valid:
        hint = advice
    elif similar:
        hint = f"did you mean `{valid[similar[0]]}`?"
    else:
        hint = _list_names(valid.values(), what=what)
    return f"no {what} named `{quoted}`", hint


def _names_at(shape: ParamsShape, place: str | None) -> tuple[str, ...]:
    return shape.names.get((place or "").partition("[")[0], shape.names[""])


def _list_names(names: Collection[str], *, what: str) -> str:
    if not names:
        return f"it takes no {what}s"
    return f"{what}s: {', '.join(names)}"


# --- private: decoding and encoding -------------------------------------------------------------

NO_PARAMS = msgspec.Raw()
# ValueError covers UnicodeDecodeError and numbers of thousands of digits.
BAD_JSON = (msgspec.DecodeError, ValueError, RecursionError)


class Envelope(msgspec.Struct, frozen=True, gc=False):
    jsonrpc: Literal["2.0"]
    method: str
    params: msgspec.Raw = NO_PARAMS
    id: Id | UnsetType = UNSET


class _UncheckedEnvelope(msgspec.Struct, frozen=True, gc=False):
    """An envelope without decoded values, so that no value can fail by its size."""

    jsonrpc: msgspec.Raw = NO_PARAMS
    id: msgspec.Raw = msgspec.Raw(b"null")


class _Answer(msgspec.Struct, kw_only=True, gc=False):
    jsonrpc: str = "2.0"
    id: Id
    result: Any


class _Refusal(msgspec.Struct, kw_only=True, gc=False):
    jsonrpc: str = "2.0"
    id: Id
    error: ErrorBody


class _Notice(msgspec.Struct, kw_only=True, gc=False):
    jsonrpc: str = "2.0"
    method: str
    params: Any


_decode_envelope = msgspec.json.Decoder(Envelope).decode
_decode_unchecked = msgspec.json.Decoder(_UncheckedEnvelope).decode
_decode_id = msgspec.json.Decoder(Id).decode
_decode_items = msgspec.json.Decoder(list[msgspec.Raw]).decode
_encode_value = msgspec.json.Encoder().encode


class _ParamsReader:
    """Decodes the parameters of one method."""

    __slots__ = ("_decode", "shape")

    def __init__(self, params: type[Params]) -> None:
        self._decode = msgspec.json.Decoder(params).decode
        self.shape = describe_shape(params)

    def decode(self, raw: msgspec.Raw) -> Params:
        if raw is NO_PARAMS:
            return self._decode(b"{}")
        try:
            return self._decode(raw)
        except msgspec.ValidationError:
            # Some client libraries send null or [] if there are no parameters.
            if bytes(raw) not in (b"null", b"[]"):
                raise
            return self._decode(b"{}")


def make_error_body(rpc_code: int, message: str, hint: str) -> ErrorBody:
    """Return the body of an error of the protocol, with the code `bad_request`."""
    return ErrorBody(rpc_code, message, {"code": BadRequest.code, "hint": hint})


def _fault_of_json(
    error: Exception,
    request_id: Id | UnsetType = None,
    hint: str = "send one JSON-RPC 2.0 request a line, as UTF-8",
) -> Fault:
    # msgspec raises a UnicodeDecodeError before 0.23, and a DecodeError since.
    if isinstance(error, UnicodeDecodeError) or str(error).startswith("Invalid UTF-8"):
        message = "the request is not valid UTF-8"
    elif isinstance(error, RecursionError):
        message = "the request is nested too deeply"
    elif isinstance(error, msgspec.DecodeError):
        message = f"the request is not valid JSON: {str(error).removeprefix('JSON is malformed: ')}"
    else:
        message = "the request holds a number that is too long"
    return Fault(make_error_body(PARSE_ERROR, message, hint), request_id)


def _fault_of_shape(text: bytes) -> Fault:
    """Describe JSON that is not a request. The answer has the id if the JSON has a valid one."""
    try:
        parts = _decode_unchecked(text)
    except msgspec.ValidationError:
        return _refuse_shape("a request is a JSON object")
    try:
        request_id = _decode_id(parts.id)
    except BAD_JSON:
        return _refuse_shape("`id` is a string, a number or null")
    is_versioned = bytes(parts.jsonrpc) == b'"2.0"'
    message = "`method` is not a string" if is_versioned else '`jsonrpc` is not "2.0"'
    return _refuse_shape(message, request_id)


def _refuse_shape(message: str, request_id: Id = None) -> Fault:
    return Fault(make_error_body(INVALID_REQUEST, message, _SHAPE_HINT), request_id)


_SHAPE_HINT = (
    'send {"jsonrpc":"2.0","id":1,"method":"ping"}, with `params` as an object if there are any'
)


def _encode(message: msgspec.Struct) -> bytes:
    try:
        return _encode_value(message)
    except UnicodeEncodeError:
        # A file name can hold bytes that are not UTF-8. Python keeps them as lone surrogates.
        text = json.dumps(msgspec.to_builtins(message), ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()
