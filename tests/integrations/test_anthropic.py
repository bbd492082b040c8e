"""The tool as a program uses it: its parameters, its failures, and the event loop that goes on."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from memsyncd.client import NoAnswer
from memsyncd.errors import MemsyncdError, NoDaemon, PathRefused

if TYPE_CHECKING:
    from tests.daemon.conftest import Daemon, Place

# Slow: each test has a daemon of its own, and the SDKs take seconds to import.
pytestmark = pytest.mark.life

VIEW = {"command": "view", "path": "/memories/context.md"}
SHOWN = (
    "Here's the content of /memories/context.md with line numbers:\n     1\t#"
    " Context\n     2\t\n     3\tbystander"
)
REFUSED = (
    {"command": "view", "path": "/memories/none.md"},
    {"command": "view", "path": "/memories/../../etc/passwd"},
    {"command": "view", "path": "/memoriesX"},
    {"command": "view", "path": "/memories/.hidden"},
    {"command": "view", "path": "/memories/%2e%2e/secret"},
    {"command": "create", "path": "/memories/context.md", "file_text": "other"},
    {"command": "create", "path": "/memories/a.md"},
    {"command": "create", "path": "/memories/a.md", "file_text": 7},
    {"command": "create", "path": "/memories/\ud800.md", "file_text": "half a letter"},
    {"command": "str_replace", "path": "/memories/context.md", "old_str": "nowhere", "new_str": ""},
    {"command": "insert", "path": "/memories/context.md", "insert_line": 99, "insert_text": "x"},
    {"command": "insert", "path": "/memories/context.md", "insert_line": "end", "insert_text": "x"},
    {"command": "delete", "path": "/memories"},
    {"command": "rename", "old_path": "/memories/none.md", "new_path": "/memories/b.md"},
    {"command": "view", "path": "/memories", "view_range": "1-2"},
)


def find_refusal(action: Callable[[], object]) -> tuple[str, MemsyncdError]:
    """Return the text for the model, and the error that caused it."""
    from anthropic.tools import ToolError

    with pytest.raises(ToolError) as caught:
        action()
    assert isinstance(caught.value.__cause__, MemsyncdError)
    assert isinstance(caught.value.content, str)
    return caught.value.content, caught.value.__cause__


@pytest.mark.parametrize("dialect", ["docs", "sdk"])
def test_a_refusal_of_the_daemon_is_passed_on_byte_for_byte(
    place: Place, socket: str, dialect: Any, make_tool: Any, make_async_tool: Any
) -> None:
    tools = [kind(place.id, dialect=dialect) for kind in (make_tool, make_async_tool)]
    for wish in REFUSED:
        with pytest.raises(MemsyncdError) as refused:
            place.client.call("memory", **wish, dialect=dialect, workspace=place.id)
        for tool in tools:
            reported, failure = find_refusal(lambda tool=tool, wish=wish: call(tool, wish))
            assert reported == refused.value.message
            assert (type(failure), failure.hint) == (type(refused.value), refused.value.hint)


def call(tool: Any, wish: object) -> object:
    answer = tool.call(wish)
    return asyncio.run(answer) if asyncio.iscoroutine(answer) else answer


@pytest.mark.parametrize("wish", ["view", "str_replace", "insert", "create"])
def test_a_note_that_became_a_link_out_is_neither_read_nor_written(
    place: Place, socket: str, wish: str, make_tool: Any
) -> None:
    tool = make_tool(place.id)
    secret = place.outside / "secret.md"
    secret.write_text("# Secret\n")
    tool.call(VIEW)
    note = place.root / ".memories" / "context.md"
    note.unlink()
    note.symlink_to(secret)
    words = {
        "file_text": "new",
        "old_str": "Secret",
        "new_str": "new",
        "insert_line": 0,
        "insert_text": "new",
    }
    reported, failure = find_refusal(
        lambda: tool.call({"command": wish, "path": "/memories/context.md", **words})
    )
    assert reported == "Path /memories/context.md would escape /memories directory"
    assert isinstance(failure, PathRefused)
    assert secret.read_text() == "# Secret\n"


def test_a_model_chooses_neither_workspace_nor_name_nor_dialect(
    place: Place, socket: str, make_tool: Any
) -> None:
    more = {
        "workspace": "elsewhere",
        "client": "somebody",
        "dialect": "none",
        "if_digest": "none",
        "old_str": "",
        "made": "up",
    }
    wish = {"command": "create", "path": "/memories/new.md", "file_text": "# New\n"}
    assert (
        make_tool(place.id, client="me").call({**wish, **more})
        == "File created successfully at: /memories/new.md"
    )
    (newest,) = place.client.call("history", workspace=place.id, limit=1)["revisions"]
    assert (newest["client"], newest["path"]) == ("me", ".memories/new.md")


def test_clearing_removes_all_notes_and_can_be_undone(
    place: Place, socket: str, make_tool: Any, make_async_tool: Any
) -> None:
    before = place.notes()
    assert make_tool(place.id).clear_all_memory() == "All memory cleared"
    assert place.notes() == {}
    (newest,) = place.client.call("history", workspace=place.id, limit=1)["revisions"]
    place.client.call("undo", workspace=place.id, change_set=newest["change_set"])
    assert place.notes() == before
    assert asyncio.run(make_async_tool(place.id).clear_all_memory()) == "All memory cleared"
    assert place.notes() == {}


def test_without_a_daemon_the_model_gets_an_error_and_the_program_a_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_tool: Any
) -> None:
    monkeypatch.setenv("MEMSYNCD_SOCKET", str(tmp_path / "none.sock"))
    reported, failure = find_refusal(lambda: make_tool().call(VIEW))
    assert reported == f"no daemon answers on {tmp_path / 'none.sock'}"
    assert isinstance(failure, NoDaemon)
    assert "memsyncd start" in failure.hint


def test_one_tool_serves_many_threads_without_losing_an_edit(
    place: Place, socket: str, make_tool: Any
) -> None:
    tool = make_tool(place.id)
    tool.call({"command": "create", "path": "/memories/count.md", "file_text": "# Count\n"})
    numbers = range(12)

    def add(number: int) -> None:
        tool.call(
            {
                "command": "insert",
                "path": "/memories/count.md",
                "insert_line": 1,
                "insert_text": f"- number{number}",
            }
        )

    threads = [threading.Thread(target=add, args=(number,)) for number in numbers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = (place.root / ".memories" / "count.md").read_text().splitlines()
    assert sorted(lines) == sorted(["# Count", *(f"- number{number}" for number in numbers)])


@pytest.fixture
def stopped(daemon: Daemon, place: Place) -> Any:
    """A stopped daemon: the kernel still accepts connections for it, but nothing answers until the
    daemon is resumed.
    """
    daemon.process.send_signal(signal.SIGSTOP)
    yield lambda: daemon.process.send_signal(signal.SIGCONT)
    daemon.process.send_signal(signal.SIGCONT)


def test_the_async_tool_lets_the_loop_go_on_while_it_waits(
    place: Place, socket: str, stopped: Callable[[], None], make_async_tool: Any
) -> None:
    tool = make_async_tool(place.id)

    async def ask_meanwhile() -> str:
        asking = asyncio.create_task(tool.call(VIEW))
        for _ in range(20):
            await asyncio.sleep(0.005)
        assert not asking.done()
        stopped()
        return str(await asking)

    assert asyncio.run(ask_meanwhile()).startswith(SHOWN)


def test_a_command_is_executed_even_if_its_waiter_is_cancelled(
    place: Place, socket: str, stopped: Callable[[], None], make_async_tool: Any
) -> None:
    tool = make_async_tool(place.id)

    async def ask_and_go() -> None:
        asking = asyncio.create_task(
            tool.call({"command": "create", "path": "/memories/late.md", "file_text": "tardy"})
        )
        await asyncio.sleep(1.0)  # until its thread has begun
        asking.cancel()
        stopped()
        with pytest.raises(asyncio.CancelledError):
            await asking

    asyncio.run(ask_and_go())
    place.wait_found("tardy", ".memories/late.md")


def test_a_daemon_that_does_not_answer_in_time_ends_the_command(
    place: Place, socket: str, stopped: Callable[[], None], make_tool: Any
) -> None:
    reported, failure = find_refusal(lambda: make_tool(place.id, timeout_s=0.05).call(VIEW))
    assert reported == "the daemon did not answer within 1.05 s"
    assert isinstance(failure, NoAnswer)


def test_a_restarted_daemon_is_found_by_the_same_tool(
    home: Any, make_home: Any, monkeypatch: pytest.MonkeyPatch, make_tool: Any
) -> None:
    own = make_home()
    monkeypatch.setenv("MEMSYNCD_SOCKET", own.socket_path)
    root = own.make_folder()
    (root / ".memories").mkdir()
    (root / ".memories" / "context.md").write_text("# Context\n\nbystander\n")
    first = own.start()
    with first.client() as client:
        client.call("workspace.add", path=str(root))
    tool = make_tool()
    assert str(tool.call(VIEW)).startswith(SHOWN)
    first.kill()
    assert isinstance(find_refusal(lambda: tool.call(VIEW))[1], NoDaemon)
    own.start()
    assert str(tool.call(VIEW)).startswith(SHOWN)


def test_without_the_sdk_the_error_names_the_package() -> None:
    script = """
        import sys
        sys.modules["anthropic"] = None
        import memsyncd.integrations.instructions
        try:
            import memsyncd.integrations.anthropic
        except ImportError as error:
            print(error)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert done.stdout == (
        "memsyncd.integrations.anthropic needs Anthropic's SDK, version 2.12 or newer:"
        " pip install 'memsyncd[anthropic]'\n"
    )
