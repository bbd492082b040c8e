"""Change one value of another program's configuration file, and nothing else of its text.

A value is found by its key, and prose by its sentences; never by its place or by a comment, because
a program that rewrites a file, such as Codex, moves values and drops comments. Comments, order,
indentation and line ends stay. JSON may have comments and trailing commas, which no library edits
in place. Pure: text in, text out.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any

Path = tuple[str | int, ...]
"""Names of members and numbers of items, from the outermost value to the innermost."""

JSON_ENDS = {"{": "}", "[": "]"}
_BLANK = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_WORD = re.compile(r"[^\s,\[\]{}\"/]+")
_INDENT = re.compile(r"\n([ \t]+)\S")


class Unreadable(ValueError):
    """The text is not valid in its format. The message names the line."""


# --- JSON with comments -------------------------------------------------------------------------


@dataclass
class Node:
    """A value at [start, end) of the text. `parts` are its members, or its items, whose names are
    empty.
    """

    start: int
    end: int
    kind: str
    parts: list[Part] = field(default_factory=list)


@dataclass
class Part:
    """A member or an item, from the start of its name to the end of its value. `comma` is the place
    of the comma behind it, or -1.
    """

    name: str
    start: int
    value: Node
    comma: int = -1


def parse_json(text: str) -> Node:
    """Parse the text, which must hold one value. Raises Unreadable."""
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
    blank = _BLANK.match(text, at)
    return blank.end() if blank else at


def _unreadable(text: str, at: int) -> Unreadable:
    line = text.count("\n", 0, at) + 1
    rest = text[at : at + 20].split("\n", maxsplit=1)[0].strip()
    return Unreadable(f"line {line}: not JSON" + (f" at `{rest}`" if rest else ": it ends early"))


def _parse_value(text: str, at: int) -> tuple[Node, int]:
    mark = text[at : at + 1]
    if mark in JSON_ENDS:
        return _parse_parts(text, at, mark)
    match = _STRING.match(text, at) or _WORD.match(text, at)
    if match is None:
        raise _unreadable(text, at)
    try:
        json.loads(match[0])
    except ValueError:
        raise _unreadable(text, at) from None
    return Node(at, match.end(), "value"), match.end()


def _parse_parts(text: str, start: int, mark: str) -> tuple[Node, int]:
    node, at = Node(start, start, mark), _skip(text, start + 1)
    while text[at : at + 1] != JSON_ENDS[mark]:
        if node.parts and node.parts[-1].comma < 0:
            raise _unreadable(text, at)
        part_start, name = at, ""
        if mark == "{":
            match = _STRING.match(text, at)
            if match is None:
                raise _unreadable(text, at)
            name, at = _read_name(text, match), _skip(text, match.end())
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


def _read_name(text: str, match: re.Match[str]) -> str:
    try:
        return str(json.loads(match[0]))
    except ValueError:
        raise _unreadable(text, match.start()) from None


def set_member(text: str, path: tuple[str, ...], value: Any) -> str:
    """Return the text of an object with the value under this path of names.

    An equal value keeps its text. If the file has an object there, its other members stay. Raises
    Unreadable.
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
    return update_value(text, path, value)


def add_item(text: str, path: tuple[str, ...], value: Any) -> str:
    """Return the text with the value at the end of the list under this path."""
    text = text if text.strip() else "{}\n"
    node = find_node(text, path)
    if node is None:
        return set_member(text, path, [value])
    if node.kind != "[":
        raise Unreadable(f"line {_line(text, node.start)}: `{'.'.join(path)}` is no list")
    return _insert(text, node, "", value)


def update_value(text: str, path: Path, value: Any) -> str:
    """Return the text with this value under a path that exists.

    Members that `value` does not name stay, also within the items of a list of the same length.
    """
    node = find_node(text, path)
    if node is None or read_json(text, node) == value:
        return text
    if node.kind == "{" and isinstance(value, dict):
        for name, member in value.items():
            node = find_node(text, path)
            if node is not None and _find(node, name) is None:
                text = _insert(text, node, f"{json.dumps(name, ensure_ascii=False)}: ", member)
            else:
                text = update_value(text, (*path, name), member)
        return text
    if node.kind == "[" and isinstance(value, list) and len(value) == len(node.parts):
        for number, item in enumerate(value):
            text = update_value(text, (*path, number), item)
        return text
    new = _render(text, value, _find_indent(text, node.start))
    return text[: node.start] + new + text[node.end :]


