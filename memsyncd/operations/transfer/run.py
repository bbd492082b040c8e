"""Imports memories of other systems as sections, in one change set, and exports memories.

The imported file belongs to another program: memsyncd reads it, and changes neither it nor its
folder.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec

from memsyncd.config import Config
from memsyncd.core.digest import digest_bytes
from memsyncd.core.editing.additions import Addition
from memsyncd.core.editing.transfer import (
    READ_LINES,
    READ_TABLES,
    SQLITE_TABLES,
    ForeignMemories,
    ForeignMemory,
    LeftOut,
    choose_headings,
    make_memory_addition,
    resolve_relations,
    rewrite_mentions,
    strip_comment,
)
from memsyncd.core.markdown.frontmatter import count_front_lines
from memsyncd.core.markdown.parse import parse_note
from memsyncd.core.memories import SECTION_LEVEL
from memsyncd.core.model import ID_KEY, Note, Section
from memsyncd.core.paths import NotePath, is_markdown, parse_note_path
from memsyncd.core.search.filters import EVERYTHING
from memsyncd.engine.accesses import carry_counts, find_accesses
from memsyncd.engine.additions import append_additions, choose_note
from memsyncd.engine.edit import Decide, Edit, Put, make_put
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import AlreadyExists, BadRequest, MemsyncdError, TooLarge, Unwritable
from memsyncd.files.read import read_text_file
from memsyncd.operations.call import Call
from memsyncd.operations.fields import AddedSection
from memsyncd.operations.transfer.declare import (
    Exported,
    ExportParams,
    Imported,
    ImportParams,
    LeftOutItem,
)
from memsyncd.store.foreign import MEMORY_COLUMNS, TEXT_COLUMNS, read_tables, write_memories
from memsyncd.store.lookup import stream_notes

FILE_LIMIT_BYTES = 256 * 1024 * 1024
MOST_LISTED = 200
READ_LIMIT_S = 30.0


class ImportPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The notes that an import writes, and the values of its report."""

    puts: tuple[Put, ...]
    added: list[AddedSection]
    n_unchanged: int
    n_relations: int
    counts: dict[str, tuple[int, str | None]]
    """The accesses of memories in the other system, and their times, by the new anchors."""
    left_out: list[LeftOut]


# --- import -----------------------------------------------------------------------------------


async def import_memories(call: Call, params: ImportParams) -> Imported:
    """Read the file in a thread, then append its memories in one edit."""
    _check_absolute(params.file)
    workspace = await call.open()
    if params.format == "basic-memory":
        read = partial(_read_folder, params.file)
        plan_notes = partial(_plan_copies, workspace, await call.read(read, on_disk=True))
    else:
        source = await call.read(partial(_read_file, params), on_disk=True)
        plan_notes = partial(_plan_sections, workspace, call.config, source, call.stamp["at"])
    if not params.apply:
        plan = await call.read(plan_notes, on_disk=True)
        return Imported(
            workspace=workspace.id,
            generation=workspace.condition.generation,
            is_indexed=True,
            change_set=None,
            **_describe_plan(plan, is_applied=False),
        )
    outcome = await call.edit(_make_decision(plan_notes, client=call.writer))
    carry_counts(
        workspace,
        {
            anchor: (count, _read_seconds(accessed, call.now_s))
            for anchor, (count, accessed) in outcome.answer.counts.items()
        },
    )
    return Imported(**_describe_plan(outcome.answer), **call.describe_write(outcome))


def _make_decision(plan_notes: Any, *, client: str) -> Decide[ImportPlan]:
    def decide() -> tuple[Edit, ImportPlan]:
        plan: ImportPlan = plan_notes()
        path = plan.puts[0].path.text if plan.puts else ""
        return Edit(command="import", client=client, path=path, operations=plan.puts), plan

    return decide


def _describe_plan(plan: ImportPlan, *, is_applied: bool = True) -> dict[str, Any]:
    return {
        "is_applied": is_applied,
        "added": plan.added[:MOST_LISTED],
        "n_added": len(plan.added),
        "n_unchanged": plan.n_unchanged,
        "n_relations": plan.n_relations,
        "n_accesses": len(plan.counts),
        "left_out": _describe_left_out(plan.left_out),
        "n_left_out": len(plan.left_out),
    }


