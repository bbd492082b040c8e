from __future__ import annotations

import codecs

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from memsyncd.core.editing.memory_tool import Dialect, create_text, insert_text, replace_text
from memsyncd.core.editing.notetext import unify_line_ends
from memsyncd.core.markdown.decode import decode_note
from memsyncd.errors import AlreadyExists, BadRequest, EditRefused, NoteNotFound

PATH = "/memories/notes.md"
EDITED = "The memory file has been edited."
SDK_EDITED = f"{EDITED} Here is the snippet showing the change (with line numbers):"

either = pytest.mark.parametrize("dialect", ["docs", "sdk"])
raw_pieces = st.lists(st.sampled_from([b"\n", b"\r\n", b"\r", b"a", b"b", b"ab", b"\xff", "é".encode(), b"\0"]), max_size=10)
notes = st.tuples(st.sampled_from([b"", codecs.BOM_UTF8]), raw_pieces.map(b"".join)).map(b"".join)
texts = st.lists(st.sampled_from(["\n", "\r\n", "\r", "a", "b", "é", "x"]), max_size=6).map("".join)


def lines_of(data: bytes) -> list[str]:
    """Lines as they are indexed, each byte told from each other."""
    text = data.removeprefix(codecs.BOM_UTF8).decode("utf-8", "surrogateescape")
    return unify_line_ends(text).split("\n")


# --- create ---


@either
def test_a_new_note_has_the_very_text(dialect: Dialect) -> None:
    edited = create_text(PATH, None, "Grüße\r\nno end", dialect)
    assert (edited.data, edited.text) == ("Grüße\r\nno end".encode(), f"File created successfully at: {PATH}")


@pytest.mark.parametrize(("dialect", "prefix"), [("docs", "Error: "), ("sdk", "")])
def test_a_note_that_stands_is_not_created_anew(dialect: Dialect, prefix: str) -> None:
    with pytest.raises(AlreadyExists) as refused:
        create_text(PATH, b"other", "text", dialect)
    assert refused.value.message == f"{prefix}File {PATH} already exists"


@either
def test_creating_what_stands_already_succeeds(dialect: Dialect) -> None:
    assert create_text(PATH, b"text", "text", dialect) == create_text(PATH, None, "text", dialect)


# --- str_replace ---


def test_a_replacement_answers_with_a_snippet() -> None:
    data = b"1\n2\n3\nold\n5\n6\n7\n"
    edited = replace_text(PATH, data, "old", "new\nnewer", "docs")
    assert edited.data == b"1\n2\n3\nnew\nnewer\n5\n6\n7\n"
    assert edited.text == f"{EDITED}\n     2\t2\n     3\t3\n     4\tnew\n     5\tnewer\n     6\t5\n     7\t6"
    edited = replace_text(PATH, data, "old", "new\nnewer", "sdk")
    assert edited.text == f"{SDK_EDITED}\n     2\t2\n     3\t3\n     4\tnew\n     5\tnewer\n     6\t5"


def test_a_snippet_of_the_sdks_shows_the_empty_line_after_the_last_end() -> None:
    assert replace_text(PATH, b"a\n", "a", "b", "sdk").text == f"{SDK_EDITED}\n     1\tb\n     2\t"
    assert replace_text(PATH, b"a\n", "a", "b", "docs").text == f"{EDITED}\n     1\tb"


def test_a_note_that_is_empty_then_has_no_snippet() -> None:
    assert replace_text(PATH, b"a", "a", "", "docs").text == EDITED
    assert replace_text(PATH, b"a", "a", "", "sdk").text == f"{SDK_EDITED}\n     1\t"


def test_a_long_snippet_is_cut_and_says_so() -> None:
    snippet = replace_text(PATH, b"a\nb\n", "a", "x\n" * 100, "docs").text.split("\n")
    assert (snippet[1], snippet[40], snippet[-1], len(snippet)) == ("     1\tx", "    40\tx", "…", 42)


@either
def test_words_that_are_not_there_are_not_replaced(dialect: Dialect) -> None:
    for old_str in ("Old\ntext", ""):
        with pytest.raises(EditRefused) as refused:
            replace_text(PATH, b"Hello", old_str, "x", dialect)
        assert refused.value.message == (f"No replacement was performed, old_str `{old_str}` did not appear verbatim in {PATH}.")


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
def test_words_that_are_there_more_than_once_are_not_replaced(dialect: Dialect, data: bytes, old_str: str, lines: str) -> None:
    with pytest.raises(EditRefused) as refused:
        replace_text(PATH, data, old_str, "x", dialect)
    assert refused.value.message == (
        f"No replacement was performed. Multiple occurrences of old_str `{old_str}` in lines: {lines}. Please ensure it is unique"
    )


