"""Keep a summary section for each source file of a project in one note, with its provenance.

A section belongs to a source if its metadata has the source's path as `source_path`. `source_hash`
is the digest of the file that the section summarises. While the file is unchanged, the section
stays as it is, with any edits by people. A changed file replaces the section, and a deleted file
removes it. All other bytes of the note stay.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final, Literal

import msgspec

from memsyncd.core.digest import digest_bytes
from memsyncd.core.editing.additions import Addition, append_section, render_section
from memsyncd.core.editing.sections import (
    open_text,
    replace_section,
    split_note_sections,
    write_line_ends,
)
from memsyncd.core.guard.secrets import redact
from memsyncd.core.markdown.decode import decode_note
from memsyncd.core.markdown.frontmatter import find_front_matter, find_section_meta, load_yaml
from memsyncd.core.markdown.scanner import HEADING, split_blocks
from memsyncd.core.markdown.sections import heading_text
from memsyncd.core.paths import is_markdown

INDEX_KIND: Final = "summary"
INDEX_LIFECYCLE: Final = "project"
SOURCE_PATH_KEY: Final = "source_path"
SOURCE_HASH_KEY: Final = "source_hash"
INDEXED_AT_KEY: Final = "indexed_at"

Action = Literal["created", "updated", "unchanged", "removed"]


class Source(msgspec.Struct, frozen=True):
    """Files of a project, and the tags of their summaries. Only the last part of `path` may hold
    wildcards.
    """

    path: str
    tags: tuple[str, ...]


_ARCHITECTURE = "index:architecture"
_CONVENTIONS = "index:conventions"
_COMMANDS = "index:commands"
_INVARIANTS = "index:invariants"

DEFAULT_SOURCES: Final = (
    Source("README.md", (_ARCHITECTURE,)),
    Source("ARCHITECTURE.md", (_ARCHITECTURE, _INVARIANTS)),
    Source("CONTRIBUTING.md", (_CONVENTIONS,)),
    Source("AGENTS.md", (_CONVENTIONS, _INVARIANTS)),
    Source("CLAUDE.md", (_CONVENTIONS, _INVARIANTS)),
    Source("pyproject.toml", (_ARCHITECTURE, _COMMANDS)),
    Source("package.json", (_ARCHITECTURE, _COMMANDS)),
    Source("Cargo.toml", (_ARCHITECTURE, _COMMANDS)),
    Source("Makefile", (_COMMANDS,)),
    Source("justfile", (_COMMANDS,)),
    Source(".github/workflows/*.yml", (_COMMANDS,)),
    Source(".github/workflows/*.yaml", (_COMMANDS,)),
    Source(".gitlab-ci.yml", (_COMMANDS,)),
)


def merge_sources(*groups: Iterable[Source]) -> list[Source]:
    """Return all sources, each path once, with the tags of the last group that names it."""
    merged: dict[str, Source] = {}
    for source in chain(*groups):
        merged[source.path] = source
    return list(merged.values())


class SourceFile(msgspec.Struct, frozen=True):
    """A source as it was read. `data` is None if it could not be read; its section then stays as it
    is.
    """

    path: str
    tags: tuple[str, ...]
    data: bytes | None


class SectionChange(msgspec.Struct, frozen=True):
    """The action on the section of one source."""

    path: str
    action: Action


class _SourceSection(msgspec.Struct, frozen=True):
    anchor: str
    source_hash: str
    tags: tuple[str, ...]


def plan_index(
    path: str, data: bytes | None, files: Sequence[SourceFile], *, at: str
) -> tuple[bytes | None, list[SectionChange]]:
    """Return the note with a current section for each source, and the action on each section.

    `files` are all sources that exist now. `at` is the current time as ISO text. A source with an
    empty summary gets no section. The note is None if it does not exist and is not needed.
    """
    changes: list[SectionChange] = []
    for file in files:
        own_sections = _find_sections(path, data)
        change, data = _update(path, data, file, own_sections.get(file.path), at)
        if change is not None:
            changes.append(change)
    present = {file.path for file in files}
    for source, section in _find_sections(path, data).items():
        if source not in present:
            data = replace_section(path, data or b"", section.anchor, b"")
            changes.append(SectionChange(source, "removed"))
    return data, changes


def _update(
    path: str, data: bytes | None, file: SourceFile, section: _SourceSection | None, at: str
) -> tuple[SectionChange | None, bytes | None]:
    if file.data is None:
        return None, data
    source_hash = digest_bytes(file.data)
    if section is not None and (section.source_hash, section.tags) == (source_hash, file.tags):
        return SectionChange(file.path, "unchanged"), data
    summary = summarize_source(file.path, file.data.decode("utf-8", "replace"))
    if not summary:
        if section is None:
            return None, data
        data = replace_section(path, data or b"", section.anchor, b"")
        return SectionChange(file.path, "removed"), data
    addition = _make_addition(file, summary, source_hash, at)
    if section is None:
        return SectionChange(file.path, "created"), append_section(
            path, data, [addition], at=at
        ).data
    note = open_text(path, data or b"")
    written = "\n".join((*render_section(addition, at), ""))
    by = write_line_ends(written, note.line_end).encode()
    return SectionChange(file.path, "updated"), replace_section(
        path, data or b"", section.anchor, by
    )


def _make_addition(file: SourceFile, summary: str, source_hash: str, at: str) -> Addition:
    return Addition(
        content=summary,
        summary=file.path,
        kind=INDEX_KIND,
        lifecycle=INDEX_LIFECYCLE,
        tags=file.tags,
        source=file.path,
        metadata={SOURCE_PATH_KEY: file.path, SOURCE_HASH_KEY: source_hash, INDEXED_AT_KEY: at},
    )


def _find_sections(path: str, data: bytes | None) -> Mapping[str, _SourceSection]:
    """The sections of sources by the path of the source; if a source has several, the first."""
    sections: dict[str, _SourceSection] = {}
    for source, section in _list_sections(path, data) if data else ():
        sections.setdefault(source, section)
    return sections


def _list_sections(path: str, data: bytes) -> Iterator[tuple[str, _SourceSection]]:
    lines = decode_note(path, data).lines
    for section in split_note_sections(path, data):
        if not section.level:
            continue
        meta, _ = find_section_meta(path, lines, section.start + 1, section.end)
        extra = dict(meta.extra)
        if SOURCE_PATH_KEY in extra:
            source_hash = extra.get(SOURCE_HASH_KEY, "")
            yield extra[SOURCE_PATH_KEY], _SourceSection(section.anchor, source_hash, meta.tags)


# --- Summaries of source files --------------------------------------------------------------------
# The summary is extracted, not written: the same text gives the same summary. Architecture,
# commands and conventions are extracted from known formats. A file of an unknown format, or one
# that cannot be parsed, is quoted from its beginning. Secrets are masked.

SOURCE_SUMMARY_LIMIT_CHARS: Final = 4_000
PARAGRAPH_LIMIT_CHARS: Final = 500
ITEM_LIMIT_CHARS: Final = 200
ITEMS_LIMIT: Final = 40
QUOTED_LINES: Final = 20
YAML_LIMIT_CHARS: Final = 65_536


def summarize_source(path: str, text: str) -> str:
    """Return the summary, at most `SOURCE_SUMMARY_LIMIT_CHARS` characters; empty if the file has
    nothing to extract.
    """
    # Secrets are masked before anything is cut: a part of a secret would not be recognised.
    text = redact(text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n"))
    lines: list[str] = []
    try:
        lines = list(_choose_format(path)(text))
    except (ValueError, msgspec.DecodeError, RecursionError):
        lines = list(_quote(text))
    if not lines and path.lower().endswith((".yml", ".yaml")):
        lines = list(_quote(text))  # YAML that does not describe CI
    return _cut(lines)


def _choose_format(path: str) -> Callable[[str], Iterator[str]]:
    name = path.rpartition("/")[2].lower()
    if name in _FORMATS:
        return _FORMATS[name]
    if is_markdown(name):
        return _read_markdown
    if name.endswith((".yml", ".yaml")):
        return _read_ci
    if name.endswith(".mk"):
        return _read_makefile
    return _quote


def _cut(lines: Sequence[str]) -> str:
    kept: list[str] = []
    n_chars = 0
    for line in lines:
        n_chars += len(line) + 1
        if n_chars > SOURCE_SUMMARY_LIMIT_CHARS - 2:
            kept.append("…")
            break
        kept.append(line)
    return "\n".join(kept).strip("\n") if any(map(str.strip, kept)) else ""


def _quote(text: str) -> Iterator[str]:
    """Yield the first lines that are not blank, as code."""
    lines = [_shorten(line.rstrip(), ITEM_LIMIT_CHARS) for line in text.split("\n") if line.strip()]
    if lines:
        yield from ("    " + line for line in lines[:QUOTED_LINES])


def _shorten(text: str, limit: int) -> str:
    printable = "".join(char if char.isprintable() else " " for char in text)
    return printable if len(printable) <= limit else printable[: limit - 1].rstrip() + "…"


def _one_line(value: object) -> str:
    return _shorten(" ".join(str(value).split()), ITEM_LIMIT_CHARS)


def _code(value: object) -> str:
    text = _one_line(value)
    mark = "``" if "`" in text else "`"
    return f"{mark}{text}{mark}" if mark == "`" else f"{mark} {text} {mark}"


def _item(name: str, value: object) -> Iterator[str]:
    """Yield `- name: value`; nothing for an empty value."""
    text = _one_line(value) if isinstance(value, str | int | float) else ""
    if text:
        yield f"- {name}: {text}"


def _names(name: str, values: object) -> Iterator[str]:
    """Yield `- name: a, b`; nothing if there are no values."""
    listed = [_one_line(value) for value in values] if isinstance(values, list | tuple) else []
    if listed:
        rest = f" and {len(listed) - ITEMS_LIMIT} more" if len(listed) > ITEMS_LIMIT else ""
        yield f"- {name}: {', '.join(listed[:ITEMS_LIMIT])}{rest}"


def _commands(pairs: Mapping[str, object]) -> Iterator[str]:
    for name, value in list(pairs.items())[:ITEMS_LIMIT]:
        yield f"- {_code(name)}: {_one_line(value)}" if _one_line(value) else f"- {_code(name)}"


def _table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


# --- Markdown -------------------------------------------------------------------------------------

_NO_PROSE = re.compile(r"\s*(?:!?\[!?\[|!\[|<|\[[^\]]+\]:|[-=]{3,}\s*$|\|)")
_ITEM_MARK = re.compile(r"\s*(?:[-+*]|\d{1,9}[.)])\s+")


def _read_markdown(text: str) -> Iterator[str]:
    """Yield the first paragraph, then each heading with the beginning of the text under it."""
    lines = list(decode_note("source.md", text.encode(errors="replace")).lines)
    first = find_front_matter("source.md", lines).n_lines
    heads = [block for block in split_blocks(lines, first) if block.kind == HEADING]
    ends = [*(head.start for head in heads), len(lines)]
    opening = _find_prose(lines[first : ends[0]])
    rest = list(zip(heads, ends[1:], strict=True))
    if rest and (rest[0][0].level == 1 or not opening):
        (head, end), rest = rest[0], rest[1:]
        opening = opening or _find_prose(lines[head.end : end])
        title = heading_text(lines, head)
        is_named = opening.casefold().startswith(title.casefold())
        opening = opening if is_named else f"{title}: {opening}" if opening else title
    if opening:
        yield _shorten(opening, PARAGRAPH_LIMIT_CHARS)
        yield ""
    for head, end in rest[:ITEMS_LIMIT]:
        title = _one_line(heading_text(lines, head))
        prose = _shorten(_find_prose(lines[head.end : end]), ITEM_LIMIT_CHARS)
        if title:
            yield f"- **{title}**: {prose}" if prose else f"- **{title}**"


def _find_prose(lines: Sequence[str]) -> str:
    """The first paragraph or list item that is not a badge, image, comment or table."""
    prose: list[str] = []
    is_code = False
    for line in lines:
        if line.lstrip().startswith(("```", "~~~")):
            is_code = not is_code
            if prose:
                break
            continue
        is_prose = not is_code and bool(line.strip()) and not _NO_PROSE.match(line)
        if prose and (not is_prose or _ITEM_MARK.match(line)):
            break
        if is_prose:
            prose.append(_ITEM_MARK.sub("", line, count=1).strip().lstrip("> "))
    return " ".join(" ".join(prose).split())


# --- Manifests ------------------------------------------------------------------------------------


def _title(table: Mapping[str, Any]) -> Iterator[str]:
    name, version = table.get("name"), table.get("version")
    if isinstance(name, str):
        yield f"- name: {_one_line(name)}" + (
            f" {_one_line(version)}" if isinstance(version, str) else ""
        )
    yield from _item("description", table.get("description"))


def _read_pyproject(text: str) -> Iterator[str]:
    whole = tomllib.loads(text)
    project, tools = _table(whole.get("project")), _table(whole.get("tool"))
    poetry = _table(tools.get("poetry"))
    yield from _title(project or poetry)
    yield from _item("Python", project.get("requires-python"))
    yield from _names("dependencies", project.get("dependencies"))
    yield from _names("dependencies", list(_table(poetry.get("dependencies"))))
    yield from _names("extras", list(_table(project.get("optional-dependencies"))))
    yield from _item("build", _table(whole.get("build-system")).get("build-backend"))
    yield from _names("tools configured", list(tools))
    yield from _commands({**_table(project.get("scripts")), **_table(poetry.get("scripts"))})


def _read_package_json(text: str) -> Iterator[str]:
    package = msgspec.json.decode(text, type=dict[str, Any])
    yield from _title(package)
    workspaces = package.get("workspaces")
    packages = _table(workspaces).get("packages", workspaces)
    yield from _names("workspaces", packages)
    for name, version in _table(package.get("engines")).items():
        yield from _item(_one_line(name), version)
    yield from _item("package manager", package.get("packageManager"))
    yield from _names("dependencies", list(_table(package.get("dependencies"))))
    yield from _names("development dependencies", list(_table(package.get("devDependencies"))))
    scripts = _table(package.get("scripts"))
    yield from _commands({f"npm run {name}": command for name, command in scripts.items()})


def _read_cargo(text: str) -> Iterator[str]:
    whole = tomllib.loads(text)
    package, workspace = _table(whole.get("package")), _table(whole.get("workspace"))
    yield from _title(package)
    yield from _item("edition", package.get("edition"))
    yield from _item("Rust", package.get("rust-version"))
    yield from _names("workspace members", workspace.get("members"))
    yield from _names("features", list(_table(whole.get("features"))))
    yield from _names("dependencies", list(_table(whole.get("dependencies"))))
    binaries = whole.get("bin")
    if isinstance(binaries, list):
        yield from _names("programs", [_table(binary).get("name", "") for binary in binaries])


# --- Commands -------------------------------------------------------------------------------------

_TARGET = re.compile(r"([A-Za-z0-9][\w./-]*)\s*:(?![=:])([^#]*)(?:#+\s*(.*))?$")
_RECIPE = re.compile(r"([A-Za-z_][\w-]*)(?:\s+[^:=]*)?:(?!=)")


def _read_makefile(text: str) -> Iterator[str]:
    return _commands(_find_targets(text, _TARGET, "make"))


def _read_justfile(text: str) -> Iterator[str]:
    return _commands(_find_targets(text, _RECIPE, "just"))


def _find_targets(text: str, target: re.Pattern[str], program: str) -> dict[str, str]:
    """The targets, each with its comment on its own line or the line above, or else with its first
    command.
    """
    lines = text.split("\n")
    targets: dict[str, str] = {}
    for at, line in enumerate(lines):
        match = target.match(line)
        if match is None or match[1].startswith("."):
            continue
        own = match[3] if target.groups > 2 else None
        above = lines[at - 1] if at else ""
        comment = above.lstrip("# ").strip() if above.startswith("#") else ""
        command = lines[at + 1].strip() if lines[at + 1 : at + 2] else ""
        is_recipe = bool(command) and lines[at + 1][0] in " \t"
        targets.setdefault(
            f"{program} {match[1]}", own or comment or (command if is_recipe else "")
        )
    return targets


def _read_ci(text: str) -> Iterator[str]:
    """Yield the name and triggers of a workflow, and the commands of each job."""
    whole = _table(load_yaml(text)) if len(text) <= YAML_LIMIT_CHARS else {}
    if not whole:
        raise ValueError("too long, or no mapping")
    yield from _item("name", whole.get("name"))
    triggers = whole.get("on")
    yield from _item("runs on", triggers)
    yield from _names("runs on", list(triggers) if isinstance(triggers, dict | list) else [])
    yield from _names("stages", whole.get("stages"))
    jobs = _table(whole.get("jobs")) or {
        name: job for name, job in whole.items() if "script" in _table(job)
    }
    for name, job in list(jobs.items())[:ITEMS_LIMIT]:
        yield f"- job {_code(name)}: {'; '.join(_find_runs(_table(job))) or 'no commands'}"


def _find_runs(job: Mapping[str, Any]) -> list[str]:
    steps, script = job.get("steps"), job.get("script")
    runs = [_table(step).get("run", "") for step in steps] if isinstance(steps, list) else []
    runs += script if isinstance(script, list) else [script] if isinstance(script, str) else []
    first_lines = (str(run).strip().split("\n")[0] for run in runs)
    return [_code(line) for line in first_lines if line][:ITEMS_LIMIT]


_FORMATS: Final[Mapping[str, Callable[[str], Iterator[str]]]] = {
    "pyproject.toml": _read_pyproject,
    "package.json": _read_package_json,
    "cargo.toml": _read_cargo,
    "makefile": _read_makefile,
    "gnumakefile": _read_makefile,
    "justfile": _read_justfile,
}
