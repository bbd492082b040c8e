"""Load the configuration from a TOML file and environment variables, with each value's origin.

An environment variable overrides the file, the file overrides the default. An invalid value is
refused with its line, or its variable, and a remedy; no value is clamped or guessed. Files in a
workspace configure nothing.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import stat
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

import msgspec
from msgspec import Struct

from memsyncd.config import (
    ARRAYS,
    ENV_PREFIX,
    SECTIONS,
    TABLES,
    Config,
    SourceConfig,
    StepConfig,
    WorkspaceConfig,
    env_variable,
    find_keys,
    parse_listen,
)
from memsyncd.core.changes.watchplan import find_include_refusal
from memsyncd.core.editing.kinds import DEFAULT_KINDS, OTHER_KINDS, KindDefaults, is_kind
from memsyncd.core.paths import find_file_glob_refusal, find_glob_refusal, is_markdown
from memsyncd.core.paths import find_refusal as find_path_refusal
from memsyncd.dirs import CONFIG_VARIABLE, SOCKET_VARIABLES, expand_home
from memsyncd.errors import BadConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


_TYPE_WORDS = {
    "array": "a list",
    "bool": "true or false",
    "float": "a number",
    "int": "a whole number",
    "object": "a table",
    "str": "text",
}
# Pairs of keys in a section: the first may not be greater than the second; the words of the error.
_ORDERED = (
    ("sync", "debounce_ms", "max_wait_ms", "more than"),
    ("chunking", "overlap", "max_tokens", "not less than"),
    ("memory", "warm_from", "hot_from", "more than"),
)

# In earlier versions memsyncd itself ran a model from a folder.
FOLDER_EMBEDDER = (
    '"folder" is no embedder any more: write embedder = "fastembed", the name of the model as'
    " `model`, and the folder with the model as ONNX as `model_folder`"
)


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration, and the origin of each of its keys (`sync.debounce_ms`, `workspace.0.path`).

    An origin is `default`, `env:NAME` or `FILE:LINE`. `warnings` are sentences about variables that
    are ignored.
    """

    path: str
    is_file_found: bool
    config: Config
    origins: Mapping[str, str]
    warnings: tuple[str, ...]


def load_config(path: str, env: Mapping[str, str]) -> Loaded:
    """Load the file at `path` and the `MEMSYNCD_…` variables of `env`.

    A missing file means defaults, unless `MEMSYNCD_CONFIG` names it. Raises BadConfig; its message
    has a line for each error, and its data has the same lines as `lines`.
    """
    text = read_config_file(path, is_required=bool(env.get(CONFIG_VARIABLE)))
    loader = _Loader(text, env)
    config = loader.read()
    if loader.errors:
        lines = [" ".join(error.splitlines()) for error in loader.errors]
        raise BadConfig(
            "\n".join(lines), hint="correct this, then run `memsyncd config check`", lines=lines
        )
    return Loaded(
        path=path,
        is_file_found=text.is_found,
        config=config,
        origins=loader.origins,
        warnings=tuple(_find_unknown_variables(env)),
    )


