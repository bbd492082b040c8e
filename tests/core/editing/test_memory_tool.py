from __future__ import annotations

import codecs
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memsyncd.core.editing.memory_tool import (
    LINES_LIMIT,
    Dialect,
    FolderEntry,
    create_text,
    insert_text,
    refuse_existing,
    refuse_folder,
    refuse_missing,
    refuse_root,
    render_phrase,
    replace_text,
    show_size,
    view_folder,
    view_text,
)
from memsyncd.core.editing.sections import unify_line_ends
from memsyncd.core.markdown.decode import decode_note
from memsyncd.errors import (
    AlreadyExists,
    BadRequest,
    EditRefused,
    MemsyncdError,
    NoteNotFound,
    PathRefused,
)

# --- Edits ----------------------------------------------------------------------------------------

PATH = "/memories/notes.md"
EDITED = "The memory file has been edited."
SDK_EDITED = f"{EDITED} Here is the snippet showing the change (with line numbers):"

either = pytest.mark.parametrize("dialect", ["docs", "sdk"])
raw_pieces = st.lists(
    st.sampled_from([b"\n", b"\r\n", b"\r", b"a", b"b", b"ab", b"\xff", "é".encode(), b"\0"]),
    max_size=10,
)
notes = st.tuples(st.sampled_from([b"", codecs.BOM_UTF8]), raw_pieces.map(b"".join)).map(b"".join)
texts = st.lists(st.sampled_from(["\n", "\r\n", "\r", "a", "b", "é", "x"]), max_size=6).map("".join)


def lines_of(data: bytes) -> list[str]:
    """Lines as they are indexed, with each byte distinct from the others."""
    text = data.removeprefix(codecs.BOM_UTF8).decode("utf-8", "surrogateescape")
    return unify_line_ends(text).split("\n")


# --- Create ---------------------------------------------------------------------------------------


@either
def test_a_new_note_has_exactly_the_given_text(dialect: Dialect) -> None:
    edited = create_text(PATH, None, "Grüße\r\nno end", dialect)
    assert (edited.data, edited.text) == (
        "Grüße\r\nno end".encode(),
        f"File created successfully at: {PATH}",
    )


@either
def test_creating_an_identical_note_succeeds(dialect: Dialect) -> None:
    assert create_text(PATH, b"text", "text", dialect) == create_text(PATH, None, "text", dialect)


# --- str_replace ----------------------------------------------------------------------------------


def test_a_replacement_answers_with_a_snippet() -> None:
    data = b"1\n2\n3\nold\n5\n6\n7\n"
    edited = replace_text(PATH, data, "old", "new\nnewer", "docs")
    assert edited.data == b"1\n2\n3\nnew\nnewer\n5\n6\n7\n"
    assert (
        edited.text
        == f"{EDITED}\n     2\t2\n     3\t3\n     4\tnew\n     5\tnewer\n     6\t5\n     7\t6"
    )
    edited = replace_text(PATH, data, "old", "new\nnewer", "sdk")
    assert (
        edited.text == f"{SDK_EDITED}\n     2\t2\n     3\t3\n     4\tnew\n     5\tnewer\n     6\t5"
    )


def test_a_snippet_of_the_sdks_shows_the_empty_line_after_the_last_end() -> None:
    assert replace_text(PATH, b"a\n", "a", "b", "sdk").text == f"{SDK_EDITED}\n     1\tb\n     2\t"
    assert replace_text(PATH, b"a\n", "a", "b", "docs").text == f"{EDITED}\n     1\tb"


def test_a_note_that_is_empty_then_has_no_snippet() -> None:
    assert replace_text(PATH, b"a", "a", "", "docs").text == EDITED
    assert replace_text(PATH, b"a", "a", "", "sdk").text == f"{SDK_EDITED}\n     1\t"


def test_a_long_snippet_is_cut_and_marked() -> None:
    snippet = replace_text(PATH, b"a\nb\n", "a", "x\n" * 100, "docs").text.split("\n")
    assert (snippet[1], snippet[40], snippet[-1], len(snippet)) == (
        "     1\tx",
        "    40\tx",
        "…",
        42,
    )


