"""Carry out the commands of the memory tool; append sections to notes, and check them.

`view` reads and runs in any thread. Every other command is decided from the files as they are when
its turn comes, and carried out by `edit`. `core.editing.memory_tool` words the answers. A command
may name the digest that its writer has read. If the note has another digest now, the command is
refused, unless the note already holds the result of the command.
"""

from __future__ import annotations

import contextlib
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec
from msgspec.structs import asdict, replace

from memsyncd.config import Config
from memsyncd.core.digest import digest_bytes
from memsyncd.core.editing import memory_tool
from memsyncd.core.editing.additions import (
    KEYWORD_LIMIT_CHARS,
    KEYWORDS_LIMIT,
    TAGS_LIMIT,
    TOPIC_LIMIT_CHARS,
    WORD_LIMIT_CHARS,
    check_addition,
    describe_fault,
    find_faults,
    raise_faults,
)
from memsyncd.core.editing.link_updates import PathNames, update_links
from memsyncd.core.editing.memory_tool import (
    MEMORIES,
    EditResult,
    FolderEntry,
    MemoryPath,
    parse_file_path,
    parse_memory_path,
    show_memory_path,
)
from memsyncd.core.editing.sections import add_links
from memsyncd.core.editing.topics import RelationLink, find_relation_faults
from memsyncd.core.markdown.links import NoteNames, list_names, make_key
from memsyncd.core.model import PATH_LINK
from memsyncd.core.paths import (
    MEMORY_FOLDER,
    NOTE_SUFFIXES,
    NotePath,
    is_memory,
    parse_note_path,
)
from memsyncd.core.search.filters import EVERYTHING
from memsyncd.engine.additions import make_addition, make_addition_decision
from memsyncd.engine.browse import LINKS_LIMIT_S, LIST_NOTES, READ_LIMIT_S
from memsyncd.engine.edit import (
    NO_FILE,
    Decide,
    Delete,
    Edit,
    EditOutcome,
    FileChange,
    Put,
    Rename,
    check_digest,
    find_history,
    make_digest_conflict,
    make_put,
)
from memsyncd.engine.field_edits import (
    FieldWritten,
    choose_near,
    choose_path,
    find_near,
    make_append_there_decision,
)
from memsyncd.engine.metadata import advise_unknown_kind, find_similar_kind
from memsyncd.engine.places import (
    find_named_place,
    find_note_path,
    name_relations,
    strip_brackets,
)
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import (
    AlreadyExists,
    BadRequest,
    ConfirmationNeeded,
    EditRefused,
    NoteNotFound,
    PathRefused,
    StoreFailed,
)
from memsyncd.files.listing import find_files, is_folder, list_folder
from memsyncd.files.read import TextFile, check_size, read_text_file, resolve
from memsyncd.files.scope import Scope, is_within_folder
from memsyncd.operations.call import Call, read_saved
from memsyncd.operations.fields import AddedSection
from memsyncd.operations.notes.declare import (
    Added,
    AddedMany,
    Cleared,
    ClearParams,
    FieldFault,
    MemoryParams,
    MemoryResult,
    NewSection,
    NoteAddManyParams,
    NoteAddParams,
    ValidateParams,
    Validation,
)
from memsyncd.operations.revisions import CONFIRM_HINT, list_foreign_texts
from memsyncd.operations.similar.declare import SimilarSection
from memsyncd.store.counts import measure_folders
from memsyncd.store.links import StoredLinks, read_links_with_keys
from memsyncd.store.lookup import stream_notes
from memsyncd.store.pool import Reader
from memsyncd.store.sections import StoredSection, read_problems

SHOWN_LEVELS = 2
# So many notes that would go are named.
SHOWN_NOTES = 20

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
    """Notes whose links should change but that must not be written. Notes that others have changed
    meanwhile are not among them yet.
    """