class _Loader:
    """Reads a file's tables and the environment once, and collects all errors."""

    def __init__(self, text: ConfigFile, env: Mapping[str, str]) -> None:
        self.errors: list[str] = []
        self.origins: dict[str, str] = {}
        self._text = text
        self._env = env

    def read(self) -> Config:
        for name in self._text.tables:
            names = (*SECTIONS, *TABLES, *ARRAYS)
            if name not in names:
                self._refuse(name, f"no such section{_suggest(name, names)}")
        sections = {name: self._read_section(name, kind) for name, kind in SECTIONS.items()}
        if isinstance(path := sections["socket"].get("path"), str) and path:
            sections["socket"]["path"] = self._read_absolute("socket.path", path)
        if isinstance(listen := sections["http"].get("listen"), str) and listen:
            self._check_listen(listen)
        semantic = sections["semantic"]
        if isinstance(folder := semantic.get("model_folder"), str) and folder:
            semantic["model_folder"] = self._read_absolute("semantic.model_folder", folder)
        kinds = self._read_kinds()
        steps = [
            self._read_step(prefix, table)
            for prefix, table in self._find_tables("step", "step of a run")
        ]
        sources = [
            self._read_source(prefix, table)
            for prefix, table in self._find_tables("source", "file of a project")
        ]
        workspaces = [
            self._read_workspace(prefix, table)
            for prefix, table in self._find_tables("workspace", "folder")
        ]
        if self.errors:
            return Config()
        tables = {"kinds": kinds, "step": steps, "source": sources, "workspace": workspaces}
        config = msgspec.convert({**sections, **tables}, Config)
        self._check_together(config)
        return config

    def _read_section(self, section: str, kind: type[Struct]) -> dict[str, object]:
        table = self._text.tables.get(section, {})
        if not isinstance(table, dict):
            self._refuse(section, f"this is a section: write `[{section}]` with its keys below")
            return {}
        values = self._read_table(section, table, kind)
        for field in msgspec.structs.fields(kind):
            key = f"{section}.{field.name}"
            self.origins.setdefault(key, "default")
            if (text := self._env.get(env_variable(key))) is not None:
                self._read_variable(key, text, field.type, values)
        return values

    def _read_variable(self, key: str, text: str, kind: object, values: dict[str, object]) -> None:
        name = env_variable(key)
        try:
            values[key.partition(".")[2]] = msgspec.convert(text.strip(), kind, strict=False)
        except msgspec.ValidationError as error:
            self.errors.append(f"{name}={text!r}: {_describe_error(error, kind)}")
        self.origins[key] = f"env:{name}"

    def _read_table(
        self, prefix: str, table: dict[str, object], kind: type[Struct]
    ) -> dict[str, object]:
        fields = {field.name: field for field in msgspec.structs.fields(kind)}
        values: dict[str, object] = {}
        for name, value in table.items():
            key = f"{prefix}.{name}"
            if name not in fields:
                self._refuse(key, f"no such key{_suggest(name, fields)}")
                continue
            try:
                values[name] = msgspec.convert(value, fields[name].type)
            except msgspec.ValidationError as error:
                self._refuse(key, _describe_error(error, fields[name].type))
            self.origins[key] = f"{self._text.path}:{self._text.find_line(key)}"
        return values

    def _find_tables(self, name: str, what: str) -> list[tuple[str, dict[str, object]]]:
        """Return the tables `[[name]]`, each with the prefix of its keys."""
        tables = self._text.tables.get(name, [])
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            self._refuse(name, f"write `[[{name}]]`, in double brackets, once for each {what}")
            return []
        return [(f"{name}.{index}", table) for index, table in enumerate(tables)]

    def _read_kinds(self) -> dict[str, KindDefaults]:
        """Return the predefined kinds with the keys from the file, and the file's other kinds."""
        tables = self._text.tables.get("kinds", {})
        if not isinstance(tables, dict):
            self._refuse("kinds", "write `[kinds.NAME]` once for each kind of memory")
            return {}
        kinds = {**DEFAULT_KINDS}
        names: set[str] = set()
        for written, table in tables.items():
            prefix, name = f"kinds.{written}", written.lower()
            if not isinstance(table, dict):
                self._refuse(prefix, f"this is a table: write `[{prefix}]` with its keys below")
            elif not is_kind(written):
                self._refuse(prefix, "not one word of letters, digits, `_` and `-`")
            elif name in names:
                self._refuse(prefix, f"{name!r} is the name of another kind above")
            else:
                kinds[name] = self._read_kind(prefix, table, kinds.get(name, OTHER_KINDS))
                for key in table:
                    origin = self.origins.get(f"{prefix}.{key}", "default")
                    self.origins[f"kinds.{name}.{key}"] = origin
            names.add(name)
        return kinds

    def _read_kind(
        self, prefix: str, table: dict[str, object], before: KindDefaults
    ) -> KindDefaults:
        values: dict[str, Any] = self._read_table(prefix, table, KindDefaults)
        note = values.get("append_to")
        if isinstance(note, str) and (refusal := _find_note_refusal(note)):
            self._refuse(f"{prefix}.append_to", f"{note!r}: {refusal}")
        return msgspec.structs.replace(before, **values)

    def _read_step(self, prefix: str, table: dict[str, object]) -> dict[str, object]:
        values = self._read_table(prefix, table, StepConfig)
        if missing := [field for field in StepConfig.__struct_fields__ if field not in table]:
            self._refuse(prefix, f"a step needs `name` and `kind`; there is no `{missing[0]}`")
        kind = values.get("kind")
        if isinstance(kind, str) and not is_kind(kind):
            message = f"{kind!r}: not one word of letters, digits, `_` and `-`, such as decision"
            self._refuse(f"{prefix}.kind", message)
        return {name: value.lower() for name, value in values.items() if isinstance(value, str)}

    def _read_source(self, prefix: str, table: dict[str, object]) -> dict[str, object]:
        values = self._read_table(prefix, table, SourceConfig)
        if "path" not in table:
            self._refuse(prefix, 'a source needs `path = "…"`, a file of a project')
        path = values.get("path")
        if isinstance(path, str) and (refusal := find_file_glob_refusal(path)):
            self._refuse(f"{prefix}.path", f"{path!r}: {refusal}")
        return values

    def _read_workspace(self, prefix: str, table: dict[str, object]) -> dict[str, object]:
        values = self._read_table(prefix, table, WorkspaceConfig)
        for field in msgspec.structs.fields(WorkspaceConfig):
            self.origins.setdefault(f"{prefix}.{field.name}", "default")
        if "path" not in table:
            self._refuse(prefix, 'a workspace needs `path = "…"`, the folder')
        if isinstance(path := values.get("path"), str):
            values["path"] = self._read_absolute(f"{prefix}.path", path)
        for name, find_refusal in (
            ("include", find_include_refusal),
            ("read_only", find_include_refusal),
            ("exclude", find_glob_refusal),
        ):
            self._check_globs(f"{prefix}.{name}", values.get(name, ()), find_refusal)
        links = values.get("allow_links_to", ())
        if isinstance(links, tuple):
            values["allow_links_to"] = tuple(
                self._read_absolute(f"{prefix}.allow_links_to", link) for link in links
            )
        return values

    def _check_globs(self, key: str, patterns: object, find_refusal: Callable[[str], str]) -> None:
        for pattern in patterns if isinstance(patterns, tuple) else ():
            if refusal := find_refusal(pattern):
                self._refuse(key, f"{pattern!r}: {refusal}")

    def _read_absolute(self, key: str, path: str) -> str:
        expanded = expand_home(path, self._env.get("HOME", ""))
        if not expanded.startswith("/") or "\0" in expanded:
            self._refuse(key, f"{path!r} is not an absolute path: begin it with / or ~/")
        return expanded.rstrip("/") or "/"

    def _check_listen(self, listen: str) -> None:
        try:
            parse_listen(listen)
        except ValueError as error:
            self._refuse("http.listen", str(error))

    def _check_together(self, config: Config) -> None:
        key, mistake = config.semantic.find_mistake()
        if key:
            self._refuse(f"semantic.{key}", mistake)
        for section, low, high, relation in _ORDERED:
            policy = getattr(config, section)
            least, most = getattr(policy, low), getattr(policy, high)
            if least > most or (least == most and relation == "not less than"):
                keys = (f"{section}.{low}", f"{section}.{high}")
                configured = next(key for key in keys if self.origins[key] != "default")
                self._refuse(configured, f"{low} ({least}) is {relation} {high} ({most})")
        memory = config.memory
        if refusal := _find_note_refusal(memory.promote_to):
            self._refuse("memory.promote_to", f"{memory.promote_to!r}: {refusal}")
        self._check_unique("step", "name", [step.name for step in config.step])
        self._check_unique("source", "path", [source.path for source in config.source])
        self._check_unique("workspace", "path", [workspace.path for workspace in config.workspace])
        self._check_unique("workspace", "name", [workspace.name for workspace in config.workspace])
        self._check_user_wide(config)

    def _check_user_wide(self, config: Config) -> None:
        chosen = [index for index, workspace in enumerate(config.workspace) if workspace.user]
        for index in chosen[1:]:
            message = "another workspace above is user-wide: leave this out"
            self._refuse(f"workspace.{index}.user", message)
        for index in chosen:
            if config.workspace[index].preset == "claude-code":
                message = "projects cannot be user-wide: name one folder of notes"
                self._refuse(f"workspace.{index}.user", message)

    def _check_unique(self, table: str, name: str, values: list[str]) -> None:
        for index, value in enumerate(values):
            if value and value in values[:index]:
                self._refuse(
                    f"{table}.{index}.{name}", f"{value!r} is the {name} of another {table} above"
                )

    def _refuse(self, key: str, message: str) -> None:
        origin = self.origins.get(key, "default")
        place = (
            f"{self._text.path}:{self._text.find_line(key)}"
            if origin == "default"
            else origin.removeprefix("env:")
        )
        self.errors.append(f"{place}: {key}: {message}")


