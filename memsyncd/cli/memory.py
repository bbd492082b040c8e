"""`memsyncd memory`: the six commands of the memory tool, for those who have a shell. Paths are the tool's: `/memories/…`."""

from __future__ import annotations

from memsyncd.cli.grammar import JSON, TIMEOUT, Argument, Command, Option, name_workspace_option
from memsyncd.cli.stdin import DASH, STDIN, read_text
from memsyncd.cli.terminal import clean
from memsyncd.errors import BadRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any, Final, NoReturn

    from memsyncd.cli.console import Console

CLIENT: Final = "cli"
WRITE_MS: Final = 30_000
"""How long the daemon lets a write wait for its turn, unless somebody says how long: its own word on that is waited for."""
CLIENT_OPTION: Final = Option("--client", f"the writer's name in the history (default {CLIENT})", metavar="NAME")


def _view(args: Args, console: Console) -> int:
    return _ask(args, console, "view", path=args.path or "/memories", view_range=args.range)


def _create(args: Args, console: Console) -> int:
    text = read_text(args.text, console, is_piped=args.stdin)
    return _ask(args, console, "create", path=args.path, file_text=text)


def _replace(args: Args, console: Console) -> int:
    if args.old == DASH and (args.stdin or args.new in (None, DASH)):
        raise BadRequest("OLD and NEW cannot both come from stdin", hint="give one of them as a word")
    old = _drop_end(read_text(args.old, console, is_piped=False)) if args.old == DASH else args.old
    new = args.new if args.new not in (None, DASH) and not args.stdin else _read_new(args, console)
    return _ask(args, console, "str_replace", path=args.path, old_str=old, new_str=new)


def _read_new(args: Args, console: Console) -> str:
    return _drop_end(read_text(args.new, console, is_piped=args.stdin))


def _drop_end(text: str) -> str:
    """Without the newline that ends what is piped, as a shell's `$(…)` has it."""
    return text.removesuffix("\n")


def _insert(args: Args, console: Console) -> int:
    if not args.line.isdecimal():
        raise BadRequest(f"memory insert: LINE is no number: {args.line}", hint="count lines from 1; 0 is before the first")
    text = read_text(args.text, console, is_piped=args.stdin)
    return _ask(args, console, "insert", path=args.path, insert_line=int(args.line), insert_text=text)


def _delete(args: Args, console: Console) -> int:
    return _ask(args, console, "delete", path=args.path)


def _rename(args: Args, console: Console) -> int:
    return _ask(args, console, "rename", old_path=args.old, new_path=args.new)


def _ask(args: Args, console: Console, command: str, **params: object) -> int:
    console.wait_for(args.timeout_ms or WRITE_MS)
    own = {"client": args.client or CLIENT, "dialect": args.dialect, "if_digest": getattr(args, "if_digest", None)}
    answer = console.ask_about(args.workspace, "memory", command=command, **params, **own, timeout_ms=args.timeout_ms)
    if args.json:
        console.terminal.print_json(answer)
    else:
        console.terminal.print(clean(answer["text"]).removesuffix("\n"))
        say_unless_indexed(answer, console)
    return 0


def say_unless_indexed(answer: dict[str, Any], console: Console) -> None:
    """Tell whoever wrote that no search finds it yet, if that is so."""
    if not answer["is_indexed"]:
        console.terminal.say(console.terminal.err_paint("yellow", "it is written, and not indexed yet; see `memsyncd status`"))


def _refuse(_args: Args, _console: Console) -> NoReturn:
    raise BadRequest("memory: the command stands first", hint="see `memsyncd memory --help`")


def _read_range(text: str) -> list[int]:
    first, dash, last = text.partition("-")
    if not first.isdecimal() or not (last.isdecimal() or not last):
        raise ValueError("lines are wanted, such as 12-18, or 12- for all from line 12 on")
    return [int(first), int(last) if last else -1 if dash else int(first)]


def _read_dialect(text: str) -> str:
    if text not in ("docs", "sdk"):
        raise ValueError("docs or sdk is wanted")
    return text


_NOTE = Argument("path", "NOTE", "a path that begins with /memories; /memories/MEMORY.md is the workspace's own MEMORY.md")
_TEXT = Argument("text", "TEXT", "the text; - or none for what is piped in", many="optional")
_SHARED = (
    name_workspace_option(),
    CLIENT_OPTION,
    Option(
        "--dialect", "answer in the words of Anthropic's documents (docs) or of its SDK (sdk)", metavar="D", read=_read_dialect
    ),
    TIMEOUT,
    JSON,
)
_IF_DIGEST = Option("--if-digest", "only if the note still has this digest, which --json shows", metavar="DIGEST")
_WRITING = (_IF_DIGEST, *_SHARED)

_ACTIONS = {
    "view": Command(
        _view,
        summary="print a note with line numbers, or what is in a folder",
        arguments=(Argument("path", "NOTE", "a note or folder; by default /memories", many="optional"),),
        options=(Option("--range", "only lines A to B; A- for all from A on", metavar="A-B", read=_read_range), *_SHARED),
        examples=("memsyncd memory view", "memsyncd memory view /memories/decisions.md --range 1-20"),
    ),
    "create": Command(
        _create,
        summary="make a new note",
        arguments=(_NOTE, _TEXT),
        options=(STDIN, *_WRITING),
        examples=(
            "memsyncd memory create /memories/redis.md '# Redis'",
            "memsyncd memory create /memories/redis.md < redis.md",
        ),
    ),
    "str_replace": Command(
        _replace,
        summary="replace a text that stands in a note exactly once",
        arguments=(
            _NOTE,
            Argument("old", "OLD", "the text that stands there; - for what is piped in"),
            Argument("new", "NEW", "the text instead, '' for none; - or left out for what is piped in", many="optional"),
        ),
        options=(STDIN, *_WRITING),
        examples=("memsyncd memory str_replace /memories/redis.md '30 s' '45 s'",),
    ),
    "insert": Command(
        _insert,
        summary="insert a text after a line; 0 is before the first",
        arguments=(_NOTE, Argument("line", "LINE", "after this line"), _TEXT),
        options=(STDIN, *_WRITING),
        examples=("memsyncd memory insert /memories/redis.md 12 '- a new item'",),
    ),
    "delete": Command(
        _delete,
        summary="delete a note, or a folder with all that is in it",
        arguments=(_NOTE,),
        options=_WRITING,
        examples=("memsyncd memory delete /memories/redis.md",),
    ),
    "rename": Command(
        _rename,
        summary="move a note or a folder",
        arguments=(Argument("old", "OLD", "its path, /memories/…"), Argument("new", "NEW", "its path from now on")),
        options=_WRITING,
        examples=("memsyncd memory rename /memories/draft.md /memories/redis.md",),
    ),
}

COMMANDS = {
    "memory": Command(
        _refuse,
        arguments=(Argument("action", "COMMAND", "one of these", choices=tuple(_ACTIONS)),),
        commands=_ACTIONS,
        examples=("memsyncd memory view", "memsyncd memory create /memories/redis.md < redis.md"),
    )
}
