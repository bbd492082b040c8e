"""Search workspaces by a query and filters."""

from __future__ import annotations

from msgspec.structs import replace

from memsyncd.config import Config
from memsyncd.engine.plan import (
    RunOptions,
    add_accesses,
    describe_query,
    make_search_plan,
    must_prepare,
    needs_accesses,
    read_query,
)
from memsyncd.engine.search import SearchPart, join_parts, search_part
from memsyncd.engine.workspace import Workspace
from memsyncd.operations.call import JoinedCall, Questions
from memsyncd.operations.search.declare import SearchAnswer, SearchParams, list_anchors

# Each hit takes time to read, even if it was found fast.
MAX_QUICK_HITS = 20


def is_quick(params: SearchParams, config: Config) -> bool:
    """True if most such searches are so short that the event loop may try them."""
    n_hits = params.limit or config.search.max_results
    is_ordered = params.sort != "relevance" or bool(params.follow)
    is_known = not needs_accesses(params) and not must_prepare(params.query)
    return n_hits <= MAX_QUICK_HITS and not is_ordered and is_known


def answer_search(call: JoinedCall, params: SearchParams) -> Questions[SearchPart, SearchAnswer]:
    """Search each workspace, and join the hits of all."""
    config, workspaces, options = call.config, call.workspaces, call.options
    if len(workspaces) == 1:
        options = add_accesses(workspaces[0], params, options)
    request, options = read_query(workspaces, params, config, options)
    plan = make_search_plan(request, config, options)

    def read(workspace: Workspace, limits: RunOptions) -> SearchPart:
        own_plan = plan
        if limits.is_hurried:
            own_plan = plan.hurry(limits.limit_s(request, config))
        elif limits is not call.options:
            limits = replace(
                add_accesses(workspace, request, limits),
                within=call.list_shared(workspace),
                commands=options.commands,
            )
            own_plan = make_search_plan(request, config, limits)
        return search_part(workspace, own_plan, request, config, is_merged=len(workspaces) > 1)

    parts = () if plan.is_empty else (yield read)
    explained = [
        part.workspace
        for part in parts
        if part.error is None and not call.list_shared(part.workspace)
    ]
    values = [part.value for part in parts if part.value is not None]
    answer = join_parts(values, workspaces if plan.is_empty else explained, plan, request, config)
    if params.track_access:
        call.note_accesses(
            [(hit.workspace, anchor) for hit in answer.hits for anchor in list_anchors(hit)]
        )
    return replace(answer, **describe_query(params, options.now_s))