@either
def test_absent_words_are_not_replaced(dialect: Dialect) -> None:
    for old_str, hint in (("Old\ntext", "copy the words"), ("", "insert")):
        with pytest.raises(EditRefused) as refused:
            replace_text(PATH, b"Hello", old_str, "x", dialect)
        assert refused.value.message == (
            f"No replacement was performed, old_str `{old_str}` did not appear verbatim in {PATH}."
        )
        assert hint in refused.value.hint


@either
@pytest.mark.parametrize(
    ("data", "old_str", "lines"),
    [
        (b"Hello\nMiddle\nHello", "Hello", "1, 3"),
        (b"Hello\r\nMiddle\r\nHello", "Hello", "1, 3"),
        (b"a a\na", "a", "1, 1, 2"),
        (b"aaa", "aa", "1, 1"),
        (b"x\n" * 101, "x", ", ".join(map(str, range(1, 101))) + ", …"),
    ],
)
def test_words_that_occur_more_than_once_are_not_replaced(
    dialect: Dialect, data: bytes, old_str: str, lines: str
) -> None:
    with pytest.raises(EditRefused) as refused:
        replace_text(PATH, data, old_str, "x", dialect)
    assert refused.value.message == (
        f"No replacement was performed. Multiple occurrences of old_str `{old_str}` in lines: "
        f"{lines}. Please ensure it is unique"
    )


@either
@pytest.mark.parametrize(
    ("data", "old_str", "new_str", "expected"),
    [
        (b"a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", b"x\r\ny\r\nz\r\nc\r\n"),
        (b"a\r\nb\r\nc\r\n", "a\r\nb", "x\r\ny", b"x\r\ny\r\nc\r\n"),
        (b"a\nb\nc", "a\r\nb", "x\r\ny", b"x\ny\nc"),
        (b"a\rb\rc", "b\n", "x\ny\n", b"a\rx\ry\rc"),
        (b"a\r\nb\nc\r\nd", "a\nb\nc", "a\nX\nc", b"a\r\nX\nc\r\nd"),
        (b"a\nb\r\nc\r\nd", "a\nb\nc", "a\nX\nc", b"a\nX\r\nc\r\nd"),
        (b"a\r\nb\r\nc\n", "b\nc", "b\nC\nd", b"a\r\nb\r\nC\r\nd\n"),
        (b"\xef\xbb\xbfa\xffb", "b", "c", b"\xef\xbb\xbfa\xffc"),
        (b"\xffa\xfe\n\xc3", "a", "\u00e9", b"\xff\xc3\xa9\xfe\n\xc3"),
        (b"a b", "a b", "a b", b"a b"),
        (b"one two", " two", "", b"one"),
        (b"a\\1{x}%s", "{x}", "\\g<0>", b"a\\1\\g<0>%s"),
    ],
)
def test_a_note_keeps_its_own_line_ends_and_every_other_byte(
    dialect: Dialect, data: bytes, old_str: str, new_str: str, expected: bytes
) -> None:
    assert replace_text(PATH, data, old_str, new_str, dialect).data == expected


@given(notes, texts, texts, st.sampled_from(["docs", "sdk"]))
@example(b"a\r\r\nb", "a\n", "", "docs")
@example(b"\ra\n", "a", "", "docs")
@example(b"\ra", "a", "\n", "docs")
def test_a_replacement_changes_the_lines_it_names_and_no_other(
    data: bytes, old: str, new: str, dialect: Dialect
) -> None:
    before = "\n".join(lines_of(data))
    old, new = unify_line_ends(old), unify_line_ends(new)
    try:
        edited = replace_text(PATH, data, old, new, dialect)
    except EditRefused:
        assert not old or before.count(old) != 1 or before.find(old) != before.rfind(old)
        return
    assert "\n".join(lines_of(edited.data)) == before.replace(old, new, 1)
    assert any(
        edited.data.startswith(data[:start]) and edited.data.endswith(data[end:])
        for start in range(len(data) + 1)
        for end in range(start, len(data) + 1)
        if "\n".join(lines_of(data[start:end])) == old
    )


