"""Status and freshness of workspaces."""

from __future__ import annotations

from pathlib import Path

from memsyncd.config import Config
from memsyncd.engine.workspace import Entry, Workspace
from memsyncd.operations.status.run import describe_status
from memsyncd.operations.workspace_info import describe_freshness
from memsyncd.watch.health import WatchHealth

NOW_S = 100.0


def make_workspace(tmp_path: Path, **condition: object) -> Workspace:
    entry = Entry(id="notes-1", name="notes", root=str(tmp_path))
    made = Workspace(
        entry, Config(), index_path=tmp_path / "index.db", records_path=tmp_path / "records.db"
    )
    made.change(is_indexing=False, scanned_s=NOW_S, **condition)
    return made


def test_status_reports_the_progress_of_a_long_sync_and_no_overdue_scan(tmp_path: Path) -> None:
    health = WatchHealth(mode="events", observer="inotify")
    long_ago = {"scanned_s": NOW_S - 500, "pending": 1000, "n_to_sync": 4000}
    syncing = make_workspace(tmp_path)
    syncing.change(progressed_s=NOW_S - 1, **long_ago)
    status = describe_status(syncing, health, Config(), now_s=NOW_S)
    assert (status.state, status.pending) == ("ready", 1000)
    assert status.reasons == ["syncing: 3,000 of 4,000 notes"]
    syncing.change(progressed_s=NOW_S - 400)
    status = describe_status(syncing, health, Config(), now_s=NOW_S)
    assert status.state == "degraded"
    assert status.reasons == [
        "syncing: 3,000 of 4,000 notes",
        "the last full scan began 500 s ago; a full scan is due every 30 s",
    ]


def test_status_and_freshness_report_the_progress_of_recording(tmp_path: Path) -> None:
    health = WatchHealth(mode="events", observer="inotify")
    recording = make_workspace(tmp_path, n_unrecorded=28_000, n_to_record=40_000)
    status = describe_status(recording, health, Config(), now_s=NOW_S)
    assert (status.state, status.unrecorded) == ("ready", 28_000)
    assert status.reasons == ["history: recording 12,000 of 40,000 notes"]
    assert describe_freshness([recording, recording], Config(), now_s=NOW_S).unrecorded == 56_000
    done = make_workspace(tmp_path, n_to_record=40_000)
    assert describe_status(done, health, Config(), now_s=NOW_S).reasons == []
    assert describe_freshness([done], Config(), now_s=NOW_S).unrecorded == 0
