"""Carries out the commands of the memory tool, and appends new sections to notes.

`view` reads and runs in any thread. Every other command is decided from the files as they are when
its turn comes, and carried out by `edit`. The wording of the answers is that of
`core.editing.memory_tool`. A command that names the digest which its writer has read is refused if
the note has another digest now, unless the note already holds what the command would make of it.

New sections are appended to the notes that are named, or to the notes of their kinds. Existing text
is not rewritten. Sections for several notes are one edit: all are written, or none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import msgspec
from msgspec.structs import asdict, replace

from memsyncd.config import Config
from memsyncd.core.digest import digest_bytes
from memsyncd.core.editing import memory_tool
from memsyncd.core.editing.additions import Addition, append_section, check_addition
from memsyncd.core.editing.capture import StepResult, find_new, make_additions
from memsyncd.core.editing.kinds import find_kind
from memsyncd.core.editing.link_updates import update_links
from memsyncd.core.editing.memory_path import (
    MEMORIES,
    MemoryPath,
    parse_memory_path,
    show_memory_path,
)
from memsyncd.core.editing.memory_tool import EditResult, FolderEntry
from memsyncd.core.markdown.notenames import NoteNames
from memsyncd.core.markdown.parse import parse_note
from memsyncd.core.model import PATH_LINK, Link
from memsyncd.core.notepath import (
    MEMORY_FILE,
    MEMORY_FOLDER,
    NotePath,
    is_markdown,
    parse_note_path,
)
from memsyncd.engine.browse import LINKS_LIMIT_S
from memsyncd.engine.edit import Decide, Delete, Edit, Operation, Put, Rename, find_history
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import BadRequest, Conflict, PathRefused
from memsyncd.files.listing import find_files, is_folder, list_folder
from memsyncd.files.read import TextFile, check_size, read_text_file, resolve
from memsyncd.files.scope import Scope
from memsyncd.protocol.fields import Params
from memsyncd.protocol.memory import AddedSection, CaptureParams, MemoryParams, NewSection
from memsyncd.store.integrity import read_note_paths
from memsyncd.store.links import read_links

SHOWN_LEVELS = 2
# The digest that a writer names who expects that there is no file.
NO_FILE = ""

# --- the commands -------------------------------------------------------------------------------


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A command's answer, and the digest of the file after it; None for a folder and for a deleted
    file.
    """

    text: str
    digest: str | None = None
    is_searched: bool = True
    """False if the command has written a file that is no note."""
    updated_links: tuple[str, ...] = ()
    """Notes whose links are changed, by their paths before a rename."""
    skipped_links: tuple[str, ...] = ()
    """Notes with links to be changed that must not be written."""


def view(workspace: Workspace, params: MemoryParams) -> Answer:
    """Show a folder or a file.

    Raises BadRequest, PathRefused, NoteNotFound, TooLarge, EditRefused.
    """
    check_parameters(params)
    path = parse_memory_path(params.path or "", workspace.scope.memory_dir)
    _check_links(workspace.scope, path)
    if path.note is None or is_folder(workspace.scope, path.note):
        entries = _list_entries(workspace.scope, path)
        return Answer(text=memory_tool.view_folder(path.text, entries, params.dialect))
    file = read_text_file(workspace.scope, path.note)
    if file is None:
        raise memory_tool.refuse_missing("view", path.text, params.dialect)
    text = memory_tool.view_text(path.text, file.data, params.view_range, params.dialect)
    return Answer(text=text, digest=file.digest)


def make_decision(workspace: Workspace, config: Config, params: MemoryParams) -> Decide[Answer]:
    """Make the decision of any command but `view`. Raises BadRequest and PathRefused at once."""
    check_parameters(params)
    folder = workspace.scope.memory_dir
    if params.command == "rename":
        old = parse_memory_path(params.old_path or "", folder)
        new = parse_memory_path(params.new_path or "", folder)
        return partial(_rename, workspace, params, old, new)
    path = parse_memory_path(params.path or "", folder)
    if params.command == "delete":
        return partial(_delete, workspace.scope, params, path)
    return partial(_change, workspace, config, params, path)


