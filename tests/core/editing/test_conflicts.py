"""A conflict that a merge has left is settled in one step, and nothing else changes."""

from __future__ import annotations

import pytest

from memsyncd.core.editing.conflicts import WhichText, settle_conflict
from memsyncd.core.editing.merge import merge_notes
from memsyncd.errors import EditRefused

PATH = "n.md"
REST = "## Two\n\nother words\n"
COMMENT = "<!-- memory: {id: m-1, kind: decision} -->\n"

# For each conflict: the note before, and both versions. The texts that are chosen must give the
# note that the version with this text has, with the metadata of both.
CONFLICTS = {
    "text": (f"## One\n{COMMENT}x\n\n", f"## One\n{COMMENT}y\n\n", f"## One\n{COMMENT}z\n\n"),
    "text without a comment": ("## One\n\nx\n\n", "## One\n\ny\n\n", "## One\n\nz\n\n"),
    "heading": (f"## One\n{COMMENT}x\n\n", f"## Y\n{COMMENT}x\n\n", f"## Z\n{COMMENT}x\n\n"),
    "title": ("# One\n\nx\n\n", "# One\n\ny\n\n", "# One\n\nz\n\n"),
    "title and heading": ("One\n===\n\nx\n\n", "# Y\n\nx\n\n", "# Z\n\nx\n\n"),
    "sections beneath": (
        f"# N\n\n## One\n{COMMENT}x\n\n### A\n\na\n\n",
        f"# N\n\n## One\n{COMMENT}y\n\n### A\n\na\n\n",
        f"# N\n\n## One\n{COMMENT}z\n\n### A\n\na\n\n",
    ),
    "front matter": ("---\na: 1\n---\n\nx\n\n", "---\na: 1\n---\n\ny\n\n", "---\na: 1\n---\n\nz\n\n"),
    "broken comment": (
        "## One\n<!-- memory: [ -->\nx\n\n",
        "## One\n<!-- memory: [y -->\nx\n\n",
        "## One\n<!-- memory: [z -->\nx\n\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("name", CONFLICTS)
def test_the_text_that_is_kept_stands_as_its_version_had_it(name: str, line_end: str) -> None:
    base, ours, theirs = (
        f"{text}{REST}".replace("\n", line_end).encode() for text in CONFLICTS[name]
    )
    merged = merge_notes(PATH, base, ours, theirs)
    [second] = merged.conflicts
    kept = {
        keep: settle_conflict(PATH, merged.data, second, keep) for keep in ("this", "other", "both")
    }
    assert {kept["this"].data, kept["other"].data} == {ours, theirs}
    assert kept["this"].kept == (kept["this"].anchors[second],)
    # Named by its first section, the conflict has the same two texts.
    first = next(old for old, new in kept["other"].anchors.items() if new == kept["other"].kept[0])
    assert settle_conflict(PATH, merged.data, first, "other").data == kept["this"].data
    assert settle_conflict(PATH, merged.data, first, "this").data == kept["other"].data
    assert settle_conflict(PATH, merged.data, first, "both").data == kept["both"].data
    assert b"conflict" not in kept["both"].data
    assert len(kept["both"].data.splitlines()) >= len(merged.data.splitlines()) - 1
    with pytest.raises(EditRefused, match="no conflict"):
        settle_conflict(PATH, kept["both"].data, kept["both"].kept[1], "this")


@pytest.mark.parametrize(
    ("anchor", "keep", "message"),
    [
        ("#a", "other", "has 2 other texts"),
        ("#c", "this", "names no other section"),
        ("#two", "this", "is in no conflict"),
        ("#", "this", "has no text above its headings"),
    ],
)
def test_a_choice_that_is_not_clear_is_refused(anchor: str, keep: WhichText, message: str) -> None:
    marked = "## {}\n<!-- memory: {{conflict: {}}} -->\nx\n\n".format
    text = f"## A\n\ny\n\n{marked('A', 'a')}{marked('A', 'a')}{marked('C', 'none')}{REST}"
    with pytest.raises(EditRefused, match=message):
        settle_conflict(PATH, text.encode(), f"{PATH}{anchor}", keep)
