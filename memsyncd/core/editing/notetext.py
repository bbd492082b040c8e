r"""Change a note's text without changing any other byte of it: bytes become text that converts back
to the same bytes.

A byte order mark is kept apart; bytes that are not UTF-8 become lone surrogates and convert back.
Lines end at `\n`, `\r\n` or `\r`, as everywhere. `memory_tool` and `additions` decide what to
change.
"""

from __future__ import annotations

import codecs
import re
from bisect import bisect_left

import msgspec

from memsyncd.core.markdown.decode import is_utf16
from memsyncd.errors import BadRequest, EditRefused

LINE_ENDS = ("\n", "\r\n", "\r")


class NoteText(msgspec.Struct, frozen=True, kw_only=True):
    """A note's text as it is, and its byte order mark. Made by `open_text`."""

    mark: bytes
    text: str

    @property
    def line_end(self) -> str:
        r"""The end that most of its lines have; `\n` if none has one."""
        n_pairs = self.text.count("\r\n")
        counts = (self.text.count("\n") - n_pairs, n_pairs, self.text.count("\r") - n_pairs)
        return LINE_ENDS[counts.index(max(counts))]

    def to_bytes(self, text: str) -> bytes:
        """The bytes of the note with this text instead."""
        return self.mark + text.encode("utf-8", "surrogateescape")


def open_text(path: str, data: bytes) -> NoteText:
    """Decode a note's bytes for an edit.

    Raises EditRefused for UTF-16, which must not be mixed with UTF-8.
    """
    if is_utf16(data):
        raise EditRefused(f"{path} is UTF-16 and is not edited", hint="save it as UTF-8 first")
    mark = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    return NoteText(mark=mark, text=data[len(mark) :].decode("utf-8", "surrogateescape"))


def check_text(name: str, text: str) -> None:
    """Raise BadRequest naming the parameter if the text cannot be written as UTF-8."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise BadRequest(
            f"{name} is not valid Unicode", hint="it holds half of a surrogate pair"
        ) from error


def unify_line_ends(text: str) -> str:
    r"""The same text with `\n` for every line end."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def write_line_ends(text: str, line_end: str) -> str:
    r"""Text with `\n` for line ends, with these line ends instead."""
    return text if line_end == "\n" else text.replace("\n", line_end)


class UnifiedText:
    r"""A text with `\n` for every line end, whose offsets can be converted to the raw text.

    Offsets count characters.
    """

    __slots__ = ("_pairs", "text")

    def __init__(self, raw: str) -> None:
        self.text = unify_line_ends(raw)
        # Before the i-th pair, i characters are missing.
        self._pairs = (
            [found.start() - at for at, found in enumerate(re.finditer("\r\n", raw))]
            if "\r\n" in raw
            else []
        )

    def raw_offset(self, offset: int) -> int:
        """The offset in the raw text: never between the two characters of one line end."""
        return offset + bisect_left(self._pairs, offset)


def join_texts(*texts: str) -> str:
    r"""Concatenate texts. A `\r` and a `\n` that come together stay two line ends, by one more `\n`
    between them.
    """
    whole: list[str] = []
    last = ""
    for text in texts:
        if last == "\r" and text.startswith("\n"):
            whole.append("\n")
        whole.append(text)
        last = text[-1:] or last
    return "".join(whole)


def count_lines(unified: str) -> int:
    """Lines as an editor counts them: a last one without an end counts, an empty one after it does
    not.
    """
    return unified.count("\n") + (not unified.endswith("\n") and unified != "")
