"""What the system's facts mean: sockets, folders, mounts, processes and services, as tables of
facts and findings.
"""

from __future__ import annotations

import ast
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memsyncd
from memsyncd.cli.commands import ENTRIES, load_command
from memsyncd.cli.doctor import (
    Finding,
    count_levels,
    daemon_checks,
    folder_checks,
    is_healthy,
    render_examination,
)
from memsyncd.lock import FolderLocks, Holder
from memsyncd.semantic import vector_client
from memsyncd.terminal.terminal import Paint

UID = 1000
SOCKET = "/run/user/1000/memsyncd/memsyncd.sock"
FOLDER = "/run/user/1000/memsyncd"


def find_worst(found: list[Finding]) -> tuple[str, str]:
    """Check and level of the worst finding."""
    worst = min(found, key=lambda finding: ("error", "warning", "info", "ok").index(finding.level))
    return worst.check, worst.level


def check_remedies(found: list[Finding]) -> None:
    assert all(finding.remedy for finding in found if finding.level in ("warning", "error"))


def answer(path: str = SOCKET, **fields: Any) -> daemon_checks.PingResult:
    return daemon_checks.PingResult(
        path=path, **{"pid": 7, "version": "1.0", "protocol": 1, "is_listening": True, **fields}
    )


SILENT = daemon_checks.PingResult(path=SOCKET, failure="no daemon answers")
HUNG = daemon_checks.PingResult(
    path=SOCKET, failure="no answer within 5 s", is_listening=True, is_late=True, holder_pid=7
)
DAEMON = daemon_checks.Process(
    pid=7, words=("python", "-m", "memsyncd", "run"), databases=("/s/index.db",)
)
STOPPED = daemon_checks.Process(
    pid=7, words=("/bin/memsyncd", "run"), databases=("/s/index.db",), is_stopped=True
)


@pytest.mark.parametrize(
    ("answers", "running", "worst", "message"),
    [
        ([answer()], [DAEMON], ("daemon", "ok"), "pid 7"),
        ([SILENT, answer("/other.sock")], [], ("daemon", "ok"), "pid 7"),
        ([answer(), answer("/other.sock")], [], ("daemon", "ok"), "pid 7"),
        ([answer(), answer("/other.sock", pid=8)], [], ("two_daemons", "error"), "pid 8"),
        ([answer(version="0.9")], [], ("version", "warning"), "0.9"),
        ([answer(version="2.0", protocol=2)], [], ("version", "error"), "2.0"),
        ([SILENT], [], ("daemon", "error"), "no daemon runs"),
        ([SILENT], [DAEMON], ("daemon", "error"), "listens on another socket"),
        ([SILENT], [STOPPED], ("daemon", "error"), "is stopped"),
        ([HUNG], [DAEMON], ("daemon", "error"), "does not answer"),
        ([HUNG], [STOPPED], ("daemon", "error"), "is stopped"),
    ],
)
def test_the_answering_daemon_is_checked(
    answers: list[daemon_checks.PingResult],
    running: list[daemon_checks.Process],
    worst: tuple[str, str],
    message: str,
) -> None:
    found = daemon_checks.check_daemon(answers, running, version="1.0", protocol=1)
    assert find_worst(found) == worst
    assert any(message in finding.what for finding in found)
    check_remedies(found)


def test_the_checked_daemon_is_the_one_that_answers_or_should_answer() -> None:
    assert daemon_checks.find_daemon_pid([SILENT, answer(pid=9)], [DAEMON]) == 9
    assert daemon_checks.find_daemon_pid([HUNG], []) == 7
    assert daemon_checks.find_daemon_pid([SILENT], [DAEMON]) == 7
    assert daemon_checks.find_daemon_pid([SILENT], []) is None


GOOD_SOCKET = folder_checks.PathStat(path=SOCKET, kind="socket", mode=0o600, uid=UID)
GOOD_FOLDER = folder_checks.PathStat(path=FOLDER, kind="folder", mode=0o700, uid=UID)
NO_SOCKET = folder_checks.PathStat(path=SOCKET, kind="missing")


