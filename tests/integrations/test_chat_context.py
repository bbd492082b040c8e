"""Memory in the requests of a chat: in every form of the SDKs, within its budget, and without
breaking the chat or the provider's cache.
"""

from __future__ import annotations

import asyncio
import copy
import itertools
import logging
import socket as socketlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.client import NoAnswer
from memsyncd.core.model import count_tokens
from memsyncd.errors import NoDaemon
from memsyncd.integrations.chat_context import HEADING, REPLACING, MemoryContext
from tests.integrations.conftest import LAST_WORDS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.daemon.conftest import Place
    from tests.integrations.conftest import Model

# Slow: each test has a daemon of its own, and the SDKs take seconds to import.
pytestmark = pytest.mark.life

QUESTION = "How old is the larch?"
NEW_NOTE = {
    "command": "create",
    "path": "/memories/larch-age.md",
    "file_text": "# Larch age\n\nThe larch is a century old.\n",
}
CACHED = {"type": "ephemeral"}


@pytest.fixture
def larch(place: Place, socket: str) -> Place:
    (place.root / "MEMORY.md").write_text("# Trees\n\nThe larch stands by the gate.\n")
    return place


@pytest.fixture
def messages() -> Iterator[list[dict[str, Any]]]:
    """Messages of a caller; the test must not change them."""
    messages = [
        {"role": "user", "content": "Good morning."},
        {"role": "assistant", "content": "Good morning."},
        {
            "role": "user",
            "content": [{"type": "text", "text": QUESTION, "cache_control": CACHED}],
        },
    ]
    before = copy.deepcopy(messages)
    yield messages
    assert messages == before


def find_blocks(request: dict[str, Any]) -> list[str]:
    """The blocks of memory in a request."""
    parts = [part for message in request["messages"] for part in as_list(message["content"])]
    return [part["text"] for part in parts if part.get("text", "").startswith(HEADING)]


def as_list(content: Any) -> list[dict[str, Any]]:
    return [{"text": content}] if isinstance(content, str) else content


def strip_blocks(messages: list[dict[str, Any]]) -> list[Any]:
    """The messages without blocks, in one form."""
    return [
        [
            part.get("text", part)
            for part in as_list(message["content"])
            if not part.get("text", "").startswith(HEADING)
        ]
        for message in messages
    ]


# --- every form of the SDK ---


def make_clients(url: str) -> dict[str, Any]:
    from anthropic import Anthropic, AnthropicBedrock, AsyncAnthropic, AsyncAnthropicBedrock

    aws = {"aws_region": "us-east-1", "aws_access_key": "none", "aws_secret_key": "none"}
    return {
        "sync": Anthropic(base_url=url, api_key="none"),
        "async": AsyncAnthropic(base_url=url, api_key="none"),
        "bedrock": AnthropicBedrock(base_url=url, **aws),
        "async bedrock": AsyncAnthropicBedrock(base_url=url, **aws),
    }


async def run_async(client: Any, **request: Any) -> str:
    """Run a loop of tools to its end, and return its last words."""
    async with client:
        runner = client.beta.messages.tool_runner(**request)
        if not request["stream"]:
            message = await runner.until_done()
        else:
            async for stream in runner:
                message = await stream.get_final_message()
        return str(message.content[0].text)


def run_now(client: Any, **request: Any) -> str:
    with client:
        runner = client.beta.messages.tool_runner(**request)
        if not request["stream"]:
            message = runner.until_done()
        else:
            for stream in runner:
                message = stream.get_final_message()
        return str(message.content[0].text)


