"""Measures the panel in Chromium: the size of its files, its first paint, a save until the page
shows it, each view of a large workspace, and the frames of the picture of links.
"""

from __future__ import annotations

import gzip
import itertools
import statistics
import time
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.benchmarks.bench import Bench, compare
from tests.benchmarks.figure import Figure, Measured, Target, find_median, find_percentile
from tests.benchmarks.home import Home
from tests.growing import SECTIONS_A_NOTE, write_notes
from tests.panel.chromium import (
    VIEWS,
    find_missing,
    measure_view,
    open_page,
    running_browser,
    show_view,
)

if TYPE_CHECKING:
    from playwright.sync_api import CDPSession, Page

SUFFIXES = (".html", ".js", ".css", ".svg")
MOST_LINKED_NOTES = 2_000
QUIET_S = 0.2
MOVES = 60
PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
# Seconds since the epoch at which the text is in the page, and a frame has shown it.
WAIT_SHOWN = """word => { window.shownAt = new Promise(resolve => {
  const look = () => document.querySelector("main").textContent.includes(word)
    && requestAnimationFrame(() => resolve((performance.timeOrigin + performance.now()) / 1000));
  new MutationObserver((_, observer) => look() && observer.disconnect())
    .observe(document.querySelector("main"), { childList: true, subtree: true });
}) }"""
COUNT_FRAMES = """() => { window.frames_ = []; let last = performance.now();
  const next = () => { const now = performance.now(); frames_.push(now - last); last = now;
    requestAnimationFrame(next) };
  requestAnimationFrame(next) }"""


def compute_size_kb() -> float:
    """The files of the page, each compressed as a server might send it."""
    return sum(len(gzip.compress(file.read_bytes())) for file in list_files()) / 1000


def list_files() -> list[Path]:
    folder = Path(str(files("memsyncd.panel")))
    return [file for file in sorted(folder.iterdir()) if file.suffix in SUFFIXES]


def measure_panel(bench: Bench) -> Iterator[Figure]:
    size = Target(most=150, unit="kB")
    kb = [Measured(value=compute_size_kb())]
    yield compare("panel", "files of the page, compressed", kb, unit="kB", target=size)
    if missing := find_missing():
        yield Figure(row="panel", name="in a browser", note=f"no {missing}", is_missing=True)
        return
    home = bench.start_home(bench.checkouts[0])
    with running_browser() as browser, home.client() as client:
        home.add(home.make_workspace("panel", 50))
        workspace = home.workspace()["id"]
        page = open_page(browser, client, viewport={"width": 1280, "height": 800})
        yield from measure_paint(bench, page)
        yield from measure_saves(bench, home, page, workspace)
        client.call("workspace.remove", workspace=workspace)
        yield from measure_views(bench, home, page)
        home.add(make_linked_notes(home, min(MOST_LINKED_NOTES, bench.effort.n_vault_notes)))
        time.sleep(bench.effort.calm_s)
        yield from measure_frames(page, home.workspace())


def measure_paint(bench: Bench, page: Page) -> Iterator[Figure]:
    paints = []
    for _ in range(bench.effort.n_rounds):
        page.goto(page.url)
        while (painted_ms := page.evaluate(PAINT)) is None:
            page.wait_for_timeout(10)
        paints.append(float(painted_ms))
    page.wait_for_selector("main > *")
    yield compare(
        "panel",
        "first paint of the page, signed in",
        [Measured(value=find_median(paints))],
        unit="ms",
        target=Target(most=200, unit="ms"),
    )


def measure_saves(bench: Bench, home: Home, page: Page, workspace: str) -> Iterator[Figure]:
    """From the end of a save to the frame that shows it. The note is open in the page."""
    note = home.folder / "panel" / ".memories" / "note-1.md"
    show_view(page, "notes", workspace, "&path=.memories/note-1.md")
    took = []
    for number in itertools.islice(itertools.count(), bench.effort.n_saves):
        word = f"savedword{number}end"
        page.evaluate(WAIT_SHOWN, word)
        time.sleep(QUIET_S)
        note.write_text(f"# Note 1\n\nThe word is {word}.\n")
        saved_s = time.time()
        took.append(max(0.0, page.evaluate("shownAt") - saved_s) * 1000)
    for percent in (50, 95):
        yield compare(
            "panel",
            f"finished save → shown by the page, p{percent}",
            [Measured(value=find_percentile(took, percent))],
            unit="ms",
            target=Target(most=300, unit="ms"),
        )