@pytest.mark.parametrize(("dialect", "prefix"), [("docs", "Error: "), ("sdk", "")])
def test_nothing_is_replaced_in_a_note_that_is_not_there(dialect: Dialect, prefix: str) -> None:
    with pytest.raises(NoteNotFound) as refused:
        replace_text(PATH, None, "a", "b", dialect)
    assert refused.value.message == f"{prefix}The path {PATH} does not exist. Please provide a valid path."


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
def test_a_replacement_changes_the_lines_it_names_and_no_other(data: bytes, old: str, new: str, dialect: Dialect) -> None:
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


# --- insert ---


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
def test_text_becomes_lines_of_its_own(data: bytes, insert_line: int, text: str, docs: bytes, sdk: bytes | None) -> None:
    edited = insert_text(PATH, data, insert_line, text, "docs")
    assert (edited.data, edited.text) == (docs, f"The file {PATH} has been edited.")
    if sdk is not None:
        edited = insert_text(PATH, data, insert_line, text, "sdk")
        assert (edited.data, edited.text) == (sdk, f"The file {PATH} has been edited.")


@pytest.mark.parametrize("insert_line", [-1, 3, 10, 2**63])
def test_a_line_that_is_not_there_is_refused(insert_line: int) -> None:
    with pytest.raises(EditRefused) as refused:
        insert_text(PATH, b"1\n2\n", insert_line, "x", "docs")
    said = f"Invalid `insert_line` parameter: {insert_line}. It should be within the range"
    assert refused.value.message == f"Error: {said} of lines of the file: [0, 2]"
    with pytest.raises(EditRefused) as refused:
        insert_text(PATH, b"1\n2\n", insert_line, "x", "sdk")
    assert refused.value.message == f"{said} [0, 2]."


@pytest.mark.parametrize(
    ("dialect", "message"),
    [
        ("docs", f"Error: The path {PATH} does not exist"),
        ("sdk", f"The path {PATH} does not exist. Please provide a valid path."),
    ],
)
def test_nothing_is_inserted_into_a_note_that_is_not_there(dialect: Dialect, message: str) -> None:
    with pytest.raises(NoteNotFound) as refused:
        insert_text(PATH, None, 0, "x", dialect)
    assert refused.value.message == message


@given(notes, st.integers(-1, 12), texts)
@example(b"a\rb", 1, "\n")
@example(b"\r", 1, "")
def test_an_insertion_keeps_every_byte_of_the_note(data: bytes, insert_line: int, text: str) -> None:
    lines = decode_note(PATH, data).lines
    try:
        edited = insert_text(PATH, data, insert_line, text, "docs").data
    except EditRefused:
        assert not 0 <= insert_line <= len(lines)
        return
    inserted = unify_line_ends(text).removesuffix("\n").split("\n")
    assert decode_note(PATH, edited).lines == [*lines[:insert_line], *inserted, *lines[insert_line:]]
    assert any(edited.startswith(data[:at]) and edited.endswith(data[at:]) for at in range(len(data) + 1))
    if insert_line < len(lines):
        assert edited.endswith((b"\n", b"\r")) == data.endswith((b"\n", b"\r"))


@given(notes, st.integers(0, 12), texts)
def test_an_insertion_as_the_sdk_does_it_loses_nothing_either(data: bytes, insert_line: int, text: str) -> None:
    try:
        edited = insert_text(PATH, data, insert_line, text, "sdk").data
    except EditRefused:
        return
    assert edited.endswith(b"\n")
    ended = data if not data.removeprefix(codecs.BOM_UTF8) or data.endswith(b"\n") else data + b"\n"
    assert any(edited.startswith(ended[:at]) and edited.endswith(ended[at:]) for at in range(len(ended) + 1))


# --- all of them ---


@either
def test_utf16_is_left_alone(dialect: Dialect) -> None:
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


@given(notes, texts)
def test_a_replacement_taken_back_gives_the_same_lines(data: bytes, new: str) -> None:
    """A word that stands once is replaced by another that stands once, and back."""
    marked = data.replace(b"b", b"") + b"|OLD|"
    assume("|" not in new)
    edited = replace_text(PATH, marked, "|OLD|", f"|{new}|", "docs").data
    assert lines_of(replace_text(PATH, edited, f"|{new}|", "|OLD|", "docs").data) == lines_of(marked)
