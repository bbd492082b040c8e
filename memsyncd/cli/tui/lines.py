"""A view of many lines: a note's source with the file's line numbers, or a diff.

Only the rows on the screen are drawn, so the size of a note and the length of its lines do not
matter. Lines are wrapped to the width.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from memsyncd.cli.tui.text import wrap_line

StyleOf = Callable[[str, int], str]
# Fewer columns are not wrapped to: the rows are cut.
MIN_COLUMNS = 8


def plain(_line: str, _number: int) -> str:
    return ""


class LinesView(ScrollView, can_focus=True):
    """The lines. Those of the note that was found have a mark beside them."""

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
        """Show other lines, which `clean` has seen; `marked` are numbers of lines, from 1 on."""
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
        """Scroll so that the line is `margin` rows below the top."""
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
        # Without the scroll bar, which appears with the rows.
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
