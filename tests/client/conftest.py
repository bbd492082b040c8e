"""A daemon of its own, as in tests/daemon, and a program that uses a workspace's memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from memsyncd.client import Memsyncd
from tests.daemon.conftest import *  # noqa: F403  its fixtures

if TYPE_CHECKING:
    from tests.daemon.conftest import Home, Place


@pytest.fixture
def remember(home: Home) -> Iterator[Callable[..., Memsyncd]]:
    """Make memories of workspaces for a program in this home; they are closed after the test."""
    opened: list[Memsyncd] = []

    def make(*words: Any, **options: Any) -> Memsyncd:
        opened.append(Memsyncd(*words, env=home.env, timeout_s=45, **options))
        return opened[-1]

    yield make
    for memory in opened:
        memory.close()


@pytest.fixture
def memory(place: Place, remember: Callable[..., Memsyncd]) -> Memsyncd:
    """The memory of a workspace with a MEMORY.md and one more note."""
    return remember(place.root, client="program")
