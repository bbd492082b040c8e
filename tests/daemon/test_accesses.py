"""Accesses of the sections that clients get are counted, and kept through moves and restarts."""

from __future__ import annotations

import contextlib
import math
import random
import sqlite3
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from memsyncd.client.memory import Memsyncd
from memsyncd.config import MemoryConfig
from memsyncd.errors import NoteNotFound
from tests.daemon.conftest import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from memsyncd.client import Client
    from tests.daemon.conftest import Home, Place

pytestmark = pytest.mark.shared_daemon

NOTE = "# Redis\n\n## Timeouts\n\nRaise them to 5 s.\n\n## Ports\n\n6379 everywhere.\n"
TIMEOUTS = ".memories/redis.md#redis/timeouts"


def test_what_a_context_a_get_a_recall_and_a_tracked_search_return_is_counted(place: Place) -> None:
    (place.root / ".memories" / "redis.md").write_text(NOTE)
    place.wait_found("raise", ".memories/redis.md")
    ask = place.client.call
    ask("context", query="raise", workspace=place.id)
    ask("get", anchor=TIMEOUTS, workspace=place.id)
    ask("get", anchor=TIMEOUTS, workspace=place.id, track_access=False)
    ask("search", query="raise", workspace=place.id)
    ask("search", query="raise", workspace=place.id, track_access=True)
    ask("recall", text="raise", workspace=place.id)
    ask("recall", text="raise", workspace=place.id, track_access=False)
    with Memsyncd(place.root, env=place.home.env, session="s1") as memory:
        for _ in range(3):
            assert memory.get(TIMEOUTS) is not None
            assert memory.context("raise")
        before = memory.access_stats(TIMEOUTS)["counts"]
        # Whoever asks for the count itself is counted, also in a session.
        assert memory.record_access(TIMEOUTS)["sections"] == 1
        memory.record_access(TIMEOUTS)
        stats = memory.access_stats(TIMEOUTS)
    assert [row["count"] for row in before] == [5]
    assert [row["count"] for row in stats["counts"]] == [7]
    assert [row["sessions"] for row in stats["counts"]] == [1]


def test_an_access_of_an_unknown_section_is_named_and_not_counted(place: Place) -> None:
    (place.root / ".memories" / "redis.md").write_text(NOTE)
    place.wait_found("raise", ".memories/redis.md")
    unknown = [".memories/redis.md#nonesuch", ".memories/nonesuch.md"]
    ask = partial(place.client.call, workspace=place.id)
    with pytest.raises(NoteNotFound, match="there is no section"):
        ask("access.record", anchors=unknown)
    done = ask("access.record", anchors=[TIMEOUTS, *unknown, TIMEOUTS])
    assert (done["sections"], done["unknown"]) == (1, unknown)
    stats = ask("access.stats")
    assert [(row["anchor"], row["count"]) for row in stats["counts"]] == [(TIMEOUTS, 1)]


HOT = {"tier": ["hot"], "tag": ["redis"]}
BY_DECAY = {"explain": True, "sort": "decay"}
N_ACCESSES = 20


@pytest.fixture
def pair(place: Place) -> Iterator[tuple[str, str]]:
    """Two workspaces with the same note; only the first one's accesses make its section hot."""
    other, ask = place.home.make_folder(), place.client.call
    worth = MemoryConfig().hot_from * 0.7 * 0.85
    meta = f"<!-- memory: {{importance: {worth}, tags: [redis]}} -->"
    for root in (place.root, other):
        (root / ".memories").mkdir(exist_ok=True)
        (root / ".memories" / "redis.md").write_text(f"# Redis\n\n## Timeouts\n{meta}\nRaise it.\n")
    theirs = ask("workspace.add", path=str(other))["workspaces"][0]["id"]
    try:
        for workspace in (place.id, theirs):
            ask("sync", workspace=workspace)
        for _ in range(N_ACCESSES):
            ask("access.record", anchors=[TIMEOUTS], workspace=place.id)
        wanted = pytest.approx(1 + math.log1p(N_ACCESSES) / 10, abs=1e-3)
        wait_until(
            lambda: (
                find_hits(place, place.id, **BY_DECAY)[0]["explain"]["decay_accesses"] == wanted
            ),
            "the accesses are not stored",
        )
        yield place.id, theirs
    finally:
        ask("workspace.remove", workspace=theirs)


