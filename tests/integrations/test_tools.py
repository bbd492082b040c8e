"""memsyncd's tools in the loops of other providers: OpenAI's SDK and Amazon Bedrock's Converse."""

from __future__ import annotations

import copy
import itertools
import json
import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from memsyncd.integrations import bedrock
from memsyncd.integrations.chat_context import MemoryContext
from memsyncd.protocol.mcp_tools import INIT_TOOL, TOOLS
from tests.integrations.conftest import LAST_WORDS
from tests.integrations.test_chat_context import HEADING, REPLACING, find_blocks

if TYPE_CHECKING:
    from pathlib import Path

    from tests.daemon.conftest import Place
    from tests.integrations.conftest import Model

# Slow: each test has a daemon of its own, and the SDKs take seconds to import.
pytestmark = pytest.mark.life

NAMES = [name for name in TOOLS if name != INIT_TOOL]
LARCH = "# Trees\n\nThe larch stands by the gate.\n"
WISHES = (
    ("memory_search", {"query": "larch"}),
    ("memory_remember", {"content": "The larch is a century old.", "summary": "Larch age"}),
    ("memory_search", {"query": "larch", "colour": "red"}),
    ("weather", {"city": "Turku"}),
)


def read_names(provider: Any, **options: Any) -> list[str]:
    """The names in a provider's schemas."""
    made = bedrock.schema(provider, **options)
    return [
        tool.get("function", tool.get("toolSpec", tool))["name"]  # by provider
        for tool in made
    ]


@pytest.mark.parametrize("provider", ["openai", "openai-responses", "anthropic", "bedrock"])
def test_each_provider_gets_the_tools_of_mcp(provider: Any) -> None:
    assert read_names(provider) == NAMES
    assert bedrock.schema(provider) == bedrock.schema(provider)
    reading = read_names(provider, is_read_only=True)
    assert reading == [name for name in NAMES if TOOLS[name].tool.is_read_only]
    parameters = json.dumps(bedrock.schema(provider))
    assert all(
        argument.name in parameters for name in NAMES for argument in TOOLS[name].tool.arguments
    )


def test_another_provider_is_refused() -> None:
    with pytest.raises(ValueError, match="no provider 'none'; one of: openai,"):
        bedrock.schema("none")  # type: ignore[arg-type]


def test_the_openai_sdk_finds_remembers_and_reads_errors(
    place: Place, socket: str, make_model: Callable[..., Model]
) -> None:
    openai = pytest.importorskip("openai", reason="needs the package openai")
    (place.root / "MEMORY.md").write_text(LARCH)
    model = make_model(*WISHES[:3])
    messages: list[Any] = [{"role": "user", "content": "How old is the larch?"}]
    with openai.OpenAI(base_url=model.url, api_key="none") as client:
        while True:
            reply = client.chat.completions.create(
                model="m", messages=messages, tools=bedrock.schema("openai")
            )
            message = reply.choices[0].message
            messages.append(message.model_dump(exclude_none=True))
            if not message.tool_calls:
                break
            for call in message.tool_calls:
                answer = bedrock.call(
                    call.function.name, call.function.arguments, workspace=place.id, client="gpt"
                )
                messages.append({"role": "tool", "tool_call_id": call.id, "content": answer.text})
    assert messages[-1]["content"] == LAST_WORDS
    hits, remembered, refused = [
        message["content"] for message in messages if message["role"] == "tool"
    ]
    assert hits.startswith("MEMORY.md:1-3  Trees")
    assert remembered.startswith("Remembered at .memories/")
    assert "no argument named `colour`" in refused
    place.wait_found("century", remembered.split()[-1].partition(":")[0])
    (newest,) = place.client.call("history", workspace=place.id, limit=1)["revisions"]
    assert newest["client"] == "gpt"


def test_the_responses_api_finds_and_remembers(
    place: Place, socket: str, make_model: Callable[..., Model]
) -> None:
    openai = pytest.importorskip("openai", reason="needs the package openai")
    (place.root / "MEMORY.md").write_text(LARCH)
    model = make_model(*WISHES[:2])
    items: list[Any] = [{"role": "user", "content": "How old is the larch?"}]
    answers: list[str] = []
    with openai.OpenAI(base_url=model.url, api_key="none") as client:
        words = ""
        while not words:
            reply = client.responses.create(
                model="m", input=items, tools=bedrock.schema("openai-responses")
            )
            words = reply.output_text
            for item in reply.output:
                items.append(item.model_dump(exclude_none=True))
                if item.type == "function_call":
                    answers.append(bedrock.call(item.name, item.arguments, workspace=place.id).text)
                    result = {"call_id": item.call_id, "output": answers[-1]}
                    items.append({"type": "function_call_output", **result})
    assert words == LAST_WORDS
    assert answers[0].startswith("MEMORY.md:1-3  Trees")
    assert answers[1].startswith("Remembered at .memories/")


