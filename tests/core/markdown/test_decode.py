from __future__ import annotations

from memsyncd.core.markdown.decode import decode_note


def test_lines_end_where_markdown_ends_them_and_nowhere_else() -> None:
    for data, lines in (
        (b"", []), (b"a", ["a"]), (b"a\n", ["a"]), (b"a\r\nb\rc\nd", ["a", "b", "c", "d"]),
        (b"a\n\n", ["a", ""]),
        ("a\u2028b\x85c\x0bd\x0ce\x1cf".encode(), ["a\u2028b\x85c\x0bd\x0ce\x1cf"]),
    ):  # fmt: skip
        assert decode_note("a.md", data).lines == lines, data


def test_invalid_bytes_are_decoded_as_well_as_possible_and_reported() -> None:
    for data, text, line, code in (
        (b"\xef\xbb\xbf# a", "# a", 1, "bom"),
        (b"a\r\nb\xff\n", "a\nb\ufffd\n", 2, "not_utf8"),
        ("# é".encode("utf-16"), "# é", 1, "not_utf8"),
        (b"a\nb\0c", "a\nb\ufffdc", 2, "nul"),
        (b"a\r\nb\rc", "a\nb\nc", 2, "cr_line_ends"),
        (b"a\n" + b"x" * 65_537, "a\n" + "x" * 65_537, 2, "long_line"),
    ):
        decoded = decode_note("a.md", data)
        assert decoded.text == text, data
        assert [(problem.path, problem.line, problem.code) for problem in decoded.problems] == [
            ("a.md", line, code)
        ], data


def test_windows_line_ends_are_not_a_problem() -> None:
    assert decode_note("a.md", b"a\r\nb\r\n").problems == ()