def find_node(text: str, path: Path) -> Node | None:
    """Return the node under a path; None if there is none. Raises Unreadable."""
    if not text.strip():
        return None
    node = _root(text)
    for step in path:
        part = _find_part(node, step)
        if part is None:
            return None
        node = part.value
    return node


def remove_part(text: str, path: Path, keep: Callable[[Path], bool]) -> str:
    """Return the text without the member or item under this path. Objects and lists that become
    empty are removed, too, unless `keep` is true for their path.
    """
    node = find_node(text, path[:-1])
    part = _find_part(node, path[-1]) if node is not None else None
    if node is None or part is None:
        return text
    text, outer = _cut(text, node, part), path[:-1]
    node = find_node(text, outer)
    if outer and node is not None and not node.parts and _is_bare(text, node) and not keep(outer):
        return remove_part(text, outer, keep)
    return text


def _find_part(node: Node, step: str | int) -> Part | None:
    if isinstance(step, str):
        return _find(node, step) if node.kind == "{" else None
    return node.parts[step] if node.kind == "[" and step < len(node.parts) else None


def _root(text: str) -> Node:
    node = parse_json(text)
    if node.kind != "{":
        raise Unreadable(f"line {_line(text, node.start)}: no JSON object")
    return node


def _find(node: Node, name: str) -> Part | None:
    # If a name occurs twice, programs read the last member.
    return next((part for part in reversed(node.parts) if part.name == name), None)


