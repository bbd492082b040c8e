"""Where does a text come from that is to be written? From the words that were typed, or from what is piped in."""

from __future__ import annotations

import sys

from memsyncd.cli.grammar import Option
from memsyncd.errors import BadRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from memsyncd.cli.console import Console

DASH = "-"
STDIN: Final = Option("--stdin", "read the text from stdin, as TEXT - does")


def read_text(text: str | None, console: Console, *, is_piped: bool) -> str:
    """The text that was typed, or stdin's: where `-` or --stdin asks for it, or a pipe is there and no text was typed.

    Raises BadRequest if there is neither, or both.
    """
    if is_piped and text not in (None, DASH):
        raise BadRequest("--stdin and a text do not go together", hint="leave one of them out")
    if is_piped or text == DASH:
        return read_stdin(console)
    if text is None and sys.stdin is not None and not sys.stdin.isatty():
        # A shell without a terminal may hand on an empty stdin that nobody meant.
        text = read_stdin(console) or None
    if text is None:
        raise BadRequest("the text is missing", hint="give it after the other words, or pipe it in")
    return text


def read_stdin(console: Console) -> str:
    """All of stdin. Raises BadRequest for what is no UTF-8."""
    if sys.stdin is None:
        raise BadRequest("stdin is closed", hint="give the text as a word")
    if sys.stdin.isatty():
        console.terminal.say(console.terminal.err_paint("dim", "type the text; Ctrl-D on a line of its own ends it"))
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise BadRequest("what was piped in is not valid UTF-8", hint="convert it first, as with: iconv -t UTF-8") from error
