from __future__ import annotations

from typing import get_args

import pytest

from memsyncd.workspace.files import UnreadReason
from memsyncd.workspace.oddities import ODDITIES, odd


def test_every_reason_not_to_read_a_note_is_a_known_oddity_or_no_problem() -> None:
    assert set(get_args(UnreadReason)) - ODDITIES.keys() == {"vanished", "not_a_note"}


@pytest.mark.parametrize("code", sorted(ODDITIES))
def test_every_oddity_says_what_it_is_and_what_to_do(code: str) -> None:
    problem = odd("a.md", code, why="because")
    assert (problem.path, problem.line, problem.code) == ("a.md", 0, code)
    assert problem.problem.endswith("(because)")
    assert problem.hint


def test_a_path_that_is_no_utf8_can_be_encoded_once_it_is_a_problems() -> None:
    assert odd("\udcff.md", "bad_name").path.encode() == "\ufffd.md".encode()
