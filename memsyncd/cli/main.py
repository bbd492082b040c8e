"""Run a command: import its module, parse the words, execute it and return its exit status.

Exit status: 0 ok, 1 nothing found, 2 usage, 3 no daemon, 4 no such workspace or note, 5 not fresh
in time, 6 conflict or refused, 70 internal, 78 bad configuration, 130 interrupted. An error takes
one line, its remedy the next.
"""

from __future__ import annotations

import errno
import io
import os
import sys

import memsyncd
from memsyncd.cli.commands import ENTRIES, load_command
from memsyncd.errors import (
    AlreadyExists,
    BadRequest,
    Busy,
    ConfirmationNeeded,
    MemsyncdError,
    NotFresh,
)
from memsyncd.terminal.console import INTERRUPTED, Console, run_in_each
from memsyncd.terminal.parser import find_nearest, parse_command
from memsyncd.terminal.terminal import Terminal, clean_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TextIO

EXIT_INTERNAL = 70
# The status that a shell shows for a program ended by SIGPIPE.
EXIT_PIPE_CLOSED = 141


def _ensure_utf8() -> None:
    """Start the program again in Python's UTF-8 mode if the locale has another encoding.

    Names and texts of notes are UTF-8 in every locale. Without this, a name that the locale cannot
    express would fail a scan, and words of the command line would become other characters.
    """
    if sys.getfilesystemencoding() != "utf-8" and sys.executable:
        os.environ["PYTHONUTF8"] = "1"  # for the daemon and the other programs that it starts
        words = [sys.executable, "-X", "utf8", *sys.orig_argv[1:]]
        os.execv(sys.executable, words)  # noqa: S606  the same program


