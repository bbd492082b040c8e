"""A session of an agent, with hooks and tools: the log says what it was given, and what it wrote."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from signal import SIGINT
from typing import TYPE_CHECKING, Any

import pytest

from memsyncd.core.model import count_tokens
from tests.daemon.test_hooks import LIMIT_S, hook
from tests.daemon.test_mcp import META, Agent, connect, pump

if TYPE_CHECKING:
    from tests.daemon.conftest import Place

pytestmark = pytest.mark.shared_daemon

NOTES = {
    "MEMORY.md": "# Shop\n\nWe sell bread.\n",
    ".memories/decisions.md": """\
# Decisions

## Sessions live in Redis
<!-- memory: {kind: decision} -->

A deploy signed everybody out, so Redis keeps sessions.

## Money in cents
<!-- memory: {kind: preference} -->

Never floats.
""",
}
LABEL = re.compile(r"^### .* · (\S+):(\d+)-(\d+)$", re.MULTILINE)
Lines = tuple[str, int, int]


def find_given(answer: dict[str, Any]) -> list[Lines]:
    return find_places([each for each in answer["sections"] if each["act"] == "given"])


def find_places(sections: list[dict[str, Any]]) -> list[Lines]:
    return [(each["path"], each["start_line"], each["end_line"]) for each in sections]


def find_labels(text: str) -> list[Lines]:
    return [(path, int(start), int(end)) for path, start, end in LABEL.findall(text)]


def name(agent: Agent, client: str) -> None:
    agent._meta = {**META, "io.modelcontextprotocol/clientInfo": {"name": client, "version": "1"}}


def run_hook(place: Place, event: str, **fields: Any) -> tuple[str, str]:
    """Answer a hook as Codex runs it; return the text for the model and the line for the user."""
    sent = {"cwd": str(place.root), "session_id": "c-1", **fields}
    answer = json.loads(hook(place.home, event, sent, "--client", "codex").stdout or "{}")
    output = answer.get("hookSpecificOutput", {})
    return output.get("additionalContext", ""), answer.get("systemMessage", "")


def test_the_log_of_a_session_is_what_the_agent_was_given(place: Place) -> None:
    (place.root / ".memories").mkdir(exist_ok=True)
    for path, text in NOTES.items():
        place.save(path, text)
    place.client.call("sync", workspace=place.id)
    follower = place.daemon.client()
    follower.call("subscribe", workspace=place.id, agents=True)

    began, began_line = run_hook(place, "session-start", source="startup")
    first, first_line = run_hook(place, "user-prompt", prompt="where do sessions live?")
    with pump(place.home, place.root) as codex:
        # The client has started both processes, so the tools belong to the session of the hooks.
        name(codex, "codex-mcp-client")
        found, _ = codex.use("memory_search", query="redis")
        block, _ = codex.use("memory_context", query="bread", max_tokens=100)
        wrote, _ = codex.use("memory_remember", content="Refunds need the charge.", kind="error")
        lost, is_error = codex.use("memory_get", path="nowhere.md")
        assert is_error
    again, again_line = run_hook(place, "user-prompt", prompt="how are refunds made?")
    texts = [began, first, found, block, wrote, lost, again]

    log = place.client.call("log.agents", workspace=place.id)
    answers = log["answers"][::-1]
    assert [answer["call"] for answer in answers] == [
        "session-start", "user-prompt", "memory_search", "memory_context", "memory_remember",
        "memory_get", "user-prompt",
    ]  # fmt: skip
    for answer, text in zip(answers, texts, strict=True):
        assert (answer["client"], answer["session"]) == ("codex", "c-1")
        assert answer["tokens"] == count_tokens(text)
        assert answer["query"] is None
    start, prompt, search, context, remember, get, refunds = answers

    assert sorted(find_given(start)) == sorted(find_labels(began))
    n_notes = len({path for path, _, _ in find_labels(began)})
    assert start["summary"] == f"{n_notes} notes, {start['tokens']} tokens"
    assert n_notes > 1
    for section in start["sections"]:
        assert section["heading"].rpartition(" › ")[2] in began
        assert 0 < section["tokens"] < start["tokens"]
    assert began_line == f"memory: {start['summary']}"
    # The session has been given this already, so that the prompt brings nothing.
    assert (first, first_line, prompt["summary"]) == ("", "", "nothing")
    assert prompt["left_out"]["given before"] >= 1
    assert {each["reason"] for each in prompt["sections"]} == {"given before"}
    assert [f"{path}:{a}-{b}" for path, a, b in find_given(search)] == [
        line.partition("  ")[0] for line in found.splitlines() if line.startswith(".memories")
    ]
    assert find_given(context) == find_labels(block) == [("MEMORY.md", 1, 3)]
    check_written(place, remember, wrote)
    assert (get["failure"], get["sections"]) == ("note_not_found", [])
    assert find_given(refunds) == find_labels(again) == find_places(remember["sections"])
    assert again_line == f"memory: 1 note, {count_tokens(again)} tokens"
    check_session(log, texts)
    heard = [next(follower.notifications())[1]["answer"] for _ in answers]
    assert heard == answers
    follower.close()
    check_printed(place, answers)


def test_a_log_of_all_workspaces_goes_on_with_the_answers_of_each(place: Place) -> None:
    other = place.home.make_folder()
    (other / "MEMORY.md").write_text("# Bakery\n\nIt opens at six.\n")
    place.save("MEMORY.md", NOTES["MEMORY.md"])
    [added] = place.client.call("workspace.add", path=str(other))["workspaces"]
    for workspace in (place.id, added["id"]):
        place.client.call("sync", workspace=workspace)
    run_hook(place, "user-prompt", prompt="what about bread?")
    with (
        pump(place.home, other) as elsewhere,
        subprocess.Popen(
            [sys.executable, "-m", "memsyncd", "log", "agents", "--all", "--follow", "--json"],
            env=place.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as follower,
    ):
        assert follower.stdout is not None
        assert follower.stderr is not None
        lines = [json.loads(follower.stdout.readline())]
        follower.stderr.readline()
        name(elsewhere, "codex-mcp-client")
        elsewhere.use("memory_search", query="opens")
        run_hook(place, "user-prompt", prompt="what do we sell?")
        lines += [json.loads(follower.stdout.readline()) for _ in range(2)]
        follower.send_signal(SIGINT)
        assert follower.wait(LIMIT_S) == 130
    assert [(line["workspace"], line["call"]) for line in lines] == [
        (place.id, "user-prompt"),
        (added["id"], "memory_search"),
        (place.id, "user-prompt"),
    ]
    place.client.call("workspace.remove", workspace=added["id"])


def check_written(place: Place, remember: dict[str, Any], wrote: str) -> None:
    [written] = remember["sections"]
    assert (written["act"], written["tokens"]) == ("written", None)
    assert wrote.endswith(f"{written['path']}:{written['start_line']}-{written['end_line']}")
    revision = place.client.call("history", workspace=place.id)["revisions"][0]
    assert (remember["change_set"], written["path"]) == (revision["change_set"], revision["path"])
    assert remember["summary"].startswith("wrote 1 section, ")


def check_session(log: dict[str, Any], texts: list[str]) -> None:
    [session] = log["sessions"]
    assert (session["client"], session["session"]) == ("codex", "c-1")
    assert (session["answers"], session["writes"]) == (len(texts), 1)
    assert session["tokens"] == sum(map(count_tokens, texts))


def check_printed(place: Place, answers: list[dict[str, Any]]) -> None:
    """The command prints each answer below one head, in at most 80 columns."""
    words = [sys.executable, "-m", "memsyncd", "log", "agents", "-w", place.id]
    env = {**place.env, "COLUMNS": "80"}
    done = subprocess.run(
        words, env=env, capture_output=True, text=True, timeout=LIMIT_S, check=True
    )
    head, *lines = done.stdout.splitlines()
    assert head.startswith("codex · session c-1 · ")
    assert max(map(len, lines)) <= 80
    said = [line.split(maxsplit=2) for line in lines if line[0] != " "]
    assert [(call, summary) for _, call, summary in said] == [
        (answer["call"], answer["summary"]) for answer in answers
    ]
    [number] = {answer["change_set"] for answer in answers} - {None}
    assert [line.split(maxsplit=3)[3] for line in lines if "take it back" in line] == [
        f"memsyncd undo {number}" + " -w proj"
    ]
    for answer in answers:
        for path, start, end in find_given(answer):
            assert any(f"  {path}:{start}-{end}  " in line for line in lines)
    # The lines below an answer have all its tokens.
    n_given = sum(answer["tokens"] for answer in answers if find_given(answer))
    counts = re.findall(r"^ +([\d,]+) tokens  ", done.stdout, re.MULTILINE)
    assert sum(int(n.replace(",", "")) for n in counts) == n_given
    n_lines = {}
    for agent in ("cod", "codex", "claude"):
        done = subprocess.run(
            [*words, "--agent", agent], env=env, capture_output=True, text=True, check=False
        )
        n_lines[agent] = len(done.stdout.splitlines())
    assert n_lines == {"cod": 1 + len(lines), "codex": 1 + len(lines), "claude": 0}
    assert "answers were given to codex\n" in done.stderr


def test_sessions_are_told_apart_by_what_the_client_says(place: Place) -> None:
    place.save("MEMORY.md", NOTES["MEMORY.md"])
    place.client.call("sync", workspace=place.id)
    for session in ("named", ""):
        with connect(place.home.socket_path) as agent:
            name(agent, "opencode")
            if session:
                agent.use("memory_agent", action="start", session=session, agent="scout")
            agent.use("memory_search", query="bread")
    # It only asks whether there is a memory; the client gets none of it.
    fields = {"cwd": str(place.root), "session_id": "c-1"}
    assert hook(place.home, "pre-compact", fields, "--client", "claude-code").stdout
    unnamed, named, *others = place.client.call("log.agents", workspace=place.id)["sessions"]
    assert (named["agent"], named["session"], named["answers"]) == ("scout", "named", 2)
    assert unnamed["session"].startswith("mcp-")
    assert unnamed["agent"] == "opencode"
    assert others == []
    # One process, such as a shell, has started a client's hook and another client.
    run_hook(place, "session-start")
    with pump(place.home, place.root) as agent:
        name(agent, "my-agent")
        agent.use("memory_search", query="bread")
    latest, *_ = place.client.call("log.agents", workspace=place.id)["sessions"]
    assert latest["client"] == "my-agent"
    assert latest["session"].startswith("mcp-")
