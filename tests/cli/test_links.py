from __future__ import annotations

import msgspec
import pytest

from memsyncd.cli.links import MAX_LIMIT, render_left_out
from memsyncd.protocol.search import LinkLimit


@pytest.mark.parametrize("n_links", [101, MAX_LIMIT, MAX_LIMIT + 1, 49_535])
def test_the_limit_that_shows_more_links_is_one_that_the_daemon_takes(n_links: int) -> None:
    told = render_left_out(n_links - 100, n_links)
    assert msgspec.convert(int(told.rpartition(" ")[2]), LinkLimit) == min(n_links, MAX_LIMIT)
