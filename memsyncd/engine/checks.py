"""Check the state of a workspace, and describe each result as a finding with a remedy.

Pure: what the daemon knows already, such as conditions, watcher and problems, becomes findings.
`verify` reads databases and notes.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import Literal

from memsyncd.config import Config
from memsyncd.engine.records import (
    FOREIGN_FAULT,
    INDEX_LOG,
    MOVED,
    RECORDS_GONE,
    RECORDS_LOG,
    SET_ASIDE,
    TEXTS_LOST,
)
from memsyncd.engine.recovery import HALF_DONE, UNCERTAIN, UNFINISHED
from memsyncd.engine.sync import ACCESS_FAULT, ROOT_FAULT
from memsyncd.engine.workspace import (
    SEMANTIC_FAULT,
    SEMANTIC_NOTICE,
    STALL_FAULT,
    WATCH_LIMIT,
    Condition,
    Freshness,
)
from memsyncd.operations.status.declare import FindingInfo, ProblemInfo
from memsyncd.store.connection import ACCESS_HINT
from memsyncd.watch.health import WatchHealth

Level = Literal["ok", "info", "warning", "error"]

MAX_NAMED_PLACES = 3
CLOCK_SLACK_S = 5.0
MANY_MISSED = 3

UNREADABLE = frozenset({"not_mounted", "unreadable_file", "unreadable_folder"})
# Codes of problems that keep a note out of the index.
SKIPPED = frozenset(
    "bad_name evicted link_broken link_loop link_outside not_a_file not_a_folder too_large".split()
)
# Level and check of each code of a problem that needs action.
PROBLEM_CHECKS: dict[str, tuple[Level, str]] = {
    **dict.fromkeys(UNREADABLE, ("warning", "unreadable")),
    **dict.fromkeys(SKIPPED, ("warning", "notes_skipped")),
    "not_indexed": ("info", "notes_skipped"),
    "sync_conflict": ("warning", "sync_conflict"),
    "conflict_markers": ("warning", "conflict_markers"),
    "second_comment": ("warning", "problems"),
    "secret": ("warning", "secret"),
    "prompt_injection": ("warning", "prompt_injection"),
}

LOG_REMEDY = "close the program that reads it; memsyncd then truncates the -wal file by itself"
# Level, check and remedy of each fault and notice of a workspace, whose text is the finding;
# `{name}` stands for the workspace's name.
TABLE: dict[str, tuple[Level, str, str]] = {
    ROOT_FAULT: ("error", "folder", "else: memsyncd remove {name}"),
    STALL_FAULT: (
        "error",
        "folder",
        (
            "see what the folder is mounted from; `umount -l` detaches a disk that does not come"
            " back; memsyncd continues by itself"
        ),
    ),
    "disk_full": ("error", "disk", "free some space; memsyncd continues by itself"),
    "index": (
        "error",
        "index",
        "memsyncd rebuilds it; if that fails again, check the disk, then: memsyncd reindex",
    ),
    ACCESS_FAULT: ("error", "index", ACCESS_HINT),
    INDEX_LOG: ("warning", "index", LOG_REMEDY),
    "records": (
        "error",
        "records",
        "notes are indexed and found; nothing can be written until this is repaired",
    ),
    FOREIGN_FAULT: (
        "error",
        "records",
        (
            "restore the workspace's own history (memsyncd restore FILE), or continue without it;"
            " move the other file away"
        ),
    ),
    TEXTS_LOST: (
        "warning",
        "records",
        (
            "a backup may have them: memsyncd restore FILE; else purge the revisions"
            " whose texts `memsyncd diff` cannot show: memsyncd history purge --revision N"
        ),
    ),
    RECORDS_LOG: ("warning", "records", LOG_REMEDY),
    RECORDS_GONE: (
        "warning",
        "records",
        "if there is a backup: memsyncd restore FILE; memsyncd restart begins a new history",
    ),
    MOVED: ("info", "records", "see the history: memsyncd history"),
    HALF_DONE: (
        "warning",
        "records",
        (
            "see the change set: memsyncd history; undo it (memsyncd undo --change-set N), or write"
            " the rest again"
        ),
    ),
    UNCERTAIN: (
        "warning",
        "records",
        (
            "see the change set: memsyncd history; undo a revision (memsyncd undo), or write the"
            " missing text again"
        ),
    ),
    UNFINISHED: (
        "warning",
        "records",
        (
            "make its notes and their folders writable, and free some space on the disk; then:"
            " memsyncd sync"
        ),
    ),
    "sync": (
        "error",
        "sync",
        "the next reconcile tries again; the log says more: memsyncd service logs",
    ),
    "folders": ("warning", "unreadable", "make it readable for you"),
    "watch": (
        "warning",
        "watcher",
        "reconciles find changes meanwhile; the remedy named here restores events",
    ),
    WATCH_LIMIT: (
        "warning",
        "watcher",
        "raise sync.max_watched_folders, or leave folders out with exclude or a .gitignore file",
    ),
    SEMANTIC_FAULT: (
        "warning",
        "semantic",
        "see: memsyncd semantic status; words alone answer meanwhile",
    ),
    SEMANTIC_NOTICE: (
        "warning",
        "semantic",
        "none: it continues by itself; see: memsyncd semantic status",
    ),
}


# --- findings -----------------------------------------------------------------------------------


def make_finding(
    level: Level, check: str, what: str, remedy: str = "", *, where: str = ""
) -> FindingInfo:
    """Make a finding without its workspace; the assembly of the result sets that."""
    return FindingInfo(
        level=level, check=check, what=what, where=where, remedy=remedy, workspace=None
    )


def has_errors(findings: Iterable[FindingInfo]) -> bool:
    return any(finding.level == "error" for finding in findings)


# --- what the daemon knows ----------------------------------------------------------------------


def check_condition(
    condition: Condition,
    freshness: Freshness,
    health: WatchHealth,
    config: Config,
    *,
    name: str,
    now_s: float,
) -> list[FindingInfo]:
    """Check the state of a workspace and of its watcher. `now_s` is the wall clock."""
    return [
        *_check_faults(condition, name),
        *_check_watcher(condition, health, config),
        *_check_past(condition),
        *_check_freshness(condition, freshness, config, now_s),
        *_check_recording(condition),
    ]


def _check_recording(condition: Condition) -> list[FindingInfo]:
    what = describe_recording(condition)
    remedy = (
        "none: recording continues by itself; changes of notes that are not recorded yet cannot "
        "be undone"
    )
    return [make_finding("info", "history", what, remedy)] if what else []


def describe_progress(condition: Condition) -> str:
    """Describe the progress of a sync of many notes; empty if none runs."""
    n_all = condition.n_to_sync
    n_done = max(0, n_all - condition.n_pending)
    return f"syncing: {n_done:,} of {n_all:,} notes" if n_all else ""


def describe_recording(condition: Condition) -> str:
    """Describe the progress of recording all notes; empty if all are recorded."""
    n_left, n_all = condition.n_unrecorded, condition.n_to_record
    return f"history: recording {n_all - n_left:,} of {n_all:,} notes" if n_left else ""


def find_condition(word: str, name: str) -> tuple[Level, str, str]:
    """Return level, check and remedy of a fault or notice of the workspace with this name."""
    level, check, remedy = TABLE.get(word, ("warning", word, "see: memsyncd status"))
    return level, check, remedy.format(name=shlex.quote(name))


def _check_faults(condition: Condition, name: str) -> list[FindingInfo]:
    found = []
    for word, text in (*sorted(condition.faults.items()), *sorted(condition.notices.items())):
        if word != SET_ASIDE:  # `examine_records` names each file
            level, check, remedy = find_condition(word, name)
            found.append(make_finding(level, check, text, remedy))
    if not condition.faults.keys() & {ROOT_FAULT, STALL_FAULT}:
        found.append(make_finding("ok", "folder", "the folder exists and can be listed"))
    return found


def _check_watcher(condition: Condition, health: WatchHealth, config: Config) -> list[FindingInfo]:
    if not config.sync.enabled:
        return [
            make_finding(
                "info", "watcher", "syncing is switched off: only `memsyncd sync` reads the notes"
            )
        ]
    if health.mode == "off":
        what = f"watching is switched off: changes are found every {config.sync.reconcile_s:g} s"
        return [make_finding("info", "watcher", what)]
    found = []
    if "watch" not in condition.faults and WATCH_LIMIT not in condition.notices:
        found.append(make_finding("ok", "watcher", f"changes are reported by {health.observer}"))
    n_missed = condition.n_missed_events
    if n_missed:
        what = f"{render_count(n_missed, 'change')} had no event and had to be found by reconciles"
        remedy = (
            "they are indexed; if the number grows, check the file system of the folder, then: "
            "memsyncd restart"
        )
        found.append(
            make_finding(
                "warning" if n_missed >= MANY_MISSED else "info", "missed_events", what, remedy
            )
        )
    else:
        found.append(make_finding("ok", "missed_events", "no change was missed"))
    return found


def _check_past(condition: Condition) -> list[FindingInfo]:
    n_rebuilds = condition.n_rebuilds
    what = f"the index was rebuilt {render_count(n_rebuilds, 'time')} since the daemon started"
    return [make_finding("info", "index", what)] if n_rebuilds else []


def _check_freshness(
    condition: Condition, freshness: Freshness, config: Config, now_s: float
) -> list[FindingInfo]:
    if condition.state == "indexing":
        what = f"the notes are being indexed, {condition.n_pending:,} are still to be read"
        return [make_finding("info", "freshness", what)]
    if not config.sync.enabled or condition.root_state != "present" or condition.state == "stalled":
        return []
    if condition.synced_at_s is None:
        what = "the folder was never scanned in full"
        return [
            make_finding(
                "error", "freshness", what, "correct the other findings; then: memsyncd sync"
            )
        ]
    age_s = now_s - condition.synced_at_s
    if age_s < -CLOCK_SLACK_S:
        what = (
            f"the clock was set back: the last scan of the folder is {-age_s:,.0f} s in the future"
        )
        return [
            make_finding("warning", "clock", what, "correct the clock; notes are indexed meanwhile")
        ]
    if freshness.overdue:
        remedy = "see the log, then: memsyncd restart"
        return [make_finding("error", "freshness", freshness.overdue, remedy)]
    if what := describe_progress(condition):
        return [make_finding("info", "freshness", what)]
    if freshness.pending:
        n_notes = render_count(freshness.pending, "note")
        what = f"{n_notes} changed a moment ago and will be indexed soon"
        return [make_finding("info", "freshness", what)]
    return [
        make_finding("ok", "freshness", f"the index is that of the disk {max(age_s, 0):.0f} s ago")
    ]


def check_socket_problem(path: str, problem: str) -> list[FindingInfo]:
    """`problem` is why no new client can connect to this daemon; empty if one can."""
    if not problem:
        return []
    what = f"no new client can connect: {problem}"
    remedy = (
        "remove what is at the socket's path; the daemon listens there again at its next reconcile"
    )
    return [make_finding("error", "socket", what, remedy, where=path)]


def check_lock_problem(problem: str) -> list[FindingInfo]:
    """`problem` is why a folder of the daemon is not locked; empty if all are."""
    if not problem:
        return []
    remedy = "set XDG_STATE_HOME and XDG_CACHE_HOME to folders on a disk with locks and space"
    return [make_finding("warning", "lock", problem, remedy)]


def check_progress(stalled: Iterable[str]) -> list[FindingInfo]:
    """`stalled` are the parts of the daemon that make no progress; with `writer` nothing is
    indexed.
    """
    return [
        make_finding(
            "error",
            "sync",
            (
                f"the {name} makes no progress: most likely a disk does not answer, and saves "
                f"are not indexed meanwhile"
            ),
            "bring that disk back, or detach it (`umount -l`); else: memsyncd restart",
        )
        for name in stalled
    ]


def check_problems(problems: Iterable[ProblemInfo]) -> list[FindingInfo]:
    """Group problems of notes and folders: one finding for each kind that needs action, and one for
    all others.
    """
    by_kind: dict[tuple[str, str], list[ProblemInfo]] = {}
    n_rest = 0
    for problem in problems:
        if problem.code in PROBLEM_CHECKS:
            by_kind.setdefault((problem.code, problem.problem), []).append(problem)
        else:
            n_rest += 1
    found = [
        _describe_kind(*PROBLEM_CHECKS[code], each) for (code, _), each in sorted(by_kind.items())
    ]
    if n_rest:
        what = f"{render_count(n_rest, 'other problem')} in notes, all indexed as well as possible"
        found.append(make_finding("info", "problems", what, "list them: memsyncd problems"))
    return found or [make_finding("ok", "problems", "the notes have no problems")]


def _describe_kind(level: Level, check: str, problems: Sequence[ProblemInfo]) -> FindingInfo:
    first = problems[0]
    places = [
        f"{problem.path}:{problem.line}" if problem.line else problem.path for problem in problems
    ]
    lead = "" if len(problems) == 1 else f"{len(problems):,} times: "
    return make_finding(level, check, lead + first.problem, first.hint, where=name_places(places))


def name_places(places: Sequence[str]) -> str:
    """The first few places, and the number of the others."""
    shown = ", ".join(places[:MAX_NAMED_PLACES])
    return shown + (
        f" and {len(places) - MAX_NAMED_PLACES:,} more" if len(places) > MAX_NAMED_PLACES else ""
    )


def render_count(n: int, one: str, many: str = "") -> str:
    """`1 note`, `1,204 notes`."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"
