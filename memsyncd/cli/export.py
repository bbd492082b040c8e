"""`memsyncd export` and `memsyncd import`: write the history of a workspace to a file and read it
back.

The file has JSON lines: a header with the format's version, the daemon's entries, and a last line
with their number, which shows whether the file is complete.
"""

from __future__ import annotations

import io
import os
import sys
import time

from memsyncd.cli.format import render_count
from memsyncd.cli.notes import DASH
from memsyncd.cli.parser import JSON, Argument, Command, make_workspace_option
from memsyncd.client.fastjson import parse_json
from memsyncd.errors import BadRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import SimpleNamespace as Args
    from typing import Any, BinaryIO

    from memsyncd.cli.console import Console

# The size of the lines in one import request, plus one line; the daemon's default limit is four
# times as much.
REQUEST_BYTES = 1024 * 1024
# The time for one page; the daemon gives up earlier and reports it.
ANSWER_S = 120.0
REQUEST_ENTRIES = 5000
COUNTS = ("revisions", "texts", "moves")


def _export(args: Args, console: Console) -> int:
    terminal = console.terminal
    console.client.timeout_s = ANSWER_S
    if isinstance(terminal.out, io.TextIOWrapper):
        terminal.out.reconfigure(encoding="utf-8", errors="strict")
    found = dict.fromkeys(("revision", "text"), 0)
    n_entries = n_damaged = 0
    for page in _read_pages(args.workspace, console):
        if n_entries == 0:
            about = {name: page[name] for name in ("version", "workspace", "root")}
            terminal.print_json({"entry": "header", **about, "exported_at": time.time()})
        for entry in page["entries"]:
            terminal.print_json(entry)
            if entry["entry"] in found and not entry.get("offset"):
                found[entry["entry"]] += 1
        n_entries += len(page["entries"])
        n_damaged += page["damaged"]
    terminal.print_json({"entry": "end", "entries": n_entries})
    terminal.report(
        f"exported {render_count(found['revision'], 'revision')}"
        f" and {render_count(found['text'], 'text')}"
    )
    if n_damaged:
        lost = f"{render_count(n_damaged, 'text')} in records.db cannot be read and was left out"
        terminal.report(terminal.err_paint("yellow", lost))
    return 0


def _read_pages(workspace: str | None, console: Console) -> Iterator[dict[str, Any]]:
    page = console.call_on(workspace, "records.export")
    yield page
    while page["after"] is not None:
        page = console.call("records.export", workspace=page["workspace"], after=page["after"])
        yield page


def _import(args: Args, console: Console) -> int:
    console.client.timeout_s = ANSWER_S
    with _open(args.file) as file:
        answer = _send(file, args.workspace, console)
    if args.json:
        console.terminal.print_json(answer)
    else:
        _report_imported(answer, console)
    return 0


def _open(name: str) -> BinaryIO:
    if name == DASH:
        return open(os.dup(sys.stdin.fileno()), "rb")
    try:
        return open(os.path.expanduser(name), "rb")
    except OSError as error:
        raise BadRequest(
            f"{name}: {error.strerror}", hint="name a file written by `memsyncd export`, or -"
        ) from error


def _send(file: BinaryIO, workspace: str | None, console: Console) -> dict[str, Any]:
    """Import the file's entries in batches; return the sum of the results."""
    lines = _read_lines(file)
    header = next(lines, (0, {}))[1]
    if header.get("entry") != "header":
        raise BadRequest(
            "not an export: the first line is not a header",
            hint="use a file written by `memsyncd export`",
        )
    total: dict[str, Any] = {**dict.fromkeys(COUNTS, 0), "is_renumbered": False}
    for entries in _make_batches(lines):
        answer = console.call_on(
            total.get("workspace", workspace),
            "records.import",
            version=header.get("version"),
            entries=entries,
            client="cli",
        )
        counts = {name: total[name] + answer[name] for name in COUNTS}
        is_renumbered = total["is_renumbered"] or answer["is_renumbered"]
        total = {"workspace": answer["workspace"], **counts, "is_renumbered": is_renumbered}
    return total


def _make_batches(lines: Iterator[tuple[int, dict[str, Any]]]) -> Iterator[list[dict[str, Any]]]:
    """Yield the entries of each request. Raises BadRequest after the last batch if the end line is
    missing.
    """
    entries: list[dict[str, Any]] = []
    n_bytes = 0
    for n_before, (size, entry) in enumerate(lines):
        if entry.get("entry") == "end" and entry.get("entries") == n_before:
            yield entries
            return
        entries.append(entry)
        n_bytes += size
        if n_bytes > REQUEST_BYTES or len(entries) == REQUEST_ENTRIES:
            yield entries
            entries, n_bytes = [], 0
    yield entries
    raise BadRequest(
        "the file ends too early; its entries were imported",
        hint="export again; importing twice is harmless",
    )


def _read_lines(file: BinaryIO) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(file, 1):
        try:
            entry = parse_json(line.decode())
        except ValueError:
            entry = None
        if not isinstance(entry, dict):
            raise BadRequest(
                f"line {number} is not a JSON object", hint="import the file unchanged"
            )
        yield len(line), entry


def _report_imported(answer: dict[str, Any], console: Console) -> None:
    terminal = console.terminal
    if not any(answer[name] for name in COUNTS):
        terminal.report("nothing new: all entries exist already")
        return
    n_texts = render_count(answer["texts"], "text")
    terminal.report(f"imported {render_count(answer['revisions'], 'revision')} and {n_texts}")
    if answer["is_renumbered"]:
        terminal.report(
            terminal.err_paint("dim", "later revisions have new numbers: memsyncd history")
        )


COMMANDS = {
    "export": Command(
        _export,
        arguments=(
            Argument(
                "workspace",
                "WS",
                "a name, an id or a folder; by default the current folder's",
                many="optional",
            ),
        ),
        examples=(
            "memsyncd export > history.jsonl",
            "memsyncd export notes | gzip > notes.jsonl.gz",
        ),
    ),
    "import": Command(
        _import,
        arguments=(
            Argument("file", "FILE", "a file written by `memsyncd export`; - reads it from stdin"),
        ),
        options=(make_workspace_option(), JSON),
        examples=(
            "memsyncd import history.jsonl",
            "gunzip < notes.jsonl.gz | memsyncd import - -w notes",
        ),
    ),
}