@pytest.mark.parametrize("is_threaded", [True, False])
@pytest.mark.parametrize("form", ["whole", "stream", "eager"])
@pytest.mark.parametrize("name", ["sync", "async", "bedrock", "async bedrock"])
def test_each_tool_loop_has_memory_before_the_request_and_what_changed_after_each_turn(
    larch: Place,
    make_model: Callable[..., Model],
    make_tool: Any,
    make_async_tool: Any,
    messages: list[dict[str, Any]],
    name: str,
    form: str,
    is_threaded: bool,
) -> None:
    from memsyncd.integrations.anthropic import with_memory

    model = make_model({"command": "view", "path": "/memories"}, NEW_NOTE)
    client = with_memory(make_clients(model.url)[name], larch.id)
    is_async = name.startswith("async")
    request: dict[str, Any] = {
        "model": "m",
        "max_tokens": 9,
        "messages": messages,
        "stream": form != "whole",
        "tools": [make_async_tool(larch.id) if is_async else make_tool(larch.id)],
        **({} if is_threaded else {"thread": False}),
        **({"run_tools_eagerly": True} if form == "eager" else {}),
    }
    words = asyncio.run(run_async(client, **request)) if is_async else run_now(client, **request)
    assert words == LAST_WORDS
    first, second, third = model.requests
    block, question = first["messages"][-1]["content"]
    assert block["text"].startswith(f"{HEADING}\n\n")
    assert "stands by the gate" in block["text"]
    assert question == {"type": "text", "text": QUESTION, "cache_control": CACHED}
    assert strip_blocks(first["messages"]) == strip_blocks(messages)
    # Nothing changed in the first turn, and the memory tool wrote a note in the second.
    is_held_by_server = "thread" in third
    assert len(find_blocks(second)) == (0 if is_held_by_server else 1)
    refreshed = find_blocks(third)[-1]
    assert refreshed.startswith(REPLACING)
    assert "a century old" in refreshed
    assert third["messages"][-1]["content"][0]["type"] == "tool_result"
    if not is_held_by_server:
        # The provider has cached the bytes of what came before.
        assert second["messages"][: len(first["messages"])] == first["messages"]
        assert third["messages"][: len(second["messages"])] == second["messages"]


@pytest.mark.parametrize("name", ["sync", "async", "bedrock", "async bedrock"])
@pytest.mark.parametrize("is_stream", [False, True])
def test_a_single_request_has_memory_and_counting_counts_it(
    larch: Place,
    make_model: Callable[..., Model],
    messages: list[dict[str, Any]],
    name: str,
    is_stream: bool,
) -> None:
    from memsyncd.integrations.anthropic import with_memory

    model = make_model()
    client = with_memory(make_clients(model.url)[name], larch.id)

    async def ask_later() -> str:
        async with client:
            if not is_stream:
                return str((await client.messages.create(**request)).content[0].text)
            async with client.messages.stream(**request) as stream:
                return str(await stream.get_final_text())

    def ask() -> str:
        with client:
            if name == "sync":
                client.messages.count_tokens(model="m", messages=messages)
            if not is_stream:
                return str(client.messages.create(**request).content[0].text)
            with client.messages.stream(**request) as stream:
                return str(stream.get_final_text())

    request: dict[str, Any] = {"model": "m", "max_tokens": 9, "messages": messages}
    assert (asyncio.run(ask_later()) if name.startswith("async") else ask()) == LAST_WORDS
    assert len(find_blocks(model.requests[0])) == 1
    if name == "sync":
        assert model.requests[1]["messages"] == model.requests[0]["messages"]


def test_two_loops_that_take_turns_keep_their_own_questions(
    larch: Place, make_model: Callable[..., Model], make_tool: Any
) -> None:
    from memsyncd.integrations.anthropic import with_memory

    (larch.root / ".memories" / "birch.md").write_text("# Birch\n\nThe birch is white.\n")
    models = [make_model({"command": "view", "path": "/memories"}) for _ in range(2)]
    context_client = [with_memory(make_clients(model.url)["sync"], larch.id) for model in models]
    shared = context_client[0]
    runners = [
        shared.beta.messages.tool_runner(
            model="m", max_tokens=9, tools=[make_tool(larch.id)],
            messages=[{"role": "user", "content": f"Where is the {tree}?"}],
        )
        for tree in ("larch", "birch")
    ]  # fmt: skip
    loops = [iter(runner) for runner in runners]
    next(loops[0])
    next(loops[1])
    (larch.root / "MEMORY.md").write_text("# Trees\n\nThe larch was felled.\n")
    for loop in loops:
        next(loop, None)
    blocks = [find_blocks(request) for request in models[0].requests]
    texts = [" ".join(texts) for texts in blocks]
    assert "by the gate" in texts[0]
    assert "birch" in " ".join(texts[1:])
    assert sum("was felled" in text for text in texts) == 1


@pytest.mark.parametrize("is_stream", [False, True])
def test_a_conversation_that_the_server_lost_is_sent_again_with_its_blocks(
    larch: Place, make_model: Callable[..., Model], make_tool: Any, is_stream: bool
) -> None:
    from memsyncd.integrations.anthropic import with_memory

    model = make_model(NEW_NOTE)
    model.loses_threads = True
    client = with_memory(make_clients(model.url)["sync"], larch.id)
    question = {"role": "user", "content": QUESTION}
    words = run_now(
        client, model="m", max_tokens=9, messages=[question], stream=is_stream,
        tools=[make_tool(larch.id)],
    )  # fmt: skip
    assert words == LAST_WORDS
    first, again = model.requests
    assert again["messages"][0] == first["messages"][0]
    assert [text.startswith(REPLACING) for text in find_blocks(again)] == [False, True]


