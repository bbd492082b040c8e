"""Coding agents and SDKs that others wrote, against a real daemon: each finds a note that was
written a moment before, and writes one that is indexed. Agents have a scripted model, and start
knowing MEMORY.md.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from memsyncd.client import Client
from tests.clients.conftest import find_platform
from tests.clients.models import LAST_WORDS, ScriptedModel, Wish, list_results
from tests.clients.recorder import Recorder, record
from tests.clients.test_mcp_clients import read_programs
from tests.clients.transcripts import TRANSCRIPTS, is_kept_up, write_transcript
from tests.daemon.conftest import Home

if TYPE_CHECKING:
    from tests.clients.conftest import Tools

pytestmark = [
    pytest.mark.clients,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        not Path(sys.executable).with_name("memsyncd").exists(),
        reason="memsyncd is not installed beside this Python",
    ),
]

LIMIT_S = 180
QUESTION = "Where is the quince?"
FRESH = "# Quince\n\nThe quince was planted a moment ago.\n"
WISHES = (
    Wish("memory_search", {"query": "quince"}),
    Wish("memory_remember", {"content": "The medlar is next.", "summary": "Medlar"}),
)
# The program as it is installed: agents start it with few variables of the environment.
MEMSYNCD = [str(Path(sys.executable).with_name("memsyncd"))]


class Stage(NamedTuple):
    """A project with a daemon behind a recorder, and a home for an agent."""

    home: Home
    root: Path
    own_home: Path
    recorder: Recorder
    model: ScriptedModel

    @property
    def env(self) -> dict[str, str]:
        """The environment of the agent. Some pass little of it on to servers and hooks, so that the
        daemon is found where a user's is: by the home folder.
        """
        return {
            "HOME": str(self.own_home),
            "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "NO_PROXY": "127.0.0.1",
        }

    def write_own(self, path: str, value: object) -> None:
        write_file(self.own_home / path, value)

    def write_project(self, path: str, value: object) -> None:
        write_file(self.root / path, value)


def write_file(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value, indent=2))


@pytest.fixture
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    # A socket's path must be short.
    folder = Path(tmp_path_factory.mktemp("a"))
    home = Home(folder)
    root = home.make_folder()
    (root / "MEMORY.md").write_text("# Larch\n\nThe larch stands by the gate.\n")
    (root / ".memories").mkdir()
    own_home = folder / "own"
    sockets = own_home / ".local" / "state" / "memsyncd" / "run"
    sockets.mkdir(parents=True, mode=0o700)
    daemon = home.start()
    with daemon.client() as client:
        client.call("workspace.add", path=str(root))
        client.call("sync")
    model = ScriptedModel(WISHES)
    with record(str(sockets / "memsyncd.sock"), home.socket_path) as recorder:
        yield Stage(home, root, own_home, recorder, model)
    model.close()
    home.close()


# Options with which agents ask nothing at all.
BYPASS = {
    "codex": ("--dangerously-bypass-approvals-and-sandbox",),
    "gemini": ("--yolo",),
}


# --- how each agent is configured and run -------------------------------------------------------------

Agent = Callable[[Stage, Callable[[str], Path]], tuple[list[str | Path], dict[str, str]]]
"""Configures the model of an agent; returns the agent's command and additions to its environment."""


def make_claude_code(
    stage: Stage, install: Callable[[str], Path]
) -> tuple[list[str | Path], dict[str, str]]:
    # Named with its version, since npm takes an older one that fits the installed node; the program
    # needs none.
    modules = install("@anthropic-ai/claude-code@2.1.330")
    program = modules / "@anthropic-ai" / f"claude-code-{find_platform()}" / "claude"
    # Settings, so that `integrate` finds the agent.
    stage.write_own(".claude/settings.json", {"cleanupPeriodDays": 30})
    allowed = "mcp__plugin_memsyncd_memsyncd__memory_remember"
    return [program, "-p", QUESTION, "--allowedTools", allowed], {
        "ANTHROPIC_BASE_URL": stage.model.url,
        "ANTHROPIC_API_KEY": "none",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }


def make_codex(
    stage: Stage, install: Callable[[str], Path]
) -> tuple[list[str | Path], dict[str, str]]:
    modules = install("@openai/codex@0.169.0")
    stage.write_own(
        ".codex/config.toml",
        f"""\
model = "stub"
model_provider = "stub"

[model_providers.stub]
name = "stub"
base_url = "{stage.model.url}/v1"
wire_api = "responses"
env_key = "STUB_KEY"
""",
    )
    package = modules / "@openai" / f"codex-{find_platform()}"
    program = next(path for path in package.rglob("codex") if path.is_file())
    return [
        program, "exec", "--skip-git-repo-check", "--dangerously-bypass-hook-trust",
        *BYPASS["codex"], QUESTION,
    ], {"STUB_KEY": "none"}  # fmt: skip


