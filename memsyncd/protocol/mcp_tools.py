"""The tools that agents call over MCP: their table, their arguments, the text of their results.

A tool is a method of `METHODS` with fewer parameters and descriptions for a model; its schema is
generated from the method's. Results are text alone: clients show a model either the text or
`structuredContent`, and text that cites `path:start-end` takes the fewest tokens.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Literal, TypeVar

import msgspec

from memsyncd.errors import BadRequest, MemsyncdError
from memsyncd.protocol import memory, search, signals, tasks
from memsyncd.protocol.fields import Freshness
from memsyncd.protocol.jsonrpc import describe_shape, explain_name, explain_params
from memsyncd.protocol.methods import METHODS

TEXT_LIMIT_CHARS = 40_000
"""Of the text of a note in one result; the rest is asked for by its lines."""

ERRORS_META, ERROR_META = "memsyncd/errors", "memsyncd/error"
"""Where a tool names the codes of its errors, and a result the code of its error."""
StructT = TypeVar("StructT", bound=msgspec.Struct)
FindWarning = Callable[[str], str]
"""Says how a text tries to instruct its reader; empty if it does not."""


class ToolArgument(msgspec.Struct, frozen=True):
    """One argument: the parameter of the method that it becomes, and what a model reads of it.

    `parameter` is `filters.kind` for the field of a parameter that is an object.
    """

    name: str
    description: str
    parameter: str = ""
    is_required: bool = False


class ToolAction(msgspec.Struct, frozen=True):
    """One action of a tool: the method that it calls, and the parameters of its arguments."""

    method: str
    parameters: dict[str, str]


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """One tool: the method that it calls, and the hints that clients decide by.

    A tool with `actions` calls the method of the one that its argument `action` names.
    """

    name: str
    title: str
    method: str
    description: str
    arguments: tuple[ToolArgument, ...]
    actions: dict[str, ToolAction] = {}
    is_always_loaded: bool = True
    """False if clients that can should load it on demand."""
    is_read_only: bool = False
    is_destructive: bool = False
    is_idempotent: bool = False


_WORKSPACE = ToolArgument(
    "workspace", "Name of another workspace, or a path in it; by default the one of this folder."
)
_WORKSPACES = ToolArgument(
    "workspace", "Other workspaces by name or path; `*` for all. By default this folder's."
)
_KIND = ToolArgument("kind", "Only of these kinds, such as decision, error.", "filters.kind")
_TAG = ToolArgument("tag", "Only with one of these tags.", "filters.tag")
_FOLLOW = ToolArgument("follow", "Relations to follow, such as resolved_by.")
_PATH = ToolArgument("path", "Only in these notes or folders; globs are allowed.", "filters.path")


def _same(*names: str) -> dict[str, str]:
    return {name: name for name in names}


TOOLS: dict[str, Tool] = {
    tool.name: tool
    for tool in (
        Tool(
            name="memory_search",
            title="Search memory",
            method="search",
            description=(
                "Find passages in the project's memory by words and phrases. Returns "
                "`path:start-end`, heading and a snippet of each; read more with memory_get. Use "
                "it before deciding, and whenever something may have been settled earlier."
            ),
            arguments=(
                ToolArgument(
                    "query",
                    'Words to find; "a phrase" and -without are allowed.',
                    is_required=True,
                ),
                ToolArgument("limit", "Most hits to return; 10 by default."),
                _KIND,
                _TAG,
                _PATH,
                ToolArgument(
                    "after",
                    "Only from this day on: 2026-03-01, 2026-03, 7d, last week.",
                    "filters.after",
                ),
                ToolArgument("before", "Only before such a day.", "filters.before"),
                _FOLLOW,
                _WORKSPACES,
            ),
            is_read_only=True,
            is_idempotent=True,
        ),
        Tool(
            name="memory_get",
            title="Read memory",
            method="get",
            description=(
                "Read a note, some of its lines, or a section. `path` takes a citation such as "
                "`MEMORY.md:12-30`, a path, or an anchor `path#heading`."
            ),
            arguments=(
                ToolArgument("path", "`path:start-end`, path or `path#anchor`.", is_required=True),
                ToolArgument("start_line", "First line; 1 by default."),
                ToolArgument("end_line", "Last line; by default the note's last."),
                _WORKSPACE,
            ),
            is_read_only=True,
            is_idempotent=True,
        ),
        Tool(
            name="memory_context",
            title="Recall context",
            method="context",
            description=(
                "Return what memory holds on a task, as one block within a token budget. Call it "
                "once at the start of a task, with the task as the query; without a query it "
                "returns what every session should know."
            ),
            arguments=(
                ToolArgument("query", "The task or question, in words."),
                ToolArgument("max_tokens", "Budget of the block; 2000 by default."),
                _KIND,
                _TAG,
                _FOLLOW,
                _WORKSPACES,
            ),
            is_read_only=True,
            is_idempotent=True,
        ),
        Tool(
            name="memory_remember",
            title="Remember",
            method="note.add",
            description=(
                "Append one fact to memory: a decision with its reason, a preference, an error "
                "with its cure. A few sentences that make sense without this conversation; never "
                "secrets. Later searches of any agent find it."
            ),
            arguments=(
                ToolArgument("content", "The text, in markdown.", is_required=True),
                ToolArgument("summary", "Its heading, in words that one would search for."),
                ToolArgument("kind", "Such as decision, preference, error, research, insight."),
                ToolArgument("tags", "A few words to filter by."),
                ToolArgument("importance", "From 0 to 1."),
                ToolArgument("note", "The note to append to; by default that of its kind."),
                ToolArgument(
                    "on_similar", "If memory says nearly this: add, append to it, report."
                ),
                _WORKSPACE,
            ),
        ),
        Tool(
            name="memory",
            title="Edit memory",
            method="memory",
            description=(
                "View and edit the notes beneath /memories with one command: view (path, "
                "view_range), create (path, file_text), str_replace (path, old_str, new_str), "
                "insert (path, insert_line, insert_text), delete (path), rename (old_path, "
                "new_path). /memories is `.memories/`, /memories/MEMORY.md is MEMORY.md. Use it "
                "to correct what is outdated; history keeps the earlier text."
            ),
            arguments=(
                ToolArgument("command", "The command.", is_required=True),
                ToolArgument("path", "A path that begins with /memories."),
                ToolArgument("view_range", "First and last line; -1 for the last of the note."),
                ToolArgument("file_text", "The whole text of the new note."),
                ToolArgument("old_str", "Text that occurs exactly once in the note."),
                ToolArgument("new_str", "The text to put in its place."),
                ToolArgument("insert_line", "Insert after this line; 0 for the beginning."),
                ToolArgument("insert_text", "The lines to insert."),
                ToolArgument("old_path", "The path before."),
                ToolArgument("new_path", "The path after."),
                _WORKSPACE,
            ),
            is_destructive=True,
        ),
        Tool(
            name="memory_agent",
            title="Sessions and signals",
            method="session.resume",
            description=(
                "Go on where a session ended, and talk to other agents. resume (session or "
                "task): what to know after the context was cleared; checkpoint (content, task or "
                "session): keep progress; inbox (agent, session or task): signals, unread first; "
                "send (content, to whom); ack (signals, agent)."
            ),
            arguments=(
                ToolArgument("action", "The action.", is_required=True),
                ToolArgument("content", "What is done and what is next; or the message."),
                ToolArgument("task", "The task; for send, a task whose agents get it."),
                ToolArgument("session", "The session; for send, one that gets it."),
                ToolArgument("agent", "Your name; for send, the agent that gets it."),
                ToolArgument("signals", "Numbers of signals to acknowledge."),
                _WORKSPACE,
            ),
            actions={
                "resume": ToolAction("session.resume", _same("task", "session", "agent")),
                "checkpoint": ToolAction("task.checkpoint", _same("content", "task", "session")),
                "inbox": ToolAction("signal.inbox", _same("task", "session", "agent")),
                "send": ToolAction(
                    "signal.send",
                    {
                        "content": "content",
                        "task": "tasks",
                        "session": "sessions",
                        "agent": "agents",
                    },
                ),
                "ack": ToolAction("signal.ack", _same("signals", "task", "session", "agent")),
            },
            is_always_loaded=False,
        ),
        Tool(
            name="memory_init",
            title="Begin a memory here",
            method="workspace.add",
            description=(
                "This folder has no memory yet: create MEMORY.md in it and index it from now on. "
                "Ask the user first. The other tools work here afterwards."
            ),
            arguments=(
                ToolArgument("path", "Absolute path of the folder; by default the current one."),
                ToolArgument("name", "A name for the workspace; by default the folder's."),
            ),
            is_idempotent=True,
        ),
    )
}
INIT_TOOL = "memory_init"


# --- schemas ----------------------------------------------------------------------------------


def list_tools(*, is_read_only: bool, has_memory: bool) -> list[dict[str, Any]]:
    """Return the tools as MCP describes them, in a fixed order.

    With `is_read_only` those that write are left out; `has_memory` leaves out the one that begins a
    memory.
    """
    return [
        describe_tool(tool.name)
        for tool in TOOLS.values()
        if (tool.is_read_only or not is_read_only)
        and (tool.name != INIT_TOOL or not (has_memory or is_read_only))
    ]


@cache
def describe_tool(name: str) -> dict[str, Any]:
    """Return one tool as MCP describes it. It is cached: do not change it."""
    tool = TOOLS[name]
    # Claude Code hides tools behind a search unless they ask to be loaded.
    load = {"anthropic/alwaysLoad": True} if tool.is_always_loaded else {}
    errors = [error.code for method in list_methods(tool) for error in METHODS[method].errors]
    return {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": describe_arguments(tool),
        "annotations": {
            "title": tool.title,
            "readOnlyHint": tool.is_read_only,
            "destructiveHint": tool.is_destructive,
            "idempotentHint": tool.is_idempotent,
            "openWorldHint": False,
        },
        "_meta": {**load, ERRORS_META: list(dict.fromkeys(errors))},
    }


def list_methods(tool: Tool) -> list[str]:
    """Return the methods that a tool calls."""
    return [one.method for one in tool.actions.values()] or [tool.method]


def describe_arguments(tool: Tool) -> dict[str, Any]:
    """Return the JSON schema of a tool's arguments, made from the parameters of its methods."""
    every = [METHODS[method].params for method in list_methods(tool)]
    _, schemas = msgspec.json.schema_components(every, ref_template="{name}")
    properties: dict[str, Any] = {}
    for argument in tool.arguments:
        place = argument.parameter or argument.name
        if place == "action" and tool.actions:
            schema: dict[str, Any] = {"type": "string", "enum": list(tool.actions)}
        else:
            # The first method that has it; another may take a list of it.
            params = next(one for one in every if place.partition(".")[0] in one.__struct_fields__)
            schema = _find_schema(schemas, params.__name__, place)
        properties[argument.name] = {**schema, "description": argument.description}
    return {
        "type": "object",
        "properties": properties,
        "required": [argument.name for argument in tool.arguments if argument.is_required],
        "additionalProperties": False,
    }


