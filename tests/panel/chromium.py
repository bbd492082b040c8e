"""Opens the panel in Chromium, without a screen."""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from memsyncd.client import Client

NAMES = ("chromium", "chromium-browser", "google-chrome")
PROGRAM = next(filter(None, map(shutil.which, NAMES)), None)
LIMIT_MS = 45_000


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
