"""One memory on several machines: real daemons with homes of their own, and git between them."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
import pty
import random
import select
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memsyncd.errors import BadRequest, MemsyncdError, ShareFailed
from tests.daemon.conftest import Home, Place, wait_until
from tests.git import git
from tests.proc import find_children

pytestmark = [pytest.mark.life, pytest.mark.needs("git")]

SECRET = "AKIAQ3EGRZ7XJ4WLT2PM"
BY_HAND = "[share]\nquiet_s = 86400\nfetch_s = 86400\nnetwork_s = 20\n"
BY_ITSELF = "[share]\nquiet_s = 0.3\nfetch_s = 0.5\nnetwork_s = 20\n"


class Machine:
    """A home with a daemon and one project."""

    def __init__(self, home: Home, name: str, remote: Path | str | None) -> None:
        self.home, self.name = home, name
        home.env["MEMSYNCD_SHARE_MACHINE"] = name
        home.env["GIT_CONFIG_GLOBAL"] = str(home.folder / "gitconfig")
        (home.folder / "gitconfig").write_text(
            f"[user]\nname = {name}\nemail = {name}@example.org\n"
        )
        self.root = home.make_folder()
        self.memories = self.root / ".memories"
        self.memories.mkdir()
        self.remote = remote
        self.start()

    def start(self) -> None:
        self.daemon = self.home.start()
        self.place = Place(self.home, self.daemon, self.root)

    def kill(self) -> None:
        self.daemon.kill()
        self.place.client.close()

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        return self.place.client.call(method, workspace=self.place.id, **params)

    def share(self) -> dict[str, Any]:
        remote = str(self.remote) if self.remote else None
        return self.call("share.init", remote=remote, apply=True)

    def now(self, **params: Any) -> dict[str, Any]:
        return self.call("share.now", **params)

    def state(self) -> dict[str, Any]:
        return dict(self.call("share.status")["shared"][0])

    def remember(self, text: str, **params: Any) -> str:
        return str(self.call("note.add", content=text, **params)["anchor"])

    def rename(self, old: str, new: str) -> None:
        old, new = f"/memories/{old}", f"/memories/{new}"
        self.call("memory", command="rename", old_path=old, new_path=new)

    def save(self, path: str, text: str) -> None:
        self.place.save(f".memories/{path}", text)

    def read(self) -> dict[str, bytes]:
        """Return the notes, without ones that stay on this machine."""
        paths = [path for path in sorted(self.memories.rglob("*.md")) if ".git" not in path.parts]
        paths = [path for path in paths if not path.name.startswith("mine-")]
        return {str(path.relative_to(self.memories)): path.read_bytes() for path in paths}

    def text(self) -> str:
        return "".join(data.decode() for data in self.read().values())


class Terminal:
    """A program in a terminal."""

    def __init__(self, command: list[str], folder: Path, env: dict[str, str]) -> None:
        self._controller, worker = pty.openpty()
        self._screen = b""
        self._process = subprocess.Popen(
            command, cwd=folder, env=env | {"TERM": "vt100"}, stdin=worker, stdout=worker
        )
        os.close(worker)

    def type(self, keys: str) -> None:
        os.write(self._controller, keys.encode())

    def wait(self, words: str) -> None:
        """Wait until the program has printed these words."""

        def is_printed() -> bool:
            if select.select([self._controller], [], [], 0.05)[0]:
                self._screen += os.read(self._controller, 65536)
            return words.encode() in self._screen

        wait_until(is_printed, f"no {words} on the screen")

    def end(self) -> None:
        self._process.terminate()
        self._process.wait()
        os.close(self._controller)


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[Path]:
    """The repository between the machines. No object of it may ever have a secret."""
    git(tmp_path, "init", "-q", "--bare", "--initial-branch=main", "bare.git")
    yield tmp_path / "bare.git"
    assert SECRET not in read_objects(tmp_path / "bare.git")


def read_objects(bare: Path) -> str:
    """Return all objects, also ones that no branch has."""
    return git(bare, "cat-file", "--batch-all-objects", "--batch")


@pytest.fixture
def make_machine(make_home: Callable[..., Home], bare: Path) -> Iterator[Callable[..., Machine]]:
    machines: list[Machine] = []

    def make(name: str, config: str = BY_HAND, remote: Path | str = bare) -> Machine:
        machines.append(Machine(make_home(config), name, remote))
        return machines[-1]

    yield make
    for machine in machines:
        machine.kill()


def settle(*machines: Machine) -> None:
    """Exchange until nobody has news."""
    for _ in range(3):
        for machine in machines:
            machine.now()
    texts = [machine.read() for machine in machines]
    assert all(each == texts[0] for each in texts), texts


def test_what_one_machine_learns_is_known_on_the_other(
    make_machine: Callable[..., Machine], bare: Path
) -> None:
    desk, laptop = make_machine("desk"), make_machine("laptop")
    desk.remember("We chose Postgres.", kind="decision", client="claude-code")
    plan = desk.call("share.init", remote=str(bare))
    assert not plan["is_applied"]
    assert plan["paths"] == ["decisions.md"]
    assert not (desk.memories / ".git").exists()
    desk.share()
    # Both had memory before: the histories are joined.
    laptop.remember("Redis gives up.", kind="decision", client="codex")
    laptop.share()
    assert "joined" in laptop.state()["said"][0]
    settle(desk, laptop)
    assert desk.place.find("redis") == {".memories/decisions.md"}
    [revision] = desk.call("history", limit=1)["revisions"]
    assert (revision["client"], revision["command"]) == ("codex@laptop", "share")
    log = laptop.call("share.log")["commits"]
    assert {("claude-code", "desk"), ("codex", "laptop")} <= {
        (entry["writer"], entry["machine"]) for entry in log
    }
    # An undo is shared like any other change.
    desk.call("undo", revision=revision["revision"], confirm=True)
    settle(desk, laptop)
    assert "Redis" not in laptop.text()
    # A note that moves keeps its history.
    laptop.rename("decisions.md", "chosen.md")
    settle(desk, laptop)
    assert [*desk.read()] == ["chosen.md"]
    moved = desk.call("history", path=".memories/chosen.md")["revisions"]
    assert any(each["old_path"] == ".memories/decisions.md" for each in moved)
    # Both sides changed one note meanwhile, one by an editor.
    desk.remember("Kafka for events.", note="chosen.md")
    laptop.save("chosen.md", laptop.text() + "\n## Nginx\n\nIn front.\n")
    settle(desk, laptop)
    assert {"Kafka for events.", "In front.", "We chose Postgres."} <= set(desk.text().splitlines())
    # Another remote would get everything.
    assert desk.call("share.init", remote=str(bare))["n_paths"] == 0
    plan = desk.call("share.init", remote=f"{bare}-2")
    assert plan["paths"] == [".signals.jsonl", *desk.read()]
    assert plan["state"]["ahead"] > 1
    # It comes in the place of the former one, which is named, only if it answers.
    assert plan["former"] == str(bare)
    refused = desk.home.run("share", "init", f"{bare}-2", "--yes", cwd=desk.root)
    assert refused.returncode
    assert f"the remote is {bare}" in refused.stderr
    assert desk.state()["remote"] == str(bare)
    git(bare.parent, "init", "-q", "--bare", "--initial-branch=main", f"{bare}-2")
    done = desk.home.run("share", "init", f"{bare}-2", "--yes", cwd=desk.root)
    assert f"the remote was {bare}" in done.stderr
    assert (desk.state()["remote"], desk.state()["ahead"]) == (f"{bare}-2", 0)
    subjects = git(Path(f"{bare}-2"), "log", "--format=%s", "main").split("\n")
    assert "desk begins to share this memory" in subjects


def test_a_conflict_is_told_until_it_is_settled(make_machine: Callable[..., Machine]) -> None:
    desk, laptop = make_machine("box"), make_machine("box")
    desk.save("ports.md", "# Ports\n\n## Db\n\non 5432\n")
    desk.share()
    laptop.share()
    assert "named box, too" in laptop.state()["said"][0]
    desk.save("ports.md", "# Ports\n\n## Db\n\non 5431\n")
    laptop.save("ports.md", "# Ports\n\n## Db\n\non 5434\n")
    laptop.now(push=False)
    # A commit has the time in seconds.
    written_s = time.time()
    wait_until(lambda: int(time.time()) > written_s, "the clock stands")
    desk.now()
    assert "memsyncd choose" in "".join(laptop.now()["state"]["said"])
    desk.now()
    # Nobody has said when, so the text that was committed later is first.
    text = laptop.text()
    assert text == desk.text()
    assert text.index("on 5431") < text.index("conflict: ports/db") < text.index("on 5434")
    for machine in (desk, laptop):
        [told] = [text for text in machine.state()["said"] if "memsyncd choose" in text]
        problems = machine.place.client.call("problems", workspace=machine.place.id)["problems"]
        assert [each["code"] for each in problems] == ["conflict"]
        assert problems[0]["hint"] in told
    [second] = [word for word in shlex.split(problems[0]["hint"]) if "#" in word]
    laptop.call("memory.choose", anchor=second, keep="this")
    assert "memsyncd choose" not in "".join(laptop.state()["said"])
    settle(desk, laptop)
    assert "memsyncd choose" not in "".join(desk.state()["said"])
    assert desk.place.client.call("problems", workspace=desk.place.id)["problems"] == []


def test_nothing_that_must_stay_leaves(make_machine: Callable[..., Machine], bare: Path) -> None:
    config = BY_HAND + 'exclude = "private/**"\n'
    desk, laptop = make_machine("desk", config), make_machine("laptop")
    desk.remember("Public words.", kind="decision")
    desk.remember(f"The key is {SECRET}.", kind="decision")
    desk.remember("Only for now.", kind="decision", lifecycle="session")
    (desk.memories / "private").mkdir()
    desk.save("private/a.md", "# Mine\n\nmine alone\n")
    desk.share()
    laptop.share()
    held = {(each["path"], each["reason"].partition(":")[0]) for each in desk.state()["held"]}
    assert held == {
        (".memories/private/a.md", "share.exclude"),
        (".memories/decisions.md", "it has a secret"),
        (".memories/decisions.md", "its lifecycle is session"),
    }
    # A shared section that gets a secret stays as it was shared, and what is new beside it leaves.
    text = desk.read()["decisions.md"].decode().replace("Public words.", f"Public words. {SECRET}")
    desk.save("decisions.md", f"{text}\n## Later\n\nNew words.\n")
    desk.now()
    laptop.now()
    assert {"Public words.", "New words."} <= set(laptop.text().splitlines())
    assert desk.state()["n_held_notes"] == 1  # private/a.md
    # Changes of the other machine still arrive, and what stays back stays.
    laptop.remember("From the laptop.", kind="decision")
    laptop.now()
    desk.now()
    text = desk.text()
    assert all(words in text for words in ("From the laptop.", "Only for now.", SECRET))
    objects = read_objects(bare)
    assert not [words for words in ("Only for now.", "mine alone") if words in objects]
    assert "From the laptop." in objects


def test_no_secret_of_a_commit_is_pushed_whoever_made_it(
    make_machine: Callable[..., Machine], bare: Path
) -> None:
    desk = make_machine("desk")
    git(desk.memories, "init", "-q", "--initial-branch=main")
    for text in (f"# A\n\n{SECRET}\n", "# A\n\nnothing\n"):
        desk.save("a.md", text)
        git(desk.memories, "add", ".")
        git(desk.memories, "commit", "-qm", "by hand")
    assert desk.share()["state"]["problem"].endswith("a secret, AWS access key, in a.md")
    desk.remember("Later words.")
    with pytest.raises(ShareFailed, match="nothing is pushed"):
        desk.now()
    assert not read_objects(bare)
    # The user takes it out of the history.
    tree = git(desk.memories, "rev-parse", "HEAD^{tree}").strip()
    commit = git(desk.memories, "commit-tree", "-m", "begin", tree).strip()
    git(desk.memories, "update-ref", "refs/heads/main", commit)
    desk.now()
    assert "Later words." in read_objects(bare)
    # A commit of memsyncd that the user amends is still named by it, and so is one in a rebase.
    for amend in (
        f"echo {SECRET} > token.txt; git add token.txt; git commit -q --amend --no-edit",
        f"git commit -q --amend --only -m 'the key is {SECRET}'",
        f"touch {SECRET}.txt; git add {SECRET}.txt; git commit -q --amend --no-edit",
        f"git rebase -q --root --exec 'git commit -q --amend -m {SECRET}'",
    ):
        desk.remember("More words.")
        desk.now(push=False)
        before = git(desk.memories, "rev-parse", "HEAD").strip()
        script = ["sh", "-ec", amend]
        subprocess.run(script, cwd=desk.memories, env=desk.home.env, check=True)
        with pytest.raises(ShareFailed, match="a secret, AWS"):
            desk.now()
        git(desk.memories, "reset", "-q", "--hard", before)
        desk.now()
    # A tag does not go with a push.
    git(desk.memories, "config", "push.followTags", "true")
    git(desk.memories, "tag", "-a", "-m", SECRET, "secret")
    desk.remember("After the tag.")
    desk.now()
    # A secret that the remote has already keeps nobody from merging its note.
    laptop = make_machine("laptop", f'{BY_HAND}[guard]\nsecrets = "off"\n')
    laptop.share()
    desk.save("a.md", "# A\n\nnothing\n\n## New\n\nwords\n")
    desk.now(push=False)
    laptop.save("a.md", "# A\n\nAKIAQ3EGRZ7XJ4WLT2PN\n")
    laptop.now()
    assert desk.now()["is_pushed"]
    settle(desk, laptop)


def test_work_of_the_user_in_the_repository_stays(make_machine: Callable[..., Machine]) -> None:
    desk, laptop = make_machine("desk"), make_machine("laptop")
    desk.save("a.md", "# A\n\none\n\ntwo\n")
    desk.save("b.md", "# B\n\nwords\n")
    desk.share()
    laptop.share()

    def list_staged() -> set[str]:
        return set(git(desk.memories, "diff", "--cached", "--name-only").split())

    # A file that is no note, a part of a note, and a deletion are staged.
    (desk.memories / "image.png").write_bytes(bytes(100))
    desk.save("a.md", "# A\n\none more\n\ntwo\n")
    git(desk.memories, "add", ".")
    git(desk.memories, "rm", "-q", "--cached", "b.md")
    staged = git(desk.memories, "ls-files", "-s", "image.png", "a.md")
    desk.save("a.md", "# A\n\none more\n\ntwo more\n")
    laptop.remember("From the laptop.", kind="decision")
    settle(desk, laptop)
    assert "From the laptop." in desk.text()
    assert list_staged() == {"a.md", "b.md", "image.png"}
    assert git(desk.memories, "ls-files", "-s", "image.png", "a.md") == staged
    # A git that holds the index, such as `git commit -a` in an editor, is waited for.
    lock = desk.memories / ".git" / "index.lock"
    lock.touch()
    desk.remember("Meanwhile.")
    with pytest.raises(ShareFailed, match="another git works") as refusal:
        desk.now()
    assert f"rm {lock}" in refusal.value.hint
    lock.unlink()
    git(desk.memories, "reset", "-q", "a.md", "b.md")
    git(desk.memories, "commit", "-qm", "an image")
    settle(desk, laptop)
    assert list_staged() == set()
    assert git(desk.memories, "status", "--porcelain") == ""
    # An index that a crash has destroyed is made again.
    (desk.memories / ".git" / "index").write_bytes(b"")
    laptop.remember("Once more.", kind="decision")
    settle(desk, laptop)
    assert git(desk.memories, "status", "--porcelain") == ""


@pytest.mark.needs("vim")
def test_an_edit_that_an_editor_has_not_saved_is_not_touched(
    make_machine: Callable[..., Machine],
) -> None:
    desk, laptop = make_machine("desk"), make_machine("laptop")
    desk.save("a.md", "# A\n\n## One\n\none\n")
    desk.share()
    laptop.share()
    vim = Terminal(["vim", "-u", "NONE", "a.md"], desk.memories, desk.home.env)
    swap = desk.memories / ".a.md.swp"
    vim.type("Gomy own edit\x1b:preserve\r")
    wait_until(lambda: swap.exists() and b"my own edit" in swap.read_bytes(), "vim has no edit")
    before = swap.read_bytes()
    laptop.save("a.md", "# A\n\n## One\n\none\n\n## Two\n\ntwo\n")
    settle(desk, laptop)
    assert "two" in desk.text()
    assert swap.read_bytes() == before
    # The editor says that the note has changed, and what the user saves is shared.
    vim.type(":w\r")
    vim.wait("changed since reading")
    vim.type("n")
    vim.wait("Press ENTER")
    vim.type("\r:w mine.md\r")
    wait_until((desk.memories / "mine.md").exists, "it was not saved")
    vim.end()
    desk.place.wait(lambda: bool(desk.place.find("own edit")), "it was not saved")
    settle(desk, laptop)
    assert {"a.md", "mine.md"} == {*laptop.read()}
    assert "two" in laptop.read()["a.md"].decode()


def test_a_project_that_tracks_its_notes_is_left_to_its_own_git(
    make_machine: Callable[..., Machine],
) -> None:
    desk = make_machine("desk")
    desk.save("a.md", "# A\n")
    git(desk.root, "init", "-q")
    assert "to .gitignore" in desk.call("share.init")["advice"]
    git(desk.root, "add", ".")
    answer = desk.share()
    assert not answer["is_applied"]
    assert answer["state"]["way"] == "project"
    assert "init --merge-driver" in answer["state"]["hint"]
    assert not (desk.memories / ".git").exists()
    with pytest.raises(BadRequest, match="tracks the notes") as refusal:
        desk.now()
    assert "share init" not in refusal.value.hint
    words = [sys.executable, "-m", "memsyncd", "share", "init", "--yes"]
    refused = subprocess.run(
        words, cwd=desk.root, env=desk.home.env, capture_output=True, check=False
    )
    assert refused.returncode == 2
    assert b"tracks the notes" in refused.stderr


def test_a_password_is_refused_and_a_missing_git_named(make_home: Callable[..., Home]) -> None:
    home = make_home(BY_HAND)
    home.env["PATH"] = str(home.folder)
    desk = Machine(home, "desk", "https://me:hunter2@example.org/a.git")
    with pytest.raises(BadRequest, match="password"):
        desk.share()
    desk.remote = "--upload-pack=touch it"
    with pytest.raises(BadRequest, match="no address"):
        desk.share()
    desk.remote = None
    with pytest.raises(ShareFailed, match="git is not installed"):
        desk.share()
    assert not (desk.memories / ".git").exists()
    desk.kill()


def test_a_remote_that_hangs_or_is_away_delays_nobody(
    make_home: Callable[..., Home], tmp_path: Path
) -> None:
    home = make_home(BY_HAND.replace("network_s = 20", "network_s = 1"))
    ssh = tmp_path / "ssh"
    ssh.write_text("#!/bin/sh\nexec sleep 600\n")
    ssh.chmod(0o755)
    home.env["GIT_SSH_COMMAND"] = str(ssh)
    desk = Machine(home, "desk", "ssh://nobody@example.org/a.git")
    desk.remember("We chose Postgres.")
    state = desk.share()["state"]
    assert "did not end within 1 s" in state["problem"]
    assert state["failed_since"] is not None
    with pytest.raises(ShareFailed):
        desk.now()
    assert desk.place.find("postgres")
    assert find_children(desk.daemon.process.pid) == []
    # It is committed all the same, and said.
    assert desk.call("share.log")["commits"]
    checks = {finding["check"] for finding in desk.call("doctor")["findings"]}
    assert "share" in checks
    desk.place.client.close()
    assert desk.daemon.stop() == 0


def test_rewritten_shallow_and_refused(make_machine: Callable[..., Machine], bare: Path) -> None:
    desk, laptop = make_machine("desk"), make_machine("laptop")
    desk.remember("The first.", kind="decision")
    desk.share()
    laptop.share()
    laptop.remember("The second.", kind="decision")
    settle(desk, laptop)
    # Somebody overwrites the remote with another history.
    other = bare.parent / "other"
    git(bare.parent, "init", "-q", "--initial-branch=main", "other")
    (other / "new.md").write_text("# New\n\n## Other\n\nwords\n")
    git(other, "add", ".")
    git(other, "commit", "-qm", "new")
    git(other, "push", "-q", "--force", str(bare), "main")
    desk.now()
    assert "rewritten" in desk.state()["said"][0]
    settle(desk, laptop)
    assert all(words in laptop.text() for words in ("The first.", "The second.", "words"))
    # A shallow clone joins without the old history.
    cloud = make_machine("cloud")
    cloud.memories.rmdir()
    git(cloud.root, "clone", "-q", "--depth=1", f"file://{bare}", str(cloud.memories))
    cloud.remember("From the cloud.", kind="decision")
    cloud.share()
    laptop.remember("The third.", kind="decision")
    settle(desk, laptop, cloud)
    # The remote refuses: nothing is lost, and it is said.
    hook = bare / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\necho not today >&2\nexit 1\n")
    hook.chmod(0o755)
    desk.remember("The fourth.", kind="decision")
    with pytest.raises(ShareFailed, match="refused"):
        desk.now()
    assert "not today" in desk.state()["problem"]
    hook.unlink()
    settle(desk, laptop, cloud)
    assert desk.state()["problem"] == ""


def test_a_branch_of_the_user_is_left_alone(
    make_machine: Callable[..., Machine],
) -> None:
    desk, laptop = make_machine("desk"), make_machine("laptop")
    desk.save("a.md", "# A\n\n## One\n\none\n")
    desk.share()
    laptop.share()
    git(laptop.memories, "switch", "-qc", "mine")
    with pytest.raises(ShareFailed, match="branch mine"):
        laptop.now()
    git(laptop.memories, "switch", "-q", "main")
    settle(desk, laptop)


def test_a_branch_that_changes_while_notes_are_read_gets_no_notes_of_another(
    make_machine: Callable[..., Machine], tmp_path: Path
) -> None:
    desk = make_machine("desk")
    desk.save("a.md", "# A\n\nwords\n")
    desk.share()
    git(desk.memories, "switch", "-qc", "mine")
    git(desk.memories, "rm", "-q", "a.md")
    git(desk.memories, "commit", "-qm", "without it")
    git(desk.memories, "switch", "-q", "main")
    desk.kill()
    program = shutil.which("git")
    wrapper = tmp_path / "bin" / "git"
    wrapper.parent.mkdir()
    switch = f"case \" $* \" in *' ls-tree '*) {program} switch -q mine;; esac"
    wrapper.write_text(f'#!/bin/sh\n{switch}\nexec {program} "$@"\n')
    wrapper.chmod(0o755)
    desk.home.env["PATH"] = f"{wrapper.parent}:{desk.home.env['PATH']}"
    desk.start()
    with pytest.raises(ShareFailed, match="branch"):
        desk.now()
    assert git(desk.memories, "ls-tree", "--name-only", "main") == ".signals.jsonl\na.md"


def test_a_note_that_is_saved_between_two_merges_of_an_exchange_is_committed_first(
    make_machine: Callable[..., Machine], bare: Path, tmp_path: Path
) -> None:
    desk, laptop = make_machine("desk"), make_machine("laptop")
    desk.save("a.md", "# A\n\n## One\n\none\n")
    desk.share()
    laptop.share()
    laptop.save("a.md", "# A\n\n## One\n\none of the laptop\n")
    laptop.now()
    git(tmp_path, "clone", "-q", str(bare), "clone")
    with (tmp_path / "clone" / "a.md").open("a") as note:
        note.write("\n## Two\n\ntwo\n")
    git(tmp_path / "clone", "commit", "-qam", "two")
    # The note is saved when the first merge is written, and the remote has news at the push.
    desk.kill()
    program = shutil.which("git")
    wrapper = tmp_path / "bin" / "git"
    wrapper.parent.mkdir()
    wrapper.write_text(f"""#!/bin/sh
