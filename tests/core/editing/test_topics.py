"""A topic's note is made, and its metadata, summary and relations change without anything else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.editing.additions import Addition
from memsyncd.core.editing.topics import (
    RelationLink,
    find_topic_faults,
    list_relations,
    make_topic,
    merge_relations,
    patch_front_matter,
    read_summary,
    replace_summary,
)
from memsyncd.core.markdown.frontmatter import find_front_matter
from memsyncd.core.markdown.links import make_key
from memsyncd.errors import EditRefused

PATH = "auth.md"
AT = "2026-11-23T04:10:00Z"
FORMS = [
    b"",
    b"text\n",
    b"# T",
    b"# T\n\ntext\n\n## F\n\nx\n",
    b"## F\r\nx\r\n",
    b"\xef\xbb\xbf# T\r\n\r\ntext\r\n",
    b"---\ntags:\n  - a\n  - b\nwu_id: 3\n# a remark\nother: [x, y]\n---\n# T\n\nhi\n",
    b"---\ntitle: X\n---\n\n- part_of [[a]]\n\n# T\n- informs [[b]]\n\ntext\n",
    b"T\n=\n<!-- memory: {kind: note} -->\ntext\n",
]
words = st.from_regex(r"[a-z]{1,8}", fullmatch=True)
relations = st.lists(st.builds(RelationLink, words, st.sampled_from(["a", "b", "x/c", "a#Head"])))


def test_a_topic_is_a_note_with_front_matter_title_summary_relations_and_fields() -> None:
    metadata = Addition(content="Sessions live in Redis.", summary="Auth", tags=("auth",))
    links = [
        RelationLink("resolved_by", "redis"),
        RelationLink("resolved_by", "[[.memories/redis]]"),
    ]
    data, anchors = make_topic(PATH, metadata, {"Status": "Redis 7"}, links, at=AT)
    assert data.decode() == (
        f"---\ntags: [auth]\ncreated: {AT}\n---\n\n# Auth\n\nSessions live in Redis.\n\n"
        f"- resolved_by [[redis]]\n\n## Status\n<!-- memory: {{created: {AT}}} -->\n"
        f"- {AT} Redis 7\n"
    )
    assert anchors == ["auth.md#auth/status"]


def test_every_fault_of_a_topic_is_named() -> None:
    metadata = Addition(content="a\n# head", summary="two\nlines", importance=2, priority="P7")
    links = [RelationLink("Not One", "x"), RelationLink("part_of", "a]]b")]
    fields = {" ": "x", "Status": " ", "a\nb": "x"}
    faults = [fault.message for fault in find_topic_faults(metadata, fields, links)]
    assert faults == [
        "title: is not one line",
        "importance: is not from 0 to 1",
        "priority: is none of P0, P1, P2, P3",
        "summary: holds a heading",
        "fields: contain a field without a name",
        "fields.Status: is empty",
        "fields.a\nb: is not one line",
        "relations: contain a kind that is not one word",
        "relations: lead to a place that no link can name",
    ]
    assert not [*find_topic_faults(Addition(content="", summary="Auth"), {}, ())]
    (untitled,) = find_topic_faults(Addition(content="text"), {}, ())
    assert untitled.message == "title: is empty"


@pytest.mark.parametrize("data", FORMS)
def test_a_patch_sets_and_removes_keys_and_keeps_every_other_line(data: bytes) -> None:
    changes = {"task": "WU-1", "tags": "[z]", "owner": "infra", "priority": ""}
    patched = patch_front_matter(PATH, data, changes)
    lines = patched.decode("utf-8-sig").splitlines()
    meta = find_front_matter(PATH, lines).meta
    assert (meta.task, meta.tags, dict(meta.extra)["owner"]) == ("WU-1", ("z",), "infra")
    kept = [line for line in data.decode("utf-8-sig").splitlines() if "wu_id" not in line]
    assert [
        line for line in kept if line and "tags" not in line and not line.startswith("  -")
    ] == [line for line in lines if line in kept and line][: len(lines)] or not data
    assert patch_front_matter(PATH, patched, changes) == patched
    removed = patch_front_matter(PATH, patched, {"task": "", "owner": ""})
    assert b"WU-1" not in removed
    assert b"infra" not in removed


def test_front_matter_of_another_form_is_changed_or_refused() -> None:
    data = b"---\n{tags: a}\n---\n"
    assert patch_front_matter(PATH, data, {"tags": "[z]"}) == b"---\n{tags: [z]}\n---\n"
    # A property beneath it would count over the front matter.
    with pytest.raises(EditRefused, match="has another form"):
        patch_front_matter(PATH, b"priority:: P1\n\ntext\n", {"priority": "P2"})


@pytest.mark.parametrize("data", FORMS)
def test_a_summary_is_replaced_and_relations_and_sections_stay(data: bytes) -> None:
    written = replace_summary(PATH, data, "One line.\n\nAnother.")
    assert read_summary(PATH, written) == "One line.\n\nAnother."
    assert list_relations(PATH, written) == list_relations(PATH, data)
    assert data.split(b"## F")[1:] == written.split(b"## F")[1:]
    assert replace_summary(PATH, written, "One line.\n\nAnother.") == written
    assert read_summary(PATH, replace_summary(PATH, written, "")) == ""


@given(st.sampled_from(FORMS), relations, relations)
def test_merging_relations_twice_equals_once_and_removing_takes_them_out(
    data: bytes, relate: list[RelationLink], unrelate: list[RelationLink]
) -> None:
    once = merge_relations(PATH, data, relate, (), identify=make_key)
    assert merge_relations(PATH, once, relate, (), identify=make_key) == once
    kinds = {(link.kind, link.to) for link in list_relations(PATH, once)}
    assert kinds >= {(link.kind, link.to) for link in relate if link.to != "x/c"}
    assert len(list_relations(PATH, once)) == len(
        {(link.kind, make_key(link.to.partition("#")[0]), "#" in link.to) for link in relate}
        | {(link.kind, make_key(link.to), False) for link in list_relations(PATH, data)}
    )
    left = merge_relations(PATH, once, (), unrelate, identify=make_key)
    gone = {(link.kind, link.to) for link in unrelate}
    assert not gone & {(link.kind, link.to) for link in list_relations(PATH, left)}