def _find_note_refusal(note: str) -> str:
    """Return why memories cannot be written to a note; empty if they can.

    The path may not be below a root, or the file type may have no sections.
    """
    return find_path_refusal(note) or ("" if is_markdown(note) else "it does not end in .md")


def _suggest(name: str, names: Mapping[str, object] | tuple[str, ...]) -> str:
    matches = difflib.get_close_matches(name, list(names), n=1)
    return (
        f"; did you mean `{matches[0]}`?"
        if matches
        else f"; there are {', '.join(f'`{each}`' for each in names)}"
    )


def _describe_error(error: msgspec.ValidationError, kind: object) -> str:
    """Translate msgspec's message into the terms of a TOML file; for a Literal, list its values."""
    kind = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    if get_origin(kind) is Literal:
        if str(error).endswith(" 'folder'") and "fastembed" in get_args(kind):
            return FOLDER_EMBEDDER
        return f"expected one of {', '.join(map(json.dumps, get_args(kind)))}"
    sentence = str(error).partition(" - at `$")[0]
    for name, words in _TYPE_WORDS.items():
        sentence = sentence.replace(f"`{name}`", words)
    return sentence[:1].lower() + sentence[1:]


def _find_unknown_variables(env: Mapping[str, str]) -> Iterator[str]:
    variables = {env_variable(key) for key, _ in find_keys()} | {CONFIG_VARIABLE, *SOCKET_VARIABLES}
    sections = tuple(ENV_PREFIX + section.upper() + "_" for section in SECTIONS)
    for name in sorted(env):
        if name.startswith(sections) and name not in variables:
            suggestion = _suggest(name, tuple(sorted(variables)))
            yield f"{name} is ignored: no key has this variable{suggestion}"


