"""Write to and search one workspace's memory with `Memsyncd`.

    with Memsyncd("~/code/api", client="release-bot") as memory:
        added = memory.add("Postgres, because of its row locks.", kind="decision")
        hits = memory.search("why postgres", kind="decision")
        print(hits[0]["path"], hits[0]["start_line"]) if hits else print(hits.why_empty)
        prompt = memory.context("database", max_tokens=500) + question

Agents that work on one task send each other signals, and keep their progress:

    with Memsyncd("~/code/api", client="builder", session="2026-11-23-a") as memory:
        memory.checkpoint("Ports are split; tests come next.", task="WU-123")
        memory.send_signal("WU-123 is done", type="completion", task="WU-124")

    with Memsyncd("~/code/api", client="reviewer") as memory:
        for signal in memory.inbox(agent="reviewer", task="WU-124"):
            print(signal["sender"], signal["content"])
            memory.ack_signals(signal["id"], agent="reviewer", task="WU-124")
        prompt = memory.resume_session(task="WU-124", agent="reviewer")["text"]

A topic is a note, and its fields are sections with dated values:

    with Memsyncd("~/code/api", client="builder") as memory:
        memory.create_topic("Auth service", fields={"Status": "Redis 7 runs."}, tags=["auth"])
        memory.append_field("Auth service", "Status", "Redis 8 runs.")
        print([value["text"] for value in memory.field_history("Auth service", "Status")])

The next search finds a section that was written. Methods raise errors of `memsyncd.errors`, each
with a hint on what to do next: NoDaemon, WorkspaceNotFound, NoteNotFound, PathRefused, Conflict,
NotFresh. They raise OtherVersion if a daemon of another version does not understand a call.
`memsyncd.client.types` has the types of parameters and results.
"""

from __future__ import annotations

import os

from memsyncd.client._generated import GeneratedMethods
from memsyncd.client.connection import TIMEOUT_S, Client, Closing
from memsyncd.client.words import (
    convert_filters,
    convert_wait,
    convert_words,
    convert_workspaces,
    planned,
    read_target,
)
from memsyncd.client.workspace import WorkspaceConnection
from memsyncd.errors import NoteNotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any, Literal, Self, Unpack

    from memsyncd.client.types import (
        AddedSection,
        AnsweringWorkspace,
        Changed,
        ContextPart,
        Filters,
        Freshness,
        Got,
        Hit,
        LeftOutPart,
        Listing,
        MemoryCommand,
        MemoryResult,
        NewSection,
        NoteInfo,
        Signal,
        SimilarTopic,
        Sort,
        SyncReport,
        TaskSection,
        TaskSummary,
        Words,
        WorkGroup,
    )
    from memsyncd.client.words import WorkspaceNames


def _complete(answer: dict[str, Any]) -> dict[str, Any]:
    # A daemon that was started before an update does not send the newer fields.
    newer: dict[str, Any] = {
        "n_left_out": len(answer.get("left_out", ())),
        "task": None,
        "signals": [],
    }
    return {"query_problems": [], "excluded": [], **newer, **answer}


class Hits(list["Hit"]):
    """The hits of a search, best first.

    `relaxed` is true if no hit contains every word. `workspaces` lists the searched workspaces with
    their roots, and the failures of workspaces that could not be searched. Without hits,
    `why_empty` gives the reason and `did_you_mean` a corrected query. `query_problems` names
    filters that were read as words, and `excluded` the words and filters that the query excludes.
    """

    __slots__ = (
        "did_you_mean",
        "excluded",
        "freshness",
        "query_problems",
        "relaxed",
        "why_empty",
        "workspaces",
    )

    workspaces: list[AnsweringWorkspace]
    relaxed: bool
    query_problems: list[str]
    excluded: list[str]
    why_empty: str | None
    did_you_mean: str | None
    freshness: Freshness

    def __init__(self, answer: dict[str, Any]) -> None:
        super().__init__(answer["hits"])
        answer = _complete(answer)
        for name in self.__slots__:
            setattr(self, name, answer[name])