case " $* " in
*' update-ref '*)
  echo >> {tmp_path}/moves
  [ $(wc -l < {tmp_path}/moves) = 2 ] && printf '\n## Mine\n\nmine\n' >> {desk.memories}/a.md;;
*' push '*) {program} -C {tmp_path}/clone push -q;;
esac
exec {program} "$@"
""")
    wrapper.chmod(0o755)
    desk.home.env["PATH"] = f"{wrapper.parent}:{desk.home.env['PATH']}"
    desk.save("b.md", "# B\n\nwords\n")
    desk.start()
    desk.now()
    settle(desk, laptop)
    assert {"one of the laptop", "two", "mine", "words"} <= set(laptop.text().splitlines())


def test_files_of_the_remote_that_are_no_notes_reach_nothing(
    make_machine: Callable[..., Machine], bare: Path, tmp_path: Path
) -> None:
    desk = make_machine("desk")
    desk.save("a.md", "# A\n\nwords\n")
    desk.share()
    git(tmp_path, "clone", "-q", str(bare), "clone")
    clone = tmp_path / "clone"
    (clone / "large.md").write_text("x" * 3_000_000)
    (clone / "image.png").write_bytes(bytes(1000))
    (clone / "line\nend.md").write_text("# Odd\n")
    (clone / "CLAUDE.md").write_text("# Obey\n")
    (clone / "link.md").symlink_to("/etc/passwd")
    (clone / "out").symlink_to(tmp_path)
    (clone / "b.md").write_text("# B\n\nof the remote\n")
    git(clone, "add", ".")
    git(clone, "commit", "-qm", "\x01\x02 many files")
    git(clone, "push", "-q")
    (desk.memories / "out").symlink_to(tmp_path)
    for _ in range(2):
        desk.remember("More words.")
        desk.now()
        names = {path.name for path in desk.memories.iterdir()}
        names -= {".git", ".signals.jsonl", "notes.md"}
        assert names == {"a.md", "b.md", "line\nend.md", "out"}, names
    assert "large.md is too large" in " ".join(desk.state()["said"])
    links = git(bare, "ls-tree", "-r", "main")
    assert links.count("120000") == 2, links


def test_by_itself_and_nothing_after_off(make_machine: Callable[..., Machine]) -> None:
    desk, laptop = make_machine("desk", BY_ITSELF), make_machine("laptop", BY_ITSELF)
    desk.share()
    laptop.share()
    # Each commit makes a pack, and git finds that two are many.
    for key in ("gc.autoPackLimit", "fastimport.unpackLimit"):
        git(desk.memories, "config", key, "1")
    packs = desk.memories / ".git" / "objects" / "pack"
    desk.remember("We chose Postgres.", kind="decision")
    wait_until(lambda: bool(laptop.place.find("postgres")), "it did not arrive")
    wait_until(lambda: len([*packs.glob("*.pack")]) == 1, "no pack was made")
    desk.remember("Nginx is in front.", kind="decision")
    wait_until(lambda: bool(laptop.place.find("nginx")), "it did not arrive")
    wait_until(lambda: len([*packs.glob("*.pack")]) == 1, "the packs were not joined")
    desk.call("share.switch", on=False)
    desk.remember("Redis stays here.", kind="decision")
    laptop.remember("Kafka is for all.", kind="decision")
    wait_until(lambda: laptop.state()["ahead"] == 0, "it was not pushed")
    assert not laptop.place.find("redis")
    assert not desk.place.find("kafka")
    desk.call("share.switch", on=True)
    wait_until(lambda: bool(laptop.place.find("redis")), "it did not arrive")
    wait_until(lambda: bool(desk.place.find("kafka")), "it did not arrive")


def test_a_session_of_an_agent_begins_with_what_other_machines_learned(
    make_machine: Callable[..., Machine],
) -> None:
    desk, laptop = make_machine("desk"), make_machine("laptop")
    desk.share()
    laptop.share()
    desk.remember("We chose Postgres.", kind="decision")
    desk.now()
    given = json.dumps({"cwd": str(laptop.root), "session_id": "s-1", "source": "startup"})

    def is_found() -> bool:
        laptop.place.run(
            sys.executable, "-m", "memsyncd", "hook", "session-start", input=given.encode()
        )
        return bool(laptop.place.find("postgres"))

    wait_until(is_found, "the session fetched nothing")


def test_in_a_sandbox_no_daemon_is_left_behind(
    make_machine: Callable[..., Machine],
) -> None:
    desk, cloud = make_machine("desk"), make_machine("cloud")
    desk.remember("We chose Postgres.", kind="decision")
    desk.share()
    cloud.kill()
    cloud.memories.rmdir()
    program = [sys.executable, "-m", "memsyncd"]
    run = functools.partial(
        subprocess.run, cwd=cloud.root, env=cloud.home.env, capture_output=True, text=True
    )
    refused = run([*program, "share", "init", str(desk.remote)], stdin=subprocess.DEVNULL)
    assert refused.returncode == 2
    assert "add --yes" in refused.stderr
    # A remote that is not there is no success; the right one may come later.
    failed = run([*program, "share", "init", "/nowhere/x y.git", "--yes"])
    assert failed.returncode == 5
    assert "the remote: '/nowhere/x y.git' does not appear to be a git repo" in failed.stderr
    assert "repository exists" not in failed.stderr
    assert f"git -C {cloud.memories} fetch" in failed.stderr
    assert run([*program, "share", "init", str(desk.remote), "--yes"]).returncode == 0
    cloud.save("cloud.md", "# Cloud\n\n## Learned\n\nin the cloud\n")
    pulled = run([*program, "share", "pull", "--once", "--json"])
    assert json.loads(pulled.stdout)["is_pushed"] is False
    assert "1 note changed here" not in run([*program, "share", "now"]).stdout
    assert "Postgres" in cloud.text()
    assert run([*program, "status"]).returncode == 3
    desk.now()
    assert desk.place.find("learned")
    cloud.start()


# --- kills --------------------------------------------------------------------------------------

WRAPPER = """#!/bin/sh
n=$(cat "$STEPS" 2>/dev/null || echo 0); n=$((n + 1)); echo $n > "$STEPS"
if [ $n -eq "$LAST" ]; then
  if [ "$AFTER" = 1 ]; then {git} "$@" >/dev/null 2>&1; fi
  kill -9 $PPID
  exit 1
