"""`memsyncd history`, `history purge`, `diff` and `undo`: show, delete and revert changes."""

from __future__ import annotations

import time

from memsyncd.cli.console import NOTHING_FOUND
from memsyncd.cli.format import render_age, render_count, render_size, render_table
from memsyncd.cli.note_arguments import REVISION, TARGET, call_on_revision, find_target
from memsyncd.cli.notes import (
    CLIENT,
    CLIENT_OPTION,
    DASH,
    WRITE_MS,
    read_stdin,
    report_unless_indexed,
)
from memsyncd.cli.parser import (
    JSON,
    TIMEOUT,
    Argument,
    Command,
    Option,
    make_workspace_option,
)
from memsyncd.cli.terminal import clean, clean_line, clean_values
from memsyncd.errors import BadRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import SimpleNamespace as Args
    from typing import Any

    from memsyncd.cli.console import Console
    from memsyncd.cli.terminal import Paint


# --- revisions as text --------------------------------------------------------------------------

EXTERNAL = "external"
# Styles of a diff's lines, after the two names, by their first character.
DIFF_STYLES = {"@": "cyan", "+": "green", "-": "red", "\\": "dim"}
N_NAMES = 2


def render_revisions(
    revisions: Sequence[dict[str, Any]], paint: Paint, *, now_s: float
) -> Iterator[str]:
    """Yield a line for each revision: number, age, writer, command, size, path."""
    rows = [
        [
            str(revision["revision"]),
            render_age(revision["at"], now_s),
            revision["client"] or EXTERNAL,
            describe_change(revision),
            render_size_change(revision),
            _render_path(revision)
            + ("" if revision["is_kept"] else "  (its texts are no longer kept)"),
        ]
        for revision in revisions
    ]
    for number, age, *rest in render_table(rows):
        yield (paint("bold", number) + paint("dim", age) + "".join(rest)).rstrip()


def describe_change(revision: dict[str, Any]) -> str:
    """Return the writer's command, or the kind of an external change."""
    command = str(revision["command"])
    if command != EXTERNAL:
        return command
    if revision["old_path"] not in (None, revision["path"]):
        return "rename"
    return (
        "create"
        if revision["old_digest"] is None
        else "delete"
        if revision["new_digest"] is None
        else "edit"
    )


def render_size_change(revision: dict[str, Any]) -> str:
    """Render `+120 B`, `-40 B`, `±0 B`: the growth of the note."""
    growth_bytes = (revision["new_bytes"] or 0) - (revision["old_bytes"] or 0)
    sign = "+" if growth_bytes > 0 else "-" if growth_bytes < 0 else "±"
    return sign + render_size(abs(growth_bytes))


def _render_path(revision: dict[str, Any]) -> str:
    path, old_path = str(revision["path"]), revision["old_path"]
    return path if old_path in (None, path) else f"{old_path} → {path}"


def render_diff(diff: str, paint: Paint) -> str:
    """Colour the lines of a unified diff."""
    lines = diff.removesuffix("\n").split("\n")
    names = [paint("bold", line) for line in lines[:N_NAMES]]
    return "\n".join(names + [_paint_line(line, paint) for line in lines[N_NAMES:]])


def _paint_line(line: str, paint: Paint) -> str:
    style = DIFF_STYLES.get(line[:1])
    return paint(style, line) if style else line


# --- history and diff ---------------------------------------------------------------------------

# The daemon's default number of revisions.
DEFAULT_LIMIT = 20


def _list(args: Args, console: Console) -> int:
    root, params = find_target(args.target, console)
    answer = console.call_on(
        args.workspace or root, "history", **params, limit=args.limit, before=args.before
    )
    if args.json:
        console.terminal.print_json(answer)
    else:
        _print_revisions(clean_values(answer["revisions"]), args.limit or DEFAULT_LIMIT, console)
    return 0 if answer["revisions"] else NOTHING_FOUND


def _print_revisions(revisions: list[dict[str, Any]], limit: int, console: Console) -> None:
    terminal = console.terminal
    for line in render_revisions(revisions, terminal.paint, now_s=time.time()):
        terminal.print(line)
    if not revisions:
        terminal.report("no changes recorded")
    elif len(revisions) == limit:
        terminal.report(
            terminal.err_paint("dim", f"older ones: --before {revisions[-1]['revision']}")
        )


def _diff(args: Args, console: Console) -> int:
    _check_target(args, "diff")
    answer = call_on_revision(args, console, "diff", to_now=args.to_now or None)
    terminal = console.terminal
    if args.json:
        terminal.print_json(answer)
    elif answer["diff"]:
        terminal.print(render_diff(clean(answer["diff"]), terminal.paint))
    else:
        terminal.report(f"{clean_line(answer['path'])}: both texts are the same")
    return 0 if answer["diff"] else NOTHING_FOUND


def _check_target(args: Args, name: str) -> None:
    if not (args.target or args.revision):
        raise BadRequest(
            f"{name}: name a section, a note or a revision",
            hint="list revisions with `memsyncd history`",
        )


def _purge(args: Args, console: Console) -> int:
    containing = (
        read_stdin(console).removesuffix("\n") if args.containing == DASH else args.containing
    )
    if (args.target, args.revision, containing) == (None, None, None) and not args.all:
        raise BadRequest(
            "history purge: name the revisions to delete",
            hint="name a note, --revision N, --containing TEXT or --all",
        )
    root, params = find_target(args.target, console)
    request = {
        **params,
        "revision": args.revision,
        "containing": containing,
        "all": args.all or None,
    }
    answer = console.call_on(args.workspace or root, "history.purge", **request)
    if args.json:
        console.terminal.print_json(answer)
    else:
        _report_purged(clean_values(answer), console)
    return 0 if answer["revisions"] else NOTHING_FOUND


