"""`memsyncd search`: which passages answer these words?"""

from __future__ import annotations

import os

from memsyncd.cli.figures import render_count
from memsyncd.cli.filters import FILTERS, find_filters
from memsyncd.cli.grammar import JSON, TIMEOUT, Argument, Command, Option, name_workspace_option, read_count, read_share
from memsyncd.cli.places import find_roots
from memsyncd.cli.render import render_explanation, render_freshness, render_hit
from memsyncd.cli.terminal import clean_line, clean_values
from memsyncd.errors import BadRequest, NoteNotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any, NoReturn

    from memsyncd.cli.console import Console

NOTHING_FOUND = 1
ALL_WORKSPACES = "*"
MOST_SHOWN = 10
"""Hits, unless somebody says how many."""


def _act(args: Args, console: Console) -> int:
    _check(args)
    console.wait_for(args.timeout_ms)
    answer = console.ask_about(ALL_WORKSPACES if args.all else args.workspace, "search", **_find_params(args))
    if args.json:
        console.terminal.print_json(answer)
    elif answer["hits"]:
        _show_hits(answer, console, args)
    else:
        _say_why(clean_values(answer), console)
    if not args.json:
        _say_freshness(answer, console)
    return 0 if answer["hits"] else NOTHING_FOUND


def _check(args: Args) -> None:
    if args.all and args.workspace is not None:
        raise BadRequest("--all and --workspace do not go together", hint="leave one of them out")
    if args.open and args.json:
        raise BadRequest("--open and --json do not go together", hint="leave one of them out")


def _find_params(args: Args) -> dict[str, object]:
    return {
        "query": " ".join(args.query),
        "limit": max(args.limit or MOST_SHOWN, args.open) if args.open else args.limit,
        "filters": find_filters(args),
        "min_score": args.min_score,
        "wait": "disk" if args.wait else None,
        "timeout_ms": args.timeout_ms,
        "explain": args.explain or None,
    }


def _show_hits(answer: dict[str, Any], console: Console, args: Args) -> None:
    workspaces = console.ask("workspace.list")["workspaces"]
    if args.open:
        _open(answer["hits"], args.open, find_roots(workspaces), console)
    terminal, hits = console.terminal, clean_values(answer["hits"])
    _print_hits(hits, find_roots(clean_values(workspaces)), console)
    if args.explain:
        terminal.print()
        terminal.print(render_explanation(hits, terminal.paint))
    if answer["relaxed"]:
        terminal.say(terminal.err_paint("dim", "no passage holds every word; these hold some"))


def _open(hits: list[dict[str, Any]], number: int, roots: dict[str, str], console: Console) -> NoReturn:
    from memsyncd.cli.editor import become_editor, find_editor

    if number > len(hits):
        raise NoteNotFound(f"there is no hit {number}: {render_count(len(hits), 'passage')} found", hint="leave --open out")
    hit = hits[number - 1]
    words = find_editor(console.env, os.path.join(roots.get(hit["workspace"], ""), hit["path"]), hit["start_line"])
    console.close()
    console.terminal.out.flush()
    become_editor(words)


def _print_hits(hits: list[dict[str, Any]], roots: dict[str, str], console: Console) -> None:
    terminal = console.terminal
    for i, hit in enumerate(hits):
        if i:
            terminal.print()
        root = roots.get(hit["workspace"], "")
        width = terminal.width if terminal.is_shown else 0
        terminal.print(render_hit(hit, terminal.paint, root=root, cwd=console.cwd, width=width))


def _say_why(answer: dict[str, Any], console: Console) -> None:
    terminal = console.terminal
    why, meant = (clean_line(answer.get(name) or "") for name in ("why_empty", "did_you_mean"))
    terminal.say(f"nothing found: {why}" if why else "nothing found")
    if meant:
        terminal.say(f"did you mean: {terminal.err_paint('bold', meant)}")


def _say_freshness(answer: dict[str, Any], console: Console) -> None:
    text = render_freshness(answer["freshness"])
    if text:
        console.terminal.say(console.terminal.err_paint("yellow", text))


COMMANDS = {
    "search": Command(
        _act,
        keeps_exclusions=True,
        arguments=(Argument("query", "QUERY", 'words, "phrases", -not, prefix*, kind:decision', many="some"),),
        options=(
            name_workspace_option("search this workspace"),
            Option("--all", "search all workspaces as one"),
            Option("-n --limit", "at most N hits (default 10)", metavar="N", read=read_count),
            *FILTERS,
            Option("--min-score", "only hits that score at least S, from 0 to 1", metavar="S", read=read_share),
            Option("--wait", "first index everything that is on disk now"),
            TIMEOUT,
            Option("--explain", "show what each score is made of"),
            Option("--open", "open the first hit, or the Nth, in $VISUAL or $EDITOR", metavar="N", read=read_count, bare=1),
            JSON,
        ),
        examples=(
            "memsyncd search redis timeout",
            "memsyncd search 'why did we choose \"connection pool\"' -draft",
            "memsyncd search token --kind decision --wait --json",
            "memsyncd search token --all --open",
        ),
    )
}
