"""The tools of MCP: their schemas, and the operations that they call.

A tool offers an operation to a model, with fewer parameters and with descriptions for a model. Its
schema is generated from the operation's parameters.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from memsyncd.errors import BadRequest, MemsyncdError
from memsyncd.operations.docs import is_list_type, may_be_list
from memsyncd.operations.operation import (
    Operation,
    Tool,
    ToolAction,
    load_function,
)
from memsyncd.operations.search.text import FindWarning
from memsyncd.operations.sections import MaxTokens
from memsyncd.operations.table import OPERATIONS
from memsyncd.protocol.jsonrpc import describe_shape, explain_name, explain_params

ERROR_META = "memsyncd/error"
"""The key in `_meta` by which a failed result has the code of its error."""
StructT = TypeVar("StructT", bound=msgspec.Struct)
NOTHING_REMEMBERED: Mapping[str, str] = {}
INIT_TOOL = "memory_init"


class OfferedTool(NamedTuple):
    """A tool and its operations by action. A tool without actions has one operation, with the empty
    text as its key.
    """

    tool: Tool
    operations: dict[str, Operation]

    @property
    def has_actions(self) -> bool:
        return "" not in self.operations


def collect_tools(operations: Iterable[Operation]) -> dict[str, OfferedTool]:
    """Return the declared tools by name: first those that are always loaded, each in the order of
    the declarations.
    """
    tools: dict[str, OfferedTool] = {}
    for operation in operations:
        offer = operation.tool
        if isinstance(offer, ToolAction):
            tools.setdefault(offer.tool.name, OfferedTool(offer.tool, {}))
            tools[offer.tool.name].operations[offer.name] = operation
        elif offer is not None:
            tools[offer.name] = OfferedTool(offer, {"": operation})
    # Clients cut long lists of tools at the end.
    return dict(sorted(tools.items(), key=lambda item: not item[1].tool.is_always_loaded))


TOOLS = collect_tools(OPERATIONS.values())


# --- schemas ----------------------------------------------------------------------------------


def list_tools(*, is_read_only: bool, has_memory: bool) -> list[dict[str, Any]]:
    """Return the tools as MCP describes them, in a fixed order.

    `is_read_only` leaves out the tools that write. `has_memory` leaves out the tool that begins a
    memory; without a memory, tools that clients load on demand are left out.
    """
    return [
        describe_tool(tool.name)
        for tool, _operations in TOOLS.values()
        if (tool.is_read_only or not is_read_only)
        and (tool.name != INIT_TOOL or not (has_memory or is_read_only))
        and (tool.is_always_loaded or has_memory)
    ]


@cache
def describe_tool(name: str) -> dict[str, Any]:
    """Return one tool as MCP describes it. The result is cached: do not change it."""
    offered = TOOLS[name]
    tool = offered.tool
    # Claude Code hides tools behind a search unless they ask to be loaded.
    load = {"_meta": {"anthropic/alwaysLoad": True}} if tool.is_always_loaded else {}
    # A description costs tokens in each session, so it leaves out what clients take by default.
    is_harmless = not (tool.is_read_only or tool.is_destructive)
    hints = {"destructiveHint": False} if is_harmless else {"readOnlyHint": tool.is_read_only}
    return {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": describe_arguments(offered),
        "annotations": hints,
        **load,
    }


def describe_arguments(offered: OfferedTool) -> dict[str, Any]:
    """Return the JSON schema of a tool's arguments, made from its operations' parameters."""
    every = [operation.params for operation in offered.operations.values()]
    _, schemas = msgspec.json.schema_components(every, ref_template="{name}")
    properties: dict[str, Any] = {}
    for argument in offered.tool.arguments:
        place = argument.field or argument.name
        if place == "action" and offered.has_actions:
            schema: dict[str, Any] = {"type": "string", "enum": list(offered.operations)}
        else:
            # The first operation that has the field; another operation may take a list of values.
            outer = place.partition(".")[0]
            params = next(struct for struct in every if outer in struct.__struct_fields__)
            schema = _find_schema(schemas, params.__name__, place)
            if argument.splits_words:
                schema = {"type": "string"}
        properties[argument.name] = {**schema, "description": argument.description}
    required = [argument.name for argument in offered.tool.arguments if argument.is_required]
    # The schema does not forbid other arguments: a refusal names them.
    return {
        "type": "object",
        "properties": properties,
        **({"required": required} if required else {}),
    }


_DROPPED = frozenset(
    """
    description default maxLength minLength maxItems minItems maximum minimum exclusiveMaximum
    exclusiveMinimum
    """.split()
)


def _find_schema(schemas: dict[str, Any], struct: str, place: str) -> dict[str, Any]:
    name, dot, inner = place.partition(".")
    schema: dict[str, Any] = schemas[struct]["properties"][name]
    if dot:
        reference = schema.get("$ref") or schema["allOf"][0]["$ref"]
        return _find_schema(schemas, reference, inner)
    choices = [choice for choice in schema.get("anyOf", ()) if choice != {"type": "null"}]
    # If a list is possible, only the list is described; one value is accepted in its place.
    choices.sort(key=lambda choice: choice.get("type") != "array")
    schema = choices[0] if choices else schema
    # Some providers of models do not know `prefixItems`.
    if "prefixItems" in schema:
        item = schema["prefixItems"][0]
        return {"type": "array", "items": item, "minItems": 2, "maxItems": 2}
    # Limits would cost tokens in each session; a refusal names the limit.
    kept = {key: value for key, value in schema.items() if key not in _DROPPED}
    if "enum" in kept:
        kept["type"] = "string"
    if "items" in kept:
        kept["items"] = {"type": kept["items"]["type"]}
    return kept


# --- arguments --------------------------------------------------------------------------------


def choose_call(
    offered: OfferedTool,
    arguments: dict[str, Any],
    remembered: Mapping[str, str] = NOTHING_REMEMBERED,
) -> tuple[Operation, Any]:
    """Return the operation that a tool calls for these arguments, and its parameters. A null counts
    as a missing argument. `remembered` has values by the names of arguments, for those that
    `list_remembered` names. Raises BadRequest.
    """
    tool, operations = offered.tool, offered.operations
    values = {name: value for name, value in arguments.items() if value is not None}
    fields = {argument.name: argument.field or argument.name for argument in tool.arguments}
    fields |= {name: name for name in tool.accepts}
    operation = operations.get(str(values.pop("action", "")) if offered.has_actions else "")
    if operation is None:
        hint = f"one of: {', '.join(operations)}"
        raise BadRequest("argument `action` is missing or unknown", hint=hint)
    if isinstance(operation.tool, ToolAction):
        fields = {**operation.tool.fields, "workspace": "workspace"}
    splitting = {argument.name for argument in tool.arguments if argument.splits_words}
    params: dict[str, Any] = {}
    for name, value in values.items():
        if name not in fields:
            message, hint = explain_name(name, fields, what="argument")
            raise BadRequest(message, hint=hint)
        outer, dot, inner = fields[name].partition(".")
        if outer == "filters" and not value:
            continue  # models send an empty text for a filter that they do not want
        place = params.setdefault(outer, {}) if dot else params
        kind = _find_type(operation.params, fields[name])
        place[inner or outer] = _list_values(kind, value, splits_words=name in splitting)
    for argument in tool.arguments:
        if argument.is_required and argument.name in fields and argument.name not in values:
            hint = f"arguments: {', '.join(fields)}"
            raise BadRequest(f"argument `{argument.name}` is missing", hint=hint)
    if tool.prepare:
        params = load_function(tool.prepare)(params)
    own = {field: remembered[field] for field in list_remembered(operation) if field in remembered}
    params = own | params
    return operation, convert_arguments(params, operation.params, fields)


def list_remembered(operation: Operation) -> list[str]:
    """Return the fields of an operation that a caller leaves out if it means its own agent, task or
    session: they have the same name as their argument. In `send`, the arguments name addressees.
    """
    if not isinstance(operation.tool, ToolAction):
        return list(operation.current)
    fields = operation.tool.fields
    own = [name for name in ("agent", "task", "session") if fields.get(name) == name]
    return [*own, *(["client"] if "client" in operation.params.__struct_fields__ else [])]


def _find_type(params: Any, place: str) -> Any:
    """Return the type of a field. `place` is its name, or `filters.kind` for an inner field."""
    name, _, inner = place.partition(".")
    fields = msgspec.structs.fields(params)
    kind = next(field.type for field in fields if field.encode_name == name)
    return _find_type(kind, inner) if inner else kind


def _list_values(kind: Any, value: Any, *, splits_words: bool) -> Any:
    """Return the value as a list if the type wants a list. Instead of a list, models often send one
    value, words with commas between them, or a text with the JSON of a list.
    """
    is_list = is_list_type(kind)
    if isinstance(value, str) and value.startswith("[") and may_be_list(kind):
        with contextlib.suppress(msgspec.DecodeError):
            return msgspec.json.decode(value, type=list[str | int])
    if splits_words and is_list and isinstance(value, str):
        return [word.strip() for word in value.split(",") if word.strip()]
    return [value] if is_list and not isinstance(value, list) else value


def convert_arguments(
    values: dict[str, Any], params: type[StructT], fields: Mapping[str, str]
) -> StructT:
    """Return a struct of the values. `fields` maps the name of an argument to its parameter. Raises
    BadRequest, which names arguments.
    """
    try:
        # Some clients send a model's numbers as strings.
        return msgspec.convert(values, params, strict=False)
    except msgspec.ValidationError as error:
        message, hint = explain_params(str(error), describe_shape(params))
        message = message.replace("parameter ", "argument ")
        for name, parameter in fields.items():
            for end in "`[":
                message = message.replace(f"`{parameter}{end}", f"`{name}{end}")
        if message.endswith("is missing"):
            hint = f"arguments: {', '.join(fields)}"
        elif not hint.startswith("one of"):
            hint = "send it as the tool's input schema says"
        raise BadRequest(message, hint=hint) from error


# --- hooks ------------------------------------------------------------------------------------


HOOK_TOOL = "memory_hook"
"""The tool that answers a client's hook. It is not listed, because no model calls it."""
_EVENT_NAMES = {
    "session-start": "SessionStart",
    "user-prompt": "UserPromptSubmit",
    "pre-compact": "PreCompact",
}


