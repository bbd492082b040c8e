"""The calls of `Memsyncd` for agents: what they have read, signals, tasks and sessions; and for
topics, which are notes, and their fields, which are sections.

    with Memsyncd("~/code/api", client="builder", session="2026-11-23-a") as memory:
        memory.get(".memories/redis.md#redis/timeouts")
        print(memory.access_stats(".memories/redis.md")["counts"])
        memory.send_signal("WU-123 is done", type="completion", task="WU-124")

    with Memsyncd("~/code/api", client="reviewer") as memory:
        for signal in memory.inbox(agent="reviewer", task="WU-124"):
            print(signal["sender"], signal["content"])
            memory.ack_signals(signal["id"], agent="reviewer", task="WU-124")

    with Memsyncd("~/code/api", client="builder") as memory:
        memory.create_topic("Auth service", fields={"Status": "Redis 7 runs."}, tags=["auth"])
        memory.append_field("Auth service", "Status", "Redis 8 runs.")
        print([one["text"] for one in memory.field_history("Auth service", "Status")])

`Memsyncd` inherits them.
"""

from __future__ import annotations

from memsyncd.client._generated import GeneratedMethods
from memsyncd.client.words import convert_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any, Literal

    from memsyncd.client.types import (
        Added,
        Profile,
        SessionBlock,
        SessionStarted,
        Signal,
        TaskContext,
        TaskReady,
        TaskSection,
        TaskSummary,
        Triage,
        Words,
    )

    OnSimilar = Literal["add", "append", "report"]


class AgentMethods(GeneratedMethods):
    """The part of `Memsyncd` for agents and topics.

    `session` names the caller's session. Each method raises what `Memsyncd` raises.
    """

    # --- signals ---

    def watch_signals(
        self,
        *,
        agent: str | None = None,
        session: str | None = None,
        task: str | None = None,
        timeout_s: float | None = None,
    ) -> Iterator[Signal]:
        """Yield the unread signals to a reader, then each new one as it is sent.

        The iterator has a connection of its own, until it is closed. With `timeout_s`, waiting
        longer for a signal raises NoAnswer.
        """
        reader = {"agent": agent, "session": session, "task": task}
        given = {name: value for name, value in reader.items() if value is not None}
        connection = self._connection.connect()
        try:
            connection.call("subscribe", workspace=self._connection.workspace, signals=given)
            for method, params in connection.notifications(timeout_s=timeout_s):
                notice: Any = params
                if method == "signal":
                    yield notice["signal"]
        finally:
            connection.close()

    # --- tasks ---

    def ready(
        self, task: str | None = None, *, include_archived: bool = False, limit: int = 50
    ) -> TaskReady:
        """Return the sections of a task, or of all, that can be worked on: P0 first, then the
        oldest, without blocked ones.
        """
        params = {"task": task, "include_archived": include_archived, "limit": limit}
        answer: TaskReady = self._connection.ask("task.ready", params)
        return answer

    def task_sections(self, task: str, *, include_archived: bool = False) -> list[TaskSection]:
        """Return all sections of a task, by path and line."""
        params = {"task": task, "include_archived": include_archived}
        answer: list[TaskSection] = self._connection.ask("task.list", params)["items"]
        return answer

    def task_context(
        self,
        task: str,
        *,
        max_bytes: int = 4096,
        sort: Literal["recency", "decay"] = "recency",
        mark: bool = True,
        include_archived: bool = False,
        track_access: bool = True,
    ) -> TaskContext:
        """Return a block of profile, summaries, task and discoveries for a prompt; its `text` is
        empty if there is nothing. With `mark`, its first line says so if the text tries to instruct
        its reader.
        """
        params = {
            "task": task,
            "max_bytes": max_bytes,
            "sort": sort,
            "mark": None if mark else False,
            "include_archived": include_archived,
            "track_access": track_access,
            "caller_session": self._session,
        }
        answer: TaskContext = self._connection.ask("task.context", params)
        return answer

    def checkpoint(
        self,
        content: str,
        *,
        task: str | None = None,
        session: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> Added:
        """Append the progress of a task or session, by default of the caller's session."""
        params = {
            "content": content,
            "task": task,
            "session": session or self._session,
            "metadata": dict(metadata or {}),
        }
        answer: Added = self._connection.write("task.checkpoint", params)
        return answer

    def summarize_task(
        self,
        task: str,
        *,
        model: Callable[[list[TaskSection]], str] | None = None,
        max_bytes: int = 1000,
        dry_run: bool = True,
    ) -> TaskSummary:
        """Summarise a task, and write the summary as a section unless it is a dry run.

        `model` makes the summary from the task's sections; without one, sentences of theirs are
        chosen.
        """
        params = {
            "task": task,
            "content": None if model is None else model(self.task_sections(task)),
            "max_bytes": max_bytes,
            "dry_run": dry_run,
        }
        answer: TaskSummary = self._connection.write("task.summarize", params)
        return answer

    def start_session(
        self, session: str, *, task: str | None = None, content: str = "", agent: str | None = None
    ) -> SessionStarted:
        """Record that a session begins; `text` is what `resume_session` returns."""
        params = {"session": session, "task": task, "content": content, "agent": agent}
        answer: SessionStarted = self._connection.write("session.start", params)
        return answer

    def resume_session(
        self,
        session: str | None = None,
        *,
        task: str | None = None,
        agent: str | None = None,
        max_bytes: int = 4096,
        mark: bool = True,
    ) -> SessionBlock:
        """Return what restores an agent after its context was cleared: task, signals, last
        checkpoint, open discoveries and what is ready. With `mark`, the first line says so if the
        text tries to instruct its reader.
        """
        params = {
            "session": session or (None if task else self._session),
            "task": task,
            "agent": agent,
            "max_bytes": max_bytes,
            "mark": None if mark else False,
        }
        answer: SessionBlock = self._connection.ask("session.resume", params)
        return answer

    def triage(
        self,
        tag: Words = "bug",
        *,
        promote: str | None = None,
        task: str | None = None,
        priority: str | None = None,
        limit: int = 50,
    ) -> Triage:
        """Count the sections with a tag and name the next; with `promote`, an anchor, make `task`
        of that section.
        """
        params = {
            "tag": convert_words(tag),
            "promote": promote,
            "task": task,
            "priority": priority,
            "limit": limit,
        }
        answer: Triage = self._connection.write("triage", params)
        return answer

    def profile(
        self, *, tag: Words = (), limit: int = 20, include_archived: bool = False
    ) -> Profile:
        """Return what holds for the whole project, or of it what has one of the tags, the most
        important first.
        """
        params = {
            "tag": convert_words(tag),
            "limit": limit,
            "include_archived": include_archived,
        }
        answer: Profile = self._connection.ask("profile", params)
        return answer
