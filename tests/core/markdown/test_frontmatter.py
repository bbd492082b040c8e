from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.markdown import frontmatter
from memsyncd.core.markdown.frontmatter import (
    FRONT_MATTER_LIMIT_CHARS,
    find_front_matter,
    find_section_meta,
    parse_meta,
)
from memsyncd.core.model import EMPTY_META, Meta, parse_expiry
from tests.core.guard.test_secrets import make


def read(text: str) -> tuple[Meta, list[tuple[int, str]]]:
    meta, problems = parse_meta("a.md", text, 1)
    return meta, [(problem.line, problem.code) for problem in problems]


def test_front_matter_is_between_marks_at_the_very_top() -> None:
    for lines, n_lines in (
        (["---", "a: b", "---", "text"], 3),
        (["---  ", "a: b", "...", "text"], 3),
        (["---", "---", "text"], 2),
        (["---", "", "a", "---"], 0),
        (["---", "just text", "", "more"], 0),
        (["", "---", "a: b", "---"], 0),
        (["----", "a: b", "---"], 0),
        (["---"], 0),
        ([], 0),
        (["---", *["a: " + "b" * 1000] * (FRONT_MATTER_LIMIT_CHARS // 1000 + 1), "---"], 0),
    ):
        assert find_front_matter("a.md", lines).n_lines == n_lines, lines


def test_values_are_read_as_they_were_written() -> None:
    for text, meta in (
        ("", EMPTY_META),
        ("# only a comment", EMPTY_META),
        ("kind: Decision", Meta(kind="decision")),
        ("KIND: error", Meta(kind="error")),
        ("tags: [a, '#b', A, 3]", Meta(tags=("a", "b", "3"))),
        ("tags: a, b c", Meta(tags=("a", "b c"))),
        ("tags: '#a b'", Meta(tags=("a", "b"))),
        ("tags:\n- a\n- b", Meta(tags=("a", "b"))),
        ("importance: 1", Meta(importance=1.0)),
        ("priority: p2", Meta(priority="P2")),
        (
            "created: 2026-01-02\nexpires: 2027-01-01T10:00:00Z",
            Meta(created="2026-01-02", expires="2027-01-01T10:00:00Z"),
        ),
        ("status:", EMPTY_META),
        *((f"tags: {null}\nkind: {null}", EMPTY_META) for null in ("null", "~", "NULL")),
        ("tags: [null, a]\nkind: b", Meta(kind="b", tags=("a",))),
        ("tags:\n- ~\n- 'null'\n- \"#a\"", Meta(tags=("null", "a"))),
        ('tags: ["null"]\nowner: null', Meta(tags=("null",), extra=(("owner", ""),))),
        ("source: no", Meta(source="no")),
        ("Owner: ann\nlist: [1, {a: b}]", Meta(extra=(("Owner", "ann"), ("list", "1, a: b")))),
    ):
        assert read(text) == (meta, []), text


def test_an_impossible_value_is_a_problem_at_its_line() -> None:
    for text, problem in (
        ("a: 1\nimportance: 1.1", (2, "bad_value")),
        ("importance: nan", (1, "bad_value")),
        ("importance: high", (1, "bad_value")),
        ("kind: {a: b}", (1, "bad_value")),
        ("lifecycle: never", (1, "bad_value")),
        ("a: 1\nb: 2\na: 3", (3, "duplicate_key")),
        ("a: 1\nb: [", (2, "broken_yaml")),
        ("just words", (1, "broken_yaml")),
        ("- a\n- b", (1, "broken_yaml")),
        ("a: &x [1]\nb: [*x, *x]", (1, "yaml_refused")),
        ("a: " + "[" * 30 + "]" * 30, (1, "yaml_refused")),
        ("a: " + "[" * 60_000, (1, "yaml_refused")),
    ):
        assert read(text)[1] == [problem], text


def test_a_value_that_is_a_link_is_the_name_that_it_holds() -> None:
    lines = ["---", 'status: "[[Active]]"', "---", "kind:: [[Decision]]", "task:: [[T-1|one]]"]
    meta = find_front_matter("a.md", lines).meta
    assert meta == Meta(kind="decision", status="Active", task="T-1")


def test_metadata_that_cannot_be_meant_otherwise_is_a_problem() -> None:
    for text, line, code in (
        ("\n---\ntitle: T\nkind: decision\n---\ntext", 2, "unread_front_matter"),
        (" ---\ntitle: T\n ---\ntext", 1, "unread_front_matter"),
        ("\n\n---\ntags:\n  - a\n- b\n...\n", 3, "unread_front_matter"),
        ("---\npermalink: a/b\n---\n\n---\nname: n\nkind: b\n---\n", 5, "unread_front_matter"),
        ("---\na: b\n---\n---\ntags: [c]\n---\n", 4, "unread_front_matter"),
        ("---\ntags: #db #infra\n---", 2, "commented_tags"),
        ("---\na: b\ntags:\n  - ok\n  - #db\n---", 5, "commented_tags"),
        ("---\ntags: a, #b\n---", 2, "commented_tags"),
        ("---\nTag: #b\n---", 2, "commented_tags"),
    ):
        problems = find_front_matter("a.md", text.split("\n")).problems
        assert [(problem.line, problem.code) for problem in problems] == [(line, code)], text


def test_rules_headings_and_comments_are_no_metadata_that_is_passed_over() -> None:
    for text in (
        "\n---\n\ntitle: T\n---\n",
        "\n---\nNote: this is a heading\n---\n",
        "\n---\ntitle: it does not end",
        "\n---\ntitle: T\n\n---\n",
        "    ---\n    title: T\n    ---\n",
        "text\n\n---\ntitle: T\n---\n",
        "---\na: b\n---\n\n---\n\ntags: c\n\n---\n",
        "---\na: b\n---\ntext\n---\ntags: c\n---\n",
        "---\ntags: [a] # mine\n---",
        "---\ntags: # mine\n- a\n---",
        "---\ntags: ['#a', \"b #c\"]\n---",
        "---\ntags: 'b #c'\n---",
        "---\ntags: c#\nhashtags: #a\n---",
    ):
        assert find_front_matter("a.md", text.split("\n")).problems == (), text


def test_broken_yaml_is_read_line_by_line() -> None:
    meta, problems = read("title: Why: because\nkind: decision\ntags: [a, b]\nstatus: 'archived'")
    assert meta == Meta(
        kind="decision", tags=("a", "b"), status="archived", extra=(("title", "Why: because"),)
    )
    assert problems == [(1, "broken_yaml")]


def test_a_thousand_faults_are_not_a_thousand_problems() -> None:
    assert len(read("a: b\n" * 1000)[1]) == 20


def test_a_memory_comment_counts_if_it_is_the_first_thing() -> None:
    for lines, meta in (
        (["<!-- memory: {kind: error} -->"], Meta(kind="error")),
        (
            ["", "  <!--memory:", "kind: error", "importance: 0.5", "-->", "text"],
            Meta(kind="error", importance=0.5),
        ),
        (["text", "<!-- memory: {kind: error} -->"], EMPTY_META),
        (["<!-- memories: {kind: error} -->"], EMPTY_META),
        (["", ""], EMPTY_META),
    ):
        assert find_section_meta("a.md", lines, 0, len(lines)) == (meta, ()), lines


def test_no_problem_repeats_a_misplaced_secret() -> None:
    token = "github_pat_" + make(22) + "_" + make(59)
    front = find_front_matter(
        "a.md",
        ["---", f"lifecycle: {token}", f"expires: {token}", f"{token}: 1", f"{token}: 2", "---"],
    )
    assert [problem.code for problem in front.problems] == [
        "bad_value",
        "bad_value",
        "duplicate_key",
    ]
    assert not any(token[:12] in problem.problem for problem in front.problems)


FLAT_PARTS = st.sampled_from([
    "key", "tags", "importance", "kind", ":", ": ", " ", "a", "1", "no", "~", "2024-01-01", '"a b"', "'c'", '""',
    '"', "'", "[", "]", ", ", ",", "[a, b]", "- ", "#", " #", "!", "&", "*", "?", "|", ">", "{", "}", "@", "\\", "\n",
    "\nkind: ", "\ntags: ", ".", "(", "é", "\t", "10:30:00Z", "a@b", "b:c",
])  # fmt: skip


@given(
    st.lists(FLAT_PARTS, max_size=12).map("".join),
    st.sampled_from(
        ["key: %s", "{key: %s}", "{ key: a,  tags: [b, %s] ,kind: 'c, d: e' } ", "{key: a, %s: b}"]
    ),
)
def test_flat_metadata_is_read_as_yaml_reads_it(part: str, form: str) -> None:
    text = form % part
    parsed = parse_meta("a.md", text, 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frontmatter, "_read_flat_pairs", lambda text: None)
        assert parsed == parse_meta("a.md", text, 1)


def test_the_end_of_a_memory_is_a_day_or_a_time() -> None:
    for text, expiry in (
        ("2026-12-31", "2026-12-31"),
        ("20261231", "2026-12-31"),
        ("2026-12-31T18:00", "2026-12-31T18:00:00"),
        ("2026-12-31 18:00:05.5", "2026-12-31T18:00:05"),
        ("2026-12-31T18:00Z", "2026-12-31T18:00:00Z"),
        ("2026-12-31T01:00+02:00", "2026-12-30T23:00:00Z"),
        ("in a year", None),
        ("2026-02-30", None),
        ("0001-01-01T00:00+12:00", None),
    ):
        assert parse_expiry(text) == expiry, text


def test_an_end_that_is_no_time_is_a_problem_and_never_is_none() -> None:
    meta, problems = read("expires: in a year")
    assert (meta, problems) == (EMPTY_META, [(1, "bad_value")])
    assert read("expires: Never") == (EMPTY_META, [])


def test_a_status_is_any_word() -> None:
    assert read("status: in-progress") == (Meta(status="in-progress"), [])
    assert read("status: ARCHIVED") == (Meta(status="archived"), [])


# --- what agents write ----------------------------------------------------------------------------

CLAUDES = """name: Testing preferences
description: "Real disks: no mocks"
metadata:
  node_type: memory
  type: {type}
  originSessionId: 6a1f"""


def test_the_type_of_a_memory_of_claude_code_is_its_kind() -> None:
    for written, kind in (
        ("user", "preference"),
        ("feedback", "preference"),
        ("project", "insight"),
        ("Reference", "research"),
        ("memo", None),
    ):
        flat = f"name: a\ndescription: b\ntype: {written}"
        assert read(flat)[0].kind == kind, written
        meta, problems = read(CLAUDES.format(type=written))
        assert (meta.kind, problems) == (kind, []), written
        assert dict(meta.extra) == {
            "name": "Testing preferences",
            "description": "Real disks: no mocks",
            "node_type": "memory",
            "type": written,
            "originSessionId": "6a1f",
        }, written


def test_the_session_of_a_memory_of_claude_code_is_its_session_unless_another_is_stated() -> None:
    assert read(CLAUDES.format(type="user"))[0].session == "6a1f"
    for stated in ("session: s-1\noriginSessionId: 6a1f", "originSessionId: 6a1f\nsession: s-1"):
        meta, problems = read(stated)
        assert (meta.session, problems) == ("s-1", [])
    assert read("originSessionId:")[0].session is None


def test_the_scope_session_is_the_lifecycle_unless_one_is_stated() -> None:
    for text, lifecycle in (
        ("scope: Session", "session"),
        ("scope: permanent", None),
        ("scope: project", None),
        ("scope: session\nlifecycle: task", "task"),
        ("lifecycle: task\nscope: session", "task"),
    ):
        meta, problems = read(text)
        assert (meta.lifecycle, problems) == (lifecycle, [])
        assert dict(meta.extra)["scope"] in text


def test_a_type_is_no_kind_in_any_other_note_and_a_stated_kind_wins() -> None:
    assert read("type: project")[0].kind is None
    assert read("name: a\ntype: user")[0].kind is None
    assert read("name: a\ndescription: b\ntype: user\nkind: error")[0].kind == "error"


def test_a_key_beside_nested_metadata_wins_and_is_no_duplicate() -> None:
    meta, problems = read("kind: error\nmetadata:\n  kind: decision\n  tags: [a]")
    assert (meta.kind, meta.tags, problems) == ("error", ("a",), [])
    assert read("metadata: plain")[0].extra == (("metadata", "plain"),)


def test_unquoted_globs_of_cursor_are_read_as_they_are() -> None:
    for text, globs in (
        ("globs: **/*.ts", "**/*.ts"),
        ("description: Rules, for TS\nglobs: *.ts,*.tsx \nalwaysApply: false", "*.ts,*.tsx"),
        ("globs: *", "*"),
        ("globs: *it's*.py", "*it's*.py"),
        ("globs:\n  - *.ts\n  - src/**", "*.ts, src/**"),
        ("globs:\nalwaysApply: true", ""),
    ):
        meta, problems = read(text)
        assert (dict(meta.extra)["globs"], problems) == (globs, []), text


@given(st.sampled_from("*/."), st.text("*/.ab'-,# ", max_size=12))
def test_a_value_that_begins_as_a_glob_is_read_as_it_is(second: str, rest: str) -> None:
    meta, problems = read(f"globs: *{second}{rest}\nkind: error")
    assert (meta.kind, problems) == ("error", [])
    assert dict(meta.extra)["globs"] == f"*{second}{rest}".rstrip(" ")
