"""Read and write notes: `memsyncd get`, `remember`, `memory`."""

from __future__ import annotations

import contextlib
import os
import sys

from memsyncd.cli.format import render_count, render_meta, render_path, render_span
from memsyncd.cli.note_arguments import (
    find_workspace_note,
    find_writable,
    parse_target,
    roots_by_id,
)
from memsyncd.cli.parser import (
    JSON,
    TIMEOUT,
    Argument,
    Command,
    Option,
    make_group,
    make_workspace_option,
    parse_fraction,
    parse_pair,
)
from memsyncd.cli.terminal import clean, clean_line, clean_values
from memsyncd.errors import BadRequest, WorkspaceNotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any, Final

    from memsyncd.cli.console import Console
    from memsyncd.cli.note_arguments import Target


# --- text from the command line or stdin --------------------------------------------------------

DASH = "-"
STDIN: Final = Option("--stdin", "read the text from stdin, like TEXT -")


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
        console.terminal.report(
            console.terminal.err_paint("dim", "type the text; Ctrl-D on a line of its own ends it")
        )
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise BadRequest(
            "the text on stdin is not valid UTF-8", hint="convert it first, as with: iconv -t UTF-8"
        ) from error


# --- get ----------------------------------------------------------------------------------------


def _get(args: Args, console: Console) -> int:
    target = parse_target(args.target)
    if (target.end_line or 0) < (target.start_line or 0) or target.start_line == 0:
        raise BadRequest(
            f"no such lines: {args.target}",
            hint="give the first line, from 1, then the last: PATH:12-18",
        )
    roots = roots_by_id(console.call("workspace.list")["workspaces"])
    root, path = find_workspace_note(target.path, console.cwd, list(roots.values()))
    answer = None
    full = os.path.join(console.cwd, path)
    if root is None and args.workspace is None and os.path.lexists(full):
        # In a linked worktree, the file that the branch has here.
        with contextlib.suppress(WorkspaceNotFound):
            answer = _call_get(target, full, console.cwd, console)
    if answer is None:
        answer = _call_get(target, path, args.workspace or root, console)
    if args.json:
        console.terminal.print_json(answer)
    else:
        _print_text(answer, roots.get(answer["workspace"], ""), console)
    return 0


def _call_get(target: Target, path: str, workspace: str | None, console: Console) -> dict[str, Any]:
    if target.heading is not None:
        return console.call_on(workspace, "get", anchor=f"{path}#{target.heading}")
    lines = {"start_line": target.start_line, "end_line": target.end_line}
    return console.call_on(workspace, "get", path=path, **lines)


def _print_text(answer: dict[str, Any], root: str, console: Console) -> None:
    terminal = console.terminal
    if terminal.is_out_terminal and terminal.is_err_terminal:
        terminal.report(_render_title(clean_values(answer), root, console))
    terminal.print(clean(answer["text"]).removesuffix("\n"))


def _render_title(answer: dict[str, Any], root: str, console: Console) -> str:
    paint = console.terminal.err_paint
    place = render_span(
        render_path(answer["path"], root, console.cwd), answer["start_line"], answer["end_line"]
    )
    linked = paint.link(
        paint("bold blue", place), os.path.join(root, answer["path"]), answer["start_line"]
    )
    marks = render_meta(answer)
    trail = " › ".join(answer["heading"])
    size = f"of {answer['n_lines']} lines"
    if answer["n_links"] or answer["n_backlinks"]:
        size += f"; links: {answer['n_links']} from it, {answer['n_backlinks']} to it"
    return "  ".join(
        filter(
            None,
            [linked, trail, paint("cyan", marks), paint("dim", size)],
        )
    )


# --- memory -------------------------------------------------------------------------------------

CLIENT: Final = "cli"
# The daemon's default limit for a write; the client waits longer, for the daemon's own error.
WRITE_MS: Final = 30_000
CLIENT_OPTION: Final = Option(
    "--client NAME", f"the writer's name in the history (default {CLIENT})"
)


def _view(args: Args, console: Console) -> int:
    return _execute(args, console, "view", path=args.path or "/memories", view_range=args.range)


def _create(args: Args, console: Console) -> int:
    text = read_text(args.text, console, is_piped=args.stdin)
    return _execute(args, console, "create", path=args.path, file_text=text)