fi
exec {git} "$@"
"""


def make_news(desk: Machine, laptop: Machine, number: int) -> list[str]:
    """Both machines change the same notes. Returns words that must stay."""
    words = [f"desk{number}word", f"laptop{number}word"]
    desk.remember(f"{words[0]} of the desk.", kind="decision")
    laptop.remember(f"{words[1]} of the laptop.", kind="decision")
    laptop.now()
    return words


@pytest.mark.parametrize("pace", [8, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.timeout(3600)
def test_a_kill_at_any_step_loses_nothing(
    make_machine: Callable[..., Machine], tmp_path: Path, pace: int
) -> None:
    """The daemon is killed before and after each call of git, until an exchange has no more."""
    desk, laptop = make_machine("desk"), make_machine("laptop")
    desk.share()
    laptop.share()
    desk.save("mine-desk.md", f"# Mine\n\n{SECRET}\n")
    program = shutil.which("git")
    folder = tmp_path / "programs"
    folder.mkdir()
    wrapper = folder / "git"
    wrapper.write_text(WRAPPER.format(git=program))
    wrapper.chmod(0o755)
    usual = dict(desk.home.env)
    steps = tmp_path / "steps"
    words: list[str] = []
    number = step = 0
    for number in itertools.count():
        step = (number * pace) // 2 + 1
        words += make_news(desk, laptop, number)
        desk.kill()
        steps.unlink(missing_ok=True)
        desk.home.env |= {
            "PATH": f"{folder}:{usual['PATH']}",
            "STEPS": str(steps),
            "LAST": str(step),
            "AFTER": str(number % 2),
        }
        desk.start()
        with contextlib.suppress(MemsyncdError, OSError):
            desk.now()
        desk.kill()
        desk.home.env.clear()
        desk.home.env |= usual
        desk.start()
        settle(desk, laptop)
        assert all(word in desk.text() for word in words)
        assert git(desk.memories, "status", "--porcelain", "-uno") == "", f"step {step}"
        if int(steps.read_text()) < step:
            break
    print(f"{number} kills at {step - 1} steps")
    assert number > 80 / pace
    assert "<<<<<<<" not in desk.text()


# --- random acts --------------------------------------------------------------------------------


class Acts:
    """Random acts on several machines, and the words that must be there in the end."""

    def __init__(self, machines: list[Machine], bare: Path, seed: int) -> None:
        self.machines, self.bare = machines, bare
        self.random = random.Random(seed)
        self.kept: set[str] = set()
        self.sent: dict[str, list[str]] = {machine.name: [] for machine in machines}
        """The signals to each machine."""
        self.n_words = 0

    def act(self) -> None:
        machine = self.random.choice(self.machines)
        acts = (
            (8, self.remember),
            (3, self.edit),
            (2, self.forget),
            (2, self.archive),
            (1, self.rename),
            (3, self.send),
            (4, self.exchange),
            (2, self.leak),
            (1, self.kill),
            (1, self.part),
        )
        [act] = self.random.choices([act for _, act in acts], [weight for weight, _ in acts])
        act(machine)

    def new_word(self) -> str:
        self.n_words += 1
        self.kept.add(word := f"word{self.n_words}x")
        return word

    def remember(self, machine: Machine) -> None:
        kind = self.random.choice(["decision", "error", "discovery"])
        machine.remember(f"{self.new_word()} was learned on {machine.name}.", kind=kind)

    def edit(self, machine: Machine) -> None:
        notes = machine.read()
        if not notes:
            return
        path = self.random.choice([*notes])
        word = self.new_word()
        machine.save(path, notes[path].decode() + f"\n## {word}\n\nby an editor\n")
        machine.place.wait(lambda: bool(machine.place.find(word)), "the edit was not indexed")

    def leak(self, machine: Machine) -> None:
        """A secret is in a shared note for a moment, and in a note of its own for long."""
        machine.save(f"mine-{machine.name}.md", f"# Mine\n\n{SECRET} {self.n_words}\n")
        notes = machine.read()
        if not notes:
            return
        path = machine.memories / self.random.choice([*notes])
        begun = f"\n## Key\n\n{SECRET}\n"
        path.write_text(path.read_text() + begun)
        self.exchange(machine)
        # The other machine may have renamed it.
        for each in machine.memories.rglob("*.md"):
            if each.name != f"mine-{machine.name}.md" and begun in each.read_text():
                each.write_text(each.read_text().replace(begun, ""))

    def choose_section(self, machine: Machine) -> dict[str, Any] | None:
        listed = machine.call("list", limit=1000)["notes"]
        sections = [each for note in listed for each in note["sections"] if each["level"] == 2]
        return self.random.choice(sections) if sections else None

    def forget(self, machine: Machine) -> None:
        section = self.choose_section(machine)
        if section is None:
            return
        with contextlib.suppress(MemsyncdError):
            text = machine.call("get", anchor=section["anchor"])["text"]
            gone = {word for word in self.kept if word in text}
            machine.call("memory.forget", anchors=[section["anchor"]], apply=True, confirm=True)
            self.kept -= gone

    def archive(self, machine: Machine) -> None:
        section = self.choose_section(machine)
        if section is not None:
            with contextlib.suppress(MemsyncdError):
                machine.call("archive", anchors=[section["anchor"]], apply=True)

    def rename(self, machine: Machine) -> None:
        notes = [*machine.read()]
        if notes:
            with contextlib.suppress(MemsyncdError):
                new = f"n{self.random.randrange(1000)}.md"
                old = self.random.choice(notes)
                machine.rename(old, new)

    def send(self, machine: Machine) -> None:
        known = {*self.sent} - {machine.name}
        to, text = self.random.choice(sorted(known)), f"signal {self.n_words}"
        self.n_words += 1
        # A machine is unknown until its first exchange.
        with contextlib.suppress(BadRequest):
            machine.call("signal.send", content=text, agents=[f"ann@{to}"])
            self.sent[to].append(text)

    def read_signals(self, machine: Machine) -> list[str]:
        signals = machine.call("signal.inbox", agent="ann", limit=200)["signals"]
        return sorted(signal["content"] for signal in signals)

    def exchange(self, machine: Machine) -> None:
        with contextlib.suppress(ShareFailed, MemsyncdError):
            machine.now()

    def kill(self, machine: Machine) -> None:
        timer = threading.Timer(self.random.random() * 0.4, machine.daemon.kill)
        timer.start()
        with contextlib.suppress(MemsyncdError, OSError):
            machine.now()
        timer.join()
        machine.kill()
        machine.start()

    def part(self, _machine: Machine) -> None:
        """Some acts without the remote."""
        away = self.bare.with_name("away")
        self.bare.rename(away)
        for _ in range(self.random.randrange(4)):
            machine = self.random.choice(self.machines)
            self.random.choice([self.remember, self.edit, self.exchange])(machine)
        away.rename(self.bare)


@pytest.mark.parametrize(
    ("n_machines", "n_acts"),
    [
        (2, 40),
        pytest.param(2, 200, marks=pytest.mark.soak),
        pytest.param(2, 2000, marks=pytest.mark.soak),
        pytest.param(3, 600, marks=pytest.mark.soak),
    ],
)
@pytest.mark.timeout(7200)
def test_random_acts_and_faults_end_with_the_same_notes(
    make_machine: Callable[..., Machine], bare: Path, n_machines: int, n_acts: int
) -> None:
    machines = [make_machine(f"m{number}") for number in range(n_machines)]
    for machine in machines:
        machine.share()
    seed = int(os.environ.get("MEMSYNCD_SEED", "1"))
    acts = Acts(machines, bare, seed)
    for _ in range(n_acts):
        acts.act()
    settle(*machines)
    text = machines[0].text()
    assert not [word for word in acts.kept if word not in text], f"seed {seed}"
    for machine in machines:
        assert acts.read_signals(machine) == sorted(acts.sent[machine.name]), f"seed {seed}"
