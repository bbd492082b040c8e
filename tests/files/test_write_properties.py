"""Random writes: none leaves the root, and the disk equals a dictionary as its model."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.paths import NotePath, parse_note_path
from memsyncd.errors import AlreadyExists, Conflict, MemsyncdError, PathRefused
from memsyncd.files.listing import find_files, is_folder
from memsyncd.files.read import read_text_file
from memsyncd.files.scope import Scope
from memsyncd.files.write import delete_path, put_text_file, rename_path
from tests.files.conftest import parse_scope

NASTY = [
    "..",
    ".",
    "",
    "out",
    "link.md",
    "in",
    "a.md",
    "%2e%2e",
    "..\\",
    "．．",
    "~",
    ".git",
    "a" * 255,
]
PARTS = st.sampled_from(NASTY) | st.text(max_size=4)
PATHS = st.lists(PARTS, max_size=4).map(lambda parts: "/".join([".memories", *parts])) | st.text(
    max_size=8
)


def list_all(folder: Path) -> list[tuple[str, bytes]]:
    return sorted(
        (str(place.relative_to(folder)), place.read_bytes())
        for place in folder.rglob("*")
        if place.is_file()
    )


@given(texts=st.lists(st.tuples(PATHS, PATHS), min_size=1, max_size=4))
def test_no_path_reads_or_changes_a_file_outside_the_workspace(
    tmp_path_factory: pytest.TempPathFactory, texts: list[tuple[str, str]]
) -> None:
    top = Path(os.path.realpath(tmp_path_factory.mktemp("w")))
    (top / "root/.memories/in").mkdir(parents=True)
    (top / "out/in").mkdir(parents=True)
    (top / "out/a.md").write_bytes(b"outside")
    (top / "root/.memories/out").symlink_to(top / "out")
    (top / "root/.memories/link.md").symlink_to(top / "out/a.md")
    (top / "root/.memories/in/out").symlink_to("../../..")
    scope = parse_scope(str(top / "root"), include=["**/*.md"])
    for old, new in texts:
        with contextlib.suppress(MemsyncdError):
            path = parse_note_path(old)
            read = None
            with contextlib.suppress(PathRefused):
                read = read_text_file(scope, path)
            assert read is None or read.data == b"inside"
            put_text_file(scope, path, b"inside", was=read)
            rename_path(scope, path, parse_note_path(new))
        with contextlib.suppress(MemsyncdError):
            path = parse_note_path(new)
            paths = find_files(scope, path)
            delete_path(
                scope,
                path,
                was={
                    file_path: file
                    for file_path in paths
                    if (file := read_text_file(scope, file_path)) is not None
                },
            )
    assert [item for item in list_all(top) if not item[0].startswith("root/")] == [
        ("out/a.md", b"outside")
    ]


NAMES = st.lists(st.sampled_from(["a", "b", "c.md"]), min_size=1, max_size=3).map("/".join)
OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["put", "delete", "rename"]), NAMES, NAMES, st.binary(max_size=3)),
    max_size=12,
)


@given(operations=OPERATIONS)
def test_any_order_of_writes_has_the_same_result_as_on_a_dictionary(
    tmp_path_factory: pytest.TempPathFactory, operations: list[tuple[str, str, str, bytes]]
) -> None:
    root = Path(os.path.realpath(tmp_path_factory.mktemp("w")))
    scope, model = parse_scope(str(root)), dict[str, bytes]()
    for command, name, other, data in operations:
        try:
            expected = apply_operation(model, command, name, other, data)
        except KeyError:
            expected = None
        try:
            apply_on_disk(scope, command, name, other, data)
            assert expected is not None
            model = expected
        except (PathRefused, Conflict):
            # The model does not know folders without files.
            assert expected is None or any(
                is_folder(scope, NotePath(f".memories/{path}")) for path in (name, other)
            )
        assert dict(list_all(root)) == {f".memories/{path}": text for path, text in model.items()}


def apply_operation(
    model: dict[str, bytes], command: str, name: str, other: str, data: bytes
) -> dict[str, bytes]:
    """Return the model after an operation. Raises KeyError if it is impossible."""
    moved = {
        path: text for path, text in model.items() if path == name or path.startswith(f"{name}/")
    }
    rest = {path: text for path, text in model.items() if path not in moved}
    if command == "put":
        if (moved and name not in model) or not has_room(rest, name):
            raise KeyError(name)
        return rest | {name: data}
    if not moved:
        raise KeyError(name)
    if command == "delete":
        return rest
    if (
        other in moved
        or f"{other}/".startswith(f"{name}/")
        or not has_room(model, other)
        or is_taken(model, other)
    ):
        raise KeyError(other)
    return rest | {other + path.removeprefix(name): text for path, text in moved.items()}


def has_room(model: dict[str, bytes], name: str) -> bool:
    """True unless a file has the place of a folder in the path."""
    return not any(name.startswith(f"{path}/") for path in model)


def is_taken(model: dict[str, bytes], name: str) -> bool:
    return any(path == name or path.startswith(f"{name}/") for path in model)


def apply_on_disk(scope: Scope, command: str, name: str, other: str, data: bytes) -> None:
    path = NotePath(f".memories/{name}")
    if command == "put":
        if is_folder(scope, path):
            raise AlreadyExists(name)
        put_text_file(scope, path, data, was=read_text_file(scope, path))
    elif command == "rename":
        if is_folder(scope, path) and not find_files(scope, path):
            raise Conflict(name)
        rename_path(scope, path, NotePath(f".memories/{other}"))
    else:
        paths = find_files(scope, path) if is_folder(scope, path) else [path]
        files = {
            file_path: file
            for file_path in paths
            if (file := read_text_file(scope, file_path)) is not None
        }
        if not files:
            raise Conflict(name)
        delete_path(scope, path, was=files)