def _is_bare(text: str, node: Node) -> bool:
    return not text[node.start + 1 : node.end - 1].strip()


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


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
    """Remove a part, the lines that only it fills, and the comma that is no longer needed."""
    number = node.parts.index(part)
    if part.comma >= 0 and text[part.value.end : part.comma].strip():
        # A comment before the comma does not belong to the part.
        return text[: part.start] + text[part.value.end : part.comma] + text[part.comma + 1 :]
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
    """Return the indentation of the line at this place."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip())]


def _unit(text: str) -> str:
    indented = _INDENT.search(text)
    return indented[1] if indented else "  "


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


# --- taking a change back -----------------------------------------------------------------------

_TOKEN = re.compile(r'\n[ \t]*|[^\S\n]+|"(?:[^"\\\n]|\\.)*"|\w+|.')


def take_back(before: str, written: str, now: str) -> str | None:
    """Return the text as it is now without the change from `before` to `written`; None if another
    program has since changed the same places.

    Unlike a removal of values, this also brings the layout of lists and objects back.
    """
    old, base, new = (_TOKEN.findall(text) for text in (before, written, now))
    places: dict[int, int] = {}
    for at, place, size in SequenceMatcher(None, base, new, autojunk=False).get_matching_blocks():
        places.update((at + step, place + step) for step in range(size))
    changes = SequenceMatcher(None, base, old, autojunk=False).get_opcodes()
    for kind, start, end, old_start, old_end in reversed(changes):
        if kind == "equal":
            continue
        # The changed tokens, and a token on each side.
        around = [places.get(at) for at in range(max(start - 1, 0), min(end + 1, len(base)))]
        first = around[0]
        if first is None or around != list(range(first, first + len(around))):
            return None
        place = first + min(start, 1)
        new[place : place + end - start] = old[old_start:old_end]
    return "".join(new)


def has_same_values(text: str, other: str) -> bool:
    """Return whether two texts have the same values in JSON, or in TOML."""
    for read in (_read_json_text, read_toml):
        try:
            return bool(read(text) == read(other))
        except Unreadable:
            continue
    return False


def _read_json_text(text: str) -> Any:
    return read_json(text, parse_json(text))


# --- TOML ---------------------------------------------------------------------------------------


def read_toml(text: str) -> dict[str, Any]:
    """Return the data of a TOML text. Raises Unreadable."""
    try:
        # Floats stay text, because NaN does not equal itself.
        return tomllib.loads(text, parse_float=str)
    except ValueError as error:
        raise Unreadable(f"not TOML: {error}") from None


def find_table(text: str, path: tuple[str, ...]) -> Any:
    """Return the value under a path of names; None if there is none. Raises Unreadable."""
    value: Any = read_toml(text)
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def set_table(text: str, path: tuple[str, str], values: dict[str, Any]) -> str:
    """Return the text with these strings and lists in the table of this path. Its other keys stay.

    A new table is written at the end. Raises Unreadable.
    """
    table = find_table(text, path)
    if isinstance(table, dict) and table.items() >= values.items():
        return text
    if table is None:
        lines = [f"{key} = {_render_toml(value)}" for key, value in values.items()]
        added = "\n".join((f"[{'.'.join(path)}]", *lines, "")).replace("\n", _line_end(text))
        new = text + _gap(text) + added
        if _is_only_changed(text, new, path, values):
            return new
    sections = _split_sections(text)
    own = [at for at, section in enumerate(sections) if _has_table(section, path)]
    # The section with the table's own header comes first, before its sub-tables.
    own.sort(key=lambda at: not _is_own(sections[at], path, is_exact=True))
    for at in own[:1] or range(len(sections)):
        changed = _edit_section(sections[at], path, values)
        new = "".join((*sections[:at], changed, *sections[at + 1 :]))
        if _is_only_changed(text, new, path, values):
            return new
    raise Unreadable(f"`{path[0]}` takes no table [{'.'.join(path)}]")


def remove_table(text: str, path: tuple[str, str]) -> str:
    """Return the text without the table of this path. Comments on lines of their own stay.

    Raises Unreadable.
    """
    new = ""
    sections = _split_sections(text)
    for section in sections:
        is_own = _is_own(section, path)
        if is_own:
            left = _read_own_comments(section)
        else:
            left = _edit_section(section, path, None) if _has_table(section, path) else section
        if is_own and not left and section is sections[-1]:
            # Remove the empty line above the table, too.
            new = re.sub(r"(?<=\n)[ \t]*\r?\n\Z", "", new)
        new += left
    if find_table(new, path) is not None or not _is_only_changed(text, new, path):
        raise Unreadable(f"[{'.'.join(path)}] cannot be removed without changing other settings")
    return new


def _split_sections(text: str) -> list[str]:
    """Split TOML above each header of a table, so that a change of one table cannot reach another.
    tomlkit edits one section: in a whole file it moves tables that stand apart.

    A line within a value may look like a header. Then the text above it is no valid TOML, and the
    text is not split there.
    """
    sections, start = [], 0
    for match in re.finditer(r"^[ \t]*\[", text, re.MULTILINE):
        if _is_toml(text[start : match.start()]):
            sections.append(text[start : match.start()])
            start = match.start()
    return [*sections, text[start:]]


def _is_toml(text: str) -> bool:
    try:
        return read_toml(text) is not None
    except Unreadable:
        return False


def _has_table(section: str, path: tuple[str, ...]) -> bool:
    return find_table(section, path) is not None


def _is_own(section: str, path: tuple[str, ...], *, is_exact: bool = False) -> bool:
    """True if the section's header names the table, or a table within it (unless `is_exact`)."""
    header = section.split("\n", maxsplit=1)[0].removesuffix("\r")
    if not header.lstrip().startswith("[") or not _has_table(header, path):
        return False
    return not is_exact or find_table(header, path) == {}


def _read_own_comments(section: str) -> str:
    """Return the comments of a section that have lines of their own. Empty lines stay between
    comments below the last key.
    """
    lines = re.findall(r"[^\n]*\n|[^\n]+", section)
    comments: list[str] = []
    for at, line in enumerate(lines):
        if line.lstrip().startswith("#") and _is_toml("".join(lines[:at])):
            comments.append(line)
        elif line.strip():
            comments = [comment for comment in comments if comment.strip()]
        elif comments:
            comments.append(line)
    return "".join(comments)


def _edit_section(section: str, path: tuple[str, str], values: dict[str, Any] | None) -> str:
    """Return the section with the values in the table, or without the table if `values` is None. If
    that fails, the section is unchanged.
    """
    # Imported late, because only clients with a TOML configuration need it.
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    outer, name = path
    try:
        document: Any = tomlkit.parse(section)
        if values is None:
            del document[outer][name]
        else:
            _set_keys(document[outer], name, values)
        new = tomlkit.dumps(document)
    except (TOMLKitError, KeyError, TypeError, ValueError, AttributeError):
        return section
    if "\r\n" in section and not re.search(r"(?<!\r)\n", section):
        new = re.sub(r"(?<!\r)\n", "\r\n", new)
    return new


def _render_toml(value: str | list[str]) -> str:
    # For strings and lists of strings, JSON is valid TOML.
    return json.dumps(value, ensure_ascii=False)


