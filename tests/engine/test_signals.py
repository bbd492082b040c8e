"""Signals reach each addressee once, until they expire."""

from __future__ import annotations

from typing import Any

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from memsyncd.config import SignalConfig
from memsyncd.errors import BadRequest, Busy
from memsyncd.operations.history.declare import PurgeParams
from memsyncd.operations.history.run import purge
from memsyncd.operations.inbox import read_inbox
from memsyncd.operations.revisions import parse_target
from memsyncd.operations.signals.declare import (
    EVERYONE,
    SignalAckParams,
    SignalInboxParams,
    SignalOutboxParams,
    SignalsAcked,
    SignalSendParams,
    SignalSent,
)
from memsyncd.operations.signals.run import (
    ack_signals,
    list_addresses,
    read_outbox,
    send_signal,
)
from memsyncd.store.records import MOST_READERS, NewSignal, Signals
from memsyncd.store.schema import MIGRATIONS
from tests.engine.conftest import Bench, take


def send(bench: Bench, content: str, *, sender: str = "builder", **fields: Any) -> SignalSent:
    params = SignalSendParams(content=content, **fields)
    job = send_signal(bench.workspace, bench.config, bench.clock, params, sender=sender)
    return take(job)  # type: ignore[no-any-return]


def inbox(bench: Bench, **fields: Any) -> list[str]:
    params = SignalInboxParams(**fields)
    box = take(read_inbox(bench.workspace, bench.config, bench.clock, params))
    return [signal.content for signal in box.signals]


def ack(bench: Bench, *signals: int, **reader: Any) -> SignalsAcked:
    params = SignalAckParams(signals=list(signals), **reader)
    return take(ack_signals(bench.workspace, bench.config, bench.clock, params))  # type: ignore[no-any-return]


def outbox(bench: Bench, sender: str = "builder") -> list[tuple[str, list[str]]]:
    params = SignalOutboxParams()
    job = read_outbox(bench.workspace, bench.config, bench.clock, params, sender=sender)
    return [(signal.content, [by.reader for by in signal.receipts]) for signal in take(job).signals]


def test_a_signal_reaches_its_agent_session_and_each_reader_of_its_task(bench: Bench) -> None:
    sent = send(bench, "done", agents=["ada"], sessions=["s1"], tasks=["WU-1", "WU-2"])
    assert sent.signal.to == ["agent:ada", "session:s1", "task:WU-1", "task:WU-2"]
    assert inbox(bench, agent="ada") == inbox(bench, session="s1") == ["done"]
    assert inbox(bench, agent="bob", task="WU-2") == inbox(bench, task="WU-1") == ["done"]
    assert inbox(bench, agent="bob") == inbox(bench, task="WU-3") == []


def test_each_reader_acknowledges_for_itself_and_once(bench: Bench) -> None:
    number = send(bench, "done", tasks=["WU-1"]).signal.id
    assert ack(bench, number, agent="ada", task="WU-1").acked == [number]
    again = ack(bench, number, 99, agent="ada", task="WU-1")
    assert (again.acked, again.already, again.unknown) == ([], [number], [99])
    assert ack(bench, number, agent="eve").unknown == [number]
    assert inbox(bench, agent="ada", task="WU-1") == []
    assert inbox(bench, agent="bob", task="WU-1") == ["done"]
    assert outbox(bench) == [("done", ["agent:ada"])]


def test_unread_signals_come_first_and_types_are_told_apart(bench: Bench) -> None:
    first = send(bench, "one", agents=["ada"]).signal.id
    send(bench, "two", agents=["ada"], type="blocked")
    send(bench, "three", agents=["ada"])
    ack(bench, first, agent="ada")
    assert inbox(bench, agent="ada", include_read=True) == ["two", "three", "one"]
    assert inbox(bench, agent="ada", type="blocked") == ["two"]
    assert inbox(bench, agent="ada", limit=1) == ["two"]


def test_a_signal_is_sent_once_for_each_key_of_a_sender(bench: Bench) -> None:
    first = send(bench, "done", agents=["ada"], key="k1")
    again = send(bench, "done", agents=["ada"], key="k1")
    assert (first.is_new, again.is_new) == (True, False)
    assert again.signal.id == first.signal.id
    assert send(bench, "other", agents=["ada"], key="k1", sender="bob").is_new
    assert inbox(bench, agent="ada") == ["done", "other"]