def find_hits(place: Place, workspace: str | list[str], **more: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = place.client.call(
        "search", query="raise", workspace=workspace, **more
    )["hits"]
    return found


def test_a_count_belongs_to_its_workspace(place: Place, pair: tuple[str, str]) -> None:
    ours, theirs = pair
    hits = find_hits(place, [theirs, ours], **BY_DECAY)
    counted = [(hit["workspace"], hit["explain"]["decay_accesses"] > 1) for hit in hits]
    assert counted == [(ours, True), (theirs, False)]


def test_accesses_decide_the_tier_in_every_answer(place: Place, pair: tuple[str, str]) -> None:
    ours, theirs = pair
    ask = place.client.call
    for workspace, expected in ((ours, [ours]), (theirs, []), ([theirs, ours], [ours])):
        assert [hit["workspace"] for hit in find_hits(place, workspace, filters=HOT)] == expected
        shown = ask("context", query="raise", filters=HOT, workspace=workspace)["included"]
        assert [piece["workspace"] for piece in shown] == expected
    for workspace, n_hot in ((ours, 1), (theirs, 0)):
        of_hot = {"filters": HOT, "workspace": workspace}
        assert ask("stats", **of_hot)["sections"] == n_hot
        assert len(ask("recall", text="raise", **of_hot)["memories"]) == n_hot
        assert len(ask("archive", **of_hot)["archived"]) == n_hot


def test_counts_survive_a_restart_and_follow_the_note(own: Home) -> None:
    root = own.make_folder()
    (root / ".memories").mkdir()
    (root / ".memories" / "redis.md").write_text(NOTE)
    daemon = own.start()
    with daemon.client() as client:
        client.call("workspace.add", path=str(root))
        client.call("sync", workspace=str(root))
        client.call("get", anchor=TIMEOUTS, workspace=str(root))
    # At once: the daemon stores noted accesses when it stops.
    assert daemon.stop() == 0
    (root / ".memories" / "redis.md").rename(root / ".memories" / "cache.md")
    with own.start().client() as client:
        client.call("sync", workspace=str(root))
        stats = client.call("access.stats", workspace=str(root))
    found = {row["anchor"]: row["count"] for row in stats["counts"]}
    assert found == {".memories/cache.md#redis/timeouts": 1}


# --- killed ---------------------------------------------------------------------------------------

SECTIONS = ("redis/timeouts", "redis/ports")
# Longer than noted accesses wait before they are stored.
KILL_WITHIN_S = 2.5


def test_a_killed_daemon_loses_only_accesses_that_were_not_stored_and_doubles_none(
    own: Home,
) -> None:
    count_through_kills(own, n_kills=4)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_many_kills_lose_only_accesses_that_were_not_stored_and_double_none(own: Home) -> None:
    count_through_kills(own, n_kills=100)


def count_through_kills(home: Home, *, n_kills: int) -> None:
    """Record accesses, move and edit the note meanwhile, and kill the daemon: counts that were
    stored stay, and no count exceeds the recorded accesses.
    """
    chance, root = random.Random(n_kills), home.make_folder()
    notes = [root / ".memories" / name for name in ("redis.md", "cache.md")]
    notes[0].parent.mkdir()
    notes[0].write_text(NOTE)
    stored = recorded = 0
    for _ in range(n_kills):
        daemon = home.start()
        with daemon.client() as client:
            client.call("workspace.add", path=str(root))
            client.call("sync", workspace=str(root))
            found = sum_counts(client, root)
            assert stored <= found <= recorded
            stored = recorded = found
            for _ in range(chance.randint(2, 12)):
                if chance.random() < 0.3:
                    notes[0].write_text(f"{notes[0].read_text()}More.\n")
                if chance.random() < 0.3:
                    notes[0].rename(notes[1])
                    notes.reverse()
                client.call("sync", workspace=str(root))
                anchor = f".memories/{notes[0].name}#{chance.choice(SECTIONS)}"
                client.call("access.record", anchors=[anchor], workspace=str(root))
                recorded += 1
                if chance.random() < 0.1:
                    stored = sum_counts(client, root)
                    assert stored == recorded
            if chance.random() < 0.5:
                time.sleep(chance.uniform(0, KILL_WITHIN_S))
            else:
                wait_until(lambda n=recorded: read_stored(home) == n, "not stored by itself")
                stored = recorded
        daemon.kill()


def read_stored(home: Home) -> int:
    """The sum of all counts in the only records.db."""
    (records,) = home.folder.glob("state/memsyncd/**/records.db")
    with contextlib.closing(sqlite3.connect(f"file:{records}?mode=ro", uri=True)) as connection:
        return int(connection.execute("SELECT total(count) FROM accesses").fetchone()[0])


def sum_counts(client: Client, root: Path) -> int:
    """The sum of all counts; accesses that were recorded until now are stored first."""
    return sum(row["count"] for row in client.call("access.stats", workspace=str(root))["counts"])