def _set_keys(outer: Any, name: str, values: dict[str, Any]) -> None:
    import tomlkit
    from tomlkit.items import Table

    table = outer.get(name)
    if table is None:
        table = tomlkit.inline_table()
        table.update(values)
        outer[name] = table
        return
    # tomlkit counts comments above the next table to this table: new keys belong before them.
    body = table.value.body if isinstance(table, Table) else []
    n_own = next((at for at in range(len(body), 0, -1) if body[at - 1][0] is not None), 0)
    after, body[n_own:] = body[n_own:], []
    for key, value in values.items():
        if table.get(key) != value:
            table[key] = value
    body.extend(after)


def _is_only_changed(
    text: str, new: str, path: tuple[str, str], values: dict[str, Any] | None = None
) -> bool:
    """True if two TOML texts differ at most in the table of this path, and the table in `new` has
    these values.
    """
    try:
        table = find_table(new, path)
        has_values = isinstance(table, dict) and table.items() >= (values or {}).items()
        others = _drop_table(read_toml(text), path), _drop_table(read_toml(new), path)
    except Unreadable:
        return False
    return others[0] == others[1] and (values is None or has_values)


def _drop_table(data: dict[str, Any], path: tuple[str, str]) -> dict[str, Any]:
    outer, name = path
    tables = data.get(outer)
    if isinstance(tables, dict):
        data[outer] = {key: value for key, value in tables.items() if key != name}
    return {key: value for key, value in data.items() if key != outer or value}


def _gap(text: str) -> str:
    """Return the line ends that put an empty line between a text and an addition."""
    end = _line_end(text)
    return "" if not text.strip() else end if text.endswith("\n") else end * 2


# --- prose --------------------------------------------------------------------------------------

_OLD_MARKS = re.compile(
    r"^[ \t]*(?:# memsyncd: (?:begin \(memsyncd integrate\)|end)"
    r"|<!-- memsyncd: (?:begin \(memsyncd integrate\)|end) -->)[ \t]*(?:\r?\n|\Z)",
    re.MULTILINE,
)


def remove_marks(text: str) -> str:
    """Return the text without the comments that an earlier memsyncd wrote around its pieces."""
    return _OLD_MARKS.sub("", text)


def has_prose(text: str, prose: str) -> bool:
    """True if the text has each sentence, with line breaks at any place."""
    return all(re.search(pattern, text) for pattern in _sentences(prose))


def add_prose(text: str, prose: str) -> str:
    """Return the text with this section at its end, unless it has each sentence already."""
    if has_prose(text, prose):
        return text
    text = remove_prose(text, prose)
    return text + _gap(text) + prose.replace("\n", _line_end(text))


def remove_prose(text: str, prose: str) -> str:
    """Return the text without the sentences of this section, and without its heading if nothing
    else is below it. Sentences of others in between stay.
    """
    for start, end in reversed(_find_prose(text, prose)):
        line_start = text.rfind("\n", 0, start) + 1
        rest = re.compile(r"[ \t]*(?:\r?\n|\Z)").match(text, end)
        if text[line_start:start].strip() or rest is None:
            # The sentence is in the middle of a line: remove one space with it.
            text = text[:start] + text[end:].removeprefix(" ")
            continue
        above = re.sub(r"(?<=\n)[ \t]*\r?\n\Z", "", text[:line_start])
        text = above + text[rest.end() :]
    return text


def _find_prose(text: str, prose: str) -> list[tuple[int, int]]:
    """Return the places of the sentences, in order. Neighbouring sentences are one place."""
    places = sorted(
        match.span() for pattern in _sentences(prose) for match in re.finditer(pattern, text)
    )
    heading = re.escape(prose.split("\n", maxsplit=1)[0])
    spans: list[tuple[int, int]] = []
    for start, end in places:
        if spans and not text[spans[-1][1] : start].strip():
            spans[-1] = (spans[-1][0], end)
            continue
        above = re.search(rf"^{heading}\s+\Z", text[:start], re.MULTILINE)
        spans.append((above.start() if above else start, end))
    return spans


def _sentences(prose: str) -> Iterator[str]:
    """Yield a pattern for each sentence below the heading."""
    body = prose.split("\n", maxsplit=1)[1]
    for sentence in re.split(r"(?<=\.)\s+", body.strip()):
        yield r"\s+".join(re.escape(word) for word in sentence.split())
