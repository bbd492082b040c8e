from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.editing import unified_diff as diffs
from memsyncd.core.editing.unified_diff import render_diff

TEXTS = st.lists(st.sampled_from(["a", "b", "c", "", "d\r", "ü"]), max_size=12).flatmap(
    lambda lines: st.booleans().map(lambda is_ended: "\n".join(lines) + ("\n" if is_ended else ""))
)


def diff(old: str | None, new: str | None) -> str:
    return render_diff(
        None if old is None else old.encode(),
        None if new is None else new.encode(),
        old_name="note.md",
        new_name="note.md",
    )


def test_a_changed_line_is_shown_with_its_surroundings() -> None:
    assert diff("one\ntwo\nthree\n", "one\n2\nthree\n") == (
        "--- note.md\n+++ note.md\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
    )


def test_the_diff_of_a_new_note_has_an_empty_old_side() -> None:
    assert diff(None, "one\n") == "--- /dev/null\n+++ note.md\n@@ -0,0 +1 @@\n+one\n"
    assert diff("one\n", None) == "--- note.md\n+++ /dev/null\n@@ -1 +0,0 @@\n-one\n"


def test_the_same_text_has_no_diff() -> None:
    assert diff("one\n", "one\n") == diff(None, None) == ""


def test_a_missing_last_line_end_shows() -> None:
    assert (
        diff("one\n", "one")
        == "--- note.md\n+++ note.md\n@@ -1 +1 @@\n-one\n+one\n\\ No newline at end of file\n"
    )


def test_bytes_that_are_not_text_are_shown_as_well() -> None:
    assert "+\ufffd" in render_diff(b"a\n", b"\xff\n", old_name="n", new_name="n")


@pytest.mark.needs("git")
@pytest.mark.parametrize("limit", [0, diffs.COMPARED_LIMIT])
def test_patch_makes_the_new_text_of_the_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(diffs, "COMPARED_LIMIT", limit)
    old = "".join(f"line {n}\n" for n in range(40))
    new = old.replace("line 3\n", "").replace("line 20\n", "twenty\nand more\n") + "no end"
    (tmp_path / "note.md").write_text(old)
    (tmp_path / "change.diff").write_text(diff(old, new))
    subprocess.run(
        ["git", "apply", "-p0", "change.diff"], cwd=tmp_path, check=True, capture_output=True
    )
    assert (tmp_path / "note.md").read_text() == new


@given(TEXTS, TEXTS)
def test_applying_the_diff_gives_the_other_text(old: str, new: str) -> None:
    lines = diff(old, new).split("\n")[2:-1]
    n_taken = sum(line.startswith("-") for line in lines)
    n_added = sum(line.startswith("+") for line in lines)
    assert n_added - n_taken == count(new) - count(old)
    assert (lines == []) == (old == new)


def count(text: str) -> int:
    return text.count("\n") + bool(text) - text.endswith("\n")
