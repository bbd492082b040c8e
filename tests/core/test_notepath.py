"""The name of a conflict copy tells the note that it is a copy of."""

from __future__ import annotations

import pytest

from memsyncd.core.paths import find_copied, is_conflict_copy


def test_a_conflict_copy_leads_to_the_note_itself() -> None:
    for copy in (
        "notes/Redis.sync-conflict-20261120-101010-ABCDEFG.md",
        "notes/Redis (conflicted copy 2026-11-20 101010).md",
        "notes/Redis (Ann's conflicted copy 2026-11-20).md",
        "notes/Redis (Conflicted copy MyPhone 202611201010).md",
        "notes/Redis (Conflicted copy 2).md",
        "notes/Redis - conflicted copy 2.md",
        "notes/Redis_conflict-20261120-101010.md",
        "notes/Redis_conflict-00000001.md",
    ):
        assert is_conflict_copy(copy), copy
        assert find_copied(copy) == "notes/Redis.md", copy


@pytest.mark.parametrize(
    "path", ["notes/Redis.md", "conflict.md", "a/Conflicts of copies.md", "how-to-resolve-conflicts.md"]
)  # fmt: skip
def test_another_note_is_no_copy(path: str) -> None:
    assert not is_conflict_copy(path)
    assert find_copied(path) == ""
