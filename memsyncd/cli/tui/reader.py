"""Read a note: laid out, as source with the file's line numbers, or what is known about it."""

from __future__ import annotations

import asyncio
import time
from typing import Any, ClassVar
from urllib.parse import unquote

from markdown_it import MarkdownIt
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import ContentSwitcher, Markdown, OptionList, Static
from textual.widgets.markdown import MarkdownBlock

from memsyncd.cli.terminal import clean_line
from memsyncd.cli.tui.lines import LinesView
from memsyncd.cli.tui.text import (
    NotePart,
    Pieces,
    describe_link,
    describe_note,
    describe_problem,
    describe_section,
    find_linked_note,
    find_part,
    prepare_markdown,
    split_note,
    split_parts,
)
from memsyncd.cli.tui.view import Choices, OpenHistory, OpenNote, View, ViewContext, make_content
from memsyncd.client.anchors import split_anchor
from memsyncd.errors import MemsyncdError

# Each block is a widget; more of them take seconds.
MAX_BLOCKS = 600
MAX_NESTING = 12
N_LINKS = 200
# A layout is arranged within so many refreshes of the screen, or never.
MAX_REFRESHES = 20
CONTEXT_ROWS = 3


def make_parser() -> MarkdownIt:
    """Return the parser of what is laid out: tags are text, for what is hidden could deceive."""
    parser = MarkdownIt("gfm-like", {"html": False, "linkify": False, "maxNesting": MAX_NESTING})
    return parser.disable("linkify")


def count_blocks(text: str) -> int:
    """Return how many widgets the text becomes."""
    return sum(token.nesting >= 0 and token.type != "inline" for token in make_parser().parse(text))


class NoteMarkdown(Markdown):
    BULLETS: ClassVar[list[str]] = ["• ", "◦ "]  # type: ignore[misc]


