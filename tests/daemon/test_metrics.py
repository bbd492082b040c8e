"""Counters of a real daemon that is queried and written to, compared with what the system reports
of its process.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from memsyncd.errors import MemsyncdError
from tests.daemon.conftest import wait_until
from tests.proc import count_watches, list_names, read_file
from tests.protocol.test_metrics import check_histograms, read

is_linux = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
SECRET = "quokkasecret"


@pytest.fixture(scope="module")
def home(make_home: Callable[..., Any]) -> Any:
    return make_home('[log]\nlevel = "debug"\n')


@pytest.fixture
def ask(daemon: Any) -> Iterator[Callable[[], dict[str, Any]]]:
    with daemon.client() as client:
        yield lambda: dict(client.call("metrics"))


def of_workspace(metrics: dict[str, Any], place: Any) -> dict[str, Any]:
    (found,) = [workspace for workspace in metrics["workspaces"] if workspace["id"] == place.id]
    return dict(found)


def of_method(metrics: dict[str, Any], method: str) -> dict[str, Any]:
    nothing = {"answered": {"total": 0}, "failed_total": {}, "abandoned_total": 0}
    return next(
        (request for request in metrics["requests"] if request["method"] == method), nothing
    )


def test_a_save_a_rename_and_a_removal_are_counted(
    place: Any, ask: Callable[[], dict[str, Any]]
) -> None:
    before, events_before = of_workspace(ask(), place), ask()["watcher"]["events_total"]
    note = place.root / ".memories" / "one.md"
    note.write_text("# One\n\nalder\n")
    place.wait_found("alder", ".memories/one.md")
    note.write_text("# One\n\nbirch\n")
    place.wait_found("birch", ".memories/one.md")
    note.rename(note.with_name("two.md"))
    place.wait_found("birch", ".memories/two.md")
    note.with_name("two.md").unlink()
    place.wait_found("birch")
    grown: dict[str, int] = {}

    def is_counted() -> bool:
        now = of_workspace(ask(), place)["notes_total"]
        grown.update({change: n - before["notes_total"][change] for change, n in now.items()})
        # On a busy machine the two halves of a rename may be seen separately.
        return grown["added"] + grown["moved"] == 2 and grown["removed"] == grown["added"]

    # A search sees a change before it is counted.
    wait_until(is_counted, "the changes are not counted")
    after = of_workspace(ask(), place)
    assert ask()["watcher"]["events_total"] > events_before
    assert grown["modified"] >= 1, grown
    assert after["changing_syncs_total"] - before["changing_syncs_total"] >= 4
    assert after["syncs"]["total"] - before["syncs"]["total"] >= 4
    assert after["chunks_total"]["upserted"] > before["chunks_total"]["upserted"]
    assert (after["files"], after["state"], after["is_watched"]) == (2, "ready", True)
    assert (after["failed_syncs_total"], after["missed_events_total"], after["rebuilds_total"]) == (
        0,
        0,
        0,
    )


def test_writes_and_all_revisions_are_counted(
    place: Any, ask: Callable[[], dict[str, Any]]
) -> None:
    place.wait(
        lambda: of_workspace(ask(), place)["revisions_total"] == 0,
        "notes of the first recording are not revisions",
    )
    place.client.call("note.add", content="elm", note="trees", workspace=place.id)
    place.wait(lambda: of_workspace(ask(), place)["writes_total"] == 1, "a write was not counted")
    # An empty note would be a revision too.
    place.save(".memories/trees.md", "# Trees\n\nfir\n")
    place.wait(
        lambda: of_workspace(ask(), place)["revisions_total"] == 2,
        "what others write is a revision too",
    )
    assert of_workspace(ask(), place)["writes_total"] == 1
    with pytest.raises(MemsyncdError):
        place.client.call(
            "memory", command="create", path="/etc/passwd", file_text="x", workspace=place.id
        )
    assert of_workspace(ask(), place)["writes_total"] == 1


def test_a_rebuild_is_counted_and_counters_of_a_removed_workspace_are_dropped(
    place: Any, ask: Callable[[], dict[str, Any]]
) -> None:
    (place.root / ".memories" / "away.md").symlink_to("/etc/hostname")
    (place.root / ".memories" / "gone.md").symlink_to("nowhere.md")
    place.client.call("sync", workspace=place.id)
    before = of_workspace(ask(), place)
    place.client.call("sync", rebuild=True, workspace=place.id)
    nothing = {"requests_running": 0, "requests_waiting": 0, "in_threads": 0, "worker_jobs": 0}
    place.wait(lambda: ask()["queue"] == nothing, "something goes on")
    after = of_workspace(ask(), place)
    assert (after["skipped_files"], after["rebuilds_total"]) == (2, 1)
    assert after["notes_total"] == before["notes_total"]
    assert after["chunks_total"]["upserted"] > before["chunks_total"]["upserted"]
    place.close()
    assert place.id not in [workspace["id"] for workspace in ask()["workspaces"]]


def test_requests_are_counted_by_method_code_and_time(
    place: Any, ask: Callable[[], dict[str, Any]]
) -> None:
    before = ask()
    for _ in range(5):
        place.find("keepsake")
    with pytest.raises(MemsyncdError):
        place.client.call("get", path="none.md", workspace=place.id)
    after = ask()
    search = of_method(after, "search")["answered"]
    assert search["total"] - of_method(before, "search")["answered"]["total"] == 5
    assert 0 < search["p50_ms"] <= search["p95_ms"] <= search["p99_ms"] <= search["longest_ms"]
    bounds, counts = zip(*search["buckets"], strict=True)
    assert (list(bounds), list(counts)) == (sorted(bounds), sorted(counts))
    n_missing = of_method(before, "get")["failed_total"].get("note_not_found", 0)
    assert of_method(after, "get")["failed_total"]["note_not_found"] == n_missing + 1
    assert after["clients"]["connected"] >= 2


@is_linux
def test_process_metrics_equal_those_of_the_system(
    place: Any, ask: Callable[[], dict[str, Any]]
) -> None:
    pid = place.daemon.process.pid

    def check() -> tuple[int, int, int]:
        n_threads, n_fds = len(list_names(pid, "task")), len(list_names(pid, "fd"))
        return n_threads, n_fds, count_watches(pid)

    def is_so() -> bool:
        reported = ask()
        return check() == (
            reported["process"]["threads"],
            reported["process"]["fds"],
            reported["watcher"]["watches"],
        )

    place.wait(is_so, "threads, descriptors or watches differ")
    process = ask()["process"]
    rss_bytes = int(read_file(f"/proc/{pid}/statm").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    assert abs(process["rss_bytes"] - rss_bytes) < rss_bytes / 4
    assert process["cpu_s_total"] > 0
    assert process["lost_log_lines_total"] == 0


@is_linux
def test_metrics_work_without_a_free_descriptor(
    place: Any, ask: Callable[[], dict[str, Any]]
) -> None:
    place.wait(lambda: ask()["queue"]["worker_jobs"] == 0, "something goes on")
    pid = place.daemon.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, before[1]))
    try:
        process, status = ask()["process"], place.status()
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
    assert (process["fds"], process["max_fds"]) == (3, 3)
    assert process["rss_bytes"] > 0
    assert status["generation"] > 0


def test_the_text_has_the_same_values_and_keeps_to_the_format(place: Any) -> None:
    with pytest.raises(MemsyncdError):
        place.client.call("search", query="x", limit=0)
    text = place.client.call("metrics", text=True)["text"]
    assert f'memsyncd_notes{{workspace="{place.id}"}} 2\n' in text
    assert "text" not in place.client.call("metrics")
    samples = read(text)
    check_histograms(samples)
    refused = (("method", "search"), ("code", "bad_request"))
    assert samples["memsyncd_requests_failed_total"][refused] >= 1


def test_a_refused_request_counts_for_its_method_if_the_method_exists(
    place: Any, ask: Callable[[], dict[str, Any]]
) -> None:
    def count() -> list[int]:
        metrics = ask()
        return [
            of_method(metrics, name)["failed_total"].get("bad_request", 0)
            for name in ("list", "invalid", SECRET)
        ]

    before = count()
    for method, params in (("list", {"bogus": 1}), (SECRET, {})):
        with pytest.raises(MemsyncdError):
            place.client.call(method, **params)
    assert [after - n for after, n in zip(count(), before, strict=True)] == [1, 1, 0]


def test_counters_never_shrink_after_a_change_of_the_configuration(
    place: Any,
) -> None:
    def read_growing() -> dict[tuple[str, Any], float]:
        samples = read(place.client.call("metrics", text=True)["text"])
        growing = [
            name
            for name in samples
            if name.endswith(("_total", "_bucket", "_count", "_sum", "_generation"))
        ]
        return {
            (name, labels): value for name in growing for labels, value in samples[name].items()
        }

    place.client.call("sync", rebuild=True, workspace=place.id)
    (place.root / ".memories" / "elm.md").write_text("elm")
    place.wait_found("elm", ".memories/elm.md")
    place.client.call("note.add", content="ash", note="trees", workspace=place.id)
    place.wait(
        lambda: place.client.call("metrics")["queue"]["worker_jobs"] == 0, "something goes on"
    )
    before = read_growing()
    assert before["memsyncd_index_rebuilds_total", (("workspace", place.id),)] == 1
    assert before["memsyncd_revisions_total", (("workspace", place.id),)] >= 1
    # Notes are parsed differently from now on, so each workspace is opened again.
    config, was = place.home.config, place.home.config.read_text()
    config.write_text(f"{was}[chunking]\nmax_tokens = 90\n")
    place.daemon.process.send_signal(signal.SIGHUP)
    try:
        place.wait(
            lambda: place.client.call("metrics")["workspaces"][-1]["rebuilds_total"] >= 1,
            "it was not opened again",
        )
        place.wait_found("ash", ".memories/trees.md")
        after = read_growing()
        assert {
            key: (value, after.get(key))
            for key, value in before.items()
            if after.get(key, -1.0) < value
        } == {}
    finally:
        config.write_text(was)
        place.daemon.process.send_signal(signal.SIGHUP)


def test_each_sync_and_each_request_has_one_line_with_its_duration(
    place: Any, ask: Callable[[], dict[str, Any]]
) -> None:
    for number in range(3):
        (place.root / "MEMORY.md").write_text(f"# Memory\n\nversion{number}\n")
        place.wait_found(f"version{number}", "MEMORY.md")
        place.client.call("sync", workspace=place.id)
        with pytest.raises(MemsyncdError):
            place.client.call("get", path="none.md", workspace=place.id)

    def is_each_logged() -> bool:
        # A request of this test is reported only once it is counted.
        metrics, lines = (
            ask(),
            [json.loads(line) for line in place.home.log.read_text().splitlines()],
        )
        requests = [line for line in lines if line["event"] in ("request_done", "request_failed")]
        syncs = [
            line for line in lines if line["event"] == "sync_done" and line["workspace"] == place.id
        ]
        assert all(line["duration_ms"] >= 0 for line in requests + syncs)
        n_requests = sum(
            request["answered"]["total"] + request["abandoned_total"]
            for request in metrics["requests"]
        )
        return (len(requests), len(syncs)) == (
            n_requests + 1,
            of_workspace(metrics, place)["syncs"]["total"],
        )

    place.wait(is_each_logged, "lines and counts differ")


def test_each_request_has_one_log_line_without_query_and_result(place: Any) -> None:
    (place.root / "MEMORY.md").write_text(f"# Memory\n\n{SECRET}\n")
    place.wait_found(SECRET, "MEMORY.md")
    place.client.call("context", query=SECRET, workspace=place.id)
    place.client.call("note.add", content=SECRET, workspace=place.id)
    for method, params in (
        ("get", {"path": f"{SECRET}.md"}),
        ("search", {"query": SECRET, "limit": 0}),
        (SECRET, {}),
    ):
        with pytest.raises(MemsyncdError):
            place.client.call(method, **params)
    log = place.home.log.read_text()
    assert "request_done" in log
    assert "request_failed" in log
    assert SECRET not in log
    assert log.count('"method": "context"') == 1
