"""Metadata is changed where it is written, and no other byte of the note."""

from __future__ import annotations

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from memsyncd.core.editing.memories import (
    change_links,
    merge_section_relations,
    remove_sections,
    rename_section,
)
from memsyncd.core.editing.metadata import (
    KeyChange,
    WordsChange,
    change_comment,
    change_front_matter,
    read_note_meta,
    read_section_meta,
)
from memsyncd.core.editing.sections import (
    find_sections_bytes,
    replace_section,
    split_note_sections,
)
from memsyncd.core.editing.topics import RelationLink, merge_relations
from memsyncd.errors import EditRefused, NoteNotFound

PATH = "a.md"
A = "a.md#a"

SECTIONS = [
    (b"# A\n\ntext\n", {"status": "done"}, b"# A\n<!-- memory: {status: done} -->\n\ntext\n"),
    (b"# A", {"status": "done"}, b"# A\n<!-- memory: {status: done} -->"),
    (
        b"A\n===\ntext\n",
        {"task": "PAY-7"},
        b"A\n===\n<!-- memory: {task: PAY-7} -->\ntext\n",
    ),
    (
        b"\xef\xbb\xbf# A\r\n\r\ntext\r\n",
        {"kind": "error"},
        b"\xef\xbb\xbf# A\r\n<!-- memory: {kind: error} -->\r\n\r\ntext\r\n",
    ),
    (
        b"# A\n<!-- memory: {tags: [a,b], kind: 'note', x: 1} -->\n",
        {"kind": "error", "tags": WordsChange(add=("c",), remove=("B",)), "x": ""},
        b"# A\n<!-- memory: {tags: [a, c], kind: 'error'} -->\n",
    ),
    (
        b'# A\n\n  <!-- memory: { status: "open" } --> and text\n',
        {"status": "waits for: Bob"},
        b'# A\n\n  <!-- memory: { status: "waits for: Bob" } --> and text\n',
    ),
    (
        b"# A\r\n<!-- memory:\r\nkind: x # why\r\ntags:\r\n- a\r\n- b\r\n-->\r\ntext",
        {"tags": WordsChange(add=("c",)), "status": "y"},
        b"# A\r\n<!-- memory:\r\nkind: x # why\r\ntags:\r\n- a\r\n- b\r\n- c\r\nstatus: y\r\n-->\r\ntext",
    ),
    (
        b"# A\n<!-- memory: {wu_id: PAY-7} -->\n",
        {"task": "PAY-8"},
        b"# A\n<!-- memory: {wu_id: PAY-8} -->\n",
    ),
    (
        b"# A\n<!-- memory: {status: , kind: note} -->\n",
        {"status": "done"},
        b"# A\n<!-- memory: {status: done , kind: note} -->\n",
    ),
    (
        b"# A\n<!-- memory: {keywords: [pool, redis]} -->\n",
        {"keywords": WordsChange(only=("redis", "socket"))},
        b"# A\n<!-- memory: {keywords: [redis, socket]} -->\n",
    ),
]


@pytest.mark.parametrize(("data", "changes", "expected"), SECTIONS)
def test_a_section_states_the_change_and_nothing_else_differs(
    data: bytes, changes: dict[str, KeyChange], expected: bytes
) -> None:
    assert change_comment(PATH, data, A, changes) == expected


NOTES = [
    (b"", {"status": "done"}, b"---\nstatus: done\n---\n"),
    (b"# A\r\n", {"status": "done"}, b"---\r\nstatus: done\r\n---\r\n# A\r\n"),
    (
        b'---\ntitle: "A: b"\n# why\nTags:\n  - a\n  - b\n...\n# A\n',
        {"tags": WordsChange(remove=("a",), add=("c d",)), "priority": "P1"},
        b'---\ntitle: "A: b"\n# why\nTags:\n  - b\n  - c d\npriority: P1\n...\n# A\n',
    ),
    (b"---\nstatus: open\n---\ntext", {"status": ""}, b"text"),
    (
        b"---\ntitle: Redis: why\ntags: [a, b]\n\nglobs: **/*.ts\n---\n",
        {"status": "done", "title": "Redis", "tags": WordsChange(add=("c",))},
        b"---\ntitle: Redis\ntags: [a, b, c]\n\nglobs: **/*.ts\nstatus: done\n---\n",
    ),
    (
        b"---\ntext: |\n  long\n  text\nstatus: open\n---\n",
        {"text": "short"},
        b"---\ntext: short\nstatus: open\n---\n",
    ),
]