def make_opencode(
    stage: Stage, install: Callable[[str], Path]
) -> tuple[list[str | Path], dict[str, str]]:
    modules = install("opencode-ai@1.18.33")
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{stage.model.url}/v1", "apiKey": "none"},
        "models": {"m": {"name": "m"}},
    }
    stage.write_own(
        ".config/opencode/opencode.json",
        {
            "autoupdate": False,
            "permission": {"memsyncd*": "ask", "memsyncd_memory_remember": "allow"},
            "share": "disabled",
            "model": "stub/m",
            "small_model": "stub/m",
            "provider": {"stub": provider},
        },
    )
    program = modules / f"opencode-{find_platform()}" / "bin" / "opencode"
    return [program, "run", QUESTION], {
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
    }


def make_gemini(
    stage: Stage, install: Callable[[str], Path]
) -> tuple[list[str | Path], dict[str, str]]:
    modules = install("@google/gemini-cli@0.61.0")
    stage.write_own(
        ".gemini/settings.json",
        {
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "privacy": {"usageStatisticsEnabled": False},
            "general": {"disableAutoUpdate": True},
        },
    )
    program = modules / "@google" / "gemini-cli" / "bundle" / "gemini.js"
    node = shutil.which("node") or "node"
    words = ["-p", QUESTION, "-m", "gemini-2.5-flash", *BYPASS["gemini"]]
    return [node, program, *words], {
        "GEMINI_API_KEY": "none",
        "GOOGLE_GEMINI_BASE_URL": stage.model.url,
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    }


AGENTS: dict[str, Agent] = {
    "claude-code": make_claude_code,
    "codex": make_codex,
    "opencode": make_opencode,
    "gemini": make_gemini,
}
CONFIGS = {
    "claude-code": ".claude/settings.json",
    "codex": ".codex/config.toml",
    "opencode": ".config/opencode/opencode.json",
    "gemini": ".gemini/settings.json",
}


