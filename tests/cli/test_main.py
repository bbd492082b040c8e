"""The program as a process, without a daemon: exit statuses, streams and what is imported."""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
import pty
import pwd
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

import pytest

import memsyncd
from memsyncd.cli.main import main

PACKAGE_HOME = str(Path(memsyncd.__file__).parents[1])


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {
        "HOME": str(tmp_path),
        "PYTHONPATH": PACKAGE_HOME,
        "PATH": os.environ["PATH"],
        "PYTHONUTF8": "1",
        "COLUMNS": "80",
    }


def do(env: dict[str, str], *words: str) -> tuple[int, str, str]:
    """The exit status and both outputs of a command, within this process and without a stdin."""
    out, errors = io.StringIO(), io.StringIO()
    with (
        mock.patch.dict(os.environ, env, clear=True),
        mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO())),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(errors),
    ):
        return main(words), out.getvalue(), errors.getvalue()


def call(env: dict[str, str], *words: str, **more: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "memsyncd", *words]
    # type: ignore[call-overload,no-any-return]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False, **more)


def test_without_arguments_the_overview_is_printed(env: dict[str, str]) -> None:
    status, out, errors = shown = do(env)
    assert (status, errors) == (0, "")
    assert "find passages by words" in out
    assert "memsyncd run --init ~/notes" in out
    assert do(env, "--help") == do(env, "help") == do(env, "help", "--help") == shown


def test_the_version_is_printed(env: dict[str, str]) -> None:
    assert call(env, "--version").stdout == f"memsyncd {memsyncd.__version__}\n"


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["serach", "x"], "no such command: serach", "did you mean `memsyncd search`?"),
        (["delete", "x"], "no such command: delete", "did you mean `memsyncd forget`?"),
        (["-w", "demo", "search", "x"], "no such option: -w", "write options after the command"),
        (["help", "serach"], "no such command: serach", "did you mean `memsyncd search`?"),
        (["session"], "session: COMMAND is missing", "choose from start, list, "),
        (["search"], "search: QUERY is missing", "see `memsyncd search --help`"),
        (
            ["search", "--tag", "decision"],
            "search: QUERY is missing",
            "a filter can be the query: memsyncd search tag:decision",
        ),
        (["rename", "a", "b"], "no such command: rename", "did you mean `memsyncd memory rename`?"),
        (["task", "add"], "task: no such command: add", "did you mean `memsyncd remember --task`?"),
        (["memory"], "memory: COMMAND is missing", "choose from "),
        (["memory", "veiw"], "memory: no such command: veiw", "choose from "),
        (["memory", "--", "view"], "memory: view comes first", "see `memsyncd memory --help`"),
    ],
)
def test_a_usage_error_exits_with_2_and_says_what_to_do(
    env: dict[str, str], words: list[str], message: str, hint: str
) -> None:
    status, out, errors = do(env, *words)
    assert (status, out) == (2, "")
    assert errors.startswith(f"memsyncd: {message}\n  → {hint}")


@pytest.mark.parametrize("name", ["search", "memory create"])
def test_help_of_a_command_has_two_forms(env: dict[str, str], name: str) -> None:
    shown = do(env, *name.split(), "--help")
    assert shown[1].startswith(f"Usage  memsyncd {name} ")
    assert shown == do(env, "help", *name.split()) == (0, shown[1], "")


@pytest.mark.parametrize(
    "words",
    [[], ["--", "instructions"], ["sesion-start"], ["stop", "--client", "x"], ["stop", "-z"]],
)
def test_a_mistyped_hook_does_not_block_an_agent(env: dict[str, str], words: list[str]) -> None:
    status, out, errors = do(env, "hook", *words)
    assert (status, out, "memsyncd: hook" in errors) == (1, "", True)


def test_the_instructions_for_a_model_need_no_daemon(env: dict[str, str]) -> None:
    from memsyncd.integrations.instructions import INSTRUCTIONS

    assert do(env, "hook", "instructions") == (0, INSTRUCTIONS, "")