@pytest.mark.parametrize(("data", "changes", "expected"), NOTES)
def test_a_note_states_the_change_and_nothing_else_differs(
    data: bytes, changes: dict[str, KeyChange], expected: bytes
) -> None:
    assert change_front_matter(PATH, data, changes) == expected


@pytest.mark.parametrize(
    "data",
    [
        b"# A\n<!-- memory: {kind: [a, b} -->\n",
        b"# A\n<!-- memory: just words -->\n",
        b"# A\n<!-- memory: {a: &x b, c: *x} -->\n",
        b"\xff\xfe#\x00 \x00A\x00\n\x00",
    ],
)
def test_metadata_of_another_form_stays_as_it_is(data: bytes) -> None:
    with pytest.raises((EditRefused, NoteNotFound)) as refusal:
        change_comment(PATH, data, A, {"status": "done"})
    assert refusal.value.hint


@pytest.mark.parametrize(
    "below", [b"    <!-- memory: {kind: note} -->\n", b"text\n<!-- memory: {kind: note} -->\n"]
)
def test_a_comment_that_is_not_the_section_s_own_is_text(below: bytes) -> None:
    changed = change_comment(PATH, b"# A\n" + below, A, {"status": "done"})
    assert changed == b"# A\n<!-- memory: {status: done} -->\n" + below


def test_a_section_that_is_not_there_or_has_no_heading_is_refused() -> None:
    with pytest.raises(NoteNotFound):
        change_comment(PATH, b"# B\n", A, {"status": "done"})
    with pytest.raises(EditRefused, match="has no heading"):
        change_comment(PATH, b"text\n\n# B\n", "a.md#", {"status": "done"})
    with pytest.raises(EditRefused, match="no markdown"):
        change_front_matter("a.txt", b"text", {"status": "done"})


# --- properties ---------------------------------------------------------------------------------

HEADINGS = ["# A", "## B", "### C", "## B", "Setext\n------", "Title\n=====", "## D ##"]
COMMENTS = [
    "",
    "<!-- memory: {kind: decision} -->",
    "\n<!-- memory: { kind: 'error', tags: [a, \"b\"] } -->",
    "<!-- memory:\nkind: note\ntags:\n- a\n- b\nstatus: open\n-->",
    "<!-- memory: kind: note -->",
    "  <!--memory: {status: open, source: {x: y}, own: 1}--> text beside",
]
BODIES = [
    "",
    "text",
    "\ntext\n\n- item\n",
    "```\n# no heading\n```",
    "\n<!-- memory: {kind: note} -->",
    "- resolves [[b#X]]",
    "\xa0 é \u2028 text",
]
FRONTS = [
    "",
    "---\nstatus: open\n---\n",
    "---\ntitle: 'A'\ntags: [x, y]\n---\n\n",
    '---\ntags:\n- x\n# note\nkind: "note"\n...\n',
    "---\n{kind: note, tags: [x]}\n---\n",
]


@st.composite
def make_notes(draw: st.DrawFn) -> bytes:
    parts = [
        "\n".join(filter(None, (heading, comment))) + "\n" + body
        for heading, comment, body in draw(
            st.lists(
                st.tuples(
                    st.sampled_from(HEADINGS), st.sampled_from(COMMENTS), st.sampled_from(BODIES)
                ),
                min_size=1,
                max_size=4,
            )
        )
    ]
    text = draw(st.sampled_from(FRONTS)) + draw(st.sampled_from(["\n", "\n\n"])).join(parts)
    text += draw(st.sampled_from(["", "\n", "\n\n"]))
    text = text.replace("\n", draw(st.sampled_from(["\n", "\r\n", "\r"])))
    return draw(st.sampled_from([b"", b"\xef\xbb\xbf"])) + text.encode()


