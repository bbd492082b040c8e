"""Two agents work a day with MCP and hooks alone: no command of a shell, no client of Python."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.daemon.test_hooks import hook, is_silent, read_context
from tests.daemon.test_mcp import META, Agent, connect, pump

if TYPE_CHECKING:
    from tests.daemon.conftest import Place

pytestmark = pytest.mark.shared_daemon


def begin(agent: Agent, place: Place, name: str) -> None:
    agent._meta = {**META, "io.modelcontextprotocol/clientInfo": {"name": name, "version": "1"}}
    agent.send("notifications/memsyncd/bind", is_notice=True, workspace=str(place.root))


def start_hook(place: Place, source: str, session: str = "u-1", **more: Any) -> str:
    fields = {"cwd": str(place.root), "session_id": session, "source": source, **more}
    return read_context(hook(place.home, "session-start", fields, "--client", "claude-code"))


def ask_prompt(agent: Agent, prompt: str, session: str = "u-1") -> str:
    """The text that the hook before a prompt shows, over the connection of the agent."""
    text, is_error = agent.use("memory_hook", prompt=prompt, session_id=session)
    assert not is_error
    return str(json.loads(text).get("hookSpecificOutput", {}).get("additionalContext", ""))


def act(connection: Agent, action: str, **arguments: Any) -> str:
    text, is_error = connection.use("memory_agent", action=action, **arguments)
    assert not is_error, text
    return text


def number_of(text: str) -> int:
    return int(text.partition("Sent as ")[2].partition(" ")[0])


def test_an_agent_goes_on_after_its_context_was_compacted_and_another_hears_of_it(
    place: Place,
) -> None:
    with connect(place.home.socket_path) as builder, connect(place.home.socket_path) as reviewer:
        begin(builder, place, "claude-code")
        begin(reviewer, place, "codex-mcp-client")

        # The agent starts. Its task and session are named once.
        begun = act(builder, "start", session="s-1", task="PAY-7", content="Move to Stripe.")
        assert "Later calls mean task PAY-7 and session s-1" in begun
        act(builder, "checkpoint", content="The webhook is verified. Next: refunds.")
        builder.use("memory_remember", content="Refunds need the charge's id.", summary="Refunds")

        # Both are known to the other as readers; the reviewer asks, a broadcast goes to all.
        assert act(reviewer, "inbox") == "No signals."
        question = act(reviewer, "send", agent="claude-code", type="question", content="Which API?")
        everyone = act(builder, "send", all=True, type="completion", key="k-1", content="Webhook.")
        again = act(builder, "send", all=True, type="completion", key="k-1", content="Webhook.")
        assert number_of(everyone) == number_of(again)
        assert act(reviewer, "inbox") == (
            f"{number_of(everyone)} completion from claude-code: Webhook."
        )

        # The hook before a prompt shows the question once, and what memory holds once.
        first = ask_prompt(builder, "how do refunds work?")
        assert "question from codex: Which API?" in first
        assert f"(action ack, signals=[{number_of(question)}])" in first
        assert "the charge's id" in first
        assert ask_prompt(builder, "how do refunds work?") == ""

        # Before the compaction the agent is told where its state is kept.
        fields = {"cwd": str(place.root), "session_id": "u-1"}
        kept = hook(place.home, "pre-compact", fields, "--client", "claude-code").stdout
        assert "memory_agent (action checkpoint, session=u-1)" in kept

        # After it, the answer begins with the state, although the client's own id is another.
        resumed = start_hook(place, "compact")
        top = resumed.partition("## Prior Knowledge")[0]
        assert "true when they were written" in top
        assert "# Resuming task PAY-7, session s-1" in top
        assert "Next: refunds." in top
        assert "Which API?" in top
        # The model has lost what it was given, so it is given again, and once.
        assert "the charge's id" in resumed
        assert ask_prompt(builder, "how do refunds work?") == ""

        # It claims the question; the sender sees it; the session ends.
        assert act(builder, "ack", signals=[number_of(question)], claim=True).startswith(
            f"Acknowledged: {number_of(question)}"
        )
        assert "read by agent:claude-code" in act(reviewer, "outbox")
        assert "Which API?" not in ask_prompt(builder, "what did the larch say?")
        act(builder, "end", content="Refunds are done.")
        # From now on, the client's own session is meant.
        assert (
            act(builder, "resume")
            == "There is nothing to resume yet; keep progress with checkpoint."
        )


def test_after_clear_the_state_of_the_session_before_comes_first(place: Place) -> None:
    with connect(place.home.socket_path) as agent:
        begin(agent, place, "claude-code")
        start_hook(place, "startup", "before")
        ask_prompt(agent, "anything", "before")
        # The connection knows the client's session from its hook.
        act(agent, "checkpoint", content="Half of the ports are typed.")
    resumed = start_hook(place, "clear", "after")
    assert "# Resuming session before" in resumed
    assert "Half of the ports" in resumed.partition("## Prior Knowledge")[0]
    # A session that begins on its own has no such state.
    assert "# Resuming" not in start_hook(place, "startup", "other")


def test_a_new_session_shows_unread_signals_to_its_agent_until_they_are_acknowledged(
    place: Place,
) -> None:
    place.client.call(
        "signal.send", workspace=place.id, agents=["claude-code"], content="CI is red."
    )
    for _ in range(2):
        text = start_hook(place, "startup")
        assert "## Signals" in text
        assert "CI is red." in text
    number = text.partition("signals=[")[2].partition("]")[0]
    with connect(place.home.socket_path) as agent:
        begin(agent, place, "claude-code")
        act(agent, "ack", signals=[int(number)])
    assert "CI is red." not in start_hook(place, "startup")


def test_a_prompt_on_an_error_brings_its_solution_and_repeats_neither(place: Place) -> None:
    place.save(
        ".memories/errors.md",
        "# Errors\n\n## Sockets drop\n\nThe pool loses sockets after a minute.\n"
        "- resolved_by [[cures#Keepalive]]\n",
    )
    place.save(".memories/cures.md", "# Cures\n\n## Keepalive\n\nSend a probe each 20 s.\n")
    place.client.call("sync", workspace=place.id)
    fields = {"cwd": str(place.root), "session_id": "u-2", "prompt": "why does the pool lose it?"}
    both = read_context(hook(place.home, "user-prompt", fields))
    assert "loses sockets" in both
    assert "probe each 20 s" in both
    assert is_silent(hook(place.home, "user-prompt", fields))
    # Another session has not seen it, and a section that has changed is new.
    assert "loses sockets" in read_context(
        hook(place.home, "user-prompt", {**fields, "session_id": "u-3"})
    )
    place.save(".memories/cures.md", "# Cures\n\n## Keepalive\n\nSend a probe each 15 s.\n")
    changed = read_context(hook(place.home, "user-prompt", fields))
    assert "probe each 15 s" in changed
    assert "loses sockets" not in changed
    # A client that sends no id gets all of it each time.
    del fields["session_id"]
    for _ in range(2):
        assert "loses sockets" in read_context(hook(place.home, "user-prompt", fields))


def test_an_agent_recalls_by_criteria_and_the_environment_names_its_task(place: Place) -> None:
    place.client.call(
        "note.add", workspace=place.id, content="Tokens expire after an hour.", kind="decision",
        topic="auth", keywords=["token"],
    )  # fmt: skip
    env = place.home.env
    env.update(MEMSYNCD_TASK="AUTH-1", MEMSYNCD_SESSION="s-9")
    try:
        with pump(place.home, place.root) as agent:
            for criteria in ({"topic": "auth"}, {"keywords": "token, other"}, {"kind": "decision"}):
                assert "Tokens expire" in act(agent, "recall", **criteria)
            assert act(agent, "recall", topic="none") == "Memory holds nothing on this."
            act(agent, "checkpoint", content="The tokens are signed.")
            resumed = act(agent, "resume")
            assert resumed.startswith("# Resuming task AUTH-1, session s-9")
            assert "The tokens are signed." in resumed
            # Another session begins without the task of this one.
            assert "AUTH-1" not in act(agent, "start", session="s-10")
            # The end of another session is not the end of its own.
            act(agent, "end", session="s-9")
            act(agent, "checkpoint", content="Ten is half done.")
            assert act(agent, "resume").startswith("# Resuming session s-10")
    finally:
        del env["MEMSYNCD_TASK"], env["MEMSYNCD_SESSION"]
