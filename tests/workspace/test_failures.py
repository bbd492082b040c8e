from __future__ import annotations

import errno
import os

import pytest

from memsyncd.core.notepath import NotePath
from memsyncd.errors import Conflict, MemsyncdError, PathRefused, StoreFull, Unwritable
from memsyncd.workspace.confine import NotRegularError
from memsyncd.workspace.failures import name_failure, naming_failures

PATH = NotePath(".memories/a.md")


@pytest.mark.parametrize(
    ("code", "kind"),
    [
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
    ],
)
def test_what_the_system_says_has_a_name_and_a_hint(code: int, kind: type[MemsyncdError]) -> None:
    error = name_failure(PATH, OSError(code, os.strerror(code), "/somewhere/else"))
    assert type(error) is kind
    assert error.hint
    assert "somewhere" not in error.message


def test_no_bare_error_of_the_system_comes_out() -> None:
    with pytest.raises(PathRefused, match=r"\.memories/a\.md"), naming_failures(PATH):
        raise NotRegularError(errno.EINVAL, "not a regular file")
    with pytest.raises(Unwritable, match="OSError"), naming_failures(PATH):
        raise OSError
