"""Signals between machines: the merge of their file, and the way of an address."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from memsyncd.errors import BadRequest
from memsyncd.operations.travel import (
    Machines,
    SignalLine,
    SignalLines,
    add_own,
    join,
    merge_files,
    parse_signals,
    render_file,
    route_signal,
)

NAMES = ("cloud", "desk", "lap")
Step = tuple[str, str, float, float]
"""A machine writes a signal to another one, at a time, which ends after some seconds."""
STEPS = st.lists(
    st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES), st.floats(1, 50), st.floats(0.5, 20)),
    max_size=8,
)
START = SignalLines(machines=dict.fromkeys(NAMES, 0.0))


def make_line(step: Step, number: int) -> SignalLine:
    machine, to, at, life = step
    return SignalLine(
        id=f"{machine}{number}",
        at=round(at, 3),
        machine=machine,
        writer="ann",
        to=(f"agent:bob@{to}",),
        type="note",
        text="done",
        expires=round(at + life, 3),
    )


def write(steps: list[Step], begin: int = 0) -> bytes:
    lines = START
    for number, step in enumerate(steps, begin):
        lines = add_own(lines, step[0], [make_line(step, number)], round(step[2], 3))
    return render_file(lines)


@given(STEPS, STEPS, STEPS)
@settings(max_examples=60)
def test_machines_merge_their_signals_alike_in_any_order_and_lose_none_before_its_end(
    first: list[Step], second: list[Step], third: list[Step]
) -> None:
    # Both machines of the first two files begin with the same signals.
    ours, theirs, other = write(first + second), write(first), write(third, 100)
    merged = merge_files(ours, theirs)
    assert merged == merge_files(theirs, ours)
    assert merged == merge_files(merged, theirs) == merge_files(merged, merged)
    assert merge_files(merged, other) == merge_files(ours, merge_files(theirs, other))
    signals = list(parse_signals(merged).signals.values())
    assert signals == sorted(signals, key=lambda line: (line.at, line.id))
    machines = parse_signals(merged).machines
    for number, step in enumerate(first + second):
        line = make_line(step, number)
        is_open = all(machines[name] < line.expires for name in (step[0], step[1]))
        assert (line in signals) == is_open


@given(STEPS, st.integers(0, 9))
@settings(max_examples=30)
def test_a_damaged_line_takes_no_other_with_it(steps: list[Step], at: int) -> None:
    data = write(steps)
    lines = data.splitlines(keepends=True)
    lines.insert(at, b'<<<<<<< ours\n\xff{}\n{"id":"x","at":9,"expires":1}\n')
    assert parse_signals(b"".join(lines)) == parse_signals(data)
    assert render_file(parse_signals(data)) == data


def test_a_machine_writes_only_if_it_has_something_to_say() -> None:
    line = make_line(("desk", "lap", 10.0, 5.0), 1)
    sent = add_own(START, "desk", [line], 10.0)
    assert sent.signals == {line.id: line}
    # Nobody's clock has passed the end: the file stays the same, byte for byte.
    assert add_own(sent, "desk", [line], 12.0) is sent
    assert add_own(sent, "cloud", [], 99.0) is sent
    # The addressee may end it, too, and the signal does not come back.
    ended = add_own(sent, "lap", [], 15.0)
    assert ended.signals == join(ended, sent).signals == {}
    assert add_own(ended, "desk", [line], 14.0) is ended


def test_a_machine_says_only_once_that_a_signal_has_ended() -> None:
    line = make_line(("desk", "lap", 10.0, 5.0), 1)
    line = structs.replace(line, to=("task:T@lap", "task:T@cloud"))
    sent = add_own(START, "desk", [line], 10.0)
    told = add_own(sent, "lap", [], 15.0)
    # The other addressee may be switched off for good.
    assert told.signals == {line.id: line}
    assert add_own(told, "lap", [], 16.0) is told
    assert add_own(told, "cloud", [], 16.0).signals == {}


def test_an_address_goes_to_the_machine_that_it_names() -> None:
    machines = Machines(own="desk", others=("cloud", "lap"), state="on")
    addresses = ["agent:ann", "task:T@lap", "agent:bob@desk", "agent:eve@example.org", "everyone"]
    route = route_signal(addresses, machines, ["agent:eve@example.org"])
    assert route.addresses == (
        "agent:ann",
        "task:T@lap",
        "agent:bob",
        "agent:eve@example.org",
        "everyone",
    )
    assert route.elsewhere == ("task:T@lap",)
    for state, others, told in (
        ("on", ("cloud", "lap"), "it has: cloud, lap"),
        ("off", ("cloud", "lap"), "memsyncd share on"),
        ("none", (), "memsyncd share on"),
    ):
        apart = Machines(own="desk", others=others, state=state)  # type: ignore[arg-type]
        with pytest.raises(BadRequest) as refused:
            route_signal(["agent:ann@attic"], apart, [])
        assert told in refused.value.hint
