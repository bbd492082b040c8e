"""Tells how fresh a workspace's index is. Costs microseconds: every answer to a client says it."""

from __future__ import annotations

from dataclasses import dataclass

from memsyncd.core.changes.freshness import describe_overdue
from memsyncd.engine.policies import SyncPolicy
from memsyncd.engine.workspaces import STALL_FAULT, State, Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Freshness:
    """`pending` is at least the number of paths that events announced and no scan has looked at yet.

    `state` is `ready` only if no scan is overdue. `overdue` and `stall` say in words why it is not.
    """

    state: State
    pending: int
    overdue: str
    stall: str


def read_freshness(workspace: Workspace, policy: SyncPolicy, *, now_s: float) -> Freshness:
    """`now_s` is of the clock that never goes back."""
    condition = workspace.condition
    state, overdue = condition.state, ""
    if policy.is_enabled and state in ("ready", "degraded"):
        overdue = describe_overdue(condition.scanned_s, now_s, policy.reconcile_s)
    if overdue and state == "ready":
        state = "degraded"
    stall = condition.faults.get(STALL_FAULT, "")
    return Freshness(state=state, pending=workspace.pending, overdue=overdue, stall=stall)
