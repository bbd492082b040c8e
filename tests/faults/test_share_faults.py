"""Shared memory with ssh, full disks, hooks and remotes that fail: it is named with a remedy, nothing
is lost, and it continues by itself.
"""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memsyncd.errors import MemsyncdError, ShareFailed
from tests.daemon.conftest import wait_until
from tests.daemon.test_share import BY_HAND, BY_ITSELF, Machine, bare, make_machine, settle
from tests.faults.test_full_disk import fill_up
from tests.git import git
from tests.programs import succeeds

__all__ = ["bare", "make_machine"]
pytestmark = pytest.mark.needs("git")


def read_findings(machine: Machine) -> list[dict[str, Any]]:
    findings = machine.call("doctor")["findings"]
    return [each for each in findings if each["check"] == "share" and each["level"] != "ok"]


def check_named(machine: Machine, problem: str, hint: str) -> None:
    """Check that an exchange, `share status` and `doctor` name a trouble, with a remedy."""
    with pytest.raises(ShareFailed, match=problem):
        machine.now()
    state = machine.state()
    assert problem in state["problem"]
    assert hint in state["hint"]
    [finding] = read_findings(machine)
    assert problem in finding["what"]
    assert hint in finding["what"]
    assert finding["remedy"]


def check_healed(machine: Machine) -> None:
    machine.now()
    assert machine.state()["problem"] == ""
    assert read_findings(machine) == []


# --- ssh ----------------------------------------------------------------------------------------


