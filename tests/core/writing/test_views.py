from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.editing.memory_tool import LINES_LIMIT, Dialect, FolderEntry, show_size, view_folder, view_text
from memsyncd.core.markdown.decode import decode_note
from memsyncd.errors import EditRefused

PATH = "/memories/notes.md"
HEADER = f"Here's the content of {PATH} with line numbers:\n"
FIVE = b"Line 1\nLine 2\nLine 3\nLine 4\nLine 5"


@pytest.mark.parametrize(
    ("data", "docs", "sdk"),
    [
        (b"Line 1\nLine 2", "     1\tLine 1\n     2\tLine 2", "     1\tLine 1\n     2\tLine 2"),
        (b"a\n", "     1\ta", "     1\ta\n     2\t"),
        (b"a\n\nb", "     1\ta\n     2\t\n     3\tb", "     1\ta\n     2\t\n     3\tb"),
        (b"", "", "     1\t"),
        (b"a\r\nb\r\n", "     1\ta\n     2\tb", "     1\ta\r\n     2\tb\r\n     3\t"),
        (b"a\rb", "     1\ta\n     2\tb", "     1\ta\rb"),
        (b"\xef\xbb\xbfa", "     1\ta", "     1\t\ufeffa"),
        (b"a\xffb", "     1\ta\ufffdb", "     1\ta\ufffdb"),
        ("a\u2028b\x0cc".encode(), "     1\ta\u2028b\x0cc", "     1\ta\u2028b\x0cc"),
        ("é\n".encode("utf-16"), "     1\té", None),
    ],
)
def test_a_notes_lines_are_numbered(data: bytes, docs: str, sdk: str | None) -> None:
    assert view_text(PATH, data, None, "docs") == HEADER + docs
    if sdk is not None:
        assert view_text(PATH, data, None, "sdk") == HEADER + sdk


def test_numbers_are_six_wide() -> None:
    shown = view_text(PATH, b"\n" * 100_000, None, "docs").split("\n")
    assert (shown[10], shown[100], shown[100_000]) == ("    10\t", "   100\t", "100000\t")


@pytest.mark.parametrize("dialect", ["docs", "sdk"])
@pytest.mark.parametrize(
    ("view_range", "first", "last"),
    [((2, 4), 2, 4), ((1, -1), 1, 5), ((4, -1), 4, 5), ((5, 5), 5, 5), ((0, 2), 1, 2), ((-3, 2), 1, 2), ((4, 99), 4, 5)],
)
def test_a_range_shows_its_lines(dialect: Dialect, view_range: tuple[int, int], first: int, last: int) -> None:
    expected = "\n".join(f"     {number}\tLine {number}" for number in range(first, last + 1))
    assert view_text(PATH, FIVE, view_range, dialect) == HEADER + expected


@pytest.mark.parametrize("view_range", [(6, 9), (6, -1), (3, 2), (2, 0), (1, -2)])
def test_a_range_that_holds_no_line_is_refused_by_the_documents_dialect(view_range: tuple[int, int]) -> None:
    with pytest.raises(EditRefused) as refused:
        view_text(PATH, FIVE, view_range, "docs")
    first, last = view_range
    assert refused.value.message == (
        f"Error: Invalid `view_range` parameter: [{first}, {last}]. It should be within the range of lines of the file: [1, 5]"
    )
    assert view_text(PATH, FIVE, (6, 9), "sdk") == HEADER


def test_an_empty_note_takes_any_range() -> None:
    assert view_text(PATH, b"", (1, 10), "docs") == HEADER


@pytest.mark.parametrize("dialect", ["docs", "sdk"])
def test_a_note_of_too_many_lines_is_not_shown(dialect: Dialect) -> None:
    assert view_text(PATH, b"\n" * (LINES_LIMIT - 1) + b"x", (LINES_LIMIT, -1), dialect) == f"{HEADER}999999\tx"
    with pytest.raises(EditRefused) as refused:
        view_text(PATH, b"\n" * LINES_LIMIT + b"x", None, dialect)
    assert refused.value.message == f"File {PATH} exceeds maximum line limit of 999,999 lines."


