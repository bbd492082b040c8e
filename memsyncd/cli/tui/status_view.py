"""The current state of the daemon and its workspaces, and the problems of notes."""

from __future__ import annotations

import time
from typing import Any, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.message import Message
from textual.widgets import OptionList, Static

from memsyncd.cli.tui.text import describe_daemon, describe_problem, describe_state
from memsyncd.cli.tui.view import Choices, OpenNote, View, make_content
from memsyncd.terminal.format import render_count

# A vault may have thousands.
MAX_PROBLEMS = 200


class ChooseWorkspace(Message):
    """Show another workspace."""

    def __init__(self, workspace: str) -> None:
        super().__init__()
        self.workspace = workspace


class StatusView(View):
    """One list of workspaces and problems. Enter chooses a workspace or opens a problem's note."""

    label = "Status"
    BINDINGS: ClassVar[list[BindingType]] = []

    def compose(self) -> ComposeResult:
        self._daemon = Static(id="daemon", markup=False)
        self._list = Choices(id="states")
        self._problems: list[dict[str, Any]] = []
        # The state at the last request of the problems.
        self._seen: list[tuple[str, int, int]] = []
        yield self._daemon
        yield self._notice
        yield self._list

    def open(self) -> None:
        self._list.focus()
        self.take_status()

    def reload(self) -> None:
        self._seen = []
        self.take_status()

    def take_status(self) -> None:
        """Show the last status. Request the problems if they may have changed."""
        status = self.session.status
        if "pid" not in status or not self.display:
            return
        self._daemon.update(make_content(describe_daemon(status)))
        self._show()
        seen = [(info["id"], info["generation"], info["problems"]) for info in status["workspaces"]]
        if seen != self._seen:
            self._seen = seen
            self._read_problems()

    @work(exclusive=True, group="problems")
    async def _read_problems(self) -> None:
        with self.showing_errors():
            answer = await self.session.client.call("problems")
            self._problems = answer["problems"]
            self._show()

    def _show(self) -> None:
        now_s = time.time()
        choices = [
            (f"w {row['id']}", make_content(describe_state(row, now_s)))
            for row in self.session.status["workspaces"]
        ]
        if not choices:
            hint = [("no workspace yet: add a folder with `memsyncd add FOLDER`", "")]
            choices.append(("-none", make_content(hint)))
        count = render_count(len(self._problems), "problem") if self._problems else "no problems"
        choices.append(("-problems", make_content([(f"\n{count}", "bold underline")])))
        for at, row in enumerate(self._problems[:MAX_PROBLEMS]):
            name = f"{'p' if row['path'] else '-p'} {at}"
            choices.append((name, make_content(describe_problem(row, has_path=True))))
        n_left = len(self._problems) - MAX_PROBLEMS
        if n_left > 0:
            more = f"{n_left:,} more: memsyncd problems"
            choices.append(("-more", make_content([(more, "dim")])))
        self._list.show_choices(choices, keeps=True)

    @on(OptionList.OptionSelected, "#states")
    def _choose(self, event: OptionList.OptionSelected) -> None:
        kind, _, name = (event.option.id or "").partition(" ")
        if kind == "w":
            self.post_message(ChooseWorkspace(name))
        elif kind == "p":
            problem = self._problems[int(name)]
            self.post_message(
                OpenNote(problem["path"], problem["line"], workspace=problem["workspace"])
            )
