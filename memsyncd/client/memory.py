"""How does a program remember and recall? `Memsyncd` is one workspace's memory, as the daemon keeps it.

    with Memsyncd("~/code/api", client="release-bot") as memory:
        added = memory.add("Postgres, because of its row locks.", summary="Database", kind="decision")
        hits = memory.search("why postgres", kind="decision")
        print(hits[0]["path"], hits[0]["start_line"]) if hits else print(hits.why_empty)
        prompt = memory.context("database", max_tokens=500) + question

What is written is found by the next question. Failures are those of `memsyncd.errors`: NoDaemon, WorkspaceNotFound,
NoteNotFound, PathRefused, Conflict, NotFresh, each with a hint of what to do next. Shapes stand in `memsyncd.client.answers`.
"""

from __future__ import annotations

import os

from memsyncd.client.connection import TIMEOUT_S
from memsyncd.client.found import Block, Changes, Hits
from memsyncd.client.link import Link
from memsyncd.client.places import split_place
from memsyncd.errors import NoteNotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import TracebackType
    from typing import Literal, Self, Unpack

    from memsyncd.client.answers import (
        Added,
        AddedSection,
        Cleared,
        Diff,
        Filters,
        Got,
        MemoryCommand,
        MemoryResult,
        NewSection,
        Purged,
        RevisionInfo,
        SyncReport,
        Undone,
    )

SYNC_S = 600.0
ARCHIVED = "archived"


