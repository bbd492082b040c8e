"""Answer with a plan of changes to many memories, or carry it out."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import asdict

from memsyncd.engine.accesses import count_accesses
from memsyncd.engine.edit import EditOutcome
from memsyncd.engine.metadata import Valuation, make_valuation
from memsyncd.engine.upkeep import Planned, make_upkeep_decision
from memsyncd.operations.call import Call
from memsyncd.operations.upkeep.declare import PlanParams, UpkeepPlan, Upkept


async def keep_up(
    call: Call, act: str, params: PlanParams, plan: Callable[[Valuation], Planned]
) -> Upkept:
    """Answer with the plan that `plan` makes of what memories are worth now, or carry it out."""
    workspace = await call.open()

    def make() -> Planned:
        return plan(make_valuation(call.config, call.now_s, count_accesses(workspace)))

    outcome: EditOutcome[UpkeepPlan]
    if params.dry_run:
        planned = await call.read(make, on_disk=True)
        outcome = EditOutcome(answer=planned.plan)
    else:
        decide = make_upkeep_decision(make, act, client=call.writer, digest=params.plan)
        outcome = await call.edit(decide)
    return Upkept(
        is_applied=not params.dry_run, **asdict(outcome.answer), **call.describe_write(outcome)
    )