@pytest.mark.parametrize(
    "words",
    [
        ["remember"],
        ["memory", "create", "/memories/a.md"],
        ["memory", "insert", "/memories/a.md", "x", "text"],
        ["memory", "insert", "/memories/a.md", "-1", "text"],
        ["memory", "str_replace", "/memories/a.md", "old"],
        ["memory", "str_replace", "/memories/a.md", "-", "-"],
        ["memory", "view", "/memories/a.md", "--range", "x"],
        ["memory", "view", "--dialect", "latin"],
        ["remember", "text", "--stdin"],
        ["undo"],
        ["undo", ""],
        ["diff"],
        ["history", ""],
        ["history", "purge"],
    ],
)
def test_an_invalid_command_is_refused_without_a_daemon(
    env: dict[str, str], words: list[str]
) -> None:
    status, out, errors = do(env, *words)
    assert (status, out, "  → " in errors) == (2, "", True), errors


def test_a_pipe_that_is_not_utf8_is_refused(env: dict[str, str]) -> None:
    command = [sys.executable, "-m", "memsyncd", "remember"]
    done = subprocess.run(command, env=env, input=b"\xff", capture_output=True, check=False)
    assert done.returncode == 2
    assert b"not valid UTF-8" in done.stderr


def test_a_closed_stdin_gives_no_text(env: dict[str, str]) -> None:
    line = f"{sys.executable} -m memsyncd remember - <&-"
    done = subprocess.run(
        ["/bin/sh", "-c", line], env=env, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr.splitlines()[0]) == (2, "memsyncd: stdin is closed")


@pytest.mark.life  # each command waits for an answer
def test_a_daemon_that_nobody_reaches_is_not_said_to_be_stopped(
    env: dict[str, str], tmp_path: Path
) -> None:
    env = {**env, "XDG_STATE_HOME": str(tmp_path)}
    path = tmp_path / "memsyncd" / "daemon.lock"
    path.parent.mkdir()
    named = f"4711\n0.2.0\n{tmp_path}/none.sock\n"
    for text, process in ((named, "process 4711"), ("", "process unknown")):
        path.write_text(text)
        with path.open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for command in ("stop", "restart"):
                done = call(env, command)
                assert (done.returncode, process in done.stderr) == (3, True), done.stderr
    done = call(env, "stop")
    assert (done.returncode, done.stderr) == (0, "no daemon runs; nothing to stop\n")


def test_an_invalid_variable_is_bad_configuration(env: dict[str, str]) -> None:
    status, _, errors = do(env | {"MEMSYNCD_SOCKET": "m.sock"}, "status")
    assert (status, "MEMSYNCD_SOCKET" in errors) == (78, True)


def test_control_characters_in_arguments_do_not_reach_the_terminal(env: dict[str, str]) -> None:
    assert not {"\x1b", "\r"} & set(do(env, "se\x1b[2Jarch\r")[2])


def test_arguments_that_are_not_utf8_are_accepted(env: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "memsyncd", b"\xff\xfe"], env=env, capture_output=True, check=False
    )
    assert done.returncode == 2
    assert b"no such command" in done.stderr


