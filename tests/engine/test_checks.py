"""Findings from the known state of a workspace: facts in, findings out, without a disk."""

from __future__ import annotations

import re
from typing import Any

from memsyncd.config import Config, SyncConfig
from memsyncd.engine import records, recovery, sync, workspace
from memsyncd.engine.checks import (
    TABLE,
    check_condition,
    check_problems,
    make_finding,
)
from memsyncd.engine.workspace import Condition, Freshness
from memsyncd.files import read
from memsyncd.operations.status.declare import FindingInfo, ProblemInfo
from memsyncd.watch.health import WatchHealth

NOW_S = 1_800_000_000.0
EVENTS = WatchHealth(mode="events", observer="inotify")
WELL = Condition(is_indexing=False, synced_at_s=NOW_S - 2)
FRESH = Freshness(state="ready", pending=0, overdue="", reasons=())


def make_problem(**fields: Any) -> ProblemInfo:
    return ProblemInfo(**{"workspace": "project-1", "hint": "", **fields})


def judge(
    condition: Condition = WELL,
    health: WatchHealth = EVENTS,
    freshness: Freshness = FRESH,
    **sync: Any,
) -> dict[str, FindingInfo]:
    """Findings that are not ok, by their check."""
    config = Config(sync=SyncConfig(**sync))
    found = check_condition(condition, freshness, health, config, name="notes", now_s=NOW_S)
    return {finding.check: finding for finding in found if finding.level != "ok"}


def make(**fields: Any) -> Condition:
    return Condition(**{"is_indexing": False, "synced_at_s": NOW_S - 2, **fields})


def test_every_fault_is_a_finding_with_a_remedy() -> None:
    for fault, check, level in (
        ("root", "folder", "error"),
        ("disk_full", "disk", "error"),
        ("index", "index", "error"),
        ("records", "records", "error"),
        ("sync", "sync", "error"),
        ("watch", "watcher", "warning"),
        ("something_new", "something_new", "warning"),
    ):
        found = judge(make(faults={fault: "it is like this"}))
        assert set(found) == {check}, fault
        assert (found[check].level, found[check].what) == (level, "it is like this"), fault
        assert found[check].remedy, fault


def test_each_fault_and_notice_of_a_workspace_has_a_row() -> None:
    words = {sync.ROOT_FAULT, sync.FOLDER_FAULT, sync.RECORDS_FAULT, sync.ACCESS_FAULT}
    words |= {records.FOREIGN_FAULT, records.MOVED, records.RECORDS_GONE, records.TEXTS_LOST}
    words |= {records.INDEX_LOG, records.RECORDS_LOG}
    words |= {recovery.HALF_DONE, recovery.UNCERTAIN, recovery.UNFINISHED}
    words |= {workspace.STALL_FAULT, workspace.WATCH_LIMIT}
    words |= {workspace.SEMANTIC_FAULT, workspace.SEMANTIC_NOTICE}
    assert words <= TABLE.keys()


def test_a_row_is_filled_with_its_facts() -> None:
    for name, row in TABLE.items():
        facts = dict.fromkeys(re.findall(r"\{(\w+)", f"{row.what} {row.remedy}"), 3)
        finding = make_finding(name, **facts)
        assert "{" not in finding.what + finding.remedy, name
        assert finding.remedy or finding.level in ("ok", "info"), name


def test_the_remedy_for_a_missing_folder_is_a_whole_command() -> None:
    condition = make(faults={"root": "the folder is missing"}, root_state="missing")
    found = check_condition(condition, FRESH, EVENTS, Config(), name="my notes", now_s=NOW_S)
    assert [finding.remedy for finding in found if finding.check == "folder"] == [
        "else: memsyncd remove 'my notes'"
    ]


def test_past_failures_are_findings() -> None:
    for fields, check, level in (
        ({"n_missed_events": 1}, "missed_events", "info"),
        ({"n_missed_events": 3}, "missed_events", "warning"),
        ({"n_rebuilds": 1}, "index", "info"),
        ({"is_indexing": True, "synced_at_s": None}, "freshness", "info"),
        ({"synced_at_s": None}, "freshness", "error"),
        ({"synced_at_s": NOW_S - 3600}, "freshness", None),
        ({"synced_at_s": NOW_S + 3}, "freshness", None),
        ({"synced_at_s": NOW_S + 3600}, "clock", "warning"),
        ({"n_unrecorded": 2, "n_to_record": 9}, "history", "info"),
        ({"n_to_record": 9}, "history", None),
        ({"notices": {"index_log_held": "large"}}, "index", "warning"),
        ({"notices": {"records_log_held": "large"}}, "records", "warning"),
        ({"root_state": "missing", "synced_at_s": None}, "freshness", None),
    ):
        found = judge(make(**fields))
        assert (found[check].level if check in found else None) == level, fields
        assert all(
            finding.remedy for finding in found.values() if finding.level in ("warning", "error")
        ), fields


def test_the_freshness_that_answers_report_is_a_finding() -> None:
    for state, overdue, level in (("ready", "", "info"), ("degraded", "it is late", "error")):
        freshness = Freshness(state=state, pending=2, overdue=overdue, reasons=())
        finding = judge(freshness=freshness)["freshness"]
        assert finding.level == level
        assert overdue in finding.what


def test_a_disabled_function_is_not_a_warning() -> None:
    off = WatchHealth(mode="off", observer="none")
    assert {finding.level for finding in judge(health=off, sync_on_change=False).values()} == {
        "info"
    }
    assert {
        finding.level for finding in judge(make(synced_at_s=None), off, enabled=False).values()
    } == {"info"}


def test_every_kind_of_file_problem_is_found() -> None:
    for code in read.PROBLEMS:
        [finding] = check_problems([read.problem("a.md", code)])
        assert finding.level in ("info", "warning"), code
        assert finding.remedy, code


def test_each_kind_of_problem_has_its_check() -> None:
    for code, check, level in (
        ("too_large", "notes_skipped", "warning"),
        ("link_outside", "notes_skipped", "warning"),
        ("not_indexed", "notes_skipped", "info"),
        ("unreadable_folder", "unreadable", "warning"),
        ("sync_conflict", "sync_conflict", "warning"),
        ("conflict", "conflict", "warning"),
        ("conflict_markers", "conflict_markers", "warning"),
        ("secret", "secret", "warning"),
        ("prompt_injection", "prompt_injection", "warning"),
        ("second_comment", "problems", "warning"),
        ("unclosed_fence", "problems", "info"),
        ("bom", "problems", "info"),
    ):
        problem = make_problem(path="a.md", line=3, code=code, problem="it is odd", hint="mend it")
        [finding] = check_problems([problem])
        assert (finding.check, finding.level) == (check, level), code


def test_many_problems_of_a_kind_are_one_finding_that_names_the_first() -> None:
    problems = [
        make_problem(
            path=f"{n}.md", line=n, code="conflict_markers", problem="holds git conflict markers"
        )
        for n in range(5)
    ]
    [finding] = check_problems(problems)
    assert finding.what == "5 times: holds git conflict markers"
    assert finding.where == "0.md, 1.md:1, 2.md:2 and 2 more"


def test_problems_with_other_texts_are_separate_findings() -> None:
    problems = [
        make_problem(path="a.md", line=1, code="secret", problem=f"looks like a {what}")
        for what in ("key", "token", "key")
    ]
    found = check_problems(problems)
    assert [finding.what for finding in found] == [
        "2 times: looks like a key",
        "looks like a token",
    ]
