"""Tasks and sessions of agents, through the socket and the Python class."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import pytest

from memsyncd.client.memory import Memsyncd
from memsyncd.errors import BadRequest, NoteNotFound
from tests.daemon.test_change_a_memory import run
from tests.daemon.test_mcp import connect

if TYPE_CHECKING:
    from tests.daemon.conftest import Place

pytestmark = pytest.mark.shared_daemon


@pytest.fixture
def memory(place: Place) -> Iterator[Memsyncd]:
    with Memsyncd(place.root, env=place.env, client="builder", session="s1") as memory:
        yield memory


def test_an_agent_goes_on_after_its_context_was_cleared(memory: Memsyncd) -> None:
    memory.start_session("s1", task="WU-1", content="Split the ports.")
    memory.add("The adapter hides a second socket.", kind="discovery", task="WU-1")
    memory.add("Define the ports.", summary="Ports", task="WU-1", priority="P1")
    memory.checkpoint("Port definitions are complete.", task="WU-1", metadata={"milestone": "a"})
    memory.send_signal("WU-0 is done", type="completion", task="WU-1")
    block = memory.resume_session("s1", agent="builder")
    text = block["text"]
    assert text.startswith("# Resuming task WU-1, session s1\n")
    assert block["task"] == "WU-1"
    wanted = [
        "WU-0 is done",
        "## Goal",
        "Split the ports.",
        "## Last checkpoint",
        "Port definitions are complete. (milestone: a)",
        "## Open discoveries",
        "second socket",
        "## Ready",
        "Define the ports.",
    ]
    places = [text.find(part) for part in wanted]
    assert -1 not in places
    assert places == sorted(places)
    assert memory.resume_session(task="WU-1", max_bytes=400)["text"].encode()[400:] == b""
    memory.ack_signals(*block["signals"], agent="builder", session="s1", task="WU-1")
    assert memory.resume_session("s1", agent="builder")["signals"] == []


def test_nothing_to_resume_is_an_empty_text_and_nobody_is_an_error(
    place: Place, memory: Memsyncd
) -> None:
    assert memory.resume_session("unknown")["text"] == ""
    assert memory.task_context("unknown")["text"] == ""
    with Memsyncd(place.root, env=place.env) as other:
        with pytest.raises(BadRequest):
            other.resume_session()
        with pytest.raises(BadRequest):
            other.checkpoint("Nothing.")


def test_one_context_has_the_memories_of_project_task_and_session_and_other_notes(
    place: Place, memory: Memsyncd
) -> None:
    source = memory.add(
        "The pool needs a limit of twenty sockets.", kind="discovery", task="WU-2", session="s2"
    )
    memory.promote(anchor=source["anchor"], tag="pattern", apply=True)
    memory.summarize_task("WU-2", apply=True)
    memory.add("We use hexagonal architecture.", kind="decision", lifecycle="project")
    memory.add("Define the ports.", task="WU-2", priority="P1")
    memory.checkpoint("Criteria 1-3 are met.", task="WU-2", session="s2")
    memory.send_signal("WU-0 is done", type="completion", task="WU-2")
    memory.add("Postgres gives up after nine seconds.", note="other.md")
    words = ["context", "postgres sockets", "--task", "WU-2", "--session", "s2", "--profile"]
    text = run(place, *words)["text"]
    with connect(place.home.socket_path) as agent:
        agent.send("notifications/memsyncd/bind", is_notice=True, workspace=str(place.root))
        asked = {"query": "postgres sockets", "task": "WU-2", "session": "s2", "profile": True}
        answer, is_error = agent.use("memory_context", **asked)
        assert not is_error
        assert answer.endswith(text)
        whole, _ = agent.use("memory_agent", action="context", task="WU-2")
        assert whole.startswith(memory.task_context("WU-2", track_access=False)["text"])
    block = memory.context("postgres sockets", task="WU-2", session="s2", profile=True)
    assert block == text
    assert (block.task, len(block.signals)) == ("WU-2", 1)
    wanted = [
        "## Signals",
        "WU-0 is done",
        "## Project profile",
        "hexagonal",
        "## Last checkpoint",
        "Criteria 1-3 are met.",
        "## Ready",
        "Define the ports.",
        "## Prior Knowledge",
        "nine seconds",
    ]
    places = [text.find(part) for part in wanted]
    assert -1 not in places
    assert places == sorted(places)
    # A fact stands in it once, although it was promoted and summarised.
    assert text.count("twenty sockets") == 1
    reasons = {part["anchor"]: part["reason"] for part in block.included}
    assert {"profile", "checkpoint", "ready", "match"} <= {*reasons.values()}
    counts = {row["anchor"] for row in memory.access_stats()["counts"]}
    assert {*reasons} <= counts
    for n in (100, 150, 300):
        small = memory.context("postgres", task="WU-2", max_tokens=n, max_bytes=4 * n)
        assert small.tokens <= n
        assert "nine seconds" in small
    # Each part by itself, and the older names, are made in the same way.
    assert "hexagonal" in memory.context(profile=True)
    assert memory.context(session="s2").task == "WU-2"
    found = memory.task_context("WU-2")
    titles = [line for line in found["text"].splitlines() if line.startswith("## ")]
    # The project's profile has all that the summary says.
    assert titles == ["## Project profile", "## Task WU-2"]
    assert found["bytes"] == len(found["text"].encode()) <= 4096
    small = memory.task_context("WU-2", max_bytes=200)
    assert small["bytes"] <= 200
    assert small["left_out"]
    assert small["n_left_out"] >= len(small["left_out"])


def test_the_context_of_a_task_is_ordered_by_decay_on_request(memory: Memsyncd) -> None:
    memory.add("An urgent old thought.", task="WU-7", priority="P0", created="2026-01-02")
    memory.add("A young thought.", task="WU-7", priority="P3", created="2026-01-03")
    memory.add("A young rule.", lifecycle="project", created="2026-01-03", priority="P3")
    memory.add("An important old rule.", lifecycle="project", created="2026-01-02", priority="P0")

    def list_said(sort: Literal["recency", "decay"]) -> list[str]:
        lines = memory.task_context("WU-7", sort=sort)["text"].splitlines()
        return [line for line in lines if line and not line.startswith("#")]

    assert list_said("recency") == [
        "A young rule.", "An important old rule.", "A young thought.", "An urgent old thought.",
    ]  # fmt: skip
    assert list_said("decay") == [
        "An important old rule.", "A young rule.", "An urgent old thought.", "A young thought.",
    ]  # fmt: skip


def test_ready_sections_leave_out_blocked_ones_and_a_task_is_listed_in_file_order(
    place: Place, memory: Memsyncd
) -> None:
    (place.root / ".memories" / "work.md").write_text(
        "# Work\n\n## Later\n<!-- memory: {task: WU-3, priority: P2} -->\n\nlater words\n\n"
        "## First\n<!-- memory: {task: WU-3, priority: P0} -->\n\nfirst words\n\n"
        "## Waits\n<!-- memory: {task: WU-3, blocked_by: WU-4} -->\n\nwaiting words\n"
    )
    place.wait_found("waiting", ".memories/work.md")
    ready = memory.ready("WU-3")
    assert [item["heading"][-1] for item in ready["items"]] == ["First", "Later"]
    assert (ready["n_ready"], ready["blocked"]) == (2, 1)
    (place.root / ".memories" / "other.md").write_text(
        "# Done\n<!-- memory: {task: WU-4, status: done} -->\n\nfinished words\n"
    )
    place.wait_found("finished", ".memories/other.md")
    assert memory.ready("WU-3")["blocked"] == 0
    listed = memory.task_sections("WU-3")
    assert [section["text"] for section in listed] == [
        "later words",
        "first words",
        "waiting words",
    ]


def test_a_typed_link_blocks_until_what_it_leads_to_is_closed(
    place: Place, memory: Memsyncd
) -> None:
    work = place.root / ".memories" / "ports.md"
    text = (
        "# Ports\n\n## Define\n<!-- memory: {task: WU-8, status: open} -->\n\nmango words\n\n"
        "## Adapt\n<!-- memory: {task: WU-8} -->\n\nadapting words\n\n- blocked_by [[#Define]]\n\n"
        "## Release\n<!-- memory: {task: WU-8} -->\n\ncherry words\n\n- blocked_by [[review]]\n\n"
        "## Odd\n<!-- memory: {task: WU-8} -->\n\nplum words\n\n- blocked_by [[a{b*]]\n"
    )
    work.write_text(text)
    review = place.root / ".memories" / "review.md"
    review.write_text("# Review\n<!-- memory: {status: open} -->\n\nkiwi words\n")
    (place.root / ".memories" / "a{b*.md").write_text("# Odd name\n\nquince words\n")
    place.wait_found("quince", ".memories/a{b*.md")
    place.wait_found("plum", ".memories/ports.md")
    place.wait_found("kiwi", ".memories/review.md")

    def list_ready() -> list[str]:
        return [item["heading"][-1] for item in memory.ready("WU-8")["items"]]

    assert list_ready() == ["Define"]
    work.write_text(text.replace("status: open} -->\n\nmango", "status: done} -->\n\nlemon"))
    place.wait_found("lemon", ".memories/ports.md")
    assert list_ready() == ["Adapt"]
    review.write_text("# Review\n<!-- memory: {status: done} -->\n\npapaya words\n")
    place.wait_found("papaya", ".memories/review.md")
    assert list_ready() == ["Adapt", "Release"]


def test_a_summary_is_written_once_and_taken_back_by_one_undo(memory: Memsyncd) -> None:
    memory.add("The redis pool leaks sockets. It rains.", task="WU-5")
    memory.add("The redis pool needs a limit.", task="WU-5")
    planned = memory.summarize_task("WU-5")
    assert planned["added"] is None
    assert "redis pool" in planned["text"]
    done = memory.summarize_task("WU-5", apply=True)
    assert done["text"] == planned["text"]
    assert done["added"] is not None
    assert memory.summarize_task("WU-5", apply=True)["added"] is None
    own = memory.summarize_task("WU-5", model=lambda sections: f"{len(sections)} sections.")
    assert own["text"] == "3 sections."
    memory.undo(done["added"]["path"])
    assert [section["kind"] for section in memory.task_sections("WU-5")] == [None, None]


def test_bugs_are_counted_and_made_tasks_once(memory: Memsyncd) -> None:
    slow = memory.add("Start is slow.", summary="Slow", tags=["bug"], priority="P2")
    leak = memory.add("Sockets leak.", summary="Leak", tags=["bug"], priority="P0")
    found = memory.triage()
    assert (found["open"], found["closed"], found["untriaged"]) == (2, 0, 2)
    assert found["by_priority"] == {"P0": 1, "P2": 1}
    assert found["next"] is not None
    assert found["next"]["anchor"] == leak["anchor"]
    promoted = memory.triage(promote=leak["anchor"], task="WU-6")["promoted"]
    assert promoted is not None
    assert memory.triage(promote=leak["anchor"], task="WU-6")["promoted"] is None
    [item] = memory.ready("WU-6")["items"]
    assert (item["anchor"], item["priority"]) == (promoted["anchor"], "P0")
    assert "discovered_from" in item["text"]
    found = memory.triage()
    assert (found["open"], found["closed"], found["untriaged"]) == (2, 0, 1)
    assert found["next"] is not None
    assert found["next"]["anchor"] == slow["anchor"]
    memory.add("Another leak.", summary="Leak", tags=["bug"])
    assert memory.triage()["open"] == 4
    with pytest.raises(NoteNotFound):
        memory.triage(promote="MEMORY.md#nothing", task="WU-6")
    with pytest.raises(BadRequest):
        memory.triage(promote=slow["anchor"])


def test_the_profile_has_the_most_important_of_the_project(memory: Memsyncd) -> None:
    memory.add("Ports and adapters.", lifecycle="project", importance=0.6, tags=["pattern"])
    memory.add("Never log bodies.", lifecycle="project", importance=0.9, tags=["invariant"])
    memory.add("Only today.", lifecycle="session")
    profile = memory.profile()
    assert [item["text"] for item in profile["items"]] == [
        "Never log bodies.",
        "Ports and adapters.",
    ]
    assert profile["tags"] == {"invariant": 1, "pattern": 1}
    assert (profile["sections"], profile["notes"]) == (2, 1)
    assert len(memory.profile(limit=1)["items"]) == 1
    tagged = memory.profile(tag="pattern")
    assert [item["text"] for item in tagged["items"]] == ["Ports and adapters."]
    assert tagged["sections"] == 1
    assert memory.profile(tag="absent")["items"] == []
