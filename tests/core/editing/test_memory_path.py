from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memsyncd.core.editing.memory_tool import (
    MEMORIES,
    SHOWN_PATH_CHARS,
    parse_file_path,
    parse_memory_path,
    show_memory_path,
)
from memsyncd.core.paths import NAME_LIMIT_BYTES, NotePath, find_refusal
from memsyncd.errors import PathRefused

AWKWARD = [
    *"/memories / . .. \\ %2e %2F %252e \0 ． ／ ＼ … ․ é a MEMORY.md".split(),
    "\n",
    " ",
    "\ud800",
]
typed = st.lists(st.sampled_from(AWKWARD) | st.text(max_size=3), max_size=8).map("".join)
paths = typed | typed.map(lambda text: f"{MEMORIES}/{text}")


def test_a_path_beneath_memories_names_a_note_of_the_workspace() -> None:
    for text, canonical, note in (
        ("/memories", "/memories", None),
        ("/memories/", "/memories", None),
        ("/memories/.", "/memories", None),
        ("/memories/x", "/memories/x", ".memories/x"),
        ("/memories/a/b.md", "/memories/a/b.md", ".memories/a/b.md"),
        ("/memories//a///b.md/", "/memories/a/b.md", ".memories/a/b.md"),
        ("/memories/./a/./b.md", "/memories/a/b.md", ".memories/a/b.md"),
        ("/memories/MEMORY.md", "/memories/MEMORY.md", "MEMORY.md"),
        ("/memories/memory.md", "/memories/memory.md", ".memories/memory.md"),
        ("/memories/a/MEMORY.md", "/memories/a/MEMORY.md", ".memories/a/MEMORY.md"),
        ("/memories/größe 日本語.md", "/memories/größe 日本語.md", ".memories/größe 日本語.md"),
        ("/memories/100%.md", "/memories/100%.md", ".memories/100%.md"),
        ("/memories/a..b", "/memories/a..b", ".memories/a..b"),
        ("/memories/~/$HOME", "/memories/~/$HOME", ".memories/~/$HOME"),
        ("/memories/memories", "/memories/memories", ".memories/memories"),
    ):
        path = parse_memory_path(text)
        assert path.text == canonical, text
        assert (path.note and path.note.text) == note, text


@pytest.mark.parametrize(
    "text",
    [
        "", "memories/x", "/memoriesX", "/memoriesX/y", "/Memories/x", " /memories/x",
        "//memories/x", "/etc/passwd", "/", "/memories/..", "/memories/../x",
        "/memories/../../../etc/passwd", "/memories/a/../b", "/memories/a/..", "/memories/..\\x",
        "/memories/a\\b", "/memories/%2e%2e%2fx", "/memories/%2E%2E/x", "/memories/a%2fb",
        "/memories/%252e%252e/x", "/memories/..%5cx", "/memories/%c0%ae%c0%ae/x",
        "/memories/a%00.md", "/memories/．．/x", "/memories/․․/x", "/memories/‥/x", "/memories/a／b",
        "/memories/a＼b", "/memories/a﹨b", "/memories/℀", "/memories/a\0.md", "/memories/a\n.md",
        "/memories/a\x7f", "/memories/a\u2028b", "/memories/\ud800", "/memories/.hidden",
        "/memories/a/.git/config", "/memories/.memories/x", "/memories/...",
        "/memories/MEMORY.md/x", "/memories/" + "a" * (NAME_LIMIT_BYTES + 1),
        "/memories/" + "é" * 128, "/memories" + "/a" * 3000, "/memories/" + "a" * 5_000_000,
    ],
)  # fmt: skip
def test_a_path_that_could_leave_the_memory_folder_is_refused(text: str) -> None:
    with pytest.raises(PathRefused):
        parse_memory_path(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("/invalid/path.txt", "Path must start with /memories, got: /invalid/path.txt"),
        ("/memoriesX", "Path must start with /memories, got: /memoriesX"),
        (
            "/memories/../../../etc/passwd",
            "Path /memories/../../../etc/passwd would escape /memories directory",
        ),
        ("/memories/a\\b", "Path /memories/a\\b would escape /memories directory"),
        ("/memories/.git", "Path /memories/.git refused: it holds a hidden name"),
        ("/memories/\ud800", "Path /memories/\\ud800 refused: it holds a control character"),
    ],
)
def test_a_refusal_names_the_path_and_the_reason(text: str, message: str) -> None:
    with pytest.raises(PathRefused) as refused:
        parse_memory_path(text)
    assert refused.value.message == message


@given(paths)
@example("/memories/a/")
def test_a_file_has_a_path_without_a_slash_at_its_end(text: str) -> None:
    try:
        path = parse_memory_path(text)
    except PathRefused:
        return
    if path.note is None or not text.endswith("/"):
        assert parse_file_path(text) == path
        return
    with pytest.raises(PathRefused, match="names a folder"):
        parse_file_path(text)


@given(paths)
@example("/memories/..")
@example("/memories/a/./..//../b")
def test_any_text_names_something_beneath_memories_or_is_refused(text: str) -> None:
    try:
        path = parse_memory_path(text)
    except PathRefused:
        return
    if path.note is None:
        assert path.text == MEMORIES
        return
    assert not find_refusal(path.note.text)
    assert path.note == NotePath("MEMORY.md") or path.note.parts[0] == ".memories"
    assert not any(part.startswith(".") for part in path.text.split("/"))
    assert unicodedata.normalize("NFKC", path.text).count("/") == path.text.count("/")


@given(paths.filter(lambda text: not text.startswith(MEMORIES)))
@example("/memories/" + "\ud800" * 1000)
def test_a_refusal_can_be_sent_whatever_was_refused(text: str) -> None:
    with pytest.raises(PathRefused) as refused:
        parse_memory_path(text)
    assert len(refused.value.message.encode("utf-8")) < 4 * SHOWN_PATH_CHARS + 100


@given(paths)
@example("/memories/MEMORY.md")
@example("/memories/a//b/")
def test_a_path_is_shown_as_it_parses(text: str) -> None:
    try:
        path = parse_memory_path(text)
    except PathRefused:
        return
    assert parse_memory_path(path.text) == path
    if path.note is not None:
        assert show_memory_path(path.note) == path.text


def test_a_note_outside_of_memories_has_no_memory_path_and_a_shadowed_one_has_another() -> None:
    for text in ("README.md", "docs/x.md", ".memories"):
        with pytest.raises(PathRefused):
            show_memory_path(NotePath(text))
    assert show_memory_path(NotePath(".memories/MEMORY.md")) == "/memories/MEMORY.md"
