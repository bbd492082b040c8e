"""The meaning of the machine's facts: sockets, folders, mounts and services, as tables of facts and
findings.
"""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.cli.commands import ENTRIES, load_command
from memsyncd.cli.doctor import Finding, checks, count_levels, is_healthy, render_examination
from memsyncd.engine.checks import TABLE as OF_WORKSPACES
from memsyncd.terminal.other_daemons import OtherDaemon, is_daemon
from memsyncd.terminal.terminal import Paint

UID = 1000
SOCKET = "/run/user/1000/memsyncd/memsyncd.sock"


def find_worst(findings: list[Finding]) -> tuple[str, str]:
    """Return check and level of the worst finding."""
    worst = min(
        findings, key=lambda finding: ("error", "warning", "info", "ok").index(finding.level)
    )
    return worst.check, worst.level


def check_remedies(findings: list[Finding]) -> None:
    assert all(finding.remedy for finding in findings if finding.level in ("warning", "error"))


# --- the table ----------------------------------------------------------------------------------


def test_a_row_that_needs_action_names_a_remedy_and_a_whole_command() -> None:
    n_named = 0
    for level, *_, remedy in [*checks.TABLE.values(), *OF_WORKSPACES.values()]:
        assert level in ("ok", "info", "warning", "error")
        assert remedy or level not in ("warning", "error")
        for match in re.finditer(r"memsyncd ([a-z][a-z-]*)((?: [^\s;,`)]+)*)", remedy):
            name, words = match[1], match[2].split()
            if name not in ENTRIES:
                continue
            n_named += 1
            command = load_command(name)
            if words and words[0] in command.commands:
                command = command.commands[words.pop(0)]
            needed = [argument.metavar for argument in command.arguments if argument.is_needed]
            assert not needed or words, f"memsyncd {name}: {needed}"
    assert n_named > 20


# --- the daemon ---------------------------------------------------------------------------------

SILENT = checks.PingResult(SOCKET, failure="no daemon answers")


def answer(path: str = SOCKET, pid: int = 7, version: str = "1.0", n: int = 1) -> checks.PingResult:
    return checks.PingResult(path, pid, version, n)


@pytest.mark.parametrize(
    ("answers", "others", "worst", "message"),
    [
        ([answer()], [], ("daemon", "ok"), "pid 7"),
        ([SILENT, answer("/other.sock")], [], ("daemon", "ok"), "pid 7"),
        ([answer()], [(8, True)], ("two_daemons", "error"), "pid 8"),
        ([answer()], [(8, False)], ("two_daemons", "info"), "pid 8"),
        ([answer(version="0.9")], [], ("version", "warning"), "0.9"),
        ([answer(version="2.0", n=2)], [], ("version", "error"), "2.0"),
        ([SILENT], [], ("daemon", "error"), "no daemon runs"),
        ([SILENT._replace(fault="hung")], [], ("daemon", "error"), "does not answer"),
        ([SILENT._replace(fault="full")], [], ("daemon", "error"), "no more clients"),
        ([SILENT._replace(fault="foreign")], [], ("daemon", "error"), "another program"),
    ],
)
def test_the_answering_daemon_is_checked(
    answers: list[checks.PingResult],
    others: list[tuple[int, bool]],
    worst: tuple[str, str],
    message: str,
) -> None:
    daemons = [OtherDaemon(pid, "1.0", "/s", shares_folders=shares) for pid, shares in others]
    findings = checks.check_daemon(answers, None, daemons, version="1.0", protocol=1)
    assert find_worst(findings) == worst
    assert any(message in finding.what for finding in findings)
    check_remedies(findings)


def test_a_held_socket_without_an_answer_is_distinguished_from_a_stale_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "ANSWER_S", 0.2)
    path = tmp_path / "memsyncd.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        path.chmod(0o600)
        listening.listen()
        assert checks.ping(str(path)).fault == "hung"
    assert checks.ping(str(path)).fault == ""


@pytest.mark.parametrize(
    ("words", "is_ours"),
    [
        (("/usr/bin/python3", "-P", "-m", "memsyncd", "run"), True),
        (("/home/u/.local/bin/memsyncd", "run", "/w"), True),
        (("python", "/x/memsyncd/__main__.py", "run"), True),
        (("memsyncd", "search", "x"), False),
        (("vim", "memsyncd"), False),
        ((), False),
    ],
)
def test_a_daemon_is_recognized_by_its_command_line(
    words: tuple[str, ...], *, is_ours: bool
) -> None:
    assert is_daemon(words) is is_ours


