"""What does the memory tool say, word for word? The strings of `memory_20250818`, which models have learnt.

Two dialects: `docs`, as Anthropic's documents have them, and `sdk`, as its Python SDK's `BetaLocalFilesystemMemoryTool` does.
"""

from __future__ import annotations

from typing import Final, Literal

from memsyncd.errors import AlreadyExists, EditRefused, MemsyncdError, NoteNotFound, PathRefused

Dialect = Literal["docs", "sdk"]
Command = Literal["view", "create", "str_replace", "insert", "delete", "rename"]

_MISSING: Final = "The path {path} does not exist"
_MISSING_ASKING: Final = "The path {path} does not exist. Please provide a valid path."
_PHRASES: Final[dict[str, dict[Dialect, str]]] = {
    "view missing": {"docs": _MISSING_ASKING, "sdk": _MISSING_ASKING},
    "str_replace missing": {"docs": f"Error: {_MISSING_ASKING}", "sdk": _MISSING_ASKING},
    "insert missing": {"docs": f"Error: {_MISSING}", "sdk": _MISSING_ASKING},
    "delete missing": {"docs": f"Error: {_MISSING}", "sdk": _MISSING},
    "rename missing": {"docs": f"Error: {_MISSING}", "sdk": _MISSING},
    "create existing": {"docs": "Error: File {path} already exists", "sdk": "File {path} already exists"},
    "rename existing": {
        "docs": "Error: The destination {path} already exists",
        "sdk": "The destination {path} already exists",
    },
    "delete root": {
        "docs": "Error: Cannot delete the /memories directory itself",
        "sdk": "Cannot delete the /memories directory itself",
    },
    "rename root": {
        "docs": "Error: Cannot rename the /memories directory itself",
        "sdk": "Cannot rename the /memories directory itself",
    },
    "no match": {
        "docs": "No replacement was performed, old_str `{old_str}` did not appear verbatim in {path}.",
        "sdk": "No replacement was performed, old_str `{old_str}` did not appear verbatim in {path}.",
    },
    "several matches": {
        "docs": "No replacement was performed. Multiple occurrences of old_str `{old_str}` in lines: {lines}."
        " Please ensure it is unique",
        "sdk": "No replacement was performed. Multiple occurrences of old_str `{old_str}` in lines: {lines}."
        " Please ensure it is unique",
    },
    "no such line": {
        "docs": "Error: Invalid `insert_line` parameter: {line}."
        " It should be within the range of lines of the file: [0, {n_lines}]",
        "sdk": "Invalid `insert_line` parameter: {line}. It should be within the range [0, {n_lines}].",
    },
    "no such range": {
        "docs": "Error: Invalid `view_range` parameter: [{first}, {last}]."
        " It should be within the range of lines of the file: [1, {n_lines}]",
        "sdk": "Invalid `view_range` parameter: [{first}, {last}]. It should be within the range [1, {n_lines}].",
    },
    "too many lines": {
        "docs": "File {path} exceeds maximum line limit of 999,999 lines.",
        "sdk": "File {path} exceeds maximum line limit of 999,999 lines.",
    },
    "created": {"docs": "File created successfully at: {path}", "sdk": "File created successfully at: {path}"},
    "replaced": {
        "docs": "The memory file has been edited.\n{snippet}",
        "sdk": "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n{snippet}",
    },
    "inserted": {"docs": "The file {path} has been edited.", "sdk": "The file {path} has been edited."},
    "deleted": {"docs": "Successfully deleted {path}", "sdk": "Successfully deleted {path}"},
    "renamed": {"docs": "Successfully renamed {old} to {new}", "sdk": "Successfully renamed {old} to {new}"},
    "folder": {
        "docs": "Here're the files and directories up to 2 levels deep in {path}, excluding hidden items and node_modules:",
        "sdk": "Here're the files and directories up to 2 levels deep in {path}, excluding hidden items:",
    },
    "file": {
        "docs": "Here's the content of {path} with line numbers:",
        "sdk": "Here's the content of {path} with line numbers:",
    },
}


def render_phrase(phrase: str, dialect: Dialect, **words: object) -> str:
    """One of the phrases with its words filled in."""
    return _PHRASES[phrase][dialect].format_map(words)


def describe_deleted(path: str, dialect: Dialect) -> str:
    return render_phrase("deleted", dialect, path=path)


def describe_renamed(old: str, new: str, dialect: Dialect) -> str:
    return render_phrase("renamed", dialect, old=old, new=new)


def refuse_missing(
    command: Literal["view", "str_replace", "insert", "delete", "rename"], path: str, dialect: Dialect
) -> NoteNotFound:
    """The error for a path at which nothing stands; for `rename` that is the old one."""
    return NoteNotFound(render_phrase(f"{command} missing", dialect, path=path), hint="view /memories to see what there is")


def refuse_existing(command: Literal["create", "rename"], path: str, dialect: Dialect) -> AlreadyExists:
    """The error for a path at which something stands already; for `rename` that is the new one."""
    return AlreadyExists(
        render_phrase(f"{command} existing", dialect, path=path), hint="edit what is there, or choose another path"
    )


def refuse_root(command: Literal["delete", "rename"], dialect: Dialect) -> PathRefused:
    """The error for deleting or renaming `/memories` itself."""
    return PathRefused(render_phrase(f"{command} root", dialect), hint="name what is in it")


def refuse_folder(command: Command, path: str, dialect: Dialect) -> MemsyncdError:
    """The error for a folder where a file is meant: to the documents there is no file, to the SDK what there is is none."""
    if command == "create":
        return refuse_existing("create", path, dialect)
    if dialect == "docs":
        return refuse_missing(command, path, dialect)
    return PathRefused(f"The path {path} is not a file.", hint="name a file in it")


def refuse_edit(phrase: str, dialect: Dialect, *, hint: str, **words: object) -> EditRefused:
    """The error for an edit or view that does not fit the note as it is."""
    return EditRefused(render_phrase(phrase, dialect, **words), hint=hint)