# --- rendering ----------------------------------------------------------------------------------


def render_config(loaded: Loaded) -> str:
    """Render the whole configuration as TOML, each line with its origin.

    If it is loaded, it gives the same configuration.
    """
    lines = [
        f"# {loaded.path}"
        + ("" if loaded.is_file_found else " (no such file: defaults and environment)")
    ]
    for section in SECTIONS:
        lines += [
            "",
            f"[{section}]",
            *_render_keys(getattr(loaded.config, section), section, loaded.origins),
        ]
    for name, kind in loaded.config.kinds.items():
        if kind != DEFAULT_KINDS.get(name):
            written = name if name.isascii() else _render_value(name)
            keys = _render_keys(kind, f"kinds.{name}", loaded.origins)
            lines += ["", f"[kinds.{written}]", *keys]
    for name in ARRAYS:
        for index, table in enumerate(getattr(loaded.config, name)):
            lines += ["", f"[[{name}]]", *_render_keys(table, f"{name}.{index}", loaded.origins)]
    return "\n".join(lines) + "\n"


def _render_keys(values: msgspec.Struct, prefix: str, origins: Mapping[str, str]) -> Iterator[str]:
    for field in msgspec.structs.fields(type(values)):
        text = f"{field.name} = {_render_value(getattr(values, field.name))}"
        yield f"{text:<40}  # {origins.get(f'{prefix}.{field.name}', 'default')}"


def _render_value(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_render_value, value))}]"
    # JSON's strings, numbers and booleans are valid TOML, except that TOML requires DEL to be
    # escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


# --- TOML with the lines of its keys ------------------------------------------------------------

FILE_LIMIT_BYTES = 256 * 1024
_CLOSING_MARKS = ("]", "}", '"""', "'''")


@dataclass(frozen=True, kw_only=True)
class ConfigFile:
    """The content of a configuration file; empty if there is no file."""

    path: str
    is_found: bool
    text: str
    tables: dict[str, Any]

    def find_line(self, key: str) -> int:
        """Return the 1-based line of `section.key` or `workspace.0.key`.

        If the file has no such key, return the line of its section; without a section, 1.
        """
        while key:
            if line := self._lines.get(key):
                return line
            key = key.rpartition(".")[0]
        return 1

    @cached_property
    def _lines(self) -> dict[str, int]:
        lines: dict[str, int] = {}
        for key, line in _find_key_lines(self.text):
            lines.setdefault(key, line)
        return lines


