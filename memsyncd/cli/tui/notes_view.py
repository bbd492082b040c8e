"""The notes of a workspace as a tree, and the open note in three forms: laid out, as source with
the line numbers of the file, or its sections, links and problems.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, ClassVar
from urllib.parse import unquote

from markdown_it import MarkdownIt
from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.widgets import ContentSwitcher, Markdown, OptionList, Static, Tree
from textual.widgets.markdown import MarkdownBlock
from textual.widgets.tree import TreeNode

from memsyncd.cli.tui.text import (
    Folder,
    NotePart,
    Pieces,
    build_folders,
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
from memsyncd.cli.tui.view import (
    Choices,
    LinesView,
    OpenHistory,
    OpenNote,
    View,
    ViewContext,
    make_content,
)
from memsyncd.client.words import split_anchor
from memsyncd.errors import MemsyncdError
from memsyncd.terminal.format import render_count
from memsyncd.terminal.terminal import clean_line

# Each block is a widget. More blocks take seconds.
MAX_BLOCKS = 600
MAX_NESTING = 12
N_LINKS = 200
PAGE_NOTES = 1000
# A layout that is not arranged after so many refreshes of the screen never will be.
MAX_REFRESHES = 20
CONTEXT_ROWS = 3


def make_parser() -> MarkdownIt:
    """Return the parser for the layout. HTML is text, because a hidden tag could deceive."""
    parser = MarkdownIt("gfm-like", {"html": False, "linkify": False, "maxNesting": MAX_NESTING})
    return parser.disable("linkify")


def count_blocks(text: str) -> int:
    """Return the number of widgets of the text."""
    return sum(token.nesting >= 0 and token.type != "inline" for token in make_parser().parse(text))


class NoteMarkdown(Markdown):
    BULLETS: ClassVar[list[str]] = ["• ", "◦ "]  # type: ignore[misc]


class NoteReader(View):
    """The open note; without an open note, a hint how to open a note."""

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
        # True until the line is visible: a change of the note may cancel the first loading.
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
        # The text of the finished layout. A reload, or another part, cancels a layout.
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
            # The note cannot be read. Its error must not stand above the text of the previous note.
            await self._show_nothing()

    async def _show_nothing(self) -> None:
        self._head.update(make_content([(clean_line(self.path), "bold")]))
        self._laid_out = ""
        await self._markdown.update("")
        self._source.show_lines([])
        self._info.show_choices([], keeps=False)

    async def _ask_all(self, method: str, name: str, **params: Any) -> list[dict[str, Any]]:
        """Return a list of a result, empty after an error: the text is shown without it."""
        try:
            answer = await self.ask(method, workspace=self._workspace, **params)
        except MemsyncdError:
            return []
        rows: list[dict[str, Any]] = answer[name]
        return rows

    def _show_known(
        self,
        notes: list[dict[str, Any]],
        links: list[dict[str, Any]],
        problems: list[dict[str, Any]],
    ) -> None:
        note = next((row for row in notes if row["path"] == self.path), None)
        own = [row for row in problems if row["path"] == self.path]
        self._links = links
        backlinks = [row for row in links if split_anchor(row["source"])[0] != self.path]
        self._note = note
        counts = ("problem", len(own)), ("backlink", len(backlinks))
        self._counts = "".join(f"{render_count(n, name)} · " for name, n in counts if n)
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
        own = [link for link in self._links if link not in backlinks]
        entries: list[tuple[str, OpenNote | None, Pieces]] = []
        for problem in problems:
            target = OpenNote(self.path, problem["line"], workspace=self._workspace)
            entries.append(("Problems", target, describe_problem(problem, has_path=False)))
        for link in backlinks:
            source, _ = split_anchor(link["source"])
            target = OpenNote(source, link["lines"][0], workspace=self._workspace)
            entries.append(("Linked from", target, describe_link(link, is_backlink=True)))
        entries += [
            ("Links", self._make_target(link), describe_link(link, is_backlink=False))
            for link in own
        ]
        for section in (note or {}).get("sections", ()):
            target = OpenNote(
                self.path, section["start_line"], section["end_line"], self._workspace
            )
            entries.append(("Sections", target, describe_section(section)))
        self._targets, choices, title = {}, [], ""
        for at, (group, opened, pieces) in enumerate(entries):
            if group != title:
                title = group
                choices.append((f"-{group}", make_content([(group, "bold underline")])))
            name = f"{at}" if opened else f"-{at}"
            if opened:
                self._targets[name] = opened
            choices.append((name, make_content(pieces)))
        self._info.show_choices(choices, keeps=False)

    def _make_target(self, link: dict[str, Any]) -> OpenNote | None:
        if not link["to"]:
            return None
        return OpenNote(split_anchor(link["to"])[0], workspace=self._workspace)

    # --- the three forms --------------------------------------------------------------------------

    async def _lay_out(self) -> None:
        """Lay out the current part."""
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
        blocks = [block for block in self._blocks() if block.virtual_region.y <= top]
        return (
            blocks[-1].source_range[0] + shift if blocks and top else self._parts[self._part].first
        )

    def _part_shift(self) -> int:
        """Return the difference between a line of the file, from 1, and of the layout, from 0."""
        part = self._parts[self._part]
        return part.first - (1 if part.fence else 0)

    def _blocks(self) -> list[MarkdownBlock]:
        return [child for child in self._markdown.children if isinstance(child, MarkdownBlock)]

    def _go_to(self, line: int, *, margin: int) -> None:
        self._source.scroll_to_line(max(1, line), margin=margin)
        self.call_after_refresh(self._go_to_block, line, margin)

    def _go_to_block(self, line: int, margin: int, n_left: int = MAX_REFRESHES) -> None:
        if not self._parts:
            return
        shift, target = self._part_shift(), None
        for block in self._blocks():
            first, after = block.source_range
            is_marked = bool(self.line) and (
                first + shift <= self.end_line and after + shift > self.line
            )
            block.set_class(is_marked, "-found")
            if first + shift <= line:
                target = block
        if target and not self._is_source and not target.virtual_region.height and n_left:
            # It is not arranged yet.
            self.call_after_refresh(self._go_to_block, line, margin, n_left - 1)
            return
        y = target.virtual_region.y - margin if target and line > 1 else 0
        self._scroll.scroll_to(y=max(0, y), animate=False, immediate=True)
        self._is_opening = False

    def focus_body(self) -> None:
        """Focus the visible form of the note."""
        form = self._switcher.current
        if form:
            self.query_one(f"#{form}").focus()

    def _switch(self, form: str) -> None:
        self._switcher.current = form
        self.focus_body()

    def action_toggle_source(self) -> None:
        """Change between the layout and the source, and stay at the same line."""
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
        path = find_linked_note(self._links, self.path, event.href)
        if path is not None:
            self.post_message(OpenNote(path))
            return
        self.app.notify(clean_line(unquote(event.href)), title="The link leads to", markup=False)


# --- the view -------------------------------------------------------------------------------------


# A larger folder shows its other notes when the user chooses "more".
STEP = 300
# After a change, the list of notes is read at most so often.
LIST_S = 0.5
# A node of the tree is a folder, the path of a note, or the rest of a folder from a number on.
Rest = tuple[Folder, int]
Data = Folder | str | Rest


class NotesView(View):
    """The tree and the open note. A narrow screen shows only one of them."""

    label = "Notes"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "cursor(1)", show=False),
        Binding("k", "cursor(-1)", show=False),
    ]

    def compose(self) -> ComposeResult:
        self._tree: Tree[Data] = Tree("", id="tree")
        self._tree.show_root = False
        self._tree.guide_depth = 2
        self.reader = NoteReader(self.session, id="reader")
        self._listed = ""
        self._open_folders: set[str] = set()
        yield self._notice
        yield Horizontal(self._tree, self.reader)

    def open(self) -> None:
        if self.has_class("-reading"):
            self.reader.focus_body()
        else:
            self._tree.focus()

    def reload(self) -> None:
        if self._listed != self.session.workspace:
            self.reader.clear()
            self.remove_class("-reading")
            self._open_folders.clear()
        self._list(0.0)
        self.reader.reload()

    def take_change(self, changed: dict[str, Any]) -> None:
        is_other_list = changed.get("listing") or not changed.get("complete", True)
        if changed["workspace"] == self.session.workspace and is_other_list:
            self._list(LIST_S)
        self.reader.take_change(changed)

    def show_note(self, path: str, line: int, end_line: int) -> None:
        """Read a note at the line."""
        self.add_class("-reading")
        self._reveal(path)
        self.reader.show_note(path, line, end_line)
        self.reader.focus_body()

    @work(exclusive=True, group="notes")
    async def _list(self, pause_s: float) -> None:
        await asyncio.sleep(pause_s)
        with self.showing_errors():
            workspace = self.session.workspace
            notes: list[Any] = []
            cursor: str | None = ""
            while cursor is not None:
                answer = await self.ask(
                    "list",
                    sections=False,
                    workspace=workspace,
                    limit=PAGE_NOTES,
                    cursor=cursor or None,
                )
                notes += answer["notes"]
                cursor = answer["cursor"]
            folders = await asyncio.to_thread(build_folders, notes)
            self._listed = workspace
            self._fill(folders)
            if not notes:
                self.show_notice([("no notes yet: write one with `memsyncd remember TEXT`", "")])

    def _fill(self, folders: Folder) -> None:
        """Show the tree again, with the same folders open and the same note chosen."""
        node = self._tree.cursor_node
        chosen = _name(node.data) if node is not None and node.data is not None else ""
        top = self._tree.scroll_offset.y
        self._tree.clear()
        self._tree.move_cursor(None)  # otherwise it stays at a removed node
        self._tree.root.data = folders
        self._add_folder(self._tree.root, folders, 0)
        self._tree.root.expand()
        # At once, so that a key before the next refresh moves from the chosen note.
        self._choose(chosen)
        self.call_after_refresh(self._tree.scroll_to, y=top, animate=False)

    def _choose(self, chosen: str) -> None:
        nodes = map(self._tree.get_node_at_line, range(self._tree.last_line + 1 if chosen else 0))
        lines = (node.line for node in nodes if node and node.data and _name(node.data) == chosen)
        self._tree.cursor_line = next(lines, 0)

    def _add_folder(self, node: TreeNode[Data], folder: Folder, first: int) -> None:
        """Add the folders, and the notes from number `first` on. A folder gets its entries when it
        is opened.
        """
        if not first:
            for name, inner in folder.folders.items():
                label = Text.assemble((clean_line(name), "bold"), (f" {inner.n_notes:,}", "dim"))
                child = node.add(label, inner)
                is_small = len(folder.folders) + len(folder.notes) < 6 and folder.path == ""
                if inner.path in self._open_folders or (is_small and inner.n_notes <= STEP):
                    self._add_folder(child, inner, 0)
                    child.expand()
        for note in folder.notes[first : first + STEP]:
            name = clean_line(note["path"].rpartition("/")[2])
            kind = clean_line(note["kind"] or "")
            node.add_leaf(Text.assemble(name, (f" {kind}" if kind else "", "dim")), note["path"])
        n_left = len(folder.notes) - first - STEP
        if n_left > 0:
            node.add_leaf(Text(f"{n_left:,} more …", "italic"), (folder, first + STEP))

    def _reveal(self, path: str) -> None:
        """Choose the note in the tree, and open the folders above it."""
        node: TreeNode[Data] | None = self._tree.root
        while node is not None:
            below = (child for child in node.children if _is_above(child.data, path))
            branch = next(below, None)
            if branch is not None and isinstance(branch.data, Folder):
                if not branch.children:
                    self._add_folder(branch, branch.data, 0)
                branch.expand()
            elif branch is not None:
                self.call_after_refresh(self._tree.move_cursor, branch)
            node = branch

    @on(Tree.NodeExpanded)
    def _expand(self, event: Tree.NodeExpanded[Data]) -> None:
        if isinstance(event.node.data, Folder) and event.node is not self._tree.root:
            self._open_folders.add(event.node.data.path)
            if not event.node.children:
                self._add_folder(event.node, event.node.data, 0)

    @on(Tree.NodeCollapsed)
    def _collapse(self, event: Tree.NodeCollapsed[Data]) -> None:
        if isinstance(event.node.data, Folder):
            self._open_folders.discard(event.node.data.path)

    @on(Tree.NodeSelected)
    def _select(self, event: Tree.NodeSelected[Data]) -> None:
        match event.node.data:
            case str() as path:
                self.post_message(OpenNote(path))
            case (Folder() as folder, int() as first):
                parent = event.node.parent
                if parent is not None:
                    event.node.remove()
                    self._add_folder(parent, folder, first)

    def action_cursor(self, step: int) -> None:
        if self._tree.has_focus:
            self._tree.cursor_line = max(0, self._tree.cursor_line + step)

    def close_part(self) -> bool:
        return self.has_class("-reading") and self.reader.close_part()

    def go_home(self) -> None:
        self.remove_class("-reading")
        self._tree.focus()


def _is_above(data: Data | None, path: str) -> bool:
    return data == path or (isinstance(data, Folder) and path.startswith(data.path))


def _name(data: Data) -> str:
    if isinstance(data, str):
        return data
    return data.path if isinstance(data, Folder) else ""
