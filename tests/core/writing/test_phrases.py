from __future__ import annotations

import pytest

from memsyncd.core.editing.memory_tool import (
    Command,
    Dialect,
    describe_deleted,
    describe_renamed,
    refuse_existing,
    refuse_folder,
    refuse_missing,
    refuse_root,
)
from memsyncd.errors import AlreadyExists, MemsyncdError, NoteNotFound, PathRefused

ASKING = "The path /memories/x does not exist. Please provide a valid path."
MISSING = "The path /memories/x does not exist"


@pytest.mark.parametrize(
    ("command", "docs", "sdk"),
    [
        ("view", ASKING, ASKING),
        ("str_replace", f"Error: {ASKING}", ASKING),
        ("insert", f"Error: {MISSING}", ASKING),
        ("delete", f"Error: {MISSING}", MISSING),
        ("rename", f"Error: {MISSING}", MISSING),
    ],
)
def test_a_path_at_which_nothing_stands_is_named_as_the_command_does(command: Command, docs: str, sdk: str) -> None:
    for dialect, message in find_dialects(docs, sdk):
        error = refuse_missing(command, "/memories/x", dialect)
        assert (type(error), error.message) == (NoteNotFound, message)
        assert error.hint


def test_a_path_at_which_something_stands_is_named_as_the_command_does() -> None:
    said = "File /memories/x already exists"
    for dialect, message in find_dialects(f"Error: {said}", said):
        error = refuse_existing("create", "/memories/x", dialect)
        assert (type(error), error.message) == (AlreadyExists, message)
    said = "The destination /memories/x already exists"
    for dialect, message in find_dialects(f"Error: {said}", said):
        error = refuse_existing("rename", "/memories/x", dialect)
        assert (type(error), error.message) == (AlreadyExists, message)


@pytest.mark.parametrize("command", ["delete", "rename"])
def test_memories_itself_stays(command: str) -> None:
    said = f"Cannot {command} the /memories directory itself"
    for dialect, message in find_dialects(f"Error: {said}", said):
        error = refuse_root(command, dialect)  # type: ignore[arg-type]
        assert (type(error), error.message) == (PathRefused, message)


@pytest.mark.parametrize(
    ("command", "docs", "sdk"),
    [
        ("create", (AlreadyExists, "Error: File /memories/x already exists"), (AlreadyExists, "File /memories/x already exists")),
        ("str_replace", (NoteNotFound, f"Error: {ASKING}"), (PathRefused, "The path /memories/x is not a file.")),
        ("insert", (NoteNotFound, f"Error: {MISSING}"), (PathRefused, "The path /memories/x is not a file.")),
    ],
)
def test_a_folder_is_no_file(
    command: Command, docs: tuple[type[MemsyncdError], str], sdk: tuple[type[MemsyncdError], str]
) -> None:
    for dialect, (kind, message) in (("docs", docs), ("sdk", sdk)):
        error = refuse_folder(command, "/memories/x", dialect)  # type: ignore[arg-type]
        assert (type(error), error.message) == (kind, message)


def test_what_was_deleted_or_renamed_is_said_alike_in_both_dialects() -> None:
    for dialect, _ in find_dialects("", ""):
        assert describe_deleted("/memories/{x}", dialect) == "Successfully deleted /memories/{x}"
        assert describe_renamed("/memories/x", "/memories/y", dialect) == "Successfully renamed /memories/x to /memories/y"


def find_dialects(docs: str, sdk: str) -> list[tuple[Dialect, str]]:
    return [("docs", docs), ("sdk", sdk)]
