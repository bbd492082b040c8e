"""What a plan of `archive`, `unarchive` or `cleanup` says in one line."""

from __future__ import annotations

from typing import Any

import pytest

from memsyncd.operations.upkeep.show import describe_plan

ONE: list[object] = [{}]


def plan(**named: object) -> dict[str, Any]:
    none: dict[str, Any] = {"archived": [], "restored": [], "retained": [], "skipped": []}
    return {**none, "is_applied": False, "change_set": None, **named}


@pytest.mark.parametrize(
    ("answer", "described"),
    [
        (plan(archived=ONE, skipped=ONE * 2), "1 would be archived, 2 skipped"),
        (plan(restored=ONE * 3), "3 would be restored"),
        (plan(retained=ONE * 7), "nothing to do: 7 retained"),
        (plan(), "nothing to do"),
        (
            plan(archived=ONE, retained=ONE, is_applied=True, change_set=6),
            "1 archived, 1 retained; take it back with: memsyncd undo --change-set 6",
        ),
    ],
)
def test_a_plan_is_told_from_what_was_done(answer: dict[str, Any], described: str) -> None:
    assert describe_plan(answer) == described