def test_tools_of_its_own_loop_with_anthropics_sdk(
    place: Place, socket: str, make_model: Callable[..., Model]
) -> None:
    from anthropic import Anthropic

    (place.root / "MEMORY.md").write_text(LARCH)
    model = make_model(*WISHES[:3])
    messages: list[Any] = [{"role": "user", "content": "How old is the larch?"}]
    with Anthropic(base_url=model.url, api_key="none") as client:
        while messages[-1]["content"]:
            reply = client.messages.create(
                model="m",
                max_tokens=9,
                messages=messages,
                tools=bedrock.schema("anthropic"),  # type: ignore[arg-type]
            )
            messages.append({"role": "assistant", "content": reply.content})
            results = []
            for block in reply.content:
                if block.type == "tool_use":
                    text, is_error = bedrock.call(block.name, block.input, workspace=place.id)
                    result = {"tool_use_id": block.id, "content": text, "is_error": is_error}
                    results.append({"type": "tool_result", **result})
            messages.append({"role": "user", "content": results})
    assert [result["is_error"] for result in model.results] == [False, False, True]
    assert model.results[0]["content"].startswith("MEMORY.md:1-3  Trees")


@pytest.fixture
def runtime(make_model: Callable[..., Model]) -> Callable[..., tuple[Any, Model]]:
    """A client of boto3 whose Bedrock is a model with these calls."""
    boto3 = pytest.importorskip("boto3", reason="needs the package boto3")

    def make(*wishes: Any) -> tuple[Any, Model]:
        model = make_model(*wishes)
        session = boto3.Session("none", "none", region_name="us-east-1")
        return session.client("bedrock-runtime", endpoint_url=model.url), model

    return make


def read_stream(reply: dict[str, Any]) -> dict[str, Any]:
    """The message of a streamed reply of Converse."""
    part: dict[str, Any] = {}
    for event in reply["stream"]:
        if "contentBlockStart" in event:
            part["toolUse"] = {**event["contentBlockStart"]["start"]["toolUse"], "input": ""}
        delta = event.get("contentBlockDelta", {}).get("delta", {})
        if "toolUse" in delta:
            part["toolUse"]["input"] += delta["toolUse"]["input"]
        elif "text" in delta:
            part["text"] = delta["text"]
    if "toolUse" in part:
        part["toolUse"]["input"] = json.loads(part["toolUse"]["input"])
    return {"role": "assistant", "content": [part]}


@pytest.mark.parametrize("is_stream", [False, True])
def test_converse_finds_and_remembers_and_has_memory_in_each_turn(
    place: Place, socket: str, runtime: Callable[..., tuple[Any, Model]], is_stream: bool
) -> None:
    (place.root / "MEMORY.md").write_text(LARCH)
    client, model = runtime(*WISHES)
    client = bedrock.with_memory(client, place.id)
    # A second call adds no second block.
    client = bedrock.with_memory(client, place.id)
    messages: list[Any] = [
        {"role": "user", "content": [{"text": "Old larch?"}, {"cachePoint": {"type": "default"}}]}
    ]
    results: list[dict[str, Any]] = []
    while True:
        request = {"modelId": "m", "messages": messages, "toolConfig": bedrock.tool_config()}
        before = copy.deepcopy(messages)
        if is_stream:
            message = read_stream(client.converse_stream(**request))
        else:
            message = client.converse(**request)["output"]["message"]
        assert messages == before
        messages.append(message)
        if "text" in message["content"][0]:
            break
        answers = bedrock.answer_tools(message, place.id)
        results += answers
        own = {"toolUseId": message["content"][0]["toolUse"]["toolUseId"], "content": []}
        messages.append({"role": "user", "content": answers or [{"toolResult": own}]})
    client.close()
    assert message["content"][0]["text"] == LAST_WORDS
    assert len(model.requests) == len(WISHES) + 1
    hits, remembered, refused = [result["toolResult"] for result in results]
    assert hits["content"][0]["text"].startswith("MEMORY.md:1-3  Trees")
    assert [result["status"] for result in (hits, remembered, refused)] == [
        "success",
        "success",
        "error",
    ]
    first, *_, last = model.requests
    block, question, mark = first["messages"][0]["content"]
    assert block["text"].startswith(f"{HEADING}\n\n")
    assert (question, mark) == ({"text": "Old larch?"}, {"cachePoint": {"type": "default"}})
    blocks = find_blocks(last)
    assert [text.startswith(REPLACING) for text in blocks] == [False, True]
    assert "a century old" in blocks[1]
    for before, after in itertools.pairwise(model.requests):
        assert after["messages"][: len(before["messages"])] == before["messages"]


