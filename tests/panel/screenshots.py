"""Makes the pictures of the panel in README.md and GUIDE.md, from notes that are always the same.

    python -m tests.panel.screenshots

The dates of notes and the page's clock are fixed. Fonts depend on the machine, so the pictures of two
machines differ.
"""

from __future__ import annotations

import argparse
import os
import struct
import sys
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from tests.benchmarks.home import running
from tests.panel.chromium import find_missing, open_page, running_browser, show_view

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from memsyncd.client import Client

FOLDER = Path(__file__).parent / "pictures"
SIZE = {"width": 1280, "height": 720}
NOW = datetime(2026, 3, 9, 10, 30, tzinfo=UTC)
SAVED_BEFORE_S = 3600
QUESTION = "why do deploys fail"
N_COLORS = 256
NOTES = {
    "MEMORY.md": """# Harbour

The booking service of three ferry lines. Python and Postgres; deployed from `main` by [[Deploys]].

- Money is counted in cents, never in floats.
- Times are UTC; only the page knows of time zones.
- Sessions: see [[Auth service]].
""",
    ".memories/deploys.md": """---
tags: [deploy, ops]
---
# Deploys

A deploy is a merge to `main`. It takes four minutes, of which three are the migration.

## Deploys fail while the migration lock is held
<!-- memory: {kind: error, priority: P0, task: HB-12, created: 2026-02-27T14:05:00Z} -->

A worker that died keeps the lock of the migration, and every deploy after it fails with `lock timeout`.
Remove the row from `schema_lock`, then start the worker again.

- resolved_by [[Auth service]]

| step | takes |
|---|---|
| build | 40 s |
| migration | 3 min |
| switch over | 10 s |

## Roll back
<!-- memory: {kind: procedure, created: 2026-02-12T09:20:00Z} -->

1. Switch the load balancer back: `just switch blue`
2. Never roll a migration back: write the next one.
""",
    ".memories/auth-service.md": """---
kind: decision
tags: [auth]
created: 2026-01-15T08:00:00Z
---
# Auth service

Who somebody is, and for how long.

- part_of [[Harbour]]

## Sessions live in Redis, not in Postgres
<!-- memory: {created: 2026-01-15T08:00:00Z} -->

Each deploy restarted Postgres' pool and signed everybody out. Redis stays up over a deploy.

## Status

- 2026-03-02T10:00:00Z Redis 8, with a replica in the other hall
- 2026-01-15T08:00:00Z Redis 7
""",
    ".memories/timetable.md": """---
kind: context
tags: [ferry]
---
# Timetable

The lines send their timetables as spreadsheets on the first of each month; `ingest` reads them.
A deploy while `ingest` runs fails late: it holds the table for ten minutes. See [[Deploys]].
""",
    ".memories/preferences.md": """# Preferences

## Short functions, long names
<!-- memory: {kind: preference, created: 2026-01-09T11:00:00Z} -->

Reviewers ask for functions of fifteen lines.
""",
    ".memories/tasks/HB-12.md": """---
task: HB-12
priority: P1
---
# HB-12: deploys without a lock

Let the migration time out after a minute, so that the next deploy does not fail. See [[Deploys]].
""",
}
VIEWS = {
    "notes": ("light", "notes", "&path=.memories/deploys.md"),
    "context": ("dark", "context", f"&q={quote(QUESTION)}&tokens=200"),
}


def write_notes(root: Path) -> None:
    saved_s = NOW.timestamp() - SAVED_BEFORE_S
    for path, text in NOTES.items():
        note = root / path
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(text)
        os.utime(note, (saved_s, saved_s))


def take_pictures(browser: Browser, client: Client, workspace: str) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the PNG of each view of a workspace with the notes."""
    for name, (scheme, view, query) in VIEWS.items():
        page = open_page(browser, client, viewport=SIZE, color_scheme=scheme)
        page.clock.set_fixed_time(NOW)
        page.reload()
        page.wait_for_selector("main > *")
        show_view(page, view, workspace, query)
        yield name, page.screenshot()
        page.context.close()


# --- PNG --------------------------------------------------------------------------------------


def reduce_colors(png: bytes) -> bytes:
    """Return a PNG with the most common colours as its palette, a third of the size.

    Reads what Chromium writes: 8 bits a channel, not interlaced.
    """
    width, height, pixels = _decode(png)
    common = [color for color, _ in Counter(pixels).most_common(N_COLORS)]
    numbers = {color: number for number, color in enumerate(common)}
    for color in set(pixels) - numbers.keys():
        numbers[color] = numbers[min(common, key=lambda other: _compute_distance(other, color))]
    data = bytes(numbers[color] for color in pixels)
    rows = b"".join(b"\0" + data[at : at + width] for at in range(0, len(data), width))
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    chunks = (b"IHDR", header), (b"PLTE", b"".join(common)), (b"IDAT", zlib.compress(rows, 9))
    return png[:8] + b"".join(_make_chunk(*chunk) for chunk in (*chunks, (b"IEND", b"")))


def _compute_distance(one: bytes, other: bytes) -> int:
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True))


def _make_chunk(name: bytes, data: bytes) -> bytes:
    checksum = zlib.crc32(name + data)
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", checksum)


def _decode(png: bytes) -> tuple[int, int, list[bytes]]:
    """Return width, height, and the colour of each pixel without its transparency."""
    packed, at = b"", 8
    width, height, depth, kind, *_, interlaced = struct.unpack_from(">IIBBBBB", png, 16)
    assert (depth, kind in (2, 6), interlaced) == (8, True, 0)
    while at < len(png):
        length, name = struct.unpack_from(">I4s", png, at)
        packed += png[at + 8 : at + 8 + length] if name == b"IDAT" else b""
        at += 12 + length
    data, n_channels = zlib.decompress(packed), 4 if kind == 6 else 3
    stride, pixels = width * n_channels, []
    before = bytearray(stride)
    for row in range(height):
        begin = row * (stride + 1)
        line = bytearray(data[begin + 1 : begin + 1 + stride])
        _unfilter(data[begin], line, before, n_channels)
        pixels += [bytes(line[at : at + 3]) for at in range(0, stride, n_channels)]
        before = line
    return width, height, pixels


def _unfilter(kind: int, line: bytearray, before: bytearray, n: int) -> None:
    """Undo the filter of a row in place: section 9 of the PNG specification."""
    if kind == 0:
        return
    for at, value in enumerate(line):
        left = line[at - n] if at >= n else 0
        above, corner = before[at], before[at - n] if at >= n else 0
        if kind == 4:
            paeth = left + above - corner
            nearest = min((left, above, corner), key=lambda one: abs(paeth - one))
        guess = (left, above, (left + above) // 2, nearest if kind == 4 else 0)[kind - 1]
        line[at] = (value + guess) & 255


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.panel.screenshots", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    folder = parser.parse_args(arguments).folder
    if missing := find_missing():
        raise SystemExit(f"not installed: {missing}")
    folder.mkdir(parents=True, exist_ok=True)
    with running() as home, running_browser() as browser, home.client() as client:
        write_notes(home.folder / "harbour")
        home.add(home.folder / "harbour")
        for name, png in take_pictures(browser, client, home.workspace()["id"]):
            picture = folder / f"{name}.png"
            picture.write_bytes(reduce_colors(png))
            print(f"{picture}: {picture.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
