"""Check the state of a workspace, and describe each result as a finding with a remedy.

Findings are made of values that the daemon has already, such as conditions, the watcher's health
and problems; `verify` reads databases and notes. `IdleChecks` checks the databases of idle
workspaces on a thread of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from memsyncd.config import Config
from memsyncd.engine.job_completions import call_soon
from memsyncd.engine.records import SET_ASIDE
from memsyncd.engine.sync import ROOT_FAULT
from memsyncd.engine.workspace import STALL_FAULT, WATCH_LIMIT, Condition, Freshness, Workspace
from memsyncd.errors import NotFresh, StoreCorrupt, StoreFailed
from memsyncd.findings import Level, parse_rows
from memsyncd.operations.status.declare import FindingInfo, ProblemInfo
from memsyncd.store.index import Index
from memsyncd.store.integrity import check_part, lower_thread_priority
from memsyncd.store.records import Records
from memsyncd.watch.health import WatchHealth

UNKNOWN_REMEDY = "see: memsyncd status"
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
    "conflict": ("warning", "conflict"),
    "conflict_markers": ("warning", "conflict_markers"),
    "second_comment": ("warning", "problems"),
    "secret": ("warning", "secret"),
    "prompt_injection": ("warning", "prompt_injection"),
}

# The findings about a workspace. The first rows have the words of its faults and notices.
TABLE = parse_rows("""
root: error folder
  {text}
  → else: memsyncd remove {name}
stalled: error folder
  {text}
  → see what the folder is mounted from; `umount -l` detaches a disk that does not come back;
  memsyncd continues by itself
disk_full: error disk
  {text}
  → free some space; memsyncd continues by itself
index: error index
  {text}
  → memsyncd rebuilds it; if that fails again, check the disk, then: memsyncd reindex
index_access: error index
  {text}
  → make it and its folder readable and writable for you (memsyncd doctor names them); memsyncd
  tries again by itself
index_log_held: warning index
  {text}
  → close the program that reads it; memsyncd then truncates the -wal file by itself
records: error records
  {text}
  → notes are indexed and found; nothing can be written until this is repaired
records_foreign: error records
  {text}
  → restore the workspace's own history (memsyncd restore FILE), or continue without it; move the
  other file away
texts_lost: warning records
  {text}
  → a backup may have them: memsyncd restore FILE; else purge the changes whose texts
  `memsyncd diff` cannot show: memsyncd history purge --change-set N
records_log_held: warning records
  {text}
  → close the program that reads it; memsyncd then truncates the -wal file by itself
records_gone: warning records
  {text}
  → if there is a backup: memsyncd restore FILE; memsyncd restart begins a new history
records_moved: info records
  {text}
  → see the history: memsyncd history
change_set_half_done: warning records
  {text}
  → see the change: memsyncd history; undo it (memsyncd undo N), or write the rest again
change_set_uncertain: warning records
  {text}
  → see the change: memsyncd history; undo it for a note (memsyncd undo NOTE --change-set N), or
  write the missing text again
change_set_unfinished: warning records
  {text}
  → make its notes and their folders writable, and free some space on the disk; then: memsyncd sync
sync: error sync
  {text}
  → the next reconcile tries again; the log says more: memsyncd service logs
folders: warning unreadable
  {text}
  → make it readable for you
watch: warning watcher
  {text}
  → reconciles find changes meanwhile; the remedy named here restores events
watch_limit: warning watcher
  {text}
  → raise sync.max_watched_folders, or leave folders out with exclude or a .gitignore file
semantic: warning semantic
  {text}
  → see: memsyncd semantic status; words alone answer meanwhile
semantic_notice: warning semantic
  {text}
  → none: it continues by itself; see: memsyncd semantic status
share_away: info share
  {text}
  → none: memsyncd commits, and tries again by itself; see: memsyncd share status -w {name}
share_refused: warning share
  {text}
  → see what refuses: a hook of yours (pre-commit, commit-msg, pre-push) or of the remote, or its
  rights; then: memsyncd share now -w {name}
share_diverged: warning share
  {text}
  → correct the note, then: memsyncd share now -w {name}
share_git: error share
  {text}
  → install git 2.25 or newer, then: memsyncd share now -w {name}
share_busy: warning share
  {text}
  → see: memsyncd share status -w {name}
