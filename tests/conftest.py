"""What all tests share: how hard properties are tried."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pathlib import Path

# No deadline: a busy machine is not a failing one, and pytest-timeout guards against what hangs.
settings.register_profile("memsyncd", deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("memsyncd")


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """pytest's own, under a short name: a socket's path has room for 107 bytes, and a test's name would take thirty of them."""
    return tmp_path_factory.mktemp("t")
