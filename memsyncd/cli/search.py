"""`memsyncd search`: which passages answer these words?"""

from __future__ import annotations

from memsyncd.cli.grammar import JSON, TIMEOUT, Argument, Command, Option, name_workspace_option, read_count, read_share
from memsyncd.cli.places import find_roots
from memsyncd.cli.render import render_freshness, render_hit
from memsyncd.cli.terminal import clean_line, clean_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any

    from memsyncd.cli.console import Console

NOTHING_FOUND = 1


def _act(args: Args, console: Console) -> int:
    console.wait_for(args.timeout_ms)
    answer = console.ask_about(args.workspace, "search", **_find_params(args))
    if args.json:
        console.terminal.print_json(answer)
    elif answer["hits"]:
        _print_hits(clean_values(answer), console, has_parts=args.explain)
    else:
        why = clean_line(str(answer.get("why_empty") or ""))
        console.terminal.say(f"nothing found: {why}" if why else "nothing found")
    if not args.json:
        _say_freshness(answer, console)
    return 0 if answer["hits"] else NOTHING_FOUND


def _find_params(args: Args) -> dict[str, object]:
    filters = {name: getattr(args, name) for name in ("kind", "tag", "path") if getattr(args, name)}
    return {
        "query": " ".join(args.query),
        "limit": args.limit,
        "filters": filters or None,
        "min_score": args.min_score,
        "wait": "disk" if args.wait else None,
        "timeout_ms": args.timeout_ms,
        "explain": args.explain or None,
    }


def _print_hits(answer: dict[str, Any], console: Console, *, has_parts: bool) -> None:
    terminal = console.terminal
    roots = find_roots(clean_values(console.ask("workspace.list"))["workspaces"])
    for i, hit in enumerate(answer["hits"]):
        if i:
            terminal.print()
        root = roots.get(hit["workspace"], "")
        width = terminal.width if terminal.is_shown else 0
        terminal.print(render_hit(hit, terminal.paint, root=root, cwd=console.cwd, width=width, has_parts=has_parts))
    if answer["relaxed"] and terminal.is_shown:
        terminal.say(terminal.err_paint("dim", "\nno passage holds every word; these hold some"))


def _say_freshness(answer: dict[str, Any], console: Console) -> None:
    text = render_freshness(answer["freshness"])
    if text:
        console.terminal.say(console.terminal.err_paint("yellow", text))


COMMANDS = {
    "search": Command(
        _act,
        keeps_exclusions=True,
        arguments=(Argument("query", "QUERY", 'words, "phrases", -not, prefix*', many="some"),),
        options=(
            name_workspace_option("search this workspace, or '*' for all"),
            Option("-n --limit", "at most N hits (default 10)", metavar="N", read=read_count),
            Option("--kind", "only this kind, such as decision", metavar="K", is_repeated=True),
            Option("--tag", "only with this tag", metavar="T", is_repeated=True),
            Option("--path", "only this note, folder or glob", metavar="P", is_repeated=True),
            Option("--min-score", "only hits that score at least S, from 0 to 1", metavar="S", read=read_share),
            Option("--wait", "first index everything that is on disk now"),
            TIMEOUT,
            Option("--explain", "show what each score is made of"),
            JSON,
        ),
        examples=(
            "memsyncd search redis timeout",
            "memsyncd search 'why did we choose \"connection pool\"' -draft",
            "memsyncd search token --kind decision --wait --json",
        ),
    )
}
