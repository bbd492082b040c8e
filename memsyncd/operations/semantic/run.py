"""Describes how much of the workspaces semantic search covers, and has vectors made."""

from __future__ import annotations

from memsyncd.operations.daemon import Daemon
from memsyncd.operations.fields import WorkspaceParams
from memsyncd.operations.semantic.declare import (
    SemanticReport,
    SemanticWarmParams,
    VectorProcessInfo,
    WorkspaceVectorsInfo,
)
from memsyncd.operations.workspace_info import choose_workspaces


def describe_coverage(daemon: Daemon, params: WorkspaceParams) -> SemanticReport:
    """Describe the vectors of a workspace, or of all. Raises WorkspaceNotFound."""
    service = daemon.workspaces.vectors.service
    pids = service.pids
    return SemanticReport(
        enabled=daemon.workspaces.config.semantic.enabled,
        process=VectorProcessInfo(pid=pids[0], rss_bytes=daemon.facts.read_rss(pids[0]))
        if pids
        else None,
        workspaces=[
            WorkspaceVectorsInfo(
                workspace=workspace.id,
                name=workspace.entry.name,
                semantic=workspace.vectors.status(),
            )
            for workspace in choose_workspaces(daemon.workspaces, params.workspace)
        ],
        reason=(service.is_enabled and service.off_reason) or None,
    )


def warm(daemon: Daemon, params: SemanticWarmParams) -> SemanticReport:
    """Begin to make the missing vectors of a workspace, or of all, and describe the progress."""
    vectors = daemon.workspaces.vectors
    vectors.retry()
    for workspace in choose_workspaces(daemon.workspaces, params.workspace):
        vectors.refresh(workspace, is_asked=True, is_again=params.again)
    return describe_coverage(daemon, WorkspaceParams(workspace=params.workspace))
