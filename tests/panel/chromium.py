"""Opens the panel in Chromium, without a screen."""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from memsyncd.client import Client

NAMES = ("chromium", "chromium-browser", "google-chrome")
PROGRAM = next(filter(None, map(shutil.which, NAMES)), None)
LIMIT_MS = 45_000
# Each view with the values of its address.
VIEWS = {
    "notes": "",
    "search": "",
    "search for a common word": "&q=cache",
    "topics": "",
    "tasks": "",
    "graph": "",
    "context": "",
    "context of a common word": "&q=cache",
    "agents": "",
    "history": "",
    "decay": "",
    "problems": "",
    "status": "",
    "start": "",
}
# From the click on a view: milliseconds until a text of its answer (or a line of the picture)
# stands there, and until it is no longer busy; then its elements, and the bytes of the answers.
_MEASURE = """async ([hash, name]) => {
  performance.clearResourceTimings();
  let isDrawn = name !== "graph";
  const stroke = CanvasRenderingContext2D.prototype.stroke;
  CanvasRenderingContext2D.prototype.stroke = function () { isDrawn = true; stroke.call(this); };
  const shows = view => [...view.querySelectorAll("li, tr, section > h2, .empty, .facts, .rendered > *")]
    .some(one => one.offsetHeight && one.textContent.trim() && !one.closest("form, nav"));
  const main = document.querySelector("main"), began = performance.now();
  const until = async test => {
    while (!test(main.querySelector(`:scope > memory-${name}`))) {
      if (performance.now() - began > 60000) throw new Error(`${name} shows nothing`);
      await new Promise(resolve => setTimeout(resolve, 2));
    }
    return performance.now() - began;
  };
  location.hash = hash;
  const shown = await until(view => view && isDrawn && (name === "graph" || shows(view)));
  const calm = await until(view => !view.hasAttribute("aria-busy"));
  // Answers that the view reads beside its first ones.
  await new Promise(resolve => setTimeout(resolve, 300));
  CanvasRenderingContext2D.prototype.stroke = stroke;
  const answers = performance.getEntriesByType("resource").filter(one => one.name.endsWith("/rpc"));
  return [shown, calm, main.querySelectorAll("*").length,
    answers.reduce((sum, one) => sum + one.decodedBodySize, 0)];
}"""


class ShownView(NamedTuple):
    """The time that it took to show a view, and the contents that it has then."""

    shown_ms: float
    """From the click until its content stands there."""
    calm_ms: float
    """Until it is no longer busy."""
    n_elements: int
    n_bytes: int
    """The bytes of all answers of the daemon."""


def find_missing() -> str:
    """Return the names of missing programs; empty if none is missing."""
    if PROGRAM is None:
        return NAMES[0]
    return "" if importlib.util.find_spec("playwright") else "playwright"


@contextlib.contextmanager
def running_browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # CI may run as root, and then Chromium's own sandbox does not work.
        yield playwright.chromium.launch(executable_path=PROGRAM, args=["--no-sandbox"])


def open_page(browser: Browser, client: Client, **options: Any) -> Page:
    """Open the panel in a window of its own, signed in."""
    page = browser.new_context(**options).new_page()
    page.set_default_timeout(LIMIT_MS)
    show_panel(page, client)
    return page


def show_panel(page: Page, client: Client) -> None:
    """Sign in by an address that is valid once."""
    page.goto(client.call("panel.open")["url"])
    page.wait_for_url("**/panel/")
    page.wait_for_selector("main > *")


def show_view(page: Page, name: str, workspace: str, query: str = "") -> None:
    """Go to a view, and wait until it has read."""
    page.evaluate("hash => { location.hash = hash }", f"{name}?w={workspace}{query}")
    page.wait_for_selector(f"main > memory-{name}:not([aria-busy])")


def measure_view(page: Page, case: str, workspace: str) -> ShownView:
    """Go from the status to a view of `VIEWS`."""
    name = case.split(maxsplit=1)[0]
    show_view(page, "start" if name == "status" else "status", workspace)
    address = f"{name}?w={workspace}{VIEWS[case]}"
    return ShownView(*page.evaluate(_MEASURE, [address, name]))
