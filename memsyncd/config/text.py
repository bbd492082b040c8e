"""What does a TOML file say, and on which line? Tables as plain data and the line of every key in them.

The line is found by reading the file once more, statement by statement, with the same TOML parser: a statement is the fewest
lines that parse alone. What keys mean is left to `memsyncd.config.load`.
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from memsyncd.errors import BadConfig

if TYPE_CHECKING:
    from collections.abc import Iterator

FILE_LIMIT_BYTES = 256 * 1024
_CLOSING_MARKS = ("]", "}", '"""', "'''")


@dataclass(frozen=True, kw_only=True)
class ConfigText:
    """A configuration file as read. Without a file, an empty one."""

    path: str
    is_found: bool
    text: str
    tables: dict[str, Any]

    def find_line(self, key: str) -> int:
        """The 1-based line of `section.key` or `workspace.0.key`, else that of its section, else 1."""
        while key:
            if line := self._lines.get(key):
                return line
            key = key.rpartition(".")[0]
        return 1

    @cached_property
    def _lines(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for key, line in _find_key_lines(self.text):
            found.setdefault(key, line)
        return found


def read_config_text(path: str, *, is_required: bool) -> ConfigText:
    """Read the file. Raises BadConfig if it cannot be read, is not TOML, or (`is_required`) is not there."""
    data = _read_bytes(path, is_required=is_required)
    if data is None:
        return ConfigText(path=path, is_found=False, text="", tables={})
    text = _decode(path, data)
    try:
        return ConfigText(path=path, is_found=True, text=text, tables=tomllib.loads(text))
    # Besides TOMLDecodeError: a number of 5,000 digits is a plain ValueError, and brackets may nest too deep.
    except (ValueError, RecursionError) as error:
        raise BadConfig(f"{path}:{_find_error_line(error, text)}: not TOML: {error}", hint="mend this line") from None


def _decode(path: str, data: bytes) -> str:
    try:
        # Windows editors put a mark before the first byte, which TOML has no place for.
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise BadConfig(f"{path}:{line}: not UTF-8", hint="save the file as UTF-8") from None


def _read_bytes(path: str, *, is_required: bool) -> bytes | None:
    try:
        # A FIFO would hold up the daemon's start for as long as nobody writes to it.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            _check_file(path, os.fstat(file.fileno()))
            data = file.read(FILE_LIMIT_BYTES + 1)
    except FileNotFoundError:
        if is_required:
            raise BadConfig(f"{path}: no such file", hint="make it, or unset MEMSYNCD_CONFIG") from None
        return None
    except OSError as error:
        raise BadConfig(f"{path}: {error.strerror}", hint="make it a file that you may read, or remove it") from None
    if len(data) > FILE_LIMIT_BYTES:
        raise BadConfig(f"{path}: over {FILE_LIMIT_BYTES} bytes", hint="this is not a configuration of memsyncd")
    return data


def _check_file(path: str, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode) and path != os.devnull:
        raise BadConfig(f"{path}: not a regular file", hint="make it a file that you may read, or remove it")
    # Whoever writes here decides which folders are read.
    if stat.S_ISREG(status.st_mode) and status.st_mode & stat.S_IWOTH:
        raise BadConfig(f"{path}: anybody may write to it", hint=f"chmod o-w {path}")


def _find_error_line(error: Exception, text: str) -> int:
    place = re.search(r"at line (\d+)", str(error))
    return int(place[1]) if place else text.count("\n") + 1


def _find_key_lines(text: str) -> Iterator[tuple[str, int]]:
    """Every key in a file that parses, `table.key`, with its line. Tables in an array are numbered from 0."""
    prefix = ""
    counts: dict[str, int] = {}
    for line, statement in _find_statements(text):
        if not isinstance(statement, _Header):
            yield from ((key, line) for key in _find_leaves(prefix, statement.table))
            continue
        prefix = ".".join(statement.names)
        if statement.is_array:
            counts[prefix] = counts.get(prefix, -1) + 1
            prefix = f"{prefix}.{counts[prefix]}"
        yield prefix, line


@dataclass(frozen=True, slots=True)
class _Header:
    names: tuple[str, ...]
    is_array: bool


@dataclass(frozen=True, slots=True)
class _Pair:
    table: dict[str, Any]


def _find_statements(text: str) -> Iterator[tuple[int, _Header | _Pair]]:
    lines = text.split("\n")
    first = 0
    while first < len(lines):
        last = first + 1
        while (table := _parse_or_none("\n".join(lines[first:last]))) is None and last < len(lines):
            last = _find_possible_end(lines, last)
        if table:
            is_header = lines[first].lstrip().startswith("[")
            yield first + 1, _read_header(table) if is_header else _Pair(table)
        first = last


def _find_possible_end(lines: list[str], start: int) -> int:
    """The end, exclusive, of the next lines that could complete a statement: a list of 1,000 lines is not parsed 1,000 times."""
    at = start
    while at < len(lines) - 1 and not any(mark in lines[at] for mark in _CLOSING_MARKS):
        at += 1
    return at + 1


def _parse_or_none(statement: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(statement)
    except tomllib.TOMLDecodeError:
        return None


def _read_header(table: Any) -> _Header:
    names: list[str] = []
    while isinstance(table, dict) and table:
        name, table = next(iter(table.items()))
        names.append(name)
    return _Header(tuple(names), is_array=isinstance(table, list))


def _find_leaves(prefix: str, table: dict[str, Any]) -> Iterator[str]:
    for name, value in table.items():
        key = f"{prefix}.{name}" if prefix else name
        yield key
        if isinstance(value, dict):
            yield from _find_leaves(key, value)
        elif isinstance(value, list):
            for index, one in enumerate(value):
                if isinstance(one, dict):
                    yield from (f"{key}.{index}", *_find_leaves(f"{key}.{index}", one))
