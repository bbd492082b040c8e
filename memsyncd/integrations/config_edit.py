"""Change one value of another program's configuration file, and nothing else of its text.

Comments, order, indentation and line ends stay: a value is written at its place in the text, which
is never parsed and reprinted. JSON may hold comments and trailing commas. TOML and markdown get
a block between two marks. Pure: text in, text out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

JSON_ENDS = {"{": "}", "[": "]"}
_BLANK = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_WORD = re.compile(r"[^\s,\[\]{}\"/]+")
_INDENT = re.compile(r"\n([ \t]+)\S")


class Unreadable(ValueError):
    """The text is not what its format demands; the message names the line."""


# --- JSON with comments -------------------------------------------------------------------------


@dataclass
class Node:
    """A value at [start, end) of the text; `parts` are its members, or its items with empty
    names.
    """

    start: int
    end: int
    kind: str
    parts: list[Part] = field(default_factory=list)


@dataclass
class Part:
    """A member or an item: from the start of its name to the end of its value. `comma` is the place
    of the comma after it, -1 without one.
    """

    name: str
    start: int
    value: Node
    comma: int = -1


def parse_json(text: str) -> Node:
    """Parse the one value of the text. Raises Unreadable."""
    node, at = _parse_value(text, _skip(text, 0))
    at = _skip(text, at)
    if at != len(text):
        raise _unreadable(text, at)
    return node


def read_json(text: str, node: Node) -> Any:
    """Return the value of a node."""
    if node.kind == "{":
        return {part.name: read_json(text, part.value) for part in node.parts}
    if node.kind == "[":
        return [read_json(text, part.value) for part in node.parts]
    return json.loads(text[node.start : node.end])


def _skip(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at


def _unreadable(text: str, at: int) -> Unreadable:
    line = text.count("\n", 0, at) + 1
    near = text[at : at + 20].split("\n", maxsplit=1)[0].strip()
    return Unreadable(f"line {line}: not JSON" + (f" at `{near}`" if near else ": it ends early"))


def _parse_value(text: str, at: int) -> tuple[Node, int]:
    mark = text[at : at + 1]
    if mark in JSON_ENDS:
        return _parse_parts(text, at, mark)
    found = _STRING.match(text, at) or _WORD.match(text, at)
    if found is None:
        raise _unreadable(text, at)
    try:
        json.loads(found[0])
    except ValueError:
        raise _unreadable(text, at) from None
    return Node(at, found.end(), "value"), found.end()


def _parse_parts(text: str, start: int, mark: str) -> tuple[Node, int]:
    node, at = Node(start, start, mark), _skip(text, start + 1)
    while text[at : at + 1] != JSON_ENDS[mark]:
        if node.parts and node.parts[-1].comma < 0:
            raise _unreadable(text, at)
        part_start, name = at, ""
        if mark == "{":
            found = _STRING.match(text, at)
            if found is None:
                raise _unreadable(text, at)
            name, at = _read_name(text, found), _skip(text, found.end())
            if text[at : at + 1] != ":":
                raise _unreadable(text, at)
            at = _skip(text, at + 1)
        value, at = _parse_value(text, at)
        part = Part(name, part_start, value)
        node.parts.append(part)
        at = _skip(text, at)
        if text[at : at + 1] == ",":
            part.comma = at
            at = _skip(text, at + 1)
    node.end = at + 1
    return node, at + 1


def _read_name(text: str, found: re.Match[str]) -> str:
    try:
        return str(json.loads(found[0]))
    except ValueError:
        raise _unreadable(text, found.start()) from None


def set_member(text: str, path: tuple[str, ...], value: Any) -> str:
    """Return the text of an object with the value under this path of names.

    An equal value stays as it is written. Raises Unreadable.
    """
    text = text if text.strip() else "{}\n"
    node = _root(text)
    for at, name in enumerate(path):
        if node.kind != "{":
            where = ".".join(path[:at])
            raise Unreadable(f"line {_line(text, node.start)}: `{where}` is no object")
        part = _find(node, name)
        if part is None:
            for outer in reversed(path[at + 1 :]):
                value = {outer: value}
            return _insert(text, node, f"{json.dumps(name, ensure_ascii=False)}: ", value)
        node = part.value
    return _replace(text, node, value)


def add_item(text: str, path: tuple[str, ...], value: Any, is_same: Callable[[Any], bool]) -> str:
    """Return the text with the value in the list under this path: in the place of the item for
    which `is_same` holds, else at the end.
    """
    text = text if text.strip() else "{}\n"
    node = find_node(text, path)
    if node is None:
        return set_member(text, path, [value])
    if node.kind != "[":
        raise Unreadable(f"line {_line(text, node.start)}: `{'.'.join(path)}` is no list")
    for part in node.parts:
        if is_same(read_json(text, part.value)):
            return _replace(text, part.value, value)
    return _insert(text, node, "", value)


def find_node(text: str, path: tuple[str, ...]) -> Node | None:
    """Return the value under a path of names, None if there is none. Raises Unreadable."""
    if not text.strip():
        return None
    node = _root(text)
    for name in path:
        part = _find(node, name) if node.kind == "{" else None
        if part is None:
            return None
        node = part.value
    return node


def remove_part(text: str, path: tuple[str, ...], is_same: Callable[[Any], bool] | None) -> str:
    """Return the text without the member under this path, or without the items of the list there
    for which `is_same` holds; objects and lists that become empty go as well.
    """
    while True:
        node = find_node(text, path if is_same else path[:-1])
        if node is None:
            return text
        part = _find_part(text, node, path, is_same)
        if part is None:
            return text
        text = _cut(text, node, part)
        node = find_node(text, path if is_same else path[:-1])
        if node is not None and not node.parts and _is_bare(text, node):
            outer = path if is_same else path[:-1]
            return remove_part(text, outer, None) if outer else text
        if not is_same:
            return text


def _find_part(
    text: str, node: Node, path: tuple[str, ...], is_same: Callable[[Any], bool] | None
) -> Part | None:
    if is_same is None:
        return _find(node, path[-1]) if node.kind == "{" else None
    return next((part for part in node.parts if is_same(read_json(text, part.value))), None)


def _root(text: str) -> Node:
    node = parse_json(text)
    if node.kind != "{":
        raise Unreadable(f"line {_line(text, node.start)}: no JSON object")
    return node


def _find(node: Node, name: str) -> Part | None:
    # Of a name that occurs twice, programs read the last.
    return next((part for part in reversed(node.parts) if part.name == name), None)


def _is_bare(text: str, node: Node) -> bool:
    return not text[node.start + 1 : node.end - 1].strip()


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _replace(text: str, node: Node, value: Any) -> str:
    if read_json(text, node) == value:
        return text
    return (
        text[: node.start] + _render(text, value, _find_indent(text, node.start)) + text[node.end :]
    )


def _insert(text: str, node: Node, name: str, value: Any) -> str:
    """Insert a part at the end of an object or list, below its last comment."""
    base, unit = _find_indent(text, node.start), _unit(text)
    close = node.end - 1
    end = _line_end(text)
    new = f"{end}{base}{unit}{name}{_render(text, value, base + unit)}"
    body = text[node.start + 1 : close].rstrip()
    at = node.start + 1 + len(body)
    gap = text[at:close]
    after = gap if "\n" in gap else f"{end}{base}"
    if node.parts and node.parts[-1].comma < 0:
        last = node.parts[-1].value.end
        return f"{text[:last]},{text[last:at]}{new}{after}{text[close:]}"
    return f"{text[:at]}{new}{after}{text[close:]}"


def _cut(text: str, node: Node, part: Part) -> str:
    """Remove a part, with the lines that it alone fills and the comma that no longer divides."""
    number = node.parts.index(part)
    start, end = part.start, part.value.end if part.comma < 0 else part.comma + 1
    line_start = text.rfind("\n", 0, start) + 1
    is_own_line = not text[line_start:start].strip()
    rest = re.compile(r"[ \t]*(?:\r?\n|$)").match(text, end)
    if is_own_line and rest is not None:
        start, end = line_start, rest.end()
    before = node.parts[number - 1] if number else None
    if before is not None and before.comma >= 0 and part.comma < 0:
        return text[: before.comma] + text[before.comma + 1 : start] + text[end:]
    return text[:start] + text[end:]


def _render(text: str, value: Any, base: str) -> str:
    lines = json.dumps(value, indent=_unit(text), ensure_ascii=False).split("\n")
    return f"{_line_end(text)}{base}".join(lines)


def _find_indent(text: str, at: int) -> str:
    """The indentation of the line that holds this place."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip())]