def test_expired_signals_are_not_received(bench: Bench) -> None:
    send(bench, "short", agents=["ada"], expires_s=1.0)
    send(bench, "long", agents=["ada"])
    wall_s = bench.clock.wall_s()
    bench.clock = replace(bench.clock, wall_ns=lambda: int((wall_s + 5) * 1e9))
    assert inbox(bench, agent="ada") == ["long"]
    send(bench, "later", agents=["ada"])
    assert [content for content, _ in outbox(bench)] == ["later", "long"]


def test_read_signals_make_room_and_unread_ones_are_never_dropped(bench: Bench) -> None:
    bench.config = replace(bench.config, signal=SignalConfig(max_signals=2))
    first = send(bench, "one", agents=["ada"]).signal.id
    send(bench, "two", agents=["ada"])
    with pytest.raises(Busy, match="2 signals wait"):
        send(bench, "three", agents=["ada"])
    ack(bench, first, agent="ada")
    send(bench, "three", agents=["ada"])
    assert inbox(bench, agent="ada") == ["two", "three"]


def test_signals_are_kept_by_a_restart_and_erased_by_a_purge(bench: Bench) -> None:
    send(bench, "password hunter2", agents=["ada"])
    send(bench, "harmless", agents=["ada"])
    bench.workspace.close()
    bench.open()
    params = PurgeParams(containing="hunter2")
    target = parse_target(params)
    purged = take(purge(bench.workspace, bench.config, bench.clock, target, params))
    assert purged.signals == 1
    assert inbox(bench, agent="ada") == ["harmless"]


def test_secrets_in_signals_are_masked(bench: Bench) -> None:
    send(bench, "use ghp_16C7e42F292c6912E7710c838347Ae178B4a", agents=["ada"])
    assert "ghp_" not in inbox(bench, agent="ada")[0]


def test_a_signal_without_an_addressee_and_an_inbox_without_a_reader_are_refused(
    bench: Bench,
) -> None:
    with pytest.raises(BadRequest, match="no addressee"):
        send(bench, "done")
    with pytest.raises(BadRequest, match="reader of the signals"):
        inbox(bench)


READERS = ("ada", "bob", "eve")


def open_signals() -> Signals:
    connection = apsw.Connection(":memory:")
    for number in (6, 8, 10, 11):
        connection.execute(str(MIGRATIONS[number]))
    return Signals(connection)


def make_signal(to: str) -> NewSignal:
    return NewSignal(
        sender="x", key=None, type="t", content="c", addresses=(to,), at_s=0, expires_at_s=9
    )


@given(
    st.lists(
        st.tuples(st.booleans(), st.sampled_from([*READERS, "T", EVERYONE])).filter(
            lambda step: step[0] or step[1] in READERS
        ),
        max_size=30,
    )
)
def test_each_addressee_receives_each_signal_once(steps: list[tuple[bool, str]]) -> None:
    signals = open_signals()
    received: dict[str, list[int]] = {name: [] for name in READERS}
    sent: dict[str, list[int]] = {name: [] for name in READERS}

    def receive(name: str) -> None:
        addresses = [f"agent:{name}", "task:T"]
        unread, n = signals.find(addresses, reader=addresses[0], now_s=1.0)
        assert n == len(unread)
        ids = [signal.id for signal in unread]
        done = signals.ack(ids, addresses, reader=addresses[0], now_s=1.0)
        assert (done.already, done.claimed) == ([], [])
        received[name] += done.acked

    for is_sending, name in steps:
        if is_sending:
            to = {"T": "task:T", EVERYONE: EVERYONE}.get(name, f"agent:{name}")
            signal, _ = signals.send(make_signal(to), max_signals=100)
            for reader in (name,) if name in READERS else READERS:
                sent[reader].append(signal.id)
        else:
            receive(name)
    for name in received:
        receive(name)
    assert received == sent