def _replace(args: Args, console: Console) -> int:
    if args.old == DASH and (args.stdin or args.new in (None, DASH)):
        raise BadRequest(
            "OLD and NEW cannot both come from stdin", hint="give one of them as a word"
        )
    old = (
        _drop_newline(read_text(args.old, console, is_piped=False))
        if args.old == DASH
        else args.old
    )
    new = args.new if args.new not in (None, DASH) and not args.stdin else _read_new(args, console)
    return _execute(args, console, "str_replace", path=args.path, old_str=old, new_str=new)


def _read_new(args: Args, console: Console) -> str:
    return _drop_newline(read_text(args.new, console, is_piped=args.stdin))


def _drop_newline(text: str) -> str:
    """Remove the newline at the end of piped text, like a shell's `$(…)`."""
    return text.removesuffix("\n")


def _insert(args: Args, console: Console) -> int:
    if not args.line.isdecimal():
        raise BadRequest(
            f"memory insert: LINE is not a number: {args.line}",
            hint="count lines from 1; 0 inserts before the first",
        )
    text = read_text(args.text, console, is_piped=args.stdin)
    return _execute(
        args, console, "insert", path=args.path, insert_line=int(args.line), insert_text=text
    )


def _delete(args: Args, console: Console) -> int:
    return _execute(args, console, "delete", path=args.path)


def _rename(args: Args, console: Console) -> int:
    return _execute(
        args,
        console,
        "rename",
        old_path=args.old,
        new_path=args.new,
        update_links=args.update_links or None,
        dry_run=args.dry_run or None,
    )


def _execute(args: Args, console: Console, command: str, **params: object) -> int:
    console.set_timeout_ms(args.timeout_ms or WRITE_MS)
    own = {
        "client": args.client or CLIENT,
        "dialect": args.dialect,
        "if_digest": getattr(args, "if_digest", None),
    }
    answer = console.call_on(
        args.workspace, "memory", command=command, **params, **own, timeout_ms=args.timeout_ms
    )
    if args.json:
        console.terminal.print_json(answer)
    else:
        _print_answer(args, answer, console)
    return 0


def _print_answer(args: Args, answer: dict[str, Any], console: Console) -> None:
    terminal = console.terminal
    shown = clean_values(answer)
    is_dry_run = getattr(args, "dry_run", False)
    if is_dry_run:
        terminal.report("dry run: nothing was changed")
    else:
        terminal.print(clean(answer["text"]).removesuffix("\n"))
    for path in shown["updated_links"]:
        terminal.print(f"{'would update' if is_dry_run else 'updated'} the links of {path}")
    if shown["updated_links"] and answer["change_set"] is not None:
        terminal.report(f"to revert all of it: memsyncd undo --change-set {answer['change_set']}")
    for path in shown["skipped_links"]:
        terminal.report(
            terminal.err_paint("yellow", f"{path} is read only here: its links stay as they are")
        )
    report_unless_indexed(answer, console)
    _report_unless_searched(answer, console)


def report_unless_indexed(answer: dict[str, Any], console: Console) -> None:
    """Report a write that searches do not find yet."""
    if not answer["is_indexed"]:
        console.terminal.report(
            console.terminal.err_paint(
                "yellow", "written, but not indexed yet; see `memsyncd status`"
            )
        )


def _report_unless_searched(answer: dict[str, Any], console: Console) -> None:
    # A daemon that was started before an update does not tell.
    if not answer.get("is_searched", True):
        text = "kept, but not searched: only names in .md, .markdown and .txt are"
        console.terminal.report(console.terminal.err_paint("yellow", text))


def _read_range(text: str) -> list[int]:
    first, dash, last = text.partition("-")
    if not first.isdecimal() or not (last.isdecimal() or not last):
        raise ValueError("expected lines such as 12-18, or 12- for all from line 12 on")
    return [int(first), int(last) if last else -1 if dash else int(first)]


_NOTE = Argument(
    "path",
    "NOTE",
    "a path that begins with /memories; /memories/MEMORY.md is the workspace's MEMORY.md",
)
_TEXT = Argument("text", "[TEXT]", "the text; - or none to read it from stdin")
_SHARED = (
    make_workspace_option(),
    CLIENT_OPTION,
    Option(
        "--dialect D",
        "answer as Anthropic's documents say (docs) or as its SDK does (sdk)",
        choices=("docs", "sdk"),
    ),
    TIMEOUT,
    JSON,
)
_IF_DIGEST = Option(
    "--if-digest DIGEST", "only if the note still has this digest, as shown by --json"
)
_WRITING = (_IF_DIGEST, *_SHARED)