class NoteReader(View):
    """One note. Without one it says how to open one."""

    label = "Note"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("m", "toggle_source", "Source"),
        Binding("i", "toggle_info", "Info"),
        Binding("h", "history", "History"),
        Binding("n", "part(1)", show=False),
        Binding("p", "part(-1)", show=False),
    ]

    def __init__(self, session: ViewContext, *, id: str) -> None:  # noqa: A002  Textual's word
        super().__init__(session, id=id)
        self.path = ""
        self.line = self.end_line = 0
        # Until the line is shown: a change of the note may cancel its first loading.
        self._is_opening = False
        self._workspace = ""
        self._lines: list[str] = []
        self._parts: list[NotePart] = []
        self._part = 0
        self._links: list[dict[str, Any]] = []
        self._targets: dict[str, OpenNote] = {}
        self._is_source = False
        self._note: dict[str, Any] | None = None
        self._counts = ""
        # What is laid out. A note that is loaded again, or another part, cancels a layout.
        self._laid_out = ""

    def compose(self) -> ComposeResult:
        self._head = Static(id="note-head", markup=False)
        self._markdown = NoteMarkdown(id="markdown", parser_factory=make_parser, open_links=False)
        self._scroll = VerticalScroll(self._markdown, id="laid-out", can_focus=True)
        self._source = LinesView(id="source")
        self._info = Choices(id="info")
        self._switcher = ContentSwitcher(
            self._scroll, self._source, self._info, initial="laid-out", id="note-body"
        )
        yield self._head
        yield self._notice
        yield self._switcher

    def on_mount(self) -> None:
        self.show_notice([])
        self._head.update(make_content([("Choose a note, or search with /.", "dim")]))

    # --- loading ----------------------------------------------------------------------------------

    def show_note(self, path: str, line: int = 0, end_line: int = 0) -> None:
        """Read a note and show it at the line."""
        self.path, self.line, self.end_line = path, line, max(line, end_line)
        self._is_opening = True
        self._workspace = self.session.workspace
        self._load(keeps=False)

    def clear(self) -> None:
        """Show no note."""
        self.path, self._lines, self._parts = "", [], []
        self._load(keeps=False)

    def reload(self) -> None:
        if self.path:
            self._load(keeps=True)

    def take_change(self, changed: dict[str, Any]) -> None:
        is_shown = changed["workspace"] == self._workspace and self.path
        if is_shown and (self.path in changed["paths"] or not changed.get("complete", True)):
            self._load(keeps=True)

    @work(exclusive=True, group="note")
    async def _load(self, *, keeps: bool) -> None:
        if not self.path:
            await self._show_nothing()
            return
        if not keeps:
            self._parts = []
        with self.showing_errors():
            workspace, path = self._workspace, self.path
            got, *rest = await asyncio.gather(
                self.ask("get", path=path, workspace=workspace, track_access=False),
                self._ask_all("list", "notes", path=path),
                self._ask_all("links", "links", path=path, limit=N_LINKS),
                self._ask_all("problems", "problems"),
            )
            is_opening = self._is_opening or not keeps
            top = self.line if is_opening else self._find_top()
            self._lines = await asyncio.to_thread(split_note, got["text"], got["n_lines"])
            self._parts = split_parts(self._lines)
            self._part = find_part(self._parts, max(1, top))
            self._show_known(*rest)
            marked = range(self.line, self.end_line + 1) if self.line else range(0)
            self._source.show_lines(self._lines, marked=marked)
            await self._lay_out()
            self._go_to(top, margin=CONTEXT_ROWS if is_opening else 0)
        if not self._parts:
            # The note cannot be read, and its error must not be shown above the previous note.
            await self._show_nothing()

    async def _show_nothing(self) -> None:
        self._head.update(make_content([(clean_line(self.path), "bold")]))
        self._laid_out = ""
        await self._markdown.update("")
        self._source.show_lines([])
        self._info.show_choices([], keeps=False)

    async def _ask_all(self, method: str, name: str, **params: Any) -> list[dict[str, Any]]:
        """Return a list of a result; without it the text is shown all the same."""
        try:
            answer = await self.ask(method, workspace=self._workspace, **params)
        except MemsyncdError:
            return []
        found: list[dict[str, Any]] = answer[name]
        return found

    def _show_known(
        self,
        notes: list[dict[str, Any]],
        links: list[dict[str, Any]],
        problems: list[dict[str, Any]],
    ) -> None:
        note = next((one for one in notes if one["path"] == self.path), None)
        own = [one for one in problems if one["path"] == self.path]
        self._links = links
        backlinks = [one for one in links if split_anchor(one["source"])[0] != self.path]
        self._note = note
        counts = ("problem", len(own)), ("backlink", len(backlinks))
        self._counts = "".join(f"{n} {name}{'s' if n > 1 else ''} · " for name, n in counts if n)
        self._show_head()
        self._show_info(note, own, backlinks)

    def _show_head(self) -> None:
        pieces = describe_note(self.path, self._note, len(self._lines), time.time())
        if self._counts:
            pieces.append((f"\n{self._counts}i shows them", "$text-warning"))
        if len(self._parts) > 1 and not self._is_source:
            part = self._parts[self._part]
            pieces.append((f"\nlines {part.first:,}-{part.last:,} of {len(self._lines):,}", "bold"))
            pieces.append((" · n next part · p previous part · m all as source", "dim"))
        self._head.update(make_content(pieces))

    def _show_info(
        self,
        note: dict[str, Any] | None,
        problems: list[dict[str, Any]],
        backlinks: list[dict[str, Any]],
    ) -> None:
        own = [one for one in self._links if one not in backlinks]
        entries: list[tuple[str, OpenNote | None, Pieces]] = []
        for one in problems:
            opened = OpenNote(self.path, one["line"], workspace=self._workspace)
            entries.append(("Problems", opened, describe_problem(one, has_path=False)))
        for one in backlinks:
            source, _ = split_anchor(one["source"])
            opened = OpenNote(source, one["lines"][0], workspace=self._workspace)
            entries.append(("Linked from", opened, describe_link(one, is_backlink=True)))
        for one in own:
            target = self._make_target(one)
            entries.append(("Links", target, describe_link(one, is_backlink=False)))
        for one in (note or {}).get("sections", ()):
            opened = OpenNote(self.path, one["start_line"], one["end_line"], self._workspace)
            entries.append(("Sections", opened, describe_section(one)))
        self._targets, choices, title = {}, [], ""
        for at, (group, target, pieces) in enumerate(entries):
            if group != title:
                title = group
                choices.append((f"-{group}", make_content([(group, "bold underline")])))
            name = f"{at}" if target else f"-{at}"
            if target:
                self._targets[name] = target
            choices.append((name, make_content(pieces)))
        self._info.show_choices(choices, keeps=False)

    def _make_target(self, link: dict[str, Any]) -> OpenNote | None:
        if not link["to"]:
            return None
        return OpenNote(split_anchor(link["to"])[0], workspace=self._workspace)

    # --- the three forms --------------------------------------------------------------------------

    async def _lay_out(self) -> None:
        """Lay out the part that is shown."""
        part = self._parts[self._part]
        text = prepare_markdown(self._lines, part)
        if await asyncio.to_thread(count_blocks, text) > MAX_BLOCKS:
            text = "*These lines have too many blocks to be laid out: m shows the source.*"
        if text == self._laid_out:
            return
        self._laid_out = ""
        await self._markdown.update(text)
        self._laid_out = text

    def _find_top(self) -> int:
        if self._is_source or not self._parts:
            return self._source.top_line
        shift = self._part_shift()
        top = self._scroll.scroll_offset.y
        blocks = [one for one in self._blocks() if one.virtual_region.y <= top]
        return (
            blocks[-1].source_range[0] + shift if blocks and top else self._parts[self._part].first
        )

    def _part_shift(self) -> int:
        """Return what to add to a line of the layout, counted from 0, for the line of the file."""
        part = self._parts[self._part]
        return part.first - (1 if part.fence else 0)

    def _blocks(self) -> list[MarkdownBlock]:
        return [one for one in self._markdown.children if isinstance(one, MarkdownBlock)]

    def _go_to(self, line: int, *, margin: int) -> None:
        self._source.scroll_to_line(max(1, line), margin=margin)
        self.call_after_refresh(self._go_to_block, line, margin)

    def _go_to_block(self, line: int, margin: int, n_left: int = MAX_REFRESHES) -> None:
        if not self._parts:
            return
        shift, found = self._part_shift(), None
        for block in self._blocks():
            first, after = block.source_range
            is_marked = bool(self.line) and (
                first + shift <= self.end_line and after + shift > self.line
            )
            block.set_class(is_marked, "-found")
            if first + shift <= line:
                found = block
        if found and not self._is_source and not found.virtual_region.height and n_left:
            # It is not arranged yet.
            self.call_after_refresh(self._go_to_block, line, margin, n_left - 1)
            return
        y = found.virtual_region.y - margin if found and line > 1 else 0
        self._scroll.scroll_to(y=max(0, y), animate=False, immediate=True)
        self._is_opening = False

    def focus_body(self) -> None:
        """Give the keys to what is shown of the note."""
        shown = self._switcher.current
        if shown:
            self.query_one(f"#{shown}").focus()

    def _switch(self, form: str) -> None:
        self._switcher.current = form
        self.focus_body()

    def action_toggle_source(self) -> None:
        """Change between the layout and the source, at the same line."""
        if not self._parts:
            return
        top = self._find_top()
        self._is_source = not self._is_source
        self._switch("source" if self._is_source else "laid-out")
        self._show_head()
        if self._is_source:
            self.call_after_refresh(self._source.scroll_to_line, top)
        else:
            self._show_part(find_part(self._parts, top), top)

    def action_toggle_info(self) -> None:
        if self.path and self._switcher.current != "info":
            self._switch("info")
        elif self.path:
            self.close_part()

    def action_part(self, step: int) -> None:
        if self._is_source or not self._parts:
            return
        wanted = min(max(self._part + step, 0), len(self._parts) - 1)
        if wanted != self._part:
            self._show_part(wanted, self._parts[wanted].first)

    @work(exclusive=True, group="note")
    async def _show_part(self, index: int, line: int) -> None:
        self._part = index
        self._show_head()
        await self._lay_out()
        self._go_to(line, margin=0)

    def action_history(self) -> None:
        if self.path:
            self.post_message(OpenHistory(self.path))

    def close_part(self) -> bool:
        if self._switcher.current != "info":
            return False
        self._switch("source" if self._is_source else "laid-out")
        return True

    # --- links ------------------------------------------------------------------------------------

    @on(OptionList.OptionSelected, "#info")
    def _follow(self, event: OptionList.OptionSelected) -> None:
        target = self._targets.get(event.option.id or "")
        if target:
            self.close_part()
            self.post_message(OpenNote(target.path, target.line, target.end_line, target.workspace))

    @on(Markdown.LinkClicked)
    def _follow_link(self, event: Markdown.LinkClicked) -> None:
        event.stop()
        found = find_linked_note(self._links, self.path, event.href)
        if found is not None:
            self.post_message(OpenNote(found))
            return
        self.app.notify(clean_line(unquote(event.href)), title="The link leads to", markup=False)
