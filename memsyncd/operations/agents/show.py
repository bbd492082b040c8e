"""Print what agents were answered, also live: `memsyncd log agents`."""

from __future__ import annotations

import time

from memsyncd.terminal.actions import send
from memsyncd.terminal.console import show_answer
from memsyncd.terminal.format import render_lines, truncate
from memsyncd.terminal.terminal import clean_line, clean_values
from memsyncd.terminal.wrap import pad

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import SimpleNamespace as Args
    from typing import Any, Final

    from memsyncd.terminal.console import Console
    from memsyncd.terminal.terminal import Paint

DEFAULT_LIMIT: Final = 20
CALL_WIDTH: Final = 23
INDENT: Final = " " * 10
TOKENS_WIDTH: Final = 12
"""The column for the tokens of a section, or for what became of it."""


def show_agent_log(args: Args, console: Console) -> int:
    """Print the last answers, the latest last; with `--follow` go on with new answers."""
    if not args.follow:
        return show_answer(send("log.agents", args.params, args, console), args, console, _show)
    if args.all:
        workspaces, subscribed = console.call("workspace.list")["workspaces"], {}
    else:
        workspaces = [console.find_workspace(args.workspace)]
        subscribed = {"workspace": workspaces[0]["id"]}
    # Before the lists are read, so that no answer is missed.
    console.call("subscribe", **subscribed, agents=True)
    printer = LogPrinter(args, console)
    if args.all:
        printer.names = {info["id"]: clean_line(info["name"]) for info in workspaces}
    noted = [
        (answer["id"], info["id"], answer)
        for info in workspaces
        for answer in console.call("log.agents", **args.params, workspace=info["id"])["answers"]
    ]
    noted.sort(key=lambda each: each[:2])
    for _, workspace, answer in noted[-args.params.get("limit", DEFAULT_LIMIT) :]:
        printer.print(answer, workspace)
    console.terminal.note("waiting for answers to agents; Ctrl-C ends")
    for method, notice in console.client.notifications():
        if method == "answered":
            printer.print(notice["answer"], notice["workspace"])
    return 0


def _show(log: dict[str, Any], args: Args, console: Console) -> None:
    printer = LogPrinter(args, console)
    for answer in reversed(log["answers"]):
        printer.print(answer, log["workspace"])
    if not log["answers"]:
        console.terminal.report(_explain_none(log["workspace"], console))
    elif log["has_more"]:
        console.terminal.note(f"older ones: --before {log['answers'][-1]['id']}")


def _explain_none(workspace: str, console: Console) -> str:
    sessions = console.call("log.agents", workspace=workspace, limit=1)["sessions"]
    names = sorted({clean_line(each[name]) for each in sessions for name in ("agent", "client")})
    if not names:
        return "no agent was given anything yet"
    return f"no answer passes the filters; answers were given to {', '.join(names)}"


class LogPrinter:
    """Prints answers in the order of time, below a line for each session."""

    def __init__(self, args: Args, console: Console) -> None:
        self._params = args.params
        self._is_json = args.json
        self._terminal = console.terminal
        self._console = console
        self._last_ids: dict[str, int] = {}
        self._head = ""
        self.names: dict[str, str] = {}
        """The names of workspaces by their ids, if answers of several are printed."""

    def print(self, answer: dict[str, Any], workspace: str) -> None:
        """Print an answer of a workspace, unless it was printed already or does not pass the
        filters.
        """
        if answer["id"] <= self._last_ids.get(workspace, 0) or not self._passes(answer):
            return
        self._last_ids[workspace] = answer["id"]
        if self._is_json:
            self._terminal.print_json({"workspace": workspace} | answer if self.names else answer)
        else:
            answer = clean_values(answer)
            head = render_head(answer)
            if self.names:
                head = f"{self.names.get(workspace, clean_line(workspace))} · {head}"
            if head != self._head:
                self._terminal.print(
                    ("\n" if self._head else "") + self._terminal.paint("bold", head)
                )
                self._head = head
            for line in render_entry(answer, self._terminal.paint, self._terminal.width):
                self._terminal.print(line)
            if undo := self._console.render_undo(answer | {"workspace": workspace}):
                label = self._terminal.paint("dim", "take it back".rjust(TOKENS_WIDTH))
                self._terminal.print(f"{INDENT}{label}  {undo}")
        self._terminal.out.flush()

    def _passes(self, answer: dict[str, Any]) -> bool:
        session, agent = self._params.get("session"), self._params.get("agent")
        is_session = not session or answer["session"].startswith(session)
        names = (answer["agent"], answer["client"])
        return is_session and (not agent or any(name.startswith(agent) for name in names))