class SshServer:
    """An ssh server of this test: its own keys and configuration, on the loopback alone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("host", "user", "other"):
            words = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name))
            subprocess.run(words, check=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        lines = [
            f"Port {self.port}",
            "ListenAddress 127.0.0.1",
            f"HostKey {folder}/host",
            f"AuthorizedKeysFile {folder}/authorized",
            "PidFile none",
            "StrictModes no",
            "UsePAM no",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
        ]
        (folder / "sshd.conf").write_text("\n".join(lines) + "\n")
        self.restore()
        program = subprocess.run(["which", "sshd"], capture_output=True, check=True, text=True)
        command = [program.stdout.strip(), "-D", "-e", "-f", str(folder / "sshd.conf")]
        if os.geteuid() == 0:
            # Then sshd wants a folder that only a boot script makes.
            script = "mount -t tmpfs none /run && mkdir -m 755 /run/sshd && exec"
            if not succeeds("unshare", "-m", "true"):
                pytest.skip("root may not make a place for sshd here")
            command = ["unshare", "-m", "sh", "-c", f"{script} {shlex.join(command)}"]
        with (folder / "log").open("wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=log)
        wait_until(lambda: "listening" in (folder / "log").read_text(), "sshd does not listen")

    def restore(self) -> None:
        """Let both sides know the right keys."""
        self.allow("user")
        self.know("host")
        self.use("user")

    def allow(self, key: str) -> None:
        (self.folder / "authorized").write_bytes((self.folder / f"{key}.pub").read_bytes())

    def know(self, key: str) -> None:
        """Let the client expect this key of the host; empty for none."""
        known = self.folder / "known"
        if key:
            kind, text, *_ = (self.folder / f"{key}.pub").read_text().split()
            known.write_text(f"[127.0.0.1]:{self.port} {kind} {text}\n")
        else:
            known.unlink()

    def use(self, key: str) -> None:
        """Let the client have this key."""
        lines = [
            "Host *",
            f"IdentityFile {self.folder}/{key}",
            "IdentitiesOnly yes",
            f"UserKnownHostsFile {self.folder}/known",
            "GlobalKnownHostsFile none",
        ]
        (self.folder / "ssh.conf").write_text("\n".join(lines) + "\n")

    def configure(self, machine: Machine) -> None:
        words = ["git", "config", "--global", "core.sshCommand", f"ssh -F {self.folder}/ssh.conf"]
        subprocess.run(words, env=machine.home.env, check=True)


@pytest.fixture
def ssh(tmp_path: Path) -> Iterator[SshServer]:
    folder = tmp_path / "ssh"
    folder.mkdir()
    server = SshServer(folder)
    yield server
    server.process.terminate()
    server.process.wait()


@pytest.mark.needs("ssh", "ssh-keygen", "sshd")
def test_over_ssh_a_wrong_key_and_an_unknown_host_are_named_and_nothing_is_asked(
    make_machine: Callable[..., Machine], bare: Path, ssh: SshServer
) -> None:
    user = subprocess.run(["id", "-un"], capture_output=True, check=True, text=True)
    remote = f"ssh://{user.stdout.strip()}@127.0.0.1:{ssh.port}{bare}"
    desk, laptop = (make_machine(name, remote=remote) for name in ("desk", "laptop"))
    for machine in (desk, laptop):
        ssh.configure(machine)
        machine.share()
    desk.remember("We chose Postgres.", kind="decision")
    settle(desk, laptop)
    assert "Postgres" in laptop.text()
    for change, key, problem, hint in (
        (ssh.know, "", "does not know the key", "in a terminal"),
        (ssh.know, "other", "another key", "ssh-keygen -f"),
        (ssh.use, "other", "Permission denied", "ssh-add"),
        (ssh.allow, "other", "Permission denied", "ssh-add"),
    ):
        change(key)
        desk.remember(f"Words before {problem}.", kind="decision")
        check_named(desk, problem, hint)
        assert desk.place.find("postgres")
        ssh.restore()
        check_healed(desk)
    settle(desk, laptop)


# --- full disks ---------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["memory", "repository", "remote"])
def test_a_full_disk_loses_nothing_and_is_named_until_there_is_space(
    make_machine: Callable[..., Machine],
    bare: Path,
    mount: Callable[[Path, str], None],
    place: str,
) -> None:
    desk, laptop = make_machine("desk", BY_ITSELF), make_machine("laptop", BY_ITSELF)
    disk = {"memory": desk.memories, "repository": desk.memories / ".git", "remote": bare}[place]
    if place == "repository":
        git(desk.memories, "init", "-q", "--initial-branch=main")
    before = [(path, path.read_bytes()) for path in disk.rglob("*") if path.is_file()]
    mount(disk, "3m")
    for path, data in before:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    if place != "memory":
        for name in ("objects", "refs"):
            (disk / name).mkdir(exist_ok=True)
    desk.share()
    laptop.share()
    kept: list[str] = []

    def remember(number: int) -> None:
        word = f"{place}{number}x"
        desk.remember(f"{word} {os.urandom(2000).hex()}", kind="decision")
        kept.append(word)

    remember(0)
    wait_until(lambda: bool(laptop.place.find(kept[0])), "it did not arrive")
    rest = fill_up(disk)
    n_refused = 0
    for number in range(1, 6):
        try:
            remember(number)
        except MemsyncdError:
            n_refused += 1
    assert (n_refused > 0) == (place == "memory")
    if place == "memory":
        # Another machine's news do not fit either.
        laptop.remember(f"arrives {os.urandom(2000).hex()}", kind="decision")
        kept.append("arrives")

    def is_named() -> bool:
        findings = [each["what"] for each in read_findings(desk)]
        problem = desk.state()["problem"]
        return any(problem and problem in what for what in findings)

    wait_until(is_named, "it is not named")
    state = desk.state()
    assert "full" in state["problem"] or "No space left" in state["problem"], state["problem"]
    assert state["hint"]
    assert desk.place.find(kept[0])
    rest.unlink()
    wait_until(lambda: all(laptop.place.find(word) for word in kept), "it did not go on")
    wait_until(lambda: all(desk.place.find(word) for word in kept), "it did not go on")
    wait_until(lambda: desk.state()["problem"] == "", "it is still named")
    assert not [*(desk.memories / ".git").glob("fast_import_crash_*")]


# --- troubles -----------------------------------------------------------------------------------


def write_hook(folder: Path, name: str, script: str) -> Path:
    hook = folder / "hooks" / name
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\n{script}\n")
    hook.chmod(0o755)
    return hook


def test_hooks_of_the_user_are_asked_and_their_refusal_is_named(
    make_machine: Callable[..., Machine], bare: Path
) -> None:
    desk, laptop = make_machine("desk"), make_machine("laptop")
    desk.share()
    laptop.share()
    for folder, name, script in (
        (desk.memories / ".git", "pre-commit", "git diff --cached HEAD | grep -q Later && exit 1"),
        (desk.memories / ".git", "commit-msg", "grep -q decisions.md $1"),
        (desk.memories / ".git", "pre-push", "exit 1"),
        (bare, "pre-receive", "exit 1"),
    ):
        desk.remember("The first.", kind="decision")
        hook = write_hook(folder, name, f"echo not today >&2\n{script}\nexit 1")
        desk.remember(f"Later, after {name}.", kind="decision")
        laptop.save(f"{name}.md", "# News\n\nof the laptop\n")
        if folder != bare:
            laptop.now()
        check_named(desk, "not today", "")
        if folder != bare:
            assert name in desk.state()["problem"]
            # The news of others come all the same.
            assert f"{name}.md" in desk.read()
        assert f"after {name}" not in laptop.text()
        hook.unlink()
        check_healed(desk)
        settle(desk, laptop)
        assert f"after {name}" in laptop.text()
    # A hook may change the message.
    write_hook(desk.memories / ".git", "commit-msg", "echo Reviewed-By: ann >> $1")
    desk.remember("The last.", kind="decision")
    settle(desk, laptop)
    assert "Reviewed-By: ann" in git(laptop.memories, "log", "-1", "--format=%B")


def test_each_trouble_is_named_by_status_and_doctor_with_a_remedy(
    make_machine: Callable[..., Machine], bare: Path
) -> None:
    config = BY_HAND.replace("network_s = 20", "network_s = 3")
    desk, laptop = make_machine("desk", config), make_machine("laptop")
    desk.save("a.md", "# A\n\n## One\n\none\n")
    desk.share()
    laptop.share()
    # The remote is away.
    away = bare.rename(bare.with_name("away"))
    check_named(desk, "does not appear to be a git repository", "git -C")
    assert "since 20" in read_findings(desk)[0]["what"]
    away.rename(bare)
    check_healed(desk)
    # The remote accepts, and never answers.
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        for address in (f"git://127.0.0.1:{port}/a.git", f"ssh://127.0.0.1:{port}/a.git"):
            git(desk.memories, "remote", "set-url", "origin", address)
            check_named(desk, "did not end within 3 s", "share.network_s")
    git(desk.memories, "remote", "set-url", "origin", str(bare))
    check_healed(desk)
    # A note cannot be merged: here it has become a link.
    laptop.save("a.md", "# A\n\n## One\n\none of the laptop\n")
    laptop.now()
    desk.save("b.md", (desk.memories / "a.md").read_text())
    (desk.memories / "a.md").unlink()
    (desk.memories / "a.md").symlink_to("b.md")
    check_named(desk, "a.md cannot be merged: it is a link", "the note")
    (desk.memories / "a.md").unlink()
    (desk.memories / "b.md").rename(desk.memories / "a.md")
    check_healed(desk)
    settle(desk, laptop)


def test_a_wrong_clock_and_an_old_git_are_named(
    make_machine: Callable[..., Machine], tmp_path: Path
) -> None:
    desk, laptop = make_machine("desk"), make_machine("laptop")
    desk.share()
    laptop.remember("We chose Postgres.", kind="decision")
    laptop.share()
    date = {"GIT_COMMITTER_DATE": "2099-01-01T00:00:00Z"}
    words = ("git", "commit", "-q", "--allow-empty", "-m", "later")
    subprocess.run(words, cwd=laptop.memories, env=laptop.home.env | date, check=True)
    laptop.now()
    desk.now()
    [finding] = read_findings(desk)
    assert "minutes ahead" in finding["what"]
    assert finding["remedy"]
    # Git is too old.
    desk.kill()
    old = tmp_path / "old" / "git"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho git version 2.17.1\n")
    old.chmod(0o755)
    path = desk.home.env["PATH"]
    desk.home.env["PATH"] = f"{old.parent}:{path}"
    desk.start()
    with pytest.raises(ShareFailed, match=r"2\.17\.1 is too old"):
        desk.now()
    assert any("install git" in each["what"] for each in read_findings(desk))
    desk.kill()
    desk.home.env["PATH"] = path
    desk.start()


def test_a_repository_in_a_folder_of_another_service_is_named(
    make_home: Callable[..., Any], bare: Path
) -> None:
    home = make_home(BY_HAND)
    home.make_folder = lambda: make_folder(home.folder / "Dropbox" / "proj")
    desk = Machine(home, "desk", bare)
    desk.share()
    [finding] = read_findings(desk)
    assert "Dropbox" in finding["what"]
    assert finding["remedy"]
    desk.kill()


def make_folder(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder
