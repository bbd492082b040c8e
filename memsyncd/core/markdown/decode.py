r"""Decode a note's bytes to text and lines, and report their defects as problems.

Lines end at `\n`, `\r\n` or `\r` and nowhere else, as markdown-it counts them: `str.splitlines`
would also end a line at U+2028, U+0085 and form feeds, and every line number after that would be
wrong.
"""

from __future__ import annotations

import codecs

import msgspec

from memsyncd.core.model import Problem

LONG_LINE_CHARS = 65_536

# Defects of a note's bytes: code, problem, hint.
_BOM = (
    "bom",
    "begins with a byte order mark",
    "its text is read without the mark; save it as UTF-8 without BOM",
)
_LONE_CR = (
    "cr_line_ends",
    "has line ends of a lone CR",
    "they count as line ends; save it with LF",
)
_LONG_LINE = (
    "long_line",
    f"has a line over {LONG_LINE_CHARS} characters",
    "break it, so that places are exact",
)
_NOT_UTF8 = (
    "not_utf8",
    "is not valid UTF-8",
    "invalid bytes are read as U+FFFD; save it as UTF-8",
)
_NUL = ("nul", "holds a NUL character", "it is read as U+FFFD; remove it")
_UTF16 = ("not_utf8", "is UTF-16, not UTF-8", "it was read as UTF-16; save it as UTF-8")
_REPLACEMENT = "\ufffd"
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class Decoded(msgspec.Struct, frozen=True, kw_only=True):
    r"""A note's text with `\n` for every line end, its lines without ends, and its defects."""

    text: str
    lines: list[str]
    problems: tuple[Problem, ...]


def is_utf16(data: bytes) -> bool:
    """True for UTF-16. Such a note is read, but never edited."""
    return data.startswith(_UTF16_MARKS)


def decode_note(path: str, data: bytes) -> Decoded:
    """Decode bytes as well as possible; never raises.

    A last line without a line end counts as a line. An empty text after the last line end does not.
    """
    problems: list[Problem] = []
    text = _decode(path, data, problems)
    if "\r" in text:
        text = _unify_line_ends(path, text, problems)
    if "\0" in text:
        problems.append(Problem(path, _line_of(text, "\0"), *_NUL))
        text = text.replace("\0", _REPLACEMENT)
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return Decoded(
        text=text, lines=lines, problems=(*problems, *_find_long_lines(path, text, lines))
    )


def _decode(path: str, data: bytes, problems: list[Problem]) -> str:
    if is_utf16(data):
        problems.append(Problem(path, 1, *_UTF16))
        return data.decode("utf-16", "replace").encode("utf-8", "replace").decode("utf-8")
    if data.startswith(codecs.BOM_UTF8):
        problems.append(Problem(path, 1, *_BOM))
        data = data[len(codecs.BOM_UTF8) :]
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
        problems.append(Problem(path, before.count("\n") + 1, *_NOT_UTF8))
        return data.decode("utf-8", "replace")


def _unify_line_ends(path: str, text: str, problems: list[Problem]) -> str:
    text = text.replace("\r\n", "\n")
    if "\r" not in text:
        return text
    problems.append(Problem(path, _line_of(text, "\r"), *_LONE_CR))
    return text.replace("\r", "\n")


def _find_long_lines(path: str, text: str, lines: list[str]) -> list[Problem]:
    if len(text) <= LONG_LINE_CHARS or max(map(len, lines), default=0) <= LONG_LINE_CHARS:
        return []
    first = next(number for number, line in enumerate(lines, 1) if len(line) > LONG_LINE_CHARS)
    return [Problem(path, first, *_LONG_LINE)]


def _line_of(text: str, what: str) -> int:
    return text.count("\n", 0, text.index(what)) + 1
