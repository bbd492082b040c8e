"""`memsyncd sync` and `reindex`: make the index say what the disk says, and say what that changed."""

from __future__ import annotations

from memsyncd.cli.figures import render_count, render_duration
from memsyncd.cli.grammar import JSON, Command, Option, name_workspace_option, read_count
from memsyncd.cli.progress import wait_with_progress
from memsyncd.cli.terminal import clean_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any

    from memsyncd.cli.console import Console
    from memsyncd.cli.terminal import Paint

CHANGES = ("added", "modified", "moved", "removed", "unchanged")


def _sync(args: Args, console: Console) -> int:
    return _ask(args, console, full=args.full or None)


def _reindex(args: Args, console: Console) -> int:
    return _ask(args, console, rebuild=True)


def _ask(args: Args, console: Console, **params: object) -> int:
    workspace = console.find_workspace(args.workspace)["id"]
    console.wait_for(args.timeout_ms)
    request_id = console.client.send("sync", workspace=workspace, timeout_ms=args.timeout_ms, **params)
    report = wait_with_progress(console, request_id, timeout_s=args.timeout_ms and console.client.timeout_s)
    if args.json:
        console.terminal.print_json(report)
        return 0
    shown = clean_values(report)
    console.terminal.print(render_report(shown, console.terminal.paint))
    for failed in shown["failed"]:
        console.terminal.say(f"{console.terminal.err_paint('yellow', failed['path'])}  {failed['problem']}")
    return 0


def render_report(report: dict[str, Any], paint: Paint) -> str:
    """One line: what changed among the notes, what that wrote, how long it took."""
    changes = [f"{report[what]:,} {what}" for what in CHANGES if report[what]] or ["no notes"]
    chunks = report["chunks"]
    written = [
        render_count(chunks["upserted"], "chunk") + " written" if chunks["upserted"] else "",
        f"{chunks['deleted']:,} deleted" if chunks["deleted"] else "",
    ]
    failed = paint("yellow", f"{len(report['failed']):,} failed") if report["failed"] else ""
    took = paint("dim", f"{render_duration(report['duration_ms'] / 1000)}, generation {report['generation']}")
    return " · ".join(filter(None, [", ".join(changes), *written, failed, took]))


_TIMEOUT = Option("--timeout-ms", "give up after this long; by default wait until it is done", metavar="MS", read=read_count)

COMMANDS = {
    "sync": Command(
        _sync,
        options=(
            Option("--full", "read and hash every note again, whatever its size and times say"),
            name_workspace_option(),
            _TIMEOUT,
            JSON,
        ),
        examples=("memsyncd sync", "memsyncd sync --full -w notes"),
    ),
    "reindex": Command(
        _reindex,
        options=(name_workspace_option(), _TIMEOUT, JSON),
        examples=("memsyncd reindex", "memsyncd reindex -w notes"),
    ),
}
