"""What all tests share: how hard properties are tried, how many tests run at once, and that processes can be interrupted."""

from __future__ import annotations

import gc
import os
import signal
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# No deadline: a busy machine is not a failing one, and pytest-timeout guards against what hangs.
settings.register_profile("memsyncd", deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("thorough", parent=settings.get_profile("memsyncd"), max_examples=2000)
settings.load_profile("memsyncd")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell has what it runs in the background ignore this, and all processes that the tests start would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Two more than there are cores: many tests wait for a daemon, an editor or a timer."""
    return (os.cpu_count() or 1) + 2


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is collected stays to the end: the collector, which would pass over it time and again, is told so."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """pytest's own, under a short name: a socket's path has room for 107 bytes, and a test's name would take thirty of them."""
    return tmp_path_factory.mktemp("t")