_MEMORY_COMMANDS = {
    "view": Command(
        _view,
        summary="print a note with line numbers, or list a folder",
        arguments=(Argument("path", "[NOTE]", "a note or folder; by default /memories"),),
        options=(
            Option("--range A-B", "only lines A to B; A- for all from A on", parse=_read_range),
            *_SHARED,
        ),
        examples=(
            "memsyncd memory view",
            "memsyncd memory view /memories/decisions.md --range 1-20",
        ),
    ),
    "create": Command(
        _create,
        summary="create a note",
        arguments=(_NOTE, _TEXT),
        options=(STDIN, *_WRITING),
        examples=(
            "memsyncd memory create /memories/redis.md '# Redis'",
            "memsyncd memory create /memories/redis.md < redis.md",
        ),
    ),
    "str_replace": Command(
        _replace,
        summary="replace a text that occurs exactly once in a note",
        arguments=(
            _NOTE,
            Argument("old", "OLD", "the present text; - to read it from stdin"),
            Argument("new", "[NEW]", "the new text, '' for none; - or none to read it from stdin"),
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
        summary="delete a note, or a folder with its contents",
        arguments=(_NOTE,),
        options=_WRITING,
        examples=("memsyncd memory delete /memories/redis.md",),
    ),
    "rename": Command(
        _rename,
        summary="move a note or a folder",
        arguments=(
            Argument("old", "OLD", "its path, /memories/…"),
            Argument("new", "NEW", "its new path"),
        ),
        options=(
            Option("--update-links", "change the links of all notes so that they stay right"),
            Option("--dry-run", "only name the notes whose links would be updated"),
            *_WRITING,
        ),
        examples=(
            "memsyncd memory rename /memories/draft.md /memories/redis.md",
            "memsyncd memory rename /memories/a.md /memories/b.md --update-links --dry-run",
        ),
    ),
}


# --- remember -----------------------------------------------------------------------------------


def _remember(args: Args, console: Console) -> int:
    content = read_text(" ".join(args.text) if args.text else None, console, is_piped=args.stdin)
    roots = roots_by_id(console.call("workspace.list")["workspaces"])
    root, note = (None, None) if args.note is None else find_writable(args.note, console, roots)
    console.set_timeout_ms(args.timeout_ms or WRITE_MS)
    fields = {name: getattr(args, name) for name in _SECTION_FIELDS}
    answer = console.call_on(
        args.workspace or root,
        "note.add",
        content=content,
        tags=args.tag,
        keywords=args.keyword,
        metadata=dict(args.meta),
        note=note,
        on_similar=args.on_similar,
        client=args.client or CLIENT,
        timeout_ms=args.timeout_ms,
        **fields,
    )
    if args.json:
        console.terminal.print_json(answer)
        return 0
    if answer["action"] == "reported":
        console.terminal.report("nothing was written")
    else:
        _print_place(clean_values(answer), roots.get(answer["workspace"], ""), console)
    report_similar(answer, console)
    _report_similar_kind(answer, args.kind, console)
    report_unless_indexed(answer, console)
    return 0


def _report_similar_kind(answer: dict[str, Any], kind: str, console: Console) -> None:
    # A daemon that was started before an update sends none.
    similar = answer.get("similar_kind")
    if similar:
        text = f"the kind {kind} is not configured; did you mean {similar}?"
        console.terminal.report(console.terminal.err_paint("yellow", clean_line(text)))
    if similar and answer["action"] == "added" and answer["change_set"]:
        undo = f"memsyncd undo --change-set {answer['change_set']}"
        console.terminal.report(f"to write it so instead: {undo}, then --kind {similar}")


def report_similar(answer: dict[str, Any], console: Console) -> None:
    """Report what says nearly the same as what was written, or was to be written."""
    for one in clean_values(answer)["similar"]:
        place = render_span(one["path"], one["start_line"], one["end_line"])
        heading = " › ".join(one["heading"])
        was = "appended to" if _is_target(one, answer) else "nearly the same"
        console.terminal.report(f"{was}: {place}  {heading}  {one['similarity']:.2f}")
    if not answer["similar"] or answer["action"] in ("appended", "unchanged"):
        return
    undo = f"memsyncd undo --change-set {answer['change_set']}, then " * bool(answer["change_set"])
    console.terminal.report(f"to append there instead: {undo}--on-similar append")


def _is_target(one: dict[str, Any], answer: dict[str, Any]) -> bool:
    place = answer.get("anchor", answer["path"])
    return answer["action"] == "appended" and place in (one["anchor"], one["path"])


def _print_place(answer: dict[str, Any], root: str, console: Console) -> None:
    paint = console.terminal.paint
    place = render_span(
        render_path(answer["path"], root, console.cwd), answer["start_line"], answer["end_line"]
    )
    console.terminal.print(
        paint.link(
            paint("bold blue", place), os.path.join(root, answer["path"]), answer["start_line"]
        )
    )


ON_SIMILAR: Final = Option(
    "--on-similar DO",
    "if something says nearly the same: add (default), append to it, or only report it",
    choices=("add", "append", "report"),
)
_SECTION_FIELDS = (
    "summary",
    "kind",
    "importance",
    "priority",
    "lifecycle",
    "source",
    "task",
    "session",
    "topic",
    "scope",
    "created",
    "updated",
    "expires",
)


# --- clear --------------------------------------------------------------------------------------


def _clear(args: Args, console: Console) -> int:
    workspace = console.find_workspace(args.workspace, to_write=True)
    if not args.yes:
        _confirm_clear(clean_values(workspace), console)
    console.set_timeout_ms(WRITE_MS)
    answer = console.call_on(
        workspace["id"], "memory.clear", confirm=True, client=args.client or CLIENT
    )
    if args.json:
        console.terminal.print_json(answer)
        return 0
    undo = f"; restore them with: memsyncd undo --change-set {answer['change_set']}"
    removed = render_count(answer["removed"], "note")
    console.terminal.report(f"{removed} removed{undo if answer['change_set'] else ''}")
    report_unless_indexed(answer, console)
    return 0


def _confirm_clear(workspace: dict[str, Any], console: Console) -> None:
    """Ask for the workspace's name. Raises BadRequest for another answer, or without a terminal."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise BadRequest(
            "clear removes every note of memory, and there is no terminal to ask",
            hint="add --yes to remove them without a question",
        )
    console.terminal.report(
        f"every note of memory in {workspace['root']} will be removed;"
        f" type {workspace['name']} to go on:"
    )
    if sys.stdin.readline().strip() != workspace["name"]:
        raise BadRequest("nothing was removed", hint="type the workspace's name, or add --yes")


COMMANDS = {
    "get": Command(
        _get,
        arguments=(
            Argument(
                "target",
                "ANCHOR|PATH[:A[-B]]",
                "a section's anchor, or a note, or some of its lines",
            ),
        ),
        options=(make_workspace_option("the note's workspace"), JSON),
        examples=(
            "memsyncd get .memories/redis.md:12-18",
            "memsyncd get '.memories/redis.md#redis/timeouts'",
            "memsyncd get MEMORY.md",
        ),
    ),
    "memory": make_group(
        "memory",
        _MEMORY_COMMANDS,
        ("memsyncd memory view", "memsyncd memory create /memories/redis.md < redis.md"),
    ),
    "remember": Command(
        _remember,
        arguments=(Argument("text", "[TEXT…]", "the text; - or none to read it from stdin"),),
        options=(
            Option("--summary S", "the heading; by default the beginning of the text"),
            Option("--kind K", "the kind of memory, such as decision; it selects the note"),
            Option("--tag T…", "add this tag"),
            Option("--note PATH", "append to this note"),
            Option(
                "--importance S", "from 0 to 1; by default that of the kind", parse=parse_fraction
            ),
            Option("--priority P", "P0, P1, P2 or P3"),
            Option("--lifecycle L", "ephemeral, session, task or project"),
            Option("--source TEXT", "the source"),
            Option("--task ID", "the task"),
            Option("--session ID", "the session"),
            Option("--topic TEXT", "the topic, of at most 100 characters"),
            Option("--keyword K…", "add this keyword; at most 20"),
            Option("--scope TEXT", "the scope"),
            Option("--created DAY", "the day or time, if not now"),
            Option("--updated DAY", "the day or time of the last change"),
            Option("--expires DAY", "the day or time from which searches leave it out"),
            Option("--meta KEY=VALUE…", "add metadata of your own", parse=parse_pair),
            ON_SIMILAR,
            STDIN,
            make_workspace_option("remember it in this workspace"),
            CLIENT_OPTION,
            TIMEOUT,
            JSON,
        ),
        examples=(
            "memsyncd remember 'Redis gives up after 30 s' --kind decision --tag redis",
            "git log -1 --format=%B | memsyncd remember --summary 'Release' --note releases.md",
        ),
    ),
    "clear": Command(
        _clear,
        options=(
            Option("--yes", "do not ask"),
            make_workspace_option("remove the notes of this workspace"),
            CLIENT_OPTION,
            JSON,
        ),
        examples=("memsyncd clear", "memsyncd clear -w scratch --yes"),
    ),
}
