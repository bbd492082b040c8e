from __future__ import annotations

from datetime import date

import pytest

from memsyncd.core.search.filters import NO_FILTERS, Filters
from memsyncd.engine.plan import read_filters
from memsyncd.errors import BadRequest
from memsyncd.operations import sections

TODAY = date(2026, 11, 18)  # a Wednesday


def test_every_filter_of_the_protocol_has_an_effect_in_the_engine() -> None:
    requested = sections.Filters(
        kind=["decision"],
        tag=["auth"],
        path=["api"],
        section=["Cache"],
        task=["WU-1"],
        session=["s-1"],
        source=["review"],
        priority=["P0"],
        lifecycle=["task"],
        status=["open"],
        meta=["owner=infra"],
        min_importance=0.8,
        after="2026-03",
        before="2027",
        archived=True,
        expired=True,
        include_archived=True,
        include_expired=True,
    )
    assert read_filters(requested, TODAY) == Filters(
        kinds=("decision",), tags=("auth",), paths=("api",), sections=("Cache",), tasks=("WU-1",),
        sessions=("s-1",), sources=("review",), priorities=("P0",), lifecycles=("task",),
        statuses=("open",), metas=("owner=infra",), min_importance=0.8,
        after="2026-03-01", before="2027-01-01", is_archived=True, is_expired=True,
        includes_archived=True, includes_expired=True,
    )  # fmt: skip
    assert read_filters(sections.Filters(), TODAY) == NO_FILTERS


def test_days_of_filters_are_relative_to_the_day_of_the_request() -> None:
    requested = sections.Filters(after="last week", before="yesterday")
    assert read_filters(requested, TODAY) == Filters(after="2026-11-09", before="2026-11-17")


def test_an_invalid_day_is_refused_with_the_name_of_its_filter() -> None:
    for text in ("", "spring", "2026-02-30", "2026-03-01T10:00", "x" * 5000):
        for name in ("after", "before"):
            with pytest.raises(BadRequest, match=f"`{name}`") as refused:
                read_filters(sections.Filters(**{name: text}), TODAY)
            assert refused.value.hint
            assert len(refused.value.message) < 100


def test_metadata_without_a_value_is_refused() -> None:
    for text in ("owner", "owner=", "=infra"):
        with pytest.raises(BadRequest, match="`meta`"):
            read_filters(sections.Filters(meta=[text]), TODAY)


def test_a_word_that_no_section_can_have_is_refused_with_those_that_it_can() -> None:
    for name, choices in (
        ("tier", "hot, warm, cold"),
        ("priority", "P0, P1, P2, P3"),
        ("lifecycle", "ephemeral, session, task, project"),
    ):
        with pytest.raises(BadRequest, match=f"`{name}` is none of {choices}: luke") as refused:
            read_filters(sections.Filters(**{name: ["luke"]}), TODAY)
        assert refused.value.hint


def test_priorities_lifecycles_and_tiers_are_read_in_any_case() -> None:
    requested = sections.Filters(tier=["HOT"], priority=["p0"], lifecycle=["Task", "wu"])
    assert read_filters(requested, TODAY) == Filters(
        tiers=("hot",), priorities=("P0",), lifecycles=("task", "task")
    )


def test_an_empty_value_is_refused_rather_than_passed_by_nothing() -> None:
    for name in "kind tag path section task session source topic status related_to".split():
        for value in ("", "  "):
            with pytest.raises(BadRequest, match=f"filter `{name}` has an empty value"):
                read_filters(sections.Filters(**{name: ["x", value]}), TODAY)