class ContextBlock(str):
    """Markdown for a prompt. It is empty if nothing is relevant; then `why_empty` gives the reason.

    `included` and `left_out` list sections, best first; `left_out` has the best 20 of `n_left_out`.
    `task` is the task that the block is about, `signals` the numbers of unread signals in it.
    `tokens` is the size of the text, counted as 4 characters a token.
    """

    __slots__ = (
        "excluded",
        "freshness",
        "included",
        "left_out",
        "n_left_out",
        "query_problems",
        "signals",
        "task",
        "tokens",
        "why_empty",
        "workspaces",
    )

    tokens: int
    workspaces: list[AnsweringWorkspace]
    included: list[ContextPart]
    left_out: list[LeftOutPart]
    n_left_out: int
    why_empty: str | None
    task: str | None
    signals: list[int]
    query_problems: list[str]
    excluded: list[str]
    freshness: Freshness

    def __new__(cls, answer: dict[str, Any]) -> Self:
        block = super().__new__(cls, answer["text"])
        answer = _complete(answer)
        for name in cls.__slots__:
            setattr(block, name, answer[name])
        return block


class Changes(Closing):
    """An endless iterator over changes of the index. Closing it, or leaving its `with`, ends the
    subscription.
    """

    __slots__ = ("_connection", "_notifications")

    def __init__(self, connection: Client, timeout_s: float | None) -> None:
        self._connection = connection
        self._notifications = connection.notifications(timeout_s=timeout_s)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Changed:
        """Wait for the next change. Raises NoAnswer after the timeout, NoDaemon if the daemon
        stops.
        """
        method, change = next(self._notifications)
        while method != "changed":
            method, change = next(self._notifications)
        notice: Any = change
        changed: Changed = notice
        return changed

    def close(self) -> None:
        self._connection.close()


SYNC_S = 600.0
ARCHIVED = "archived"