@pytest.mark.parametrize(
    ("entry", "folder", "is_held", "level"),
    [
        (GOOD_SOCKET, GOOD_FOLDER, True, "ok"),
        (GOOD_SOCKET, GOOD_FOLDER, False, "info"),
        (NO_SOCKET, GOOD_FOLDER, False, None),
        (NO_SOCKET, folder_checks.PathStat(path=FOLDER, kind="missing"), False, None),
        (
            folder_checks.PathStat(path=SOCKET, kind="socket", mode=0o666, uid=UID),
            GOOD_FOLDER,
            True,
            "error",
        ),
        (
            folder_checks.PathStat(path=SOCKET, kind="socket", mode=0o600, uid=0),
            GOOD_FOLDER,
            True,
            "error",
        ),
        (
            folder_checks.PathStat(path=SOCKET, kind="file", mode=0o600, uid=UID),
            GOOD_FOLDER,
            False,
            "error",
        ),
        (
            folder_checks.PathStat(path=SOCKET, kind="link", mode=0o777, uid=UID),
            GOOD_FOLDER,
            False,
            "error",
        ),
        (
            GOOD_SOCKET,
            folder_checks.PathStat(path=FOLDER, kind="folder", mode=0o755, uid=UID),
            True,
            "warning",
        ),
        (
            GOOD_SOCKET,
            folder_checks.PathStat(path=FOLDER, kind="folder", mode=0o777, uid=UID),
            True,
            "error",
        ),
        (
            GOOD_SOCKET,
            folder_checks.PathStat(path=FOLDER, kind="folder", mode=0o700, uid=5),
            True,
            "error",
        ),
        (
            folder_checks.PathStat(path=SOCKET, kind="unreadable"),
            folder_checks.PathStat(path=FOLDER, kind="unreadable"),
            False,
            "error",
        ),
        (
            NO_SOCKET,
            folder_checks.PathStat(path=FOLDER, kind="link", mode=0o777, uid=UID),
            False,
            "error",
        ),
        (
            folder_checks.PathStat(path=f"/{'x' * 120}/m.sock", kind="missing"),
            GOOD_FOLDER,
            False,
            "error",
        ),
    ],
)
def test_access_to_the_socket_is_checked(
    entry: folder_checks.PathStat,
    folder: folder_checks.PathStat,
    level: str | None,
    *,
    is_held: bool,
) -> None:
    found = daemon_checks.check_socket(entry, folder, uid=UID, is_held=is_held)
    assert (find_worst(found)[1] if found else None) == level
    check_remedies(found)


@pytest.mark.parametrize(
    ("kind", "mode", "what", "remedy"),
    [
        ("link", 0o777, "is a link", "use the path of the real folder"),
        ("file", 0o600, "is a file", "move it away, or set MEMSYNCD_SOCKET"),
        ("folder", 0o755, "others may read", f"chmod 700 {FOLDER}"),
        ("folder", 0o777, "others may write to", f"chmod 700 {FOLDER}"),
    ],
)
def test_what_is_at_the_place_of_the_sockets_folder_gets_its_own_remedy(
    kind: Any, mode: int, what: str, remedy: str
) -> None:
    folder = folder_checks.PathStat(path=FOLDER, kind=kind, mode=mode, uid=UID)
    found = daemon_checks.check_socket(NO_SOCKET, folder, uid=UID, is_held=False)
    assert (what in found[0].what, found[0].remedy.startswith(remedy)) == (True, True)


def test_a_closed_folder_of_the_socket_is_the_only_finding_for_the_socket() -> None:
    folder = folder_checks.PathStat(path=FOLDER, kind="folder", mode=0, uid=UID)
    entry = folder_checks.PathStat(path=SOCKET, kind="unreadable")
    [found] = daemon_checks.check_socket(entry, folder, uid=UID, is_held=False)
    assert (found.level, found.remedy) == ("error", f"chmod 700 {FOLDER}")


