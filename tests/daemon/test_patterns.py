"""`patterns` against the real daemon: memories that recur in several workspaces are listed once."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from memsyncd.client.memory import Memsyncd
from memsyncd.errors import BadRequest
from tests.daemon.conftest import write_first_notes

if TYPE_CHECKING:
    from tests.daemon.conftest import Home, Place

pytestmark = pytest.mark.shared_daemon

POOL = "Redis gives up after thirty seconds, so the connection pool must not wait longer than that."
ALMOST = "Redis gives up after thirty seconds; the connection pool must not wait longer."


@pytest.fixture
def clients(home: Home, make_place: Callable[..., Place]) -> list[Place]:
    """Two projects with the same error, one of them twice, and a third without it."""
    places = []
    for _ in range(3):
        root = home.make_folder()
        write_first_notes(root)
        places.append(make_place(root))
    for place, texts in zip(places, ([POOL], [ALMOST, POOL], ["Another thing."]), strict=True):
        with Memsyncd(place.root, env=place.env) as memory:
            for text in texts:
                memory.add(text, summary="Pool", kind="error", topic="redis")
            memory.add(POOL, summary="No topic", kind="error", metadata={"client": place.id})
    return places


def test_the_same_error_of_several_projects_is_one_pattern(clients: list[Place]) -> None:
    ids = [place.id for place in clients]
    with Memsyncd(clients[0].root, env=clients[0].env) as memory:
        found = memory.patterns(workspaces=ids, topic="redis")
        assert [workspace["id"] for workspace in found["workspaces"]] == ids
        [pattern] = found["patterns"]
        assert (pattern["kind"], pattern["topic"], pattern["n_workspaces"]) == ("error", "redis", 2)
        assert [section["workspace"] for section in pattern["sections"]] == [ids[0], ids[1], ids[1]]
        assert pattern["similarity"] >= 0.5
        assert pattern["sections"][0]["snippet"] == POOL
        assert memory.patterns(workspaces=ids, topic="redis", min_workspaces=3)["patterns"] == []
        # The same text without a topic is another category, which all three have.
        first, second = memory.patterns(workspaces=ids)["patterns"]
        assert (first["topic"], first["n_workspaces"]) == (None, 3)
        assert second == pattern
        exact = memory.patterns(workspaces=ids, topic="redis", min_similarity=1.0)["patterns"]
        assert [len(pattern["sections"]) for pattern in exact] == [2]
        assert memory.patterns(workspaces=ids, kind="decision")["patterns"] == []
        with pytest.raises(BadRequest, match="than min_workspaces"):
            memory.patterns(workspaces=ids[:1])


def test_archived_sections_recur_no_more(clients: list[Place]) -> None:
    ids = [place.id for place in clients[:2]]
    anchors = []
    for place in clients[:2]:
        with Memsyncd(place.root, env=place.env) as memory:
            anchors.append(memory.add(POOL, kind="decision")["anchor"])
    with Memsyncd(clients[0].root, env=clients[0].env) as memory:
        assert len(memory.patterns(workspaces=ids, kind="decision")["patterns"]) == 1
        memory.archive(anchors[0], apply=True)
        assert memory.patterns(workspaces=ids, kind="decision")["patterns"] == []


def test_what_recurs_with_several_clients_of_one_workspace_is_one_pattern(
    home: Home, make_place: Callable[..., Place]
) -> None:
    root = home.make_folder()
    write_first_notes(root)
    place = make_place(root)
    with Memsyncd(place.root, env=place.env) as memory:
        for client, text in (("acme", POOL), ("globex", ALMOST), ("acme", POOL)):
            source = {"client": client, "date": "2026-03-01"}
            memory.add(text, summary="Pool", kind="error", source=source)
        [pattern] = memory.patterns(workspaces=place.id, by="source.client")["patterns"]
        assert pattern["values"] == ["acme", "globex"]
        assert sorted(section["value"] for section in pattern["sections"]) == [
            "acme", "acme", "globex",
        ]  # fmt: skip
        with pytest.raises(BadRequest, match="than min_workspaces"):
            memory.patterns(workspaces=place.id)
    place.client.call("sync", workspace=place.id)
    words = (sys.executable, "-m", "memsyncd", "patterns", "--by", "source.client")
    head, *places = place.run(*words, "-w", place.id).splitlines()
    assert head.startswith("error  2 values of source.client  0.")
    assert {line.split()[0] for line in places} == {"[acme]", "[globex]"}
