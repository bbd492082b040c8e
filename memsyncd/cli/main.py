"""What happens when somebody calls `memsyncd`? The command's module is imported, its words are read, it is done.

Exit: 0 ok, 1 nothing found, 2 usage, 3 no daemon, 4 no such workspace or note, 5 not fresh in time, 6 conflict or refused,
70 internal, 78 bad configuration, 130 interrupted. Every error is told in a line, and the next says what to do.
"""

from __future__ import annotations

import io
import os
import sys

import memsyncd
from memsyncd.cli.console import Console
from memsyncd.cli.parsing import find_nearest, parse_words
from memsyncd.cli.table import ENTRIES, load_command
from memsyncd.cli.terminal import Terminal, clean_line
from memsyncd.errors import BadRequest, MemsyncdError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TextIO

EXIT_INTERNAL = 70
EXIT_INTERRUPTED = 130
EXIT_PIPE_CLOSED = 141
"""What a shell shows for a program that a closed pipe ended."""


def main(words: Sequence[str] | None = None) -> int:
    """Do one command and return its exit status. `words` are those after the program's name."""
    terminal = Terminal(_forgive(sys.stdout), _forgive(sys.stderr), os.environ)
    console = Console(terminal, os.environ)
    try:
        status = _act(sys.argv[1:] if words is None else words, console)
        terminal.out.flush()
    except BrokenPipeError:
        _leave_quietly(sys.stdout)
        return EXIT_PIPE_CLOSED
    except KeyboardInterrupt:
        terminal.clear()
        return EXIT_INTERRUPTED
    except MemsyncdError as error:
        # Without lines of its own, what ends a line in a message is a name that somebody chose.
        lines = error.data.get("lines")
        _say_error(terminal, lines if isinstance(lines, list) else [error.message], error.hint)
        return error.exit_status
    except Exception as error:  # noqa: BLE001  the last door: a person gets a sentence, never a traceback unasked
        return _say_internal(terminal, error)
    finally:
        console.close()
        _forget_unsaid()
    return status


def _act(words: Sequence[str], console: Console) -> int:
    name, rest = (words[0], words[1:]) if words else ("help", [])
    if name in ("-h", "--help", "help"):
        return _help(rest, console)
    if name in ("-V", "--version", "version"):
        console.terminal.print(f"memsyncd {memsyncd.__version__}")
        return 0
    if name not in ENTRIES:
        raise _unknown_command(name)
    command, summary = load_command(name), ENTRIES[name].summary
    if rest and rest[0] in command.commands:
        name, command, rest = f"{name} {rest[0]}", command.commands[rest[0]], rest[1:]
        summary = command.summary
    args = parse_words(name, command, rest)
    if args.help:
        from memsyncd.cli.help import render_help

        terminal = console.terminal
        terminal.print(render_help(name, summary, command, terminal.paint, width=terminal.width))
        return 0
    return command.act(args, console)


def _help(words: Sequence[str], console: Console) -> int:
    if words and words[0] in ENTRIES:
        return _act([*words[:2], "--help"], console)
    from memsyncd.cli.help import render_overview

    console.terminal.print(render_overview(console.terminal.paint))
    return 0


def _unknown_command(name: str) -> BadRequest:
    near = find_nearest(name, ENTRIES)
    kind = "option" if name.startswith("-") else "command"
    hint = f"did you mean `memsyncd {near}`?" if near else "see `memsyncd --help`"
    return BadRequest(f"no such {kind}: {name}", hint=hint)


def _say_error(terminal: Terminal, lines: Sequence[str], hint: str) -> None:
    paint = terminal.err_paint
    # Whoever reads stderr may be gone as well; the exit status still tells.
    try:
        first, *more = lines
        terminal.say(f"{paint('bold red', 'memsyncd:')} {clean_line(first)}")
        for line in more:
            terminal.say(f"  {clean_line(line)}")
        if hint:
            terminal.say(f"  {paint('cyan', '→')} {clean_line(hint)}")
    except OSError:
        return


def _say_internal(terminal: Terminal, error: Exception) -> int:
    if os.environ.get("MEMSYNCD_TRACEBACK"):
        raise error
    if isinstance(error, OSError):
        # Most likely it is stdout that cannot be written: what it still holds must not be tried again.
        _leave_quietly(sys.stdout)
        _say_error(terminal, [str(error)], "")
    else:
        hint = "this is a bug; MEMSYNCD_TRACEBACK=1 shows where it is, and a report helps"
        _say_error(terminal, [f"{type(error).__name__}: {error}"], hint)
    return EXIT_INTERNAL


def _forgive(stream: TextIO | None) -> TextIO:
    # Python has no stream where the caller closed its descriptor.
    if stream is None:
        return open(os.devnull, "w", encoding="utf-8")
    # A locale without `…` or `→` must not stop an answer.
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="replace")
    return stream


def _forget_unsaid() -> None:
    """Whoever read stderr may be gone, or its disk full: no failure of the command, nor of a daemon that ran for weeks."""
    try:
        if sys.stderr is not None:
            sys.stderr.flush()
    except (OSError, ValueError):
        _leave_quietly(sys.stderr)


def _leave_quietly(stream: TextIO) -> None:
    # Python flushes its streams once more at exit and would complain of the closed pipe or full disk then.
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except (OSError, ValueError):
        return