def test_converse_goes_on_without_a_daemon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runtime: Callable[..., tuple[Any, Model]]
) -> None:
    monkeypatch.setenv("MEMSYNCD_SOCKET", str(tmp_path / "none.sock"))
    failures: list[Any] = []
    client, model = runtime(WISHES[0])
    bedrock.with_memory(client, on_failure=failures.append)
    messages = [{"role": "user", "content": [{"text": "Old larch?"}]}]
    message = client.converse(modelId="m", messages=messages)["output"]["message"]
    client.close()
    (answer,) = bedrock.answer_tools(message)
    assert answer["toolResult"]["status"] == "error"
    assert answer["toolResult"]["content"][0]["text"].startswith("Memory is not available now")
    assert model.requests[0]["messages"] == messages
    assert len(failures) == 1


# --- calls ---


@pytest.mark.parametrize(
    ("name", "given", "says"),
    [
        ("memory_search", "{", "the input is not JSON"),
        ("memory_search", "[]", "the input is not an object"),
        ("memory_search", {}, "argument `query` is missing"),
        ("memory_search", '{"query": 7}', "argument `query`"),
        ("memory_forget", {}, "Unknown tool: memory_forget; there are memory_search,"),
        ("memory_get", {"path": "../../etc/passwd"}, "What to do: "),
    ],
)
def test_a_failed_call_is_an_answer(
    place: Place, socket: str, name: str, given: Any, says: str
) -> None:
    answer = bedrock.call(name, given, workspace=place.id)
    assert answer.is_error
    assert says in answer.text


def test_calls_that_only_read_cannot_write(place: Place, socket: str) -> None:
    before = place.notes()
    written = {"content": "x"}
    answer = bedrock.call("memory_remember", written, workspace=place.root, is_read_only=True)
    assert answer.is_error
    assert place.notes() == before
    found = bedrock.call("memory_search", {"query": "x"}, workspace=place.root, is_read_only=True)
    assert not found.is_error


def test_without_a_name_the_workspace_of_the_current_folder_is_used(
    place: Place, socket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    anthropic = pytest.importorskip("anthropic.types.beta", reason="needs the package anthropic")
    from memsyncd.integrations.anthropic import MemsyncdMemoryTool

    (tmp_path / "other").mkdir()
    place.client.call("workspace.add", path=str(tmp_path / "other"))
    (place.root / "MEMORY.md").write_text(LARCH)
    monkeypatch.chdir(place.root)
    assert "larch" in bedrock.call("memory_search", {"query": "larch"}).text
    assert "larch" in str(MemoryContext().insert([{"role": "user", "content": "larch?"}]))
    command = anthropic.BetaMemoryTool20250818ViewCommand(
        command="view", path="/memories/MEMORY.md"
    )
    for workspace in (None, ".", place.root):
        assert "larch" in str(MemsyncdMemoryTool(workspace).view(command))


def test_a_program_remembers_and_a_model_finds_it(place: Place, socket: str) -> None:
    added = bedrock.remember(
        "Felled on Monday.", workspace=place.id, summary="Larch", tags=["tree"]
    )
    found = bedrock.call("memory_search", {"query": "felled", "tag": "tree"}, workspace=place.id)
    assert found.text.startswith(f"{added['path']}:{added['start_line']}-{added['end_line']}")


def test_the_modules_import_no_sdk() -> None:
    program = (
        "import sys, memsyncd.integrations.bedrock, memsyncd.integrations.bedrock\n"
        "print(*{'anthropic', 'openai', 'boto3', 'botocore', 'msgspec'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30
    )
    assert done.stdout.split() == []
