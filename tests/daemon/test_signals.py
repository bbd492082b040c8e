"""Signals between agents that are connected, or come later; a killed daemon loses none."""

from __future__ import annotations

import subprocess
import sys
import threading
import uuid
from signal import SIGINT
from typing import TYPE_CHECKING

import pytest

from memsyncd.client.connection import Client
from memsyncd.client.memory import Memsyncd
from memsyncd.errors import MemsyncdError

pytestmark = pytest.mark.shared_daemon

if TYPE_CHECKING:
    from tests.daemon.conftest import Daemon, Home, Place


def test_a_signal_reaches_a_connected_agent_and_is_acknowledged(place: Place) -> None:
    with (
        Memsyncd(place.root, env=place.env, client="builder") as builder,
        Memsyncd(place.root, env=place.env, client="reviewer") as reviewer,
    ):
        builder.send_signal("before", agent="reviewer")
        live = reviewer.watch_signals(agent="reviewer", task="WU-2", timeout_s=30)
        assert next(live)["content"] == "before"
        sent = builder.send_signal("WU-1 is done", type="completion", task="WU-2")
        got = next(live)
        assert (got["id"], got["sender"], got["type"]) == (
            sent["signal"]["id"],
            "builder",
            "completion",
        )
        reviewer.ack_signals(got["id"], agent="reviewer", task="WU-2")
        builder.send_signal("of another task", task="WU-3")
        builder.send_signal("after", agent="reviewer")
        assert next(live)["content"] == "after"
        live.close()  # type: ignore[attr-defined]
        assert [signal["content"] for signal in reviewer.inbox(agent="reviewer", task="WU-2")] == [
            "before",
            "after",
        ]
        [mine] = [signal for signal in builder.outbox() if signal["id"] == got["id"]]
        assert [receipt["reader"] for receipt in mine["receipts"]] == ["agent:reviewer"]


def test_a_signal_to_all_reaches_connected_agents_and_one_of_them_claims_it(place: Place) -> None:
    with (
        Memsyncd(place.root, env=place.env, client="builder") as builder,
        Memsyncd(place.root, env=place.env, client="tester") as tester,
    ):
        live = tester.watch_signals(agent="tester", timeout_s=30)
        builder.send_signal("mine", agent="tester")
        assert next(live)["content"] == "mine"
        own = builder.watch_signals(agent="builder", timeout_s=30)
        sent = builder.send_signal("who takes it?", everyone=True)["signal"]
        tester.send_signal("to the builder", agent="builder")
        assert next(own)["content"] == "to the builder"
        assert next(live)["id"] == sent["id"]
        live.close()  # type: ignore[attr-defined]
        own.close()  # type: ignore[attr-defined]
        assert tester.ack_signals(sent["id"], agent="tester", claim=True)["acked"] == [sent["id"]]
        late = builder.ack_signals(sent["id"], agent="late", claim=True)
        assert (late["acked"], late["claimed"]) == ([], [sent["id"]])
        assert builder.inbox(agent="late") == []
        [mine] = [signal for signal in builder.outbox() if signal["id"] == sent["id"]]
        assert mine["claimed_by"] == "agent:tester"


def test_a_subscription_to_signals_gets_no_changes(place: Place) -> None:
    with place.daemon.client() as client:
        client.call("subscribe", workspace=place.id, signals={"agent": "ada"})
        (place.root / "MEMORY.md").write_text("nothing of this is a signal\n")
        place.wait_found("nothing", "MEMORY.md")
        place.client.call("signal.send", workspace=place.id, content="x", agents=["ada"])
        method, notice = next(client.notifications(timeout_s=30))
        assert (method, notice["signal"]["content"]) == ("signal", "x")


