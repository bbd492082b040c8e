"""Answers the hooks of coding agents: the memory that belongs to a prompt or to a new session.

`HookSessions` remembers for each session of a client which lines and signals its hooks have shown,
so that a prompt brings only what is new. After `clear` and `compact` the model has lost them, so
the memory of the session begins anew, and the answer begins with the block of `session.resume`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec.structs import replace

from memsyncd.core.model import QUARTERS_PER_TOKEN, count_quarters, count_tokens
from memsyncd.core.search.context import shorten
from memsyncd.errors import MemsyncdError
from memsyncd.operations.agents.declare import GIVEN_BEFORE, NO_ROOM, REPEATED
from memsyncd.operations.answers import (
    AnswerContent,
    ShownPart,
    count_more_left_out,
    describe_left_out,
    describe_lines,
    describe_part,
    list_block,
    split_block,
)
from memsyncd.operations.context.declare import ContextParams, ContextResult
from memsyncd.operations.context.text import TRUTH, render_context
from memsyncd.operations.fields import Params
from memsyncd.operations.search.text import FindWarning
from memsyncd.operations.signals.declare import SignalBox, SignalInboxParams
from memsyncd.operations.signals.text import render_signals
from memsyncd.operations.tasks.declare import SessionBlock, SessionResumeParams
from memsyncd.protocol.mcp_tools import HookArguments
from memsyncd.protocol.prompt_query import make_query

MAX_SESSIONS = 64
"""The most sessions that are remembered; the least recently used is forgotten first."""
MAX_LINES = 4_000
"""The most lines that are remembered for a session. If there are more, all are forgotten."""
MAX_TOKENS, MIN_TOKENS = 50_000, 100
"""The bounds of the budget of a context."""
MIN_BYTES = 200
"""The smallest block of a resumed session."""
BETWEEN = "\n\n"
TOP_SHARE = 0.5
"""The part of the budget that a resumed session and signals may take."""
MAX_SIGNALS = 10
SIGNAL_TOKENS = 100
SIGNAL_WAIT_S = 0.5
"""How long a prompt waits for its signals; without them, it gets its memory."""
SOLUTIONS = ("resolved_by", "resolves")
"""The relations that a prompt's answer follows, so that an error comes with its solution."""
STARTS_ANEW = frozenset({"", "new", "startup", "clear", "compact"})
"""The sources of a session whose model does not have earlier answers."""
RESUMES = frozenset({"resume", "clear", "compact"})
HOOK_CLIENTS = ("claude-code", "codex", "cursor", "gemini", "opencode", "vscode")

Ask = Callable[[str, Params], Awaitable[Any]]
"""Calls one of memsyncd's own methods."""


class HookSession:
    """One session of a client: the lines and signals that its hooks have shown."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        """The agent, the task and the session that the model has named to its tools."""
        self.n_tokens = 0
        """Tokens of the parts that were shown."""
        self._lines: set[int] = set()
        self._signals: set[int] = set()

    def forget(self) -> None:
        """Forget the lines and the signals, because the model has lost them."""
        self._lines.clear()
        self._signals.clear()
        self.n_tokens = 0

    def add_parts(self, parts: Sequence[ShownPart]) -> None:
        """Remember the lines of parts that are shown."""
        lines = {key for part in parts for key in part.lines}
        if len(self._lines) + len(lines) > MAX_LINES:
            self._lines.clear()
            self.n_tokens = 0
        self._lines |= lines
        self.n_tokens += sum(count_tokens(part.text) for part in parts)

    def has_part(self, part: ShownPart) -> bool:
        """True if each line of the part has been shown."""
        return self._lines.issuperset(part.lines)

    def take_signals(self, numbers: Sequence[int]) -> list[int]:
        """Remember that signals are shown; return the numbers that were not shown before."""
        fresh = [number for number in numbers if number not in self._signals]
        # An inbox lists a signal until it is acknowledged, so other numbers need not be kept.
        self._signals = set(numbers)
        return fresh


class HookSessions:
    """The sessions whose hooks were answered last, and the last session of each client's folder."""

    def __init__(self) -> None:
        self._sessions: dict[tuple[str, str], HookSession] = {}
        self._last: dict[tuple[str, str], str] = {}
        self._by_host: dict[tuple[int, str], str] = {}

    def note_host(self, host: int, agent: str, session_id: str) -> None:
        """Note that a process, the client itself, has run a hook of this session."""
        if host and session_id:
            self._by_host.pop((host, agent), None)
            self._by_host[host, agent] = session_id
            if len(self._by_host) > MAX_SESSIONS:
                del self._by_host[next(iter(self._by_host))]

    def find_by_host(self, host: int, agent: str) -> str:
        """Return the last session whose hook this process has run for this client; empty if there
        is none. One shell may run several clients.
        """
        return self._by_host.get((host, agent), "")

    def use(self, workspace: str, session_id: str) -> HookSession:
        """Return the memory of a session; without an id, a memory that nobody keeps."""
        if not session_id:
            return HookSession()
        key = (workspace, session_id)
        session = self._sessions.pop(key, None) or HookSession()
        self._sessions[key] = session
        if len(self._sessions) > MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        return session

    def replace_last(self, workspace: str, session_id: str, client: str) -> str:
        """Note the session that a client has in a workspace; return the session that it had before,
        empty if there was none.
        """
        if not session_id:
            return ""
        place = (workspace, client)
        before = self._last.pop(place, "")
        self._last[place] = session_id
        if len(self._last) > MAX_SESSIONS:
            del self._last[next(iter(self._last))]
        return "" if before == session_id else before