class Memsyncd:
    """The memory of one workspace. For one thread at a time.

    `workspace` is a name, an id or any path inside it; left out, the one that the current folder lies in, else the only one.
    `client` is the name that `history` shows for what is written. `timeout_s` bounds the wait for each answer; a write that
    cannot be done in that time is not done at all. `env` is the environment in which the daemon's socket is looked for.

    Raises NoDaemon if none answers, WorkspaceNotFound if there is no such workspace. If the daemon goes away later, the call that
    meets it raises NoDaemon, and the next one connects anew.
    """

    def __init__(
        self,
        workspace: str | os.PathLike[str] | None = None,
        *,
        client: str = "python",
        timeout_s: float = TIMEOUT_S,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._link = Link(workspace, client, timeout_s, env)

    @property
    def workspace(self) -> str:
        """The workspace's id."""
        return self._link.workspace

    @property
    def name(self) -> str:
        """What the workspace is called."""
        return self._link.name

    @property
    def root(self) -> str:
        """The workspace's folder; paths in answers start there."""
        return self._link.root

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connection. A later call makes a new one."""
        self._link.close()

    # --- writing ---

    def add(  # noqa: PLR0913  a section may say all this of itself
        self,
        content: str,
        *,
        summary: str = "",
        kind: str | None = None,
        tags: Sequence[str] = (),
        importance: float | None = None,
        priority: str | None = None,
        lifecycle: str | None = None,
        source: str | None = None,
        task: str | None = None,
        session: str | None = None,
        created: str | None = None,
        note: str | None = None,
    ) -> Added:
        """Remember something: a section with the heading `summary`, appended to `note`, else to the note of its kind.

        `importance` is from 0 to 1, by kind unless said; `priority` is P0 to P3; `lifecycle` is ephemeral, session, task or
        project. Returns where it stands. Raises BadRequest for what cannot be, PathRefused for a note that cannot be.
        """
        section: NewSection = {
            "content": content, "summary": summary, "kind": kind, "tags": tags, "importance": importance, "priority": priority,
            "lifecycle": lifecycle, "source": source, "task": task, "session": session, "created": created, "note": note,
        }  # fmt: skip
        added: Added = self._link.write("note.add", _read_section(section))
        return added

    def add_many(self, items: Iterable[NewSection | str]) -> list[AddedSection]:
        """Remember several things, all or none: each a dictionary with the parameters of `add`, or the content alone."""
        sections = [_read_section({"content": item} if isinstance(item, str) else item) for item in items]
        added: list[AddedSection] = self._link.write("note.add_many", {"items": sections})["added"] if sections else []
        return added

    def memory(
        self,
        command: Literal["view", "create", "str_replace", "insert", "delete", "rename"],
        **parameters: Unpack[MemoryCommand],
    ) -> MemoryResult:
        """Carry out a command of Anthropic's memory tool, on paths that begin with `/memories`.

        `text` of the answer is what the tool says. What it would call an error is raised, with the tool's own words as
        `message`: NoteNotFound, AlreadyExists, EditRefused, PathRefused. With `if_digest`, Conflict if the note is another.
        """
        result: MemoryResult = self._link.write("memory", {"command": command, **parameters})
        return result

    def clear(self, *, confirm: bool) -> Cleared:
        """Remove every note of memory, if `confirm` is true. `undo(act=…)` with the answer's `act` brings them back."""
        cleared: Cleared = self._link.ask("memory.clear", {"confirm": confirm, "client": self._link.client_name})
        return cleared

    # --- recall ---

    def search(
        self,
        query: str,
        *,
        limit: int | None = None,
        min_score: float | None = None,
        wait: bool = False,
        timeout_s: float | None = None,
        **filters: Unpack[Filters],
    ) -> Hits:
        """Find passages by words, `"phrases"`, `-not`, `prefix*` and filters, best first.

        With `wait`, everything that is on disk now is indexed first. Raises NotFresh if that takes longer than `timeout_s`.
        """
        asked = {"query": query, "limit": limit, "min_score": min_score, "filters": _read_filters(filters)}
        return Hits(self._link.ask("search", asked | _read_wait(is_wanted=wait), time_s=timeout_s))

    def get(self, place: str, *, start_line: int | None = None, end_line: int | None = None) -> Got | None:
        """The text of a section by its anchor, `path#heading`, or of a note, or of some of its lines; None if it is not there."""
        try:
            got: Got = self._link.ask("get", _read_place(place) | {"start_line": start_line, "end_line": end_line})
        except NoteNotFound:
            return None
        return got

    def get_by_kind(self, kind: str, *, limit: int = 20) -> list[Got]:
        """Sections of this kind that are not archived, with their text: those of the note saved last, then the others."""
        notes = sorted(self._link.ask("list", {"kind": kind})["notes"], key=lambda note: (-note["modified_at"], note["path"]))
        sections = [section for note in notes for section in reversed(note["sections"]) if section["status"] != ARCHIVED]
        found = [self.get(section["anchor"]) for section in sections[:limit]]
        return [each for each in found if each is not None]

    def context(
        self,
        query: str = "",
        *,
        max_tokens: int | None = None,
        max_bytes: int | None = None,
        heading: str | None = None,
        wait: bool = False,
        timeout_s: float | None = None,
        **filters: Unpack[Filters],
    ) -> Block:
        """Markdown for a prompt, `## Prior Knowledge` unless `heading` is another, of at most `max_tokens` (2000).

        Without a query, what a session begins with. Empty if nothing is relevant.
        """
        size = {"max_tokens": max_tokens, "max_bytes": max_bytes}
        asked = {"query": query, **size, "heading": heading, "filters": _read_filters(filters), **_read_wait(is_wanted=wait)}
        return Block(self._link.ask("context", asked, time_s=timeout_s))

    def count(self, *, kind: str | None = None, tag: str | None = None) -> int:
        """How many sections there are: all, or those of a kind or with a tag. A note's title is a section, too."""
        notes = self._link.ask("list", {"kind": kind, "tag": tag})["notes"]
        return sum(len(note["sections"]) for note in notes)

    # --- what was before ---

    def history(self, place: str | None = None, *, limit: int = 20, before: int | None = None) -> list[RevisionInfo]:
        """What changed in a section, a note, a folder or all of the workspace, newest first; only what is older than `before`."""
        answer = self._link.ask("history", _read_place(place) | {"limit": limit, "before": before})
        revisions: list[RevisionInfo] = answer["revisions"]
        return revisions

    def diff(self, place: str | None = None, *, revision: int | None = None, to_now: bool = False) -> Diff:
        """What a revision changed, as a unified diff; the latest one of a section or note unless another is named.

        With `to_now`, everything that changed from before it until now.
        """
        diff: Diff = self._link.ask("diff", _read_place(place) | {"revision": revision, "to_now": to_now})
        return diff

    def undo(self, place: str | None = None, *, revision: int | None = None, act: int | None = None) -> Undone:
        """Put back what stood before a revision, an act, or the latest revision of a section or note.

        That is a new act, which can be undone as well. Raises Conflict if what is to be taken back has changed since.
        """
        undone: Undone = self._link.write("undo", _read_place(place) | {"revision": revision, "act": act})
        return undone

    def purge_history(
        self,
        place: str | None = None,
        *,
        revision: int | None = None,
        containing: str | None = None,
        everything: bool = False,
    ) -> Purged:
        """Forget revisions for good, such as those `containing` a secret. Notes stay; `still_in` names those that hold it."""
        asked = _read_place(place) | {"revision": revision, "containing": containing, "all": everything}
        purged: Purged = self._link.ask("history.purge", asked)
        return purged

    # --- the index ---

    def sync(self, *, full: bool = False, timeout_s: float = SYNC_S) -> SyncReport:
        """Make the index say what the disk says, and say what changed. With `full`, every note is read again."""
        report: SyncReport = self._link.ask("sync", {"full": full}, time_s=timeout_s)
        return report

    def subscribe(self, *paths: str, since: int | None = None, timeout_s: float | None = None) -> Changes:
        """Be told of changes from now on, or from the generation `since` on; of notes that match a glob, if any are given.

        Iterate over what is returned, and close it: it holds a connection of its own. With `timeout_s`, waiting longer for a
        change raises NoAnswer.
        """
        connection = self._link.connect()
        try:
            connection.call("subscribe", workspace=self.workspace, paths=list(paths), since=since)
        except BaseException:
            connection.close()
            raise
        return Changes(connection, timeout_s)


def _read_place(place: str | None) -> dict[str, object]:
    """The parameter that names a section, a note or a folder."""
    return {} if place is None else {"path" if split_place(place)[1] is None else "anchor": place}


def _read_wait(*, is_wanted: bool) -> dict[str, object]:
    return {"wait": "disk"} if is_wanted else {}


def _read_section(section: NewSection) -> dict[str, object]:
    """A section as the daemon takes it: what is not said is left out."""
    said: dict[str, object] = {name: value for name, value in section.items() if value is not None}
    tags = section.get("tags", ())
    return said | {"tags": [tags] if isinstance(tags, str) else list(tags)}


def _read_filters(filters: Mapping[str, object]) -> dict[str, object] | None:
    """Filters as the daemon takes them: a word alone becomes a list of one, tuples and the like become lists."""
    return {name: _read_filter(name, value) for name, value in filters.items() if value is not None} or None


def _read_filter(name: str, value: object) -> object:
    if isinstance(value, str):
        return value if name in ("after", "before") else [value]
    return value if isinstance(value, bool) else list(value)  # type: ignore[call-overload]  # the daemon refuses what is neither