def _describe_left_out(left_out: Sequence[LeftOut]) -> list[LeftOutItem]:
    return [LeftOutItem(place=place, reason=reason) for place, reason in left_out[:MOST_LISTED]]


def _read_seconds(time: str | None, now_s: float) -> float:
    """Return an ISO time as seconds since the epoch, at most now; now for none."""
    if time is None:
        return now_s
    return min(now_s, datetime.fromisoformat(time).astimezone(UTC).timestamp())


def _check_absolute(path: str) -> None:
    if not os.path.isabs(path):
        raise BadRequest(f"file: {path} is not absolute", hint="name it from the root: /home/…")


def _read_file(params: ImportParams) -> ForeignMemories:
    name = params.format
    if name in READ_LINES:
        return READ_LINES[name](_read_text(params.file))
    columns = {table: words.split() for table, words in SQLITE_TABLES[name].items()}
    tables, others = read_tables(params.file, columns)
    memories, left_out = READ_TABLES[name](tables)
    more = [LeftOut(f"table {table}", f"its {n:,} rows have no place") for table, n in others]
    return ForeignMemories(memories, [*left_out, *more])


def _read_text(path: str) -> str:
    try:
        if os.path.getsize(path) > FILE_LIMIT_BYTES:
            raise TooLarge(f"{path} is over 256 MiB", hint="split it, and import the parts")
        with open(path, encoding="utf-8-sig") as file:
            return file.read()
    except UnicodeDecodeError as error:
        raise BadRequest(f"{path} is not UTF-8", hint="convert it, then import it") from error
    except OSError as error:
        text = f"{path} cannot be read: {(error.strerror or str(error)).lower()}"
        raise BadRequest(text, hint="name a file that you may read") from error


def _plan_sections(
    workspace: Workspace, config: Config, source: ForeignMemories, at: str
) -> ImportPlan:
    """Plan a section for each memory that does not exist yet."""
    left_out = [*source.left_out]
    memories: list[ForeignMemory] = []
    paths: list[NotePath] = []
    for memory in source.memories:
        path, problem = _choose_path(workspace, config, memory)
        left_out += [LeftOut(memory.id, problem)] if problem else []
        memories.append(msgspec.structs.replace(memory, note=path.text))
        paths.append(path)
    notes = {path.text: _read_note(workspace, config, path) for path in dict.fromkeys(paths)}
    targets = {
        row["id"]: f"{path}#{row['summary']}"
        for path, (rows, _) in notes.items()
        for row in rows
        if "id" in row
    }
    fresh = _find_fresh(memories, notes, targets)
    chosen = choose_headings(
        [memories[number] for number in fresh],
        {path: headings for path, (_, headings) in notes.items()},
    )
    headings = dict(zip(fresh, chosen, strict=True))
    targets |= {memories[number].id: f"{paths[number].text}#{headings[number]}" for number in fresh}
    additions: list[Addition] = []
    n_relations = 0
    for number in fresh:
        memory = memories[number]
        links, gone = resolve_relations(memory, targets)
        left_out += [
            LeftOut(memory.id, f"relation {kind} to {to}, which is no memory here")
            for kind, to in gone
        ]
        n_relations += len(links)
        content = rewrite_mentions(memory.content, targets)
        memory = msgspec.structs.replace(memory, content=content)
        additions.append(make_memory_addition(memory, headings[number], links))
    kept = [paths[number] for number in fresh]
    puts, added = append_additions(workspace, additions, kept, at) if fresh else ((), [])
    counts = {
        section.anchor: (memories[number].accesses, memories[number].accessed)
        for number, section in zip(fresh, added, strict=True)
        if memories[number].accesses
    }
    return ImportPlan(
        puts=puts,
        added=added,
        n_unchanged=len(memories) - len(fresh),
        n_relations=n_relations,
        counts=counts,
        left_out=left_out,
    )


NoteMemories = Mapping[str, tuple[list[dict[str, Any]], list[str]]]
"""By path: the memories of a note in the form of an export, and all headings of the note."""