def test_a_locale_without_arrows_still_gets_its_answer(env: dict[str, str]) -> None:
    done = call(env | {"PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}, "help")
    assert done.returncode == 0
    assert "COMMAND ?" in done.stdout


def test_colour_can_be_forced_and_disabled(env: dict[str, str]) -> None:
    assert "\x1b[1m" in do(env | {"FORCE_COLOR": "1"}, "help")[1]
    assert "\x1b" not in do(env | {"FORCE_COLOR": "1", "NO_COLOR": "1"}, "help")[1]
    assert "\x1b" not in do(env, "help")[1]


def test_a_closed_pipe_ends_the_command_silently(env: dict[str, str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "wb") as closed:
        done = subprocess.run(
            [sys.executable, "-m", "memsyncd", "help"],
            env=env,
            stdout=closed,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_closed_streams_do_not_fail_a_command(env: dict[str, str], closed: str) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", f"{sys.executable} -m memsyncd stop {closed}"],
        env=env,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"Traceback" not in done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_reported_as_a_failure(env: dict[str, str]) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "memsyncd", "help"],
            env=env,
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert done.returncode == 70
    assert done.stderr.startswith(b"memsyncd: No space left on device\n")
    assert b"free some space where the output goes" in done.stderr
    assert b"Traceback" not in done.stderr


def test_on_a_terminal_errors_are_coloured(env: dict[str, str]) -> None:
    leader, follower = pty.openpty()
    with open(leader, "rb", buffering=0) as screen:
        subprocess.run(
            [sys.executable, "-m", "memsyncd", "serach"], env=env, stderr=follower, check=False
        )
        os.close(follower)
        assert screen.read(4096).startswith(b"\x1b[1;31mmemsyncd:\x1b[0m no such command")


def test_a_deleted_current_folder_does_not_fail_a_command(
    env: dict[str, str], tmp_path: Path
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    code = (
        "import os, sys; from memsyncd.cli.main import main; os.rmdir(os.getcwd());"
        " sys.exit(main(['status']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, cwd=gone, capture_output=True, text=True, check=False
    )
    assert done.returncode == 3


def test_init_creates_missing_files_and_never_overwrites(
    env: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "MEMORY.md").write_text("mine\n")
    status, out, errors = do(env, "init", str(folder))
    assert (status, out) == (0, f"created {folder}/.memories/context.md\n")
    assert "memsyncd start" in errors
    assert (folder / "MEMORY.md").read_text() == "mine\n"
    assert "nothing was changed" in do(env, "init", str(folder))[2]


def test_init_creates_a_missing_folder_or_says_why_not(env: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "far" / "notes"
    assert do(env, "init", str(folder))[0] == 0
    assert (folder / "MEMORY.md").is_file()
    (folder / "MEMORY.md").unlink()
    (folder / "MEMORY.md").symlink_to(tmp_path / "elsewhere.md")
    assert do(env, "init", str(folder))[0] == 0
    assert not (tmp_path / "elsewhere.md").exists()
    (tmp_path / "file").write_text("")
    status, _, errors = do(env, "init", str(tmp_path / "file" / "notes"))
    assert (status, errors.splitlines()[-1]) == (2, "  → name a folder that you may create")
    assert "is not a folder" in do(env, "init", str(tmp_path / "file"))[2]
    for path in ("/", "~"):
        status, _, errors = do(env, "init", path)
        assert (status in (2, 6), errors.startswith("memsyncd: ")) == (True, True)


def test_config_prints_its_path_its_values_with_their_origin_and_its_errors(
    env: dict[str, str], tmp_path: Path
) -> None:
    own = f"{tmp_path}/.config/memsyncd/config.toml"
    assert do(env, "config", "path") == (0, f"{own}\n", "")
    assert json.loads(do(env, "config", "path", "--json")[1]) == {"path": own}
    home = pwd.getpwuid(os.getuid()).pw_dir
    for other in (env | {"HOME": ""}, {name: env[name] for name in env if name != "HOME"}):
        assert do(other, "config", "path")[1] == f"{home}/.config/memsyncd/config.toml\n"
    file = tmp_path / "c.toml"
    file.write_text("[sync]\ndebounce_ms = 50\n[[workspace]]\npath = '/w'\n")
    assert do(env, "config", "check", str(file))[0] == 0
    report = json.loads(do(env, "config", "show", str(file), "--json")[1])
    assert (report["path"], report["is_fine"], report["warnings"]) == (str(file), True, [])
    assert report["values"]["sync"]["debounce_ms"] == 50
    assert report["values"]["workspace"][0]["path"] == "/w"
    assert report["origins"]["sync.debounce_ms"].endswith("c.toml:2")
    _, shown, _ = do(env | {"MEMSYNCD_SYNC_DEBOUNCE_MS": "70"}, "config", "show")
    assert "debounce_ms = 70" in shown
    assert "env:MEMSYNCD_SYNC_DEBOUNCE_MS" in shown
    file.write_text("[sync]\ndebouce_ms = 50\nreconcile_s = 'x'\n")
    status, _, errors = do(env, "config", "check", str(file))
    assert (status, "c.toml:2" in errors, "debounce_ms" in errors) == (78, True, True)
    status, checked, _ = do(env, "config", "check", str(file), "--json")
    reported = json.loads(checked)
    assert (status, reported["is_fine"], len(reported["wrong"])) == (78, False, 2)
    assert do(env, "config", "check", f"{tmp_path}/none.toml")[0] == 78


def test_an_interrupt_exits_with_130_and_no_traceback(env: dict[str, str], tmp_path: Path) -> None:
    import socket

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as silent:
        silent.bind(str(tmp_path / "m.sock"))
        silent.listen()
        process = subprocess.Popen(
            [sys.executable, "-m", "memsyncd", "status"],
            env=env | {"MEMSYNCD_SOCKET": str(tmp_path / "m.sock")},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        connection, _ = silent.accept()
        with connection:
            connection.recv(10)
            # Python notes a signal that comes just before a system call after that call alone.
            deadline_s = time.monotonic() + 60
            while process.poll() is None and time.monotonic() < deadline_s:
                process.send_signal(signal.SIGINT)
                time.sleep(0.5)
            out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, b"", b"")


INTERRUPT_IMPORT = """
import runpy, sys

module = sys.argv.pop(1)

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupting())
runpy.run_module("memsyncd", run_name="__main__")
"""


@pytest.mark.parametrize(
    "module", ["memsyncd.cli.main", "memsyncd.terminal.console", "memsyncd.terminal._generated"]
)
def test_an_interrupt_while_the_program_is_imported_has_no_traceback(
    env: dict[str, str], module: str
) -> None:
    command = [sys.executable, "-c", INTERRUPT_IMPORT, module, "status"]
    done = subprocess.run(command, env=env, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


def test_an_internal_error_is_one_sentence_and_has_a_traceback_on_request(
    env: dict[str, str],
) -> None:
    code = (
        "import sys; import memsyncd.cli.main as m; m.load_command = None;"
        " sys.exit(m.main(['status']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 70
    assert done.stderr.startswith("memsyncd: TypeError")
    assert "Traceback" not in done.stderr
    traced = subprocess.run(
        [sys.executable, "-c", code],
        env=env | {"MEMSYNCD_TRACEBACK": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" in traced.stderr


@pytest.mark.parametrize(
    "words", [["search", "x"], ["remember", "x"], ["memory", "view"], ["history"], ["undo", "1"]]
)
def test_a_client_command_imports_nothing_of_the_daemon_and_nothing_slow(
    env: dict[str, str], words: list[str]
) -> None:
    code = f"import sys; from memsyncd.cli.main import main; main({words}); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], env=env, capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    clients = {"memsyncd.client", "memsyncd.client.connection"}
    leaves = {f"memsyncd.{name}" for name in ("dirs", "errors", "headings", "lock")}
    ours = {"memsyncd", *clients, *leaves}
    requested = {
        name
        for name in loaded
        if name.startswith("memsyncd")
        and not f"{name}.".startswith(("memsyncd.cli.", "memsyncd.terminal."))
        and not re.fullmatch(r"memsyncd\.operations(\.\w+(\.show)?)?", name)
    }
    assert requested - {"memsyncd.client.words"} == ours
    slow = {
        "argparse",
        "typing",
        "socket",
        "dataclasses",
        "inspect",
        "asyncio",
        "subprocess",
        "shutil",
        "tomllib",
        "logging",
        "difflib",
        "json",
        "re",
    }
    assert not loaded & slow
    assert {name.partition(".")[0] for name in loaded} - set(sys.stdlib_module_names) <= {
        "memsyncd",
        "__main__",
    }


@pytest.mark.parametrize(("module", "does_finish"), [("math", False), ("threading", True)])
def test_a_command_without_threads_ends_with_its_output_and_status_and_frees_nothing(
    env: dict[str, str], module: str, does_finish: bool
) -> None:
    code = (
        f"import atexit, sys, {module}; atexit.register(print, 'finished')\n"
        "from memsyncd.cli.main import leave\n"
        "print('x' * 200_000); print('error', file=sys.stderr); leave(3)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (3, "error\n")
    assert ended.stdout == "x" * 200_000 + "\n" + ("finished\n" if does_finish else "")


def test_the_daemon_imports_no_module_that_it_never_uses(
    env: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "bad.toml").write_text("[")
    code = (
        "import sys; from memsyncd.cli.main import main; main(['run'])\n"
        "print(*(name for name, module in sys.modules.items() if module))\n"
        "import structlog\n"  # as for the first line of the log
        "print(*(name for name, module in sys.modules.items() if module))"
    )
    env = {**env, "MEMSYNCD_CONFIG": str(tmp_path / "bad.toml")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    loaded, after_log = (set(line.split()) for line in done.stdout.splitlines())
    assert {"asyncio", "memsyncd.daemon.main"} <= loaded
    unused = {"ssl", "_ssl", "_hashlib", "rich", "pygments", "multiprocessing"}
    unused |= {"_bz2", "_lzma", "greenlet", "typing_extensions"}
    assert not after_log & unused
    # Imported with the first note, the first line of the log, the first edit or `doctor`.
    late = {
        "yaml",
        "markdown_it",
        "structlog",
        "memsyncd.server.dispatch",
        "memsyncd.server.doctor",
    }
    assert not loaded & late