class Memsyncd(GeneratedMethods):
    """The memory of one workspace. Threads may share an instance; they take turns. A forked process
    connects again.

    `workspace` is a name, an id or any path inside it; by default it is the workspace of the
    current folder, else the only workspace. `client` is the writer's name in `history`. `timeout_s`
    limits the wait for each answer; a write that cannot be done in this time is not done at all.
    `env` is the environment that locates the daemon's socket. `session` and `task` are what the
    caller works in and on; by default the environment names them, `MEMSYNCD_SESSION` and
    `MEMSYNCD_TASK`. Methods with these parameters take them from here. A section that `context` or
    `get` returns several times in one session counts as used once.

    Raises NoDaemon if no daemon answers, WorkspaceNotFound if there is no such workspace. If the
    daemon stops later, the next call raises NoDaemon, and the call after it connects again.
    """

    def __init__(
        self,
        workspace: str | os.PathLike[str] | None = None,
        *,
        client: str = "python",
        timeout_s: float = TIMEOUT_S,
        env: Mapping[str, str] | None = None,
        session: str | None = None,
        task: str | None = None,
    ) -> None:
        named = os.environ if env is None else env
        super().__init__(
            WorkspaceConnection(workspace, client, timeout_s, env),
            session or named.get("MEMSYNCD_SESSION") or None,
            task or named.get("MEMSYNCD_TASK") or None,
        )

    @property
    def workspace(self) -> str:
        """The workspace's id."""
        return self._connection.workspace

    @property
    def name(self) -> str:
        """The workspace's name."""
        return self._connection.name

    @property
    def root(self) -> str:
        """The workspace's folder; paths in results are relative to it."""
        return self._connection.root

    def close(self) -> None:
        """Close the connection. A later call opens a new one."""
        self._connection.close()

    def tasks(self, *, limit: int = 100) -> list[WorkGroup]:
        """Return the latest tasks with the number of their sections, the latest first."""
        tasks: list[WorkGroup] = self._connection.ask("task.list", {"limit": limit})["tasks"]
        return tasks

    # --- writing ---

    def add_many(self, items: Iterable[NewSection | str]) -> list[AddedSection]:
        """Append several sections, either all or none. An item is a dictionary with the parameters
        of `add`, or only the content. Without items, nothing is called. One tag may be a plain
        word.
        """
        sections = [
            _read_section({"content": item} if isinstance(item, str) else item) for item in items
        ]
        added: list[AddedSection] = (
            self._connection.write("note.add_many", {"items": sections})["added"]
            if sections
            else []
        )
        return added

    def memory(
        self,
        command: Literal["view", "create", "str_replace", "insert", "delete", "rename"],
        **parameters: Unpack[MemoryCommand],
    ) -> MemoryResult:
        """Execute a command of Anthropic's memory tool, on paths that begin with `/memories`.

        `text` of the result is the tool's answer. Raises NoteNotFound, AlreadyExists, EditRefused
        or PathRefused, with the tool's own text as `message`. With `if_digest`, raises Conflict if
        the note has another digest.
        """
        # Written by hand, because the parameters depend on the command.
        answer: MemoryResult = self._connection.write("memory", {"command": command, **parameters})
        return answer

    # --- search ---

    def search(
        self,
        query: str,
        *,
        limit: int | None = None,
        min_score: float | None = None,
        sort: Sort | None = None,
        follow: Words = (),
        workspaces: WorkspaceNames = None,
        wait: bool = False,
        timeout_s: float | None = None,
        **filters: Unpack[Filters],
    ) -> Hits:
        """Find passages by words, `"phrases"`, `-not`, `prefix*` and filters, best first; `sort`
        puts the best hits into another order. `follow` names one or several relations, such as
        `resolved_by`: then each hit lists the targets of its typed links (`related`).

        `workspaces` searches other workspaces instead: names, ids or paths, or `*` for all. With
        `wait`, the daemon first indexes everything that is on disk now. Raises NotFresh if that
        takes longer than `timeout_s`.
        """
        params = {
            "query": query,
            "limit": limit,
            "min_score": min_score,
            "sort": sort,
            "follow": convert_words(follow),
            "filters": convert_filters(filters),
            **convert_workspaces(workspaces),
        }
        return Hits(
            self._connection.ask("search", params | convert_wait(is_wanted=wait), time_s=timeout_s)
        )

    def get(
        self, target: str, *, start_line: int | None = None, end_line: int | None = None
    ) -> Got | None:
        """Return the text of a section, named by its anchor `path#heading`, or of a note or some of
        its lines; None if it does not exist.
        """
        try:
            got: Got = self._connection.ask(
                "get",
                read_target(target)
                | {"start_line": start_line, "end_line": end_line}
                | {"caller_session": self._session},
            )
        except NoteNotFound:
            return None
        return got

    def get_by_kind(self, kind: str, *, limit: int = 20) -> list[Got]:
        """Return the sections of this kind that are not archived, with their text. The note that
        was saved last comes first.
        """
        notes = sorted(
            self._list_notes({"kind": kind}),
            key=lambda note: (-note["modified_at"], note["path"]),
        )
        sections = [
            section
            for note in notes
            for section in reversed(note["sections"])
            if section["status"] != ARCHIVED
        ]
        texts = [self.get(section["anchor"]) for section in sections[:limit]]
        return [text for text in texts if text is not None]

    def similar_topics(
        self, topic: str, *, nearest: int | None = None, min_similarity: float | None = None
    ) -> list[SimilarTopic]:
        """Return the topics that are similar to a topic, the most similar first, or the so many
        `nearest`, however far they are. Raises NoteNotFound if no section has the topic.
        """
        params = {"topic": topic, "nearest": nearest, "min_similarity": min_similarity}
        return list(self._connection.ask("similar", params)["topics"])

    def context(  # noqa: PLR0913 - one parameter for each of the method's
        self,
        query: str = "",
        *,
        max_tokens: int | None = None,
        max_bytes: int | None = None,
        heading: str | None = None,
        mark: bool = True,
        follow: Words = (),
        profile: bool = False,
        agent: str | None = None,
        user: bool = True,
        workspaces: WorkspaceNames = None,
        track_access: bool = True,
        sort: Sort | None = None,
        wait: bool = False,
        timeout_s: float | None = None,
        **filters: Unpack[Filters],
    ) -> ContextBlock:
        """Return markdown for a prompt, of at most `max_tokens` (2000 by default). Its first line
        is `heading` (`## Prior Knowledge` by default). It is empty if nothing is relevant.

        Without a query, the block is the context for the start of a session. With the name of a
        `task` or `session`, or with `profile`, it begins with their memories, and with the unread
        signals to them and to `agent`; a list of tasks or sessions is a filter. If the text tries
        to instruct its reader, a line below the heading says so, unless `mark` is False. Each
        section of the block counts as recalled, unless `track_access` is False. `follow` names
        relations; the sections that they lead to are included, too. `user=False` leaves out the
        user-wide workspace. `workspaces`, `wait` and `timeout_s` are as in `search`.
        """
        size = {"max_tokens": max_tokens, "max_bytes": max_bytes}
        about = {name: filters.get(name) for name in ("task", "session")}
        names = {name: value for name, value in about.items() if isinstance(value, str)}
        params = {
            "query": query,
            **size,
            **names,
            "profile": profile or None,
            "agent": agent,
            "heading": heading,
            "mark": None if mark else False,
            "follow": convert_words(follow),
            "user": None if user else False,
            **convert_workspaces(workspaces),
            "track_access": track_access,
            "sort": sort,
            "caller_session": self._session,
            "filters": convert_filters(
                {name: value for name, value in filters.items() if name not in names}
            ),
            **convert_wait(is_wanted=wait),
        }
        return ContextBlock(self._connection.ask("context", params, time_s=timeout_s))

    def count(self, *, kind: str | None = None, tag: str | None = None) -> int:
        """Count all sections, or the sections of a kind or with a tag. A note's title counts as a
        section.
        """
        notes = self._list_notes({"kind": kind, "tag": tag})
        return sum(len(note["sections"]) for note in notes)

    def _list_notes(self, params: dict[str, Any]) -> Iterator[NoteInfo]:
        """Yield the notes of all pages."""
        cursor: str | None = ""
        while cursor is not None:
            page: Listing = self._connection.ask(
                "list", params | {"limit": 1000, "cursor": cursor or None}
            )
            yield from page["notes"]
            cursor = page["cursor"]

    # --- tasks and signals ---

    @planned
    def summarize_task(
        self,
        task: str,
        *,
        model: Callable[[list[TaskSection]], str] | None = None,
        max_bytes: int = 1000,
        apply: bool = False,
    ) -> TaskSummary:
        """Summarise a task, and with `apply` write the summary as a section.

        `model` makes the summary from the task's sections. Without a model, the summary consists of
        some of their sentences.
        """
        # Written by hand, because a model is a function of the caller's program.
        params = {
            "task": task,
            "content": None if model is None else model(self.task_sections(task)),
            "max_bytes": max_bytes,
            "apply": apply,
        }
        answer: TaskSummary = self._connection.write("task.summarize", params)
        return answer

    def watch_signals(
        self,
        *,
        agent: str | None = None,
        session: str | None = None,
        task: str | None = None,
        timeout_s: float | None = None,
    ) -> Iterator[Signal]:
        """Yield a reader's unread signals, then each new signal when it is sent.

        The iterator has a connection of its own until it is closed. It raises NoAnswer if no signal
        arrives within `timeout_s`.
        """
        # Written by hand, because a stream of notifications is no answer to one call.
        names = {"agent": agent, "session": session, "task": task}
        reader = {name: value for name, value in names.items() if value is not None}
        connection = self._connection.connect()
        try:
            connection.call("subscribe", workspace=self._connection.workspace, signals=reader)
            for method, params in connection.notifications(timeout_s=timeout_s):
                notice: Any = params
                if method == "signal":
                    yield notice["signal"]
        finally:
            connection.close()

    # --- the index ---

    def sync(self, *, full: bool = False, timeout_s: float = SYNC_S) -> SyncReport:
        """Bring the index up to date with the disk and report the changes. `full` reads every note
        again.
        """
        answer: SyncReport = self._connection.ask("sync", {"full": full}, time_s=timeout_s)
        return answer

    def subscribe(
        self, *paths: str, since: int | None = None, timeout_s: float | None = None
    ) -> Changes:
        """Subscribe to changes from now on, or since the generation `since`. `paths` are globs:
        with them, only changes of matching notes count.

        Iterate over the result, then close it, because it has a connection of its own. It raises
        NoAnswer if no change arrives within `timeout_s`.
        """
        connection = self._connection.connect()
        try:
            connection.call("subscribe", workspace=self.workspace, paths=list(paths), since=since)
        except BaseException:
            connection.close()
            raise
        return Changes(connection, timeout_s)


def _read_section(section: NewSection) -> dict[str, object]:
    """Convert a section to parameters of the daemon. Fields that are None or empty are left out."""
    fields: dict[str, object] = {
        name: value for name, value in section.items() if value is not None
    }
    for name in ("tags", "keywords"):
        words: Any = fields.get(name, ())
        fields[name] = [words] if isinstance(words, str) else list(words)
    return {name: value for name, value in fields.items() if value not in ([], {})}