def _find_schema(schemas: dict[str, Any], struct: str, place: str) -> dict[str, Any]:
    name, dot, inner = place.partition(".")
    schema: dict[str, Any] = schemas[struct]["properties"][name]
    if dot:
        reference = schema.get("$ref") or schema["allOf"][0]["$ref"]
        return _find_schema(schemas, reference, inner)
    choices = [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]
    # One value is accepted where a list of them is described.
    choices.sort(key=lambda one: one.get("type") != "array")
    schema = choices[0] if choices else schema
    # `prefixItems` is not known to every provider of models.
    if "prefixItems" in schema:
        item = schema["prefixItems"][0]
        return {"type": "array", "items": item, "minItems": 2, "maxItems": 2}
    # The limits of lists and texts would cost each session tokens; refusals name them.
    dropped = ("description", "default", "maxLength", "minLength", "maxItems", "minItems")
    kept = {key: value for key, value in schema.items() if key not in dropped}
    if "enum" in kept:
        kept["type"] = "string"
    if "items" in kept:
        kept["items"] = {"type": kept["items"]["type"]}
    return kept


# --- arguments --------------------------------------------------------------------------------


def choose_call(tool: Tool, arguments: dict[str, Any]) -> tuple[str, Any]:
    """Return the method that a tool calls with these arguments, and its parameters; null counts as
    left out. Raises BadRequest.
    """
    given = {name: value for name, value in arguments.items() if value is not None}
    method, known = tool.method, {one.name: one.parameter or one.name for one in tool.arguments}
    if tool.actions:
        action = tool.actions.get(str(given.pop("action", "")))
        if action is None:
            hint = f"one of: {', '.join(tool.actions)}"
            raise BadRequest("argument `action` is missing or unknown", hint=hint)
        method, known = action.method, {**action.parameters, "workspace": "workspace"}
    params: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            message, hint = explain_name(name, known, what="argument")
            raise BadRequest(message, hint=hint)
        outer, dot, inner = known[name].partition(".")
        if outer == "filters" and not value:
            continue  # models give empty texts for filters that they do not want
        place = params.setdefault(outer, {}) if dot else params
        place[inner or outer] = _list_values(known[name], value)
    for argument in tool.arguments:
        if argument.is_required and argument.name in known and argument.name not in given:
            hint = f"arguments: {', '.join(known)}"
            raise BadRequest(f"argument `{argument.name}` is missing", hint=hint)
    params = read_citation(params) if method == "get" else params
    return method, convert_arguments(params, METHODS[method].params, known)