# --- Insert ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "insert_line", "text", "docs", "sdk"),
    [
        (b"1\n2\n", 0, "x", b"x\n1\n2\n", b"x\n1\n2\n"),
        (b"1\n2\n", 1, "x\n", b"1\nx\n2\n", b"1\nx\n2\n"),
        (b"1\n2\n", 2, "x\ny\n", b"1\n2\nx\ny\n", b"1\n2\nx\ny\n"),
        (b"1\n2\n", 1, "x\n\n", b"1\nx\n\n2\n", b"1\nx\n2\n"),
        (b"1\n2\n", 1, "", b"1\n\n2\n", b"1\n\n2\n"),
        (b"1\n2", 1, "x", b"1\nx\n2", b"1\nx\n2\n"),
        (b"1\n2", 2, "x", b"1\n2\nx", b"1\n2\nx\n"),
        (b"1\n2", 2, "x\n", b"1\n2\nx\n", b"1\n2\nx\n"),
        (b"1\n2", 2, "", b"1\n2\n\n", b"1\n2\n\n"),
        (b"", 0, "x", b"x\n", b"x\n"),
        (b"", 0, "x\n", b"x\n", b"x\n"),
        (b"1\r\n2\r\n", 1, "x\ny", b"1\r\nx\r\ny\r\n2\r\n", b"1\r\nx\ny\n2\r\n"),
        (b"1\r\n2", 2, "x", b"1\r\n2\r\nx", b"1\r\n2\nx\n"),
        (b"1\r2\r", 1, "x", b"1\rx\r2\r", None),
        (b"\xef\xbb\xbf1\n", 0, "x", b"\xef\xbb\xbfx\n1\n", b"\xef\xbb\xbfx\n1\n"),
        (b"\xff\n\xfe", 1, "x", b"\xff\nx\n\xfe", b"\xff\nx\n\xfe\n"),
    ],
)
def test_inserted_text_becomes_whole_lines(
    data: bytes, insert_line: int, text: str, docs: bytes, sdk: bytes | None
) -> None:
    edited = insert_text(PATH, data, insert_line, text, "docs")
    assert (edited.data, edited.text) == (docs, f"The file {PATH} has been edited.")
    if sdk is not None:
        edited = insert_text(PATH, data, insert_line, text, "sdk")
        assert (edited.data, edited.text) == (sdk, f"The file {PATH} has been edited.")


@pytest.mark.parametrize("insert_line", [-1, 3, 10, 2**63])
def test_a_missing_line_is_refused(insert_line: int) -> None:
    with pytest.raises(EditRefused) as refused:
        insert_text(PATH, b"1\n2\n", insert_line, "x", "docs")
    said = f"Invalid `insert_line` parameter: {insert_line}. It should be within the range"
    assert refused.value.message == f"Error: {said} of lines of the file: [0, 2]"
    with pytest.raises(EditRefused) as refused:
        insert_text(PATH, b"1\n2\n", insert_line, "x", "sdk")
    assert refused.value.message == f"{said} [0, 2]."


@given(notes, st.integers(-1, 12), texts)
@example(b"a\rb", 1, "\n")
@example(b"\r", 1, "")
def test_an_insertion_keeps_every_byte_of_the_note(
    data: bytes, insert_line: int, text: str
) -> None:
    lines = decode_note(PATH, data).lines
    try:
        edited = insert_text(PATH, data, insert_line, text, "docs").data
    except EditRefused:
        assert not 0 <= insert_line <= len(lines)
        return
    inserted = unify_line_ends(text).removesuffix("\n").split("\n")
    assert decode_note(PATH, edited).lines == [
        *lines[:insert_line],
        *inserted,
        *lines[insert_line:],
    ]
    assert any(
        edited.startswith(data[:at]) and edited.endswith(data[at:]) for at in range(len(data) + 1)
    )
    if insert_line < len(lines):
        assert edited.endswith((b"\n", b"\r")) == data.endswith((b"\n", b"\r"))


@given(notes, st.integers(0, 12), texts)
def test_an_insertion_in_the_sdk_dialect_loses_no_byte(
    data: bytes, insert_line: int, text: str
) -> None:
    try:
        edited = insert_text(PATH, data, insert_line, text, "sdk").data
    except EditRefused:
        return
    assert edited.endswith(b"\n")
    ended = data if not data.removeprefix(codecs.BOM_UTF8) or data.endswith(b"\n") else data + b"\n"
    assert any(
        edited.startswith(ended[:at]) and edited.endswith(ended[at:])
        for at in range(len(ended) + 1)
    )


# --- All commands ---------------------------------------------------------------------------------


@either
def test_utf16_notes_are_not_changed(dialect: Dialect) -> None:
    data = "a\n".encode("utf-16")
    with pytest.raises(EditRefused):
        replace_text(PATH, data, "a", "b", dialect)
    with pytest.raises(EditRefused):
        insert_text(PATH, data, 0, "b", dialect)


