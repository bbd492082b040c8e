from __future__ import annotations

import errno
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from memsyncd.errors import StoreFailed
from memsyncd.store import connection
from memsyncd.store.connection import (
    FILES_PER_WORKSPACE,
    FILES_RESERVED,
    check_room,
    find_file_limit,
    find_shortage,
    open_reader,
)

OPEN_WITHOUT_FILES = """
import resource, sys
from memsyncd.errors import StoreFailed
from memsyncd.store.connection import open_reader
resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
try:
    open_reader(sys.argv[1])
except StoreFailed as failure:
    print(failure.message)
"""


def test_a_database_that_is_not_opened_for_want_of_files_is_not_called_gone(tmp_path: Path) -> None:
    words = [sys.executable, "-c", OPEN_WITHOUT_FILES, str(tmp_path / "index.db")]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    assert done.stdout == "too many open files (3): raise `ulimit -n`\n"


def test_a_database_that_is_gone_is_called_so(tmp_path: Path) -> None:
    with pytest.raises(StoreFailed, match="it is gone"):
        open_reader(str(tmp_path / "index.db"))
    assert find_shortage() is None
    assert find_shortage(OSError(errno.EACCES, "denied")) is None
    shortage = find_shortage(OSError(errno.ENFILE, "too many"))
    assert shortage is not None
    assert "all programs" in shortage.message


@pytest.mark.parametrize("n_open", [0, 1, 7])
def test_there_is_room_for_a_workspace_while_its_files_are_within_the_limit(
    monkeypatch: pytest.MonkeyPatch, n_open: int
) -> None:
    needed = FILES_RESERVED + FILES_PER_WORKSPACE * (n_open + 1)
    monkeypatch.setattr(connection, "find_file_limit", lambda: needed)
    check_room(n_open)
    monkeypatch.setattr(connection, "find_file_limit", lambda: needed - 1)
    with pytest.raises(StoreFailed, match="too many open files"):
        check_room(n_open)
    monkeypatch.setattr(connection, "find_file_limit", lambda: None)
    check_room(n_open)


def test_the_limit_is_the_soft_one() -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert find_file_limit() == (None if soft == resource.RLIM_INFINITY else soft)
