"""Generate `memsyncd/terminal/_generated/` from the declarations: commands with options and help,
and which operations only read.

    python -m memsyncd.operations.generate

The command line must not import msgspec, which costs four times a bare start, so the declarations
become plain Python. A test fails while the file differs from the generated text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, get_origin

import msgspec
from msgspec import inspect

from memsyncd.core.search.filters import FILTER_NAMES
from memsyncd.operations.docs import find_plain_type, read_field_docs, takes_list
from memsyncd.operations.operation import (
    NO_OPTIONS,
    OPTIONS,
    Command,
    CommandGroup,
    Extra,
    Operation,
    OptionWords,
    Shape,
    Tool,
)

PLANNED = "leave it out: without --apply, only the plan is shown"
"""Advice to somebody who asks for the plan of a command that shows it by default."""

TARGET = Path(__file__).parents[1] / "terminal" / "_generated"
TABLES_HEAD = '''\
"""The commands that call an operation, by name, and which operations only read.

Generated from the declarations by `python -m memsyncd.operations.generate`; do not edit.
"""

from __future__ import annotations
'''
COMMANDS_HEAD = '''\
"""The commands of one capability.

Generated from the declarations by `python -m memsyncd.operations.generate`; do not edit.
"""

from __future__ import annotations

from memsyncd.terminal.actions import call_operation, load_action, load_parser
from memsyncd.terminal.parser import (
    IDS,
    JSON,
    ALL,
    JSON_LINES,
    PATHS,
    Argument,
    Command,
    Option,
    make_format,
    make_group,
    parse_fraction,
    parse_pair,
    parse_whole,
)
'''


def generate(operations: Iterable[Operation], groups: Iterable[CommandGroup]) -> dict[str, str]:
    """Return the texts of the modules, by name. Each capability has a module, so that a command
    loads only its own. The module with the tables has an empty name.
    """
    every = list(operations)
    named = {
        command.words: (operation, command) for operation in every for command in operation.commands
    }
    by_word = {group.words: group for group in groups}
    firsts = dict.fromkeys(words.partition(" ")[0] for words in named)
    parts: dict[str, list[str]] = {"": [TABLES_HEAD, *_render_tables(every)]}
    folders: dict[str, str] = {}
    for word in firsts:
        subs = [words for words in named if words.startswith(f"{word} ")]
        folder = find_capability(named[word if word in named else subs[0]][0])
        folders[word] = folder
        own = parts.setdefault(folder, [COMMANDS_HEAD])
        own += [_render_command(*named[words], ()) for words in subs]
        if word in by_word:
            own.append(_render_group(by_word[word], subs))
        else:
            own.append(_render_command(*named[word], subs))
    parts[""].append(_render_entries(folders, named, by_word))
    verbs = [words for words, (_, command) in named.items() if command.is_first]
    parts[""].append(
        f'FIRST = frozenset({_render_words(verbs)})\n"""The commands on the first help screen."""'
    )
    return {name: _join(texts) for name, texts in parts.items()}


def _join(parts: list[str]) -> str:
    return "\n\n".join(part.rstrip("\n") + "\n" for part in parts)


def _render_tables(operations: list[Operation]) -> Iterator[str]:
    reading = sorted(operation.name for operation in operations if operation.reads)
    reading_if = {each.name: each.reads_if for each in operations if each.reads_if}
    for operation in operations:
        if _plans_by_default(operation):
            reading_if[operation.name] = {"apply": None}
    tools = [operation.tool for operation in operations if isinstance(operation.tool, Tool)]
    reading_tools = [tool.name for tool in tools if tool.is_read_only]
    current = {each.name: each.current for each in operations if each.current}
    yield (
        f"READING = frozenset({_render_words(reading)})\n"
        '"""Operations that change neither notes nor records."""\n'
        f"READING_IF: dict[str, dict[str, object]] = {_render(reading_if)}\n"
        '"""Parameters with which an operation that writes only reads."""\n'
        f"READING_TOOLS = frozenset({_render_words(reading_tools)})\n"
        '"""Tools of MCP that only read."""\n'
        f"CURRENT: dict[str, tuple[str, ...]] = {_render(current)}\n"
        '"""Fields that the environment may give, by operation."""\n'
    )


def _plans_by_default(operation: Operation) -> bool:
    """Return whether the operation changes something only with `apply`."""
    fields = msgspec.structs.fields(operation.params)
    return any(field.encode_name == "apply" and field.default is False for field in fields)


def _render_words(words: Iterable[str]) -> str:
    return "{" + ", ".join(_render(word) for word in words) + "}"


def _render_entries(
    folders: dict[str, str],
    named: dict[str, tuple[Operation, Command]],
    groups: dict[str, CommandGroup],
) -> str:
    lines = ["COMMANDS: dict[str, tuple[str, str, str]] = {"]
    for word, folder in folders.items():
        group, summary = (
            (groups[word].group, groups[word].summary)
            if word in groups
            else (named[word][1].group, _summarize(*named[word]))
        )
        lines.append(
            f"    {_render(word)}: ({_render(group)}, {_render(summary)}, {_render(folder)}),"
        )
    doc = '"""The heading, the summary and the module of each command."""'
    return "\n".join([*lines, "}", doc])


def _name(words: str) -> str:
    return "make_" + re.sub(r"\W", "_", words)


def _render_group(group: CommandGroup, subs: list[str]) -> str:
    lines = [f"def {_name(group.words)}() -> Command:", "    return make_group("]
    lines.append(f"        {_render(group.words)},")
    lines.append("        {")
    lines += [f"            {_render(sub.partition(' ')[2])}: {_name(sub)}()," for sub in subs]
    lines += ["        },", f"        {_render(group.examples)},", "    )"]
    return "\n".join(lines)


def _render_command(operation: Operation, command: Command, subs: Iterable[str]) -> str:
    folder = find_capability(operation)
    lines = [f"def {_name(command.words)}() -> Command:", "    return Command("]
    options = list(list_options(operation, command))
    places = tuple(option.field for option in options if option.is_place)
    lines.append(f"        {_render_action(operation, command, folder, places)},")
    # The table of commands has the summary of a first word.
    if " " in command.words:
        lines.append(f"        summary={_render(_summarize(operation, command))},")
    arguments = [option for option in options if option.is_argument]
    if arguments:
        lines.append("        arguments=(")
        lines += [f"            {argument.render(folder)}," for argument in arguments]
        lines.append("        ),")
    lines.append("        options=(")
    lines += [
        f"            {option.render(folder)}," for option in options if not option.is_argument
    ]
    in_each = _runs_in_each(operation, command)
    lines += ["            ALL,"] if in_each else []
    lines += ["            IDS,"] if command.has_ids else []
    if command.lists:
        fields = _list_fields(operation, command)
        lines += ["            PATHS,"] if not PLACES.isdisjoint(fields) else []
        lines.append(f"            make_format({_render(fields)}),")
    json = "JSON_LINES" if operation.streams else "JSON"
    lines += [f"            {json},", "        ),"]
    if command.examples:
        lines.append(f"        examples={_render(command.examples)},")
    gone = {"--dry-run": PLANNED} | command.gone if _plans_by_default(operation) else command.gone
    if gone:
        lines.append(f"        gone={_render(gone)},")
    lines += ["        in_each=True,"] if in_each else []
    lines += [f"        lists={_render(command.lists)},"] if command.lists else []
    if command.keeps_exclusions:
        lines.append("        keeps_exclusions=True,")
        lines.append(f"        query_filters={_render(_list_query_filters(options))},")
    inner = [f"{_render(sub.partition(' ')[2])}: {_name(sub)}()" for sub in subs]
    if inner:
        lines.append(f"        commands={{{', '.join(inner)}}},")
    return "\n".join([*lines, "    )"])


def _runs_in_each(operation: Operation, command: Command) -> bool:
    """Return whether `--all` runs the command in each workspace: it reads one workspace, and no
    argument names something in it.
    """
    has_all = any(extra.usage == "--all" for extra in command.extra) or "all" in command.omit
    usages = [argument.split(" ", 1)[1] for argument in command.arguments]
    usages += [extra.usage for extra in command.extra if extra.is_argument]
    return (
        (operation.reads or bool(command.lists and operation.reads_if))
        and "workspace" in operation.params.__struct_fields__
        and not has_all
        and all(usage.startswith("[") for usage in usages)
    )


def _list_query_filters(options: list[RenderedOption]) -> tuple[str, ...]:
    """Return the filters as words of a query, such as `kind:K`, with the values of the options."""
    values = {
        option.field.removeprefix("filters.").removeprefix("min_"): option.usage.split()[-1]
        for option in options
        if option.field.startswith("filters.")
    }
    # Words in place of options without a value.
    values["is"] = "archived"
    return tuple(
        f"{name}:{values[name].removesuffix('…')}" for name in FILTER_NAMES if name in values
    )


PLACES = frozenset({"path", "anchor", "source"})
"""Fields of which one gives the path of a listed thing. A `source` is one only in links."""


def _list_fields(operation: Operation, command: Command) -> tuple[str, ...]:
    """Return the fields of the things that a command lists."""
    answer = {field.encode_name: field for field in msgspec.structs.fields(operation.result)}
    fields: dict[str, None] = {}
    for name in command.lists.split():
        things: Any = inspect.type_info(answer[name].type)
        fields |= dict.fromkeys(field.encode_name for field in things.item_type.fields)
    return tuple(fields)


def find_capability(operation: Operation) -> str:
    """Return the folder of an operation, from its `run` or from the module of its parameters."""
    if operation.run:
        return operation.run.partition(".")[0]
    for struct in (operation.params, operation.result):
        module = struct.__module__.removeprefix("memsyncd.operations.")
        if "." in module:
            return module.partition(".")[0]
    raise ValueError(f"no folder is known of {operation.name}")


def _render_action(
    operation: Operation, command: Command, folder: str, places: tuple[str, ...]
) -> str:
    if command.action:
        return f"load_action({_render(folder)}, {_render(command.action)})"
    words = [_render(folder), _render(operation.name)]
    words += [
        f"{name}={_render(value)}"
        for name in ("show", "prepare", "found", "stdin")
        if (value := getattr(command, name))
    ]
    if command.fixed:
        words.append(f"fixed={_render(command.fixed)}")
    if operation.shape is Shape.DAEMON:
        words.append("is_wide=True")
    if command.is_long:
        words.append("is_long=True")
    if places:
        words.append(f"places={_render(places)}")
    return f"call_operation({', '.join(words)})"


def _summarize(operation: Operation, command: Command) -> str:
    return command.summary or _lower(operation.summary.removesuffix("."))


# --- arguments and options -----------------------------------------------------------------------


class RenderedOption(NamedTuple):
    """An argument or option of a command, from a field or from an `Extra`."""

    usage: str
    help: str
    field: str = ""
    name: str = ""
    is_argument: bool = False
    is_place: bool = False
    value: Any = True
    bare: Any = None
    choices: tuple[str, ...] = ()
    parse: str = ""
    """The name of a function of the parser; with a colon before it, of the folder's `show`."""
    collects: bool = False

    def render(self, folder: str) -> str:
        words = [_render(self.usage), _render(self.help)]
        if self.is_argument:
            words.insert(0, _render(self.name or self.field))
        elif self.name:
            words.append(f"name={_render(self.name)}")
        if self.parse.startswith(":"):
            words.append(f"parse=load_parser({_render(folder)}, {_render(self.parse[1:])})")
        elif self.parse:
            words.append(f"parse={self.parse}")
        if self.choices:
            words.append(f"choices={_render(self.choices)}")
        for name, default in (("bare", None), ("value", True), ("field", "")):
            value = getattr(self, name)
            if value != default or type(value) is not type(default):
                words.append(f"{name}={_render(value)}")
        if self.collects:
            words.append("collect=dict")
        return f"{'Argument' if self.is_argument else 'Option'}({', '.join(words)})"


