from __future__ import annotations

import pytest

from memsyncd.errors import BadRequest
from memsyncd.operations.search.show import build_editor_command, exec_editor
from memsyncd.terminal.console import describe_relaxed


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({"EDITOR": "vim"}, ["vim", "+4", "/w/a b.md"]),
        ({"EDITOR": "vim", "VISUAL": "emacs -nw"}, ["emacs", "-nw", "+4", "/w/a b.md"]),
        ({"EDITOR": "nano", "VISUAL": ""}, ["nano", "+4", "/w/a b.md"]),
        ({"EDITOR": "'/opt/my editor' -x"}, ["/opt/my editor", "-x", "+4", "/w/a b.md"]),
        ({"EDITOR": "code --wait"}, ["code", "--wait", "--goto", "/w/a b.md:4"]),
        ({"EDITOR": "/usr/bin/hx"}, ["/usr/bin/hx", "/w/a b.md:4"]),
    ],
)
def test_the_configured_editor_is_called_in_its_own_syntax(
    env: dict[str, str], words: list[str]
) -> None:
    assert build_editor_command(env, "/w/a b.md", 4) == words


@pytest.mark.parametrize("env", [{}, {"EDITOR": " "}, {"EDITOR": "vim 'x"}])
def test_without_an_editor_the_error_says_how_to_configure_one(env: dict[str, str]) -> None:
    with pytest.raises(BadRequest) as caught:
        build_editor_command(env, "/w/a.md", 1)
    assert "EDITOR=" in caught.value.hint


def test_a_missing_editor_is_named() -> None:
    with pytest.raises(BadRequest, match="/nowhere/vim cannot be started"):
        exec_editor(["/nowhere/vim", "/w/a.md"])


def test_an_answer_of_related_words_alone_says_so() -> None:
    related = {"matched": [], "matched_related": ["posts"]}
    direct = {"matched": ["a"], "matched_related": ["posts"]}
    assert describe_relaxed([related]).endswith("these contain related ones")
    assert describe_relaxed([related, direct]).endswith("these contain some")