def _report_purged(answer: dict[str, Any], console: Console) -> None:
    terminal = console.terminal
    n_texts = render_count(answer["texts"], "text")
    terminal.report(
        f"forgot {render_count(answer['revisions'], 'revision')} and {n_texts}"
        if answer["revisions"]
        else "nothing to purge"
    )
    left = [
        f"{path} still contains it: remove it there, then purge again"
        for path in answer["still_in"]
    ]
    if not answer["is_clean"]:
        left.append("another program is reading records.db: traces in the file go when it stops")
    left += [
        f"{name}, a file set aside beside records.db, may still contain it"
        for name in answer["set_aside"]
    ]
    for line in left:
        terminal.report(terminal.err_paint("yellow", line))


_TARGET = Argument(
    "target", "[ANCHOR|PATH]", "a section, a note or a folder; by default the whole workspace"
)


# --- undo ---------------------------------------------------------------------------------------


def _undo(args: Args, console: Console) -> int:
    if not (args.target or args.revision or args.change_set):
        raise BadRequest(
            "undo: name a section, a note, a revision or a change set",
            hint="list revisions with `memsyncd history`",
        )
    console.set_timeout_ms(args.timeout_ms or WRITE_MS)
    request = {
        "change_set": args.change_set,
        "client": args.client or CLIENT,
        "timeout_ms": args.timeout_ms,
    }
    answer = call_on_revision(args, console, "undo", **request)
    if args.json:
        console.terminal.print_json(answer)
    else:
        _print_undone(
            clean_values(answer),
            console,
            workspace_option=f" -w {clean_line(args.workspace)}" if args.workspace else "",
        )
        report_unless_indexed(answer, console)
    return 0


def _print_undone(answer: dict[str, Any], console: Console, *, workspace_option: str) -> None:
    terminal = console.terminal
    if answer["change_set"] is None:
        names = ", ".join(dict.fromkeys(revision["path"] for revision in answer["undone"]))
        terminal.report(f"nothing to undo: already as before: {names}")
        return
    for revision in answer["undone"]:
        terminal.print(render_undone(revision, now_s=time.time()))
    for gone in (state["path"] for state in answer["paths"] if state["digest"] is None):
        terminal.report(terminal.err_paint("dim", f"{gone} does not exist any more, as before"))
    terminal.report(
        terminal.err_paint(
            "dim",
            f"to revert this: memsyncd undo --change-set {answer['change_set']}{workspace_option}",
        )
    )


def render_undone(revision: dict[str, Any], *, now_s: float) -> str:
    """Render `.memories/redis.md took back revision 42: str_replace by cli, 3 min ago`."""
    path, old_path = revision["path"], revision["old_path"]
    moved = "" if old_path in (None, path) else f" → {old_path}"
    change = (
        f"{describe_change(revision)} by {revision['client']}"
        if revision["client"]
        else f"{describe_change(revision)} by another program"
    )
    age = render_age(revision["at"], now_s)
    return f"{path}{moved}  undid revision {revision['revision']}: {change}, {age}"


COMMANDS = {
    "history": Command(
        _list,
        arguments=(_TARGET,),
        options=(
            Option("-n --limit N", f"at most N revisions (default {DEFAULT_LIMIT})"),
            Option("--before N", "only revisions older than N"),
            make_workspace_option(),
            JSON,
        ),
        commands={
            "purge": Command(
                _purge,
                summary="delete revisions for good; notes stay unchanged",
                arguments=(
                    Argument(
                        "target", "[ANCHOR|PATH]", "all revisions of a section, a note or a folder"
                    ),
                ),
                options=(
                    Option("--revision N", "delete revision N"),
                    Option(
                        "--containing TEXT",
                        "delete those whose text contained this; - reads it from stdin",
                    ),
                    Option("--all", "delete every revision of the workspace"),
                    make_workspace_option(),
                    JSON,
                ),
                examples=(
                    "memsyncd history purge --containing - < pasted-token.txt",
                    "memsyncd history purge .memories/draft.md",
                ),
            )
        },
        examples=(
            "memsyncd history",
            "memsyncd history .memories/redis.md -n 5",
            "memsyncd history 'MEMORY.md#redis/timeouts'",
        ),
    ),
    "diff": Command(
        _diff,
        arguments=(TARGET,),
        options=(
            REVISION,
            Option("--to-now", "up to the present text instead of the revision's"),
            make_workspace_option(),
            JSON,
        ),
        examples=(
            "memsyncd diff .memories/redis.md",
            "memsyncd diff 42",
            "memsyncd diff 42 --to-now",
        ),
    ),
    "undo": Command(
        _undo,
        arguments=(TARGET,),
        options=(
            REVISION,
            Option("--change-set N", "all changes of change set N, such as renaming a folder"),
            make_workspace_option(),
            CLIENT_OPTION,
            TIMEOUT,
            JSON,
        ),
        examples=(
            "memsyncd undo .memories/redis.md",
            "memsyncd undo 42",
            "memsyncd undo 'MEMORY.md#redis/timeouts'",
        ),
    ),
}
