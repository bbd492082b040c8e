"""Run the user's git, and read and write a repository without touching its files.

Each call has a time limit and is ended as a group of processes. Git uses the user's configuration,
ssh and credentials; it asks for nothing. Commits are made by `git fast-import` from bytes, so no
file of the work tree and no index of git is read or written.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import os
import re
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from memsyncd.errors import ShareFailed
from memsyncd.files.write import open_folder, write_temporary
from memsyncd.operations.share.rules import MACHINE_KEY, clean_name
from memsyncd.operations.travel import SIGNALS_FILE

LOCAL_S = 60.0
PACK_S = 1800.0
END_S = 2.0
OLD_LOCK_S = 600.0
"""No git of ours holds a lock for so long."""
OLDEST = (2, 25)
"""The first version of git with all that is used here."""
REMOTE = "origin"
MADE_REF = "refs/memsyncd/made"
"""The last commit that was made; the branch may not have it yet."""
FILE_MODE = "100644"
FILE_MODES = (FILE_MODE, "100755")
# Git must not run a program that the repository names, neither to list files, nor to show a commit,
# nor in place of a remote. Two names that differ by case are two notes: `git fast-import` would
# write one in place of the other.
_SETTINGS = (
    "core.fsmonitor=false core.ignoreCase=false core.quotePath=false gc.autoDetach=0"
    " log.showSignature=false protocol.ext.allow=never"
).split()
_GIT = ("git", *(word for setting in _SETTINGS for word in ("-c", setting)))
# To find submodules, git would read the index, which a crash may have destroyed. To pack a large
# repository may take longer than the remote has time.
_FETCH = "fetch -q --no-tags --recurse-submodules=no --no-auto-gc".split()
# The user may have configured that tags, whose texts nobody has looked at, go with each push.
_PUSH = "push --porcelain --no-follow-tags --recurse-submodules=no".split()
# A hook of git may have started the daemon: then these speak of another repository. A program that
# asks for a password may open a window.
_LEFT_OUT = (
    "GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_OBJECT_DIRECTORY GIT_NAMESPACE GIT_PREFIX"
    " GIT_COMMON_DIR GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_CONFIG GIT_CONFIG_PARAMETERS"
    " GIT_GRAFT_FILE GIT_IMPLICIT_WORK_TREE GIT_QUARANTINE_PATH GIT_REPLACE_REF_BASE"
    " GIT_SHALLOW_FILE SSH_ASKPASS"
).split()
_SSH_WORDS = "-oBatchMode=yes -oConnectTimeout=20"
_REFUSALS = re.compile(r"^!\t\S*\t(.*)$", re.MULTILINE)
_UNDER_WAY = "MERGE_HEAD CHERRY_PICK_HEAD REVERT_HEAD rebase-merge rebase-apply".split()
_FOREIGN = re.compile(rb"(?:dubious ownership|unsafe repository)[^']*'([^']+)'")
_NO_SPACE = re.compile(rb"No space left on device|Out of diskspace|Disk quota exceeded")
_UNKNOWN_HOST = "Host key verification failed"
_CHANGED_HOST = "HOST IDENTIFICATION HAS CHANGED"
_REMOVE_HOST = re.compile(r"^ *(ssh-keygen -f .*)$", re.MULTILINE)
_BAD_INDEX = re.compile(
    rb"index file (smaller than expected|corrupt)|bad index (file|version)|bad signature 0x"
)
_LOCK = re.compile(rb"'([^']+\.lock)': File exists")
# A message may be long, and may hold the address of the remote.
_MESSAGE_CHARS = 300
_ADVICE = re.compile(r"Please make sure you have the correct access rights\s+and the repository.*")
_REMOTE_LINES = re.compile(r"^remote: .*$", re.MULTILINE)
_USER = re.compile(r"(?<=://)[^/@\s]*@")


class Processes:
    """The processes of git that run now, so that the daemon's end can end them."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._is_stopping = False

    def start(
        self, words: Sequence[str], folder: str, env: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._is_stopping:
                raise ShareFailed("memsyncd is stopping", kind="stopping")
            process = subprocess.Popen(
                words,
                cwd=folder,
                env=dict(env),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
            self._running.add(process)
        return process

    def end(self, process: subprocess.Popen[bytes]) -> None:
        with self._lock:
            self._running.discard(process)

    def stop(self) -> None:
        """End all processes, and start no other."""
        with self._lock:
            self._is_stopping = True
            for process in self._running:
                _signal(process, signal.SIGTERM)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process with its children; git removes its locks if it has a moment."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        _signal(process, number)
        try:
            process.communicate(timeout=END_S)
            return
        except subprocess.TimeoutExpired:
            continue


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    # Its children may live on when git itself has ended.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """The branch of a repository, and its commit; empty before the first."""

    branch: str
    commit: str


class LogEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A commit, with the machine that its message names and the paths that it changes."""

    commit: str
    at_s: float
    writer: str
    machine: str
    subject: str
    paths: tuple[str, ...]


class Author(msgspec.Struct, frozen=True):
    name: str
    email: str


class NewCommit(msgspec.Struct, frozen=True, kw_only=True):
    """A commit to make: by path, bytes, or the id of bytes, before which another mode than a file's
    may be; None deletes the file.
    """

    author: Author
    message: str
    parents: tuple[str, ...]
    files: Mapping[str, bytes | str | None]


class Repository:
    """A repository in `folder`; `network_s` limits calls that ask the remote."""

    def __init__(
        self, folder: str, env: Mapping[str, str], processes: Processes, *, network_s: float
    ) -> None:
        self.folder = folder
        self._env = {key: value for key, value in env.items() if key not in _LEFT_OUT}
        self._env |= {"GIT_TERMINAL_PROMPT": "0", "GCM_INTERACTIVE": "never", "LC_ALL": "C"}
        self._env["SSH_ASKPASS_REQUIRE"] = "never"
        # No repository above the folder counts.
        self._env["GIT_CEILING_DIRECTORIES"] = os.path.dirname(os.path.realpath(folder))
        self._processes = processes
        self._network_s = network_s
        self._rows: dict[str, list[tuple[str, str, str]]] = {}

    # --- calls ---

    def run(self, *words: str, stdin: bytes = b"", limit_s: float = LOCAL_S) -> bytes:
        """Return git's output. Raises ShareFailed."""
        status, out, err = self._call(words, stdin, limit_s, self._env)
        if status and (_remove_old_lock(self.folder, err) or self._mend_index(err)):
            status, out, err = self._call(words, stdin, limit_s, self._env)
        if status and (lock := _LOCK.search(err)):
            path = os.path.join(self.folder, os.fsdecode(lock[1]))
            hint = f"memsyncd tries again; if no git runs there: rm {shlex.quote(path)}"
            raise ShareFailed("another git works in the repository", hint=hint, kind="busy")
        if status and _NO_SPACE.search(err):
            raise self._make_full()
        if status:
            raise ShareFailed(f"git {words[0]} failed: {_shorten(err or out)}", kind="failed")
        return out

    def ask(self, *words: str) -> str:
        """Return git's answer on one line; empty if it has none."""
        status, out, _ = self._call(words, b"", LOCAL_S, self._env)
        return "" if status else out.decode("utf-8", "replace").strip()

    def _ask_remote(self, *words: str) -> tuple[int, str, str]:
        """Return the exit status, the output and the errors of a call that asks the remote."""
        env = dict(self._env)
        if "GIT_SSH" not in env or "GIT_SSH_COMMAND" in env:
            ssh = env.get("GIT_SSH_COMMAND") or self.ask("config", "core.sshCommand") or "ssh"
            env["GIT_SSH_COMMAND"] = f"{ssh} {_SSH_WORDS}"
        try:
            status, out, err = self._call(words, b"", self._network_s, env)
        except ShareFailed as failure:
            if failure.data.get("kind") != "slow":
                raise
            fetch = shlex.join(["git", "-C", self.folder, "fetch"])
            hint = f"see whether this works: {fetch}; for a slow one, raise share.network_s"
            raise ShareFailed(failure.message, hint=hint, kind="unreachable") from None
        return status, out.decode("utf-8", "replace"), err.decode("utf-8", "replace")

    def _call(
        self, words: Sequence[str], stdin: bytes, limit_s: float, env: Mapping[str, str]
    ) -> tuple[int, bytes, bytes]:
        return self._run_program((*_GIT, *words), f"git {words[0]}", stdin, limit_s, env)

    def _run_program(
        self,
        command: Sequence[str],
        name: str,
        stdin: bytes,
        limit_s: float,
        env: Mapping[str, str],
    ) -> tuple[int, bytes, bytes]:
        try:
            process = self._processes.start(command, self.folder, env)
        except FileNotFoundError:
            if not os.path.isdir(self.folder):
                hint = "bring the folder back, or end it: memsyncd share off"
                message = f"{self.folder} is missing"
                raise ShareFailed(message, hint=hint, kind="missing") from None
            hint = "install git, then: memsyncd share now"
            raise ShareFailed("git is not installed", hint=hint, kind="git") from None
        except OSError as error:
            raise ShareFailed(f"{name} cannot run: {error.strerror}", kind="git") from error
        try:
            out, err = process.communicate(stdin, timeout=limit_s)
        except subprocess.TimeoutExpired:
            _end(process)
            message = f"{name} did not end within {limit_s:g} s"
            hint = "memsyncd tries again by itself"
            raise ShareFailed(message, hint=hint, kind="slow") from None
        finally:
            self._processes.end(process)
        if process.returncode and (match := _FOREIGN.search(err)):
            folder = os.fsdecode(match[1])
            message = f"git does not trust {folder}: it belongs to another user"
            hint = f"if you trust it: git config --global --add safe.directory {folder}"
            raise ShareFailed(message, hint=hint, kind="git")
        return process.returncode, out, err

    # --- the repository ---

    def check_version(self) -> None:
        """Raise ShareFailed if git is missing or too old."""
        text = self.ask("version")
        match = re.search(r"(\d+)\.(\d+)", text)
        if match is None or (int(match[1]), int(match[2])) < OLDEST:
            wanted = ".".join(map(str, OLDEST))
            hint = f"install git {wanted} or newer, then: memsyncd share now"
            raise ShareFailed(f"{text or 'git'} is too old", hint=hint, kind="git")

    def is_own(self) -> bool:
        """True if the folder is the top of a repository."""
        return os.path.lexists(os.path.join(self.folder, ".git"))

    def find_tracking(self) -> str:
        """Return the top folder of another repository that tracks files of this folder."""
        env = {key: self._env[key] for key in self._env if key != "GIT_CEILING_DIRECTORIES"}
        status, out, _ = self._call(("ls-files", "-z", "--", "."), b"", LOCAL_S, env)
        if status or not out:
            return ""
        _, top, _ = self._call(("rev-parse", "--show-toplevel"), b"", LOCAL_S, env)
        return os.fsdecode(top.rstrip(b"\n"))

    def find_careless(self) -> str:
        """Return the top folder of the repository around this one, if it does not ignore this
        folder: it would take it for a repository within.
        """
        folder, name = os.path.split(self.folder)
        env = {key: self._env[key] for key in self._env if key != "GIT_CEILING_DIRECTORIES"}
        status, top, _ = self._call(
            ("-C", folder, "rev-parse", "--show-toplevel"), b"", LOCAL_S, env
        )
        if status:
            return ""
        words = ("-C", folder, "check-ignore", "-q", "--", f"{name}/x")
        ignored, _, _ = self._call(words, b"", LOCAL_S, env)
        return "" if ignored == 0 else os.fsdecode(top.rstrip(b"\n"))

    def create(self, branch: str) -> None:
        self.run("init", "-q")
        self.run("symbolic-ref", "HEAD", f"refs/heads/{branch}")

    def set_remote(self, remote: str) -> None:
        """Name the remote. If it is another one, forget what the former one had."""
        before = self.find_remote()
        if not before:
            self.run("remote", "add", REMOTE, remote)
        elif before != remote:
            self.run("remote", "set-url", REMOTE, remote)
            words = ("for-each-ref", "--format=%(refname)", f"refs/remotes/{REMOTE}")
            for ref in self.ask(*words).split("\n"):
                if ref:
                    self.run("update-ref", "--no-deref", "-d", ref)

    def check_remote(self, remote: str, before: str) -> None:
        """Raise ShareFailed if a remote does not answer that would come in the place of another."""
        status, _, err = self._ask_remote("ls-remote", "--", remote, "HEAD")
        if status:
            name = hide_user(remote)
            message = f"{name} does not answer: {_shorten(err.encode())}; the remote is {before}"
            way = shlex.join(["git", "-C", self.folder, "ls-remote", name])
            hint = f"nothing was changed; see whether this works: {way}"
            raise ShareFailed(message, hint=hint, kind="unreachable")

    def find_remote(self) -> str:
        """Return the address of the remote, empty for none."""
        return self.ask("config", f"remote.{REMOTE}.url")

    def use_driver(self, command: str) -> None:
        """Let the user's own merges use the merge driver of memsyncd, in this clone alone."""
        self.run("config", "merge.memsyncd.name", "memories by sections, with memsyncd")
        self.run("config", "merge.memsyncd.driver", command)
        folder = self.ask("rev-parse", "--git-path", "info")
        path = os.path.join(self.folder, folder)
        os.makedirs(path, exist_ok=True)
        with open(os.path.join(path, "attributes"), "a+", encoding="utf-8") as file:
            file.seek(0)
            before = file.read().splitlines()
            lines = ("*.md merge=memsyncd", f"/{SIGNALS_FILE} merge=union")
            file.writelines(f"{line}\n" for line in lines if line not in before)

    def find_author(self, fallback: str) -> Author:
        """Return the identity that the user has configured."""
        name, address = (clean_name(self.ask("config", f"user.{key}")) for key in ("name", "email"))
        name = name or clean_name(fallback.partition("@")[0])
        return Author(name, address or clean_name(fallback))

    def read_head(self) -> Head:
        """Return the branch and its commit. Raises ShareFailed if the user is in the middle of
        something.
        """
        git = os.path.join(self.folder, ".git")
        if not self.is_own():
            # A repository above it is another one.
            hint = "make it again: memsyncd share init"
            raise ShareFailed(f"{self.folder} is no git repository", hint=hint, kind="missing")
        if not os.path.isdir(git):
            git = os.path.join(self.folder, self.ask("rev-parse", "--git-dir"))
        for name in _UNDER_WAY:
            if os.path.exists(os.path.join(git, name)):
                hint = f"end it in {self.folder}: git merge --abort, or git rebase --abort"
                raise ShareFailed("a merge or rebase of yours is under way", hint=hint, kind="busy")
        branch = self.ask("symbolic-ref", "-q", "--short", "HEAD")
        if not branch:
            hint = f"run in {self.folder}: git switch BRANCH"
            raise ShareFailed("the repository is on no branch", hint=hint, kind="busy")
        return Head(branch=branch, commit=self.find_commit("HEAD"))

    def find_commit(self, name: str) -> str:
        """Return the id of a commit; empty if there is none."""
        return self.ask("rev-parse", "-q", "--verify", f"{name}^{{commit}}")

    def list_tree(self, commit: str) -> dict[str, str]:
        """Return the ids of the files of a commit, by path; without links and repositories."""
        rows = self._list_rows(commit)
        return {path: blob for path, mode, blob in rows if mode in FILE_MODES}

    def list_links(self, commit: str) -> dict[str, str]:
        """Return the modes and ids of the links and repositories of a commit, by path."""
        rows = self._list_rows(commit)
        return {path: f"{mode} {blob}" for path, mode, blob in rows if mode not in FILE_MODES}

    def _list_rows(self, commit: str) -> list[tuple[str, str, str]]:
        """Return path, mode and id of all that is in a commit; git is asked once for each."""
        rows = self._rows.get(commit)
        if rows is None:
            out = self.run("ls-tree", "-r", "-z", "--full-tree", commit) if commit else b""
            rows = self._rows[commit] = list(_read_rows(out))
        return rows

    def read_blobs(self, blobs: Collection[str], most_bytes: int | None = None) -> dict[str, bytes]:
        """Return bytes by their ids, without larger ones than `most_bytes`."""
        wanted = sorted({blob for blob in blobs if blob})
        if wanted and most_bytes is not None:
            out = self.run(
                "cat-file",
                "--batch-check=%(objectname) %(objectsize)",
                stdin="".join(f"{blob}\n" for blob in wanted).encode(),
            )
            rows = [row.split() for row in out.decode().splitlines()]
            wanted = [
                blob for blob, size in rows if not size.isdecimal() or int(size) <= most_bytes
            ]
        if not wanted:
            return {}
        out = self.run(
            "cat-file", "--batch", stdin="".join(f"{blob}\n" for blob in wanted).encode()
        )
        texts: dict[str, bytes] = {}
        at = 0
        while at < len(out):
            end = out.index(b"\n", at)
            parts = out[at:end].split()
            if len(parts) != 3:
                raise ShareFailed(f"an object is missing: {parts[0].decode()}", kind="failed")
            size = int(parts[2])
            texts[parts[0].decode()] = out[end + 1 : end + 1 + size]
            at = end + size + 2
        return texts

    def find_moves(self, old: str, new: str) -> dict[str, str]:
        """Return the new paths of files that were renamed between two commits, by their old
        paths.
        """
        if not old or old == new:
            return {}
        out = self.run("diff-tree", "-r", "-z", "-M", "--diff-filter=R", "--name-status", old, new)
        words = [os.fsdecode(word) for word in out.split(b"\0")]
        return {words[at + 1]: words[at + 2] for at in range(0, len(words) - 2, 3)}

    def find_ancestor(self, ours: str, theirs: str) -> str:
        """Return the commit that both come from; empty for unrelated histories. A shallow clone
        gets the rest of its history if it may lack that commit.
        """
        found = self.ask("merge-base", ours, theirs)
        if not found and self.ask("rev-parse", "--is-shallow-repository") == "true":
            self._ask_remote(*_FETCH, "--unshallow", REMOTE)
            found = self.ask("merge-base", ours, theirs)
        return found.split("\n")[0]

    def list_new(self, commit: str, seen: str) -> dict[str, str]:
        """Return the objects that a commit and its past add to the commit `seen`, which may be
        empty: their paths by their ids. A commit has an empty path.
        """
        out = self.run("rev-list", "--objects", commit, *((f"^{seen}",) if seen else ()))
        rows = (line.partition(b" ") for line in out.split(b"\n") if line)
        return {blob.decode("ascii", "replace"): os.fsdecode(path) for blob, _, path in rows}

    # --- commits ---

    def commit(self, new: Sequence[NewCommit], committer: Author, at_s: float) -> str:
        """Make commits, one upon the other. Return the id of the last; no branch moves."""
        stream = b"".join(_write_commit(MADE_REF, each, committer, int(at_s)) for each in new)
        try:
            self.run("fast-import", "--quiet", "--done", "--force", stdin=stream + b"done\n")
        except ShareFailed:
            # It leaves a report each time, also on a full disk.
            folder = self._find_file("")
            for name in glob.glob("fast_import_crash_*", root_dir=folder):
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(folder, name))
            raise
        return self.find_commit(MADE_REF)

    def extend(
        self, branch: str, before: str, new: Sequence[NewCommit], committer: Author, at_s: float
    ) -> str:
        """Make commits upon the commit `before` of a branch (empty for none), as the user's hooks
        allow them, and move the branch to the last. Return its id. Raises ShareFailed.
        """
        checked = [replace(each, message=self._check_message(each.message)) for each in new]
        checked[0] = replace(checked[0], parents=(before,) if before else ())
        commit = self.commit(checked, committer, at_s)
        self._check_tree(commit)
        self.move(branch, commit, before)
        return commit

    def _check_tree(self, commit: str) -> None:
        """Let the user's hook `pre-commit` check the tree of a commit. Raises ShareFailed if it
        refuses.
        """
        if hook := self._find_hook("pre-commit"):
            env = {**self._env, "GIT_INDEX_FILE": self._find_file("memsyncd-index")}
            self._call(("read-tree", commit), b"", LOCAL_S, env)
            self._run_hook(hook, (), env)

    def _check_message(self, message: str) -> str:
        """Let the user's hook `commit-msg` check a message, and return it as the hook leaves it.

        Raises ShareFailed if it refuses.
        """
        if hook := self._find_hook("commit-msg"):
            path = self._find_file("memsyncd-message")
            with open(path, "w", encoding="utf-8") as file:
                file.write(message)
            self._run_hook(hook, (path,), self._env)
            with open(path, encoding="utf-8", errors="replace") as file:
                message = file.read()
        return message

    def _find_hook(self, name: str) -> str:
        """Return the path of a hook that git would run; empty if there is none."""
        path = self._find_file(f"hooks/{name}")
        return path if os.access(path, os.X_OK) else ""

    def _run_hook(self, hook: str, words: Sequence[str], env: Mapping[str, str]) -> None:
        name = os.path.basename(hook)
        status, out, err = self._run_program((hook, *words), name, b"", LOCAL_S, env)
        if status:
            hint = f"see {hook}; after a change: memsyncd share now"
            message = f"your hook {name} refuses the commit: {_shorten(err or out)}"
            raise ShareFailed(message, hint=hint, kind="refused")

    def _find_file(self, name: str) -> str:
        """Return the path of a file of the repository; the user may have moved its hooks."""
        return os.path.join(self.folder, self.ask("rev-parse", "--git-path", name))

    def move(self, branch: str, commit: str, before: str) -> None:
        """Move a branch from one commit to another, and let git's index follow. Raises ShareFailed
        if somebody else has moved it.
        """
        # If this ends half way, the next commit finds the index as it makes it.
        self._update_index(before, commit)
        zero = "0" * len(commit)
        self.run("update-ref", "-m", "memsyncd", f"refs/heads/{branch}", commit, before or zero)

    def _update_index(self, before: str, commit: str) -> None:
        """Let the index follow a move of the branch. Files that the user has staged stay staged."""
        lines = b"".join(self._list_unstaged(before, commit))
        if lines:
            self.run("update-index", "-z", "--index-info", stdin=lines)

    def _mend_index(self, err: bytes) -> bool:
        """Make the index again if a crash has destroyed it; true if it was that."""
        if _BAD_INDEX.search(err) is None:
            return False
        return any(
            self._call(("read-tree", source), b"", LOCAL_S, self._env)[0] == 0
            for source in ("HEAD", "--empty")
        )

    def _list_unstaged(self, before: str, commit: str) -> Iterator[bytes]:
        """Yield lines for the index: the files that differ between two commits, without files that
        differ between the first of them and the index.
        """
        before = before or self.run("mktree").decode().strip()  # an empty tree
        differing = self._list_raw("diff-index", "--cached", "-z", commit)
        index = {path: new for path, _, new in differing}
        for path, old, new in self._list_raw("diff-tree", "-r", "-z", before, commit):
            if index.get(path) == old:
                yield b"%b\t%b\0" % (new.encode(), os.fsencode(path))

    def _list_raw(self, *words: str) -> Iterator[tuple[str, str, str]]:
        """Yield the paths that differ, with mode and id before and after."""
        parts = self.run(*words).split(b"\0")
        for head, path in zip(parts[::2], parts[1::2], strict=False):
            modes = head.decode().removeprefix(":").split()
            yield os.fsdecode(path), f"{modes[0]} {modes[2]}", f"{modes[1]} {modes[3]}"

    def copy_to_folder(self, name: str, data: bytes) -> None:
        """Write a file as it is on the branch to the folder, so that git finds nothing changed.
        Raises OSError.
        """
        path = os.path.join(self.folder, name)
        with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
            if file.read(len(data) + 1) == data:
                return
        with (
            open_folder(self.folder, "") as folder,
            write_temporary(folder.fd, data, like_fd=None) as temporary,
        ):
            os.rename(temporary.name, name, src_dir_fd=folder.fd, dst_dir_fd=folder.fd)

    def pack(self) -> None:
        """Pack the objects if git finds that there are many; a failure changes nothing."""
        with contextlib.suppress(ShareFailed):
            self.run("gc", "--auto", "--quiet", limit_s=PACK_S)

    # --- the remote ---

    def _make_full(self) -> ShareFailed:
        hint = "free some space; memsyncd tries again by itself"
        return ShareFailed(f"the disk of {self.folder} is full", hint=hint, kind="busy")

    def _make_unreachable(self, err: str) -> ShareFailed:
        text, fetch = _shorten(err.encode()), shlex.join(["git", "-C", self.folder, "fetch"])
        if _NO_SPACE.search(_REMOTE_LINES.sub("", err).encode()):
            return self._make_full()
        if _CHANGED_HOST in err:
            remove = _REMOVE_HOST.search(err)
            text = "its host has another key than before"
            way = remove[1].strip() if remove else "remove the old key from known_hosts"
            hint = f"ask its owner whether that is right; if so: {way}, then: {fetch}"
        elif _UNKNOWN_HOST in err:
            text = "ssh does not know the key of its host"
            hint = f"compare the key and accept it, in a terminal: {fetch}"
        elif "Permission denied (" in err:
            hint = f"give the remote your public key, or load your key: ssh-add; then: {fetch}"
        else:
            hint = f"see whether this works: {fetch}; name another: memsyncd share init REMOTE"
        return ShareFailed(f"the remote: {text}", hint=hint, kind="unreachable")

    def find_remote_branch(self) -> str:
        """Return the branch that the remote names, empty if it has none. Raises ShareFailed."""
        status, out, err = self._ask_remote("ls-remote", "--symref", REMOTE, "HEAD")
        if status:
            raise self._make_unreachable(err)
        match = re.search(r"^ref: refs/heads/(\S+)\tHEAD$", out, re.MULTILINE)
        return match[1] if match else ""

    def fetch(self, branch: str) -> str:
        """Fetch a branch of the remote. Return its commit; empty if the remote has none."""
        ref = f"refs/remotes/{REMOTE}/{branch}"
        spec = f"+refs/heads/{branch}:{ref}"
        status, _, err = self._ask_remote(*_FETCH, REMOTE, spec)
        if status and "couldn't find remote ref" in err:
            return ""
        if status:
            raise self._make_unreachable(err)
        return self.find_commit(ref)

    def push(self, commit: str, branch: str) -> None:
        """Push a commit to a branch of the remote. Raises ShareFailed; its kind is `behind` if the
        remote has news.
        """
        spec = f"{commit}:refs/heads/{branch}"
        status, out, err = self._ask_remote(*_PUSH, REMOTE, spec)
        if not status:
            return
        refusal = _REFUSALS.search(out)
        if refusal is None and "failed to push some refs" not in err:
            raise self._make_unreachable(err)
        reason = refusal[1] if refusal else "a hook of yours, pre-push"
        if "[rejected]" in reason or "failed to update ref" in reason:
            raise ShareFailed("the remote has news", kind="behind")
        hint = "see what the remote and your hooks allow; memsyncd tries again"
        message = f"the push was refused: {_shorten(f'{reason} {err}'.encode())}"
        raise ShareFailed(message, hint=hint, kind="refused")

    def count_ahead(self, ours: str, theirs: str) -> int:
        """Return how many commits only ours has."""
        span = f"{theirs}..{ours}" if theirs else ours
        return int(self.ask("rev-list", "--count", span) or 0) if ours else 0

    def list_log(self, *words: str) -> list[LogEntry]:
        """Return commits with their paths, newest first. `words` are arguments of `git log`."""
        trailer = f"%(trailers:key={MACHINE_KEY},valueonly,separator=)"
        form = f"%x01%H%x02%ct%x02%an%x02{trailer}%x02%s%x03"
        out = self.run("log", "-z", f"--format={form}", "--name-only", *words)
        return list(_read_log(os.fsdecode(out)))


def _read_rows(out: bytes) -> Iterator[tuple[str, str, str]]:
    for row in out.split(b"\0"):
        words, _, path = row.partition(b"\t")
        parts = words.decode().split()
        if len(parts) == 3:
            yield os.fsdecode(path), parts[0], parts[2]


def _read_log(text: str) -> Iterator[LogEntry]:
    for part in text.split("\x01")[1:]:
        head, _, rest = part.partition("\x03")
        fields = head.split("\x02", 4)
        if len(fields) != 5 or not fields[1].isdecimal():
            # The message or a name of another program's commit has these letters, too.
            continue
        commit, at, writer, machine, subject = fields
        paths = tuple(path.lstrip("\n") for path in rest.split("\0") if path.strip("\n"))
        yield LogEntry(
            commit=commit,
            at_s=float(at),
            writer=writer,
            machine=machine.strip(),
            subject=subject,
            paths=paths,
        )


def _write_commit(ref: str, new: NewCommit, committer: Author, at_s: int) -> bytes:
    """Return the lines of `git fast-import` for a commit."""
    lines = [f"commit {ref}"]
    lines += [
        f"{role} {who.name} <{who.email}> {at_s} +0000"
        for role, who in (("author", new.author), ("committer", committer))
    ]
    message = new.message.encode("utf-8", "replace")
    stream = "\n".join(lines).encode("utf-8", "replace") + b"\ndata %d\n%b\n" % (
        len(message),
        message,
    )
    for number, parent in enumerate(new.parents):
        stream += f"{'merge' if number else 'from'} {parent}\n".encode()
    for path, text in sorted(new.files.items()):
        quoted = _quote(path)
        if text is None:
            stream += b"D %b\n" % quoted
        elif isinstance(text, str):
            mode, _, blob = text.rpartition(" ")
            stream += b"M %b %b %b\n" % ((mode or FILE_MODE).encode(), blob.encode(), quoted)
        else:
            stream += b"M %b inline %b\ndata %d\n%b\n" % (
                FILE_MODE.encode(),
                quoted,
                len(text),
                text,
            )
    return stream + b"\n"


def _quote(path: str) -> bytes:
    text = os.fsencode(path)
    for letter, by in ((b"\\", b"\\\\"), (b'"', b'\\"'), (b"\n", b"\\n")):
        text = text.replace(letter, by)
    return b'"' + text + b'"'


def _remove_old_lock(folder: str, err: bytes) -> bool:
    """Remove the lock that keeps git from working if a crash has left it; true if it was one."""
    match = _LOCK.search(err)
    if match is None:
        return False
    path = os.path.realpath(os.path.join(folder, os.fsdecode(match[1])))
    within = os.path.realpath(os.path.join(folder, ".git")) + os.sep
    try:
        if not path.startswith(within) or time.time() - os.stat(path).st_mtime < OLD_LOCK_S:
            return False
        os.unlink(path)
    except OSError:
        return False
    return True


def hash_blob(data: bytes, like: str = "") -> str:
    """Return git's id of bytes. `like` is another id of the repository, whose length tells which
    digest it uses.
    """
    text = b"blob %d\0%b" % (len(data), data)
    if len(like) == 64:
        return hashlib.sha256(text).hexdigest()
    return hashlib.sha1(text, usedforsecurity=False).hexdigest()


def hide_user(remote: str) -> str:
    """Return an address without the user of its URL."""
    return _USER.sub("", remote)


def _shorten(err: bytes) -> str:
    text = _ADVICE.sub("", err.decode("utf-8", "replace")).replace("fatal: ", "")
    text = "; ".join(
        " ".join(line.split()).rstrip(".") for line in text.splitlines() if line.strip()
    )
    return hide_user(text)[:_MESSAGE_CHARS] or "no message"