def measure_views(bench: Bench, home: Home, page: Page) -> Iterator[Figure]:
    """The least of some turns for each view of a workspace with many sections."""
    root = home.folder / "many"
    root.mkdir()
    write_notes(root, max(20, bench.effort.n_panel_sections // SECTIONS_A_NOTE))
    home.add(root)
    if bench.effort.calm_s:
        home.wait_until_quiet()
    workspace = home.workspace()
    sections = f"{workspace['sections']:,} sections"
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    for case in VIEWS:
        turns = []
        for _ in range(bench.effort.n_rounds):
            before_s, page_before_s = home.cpu_s(), read_page_s(session)
            shown = measure_view(page, case, workspace["id"])
            daemon_ms = (home.cpu_s() - before_s) * 1000
            turns.append((shown, daemon_ms, (read_page_s(session) - page_before_s) * 1000))
        daemon_ms, page_ms = (min(turn[at] for turn in turns) for at in (1, 2))
        calm_ms = min(shown.calm_ms for shown, _, _ in turns)
        yield compare(
            "panel",
            f"view {case} of {sections}, until its content stands there",
            [Measured(value=min(shown.shown_ms for shown, _, _ in turns))],
            unit="ms",
            target=Target(most=300, unit="ms"),
            note=f"calm after {calm_ms:.0f} ms; processor: daemon {daemon_ms:.0f},"
            f" page {page_ms:.0f} ms",
        )
    with home.client() as client:
        client.call("workspace.remove", workspace=workspace["id"])


def read_page_s(session: CDPSession) -> float:
    """The processor time of the page's main thread so far."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return next(float(each["value"]) for each in metrics if each["name"] == "TaskDuration")


def make_linked_notes(home: Home, n_notes: int) -> Path:
    """Make a workspace in which each note has three links, most of them to the same few notes."""
    folder = home.folder / "linked" / ".memories"
    folder.mkdir(parents=True)
    for number in range(n_notes):
        others = {number * 7919 % (number // 8 + 1), number * 104729 % n_notes, number + 1}
        links = " ".join(f"[[n{other % n_notes}]]" for other in sorted(others))
        (folder / f"n{number}.md").write_text(f"# N{number}\n\nSee {links}.\n")
    return folder.parent


def measure_frames(page: Page, workspace: dict[str, Any]) -> Iterator[Figure]:
    """The time between frames while notes find their places, and while the picture is moved."""
    show_view(page, "status", workspace["id"])
    page.evaluate(COUNT_FRAMES)
    idle = take_frames(page, 0.5)
    show_view(page, "graph", workspace["id"], f"&n={3 * MOST_LINKED_NOTES}")
    page.evaluate("frames_.length = 0")
    page.wait_for_selector("canvas[data-settled]")
    settling = take_frames(page, 0)
    box = page.locator("canvas").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    for step in range(MOVES):
        page.mouse.move(x + 2 * step, y + step)
    page.mouse.up()
    for step in range(MOVES // 2):
        page.mouse.wheel(0, -50 if step % 20 < 10 else 50)
        page.wait_for_timeout(16)
    moving = take_frames(page, 0)
    for name, frames in (("settles", settling), ("is moved", moving)):
        yield compare(
            "panel",
            f"frame while a picture of {workspace['files']:,} notes {name}, p50",
            [Measured(value=find_median(frames), limit=find_median(idle))],
            unit="ms",
            limit_name="an idle page",
            target=Target(most=1.3),
            note=f"p95 {find_percentile(frames, 95):.0f} ms, mean {statistics.fmean(frames):.0f}",
        )


def take_frames(page: Page, after_s: float) -> list[float]:
    """Milliseconds between the frames since the last call."""
    page.wait_for_timeout(after_s * 1000)
    frames: list[float] = page.evaluate("frames_.splice(0)")
    return frames or [0.0]