_REQUIRED = {
    "view": ("path",),
    "create": ("path", "file_text"),
    "str_replace": ("path", "old_str"),
    "insert": ("path", "insert_line", "insert_text"),
    "delete": ("path",),
    "rename": ("old_path", "new_path"),
}
_OPTIONAL = {
    "view": ("view_range",),
    "str_replace": ("new_str",),
    "rename": ("update_links", "dry_run"),
}
_PARAMETERS = tuple(
    dict.fromkeys(name for names in (*_REQUIRED.values(), *_OPTIONAL.values()) for name in names)
)


def check_parameters(params: MemoryParams) -> None:
    """Raise BadRequest if a parameter that the command needs is missing, or if it takes no such
    parameter.
    """
    command = params.command
    required = _REQUIRED[command]
    known = (*required, *_OPTIONAL.get(command, ()))
    for name in _PARAMETERS:
        is_given = getattr(params, name) is not None
        if name in required and not is_given:
            hint = f"{command} takes {', '.join(known)}"
            raise BadRequest(f"{command}: `{name}` is missing", hint=hint)
        if is_given and name not in known:
            raise BadRequest(f"{command} takes no `{name}`", hint=f"it takes {', '.join(known)}")


def _check_links(scope: Scope, *paths: MemoryPath) -> None:
    """Refuse, in the tool's wording, a path that a symlink leads out of the memory folder.

    Opening the path checks this again.
    """
    for path in paths:
        try:
            if path.note is not None:
                resolve(scope, path.note)
        except PathRefused as error:
            message = f"Path {path.text} would escape {MEMORIES} directory"
            raise PathRefused(message, hint=error.hint) from error


def _list_entries(scope: Scope, path: MemoryPath) -> list[FolderEntry]:
    """List a folder; beside the content of `.memories`, `/memories` has MEMORY.md."""
    return [
        FolderEntry(
            path=show_memory_path(listed.path, scope.memory_dir),
            size_bytes=listed.size_bytes,
            is_folder=listed.is_folder,
        )
        for listed in list_folder(scope, path.note, depth=SHOWN_LEVELS)
    ]


# --- create, str_replace, insert ----------------------------------------------------------------


def _change(
    workspace: Workspace, config: Config, params: MemoryParams, path: MemoryPath
) -> tuple[Edit, Answer]:
    scope = workspace.scope
    _check_links(scope, path)
    if path.note is None or is_folder(scope, path.note):
        if params.command == "create":
            raise memory_tool.refuse_existing("create", path.text, params.dialect)
        raise memory_tool.refuse_folder(params.command, path.text, params.dialect)
    was = read_text_file(scope, path.note)
    result = _apply(workspace, config, params, path, was)
    answer = Answer(
        text=result.text,
        digest=digest_bytes(result.data),
        is_searched=scope.is_note(path.note.text),
    )
    if was is not None and result.data == was.data:
        return _make_edit(params, path), answer
    check_size(scope, path.text, result.data, way_out="begin another note")
    put = Put(path=was.path if was else path.note, data=result.data, was=was)
    return _make_edit(params, path, put), answer


def _apply(
    workspace: Workspace,
    config: Config,
    params: MemoryParams,
    path: MemoryPath,
    was: TextFile | None,
) -> EditResult:
    """Apply the command to the current text.

    Raises Conflict if the writer had read another text and the note does not already hold the
    result.
    """
    apply = partial(_apply_command, params, path.text)
    digest, data = (was.digest, was.data) if was else (NO_FILE, None)
    if params.if_digest is None or params.if_digest == digest:
        return apply(data)
    history = find_history(workspace, config)
    has_digest = history is not None and bool(params.if_digest)
    read = history.read_text(params.if_digest) if history is not None and has_digest else None
    if read is not None or params.if_digest == NO_FILE:
        expected = apply(read)
        if expected.data == data:
            return expected
    raise _make_conflict(path.text, params.if_digest, digest)


def _apply_command(params: MemoryParams, path: str, data: bytes | None) -> EditResult:
    """Make a note's new bytes of its old ones."""
    dialect = params.dialect
    match params.command:
        case "create":
            return memory_tool.create_text(path, data, params.file_text or "", dialect)
        case "str_replace":
            old, new = params.old_str or "", params.new_str or ""
            return memory_tool.replace_text(path, data, old, new, dialect)
        case _:
            line, text = params.insert_line or 0, params.insert_text or ""
            return memory_tool.insert_text(path, data, line, text, dialect)