def read_config_file(path: str, *, is_required: bool) -> ConfigFile:
    """Read the file. Raises BadConfig if it cannot be read or is not TOML.

    With `is_required`, a missing file raises BadConfig too.
    """
    data = _read_bytes(path, is_required=is_required)
    if data is None:
        return ConfigFile(path=path, is_found=False, text="", tables={})
    import tomllib

    text = _decode(path, data)
    try:
        return ConfigFile(path=path, is_found=True, text=text, tables=tomllib.loads(text))
    # A number of 5,000 digits raises ValueError, deeply nested brackets raise RecursionError.
    except (ValueError, RecursionError) as error:
        raise BadConfig(
            f"{path}:{_find_error_line(error, text)}: not TOML: {error}", hint="correct this line"
        ) from None


def _decode(path: str, data: bytes) -> str:
    try:
        # Windows editors put a byte order mark first, which TOML does not allow.
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise BadConfig(f"{path}:{line}: not UTF-8", hint="save the file as UTF-8") from None


def _read_bytes(path: str, *, is_required: bool) -> bytes | None:
    try:
        # Without O_NONBLOCK, opening a FIFO blocks until another process writes to it.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            _check_file(path, os.fstat(file.fileno()))
            data = file.read(FILE_LIMIT_BYTES + 1)
    except FileNotFoundError:
        if is_required:
            raise BadConfig(
                f"{path}: no such file", hint="create it, or name another file (MEMSYNCD_CONFIG)"
            ) from None
        return None
    except OSError as error:
        raise BadConfig(
            f"{path}: {error.strerror}", hint="make it a readable file, or remove it"
        ) from None
    if len(data) > FILE_LIMIT_BYTES:
        raise BadConfig(
            f"{path}: over {FILE_LIMIT_BYTES} bytes", hint="this is not a configuration of memsyncd"
        )
    return data


def _check_file(path: str, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode) and path != os.devnull:
        raise BadConfig(f"{path}: not a regular file", hint="make it a readable file, or remove it")
    # A user who can write this file decides which folders are read.
    if stat.S_ISREG(status.st_mode) and status.st_mode & stat.S_IWOTH:
        raise BadConfig(f"{path}: any user may write to it", hint=f"chmod go-w {path}")


def _find_error_line(error: Exception, text: str) -> int:
    place = re.search(r"at line (\d+)", str(error))
    return int(place[1]) if place else text.count("\n") + 1


def _find_key_lines(text: str) -> Iterator[tuple[str, int]]:
    """Yield every key of a valid file, as `table.key`, with its line.

    Tables in an array are numbered from 0. The file is split into statements: each is the smallest
    number of lines that the TOML parser accepts alone.
    """
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


class _Header(msgspec.Struct, frozen=True):
    names: tuple[str, ...]
    is_array: bool


class _Assignment(msgspec.Struct, frozen=True):
    table: dict[str, Any]


def _find_statements(text: str) -> Iterator[tuple[int, _Header | _Assignment]]:
    lines = text.split("\n")
    first = 0
    while first < len(lines):
        last = first + 1
        while (table := _parse_or_none("\n".join(lines[first:last]))) is None and last < len(lines):
            last = _find_possible_end(lines, last)
        if table:
            is_header = lines[first].lstrip().startswith("[")
            yield first + 1, _read_header(table) if is_header else _Assignment(table)
        first = last


def _find_possible_end(lines: list[str], start: int) -> int:
    """Return the end, exclusive, of the next lines that could complete a statement.

    So a list of 1,000 lines is not parsed 1,000 times.
    """
    at = start
    while at < len(lines) - 1 and not any(mark in lines[at] for mark in _CLOSING_MARKS):
        at += 1
    return at + 1


def _parse_or_none(statement: str) -> dict[str, Any] | None:
    import tomllib

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
            for index, item in enumerate(value):
                if isinstance(item, dict):
                    yield from (f"{key}.{index}", *_find_leaves(f"{key}.{index}", item))
