"""A subscriber is notified of every change once, and of earlier ones on request."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from memsyncd.errors import BadRequest, NoDaemon, NotFound

if TYPE_CHECKING:
    from memsyncd.client import Client
    from tests.daemon.conftest import Home, Place

    MakePlace = Callable[..., Place]

pytestmark = pytest.mark.shared_daemon


@pytest.fixture
def listener(place: Place) -> Iterator[Client]:
    with place.daemon.client() as client:
        yield client


def receive(client: Client) -> dict[str, Any]:
    """The parameters of the next notification."""
    method, notified = next(iter(client.notifications()))
    assert method == "changed"
    return dict(notified)


def save(place: Place, path: str, text: str) -> int:
    (place.root / path).parent.mkdir(exist_ok=True)
    place.save(path, f"{text}\n")
    return int(
        place.client.call("search", query=text, workspace=place.id, wait="disk")["freshness"][
            "generation"
        ]
    )


def test_each_change_of_the_subscribed_places_is_notified_once(
    place: Place, listener: Client, make_place: MakePlace, home: Home
) -> None:
    answer = listener.call("subscribe", workspace=place.id, paths=["MEMORY.md", ".memories/**"])
    assert answer["generations"] == {place.id: place.status()["generation"]}
    generation = save(place, "MEMORY.md", "larch")
    notified = receive(listener)
    assert (notified["subscription"], notified["workspace"], notified["paths"]) == (
        answer["subscription"],
        place.id,
        ["MEMORY.md"],
    )
    assert notified["generation"] == generation > answer["generations"][place.id]
    assert notified["chunks"] > 0
    assert notified["complete"]
    (place.root / "MEMORY.md").unlink()
    assert receive(listener)["paths"] == ["MEMORY.md"]
    save(place, ".memories/old.md", "hazel")
    assert receive(listener)["paths"] == [".memories/old.md"]
    (place.root / ".memories" / "old.md").rename(place.root / ".memories" / "new.md")
    assert sorted(receive(listener)["paths"]) == [".memories/new.md", ".memories/old.md"]
    listener.call("unsubscribe", subscription=answer["subscription"])
    # Other paths and workspaces are not notified, but without a workspace all of them are.
    other = make_place(home.make_folder())
    narrow = listener.call("subscribe", workspace=place.id, paths=[".memories/**"])
    save(place, "MEMORY.md", "larch")
    save(other, ".memories/a.md", "maple")
    save(place, ".memories/a.md", "rowan")
    notified = receive(listener)
    assert (notified["workspace"], notified["paths"]) == (place.id, [".memories/a.md"])
    listener.call("unsubscribe", subscription=narrow["subscription"])
    listener.call("subscribe")
    save(other, "MEMORY.md", "alder")
    assert receive(listener)["workspace"] == other.id


def test_changes_since_a_generation_are_notified_first_and_once(
    place: Place, listener: Client
) -> None:
    generation = place.status()["generation"]
    save(place, "MEMORY.md", "larch")
    save(place, ".memories/a.md", "maple")
    latest = save(place, "MEMORY.md", "hazel")
    early = listener.call("subscribe", workspace=place.id, since=generation)
    notified = receive(listener)
    assert sorted(notified["paths"]) == [".memories/a.md", "MEMORY.md"]
    assert (notified["generation"], notified["complete"]) == (latest, True)
    listener.call("unsubscribe", subscription=early["subscription"])
    listener.call("subscribe", workspace=place.id, since=latest)
    save(place, ".memories/b.md", "rowan")
    assert receive(listener)["paths"] == [".memories/b.md"]


@pytest.mark.parametrize("since", [0, -1, 1_000_000])
def test_a_subscriber_from_outside_the_kept_changes_is_notified_of_the_gap(
    place: Place, listener: Client, since: int
) -> None:
    place.client.call("sync", workspace=place.id, rebuild=True)
    listener.call("subscribe", workspace=place.id, since=since)
    assert not receive(listener)["complete"]


def test_unsubscribing_ends_the_subscription_and_the_connection_stays(
    place: Place, listener: Client
) -> None:
    first = listener.call("subscribe", workspace=place.id)["subscription"]
    second = listener.call("subscribe", workspace=place.id)["subscription"]
    listener.call("unsubscribe", subscription=first)
    save(place, "MEMORY.md", "larch")
    assert receive(listener)["subscription"] == second
    with pytest.raises(NotFound):
        listener.call("unsubscribe", subscription=first)
    with pytest.raises(NotFound):
        place.client.call("unsubscribe", subscription=second)


@pytest.mark.parametrize(
    "wrong", [{"since": 1}, {"paths": ["../x"]}, {"paths": ["/etc/*.md"]}, {"path": ["x"]}]
)
def test_an_invalid_subscription_is_refused(listener: Client, wrong: dict[str, Any]) -> None:
    with pytest.raises(BadRequest) as failure:
        listener.call("subscribe", **wrong)
    assert failure.value.hint


def test_the_number_of_subscriptions_of_a_connection_is_limited(listener: Client) -> None:
    for _ in range(64):
        listener.call("subscribe")
    with pytest.raises(BadRequest, match="subscriptions"):
        listener.call("subscribe")


def test_a_subscriber_of_a_removed_workspace_gets_no_more_notifications_and_stays_connected(
    listener: Client, make_place: MakePlace, home: Home
) -> None:
    place = make_place(home.make_folder())
    listener.call("subscribe", workspace=place.id)
    place.close()
    assert listener.call("ping")["name"] == "memsyncd"


def test_many_changes_at_once_are_few_notifications(place: Place, listener: Client) -> None:
    listener.call("subscribe", workspace=place.id)
    source = place.outside / "many"
    source.mkdir()
    for number in range(100):
        (source / f"{number}.md").write_text(f"larch {number}\n")
    source.rename(place.root / ".memories" / "many")
    received: set[str] = set()
    n_reported = 0
    while len(received) < 100:
        received.update(receive(listener)["paths"])
        n_reported += 1
    assert n_reported < 50
    shutil.rmtree(place.root / ".memories" / "many")


def test_a_subscriber_notices_the_end_of_the_daemon(make_home: Callable[[], Home]) -> None:
    daemon = make_home().start()
    with daemon.client() as client:
        client.call("subscribe")
        assert daemon.stop() == 0
        with pytest.raises(NoDaemon):
            receive(client)
