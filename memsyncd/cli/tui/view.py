"""The common parts of the views: the daemon, the chosen workspace, messages to the application, and
the widgets for lists and for many lines.

A view shows the error of a request, with its remedy, until a request succeeds. A long text (the
source of a note with its line numbers, or a diff) draws only the rows on the screen, so that the
size of a note and the length of its lines do not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.events import Resize
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.visual import VisualType
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from memsyncd.cli.tui.connection import DaemonGone, SharedClient
from memsyncd.cli.tui.text import Pieces, wrap_line
from memsyncd.errors import MemsyncdError
from memsyncd.terminal.terminal import clean_line

EVERY_WORKSPACE = "*"


def make_content(pieces: Pieces) -> Content:
    """Return the pieces as Textual's text; nothing in them is markup."""
    return Content.assemble(*(piece for piece in pieces if piece[0]))


class ViewContext:
    """The state that all views share. `workspace` is the id of the chosen workspace, empty if there
    is none yet. If `searches_all`, searches go to all workspaces.
    """

    def __init__(self, client: SharedClient, workspace: str) -> None:
        self.client = client
        self.workspace = workspace
        self.searches_all = False
        self.status: dict[str, Any] = {"workspaces": []}

    def find_workspace(self) -> dict[str, Any] | None:
        """Return the last status of the chosen workspace, None if it has none."""
        infos: Iterable[dict[str, Any]] = self.status["workspaces"]
        return next((info for info in infos if info["id"] == self.workspace), None)


class OpenNote(Message):
    """Show a note at these lines; `line` 0 is its beginning."""

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
    """One of the views. The application calls `open` each time it shows the view, `reload` after a
    change of the workspace or the connection, and `take_change` after a change of an index.
    """

    label: ClassVar[str]

    def __init__(self, session: ViewContext, *, id: str) -> None:  # noqa: A002  Textual's word
        super().__init__(id=id)
        self.session = session
        self._notice = Static(classes="notice", markup=False)
        self._notice.display = False

    def open(self) -> None:
        """Focus the widget that should get the keys."""

    def reload(self) -> None:
        """Request all data again."""

    def take_change(self, changed: dict[str, Any]) -> None:
        """Update the view after a change of an index."""

    def close_part(self) -> bool:
        """Close the top part of the view. Return False if none is open."""
        return False

    def go_home(self) -> None:
        """Show the beginning of the view."""

    async def ask(
        self,
        method: str,
        *,
        workspace: str | None = None,
        timeout_ms: int | None = None,
        **params: object,
    ) -> dict[str, Any]:
        """Call a method on the named workspace, else on the chosen workspace."""
        workspace = workspace or self.session.workspace or None
        call = self.session.client.call
        return await call(method, workspace=workspace, timeout_ms=timeout_ms, **params)

    @contextmanager
    def showing_errors(self) -> Iterator[None]:
        """Show an error of the block in the view; without an error, hide the last error."""
        try:
            yield
        except DaemonGone:
            # The banner shows this error, and a new connection loads each view again.
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
    """A list that keeps the place of its entries when it is filled again."""

    def show_choices(self, choices: Iterable[tuple[str, VisualType]], *, keeps: bool) -> None:
        """Fill the list with (id, text). An id that begins with `-` cannot be chosen. With `keeps`,
        the list keeps its highlighted entry and its scroll position.
        """
        options = [Option(text, id=name, disabled=name.startswith("-")) for name, text in choices]
        if keeps and [option.id for option in options] == [option.id for option in self.options]:
            for at, option in enumerate(options):
                if self.options[at].prompt != option.prompt:
                    self.replace_option_prompt_at_index(at, option.prompt)
            return
        chosen = self.highlighted_option if keeps else None
        scroll_y = self.scroll_offset.y
        self.set_options(options)
        places = [at for at, option in enumerate(options) if chosen and option.id == chosen.id]
        first = next((at for at, option in enumerate(options) if not option.disabled), None)
        self.highlighted = places[0] if places else first
        if places:
            self.scroll_to(y=scroll_y, animate=False)


