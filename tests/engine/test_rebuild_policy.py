from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest
from structlog.testing import capture_logs

from memsyncd.engine.policies import Clock
from memsyncd.engine.rebuild import DAMAGE_REBUILD_INTERVAL_S, INDEX_FAULT, RebuildPolicy
from memsyncd.errors import StoreCorrupt, StoreFull

DAMAGE = StoreCorrupt("the database is damaged")


class Healed:
    """What is healed, and when it is built anew."""

    def __init__(self, workspace: Any) -> None:
        self.workspace, self.now_s = workspace, 1000.0
        self.rebuilds: list[Future[Any]] = []
        self.healing = RebuildPolicy(Clock(now_s=lambda: self.now_s, wall_ns=lambda: 0), self._rebuild)

    def _rebuild(self, _workspace: Any) -> Future[Any]:
        self.rebuilds.append(Future())
        return self.rebuilds[-1]

    def end(self, *, is_good: bool = True) -> None:
        self.rebuilds[-1].set_result(None)
        if is_good:
            self.workspace.set_fault(INDEX_FAULT, "")

    @property
    def said(self) -> str:
        return str(self.workspace.condition.faults.get(INDEX_FAULT, ""))


@pytest.fixture
def healed(bench: Any) -> Healed:
    return Healed(bench.workspace)


def test_damage_is_rebuilt_at_once_and_said_until_that_is_done(healed: Healed) -> None:
    healed.healing.repair(healed.workspace, DAMAGE)
    assert len(healed.rebuilds) == 1
    assert "being rebuilt" in healed.said
    healed.healing.repair(healed.workspace, DAMAGE)
    healed.healing.retry(healed.workspace)
    assert len(healed.rebuilds) == 1
    assert "being rebuilt" in healed.said


def test_damage_that_comes_back_waits_for_its_time_and_is_then_rebuilt_though_nobody_meets_it(healed: Healed) -> None:
    healed.healing.repair(healed.workspace, DAMAGE)
    healed.end()
    healed.now_s += 1
    healed.healing.repair(healed.workspace, DAMAGE)
    assert "again within ten minutes" in healed.said
    healed.now_s += DAMAGE_REBUILD_INTERVAL_S - 2
    healed.healing.retry(healed.workspace)
    assert len(healed.rebuilds) == 1
    healed.now_s += 1
    healed.healing.retry(healed.workspace)
    assert len(healed.rebuilds) == 2
    healed.end()
    healed.now_s += DAMAGE_REBUILD_INTERVAL_S
    healed.healing.retry(healed.workspace)
    assert len(healed.rebuilds) == 2, "there was nothing more to mend"


def test_a_rebuild_that_failed_is_tried_again_in_time(healed: Healed) -> None:
    healed.healing.repair(healed.workspace, DAMAGE)
    healed.end(is_good=False)
    healed.healing.retry(healed.workspace)
    assert len(healed.rebuilds) == 1
    healed.now_s += DAMAGE_REBUILD_INTERVAL_S
    healed.healing.retry(healed.workspace)
    assert len(healed.rebuilds) == 2


def test_what_somebody_replaced_is_rebuilt_at_once_however_often(healed: Healed) -> None:
    for number in range(1, 4):
        healed.healing.replace(healed.workspace, "index.db was deleted or replaced")
        assert len(healed.rebuilds) == number
        healed.end()


def test_damage_that_has_to_wait_is_logged_once(healed: Healed) -> None:
    with capture_logs() as logged:
        for _ in range(5):
            healed.healing.repair(healed.workspace, DAMAGE)
            if len(healed.rebuilds) == 1 and not healed.rebuilds[0].done():
                healed.end()
            healed.now_s += 1
            healed.healing.retry(healed.workspace)
    assert [line["reason"].startswith(DAMAGE.message) for line in logged] == [True, True]
    assert "again within ten minutes" in logged[1]["reason"]


@pytest.mark.parametrize("failure", [StoreFull("no room"), OSError(5, "Input/output error")])
def test_a_look_that_is_told_of_late_heals_nothing_that_failed_after_it(healed: Healed, failure: Exception) -> None:
    healed.healing.on_failure(healed.workspace, failure, at_s=1000.0)
    healed.healing.on_success(healed.workspace, began_s=999.9)
    assert healed.workspace.condition.faults
    healed.healing.on_success(healed.workspace, began_s=1000.0)
    assert not healed.workspace.condition.faults