def list_options(operation: Operation, command: Command) -> Iterator[RenderedOption]:
    """Yield the arguments and options of a command in the order of its help."""
    arguments = dict(argument.split(" ", 1) for argument in command.arguments)
    fields = {field.encode_name: field for field in msgspec.structs.fields(operation.params)}
    docs = read_field_docs(operation.params)
    left_out = {*arguments, *command.omit, *command.fixed, *NO_OPTIONS}
    for name, usage in arguments.items():
        option = _make_option(fields[name], docs, operation, command, name)
        yield option._replace(usage=usage, name=name, is_argument=True, parse="", collects=False)
    yield from (_make_extra(extra) for extra in command.extra if extra.is_argument)
    inner, last = [], []
    for name, field in fields.items():
        if name in left_out:
            continue
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            inner.append(field)
        elif name in ("workspace", "client", "timeout_ms"):
            last.append(name)
        else:
            yield _make_option(field, docs, operation, command, name)
    yield from (_make_extra(extra) for extra in command.extra if not extra.is_argument)
    taken = {*fields} - {*command.omit}
    for field in inner:
        yield from _list_inner(field, operation, command, taken)
    if command.stdin:
        yield RenderedOption("--stdin", "read the text from stdin, like TEXT -")
    for name in ("workspace", "client", "timeout_ms"):
        if name in last:
            yield _make_option(fields[name], docs, operation, command, name)


