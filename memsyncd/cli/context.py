"""`memsyncd context`: what should a prompt know of these notes? The block alone goes to stdout."""

from __future__ import annotations

from memsyncd.cli.figures import render_count
from memsyncd.cli.filters import FILTERS, find_filters
from memsyncd.cli.grammar import JSON, TIMEOUT, Argument, Command, Option, name_workspace_option, read_count
from memsyncd.cli.render import render_freshness
from memsyncd.cli.terminal import clean, clean_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any

    from memsyncd.cli.console import Console

NOTHING_FOUND = 1


def _act(args: Args, console: Console) -> int:
    console.wait_for(args.timeout_ms)
    answer = console.ask_about(args.workspace, "context", **_find_params(args))
    if args.json:
        console.terminal.print_json(answer)
    else:
        _print_block(answer, console)
    return 0 if answer["text"] else NOTHING_FOUND


def _find_params(args: Args) -> dict[str, object]:
    return {
        "query": " ".join(args.query) or None,
        "max_tokens": args.max_tokens,
        "max_bytes": args.max_bytes,
        "filters": find_filters(args),
        "heading": args.heading,
        "wait": "disk" if args.wait else None,
        "timeout_ms": args.timeout_ms,
    }


def _print_block(answer: dict[str, Any], console: Console) -> None:
    terminal = console.terminal
    if answer["text"]:
        terminal.print(clean(answer["text"]))
    else:
        terminal.say(f"nothing to tell: {clean_line(answer['why_empty'])}")
    if answer["text"] and answer["left_out"]:
        n_places = render_count(len(answer["left_out"]), "place")
        weaker = f" and {render_count(answer['unranked'], 'weaker match', 'weaker matches')}" if answer["unranked"] else ""
        told = f"{answer['tokens']:,} tokens; no room for {n_places} more{weaker}, see --json and --max-tokens"
        terminal.say(terminal.err_paint("dim", told))
    if stale := render_freshness(answer["freshness"]):
        terminal.say(terminal.err_paint("yellow", stale))


COMMANDS = {
    "context": Command(
        _act,
        keeps_exclusions=True,
        arguments=(Argument("query", "QUERY", "what it should be about; none for what a session begins with", many="any"),),
        options=(
            name_workspace_option("make it of this workspace"),
            Option("-n --max-tokens", "at most N tokens, from 100 to 50,000 (default 2000)", metavar="N", read=read_count),
            Option("--max-bytes", "at most N bytes as well", metavar="N", read=read_count),
            *FILTERS,
            Option("--heading", "the first line (default '## Prior Knowledge'); '' for none", metavar="TEXT"),
            Option("--wait", "first index everything that is on disk now"),
            TIMEOUT,
            JSON,
        ),
        examples=(
            "memsyncd context",
            "memsyncd context why postgres --max-tokens 500",
            "memsyncd context --kind decision --heading '## Decisions so far'",
        ),
    )
}