_LISTS = frozenset("filters.path tasks sessions agents signals".split())
_WORD_LISTS = frozenset("filters.kind filters.tag follow tags".split())
_ALL_LISTS = _LISTS | _WORD_LISTS | {"view_range", "workspace"}


def _list_values(parameter: str, value: Any) -> Any:
    """Return the value as a list where one is expected: models often give one value, words with
    commas between them, or the JSON of a list.
    """
    if parameter in _ALL_LISTS and isinstance(value, str) and value.startswith("["):
        with contextlib.suppress(msgspec.DecodeError):
            return msgspec.json.decode(value, type=list[str | int])
    if parameter in _WORD_LISTS and isinstance(value, str):
        return [word.strip() for word in value.split(",") if word.strip()]
    is_one = parameter in _LISTS and not isinstance(value, list)
    return [value] if is_one else value


def convert_arguments(
    given: dict[str, Any], params: type[StructT], known: Mapping[str, str]
) -> StructT:
    """Return a struct of what a client gave; `known` has the parameter of each argument. Raises
    BadRequest.
    """
    try:
        # Some clients pass a model's numbers on as strings.
        return msgspec.convert(given, params, strict=False)
    except msgspec.ValidationError as error:
        message, hint = explain_params(str(error), describe_shape(params))
        message = message.replace("parameter ", "argument ")
        for name, parameter in known.items():
            for end in "`[":
                message = message.replace(f"`{parameter}{end}", f"`{name}{end}")
        if message.endswith("is missing"):
            hint = f"arguments: {', '.join(known)}"
        elif not hint.startswith("one of"):
            hint = "send it as the tool's input schema says"
        raise BadRequest(message, hint=hint) from error