# --- delete, rename -----------------------------------------------------------------------------


def _delete(scope: Scope, params: MemoryParams, path: MemoryPath) -> tuple[Edit, Answer]:
    if path.note is None:
        raise memory_tool.refuse_root("delete", params.dialect)
    _check_links(scope, path)
    answer = Answer(text=memory_tool.render_phrase("deleted", params.dialect, path=path.text))
    was = read_all(scope, path.note)
    if was is None:
        if params.if_digest:
            return _make_edit(params, path), answer
        raise memory_tool.refuse_missing("delete", path.text, params.dialect)
    check_digest(params.if_digest, path.text, was.get(path.note))
    return _make_edit(params, path, Delete(path=path.note, was=was)), answer


def _rename(
    workspace: Workspace, params: MemoryParams, old: MemoryPath, new: MemoryPath
) -> tuple[Edit, Answer]:
    scope = workspace.scope
    if old.note is None or new.note is None:
        raise memory_tool.refuse_root("rename", params.dialect)
    _check_links(scope, old, new)
    was, existing = read_all(scope, old.note), read_all(scope, new.note)
    target = existing.get(new.note) if existing else None
    text = memory_tool.render_phrase("renamed", params.dialect, old=old.text, new=new.text)
    if was is None:
        if target is not None and target.digest == params.if_digest:
            edit = _make_edit(params, old, new_path=new.note)
            return edit, Answer(text=text, digest=target.digest)
        raise memory_tool.refuse_missing("rename", old.text, params.dialect)
    if existing is not None:
        raise memory_tool.refuse_existing("rename", new.text, params.dialect)
    if new.text.startswith(f"{old.text}/"):
        message = f"path refused: {new.text} is in {old.text} itself"
        raise PathRefused(message, hint="choose a place outside of it")
    moved = was.get(old.note)
    check_digest(params.if_digest, old.text, moved)
    rename = Rename(old=old.note, new=new.note, was=was)
    puts, skipped = _update_links(workspace, rename) if params.update_links else ([], [])
    updated = {put.path: put.data for put in puts}
    # The links of the renamed notes are changed first, under their old paths.
    data = {path: updated.get(path, file.data) for path, file in was.items()}
    renamed = {
        path: replace(file, data=data[path], digest=digest_bytes(data[path]))
        for path, file in was.items()
    }
    operations: tuple[Operation, ...] = (*puts, replace(rename, was=renamed))
    answer = Answer(
        text=text,
        digest=renamed[old.note].digest if moved else None,
        is_searched=moved is None or scope.is_note(new.note.text),
        updated_links=tuple(put.path.text for put in puts),
        skipped_links=tuple(skipped),
    )
    edit = _make_edit(params, old, *(() if params.dry_run else operations), new_path=new.note)
    return edit, answer


def _update_links(workspace: Workspace, rename: Rename) -> tuple[list[Put], list[str]]:
    """Make the changes that keep all links leading to the renamed notes, and from them, to what
    they lead to now. Also return the notes that would need one and must not be written.
    """
    moved = {path.text: rename.new_path(path).text for path in rename.was}
    with workspace.acquire(LINKS_LIMIT_S) as reader:
        paths = {*read_note_paths(reader), *moved}
        links = read_links(reader)
    # Without titles: a link by title stays right, and other programs know paths and names alone.
    before = NoteNames.of((path, "") for path in paths)
    after = NoteNames.of((moved.get(path, path), "") for path in paths)
    puts: list[Put] = []
    skipped: list[str] = []
    for path in sorted(_find_linking(links, before, moved)):
        note = NotePath(path)
        file = rename.was.get(note) or read_text_file(workspace.scope, note)
        if file is None:
            continue
        data = update_links(path, file.data, moved, before=before, after=after)
        if data == file.data:
            continue
        if resolve(workspace.scope, note).folder == workspace.scope.root:
            check_size(workspace.scope, path, data, way_out="rename without updating links")
            puts.append(Put(path=file.path, data=data, was=file))
        else:
            skipped.append(path)
    return puts, skipped


