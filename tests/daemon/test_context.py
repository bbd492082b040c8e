"""Context blocks from the daemon: they contain the latest save, and list what they omit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from memsyncd.core.model import count_tokens
from memsyncd.errors import BadRequest, NotFresh, WorkspaceNotFound
from tests.daemon.conftest import Place, write_first_notes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.daemon.conftest import Daemon, Home

pytestmark = pytest.mark.shared_daemon

DECISIONS = "# Decisions\n\n## Postgres\n<!-- memory: {kind: decision} -->\n\nWe chose Postgres for its row locks.\n"


@pytest.fixture(scope="module")
def filled_place(home: Home, daemon: Daemon) -> Iterator[Place]:
    """One daemon for all; a test that adds a note removes it again."""
    root = home.make_folder()
    write_first_notes(root)
    (root / ".memories" / "decisions.md").write_text(DECISIONS)
    place = Place(home, daemon, root)
    yield place
    place.close()


def test_a_block_has_its_included_sections_and_freshness(filled_place: Place) -> None:
    answer = filled_place.client.call("context", query="why postgres", workspace=filled_place.id)
    [part] = answer["included"]
    assert (
        part["anchor"],
        part["path"],
        part["start_line"],
        part["end_line"],
        part["heading"],
        part["kind"],
        part["reason"],
    ) == (
        ".memories/decisions.md#decisions/postgres",
        ".memories/decisions.md",
        3,
        6,
        ["Decisions", "Postgres"],
        "decision",
        "match",
    )
    assert answer["text"].startswith(
        "## Prior Knowledge\n\n### Decisions › Postgres (decision) · .memories/decisions.md:3-6\n"
    )
    assert answer["tokens"] == count_tokens(answer["text"])
    assert (answer["left_out"], answer["why_empty"], answer["workspace"]) == (
        [],
        None,
        filled_place.id,
    )
    assert answer["freshness"]["generation"] >= 1


def test_a_block_that_waits_for_the_disk_has_the_latest_save(filled_place: Place) -> None:
    (filled_place.root / ".memories" / "now.md").write_text("Postgres was saved a moment ago.\n")
    assert (
        "a moment ago"
        in filled_place.client.call(
            "context", query="postgres", workspace=filled_place.id, wait="disk"
        )["text"]
    )
    assert "a moment ago" in filled_place.client.call("context", workspace=filled_place.id)["text"]
    (filled_place.root / ".memories" / "now.md").unlink()
    assert (
        "a moment ago"
        not in filled_place.client.call("context", workspace=filled_place.id, wait="disk")["text"]
    )
    filled_place.wait_equal()


def test_a_generation_that_is_not_reached_in_time_is_reported(filled_place: Place) -> None:
    with pytest.raises(NotFresh):
        filled_place.client.call(
            "context", workspace=filled_place.id, min_generation=1_000_000, timeout_ms=50
        )


def test_a_block_keeps_its_budget_and_heading(filled_place: Place) -> None:
    long = "\n".join(f"- line {i} about postgres" for i in range(300))
    (filled_place.root / ".memories" / "long.md").write_text(f"# Long\n\n{long}\n")
    answer = filled_place.client.call(
        "context",
        query="postgres",
        workspace=filled_place.id,
        max_tokens=100,
        max_bytes=300,
        heading="# Notes",
        wait="disk",
    )
    assert answer["text"].startswith("# Notes\n\n###")
    assert answer["tokens"] <= 100
    assert len(answer["text"].encode()) <= 300
    assert {part["reason"] for part in answer["left_out"]} == {"no room"}
    (filled_place.root / ".memories" / "long.md").unlink()
    filled_place.client.call("sync", workspace=filled_place.id)
    filled_place.wait_equal()


def test_an_empty_block_has_a_reason_beside_the_text(filled_place: Place) -> None:
    answer = filled_place.client.call("context", query="zebra", workspace=filled_place.id)
    assert (answer["text"], answer["tokens"], answer["included"]) == ("", 0, [])
    assert "zebra" in answer["why_empty"]


@pytest.mark.parametrize(
    "params", [{"max_tokens": 99}, {"max_tokens": 50_001}, {"max_bytes": 1}, {"heading": "#" * 201}]
)
def test_a_budget_out_of_bounds_is_refused_with_its_name(
    filled_place: Place, params: dict[str, object]
) -> None:
    with pytest.raises(BadRequest, match=next(iter(params))):
        filled_place.client.call("context", workspace=filled_place.id, **params)


def test_a_block_without_a_workspace_is_refused(filled_place: Place) -> None:
    with pytest.raises(WorkspaceNotFound):
        filled_place.client.call("context", workspace="nowhere")
