"""Convert the configuration to the policies of the engine and the limits of the server."""

from __future__ import annotations

import dataclasses
import os

from memsyncd.config import Config
from memsyncd.engine.policies import HistoryPolicy, RememberPolicy, SearchPolicy, SyncPolicy
from memsyncd.engine.registry import Registry
from memsyncd.engine.workspaces import Entry
from memsyncd.errors import BadConfig, BadRequest
from memsyncd.server.limits import Limits


def to_sync_policy(config: Config) -> SyncPolicy:
    sync = config.sync
    return SyncPolicy(
        is_enabled=sync.enabled,
        is_on_change=sync.sync_on_change,
        quiet_s=sync.debounce_s,
        max_wait_s=sync.max_wait_s,
        delete_grace_s=sync.delete_grace_s,
        reconcile_s=sync.reconcile_s,
        max_file_bytes=sync.max_file_bytes,
        chunking=config.chunking.policy,
        guard=config.guard.policy,
        history=to_history_policy(config),
        kinds=RememberPolicy(kinds=config.kinds),
    )


def to_history_policy(config: Config) -> HistoryPolicy:
    history = config.history
    return HistoryPolicy(
        is_enabled=history.enabled,
        max_revisions=history.max_revisions,
        max_age_s=history.max_age_s,
    )


def to_search_policy(config: Config) -> SearchPolicy:
    search = config.search
    return SearchPolicy(
        max_results=search.max_results,
        passage_tokens=search.passage_tokens,
        min_score=search.min_score,
        timeout_s=search.timeout_s,
        is_masking=config.guard.secrets == "mask",
        leanings=config.boosts,
    )


def to_limits(config: Config) -> Limits:
    socket = config.socket
    return Limits(
        max_clients=socket.max_clients,
        max_line_bytes=socket.max_line_bytes,
        max_running=socket.max_running,
        max_write_buffer_bytes=socket.max_write_buffer_bytes,
        line_timeout_s=socket.line_timeout_s,
    )


def to_entries(config: Config, registry: Registry) -> list[Entry]:
    """Return the configured workspaces, also those whose folder does not exist yet.

    Raises BadConfig for invalid folders and globs.
    """
    entries = []
    for row in config.workspace:
        try:
            entry = registry.make_entry(
                row.path,
                name=row.name,
                include=row.include,
                exclude=row.exclude,
                links=row.allow_links_to,
            )
        except BadRequest as failure:
            raise BadConfig(
                f"workspace {row.path}: {failure.message}", hint=failure.hint
            ) from failure
        refusal = registry.find_refusal(entry) if os.path.exists(entry.root) else None
        if refusal is not None:
            raise BadConfig(f"workspace {row.path}: {refusal.message}", hint=refusal.hint)
        entries.append(dataclasses.replace(entry, source="config"))
    return entries
