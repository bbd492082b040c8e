"""An operation that a test makes up is callable from all sides, by its declaration and its `run`.

The operation's folder lies outside of the package. `BEGIN` adds it to the package, registers its
declaration and generates the commands and the client's methods anew; the daemon, the commands and
the client are then the package's own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from memsyncd.errors import BadRequest, NoteNotFound
from tests.daemon.conftest import Place, write_first_notes
from tests.daemon.test_http import Browser, SocketConnection

if TYPE_CHECKING:
    from tests.daemon.conftest import Home

pytestmark = pytest.mark.life

DECLARE = '''\
from memsyncd.operations.fields import Name, Result, WorkspaceParams
from memsyncd.operations.operation import (
    OPENS, TOOL_WORKSPACE, Command, Operation, Paths, Python, Shape, Tool, ToolArgument
)
from memsyncd.operations.fields import Place


class TallyParams(WorkspaceParams, frozen=True, kw_only=True):
    path: Place
    """The note in which the word is counted."""
    word: Name
    """The word that is counted."""
    ignore_case: bool = False
    """Count it in capitals, too. Both are the same word then."""


class Tally(Result, frozen=True, kw_only=True):
    path: str
    n_words: int


OPERATION = Operation(
    name="note.tally",
    params=TallyParams,
    result=Tally,
    summary="Count how often a note has a word.",
    shape=Shape.READ,
    run="tally.run:count",
    errors=OPENS,
    route="GET /v1/tally",
    reads=True,
    paths=Paths(absolute=("path",), are_from_root=True),
    command=Command(
        words="tally",
        group="Find",
        arguments=("path PATH", "word WORD"),
        found="n_words",
        examples=("memsyncd tally MEMORY.md redis",),
    ),
    python=Python(name="tally", positional=("path", "word")),
    tool=Tool(
        name="memory_tally",
        title="Count a word",
        description="Count how often a note has a word.",
        arguments=(
            ToolArgument("note", "The note.", field="path", is_required=True),
            ToolArgument("word", "The word.", is_required=True),
            TOOL_WORKSPACE,
        ),
        is_read_only=True,
    ),
    text="tally.run:render",
)
'''
RUN = """\
from pathlib import Path

from memsyncd.errors import NoteNotFound
from memsyncd.operations.tally.declare import Tally


def count(call, params):
    note = Path(call.workspace.entry.root, params.path)
    if not note.exists():
        raise NoteNotFound(f"no note {params.path}")
    text, word = note.read_text(), params.word
    if params.ignore_case:
        text, word = text.lower(), word.lower()
    return Tally(path=params.path, n_words=text.split().count(word))


def render(result, find_warning):
    return f"{result.n_words} in {result.path}"
"""
BEGIN = """\
import sys
from pathlib import Path
from types import ModuleType

import memsyncd.operations

memsyncd.operations.__path__.append(str(Path(__file__).parent))
from memsyncd.operations.generate_cli import generate
from memsyncd.operations.generate_client import generate_methods
from memsyncd.operations.table import COMMAND_GROUPS, OPERATIONS
from memsyncd.operations.tally.declare import OPERATION

OPERATIONS[OPERATION.name] = OPERATION


def load(name, text):
    module = sys.modules[name] = ModuleType(name)
    exec(compile(text, name, "exec"), module.__dict__)


load("memsyncd.client._generated", generate_methods(OPERATIONS.values()))
for name, text in generate(OPERATIONS.values(), COMMAND_GROUPS).items():
    load(f"memsyncd.terminal._generated.{name}".rstrip("."), text)
from memsyncd.cli.main import main
from memsyncd.client.memory import Memsyncd

if sys.argv[1] == "python":
    with Memsyncd(client="tester") as memory:
        print(eval(sys.argv[2]))
else:
    sys.exit(main())
"""
NOTE = "# Cache\n\nredis and Redis and redis\n"


@pytest.fixture(scope="module")
def begin(make_home: Callable[..., Home]) -> Iterator[tuple[Place, Path]]:
    """A workspace of a daemon with the operation, and the program."""
    home = make_home()
    folder = home.folder / "made-up"
    (folder / "tally").mkdir(parents=True)
    (folder / "tally" / "declare.py").write_text(DECLARE)
    (folder / "tally" / "run.py").write_text(RUN)
    program = folder / "begin.py"
    program.write_text(BEGIN)
    daemon = home.start(str(program))
    root = home.make_folder()
    write_first_notes(root)
    (root / ".memories" / "cache.md").write_text(NOTE)
    place = Place(home, daemon, root)
    yield place, program
    place.close()


@pytest.fixture(scope="module")
def place(begin: tuple[Place, Path]) -> Place:
    return begin[0]


@pytest.fixture(scope="module")
def run(begin: tuple[Place, Path]) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a command of the program in the workspace."""
    place, program = begin

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(program), *words]
        return subprocess.run(
            command, cwd=place.root, env=place.env, capture_output=True, text=True, check=False
        )

    return call


