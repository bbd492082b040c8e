"""The calls of `Memsyncd` for topics, which are notes, and their fields, which are sections.

    with Memsyncd("~/code/api", client="builder") as memory:
        memory.create_topic("Auth service", fields={"Status": "Redis 7 runs."}, tags=["auth"])
        memory.append_field("Auth service", "Status", "Redis 8 runs.")
        print([one["text"] for one in memory.field_history("Auth service", "Status")])

`Memsyncd` inherits them.
"""

from __future__ import annotations

from memsyncd.client.agents import AgentMethods

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Literal, Unpack

    from memsyncd.client.types import (
        FieldAppended,
        FieldVersion,
        NewRelation,
        Topic,
        TopicChanges,
        TopicInfo,
        TopicMetadata,
        TopicWritten,
        Upkept,
        Words,
    )

    OnSimilar = Literal["add", "append", "report"]


class TopicCalls(AgentMethods):
    """The part of `Memsyncd` for topics. Each method raises what `Memsyncd` raises."""

    def topics(
        self,
        path: str | None = None,
        *,
        sort: Literal["salience", "recency", "file"] = "salience",
        include_archived: bool = False,
        limit: int = 50,
    ) -> list[TopicInfo]:
        """Return the topics, or those at a path, folder or glob, the most salient first."""
        params = {
            "path": path,
            "sort": sort,
            "include_archived": include_archived,
            "limit": limit,
        }
        found: list[TopicInfo] = self._connection.ask("topic.list", params)["topics"]
        return found

    def topic(
        self, topic: str, *, include_archived: bool = False, track_access: bool = True
    ) -> Topic:
        """Return a topic by its path, its name in the memory folder, or its title: its summary, its
        fields with their values, its relations. Its fields count as recalled.
        """
        params = {
            "topic": topic,
            "include_archived": include_archived,
            "track_access": track_access,
            "caller_session": self._session,
        }
        found: Topic = self._connection.ask("topic.get", params)
        return found

    def create_topic(
        self,
        title: str,
        summary: str = "",
        *,
        fields: Mapping[str, str] | None = None,
        relations: Iterable[NewRelation | str] = (),
        note: str | None = None,
        on_similar: OnSimilar = "add",
        **metadata: Unpack[TopicMetadata],
    ) -> TopicWritten:
        """Create a note for a topic, by default one that is named after its title. A relation is a
        dictionary with `kind` and `to`, or only the note that it leads to.

        If a topic says nearly the same, `on_similar` `append` appends to it, and `report` writes
        nothing. Raises AlreadyExists if the note is there.
        """
        params = {
            "title": title,
            "summary": summary,
            "fields": dict(fields or {}),
            "relations": _read_relations(relations),
            "note": note,
            "on_similar": on_similar,
            **_read_lists(metadata),
        }
        written: TopicWritten = self._connection.write("topic.create", params)
        return written

    def patch_topic(
        self,
        topic: str,
        *,
        relate: Iterable[NewRelation | str] = (),
        unrelate: Iterable[NewRelation | str] = (),
        if_digest: str | None = None,
        **changes: Unpack[TopicChanges],
    ) -> TopicWritten:
        """Change the title, the summary, the metadata or the relations of a topic; an empty text or
        list removes one. Relations that are there already stay as they are.

        With `if_digest`, raises Conflict if the note has another digest.
        """
        params = {
            "topic": topic,
            "relate": _read_relations(relate),
            "unrelate": _read_relations(unrelate),
            "if_digest": if_digest,
            **_read_lists(changes),
        }
        written: TopicWritten = self._connection.write("topic.patch", params)
        return written

    def archive_topic(self, *topics: str, dry_run: bool = True, plan: str | None = None) -> Upkept:
        """Archive whole topics; unless `dry_run` is False, nothing changes. With the `plan` of a
        dry run, raises Conflict if notes have changed since.
        """
        params = {"topics": [*topics], "dry_run": dry_run, "plan": plan}
        answer: Upkept = self._connection.write("topic.archive", params)
        return answer

    def restore_topic(self, *topics: str, dry_run: bool = True, plan: str | None = None) -> Upkept:
        """Restore archived topics, with the bytes that they had; like `archive_topic`."""
        params = {"topics": [*topics], "dry_run": dry_run, "plan": plan}
        answer: Upkept = self._connection.write("topic.restore", params)
        return answer

    def append_field(  # noqa: PLR0913  one parameter for each of the method
        self,
        topic: str,
        field: str,
        content: str,
        *,
        kind: str | None = None,
        tags: Words = (),
        importance: float | None = None,
        source: str | None = None,
        keep: int | None = None,
        on_similar: OnSimilar = "add",
        if_digest: str | None = None,
    ) -> FieldAppended:
        """Append a value to a field, above the earlier ones; the section is made if it is missing.

        `keep` values stay in the note, by default as many as configured; `field_history` has all.
        """
        params = {
            "topic": topic,
            "field": field,
            "content": content,
            "kind": kind,
            "tags": [tags] if isinstance(tags, str) else list(tags),
            "importance": importance,
            "source": source,
            "keep": keep,
            "on_similar": on_similar,
            "if_digest": if_digest,
        }
        appended: FieldAppended = self._connection.write("field.append", params)
        return appended

    def field_history(
        self, topic: str, field: str, *, limit: int = 50, before: int | None = None
    ) -> list[FieldVersion]:
        """Return the values that a field has and had, the newest first; only those of revisions
        older than `before`.
        """
        params = {"topic": topic, "field": field, "limit": limit, "before": before}
        found: list[FieldVersion] = self._connection.ask("field.history", params)["values"]
        return found


def _read_relations(relations: Iterable[NewRelation | str]) -> list[dict[str, object]]:
    return [{"to": one} if isinstance(one, str) else dict(one) for one in relations]


def _read_lists(given: Mapping[str, object]) -> dict[str, object]:
    """Convert metadata to parameters of the daemon: one word becomes a list where one is taken."""
    return {
        name: [value] if name in ("tags", "keywords") and isinstance(value, str) else value
        for name, value in given.items()
    }