def main(words: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status. `words` are the words after the program's name,
    by default the arguments of the process.
    """
    if words is None:
        _ensure_utf8()
    if not os.environ.get("HOME"):
        # With an empty HOME, `~` is `/`. Without HOME, `~` is the folder in the list of users.
        os.environ.pop("HOME", None)
    terminal = Terminal(_make_lenient(sys.stdout), _make_lenient(sys.stderr), os.environ)
    console = Console(terminal, os.environ)
    words = sys.argv[1:] if words is None else words
    is_hook = bool(words) and words[0] == "hook"
    try:
        status = _run(words, console)
        terminal.out.flush()
    except BrokenPipeError:
        _redirect_to_null(sys.stdout)
        return EXIT_PIPE_CLOSED
    except KeyboardInterrupt:
        terminal.clear()
        return INTERRUPTED
    except MemsyncdError as error:
        # A line end in a message comes from the name of a file, unless the error lists its lines.
        lines = error.data.get("lines")
        _report_error(terminal, lines if isinstance(lines, list) else [error.message], error.hint)
        # Agents read a hook's status 2 as an order to block the action.
        return 1 if is_hook and error.exit_status == BadRequest.exit_status else error.exit_status
    except Exception as error:  # noqa: BLE001  a bug is reported in one sentence
        return _report_internal(terminal, console.find_other_version(error) or error)
    finally:
        console.close()
        _flush_stderr()
    return status


def leave(code: int) -> None:
    """End the process. A command without threads ends at once: freeing its memory would take a
    fifth of its time.
    """
    if "threading" not in sys.modules:
        try:
            for stream in filter(None, (sys.stdout, sys.stderr)):
                stream.flush()
        except (OSError, ValueError):
            pass  # Python reports it at the end
        else:
            os._exit(code)
    sys.exit(code)


def _run(words: Sequence[str], console: Console) -> int:
    console.words = words
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
    elif rest and (meant := _OTHER_WORDS.get(f"{name} {rest[0]}")):
        raise BadRequest(f"{name}: no such command: {rest[0]}", hint=_suggest(meant))
    args = parse_command(name, command, rest)
    console.terminal.choose_colour(args.color or "auto")
    console.terminal.can_page = console.terminal.can_page and not args.no_pager
    if args.help:
        from memsyncd.cli.commands import render_help

        terminal = console.terminal
        with terminal.page():
            text = render_help(name, summary, command, terminal.paint, width=terminal.width)
            terminal.print(text)
        return 0
    try:
        flags = {flag for option in command.options for flag in option.flags}
        is_wide = "--all" in flags and args.all
        if is_wide and args.workspace:
            hint = "use only one of them"
            raise BadRequest("--all and --workspace do not go together", hint=hint)
        if is_wide and command.in_each:
            return run_in_each(command.run, args, console)
        return command.run(args, console)
    except (AlreadyExists, BadRequest, Busy, ConfirmationNeeded, NotFresh) as error:
        # Other errors name no parameters. If a daemon cannot start, this import may fail too.
        from memsyncd.cli.commands import name_options

        error.message, error.hint = name_options(error, name, command, args)
        raise


def _help(words: Sequence[str], console: Console) -> int:
    if words and not words[0].startswith("-"):
        return _run([*words[:2], "--help"], console)
    from memsyncd.cli.commands import render_first_help, render_overview

    terminal = console.terminal
    with terminal.page():
        terminal.print(
            render_overview(terminal.paint, width=terminal.width)
            if "--all" in words
            else render_first_help(terminal.paint)
        )
    return 0


_OTHER_WORDS = {
    **dict.fromkeys(("delete", "rm"), "forget"),
    **dict.fromkeys(("edit", "update", "change"), "replace"),
    **dict.fromkeys(("find", "grep", "query"), "search"),
    **dict.fromkeys(("new", "save", "note", "write"), "remember"),
    **dict.fromkeys(("cat", "open", "view", "show", "read"), "get"),
    **dict.fromkeys(("rename", "move", "mv"), "memory rename"),
    **dict.fromkeys(("add-task", "todo"), "remember --task"),
    **dict.fromkeys(("task add", "task new", "task create"), "remember --task"),
    "task done": "done",
    "task set": "set",
    "create": "remember",
    "kinds": "stats --by kind",
}
"""Words of other programs for the commands that people mean with them."""


def _unknown_command(name: str) -> BadRequest:
    if name.startswith("-"):
        hint = "write options after the command, such as `memsyncd search WORDS -w NAME`"
        return BadRequest(f"no such option: {name}", hint=hint)
    nearest = _OTHER_WORDS.get(name) or find_nearest(name, ENTRIES)
    hint = _suggest(nearest) if nearest else "see `memsyncd --help`"
    return BadRequest(f"no such command: {name}", hint=hint)


def _suggest(command: str) -> str:
    return f"did you mean `memsyncd {command}`?"


def _report_error(terminal: Terminal, lines: Sequence[str], hint: str) -> None:
    paint = terminal.err_paint
    # The reader of stderr may be gone too; then only the exit status tells of the error.
    try:
        first, *more = lines
        terminal.report(f"{paint('bold red', 'memsyncd:')} {clean_line(first)}")
        for line in more:
            terminal.report(f"  {clean_line(line)}")
        if hint:
            terminal.report(f"  {paint('cyan', '→')} {clean_line(hint)}")
    except OSError:
        return


def _report_internal(terminal: Terminal, error: Exception) -> int:
    if os.environ.get("MEMSYNCD_TRACEBACK"):
        raise error
    if isinstance(error, MemsyncdError):
        _report_error(terminal, [error.message], error.hint)
        return error.exit_status
    if isinstance(error, OSError):
        # Most likely stdout cannot be written. Python must not flush its buffer again at exit.
        _redirect_to_null(sys.stdout)
        hint = "free some space where the output goes, or send it elsewhere"
        reason = error.strerror if error.strerror and not error.filename else str(error)
        _report_error(terminal, [reason], hint if error.errno == errno.ENOSPC else "")
    else:
        hint = "this is a bug; MEMSYNCD_TRACEBACK=1 shows where it is, and a report helps"
        _report_error(terminal, [f"{type(error).__name__}: {error}"], hint)
    return EXIT_INTERNAL


def _make_lenient(stream: TextIO | None) -> TextIO:
    # The stream is None if the caller closed its descriptor.
    if stream is None:
        return open(os.devnull, "w", encoding="utf-8")
    # A locale without `…` or `→` must not fail a command.
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(encoding=_find_encoding(stream), errors="replace")
    return stream


def _find_encoding(stream: TextIO) -> str | None:
    """Return the encoding of the terminal after `_ensure_utf8`; None to keep the stream's."""
    if "utf8" not in sys._xoptions or not stream.isatty():  # noqa: SLF001  it is documented
        return None
    import locale

    return locale.getencoding()


def _flush_stderr() -> None:
    """Flush stderr. A reader that is gone or a full disk must not change the exit status of a
    command, nor of a daemon that ran for weeks.
    """
    try:
        if sys.stderr is not None:
            sys.stderr.flush()
    except (OSError, ValueError):
        _redirect_to_null(sys.stderr)


def _redirect_to_null(stream: TextIO) -> None:
    # Python flushes its streams at exit and would report the closed pipe or full disk again.
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except (OSError, ValueError):
        return
