"""`memsyncd search`: which passages answer these words?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memsyncd.cli.parsing import add_json, add_workspace, count
from memsyncd.cli.places import find_roots
from memsyncd.cli.render import render_freshness, render_hit
from memsyncd.cli.table import Command
from memsyncd.cli.terminal import clean_line, clean_values

if TYPE_CHECKING:
    import argparse

    from memsyncd.cli.console import Console

NOTHING_FOUND = 1


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(keeps_exclusions=True)
    parser.add_argument("query", nargs="+", metavar="QUERY", help='words, "phrases", -not, prefix*, kind:decision, tag:auth')
    add_workspace(parser, what="search this workspace, or '*' for all")
    parser.add_argument("-n", "--limit", type=count, metavar="N", help="at most N hits (default 10)")
    parser.add_argument(
        "--kind", action="append", default=[], metavar="K", help="only this kind, such as decision; may be repeated"
    )
    parser.add_argument("--tag", action="append", default=[], metavar="T", help="only with this tag; may be repeated")
    parser.add_argument(
        "--path", action="append", default=[], metavar="P", help="only this note, folder or glob; may be repeated"
    )
    parser.add_argument("--min-score", type=float, metavar="S", help="only hits that score at least S, from 0 to 1")
    parser.add_argument("--wait", action="store_true", help="first index everything that is on disk now")
    parser.add_argument("--timeout-ms", type=count, metavar="MS", help="give up after this long")
    parser.add_argument("--explain", action="store_true", help="show what each score is made of")
    add_json(parser)


def _act(args: argparse.Namespace, console: Console) -> int:
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


def _find_params(args: argparse.Namespace) -> dict[str, object]:
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
        _declare,
        _act,
        (
            "memsyncd search redis timeout",
            "memsyncd search 'why did we choose \"connection pool\"' -draft",
            "memsyncd search token kind:decision --wait --json",
        ),
    )
}
