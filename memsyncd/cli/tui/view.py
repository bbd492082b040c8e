"""What the views have in common: the daemon, the chosen workspace, and messages to the application.

An error of a request is shown in its view, with its remedy, until a request succeeds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.visual import VisualType
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from memsyncd.cli.terminal import clean_line
from memsyncd.cli.tui.connection import DaemonGone, SharedClient
from memsyncd.cli.tui.text import Pieces
from memsyncd.errors import MemsyncdError

EVERY_WORKSPACE = "*"


def make_content(pieces: Pieces) -> Content:
    """Return the pieces as Textual's text; nothing in them is markup."""
    return Content.assemble(*(piece for piece in pieces if piece[0]))


class ViewContext:
    """What all views share. `workspace` is the id of the chosen workspace, empty before there is
    one; `searches_all` widens searches to all of them.
    """

    def __init__(self, client: SharedClient, workspace: str) -> None:
        self.client = client
        self.workspace = workspace
        self.searches_all = False
        self.status: dict[str, Any] = {"workspaces": []}

    def find_workspace(self, wanted: str) -> dict[str, Any] | None:
        """Return the last known status of the workspace."""
        found: Iterable[dict[str, Any]] = self.status["workspaces"]
        return next((one for one in found if one["id"] == wanted), None)


class OpenNote(Message):
    """Show a note at these lines; `line` 0 for its beginning."""

    def __init__(self, path: str, line: int = 0, end_line: int = 0, workspace: str = "") -> None:
        super().__init__()
        self.path, self.line, self.end_line = path, line, end_line
        self.workspace = workspace


class OpenHistory(Message):
    """Show the changes of a note."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path


class View(Vertical):
    """One of the views. `open` is called each time it is shown, `reload` when the workspace or the
    connection is another, and `take_change` for each change of an index.
    """

    label: ClassVar[str]

    def __init__(self, session: ViewContext, *, id: str) -> None:  # noqa: A002  Textual's word
        super().__init__(id=id)
        self.session = session
        self._notice = Static(classes="notice", markup=False)

    def open(self) -> None:
        """Focus what keys should reach."""

    def reload(self) -> None:
        """Ask for everything again."""

    def take_change(self, changed: dict[str, Any]) -> None:
        """Follow a change of the index."""

    def close_part(self) -> bool:
        """Close what is open on top of the view; False if nothing is."""
        return False

    def go_home(self) -> None:
        """Show what the view begins with."""

    async def ask(
        self,
        method: str,
        *,
        workspace: str | None = None,
        timeout_ms: int | None = None,
        **params: object,
    ) -> dict[str, Any]:
        """Call a method on the named workspace, else on the chosen one."""
        workspace = workspace or self.session.workspace or None
        call = self.session.client.call
        return await call(method, workspace=workspace, timeout_ms=timeout_ms, **params)

    @contextmanager
    def showing_errors(self) -> Iterator[None]:
        """Show an error of the block in the view; without one, hide the last."""
        try:
            yield
        except DaemonGone:
            # The line above all views says it, and each is loaded again once it has come back.
            return
        except MemsyncdError as error:
            self.show_error(error)
        else:
            self.show_notice([])

    def show_error(self, error: MemsyncdError) -> None:
        pieces = [("! ", "bold $text-error"), (clean_line(error.message), "$text-error")]
        self.show_notice(pieces + ([(f"\n→ {clean_line(error.hint)}", "")] if error.hint else []))

    def show_notice(self, pieces: Pieces) -> None:
        self._notice.display = bool(pieces)
        self._notice.update(make_content(pieces))


class Choices(OptionList):
    """A list whose entries stay where they are when it is filled again."""

    def show_choices(self, choices: Iterable[tuple[str, VisualType]], *, keeps: bool) -> None:
        """Fill the list with (id, text); with `keeps` the highlighted entry and the scrolling
        stay.
        """
        options = [Option(text, id=name, disabled=name.startswith("-")) for name, text in choices]
        if keeps and [one.id for one in options] == [one.id for one in self.options]:
            for at, option in enumerate(options):
                if self.options[at].prompt != option.prompt:
                    self.replace_option_prompt_at_index(at, option.prompt)
            return
        chosen = self.highlighted_option if keeps else None
        scroll_y = self.scroll_offset.y
        self.set_options(options)
        found = [at for at, one in enumerate(options) if chosen and one.id == chosen.id]
        first = next((at for at, one in enumerate(options) if not one.disabled), None)
        self.highlighted = found[0] if found else first
        if found:
            self.scroll_to(y=scroll_y, animate=False)