class HookArguments(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments of the tool that answers hooks; the configuration of a hook says which it sends."""

    event: Literal["session-start", "user-prompt", "pre-compact"] = "user-prompt"
    """`pre-compact` only asks whether there is a memory; its answer is not shown to a model."""
    prompt: str = ""
    cwd: str = ""
    max_tokens: MaxTokens = 1000
    session_id: str = ""
    """The client's own name for its session; empty if the hook does not send it."""
    source: str = ""
    """Why a session starts: `startup`, `resume`, `clear` or `compact`."""
    client: str = ""
    """The name of the client, by default the connection's."""
    host: int = 0
    """The process that runs the hook, which is the client itself; 0 if it is not known."""


def render_hook_answer(event: str, text: str, summary: str) -> str:
    """Return the JSON by which Claude Code and other clients show the text to the model, and the
    summary to the user. The JSON is an empty object if there is no text.
    """
    if not text:
        return "{}"
    answer = {"hookEventName": _EVENT_NAMES[event], "additionalContext": text}
    shown = {"hookSpecificOutput": answer, "systemMessage": f"memory: {summary}"}
    return msgspec.json.encode(shown).decode()


# --- texts ------------------------------------------------------------------------------------


def render_result(operation: Operation, result: msgspec.Struct, find_warning: FindWarning) -> str:
    """Return a result as text. `find_warning` describes how a note tries to instruct its reader."""
    return str(load_function(operation.text)(result, find_warning))


def render_error(error: MemsyncdError) -> str:
    """Return the text for a failed call: the reason, and what to do next."""
    hint = advise_agent(error)
    return f"{error.message}\nWhat to do: {hint}" if hint else error.message


def advise_agent(error: MemsyncdError) -> str:
    """Return the hint of an error for an agent, which has tools but perhaps no shell.

    If the hint names a command of memsyncd, it is for people. Then the agent gets another hint, by
    the code of the error; if there is none, it is told to pass the hint on.
    """
    if not _NAMES_COMMAND.search(error.hint):
        return _TIME_LIMIT.sub("", error.hint)
    return _AGENT_HINTS.get(error.code) or f"go on without it, and tell the user: {error.hint}"


_NAMES_COMMAND = re.compile(r"\bmemsyncd [a-z]|(?<!\S)--[a-z]")
# Tools have no parameter `timeout_ms`.
_TIME_LIMIT = re.compile(r", or (?:ask )?(?:with )?a longer timeout_ms")
_AGENT_HINTS = {
    "note_not_found": (
        "find it with memory_search, or list the notes with the tool memory, command view, path"
        " /memories"
    ),
    "workspace_not_found": f"name another one with `workspace`, or call {INIT_TOOL}",
    "timeout": "call again in a moment",
    "busy": "call again in a moment",
    "shutting_down": "call again in a few seconds: memsyncd restarts",
    "conflict": "read the note again, and make the change again",
}
