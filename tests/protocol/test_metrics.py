"""The text follows the grammar of Prometheus's format."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.operations.status.declare import (
    ClientMetrics,
    Durations,
    MetricsResult,
    ProcessMetrics,
    QueueMetrics,
    RequestMetrics,
    WatcherMetrics,
    WorkspaceMetrics,
)
from memsyncd.operations.status.text import render_metrics

SAMPLE = re.compile(
    r'(?P<name>[a-z_]+)(?:\{(?P<labels>(?:[a-z]+="(?:[^"\\\n]|\\["\\n])*",?)+)\})? (?P<value>-?[0-9.e+-]+)'
)
LABEL = re.compile(r'([a-z]+)="((?:[^"\\\n]|\\["\\n])*)"')
TOOK = Durations(
    total=3,
    sum_s=0.75,
    p50_ms=2.0,
    p95_ms=600.0,
    p99_ms=640.0,
    longest_ms=700.0,
    buckets=[(0.005, 2), (0.5, 2), (10.0, 3)],
)


def make_workspace(**fields: object) -> WorkspaceMetrics:
    plain: dict[str, object] = dict.fromkeys(WorkspaceMetrics.__struct_fields__, 1)
    plain |= {"id": "notes-1", "name": "notes", "state": "ready", "is_watched": True, "syncs": TOOK}
    plain |= {
        "last_sync_at": 1700000000.5,
        "notes_total": {"added": 2, "removed": 0},
        "chunks_total": {"upserted": 5},
    }
    return msgspec.convert(plain | fields, WorkspaceMetrics)


def make_metrics(**fields: object) -> MetricsResult:
    plain: dict[str, object] = {
        "version": "1.2.3",
        "started_at": 1700000000.0,
        "uptime_s": 12.0,
        "process": ProcessMetrics(
            rss_bytes=33_000_000,
            cpu_s_total=0.25,
            index_workers=1,
            index_workers_rss_bytes=44_000_000,
            threads=7,
            fds=20,
            max_fds=1024,
            lost_log_lines_total=0,
        ),
        "clients": ClientMetrics(connected=2, accepted_total=9, refused_total=1, dropped_total=0),
        "queue": QueueMetrics(requests_running=1, requests_waiting=0, in_threads=0, worker_jobs=4),
        "watcher": WatcherMetrics(
            watches=3, events_total=40, events_lost_total=0, rebuilds_total=0
        ),
        "requests": [
            RequestMetrics(
                method="search", answered=TOOK, failed_total={"timeout": 1}, abandoned_total=2
            )
        ],
        "workspaces": [make_workspace()],
    }
    return MetricsResult(**plain | fields)  # type: ignore[arg-type]


def read(text: str) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """Return the samples by name and labels. Fails if the text is not in the format."""
    kinds: dict[str, str] = {}
    samples: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    family, has_help = "", ""
    assert text.endswith("\n")
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            has_help = line.split(" ")[2]
            assert has_help not in kinds, f"{has_help} stands in two places"
        elif line.startswith("# TYPE "):
            family, kind = line.split(" ")[2:]
            assert (family, kind in ("counter", "gauge", "histogram")) == (has_help, True)
            kinds[family] = kind
        else:
            match = SAMPLE.fullmatch(line)
            assert match is not None, line
            name = match["name"]
            suffix = "(?:_bucket|_sum|_count)" if kinds[family] == "histogram" else ""
            assert re.fullmatch(family + suffix, name), line
            assert (kinds[family] == "counter") == name.endswith("_total"), line
            labels = tuple(LABEL.findall(match["labels"] or ""))
            assert labels not in samples.setdefault(name, {}), line
            samples[name][labels] = float(match["value"])
    return samples


def check_histograms(samples: dict[str, dict[Any, float]]) -> None:
    """Each histogram has buckets that only grow, a last bucket with all values, and a sum."""
    for name in [name for name in samples if name.endswith("_bucket")]:
        family = name.removesuffix("_bucket")
        rows: dict[Any, list[tuple[float, float]]] = {}
        for labels, n in samples[name].items():
            assert labels[-1][0] == "le"
            rows.setdefault(labels[:-1], []).append((float(labels[-1][1]), n))
        assert rows.keys() == samples[f"{family}_sum"].keys() == samples[f"{family}_count"].keys()
        for labels, buckets in rows.items():
            bounds, counts = zip(*buckets, strict=True)
            assert list(bounds) == sorted(set(bounds))
            assert list(counts) == sorted(counts)
            assert buckets[-1] == (float("inf"), samples[f"{family}_count"][labels])


def test_the_text_follows_the_format_and_every_name_has_our_prefix() -> None:
    samples = read(render_metrics(make_metrics()))
    assert all(name.startswith("memsyncd_") for name in samples)
    assert samples["memsyncd_build_info"] == {(("version", "1.2.3"),): 1}
    assert (
        samples["memsyncd_notes_changed_total"][(("workspace", "notes-1"), ("change", "added"))]
        == 2
    )
    assert samples["memsyncd_requests_failed_total"] == {
        (("method", "search"), ("code", "timeout")): 1
    }


def test_a_histogram_ends_with_the_total() -> None:
    samples = read(render_metrics(make_metrics()))
    check_histograms(samples)
    buckets = samples["memsyncd_request_duration_seconds_bucket"]
    assert {labels[1][1]: n for labels, n in buckets.items()} == {
        "0.005": 2,
        "0.5": 2,
        "10": 3,
        "+Inf": 3,
    }
    key = (("method", "search"),)
    assert samples["memsyncd_request_duration_seconds_count"][key] == 3
    assert samples["memsyncd_request_duration_seconds_sum"][key] == 0.75


def test_exactly_one_state_of_a_workspace_is_set() -> None:
    samples = read(render_metrics(make_metrics(workspaces=[make_workspace(state="missing")])))
    assert {labels[1][1]: n for labels, n in samples["memsyncd_workspace_state"].items()} == {
        "indexing": 0,
        "ready": 0,
        "degraded": 0,
        "stalled": 0,
        "missing": 1,
    }


def test_an_unknown_value_has_no_sample() -> None:
    metrics = make_metrics(workspaces=[make_workspace(last_sync_at=None)])
    unlimited = msgspec.structs.replace(
        metrics, process=msgspec.structs.replace(metrics.process, max_fds=None)
    )
    samples = read(render_metrics(unlimited))
    assert "memsyncd_max_fds" not in samples
    assert "memsyncd_last_sync_timestamp_seconds" not in samples


def test_a_daemon_without_workspaces_and_requests_has_all_families() -> None:
    text = render_metrics(make_metrics(workspaces=[], requests=[]))
    assert "# TYPE memsyncd_request_duration_seconds histogram\n" in text
    assert read(text)["memsyncd_clients"] == {(): 2}


def test_every_value_of_the_result_is_in_the_text() -> None:
    """Each field gets a different number; a number that is missing in the text was forgotten."""
    numbers = iter(range(1001, 2000))
    workspace = make_workspace(
        **{
            name: next(numbers)
            for name in WorkspaceMetrics.__struct_fields__
            if name
            not in ("id", "name", "state", "is_watched", "syncs", "notes_total", "chunks_total")
        }
    )
    parts = {
        name: kind(**{field: next(numbers) for field in kind.__struct_fields__})
        for name, kind in (
            ("process", ProcessMetrics),
            ("clients", ClientMetrics),
            ("queue", QueueMetrics),
            ("watcher", WatcherMetrics),
        )
    }
    samples = read(render_metrics(make_metrics(workspaces=[workspace], **parts)))
    reported = {value for samples in samples.values() for value in samples.values()}
    assert set(range(1001, next(numbers))) <= reported


@given(st.text(), st.floats(0, 1e18, allow_nan=False))
def test_any_name_and_number_can_be_parsed_again(name: str, value: float) -> None:
    request = RequestMetrics(method=name, answered=TOOK, failed_total={}, abandoned_total=0)
    metrics = make_metrics(requests=[request], started_at=value)
    samples = read(render_metrics(metrics))
    assert samples["memsyncd_start_time_seconds"] == {(): value}
    ((_, escaped),) = next(iter(samples["memsyncd_requests_abandoned_total"]))
    assert re.sub(r"\\(.)", lambda mark: "\n" if mark[1] == "n" else mark[1], escaped) == name
