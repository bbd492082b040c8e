"""A real `systemd --user` in its own mount, process and cgroup namespaces, with its own user.

It needs root and the right to make namespaces. Without them these tests are skipped with a reason.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.programs import find_missing, succeeds

REPOSITORY = Path(__file__).resolve().parents[2]
SYSTEMD = Path("/usr/lib/systemd/systemd")
# A guard against hanging. On a busy machine the service comes last, because it is nice.
WAIT_S = 60.0
# Longer than WAIT_S, so that a failure names the state that did not come.
TEST_S = 240
POLL_S, SELDOM_S = 0.05, 0.3
NAMESPACES = ("--mount", "--pid", "--fork", "--mount-proc", "--cgroup")
# A separate root of groups, because all namespaces share one tree: the end of one run could remove
# the groups that the start of another run is about to use.
APART = """
mount --make-rprivate /
umount -l /sys/fs/cgroup 2>/dev/null
mount -t cgroup2 none /sys/fs/cgroup || exit 1
mkdir -p /sys/fs/cgroup/$1 && echo $$ > /sys/fs/cgroup/$1/cgroup.procs || exit 1
exec unshare --mount --cgroup bash -c "$2"
"""
# The manager must not be process 1 of its namespace, or it would be a system's manager. Its group is
# the usual group of a user's manager, by which the journal assigns entries to a user.
BEGIN = f"""
umount -l /sys/fs/cgroup
mount -t cgroup2 none /sys/fs/cgroup || exit 1
for folder in /run/systemd /run/log; do mkdir -p $folder && mount -t tmpfs none $folder || exit 1; done
mkdir -p /run/systemd/system /run/systemd/journal /run/log/journal
group=/sys/fs/cgroup/user.slice/user-0.slice/user@0.service/init.scope
mkdir -p $group
if [ -x {SYSTEMD}-journald ]; then {SYSTEMD}-journald & fi
(echo $BASHPID > $group/cgroup.procs; exec {SYSTEMD} --user --log-target=console) &
wait
"""
# This must come before entering the namespace of groups, which no process can leave.
ENTER = 'echo $$ > /sys/fs/cgroup/cgroup.procs && exec nsenter --target=1 --cgroup "$@"'
HANG = """
import ctypes, os, sys
device = os.open("/dev/fuse", os.O_RDWR)
options = f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()
if ctypes.CDLL(None, use_errno=True).mount(b"hung", sys.argv[1].encode(), b"fuse", 0, options):
    sys.exit(os.strerror(ctypes.get_errno()))
print("mounted", flush=True)
sys.stdin.read()
"""
# Groups outlive their namespace, and only an empty group can be removed.
END = """
mount -t cgroup2 none /mnt
for _ in 1 2 3 4 5 6 7 8 9 10; do
    find /mnt/$1 -depth -type d -exec rmdir {} + && break
    sleep 0.2
