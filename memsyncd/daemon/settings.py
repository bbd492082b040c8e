"""How does the configuration become what the rooms take? Section by section into their own small policies."""

from __future__ import annotations

import dataclasses
import os

from memsyncd.config import Config
from memsyncd.core.markdown.chunks import ChunkPolicy
from memsyncd.core.recall.leanings import Leanings
from memsyncd.engine.policies import SearchPolicy, SyncPolicy
from memsyncd.engine.registry import Registry
from memsyncd.engine.workspaces import Entry
from memsyncd.errors import BadConfig, BadRequest
from memsyncd.server.limits import Limits


def to_sync_policy(config: Config) -> SyncPolicy:
    sync, chunking = config.sync, config.chunking
    return SyncPolicy(
        is_enabled=sync.enabled,
        is_on_change=sync.sync_on_change,
        quiet_s=sync.debounce_ms / 1000,
        max_wait_s=sync.max_wait_ms / 1000,
        delete_grace_s=sync.delete_grace_ms / 1000,
        reconcile_s=sync.reconcile_s,
        max_file_bytes=sync.max_file_bytes,
        chunking=ChunkPolicy(max_tokens=chunking.max_tokens, overlap_tokens=chunking.overlap),
    )


def to_search_policy(config: Config) -> SearchPolicy:
    search = config.search
    return SearchPolicy(
        max_results=search.max_results,
        passage_tokens=search.passage_tokens,
        min_score=search.min_score,
        timeout_s=search.timeout_ms / 1000,
        leanings=Leanings(
            importance=search.importance,
            recency=search.recency,
            decay=search.decay,
            half_life_days=search.half_life_days,
        ),
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
    """The configured workspaces. One that is not there is waited for. Raises BadConfig for folders and globs that cannot be."""
    entries = []
    for row in config.workspace:
        try:
            entry = registry.make_entry(
                row.path, name=row.name, include=row.include, exclude=row.exclude, links=row.allow_links_to
            )
        except BadRequest as failure:
            raise BadConfig(f"workspace {row.path}: {failure.message}", hint=failure.hint) from failure
        refusal = registry.find_refusal(entry) if os.path.exists(entry.root) else None
        if refusal is not None:
            raise BadConfig(f"workspace {row.path}: {refusal.message}", hint=refusal.hint)
        entries.append(dataclasses.replace(entry, source="config"))
    return entries
