"""`memsyncd hook` and `capture` against the real daemon."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from memsyncd.client import Client
from memsyncd.client.memory import Memsyncd
from memsyncd.errors import BadRequest
from tests.daemon.conftest import wait_until
from tests.daemon.test_lifecycle import is_answering
from tests.daemon.test_mcp import connect

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.daemon.conftest import Home, Place

pytestmark = pytest.mark.shared_daemon

LIMIT_S = 60.0
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
ALLOWED = "[capture]\nfailures = true\ndecisions = true\nsummaries = true\ninterviews = true\n"


def hook(home: Home, event: str, given: object, *options: str) -> subprocess.CompletedProcess[str]:
    text = given if isinstance(given, str) else json.dumps(given)
    return home.run("hook", event, *options, text=text, cwd=Path.cwd())


def read_context(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stderr
    return str(json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"])


def is_silent(done: subprocess.CompletedProcess[str]) -> bool:
    return (done.returncode, done.stdout, done.stderr) == (0, "", "")


# --- context ---


def test_a_session_starts_with_what_was_saved_a_moment_before(place: Place) -> None:
    (place.root / "src").mkdir()
    for number in range(3):
        (place.root / "MEMORY.md").write_text(f"# Larch\n\nnumber{number} grows here\n")
        done = hook(place.home, "session-start", {"cwd": str(place.root / "src")})
        assert f"number{number} grows here" in read_context(done)


def test_a_prompt_brings_the_notes_that_it_concerns(place: Place) -> None:
    (place.root / "MEMORY.md").write_text("# Redis\n\nThe cache gives up after 30 s.\n")
    (place.root / ".memories").mkdir(exist_ok=True)
    (place.root / ".memories" / "larch.md").write_text("# Larch\n\nA tree.\n")
    given = {"cwd": str(place.root), "prompt": "when does -the cache give kind:up?"}
    done = hook(place.home, "user-prompt", given, "--verbose")
    assert re.fullmatch(r"memsyncd hook user-prompt: memory: 1 note, \d+ tokens\n", done.stderr)
    text = read_context(done)
    assert "30 s" in text
    assert "A tree" not in text
    for prompt in ("zebra quagga", "/clear the cache", "", "?!", "and when?", "up after it?"):
        assert is_silent(hook(place.home, "user-prompt", {**given, "prompt": prompt}))


def test_each_client_gets_the_form_that_it_accepts(place: Place) -> None:
    (place.root / "MEMORY.md").write_text("# Larch\n\nA tree.\n")
    given = {"cwd": str(place.root), "prompt": "larch"}
    gemini = hook(place.home, "user-prompt", {**given, "timestamp": "now"})
    assert json.loads(gemini.stdout)["hookSpecificOutput"]["hookEventName"] == "BeforeAgent"
    cursor = {"workspace_roots": [str(place.root)], "cursor_version": "2"}
    assert (
        "A tree"
        in json.loads(hook(place.home, "session-start", cursor).stdout)["additional_context"]
    )
    assert is_silent(hook(place.home, "user-prompt", {**cursor, "prompt": "larch"}))
    with Client(place.home.socket_path) as client:
        called = [agent["name"] for agent in client.call("status")["agents"]]
    assert called[:2] == ["cursor", "gemini"]
    for name in ("opencode", "vscode"):
        text = json.loads(hook(place.home, "session-start", given, "--client", name).stdout)
        assert "A tree" in text["hookSpecificOutput"]["additionalContext"]
    kept = hook(place.home, "pre-compact", given)
    assert "decisions with their reasons" in kept.stdout
    assert is_silent(hook(place.home, "pre-compact", given, "--client", "codex"))


@pytest.mark.parametrize("given", ["", "{", "[]", '"x"', "\0", '{"cwd": 1, "prompt": []}' * 2])
def test_input_that_is_no_object_is_ignored(place: Place, given: str) -> None:
    assert is_silent(hook(place.home, "session-start", given))
    done = hook(place.home, "session-start", given, "--verbose")
    assert (done.returncode, done.stdout) == (0, "")
    assert "stdin holds no JSON object" in done.stderr


def test_a_text_that_ends_within_a_character_is_read(place: Place) -> None:
    (place.root / "MEMORY.md").write_text("# Larch\n\nA tree.\n")
    given = json.dumps({"cwd": str(place.root), "prompt": "larch \ud83c"})
    assert "A tree" in hook(place.home, "user-prompt", given).stdout


def test_a_folder_without_memory_is_silent(place: Place, tmp_path: Path) -> None:
    (place.root / "MEMORY.md").write_text("# Larch\n\nA tree.\n")
    for event in ("session-start", "user-prompt", "pre-compact"):
        given = {"cwd": str(tmp_path), "prompt": "larch"}
        assert is_silent(hook(place.home, event, given))
        assert "this folder has no memory" in hook(place.home, event, given, "-v").stderr


HOOK = (sys.executable, "-m", "memsyncd", "hook")
LONG = ("--timeout-ms", str(int(LIMIT_S * 1000)))


def stop(home: Home) -> None:
    words = [sys.executable, "-m", "memsyncd", "stop"]
    subprocess.run(words, env=home.env, check=True, capture_output=True, timeout=LIMIT_S)


def index_and_stop(home: Home, folder: Path) -> None:
    """The state after a reboot: a workspace with its index, and no daemon."""
    daemon = home.start()
    with daemon.client() as client:
        client.call("workspace.add", path=str(folder))
        client.call("sync")
    assert daemon.stop() == 0


@pytest.mark.parametrize("event", ["session-start", "user-prompt", "pre-compact"])
def test_a_hook_that_finds_no_daemon_starts_one_and_has_its_answer(own: Home, event: str) -> None:
    folder = own.make_folder()
    (folder / "MEMORY.md").write_text("# Larch\n\nA tree.\n")
    index_and_stop(own, folder)
    given = {"cwd": str(folder), "prompt": "what is a larch"}
    try:
        done = hook(own, event, given, *LONG)
        assert (done.returncode, done.stderr) == (0, "")
        assert ("decisions" if event == "pre-compact" else "A tree") in done.stdout
        (folder / "MEMORY.md").write_text("# Spruce\n\nAnother one.\n")
        assert "Another one" in hook(own, "session-start", given).stdout
    finally:
        stop(own)


def test_a_hook_without_time_is_silent_and_the_daemon_is_there_for_the_next(own: Home) -> None:
    given = {"cwd": str(own.make_folder()), "prompt": "x y"}
    try:
        # A file can be read at once as a whole.
        (own.folder / "given.json").write_text(json.dumps(given))
        with (own.folder / "given.json").open() as stdin:
            done = subprocess.run(
                [*HOOK, "user-prompt", "--timeout-ms", "1", "-v"],
                stdin=stdin,
                env=own.env,
                capture_output=True,
                text=True,
                timeout=LIMIT_S,
                check=False,
            )
        assert (done.returncode, done.stdout) == (0, "")
        assert "no daemon answers" in done.stderr
        wait_until(Path(own.socket_path).exists, "no daemon was started", limit_s=LIMIT_S)
    finally:
        wait_until(lambda: is_answering(own.socket_path), "it does not answer", limit_s=LIMIT_S)
        stop(own)


def test_a_daemon_that_cannot_start_is_not_waited_for(own: Home) -> None:
    own.config.write_text("[sync]\ndebounce = 5\n")
    given = {"cwd": str(own.make_folder()), "prompt": "x y"}
    for event in ("session-start", "user-prompt", "pre-compact"):
        assert is_silent(hook(own, event, given, "--timeout-ms", str(int(LIMIT_S * 1000 * 10))))
    assert not Path(own.socket_path).exists()


def test_nothing_to_say_starts_no_daemon(own: Home) -> None:
    given = {"cwd": str(own.make_folder()), "prompt": "", "tool_name": "Bash"}
    for event in ("post-tool-use", "stop"):
        assert is_silent(hook(own, event, given))
    assert is_silent(hook(own, "session-start", "no json"))
    assert not (own.folder / "state").exists()


def test_a_daemon_that_hangs_is_given_up(own: Home) -> None:
    folder = own.make_folder()
    Path(own.socket_path).parent.mkdir(parents=True, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(own.socket_path)
        listener.listen(1)
        start_s = time.monotonic()
        done = hook(own, "session-start", {"cwd": str(folder)}, "--timeout-ms", "300")
        assert is_silent(done)
        assert time.monotonic() - start_s < LIMIT_S


def test_a_client_that_leaves_stdin_open_is_answered(place: Place) -> None:
    (place.root / "MEMORY.md").write_text("# Larch\n\nA tree.\n")
    command = [sys.executable, "-m", "memsyncd", "hook", "user-prompt", "--timeout-ms", "1000"]
    with subprocess.Popen(
        command, env=place.home.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            given = {"cwd": str(place.root), "prompt": "larch"}
            process.stdin.write(json.dumps(given).encode() + b"\n")
            process.stdin.flush()
            assert process.wait(LIMIT_S) == 0
            assert b"A tree" in process.stdout.read()
        finally:
            process.kill()


# --- the tool for hooks of MCP ---


def test_a_hook_of_mcp_gets_the_json_of_a_hook_and_models_do_not_see_its_tool(
    place: Place, tmp_path: Path
) -> None:
    (place.root / "MEMORY.md").write_text("# Redis\n\nThe cache gives up after 30 s.\n")
    with connect(place.home.socket_path) as agent:
        agent.send("notifications/memsyncd/bind", is_notice=True, workspace=str(place.root))
        text, is_error = agent.use("memory_hook", prompt="cache", cwd=str(place.root))
        assert not is_error
        answer = json.loads(text)["hookSpecificOutput"]
        assert answer["hookEventName"] == "UserPromptSubmit"
        assert "30 s" in answer["additionalContext"]
        assert agent.use("memory_hook", prompt="zebra")[0] == "{}"
        assert agent.use("memory_hook", prompt="cache", cwd=str(tmp_path))[0] == "{}"
        names = [tool["name"] for tool in agent.ask("tools/list")["result"]["tools"]]
        assert "memory_search" in names
        assert "memory_hook" not in names
        assert "error" in agent.ask("tools/call", name="memory_hook", arguments={"prompt": 1})


# --- capture ---


def test_a_step_is_captured_once_for_each_run(place: Place) -> None:
    with Memsyncd(str(place.root), env=place.home.env) as memory:
        text = f"intro\n\n## Kafka\n\nA log with {TOKEN}.\n"
        first = memory.capture("research", {"content": text, "path": "r.md"}, run_id="r1")
        assert [section["path"] for section in first["added"]] == [".memories/research.md"] * 2
        assert memory.capture("research", text, run_id="r2")["added"]
        again = memory.capture("research", {"content": text, "path": "r.md"}, run_id="r1")
        assert again["added"] == []
        memory.capture("build", error=f"exit 2: {TOKEN}", answers={"Which?": "All"}, run_id="r1")
        assert memory.search("kafka", kind="research")
        assert memory.search("exit", tag="failure")[0]["kind"] == "tool_run"
        with pytest.raises(BadRequest):
            memory.capture("research")
        with pytest.raises(BadRequest):
            memory.capture("research", "\n\n## Heading alone\n")
    notes = {path.name: path.read_text() for path in (place.root / ".memories").iterdir()}
    assert notes["research.md"].count("run_id: r1") == 2
    assert not any(TOKEN in text for text in notes.values())


def test_the_history_names_a_capture_and_undoes_it(place: Place) -> None:
    place.client.call("capture", step="plan", artifacts=[{"content": "x"}], workspace=place.id)
    (revision,) = place.client.call("history", workspace=place.id, path=".memories/decisions.md")[
        "revisions"
    ]
    assert revision["command"] == "capture"
    place.client.call("undo", workspace=place.id, revision=revision["revision"])
    assert not (place.root / ".memories" / "decisions.md").exists()


def test_hooks_capture_nothing_unless_the_configuration_allows_it(place: Place) -> None:
    before = place.notes()
    failed = {"cwd": str(place.root), "tool_name": "Bash", "error": "exit 1", "session_id": "s"}
    assert is_silent(hook(place.home, "post-tool-use", failed))
    message = "Decision: larch. " * 20
    assert is_silent(hook(place.home, "stop", {**failed, "last_assistant_message": message}))
    assert place.notes() == before


def test_hooks_capture_what_the_configuration_allows(make_home: Callable[..., Home]) -> None:
    home = make_home(ALLOWED)
    daemon = home.start()
    root = home.make_folder()
    with Client(home.socket_path) as client:
        client.call("workspace.add", path=str(root))
    base: dict[str, Any] = {"cwd": str(root), "session_id": "s-9"}
    failed = {**base, "tool_name": "Bash", "tool_input": {"command": "make"}, "error": TOKEN}
    plan = {**base, "tool_name": "ExitPlanMode", "tool_input": {"plan": "Use larch."}}
    asked = {**base, "tool_name": "Ask", "tool_response": {"answers": {"Which?": "Larch"}}}
    for event in (failed, plan, asked, failed, plan, asked):
        assert is_silent(hook(home, "post-tool-use", event))
    summary = {**base, "last_assistant_message": "We moved the cache to larch. " * 5}
    assert is_silent(hook(home, "stop", summary))
    notes = {path.name: path.read_text() for path in (root / ".memories").iterdir()}
    assert daemon.stop() == 0
    assert sorted(notes) == ["decisions.md", "insights.md", "runs.md"]
    assert notes["runs.md"].count("## Bash failure\n") == 1
    assert notes["decisions.md"].count("run_id: s-9") == 2
    assert "## We moved the cache to larch\n" in notes["insights.md"]
    assert TOKEN not in "".join(notes.values())
