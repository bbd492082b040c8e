"""What may be configured, and what is: TOML and environment turned into a frozen, checked Config."""

from memsyncd.config.keys import (
    RESTART_KEYS,
    ChunkingConfig,
    Config,
    GuardConfig,
    HistoryConfig,
    KindConfig,
    LogConfig,
    SearchConfig,
    SocketConfig,
    SyncConfig,
    WorkspaceConfig,
    env_twin,
    find_changed_keys,
    find_keys,
)
from memsyncd.config.load import Loaded, load_config
from memsyncd.config.render import render_config

__all__ = [
    "RESTART_KEYS",
    "ChunkingConfig",
    "Config",
    "GuardConfig",
    "HistoryConfig",
    "KindConfig",
    "Loaded",
    "LogConfig",
    "SearchConfig",
    "SocketConfig",
    "SyncConfig",
    "WorkspaceConfig",
    "env_twin",
    "find_changed_keys",
    "find_keys",
    "load_config",
    "render_config",
]