def name_memory_paths(workspace: Workspace, params: MemoryParams) -> MemoryParams:
    """Return the parameters with paths of the memory tool for notes that are named otherwise: by
    their path from the root, a title, or any other name. A new name alone stays in the folder of
    the note, and gets its suffix.

    Raises NoteNotFound for text that names nothing, in the dialect of the SDK PathRefused later;
    BadRequest that names the candidates if several notes have a name, and PathRefused for a note
    that is not beneath `/memories`.
    """
    changes: dict[str, str] = {}
    for field in ("path", "old_path"):
        text = getattr(params, field) or MEMORIES
        if not is_within_folder(text, MEMORIES):
            note = _find_note_to_change(workspace, text, params)
            changes |= {} if note is None else {field: _show(workspace, note)}
    new, old = params.new_path or MEMORIES, changes.get("old_path", params.old_path or MEMORIES)
    if not is_within_folder(new, MEMORIES) and is_within_folder(old, MEMORIES):
        suffix = next((end for end in NOTE_SUFFIXES if old.lower().endswith(end)), "")
        name = new if new.lower().endswith(NOTE_SUFFIXES) else new + suffix
        beside = f"{posixpath.dirname(old)}/{name}"
        changes["new_path"] = _show(workspace, parse_note_path(name)) if "/" in name else beside
    return replace(params, **changes) if changes else params


def _show(workspace: Workspace, note: NotePath) -> str:
    return show_memory_path(note, workspace.scope.memory_dir)


def _find_note_to_change(workspace: Workspace, text: str, params: MemoryParams) -> NotePath | None:
    """Return the note or folder that a text names; None for a new note, and for text that is no
    path. Raises BadRequest for a section, NoteNotFound if there is none.
    """
    scope = workspace.scope
    if scope.memory_dir and is_within_folder(text, scope.memory_dir):
        return parse_note_path(text)
    if params.command == "create":
        return None
    try:
        with workspace.acquire(READ_LIMIT_S) as reader:
            is_removal = params.command in ("delete", "rename")
            place = find_named_place(reader, scope, text, is_removal=is_removal)
    except NoteNotFound:
        try:
            folder = parse_note_path(text.rstrip("/"))
        except PathRefused:
            return None
        with contextlib.suppress(PathRefused):
            if is_folder(scope, folder):
                return folder
        if params.dialect == "sdk":
            return None
        raise
    if place.anchor is not None:
        hint = f"name the note: {place.path}"
        raise BadRequest(f"{text} is a section, and this needs a note", hint=hint)
    return NotePath(place.path)


def view(workspace: Workspace, params: MemoryParams) -> Answer:
    """Show a folder or a file.

    Raises BadRequest, PathRefused, NoteNotFound, TooLarge, EditRefused.
    """
    check_parameters(params)
    path = parse_memory_path(params.path or "", workspace.scope.memory_dir)
    _check_links(workspace.scope, path)
    if path.note is None or is_folder(workspace.scope, path.note):
        return Answer(text=_view_folder(workspace, path, params))
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
    if params.command == "create":
        path = parse_file_path(params.path or "", folder)
        return partial(_change, workspace, config, params, path)
    path = parse_memory_path(params.path or "", folder)
    if params.command == "delete":
        return partial(_delete, workspace, config, params, path)
    return partial(_change, workspace, config, params, path)


_REQUIRED = {
    "view": ("path",),
    "create": ("path", "file_text"),
    "str_replace": ("path", "old_str"),
    "insert": ("path", "insert_line", "insert_text"),
    "delete": ("path",),
    "rename": ("old_path", "new_path"),
}
_OPTIONAL = {"view": ("view_range",), "str_replace": ("new_str",)}
# The tool that models know has no such parameters, so no hint names them.
_OWN = {"delete": ("confirm",), "rename": ("update_links", "apply")}
_PARAMETERS = tuple(
    dict.fromkeys(
        name for table in (_REQUIRED, _OPTIONAL, _OWN) for names in table.values() for name in names
    )
)


def check_parameters(params: MemoryParams) -> None:
    """Raise BadRequest if a parameter that the command needs is missing, or if it takes no such
    parameter.
    """
    command = params.command
    required = _REQUIRED[command]
    allowed = (*required, *_OPTIONAL.get(command, ()))
    if command == "view" and params.if_digest is not None:
        raise BadRequest("view takes no `if_digest`", hint=f"it takes {', '.join(allowed)}")
    for name in _PARAMETERS:
        is_given = getattr(params, name) is not (name == "apply" or None)
        if name in required and not is_given:
            hint = f"{command} takes {', '.join(allowed)}"
            raise BadRequest(f"{command}: `{name}` is missing", hint=hint)
        if is_given and name not in allowed and name not in _OWN.get(command, ()):
            raise BadRequest(f"{command} takes no `{name}`", hint=f"it takes {', '.join(allowed)}")


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