@either
def test_half_a_surrogate_pair_is_refused_by_the_name_of_its_parameter(dialect: Dialect) -> None:
    half = "\udcff"
    with pytest.raises(BadRequest, match="file_text"):
        create_text(PATH, None, half, dialect)
    with pytest.raises(BadRequest, match="old_str"):
        replace_text(PATH, b"\xff", half, "", dialect)
    with pytest.raises(BadRequest, match="new_str"):
        replace_text(PATH, b"a", "a", half, dialect)
    with pytest.raises(BadRequest, match="insert_text"):
        insert_text(PATH, b"a", 0, half, dialect)


# --- Views ----------------------------------------------------------------------------------------

VIEWED = "/memories/notes.md"
HEADER = f"Here's the content of {VIEWED} with line numbers:\n"
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
    assert view_text(VIEWED, data, None, "docs") == HEADER + docs
    if sdk is not None:
        assert view_text(VIEWED, data, None, "sdk") == HEADER + sdk


def test_numbers_are_six_wide() -> None:
    lines = view_text(VIEWED, b"\n" * 100_000, None, "docs").split("\n")
    assert (lines[10], lines[100], lines[100_000]) == ("    10\t", "   100\t", "100000\t")


@pytest.mark.parametrize("dialect", ["docs", "sdk"])
@pytest.mark.parametrize(
    ("view_range", "first", "last"),
    [
        ((2, 4), 2, 4),
        ((1, -1), 1, 5),
        ((4, -1), 4, 5),
        ((5, 5), 5, 5),
        ((0, 2), 1, 2),
        ((-3, 2), 1, 2),
        ((4, 99), 4, 5),
    ],
)
def test_a_range_shows_its_lines(
    dialect: Dialect, view_range: tuple[int, int], first: int, last: int
) -> None:
    expected = "\n".join(f"     {number}\tLine {number}" for number in range(first, last + 1))
    assert view_text(VIEWED, FIVE, view_range, dialect) == HEADER + expected


@pytest.mark.parametrize("view_range", [(6, 9), (6, -1), (3, 2), (2, 0), (1, -2)])
def test_a_range_that_holds_no_line_is_refused_by_the_documents_dialect(
    view_range: tuple[int, int],
) -> None:
    with pytest.raises(EditRefused) as refused:
        view_text(VIEWED, FIVE, view_range, "docs")
    first, last = view_range
    assert refused.value.message == (
        f"Error: Invalid `view_range` parameter: [{first}, {last}]. It should be within the "
        f"range of lines of the file: [1, 5]"
    )
    assert view_text(VIEWED, FIVE, (6, 9), "sdk") == HEADER


def test_an_empty_note_takes_any_range() -> None:
    assert view_text(VIEWED, b"", (1, 10), "docs") == HEADER


@pytest.mark.parametrize("dialect", ["docs", "sdk"])
def test_a_note_of_too_many_lines_is_not_shown(dialect: Dialect) -> None:
    assert (
        view_text(VIEWED, b"\n" * (LINES_LIMIT - 1) + b"x", (LINES_LIMIT, -1), dialect)
        == f"{HEADER}999999\tx"
    )
    with pytest.raises(EditRefused) as refused:
        view_text(VIEWED, b"\n" * LINES_LIMIT + b"x", None, dialect)
    assert refused.value.message == f"File {VIEWED} exceeds maximum line limit of 999,999 lines."


@given(st.binary(max_size=60))
def test_lines_are_shown_as_they_are_indexed(data: bytes) -> None:
    view = view_text(VIEWED, data, None, "docs").removeprefix(HEADER)
    lines = decode_note(VIEWED, data).lines
    assert view == "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(lines, 1))


ENTRIES = [
    FolderEntry(path="/memories/z.md", size_bytes=1536, is_folder=False),
    FolderEntry(path="/memories/sub/inner.md", size_bytes=0, is_folder=False),
    FolderEntry(path="/memories/sub/deep", size_bytes=4096, is_folder=True),
    FolderEntry(path="/memories/sub", size_bytes=4096, is_folder=True),
    FolderEntry(path="/memories/sub.md", size_bytes=12, is_folder=False),
    FolderEntry(path="/memories/MEMORY.md", size_bytes=2048, is_folder=False),
]