done
"""


class Manager:
    """A user manager, and the folders of its user. `env` is the environment of a login."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "manager.log"
        (folder / "run").mkdir(mode=0o700)
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "PYTHONPATH": str(REPOSITORY),
            "XDG_RUNTIME_DIR": str(folder / "run"),
            "LANG": "C.UTF-8",
        }
        with self.log.open("wb") as log:
            self._outer = subprocess.Popen(
                [
                    "unshare",
                    *NAMESPACES,
                    "--kill-child",
                    "sh",
                    "-c",
                    APART,
                    "sh",
                    folder.name,
                    BEGIN,
                ],
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def is_running(self) -> bool:
        return self.do("systemctl", "--user", "is-system-running").stdout.strip() in (
            "running",
            "degraded",
        )

    def _enter(self) -> list[str]:
        inner = Path(f"/proc/{self._outer.pid}/task/{self._outer.pid}/children").read_text().split()
        if not inner:
            return ["false"]
        return ["nsenter", f"--target={inner[0]}", "--mount", "--pid", "sh", "-c", ENTER, "sh"]

    @contextlib.contextmanager
    def begin(self, *words: str) -> Iterator[None]:
        """Run a program until the block ends. The block begins after the program's first line; the
        program ends when its stdin ends.
        """
        command = [*self._enter(), *words]
        with subprocess.Popen(
            command, env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as program:
            assert program.stdin is not None
            assert program.stdout is not None
            assert program.stdout.readline()
            yield
            program.stdin.close()

    def do(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run a program in the manager's namespaces, as its user would."""
        return subprocess.run(
            [*self._enter(), *words],
            env=self.env | env,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=False,
        )

    def memsyncd(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        return self.do(sys.executable, "-m", "memsyncd", *words, **env)

    def log_of_service(self) -> str:
        return self.memsyncd("service", "logs", "--lines", "200").stdout

    def show(self, name: str, unit: str = "memsyncd.service") -> str:
        """Return a property of a unit from the manager, such as `ActiveState`."""
        return self.do(
            "systemctl", "--user", "show", unit, f"--property={name}", "--value"
        ).stdout.strip()

    def kill(self, number: signal.Signals) -> int:
        """Send the daemon a signal. Return its pid."""
        pid = int(self.show("MainPID"))
        assert pid > 0
        # The shell's `kill`, because not every machine with systemd has the program.
        assert self.do("sh", "-c", f"kill -{number.value} {pid}").returncode == 0
        return pid

    @contextlib.contextmanager
    def hang(self, folder: Path) -> Iterator[None]:
        """Mount a file system on the folder that never answers, like a dead network disk. Unmount it
        at the end.
        """
        with self.begin(sys.executable, "-c", HANG, str(folder)):
            yield
        assert self.do("umount", "-l", str(folder)).returncode == 0

    def drop_in(self, text: str) -> None:
        """Change the service by a drop-in, as a person would."""
        folder = self.folder / ".config/systemd/user/memsyncd.service.d"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "test.conf").write_text(text)

    @property
    def socket_path(self) -> Path:
        return self.folder / "run" / "memsyncd" / "memsyncd.sock"

    @property
    def units(self) -> Path:
        return self.folder / ".config" / "systemd" / "user"

    def close(self) -> None:
        self._outer.kill()
        self._outer.wait()
        subprocess.run(
            ["unshare", "--mount", "--cgroup", "sh", "-c", END, "sh", self.folder.name],
            capture_output=True,
            check=False,
        )
        shutil.rmtree(self.folder, ignore_errors=True)


def wait_until(is_so: Callable[[], bool], complaint: Callable[[], str]) -> None:
    began_s = time.monotonic()
    while not is_so():
        waited_s = time.monotonic() - began_s
        assert waited_s < WAIT_S, complaint()
        # A poll starts some processes, so a long wait polls less often.
        time.sleep(min(max(POLL_S, waited_s / 5), SELDOM_S))


def find_obstacle() -> str:
    """Say why no manager can be started here; empty if it can."""
    missing = find_missing("unshare", "nsenter", "systemctl", "bash")
    if not SYSTEMD.exists() or missing:
        return f"not installed: {', '.join(missing) or SYSTEMD}"
    if os.geteuid() != 0:
        return "only root may make the namespaces that a manager of its own needs"
    probe = "mount --make-rprivate / && mount -t tmpfs none /mnt && umount -l /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup"
    is_allowed = succeeds("unshare", *NAMESPACES, "sh", "-c", probe)
    return "" if is_allowed else "namespaces or cgroups cannot be had here"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.timeout(TEST_S))


@pytest.fixture(scope="session")
def manager() -> Iterator[Manager]:
    obstacle = find_obstacle()
    if obstacle:
        pytest.skip(obstacle)
    manager = Manager(Path(tempfile.mkdtemp(prefix="memsyncd-", dir="/var/tmp")))
    wait_until(manager.is_running, manager.log.read_text)
    yield manager
    manager.close()


@pytest.fixture
def user(manager: Manager) -> Iterator[Manager]:
    """The manager, without a service and without memory of an earlier service."""
    yield manager
    manager.do("systemctl", "--user", "stop", "memsyncd.socket", "memsyncd.service")
    if manager.socket_path.exists():
        manager.memsyncd("stop")
    for name in (".config", ".local", ".cache", "trees"):
        shutil.rmtree(manager.folder / name, ignore_errors=True)
    manager.do("sh", "-c", "systemctl --user reset-failed; systemctl --user daemon-reload")


def make_trees(user: Manager) -> Path:
    """Create a folder with one note about a larch."""
    root = user.folder / "trees"
    (root / ".memories").mkdir(parents=True, exist_ok=True)
    (root / "MEMORY.md").write_text("# Memory\n\nlarch\n")
    return root


@pytest.fixture
def installed(user: Manager) -> Manager:
    """A running service with one workspace."""
    root = make_trees(user)
    done = user.memsyncd("service", "install")
    assert done.returncode == 0, done.stderr + user.log.read_text()
    assert user.memsyncd("add", str(root)).returncode == 0
    return user
