"""Search as you type."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input, OptionList, Static

from memsyncd.cli.tui.text import describe_answer, render_hit_pieces
from memsyncd.cli.tui.view import EVERY_WORKSPACE, Choices, OpenNote, View, make_content

# The pause after a key before a search, which itself takes a few milliseconds.
DEBOUNCE_S = 0.12
# Saves come in bursts.
CHANGE_S = 0.5
LIMIT = 50
MOST = 200
MORE = "more"
HOW_TO = (
    'words, "a phrase", -word, wor*, kind:decision, tag:auth, path:sessions, after:7d · ? helps',
    "dim",
)


class QueryInput(Input):
    """The query. Its cursor does not blink, because ssh would send each blink."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "submit", "Open")]


class SearchView(View):
    """The query, remarks on its answer, and the hits."""

    label = "Search"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down", "move(1)", show=False),
        Binding("up", "move(-1)", show=False),
        Binding("pagedown", "move(5)", show=False),
        Binding("pageup", "move(-5)", show=False),
        Binding("ctrl+y", "take_correction", "Take correction", show=False),
    ]

    def compose(self) -> ComposeResult:
        self._input = QueryInput(placeholder="search", id="query", compact=True)
        self._summary = Static(id="summary", markup=False)
        self._list = Choices(id="hits")
        self._hits: list[dict[str, Any]] = []
        self._meant = ""
        self._answered = ""
        self._is_opening = False
        self._is_stale = False
        self._limit = LIMIT
        yield self._input
        yield self._summary
        yield self._notice
        yield self._list

    def on_mount(self) -> None:
        self._input.cursor_blink = False
        self._summary.update(make_content([HOW_TO]))

    def open(self) -> None:
        self._input.focus()
        if self._is_stale:
            self._is_stale = False
            self._search(0.0, keeps=True)

    def reload(self) -> None:
        self._search(0.0, keeps=False)

    def take_change(self, changed: dict[str, Any]) -> None:  # noqa: ARG002  all are searched
        self._is_stale = not self.display
        if self.display and self._input.value.strip():
            self._search(CHANGE_S, keeps=True)

    @on(Input.Changed)
    def _ask(self) -> None:
        self._limit = LIMIT
        self._is_opening = False
        self._search(DEBOUNCE_S, keeps=False)

    # Exclusive: a search cancels an earlier search that has no answer yet.
    @work(exclusive=True, group="search")
    async def _search(self, pause_s: float, *, keeps: bool) -> None:
        await asyncio.sleep(pause_s)
        query = self._input.value
        if not query.strip():
            self._hits = []
            self._list.show_choices([], keeps=False)
            self._summary.update(make_content([HOW_TO]))
            self.show_notice([])
            return
        with self.showing_errors():
            workspace = EVERY_WORKSPACE if self.session.searches_all else None
            answer = await self.ask("search", query=query, limit=self._limit, workspace=workspace)
            self._show(query, answer, keeps=keeps)

    def _show(self, query: str, answer: dict[str, Any], *, keeps: bool) -> None:
        self._answered = query
        self._hits = answer["hits"]
        self._meant = answer["did_you_mean"] or ""
        names = {workspace["id"]: workspace["name"] for workspace in answer["workspaces"]}
        is_several = len(names) > 1
        choices = [
            (
                f"{at} {hit['workspace']} {hit['anchor']}",
                make_content(
                    render_hit_pieces(hit, names.get(hit["workspace"], "") if is_several else "")
                ),
            )
            for at, hit in enumerate(self._hits)
        ]
        if len(self._hits) == self._limit < MOST:
            choices.append((MORE, make_content([("more hits …", "bold")])))
        self._list.show_choices(choices, keeps=keeps)
        self._summary.update(make_content(describe_answer(answer, self._limit)))
        if self._is_opening:
            self._is_opening = False
            self._open_highlighted()

    @on(OptionList.OptionSelected, "#hits")
    def _choose(self, event: OptionList.OptionSelected) -> None:
        self._open(event.option_index)

    @on(Input.Submitted)
    def _open_highlighted(self) -> None:
        """Open the chosen hit. If the query has no answer yet, open the first hit of its answer."""
        if self._input.value != self._answered:
            self._is_opening = True
            self._search(0.0, keeps=False)
        elif self._list.highlighted is not None:
            self._open(self._list.highlighted)

    def _open(self, index: int) -> None:
        if index >= len(self._hits):
            self._limit = MOST
            self._search(0.0, keeps=True)
            return
        hit = self._hits[index]
        self.post_message(
            OpenNote(hit["path"], hit["start_line"], hit["end_line"], hit["workspace"])
        )

    def action_move(self, step: int) -> None:
        """Move in the hits while the query has the focus."""
        if self._list.option_count:
            at = (self._list.highlighted or 0) + step
            self._list.highlighted = min(max(at, 0), self._list.option_count - 1)

    def action_take_correction(self) -> None:
        if self._meant:
            self._input.value = self._meant
            self._input.cursor_position = len(self._meant)

    def close_part(self) -> bool:
        # The first Esc leaves the query, so that the common keys of the views work.
        if self._input.has_focus and self._list.option_count:
            self._list.focus()
            return True
        return False

    def go_home(self) -> None:
        if self._input.has_focus:
            self.screen.set_focus(None)
        else:
            self._input.focus()
