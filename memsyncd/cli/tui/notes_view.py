"""The notes of a workspace as a tree, and the note that is read."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widgets import Tree
from textual.widgets.tree import TreeNode

from memsyncd.cli.terminal import clean_line
from memsyncd.cli.tui.reader import NoteReader
from memsyncd.cli.tui.text import Folder, build_folders
from memsyncd.cli.tui.view import OpenNote, View

# A folder of more notes shows the others when "more" is chosen.
STEP = 300
# Changes of a large workspace are listed at most so often.
LIST_S = 0.5
# What a node stands for: a folder, the path of a note, or the rest of a folder from a number on.
Rest = tuple[Folder, int]
Data = Folder | str | Rest


class NotesView(View):
    """On a wide screen both are shown, else the tree or the note."""

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

    def on_mount(self) -> None:
        self.show_notice([])

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
            answer = await self.ask("list", sections=False, workspace=workspace)
            folders = await asyncio.to_thread(build_folders, answer["notes"])
            self._listed = workspace
            self._fill(folders)
            if not answer["notes"]:
                self.show_notice([("no notes yet: write one with `memsyncd remember TEXT`", "")])

    def _fill(self, folders: Folder) -> None:
        """Show the tree again, with the folders that were open and the same note chosen."""
        node = self._tree.cursor_node
        chosen = _name(node.data) if node is not None and node.data is not None else ""
        top = self._tree.scroll_offset.y
        self._tree.clear()
        self._tree.move_cursor(None)  # else it stays at a node that is gone
        self._tree.root.data = folders
        self._add_folder(self._tree.root, folders, 0)
        self._tree.root.expand()
        # At once: a key that comes before the next refresh moves from the chosen note.
        self._choose(chosen)
        self.call_after_refresh(self._tree.scroll_to, y=top, animate=False)

    def _choose(self, chosen: str) -> None:
        nodes = map(self._tree.get_node_at_line, range(self._tree.last_line + 1 if chosen else 0))
        found = (one.line for one in nodes if one and one.data and _name(one.data) == chosen)
        self._tree.cursor_line = next(found, 0)

    def _add_folder(self, node: TreeNode[Data], folder: Folder, first: int) -> None:
        """Add the folders and the first notes; what is in the folders comes when they open."""
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
        """Choose the note in the tree, with the folders above it open."""
        node: TreeNode[Data] | None = self._tree.root
        while node is not None:
            below = (one for one in node.children if _is_above(one.data, path))
            found = next(below, None)
            if found is not None and isinstance(found.data, Folder):
                if not found.children:
                    self._add_folder(found, found.data, 0)
                found.expand()
            elif found is not None:
                self.call_after_refresh(self._tree.move_cursor, found)
            node = found

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
