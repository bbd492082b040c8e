"""A limit of open files under which no workspace could be served."""

from __future__ import annotations

import resource
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING

import pytest

from memsyncd.daemon.resources import OPEN_FILES_NEEDED

if TYPE_CHECKING:
    from tests.daemon.conftest import Home


@pytest.mark.parametrize("limit", [20, OPEN_FILES_NEEDED - 1])
def test_a_daemon_refuses_to_start_where_it_may_open_too_few_files(home: Home, limit: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "memsyncd", "run"],
        env=home.env,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        preexec_fn=partial(resource.setrlimit, resource.RLIMIT_NOFILE, (limit, limit)),
    )
    assert done.returncode == 78, done.stderr
    assert f"may open only {limit} files" in done.stderr
    assert "LimitNOFILE" in done.stderr
    assert "Traceback" not in done.stderr
