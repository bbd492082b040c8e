"""The changes of notes, the diff of each, and undo after a question."""

from __future__ import annotations

import asyncio
import time
from typing import Any, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static

from memsyncd.cli.tui.text import (
    Pieces,
    describe_deletion,
    describe_refusal,
    describe_revision,
    list_later,
    split_note,
    style_of_diff,
)
from memsyncd.cli.tui.view import Choices, LinesView, OpenNote, View, make_content
from memsyncd.terminal.format import render_count
from memsyncd.terminal.terminal import clean_line

PAGE = 50
# To find the change set of a revision and later revisions of its note, so many are read.
MAX_SEARCHED = 200
# The history is written at most so long after the notification of the index.
CHANGE_S = 0.7
CLIENT = "terminal"
OLDER = "older"
GONE = "The texts of this change are no longer kept."
UNDO_MS = 60_000


class UndoScreen(ModalScreen[str]):
    """Ask before an undo. The answer is `revision`, `change_set`, or empty for no."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer('revision')", "Undo"),
        Binding("a", "answer('change_set')", "Undo all"),
        Binding("n,escape,q", "answer('')", "Cancel"),
    ]

    def __init__(self, question: Pieces, *, has_set: bool) -> None:
        super().__init__()
        self._question = question
        self._has_set = has_set

    def compose(self) -> ComposeResult:
        keys: Pieces = [("\ny", "bold"), (" undo", "")]
        if self._has_set:
            keys += [("   a", "bold"), (" undo the whole change set", "")]
        keys += [("   Esc", "bold"), (" cancel", "")]
        yield Vertical(Static(make_content(self._question + keys), markup=False), classes="dialog")

    def action_answer(self, answer: str) -> None:
        if answer != "change_set" or self._has_set:
            self.dismiss(answer)


class HistoryView(View):
    """The list of changes and a diff. A narrow screen shows only one of them."""

    label = "History"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "show_diff", "Diff", show=False),
        Binding("u", "undo", "Undo"),
        Binding("o", "open_note", "Open note"),
    ]

    def compose(self) -> ComposeResult:
        self.path = ""
        self._revisions: list[dict[str, Any]] = []
        self._has_older = False
        self._title = Static(id="history-title", markup=False)
        self._list = Choices(id="revisions")
        self._diff = LinesView(id="diff")
        yield self._title
        yield self._notice
        yield Horizontal(self._list, self._diff)

    def open(self) -> None:
        (self._diff if self.has_class("-reading") and self._diff.display else self._list).focus()

    def show_path(self, path: str) -> None:
        """List the changes of one note; an empty path lists the changes of all notes."""
        self.path = path
        self._revisions = []
        self.remove_class("-reading")
        self.reload()

    def reload(self) -> None:
        self._read(0.0)

    def take_change(self, changed: dict[str, Any]) -> None:
        if changed["workspace"] == self.session.workspace and self.display:
            self._read(CHANGE_S)

    @work(exclusive=True, group="history")
    async def _read(self, pause_s: float) -> None:
        await asyncio.sleep(pause_s)
        with self.showing_errors():
            # Older pages that were read stay.
            limit = min(MAX_SEARCHED, max(PAGE, len(self._revisions)))
            answer = await self.ask("history", limit=limit, path=self.path or None)
            self._revisions = answer["revisions"]
            self._has_older = len(self._revisions) == limit
            self._show()

    @work(exclusive=True, group="history")
    async def _read_older(self) -> None:
        with self.showing_errors():
            before = self._revisions[-1]["revision"]
            answer = await self.ask("history", limit=PAGE, path=self.path or None, before=before)
            self._revisions += answer["revisions"]
            self._has_older = len(answer["revisions"]) == PAGE
            self._show()

    def _show(self) -> None:
        now_s = time.time()
        choices = [
            (str(revision["revision"]), make_content(describe_revision(revision, now_s)))
            for revision in self._revisions
        ]
        if self._has_older:
            choices.append((OLDER, make_content([("older changes …", "bold")])))
        self._list.show_choices(choices, keeps=True)
        what = clean_line(self.path) if self.path else "all notes"
        pieces: Pieces = [("Changes of ", "dim"), (what, "bold")]
        if not choices:
            pieces.append((": none was recorded yet", "dim"))
        self._title.update(make_content(pieces))
        if not choices:
            self._diff.show_lines([], has_numbers=False)

    # --- the diff ---------------------------------------------------------------------------------

    def _find_chosen(self) -> dict[str, Any] | None:
        option = self._list.highlighted_option
        chosen = option.id if option else ""
        return next(
            (revision for revision in self._revisions if str(revision["revision"]) == chosen), None
        )

    @on(OptionList.OptionHighlighted, "#revisions")
    def _preview(self) -> None:
        chosen = self._find_chosen()
        if chosen:
            self._read_diff(chosen)

    @on(OptionList.OptionSelected, "#revisions")
    def _select(self, event: OptionList.OptionSelected) -> None:
        if event.option.id == OLDER:
            self._read_older()
        else:
            self.add_class("-reading")
            self._diff.focus()

    @work(exclusive=True, group="diff")
    async def _read_diff(self, revision: dict[str, Any]) -> None:
        if not revision["is_kept"]:
            self._diff.show_lines([GONE], has_numbers=False)
            return
        with self.showing_errors():
            answer = await self.ask("diff", revision=revision["revision"])
            lines = await asyncio.to_thread(split_note, answer["diff"])
            lines = lines if answer["diff"] else ["Both texts are the same."]
            self._diff.show_lines(lines, style_of=style_of_diff, has_numbers=False)
            self._diff.scroll_home(animate=False)

    def action_open_note(self) -> None:
        chosen = self._find_chosen()
        if chosen:
            self.post_message(OpenNote(chosen["path"]))

    # --- undo -------------------------------------------------------------------------------------

    @work(exclusive=True, group="undo")
    async def action_undo(self) -> None:
        """Show what an undo would do, or why it would be refused. Undo after a yes."""
        chosen = self._find_chosen()
        if chosen is None:
            return
        with self.showing_errors():
            question, has_set = await self._make_question(chosen)
            answer = await self.app.push_screen_wait(UndoScreen(question, has_set=has_set))
            if not answer:
                return
            # The question has named the files that the undo deletes.
            done = await self.ask(
                "undo", client=CLIENT, timeout_ms=UNDO_MS, confirm=True, **{answer: chosen[answer]}
            )
            self._show_undone(done)

    async def _make_question(self, revision: dict[str, Any]) -> tuple[Pieces, bool]:
        path, number = revision["path"], revision["revision"]
        listed, neighbours = await asyncio.gather(
            self.ask("list", path=path, sections=False),
            self.ask("history", limit=MAX_SEARCHED, before=number + MAX_SEARCHED),
        )
        digests = {note["path"]: note["digest"] for note in listed["notes"]}
        together = [
            other
            for other in neighbours["revisions"]
            if other["change_set"] == revision["change_set"]
        ]
        later = list(list_later(neighbours["revisions"], revision))
        refusal = describe_refusal(revision, later, digests.get(path))
        pieces: Pieces = [("Undo this change?\n", "bold")]
        pieces += describe_revision(revision, time.time())
        # Changes without a client were only found at one time; they are not one act.
        has_set = len(together) > 1 and bool(revision["client"])
        if has_set:
            count = render_count(len(together), "note")
            pieces.append((f"\nIt is one of a change set of {count}.", ""))
        if refusal:
            pieces.append(("\n! It would be refused: ", "bold $text-warning"))
            pieces.append((refusal, "$text-warning"))
        elif deletion := describe_deletion([revision]):
            pieces.append((f"\n! {deletion}", "bold $text-warning"))
            pieces.append(("; the undo can be undone.", "dim"))
        else:
            pieces.append(("\nThe text before it comes back; the undo can be undone.", "dim"))
        if has_set and (deletion := describe_deletion(together)):
            pieces.append((f"\n! Of the whole change set: {deletion}", "$text-warning"))
        return [*pieces, ("\n", "")], has_set

    def _show_undone(self, done: dict[str, Any]) -> None:
        names = ", ".join(clean_line(revision["path"]) for revision in done["undone"][:5])
        if done["change_set"] is None:
            text = f"nothing to undo: already as before: {names}"
        else:
            text = f"undone: {names}; the newest change in the list takes it back"
        self.app.notify(text, markup=False)
        self._read(0.0)

    def close_part(self) -> bool:
        if not self.has_class("-reading"):
            return False
        self.remove_class("-reading")
        self._list.focus()
        return True

    def go_home(self) -> None:
        if self.path:
            self.show_path("")
        self._list.focus()
