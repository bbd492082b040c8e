"""Append the results of a step of a run."""

from __future__ import annotations

import msgspec

from memsyncd.config import CaptureConfig, Config
from memsyncd.core.editing.additions import (
    check_addition,
)
from memsyncd.core.editing.capture import StepResult, make_additions
from memsyncd.core.paths import (
    MEMORY_FOLDER,
)
from memsyncd.engine.additions import append_additions, choose_note
from memsyncd.engine.edit import Decide, Edit, EditOutcome
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import BadRequest
from memsyncd.operations.answers import AnswerSource, list_changed, make_answer
from memsyncd.operations.call import Call
from memsyncd.operations.capture.declare import Captured, CaptureParams
from memsyncd.operations.fields import AddedSection


def make_capture_decision(
    workspace: Workspace, config: Config, params: CaptureParams, *, client: str, at: str
) -> Decide[list[AddedSection]]:
    """Make the decision to append the results of a step, without texts that its notes have already.

    Raises BadRequest and PathRefused at once, not when the decision is carried out.
    """
    result = msgspec.convert(params, StepResult, from_attributes=True)
    additions = make_additions(result, config.steps)
    if not additions:
        raise BadRequest("capture: the artifacts are empty", hint="send text, or leave them out")
    for addition in additions:
        check_addition(addition)
    paths = [choose_note(workspace.scope, config, kind=addition.kind) for addition in additions]

    def decide() -> tuple[Edit, list[AddedSection]]:
        puts, added = append_additions(workspace, additions, paths, at, is_once=True)
        path = puts[0].path.text if puts else MEMORY_FOLDER
        return Edit(command="capture", client=client, path=path, operations=puts), added

    return decide


async def capture_step(call: Call, params: CaptureParams) -> Captured:
    if not (params.artifacts or params.answers or params.error is not None):
        raise BadRequest(
            "capture: there is nothing to write", hint="send artifacts, answers or an error"
        )
    if params.trigger and not _may_capture(call.config.capture, params.trigger):
        outcome: EditOutcome[list[AddedSection]] = EditOutcome(answer=[])
        return Captured(added=[], is_allowed=False, **call.describe_write(outcome))
    decide = make_capture_decision(call.workspace, call.config, params, **call.stamp)
    outcome = await call.edit(decide)
    captured = Captured(added=outcome.answer, is_allowed=True, **call.describe_write(outcome))
    if params.trigger and captured.added:
        agent = call.writer
        source = AnswerSource(client=agent, agent=agent, session=params.run_id or "")
        content = list_changed(captured.added)
        call.note_answer(
            make_answer(source, f"capture {params.trigger}", "", content, captured.change_set)
        )
    return captured


def _may_capture(config: CaptureConfig, trigger: str) -> bool:
    """True if the configuration lets a hook write after this event."""
    return {
        "failure": config.failures,
        "decision": config.decisions,
        "summary": config.summaries,
        "interview": config.interviews,
    }[trigger]