def render_head(answer: dict[str, Any]) -> str:
    """Return the line above the answers to a session on a day."""
    client, agent, session = answer["client"], answer["agent"], answer["session"]
    name = client if agent == client else f"{agent} ({client})"
    day = time.strftime("%a %Y-%m-%d", time.localtime(answer["at"]))
    return clean_line(" · ".join([name, f"session {session}" if session else "no session", day]))


def render_entry(answer: dict[str, Any], paint: Paint, width: int) -> Iterator[str]:
    """Yield the lines of an answer, each at most `width` columns wide: its time and its summary,
    then its sections.
    """
    clock = time.strftime("%H:%M:%S", time.localtime(answer["at"]))
    call = pad(clean_line(answer["call"]), CALL_WIDTH)
    summary = truncate(answer["summary"], width - len(clock) - len(call) - 4)
    style = "yellow" if answer["failure"] else "green" if answer["change_set"] else "bold"
    yield f"{paint('dim', clock)}  {call}  {paint(style, summary)}"
    if answer["query"]:
        yield INDENT + paint("dim", truncate(f"? {clean_line(answer['query'])}", width - 10))
    for section in answer["sections"]:
        if section["act"] != "left out":
            place = render_part(section)
            what = _describe_act(section)
            room = width - len(INDENT) - TOKENS_WIDTH - 2
            yield f"{INDENT}{paint('dim', what.rjust(TOKENS_WIDTH))}  {truncate(place, room)}"
    if n_around := _count_around(answer):
        label = paint("dim", f"{n_around:,} tokens".rjust(TOKENS_WIDTH))
        yield f"{INDENT}{label}  around them: names, headings, notices"
    if answer["unlisted"]:
        yield f"{INDENT}{'':{TOKENS_WIDTH}}  … and {answer['unlisted']:,} more"
    if answer["left_out"]:
        counts = ", ".join(f"{n:,} {reason}" for reason, n in answer["left_out"].items())
        label = paint("dim", "left out".rjust(TOKENS_WIDTH))
        yield f"{INDENT}{label}  {truncate(counts, width - len(INDENT) - TOKENS_WIDTH - 2)}"


def _count_around(answer: dict[str, Any]) -> int:
    """Return the tokens of an answer that belong to no section; 0 if they cannot be known."""
    counts: list[int | None] = [
        each["tokens"] for each in answer["sections"] if each["act"] == "given"
    ]
    known = [n for n in counts if n is not None]
    if not known or len(known) < len(counts) or answer["unlisted"]:
        return 0
    tokens: int = answer["tokens"]
    return max(0, tokens - sum(known))


def render_part(section: dict[str, Any]) -> str:
    """Return the place of a section and its last headings: `notes.md:3-8  Redis › Timeouts`."""
    place = section["path"]
    if section["start_line"] is not None:
        place += f":{render_lines(section['start_line'], section['end_line'])}"
    elif section["anchor"] != section["path"]:
        place = section["anchor"]
    return "  ".join(map(clean_line, filter(None, (place, section["heading"]))))


def _describe_act(section: dict[str, Any]) -> str:
    if section["act"] == "written":
        return "wrote"
    return "" if section["tokens"] is None else f"{section['tokens']:,} tokens"
