"""What does a line ask for, and which line answers it? JSON-RPC 2.0, one value a line, parameters by name.

A line is a call, a batch of calls or a fault: something wrong with it that has its answer already. Nothing that a line may
hold raises: not depth, not numbers out of range, not bytes that are no UTF-8, not half a surrogate pair. A key written twice
counts as written last, and one beside `jsonrpc`, `id`, `method` and `params` not at all. Cutting lines out of a stream is left
to `frames`, doing what is asked to the server.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from memsyncd.errors import BadRequest, MemsyncdError, TooLarge
from memsyncd.wire.explain import explain_name, explain_params, find_shape
from memsyncd.wire.methods import METHODS, Method
from memsyncd.wire.params import Params

MAX_BATCH = 100
"""Requests in one batch; more is refused as a whole."""

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602

Id = str | int | float | None


class ErrorBody(msgspec.Struct, frozen=True):
    """What stands under `error` in an answer. `data` has at least `code`, a stable word, and `hint`, what to do next."""

    code: int
    message: str
    data: dict[str, Any]


class Call(msgspec.Struct, frozen=True):
    """A request that can be carried out. Without an `id` it is a notification and is never answered."""

    method: str
    params: Params
    id: Id | UnsetType = UNSET


class Fault(msgspec.Struct, frozen=True):
    """A request that cannot be carried out, and why. Without an `id` it was a notification and is never answered."""

    error: ErrorBody
    id: Id | UnsetType = None
    method: str = ""
    """Which it is of, if there is such a method."""


class Batch(msgspec.Struct, frozen=True):
    """Several requests in one line, answered in one line, at least one of them."""

    items: tuple[Call | Fault, ...]


class MessageParser:
    """Reads lines by a table of methods."""

    __slots__ = ("_readers",)

    def __init__(self, methods: Mapping[str, Method] = METHODS) -> None:
        self._readers = {name: _ParamsReader(method.params) for name, method in methods.items()}

    def parse_line(self, line: bytes) -> Call | Fault | Batch:
        """Read one line, without its newline."""
        try:
            return self._read_call(_decode_envelope(line))
        except msgspec.ValidationError:
            return self._parse_odd_line(line)
        except _BAD_JSON as error:
            return _fault_of_json(error)

    def _read_call(self, envelope: _Envelope) -> Call | Fault:
        reader = self._readers.get(envelope.method)
        if reader is None:
            message, hint = explain_name(envelope.method, self._readers, what="method")
            return Fault(_body(METHOD_NOT_FOUND, message, hint), envelope.id)
        try:
            params = reader.decode(envelope.params)
        except msgspec.ValidationError as error:
            message, hint = explain_params(str(error), reader.shape)
            return Fault(_body(INVALID_PARAMS, message, hint), envelope.id, envelope.method)
        except _BAD_JSON as error:
            return _fault_of_json(error, envelope.id)
        return Call(envelope.method, params, envelope.id)

    def _parse_odd_line(self, line: bytes) -> Call | Fault | Batch:
        """A line that is no plain request: a batch, or something to be told what it should have been."""
        if not line.lstrip().startswith(b"["):
            return self._parse_item(line)
        try:
            items = _decode_items(line)
        except _BAD_JSON as error:
            return _fault_of_json(error)
        if not items:
            return Fault(_body(INVALID_REQUEST, "the batch is empty", "put at least one request into it"))
        if len(items) > MAX_BATCH:
            return Fault(describe_error(TooLarge(f"a batch of {len(items)}", hint=f"send at most {MAX_BATCH} requests in one")))
        return Batch(tuple(self._parse_item(bytes(item)) for item in items))

    def _parse_item(self, text: bytes) -> Call | Fault:
        try:
            return self._read_call(_decode_envelope(text))
        except msgspec.ValidationError:
            pass
        except _BAD_JSON as error:
            return _fault_of_json(error)
        try:
            return _fault_of_shape(text)
        except _BAD_JSON as error:  # a wrong type can stand before bad JSON
            return _fault_of_json(error)


def encode_result(request_id: Id, result: msgspec.Struct) -> bytes:
    """The line that answers a request, without its newline. Text that is no UTF-8 is answered with U+FFFD in its place."""
    return _encode(_Answer(id=request_id, result=result))


def encode_error(request_id: Id, error: ErrorBody) -> bytes:
    """The line that refuses a request, without its newline."""
    try:
        return _encode(_Refusal(id=request_id, error=error))
    except (TypeError, ValueError):  # what an error carries besides its code and hint is not checked where it is raised
        data = {key: str(error.data.get(key, "")) for key in ("code", "hint")}
        return _encode(_Refusal(id=request_id, error=ErrorBody(error.code, error.message, data)))


def encode_notification(method: str, params: msgspec.Struct) -> bytes:
    """The line that tells of something unasked, without its newline."""
    return _encode(_Notice(method=method, params=params))


def encode_batch(answers: list[bytes]) -> bytes:
    """The one line for the answers to a batch."""
    return b"[" + b",".join(answers) + b"]"


def describe_error(error: Exception) -> ErrorBody:
    """What a client is told of this failure. Of one that memsyncd does not name: nothing but that it happened."""
    if not isinstance(error, MemsyncdError):
        return ErrorBody(MemsyncdError.rpc_code, "internal error", {"code": MemsyncdError.code, "hint": "see the daemon's log"})
    return ErrorBody(error.rpc_code, error.message, {"code": error.code, "hint": error.hint, **error.data})


# --- private --------------------------------------------------------------------------------------------------------

_NO_PARAMS = msgspec.Raw()
_BAD_JSON = (msgspec.DecodeError, ValueError, RecursionError)  # ValueError: UnicodeDecodeError, a number of 5,000 digits


class _Envelope(msgspec.Struct, frozen=True, gc=False):
    jsonrpc: Literal["2.0"]
    method: str
    params: msgspec.Raw = _NO_PARAMS
    id: Id | UnsetType = UNSET


class _Parts(msgspec.Struct, frozen=True, gc=False):
    """An envelope of which nothing is known yet; nothing is built from what it holds, however much that is."""

    jsonrpc: msgspec.Raw = _NO_PARAMS
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


_decode_envelope = msgspec.json.Decoder(_Envelope).decode
_decode_parts = msgspec.json.Decoder(_Parts).decode
_decode_id = msgspec.json.Decoder(Id).decode
_decode_items = msgspec.json.Decoder(list[msgspec.Raw]).decode
_encode_value = msgspec.json.Encoder().encode


class _ParamsReader:
    """Reads the parameters of one method."""

    __slots__ = ("_decode", "shape")

    def __init__(self, params: type[Params]) -> None:
        self._decode = msgspec.json.Decoder(params).decode
        self.shape = find_shape(params)

    def decode(self, raw: msgspec.Raw) -> Params:
        if raw is _NO_PARAMS:
            return self._decode(b"{}")
        try:
            return self._decode(raw)
        except msgspec.ValidationError:
            # Client libraries write null or [] when they have nothing to say.
            if bytes(raw) not in (b"null", b"[]"):
                raise
            return self._decode(b"{}")


def _body(rpc_code: int, message: str, hint: str) -> ErrorBody:
    return ErrorBody(rpc_code, message, {"code": BadRequest.code, "hint": hint})


def _fault_of_json(error: Exception, request_id: Id | UnsetType = None) -> Fault:
    if isinstance(error, UnicodeDecodeError):
        message = "the request is not valid UTF-8"
    elif isinstance(error, RecursionError):
        message = "the request is nested too deeply"
    elif isinstance(error, msgspec.DecodeError):
        message = f"the request is not valid JSON: {str(error).removeprefix('JSON is malformed: ')}"
    else:
        message = "the request holds a number that is too long"
    return Fault(_body(PARSE_ERROR, message, "send one JSON-RPC 2.0 request a line, as UTF-8"), request_id)


def _fault_of_shape(text: bytes) -> Fault:
    """Say what is wrong with JSON that is no request; the answer bears the id if there is a usable one."""
    try:
        parts = _decode_parts(text)
    except msgspec.ValidationError:
        return Fault(_body(INVALID_REQUEST, "a request is a JSON object", _SHAPE_HINT))
    try:
        request_id = _decode_id(parts.id)
    except _BAD_JSON:
        return Fault(_body(INVALID_REQUEST, "`id` is a string, a number or null", _SHAPE_HINT))
    if bytes(parts.jsonrpc) != b'"2.0"':
        return Fault(_body(INVALID_REQUEST, '`jsonrpc` is not "2.0"', _SHAPE_HINT), request_id)
    return Fault(_body(INVALID_REQUEST, "`method` is not a string", _SHAPE_HINT), request_id)


_SHAPE_HINT = 'send {"jsonrpc":"2.0","id":1,"method":"ping"}, with `params` as an object if there are any'


def _encode(message: msgspec.Struct) -> bytes:
    try:
        return _encode_value(message)
    except UnicodeEncodeError:  # a file name can hold bytes that are no UTF-8; Python keeps them as lone surrogates
        text = json.dumps(msgspec.to_builtins(message), ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()
