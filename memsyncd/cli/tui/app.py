"""The application: the views, their common keys, the connection, and the places for Esc.

Each drawn row goes through a filter, so that the terminal never gets control characters of a note.
The application goes on when the daemon ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

from rich.segment import Segment
from textual import on, work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.color import Color
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.filter import LineFilter
from textual.screen import ModalScreen
from textual.widgets import ContentSwitcher, Footer, OptionList, Static
from textual.widgets.option_list import Option

from memsyncd.cli.tui.connection import SharedClient
from memsyncd.cli.tui.history_view import HistoryView
from memsyncd.cli.tui.notes_view import NotesView
from memsyncd.cli.tui.search_view import SearchView
from memsyncd.cli.tui.status_view import ChooseWorkspace, StatusView
from memsyncd.cli.tui.text import style_of_state
from memsyncd.cli.tui.view import (
    EVERY_WORKSPACE,
    OpenHistory,
    OpenNote,
    View,
    ViewContext,
    make_content,
)
from memsyncd.errors import MemsyncdError
from memsyncd.terminal.console import INTERRUPTED
from memsyncd.terminal.terminal import clean, clean_line

# The pause between two requests of the status: while the status is visible, and otherwise.
LIVE_S, QUIET_S = 1.0, 3.0
MAX_PLACES = 100
HELP = """\
/         search             w    choose the workspace, or search all
1 2 3 4   the four views     Esc  back
?  F1     this help          q    quit (Ctrl+Q also while typing)

Search    Enter opens the hit at its lines, ↑ ↓ choose a hit,
          Ctrl+Y takes a correction, Tab or Esc leave the query
Note      m   its source with the file's line numbers, and back
          i   its sections, links, backlinks and problems
          h   its history
          n p next and previous part of a long note
History   Enter shows a change, u undoes it after a question,
          o opens the note
Status    Enter chooses a workspace, or opens the note of a problem

Queries   redis timeout      passages with either word, both first
          "connection pool"  these words in a row
          time*  -draft      by prefix; without this
          kind:decision  tag:auth  task:WU-12  path:sessions
          section:"Cache keys"  after:7d  before:2026-03
          status:open  priority:P0  importance:0.8  tier:hot
          related_to:redis  meta:owner=infra  is:archived

To copy text, hold Shift while you select it with the mouse.
"""


class ControlFilter(LineFilter):
    """Remove control characters, marks that reverse text, and links from drawn rows."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:  # noqa: ARG002
        return [
            segment
            if segment.text.isprintable() and not (segment.style and segment.style.link)
            else Segment(
                clean(segment.text).replace("\n", " ").replace("\t", " "),
                segment.style and segment.style.update_link(None),
                segment.control,
            )
            for segment in segments
        ]


class ScreenPlace(NamedTuple):
    """A place to which Esc returns: a view, and its open note."""

    view: str
    path: str = ""
    line: int = 0
    end_line: int = 0


class HelpScreen(ModalScreen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,f1,enter", "dismiss", "Close")
    ]

    def compose(self) -> ComposeResult:
        yield VerticalScroll(Static(HELP, markup=False), classes="dialog")