def _find_linking(links: Iterable[Link], names: NoteNames, moved: Mapping[str, str]) -> set[str]:
    """The notes with links that a rename may change: the renamed ones, and those that link to
    them.
    """
    found = set(moved)
    for link in links:
        source = link.anchor.rpartition("#")[0]
        is_path = link.kind == PATH_LINK
        if source not in found and names.find(source, link.target, is_path=is_path) in moved:
            found.add(source)
    return found


def make_clear_decision(workspace: Workspace, *, client: str) -> Decide[int]:
    """Make the decision to delete every note of memory; the answer is their number. Other files
    and included notes stay. Raises PathRefused in a vault, all of whose notes are memory.
    """
    if not workspace.scope.memory_dir:
        hint = "delete notes one by one, or give the workspace a memory_dir of its own"
        raise PathRefused("clear would delete every note of this vault", hint=hint)

    def decide() -> tuple[Edit, int]:
        scope = workspace.scope
        paths = [path for path in find_files(scope, None) if scope.is_note(path.text)]
        files = [(path, file) for path in paths if (file := read_text_file(scope, path))]
        operations = tuple(Delete(path=path, was={path: file}) for path, file in files)
        edit = Edit(command="clear", client=client, path=".", operations=operations)
        return edit, len(operations)

    return decide


def read_all(scope: Scope, path: NotePath) -> dict[NotePath, TextFile] | None:
    """Read every file of a file or folder; None if neither exists."""
    if not is_folder(scope, path):
        file = read_text_file(scope, path)
        return {path: file} if file else None
    files = ((found, read_text_file(scope, found)) for found in find_files(scope, path))
    return {found: file for found, file in files if file is not None}


def check_digest(if_digest: str | None, path: str, file: TextFile | None) -> None:
    """Raise Conflict if the writer had read another text than the file's."""
    digest = file.digest if file else NO_FILE
    if if_digest is not None and if_digest != digest:
        raise _make_conflict(path, if_digest, digest)


def _make_conflict(path: str, if_digest: str, digest: str) -> Conflict:
    return Conflict(
        f"{path} is not what it was when you read it",
        hint="read it again, then repeat the command",
        if_digest=if_digest,
        digest=digest,
    )


def _make_edit(
    params: MemoryParams,
    path: MemoryPath,
    *operations: Operation,
    new_path: NotePath | None = None,
) -> Edit:
    return Edit(
        command=params.command,
        client=params.client or "",
        path=path.note.text if path.note else MEMORY_FOLDER,
        new_path=new_path.text if new_path else None,
        operations=operations,
    )


# --- new sections -------------------------------------------------------------------------------


def make_addition_decision(
    workspace: Workspace,
    config: Config,
    sections: Sequence[NewSection],
    *,
    command: str,
    client: str,
    at: str,
) -> Decide[list[AddedSection]]:
    """Make the decision to append sections. `at` is the time, in ISO 8601.

    Raises BadRequest and PathRefused at once.
    """
    additions = [make_addition(section) for section in sections]
    for addition in additions:
        check_addition(addition, most_chars=config.memory.max_content_chars)
    paths = [choose_note(workspace.scope, config, section) for section in sections]

    def decide() -> tuple[Edit, list[AddedSection]]:
        puts, added = append_additions(workspace, config, additions, paths, at)
        return Edit(command=command, client=client, path=paths[0].text, operations=puts), added

    return decide


def make_capture_decision(
    workspace: Workspace, config: Config, params: CaptureParams, *, client: str, at: str
) -> Decide[list[AddedSection]]:
    """Make the decision to append what a step produced; what its notes hold already is left out.

    Raises BadRequest and PathRefused at once.
    """
    result = msgspec.convert(params, StepResult, from_attributes=True)
    additions = make_additions(result, config.steps)
    if not additions:
        raise BadRequest("capture: the artifacts are empty", hint="send text, or leave them out")
    for addition in additions:
        check_addition(addition)
    kinds = [NewSection(content="", kind=addition.kind) for addition in additions]
    paths = [choose_note(workspace.scope, config, kind) for kind in kinds]

    def decide() -> tuple[Edit, list[AddedSection]]:
        puts, added = append_additions(workspace, config, additions, paths, at, is_once=True)
        path = puts[0].path.text if puts else MEMORY_FOLDER
        return Edit(command="capture", client=client, path=path, operations=puts), added

    return decide