def _check_is_note(scope: Scope, path: MemoryPath) -> None:
    """Refuse a file that is no note, unless it is in `.memories`, where only memory is."""
    # A read-only file is refused when it is written.
    named = path.note.text if path.note else ""
    if is_memory(named) or scope.is_note(named) or scope.is_read_only(named) or not named:
        return
    raise PathRefused(
        f"Path {path.text} refused: it is no note of this workspace",
        hint="name a note, which ends in .md, .markdown or .txt",
    )


def _view_folder(workspace: Workspace, path: MemoryPath, params: MemoryParams) -> str:
    """List a folder of the disk; beside the content of `.memories`, `/memories` has MEMORY.md."""
    scope = workspace.scope
    listing = list_folder(
        scope,
        path.note,
        depth=SHOWN_LEVELS,
        most=memory_tool.ENTRIES_LIMIT,
        measure=partial(_measure_folders, workspace),
    )
    entries = [
        FolderEntry(
            path=show_memory_path(listed.path, scope.memory_dir),
            size_bytes=listed.size_bytes,
            is_folder=listed.is_folder,
        )
        for listed in listing.entries
    ]
    return memory_tool.view_folder(
        path.text, listing.size_bytes, entries, params.dialect, is_cut=listing.is_cut
    )


def _measure_folders(workspace: Workspace, folders: Sequence[str]) -> Mapping[str, int]:
    """Return the sizes of the notes beneath folders by the index, if it has them all."""
    condition = workspace.condition
    is_whole = not condition.is_indexing and condition.n_to_fill == 0
    if workspace.readers is not None and is_whole:
        with contextlib.suppress(StoreFailed), workspace.acquire(READ_LIMIT_S) as reader:
            return measure_folders(reader, folders)
    return {}


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
    _check_is_note(scope, path)
    was = read_text_file(scope, path.note)
    result = _apply(workspace, config, params, path, was)
    answer = Answer(
        text=result.text,
        digest=digest_bytes(result.data),
        is_searched=scope.is_note(path.note.text),
    )
    if was is not None and result.data == was.data:
        return _make_edit(params, path), answer
    # The error names the note as its writer does.
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
    result, whether or not the command fits either text.
    """
    apply = partial(_apply_command, params, path.text)
    digest, data = (was.digest, was.data) if was else (NO_FILE, None)
    if params.if_digest is None or params.if_digest == digest:
        return apply(data)
    history = find_history(workspace, config)
    has_digest = history is not None and bool(params.if_digest)
    read = history.read_text(params.if_digest) if history is not None and has_digest else None
    if read is not None or params.if_digest == NO_FILE:
        with contextlib.suppress(EditRefused, NoteNotFound, AlreadyExists):
            expected = apply(read)
            if expected.data == data:
                return expected
    raise make_digest_conflict(path.text, params.if_digest, digest)


def _apply_command(params: MemoryParams, path: str, data: bytes | None) -> EditResult:
    """Make the new bytes of a note from its old bytes."""
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


def _delete(
    workspace: Workspace, config: Config, params: MemoryParams, path: MemoryPath
) -> tuple[Edit, Answer]:
    """Delete a note or folder. A repeated delete succeeds if the note held the text that the writer
    had read.
    """
    scope = workspace.scope
    if path.note is None:
        raise memory_tool.refuse_root("delete", params.dialect)
    _check_links(scope, path)
    answer = Answer(text=memory_tool.render_phrase("deleted", params.dialect, path=path.text))
    was = read_all(scope, path.note)
    if was is None:
        history = find_history(workspace, config) if params.if_digest else None
        past = history.find_revisions(path=path.note.text, limit=1) if history else []
        if past and past[0].old_digest == params.if_digest:
            return _make_edit(params, path), answer
        raise memory_tool.refuse_missing("delete", path.text, params.dialect)
    if path.note in was:
        _check_is_note(scope, path)
    check_digest(params.if_digest, path.text, was.get(path.note))
    foreign = list_foreign_texts(workspace, config, was.items()) if params.confirm is False else []
    if foreign:
        raise ConfirmationNeeded(_describe_foreign(foreign), hint=CONFIRM_HINT)
    return _make_edit(params, path, Delete(path=path.note, was=was)), answer


def _describe_foreign(paths: Sequence[str]) -> str:
    n_more = len(paths) - SHOWN_NOTES
    names = [*paths[:SHOWN_NOTES], *([f"{n_more} more"] if n_more > 0 else [])]
    verb = "goes" if len(paths) == 1 else "go"
    return f"{', '.join(names)} {verb}, which others have written"


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
        if params.if_digest:
            raise make_digest_conflict(old.text, params.if_digest, NO_FILE)
        raise memory_tool.refuse_missing("rename", old.text, params.dialect)
    moved = was.get(old.note)
    check_digest(params.if_digest, old.text, moved)
    if existing is not None:
        raise memory_tool.refuse_existing("rename", new.text, params.dialect)
    if new.text.startswith(f"{old.text}/"):
        message = f"path refused: {new.text} is in {old.text} itself"
        raise PathRefused(message, hint="choose a place outside of it")
    if moved:
        parse_file_path(params.new_path or "", scope.memory_dir)
        _check_is_note(scope, old)
        _check_is_note(scope, new)
    kept = next((path.text for path in was if scope.is_read_only(path.text)), None)
    if kept is not None and not moved:
        hint = "move it with your file manager, or rename the other notes one by one"
        raise PathRefused(f"{kept} is a read-only note of this workspace", hint=hint)
    rename = Rename(old=old.note, new=new.note, was=was)
    puts, skipped = _update_links(workspace, rename) if params.update_links else ([], [])
    updated = {put.path: put.data for put in puts}
    # The links of the renamed notes are changed first, under their old paths.
    data = {path: updated.get(path, file.data) for path, file in was.items()}
    renamed = {
        path: replace(file, data=data[path], digest=digest_bytes(data[path]))
        for path, file in was.items()
    }
    # Operations that may be refused come first. A note that others save meanwhile keeps its links.
    own = [put for put in puts if put.path in was]
    others = [replace(put, may_be_skipped=True) for put in puts if put.path not in was]
    operations: tuple[FileChange, ...] = (*own, replace(rename, was=renamed), *others)
    answer = Answer(
        text=text,
        digest=renamed[old.note].digest if moved else None,
        is_searched=moved is None or scope.is_note(new.note.text),
        updated_links=tuple(put.path.text for put in puts),
        skipped_links=tuple(skipped),
    )
    edit = _make_edit(params, old, *(operations if params.apply else ()), new_path=new.note)
    return edit, answer


def _update_links(workspace: Workspace, rename: Rename) -> tuple[list[Put], list[str]]:
    """Make the changes that keep all links to the renamed notes, and from them, right. Also return
    the notes that need a change and must not be written.
    """
    moved = {path.text: rename.new_path(path).text for path in rename.was}
    puts: list[Put] = []
    skipped: list[str] = []
    with workspace.acquire(LINKS_LIMIT_S) as reader:
        index = StoredLinks(reader)
        # Titles are left out: a link by title stays right, and other programs know only paths.
        before = NoteNames(PathNames(index, without=moved, added=moved))
        after = NoteNames(PathNames(index, without=moved, added=moved.values()))
        for path in sorted(_find_linking(reader, before, moved)):
            note = NotePath(path)
            file = rename.was.get(note) or read_text_file(workspace.scope, note)
            if file is None:
                continue
            data = update_links(path, file.data, moved, before=before, after=after)
            if data == file.data:
                continue
            is_own = resolve(workspace.scope, note).folder == workspace.scope.root
            if is_own and not workspace.scope.is_read_only(path):
                way_out = "rename without updating links"
                puts.append(make_put(workspace.scope, note, data, file, way_out=way_out))
            else:
                skipped.append(path)
    return puts, skipped


def _find_linking(reader: Reader, names: NoteNames, moved: Mapping[str, str]) -> set[str]:
    """The notes with links that a rename may change: the renamed notes, and the notes that link to
    them.
    """
    keys = {make_key(name) for path in moved for name in list_names(path, "")}
    linking = set(moved)
    for source, target, kind in read_links_with_keys(reader, keys):
        is_path = kind == PATH_LINK
        if source not in linking and names.find(source, target, is_path=is_path) in moved:
            linking.add(source)
    return linking


def make_clear_decision(workspace: Workspace, *, client: str) -> Decide[int]:
    """Make the decision to delete every note of memory; the answer is their number. Other files
    and included notes stay. Raises PathRefused in a vault, all of whose notes are memory.
    """
    if not workspace.scope.memory_dir:
        hint = "delete notes one by one, or give the workspace a memory_dir of its own"
        raise PathRefused("clear would delete every note of this vault", hint=hint)

    def decide() -> tuple[Edit, int]:
        scope = workspace.scope
        paths = [
            path
            for path in find_files(scope, None)
            if scope.is_note(path.text) and not scope.is_read_only(path.text)
        ]
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
    files = ((note, read_text_file(scope, note)) for note in find_files(scope, path))
    return {note: file for note, file in files if file is not None}


def _make_edit(
    params: MemoryParams,
    path: MemoryPath,
    *operations: FileChange,
    new_path: NotePath | None = None,
) -> Edit:
    return Edit(
        command=params.command,
        client=params.client or "",
        path=path.note.text if path.note else MEMORY_FOLDER,
        new_path=new_path.text if new_path else None,
        operations=operations,
    )


# --- checks -------------------------------------------------------------------------------------


def validate_section(section: Mapping[str, Any], config: Config) -> Validation:
    """Check the fields of a section as `note.add` takes them."""
    faults = [*_find_type_faults(section)]
    wrong = {fault.field for fault in faults}
    fields = {name: value for name, value in section.items() if name not in wrong}
    # Only a section with content can be checked further.
    fields.setdefault("content", "x")
    try:
        addition = make_addition(msgspec.convert(fields, NewSection))
    except BadRequest as error:
        faults.append(_make_fault(error))
    else:
        errors = find_faults(addition, most_chars=config.memory.max_content_chars)
        faults += map(_make_fault, errors)
    return Validation(workspace="", is_valid=not faults, faults=faults, checked=1)


def _find_type_faults(section: Mapping[str, Any]) -> Iterator[FieldFault]:
    fields = {field.name: field for field in msgspec.structs.fields(NewSection)}
    if "content" not in section:
        yield FieldFault(field="content", problem="is missing", hint="give the text of the memory")
    for name, value in section.items():
        if name not in fields:
            hint = f"the fields are {', '.join(fields)}; others go into metadata"
            yield FieldFault(field=name, problem="is no field of a section", hint=hint)
            continue
        try:
            msgspec.convert(value, fields[name].type)
        except msgspec.ValidationError as error:
            problem = str(error).partition(" - at `$")[0]
            hint = "see the parameters of note.add: memsyncd remember --help"
            yield FieldFault(field=name, problem=problem[:1].lower() + problem[1:], hint=hint)


def _make_fault(error: BadRequest) -> FieldFault:
    return msgspec.convert(describe_fault(error), FieldFault)


def validate_notes(workspace: Workspace, config: Config, path: str | None) -> Validation:
    """Check indexed notes: their problems, and metadata that no section may state.

    Raises NoteNotFound if no note is at the path, so that a mistyped path does not pass.
    """
    with workspace.acquire(READ_LIMIT_S) as reader:
        notes = list(stream_notes(reader, path=path, filters=EVERYTHING))
        problems = read_problems(reader)
    if path is not None and not notes:
        raise NoteNotFound(f"no note is indexed at {path}", hint=LIST_NOTES)
    paths = {note.path for note in notes}
    faults = [
        FieldFault(
            field="",
            problem=problem.problem,
            hint=problem.hint,
            path=problem.path,
            line=problem.line,
        )
        for problem in problems
        if problem.path in paths
    ]
    for note in notes:
        for section in note.sections:
            faults += [
                replace(fault, path=note.path, line=section.span.start)
                for fault in _find_section_faults(section, config)
            ]
    faults.sort(key=lambda fault: (fault.path, fault.line))
    n_sections = sum(len(note.sections) for note in notes)
    return Validation(
        workspace=workspace.id, is_valid=not faults, faults=faults, checked=n_sections
    )


def _find_section_faults(section: StoredSection, config: Config) -> Iterator[FieldFault]:
    if section.kind is not None and section.kind not in config.kinds:
        hint = advise_unknown_kind(config.kinds, section.kind)
        yield FieldFault(field="kind", problem=f"{section.kind!r} is not configured", hint=hint)
    topic = section.extra.get("topic", "")
    keywords = [word for word in section.extra.get("keywords", "").split(", ") if word]
    for field, values, most, most_chars in (
        ("tags", section.tags, TAGS_LIMIT, WORD_LIMIT_CHARS),
        ("topic", [topic], 1, TOPIC_LIMIT_CHARS),
        ("keywords", keywords, KEYWORDS_LIMIT, KEYWORD_LIMIT_CHARS),
    ):
        if len(values) > most:
            yield FieldFault(field=field, problem=f"are more than {most}", hint="leave some out")
        if any(len(value) > most_chars for value in values):
            problem = f"is over {most_chars} characters"
            yield FieldFault(field=field, problem=problem, hint="shorten it")


# --- the operations -----------------------------------------------------------------------------


def _list_paths(params: MemoryParams) -> tuple[str | None, ...]:
    return params.path, params.old_path, params.new_path


async def carry_out_command(call: Call, params: MemoryParams) -> MemoryResult:
    workspace = call.workspace
    params = replace(params, client=call.writer)
    if not all(is_within_folder(path or MEMORIES, MEMORIES) for path in _list_paths(params)):
        name = partial(name_memory_paths, workspace, params)
        params = await read_saved(call, name, on_disk=True)
    outcome: EditOutcome[Answer]
    if params.command == "view":
        await call.wait_until_recovered()
        read = partial(view, workspace, params)
        outcome = EditOutcome(answer=await call.read(read, on_disk=True))
    else:
        outcome = await call.edit(make_decision(workspace, call.config, params))
    answer = outcome.answer
    return MemoryResult(
        text=answer.text,
        digest=answer.digest,
        is_searched=answer.is_searched,
        updated_links=[path for path in answer.updated_links if path not in outcome.skipped],
        skipped_links=sorted({*answer.skipped_links, *outcome.skipped}),
        **call.describe_write(outcome),
    )


async def clear_memory(call: Call, params: ClearParams) -> Cleared:
    if not params.confirm:
        raise BadRequest(
            "every note of memory would be removed",
            hint="send confirm: true; undo brings them back",
        )
    outcome = await call.edit(make_clear_decision(call.workspace, client=call.writer))
    return Cleared(removed=outcome.answer, **call.describe_write(outcome))


async def add_section(call: Call, params: NoteAddParams) -> Added:
    """Append a section. If a section says nearly the same, the request may ask to append to that
    section, or only to report it.
    """
    workspace, config = call.workspace, call.config
    [params] = await _resolve_names(call, [params])
    addition = make_addition(params)
    check_addition(addition, most_chars=config.memory.max_content_chars)
    find = partial(find_near, texts=[f"{params.summary}\n\n{params.content}"])
    similar = await call.find_near(find, params.on_similar)
    section = choose_near(workspace, config, similar, params.on_similar)
    describe = partial(
        Added,
        similar=similar,
        is_kind_unknown=(params.kind or "").lower() not in {"", *config.kinds},
        similar_kind=find_similar_kind(config.kinds, params.kind),
    )
    if section is not None and params.on_similar == "report":
        nothing: EditOutcome[None] = EditOutcome(answer=None)
        place = asdict(_make_place(section))
        return describe(action="reported", **place, **call.describe_write(nothing))
    if section is not None:
        decide = make_append_there_decision(
            workspace, config, addition, section, command="note.add", **call.stamp
        )
        # If that section has another form, or was removed meanwhile, the text must not be lost.
        with contextlib.suppress(EditRefused, NoteNotFound):
            outcome = await call.edit(decide)
            place = asdict(_make_place(outcome.answer))
            return describe(action="appended", **place, **call.describe_write(outcome))
    added = await _append(call, "note.add", [params])
    return describe(**asdict(added.answer[0]), **call.describe_write(added))


async def add_sections(call: Call, params: NoteAddManyParams) -> AddedMany:
    outcome = await _append(call, "note.add_many", await _resolve_names(call, params.items))
    return AddedMany(added=outcome.answer, **call.describe_write(outcome))


SectionT = TypeVar("SectionT", bound=NewSection)


async def _resolve_names(call: Call, sections: Sequence[SectionT]) -> Sequence[SectionT]:
    """Return the sections with the paths of their notes, and with their relations as typed links at
    the end of their texts.

    Raises NoteNotFound for a relation to a memory that does not exist, and BadRequest that names
    the candidates if several notes have the name of a note.
    """
    if any(_is_bare_name(section.note) for section in sections):
        sections = await call.read(partial(_name_notes, call.workspace, call.config, sections))
    if not any(section.relations for section in sections):
        return sections
    workspace = await call.open()

    def write() -> list[SectionT]:
        with workspace.acquire(READ_LIMIT_S) as reader:
            return [_write_relations(workspace, reader, section) for section in sections]

    return await read_saved(call, write)


def _name_notes(
    workspace: Workspace, config: Config, sections: Sequence[SectionT]
) -> Sequence[SectionT]:
    # A write needs no index, and must not fail with it.
    if workspace.readers is not None:
        with contextlib.suppress(StoreFailed), workspace.acquire(READ_LIMIT_S) as reader:
            return [_name_note(workspace, config, reader, section) for section in sections]
    return sections


def _is_bare_name(note: str | None) -> bool:
    return note is not None and "/" not in note


def _name_note(workspace: Workspace, config: Config, reader: Reader, section: SectionT) -> SectionT:
    """Return the section with the path of the only note that has the name which it gives. A note
    of this name in the memory folder comes first; if there is no note, one will be created.
    """
    if section.note is None or not _is_bare_name(section.note):
        return section
    inside = choose_path(workspace, config, section.note)
    if inside is None or read_text_file(workspace.scope, inside) is not None:
        return section
    name, mark, heading = strip_brackets(section.note).partition("#")
    path = find_note_path(reader, StoredLinks(reader).names, name if heading else name + mark)
    if heading and path is not None:
        hint = f"name the note alone: {path}"
        raise BadRequest(f"{section.note} is a section, and this needs a note", hint=hint)
    is_writable = path is not None and not workspace.scope.is_read_only(path)
    return replace(section, note=f"./{path}") if is_writable else section


def _write_relations(workspace: Workspace, reader: Reader, section: SectionT) -> SectionT:
    if not section.relations:
        return section
    pairs = (text.partition("=") for text in section.relations)
    relations = [RelationLink(kind.strip(), to.strip()) for kind, _, to in pairs]
    raise_faults([*find_relation_faults("relations", relations)])
    named = name_relations(workspace, reader, relations, must_exist=True)
    links = [f"- {relation.kind} [[{relation.to}]]" for relation in named]
    return replace(section, content=add_links(section.content, links), relations=[])


async def _append(
    call: Call, command: str, sections: Sequence[NewSection]
) -> EditOutcome[list[AddedSection]]:
    return await call.edit(
        make_addition_decision(call.workspace, call.config, sections, command=command, **call.stamp)
    )


def _make_place(section: SimilarSection | FieldWritten) -> AddedSection:
    """Return the place of a section alone."""
    return msgspec.convert(section, AddedSection, from_attributes=True)


async def validate(call: Call, params: ValidateParams) -> Validation:
    if params.section is not None:
        if params.path is not None:
            raise BadRequest("name either a section or a path", hint="leave one of the two out")
        return validate_section(params.section, call.config)
    workspace = await call.open()
    return await call.read(partial(validate_notes, workspace, call.config, params.path))