# --- what a block is ---


def test_memory_without_anything_on_the_request_adds_nothing(
    larch: Place, messages: list[dict[str, Any]]
) -> None:
    context = MemoryContext(larch.id)
    messages[-1]["content"] = "Quicksilver?"
    assert context.insert(messages) == messages
    messages[-1]["content"] = [{"type": "text", "text": QUESTION, "cache_control": CACHED}]


def test_a_block_is_deterministic_and_keeps_within_its_budget(
    larch: Place, messages: list[dict[str, Any]]
) -> None:
    (larch.root / "MEMORY.md").write_text(
        "# Larch\n\n" + "\n\n".join(f"The larch has {n} needles, {n} cones." for n in range(400))
    )
    for max_tokens in (100, 300, 1000):
        blocks = {
            find_blocks(
                {"messages": MemoryContext(larch.id, max_tokens=max_tokens).insert(messages)}
            )[0]
            for _ in range(3)
        }
        (block,) = blocks
        assert max_tokens * 0.7 < count_tokens(block) <= max_tokens


def test_a_query_without_words_gives_what_every_session_should_know(
    larch: Place, messages: list[dict[str, Any]]
) -> None:
    (block,) = find_blocks({"messages": MemoryContext(larch.id, query="").insert(messages)})
    assert "by the gate" in block
    assert "bystander" in block


def test_sent_messages_keep_their_bytes_in_later_turns_though_memory_changes(
    larch: Place,
) -> None:
    context = MemoryContext(larch.id)
    messages: list[dict[str, Any]] = []
    sent: list[list[Any]] = []
    for turn in range(4):
        (larch.root / "MEMORY.md").write_text(f"# Trees\n\nThe larch has {turn} nests.\n")
        messages.append({"role": "user", "content": f"{QUESTION} {turn}"})
        sent.append(context.insert(messages))
        assert f"{turn} nests" in find_blocks({"messages": sent[-1]})[-1]
        messages.append({"role": "assistant", "content": "Old."})
    for before, after in itertools.pairwise(sent):
        assert after[: len(before)] == before
    # The same block is not sent twice.
    messages.append({"role": "user", "content": f"{QUESTION} 3"})
    assert find_blocks({"messages": context.insert(messages)}) == find_blocks(
        {"messages": sent[-1]}
    )


def test_a_memory_of_the_program_is_in_the_next_block(
    larch: Place, messages: list[dict[str, Any]], make_tool: Any, make_async_tool: Any
) -> None:
    context = MemoryContext(larch.id)
    context.insert(messages)
    make_tool(larch.id, client="chat").remember("The larch is to be felled.", kind="decision")
    assert "to be felled" in find_blocks({"messages": context.insert(messages)})[0]
    asyncio.run(make_async_tool(larch.id).remember("Or the larch stays.", summary="Larch"))
    assert "larch stays" in find_blocks({"messages": context.insert(messages)})[0]
    history = place_clients(larch)
    assert {"chat", "anthropic"} <= history


def place_clients(place: Place) -> set[str]:
    revisions = place.client.call("history", workspace=place.id)["revisions"]
    return {revision["client"] for revision in revisions}


# --- without a daemon ---


