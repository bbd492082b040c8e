"""People use the panel in Chromium: each view, live, by keyboard, over a restart, with hostile notes."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import pytest

from tests.daemon.conftest import Place
from tests.daemon.test_mcp import connect
from tests.panel import screenshots
from tests.panel.chromium import LIMIT_MS, PROGRAM, running_browser, show_panel

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from memsyncd.client import Client
    from tests.daemon.conftest import Home

pytest.importorskip("playwright.sync_api", reason="not installed: playwright")
axe = pytest.importorskip("axe_core_python.base", reason="not installed: axe-core-python")

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="not installed: chromium")
VIEWS = "notes search context history agents topics tasks decay graph problems status start".split()
AXE = {"runOnly": ["wcag2a", "wcag2aa", "wcag21aa"], "resultTypes": ["violations"]}
HOSTILE = """# <script>window.pwned = 1</script>

<img src=x onerror="window.pwned = 2"> [a](javascript:window.pwned=3) ![i](http://127.0.0.1:9/x.png)

<svg onload="window.pwned = 4"></svg> [[<img src=x onerror="window.pwned=5">]] \u202edesrever

<iframe src="http://127.0.0.1:9/"></iframe> <style>*{display:none}</style>
"""
FORGET = """() => {
  localStorage.clear();
  window.addEventListener("beforeunload", (event) => event.stopImmediatePropagation(), true);
}"""


class Panel:
    """The page in a browser, with its requests and its complaints."""

    def __init__(self, page: Page, place: Place | Client) -> None:
        client = place.client if isinstance(place, Place) else place
        self.workspace = place.id if isinstance(place, Place) else ""
        self.page = page
        self.errors: list[str] = []
        self.hosts: set[str] = set()
        self._listeners: dict[Any, Callable[[Any], None]] = {
            "pageerror": lambda error: self.errors.append(str(error)),
            "console": self._note_message,
            "dialog": lambda dialog: self.errors.append(f"dialog: {dialog.message}"),
            "request": lambda request: self.hosts.add(urlsplit(request.url).hostname or ""),
        }
        for event, listener in self._listeners.items():
            page.on(event, listener)
        show_panel(page, client)

    def close(self) -> None:
        """Leave the page empty and signed out, without a question about unsaved text."""
        for event, listener in self._listeners.items():
            self.page.remove_listener(event, listener)
        self.page.evaluate(FORGET)
        self.page.goto("about:blank")
        self.page.context.clear_cookies()

    def _note_message(self, message: Any) -> None:
        if message.type == "error" and "ERR_CONNECTION" not in message.text:
            self.errors.append(f"{message.text} {message.location}")

    def show(self, view: str, **values: str) -> None:
        query = "".join(f"&{name}={quote(value)}" for name, value in values.items())
        self.page.evaluate("hash => { location.hash = hash }", f"{view}?w={self.workspace}{query}")
        self.page.wait_for_selector(f"main > memory-{view}:not([aria-busy])")

    def wait_text(self, text: str) -> None:
        self.page.get_by_text(text).first.wait_for()

    def wait_message(self, text: str) -> None:
        self.page.locator("#messages").get_by_text(text).wait_for()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_browser() as started:
        yield started


@pytest.fixture(scope="module")
def page(browser: Browser) -> Page:
    """One page for all tests: the first view of a new page takes a second of a core."""
    page = browser.new_page()
    page.set_default_timeout(LIMIT_MS)
    return page


@pytest.fixture
def open_panel(page: Page) -> Iterator[Callable[[Place | Client], Panel]]:
    """Open the panel in the page, once a test."""
    panels: list[Panel] = []

    def open_page(place: Place | Client) -> Panel:
        panels.append(Panel(page, place))
        return panels[-1]

    yield open_page
    for panel in panels:
        panel.close()
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 1280, "height": 720})


@pytest.fixture
def filled(place: Place) -> Place:
    """A workspace with something to see in each view."""
    call = place.client.call
    call("note.add", workspace=place.id, content="Sessions live in Redis.", kind="decision")
    call("note.add", workspace=place.id, content="Write it down.", task="T-1", priority="P0")
    call("note.add", workspace=place.id, content="See [[MEMORY]] and [[Nowhere]].", tags=["x"])
    call("topic.create", workspace=place.id, title="Auth service", fields={"Status": "Version 7"})
    call("signal.send", workspace=place.id, content="frozen", type="note", agents=["bob"])
    with connect(place.home.socket_path) as agent:
        named = {"client": "codex", "session_id": "s-1", "cwd": str(place.root)}
        for event in ("session-start", "user-prompt"):
            agent.use("memory_hook", event=event, prompt="where do sessions live?", **named)
    return place


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 360)])
def test_each_view_shows_what_there_is_and_is_accessible(
    filled: Place, page: Page, open_panel: Callable[..., Panel], scheme: Any, width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme=scheme)
    (filled.root / "MEMORY.md").write_text("# Head\n\nAbout Redis.\n")
    filled.wait_found('"About Redis"', "MEMORY.md")
    panel = open_panel(filled)
    panel.page.evaluate(axe.AXE_SCRIPT)
    added = filled.client.call("workspace.add", path=str(filled.home.make_folder()))
    empty = added["workspaces"][0]["id"]
    for panel.workspace, view in itertools.product((empty, filled.id), VIEWS):
        panel.show(view, **({"q": "redis"} if view in ("search", "context") else {}))
        violations = panel.page.evaluate("rules => axe.run(rules).then(all => all.violations)", AXE)
        broken = [
            (violation["id"], [node["html"][:200] for node in violation["nodes"]])
            for violation in violations
        ]
        assert not broken, (view, broken)
        wide = panel.page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, view
    panel.show("context", q="redis")
    # The list has the order of the block: `.memories` before `MEMORY.md`.
    assert "MEMORY.md" in panel.page.locator("memory-context .prose h3").last.inner_text()
    assert panel.page.locator(".parts").first.locator(".entry").last.inner_text() == "Head"
    panel.show("graph")
    # The worker that arranges it is allowed by the policy of content.
    panel.page.wait_for_selector("memory-graph canvas[data-settled]")
    assert panel.errors == []
    assert panel.hosts == {"127.0.0.1"}


def test_a_save_appears_without_a_reload(place: Place, open_panel: Callable[..., Panel]) -> None:
    panel = open_panel(place)
    panel.show("notes", path="MEMORY.md")
    (place.root / "MEMORY.md").write_text("# Head\n\nA heron stands here.\n")
    panel.wait_text("A heron stands here.")
    panel.show("search", q="heron")
    panel.wait_text("1 hit in")
    (place.root / ".memories" / "new.md").write_text("# New\n\nAnother heron.\n")
    panel.wait_text("2 hits")
    assert panel.errors == []


def test_the_page_shows_the_workspace_that_its_address_names(
    place: Place, page: Page, open_panel: Callable[..., Panel]
) -> None:
    other = place.home.make_folder()
    (other / "MEMORY.md").write_text("# Elsewhere\n")
    added = place.client.call("workspace.add", path=str(other))["workspaces"][0]
    for cwd, shown in ((place.root, place.id), (other, added["id"])):
        command = [sys.executable, "-m", "memsyncd", "ui", "--print"]
        page.goto(subprocess.check_output(command, env=place.env, cwd=cwd, text=True).strip())
        page.wait_for_url(f"**/panel/#notes?w={shown}*")
        page.wait_for_function("id => document.getElementById('workspace').value === id", arg=shown)
    panel = open_panel(place)
    panel.workspace = added["name"]
    panel.show("notes")
    page.wait_for_function("id => document.getElementById('workspace').value === id", arg=shown)
    panel.workspace = "nowhere"
    panel.show("notes")
    panel.wait_message("There is no workspace nowhere.")


def test_the_page_comes_back_after_a_restart_of_the_daemon(
    own: Home, open_panel: Callable[..., Panel]
) -> None:
    daemon = own.start()
    root = own.make_folder()
    (root / "MEMORY.md").write_text("# Head\n\nBefore.\n")
    place = Place(own, daemon, root)
    panel = open_panel(place)
    panel.show("notes", path="MEMORY.md")
    place.client.close()
    assert daemon.stop() == 0
    panel.wait_text("not connected")
    own.start()
    (root / "MEMORY.md").write_text("# Head\n\nAfterwards.\n")
    panel.wait_text("Afterwards.")


def test_a_section_is_edited_and_the_edit_undone(
    filled: Place, open_panel: Callable[..., Panel]
) -> None:
    panel = open_panel(filled)
    page, note = panel.page, filled.root / "MEMORY.md"
    note.write_text("# Head\n\nFirst.\n\n## Second\n\nOld text.\n")
    panel.show("notes", path="MEMORY.md")
    panel.wait_text("Old text.")
    page.get_by_role("button", name="Edit Second").click()
    page.mouse.move(0, 0)
    for name in ("Save", "Cancel"):
        tools = page.locator(".editor").get_by_role("button", name=name).locator("..")
        assert tools.evaluate("tools => getComputedStyle(tools).opacity") == "1"
        frame, box = page.locator(".editor").bounding_box(), tools.bounding_box()
        assert frame is not None
        assert box is not None
        assert box["y"] + box["height"] <= frame["y"] + frame["height"]
    page.locator(".editor textarea").fill("## Second\n\nNew text.")
    page.get_by_role("button", name="Save").click()
    panel.wait_message("saved")
    panel.wait_text("New text.")
    assert note.read_text() == "# Head\n\nFirst.\n\n## Second\n\nNew text.\n"
    page.locator("#messages").get_by_role("button", name="undo").click()
    panel.wait_text("Old text.")
    assert panel.errors == []


def test_an_edit_that_another_writer_overtakes_shows_both_texts(
    place: Place, open_panel: Callable[..., Panel]
) -> None:
    panel = open_panel(place)
    page, note = panel.page, place.root / "MEMORY.md"
    note.write_text("# Head\n\n## Second\n\nOld text.\n")
    panel.show("notes", path="MEMORY.md")
    page.get_by_role("button", name="Edit Second").click()
    page.locator(".editor textarea").fill("## Second\n\nMine.")
    note.write_text("# Head\n\n## Second\n\nTheirs.\n")
    place.wait_found("Theirs", "MEMORY.md")
    page.get_by_role("button", name="Save").click()
    panel.wait_text("Another writer changed this note")
    assert "Theirs." in page.locator(".editor pre").inner_text()
    assert page.locator(".editor textarea").input_value() == "## Second\n\nMine."
    page.get_by_role("button", name="Save").click()
    panel.wait_message("saved")
    assert note.read_text() == "# Head\n\n## Second\n\nMine.\n"


def test_an_edit_is_not_lost_by_updates_or_by_leaving_without_an_answer(
    filled: Place, open_panel: Callable[..., Panel]
) -> None:
    panel = open_panel(filled)
    page, note = panel.page, filled.root / "MEMORY.md"
    note.write_text("# Head\n\n## Second\n\nOld text.\n")
    panel.show("notes", path="MEMORY.md")
    panel.wait_text("Old text.")
    page.get_by_role("button", name="Edit Second").click()
    text = page.locator(".editor textarea")
    text.fill("## Second\n\nMine.")
    note.write_text("# Head\n\nA new paragraph.\n\n## Second\n\nOld text.\n")
    filled.wait_found("paragraph", "MEMORY.md")
    page.get_by_role("button", name="Edit Head").click()
    panel.wait_message("Save or cancel the section")
    address = page.url
    page.get_by_role("link", name="History", exact=True).click()
    page.get_by_role("button", name="Keep editing").click()
    assert page.url == address
    assert text.input_value() == "## Second\n\nMine."
    text.press("Escape")
    page.get_by_role("button", name="Keep editing").click()
    assert text.input_value() == "## Second\n\nMine."
    page.get_by_role("link", name="History", exact=True).click()
    page.get_by_role("button", name="Discard the text").click()
    page.wait_for_selector("memory-history .diff")
    assert "Old text." in note.read_text()
    assert panel.errors == []


def test_a_long_note_is_shown_in_windows_and_its_decay_listed(
    place: Place, open_panel: Callable[..., Panel]
) -> None:
    sections = [f"## Part {n}\n\nText {n}.\n" for n in range(3100)]
    (place.root / "MEMORY.md").write_text("# Head\n\n" + "\n".join(sections) + "\nThe end.\n")
    place.wait_found('"The end"', "MEMORY.md")
    panel = open_panel(place)
    panel.show("notes", path="MEMORY.md")
    panel.page.get_by_role("link", name="last", exact=True).first.click()
    panel.wait_text("The end.")
    lines = panel.page.locator(".rendered > h2").first.get_attribute("data-line")
    assert int(lines or "0") > 8000
    panel.show("decay")
    panel.page.locator("li.worth").first.wait_for()
    panel.page.get_by_role("link", name="Cold", exact=True).click()
    panel.wait_text("No passage is in this tier.")
    assert panel.errors == []


def test_a_live_update_keeps_the_focus_and_what_was_opened(
    place: Place, open_panel: Callable[..., Panel]
) -> None:
    note = place.root / ".memories" / "a.md"
    note.write_text("# a\n\nA heron.\n")
    place.wait_found("heron", ".memories/a.md")
    (place.root / "MEMORY.md").write_text("# Head\n\nText.\n")
    panel = open_panel(place)
    panel.show("notes", path="MEMORY.md")
    folder = panel.page.locator(".tree summary").first
    folder.click()
    assert not panel.page.locator(".tree details[open]").count()
    panel.show("notes", path=".memories/a.md")
    # The tree follows.
    panel.page.locator(".tree a[aria-current]").wait_for()
    panel.page.get_by_text("and its metadata").click()
    entry = panel.page.get_by_role("link", name="Its history")
    entry.focus()
    address = entry.get_attribute("href")
    note.write_text("# a\n\nA heron, and a second one.\n")
    panel.wait_text("A heron, and a second one.")
    assert panel.page.evaluate("document.activeElement.getAttribute('href')") == address
    assert panel.page.locator(".note details[open]").count() == 1
    assert panel.errors == []


def test_a_text_that_is_refused_stays_in_its_dialog(
    place: Place, open_panel: Callable[..., Panel]
) -> None:
    panel = open_panel(place)
    page = panel.page
    panel.show("notes")
    page.get_by_role("button", name="Remember…").click()
    page.get_by_label("Text").fill("Herons fish at dawn.")
    page.get_by_label("Kind").fill("no kind/at all")
    page.get_by_role("button", name="Remember", exact=True).click()
    page.locator("dialog .error").wait_for()
    assert page.get_by_label("Text").input_value() == "Herons fish at dawn."
    page.get_by_label("Kind").fill("decision")
    page.get_by_role("button", name="Remember", exact=True).click()
    panel.wait_message("remembered in")
    place.wait_found("herons", ".memories/decisions.md")
    assert panel.errors == []


def test_a_note_that_is_gone_is_named_as_such(
    place: Place, open_panel: Callable[..., Panel]
) -> None:
    panel = open_panel(place)
    panel.show("notes", path="gone.md")
    panel.wait_text("There is no such note")
    panel.show("status")
    panel.wait_text("answered by an error (note not found")
    while panel.page.go_back():
        assert "token" not in panel.page.url
    assert panel.page.locator("#messages p").count() == 0
    assert panel.errors == []


def test_the_doctor_is_asked_on_request(place: Place, open_panel: Callable[..., Panel]) -> None:
    (place.root / "MEMORY.md").write_text("---\nkind: rumour\n---\n# Head\n\nAbout herons.\n")
    place.wait_found("herons", "MEMORY.md")
    panel = open_panel(place)
    panel.show("status")
    # The count is the same everywhere.
    panel.page.locator("memory-status").get_by_role("link", name="1 problem of").wait_for()
    panel.page.locator("#tabs").get_by_label("1 problem", exact=True).wait_for()
    panel.show("problems")
    panel.page.get_by_role("heading", name="1 problem", exact=True).wait_for()
    panel.page.get_by_role("button", name="Check now").click()
    panel.page.locator("memory-problems td .level.ok").first.wait_for()
    assert panel.errors == []


def test_everything_is_reached_by_keyboard(filled: Place, open_panel: Callable[..., Panel]) -> None:
    panel = open_panel(filled)
    keyboard = panel.page.keyboard
    keyboard.press("/")
    keyboard.type("redis")
    panel.wait_text("1 hit in")
    keyboard.press("Escape")
    keyboard.press("j")
    keyboard.press("Enter")
    panel.page.wait_for_selector("memory-notes .rendered .shown")
    keyboard.press("g")
    keyboard.press("h")
    panel.page.wait_for_selector("memory-history .diff")
    [low, high] = [panel.page.locator(one).bounding_box() for one in (".past", ".filter")]
    assert low
    assert high
    assert high["y"] + high["height"] <= low["y"]
    assert high["height"] < 60
    assert panel.errors == []


def test_memories_are_written_by_keyboard_alone(
    place: Place, open_panel: Callable[..., Panel]
) -> None:
    (place.root / "MEMORY.md").write_text("# Head\n\nOld text.\n")
    place.wait_found('"Old text"', "MEMORY.md")
    panel = open_panel(place)
    page, keyboard = panel.page, panel.page.keyboard
    keyboard.press("?")
    page.get_by_role("dialog").get_by_text("remember").wait_for()
    close = page.get_by_role("button", name="Close", exact=True).bounding_box()
    assert close
    assert close["y"] + close["height"] <= 720
    keyboard.press("Escape")
    keyboard.press("g")
    keyboard.press("i")
    panel.wait_text("Old text.")
    keyboard.press("e")
    page.locator(".editor textarea:focus").wait_for()
    keyboard.press("Control+a")
    keyboard.type("# Head\n\nNew text.\n")
    keyboard.press("Control+Enter")
    panel.wait_message("saved")
    page.locator(".rendered").get_by_text("New text.").wait_for()
    keyboard.press("u")
    page.locator(".rendered").get_by_text("Old text.").wait_for()
    keyboard.press("r")
    page.locator("dialog textarea:focus").wait_for()
    keyboard.type("Herons fish at dawn.")
    keyboard.press("Control+Enter")
    panel.wait_message("remembered in")
    page.locator(".rendered").get_by_text("Herons fish at dawn.").wait_for()
    for name, message in (("Promote", "promoted to"), ("Archive", "archived")):
        button = page.get_by_role("button", name=f"{name} Herons fish at dawn")
        button.focus()
        keyboard.press("Enter")
        page.get_by_role("dialog").wait_for()
        page.get_by_role("button", name=name, exact=True).press("Enter")
        panel.wait_message(message)
    place.wait(
        lambda: "archived" in (place.root / ".memories/notes.md").read_text(), "not archived"
    )
    assert panel.errors == []


def test_a_topic_shows_the_history_of_its_fields_and_gets_values(
    filled: Place, open_panel: Callable[..., Panel]
) -> None:
    panel = open_panel(filled)
    page, note = panel.page, filled.root / ".memories/auth-service.md"
    panel.show("topics", topic=".memories/auth-service.md")
    page.get_by_text("History of Status").click()
    page.keyboard.press("e")
    page.get_by_label("Field").fill("Status")
    page.get_by_label("Value").fill("Version 8")
    page.get_by_label("Value").press("Control+Enter")
    panel.wait_message("appended in")
    region = page.get_by_role("region", name="History of Status")
    region.get_by_text("Version 8").wait_for()
    region.get_by_text("Version 7").wait_for()
    page.get_by_role("button", name="Archive", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Archive").click()
    panel.wait_message("archived")
    panel.show("topics", topic=".memories/auth-service.md", archived="1")
    page.get_by_role("button", name="Restore", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Restore").click()
    panel.wait_message("restored")
    assert "Version 8" in note.read_text()
    assert panel.errors == []


def test_links_of_a_note_whose_name_contains_a_number_sign_lead_on(
    place: Place, open_panel: Callable[..., Panel]
) -> None:
    path = ".memories/c#.md"
    (place.root / path).write_text("# The language\n\nSee [the memory](../MEMORY.md).\n")
    (place.root / "MEMORY.md").write_text(f"# Memory\n\nOtters [write]({quote(path)}) code.\n")
    place.wait(lambda: "MEMORY.md" in place.find("otters"), "the note was not found")
    place.wait(lambda: path in place.find("language"), "the note was not found")
    panel = open_panel(place)
    panel.show("notes", path=path)
    panel.wait_text("Linked from 1 place")
    panel.page.get_by_role("link", name="the memory").click()
    panel.wait_text("Otters")
    panel.page.get_by_role("link", name="write").click()
    panel.wait_text("Linked from 1 place")
    assert panel.errors == []


def test_a_search_and_a_context_follow_typed_links(
    filled: Place, open_panel: Callable[..., Panel]
) -> None:
    cause = "# Cause\n\nA herring.\n\n- resolved_by [[Cure]]\n"
    (filled.root / ".memories/cause.md").write_text(cause)
    (filled.root / ".memories/cure.md").write_text("# Cure\n\nPatience.\n")
    filled.wait_found("herring", ".memories/cause.md")
    filled.wait_found("patience", ".memories/cure.md")
    panel = open_panel(filled)
    panel.show("search", q="herring", follow="resolved_by")
    panel.page.locator(".related").get_by_role("link", name="Cure").wait_for()
    panel.show("context", q="herring")
    panel.page.get_by_label("Follow relations").fill("resolved_by")
    panel.page.get_by_text("related: resolved_by of").wait_for()
    assert "Patience." in panel.page.get_by_label("The block").inner_text()
    assert panel.errors == []


def test_the_first_folder_is_watched_from_the_page_and_a_second_one_appears(
    own: Home, open_panel: Callable[..., Panel]
) -> None:
    daemon = own.start()
    first, second = own.make_folder(), own.make_folder()
    (first / "MEMORY.md").write_text("# First\n\nA heron.\n")
    with daemon.client() as client:
        panel = open_panel(client)
        page = panel.page
        page.get_by_text("Watch a folder").wait_for()
        page.get_by_role("link", name="Status", exact=True).click()
        page.get_by_role("heading", name="Daemon").wait_for()
        page.get_by_role("link", name="Watch another folder…").click()
        page.get_by_label("Folder").fill(str(own.folder / "nowhere"))
        page.get_by_label("Folder").press("Enter")
        page.locator("#messages .error").wait_for()
        page.get_by_label("Folder").fill(str(first))
        page.get_by_label("Folder").press("Enter")
        panel.wait_text("A heron.")
        client.call("workspace.add", path=str(second), name="the second")
        page.evaluate("window.dispatchEvent(new Event('focus'))")
        page.locator("#workspace option", has_text="the second").wait_for(state="attached")
        page.get_by_label("Workspace").select_option("the second")
        panel.wait_text("This workspace has no notes yet.")
        (second / "MEMORY.md").write_text("# Second\n")
        page.get_by_role("heading", name="Second", level=1).wait_for()
        assert panel.errors == []


def test_hits_are_narrowed_by_facets(filled: Place, open_panel: Callable[..., Panel]) -> None:
    panel = open_panel(filled)
    page = panel.page
    folder = filled.root / ".memories" / "birds"
    folder.mkdir()
    (folder / "heron.md").write_text("---\ntags: [grey]\n---\n# Heron\n\nIt ignores Redis.\n")
    filled.wait_found("heron", ".memories/birds/heron.md")
    panel.show("search", q="redis")
    panel.wait_text("2 hits in")
    page.get_by_role("link", name=".memories/birds").press("Enter")
    panel.wait_text("1 hit in")
    page.get_by_role("link", name="decision").wait_for(state="detached")
    page.get_by_role("link", name="grey").press("Enter")
    page.get_by_role("link", name="Remove the filter path").press("Enter")
    page.get_by_role("link", name="Remove the filter tag grey").press("Enter")
    panel.wait_text("2 hits in")
    panel.show("search", q="redis", kind="error")
    page.get_by_role("link", name="Remove the filter kind error").press("Enter")
    panel.wait_text("2 hits in")
    assert panel.errors == []


def test_a_link_to_no_note_is_mended_by_the_buttons_beside_it(
    place: Place, open_panel: Callable[..., Panel]
) -> None:
    note = place.root / "MEMORY.md"
    note.write_text("# Head\n\n## Links\n\nSee [[Auth servce]] and [[Herons]].\n")
    (place.root / ".memories" / "Auth service.md").write_text("# Auth service\n")
    place.wait_found("servce", "MEMORY.md")
    place.wait_found('"auth service"', ".memories/Auth service.md")
    panel = open_panel(place)
    page = panel.page
    panel.show("problems")
    page.get_by_role("button", name="Lead it to Auth service").click()
    page.get_by_role("button", name="Correct it").click()
    panel.wait_message("saved")
    (place.root / ".memories" / "broken.md").write_text("---\ntags: [a\n  b: : c\n---\n# Broken\n")
    page.get_by_label("1 problem").wait_for()
    (place.root / ".memories" / "broken.md").unlink()
    page.get_by_label("1 problem").wait_for(state="detached")
    expected = "# Head\n\n## Links\n\nSee [[Auth service]] and [[Herons]].\n"
    assert note.read_text() == expected
    page.get_by_role("button", name="Write this note").last.click()
    page.get_by_label("Text").fill("# Herons\n\nThey wait.\n")
    page.get_by_role("button", name="Write", exact=True).click()
    panel.wait_text("No problems")
    assert (place.root / ".memories" / "Herons.md").read_text() == "# Herons\n\nThey wait.\n"
    page.keyboard.press("u")
    panel.wait_message("undone")
    panel.wait_text("leads to no note")
    assert panel.errors == []


def test_a_phone_shows_the_list_or_the_note_and_opens_the_views_from_a_menu(
    place: Place, page: Page, open_panel: Callable[..., Panel]
) -> None:
    (place.root / "MEMORY.md").write_text("# Head\n\nA heron.\n")
    place.wait_found("heron", "MEMORY.md")
    page.set_viewport_size({"width": 360, "height": 740})
    added = place.client.call("workspace.add", path=str(place.home.make_folder()))
    panel = open_panel(place)
    panel.workspace = added["workspaces"][0]["id"]
    panel.show("notes")
    panel.wait_text("This workspace has no notes yet.")
    panel.workspace = place.id
    panel.show("notes")
    text = page.locator(".rendered").get_by_text("A heron.")
    page.get_by_role("link", name="Head").press("Enter")
    text.wait_for()
    page.get_by_role("link", name="all notes").press("Enter")
    text.wait_for(state="hidden")
    header = page.locator("body > header").bounding_box()
    assert header is not None
    assert header["height"] < 60, "the header is a single row"
    page.get_by_role("button", name="Views").press("Enter")
    page.get_by_role("link", name="History").press("Enter")
    page.wait_for_selector("memory-history")
    page.get_by_role("link", name="Tasks").wait_for(state="hidden")
    assert panel.errors == []


def test_all_changes_of_one_step_are_undone_together(
    place: Place, open_panel: Callable[..., Panel]
) -> None:
    call = place.client.call
    for name in ("a", "b"):
        path = f"/memories/old/{name}.md"
        call("memory", workspace=place.id, command="create", path=path, file_text=f"# {name}\n")
    moved = {"old_path": "/memories/old", "new_path": "/memories/new"}
    call("memory", workspace=place.id, command="rename", **moved)
    assert (place.root / ".memories" / "new" / "b.md").exists()
    panel = open_panel(place)
    panel.show("history")
    panel.page.get_by_role("button", name="Undo all 2 changes of this step").click()
    panel.page.get_by_role("button", name="Undo", exact=True).click()
    panel.wait_message("undone: ")
    assert (place.root / ".memories" / "old" / "a.md").exists()
    assert (place.root / ".memories" / "old" / "b.md").exists()
    assert panel.errors == []


def test_a_change_is_undone_in_the_history(place: Place, open_panel: Callable[..., Panel]) -> None:
    place.client.call("note.add", workspace=place.id, content="To be undone.", note="extra.md")
    panel = open_panel(place)
    panel.show("history")
    page = panel.page
    page.get_by_label("Only changes of this writer").select_option("another program")
    panel.wait_text("No change passes the filters")
    page.get_by_label("Only changes of this writer").select_option("everybody")
    page.get_by_label("Only changes from this day").fill("2020-02-29")
    panel.wait_text("Remembered in extra")
    page.get_by_label("Only changes to this day").fill("2020-02-29")
    panel.wait_text("No change passes the filters")
    page.get_by_role("link", name="Show all changes").click()
    panel.wait_text("Remembered in extra")
    page.get_by_role("button", name="Undo: delete the file").wait_for()
    page.keyboard.press("u")
    page.get_by_role("dialog").get_by_text("extra.md is deleted").wait_for()
    page.keyboard.press("Enter")
    page.get_by_role("dialog").wait_for(state="detached")
    assert (place.root / ".memories" / "extra.md").exists()
    page.keyboard.press("u")
    page.get_by_role("button", name="Undo", exact=True).click()
    panel.wait_message("undone: .memories/extra.md")
    assert not (place.root / ".memories" / "extra.md").exists()


def test_the_agents_view_shows_what_a_session_was_given_and_goes_on(
    filled: Place, open_panel: Callable[..., Panel]
) -> None:
    panel = open_panel(filled)
    panel.show("agents")
    page = panel.page
    prompt, start = filled.client.call("log.agents", workspace=filled.id)["answers"]
    shown = page.locator("memory-agents .list > li")
    assert shown.count() == 2
    first = shown.nth(1).inner_text()
    assert "Start of the session" in first
    assert start["summary"] in first
    for section in start["sections"]:
        assert f"{section['tokens']} tokens · {section['path']}" in first
    page.get_by_text("Left out: ").click()
    assert len(prompt["sections"]) == shown.first.locator("details a.entry:visible").count() > 0
    with connect(filled.home.socket_path) as agent:
        agent.use("memory_search", query="redis", workspace=filled.id)
        agent.use("memory_remember", content="MCP says: use it.", workspace=filled.id)
    panel.wait_text("mcp-")
    # The heading, not the anchor that has lost its signs.
    panel.page.locator("memory-agents").get_by_role("link", name="MCP says: use it").wait_for()
    page.get_by_role("link", name="codex, session s-1").click()
    panel.wait_text("Start of the session")


def test_a_note_that_was_first_seen_has_no_undo(
    place: Place, open_panel: Callable[..., Panel]
) -> None:
    note = place.outside / "old.md"
    note.write_text("# Of years ago\n")
    os.utime(note, (1_600_000_000, 1_600_000_000))
    note.rename(place.root / ".memories" / "old.md")
    place.wait(
        lambda: place.client.call("history", workspace=place.id)["revisions"],
        "the note is not in the history",
    )
    panel = open_panel(place)
    panel.show("history")
    panel.wait_text("First seen: old")
    panel.wait_text("The note was there when memsyncd first saw it")
    assert panel.page.get_by_role("button", name="Undo").count() == 0
    assert panel.errors == []


def test_without_changes_the_history_says_so_where_the_page_begins(
    place: Place, open_panel: Callable[..., Panel]
) -> None:
    panel = open_panel(place)
    panel.show("history")
    begin = panel.page.locator("main").bounding_box()
    said = panel.page.get_by_text("No change was recorded yet").bounding_box()
    assert begin is not None
    assert said is not None
    assert said["x"] - begin["x"] < 60


def test_the_tree_reads_folders_when_they_are_opened_and_finds_notes_by_their_names(
    place: Place, open_panel: Callable[..., Panel]
) -> None:
    far = place.root / ".memories" / "deep" / "lake"
    far.mkdir(parents=True)
    for number in range(160):
        (place.root / ".memories" / f"n{number:03}.md").write_text("Plain.\n")
    (far / "heron.md").write_text("---\ntags: [grey]\n---\n# A tall bird\n\nSee [[MEMORY]].\n")
    place.client.call("sync", workspace=place.id)
    panel = open_panel(place)
    page, tree = panel.page, panel.page.locator(".tree")
    panel.show("notes", path="MEMORY.md")
    tree.get_by_text("163 notes").wait_for()
    tree.get_by_text("99+").wait_for()
    tree.get_by_text("lake").wait_for(state="detached")
    # A folder that has few entries is open at once.
    tree.locator("summary", has_text="deep").press("Enter")
    tree.get_by_role("link", name="A tall bird").wait_for()
    tree.get_by_role("link", name="n159").wait_for(state="detached")
    tree.get_by_role("button", name="More…").press("Enter")
    tree.get_by_role("link", name="n159").wait_for()
    for words, found in (("tall", 1), ("#gr", 1), ("n15", 10), ("nowhere", 0)):
        page.get_by_label("Filter the notes").fill(words)
        tree.get_by_text(re.compile(f"^{found} note")).wait_for()
        assert tree.locator("a.entry").count() == found
    tree.get_by_role("link", name="Search the texts").wait_for()
    page.get_by_label("Filter the notes").fill("")
    # A note that no folder has read yet is shown where it stands.
    panel.show("notes", path=".memories/deep/lake/heron.md")
    tree.locator("a[aria-current]", has_text="A tall bird").wait_for()
    assert panel.errors == []


def test_the_picture_of_links_begins_with_a_part_and_offers_the_rest(
    place: Place, open_panel: Callable[..., Panel]
) -> None:
    notes = place.root / ".memories"
    (notes / "hub.md").write_text("# Hub\n\n[[MEMORY]] [[lake]] [[pond]]\n")
    for name, target in (("lake", "pond"), ("pond", "MEMORY"), ("far", "farther")):
        (notes / f"{name}.md").write_text(f"# {name.title()}\n\n[[{target}]]\n")
    (notes / "farther.md").write_text("# Farther\n")
    place.client.call("sync", workspace=place.id)
    panel = open_panel(place)
    page = panel.page
    panel.show("graph", n="3")
    panel.wait_text("4 notes and 3 links")
    page.get_by_label("Find a note in the picture").fill("farther")
    page.get_by_role("link", name="Farther").wait_for()
    page.get_by_role("link", name="Show more").press("Enter")
    panel.wait_text("6 notes and 6 links")
    page.get_by_role("link", name="Farther").wait_for(state="detached")
    assert panel.errors == []


RECORD_LABELS = """() => {
  const draw = CanvasRenderingContext2D.prototype.fillText;
  window.labels = {};
  CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
    window.labels[text] = [x, x + this.measureText(text).width, this.canvas.clientWidth];
    draw.call(this, text, x, y);
  };
}"""


def test_the_names_in_the_picture_of_links_are_not_cut_at_its_edges(
    place: Place, open_panel: Callable[..., Panel]
) -> None:
    names = [f"a-note-with-a-long-name-{number}" for number in range(4)]
    for name in names:
        (place.root / ".memories" / f"{name}.md").write_text("See [[MEMORY]].\n")
    place.client.call("sync", workspace=place.id)
    panel = open_panel(place)
    panel.page.set_viewport_size({"width": 390, "height": 700})
    panel.page.evaluate(RECORD_LABELS)
    panel.show("graph")
    panel.page.wait_for_selector("canvas[data-settled]")
    panel.page.get_by_role("button", name="Fit").click()
    panel.page.wait_for_function("n => Object.keys(window.labels).length === n", arg=5)
    labels = panel.page.evaluate("window.labels")
    assert set(labels) == {"MEMORY", *names}
    assert not {
        name: (left, right)
        for name, (left, right, width) in labels.items()
        if left < 0 or right > width
    }


def test_the_picture_of_links_finds_notes_and_shows_those_without_links(
    place: Place, open_panel: Callable[..., Panel]
) -> None:
    memories = place.root / ".memories"
    for folder, name, text in (
        ("birds", "heron", "See [[lake]]."),
        ("places", "lake", "Water."),
        ("places", "desert", "No link."),
    ):
        (memories / folder).mkdir(exist_ok=True)
        (memories / folder / f"{name}.md").write_text(f"# {name}\n\n{text}\n")
    place.client.call("sync", workspace=place.id)
    panel = open_panel(place)
    page = panel.page
    page.evaluate(RECORD_LABELS)
    panel.show("graph")
    page.wait_for_function("() => window.labels.heron && window.labels.lake")
    panel.wait_text("2 notes and 1 link")
    page.get_by_role("switch", name="Notes without links").press("Space")
    panel.wait_text("without links")
    page.wait_for_function("() => window.labels.desert")
    assert page.locator(".legend button").count() > 1
    page.get_by_label("Find a note in the picture").fill("lake")
    page.wait_for_selector("canvas[data-settled]")
    page.evaluate("window.labels = {}")
    page.keyboard.press("Enter")
    page.wait_for_function("() => window.labels.lake")
    assert page.evaluate("Object.keys(window.labels)") == ["lake"]
    page.get_by_text("The links as a list").click()
    page.locator("memory-graph").get_by_role("link", name="lake").press("Enter")
    page.locator(".rendered").get_by_text("Water.").wait_for()
    assert panel.errors == []


def test_nothing_of_a_hostile_note_runs(place: Place, open_panel: Callable[..., Panel]) -> None:
    (place.root / "MEMORY.md").write_text(HOSTILE)
    (place.root / ".memories" / "long.md").write_text("# Long\n\n" + "word " * 200_000)
    (place.root / ".memories" / '"><img src=x onerror=alert(1)>.md').write_text("# x\n\npwned\n")
    place.wait_found("pwned", '.memories/"><img src=x onerror=alert(1)>.md', "MEMORY.md")
    panel = open_panel(place)
    for view in VIEWS:
        panel.show(view, **({"q": "pwned word"} if view in ("search", "context") else {}))
    panel.show("notes", path="MEMORY.md")
    panel.show("notes", path=".memories/long.md")
    assert panel.page.evaluate("window.pwned") is None
    assert panel.page.evaluate("document.querySelectorAll('main img, main iframe').length") == 0
    assert panel.errors == []
    assert panel.hosts == {"127.0.0.1"}


def test_the_notes_of_the_pictures_in_the_readme_are_rendered(
    browser: Browser, root: Path, make_place: Callable[..., Place]
) -> None:
    screenshots.write_notes(root)
    place = make_place(root)
    for name, png in screenshots.take_pictures(browser, place.client, place.id):
        stored = (screenshots.FOLDER / f"{name}.png").read_bytes()
        assert png[16:24] == stored[16:24], "width and height"
        assert len(png) > 20_000, f"{name} is nearly empty"
