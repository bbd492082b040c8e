"""Decide which job of a worker pool runs next, and which running step holds its worker for too
long.

Jobs have a key; two jobs of one key never run at the same time. A step that has not returned for
`takeover_s` gives its place in the pool to another thread, which serves all other keys. After
`stalled_s` its key counts as stalled. Time comes in as `now_s`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import msgspec


class StallPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How long a step may take. A commit or VACUUM of healthy work takes seconds, too: a takeover
    must be harmless for it.
    """

    takeover_s: float = 2.0
    stalled_s: float = 10.0


class Step(msgspec.Struct, frozen=True):
    """A running step. `is_detached` once its worker has given up its place in the pool."""

    since_s: float
    is_detached: bool = False


def choose_key(waiting: Iterable[tuple[str, bool]], running: Collection[str]) -> str | None:
    """The first key with an urgent job, else the first, leaving out keys that run; `waiting` is in
    the order of turns.
    """
    first = None
    for key, is_urgent in waiting:
        if key in running:
            continue
        if is_urgent:
            return key
        first = key if first is None else first
    return first


def find_overdue(running: Mapping[str, Step], now_s: float, policy: StallPolicy) -> list[str]:
    """The keys whose steps should give up their places now."""
    return [
        key
        for key, step in running.items()
        if not step.is_detached and now_s - step.since_s >= policy.takeover_s
    ]


def find_stalled(
    running: Mapping[str, Step], now_s: float, policy: StallPolicy
) -> dict[str, float]:
    """The keys that count as stalled, with the time since which."""
    return {
        key: step.since_s
        for key, step in running.items()
        if now_s - step.since_s >= policy.stalled_s
    }


def find_next_check_s(running: Iterable[Step], now_s: float, policy: StallPolicy) -> float:
    """After how many seconds steps should be looked at again: when the first may pass a limit,
    those yet to begin, too.
    """
    ages_s = [now_s - step.since_s for step in running]
    limits_s = (policy.takeover_s, policy.stalled_s)
    return min(
        [
            policy.takeover_s,
            *(limit_s - age_s for age_s in ages_s for limit_s in limits_s if limit_s > age_s),
        ]
    )


def describe_stall(root: str, seconds: float) -> str:
    """The message for a workspace whose disk does not answer."""
    return (
        f"the disk under {root} has not answered for {seconds:.0f} s: what is saved there is not"
        " indexed meanwhile, and what is indexed stays searchable; check the mount"
    )