share_folder: warning share
  {text}
  → let one of the two copy it: move the folder, or stop with: memsyncd share off -w {name}
share_clock: warning share
  {text}
  → set the clocks of both machines by the network
share_unwritten: warning share
  {text}
  → raise sync.max_file_bytes, then: memsyncd share now -w {name}
folder: ok folder
  the folder exists and can be listed
recording: info history
  {text}
  → none: recording continues by itself; changes of notes that are not recorded yet cannot be undone
sync_off: info watcher
  syncing is switched off: only `memsyncd sync` reads the notes
watch_off: info watcher
  watching is switched off: changes are found every {seconds:g} s
watched: ok watcher
  changes are reported by {observer}
missed: info missed_events
  {changes} had no event and had to be found by reconciles
  → they are indexed; if the number grows, check the file system of the folder, then: memsyncd
  restart
unmissed: ok missed_events
  no change was missed
rebuilt: info index
  the index was rebuilt {times} since the daemon started
indexing: info freshness
  the notes are being indexed, {n:,} are still to be read
unscanned: error freshness
  the folder was never scanned in full
  → correct the other findings; then: memsyncd sync
clock: warning clock
  the clock was set back: the last scan of the folder is {seconds:,.0f} s in the future
  → correct the clock; notes are indexed meanwhile
overdue: error freshness
  {text}
  → see the log, then: memsyncd restart
syncing: info freshness
  {text}
pending: info freshness
  {notes} changed a moment ago and will be indexed soon
fresh: ok freshness
  the index equals the disk as it was {seconds:.0f} s ago
socket: error socket
  no new client can connect: {text}
  → remove what is at the socket's path; the daemon listens there again at its next reconcile
lock: warning lock
  {text}
  → set XDG_STATE_HOME and XDG_CACHE_HOME to folders on a disk with locks and space
no_progress: error sync
  the {part} makes no progress: most likely a disk does not answer, and saves are not indexed
  meanwhile
  → bring that disk back, or detach it (`umount -l`); else: memsyncd restart
no_problem: ok problems
  the notes have no problems
other_problems: info problems
  {problems} in notes, all indexed as well as possible
  → list them: memsyncd problems
other: warning
  {text}
  → {hint}
failure: error
  this could not be checked: {text}
  → {hint}
index_sound: ok index
  index.db is sound
index_damaged: error index
  index.db {how}
  → memsyncd rebuilds it; if the damage returns, check the disk, then: memsyncd reindex
index_building: info index
  the index is being rebuilt; searches find old or few notes meanwhile
index_unopened: error index
  index.db cannot be opened: {text}
  → {hint}
index_unwritten: error index
  no index can be written; searches find old notes or none
  → see the other findings and the log; then: memsyncd reindex
index_waiting: info index
  not checked: the index is being brought up to date ({n:,} notes to be read)
  → run this again when that is done
records_sound: ok records
  records.db is sound
records_aside: warning records
  records.db was damaged; the damaged file was set aside
  → the file contains the former history; keep it elsewhere, or delete it when it is not needed
records_away: info records
  records.db is missing, as the folder is: a folder that is moved and added again takes its history
  along
  → if the folder was moved: memsyncd remove {name}
records_deleted: error records
  records.db was deleted, and with it the earlier texts of notes
  → the next scan creates an empty one; if there is a backup of the history: memsyncd restore FILE
records_damaged: error records
  records.db is damaged: {text}
  → memsyncd restart sets it aside, without deleting it, and creates an empty one; if there is a
  backup: memsyncd restore FILE
equal: ok verify
  index equals disk: {notes} with {n:,} bytes compared
uncompared: info verify
  not compared, because they cannot be read: {notes}
compared_late: info verify
  changed a moment ago and indexed now: {notes}
different: error verify
  index and disk differ in {n:,} of {notes}: {path}: {how}
  → rebuild the index: memsyncd reindex
orphan: error verify
  {text}
  → rebuild the index: memsyncd reindex
unseen: error verify
  other bytes in {notes} though size, times and inode equal the recorded ones
  → read every note again: memsyncd sync --full; then see what changes files without a trace, or the
  disk
changing: warning verify
  changing faster than they can be compared: {notes}
  → run this again when no program writes notes
