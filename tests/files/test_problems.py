from __future__ import annotations

import errno
import os
from typing import get_args

import pytest

from memsyncd.core.paths import NotePath
from memsyncd.errors import Conflict, PathRefused, StoreFull, Unwritable
from memsyncd.files.confined import NotRegularError
from memsyncd.files.read import PROBLEMS, UnreadReason, problem, translate_error, translating_errors

PATH = NotePath(".memories/a.md")


def test_every_reason_of_an_unread_note_is_a_known_problem_except_the_two_without_one() -> None:
    assert set(get_args(UnreadReason)) - PROBLEMS.keys() == {"vanished", "not_a_note"}


@pytest.mark.parametrize("code", sorted(PROBLEMS))
def test_every_problem_has_a_description_and_a_remedy(code: str) -> None:
    made = problem("a.md", code, why="because")
    assert (made.path, made.line, made.code) == ("a.md", 0, code)
    assert made.problem.endswith("(because)")
    assert made.hint


def test_a_path_that_is_not_utf8_can_be_encoded_as_the_path_of_a_problem() -> None:
    assert problem("\udcff.md", "bad_name").path.encode() == "\ufffd.md".encode()


def test_an_error_of_the_system_becomes_an_error_with_a_hint() -> None:
    for code, kind in (
        (errno.ENOSPC, StoreFull),
        (errno.EDQUOT, StoreFull),
        (errno.EACCES, Unwritable),
        (errno.EROFS, Unwritable),
        (errno.EPERM, Unwritable),
        (errno.EIO, Unwritable),
        (errno.EMFILE, Unwritable),
        (errno.ELOOP, PathRefused),
        (errno.ENOTDIR, PathRefused),
        (errno.EISDIR, PathRefused),
        (errno.ENXIO, PathRefused),
        (errno.ENAMETOOLONG, PathRefused),
        (errno.ENOENT, Conflict),
        (errno.ESTALE, Conflict),
    ):
        error = translate_error(PATH, OSError(code, os.strerror(code), "/somewhere/else"))
        assert type(error) is kind, code
        assert error.hint, code
        assert "somewhere" not in error.message, code


def test_no_untranslated_error_of_the_system_escapes() -> None:
    with pytest.raises(PathRefused, match=r"\.memories/a\.md"), translating_errors(PATH):
        raise NotRegularError(errno.EINVAL, "not a regular file")
    with pytest.raises(Unwritable, match="OSError"), translating_errors(PATH):
        raise OSError