def list_texts(path: Path) -> Iterator[str]:
    """The texts of a module; a value within one counts as a word."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.JoinedStr):
            parts = (
                str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values
            )
            yield "".join(parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            # The parts of the texts above are constants, too: without the end of what they name.
            yield node.value.removesuffix(" ") + (" X" if node.value.endswith(" ") else "")


def test_a_remedy_names_a_whole_command() -> None:
    package = Path(memsyncd.__file__).parent
    modules = [package / "engine" / "checks.py", *(package / "cli" / "doctor").glob("*.py")]
    named = [
        (match[1], match[2].split())
        for module in modules
        for text in list_texts(module)
        for match in re.finditer(r"memsyncd ([a-z][a-z-]*)((?: [^\s;,`)]+)*)", text)
        if match[1] in ENTRIES
    ]
    assert len(named) > 20
    for name, words in named:
        command = load_command(name)
        if words and words[0] in command.commands:
            command = command.commands[words.pop(0)]
        needed = [one.metavar for one in command.arguments if one.is_needed]
        assert not needed or words, f"memsyncd {name}: {needed}"


def test_the_file_at_a_path_is_identified_without_following_links(tmp_path: Path) -> None:
    (tmp_path / "file").touch(mode=0o640)
    (tmp_path / "link").symlink_to("file")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "sock"))
        kinds = {
            name: folder_checks.stat_entry(str(tmp_path / name)).kind
            for name in ("file", "link", "sock", "gone", "file/beneath", ".")
        }
    assert kinds == {
        "file": "file",
        "link": "link",
        "sock": "socket",
        "gone": "missing",
        "file/beneath": "missing",
        ".": "folder",
    }
    assert folder_checks.stat_entry(str(tmp_path / "file")).mode == 0o640


def test_a_held_socket_without_an_answer_is_distinguished_from_a_stale_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemon_checks, "ANSWER_S", 0.2)
    path = tmp_path / "memsyncd.sock"
    lock = str(tmp_path / "daemon.lock")
    locks = FolderLocks([lock], Holder(4711, "0", str(path)))
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        path.chmod(0o600)
        listening.listen()
        [held] = daemon_checks.ping_sockets([str(path)], [lock])
    locks.close()
    [left] = daemon_checks.ping_sockets([str(path)], [lock])
    assert (held.pid, held.is_listening, held.holder_pid) == (None, True, 4711)
    assert (left.pid, left.is_listening, left.holder_pid) == (None, False, None)


# --- places -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("free_bytes", "n_inodes", "level"),
    [
        (10**10, 10**6, "ok"),
        (10**10, None, "ok"),
        (10**8, 10**6, "warning"),
        (10**6, 10**6, "error"),
        (0, None, "error"),
        (10**10, 10, "warning"),
        (10**10, 0, "error"),
    ],
)
def test_free_space_is_checked_in_bytes_and_in_inodes(
    free_bytes: int, n_inodes: int | None, level: str
) -> None:
    found = folder_checks.check_disk_space(
        [folder_checks.DiskSpace(device=1, paths=("/a",), free_bytes=free_bytes, n_inodes=n_inodes)]
    )
    assert find_worst(found) == ("disk", level)
    check_remedies(found)


def test_each_disk_is_measured_once_also_for_missing_folders(tmp_path: Path) -> None:
    [room] = folder_checks.measure_disk_space([str(tmp_path), str(tmp_path / "not" / "there")])
    assert len(room.paths) == 2
    assert room.free_bytes > 0


@pytest.mark.parametrize(
    ("kind", "mode", "uid", "level"),
    [
        ("folder", 0o700, UID, "ok"),
        ("file", 0o600, UID, "ok"),
        ("missing", 0, 0, None),
        ("folder", 0o755, UID, "warning"),
        ("file", 0o644, UID, "warning"),
        ("file", 0o666, UID, "error"),
        ("folder", 0o770, UID, "error"),
        ("folder", 0o700, 0, "error"),
        ("file", 0o400, UID, "error"),
        ("unreadable", 0, 0, "error"),
    ],
)
def test_read_permissions_of_databases_are_checked(
    kind: str, mode: int, uid: int, level: str | None
) -> None:
    found = folder_checks.check_permissions(
        [folder_checks.PathStat(path="/p", kind=kind, mode=mode, uid=uid)], uid=UID
    )
    assert (find_worst(found)[1] if found else None) == level
    check_remedies(found)


def test_what_keeps_a_folder_from_being_created_is_found_above_it(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / "folder").mkdir()
    kinds = {
        name: found and (found.kind, found.path)
        for name in ("file", "file/state/memsyncd", "link/memsyncd", "folder", "folder/a/b")
        for found in [folder_checks.find_obstacle(str(tmp_path / name))]
    }
    file = ("file", str(tmp_path / "file"))
    assert kinds == {
        "file": file,
        "file/state/memsyncd": file,
        "link/memsyncd": ("link", str(tmp_path / "link")),
        "folder": None,
        "folder/a/b": None,
    }


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_keeps_one_from_being_created(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    found = folder_checks.find_obstacle(str(tmp_path / "state" / "memsyncd"))
    assert found is not None
    assert (found.kind, found.path) == ("folder", str(tmp_path))


@pytest.mark.parametrize(
    ("kind", "what", "remedy"),
    [
        ("folder", "you may not write here (mode 0500)", "make this folder writable for you"),
        ("file", "this file is in the place of a folder", "see what it is and move it away"),
    ],
)
def test_what_keeps_a_folder_from_being_created_gets_its_own_remedy(
    kind: str, what: str, remedy: str
) -> None:
    obstacle = folder_checks.PathStat(path="/s", kind=kind, mode=0o500, uid=UID)
    [found] = folder_checks.check_obstacle("/s/memsyncd", obstacle, variable="XDG_STATE_HOME")
    assert (found.level, found.where) == ("error", "/s")
    assert what in found.what
    assert found.remedy == f"{remedy}, or set XDG_STATE_HOME to a folder of your own"
    assert folder_checks.check_obstacle("/s", None, variable="XDG_STATE_HOME") == []


@pytest.mark.parametrize(
    ("mode", "uid", "n_found"), [(0o644, UID, 0), (0o600, 0, 0), (0o666, UID, 1), (0o600, 5, 1)]
)
def test_other_users_may_read_the_configuration_but_not_write_it(
    mode: int, uid: int, n_found: int
) -> None:
    entry = folder_checks.PathStat(path="/c", kind="file", mode=mode, uid=uid)
    assert len(folder_checks.check_config_mode(entry, uid=UID)) == n_found


@pytest.mark.parametrize(
    ("reported", "n_found"),
    [("/c/config.toml", 0), ("/c/config.toml (none: defaults)", 0), ("/d/config.toml", 1), ("", 1)],
)
def test_a_daemon_that_reads_another_configuration_is_found(reported: str, n_found: int) -> None:
    assert len(folder_checks.check_config_path(reported, "/c/config.toml")) == n_found


# --- file systems -------------------------------------------------------------------------------

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
    ],
)
def test_a_path_is_on_the_last_of_the_deepest_mounts(path: str, kind: str) -> None:
    mount = folder_checks.find_mount(path, folder_checks.parse_mounts(MOUNTS))
    assert mount is not None
    assert mount.kind == kind


def test_without_a_mount_table_nothing_is_reported() -> None:
    assert folder_checks.find_mount("/x", []) is None
    storage = folder_checks.Storage(path="/x", mount=None)
    assert folder_checks.check_notes_storage(storage) == []
    assert (
        folder_checks.check_own_storage(storage, contents="x is", variable="X", is_lasting=True)
        == []
    )


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
    assert (
        folder_checks.find_service(path, lambda place: place == "/home/u/synced/.stfolder")
        == service
    )


def stand_on(kind: str, *options: str, service: str = "") -> folder_checks.Storage:
    return folder_checks.Storage(
        path="/g",
        mount=folder_checks.Mount(folder="/", kind=kind, options=options),
        service=service,
    )


@pytest.mark.parametrize(
    ("storage", "of_notes", "of_records", "of_index"),
    [
        (stand_on("ext4", "rw"), None, None, None),
        (stand_on("nfs4", "rw"), "warning", "error", "error"),
        (stand_on("9p", "rw"), "warning", "error", "error"),
        (stand_on("tmpfs", "rw"), None, "warning", None),
        (stand_on("ext4", "ro"), "info", "error", "error"),
        (stand_on("ext4", "rw", service="Dropbox"), "info", "error", "error"),
    ],
)
def test_the_finding_for_a_file_system_depends_on_its_content(
    storage: folder_checks.Storage,
    of_notes: str | None,
    of_records: str | None,
    of_index: str | None,
) -> None:
    notes = folder_checks.check_notes_storage(storage)
    records = folder_checks.check_own_storage(
        storage, contents="history is", variable="XDG_STATE_HOME", is_lasting=True
    )
    index = folder_checks.check_own_storage(
        storage, contents="indexes are", variable="XDG_CACHE_HOME", is_lasting=False
    )
    levels = [find_worst(found)[1] if found else None for found in (notes, records, index)]
    assert levels == [of_notes, of_records, of_index]
    check_remedies([*notes, *records, *index])


# --- processes ----------------------------------------------------------------------------------


@given(st.text())
def test_reading_the_kernels_tables_never_fails(text: str) -> None:
    folder_checks.parse_mounts(text)
    folder_checks.find_error_line(text.splitlines())


def run(pid: int, *words: str, **fields: Any) -> daemon_checks.Process:
    return daemon_checks.Process(pid=pid, words=words, **fields)


@pytest.mark.parametrize(
    ("words", "is_daemon"),
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
    words: tuple[str, ...], *, is_daemon: bool
) -> None:
    assert run(1, *words).is_daemon is is_daemon


@pytest.mark.parametrize(
    ("process", "worst"),
    [
        (DAEMON, ("open_databases", "ok")),
        (run(8, "bash"), ("open_databases", "ok")),
        (run(8, "memsyncd", "run", databases=("/s/index.db",)), ("two_daemons", "error")),
        # Begun by the daemon, and not its own program yet.
        (
            run(8, "memsyncd", "run", databases=("/s/index.db",), parent_pid=7),
            ("open_databases", "ok"),
        ),
        (run(8, "sqlite3", databases=("/s/index.db",)), ("open_databases", "info")),
        (
            run(8, "python3", "-m", vector_client.WORKER, databases=("/s/vectors.db",)),
            ("open_databases", "ok"),
        ),
    ],
)
def test_other_processes_with_open_databases_are_checked(
    process: daemon_checks.Process, worst: tuple[str, str]
) -> None:
    found = daemon_checks.check_open_files([DAEMON, process], daemon_pid=7)
    assert find_worst(found) == worst
    check_remedies(found)


def test_without_visible_processes_nothing_is_reported() -> None:
    assert daemon_checks.check_open_files([], daemon_pid=7) == []


@pytest.mark.parametrize(
    ("n_watches", "n_instances", "level"),
    [(10, 1, "ok"), (899, 1, "ok"), (900, 1, "warning"), (10, 116, "warning")],
)
def test_the_limits_of_inotify_are_checked(n_watches: int, n_instances: int, level: str) -> None:
    limits = daemon_checks.Inotify(max_watches=1000, max_instances=128)
    greedy = run(8, "/usr/bin/code", n_watches=n_watches, n_instances=n_instances)
    found = daemon_checks.check_inotify(limits, [DAEMON, greedy], daemon_pid=7)
    assert find_worst(found) == ("inotify", level)
    if level == "warning":
        assert "code (pid 8)" in found[0].what
        assert "sysctl" in found[0].remedy


def test_without_inotify_nothing_is_reported(tmp_path: Path) -> None:
    assert daemon_checks.read_inotify(str(tmp_path)) is None
    assert daemon_checks.check_inotify(None, [], daemon_pid=None) == []
    assert daemon_checks.list_processes([], proc=str(tmp_path / "none")) == []


# --- service ------------------------------------------------------------------------------------


def serve(**fields: Any) -> daemon_checks.ServiceState:
    return daemon_checks.ServiceState(
        **{"is_installed": True, "state": "active", "pid": 7, **fields}
    )


@pytest.mark.parametrize(
    ("service", "daemon_pid", "level"),
    [
        (daemon_checks.ServiceState(absence="this system has no systemd"), 7, "info"),
        (daemon_checks.ServiceState(), 7, "info"),
        (serve(), 7, "ok"),
        (serve(pid=None, is_waiting=True, state="inactive"), None, "ok"),
        (serve(pid=None, state="inactive"), None, "error"),
        (serve(pid=None, state="failed", result="exit-code"), None, "error"),
        (serve(pid=None, state="inactive"), 9, "warning"),
        (serve(), 9, "warning"),
        (serve(is_current=False), 7, "warning"),
        (serve(is_enabled=False), 7, "warning"),
        (serve(n_restarts=2), 7, "info"),
    ],
)
def test_the_state_from_the_supervisor_is_checked(
    service: daemon_checks.ServiceState, daemon_pid: int | None, level: str
) -> None:
    found = daemon_checks.check_service(service, daemon_pid=daemon_pid)
    assert find_worst(found) == ("service", level)
    check_remedies(found)


# --- without a daemon ---------------------------------------------------------------------------


def make_head(page_bytes: int = 4096) -> bytes:
    return folder_checks.MAGIC + page_bytes.to_bytes(2, "big") + bytes(82)


@pytest.mark.parametrize(
    ("head", "size_bytes", "trouble"),
    [
        (make_head(), 8192, ""),
        (make_head(1), 131_072, ""),
        (b"", 0, ""),
        (make_head(), 8000, "truncated"),
        (make_head()[:50], 50, "not a database"),
        (b"x" * 100, 4096, "not a database"),
        (make_head(0), 4096, "truncated"),
    ],
)
def test_a_database_is_recognized_by_its_first_bytes_and_its_size(
    head: bytes, size_bytes: int, trouble: str
) -> None:
    message = folder_checks.find_damage(head, size_bytes)
    assert trouble in message
    assert bool(trouble) == bool(message)


def test_a_damaged_list_of_workspaces_is_a_finding_and_not_a_failure(tmp_path: Path) -> None:
    place = tmp_path / "workspaces.json"
    assert folder_checks.read_workspace_list(str(place)) == ([], "")
    for text in ("{", "[]", '{"workspaces": [{}]}', '{"workspaces": 3}', "\xff"):
        place.write_bytes(text.encode("latin-1"))
        known, trouble = folder_checks.read_workspace_list(str(place))
        assert known == []
        assert "damaged" in trouble


def test_the_last_warning_of_a_log_is_found() -> None:
    lines = [
        '{"level": "warning", "event": "events_lost", "reason": "queue full"}',
        '{"level": "error", "event": "sync_failed", "reason": "it is damaged"}',
        '{"level": "info", "event": "sync_done"}',
        "{broken",
        "some other line",
    ]
    assert folder_checks.find_error_line(lines) == "sync_failed: it is damaged"
    told = '{"level": "error", "event": "library_message", "message": "it was not read"}'
    assert folder_checks.find_error_line([told]) == "library_message: it was not read"
    assert (
        folder_checks.find_error_line([*lines, "memsyncd: the configuration is wrong"])
        == "the configuration is wrong"
    )
    assert folder_checks.find_error_line([]) == ""


# --- what is shown ------------------------------------------------------------------------------

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


def test_the_worst_finding_comes_first_and_passed_checks_are_folded() -> None:
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


def test_with_all_nothing_is_folded() -> None:
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


HOLDER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("CREATE TABLE t(x)")
connection.execute("BEGIN EXCLUSIVE")
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_a_process_that_holds_a_database_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "index.db"
    words = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        found = {process.pid: process for process in daemon_checks.list_processes([str(tmp_path)])}
        holder.send_signal(signal.SIGSTOP)
        os.waitpid(holder.pid, os.WUNTRACED)
        stopped = {process.pid: process for process in daemon_checks.list_processes([])}
        holder.send_signal(signal.SIGCONT)
        assert holder.stdin is not None
        holder.stdin.close()
    seen = found[holder.pid]
    assert (seen.databases, seen.is_stopped) == ((str(path),), False)
    assert seen.parent_pid == os.getpid()
    assert stopped[holder.pid].is_stopped
    assert stopped[holder.pid].databases == ()
    assert os.getpid() not in found
