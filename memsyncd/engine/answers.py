"""Note what hooks and tools have answered to agents, and store it.

An answer is only noted in memory, on the event loop, after it was sent. The job that stores noted
accesses stores it some seconds later, so that it costs no agent any time. If it cannot be stored,
as on a full disk, it is kept in memory with the last NOTED_MOST others and tried again.
"""

from __future__ import annotations

from collections import deque

from msgspec.structs import replace

from memsyncd.config import AgentsConfig
from memsyncd.core.guard.secrets import redact
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import MemsyncdError
from memsyncd.files.scope import Scope
from memsyncd.operations.agents.declare import AgentAnswer, AnswerSection

MOST_SECTIONS = 100
"""The most sections of an answer that are kept; the others are counted."""
MOST_QUERY_CHARS = 2_000


def note_answer(workspace: Workspace, config: AgentsConfig, answer: AgentAnswer) -> AgentAnswer:
    """Note an answer, and return it as it is kept: with an id of its own, with paths from the
    workspace's root, and without its query unless queries are kept.
    """
    sections = [_resolve(section, workspace) for section in answer.sections[:MOST_SECTIONS]]
    query = answer.query if config.prompts else None
    kept = replace(
        answer,
        sections=sections,
        unlisted=len(answer.sections) - len(sections),
        query=None if query is None else redact(query[:MOST_QUERY_CHARS]),
    )
    with workspace.answers.lock:
        id_ = max(round(answer.at * 1e6), workspace.answers.last_id + 1)
        workspace.answers.last_id = id_
        kept = replace(kept, id=id_, at=id_ / 1e6, summary=kept.sum_up())
        workspace.answers.noted.append(kept)
    return kept


def _resolve(section: AnswerSection, workspace: Workspace) -> AnswerSection:
    """Return a section with a path from the root; the memory tool names `/memories/…`."""
    # Imported late: it loads the parser of notes, which an idle daemon does not need.
    from memsyncd.core.editing.memory_tool import MEMORIES

    other = None if section.workspace == workspace.id else section.workspace
    if not section.path.startswith(f"{MEMORIES}/"):
        return replace(section, workspace=other)
    path = _find_path(section.path, workspace.scope)
    return replace(section, path=path, anchor=path, workspace=other)


def _find_path(path: str, scope: Scope) -> str:
    from memsyncd.core.editing.memory_tool import parse_memory_path

    try:
        note = parse_memory_path(path, scope.memory_dir).note
    except MemsyncdError:
        return path
    return path if note is None else note.text


def store_answers(workspace: Workspace, config: AgentsConfig) -> None:
    """Store the noted answers; on the worker's thread. Raises StoreFailed and Busy."""
    buffer = workspace.answers
    with buffer.lock:
        noted = list(buffer.noted)
    if not noted or workspace.records is None:
        return
    workspace.records.answers.add(
        noted, max_answers=config.max_answers, max_age_days=config.max_age_days
    )
    with buffer.lock:
        stored = {answer.id for answer in noted}
        left = [answer for answer in buffer.noted if answer.id not in stored]
        buffer.noted = deque(left, buffer.noted.maxlen)


def find_last_calls(workspace: Workspace) -> dict[str, int]:
    """Return the id of the last answer to each client, stored or noted; from any thread.

    The ids grow with time: microseconds since 1970.
    """
    records = workspace.records
    calls = {} if records is None else dict(records.answers.last_calls)
    with workspace.answers.lock:
        calls |= {answer.client: answer.id for answer in workspace.answers.noted}
    return calls