""")


# --- findings -----------------------------------------------------------------------------------


def make_finding(
    row: str, *, level: Level | None = None, check: str = "", where: str = "", **facts: Any
) -> FindingInfo:
    """Make a finding from a row of the table. The caller that collects the findings sets its
    workspace.
    """
    named = TABLE[row]
    return FindingInfo(
        level=level or named.level,
        check=check or named.check,
        what=named.what.format(**facts),
        where=where,
        remedy=named.remedy.format(**facts),
        workspace=None,
    )


def has_errors(findings: Iterable[FindingInfo]) -> bool:
    return any(finding.level == "error" for finding in findings)


# --- conditions ----------------------------------------------------------------------------------


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
        *_check_freshness(condition, freshness, config, now_s),
        *_check_history(condition),
    ]


def describe_progress(condition: Condition) -> str:
    """Describe the progress of a sync of many notes; empty if none runs."""
    n_all = condition.n_to_sync
    n_done = max(0, n_all - condition.n_pending)
    return f"syncing: {n_done:,} of {n_all:,} notes" if n_all else ""


def describe_recording(condition: Condition) -> str:
    """Describe the progress of recording all notes; empty if all are recorded."""
    n_left, n_all = condition.n_unrecorded, condition.n_to_record
    return f"history: recording {n_all - n_left:,} of {n_all:,} notes" if n_left else ""


def find_remedy(word: str, name: str) -> str:
    """Return the remedy for a fault or notice of the workspace with this name."""
    return TABLE[word].remedy.format(name=shlex.quote(name)) if word in TABLE else UNKNOWN_REMEDY


def _check_faults(condition: Condition, name: str) -> list[FindingInfo]:
    findings = []
    for word, text in (*sorted(condition.faults.items()), *sorted(condition.notices.items())):
        if word in TABLE:
            findings.append(make_finding(word, text=text, name=shlex.quote(name)))
        elif word != SET_ASIDE:  # `examine_records` names each file
            findings.append(make_finding("other", check=word, text=text, hint=UNKNOWN_REMEDY))
    if not condition.faults.keys() & {ROOT_FAULT, STALL_FAULT}:
        findings.append(make_finding("folder"))
    return findings


def _check_watcher(condition: Condition, health: WatchHealth, config: Config) -> list[FindingInfo]:
    if not config.sync.enabled:
        return [make_finding("sync_off")]
    if health.mode == "off":
        return [make_finding("watch_off", seconds=config.sync.reconcile_s)]
    findings = []
    if "watch" not in condition.faults and WATCH_LIMIT not in condition.notices:
        findings.append(make_finding("watched", observer=health.observer))
    if n_missed := condition.n_missed_events:
        level: Level = "warning" if n_missed >= MANY_MISSED else "info"
        findings.append(
            make_finding("missed", level=level, changes=render_count(n_missed, "change"))
        )
    else:
        findings.append(make_finding("unmissed"))
    return findings


def _check_history(condition: Condition) -> list[FindingInfo]:
    findings = []
    if n_rebuilds := condition.n_rebuilds:
        findings.append(make_finding("rebuilt", times=render_count(n_rebuilds, "time")))
    if text := describe_recording(condition):
        findings.append(make_finding("recording", text=text))
    return findings


def _check_freshness(
    condition: Condition, freshness: Freshness, config: Config, now_s: float
) -> list[FindingInfo]:
    if condition.state == "indexing":
        return [make_finding("indexing", n=condition.n_pending)]
    if not config.sync.enabled or condition.root_state != "present" or condition.state == "stalled":
        return []
    if condition.synced_at_s is None:
        return [make_finding("unscanned")]
    age_s = now_s - condition.synced_at_s
    if age_s < -CLOCK_SLACK_S:
        return [make_finding("clock", seconds=-age_s)]
    if freshness.overdue:
        return [make_finding("overdue", text=freshness.overdue)]
    if text := describe_progress(condition):
        return [make_finding("syncing", text=text)]
    if freshness.pending:
        return [make_finding("pending", notes=render_count(freshness.pending, "note"))]
    return [make_finding("fresh", seconds=max(age_s, 0))]


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
    findings = [
        _describe_kind(*PROBLEM_CHECKS[code], each) for (code, _), each in sorted(by_kind.items())
    ]
    if n_rest:
        findings.append(
            make_finding("other_problems", problems=render_count(n_rest, "other problem"))
        )
    return findings or [make_finding("no_problem")]


def _describe_kind(level: Level, check: str, problems: Sequence[ProblemInfo]) -> FindingInfo:
    first = problems[0]
    places = [
        f"{problem.path}:{problem.line}" if problem.line else problem.path for problem in problems
    ]
    lead = "" if len(problems) == 1 else f"{len(problems):,} times: "
    text, where = lead + first.problem, name_places(places)
    return make_finding("other", level=level, check=check, where=where, text=text, hint=first.hint)


def name_places(places: Sequence[str]) -> str:
    """Return the first few places, and the number of the others."""
    text = ", ".join(places[:MAX_NAMED_PLACES])
    return text + (
        f" and {len(places) - MAX_NAMED_PLACES:,} more" if len(places) > MAX_NAMED_PLACES else ""
    )


def render_count(n: int, singular: str, plural: str = "") -> str:
    """`1 note`, `1,204 notes`."""
    return f"{n:,} {singular if n == 1 else plural or singular + 's'}"


# --- checks in idle time ------------------------------------------------------------------------

PAUSE_S = 0.05
MAX_SLEEP_S = 2.0

Database = Index | Records
OnDamage = Callable[[Workspace, Database, str], None]


class IdleChecks:
    """Checks the databases of workspaces, one after another. Make it on the running loop.

    Its thread exists only while a check is due, and has the lowest priority. It checks a database
    part by part and sleeps while the worker has jobs. A part that sleeps for MAX_SLEEP_S is given
    up, because its snapshot keeps the WAL from being copied to the file.

    `is_busy()` tells whether anything waits; it is called on the thread. `on_damage(workspace,
    database, finding)` is called on the loop.
    """

    def __init__(self, is_busy: Callable[[], bool], on_damage: OnDamage) -> None:
        self._loop = asyncio.get_running_loop()
        self._is_busy = is_busy
        self._on_damage = on_damage
        self._lock = threading.Lock()
        self._waiting: list[Workspace] = []
        self._thread: threading.Thread | None = None
        self._is_stopping = False

    def start(self, workspace: Workspace) -> None:
        """Check what is due in the databases of an idle workspace; on the loop."""
        with self._lock:
            is_due = any(database.checks.due() for database in _databases(workspace))
            if self._is_stopping or workspace in self._waiting or not is_due:
                return
            self._waiting.append(workspace)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="memsyncd-check", daemon=True
                )
                self._thread.start()

    def stop(self, timeout_s: float) -> bool:
        """Cancel the running check. Returns False if it has not ended within `timeout_s`."""
        with self._lock:
            self._is_stopping, thread = True, self._thread
        if thread is not None:
            thread.join(timeout_s)
        return thread is None or not thread.is_alive()

    # --- on the thread ---

    def _run(self) -> None:
        lower_thread_priority()
        while True:
            with self._lock:
                if self._is_stopping or not self._waiting:
                    self._thread = None
                    return
                workspace = self._waiting[0]
            # Whoever uses a file reports that it cannot be opened or read. A check that was given
            # up is due again.
            with contextlib.suppress(StoreFailed, NotFresh):
                for database in _databases(workspace):
                    self._check(workspace, database)
            with self._lock:
                self._waiting.remove(workspace)

    def _check(self, workspace: Workspace, database: Database) -> None:
        for part in database.checks.due():
            must_end = partial(self._wait, workspace, database)
            try:
                damage = check_part(database.open_apart(), part, is_cancelled=must_end)
            except StoreCorrupt as failure:
                damage = failure.message
            if self._is_over(workspace, database):
                return
            if damage:
                call_soon(self._loop, partial(self._on_damage, workspace, database, damage))
                return
            database.checks.note_checked(part)

    def _wait(self, workspace: Workspace, database: Database) -> bool:
        """Sleep while the worker is busy. True if the check must end: after MAX_SLEEP_S, too."""
        end_s = time.monotonic() + MAX_SLEEP_S
        while self._is_busy() and not self._is_over(workspace, database):
            if time.monotonic() > end_s:
                return True
            time.sleep(PAUSE_S)
        return self._is_over(workspace, database)

    def _is_over(self, workspace: Workspace, database: Database) -> bool:
        """True if nobody needs the result any more."""
        is_open = database is workspace.index or database is workspace.records
        return self._is_stopping or not is_open


def _databases(workspace: Workspace) -> list[Database]:
    databases: list[Database | None] = [workspace.index, workspace.records]
    return [database for database in databases if database is not None]