def _list_inner(
    outer: msgspec.structs.FieldInfo,
    operation: Operation,
    command: Command,
    taken: set[str],
) -> Iterator[RenderedOption]:
    docs = read_field_docs(outer.type)
    for field in msgspec.structs.fields(outer.type):
        name = field.encode_name
        place = f"{outer.encode_name}.{name}"
        if place in command.omit or (name in taken and not command.filter_prefix):
            continue
        option = _make_option(field, docs, operation, command, place)
        if command.filter_prefix:
            usage = option.usage.replace("--", f"--{command.filter_prefix}-", 1)
            option = option._replace(usage=usage, name=f"{command.filter_prefix}_{name}")
        yield option


def _make_option(
    field: msgspec.structs.FieldInfo,
    docs: dict[str, str],
    operation: Operation,
    command: Command,
    place: str,
) -> RenderedOption:
    name = field.encode_name
    kind = find_plain_type(field.type)
    words = OPTIONS.get(name, OptionWords(""))
    usage = command.usages.get(place) or words.usage or _write_usage(name, kind, field)
    value = field.default is not True if kind is bool else words.value
    is_repeated = get_origin(kind) is dict or takes_list(field.type)
    usage = usage.removesuffix("…") + "…" * (is_repeated and " " in usage.partition("--")[2])
    text = command.help.get(place) or words.help or first_sentence(docs.get(field.name, ""))
    default = field.default
    choices = get_args(kind) if get_origin(kind) is Literal and not words.help else ()
    text += _describe_choices(text, choices, default)
    is_told = "default" in text or place in command.help or isinstance(default, bool)
    is_flag = " " not in usage.partition("--")[2]
    if isinstance(default, int | float | str) and default and not is_told and not is_flag:
        text = f"{text} (default {default})"
    parse = f":{command.parse[place]}" if place in command.parse else _choose_parser(field.type)
    own = usage.split()
    long_name = next((word for word in own if word.startswith("--")), "").removeprefix("--")
    return RenderedOption(
        usage,
        text,
        field=place,
        name="" if long_name.replace("-", "_") == name else name,
        is_place=place in {*operation.paths.absolute, "path"} and _has_paths(operation),
        value=value,
        choices=tuple(map(str, choices)),
        parse=parse,
        collects=get_origin(kind) is dict,
    )


