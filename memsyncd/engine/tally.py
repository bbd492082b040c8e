"""What has been done for a workspace since it is looked after? Counted on the event loop, and only ever upwards."""

from __future__ import annotations

from dataclasses import dataclass, field

from memsyncd.core.histogram import DurationHistogram
from memsyncd.engine.sync import SyncDone


@dataclass(slots=True, kw_only=True)
class Tally:
    """Counts of what was done; what failed or was missed stands in the workspace's `Condition`."""

    syncs: DurationHistogram = field(default_factory=DurationHistogram)
    """All of them, also those that found nothing new."""
    n_changing_syncs: int = 0
    n_added: int = 0
    n_modified: int = 0
    n_moved: int = 0
    n_removed: int = 0
    n_upserted: int = 0
    n_deleted: int = 0
    n_writes: int = 0
    """Changes that somebody asked for and that were carried out, of one note or many."""

    def count_sync(self, done: SyncDone) -> None:
        self.syncs.add(done.duration_ms / 1000)
        self.n_changing_syncs += bool(done.paths)
        if not done.is_rebuild:
            self.n_added += len(done.added)
            self.n_modified += len(done.modified)
            self.n_moved += len(done.moved)
            self.n_removed += len(done.removed)
        self.n_upserted += done.n_upserted
        self.n_deleted += done.n_deleted