def _find_fresh(
    memories: Sequence[ForeignMemory], notes: NoteMemories, ids: Collection[str]
) -> list[int]:
    """Return the positions of the memories that are in no note yet: no section has their id, or
    the same heading and text.
    """
    texts = {
        path: {(row["summary"], row["content"]) for row in rows}
        for path, (rows, _) in notes.items()
    }
    return [
        number
        for number, memory in enumerate(memories)
        if (memory.alias or "") not in ids
        and (memory.summary, memory.content.strip("\n")) not in texts[memory.note or ""]
    ]


def _choose_path(
    workspace: Workspace, config: Config, memory: ForeignMemory
) -> tuple[NotePath, str]:
    """Return the note for a memory, and the reason if it is another than the memory names."""
    try:
        return choose_note(workspace.scope, config, note=memory.note, kind=memory.kind), ""
    except MemsyncdError as error:
        path = choose_note(workspace.scope, config, kind=memory.kind)
        return path, f"note {memory.note}: {error.message}; it goes to {path.text}"


def _read_note(
    workspace: Workspace, config: Config, path: NotePath
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the memories of a note in the form of an export, and all of its headings."""
    file = read_text_file(workspace.scope, path)
    if file is None:
        return [], []
    note = parse_note(path, file.data, config.chunking)
    headings = [section.heading[-1] for section in note.sections if section.heading]
    return [*_list_rows(note)], headings


# --- import of a folder of notes ----------------------------------------------------------------


def _read_folder(folder: str) -> list[tuple[str, bytes]]:
    """Return the path within the folder and the bytes of each markdown file, without hidden files
    and links.
    """
    if not os.path.isdir(folder):
        raise BadRequest(f"no folder at {folder}", hint="name the folder of the notes")
    files = []
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = os.path.join(parent, name)
            if is_markdown(name) and not name.startswith(".") and not os.path.islink(path):
                try:
                    with open(path, "rb") as file:
                        files.append((os.path.relpath(path, folder), file.read()))
                except OSError as error:
                    text = f"{path} cannot be read: {(error.strerror or str(error)).lower()}"
                    raise BadRequest(text, hint="make it readable, or move it away") from error
    if not files:
        raise BadRequest(f"no markdown files in {folder}", hint="name the folder of the notes")
    return files


def _plan_copies(workspace: Workspace, files: Sequence[tuple[str, bytes]]) -> ImportPlan:
    """Plan a note with the same bytes for each file, beneath the memory folder."""
    scope, left_out = workspace.scope, list[LeftOut]()
    puts: list[Put] = []
    added: list[AddedSection] = []
    n_unchanged = 0
    for name, data in files:
        try:
            path = parse_note_path(f"{scope.memory_dir}/{name}" if scope.memory_dir else name)
            was = read_text_file(scope, path)
            if was is not None and was.data == data:
                n_unchanged += 1
                continue
            if was is not None:
                left_out.append(LeftOut(name, f"{path.text} is another note; rename one of them"))
                continue
            if not scope.is_note(path.text):
                left_out.append(LeftOut(name, f"{path.text} is no note of this workspace"))
                continue
            puts.append(make_put(scope, path, data, None, way_out="split the file"))
        except MemsyncdError as error:
            left_out.append(LeftOut(name, error.message))
            continue
        n_lines = data.count(b"\n") + (not data.endswith(b"\n"))
        digest = digest_bytes(data)
        added.append(
            AddedSection(
                anchor=f"{path.text}#",
                path=path.text,
                start_line=1,
                end_line=n_lines,
                digest=digest,
            )
        )
    return ImportPlan(
        puts=tuple(puts),
        added=added,
        n_unchanged=n_unchanged,
        n_relations=0,
        counts={},
        left_out=left_out,
    )


# --- export -----------------------------------------------------------------------------------


async def export_memories(call: Call, params: ExportParams) -> Exported:
    """Write a new file with all memories, as the notes are on the disk."""
    _check_absolute(params.file)
    await call.open()
    return await call.read(partial(write_export, call.workspace, call.config, params), on_disk=True)


def write_export(workspace: Workspace, config: Config, params: ExportParams) -> Exported:
    """Write the file. Raises AlreadyExists, Unwritable."""
    left_out: list[LeftOut] = []
    rows = list(_list_memories(workspace, config, left_out))
    try:
        if params.format == "sqlite":
            write_memories(params.file, map(_make_table_row, rows))
            os.chmod(params.file, 0o600)
        else:
            handle = os.open(params.file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(handle, "w", encoding="utf-8") as file:
                file.writelines(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
        size = os.path.getsize(params.file)
    except FileExistsError as error:
        raise AlreadyExists(f"{params.file} exists", hint="name a new file") from error
    except OSError as error:
        text = f"{params.file} cannot be written: {(error.strerror or str(error)).lower()}"
        raise Unwritable(text, hint="name a file in a folder that you may write to") from error
    return Exported(
        workspace=workspace.id,
        path=params.file,
        n_memories=len(rows),
        bytes=size,
        left_out=_describe_left_out(left_out),
    )


def _list_memories(
    workspace: Workspace, config: Config, left_out: list[LeftOut]
) -> Iterator[dict[str, Any]]:
    """Yield the fields of each memory, as `memory.import` reads them, in the order of the files."""
    counts = find_accesses(workspace)
    with workspace.acquire(READ_LIMIT_S) as reader:
        paths = [note.path for note in stream_notes(reader, filters=EVERYTHING)]
    for name in paths:
        path = parse_note_path(name)
        try:
            file = read_text_file(workspace.scope, path)
        except MemsyncdError as error:
            left_out.append(LeftOut(name, error.message))
            continue
        if file is not None and is_markdown(name):
            for row in _list_rows(parse_note(path, file.data, config.chunking)):
                if (count := counts.get(row["anchor"])) is not None:
                    seconds = datetime.fromtimestamp(count.last_at_s, UTC)
                    accessed = seconds.isoformat(timespec="seconds")[:-6] + "Z"
                    row |= {"accesses": count.count, "accessed": accessed}
                yield row


def _list_rows(note: Note) -> Iterator[dict[str, Any]]:
    lines = note.text.split("\n")
    n_front_lines = count_front_lines(note.path, lines)
    for section, last in _list_top_sections(note.sections):
        first = section.start if section.level else max(section.start - 1, n_front_lines)
        if row := _make_row(note.path, section, lines[first:last]):
            yield row


def _list_top_sections(sections: Sequence[Section]) -> Iterator[tuple[Section, int]]:
    """Yield each section down to the second level, and the last line of the sections beneath it. A
    title ends where the first section begins.
    """
    for number, section in enumerate(sections):
        if section.level > SECTION_LEVEL:
            continue
        last = section.end
        if section.level == SECTION_LEVEL:
            for other in sections[number + 1 :]:
                if other.level <= SECTION_LEVEL:
                    break
                last = other.end
        yield section, last


def _make_row(path: str, section: Section, lines: Sequence[str]) -> dict[str, Any]:
    """Return the fields of a memory; empty if it has no text besides its heading."""
    content = "\n".join(strip_comment(lines)).strip("\n")
    if not content.strip():
        return {}
    meta, extra = section.meta, dict(section.meta.extra)
    fields = {
        "anchor": section.anchor,
        "id": extra.pop(ID_KEY, None),
        "note": path,
        "summary": section.heading[-1] if section.heading else "",
        "content": content,
        "kind": meta.kind,
        "tags": list(meta.tags),
        "keywords": list(filter(None, extra.pop("keywords", "").split(", "))),
        "topic": extra.pop("topic", None),
        "run_id": extra.pop("run_id", None),
        **{name: getattr(meta, name) for name in _FIELDS},
        "metadata": extra,
    }
    kept = {name: value for name, value in fields.items() if value not in (None, "", [], {})}
    return {"summary": "", **kept}


_FIELDS = "importance priority lifecycle status task session source created updated expires".split()


def _make_table_row(row: Mapping[str, Any]) -> list[Any]:
    values = {
        **row,
        "tags": " ".join(row.get("tags", ())),
        "keywords": " ".join(row.get("keywords", ())),
        "id": row.get("id", row["anchor"]),
        "created_at": row.get("created"),
        "updated_at": row.get("updated"),
        "path": row["note"],
    }
    return [values.get(name) for name in (*TEXT_COLUMNS, *MEMORY_COLUMNS)]
