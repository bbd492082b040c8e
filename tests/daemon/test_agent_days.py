"""Two agents work a day with MCP and hooks alone: no command of a shell, no client of Python."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
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


class Caller:
    """An agent that counts its calls of tools."""

    def __init__(self, agent: Agent, place: Place, name: str) -> None:
        begin(agent, place, name)
        self._agent = agent
        self.n_calls = 0

    def __call__(self, tool: str, **arguments: Any) -> str:
        self.n_calls += 1
        text, is_error = self._agent.use(f"memory_{tool}", **arguments)
        assert not is_error, text
        return str(text)

    def ask_prompt(self, prompt: str, session: str) -> str:
        """A hook answers, so that this is no call of the agent."""
        return ask_prompt(self._agent, prompt, session)


def check_half(now: int, *then: int) -> None:
    """Compare the calls with the calls that each act of the day took before a memory could be
    changed, several workspaces asked at once, and signals shown by hooks.
    """
    assert 2 * now <= sum(then), (now, then)


def test_a_day_with_a_task_takes_half_of_the_calls(place: Place) -> None:
    with connect(place.home.socket_path) as agent:
        use = Caller(agent, place, "claude-code")
        use.ask_prompt("how do we pay?", "u-1")
        use("agent", action="start", session="s-1", task="PAY-7", content="Move to Stripe.")
        for text, priority in (("Refunds need an id.", "P1"), ("The webhook is late.", "P0")):
            use("remember", content=text, kind="discovery", values={"priority": priority})
        use("agent", action="checkpoint", content="Stripe is called. Next: the webhook.")
        # The second session has the state by itself, and acts on the places that it reads there.
        resumed = start_hook(place, "compact")
        top = resumed.partition("## Prior Knowledge")[0]
        assert top.index("Next: the webhook.") < top.index("## Open discoveries")
        webhook, refunds = (
            re.search(rf"· (\S+)\n{re.escape(text)}", top)
            for text in ("The webhook is late.", "Refunds need an id.")
        )
        assert webhook is not None
        assert refunds is not None
        use("update", action="done", memory=webhook[1])
        use("update", action="set", memory=refunds[1], values={"status": "blocked"})
        # A fact stands once, however often a summary and a checkpoint say it.
        block = use("agent", action="context")
        assert block.count("Refunds need an id.") == 1
        use("agent", action="end", content="The webhook is mended.")
        ready = place.client.call("task.ready", workspace=place.id, task="PAY-7")
        assert (ready["n_ready"], ready["blocked"]) == (0, 1)
        # Then: start; two discoveries; checkpoint; `session resume`, `task context` and `context
        # --task` for one block; `ready`, again as JSON for anchors; a view and a replacement of the
        # comment for each status; no end; the block once more.
        check_half(use.n_calls, 1, 2, 1, 3, 2, 4, 3)


@pytest.fixture
def clients(place: Place) -> Iterator[dict[str, str]]:
    """Three more workspaces: their names, which a link can have, by the names of clients."""
    names: dict[str, str] = {}
    for client in ("acme", "globex", "initech"):
        root, names[client] = place.root.parent / client, f"{client}{place.id[-6:]}"
        root.mkdir()
        place.client.call("workspace.add", path=str(root), name=names[client])
    yield names
    for name in names.values():
        place.client.call("workspace.remove", workspace=name)


def test_a_day_with_three_clients_takes_half_of_the_calls(
    place: Place, clients: dict[str, str]
) -> None:
    acme, globex, _ = every = [*clients.values()]
    with connect(place.home.socket_path) as agent:
        use = Caller(agent, place, "claude-code")
        for client, name in clients.items():
            values = {"topic": "redis", "keywords": "sockets", "source": f"client: {client}"}
            use("remember", workspace=name, content=f"Redis lost its sockets at {client}.",
                summary="No sockets", kind="error", values=values)  # fmt: skip
        use("remember", workspace=acme, content="Give the pool a limit.", summary="Limit",
            kind="solution_approach", values={"relations": "resolves=errors#No sockets"})  # fmt: skip
        for criteria in ({"keywords": "sockets"}, {"topic": "redis", "kind": "error"}):
            recalled = use("agent", action="recall", workspace=every, **criteria)
            assert all(f"[{name}] .memories/errors.md:3-" in recalled for name in every)
        found = use("search", query="kind:error source:client=acme", workspace=every)
        assert re.findall(r"at (\w+)\.", found) == ["acme"]
        solution = f"{acme}:solutions#Limit"
        use("update", action="relate", workspace=globex, memory="No sockets",
            relation="resolved_by", to=solution)  # fmt: skip
        assert "a limit" in use("search", query="redis", workspace=[globex], follow="resolved_by")
        place.client.call(
            "note.add", workspace=acme, content="Mail me before noon.", summary="Mail",
            kind="preference",
        )  # fmt: skip
        use("update", action="replace", workspace=acme, memory="Mail", content="Mail me at six.")
        found = place.client.call("search", workspace=acme, query="mail")["hits"]
        assert [hit["snippet"].partition(" - ")[0] for hit in found] == ["**Mail** me at six."]
        # Then: four memories; each recall in each workspace; a search and the sources of its hits;
        # a solution read and copied, and its search; a view and a replacement of the preference's
        # comment, and the new preference.
        check_half(use.n_calls, 4, 2 * 3, 1 + 3, 3, 3)


def test_a_day_of_two_agents_takes_half_of_the_calls(place: Place) -> None:
    with connect(place.home.socket_path) as first, connect(place.home.socket_path) as second:
        builder = Caller(first, place, "claude-code")
        reviewer = Caller(second, place, "codex-mcp-client")
        # A hook shows signals, so that nobody asks for them.
        for prompt in ("what about refunds?", "what about ports?"):
            assert builder.ask_prompt(prompt, "b-1") == ""
            assert reviewer.ask_prompt(prompt, "r-1") == ""
        frozen = number_of(builder("agent", action="send", all=True, content="Main is frozen."))
        task = number_of(
            builder("agent", action="send", task="PAY-7", content="Who reviews PAY-7?", key="k-1")
        )
        assert "Main is frozen." in reviewer.ask_prompt("what is new?", "r-1")
        assert "Main is frozen." not in reviewer.ask_prompt("and what else?", "r-1")
        reviewer("agent", action="ack", task="PAY-7", signals=[frozen, task], claim=True)
        reviewer("agent", action="send", agent="claude-code", content="I take it.")
        assert "I take it." in builder.ask_prompt("who reviews?", "b-1")
        outbox = builder("agent", action="outbox")
        assert outbox.count("read by agent:codex") == 2
        # Then: a signal to each agent, and to the task; an inbox before each of seven prompts; an
        # acknowledgement; a signal and two inboxes to agree who takes the task; the answer, and a
        # question whether it was read, which had no other way over MCP.
        check_half(builder.n_calls + reviewer.n_calls, 2, 1, 7, 1, 3, 1, 2)