LOG = """\
{"level": "warning", "event": "events_lost", "reason": "queue full"}
{"level": "error", "event": "sync_failed", "reason": "it is damaged"}
{"level": "info", "event": "sync_done"}
{broken
some other line
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (LOG, "sync_failed: it is damaged"),
        ('{"level": "error", "event": "told", "message": "not read"}\n', "told: not read"),
        (LOG + "memsyncd: the configuration is wrong\n", "the configuration is wrong"),
        ("", ""),
    ],
)
def test_the_last_warning_of_a_log_is_found(tmp_path: Path, text: str, line: str) -> None:
    log = tmp_path / "daemon.log"
    log.write_text(text)
    assert checks.find_last_error(str(log)) == line
    assert checks.find_last_error(str(tmp_path / "absent")) == ""


# --- service ------------------------------------------------------------------------------------


def serve(**fields: Any) -> dict[str, Any]:
    usual = {"state": "active", "pid": 7, "result": "", "restarts": 0, "enabled": True}
    usual |= {"is_waiting": False, "is_current": True, "is_on_demand": False}
    return {**usual, **fields}


@pytest.mark.parametrize(
    ("service", "daemon_pid", "level"),
    [
        ({"absence": "this system has no systemd"}, 7, "info"),
        ({}, 7, "info"),
        (serve(), 7, "ok"),
        (serve(pid=None, is_waiting=True, state="inactive"), None, "ok"),
        (serve(pid=None, state="inactive"), None, "error"),
        (serve(pid=None, state="failed", result="exit-code"), None, "error"),
        (serve(pid=None, state="inactive"), 9, "warning"),
        (serve(), 9, "warning"),
        (serve(is_current=False), 7, "warning"),
        (serve(enabled=False), 7, "warning"),
        (serve(restarts=2), 7, "info"),
    ],
)
def test_the_state_from_the_supervisor_is_checked(
    service: dict[str, Any], daemon_pid: int | None, level: str
) -> None:
    findings = checks.check_service(service, daemon_pid=daemon_pid)
    assert find_worst(findings) == ("service", level)
    check_remedies(findings)


def test_a_remedy_keeps_a_service_that_starts_on_demand() -> None:
    state = serve(is_current=False, enabled=False, is_on_demand=True)
    remedies = [finding.remedy for finding in checks.check_service(state, daemon_pid=7)]
    assert all("memsyncd service install --on-demand" in remedy for remedy in remedies)


# --- sockets, folders and files -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "mode", "uid", "level"),
    [
        ("folder", 0o700, UID, None),
        ("file", 0o600, UID, None),
        ("missing", 0, 0, None),
        ("link", 0o777, UID, None),
        ("folder", 0o755, UID, "warning"),
        ("file", 0o644, UID, "warning"),
        ("file", 0o666, UID, "error"),
        ("folder", 0o770, UID, "error"),
        ("folder", 0o700, 0, "error"),
        ("folder", 0o700, 5, "error"),
        ("file", 0o400, UID, "error"),
        ("folder", 0, UID, "error"),
        ("unreadable", 0, 0, "error"),
    ],
)
def test_permissions_are_checked(kind: str, mode: int, uid: int, level: str | None) -> None:
    findings = checks.check_entry(checks.PathStat("/p", kind, mode, uid), "folders", uid=UID)
    assert (find_worst(findings) if findings else None) == (level and ("folders", level))
    check_remedies(findings)


@pytest.mark.parametrize(
    ("mode", "uid", "n_found"), [(0o644, UID, 0), (0o600, 0, 0), (0o666, UID, 1), (0o600, 5, 1)]
)
def test_other_users_may_read_the_configuration_but_not_write_it(
    mode: int, uid: int, n_found: int
) -> None:
    entry = checks.PathStat("/c", "file", mode, uid)
    assert len(checks.check_entry(entry, "config", uid=UID, is_public=True)) == n_found


@pytest.mark.parametrize(
    ("socket_mode", "folder_mode", "is_held", "level"),
    [
        (0o600, 0o700, True, "ok"),
        (0o600, 0o700, False, "info"),
        (0o666, 0o700, True, "error"),
        (0o600, 0o755, True, "warning"),
        (0o600, 0o777, True, "error"),
    ],
)
def test_access_to_the_socket_is_checked(
    tmp_path: Path, socket_mode: int, folder_mode: int, level: str, *, is_held: bool
) -> None:
    place = tmp_path / "run" / "m.sock"
    place.parent.mkdir()
    assert checks.check_socket(str(place), uid=os.geteuid(), is_held=False)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(place))
    place.chmod(socket_mode)
    place.parent.chmod(folder_mode)
    findings = checks.check_socket(str(place), uid=os.geteuid(), is_held=is_held)
    assert find_worst(findings) == ("socket", level)
    check_remedies(findings)


@pytest.mark.parametrize("make", [Path.touch, lambda path: path.symlink_to("elsewhere")])
def test_another_kind_of_entry_in_the_place_of_the_socket_or_its_folder_is_an_error(
    tmp_path: Path, make: Any
) -> None:
    place = tmp_path / "m.sock"
    tmp_path.chmod(0o700)
    make(place)
    [finding] = checks.check_socket(str(place), uid=os.geteuid(), is_held=False)
    assert (finding.level, "in the place of a socket" in finding.what) == ("error", True)
    [finding] = checks.check_socket(f"{place}/m.sock", uid=os.geteuid(), is_held=False)
    assert (finding.level, "in the place of a folder" in finding.what) == ("error", True)


def test_the_obstacle_to_a_folder_is_found_above_it(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / "folder").mkdir()
    places = {
        name: [finding.where for finding in findings]
        for name in ("file", "file/state/memsyncd", "link/memsyncd", "folder", "folder/a/b")
        for findings in [checks.check_creatable(str(tmp_path / name), variable="XDG_STATE_HOME")]
    }
    assert places == {
        "file": [str(tmp_path / "file")],
        "file/state/memsyncd": [str(tmp_path / "file")],
        "link/memsyncd": [str(tmp_path / "link")],
        "folder": [],
        "folder/a/b": [],
    }


# --- disks --------------------------------------------------------------------------------------


def test_each_disk_is_measured_once_also_for_missing_folders(tmp_path: Path) -> None:
    places = [str(tmp_path), str(tmp_path / "not" / "there")]
    [enough] = checks.check_disk_space(places, low_bytes=0)
    assert (enough.check, enough.level) == ("disk", "ok")
    [low] = checks.check_disk_space(places, low_bytes=1 << 60)
    assert (low.check, low.level, low.where) == ("disk", "warning", ", ".join(places))


MOUNTS = """\
/dev/sda1 / ext4 rw,relatime 0 0
host:/export /home/u/net nfs4 rw,vers=4.2 0 0
share /home/u/my\\040share cifs rw 0 0
tmpfs /run tmpfs rw,nosuid 0 0
/dev/sdb1 /media/cd iso9660 ro,nosuid 0 0
drvfs /mnt/c 9p rw,aname=drvfs 0 0
broken line
/dev/sdc1 /home/u/net ext4 rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "ext4"),
        ("/home/u", "ext4"),
        ("/home/u/network", "ext4"),
        ("/home/u/my share/notes", "cifs"),
        ("/run/x", "tmpfs"),
        ("/mnt/c/Users", "9p"),
        ("/media/cd", "iso9660"),
        ("/home/u/net/notes", "ext4"),
        ("relative", ""),
    ],
)
def test_a_path_is_on_the_last_of_the_deepest_mounts(path: str, kind: str) -> None:
    assert checks.find_mount(path, MOUNTS)[0] == kind


