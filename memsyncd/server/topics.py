"""Answers the methods for topics and their fields."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from msgspec.structs import asdict

from memsyncd.engine import topics
from memsyncd.engine.accesses import count_accesses
from memsyncd.engine.clock import Clock
from memsyncd.engine.edit import EditOutcome
from memsyncd.engine.workspace import Workspace
from memsyncd.engine.workspaces import Workspaces
from memsyncd.operations.similar.declare import SimilarSection
from memsyncd.operations.topics import declare as protocol
from memsyncd.operations.upkeep.declare import Upkept
from memsyncd.operations.writes import WriteAction
from memsyncd.server.reads import Reads, WorkspaceMethods
from memsyncd.server.session import MethodCall, Session
from memsyncd.server.writes import Writes, describe_write, make_place

T = TypeVar("T")


class TopicMethods(WorkspaceMethods):
    """Carries out the methods, with those of writes."""

    def __init__(self, workspaces: Workspaces, clock: Clock, reads: Reads, writes: Writes) -> None:
        super().__init__(workspaces, clock, reads)
        self._writes = writes
        self.methods: dict[str, MethodCall] = {
            "topic.list": self._list,
            "topic.get": self._get,
            "topic.create": self._create,
            "topic.patch": self._patch,
            "topic.archive": partial(self._archive, "topic.archive"),
            "topic.restore": partial(self._archive, "topic.restore"),
            "field.append": self._append,
            "field.history": self._list_history,
        }

    # --- reads ---

    async def _list(
        self, _session: Session, params: protocol.TopicListParams
    ) -> protocol.TopicList:
        return await self._read(partial(_read_counted, topics.list_topics), params)

    async def _get(self, _session: Session, params: protocol.TopicGetParams) -> protocol.Topic:
        workspace = self._workspaces.find(params.workspace)
        found = await self._read(partial(_read_counted, topics.read_topic), params)
        if params.track_access:
            anchors = [one.anchor for one in found.fields]
            caller = params.caller_session
            self._workspaces.note_accesses(workspace, anchors or [found.path], session=caller)
        return found

    async def _list_history(
        self, _session: Session, params: protocol.FieldHistoryParams
    ) -> protocol.FieldHistory:
        workspace = await self._find_open(params.workspace)
        find = partial(topics.find_topic, workspace, self._workspaces.config, params.topic)
        path = await self._in_thread(find, disk_of=workspace)
        job = partial(topics.list_field_history, path=path, params=params)
        return await self._writes.run(workspace, job)

    # --- writes ---

    async def _create(
        self, session: Session, params: protocol.TopicCreateParams
    ) -> protocol.TopicWritten:
        workspace, config = self._workspaces.find(params.workspace), self._workspaces.config
        decide = partial(
            topics.make_create_decision,
            workspace,
            config,
            params,
            **self._writes.stamp(session, params.client),
        )
        create = decide()
        near = await self._writes.find_near(
            workspace, partial(topics.find_near_topic, params=params), params.on_similar
        )
        there = topics.choose_near(workspace, config, near, params.on_similar)
        if there is None:
            outcome = await self._writes.edit(workspace, create, params.timeout_ms)
            return _describe_topic(workspace, outcome, "added", near)
        if params.on_similar == "report":
            change = topics.TopicChange(path=there.path, digest=there.digest, is_changed=False)
            return _describe_topic(workspace, EditOutcome(answer=change), "reported", near)
        outcome = await self._writes.edit(workspace, decide(into=there.path), params.timeout_ms)
        return _describe_topic(workspace, outcome, "appended", near)

    async def _patch(
        self, session: Session, params: protocol.TopicPatchParams
    ) -> protocol.TopicWritten:
        workspace = await self._find_open(params.workspace)
        make = partial(
            topics.make_patch_decision,
            workspace,
            self._workspaces.config,
            params,
            **self._writes.stamp(session, params.client),
        )
        decide = await self._in_thread(make, disk_of=workspace)
        outcome: EditOutcome[topics.TopicChange] = await self._writes.edit(
            workspace, decide, params.timeout_ms
        )
        return _describe_topic(workspace, outcome, "changed", ())

    async def _archive(
        self, act: Any, session: Session, params: protocol.TopicArchiveParams
    ) -> Upkept:
        def plan(workspace: Workspace, config: Any, *more: Any) -> Any:
            return topics.plan_topics(workspace, config, act, *more)

        return await self._writes.keep_up(act, plan, session, params)

    async def _append(
        self, session: Session, params: protocol.FieldAppendParams
    ) -> protocol.FieldAppended:
        config, by = self._workspaces.config, self._writes.stamp(session, params.client)
        addition = topics.make_field_addition(config, params)
        workspace = await self._find_open(params.workspace)
        make = partial(topics.make_append_decision, workspace, config, params, **by)
        decide = await self._in_thread(make, disk_of=workspace)
        find = partial(topics.find_near, texts=[params.content])
        near = await self._writes.find_near(workspace, find, params.on_similar)
        there = topics.choose_near(workspace, config, near, params.on_similar)
        action: WriteAction = "added"
        if there is not None and params.on_similar == "report":
            return _report_field(workspace, near)
        if there is not None:
            action = "appended"
            decide = topics.make_append_there_decision(
                workspace, config, addition, there, command="field.append", **by
            )
        outcome: EditOutcome[topics.FieldWritten] = await self._writes.edit(
            workspace, decide, params.timeout_ms
        )
        return protocol.FieldAppended(
            **asdict(outcome.answer),
            action=action,
            similar=near,
            **describe_write(workspace, outcome),
        )


def _read_counted(read: Callable[..., T], workspace: Workspace, *given: Any, now_s: float) -> T:
    """Read with the counts of accesses."""
    return read(workspace, *given, now_s=now_s, accesses=count_accesses(workspace))


def _describe_topic(
    workspace: Workspace,
    outcome: EditOutcome[topics.TopicChange],
    action: WriteAction,
    near: Sequence[SimilarSection],
) -> protocol.TopicWritten:
    change = outcome.answer
    is_written = change.is_changed or action == "reported"
    return protocol.TopicWritten(
        path=change.path,
        digest=change.digest,
        action=action if is_written else "unchanged",
        fields=list(change.fields),
        similar=list(near),
        **describe_write(workspace, outcome),
    )


def _report_field(workspace: Workspace, near: Sequence[SimilarSection]) -> protocol.FieldAppended:
    """The answer that names what says nearly the same; nothing is written."""
    return protocol.FieldAppended(
        n_values=0,
        n_dropped=0,
        **asdict(make_place(near[0])),
        action="reported",
        similar=list(near),
        **describe_write(workspace, EditOutcome(answer=None)),
    )
