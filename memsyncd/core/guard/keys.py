"""Where do private keys stand in a text? From the line that begins one to that which ends it, whatever stands before each line.

One that nothing ends has as many lines as look like a key's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from memsyncd.core.guard.fold import find_all

_KEY_LIMIT_LINES = 400
_KEY_LIMIT_CHARS = 32_768
_MIN_KEY_CHARS = 32
"""Of base64 in one go: what has less only shows where a key would begin."""

_KEY_NAME = r"(?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
_KEY_BEGIN = re.compile(rf"-----BEGIN {_KEY_NAME}")
_KEY_END = re.compile(rf"-----END {_KEY_NAME}")
_KEY_TEXT = re.compile(rf"[A-Za-z0-9+/=]{{{_MIN_KEY_CHARS}}}")
_KEY_LINE = re.compile(r"[ \t>]{0,40}(?:[A-Za-z0-9+/=]{0,80}|[A-Za-z-]{1,20}: .{0,80})[ \t]{0,40}")


def _find_private_keys(text: str, folded: bytes) -> Iterator[tuple[int, int]]:
    """Start and end, in characters, of each. `folded` is the text folded."""
    done = 0
    for at in find_all(folded, b"-----begin "):
        begin = _KEY_BEGIN.match(text, at) if at >= done else None
        if begin:
            done = end = _find_key_end(text, begin.end())
            if _KEY_TEXT.search(text, begin.end(), end):
                yield at, end


def _find_key_end(text: str, at: int) -> int:
    following = text.find("-----BEGIN ", at, at + _KEY_LIMIT_CHARS)
    end = _KEY_END.search(text, at, following if following >= 0 else at + _KEY_LIMIT_CHARS)
    return end.end() if end else _find_last_key_line(text, at)


def _find_last_key_line(text: str, at: int) -> int:
    """The end of the last line that looks like one of the key that began before `at`."""
    end = _find_line_end(text, at)
    for _ in range(_KEY_LIMIT_LINES):
        next_end = _find_line_end(text, end + 1)
        if end >= len(text) or not _KEY_LINE.fullmatch(text, end + 1, next_end):
            return end
        end = next_end
    return end


def _find_line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end
