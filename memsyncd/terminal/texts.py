"""Texts that a command takes from its words or from stdin."""

from __future__ import annotations

import sys

from memsyncd.errors import BadRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from memsyncd.terminal.console import Console

DASH = "-"


def read_text(text: str | None, console: Console, *, is_piped: bool) -> str:
    """Return the typed text, or stdin where `-` or --stdin requests it, or where no text was typed
    and stdin is not a terminal.

    Raises BadRequest if there is no text, or two.
    """
    if is_piped and text not in (None, DASH):
        raise BadRequest("--stdin and a text do not go together", hint="use only one of them")
    if is_piped or text == DASH:
        return read_stdin(console)
    if text is None and sys.stdin is not None and not sys.stdin.isatty():
        # Without a terminal, stdin may be inherited and empty: that is not a text.
        text = read_stdin(console) or None
    if text is None:
        raise BadRequest("the text is missing", hint="give it after the other words, or pipe it in")
    return text


def read_stdin(console: Console) -> str:
    """Return all of stdin. Raises BadRequest for text that is not valid UTF-8."""
    if sys.stdin is None:
        raise BadRequest("stdin is closed", hint="give the text as a word")
    if sys.stdin.isatty():
        console.terminal.note("type the text; Ctrl-D on a line of its own ends it")
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise BadRequest(
            "the text on stdin is not valid UTF-8", hint="convert it first, as with: iconv -t UTF-8"
        ) from error


def read_typed(words: Sequence[str] | str | None, console: Console, *, is_piped: bool) -> str:
    """Return the words as one text, or stdin as `read_text` does."""
    text = words if isinstance(words, str) else " ".join(words or ()) or None
    return read_text(text, console, is_piped=is_piped)