class WorkspaceScreen(ModalScreen[str]):
    """Choose a workspace. The answer is its id, `*` for all, or empty for no choice."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,w", "dismiss('')", "Close")]

    def __init__(self, session: ViewContext) -> None:
        super().__init__()
        self._session = session

    def compose(self) -> ComposeResult:
        options = [
            Option(
                make_content(
                    [
                        ("● ", style_of_state(info["state"])),
                        (clean_line(info["name"]), "bold"),
                        (f"  {clean_line(info['root'])}", "dim"),
                    ]
                ),
                id=info["id"],
            )
            for info in self._session.status["workspaces"]
        ]
        if len(options) > 1:
            options.insert(0, Option("all workspaces, for searches", id=EVERY_WORKSPACE))
        listed = OptionList(*options)
        chosen = EVERY_WORKSPACE if self._session.searches_all else self._session.workspace
        matches = [at for at, option in enumerate(options) if option.id == chosen]
        listed.highlighted = matches[0] if matches else None
        yield Vertical(listed, classes="dialog")

    @on(OptionList.OptionSelected)
    def _choose(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option.id or "")


class TerminalApp(App[None]):
    """The panel in a terminal."""

    CSS_PATH = "app.tcss"
    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "search", "Search", key_display="/"),
        Binding("1", "show('search')", show=False),
        Binding("2", "show('notes')", show=False),
        Binding("3", "show('history')", show=False),
        Binding("4", "show('status')", show=False),
        Binding("escape", "leave", "Back", key_display="Esc"),
        Binding("question_mark,f1", "help", "Help", key_display="?"),
        Binding("q", "quit", "Quit"),
        Binding("ctrl+z", "suspend_process", show=False),
        Binding("w", "workspace", "Workspace"),
    ]

    def __init__(self, env: Mapping[str, str], workspace: str) -> None:
        super().__init__(ansi_color=bool(env.get("NO_COLOR")) or None)
        client = SharedClient(env, on_changed=self._take_change, on_state=self._take_state)
        self._session = ViewContext(client, workspace)
        self._places: list[ScreenPlace] = []
        self._is_connected: bool | None = None
        self._states: dict[str, str] = {}
        self._header = ""
        self._wake = asyncio.Event()

    def compose(self) -> ComposeResult:
        session = self._session
        self._notes = NotesView(session, id="notes")
        self._history = HistoryView(session, id="history")
        self._status = StatusView(session, id="status")
        self._views: dict[str, View] = {
            "search": SearchView(session, id="search"),
            "notes": self._notes,
            "history": self._history,
            "status": self._status,
        }
        self._tabs = Static(id="tabs")
        self._where = Static(id="where", markup=False)
        self._banner = Static(id="banner", markup=False)
        self._switcher = ContentSwitcher(*self._views.values(), initial="search", id="views")
        yield Horizontal(self._tabs, self._where, id="header")
        yield self._banner
        yield self._switcher
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        self._banner.display = False
        self._show_header()
        self._views["search"].open()
        self._keep_connected()
        self._follow_status()

    def get_line_filters(self) -> list[LineFilter]:
        return [*super().get_line_filters(), ControlFilter()]

    @property
    def failure(self) -> Exception | None:
        """The error that has ended the application."""
        return self._exception

    def _fatal_error(self) -> None:
        # Textual would print its own traceback, with all variables and thus texts of notes.
        self._close_messages_no_wait()

    # --- the daemon -------------------------------------------------------------------------------

    @work
    async def _keep_connected(self) -> None:
        await self._session.client.run()

    def _take_state(self, error: MemsyncdError | None) -> None:
        was_connected, self._is_connected = self._is_connected, error is None
        if error is not None and was_connected is False:
            return
        self._banner.display = error is not None
        # A new daemon answers before its indexes are ready. The empty states make `_follow_states`
        # load the views again.
        self._states = dict.fromkeys(self._states, "")
        if error is not None:
            hint = f" → {clean_line(error.hint)}" if error.hint else ""
            self._banner.update(f"! {clean_line(error.message)}{hint}")
        elif was_connected is False:
            self.notify("connected to the daemon again", markup=False)
        self._show_header()
        if error is None:
            self._wake.set()
            for view in self._views.values():
                view.reload()

    def _take_change(self, changed: dict[str, Any]) -> None:
        self._wake.set()
        for view in self._views.values():
            view.take_change(changed)

    @work
    async def _follow_status(self) -> None:
        while True:
            if self._is_connected:
                await self._read_status()
            pause_s = LIVE_S if self._switcher.current == "status" else QUIET_S
            try:
                await asyncio.wait_for(self._wake.wait(), pause_s)
                # One request follows many saves.
                await asyncio.sleep(LIVE_S / 5)
            except TimeoutError:
                pass
            self._wake.clear()

    async def _read_status(self) -> None:
        with self._status.showing_errors():
            self._session.status = await self._session.client.call("status")
            self._take_status()

    def _take_status(self) -> None:
        self._follow_states()
        ids = [info["id"] for info in self._session.status["workspaces"]]
        if self._session.workspace not in ids:
            self._choose_workspace(ids[0] if ids else "")
        self._show_header()
        self._status.take_status()

    def _follow_states(self) -> None:
        """Load a workspace again if its state has changed, because it may have notes only now."""
        states = {info["id"]: info["state"] for info in self._session.status["workspaces"]}
        before, self._states = self._states, states
        for workspace in states.keys() & before.keys():
            if states[workspace] != before[workspace]:
                unknown = {"workspace": workspace, "paths": [], "complete": False}
                for view in self._views.values():
                    view.take_change(unknown)

    # --- header and places ------------------------------------------------------------------------

    def _show_header(self) -> None:
        current = self._switcher.current
        tabs = Content.assemble(
            *(
                Content.from_markup(
                    f"[@click=app.show('{name}')] {number} {view.label} [/]"
                ).stylize("reverse bold" if name == current else "")
                for number, (name, view) in enumerate(self._views.items(), 1)
            )
        )
        session = self._session
        info = session.find_workspace()
        state = info["state"] if info else ""
        if not self._is_connected:
            state = "no daemon" if self._is_connected is False else "connecting"
        name = clean_line(info["name"] if info else session.workspace) or "no workspace"
        all_of = "all · " if session.searches_all else ""
        pending = f" · {info['pending']:,} pending" if info and info["pending"] else ""
        style = style_of_state(state)
        pieces = [(f"{all_of}{name} ", ""), (f"● {state}{pending} ", style)]
        header = f"{current} {pieces}"
        if header != self._header:
            self._header = header
            self._tabs.update(tabs)
            self._where.update(make_content(pieces))

    @property
    def _view(self) -> View:
        return self._views[self._switcher.current or "search"]

    def _switch(self, name: str) -> None:
        self._switcher.current = name
        self._show_header()
        self._view.open()
        self._wake.set()

    def _find_place(self) -> ScreenPlace:
        name = self._switcher.current or "search"
        if name == "history":
            return ScreenPlace(name, self._history.path)
        reader = self._notes.reader
        is_reading = name == "notes" and self._notes.has_class("-reading")
        return (
            ScreenPlace(name, reader.path, reader.line, reader.end_line)
            if is_reading
            else ScreenPlace(name)
        )

    def _leave_place(self) -> None:
        self._places = [*self._places[-MAX_PLACES:], self._find_place()]

    # --- actions ----------------------------------------------------------------------------------

    def action_show(self, name: str) -> None:
        self._places.clear()
        self._switch(name)

    def action_search(self) -> None:
        self.action_show("search")

    def action_leave(self) -> None:
        """Close the top part, else return to the last place, else to the view's beginning."""
        if self._view.close_part():
            return
        if not self._places:
            self._view.go_home()
            return
        place = self._places.pop()
        if place.view == "notes" and place.path:
            self._notes.show_note(place.path, place.line, place.end_line)
        elif place.view == "notes":
            self._notes.go_home()
        elif place.view == "history" and place.path != self._history.path:
            self._history.show_path(place.path)
        self._switch(place.view)

    def action_help(self) -> None:
        self.push_screen(HelpScreen())

    @work
    async def action_workspace(self) -> None:
        if self._is_connected and not self._session.status["workspaces"]:
            # The key came before the first status.
            await self._read_status()
        chosen = await self.push_screen_wait(WorkspaceScreen(self._session))
        if chosen:
            self._session.searches_all = chosen == EVERY_WORKSPACE
            self._choose_workspace(chosen if chosen != EVERY_WORKSPACE else "")

    def action_help_quit(self) -> None:
        """End with the status of an interrupted command; Textual calls this for Ctrl+C."""
        self.exit(return_code=INTERRUPTED)

    def _choose_workspace(self, workspace: str) -> None:
        """Show another workspace; an empty name keeps the workspace."""
        if workspace and workspace != self._session.workspace:
            self._session.workspace = workspace
            self._places.clear()
            self._history.show_path("")
        for view in self._views.values():
            view.reload()
        self._show_header()

    @on(ChooseWorkspace)
    def _take_workspace(self, message: ChooseWorkspace) -> None:
        self._session.searches_all = False
        self._choose_workspace(message.workspace)
        self.action_show("notes")

    @on(OpenNote)
    def _open_note(self, message: OpenNote) -> None:
        self._leave_place()
        if message.workspace and message.workspace != self._session.workspace:
            places, self._session.workspace = self._places, message.workspace
            self._notes.reload()
            self._history.show_path("")
            self._places = places
        self._notes.show_note(message.path, message.line, message.end_line)
        self._switch("notes")

    @on(OpenHistory)
    def _open_history(self, message: OpenHistory) -> None:
        self._leave_place()
        self._history.show_path(message.path)
        self._switch("history")


def run_app(env: Mapping[str, str], workspace: str) -> int:
    """Run the application until the user quits, and return the exit status. Raises the error that
    has ended it.
    """
    app = TerminalApp(env, workspace)
    app.run()
    if app.failure is not None:
        raise app.failure
    return app.return_code or 0
