"""The metadata of notes and sections is returned by search, get, list and context."""

from __future__ import annotations

import os
from datetime import datetime
from typing import Any

import msgspec
import pytest

from memsyncd.core.editing.kinds import DEFAULT_KINDS
from memsyncd.engine.browse import list_notes, read_place
from memsyncd.protocol.search import GetParams, ListParams, SectionMeta
from tests.engine.conftest import SEARCH_POLICY, build_block, search_in

NOTE = """---
title: Pool
kind: decision
tags: [ops]
task: WU-7
session: s-1
source: review
priority: P1
lifecycle: task
created: 2026-03-01
updated: 2026-04-02
expires: 2026-12-31
status: in-progress
reviewers: [ann, bo]
Owner: infra
---
# Pool

Thirty connections.

## Sizes
<!-- memory: {importance: 0.9, kind: error, Owner: me, colour: blue, created: 2026-05-06, status: active} -->

Each one takes 10 MB.
"""
OF_NOTE = {
    "kind": "decision", "tags": ["ops"], "importance": 0.7, "is_importance_stated": False,
    "priority": "P1", "lifecycle": "task", "task": "WU-7", "session": "s-1", "source": "review",
    "created": "2026-03-01", "updated": "2026-04-02", "expires": "2026-12-31", "is_expired": False,
    "status": "in-progress", "day": "2026-03-01", "is_day_of_file": False,
    "meta": {"title": "Pool", "reviewers": "ann, bo", "Owner": "infra"},
}  # fmt: skip
OF_SECTION = {
    **OF_NOTE, "kind": "error", "importance": 0.9, "is_importance_stated": True,
    "created": "2026-05-06", "status": "active", "day": "2026-05-06",
    "meta": {"title": "Pool", "reviewers": "ann, bo", "Owner": "me", "colour": "blue"},
}  # fmt: skip
NOW_S = datetime.fromisoformat("2026-11-20T12:00").timestamp()
SECTION = "MEMORY.md#pool/sizes"


@pytest.fixture
def filled(bench: Any) -> Any:
    bench.write("MEMORY.md", NOTE)
    bench.sync()
    return bench


def read_meta(one: SectionMeta) -> dict[str, Any]:
    return {name: getattr(one, name) for name in SectionMeta.__struct_fields__}


def get(bench: Any, **place: Any) -> dict[str, Any]:
    read, _ = read_place(bench.workspace, GetParams(**place), now_ns=int(NOW_S * 1e9))
    return read_meta(read)


def test_every_answer_has_the_metadata_of_a_section_over_that_of_its_note(filled: Any) -> None:
    [hit] = search_in([filled.workspace], "thirty", now_s=NOW_S).hits
    assert read_meta(hit) == OF_NOTE
    [hit] = search_in([filled.workspace], "takes", now_s=NOW_S).hits
    assert read_meta(hit) == OF_SECTION
    assert get(filled, anchor=SECTION) == OF_SECTION
    assert get(filled, path="MEMORY.md", start_line=21) == OF_SECTION
    assert get(filled, path="MEMORY.md") == OF_NOTE
    [note] = list_notes(filled.workspace, SEARCH_POLICY, ListParams(), now_s=NOW_S)
    assert [read_meta(one) for one in note.sections] == [OF_NOTE, OF_NOTE, OF_SECTION]
    built = build_block(filled.workspace, "takes", now_s=NOW_S)
    assert [read_meta(one) for one in built.included] == [OF_SECTION]
    assert msgspec.json.decode(msgspec.json.encode(built.included[0]))["meta"] == OF_SECTION["meta"]


def test_importance_is_that_of_the_kind_where_none_is_stated(bench: Any) -> None:
    for kind, defaults in DEFAULT_KINDS.items():
        bench.write(f".memories/{kind}.md", f"---\nkind: {kind.upper()}\n---\nword{kind}\n")
        bench.sync()
        [hit] = search_in([bench.workspace], f"word{kind}").hits
        assert (hit.importance, hit.is_importance_stated) == (defaults.importance, False)
    bench.write("MEMORY.md", "plain\n")
    bench.sync()
    [hit] = search_in([bench.workspace], "plain").hits
    assert (hit.kind, hit.importance, hit.is_importance_stated) == (None, 0.5, False)


def test_a_note_without_a_date_has_the_day_of_saving_and_says_so(bench: Any) -> None:
    saved_s = datetime.fromisoformat("2025-06-07T08:09").timestamp()
    os.utime(bench.write("MEMORY.md", "plain\n"), (saved_s, saved_s))
    os.utime(bench.write(".memories/2024-01-02.md", "plain\n"), (saved_s, saved_s))
    bench.sync()
    assert {
        hit.path: (hit.day, hit.is_day_of_file)
        for hit in search_in([bench.workspace], "plain").hits
    } == {"MEMORY.md": ("2025-06-07", True), ".memories/2024-01-02.md": ("2024-01-02", False)}


def test_metadata_follows_an_edit_of_the_front_matter_and_of_a_comment(filled: Any) -> None:
    filled.write("MEMORY.md", NOTE.replace("infra", "data").replace("colour: blue, ", ""))
    filled.sync()
    assert get(filled, anchor="MEMORY.md#pool")["meta"]["Owner"] == "data"
    own = {"title": "Pool", "reviewers": "ann, bo", "Owner": "me"}
    assert get(filled, anchor=SECTION)["meta"] == own
    filled.write("MEMORY.md", NOTE.partition("---\n# Pool")[2])
    filled.sync()
    assert get(filled, path="MEMORY.md")["meta"] == {}


def test_secrets_in_metadata_are_redacted_where_it_is_shown(bench: Any) -> None:
    token = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
    bench.write(
        "MEMORY.md", f"---\nsource: {token}\npassword: Hunter2!x9Qz\nbuild: {token}\n---\nplain\n"
    )
    bench.sync()
    [hit] = search_in([bench.workspace], "plain").hits
    [note] = list_notes(bench.workspace, SEARCH_POLICY, ListParams())
    built = build_block(bench.workspace, "plain")
    for shown in (hit, note, built.included[0]):
        text = msgspec.json.encode(shown).decode()
        assert token not in text
        assert "Hunter2" not in text


def test_a_long_value_is_cut(bench: Any) -> None:
    bench.write("MEMORY.md", f"---\nlog: {'x' * 50_000}\n---\nplain\n")
    bench.sync()
    assert get(bench, path="MEMORY.md")["meta"] == {"log": "x" * 1000}