def _unit(text: str) -> str:
    found = _INDENT.search(text)
    return found[1] if found else "  "


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


# --- blocks in TOML and markdown ----------------------------------------------------------------


@dataclass(frozen=True)
class Marks:
    """The first and the last line of a block."""

    start: str
    end: str


TOML_MARKS = Marks("# memsyncd: begin (memsyncd integrate)", "# memsyncd: end")
MARKDOWN_MARKS = Marks("<!-- memsyncd: begin (memsyncd integrate) -->", "<!-- memsyncd: end -->")


def find_block(text: str, marks: Marks) -> tuple[int, int] | None:
    """Return the place of the block with its marks. Raises Unreadable if it does not end."""
    start = end = -1
    for at, line in _lines(text):
        if line.strip() == marks.start and start < 0:
            start = at
        elif line.strip() == marks.end and start >= 0:
            end = at + len(line)
            break
    if start < 0:
        return None
    if end < 0:
        message = f"line {_line(text, start)}: the block of memsyncd has no end"
        raise Unreadable(f"{message}; remove it, or write `{marks.end}` below it")
    return start, end


def _lines(text: str) -> Iterator[tuple[int, str]]:
    at = 0
    for line in text.splitlines(keepends=True):
        yield at, line
        at += len(line)


def set_block(text: str, marks: Marks, body: str) -> str:
    """Return the text with the block, at its place or at the end after an empty line."""
    block = "\n".join((marks.start, body.strip("\n"), marks.end, ""))
    block = block.replace("\n", _line_end(text))
    place = find_block(text, marks)
    if place is not None:
        return text[: place[0]] + block + text[place[1] :]
    end = _line_end(text)
    gap = "" if not text.strip() else end if text.endswith("\n") else end * 2
    return f"{text}{gap}{block}"


def remove_block(text: str, marks: Marks) -> str:
    """Return the text without the block and the empty line above it."""
    place = find_block(text, marks)
    if place is None:
        return text
    above = text[: place[0]]
    for blank in ("\r\n\r\n", "\n\n"):
        if above.endswith(blank):
            above = above[: -len(blank) // 2]
            break
    return above + text[place[1] :]
