"""Which keys does the configuration have, with what bounds and defaults?

Each section is a struct, each key a field whose type holds its bounds. How they are read is left to `memsyncd.config.load`,
what they do to those who take them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta, Struct

if TYPE_CHECKING:
    from collections.abc import Iterator

KIB = 1024
MIB = 1024 * KIB
ENV_PREFIX = "MEMSYNCD_"


class SyncConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How saved notes reach the index."""

    enabled: bool = True
    sync_on_change: bool = True
    debounce_ms: Annotated[int, Meta(ge=0, le=60_000)] = 100
    max_wait_ms: Annotated[int, Meta(ge=0, le=600_000)] = 1000
    delete_grace_ms: Annotated[int, Meta(ge=0, le=600_000)] = 1500
    reconcile_s: Annotated[float, Meta(ge=0.05, le=86_400)] = 30.0
    max_file_bytes: Annotated[int, Meta(ge=KIB, le=256 * MIB)] = 2 * MIB


class ChunkingConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How sections are cut into chunks. Both are tokens, at 4 characters each; a change rebuilds the index."""

    max_tokens: Annotated[int, Meta(ge=20, le=8000)] = 120
    overlap: Annotated[int, Meta(ge=0, le=8000)] = 70


class SearchConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a search does that does not say otherwise."""

    max_results: Annotated[int, Meta(ge=1, le=200)] = 10
    passage_tokens: Annotated[int, Meta(ge=20, le=8000)] = 400
    min_score: Annotated[float, Meta(ge=0.0, le=1.0)] = 0.0
    timeout_ms: Annotated[int, Meta(ge=1, le=600_000)] = 1000
    importance: Annotated[float, Meta(ge=0.0, le=0.1)] = 0.0
    recency: Annotated[float, Meta(ge=0.0, le=0.1)] = 0.0
    decay: Annotated[float, Meta(ge=0.0, le=0.1)] = 0.0
    half_life_days: Annotated[float, Meta(ge=0.1, le=36_500)] = 30.0


class GuardConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is done about secrets in notes, and about text that instructs its reader. Off or on rebuilds the index."""

    secrets: Literal["mask", "flag", "off"] = "mask"
    instructions: Literal["flag", "off"] = "flag"


class HistoryConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is kept of what notes said before. `max_revisions` is per note."""

    enabled: bool = True
    max_revisions: Annotated[int, Meta(ge=1, le=100_000)] = 100
    max_age_days: Annotated[float, Meta(ge=0.01, le=36_500)] = 90.0


class SocketConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where clients connect, and how much one of them may take. `path` is empty for the usual place."""

    path: str = ""
    max_clients: Annotated[int, Meta(ge=1, le=10_000)] = 256
    max_line_bytes: Annotated[int, Meta(ge=4 * KIB, le=64 * MIB)] = 4 * MIB
    max_running: Annotated[int, Meta(ge=1, le=256)] = 8
    max_write_buffer_bytes: Annotated[int, Meta(ge=64 * KIB, le=1024 * MIB)] = 8 * MIB
    line_timeout_s: Annotated[float, Meta(ge=0.05, le=3600)] = 10.0


class LogConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the daemon says to stderr. `auto` is short lines on a terminal and JSON elsewhere."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["auto", "json", "console"] = "auto"


class KindConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One kind of memory: the note it goes to, beneath a workspace's root, and how important it is unless the writer says."""

    name: Annotated[str, Meta(min_length=1, max_length=100)]
    note: Annotated[str, Meta(min_length=1)]
    importance: Annotated[float, Meta(ge=0.0, le=1.0)]


class WorkspaceConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One folder with memory. `path` is absolute, `~` expanded; it need not exist. `name` is empty for the folder's own."""

    path: Annotated[str, Meta(min_length=1)]
    name: str = ""
    include: tuple[Annotated[str, Meta(min_length=1)], ...] = ()
    exclude: tuple[Annotated[str, Meta(min_length=1)], ...] = ()
    allow_links_to: tuple[Annotated[str, Meta(min_length=1)], ...] = ()


class Config(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All of it. Two are equal if they mean the same."""

    sync: SyncConfig = SyncConfig()
    chunking: ChunkingConfig = ChunkingConfig()
    search: SearchConfig = SearchConfig()
    guard: GuardConfig = GuardConfig()
    history: HistoryConfig = HistoryConfig()
    socket: SocketConfig = SocketConfig()
    log: LogConfig = LogConfig()
    kind: tuple[KindConfig, ...] = ()
    workspace: tuple[WorkspaceConfig, ...] = ()


SECTIONS: dict[str, type[Struct]] = {
    "sync": SyncConfig,
    "chunking": ChunkingConfig,
    "search": SearchConfig,
    "guard": GuardConfig,
    "history": HistoryConfig,
    "socket": SocketConfig,
    "log": LogConfig,
}
ARRAYS: dict[str, type[Struct]] = {"kind": KindConfig, "workspace": WorkspaceConfig}
"""Tables that may stand more than once, in double brackets; no variable wins over these."""
RESTART_KEYS = frozenset(f"socket.{field.name}" for field in msgspec.structs.fields(SocketConfig))
"""What a running daemon cannot change by reading its configuration again."""


def find_changed_keys(old: Config, new: Config) -> tuple[str, ...]:
    """Keys whose values differ, `kind` or `workspace` for any difference in those; to be said when a changed file is read."""
    changed = [
        f"{section}.{field.name}"
        for section, kind in SECTIONS.items()
        for field in msgspec.structs.fields(kind)
        if getattr(getattr(old, section), field.name) != getattr(getattr(new, section), field.name)
    ]
    return (*changed, *(name for name in ARRAYS if getattr(old, name) != getattr(new, name)))


def find_keys() -> Iterator[tuple[str, object]]:
    """Every key that has an environment twin, as `section.key`, with its default."""
    for section, kind in SECTIONS.items():
        for field in msgspec.structs.fields(kind):
            yield f"{section}.{field.name}", field.default


def env_twin(key: str) -> str:
    """The variable that wins over `section.key`."""
    return ENV_PREFIX + key.replace(".", "_").upper()