# --- the parts of a context ---------------------------------------------------------------------


def is_quoted(part: ShownPart, text: str) -> bool:
    """True if another text of the same answer has each line of the part, below its label."""
    lines = [line.strip() for line in part.text.split("\n")[1:] if line.strip()]
    return bool(lines) and all(line in text for line in lines)


def select_parts(
    parts: Sequence[ShownPart], session: HookSession, head: str, max_tokens: int
) -> list[ShownPart]:
    """Return the parts with a line that the session has not seen, in their order: the best, as many
    as fit below the head. The best of all is cut if it is too large.
    """
    left, selected = max_tokens * QUARTERS_PER_TOKEN - count_quarters(head), set[int]()
    for position, part in sorted(enumerate(parts), key=lambda item: item[1].rank):
        if session.has_part(part):
            continue
        n_quarters = count_quarters(part.text)
        if head or selected:
            n_quarters += len(BETWEEN)
        if not selected and n_quarters > left:
            return [replace(part, text=shorten(part.text, left - len(BETWEEN)))]
        if n_quarters <= left:
            selected.add(position)
            left -= n_quarters
    return [parts[position] for position in sorted(selected)]


# --- answers ------------------------------------------------------------------------------------


class HookAnswerer:
    """Makes the text of one answer; then `content` and `n_signals` say what is in it.

    `names` has the agent, the task and the session that the model has named on the same connection.
    `ask_context` asks for a context after a scan of the disk.
    """

    def __init__(
        self,
        arguments: HookArguments,
        *,
        workspace: str,
        agent: str,
        names: dict[str, str],
        sessions: HookSessions,
        ask: Ask,
        ask_context: Callable[[ContextParams], Awaitable[ContextResult]],
        find_warning: FindWarning,
    ) -> None:
        self._arguments = arguments
        self._workspace = workspace
        self._agent = agent
        self._session_id = read_session_id(arguments)
        self._sessions = sessions
        self._session = sessions.use(workspace, self._session_id)
        self._session.names |= names
        self._before = sessions.replace_last(workspace, self._session_id, agent)
        self._ask = ask
        self._ask_context = ask_context
        self._find_warning = find_warning
        self.content = AnswerContent()
        self.n_signals = 0

    async def answer_prompt(self) -> str:
        """Return what memory holds on the prompt, and new signals, without what the session has
        been shown. Without a session's id, no signals: they would come with each prompt.
        """
        prompt = self._arguments.prompt
        # A command of the client, such as `/clear`, is no question.
        if prompt.lstrip().startswith(("/", "!")):
            return ""
        signals = ""
        if self._session_id:
            with contextlib.suppress(TimeoutError):
                signals = await asyncio.wait_for(self._show_signals(), SIGNAL_WAIT_S)
        query = make_query(prompt)
        left = self._arguments.max_tokens - count_tokens(signals)
        context = await self._show_context(query, left) if query else ""
        return "\n\n".join(filter(None, (signals, context)))

    async def answer_start(self) -> str:
        """Return the session's own block if its model has lost it, unread signals, and what every
        session should know.
        """
        source, budget = self._arguments.source, self._arguments.max_tokens
        if source in STARTS_ANEW:
            self._session.forget()
        resumed = await self._resume() if source in RESUMES else ""
        top = resumed or await self._show_signals()
        intro = self._introduce() if budget >= 2 * MIN_TOKENS else ""
        left = budget - sum(count_tokens(f"\n\n{part}") for part in (intro, top) if part)
        context = await self._show_context("", left, top)
        return "\n\n".join(filter(None, (intro, top, context))) if top or context else ""

    def _introduce(self) -> str:
        if not self._session_id:
            return TRUTH
        how = f"memory_agent (action checkpoint, session={self._session_id})"
        return f"{TRUTH}\nKeep the progress of this session with {how}."

    async def _resume(self) -> str:
        """Return the block that restores the session; empty if memory holds nothing of it.

        The model may have named another session, or a task, to its tools. After `clear` some
        clients go on under another id, so the session before counts, too.
        """
        choices = [self._session.names, {"session": self._session_id}]
        if self._arguments.source == "clear" and self._before:
            before = self._sessions.use(self._workspace, self._before)
            choices += [before.names, {"session": self._before}]
        room_bytes = int(self._arguments.max_tokens * TOP_SHARE * QUARTERS_PER_TOKEN)
        for names in choices:
            if not (names.get("session") or names.get("task")):
                continue
            params = SessionResumeParams(
                session=names.get("session"),
                task=names.get("task"),
                agent=self._session.names.get("agent") or self._agent or None,
                max_bytes=max(MIN_BYTES, room_bytes),
                workspace=self._workspace,
            )
            block: SessionBlock | None = None
            with contextlib.suppress(MemsyncdError):
                block = await self._ask("session.resume", params)
            if block is not None and block.included:
                self._session.take_signals(block.signals)
                self.content, self.n_signals = list_block(params, block), len(block.signals)
                advice = _advise(block.signals)
                return "\n\n".join(filter(None, (block.text.rstrip("\n"), advice)))
        return ""

    async def _show_signals(self) -> str:
        """Return the unread signals to the agent and the session that the session has not been
        shown; they stay unread.
        """
        names = self._session.names
        params = SignalInboxParams(
            agent=self._session.names.get("agent") or self._agent or None,
            session=names.get("session") or self._session_id or None,
            task=names.get("task"),
            workspace=self._workspace,
        )
        if not params.addresses:
            return ""
        box: SignalBox | None = None
        with contextlib.suppress(MemsyncdError):
            box = await self._ask("signal.inbox", params)
        if box is None:
            return ""
        numbers = self._session.take_signals([signal.id for signal in box.signals])
        room = int(self._arguments.max_tokens * TOP_SHARE)
        shown: dict[int, str] = {}
        for signal in box.signals:
            if signal.id not in numbers:
                continue
            content = shorten(signal.content, SIGNAL_TOKENS * QUARTERS_PER_TOKEN)
            short = replace(box, signals=[replace(signal, content=content)])
            text = render_signals(short, self._find_warning)
            room -= count_tokens(text)
            if shown and (room < 0 or len(shown) == MAX_SIGNALS):
                break
            shown[signal.id] = text
        if not shown:
            return ""
        self.n_signals = len(shown)
        n_left = len(numbers) - len(shown)
        more = [f"… and {n_left} more: memory_agent (action inbox)"] if n_left else []
        return "\n".join(["## Signals", *shown.values(), *more, _advise([*shown])])

    async def _show_context(self, query: str, max_tokens: int, top: str = "") -> str:
        """Return what memory holds on a query, else what every session should know: without parts
        that the session has seen, or that `top`, the text above, has.
        """
        if max_tokens < MIN_TOKENS:
            return ""
        # Parts that the session has seen take room in the answer before they are left out.
        room = max_tokens + min(self._session.n_tokens, max_tokens)
        is_prompt = bool(query)
        params = ContextParams(
            query=query,
            workspace=self._arguments.cwd or self._workspace,
            max_tokens=min(room if is_prompt else max_tokens, MAX_TOKENS),
            follow=list(SOLUTIONS) if is_prompt else [],
            # The session's first answer had the notes of the user-wide workspace already.
            user=not is_prompt,
        )
        block = await self._ask_context(params)
        if not block.text:
            return ""
        head, parts = split_block(block)
        seen = self._session if is_prompt else HookSession()
        quoted = [part for part in parts if is_quoted(part, top)]
        others = [part for part in parts if part not in quoted]
        fresh = select_parts(others, seen, head, max_tokens)
        self._note_parts(block, fresh, seen, quoted)
        self._session.add_parts([*quoted, *fresh])
        if not fresh:
            return ""
        text = "\n\n".join(filter(None, (head, *(part.text for part in fresh))))
        return render_context(replace(block, text=text), is_truth_told=True)

    def _note_parts(
        self,
        block: ContextResult,
        fresh: Sequence[ShownPart],
        seen: HookSession,
        quoted: Sequence[ShownPart],
    ) -> None:
        """Note which parts of a block are shown, and why the others are not."""
        shown = {(part.rank, part.lines) for part in fresh}
        sections = [describe_part(block, part) for part in fresh]
        for part in split_block(block)[1]:
            if (part.rank, part.lines) in shown:
                continue
            is_seen = seen.has_part(part)
            reason = REPEATED if part in quoted else GIVEN_BEFORE if is_seen else NO_ROOM
            section = block.included[part.rank]
            sections.append(describe_lines(section, "left out", reason=reason))
        sections += map(describe_left_out, block.left_out)
        more = Counter(self.content.more_left_out) + Counter(count_more_left_out(block))
        self.content = AnswerContent([*self.content.sections, *sections], more)


def name_agent(client: str) -> str:
    """Return the name of an agent by the name that its client gives itself to a server. Codex,
    Gemini CLI and Cursor add words to the name that their hooks have.
    """
    if client.startswith("Visual Studio Code"):
        return "vscode"
    return next((name for name in HOOK_CLIENTS if client.startswith(name)), client)


def read_session_id(arguments: HookArguments) -> str:
    """Return the client's name for its session on one line, as metadata can have it; empty for a
    variable that a client does not know and leaves as it is.
    """
    session_id = " ".join(arguments.session_id.split())[:200]
    return "" if session_id.startswith("${") else session_id


def _advise(signals: Sequence[int]) -> str:
    """Return the line that says how signals are acknowledged; empty without signals."""
    return (
        f"Acknowledge them: memory_agent (action ack, signals={list(signals)})" if signals else ""
    )
