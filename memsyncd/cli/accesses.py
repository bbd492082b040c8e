"""Show how often sections were recalled: `memsyncd accesses`."""

from __future__ import annotations

import time

from memsyncd.cli.format import render_age, render_count, render_path, render_table
from memsyncd.cli.parser import JSON, Argument, Command, Option, make_workspace_option, parse_count
from memsyncd.cli.targets import find_workspace_note, parse_target, roots_by_id
from memsyncd.cli.terminal import clean_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any, Final

    from memsyncd.cli.console import Console

NOTHING_FOUND: Final = 1


def _accesses(args: Args, console: Console) -> int:
    roots = roots_by_id(console.call("workspace.list")["workspaces"])
    root, place = None, {}
    if args.target is not None:
        target = parse_target(args.target)
        root, path = find_workspace_note(target.path, console.cwd, list(roots.values()))
        heading = target.heading
        place = {"path": path} if heading is None else {"anchor": f"{path}#{heading}"}
    sort = "last" if args.last else "count"
    answer = console.call_on(
        args.workspace or root, "access.stats", **place, sort=sort, limit=args.limit
    )
    if args.json:
        console.terminal.print_json(answer)
    else:
        _print_counts(clean_values(answer), roots.get(answer["workspace"], ""), console)
    return 0 if answer["counts"] else NOTHING_FOUND


def _print_counts(answer: dict[str, Any], root: str, console: Console) -> None:
    terminal, paint = console.terminal, console.terminal.paint
    rows = [
        [
            f"{one['count']:,}",
            render_age(one["last_at"], time.time()),
            render_path(one["anchor"], root, console.cwd),
            "" if one["is_indexed"] else paint("yellow", "no such section now"),
        ]
        for one in answer["counts"]
    ]
    for row in render_table(rows):
        terminal.print("".join(row).rstrip())
    counted = render_count(answer["sections"], "section")
    terminal.report(f"{render_count(answer['accesses'], 'access', 'accesses')} of {counted}")


COMMANDS = {
    "accesses": Command(
        _accesses,
        arguments=(
            Argument(
                "target",
                "ANCHOR|PATH",
                "a section, note or folder; without one, the whole workspace",
                many="optional",
            ),
        ),
        options=(
            Option("--last", "the most recently recalled first, not the most often"),
            Option("-n --limit", "at most N sections (default 20)", metavar="N", parse=parse_count),
            make_workspace_option("count in this workspace"),
            JSON,
        ),
        examples=(
            "memsyncd accesses",
            "memsyncd accesses .memories/redis.md --last",
            "memsyncd accesses '.memories/errors.md#timeouts' --json",
        ),
    ),
}
