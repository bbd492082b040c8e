from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.changes.diff import ExistingRow, RowChanges, plan_row_changes

contents = st.sampled_from("abcd")
places = st.integers(1, 9)
wishes = st.lists(st.tuples(contents, places), max_size=12)


def stand(*rows: tuple[str, int]) -> list[ExistingRow]:
    """Rows with the ids 100, 101, …"""
    return [ExistingRow(id=100 + at, content=content, place=place) for at, (content, place) in enumerate(rows)]


def test_nothing_is_written_if_all_stands_as_wanted() -> None:
    rows = [("a", 1), ("b", 2)]
    assert plan_row_changes(stand(*rows), rows) == RowChanges(kept=((0, 100), (1, 101)), shifted=(), inserted=(), deleted=())


def test_content_that_stands_elsewhere_keeps_its_id() -> None:
    plan = plan_row_changes(stand(("a", 1), ("b", 2)), [("x", 1), ("a", 2), ("b", 3)])
    assert plan == RowChanges(kept=(), shifted=((1, 100), (2, 101)), inserted=(0,), deleted=())


def test_only_what_changed_is_inserted_and_deleted() -> None:
    plan = plan_row_changes(stand(("a", 1), ("b", 2), ("c", 3)), [("a", 1), ("B", 2), ("c", 3)])
    assert plan == RowChanges(kept=((0, 100), (2, 102)), shifted=(), inserted=(1,), deleted=(101,))


def test_twins_pair_in_order() -> None:
    plan = plan_row_changes(stand(("a", 1), ("a", 5), ("a", 9)), [("a", 1), ("a", 5)])
    assert plan == RowChanges(kept=((0, 100), (1, 101)), shifted=(), inserted=(), deleted=(102,))


def test_all_goes_and_all_comes() -> None:
    assert plan_row_changes(stand(("a", 1)), []) == RowChanges(kept=(), shifted=(), inserted=(), deleted=(100,))
    assert plan_row_changes([], [("a", 1)]) == RowChanges(kept=(), shifted=(), inserted=(0,), deleted=())


@given(wishes, wishes)
def test_every_row_and_every_wish_is_named_exactly_once(standing: list[tuple[str, int]], wanted: list[tuple[str, int]]) -> None:
    plan = plan_row_changes(stand(*standing), wanted)
    paired = (*plan.kept, *plan.shifted)
    assert sorted([*(index for index, _ in paired), *plan.inserted]) == list(range(len(wanted)))
    assert sorted([*(row for _, row in paired), *plan.deleted]) == [100 + at for at in range(len(standing))]


@given(wishes, wishes)
def test_carrying_the_plan_out_gives_what_is_wanted(standing: list[tuple[str, int]], wanted: list[tuple[str, int]]) -> None:
    plan = plan_row_changes(stand(*standing), wanted)
    rows = {row.id: (row.content, row.place) for row in stand(*standing)}
    for row_id in plan.deleted:
        del rows[row_id]
    for index, row_id in plan.shifted:
        rows[row_id] = (rows[row_id][0], wanted[index][1])
    for index in plan.inserted:
        rows[-index - 1] = wanted[index]
    assert sorted(rows.values()) == sorted(wanted)


@given(wishes, wishes)
def test_nothing_is_deleted_that_could_have_stayed(standing: list[tuple[str, int]], wanted: list[tuple[str, int]]) -> None:
    plan = plan_row_changes(stand(*standing), wanted)
    inserted = {wanted[index][0] for index in plan.inserted}
    deleted = {row.content for row in stand(*standing) if row.id in plan.deleted}
    assert not inserted & deleted


@given(wishes)
def test_planning_twice_writes_nothing_the_second_time(wanted: list[tuple[str, int]]) -> None:
    ordered = sorted(wanted, key=lambda wish: wish[1])
    plan = plan_row_changes(stand(*ordered), ordered)
    assert (plan.shifted, plan.inserted, plan.deleted) == ((), (), ())