@pytest.fixture(scope="module")
def browser(place: Place) -> Iterator[Browser]:
    connection = SocketConnection(place.home.socket_path)
    yield Browser(connection)
    connection.close()


PATH = ".memories/cache.md"
ANSWER = {"path": PATH, "n_words": 2}


def test_json_rpc_calls_it_and_checks_its_parameters(place: Place) -> None:
    call = place.client.call
    assert call("note.tally", workspace=place.id, path=PATH, word="redis") == ANSWER
    # The path chooses the workspace, and its note is named from the root.
    absolute = str(place.root / PATH)
    assert call("note.tally", path=absolute, word="redis", ignore_case=True)["n_words"] == 3
    with pytest.raises(BadRequest, match="wrd"):
        call("note.tally", workspace=place.id, path=PATH, wrd="redis")
    with pytest.raises(NoteNotFound):
        call("note.tally", workspace=place.id, path="none.md", word="redis")


def test_http_has_its_route(place: Place, browser: Browser) -> None:
    target = f"/v1/tally?workspace={place.id}&path={PATH}&word=redis"
    assert browser.ask("GET", target) == (200, ANSWER)
    status, answer = browser.ask("GET", f"{target}&ignore_case=true")
    assert (status, answer["n_words"]) == (200, 3)
    assert browser.ask("GET", f"/v1/tally?workspace={place.id}&path={PATH}")[0] == 400


def test_mcp_has_its_tool(place: Place, browser: Browser) -> None:
    _, listed = browser.send_mcp("tools/list")
    tool = next(tool for tool in listed["result"]["tools"] if tool["name"] == "memory_tally")
    assert tool["annotations"]["readOnlyHint"] is True
    assert tool["inputSchema"]["required"] == ["note", "word"]
    arguments = {"note": PATH, "word": "redis", "workspace": place.id}
    _, answer = browser.send_mcp("tools/call", {"name": "memory_tally", "arguments": arguments})
    assert answer["result"]["content"][0]["text"] == f"2 in {PATH}"


def test_a_command_calls_it(run: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    done = run("tally", PATH, "redis", "--json")
    assert (json.loads(done.stdout), done.returncode) == (ANSWER, 0)
    done = run("tally", PATH, "redis", "--ignore-case")
    assert (done.stdout.splitlines()[-1].split(), done.returncode) == (["n_words", "3"], 0)
    assert run("tally", PATH, "kafka").returncode == 1
    done = run("tally", PATH)
    assert (done.returncode, done.stderr.splitlines()[0]) == (2, "memsyncd: tally: WORD is missing")


def test_its_command_has_help_and_is_completed(
    run: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    assert run("tally", "--help").stdout == (
        "Usage  memsyncd tally PATH WORD [OPTIONS]\n"
        "\n"
        "Count how often a note has a word.\n"
        "\n"
        "Arguments\n"
        "  PATH                      the note in which the word is counted\n"
        "  WORD                      the word that is counted\n"
        "\n"
        "Options\n"
        "      --ignore-case         count it in capitals, too\n"
        "  -w, --workspace WS        the workspace: a name, an id or a folder in it; by\n"
        "                            default the current folder's\n"
        "      --json                print the daemon's answer as one line of JSON\n"
        "      --color WHEN          when to use colours: auto (default), on a terminal\n"
        "                            unless NO_COLOR is set; always; never\n"
        "      --no-pager            do not show a long answer with MEMSYNCD_PAGER, PAGER\n"
        "                            or less\n"
        "  -h, --help                show this help\n"
        "\n"
        "Examples\n"
        "  memsyncd tally MEMORY.md redis\n"
    )
    assert "  tally " in run("help", "--all").stdout
    script = run("completion", "bash").stdout
    assert "tally" in script
    assert "--ignore-case" in script


def test_the_client_has_its_method(run: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    done = run("python", f"memory.tally({PATH!r}, 'redis', ignore_case=True)['n_words']")
    assert (done.stdout, done.stderr) == ("3\n", "")
    described = run("python", "memory.tally.__doc__").stdout
    assert "Count how often a note has a word." in described
    assert "`word`: The word that is counted." in described


def test_the_documents_of_the_interfaces_describe_it(place: Place, browser: Browser) -> None:
    methods: dict[str, Any] = {
        method["name"]: method for method in place.client.call("rpc.discover")["methods"]
    }
    described = methods["note.tally"]
    assert described["summary"] == "Count how often a note has a word."
    assert {param["name"] for param in described["params"]} == {
        "workspace", "path", "word", "ignore_case"
    }  # fmt: skip
    _, document = browser.ask("GET", "/openapi.json")
    route = document["paths"]["/v1/tally"]["get"]
    assert {param["name"] for param in route["parameters"]} >= {"path", "word", "ignore_case"}
