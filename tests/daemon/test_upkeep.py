"""Archives and promotions through the socket: planned, carried out, and taken back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from memsyncd.client.memory import Memsyncd
from memsyncd.errors import BadRequest, Conflict

if TYPE_CHECKING:
    from tests.daemon.conftest import Place

pytestmark = pytest.mark.shared_daemon


def test_an_archive_is_previewed_carried_out_and_restored_to_the_same_bytes(
    place: Place, memory: Memsyncd
) -> None:
    old = memory.add("The build failed on Monday.", kind="tool_run", created="2020-01-01")
    kept = memory.add("Never deploy on Fridays.", kind="preference", created="2020-01-01")
    lasting = memory.add("Ports and adapters.", lifecycle="project", created="2020-01-01")
    note = place.root / old["path"]
    before = note.read_bytes()

    planned = memory.archive(below=0.1)
    assert [archived["anchor"] for archived in planned["archived"]] == [old["anchor"]]
    assert not planned["is_applied"]
    assert note.read_bytes() == before
    skipped = {skipped["anchor"]: skipped["reason"] for skipped in planned["skipped"]}
    assert {kept["anchor"], lasting["anchor"]} <= skipped.keys()

    done = memory.archive(below=0.1, apply=True, plan=planned["plan"])
    assert done["archived"] == planned["archived"]
    assert b"status: archived" in note.read_bytes()
    assert memory.search("build failed") == []
    assert len(memory.search("build failed", include_archived=True)) == 1
    with pytest.raises(Conflict):
        memory.archive(below=0.1, apply=True, plan=planned["plan"])

    [restored] = memory.unarchive(old["anchor"], apply=True)["restored"]
    assert restored["anchor"] == old["anchor"]
    assert note.read_bytes() == before


def test_a_caller_of_the_former_way_is_told_the_present_one(memory: Memsyncd) -> None:
    added = memory.add("Three retries are enough.", summary="Retries", kind="summary")
    with pytest.raises(BadRequest, match="dry_run") as refused:
        memory._connection.write("promote", {"anchor": added["anchor"], "dry_run": False})
    assert "apply: true" in refused.value.hint
    former: Any = memory.promote
    with pytest.raises(TypeError, match="apply=True"):
        former(added["anchor"], tag="pattern", dry_run=False)
    assert memory.profile()["items"] == []


def test_the_summaries_of_a_task_are_promoted_once_with_a_link_to_their_source(
    memory: Memsyncd,
) -> None:
    memory.add("Three retries are enough.", summary="Retries", kind="summary", task="WU-1")
    memory.add("Jitter spreads the load.", summary="Jitter", kind="summary", task="WU-1")
    memory.add("Another task's.", summary="Other", kind="summary", task="WU-2")
    planned = memory.promote(task="WU-1", tag="decision")
    assert [promoted["heading"] for promoted in planned["promoted"]] == ["Retries", "Jitter"]
    assert memory.profile()["items"] == []

    first = memory.promote(task="WU-1", tag="decision", apply=True, plan=planned["plan"])
    with pytest.raises(Conflict):
        memory.promote(task="WU-1", tag="decision", apply=True, plan=planned["plan"])
    again = memory.promote(task="WU-1", tag="decision", apply=True)
    assert [promoted["is_new"] for promoted in first["promoted"]] == [True, True]
    assert [promoted["is_new"] for promoted in again["promoted"]] == [False, False]
    assert [promoted["anchor"] for promoted in again["promoted"]] == [
        promoted["anchor"] for promoted in first["promoted"]
    ]
    assert memory.profile()["tags"] == {"decision": 2}
    anchor = first["promoted"][0]["anchor"]
    assert anchor is not None
    [link] = memory.links(anchor, relation="discovered_from", direction="out")["links"]
    assert link["to"] == first["promoted"][0]["source"]
    assert first["change_set"] is not None
    memory.undo(change_set=first["change_set"])
    assert memory.profile()["items"] == []