WORDS = st.sampled_from(["done", "P1", "x: y", "it's", 'a "b"', "-->", "#1", "é", "2026-01-02"])


def read_own(data: bytes, *, without: str = "") -> dict[str, bytes]:
    return {
        anchor: data[slice(*place)]
        for anchor, place in find_sections_bytes(PATH, data).items()
        if anchor != without
    }


def list_headed(data: bytes) -> list[str]:
    return [one.anchor for one in split_note_sections(PATH, data) if one.level]


@given(data=make_notes(), key=st.sampled_from(["task", "session", "own_key"]), value=WORDS,
       at=st.integers(0, 3))  # fmt: skip
def test_to_set_a_key_and_to_remove_it_gives_the_same_bytes(
    data: bytes, key: str, value: str, at: int
) -> None:
    anchors = list_headed(data)
    anchor = anchors[at % len(anchors)]
    changed = change_comment(PATH, data, anchor, {key: value})
    assert read_own(changed, without=anchor) == read_own(data, without=anchor)
    assert change_comment(PATH, changed, anchor, {key: ""}) == data
    noted = change_front_matter(PATH, data, {key: value})
    assert change_front_matter(PATH, noted, {key: ""}) == data


@given(data=make_notes(), status=st.sampled_from(["done", "blocked"]), at=st.integers(0, 3))
def test_to_set_a_status_and_then_the_former_one_gives_the_same_bytes(
    data: bytes, status: str, at: int
) -> None:
    anchors = list_headed(data)
    anchor = anchors[at % len(anchors)]
    former = read_section_meta(PATH, data, anchor).status or ""
    changed = change_comment(PATH, data, anchor, {"status": status})
    assert read_section_meta(PATH, changed, anchor).status == status
    assert change_comment(PATH, changed, anchor, {"status": former}) == data
    former = read_note_meta(PATH, data).status or ""
    noted = change_front_matter(PATH, data, {"status": status})
    assert read_note_meta(PATH, noted).status == status
    assert change_front_matter(PATH, noted, {"status": former}) == data


@given(data=make_notes(), tag=st.sampled_from(["new", "x y", "c#", "é"]), at=st.integers(0, 3))
def test_to_add_a_tag_and_to_remove_it_gives_the_same_bytes(data: bytes, tag: str, at: int) -> None:
    anchors = list_headed(data)
    anchor = anchors[at % len(anchors)]
    add, remove = ({"tags": one} for one in (WordsChange(add=(tag,)), WordsChange(remove=(tag,))))
    changed = change_comment(PATH, data, anchor, add)
    assert tag in read_section_meta(PATH, changed, anchor).tags
    assert change_comment(PATH, changed, anchor, remove) == data
    assert change_front_matter(PATH, change_front_matter(PATH, data, add), remove) == data


@given(data=make_notes(), at=st.integers(0, 3))
def test_to_relate_and_to_remove_the_relation_gives_the_same_bytes(data: bytes, at: int) -> None:
    anchors = list_headed(data)
    anchor = anchors[at % len(anchors)]
    link = [RelationLink("caused_by", "b#Y")]
    try:
        changed = merge_section_relations(PATH, data, anchor, link, [], identify=str)
    except EditRefused:
        return  # the next heading would go on in the list
    assert read_own(changed, without=anchor) == read_own(data, without=anchor)
    assert merge_section_relations(PATH, changed, anchor, link, [], identify=str) == changed
    assert merge_section_relations(PATH, changed, anchor, [], link, identify=str) == data


@given(data=make_notes())
@example(data=b"# T\nOne\n---\ntext")
@example(data=b"# A\n- resolves [[b#X]]\n\nSetext\n------\n")
@example(data=b"# T\n\ntext")
@example(data=b"text\r\n\r\nTitle\r\n===\r\n")
@example(data=b"")
def test_to_relate_a_note_and_to_remove_the_relation_gives_the_same_bytes(data: bytes) -> None:
    link = [RelationLink("caused_by", "b#Y"), RelationLink("informs", "c")]
    try:
        changed = merge_relations(PATH, data, link, [], identify=str)
    except EditRefused:
        return
    assert changed != data
    assert merge_relations(PATH, changed, link, [], identify=str) == changed
    assert merge_relations(PATH, changed, [], link, identify=str) == data