def test_a_folder_shows_two_levels_as_the_documents_do() -> None:
    assert view_folder("/memories", 7692, ENTRIES, "docs") == (
        "Here're the files and directories up to 2 levels deep in /memories, excluding hidden "
        "items and node_modules:\n"
        "7.6K\t/memories\n"
        "2.0K\t/memories/MEMORY.md\n"
        "4.0K\t/memories/sub\n"
        "4.0K\t/memories/sub/deep\n"
        "0B\t/memories/sub/inner.md\n"
        "12B\t/memories/sub.md\n"
        "1.5K\t/memories/z.md"
    )


def test_a_folder_shows_two_levels_as_the_sdk_does() -> None:
    assert view_folder("/memories", 4096, ENTRIES, "sdk", is_cut=True) == (
        "Here're the files and directories up to 2 levels deep in /memories, excluding hidden "
        "items:\n"
        "4K\t/memories\n"
        "2K\t/memories/MEMORY.md\n"
        "4K\t/memories/sub/\n"
        "4K\t/memories/sub/deep/\n"
        "0B\t/memories/sub/inner.md\n"
        "12B\t/memories/sub.md\n"
        "1.5K\t/memories/z.md\n"
        "… over 1000 entries: view a folder in it, or search"
    )


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


# --- Phrases --------------------------------------------------------------------------------------

MISSING = "The path /memories/x does not exist"
ASKING = f"{MISSING}. Please provide a valid path."
NO_FILE = "The path /memories/x is not a file."
FILE_EXISTS = "File /memories/x already exists"
DESTINATION_EXISTS = "The destination /memories/x already exists"

X = "/memories/x"


@pytest.mark.parametrize(
    ("refuse", "docs", "sdk"),
    [
        (partial(refuse_missing, "view", X), ASKING, ASKING),
        (partial(refuse_missing, "str_replace", X), f"Error: {ASKING}", ASKING),
        (partial(refuse_missing, "insert", X), f"Error: {MISSING}", ASKING),
        (partial(refuse_missing, "delete", X), f"Error: {MISSING}", MISSING),
        (partial(refuse_missing, "rename", X), f"Error: {MISSING}", MISSING),
        (partial(refuse_existing, "create", X), f"Error: {FILE_EXISTS}", FILE_EXISTS),
        (partial(refuse_existing, "rename", X), f"Error: {DESTINATION_EXISTS}", DESTINATION_EXISTS),
        *(
            (
                partial(refuse_root, command),
                f"Error: Cannot {command} the /memories directory itself",
                f"Cannot {command} the /memories directory itself",
            )
            for command in ("delete", "rename")
        ),
        (partial(refuse_folder, "create", X), f"Error: {FILE_EXISTS}", FILE_EXISTS),
        (partial(refuse_folder, "str_replace", X), f"Error: {ASKING}", NO_FILE),
        (partial(refuse_folder, "insert", X), f"Error: {MISSING}", NO_FILE),
    ],
)
def test_a_path_is_refused_in_the_words_of_the_command(
    refuse: Callable[[Dialect], MemsyncdError], docs: str, sdk: str
) -> None:
    for dialect, message in (("docs", docs), ("sdk", sdk)):
        error = refuse(dialect)  # type: ignore[arg-type]
        assert error.message == message
        assert error.hint
        if message.endswith("already exists"):
            assert isinstance(error, AlreadyExists)
        else:
            is_missing = MISSING in message
            assert type(error) is (NoteNotFound if is_missing else PathRefused)


@either
def test_only_a_missing_note_is_created_and_only_an_existing_one_changed(dialect: Dialect) -> None:
    with pytest.raises(AlreadyExists):
        create_text(PATH, b"other", "text", dialect)
    with pytest.raises(NoteNotFound):
        replace_text(PATH, None, "a", "b", dialect)
    with pytest.raises(NoteNotFound):
        insert_text(PATH, None, 0, "x", dialect)


@either
def test_deleting_and_renaming_have_the_same_answers_in_both_dialects(dialect: Dialect) -> None:
    deleted = render_phrase("deleted", dialect, path="/memories/{x}")
    renamed = render_phrase("renamed", dialect, old="/memories/x", new="/memories/y")
    assert deleted == "Successfully deleted /memories/{x}"
    assert renamed == "Successfully renamed /memories/x to /memories/y"
