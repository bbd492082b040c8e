"""`memsyncd export` and `memsyncd import`: how does a workspace's history come into a file, and out of it?

A file of JSON lines: a header that says of what version they are, the daemon's entries as they came, and a last line with their
number, by which a file that was cut off is known.
"""

from __future__ import annotations

import io
import os
import sys
import time

from memsyncd.cli.figures import render_count
from memsyncd.cli.grammar import JSON, Argument, Command, name_workspace_option
from memsyncd.cli.stdin import DASH
from memsyncd.errors import BadRequest
from memsyncd.client.fastjson import parse_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import SimpleNamespace as Args
    from typing import Any, BinaryIO

    from memsyncd.cli.console import Console

REQUEST_BYTES = 1024 * 1024
"""Lines that are imported with one request, and one line more; the daemon takes four times as much unless told otherwise."""
ANSWER_S = 120.0
"""How long one page may take; the daemon itself gives up one whose turn does not come, and says so."""
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
    terminal.say(f"exported {render_count(found['revision'], 'revision')} and {render_count(found['text'], 'text')}")
    if n_damaged:
        lost = f"{render_count(n_damaged, 'text')} in records.db cannot be read any more and had to be left out"
        terminal.say(terminal.err_paint("yellow", lost))
    return 0


def _read_pages(workspace: str | None, console: Console) -> Iterator[dict[str, Any]]:
    page = console.ask_about(workspace, "records.export")
    yield page
    while page["after"] is not None:
        page = console.ask("records.export", workspace=page["workspace"], after=page["after"])
        yield page


def _import(args: Args, console: Console) -> int:
    console.client.timeout_s = ANSWER_S
    with _open(args.file) as file:
        answer = _send(file, args.workspace, console)
    if args.json:
        console.terminal.print_json(answer)
    else:
        _say_imported(answer, console)
    return 0


def _open(name: str) -> BinaryIO:
    if name == DASH:
        return open(os.dup(sys.stdin.fileno()), "rb")
    try:
        return open(os.path.expanduser(name), "rb")
    except OSError as error:
        raise BadRequest(f"{name}: {error.strerror}", hint="name a file that `memsyncd export` has written, or -") from error


def _send(file: BinaryIO, workspace: str | None, console: Console) -> dict[str, Any]:
    """Hand the file's entries to the daemon, many at once; what was new, as one answer."""
    lines = _read_lines(file)
    header = next(lines, (0, {}))[1]
    if header.get("entry") != "header":
        raise BadRequest("this is no export: its first line is no header", hint="it is made by `memsyncd export`")
    total: dict[str, Any] = {**dict.fromkeys(COUNTS, 0), "is_renumbered": False}
    for entries in _gather(lines):
        answer = console.ask_about(
            total.get("workspace", workspace), "records.import", version=header.get("version"), entries=entries, client="cli"
        )
        counts = {name: total[name] + answer[name] for name in COUNTS}
        is_renumbered = total["is_renumbered"] or answer["is_renumbered"]
        total = {"workspace": answer["workspace"], **counts, "is_renumbered": is_renumbered}
    return total


def _gather(lines: Iterator[tuple[int, dict[str, Any]]]) -> Iterator[list[dict[str, Any]]]:
    """As many entries as go into one request. Raises BadRequest if the last line is not there, once all others were given."""
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
    raise BadRequest("the file ends too early; what it holds was imported", hint="export it anew; importing twice does no harm")


def _read_lines(file: BinaryIO) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(file, 1):
        try:
            entry = parse_json(line.decode())
        except ValueError:
            entry = None
        if not isinstance(entry, dict):
            raise BadRequest(f"line {number} is no JSON object", hint="import the file as it was exported")
        yield len(line), entry


def _say_imported(answer: dict[str, Any], console: Console) -> None:
    terminal = console.terminal
    if not any(answer[name] for name in COUNTS):
        terminal.say("nothing new: all of it was here already")
        return
    n_texts = render_count(answer["texts"], "text")
    terminal.say(f"imported {render_count(answer['revisions'], 'revision')} and {n_texts}")
    if answer["is_renumbered"]:
        terminal.say(terminal.err_paint("dim", "revisions that come after these have new numbers: memsyncd history"))


COMMANDS = {
    "export": Command(
        _export,
        arguments=(Argument("workspace", "WS", "a name, an id or a folder; by default the current folder's", many="optional"),),
        examples=("memsyncd export > history.jsonl", "memsyncd export notes | gzip > notes.jsonl.gz"),
    ),
    "import": Command(
        _import,
        arguments=(Argument("file", "FILE", "what `memsyncd export` has written; - reads it from stdin"),),
        options=(name_workspace_option(), JSON),
        examples=("memsyncd import history.jsonl", "gunzip < notes.jsonl.gz | memsyncd import - -w notes"),
    ),
}