@given(st.text())
def test_reading_the_kernels_table_never_fails(text: str) -> None:
    checks.find_mount("/x", text)


@pytest.mark.parametrize(
    ("path", "service"),
    [
        ("/Users/u/Library/Mobile Documents/com~apple~CloudDocs/notes", "iCloud Drive"),
        ("/Users/u/Library/CloudStorage/OneDrive-Personal/n", "a cloud service"),
        ("/home/u/Dropbox", "Dropbox"),
        ("/home/u/Dropbox (Work)/n", "Dropbox"),
        ("/home/u/OneDrive - Firm/n", "OneDrive"),
        ("/home/u/GoogleDrive/n", "Google Drive"),
        ("/home/u/Nextcloud/n", "Nextcloud or ownCloud"),
        ("/home/u/synced/deep/notes", "Syncthing"),
        ("/home/u/notes", ""),
        ("/home/u/dropboxes/n", ""),
        ("/home/u/code/OneDriveClient", ""),
    ],
)
def test_sync_services_are_known_by_their_names_and_marks(path: str, service: str) -> None:
    assert checks.find_service(path, lambda place: place == "/home/u/synced/.stfolder") == service


def stand_on(kind: str, option: str, service: str = "") -> checks.Storage:
    return checks.Storage("/g", kind, (option,), service)


