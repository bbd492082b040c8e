from __future__ import annotations

import io
import json
import os
import pty
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.terminal.terminal import (
    Paint,
    Terminal,
    clean,
    clean_line,
    clean_values,
    get_width,
    render_json,
)


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


def make_terminal(env: dict[str, str], *, is_terminal: bool = True) -> Terminal:
    return Terminal(*((Tty(), Tty()) if is_terminal else (io.StringIO(), io.StringIO())), env)


@pytest.mark.parametrize(
    ("env", "is_terminal", "has_colour", "has_links"),
    [
        ({}, True, True, True),
        ({}, False, False, False),
        ({"NO_COLOR": "1"}, True, False, True),
        ({"NO_COLOR": ""}, True, True, True),
        ({"TERM": "dumb"}, True, False, False),
        ({"FORCE_COLOR": "1"}, False, True, False),
        ({"FORCE_COLOR": "0"}, False, False, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False, True),
        ({"FORCE_COLOR": "1", "TERM": "dumb"}, True, True, False),
    ],
)
def test_colours_links_and_progress_are_for_terminals_unless_disabled(
    env: dict[str, str], *, is_terminal: bool, has_colour: bool, has_links: bool
) -> None:
    terminal = make_terminal(env, is_terminal=is_terminal)
    paint = terminal.paint
    assert (paint.has_colour, paint.has_links) == (has_colour, has_links)
    terminal.draw("1/2")
    terminal.clear()
    assert isinstance(terminal.err, io.StringIO)
    is_drawn = is_terminal and env.get("TERM") != "dumb"
    assert terminal.err.getvalue() == "\r1/2\x1b[K\r\x1b[K" * is_drawn


def test_a_real_terminal_is_recognized() -> None:
    leader, follower = pty.openpty()
    with open(leader, "rb"), open(follower, "w", encoding="utf-8") as stream:
        terminal = Terminal(stream, io.StringIO(), {})
        assert terminal.is_out_terminal
        assert not terminal.is_err_terminal


def test_a_closed_stream_is_not_a_terminal() -> None:
    stream = io.StringIO()
    stream.close()
    assert not Terminal(stream, io.StringIO(), {}).is_out_terminal


def test_progress_is_overwritten_and_erased_before_other_output() -> None:
    terminal = make_terminal({})
    terminal.draw("1/2")
    terminal.draw("2/2")
    terminal.report("done")
    assert isinstance(terminal.err, Tty)
    assert terminal.err.getvalue() == "\r1/2\x1b[K\r2/2\x1b[K\r\x1b[Kdone\n"


def test_paint_wraps_text_and_leaves_no_empty_escapes() -> None:
    paint = Paint(has_colour=True)
    assert paint("bold red", "x") == "\x1b[1;31mx\x1b[0m"
    assert paint("bold", "") == ""
    assert Paint()("bold", "x") == "x"


def test_a_link_names_host_path_and_line() -> None:
    paint = Paint(has_links=True, host="mill")
    assert (
        paint.link("a b.md:3", "/w/a b.md", 3)
        == "\x1b]8;;file://mill/w/a%20b.md#3\x1b\\a b.md:3\x1b]8;;\x1b\\"
    )
    assert paint.link("a.md", "a.md", 3) == "a.md"


def test_tabs_and_newlines_stay_in_text_and_are_removed_from_lines() -> None:
    assert clean("a\tb\nc") == "a\tb\nc"
    assert clean_line(" a\tb\nc ") == "a b c"


def test_ordinary_text_of_any_script_is_unchanged() -> None:
    text = "Grüße, 記憶, ذاكرة, 👩‍💻, é"
    assert clean(text) == text


def test_every_text_of_an_answer_is_cleaned() -> None:
    assert clean_values({"a\x1b": ["b\x1b", {"c": "d\x1b"}], "n": 1, "x": None}) == {
        "a": ["b", {"c": "d"}],
        "n": 1,
        "x": None,
    }


@pytest.mark.life
def test_each_character_that_is_removed_is_removed_alone_and_within_text() -> None:
    removed = {char for char in map(chr, range(0x11_0000)) if clean(f"a{char}b") == "ab"}
    assert {"\0", "\x1b", "\x7f", "\x9b", "\u202e", "\u2066", "\ufeff"} <= removed
    for char in removed:
        assert clean(char) == clean_values(char) == ""
        assert clean_values({char: [f"a {char}b"]}) == {"": ["a b"]}
        assert char not in render_json(f"a{char}b")
    assert clean_values("a\tb\nc") == "a b c"


@given(st.text())
def test_cleaned_text_and_its_json_have_no_control_characters(
    text: str,
) -> None:
    assert not [
        char for char in clean(text) if unicodedata.category(char) == "Cc" and char not in "\t\n"
    ]
    line = render_json({"text": text})
    assert json.loads(line) == {"text": text}
    assert not [char for char in line if unicodedata.category(char) == "Cc"]


def test_the_width_is_that_of_the_variable_or_a_usual_one() -> None:
    assert get_width({"COLUMNS": "123"}) == 123
    assert get_width({"COLUMNS": "wide"}) > 0
    assert get_width({"COLUMNS": "0"}) > 0


def test_the_width_without_a_terminal_is_eighty(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(descriptor: int) -> os.terminal_size:
        raise OSError(descriptor)

    monkeypatch.setattr(os, "get_terminal_size", fail)
    assert get_width({}) == 80


@pytest.mark.parametrize("n_lines", [2, 3])
def test_a_page_longer_than_the_screen_goes_to_the_pager_with_its_messages(
    tmp_path: Path, n_lines: int
) -> None:
    shown = tmp_path / "shown"
    terminal = make_terminal({"LINES": "3", "COLUMNS": "9", "MEMSYNCD_PAGER": f"tee {shown}"})
    with terminal.page():
        for i in range(n_lines - 1):
            terminal.print(f"line {i}")
        terminal.note("done")
    assert isinstance(terminal.out, io.StringIO)
    if n_lines == 2:
        assert (terminal.out.getvalue(), shown.exists()) == ("line 0\n", False)
    else:
        assert terminal.out.getvalue() == ""
        assert shown.read_text() == "line 0\nline 1\n\x1b[2mdone\x1b[0m\n"


@pytest.mark.parametrize("pager", ["", "cat", "/nowhere/less", "less 'x"])
def test_a_page_is_printed_if_no_pager_is_wanted_or_works(pager: str) -> None:
    terminal = make_terminal({"LINES": "2", "MEMSYNCD_PAGER": pager, "PAGER": "false"})
    with terminal.page():
        terminal.print("one\ntwo")
    assert isinstance(terminal.out, io.StringIO)
    assert isinstance(terminal.err, io.StringIO)
    assert terminal.out.getvalue() == "one\ntwo\n"
    assert ("cannot be started" in terminal.err.getvalue()) == (pager not in ("", "cat"))