# --- lines, wrapped to the width ------------------------------------------------------------------

StyleOf = Callable[[str, int], str]
# Rows are not narrower than this; a narrower screen cuts them.
MIN_COLUMNS = 8


def plain(_line: str, _number: int) -> str:
    return ""


class LinesView(ScrollView, can_focus=True):
    """Many lines, wrapped to the width. The `marked` lines have a mark beside them."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "lines--number",
        "lines--marked",
        "lines--head",
        "lines--hunk",
        "lines--added",
        "lines--removed",
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "scroll_down", show=False),
        Binding("k", "scroll_up", show=False),
        Binding("space", "page_down", show=False),
        Binding("g", "scroll_home", show=False),
        Binding("G", "scroll_end", show=False),
    ]

    def __init__(self, *, id: str) -> None:  # noqa: A002  Textual's word
        super().__init__(id=id)
        self._lines: list[str] = []
        self._starts: list[tuple[int, int]] = []
        self._firsts: list[int] = []
        self._marked = range(0)
        self._style_of: StyleOf = plain
        self._has_numbers = True

    def show_lines(
        self,
        lines: Sequence[str],
        *,
        marked: range = range(0),
        style_of: StyleOf = plain,
        has_numbers: bool = True,
    ) -> None:
        """Show other lines, which are clean. `marked` are line numbers from 1."""
        self._lines, self._marked = list(lines), marked
        self._style_of, self._has_numbers = style_of, has_numbers
        self._wrap()
        self.refresh()

    @property
    def top_line(self) -> int:
        """The number of the first line on the screen."""
        if not self._starts:
            return 1
        return self._starts[min(self.scroll_offset.y, len(self._starts) - 1)][0] + 1

    def scroll_to_line(self, number: int, *, margin: int = 0) -> None:
        """Scroll until the line is `margin` rows below the top."""
        if self._firsts:
            row = self._firsts[min(max(number, 1), len(self._firsts)) - 1]
            self.scroll_to(y=max(0, row - margin), animate=False, immediate=True)

    def action_page_down(self) -> None:
        self.scroll_page_down(animate=False)

    def on_resize(self, _event: Resize) -> None:
        top = self.top_line
        self._wrap()
        self.scroll_to_line(top)

    @property
    def _gutter(self) -> int:
        return len(str(len(self._lines))) + 2 if self._has_numbers else 1

    def _wrap(self) -> None:
        # One column is for the scroll bar, which appears with the rows.
        width = max(MIN_COLUMNS, self.size.width - self._gutter - 1)
        self._starts, self._firsts = [], []
        for index, line in enumerate(self._lines):
            self._firsts.append(len(self._starts))
            self._starts += [(index, start) for start in wrap_line(line, width)]
        self.virtual_size = Size(self.size.width, len(self._starts))

    def render_line(self, y: int) -> Strip:
        row = self.scroll_offset.y + y
        width = self.size.width
        if row >= len(self._starts):
            return Strip.blank(width, self.rich_style)
        index, start = self._starts[row]
        after = self._starts[row + 1] if row + 1 < len(self._starts) else (-1, 0)
        line = self._lines[index]
        text = line[start : after[1] if after[0] == index else len(line)]
        segments = [*self._draw_gutter(index, start), Segment(text, self._find_style(index))]
        return Strip(segments).adjust_cell_length(width, self.rich_style)

    def _draw_gutter(self, index: int, start: int) -> list[Segment]:
        if not self._has_numbers:
            return [Segment(" ", self.rich_style)]
        is_marked = index + 1 in self._marked
        name = "lines--marked" if is_marked else "lines--number"
        number = "" if start else str(index + 1)
        text = f"{number:>{self._gutter - 2}}{'▌' if is_marked else ' '} "
        return [Segment(text, self._on(self.get_component_rich_style(name, partial=True)))]

    def _find_style(self, index: int) -> Style:
        name = self._style_of(self._lines[index], index)
        if not name:
            return self.rich_style
        return self._on(self.get_component_rich_style(f"lines--{name}", partial=True))

    def _on(self, style: Style) -> Style:
        return self.rich_style + style