def integrate(stage: Stage, *words: str) -> str:
    """Connect the agents that are found, by the one command that a user runs."""
    done = subprocess.run(
        [*MEMSYNCD, "integrate", *words],
        cwd=stage.root, env=stage.env, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_agent(stage: Stage, command: list[str | Path], more: dict[str, str]) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        cwd=stage.root, env=stage.env | more, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    said = (done.stdout + done.stderr)[-4000:]
    assert done.returncode == 0, said
    assert LAST_WORDS in done.stdout, said
    return said


@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_knows_memory_finds_what_is_new_remembers_and_is_disconnected(
    stage: Stage, install: Callable[[str], Path], node: Path, name: str
) -> None:
    command, more = AGENTS[name](stage, install)
    config = stage.own_home / CONFIGS[name]
    before, was = config.read_text(), read_settings(config)
    integrate(stage, "--yes", "--allow-reads")
    integrate(stage, "--check")
    ours = config.read_text()
    (stage.root / ".memories" / "fresh.md").write_text(FRESH)
    said = run_agent(stage, command, more)
    turns = stage.model.turns
    assert len(turns) == len(WISHES) + 1, said
    assert "stands by the gate" in json.dumps(turns[0])
    assert "planted a moment ago" in json.dumps(turns[0])
    found, remembered = list_results(turns[-1])
    assert ".memories/fresh.md:1-3  Quince" in found
    assert "Remembered at " in remembered
    check_indexed(stage, remembered)
    keep_transcript(stage, name)
    with Client(stage.home.socket_path) as client:
        assert [agent["name"] for agent in client.call("status")["agents"]] == [name]
        log = client.call("log.agents")
    # Its hooks and its tools belong to one session, though they run in several processes.
    [session] = log["sessions"]
    assert (session["client"], session["writes"]) == (name, 1)
    calls = [answer["call"] for answer in log["answers"][::-1]]
    assert calls == ["session-start", "user-prompt", "memory_search", "memory_remember"]
    # What the agent has written into its own file stays, and nothing else.
    now = read_settings(config)
    is_unchanged = config.read_text() == ours
    integrate(stage, "--remove", "--yes")
    assert not is_unchanged or config.read_text() == before
    expected = {
        key: was.get(key) if "memsyncd" in json.dumps(value) else value
        for key, value in now.items()
    }
    left = {key: value for key, value in expected.items() if value is not None}
    assert read_settings(config) == left


def read_settings(path: Path) -> dict[str, Any]:
    text = path.read_text()
    settings: dict[str, Any] = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    return settings


@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_may_read_without_a_question(
    stage: Stage,
    install: Callable[[str], Path],
    node: Path,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for agent in BYPASS:
        monkeypatch.setitem(BYPASS, agent, ())
    command, more = AGENTS[name](stage, install)
    (stage.root / ".memories" / "fresh.md").write_text(FRESH)
    stage.model.wishes = WISHES[:1]
    integrate(stage, "--yes", "--allow-reads")
    run_agent(stage, command, more)
    (found,) = list_results(stage.model.turns[-1])
    assert ".memories/fresh.md:1-3  Quince" in found


def check_indexed(stage: Stage, remembered: str) -> None:
    with Client(stage.home.socket_path) as client:
        hits = client.call("search", query="medlar", workspace=str(stage.root))["hits"]
    assert [hit["path"] in remembered for hit in hits] == [True]


def keep_transcript(stage: Stage, name: str) -> None:
    if is_kept_up():
        write_transcript(TRANSCRIPTS / f"{name}.jsonl", stage.recorder.connections, stage.root)


LISTED = {
    "claude-code": ("plugin:memsyncd:memsyncd", "Connected"),
    "codex": ("memsyncd", "enabled"),
    "opencode": ("memsyncd", "connected"),
    "gemini": ("memsyncd", "Connected"),
}


@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_lists_the_server_until_it_is_removed(
    stage: Stage, install: Callable[[str], Path], node: Path, name: str
) -> None:
    command, more = AGENTS[name](stage, install)
    # The program; for Node also the script.
    words = [str(word) for word in command[: 2 if name == "gemini" else 1]]

    def list_servers() -> str:
        done = subprocess.run(
            [*words, "mcp", "list"],
            cwd=stage.root, env=stage.env | more, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=LIMIT_S, check=True,
        )  # fmt: skip
        return done.stdout + done.stderr

    integrate(stage, "--yes")
    listed = [line for line in list_servers().splitlines() if LISTED[name][0] in line]
    assert any(LISTED[name][1] in line for line in listed), listed
    integrate(stage, "--remove", "--yes")
    assert LISTED[name][0] not in list_servers()


PLUGIN_PROGRAM = """
import { Memsyncd } from "./memsyncd.mjs";

const sessions = { a: [], old: [{}], child: [] };
const client = { session: {
  get: async ({ path }) => ({ data: { parentID: path.id === "child" ? "a" : undefined } }),
  messages: async ({ path }) => ({ data: sessions[path.id] }),
}, tui: { showToast: async ({ body }) => console.log(JSON.stringify(body.message)) } };
const hooks = await Memsyncd({ client, directory: process.argv[2] });
const say = async (sessionID, text) => {
  const parts = [{ id: "prt_1", type: "text", text }];
  await hooks["chat.message"]({ sessionID }, { message: { id: "msg_1" }, parts });
  console.log(JSON.stringify(parts.slice(1)));
};
await say("a", "Where is the larch?");
await say("a", "And the quince?");
await say("a", "And the quince again?");
await hooks.event({ event: { type: "session.compacted", properties: { sessionID: "a" } } });
await say("a", "hm");
await say("child", "Where is the larch?");
await say("old", "hm");
const context = [];
await hooks["experimental.session.compacting"]({ sessionID: "a" }, { context });
console.log(JSON.stringify(context));
"""


def test_the_plugin_of_opencode_gives_each_session_its_memory_once(
    stage: Stage, node: Path
) -> None:
    integrate(stage, "opencode", "--yes")
    (stage.root / ".memories" / "fresh.md").write_text(FRESH)
    folder = stage.own_home / ".config" / "opencode" / "plugins"
    (folder / "memsyncd.js").rename(folder / "memsyncd.mjs")
    (folder / "program.mjs").write_text(PLUGIN_PROGRAM)
    done = subprocess.run(
        [node, folder / "program.mjs", stage.root],
        cwd=stage.root, env=stage.env, capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    notices = [line for line in lines if isinstance(line, str)]
    assert notices
    assert all(line.startswith("memory: ") for line in notices[0].splitlines())
    first, fresh, again, compacted, child, old, context = [
        line for line in lines if not isinstance(line, str)
    ]
    assert [(part["id"], part["messageID"], part["synthetic"]) for part in first] == [
        ("prt_10", "msg_1", True)
    ]
    assert "stands by the gate" in first[0]["text"]
    assert "planted a moment ago" in json.dumps([first, fresh])
    assert again == []
    assert "stands by the gate" in compacted[0]["text"]
    assert child == []
    assert "stands by the gate" in old[0]["text"]
    assert "memory_agent" in context[0]


# --- SDKs ---------------------------------------------------------------------------------------

TYPESCRIPT_PROGRAM = """
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const [command, ...args] = process.argv.slice(2);
const client = new Client({ name: "typescript-sdk", version: "1" });
await client.connect(new StdioClientTransport({ command, args, env: process.env }));
const say = async (name, given) => {
  const result = await client.callTool({ name, arguments: given });
  console.log(Boolean(result.isError), result.content[0].text);
};
console.log((await client.listTools()).tools.map((tool) => tool.name).join(" "));
await say("memory_search", { query: "quince" });
await say("memory_remember", { content: "The medlar is next.", summary: "Medlar" });
await say("memory_search", { query: "quince", colour: "red" });
const resources = (await client.listResources()).resources;
const uri = resources.find((one) => one.uri.endsWith("MEMORY.md")).uri;
console.log((await client.readResource({ uri })).contents[0].text);
const prompt = await client.getPrompt({ name: "recall", arguments: { query: "larch" } });
console.log(prompt.messages[0].content.text);
const changed = new Promise((resolve) => {
  client.fallbackNotificationHandler = async (notice) => {
    if (notice.method === "notifications/resources/updated") resolve(notice.params.uri);
  };
});
await client.subscribeResource({ uri });
await say("memory", {
  command: "str_replace", path: "/memories/MEMORY.md", old_str: "gate", new_str: "well",
});
console.log("updated", (await changed) === uri);
await client.close();
"""


@pytest.mark.parametrize("server", ["memsyncd mcp", "nc -U"])
def test_the_typescript_sdk_finds_remembers_reads_and_is_notified(
    stage: Stage, install: Callable[[str], Path], node: Path, server: str
) -> None:
    modules = install("@modelcontextprotocol/sdk")
    program = modules.parent / "program.mjs"
    program.write_text(TYPESCRIPT_PROGRAM)
    (stage.root / ".memories" / "fresh.md").write_text(FRESH)
    words = [*MEMSYNCD, "mcp"] if "mcp" in server else ["nc", "-U", stage.recorder.path]
    done = subprocess.run(
        [node, program, *words],
        cwd=stage.root, env=stage.env, capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == (
        "memory_search memory_context memory_remember memory memory_get memory_update memory_agent"
    )
    assert lines[1] == "false .memories/fresh.md:1-3  Quince"
    (remembered,) = [line for line in lines if line.startswith("false Remembered at ")]
    assert "true no argument named `colour`" in lines
    assert "The larch stands by the gate." in lines
    assert lines[-1] == "updated true"
    check_indexed(stage, remembered)
    if "nc" in server:
        keep_transcript(stage, "typescript-sdk")


PYTHON_PROGRAM = """
import asyncio, sys
from mcp import Client, StdioServerParameters

async def main(command, *args):
    async with Client(StdioServerParameters(command=command, args=list(args))) as client:
        await client.list_tools()
        for name, given in (
            ("memory_search", {"query": "quince"}),
            ("memory_remember", {"content": "The medlar is next.", "summary": "Medlar"}),
        ):
            print((await client.call_tool(name, given)).content[0].text)
asyncio.run(main(*sys.argv[1:]))
"""


def test_the_python_sdk_finds_what_is_new_and_remembers(stage: Stage, tools: Tools) -> None:
    (stage.root / ".memories" / "fresh.md").write_text(FRESH)
    done = subprocess.run(
        [tools.python, "-c", PYTHON_PROGRAM, "nc", "-U", stage.recorder.path],
        cwd=stage.root, capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.startswith(".memories/fresh.md:1-3  Quince")
    check_indexed(stage, done.stdout)
    keep_transcript(stage, "python-sdk")


def test_the_inspector_finds_what_is_new_and_remembers(stage: Stage, tools: Tools) -> None:
    (stage.root / ".memories" / "fresh.md").write_text(FRESH)
    package = tools.modules / "@modelcontextprotocol" / "inspector"
    program = package / next(iter(read_programs(package)))
    said = []
    for name, wish in zip(("inspector-search", "inspector-remember"), WISHES, strict=True):
        arguments = [
            word for key, value in wish.input.items() for word in ("--tool-arg", f"{key}={value}")
        ]
        done = subprocess.run(
            [
                tools.node, program, "--cli", "nc", "-U", stage.recorder.path,
                "--method", "tools/call", "--tool-name", wish.tool, *arguments,
            ],
            cwd=stage.root, capture_output=True, text=True, timeout=LIMIT_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        said.append(json.loads(done.stdout)["content"][0]["text"])
        keep_transcript(stage, name)
        stage.recorder.connections.clear()
    assert said[0].startswith(".memories/fresh.md:1-3  Quince")
    check_indexed(stage, said[1])