def make_addition(section: NewSection) -> Addition:
    """Make the addition of a section, unchecked. Raises BadRequest if two fields contradict."""
    if section.task and section.wu_id and section.task != section.wu_id:
        raise BadRequest("wu_id: is not the task", hint="give one of the two")
    return copy_fields(section, task=section.wu_id if section.task is None else section.task)


def copy_fields(params: Params, **own: str | None) -> Addition:
    """Make the addition with the fields of a request that are those of an addition, and `own`."""
    return msgspec.convert({**asdict(params), **own}, Addition)


def choose_note(scope: Scope, config: Config, section: NewSection) -> NotePath:
    """Choose the note for a section: the named one, or that of its kind.

    A name alone is a note in the memory folder; without a suffix it is markdown. The notes of
    kinds are in the memory folder, too.
    """
    named = section.note or _place_kind(scope, find_kind(config.kinds, section.kind).append_to)
    if named.startswith(MEMORIES):
        path = parse_memory_path(named, scope.memory_dir).note
        if path is None:
            hint = "name a note in it, such as /memories/decisions.md"
            raise BadRequest("a folder is no note", hint=hint)
    else:
        path = _parse_name(scope, named)
    if scope.is_read_only(path.text):
        hint = "change it with your editor, or name another note"
        raise PathRefused(f"{path.text} is a read-only note of this workspace", hint=hint)
    if not is_markdown(path.name):
        raise BadRequest(f"{path.text} cannot hold sections", hint="name a note that ends in .md")
    if not scope.is_note(path.text):
        raise PathRefused(
            f"path refused: {path.text} is no note of this workspace",
            hint="name MEMORY.md or a note beneath .memories/",
        )
    return path


def _place_kind(scope: Scope, note: str) -> str:
    """The note of a kind as it is written: `.memories` stands for the memory folder."""
    inside = note.removeprefix(f"{MEMORY_FOLDER}/")
    if inside == note or scope.memory_dir == MEMORY_FOLDER:
        return note
    return f"./{scope.memory_dir}/{inside}" if scope.memory_dir else f"./{inside}"


def _parse_name(scope: Scope, named: str) -> NotePath:
    has_suffix = "." in named.removeprefix(MEMORY_FOLDER).rpartition("/")[2]
    text = named if has_suffix else f"{named}.md"
    is_path = text == MEMORY_FILE or text.startswith((f"{MEMORY_FOLDER}/", "./", "/"))
    # In a vault a path with a folder is one from the root; a name alone is a note in the folder.
    includes = scope.includes
    is_included = includes.named_globs.matches(text) or (
        "/" in text and includes.whole.matches(text)
    )
    is_whole = is_path or is_included or not scope.memory_dir
    return parse_note_path(text if is_whole else f"{scope.memory_dir}/{text}")


def append_additions(
    workspace: Workspace,
    config: Config,
    additions: Sequence[Addition],
    paths: Sequence[NotePath],
    at: str,
    *,
    is_once: bool = False,
) -> tuple[tuple[Put, ...], list[AddedSection]]:
    """Append each addition to the note of the same position in `paths`; with `is_once`, those that
    the note does not hold.
    """
    puts: list[Put] = []
    added: dict[int, AddedSection] = {}
    for path in dict.fromkeys(paths):
        numbers = [number for number, other in enumerate(paths) if other == path]
        was = read_text_file(workspace.scope, path)
        old = was.data if was else None
        if is_once:
            new = find_new(path.text, old, [additions[number] for number in numbers])
            numbers = [numbers[position] for position in new]
        if not numbers:
            continue
        chosen = [additions[number] for number in numbers]
        data, spans = append_section(path.text, old, chosen, at=at)
        check_size(workspace.scope, path.text, data, way_out="name another note")
        puts.append(Put(path=was.path if was else path, data=data, was=was))
        sections = parse_note(path, data, config.chunking).sections
        anchors = {section.span.start: section.anchor for section in sections}
        digest = digest_bytes(data)
        for number, span in zip(numbers, spans, strict=True):
            added[number] = AddedSection(
                anchor=anchors[span.start],
                path=path.text,
                start_line=span.start,
                end_line=span.end,
                digest=digest,
            )
    return tuple(puts), [added[number] for number in sorted(added)]