def test_the_command_line_prints_signals_as_they_arrive_and_acknowledges_them(place: Place) -> None:
    def send(content: str) -> None:
        place.client.call("signal.send", workspace=place.id, content=content, agents=["printer"])

    send("before")
    words = ["signal", "watch", "--agent", "printer", "--ack", "-w", place.id]
    with subprocess.Popen(
        [sys.executable, "-m", "memsyncd", *words],
        env=place.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as watch:
        assert watch.stdout is not None
        assert "agent:printer" in watch.stdout.readline()
        assert watch.stdout.readline().strip() == "before"
        send("after")
        assert "agent:printer" in watch.stdout.readline()
        assert watch.stdout.readline().strip() == "after"
        send("last")
        watch.stdout.readline()
        watch.stdout.readline()
        watch.send_signal(SIGINT)
        assert watch.wait(30) == 130
    box = place.client.call("signal.inbox", workspace=place.id, agent="printer", include_read=True)
    acked = [each["content"] for each in box["signals"] if each["acked_at"] is not None]
    assert acked[:2] == ["before", "after"]


def test_a_killed_daemon_loses_and_doubles_no_signal(own: Home) -> None:
    deliver_through_kills(own, n_signals=30, n_kills=2)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_many_kills_of_the_daemon_lose_and_double_no_signal(own: Home) -> None:
    deliver_through_kills(own, n_signals=2000, n_kills=40)


def deliver_through_kills(home: Home, *, n_signals: int, n_kills: int) -> None:
    """Send numbered signals to a task and kill the daemon meanwhile: both of its readers get each
    number once.
    """
    root, every = str(home.make_folder()), n_signals // (n_kills + 1)
    restarts = Restarts(home, home.start())
    restarts.call("workspace.add", path=root)
    run = uuid.uuid4().hex
    received: dict[str, list[str]] = {"ada": [], "bob": []}
    is_sent = threading.Event()

    def receive(agent: str) -> None:
        reader = {"agent": agent, "task": "T"}
        acked: list[int] = []
        is_last = False
        while not is_last:
            is_complete = is_sent.is_set()
            unread = restarts.call("signal.inbox", workspace=root, **reader)["signals"]
            is_last = is_complete and not unread
            for signal in unread:
                # A signal is not unread again if the crash swallowed the answer to its
                # acknowledgement alone.
                if signal["id"] not in acked:
                    acked.append(signal["id"])
                    received[agent].append(signal["content"])
                restarts.call("signal.ack", workspace=root, signals=[signal["id"]], **reader)

    readers = [threading.Thread(target=receive, args=(agent,)) for agent in received]
    for reader in readers:
        reader.start()
    try:
        for number in range(n_signals):
            if number % every == every - 1 and restarts.n < n_kills:
                restarts.kill()
            fields = {"content": f"{number}", "tasks": ["T"], "key": f"{run}-{number}"}
            restarts.call("signal.send", workspace=root, client="x", **fields)
    finally:
        is_sent.set()
        for reader in readers:
            reader.join()
    wanted = [f"{number}" for number in range(n_signals)]
    assert received == {"ada": wanted, "bob": wanted}
    with restarts.daemon.client() as client:
        sent = client.call("signal.outbox", workspace=root, client="x", limit=200)["signals"]
    assert [signal["content"] for signal in sent] == wanted[::-1][:200]
    assert all(len(signal["receipts"]) == len(readers) for signal in sent)


class Restarts:
    """A daemon that is killed and started again, and calls that are repeated until answered."""

    def __init__(self, home: Home, daemon: Daemon) -> None:
        self._home = home
        self.daemon = daemon
        self.n = 0
        self._lock = threading.Lock()

    def kill(self) -> None:
        with self._lock:
            self.n += 1
        self.daemon.kill()
        self.daemon = self._home.start()

    def call(self, method: str, **params: object) -> dict[str, list[dict[str, object]]]:
        # Each call has its own connection: the daemon may be killed at any moment.
        for _ in range(600):
            try:
                with Client(self._home.socket_path, 50) as client:
                    return client.call(method, **params)
            except MemsyncdError as failure:
                if failure.code not in ("no_daemon", "busy", "not_fresh", "workspace_not_found"):
                    raise
                threading.Event().wait(0.05)
        raise AssertionError(f"{method} was never answered")