def test_a_chat_goes_on_without_a_daemon_and_says_so_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    make_model: Callable[..., Model],
    messages: list[dict[str, Any]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    from memsyncd.integrations.anthropic import with_memory

    monkeypatch.setenv("MEMSYNCD_SOCKET", str(tmp_path / "none.sock"))
    failures: list[Any] = []
    model = make_model()
    client = with_memory(make_clients(model.url)["sync"], on_failure=failures.append)
    with caplog.at_level(logging.INFO, "memsyncd.integrations"):
        for _ in range(3):
            answer = client.messages.create(model="m", max_tokens=9, messages=messages)
            assert answer.content[0].text == LAST_WORDS
    assert [request["messages"] for request in model.requests] == [messages] * 3
    assert [type(failure) for failure in failures] == [NoDaemon] * 3
    (record,) = [each for each in caplog.records if each.name == "memsyncd.integrations"]
    assert record.levelname == "WARNING"
    assert "memsyncd start" in record.getMessage()


def test_a_daemon_that_goes_away_leaves_what_was_sent_and_one_that_returns_is_used(
    larch: Place,
    monkeypatch: pytest.MonkeyPatch,
    socket: str,
    messages: list[dict[str, Any]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    context = MemoryContext(larch.id)
    sent = context.insert(messages)
    with caplog.at_level(logging.INFO, "memsyncd.integrations"):
        monkeypatch.setenv("MEMSYNCD_SOCKET", "/nonexistent/none.sock")
        assert context.insert(messages) == sent
        more = [
            *messages,
            {"role": "assistant", "content": "x"},
            {"role": "user", "content": "larch"},
        ]
        assert context.insert(more) == [*sent, *more[3:]]
        monkeypatch.setenv("MEMSYNCD_SOCKET", socket)
        (larch.root / "MEMORY.md").write_text("# Trees\n\nThe larch is back.\n")
        assert "is back" in find_blocks({"messages": context.insert(more)})[-1]
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


def test_a_daemon_that_hangs_is_asked_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    messages: list[dict[str, Any]],
) -> None:
    failures: list[Any] = []
    with socketlib.socket(socketlib.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "hangs.sock"))
        listener.listen()
        monkeypatch.setenv("MEMSYNCD_SOCKET", str(tmp_path / "hangs.sock"))
        context = MemoryContext(timeout_s=0.2, on_failure=failures.append)
        assert context.insert(messages) == messages
        with listener.accept()[0] as connection:
            assert connection.recv(65536).count(b"\n") == 1
            assert connection.recv(65536) == b""
    assert [type(failure) for failure in failures] == [NoAnswer]


# --- without daemon and provider ---


class Echo(MemoryContext):
    """Answers with the query."""

    def _ask(self, query: str) -> str:
        return f"{REPLACING}\n\n{query}" if query else ""


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
PARTS = st.one_of(
    st.fixed_dictionaries(
        {"type": st.just("text"), "text": TEXTS}, optional={"cache_control": st.just(CACHED)}
    ),
    st.fixed_dictionaries({"type": st.just("tool_result"), "tool_use_id": TEXTS, "content": TEXTS}),
    st.fixed_dictionaries(
        {"type": st.just("image"), "source": st.dictionaries(TEXTS, TEXTS, max_size=2)}
    ),
)
CONTENTS = st.one_of(TEXTS, st.lists(PARTS, max_size=4))
MESSAGES = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": CONTENTS}),
    max_size=6,
)


@given(MESSAGES)
def test_nothing_but_blocks_is_added_and_nothing_of_the_caller_is_changed(
    messages: list[dict[str, Any]],
) -> None:
    before = copy.deepcopy(messages)
    sent: Any = Echo().insert(messages)
    assert messages == before
    assert len(sent) == len(messages)
    for message, made in zip(messages, sent, strict=True):
        assert made["role"] == message["role"]
        parts = as_list(made["content"])
        blocks = [index for index, part in enumerate(parts) if is_block(part)]
        assert len(blocks) <= (message["role"] == "user")
        kept = [part for part in parts if not is_block(part)]
        wanted = [part for part in as_list(message["content"]) if not is_block(part)]
        if blocks and isinstance(message["content"], str):
            wanted = [{"type": "text", "text": message["content"]}]
        assert kept == wanted
        # Providers demand results of tools first.
        kinds = [part.get("type") for part in parts]
        if blocks:
            assert "tool_result" not in kinds[blocks[0] :]


def is_block(part: dict[str, Any]) -> bool:
    return str(part.get("text", "")).startswith(HEADING)


@given(MESSAGES)
def test_the_requests_of_a_growing_conversation_begin_with_the_same_bytes(
    messages: list[dict[str, Any]],
) -> None:
    context = Echo()
    before: list[Any] = []
    for end, message in enumerate(messages, 1):
        if message["role"] == "user":
            sent = context.insert(messages[:end])
            assert sent[: len(before)] == before
            before = sent


def test_marks_of_the_cache_may_move_between_requests() -> None:
    context = Echo()
    text = {"type": "text", "text": "larch"}
    first = context.insert([{"role": "user", "content": [{**text, "cache_control": CACHED}]}])
    assistant, later = {"role": "assistant", "content": "x"}, {"role": "user", "content": "birch"}
    second = context.insert([{"role": "user", "content": "larch"}, assistant, later])
    assert first[0]["content"][0] == second[0]["content"][0]
