"""Chooses between two texts of a memory that a merge has left as a conflict."""

from __future__ import annotations

from functools import partial

from memsyncd.config import Config
from memsyncd.core.editing.conflicts import settle_conflict
from memsyncd.core.markdown.parse import parse_note
from memsyncd.core.paths import NotePath
from memsyncd.engine.edit import check_digest, make_put
from memsyncd.engine.workspace import Workspace
from memsyncd.operations.call import Call, read_saved
from memsyncd.operations.memories.declare import ChooseParams, MemoriesSet
from memsyncd.operations.memories.run import MemoryPlan, answer_set, move_links
from memsyncd.operations.memories.selection import (
    WAY_OUT,
    describe_memory,
    find_named_memories,
    read_selected,
)
from memsyncd.operations.plans import carry_out


def plan_choice(workspace: Workspace, config: Config, params: ChooseParams) -> MemoryPlan:
    """Plan to keep one text of a conflict, or both. Raises EditRefused, NoteNotFound."""
    [(path, selected)] = find_named_memories(workspace, [params.anchor]).items()
    file = read_selected(workspace, config, path, selected)
    check_digest(params.if_digest, path, file)
    anchor = selected.anchors[0] or f"{path}#"
    settled = settle_conflict(path, file.data, anchor, params.keep)
    moved = {old: new for old, new in settled.anchors.items() if old != new}
    puts, links, data = move_links(workspace, path, settled.data, moved)
    put = make_put(workspace.scope, file.path, data, file, way_out=WAY_OUT)
    note = parse_note(NotePath(path), data, config.chunking)
    kept = [section for section in note.sections if section.anchor in settled.kept]
    items = (describe_memory(path, data, section, note.n_lines) for section in kept)
    return MemoryPlan(
        puts=(*puts, put), changed=tuple(items), unchanged=(), skipped=(), links=tuple(links)
    )


async def choose(call: Call, params: ChooseParams) -> MemoriesSet:
    workspace = await call.open()
    # A note that was merged a moment ago is found after a scan.
    await read_saved(call, partial(find_named_memories, workspace, [params.anchor]))
    plan = partial(plan_choice, workspace, call.config, params)
    outcome = await carry_out(call, "memory.choose", plan, is_applied=True)
    return answer_set(call, outcome, is_applied=True)
