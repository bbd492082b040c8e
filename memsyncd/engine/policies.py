"""What may be set about syncing, searching, writing and what is kept of it? Values that the daemon
makes of the configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from memsyncd.core.editing.additions import DEFAULT_KINDS, OTHER_KINDS, KindDefaults
from memsyncd.core.guard.warnings import DEFAULT_GUARD, GuardPolicy
from memsyncd.core.markdown.chunks import ChunkPolicy
from memsyncd.core.search.ranking import NO_BOOSTS, Boosts, RankingPolicy


class Clock(msgspec.Struct, frozen=True, kw_only=True):
    """Where time comes from.

    `now_s` never goes back, `wall_ns` is nanoseconds since 1970 and may; `asleep_s` is how long the
    machine has slept, in all.
    """

    now_s: Callable[[], float]
    wall_ns: Callable[[], int]
    asleep_s: Callable[[], float] = float

    def wall_s(self) -> float:
        return self.wall_ns() / 1e9


class HistoryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Whether it is kept what notes said before: the last `max_revisions` changes of each, none
    older than `max_age_s`.
    """

    is_enabled: bool = True
    max_revisions: int = 100
    max_age_s: float = 90 * 86_400.0


class RememberPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Where a memory goes by its kind, unless the writer says. Kinds are in lower case."""

    kinds: Mapping[str, KindDefaults] = msgspec.field(default_factory=lambda: DEFAULT_KINDS)

    def find_note(self, kind: str | None) -> str:
        """The path of the note that takes this kind, or none."""
        return self.kinds.get((kind or "").lower(), OTHER_KINDS).note


class SyncPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How saved notes reach the index, and what is kept of what they said."""

    is_enabled: bool = True
    is_on_change: bool = True
    quiet_s: float = 0.1
    max_wait_s: float = 1.0
    delete_grace_s: float = 1.5
    reconcile_s: float = 30.0
    max_file_bytes: int = 2 * 1024 * 1024
    chunking: ChunkPolicy = msgspec.field(default_factory=ChunkPolicy)
    guard: GuardPolicy = DEFAULT_GUARD
    history: HistoryPolicy = msgspec.field(default_factory=HistoryPolicy)
    kinds: RememberPolicy = msgspec.field(default_factory=RememberPolicy)


class SearchPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """What a search does that does not say otherwise."""

    max_results: int = 10
    passage_tokens: int = 400
    min_score: float = 0.0
    timeout_s: float = 1.0
    ranking: RankingPolicy = msgspec.field(default_factory=RankingPolicy)
    leanings: Boosts = NO_BOOSTS
    is_masking: bool = True
    """Are secrets masked in what is shown?"""
