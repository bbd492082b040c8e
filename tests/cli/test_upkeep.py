"""What a plan of `archive`, `unarchive` or `cleanup` says in one line."""

from __future__ import annotations

from typing import Any

import pytest

from memsyncd.operations.upkeep.show import describe_plan


def plan(**named: object) -> dict[str, Any]:
    none = {f"n_{name}": 0 for name in ("archived", "restored", "retained", "skipped")}
    return {**none, "change_set": None, **named}


@pytest.mark.parametrize(
    ("answer", "described"),
    [
        (
            plan(n_archived=1, n_skipped=2, is_applied=False),
            "1 would be archived, 2 skipped",
        ),
        (plan(n_retained=7, is_applied=False), "nothing to do: 7 retained"),
        (plan(is_applied=False), "nothing to do"),
        (
            plan(n_archived=1_201, n_retained=1, is_applied=True, change_set=7),
            "1,201 archived, 1 retained",
        ),
    ],
)
def test_a_plan_is_told_from_what_was_done(answer: dict[str, Any], described: str) -> None:
    assert describe_plan(answer) == described
