"""Accesses are counted for what clients are given, and kept through moves and restarts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from memsyncd.client.memory import Memsyncd

if TYPE_CHECKING:
    from tests.daemon.conftest import Home, Place

pytestmark = pytest.mark.shared_daemon

NOTE = "# Redis\n\n## Timeouts\n\nRaise them to 5 s.\n\n## Ports\n\n6379 everywhere.\n"
TIMEOUTS = ".memories/redis.md#redis/timeouts"


def test_what_a_context_a_get_and_a_tracked_search_return_is_counted(place: Place) -> None:
    (place.root / ".memories" / "redis.md").write_text(NOTE)
    place.wait_found("raise", ".memories/redis.md")
    ask = place.client.call
    ask("context", query="raise", workspace=place.id)
    ask("get", anchor=TIMEOUTS, workspace=place.id)
    ask("get", anchor=TIMEOUTS, workspace=place.id, track_access=False)
    ask("search", query="raise", workspace=place.id)
    ask("search", query="raise", workspace=place.id, track_access=True)
    with Memsyncd(place.root, env=place.home.env, session="s1") as memory:
        for _ in range(3):
            assert memory.get(TIMEOUTS) is not None
            assert memory.context("raise")
        memory.record_access(TIMEOUTS)
        stats = memory.access_stats(TIMEOUTS)
    assert [one["count"] for one in stats["counts"]] == [4]
    assert [one["sessions"] for one in stats["counts"]] == [1]


def test_counts_survive_a_restart_and_follow_the_note(own: Home) -> None:
    root = own.make_folder()
    (root / ".memories").mkdir()
    (root / ".memories" / "redis.md").write_text(NOTE)
    daemon = own.start()
    with daemon.client() as client:
        client.call("workspace.add", path=str(root))
        client.call("sync", workspace=str(root))
        client.call("get", anchor=TIMEOUTS, workspace=str(root))
    # At once: the daemon stores what it has noted when it stops.
    assert daemon.stop() == 0
    (root / ".memories" / "redis.md").rename(root / ".memories" / "cache.md")
    with own.start().client() as client:
        client.call("sync", workspace=str(root))
        stats = client.call("access.stats", workspace=str(root))
    found = {one["anchor"]: one["count"] for one in stats["counts"]}
    assert found == {".memories/cache.md#redis/timeouts": 1}