@given(st.lists(st.tuples(st.sampled_from(READERS), st.booleans()), min_size=1, max_size=8))
def test_one_of_several_that_claim_gets_a_signal(steps: list[tuple[str, bool]]) -> None:
    signals = open_signals()
    [number] = [signals.send(make_signal(EVERYONE), max_signals=9)[0].id]
    holders: set[str] = set()
    owner = ""
    for name, is_claim in steps:
        done = signals.ack([number], [], reader=f"agent:{name}", now_s=1.0, is_claim=is_claim)
        is_free = owner in ("", name) and not (is_claim and holders - {name})
        assert bool(done.claimed) == (not is_free)
        assert done.acked == ([number] if is_free and name not in holders else [])
        if is_free:
            holders.add(name)
            owner = name if is_claim else owner
        unread, _ = signals.find([], reader=f"agent:{name}", now_s=1.0)
        assert bool(unread) == (name not in holders and owner in ("", name))


@given(st.lists(st.integers(0, 5), max_size=12), st.integers(1, 3))
def test_a_signal_of_another_machine_is_received_once_and_waits_for_room(
    lines: list[int], room: int
) -> None:
    signals = open_signals()
    news = [replace(make_signal("agent:ada"), content=str(id_), line=f"line{id_}") for id_ in lines]
    received: list[str] = []
    for _ in range(len(lines) + 1):
        stored, is_whole = signals.receive(news, now_s=1.0, max_signals=room)
        received += [signal.content for signal in stored]
        assert (
            is_whole or len(signals.find(["agent:ada"], reader="agent:ada", now_s=1.0)[0]) == room
        )
        if is_whole:
            break
        ids = [signal.id for signal in stored]
        signals.ack(ids, ["agent:ada"], reader="agent:ada", now_s=1.0)
    assert sorted(received) == sorted({str(id_) for id_ in lines})
    assert signals.receive(news, now_s=1.0, max_signals=room) == ([], True)
    later = [replace(new, line=f"{new.line}-late") for new in news]
    assert signals.receive(later, now_s=9.0, max_signals=room) == ([], True)


def test_a_signal_that_has_yet_to_leave_makes_no_room() -> None:
    signals = open_signals()
    new = replace(make_signal(EVERYONE), line="line", elsewhere=("task:T@lap",))
    number = signals.send(new, max_signals=1)[0].id
    signals.ack([number], [], reader="agent:ada", now_s=1.0)
    with pytest.raises(Busy):
        signals.send(make_signal("agent:ada"), max_signals=1)
    signals.note_travel(["line"], "committed")
    assert signals.send(make_signal("agent:ada"), max_signals=1)[1]


def test_the_last_readers_are_remembered() -> None:
    signals = open_signals()
    names = [f"session:{number:04}" for number in range(MOST_READERS + 2)]
    signals.note_readers(names)
    assert signals.list_readers() == names[2:]
    signals.note_readers([names[1], names[-1]])
    assert {*signals.list_readers()} >= {names[1], names[-1]}
    assert len(signals.list_readers()) <= MOST_READERS


def test_a_star_is_no_addressee() -> None:
    for named in ({"agents": ["*"]}, {"sessions": ["s-1", "*"]}, {"tasks": ["*"]}):
        with pytest.raises(BadRequest, match="nobody's name"):
            list_addresses(SignalSendParams(content="x", **named))


def test_a_signal_to_all_reaches_every_reader_but_its_sender(bench: Bench) -> None:
    number = send(bench, "freeze", sender="ada", everyone=True).signal.id
    assert inbox(bench, agent="ada") == []
    assert inbox(bench, agent="bob") == inbox(bench, session="s9") == ["freeze"]
    assert ack(bench, number, agent="bob").acked == [number]
    assert (inbox(bench, agent="bob"), inbox(bench, agent="eve")) == ([], ["freeze"])


def test_an_addressee_that_nobody_has_read_as_is_named(bench: Bench) -> None:
    assert send(bench, "one", agents=["ada"]).warnings == [
        "nobody has read signals as agent:ada yet"
    ]
    # A hook reads as an agent and as a session.
    inbox(bench, agent="ada", session="s1")
    to_all = {"agents": ["ada"], "sessions": ["s1"], "tasks": ["WU-1"]}
    assert send(bench, "two", **to_all, everyone=True).warnings == []
    [warning] = send(bench, "three", agents=["adda"]).warnings
    assert warning == "nobody has read signals as agent:adda yet, did you mean agent:ada?"
