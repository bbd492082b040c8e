"""What has the user configured? A file and an environment in, a checked Config out, with the origin of every value.

Environment wins over file, file over default. A value that cannot be is refused with its line, or its variable, and the
remedy; nothing is clamped or guessed. Reloading is the daemon's work. A workspace's own files configure nothing.
"""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, get_args, get_origin

import msgspec
from msgspec import Struct

from memsyncd.config.keys import ARRAYS, ENV_PREFIX, SECTIONS, Config, KindConfig, WorkspaceConfig, env_twin, find_keys
from memsyncd.config.text import read_config_text
from memsyncd.core.changes.watchplan import find_include_refusal
from memsyncd.core.globs import find_glob_refusal
from memsyncd.core.notepath import find_refusal as find_path_refusal
from memsyncd.core.notepath import is_markdown
from memsyncd.dirs import CONFIG_VARIABLE, SOCKET_VARIABLES, expand_home
from memsyncd.errors import BadConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from memsyncd.config.text import ConfigText


_TYPE_WORDS = {
    "array": "a list",
    "bool": "true or false",
    "float": "a number",
    "int": "a whole number",
    "object": "a table",
    "str": "text",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A configuration, and where each of its keys (`sync.debounce_ms`, `workspace.0.path`) got its value.

    An origin is `default`, `env:NAME` or `FILE:LINE`. `warnings` are sentences: what was ignored, and why.
    """

    path: str
    is_file_found: bool
    config: Config
    origins: Mapping[str, str]
    warnings: tuple[str, ...]


def load_config(path: str, env: Mapping[str, str]) -> Loaded:
    """Read the file at `path` and the `MEMSYNCD_…` variables of `env`.

    A missing file means defaults, unless `MEMSYNCD_CONFIG` asked for it. Raises BadConfig whose message has a line for each
    thing that is wrong (so has `lines` in its data); the caller keeps what it had.
    """
    text = read_config_text(path, is_required=bool(env.get(CONFIG_VARIABLE)))
    reading = _Reading(text, env)
    config = reading.read()
    if reading.wrongs:
        lines = [" ".join(wrong.splitlines()) for wrong in reading.wrongs]
        raise BadConfig("\n".join(lines), hint="mend this, then run `memsyncd config check`", lines=lines)
    return Loaded(
        path=path,
        is_file_found=text.is_found,
        config=config,
        origins=reading.origins,
        warnings=tuple(_find_unknown_variables(env)),
    )


class _Reading:
    """One pass over a file's tables and the environment, gathering what is wrong instead of stopping at the first."""

    def __init__(self, text: ConfigText, env: Mapping[str, str]) -> None:
        self.wrongs: list[str] = []
        self.origins: dict[str, str] = {}
        self._text = text
        self._env = env

    def read(self) -> Config:
        for name in self._text.tables:
            if name not in SECTIONS and name not in ARRAYS:
                self._refuse(name, f"no such section{_nearest(name, (*SECTIONS, *ARRAYS))}")
        sections = {name: self._read_section(name, kind) for name, kind in SECTIONS.items()}
        if isinstance(path := sections["socket"].get("path"), str) and path:
            sections["socket"]["path"] = self._read_absolute("socket.path", path)
        kinds = [self._read_kind(prefix, table) for prefix, table in self._find_tables("kind", "kind of memory")]
        workspaces = [self._read_workspace(prefix, table) for prefix, table in self._find_tables("workspace", "folder")]
        if self.wrongs:
            return Config()
        config = msgspec.convert({**sections, "kind": kinds, "workspace": workspaces}, Config)
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
            if (given := self._env.get(env_twin(key))) is not None:
                self._read_twin(key, given, field.type, values)
        return values

    def _read_twin(self, key: str, given: str, kind: object, values: dict[str, object]) -> None:
        name = env_twin(key)
        try:
            values[key.partition(".")[2]] = msgspec.convert(given.strip(), kind, strict=False)
        except msgspec.ValidationError as error:
            self.wrongs.append(f"{name}={given!r}: {_say_wrong(error, kind)}")
        self.origins[key] = f"env:{name}"

    def _read_table(self, prefix: str, table: dict[str, object], kind: type[Struct]) -> dict[str, object]:
        fields = {field.name: field for field in msgspec.structs.fields(kind)}
        values: dict[str, object] = {}
        for name, value in table.items():
            key = f"{prefix}.{name}"
            if name not in fields:
                self._refuse(key, f"no such key{_nearest(name, fields)}")
                continue
            try:
                values[name] = msgspec.convert(value, fields[name].type)
            except msgspec.ValidationError as error:
                self._refuse(key, _say_wrong(error, fields[name].type))
            self.origins[key] = f"{self._text.path}:{self._text.find_line(key)}"
        return values

    def _find_tables(self, name: str, what: str) -> list[tuple[str, dict[str, object]]]:
        """The tables `[[name]]`, each with what its keys begin with."""
        tables = self._text.tables.get(name, [])
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            self._refuse(name, f"write `[[{name}]]`, in double brackets, once for each {what}")
            return []
        return [(f"{name}.{index}", table) for index, table in enumerate(tables)]

    def _read_kind(self, prefix: str, table: dict[str, object]) -> dict[str, object]:
        values = self._read_table(prefix, table, KindConfig)
        if missing := [field for field in KindConfig.__struct_fields__ if field not in table]:
            self._refuse(prefix, f"a kind needs `name`, `note` and `importance`; there is no `{missing[0]}`")
        if isinstance(note := values.get("note"), str) and (refusal := _find_note_refusal(note)):
            self._refuse(f"{prefix}.note", f"{note!r}: {refusal}")
        if isinstance(name := values.get("name"), str):
            values["name"] = name.lower()
        return values

    def _read_workspace(self, prefix: str, table: dict[str, object]) -> dict[str, object]:
        values = self._read_table(prefix, table, WorkspaceConfig)
        for field in msgspec.structs.fields(WorkspaceConfig):
            self.origins.setdefault(f"{prefix}.{field.name}", "default")
        if "path" not in table:
            self._refuse(prefix, 'a workspace needs `path = "…"`, the folder')
        if isinstance(path := values.get("path"), str):
            values["path"] = self._read_absolute(f"{prefix}.path", path)
        for name, find_refusal in (("include", find_include_refusal), ("exclude", find_glob_refusal)):
            self._check_globs(f"{prefix}.{name}", values.get(name, ()), find_refusal)
        links = values.get("allow_links_to", ())
        if isinstance(links, tuple):
            values["allow_links_to"] = tuple(self._read_absolute(f"{prefix}.allow_links_to", link) for link in links)
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

    def _check_together(self, config: Config) -> None:
        sync, chunking = config.sync, config.chunking
        if sync.debounce_ms > sync.max_wait_ms:
            wrong = f"debounce_ms ({sync.debounce_ms}) is more than max_wait_ms ({sync.max_wait_ms})"
            self._refuse(self._find_given("sync.debounce_ms", "sync.max_wait_ms"), wrong)
        if chunking.overlap >= chunking.max_tokens:
            wrong = f"overlap ({chunking.overlap}) is not less than max_tokens ({chunking.max_tokens})"
            self._refuse(self._find_given("chunking.overlap", "chunking.max_tokens"), wrong)
        self._check_twins("kind", "name", [kind.name for kind in config.kind])
        self._check_twins("workspace", "path", [workspace.path for workspace in config.workspace])
        self._check_twins("workspace", "name", [workspace.name for workspace in config.workspace])

    def _check_twins(self, table: str, name: str, values: list[str]) -> None:
        for index, value in enumerate(values):
            if value and value in values[:index]:
                self._refuse(f"{table}.{index}.{name}", f"{value!r} is the {name} of another {table} above")

    def _find_given(self, *keys: str) -> str:
        """Of keys that do not go together, the first that somebody wrote: defaults do."""
        return next(key for key in keys if self.origins[key] != "default")

    def _refuse(self, key: str, wrong: str) -> None:
        origin = self.origins.get(key, "default")
        place = f"{self._text.path}:{self._text.find_line(key)}" if origin == "default" else origin.removeprefix("env:")
        self.wrongs.append(f"{place}: {key}: {wrong}")


def _find_note_refusal(note: str) -> str:
    """Why memories cannot go there: it is no path beneath a root, or plain text, which has no sections."""
    return find_path_refusal(note) or ("" if is_markdown(note) else "it does not end in .md")


def _nearest(name: str, known: Mapping[str, object] | tuple[str, ...]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean `{near[0]}`?" if near else f"; there are {', '.join(f'`{one}`' for one in known)}"


def _say_wrong(error: msgspec.ValidationError, kind: object) -> str:
    """Msgspec's sentence in the words of a TOML file; of a closed word, the words there are."""
    kind = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    if get_origin(kind) is Literal:
        return f"expected one of {', '.join(map(json.dumps, get_args(kind)))}"
    sentence = str(error).partition(" - at `$")[0]
    for name, words in _TYPE_WORDS.items():
        sentence = sentence.replace(f"`{name}`", words)
    return sentence[:1].lower() + sentence[1:]


def _find_unknown_variables(env: Mapping[str, str]) -> Iterator[str]:
    known = {env_twin(key) for key, _ in find_keys()} | {CONFIG_VARIABLE, *SOCKET_VARIABLES}
    sections = tuple(ENV_PREFIX + section.upper() + "_" for section in SECTIONS)
    for name in sorted(env):
        if name.startswith(sections) and name not in known:
            yield f"{name} is ignored: no key has this variable{_nearest(name, tuple(sorted(known)))}"