@pytest.mark.parametrize(
    ("storage", "of_notes", "of_records", "of_index"),
    [
        (checks.Storage("/g"), None, None, None),
        (stand_on("ext4", "rw"), None, None, None),
        (stand_on("nfs4", "rw"), "warning", "error", "error"),
        (stand_on("9p", "rw"), "warning", "error", "error"),
        (stand_on("tmpfs", "rw"), None, "warning", None),
        (stand_on("ext4", "ro"), None, "error", "error"),
        (stand_on("ext4", "rw", service="Dropbox"), "info", "error", "error"),
    ],
)
def test_the_finding_for_a_file_system_depends_on_its_content(
    storage: checks.Storage, of_notes: str | None, of_records: str | None, of_index: str | None
) -> None:
    own = {"contents": "x is", "variable": "X"}
    notes = checks.check_notes_storage(storage, "w")
    records = checks.check_own_storage(storage, **own, is_lasting=True)
    index = checks.check_own_storage(storage, **own, is_lasting=False)
    levels = [find_worst(findings)[1] if findings else None for findings in (notes, records, index)]
    assert levels == [of_notes, of_records, of_index]
    check_remedies([*notes, *records, *index])


# --- output ------------------------------------------------------------------------------

FINDINGS = [
    Finding(level="ok", check="daemon", what="it answers"),
    Finding(level="ok", check="socket", what="only you can reach it", where="/s"),
    Finding(
        level="info",
        check="service",
        what="no service is installed",
        remedy="memsyncd service install",
    ),
    Finding(
        level="warning",
        check="notes_skipped",
        what="too \x1b[31mlarge",
        where="a\nb.md",
        remedy="split it",
        workspace="w-1",
    ),
    Finding(
        level="error",
        check="index",
        what="it is damaged",
        remedy="memsyncd reindex",
        workspace="w-1",
    ),
]


def test_the_worst_finding_comes_first_and_passed_checks_are_folded_unless_all_are_wanted() -> None:
    lines = list(
        render_examination(FINDINGS, {"w-1": "notes"}, Paint(), width=0, is_complete=False)
    )
    assert lines == [
        "memsyncd",
        "  · service  no service is installed",
        "             → memsyncd service install",
        "  ✓ ok: daemon, socket",
        "",
        "workspace notes",
        "  ✗ index          it is damaged",
        "                   → memsyncd reindex",
        "  ! notes_skipped  too [31mlarge",
        "                   a b.md",
        "                   → split it",
        "",
        "1 error, 1 warning; 2 checks passed",
    ]
    lines = list(render_examination(FINDINGS[:2], {}, Paint(), width=0, is_complete=True))
    assert lines == [
        "memsyncd",
        "  ✓ daemon  it answers",
        "  ✓ socket  only you can reach it",
        "            /s",
        "",
        "nothing is wrong; 2 checks passed",
    ]


def test_lines_keep_to_the_width_of_the_terminal() -> None:
    long = Finding(level="error", check="index", what="word " * 40, remedy="and " * 40)
    lines = list(render_examination([long], {}, Paint(), width=60, is_complete=False))
    assert all(len(line) <= 60 for line in lines)


def test_only_warnings_and_errors_need_action() -> None:
    assert is_healthy(FINDINGS[:3])
    assert not is_healthy(FINDINGS[:4])
    assert count_levels(FINDINGS) == {"ok": 2, "info": 1, "warning": 1, "error": 1}