_CITATION = re.compile(r"(?P<path>.+?):(?P<start>\d{1,9})(?:-(?P<end>\d{1,9}))?")


def read_citation(params: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of `get` whose path may be a path, a citation or an anchor."""
    place = params.get("path")
    if not isinstance(place, str):
        return params
    rest = {name: value for name, value in params.items() if name != "path"}
    match = _CITATION.fullmatch(place)
    named = match["path"] if match else place
    # A heading in an anchor contains no dot: `c#.md` is a note.
    is_anchor = "#" in named and not named.lower().endswith((".md", ".markdown", ".txt"))
    if is_anchor and "start_line" not in rest:
        return {**rest, "anchor": place}
    if match is None or "start_line" in rest:
        return params
    start = int(match["start"])
    end = rest.get("end_line", int(match["end"] or start))
    return {**rest, "path": match["path"], "start_line": start, "end_line": end}


# --- hooks ------------------------------------------------------------------------------------


HOOK_TOOL = "memory_hook"
"""Answers a hook of a client; it is not listed, since no model calls it."""
_EVENT_NAMES = {"session-start": "SessionStart", "user-prompt": "UserPromptSubmit"}


class HookArguments(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments of the tool that answers hooks; a client sends what its hook is configured to."""

    event: Literal["session-start", "user-prompt"] = "user-prompt"
    prompt: str = ""
    cwd: str = ""
    max_tokens: search.MaxTokens = 1000


def render_hook_answer(event: str, text: str) -> str:
    """Return the JSON that puts the text before the model of Claude Code and others; an empty
    object for no text.
    """
    answer = {"hookEventName": _EVENT_NAMES[event], "additionalContext": text}
    return msgspec.json.encode({"hookSpecificOutput": answer} if text else {}).decode()


# --- texts ------------------------------------------------------------------------------------


def render_result(result: msgspec.Struct, find_warning: FindWarning) -> str:
    """Return the text that an agent gets for the result of a method, in which what tries to
    instruct its reader is marked.
    """
    return _RENDERERS[type(result)](result, find_warning)


def render_hits(found: search.SearchResult) -> str:
    """Return the text of a search: a citation, a heading and a snippet for each hit."""
    lines = [*_describe_state(found.freshness), *_describe_workspaces(found.workspaces)]
    lines += _describe_semantic(found)
    lines += [f"Note: {problem}." for problem in found.query_problems]
    if not found.hits:
        lines.append("Nothing found" + (f": {found.why_empty}" if found.why_empty else "."))
        if found.did_you_mean:
            lines.append(f"Did you mean: {found.did_you_mean}")
        return "\n".join(lines)
    if found.relaxed:
        lines.append(_describe_relaxed(found.hits))
    names = {one.id: one.name for one in found.workspaces}
    for hit in found.hits:
        where = f"[{names.get(hit.workspace, hit.workspace)}] " if len(names) > 1 else ""
        headings = [" > ".join(one.heading) for one in hit.sections if one.heading]
        heading = "; ".join(headings) or " > ".join(hit.heading)
        kind = _describe_meta(hit)
        lines.append(f"{where}{hit.path}:{hit.start_line}-{hit.end_line}  {heading}{kind}")
        snippet = " ".join(hit.snippet.split())
        lines += [hit.mark] if hit.mark else []
        lines.append(f"  {snippet}")
        disputed = search.describe_contradictions(hit.contradicts, hit.contradicted_by)
        lines += [f"  {disputed}"] if disputed else []
        lines += [f"  {one.relation}: {_cite(one)}  {one.snippet}" for one in hit.related]
    return "\n".join(lines)


def _describe_relaxed(hits: Sequence[search.Hit]) -> str:
    if any(len(hit.matched_related) < len(hit.matched) for hit in hits):
        return "No passage holds every word; these hold some:"
    if any(hit.matched for hit in hits):
        return "No passage holds any of these words; these hold related ones:"
    return "No passage holds any of these words; these are near in meaning:"


def _describe_semantic(found: search.SearchResult | search.ContextResult) -> list[str]:
    """Say why not all was searched by meaning although that is switched on."""
    how = "words alone" if found.semantic == "off" else "not all by meaning"
    return [f"Searched by {how}: {found.semantic_reason}."] if found.semantic_reason else []


def _describe_meta(hit: search.Hit) -> str:
    """Describe what a model should know of a hit's metadata, in few tokens."""
    marks = [
        hit.kind or "",
        hit.priority if hit.priority in ("P0", "P1") else "",
        f"task {hit.task}" if hit.task else "",
        hit.status if hit.status not in (None, "active") else "",
        "expired" if hit.is_expired else "",
    ]
    text = ", ".join(filter(None, marks))
    return f" ({text})" if text else ""


def render_note(got: search.Got, find_warning: FindWarning) -> str:
    """Return the text of lines of a note, with their citation before them."""
    text, is_line_cut = _cut_lines(got.text, 0)
    end_line = got.end_line if text == got.text else got.start_line + text.count("\n")
    heading = f"{got.path}:{got.start_line}-{end_line} of {got.n_lines} lines"
    lines = [heading]
    warning = find_warning(text)
    if warning:
        lines.append(search.mark_warning(warning, "the note below"))
    lines += ["", text]
    lines += ["", _describe_cut(end_line)] if is_line_cut else []
    if end_line < got.end_line:
        lines += ["", f"… continues: read {got.path}:{end_line + 1}-{got.end_line}"]
    return "\n".join(lines)


def _cut_lines(text: str, start: int) -> tuple[str, bool]:
    """Return the lines that fit, and True if only a part of the one that begins at `start` does."""
    if len(text) <= TEXT_LIMIT_CHARS:
        return text, False
    end = text.rfind("\n", start, TEXT_LIMIT_CHARS)
    return (text[:end], False) if end > start else (text[:TEXT_LIMIT_CHARS], True)


def _describe_cut(line: int) -> str:
    return (
        f"… line {line} is longer than {TEXT_LIMIT_CHARS:,} characters; the rest of it is left out"
    )


def render_context(found: search.ContextResult) -> str:
    """Return a block of memory, which is marked already, with the citations of its parts."""
    lines = [*_describe_state(found.freshness), *_describe_workspaces(found.workspaces)]
    lines += _describe_semantic(found)
    lines += [f"Note: {problem}." for problem in found.query_problems]
    if not found.text:
        why = f": {found.why_empty}" if found.why_empty else "."
        return "\n".join([*lines, f"Memory holds nothing on this{why}"])
    lines.append(found.text.rstrip("\n"))
    omitted = [_cite(part) for part in found.left_out if part.reason == "no room"][:5]
    if omitted:
        lines += ["", f"No room for: {', '.join(omitted)}"]
    return "\n".join(lines)


def _cite(part: search.LeftOutPart | search.RelatedSection) -> str:
    return f"{part.path}:{part.start_line}-{part.end_line}"


def render_added(added: memory.Added) -> str:
    place = f"{added.path}:{added.start_line}-{added.end_line}"
    late = "" if added.is_indexed else "; it is not searchable yet"
    near = ", ".join(
        f"{one.path}:{one.start_line}-{one.end_line}" for one in added.similar if one.path
    )
    if added.action == "reported":
        return f"Nothing was written: {near} says nearly this. Call again with on_similar append."
    if added.action == "appended":
        return f"Appended at {place}, which said nearly this{late}"
    also = f". Nearly the same: {near}; correct what is outdated there" if near else ""
    kind = added.similar_kind and f". This kind is not known; a similar one is {added.similar_kind}"
    return f"Remembered at {place}{late}{also}{kind or ''}"


def render_session(block: tasks.SessionBlock) -> str:
    """Return what restores an agent, which is marked already."""
    return block.text or "There is nothing to resume yet; keep progress with checkpoint."


def render_signals(box: signals.SignalBox, find_warning: FindWarning) -> str:
    """Return the signals to a reader, a line for each, each marked if it tries to instruct."""
    lines: list[str] = []
    for one in box.signals:
        warning = find_warning(one.content)
        lines += [search.mark_warning(warning, "the signal below")] if warning else []
        read = " (read)" if one.acked_at is not None else ""
        text = " ".join(one.content.split())
        lines.append(f"{one.id} {one.type} from {one.sender}{read}: {text}")
    return "\n".join(lines) if lines else "No signals."


def _render_sent(sent: signals.SignalSent) -> str:
    return f"Sent as {sent.signal.id} to {', '.join(sent.signal.to)}"


def _render_acked(acked: signals.SignalsAcked) -> str:
    unknown = f"; not found: {_list_numbers(acked.unknown)}" if acked.unknown else ""
    return f"Acknowledged: {_list_numbers([*acked.acked, *acked.already]) or 'none'}{unknown}"


def _list_numbers(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def render_memory(result: memory.MemoryResult, find_warning: FindWarning) -> str:
    """Return the answer of the memory tool, marked if it shows text that instructs its reader."""
    text = _cut_view(result.text)
    warning = find_warning(_LINE_NUMBER.sub("", text))
    text = f"{search.mark_warning(warning, 'the text below')}\n{text}" if warning else text
    if not result.is_searched:
        return f"{text}\n(Kept, but not searched: only names in .md, .markdown and .txt are.)"
    return text if result.is_indexed else f"{text}\n(Written; not searchable yet.)"


_LINE_NUMBER = re.compile(r"^ *(\d+)\t", re.MULTILINE)


def _cut_view(text: str) -> str:
    """Return what the memory tool shows, as much as fits, and how the rest is seen."""
    if len(text) <= TEXT_LIMIT_CHARS:
        return text
    # The first line is a heading.
    shown, is_line_cut = _cut_lines(text, text.find("\n") + 1)
    numbers = _LINE_NUMBER.findall(shown)
    if not numbers:
        return f"{shown}\n\n… and more: view one of the folders, or find notes with memory_search"
    last = int(numbers[-1])
    lines = [shown, "", *([_describe_cut(last)] if is_line_cut else [])]
    if not is_line_cut or "\n" in text[len(shown) :]:
        lines.append(f"… continues: view_range [{last + 1}, -1] shows the rest")
    return "\n".join(lines)


_RENDERERS: dict[type[msgspec.Struct], Callable[[Any, FindWarning], str]] = {
    search.SearchResult: lambda found, _: render_hits(found),
    search.ContextResult: lambda found, _: render_context(found),
    search.Got: render_note,
    memory.Added: lambda found, _: render_added(found),
    memory.MemoryResult: render_memory,
    tasks.SessionBlock: lambda found, _: render_session(found),
    signals.SignalBox: render_signals,
    signals.SignalSent: lambda found, _: _render_sent(found),
    signals.SignalsAcked: lambda found, _: _render_acked(found),
}


def render_error(error: MemsyncdError) -> str:
    """Return the text of a failed call: the reason, and what to do next."""
    hint = advise_agent(error)
    return f"{error.message}\nWhat to do: {hint}" if hint else error.message


def advise_agent(error: MemsyncdError) -> str:
    """Return the hint of an error for an agent, which has tools and may have no shell.

    A hint that names a command of memsyncd's is for people: the agent gets that of the error's
    code, else is told to pass it on.
    """
    if not _NAMES_COMMAND.search(error.hint):
        return _TIME_LIMIT.sub("", error.hint)
    return _AGENT_HINTS.get(error.code) or f"go on without it, and tell the user: {error.hint}"


_NAMES_COMMAND = re.compile(r"\bmemsyncd [a-z]|(?<!\S)--[a-z]")
# No tool has this parameter.
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


def _describe_workspaces(workspaces: Sequence[search.AnsweringWorkspace]) -> list[str]:
    """Say which workspaces are left out and why, and where the paths of a linked worktree lead."""
    lines = [f"(Without {one.name}: {one.failure})" for one in workspaces if one.failure]
    for one in workspaces:
        if one.worktree:
            what = (
                "paths" if len(workspaces) == 1 else f"it shares notes of {one.name}, whose paths"
            )
            lines.append(f"(This is a linked git worktree: {what} are relative to {one.root})")
    return lines


def _describe_state(freshness: Freshness) -> Sequence[str]:
    if freshness.state == "ready":
        return ()
    pending = f", {freshness.pending} changes pending" if freshness.pending else ""
    reason = f": {freshness.reason}" if freshness.reason else ""
    return (f"(The index is {freshness.state}{pending}{reason}; more may exist.)",)