@given(st.binary(max_size=60))
def test_lines_are_shown_as_they_are_indexed(data: bytes) -> None:
    shown = view_text(PATH, data, None, "docs").removeprefix(HEADER)
    lines = decode_note(PATH, data).lines
    assert shown == "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(lines, 1))


ENTRIES = [
    FolderEntry(path="/memories/z.md", size_bytes=1536, is_folder=False),
    FolderEntry(path="/memories/sub/inner.md", size_bytes=0, is_folder=False),
    FolderEntry(path="/memories/sub/deep", size_bytes=4096, is_folder=True),
    FolderEntry(path="/memories/sub/deep/er.md", size_bytes=9, is_folder=False),
    FolderEntry(path="/memories/sub", size_bytes=4096, is_folder=True),
    FolderEntry(path="/memories/sub.md", size_bytes=12, is_folder=False),
    FolderEntry(path="/memories/MEMORY.md", size_bytes=2048, is_folder=False),
]


def test_a_folder_shows_two_levels_as_the_documents_do() -> None:
    assert view_folder("/memories", ENTRIES, "docs") == (
        "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items and node_modules:\n"
        "3.6K\t/memories\n"
        "2.0K\t/memories/MEMORY.md\n"
        "4.0K\t/memories/sub\n"
        "4.0K\t/memories/sub/deep\n"
        "0B\t/memories/sub/inner.md\n"
        "12B\t/memories/sub.md\n"
        "1.5K\t/memories/z.md"
    )


def test_a_folder_shows_two_levels_as_the_sdk_does() -> None:
    own = FolderEntry(path="/memories", size_bytes=4096, is_folder=True)
    assert view_folder("/memories", [own, *ENTRIES], "sdk") == (
        "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items:\n"
        "4K\t/memories\n"
        "2K\t/memories/MEMORY.md\n"
        "4K\t/memories/sub/\n"
        "4K\t/memories/sub/deep/\n"
        "0B\t/memories/sub/inner.md\n"
        "12B\t/memories/sub.md\n"
        "1.5K\t/memories/z.md"
    )


def test_depth_counts_from_the_folder_that_is_shown() -> None:
    entries = [entry for entry in ENTRIES if entry.path.startswith("/memories/sub/")]
    shown = view_folder("/memories/sub", entries, "docs").split("\n")[2:]
    assert [line.split("\t")[1] for line in shown] == ["/memories/sub/deep", "/memories/sub/deep/er.md", "/memories/sub/inner.md"]


def test_an_empty_folder_shows_itself() -> None:
    assert view_folder("/memories/a", [], "docs").split("\n")[1:] == ["0B\t/memories/a"]


@pytest.mark.parametrize(
    ("size_bytes", "docs", "sdk"),
    [
        (0, "0B", "0B"),
        (1, "1B", "1B"),
        (1023, "1023B", "1023B"),
        (1024, "1.0K", "1K"),
        (1025, "1.1K", "1.0K"),
        (1536, "1.5K", "1.5K"),
        (10 * 1024, "10K", "10K"),
        (53_300, "53K", "52.1K"),
        (1024 * 1024 - 1, "1.0M", "1024.0K"),
        (1024 * 1024, "1.0M", "1M"),
        (1_258_292, "1.3M", "1.2M"),
        (5 * 1024**3, "5.0G", "5G"),
        (3000 * 1024**3, "3.0T", "3000G"),
        (2000 * 1024**4, "2000T", "2048000G"),
    ],
)
def test_a_size_is_for_people(size_bytes: int, docs: str, sdk: str) -> None:
    assert (show_size(size_bytes, "docs"), show_size(size_bytes, "sdk")) == (docs, sdk)