def _describe_choices(text: str, choices: tuple[str, ...], default: Any) -> str:
    """Return a list of the words that an option takes; empty if its help names them all."""
    if all(re.search(rf"\b{re.escape(choice)}\b", text) for choice in choices):
        return ""
    words = [f"{choice} (default)" if choice == default else choice for choice in choices]
    return f": {', '.join(words[:-1])} or {words[-1]}"


def _has_paths(operation: Operation) -> bool:
    return bool(operation.paths.absolute) or operation.paths.are_from_root


def _make_extra(extra: Extra) -> RenderedOption:
    return RenderedOption(
        extra.usage,
        extra.help,
        field=extra.field,
        value=extra.value,
        name=extra.name,
        is_argument=extra.is_argument,
        bare=extra.bare,
        choices=extra.choices,
        parse=f":{extra.parse}" if extra.parse else "",
    )


def _write_usage(name: str, kind: Any, field: msgspec.structs.FieldInfo) -> str:
    flag = "--" + name.replace("_", "-")
    if kind is bool:
        return f"--no-{flag[2:]}" if field.default is True else flag
    if get_origin(kind) is dict:
        return f"{flag} NAME=TEXT…"
    if kind is int:
        return f"{flag} N"
    return f"{flag} {'S' if kind is float else 'TEXT'}"


def _choose_parser(kind: Any) -> str:
    plain = find_plain_type(kind)
    if plain is float:
        return "parse_fraction"
    if get_origin(plain) is dict:
        return "parse_pair"
    if plain is int and (_find_least(kind) or 0) > 1:
        return "parse_whole"
    return ""


def _find_least(kind: Any) -> int | None:
    """Return the smallest value of a whole number, None without a limit."""
    shape = inspect.type_info(kind)
    kinds = shape.types if isinstance(shape, inspect.UnionType) else (shape,)
    return next((each.ge for each in kinds if isinstance(each, inspect.IntType)), None)


def first_sentence(text: str) -> str:
    """Return the first sentence of a docstring as help: without its period and its backquotes, and
    beginning with a small letter.
    """
    sentence = re.split(r"(?<=[^.])\.(?:\s|$)", text, maxsplit=1)[0]
    return _lower(sentence.replace("`", ""))


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:] if text[1:2].islower() or text[1:2] == " " else text


def _render(value: Any) -> str:
    if isinstance(value, str):
        return msgspec.json.encode(value).decode() if '"' not in value else repr(value)
    if isinstance(value, tuple):
        return f"({', '.join(map(_render, value))}{',' * (len(value) == 1)})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_render(k)}: {_render(v)}" for k, v in value.items()) + "}"
    return repr(value)
