"""Any text of results becomes rows and styled pieces."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("textual", reason="not installed: textual (pip install 'memsyncd[terminal]')")

from rich.cells import cell_len

from memsyncd.cli.tui.text import (
    LINE_CHARS,
    PART_CHARS,
    PART_LINES,
    Folder,
    build_folders,
    describe_answer,
    describe_deletion,
    describe_refusal,
    find_linked_note,
    find_part,
    list_later,
    prepare_markdown,
    render_hit_pieces,
    split_marks,
    split_note,
    split_parts,
    style_of_diff,
    wrap_line,
)
from memsyncd.terminal.terminal import clean, clean_line

CONTROLS = "\x1b\x07\x00\x9b\x7f\r\u202e\u2066\ufeff\u2028"
texts = st.text(st.sampled_from("ab *\t`-#|[]<>~é字🎉\u0301" + CONTROLS), max_size=200)
lines_of_notes = st.lists(
    st.one_of(texts, st.sampled_from(["```", "~~~~", "## Heading", "", "a" * 9000])), max_size=400
)
words = st.text(st.characters(codec="utf-8", exclude_characters="/"), min_size=1, max_size=8)
paths = st.lists(words, min_size=1, max_size=4).map("/".join)

SECTION = {
    "kind": None,
    "tags": [],
    "priority": None,
    "task": None,
    "status": None,
    "is_expired": False,
}


@given(texts.map(clean), st.integers(4, 60))
def test_rows_of_a_line_make_the_line_and_fit_the_width(text: str, width: int) -> None:
    starts = wrap_line(text, width)
    assert starts[0] == 0
    assert starts == sorted(set(starts))
    rows = [text[a:b] for a, b in zip(starts, [*starts[1:], len(text)], strict=True)]
    assert "".join(rows) == text
    assert all(cell_len(row.rstrip(" ")) <= width for row in rows)


def test_a_line_is_wrapped_between_words() -> None:
    assert wrap_line("one two three", 8) == [0, 8]
    assert wrap_line("öne twö three", 8) == [0, 8]
    assert wrap_line("x" * 20, 8) == [0, 8, 16]
    assert len(wrap_line("\u0301" * 100_000, 80)) > 100


@given(texts)
def test_the_parts_of_a_snippet_are_its_text_without_marks(snippet: str) -> None:
    parts = split_marks(snippet)
    assert "".join(part for part, _ in parts) == clean_line(snippet).replace("**", "")
    assert not any("**" in part for part, _ in parts)


def test_matched_words_of_a_snippet_are_told_from_others() -> None:
    assert split_marks("we chose **Postgres** for its **row** locks") == [
        ("we chose ", False),
        ("Postgres", True),
        (" for its ", False),
        ("row", True),
        (" locks", False),
    ]


@given(texts, texts, paths)
def test_no_text_of_a_hit_steers_the_terminal(snippet: str, heading: str, path: str) -> None:
    hit = SECTION | {
        "path": path,
        "start_line": 1,
        "end_line": 2,
        "heading": [heading],
        "snippet": snippet,
        "score": 0.5,
    }
    rendered = "".join(text for text, _ in render_hit_pieces(hit, heading))
    assert rendered == clean(rendered)
    assert rendered.count("\n") == 1


@given(texts)
def test_a_note_has_the_lines_of_its_file(text: str) -> None:
    text = text.replace("\r", "").replace("\t", "\n")
    lines = split_note(text)
    assert len(lines) == max(1, text.count("\n") + (not text.endswith("\n")))
    counted = text.count("\n") + 1
    assert split_note(text, counted)[: len(lines)] == lines
    assert len(split_note(text, counted)) == counted
    assert all(line == clean(line) and "\n" not in line for line in lines)


@given(lines_of_notes)
def test_parts_of_a_note_follow_each_other_and_are_bounded(lines: list[str]) -> None:
    parts = split_parts(lines)
    assert parts[0].first == 1
    assert parts[-1].last == max(1, len(lines))
    assert all(a.last + 1 == b.first for a, b in pairwise(parts))
    for part in parts:
        chosen = lines[part.first - 1 : part.last]
        assert len(chosen) <= 2 * PART_LINES + 1
        assert sum(min(len(line), LINE_CHARS) for line in chosen) <= 2 * PART_CHARS + LINE_CHARS
        assert all(parts[find_part(parts, at)] == part for at in (part.first, part.last))


@given(lines_of_notes)
def test_a_laid_out_part_keeps_the_place_of_each_line(lines: list[str]) -> None:
    lines = [clean(line).replace("\n", "") for line in lines]
    for part in split_parts(lines):
        rows = prepare_markdown(lines, part).split("\n")
        assert len(rows) == max(1, len(lines[part.first - 1 : part.last])) + bool(part.fence)
        for number, line in enumerate(rows[bool(part.fence) :], part.first):
            assert line == "" or line[:LINE_CHARS] == lines[number - 1][:LINE_CHARS]


def test_metadata_is_not_laid_out_but_code_that_looks_like_it_is() -> None:
    lines = [
        "---",
        "kind: x",
        "---",
        "# A",
        "<!-- memory: {kind: y} -->",
        "```",
        "<!-- memory: -->",
    ]
    [part] = split_parts(lines)
    assert prepare_markdown(lines, part) == "\n\n\n# A\n\n```\n<!-- memory: -->"


def test_a_line_that_only_looks_like_a_fence_opens_and_closes_none() -> None:
    lines = ["``` is `code`", "<!-- memory: -->", "```", "    ```", "<!-- memory: -->", "```"]
    [part] = split_parts(lines)
    assert prepare_markdown(lines, part).split("\n") == [lines[0], "", *lines[2:]]


def test_fenced_code_that_is_cut_is_opened_again() -> None:
    lines = ["```py", *["x = 1"] * 1000, "```", "# Head"]
    parts = split_parts(lines)
    assert [part.fence for part in parts[1:-1]] == ["```"] * (len(parts) - 2)
    assert prepare_markdown(lines, parts[1]).startswith("```\nx = 1\n")


@given(st.lists(paths, max_size=60, unique=True))
def test_each_note_is_in_the_tree_once(paths: list[str]) -> None:
    def walk(folder: Folder) -> list[str]:
        paths = [note["path"] for note in folder.notes]
        assert all(path.startswith(folder.path) for path in paths)
        for inner in folder.folders.values():
            paths += walk(inner)
        assert folder.n_notes == len(paths)
        return paths

    assert sorted(walk(build_folders({"path": path} for path in paths))) == sorted(paths)


def make_revision(number: int, path: str, old: str | None, new: str | None) -> dict[str, object]:
    return {
        "revision": number,
        "path": path,
        "old_path": None,
        "old_digest": old,
        "new_digest": new,
        "is_kept": True,
        "undo": "nothing",
    }


def test_an_undo_is_refused_for_a_reason_and_with_what_to_do() -> None:
    first = make_revision(1, "a.md", None, "d1")
    second = make_revision(2, "a.md", "d1", "d2")
    other = make_revision(3, "b.md", None, "d3")
    assert describe_refusal(second, [], "d2") == ""
    assert describe_refusal(first, [], "d1") == ""
    later = list(list_later([other, second, first], first))
    assert later == [second]
    assert "by 2: undo these first" in describe_refusal(first, later, "d2")
    assert "not as this revision left it" in describe_refusal(second, [], "d9")
    assert "no longer kept" in describe_refusal(second | {"is_kept": False}, [], "d2")
    assert "was there when" in describe_refusal(first | {"undo": "never"}, [], "d1")


def test_an_undo_names_the_files_that_it_deletes() -> None:
    made = [make_revision(n, f"{n}.md", None, "d1") | {"undo": "confirm"} for n in range(5)]
    assert describe_deletion([make_revision(1, "a.md", "d0", "d1")]) == ""
    assert describe_deletion(made[:1]) == "it deletes the file: 0.md"
    assert describe_deletion(made) == "it deletes files: 0.md, 1.md, 2.md and 2 more"


def test_lines_of_a_diff_are_told_apart() -> None:
    diff = ["--- a", "+++ a", "@@ -1 +1 @@", " same", "--- gone", "+new", "\\ No newline"]
    kinds = ["head", "head", "hunk", "", "removed", "added", "hunk"]
    assert [style_of_diff(line, at) for at, line in enumerate(diff)] == kinds


def test_a_search_by_words_alone_says_why() -> None:
    answer = {
        "hits": [],
        "why_empty": "no note contains the word money",
        "did_you_mean": None,
        "took_ms": 1.0,
        "relaxed": False,
        "workspaces": [],
        "semantic": "off",
        "semantic_reason": "the model is being loaded",
    }
    said = "".join(text for text, _ in describe_answer(answer, limit=50))
    assert said.endswith(" · by words alone: the model is being loaded")
    said = "".join(text for text, _ in describe_answer({**answer, "semantic_reason": None}, 50))
    assert said == "nothing found: no note contains the word money"


def test_a_link_leads_to_the_note_that_the_daemon_has_found() -> None:
    links = [
        {"source": "MEMORY.md#m", "target": "my%20plan.md", "to": "other/my plan.md"},
        {"source": "c#.md#c", "target": "my%20plan.md", "to": "my plan.md#plan/part"},
        {"source": "c#.md#c", "target": "none.md", "to": None},
        {"source": "c#.md", "target": "c%23.md", "to": "c#.md"},
    ]
    assert find_linked_note(links, "c#.md", "my%20plan.md#part") == "my plan.md"
    assert find_linked_note(links, "c#.md", "my plan.md") == "my plan.md"
    assert find_linked_note(links, "c#.md", "c%23.md") == "c#.md"
    assert find_linked_note(links, "c#.md", "none.md") is None
    assert find_linked_note(links, "d.md", "my%20plan.md") is None
