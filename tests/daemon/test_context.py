"""A context block from the daemon: it has the latest save, and lists what it omits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from memsyncd.core.model import count_tokens
from memsyncd.errors import BadRequest

if TYPE_CHECKING:
    from tests.daemon.conftest import Place

pytestmark = pytest.mark.shared_daemon

DECISIONS = "# Decisions\n\n## Postgres\n<!-- memory: {kind: decision} -->\n\nWe chose Postgres for its row locks.\n"


def test_a_block_has_the_latest_save_and_lists_what_it_includes_and_omits(place: Place) -> None:
    def ask(**params: object) -> Any:
        return place.client.call("context", workspace=place.id, **params)

    place.save(".memories/decisions.md", DECISIONS)
    answer = ask(query="why postgres", wait="disk")
    [part] = answer["included"]
    assert (part["anchor"], part["start_line"], part["end_line"], part["kind"], part["reason"]) == (
        ".memories/decisions.md#decisions/postgres",
        3,
        6,
        "decision",
        "match",
    )
    assert answer["text"].startswith(
        "## Prior Knowledge\n\n### Decisions › Postgres (decision) · .memories/decisions.md:3-6\n"
    )
    assert answer["tokens"] == count_tokens(answer["text"])
    assert (answer["left_out"], answer["why_empty"], answer["workspace"]) == ([], None, place.id)
    # A block keeps its budget and heading.
    long = "\n".join(f"- line {i} about postgres, saved a moment ago" for i in range(300))
    place.save(".memories/long.md", f"# Long\n\n{long}\n")
    short = {"max_bytes": 300, "heading": "# Notes"}
    answer = ask(query="postgres", wait="disk", **short)
    assert len(answer["text"].encode()) <= 300
    answer = ask(query="postgres", max_tokens=100, heading="# Notes")
    assert answer["text"].startswith("# Notes\n\n###")
    assert answer["tokens"] <= 100
    assert {part["reason"] for part in answer["left_out"]} == {"no room"}
    assert "a moment ago" in ask()["text"]
    (place.root / ".memories" / "long.md").unlink()
    assert "a moment ago" not in ask(wait="disk")["text"]
    # An empty one has its reason beside the text.
    answer = ask(query="zebra")
    assert (answer["text"], answer["tokens"], answer["included"]) == ("", 0, [])
    assert "zebra" in answer["why_empty"]
    for name, value in (("max_tokens", 99), ("max_bytes", 1), ("heading", "#" * 201)):
        with pytest.raises(BadRequest, match=name):
            ask(**{name: value})
