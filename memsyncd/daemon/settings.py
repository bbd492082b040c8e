"""Convert the configuration to the policies of the engine and the limits of the server."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable
from functools import partial

from memsyncd.config import Config
from memsyncd.engine.policies import HistoryPolicy, RememberPolicy, SearchPolicy, SyncPolicy
from memsyncd.engine.registry import FolderCheck, Registry
from memsyncd.engine.worker import call_within
from memsyncd.engine.workspace import Entry
from memsyncd.engine.workspaces import Workspaces
from memsyncd.errors import BadConfig, BadRequest, Busy, MemsyncdError
from memsyncd.files.scope import make_root
from memsyncd.server.limits import Limits
from memsyncd.server.sockets import check_outside

DISK_S, ADD_S = 0.5, 5.0
"""How long each folder of the configuration, and one that is to be added, is waited for: a disk may not answer."""


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
            root = call_within(DISK_S, partial(make_root, os.path.expanduser(row.path)), None)
            is_answering = root is not None
            entry = registry.make_entry(
                row.path,
                name=row.name,
                include=row.include,
                exclude=row.exclude,
                links=row.allow_links_to,
                # A disk that does not answer keeps no daemon from starting: the path is taken for a real one.
                seen=root or make_root(os.path.expanduser(row.path), is_real=True),
            )
        except BadRequest as failure:
            raise BadConfig(f"workspace {row.path}: {failure.message}", hint=failure.hint) from failure
        refusal = call_within(DISK_S, partial(_find_refusal, registry, entry), None) if is_answering else None
        if refusal is not None:
            raise BadConfig(f"workspace {row.path}: {refusal.message}", hint=refusal.hint)
        entries.append(dataclasses.replace(entry, source="config"))
    return entries


def check_roots(socket: str, roots: Iterable[str]) -> None:
    """As `check_outside`, of each folder that answers in time."""
    for root in roots:
        call_within(DISK_S, partial(check_outside, socket, [root]), None)


def look_at_new(house: Workspaces, path: str) -> FolderCheck:
    """As `House.see_folder`, before the loop turns. Raises Busy if a disk does not answer."""
    seen = call_within(ADD_S, partial(house.check_folder, path, ()), None)
    if seen is None:
        hint = "start without it, and once its disk answers: memsyncd add PATH"
        raise Busy(f"the disk under {path}, or one that another workspace lies on, does not answer", hint=hint)
    return seen


def _find_refusal(registry: Registry, entry: Entry) -> MemsyncdError | None:
    return registry.find_refusal(entry) if os.path.exists(entry.root) else None
