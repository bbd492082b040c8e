"""The configuration: TOML and environment variables, checked and turned into a frozen Config."""

from memsyncd.config.load import Loaded, load_config, render_config
from memsyncd.config.schema import (
    RESTART_KEYS,
    CaptureConfig,
    ChunkingConfig,
    Config,
    GuardConfig,
    HistoryConfig,
    LogConfig,
    MemoryConfig,
    SearchConfig,
    SocketConfig,
    StepConfig,
    SyncConfig,
    WorkspaceConfig,
    env_variable,
    find_changed_keys,
    find_keys,
)

__all__ = [
    "RESTART_KEYS",
    "CaptureConfig",
    "ChunkingConfig",
    "Config",
    "GuardConfig",
    "HistoryConfig",
    "Loaded",
    "LogConfig",
    "MemoryConfig",
    "SearchConfig",
    "SocketConfig",
    "StepConfig",
    "SyncConfig",
    "WorkspaceConfig",
    "env_variable",
    "find_changed_keys",
    "find_keys",
    "load_config",
    "render_config",
]