@given(data=make_notes(), at=st.integers(0, 3))
def test_a_heading_changes_alone(data: bytes, at: int) -> None:
    sections = split_note_sections(PATH, data)
    headed = [one for one in sections if one.level]
    section = headed[at % len(headed)]
    assume(" " not in section.heading[-1])  # a heading of two lines becomes one line
    changed, moved = rename_section(PATH, data, section.anchor, "New words")
    assert list(moved) == [one.anchor for one in sections]
    new = moved[section.anchor]
    back, _ = rename_section(PATH, changed, new, section.heading[-1])
    assert back == data


@given(data=make_notes(), chosen=st.sets(st.integers(0, 3), min_size=1))
def test_sections_are_removed_and_all_others_keep_their_bytes(
    data: bytes, chosen: set[int]
) -> None:
    sections = split_note_sections(PATH, data)
    headed = [one for one in sections if one.level]
    gone = {headed[at].anchor for at in chosen if at < len(headed)}
    try:
        left = remove_sections(PATH, data, gone)
    except EditRefused:
        return
    own = read_own(data)
    kept = [own[one.anchor].strip() for one in sections if one.anchor not in gone]
    after = [text.strip() for text in read_own(left).values()]
    assert [text for text in after if text] == [text for text in kept if text]


STEPS = st.sampled_from(["set", "tag", "relate", "title", "edit", "forget", "note"])


@given(data=make_notes(), steps=st.lists(st.tuples(STEPS, st.integers(0, 3)), max_size=6))
def test_any_sequence_of_changes_leaves_the_bytes_of_all_other_sections(
    data: bytes, steps: list[tuple[str, int]]
) -> None:
    for number, (step, at) in enumerate(steps):
        anchors = list_headed(data)
        if not anchors:
            return
        anchor = anchors[at % len(anchors)]
        try:
            changed = take_step(step, data, anchor, number)
        except EditRefused:
            continue  # and the note stays as it is
        own = [*read_own(data).items()]
        others = [text.strip() for name, text in own if name != anchor and not_front(name, step)]
        after = [text.strip() for text in read_own(changed).values()]
        left = iter(after)
        assert all(text in left for text in filter(None, others)), (step, anchor)
        data = changed


def not_front(anchor: str, step: str) -> bool:
    return step != "note" or anchor != "a.md#"


def take_step(step: str, data: bytes, anchor: str, number: int) -> bytes:
    if step == "set":
        return change_comment(PATH, data, anchor, {"status": f"s{number}", "own": ""})
    if step == "tag":
        change = WordsChange(add=(f"t{number}",), remove=("a",))
        return change_comment(PATH, data, anchor, {"tags": change})
    if step == "relate":
        link = [RelationLink("caused_by", f"b#Y{number}")]
        return merge_section_relations(PATH, data, anchor, link, [], identify=str)
    if step == "title":
        return rename_section(PATH, data, anchor, f"Title {number}")[0]
    if step == "forget":
        return remove_sections(PATH, data, [anchor])
    if step == "note":
        return change_front_matter(PATH, data, {"status": f"s{number}"})
    return replace_section(PATH, data, anchor, f"# Edited {number}\n\ntext\n\n".encode())


def test_links_are_led_elsewhere_or_removed() -> None:
    data = (
        b"See [[b#X|the x]], [[b#X]], ![[b#X]] and [it](b.md#x).\r\n\r\n- resolves [[b#X]]\r\n"
        b"- resolves [[c]]\r\n`[[b#X]]`\r\n\r\n- caused_by [[b#X]]"
    )
    led = change_links(PATH, data, lambda one: "New x" if one.target.startswith("b") else None)
    assert led == data.replace(b"b#X", b"b#New x").replace(b"b.md#x", b"b.md#new-x").replace(
        b"`[[b#New x]]`", b"`[[b#X]]`"
    )
    gone = change_links(PATH, data, lambda one: "" if one.target.startswith("b") else None)
    assert gone == b"See the x, X, X and it.\r\n\r\n- resolves [[c]]\r\n`[[b#X]]`"
