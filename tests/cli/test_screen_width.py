"""On a terminal, no command breaks a line within a word, at 80 columns and at 40.

A socket answers each command with made-up answers of the declared type, whose texts are long. Every
line that the command prints must fit, or have nothing that could stand on the next line.
"""

from __future__ import annotations

import io
import re
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import inspect

from memsyncd.cli.main import main
from memsyncd.operations.table import OPERATIONS
from memsyncd.terminal.wrap import ARROW, MARK, display_width, measure_line
from tests.cli.test_every_option import COMMANDS, LOCAL, Recorder, find_words

PATH = ".memories/a long name of a note/redis-connections.md"
SENTENCE = "The pool of connections waits for sockets that nobody closes, 記憶 and Grüße in it."
TEXT = f"# Redis\n\n- {SENTENCE} {SENTENCE}\n\n    code {SENTENCE}\n"
MAX_DEPTH = 6
# Colours and links; a line of progress until it is erased.
ESCAPE = re.compile(r"\x1b\[[\d;]*m|\x1b\]8;;[^\x1b]*\x1b\\|\r[^\n]*?\x1b\[K")
# They never end, or print a text for a program, which stays as it is.
LEFT_OUT = {"watch", "signal watch", "metrics", "hook", "merge-driver"}
WALKED = [name for name in COMMANDS if {name, name.split()[0]}.isdisjoint({*LOCAL, *LEFT_OUT})]


def list_unbroken(line: str) -> list[str]:
    """Return the words of a line, which may not be cut: a wide character is a word, and an arrow is
    a part of the next one.
    """
    words = [""]
    for char in line.replace(f"{ARROW} ", ARROW):
        if char == " " or display_width(char) > 1:
            words += ["" if char == " " else char, ""]
        else:
            words[-1] += char
    return [word for word in words if word]


def fits(line: str, width: int) -> bool:
    """Return whether a plain line fits, or holds one word that does not, behind its mark."""
    mark = re.match(MARK, line)
    return (
        measure_line(line) <= width or len(list_unbroken(line[mark.end() :] if mark else line)) <= 1
    )


def make_value(kind: Any, name: str, choice: int, depth: int = 0) -> Any:
    """Make a value of a declared type. `choice` selects the words of closed lists, and the state of
    flags. Structs within themselves end at some depth.
    """
    match kind:
        case inspect.StructType():
            return {
                field.encode_name: make_value(field.type, field.encode_name, choice, depth + 1)
                for field in kind.fields
            }
        case inspect.ListType():
            n = 2 if depth < MAX_DEPTH else 0
            return [make_value(kind.item_type, name, choice + i, depth) for i in range(n)]
        case inspect.TupleType():
            return [make_value(each, name, choice, depth) for each in kind.item_types]
        case inspect.DictType():
            return {SENTENCE[:30]: make_value(kind.value_type, name, choice, depth)}
        case inspect.UnionType():
            types = [each for each in kind.types if not isinstance(each, inspect.NoneType)]
            return make_value(types[0], name, choice, depth)
        case inspect.LiteralType():
            return kind.values[choice % len(kind.values)]
    plain = {inspect.BoolType: bool(choice % 2), inspect.IntType: 1234, inspect.FloatType: 0.5}
    return plain.get(type(kind), make_text(name))


def make_text(name: str) -> str:
    if name in ("path", "old_path", "source"):
        return PATH
    if name in ("text", "diff", "content", "summary"):
        return TEXT
    return f"{PATH}#redis/pool" if name in ("anchor", "to") else SENTENCE


class Answerer(Recorder):
    """A socket that answers each request with a made-up answer."""

    choice = 0

    def _answer(self, method: str) -> dict[str, Any]:
        if method == "ping":
            return super()._answer(method)
        answer = make_value(inspect.type_info(OPERATIONS[method].result), "", self.choice)
        if method == "status":
            # A command about one workspace asks for the status of that one.
            answer["workspaces"] = [answer["workspaces"][0] | {"state": "ready", "pending": 0}]
        return {"result": answer | ({"drawing": None} if method == "links" else {})}


@pytest.fixture(scope="module")
def answerer() -> Iterator[Answerer]:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        made = Answerer(f"{folder}/s")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("HOME", "/nowhere")
            patch.setenv("MEMSYNCD_SOCKET", f"{folder}/s")
            patch.setenv("MEMSYNCD_PAGER", "")
            patch.chdir(folder)
            yield made
        made.close()


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


def show(words: list[str], width: int, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a command on a terminal of this width and return what it shows, without colours."""
    out, err = Tty(), Tty()
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    status = main(words)
    assert status in (0, 1), err.getvalue()
    assert out.getvalue() or err.getvalue()
    return ESCAPE.sub("", out.getvalue() + err.getvalue())


@pytest.mark.parametrize("name", WALKED)
def test_a_command_breaks_its_lines_between_words(
    answerer: Answerer, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for width in (80, 40):
        for answerer.choice in (0, 1):
            screen = show(find_words(name), width, monkeypatch)
            wide = [line for line in screen.splitlines() if not fits(line, width)]
            assert not wide, (width, wide)


@pytest.mark.parametrize("width", [80, 40])
def test_help_breaks_its_lines_between_words(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for words in (["help"], ["help", "--all"], *([*name.split(), "--help"] for name in COMMANDS)):
        screen = show(words, width, monkeypatch)
        assert [line for line in screen.splitlines() if not fits(line, width)] == []
