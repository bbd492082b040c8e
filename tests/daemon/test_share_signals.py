"""Signals and tasks on several machines: real daemons with homes of their own, and git between."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memsyncd.errors import BadRequest, MemsyncdError
from tests.daemon.test_share import (
    BY_HAND,
    BY_ITSELF,
    SECRET,
    Machine,
    bare,
    git,
    make_machine,
    settle,
)

__all__ = ["bare", "make_machine"]

pytestmark = [pytest.mark.life, pytest.mark.needs("git")]

Make = Callable[..., Machine]


def make_pair(make_machine: Make, config: str = BY_HAND) -> tuple[Machine, Machine]:
    desk, laptop = make_machine("desk", config), make_machine("laptop", config)
    for machine in (desk, laptop):
        machine.share()
    settle(desk, laptop)
    return desk, laptop


def send(machine: Machine, text: str, *agents: str, **params: Any) -> dict[str, Any]:
    params = {"client": "codex"} | params
    return machine.call("signal.send", content=text, agents=[*agents], **params)


def inbox(machine: Machine, **params: Any) -> list[tuple[str, str]]:
    params = {"agent": "ann", "include_read": True} | params
    signals = machine.call("signal.inbox", **params)["signals"]
    return [(each["sender"], each["content"]) for each in signals]


def travel(machine: Machine) -> list[str | None]:
    signals = machine.call("signal.outbox", client="codex")["signals"]
    return [each.get("travel") for each in signals]


def test_a_signal_to_another_machine_is_delivered_once_there(
    make_machine: Make, bare: Path
) -> None:
    desk, laptop = make_pair(make_machine)
    laptop.place.client.call("subscribe", workspace=laptop.place.id, signals={"agent": "ann"})
    sent = send(desk, "the tests pass", "ann@laptop", "bob", key="k-1")
    assert (sent["signal"]["travel"], sent["signal"]["to"]) == (
        "waiting",
        ["agent:ann@laptop", "agent:bob"],
    )
    assert "write bob@MACHINE: laptop" in "".join(sent["warnings"])
    assert not send(desk, "the tests pass", "ann@laptop", key="k-1")["is_new"]
    send(desk, "for this machine", "ann")
    # Both machines send before they meet, and the file is merged.
    send(laptop, "and here?", "codex@desk", client="ann")
    away = bare.with_name("away")
    bare.rename(away)
    with contextlib.suppress(MemsyncdError):
        desk.now()
    assert travel(desk) == [None, "waiting"]
    away.rename(bare)
    assert desk.now()["is_pushed"]
    assert travel(desk) == [None, "pushed"]
    assert laptop.now()["n_signals"] == 1
    assert inbox(laptop) == [("codex@desk", "the tests pass")]
    assert inbox(desk, agent="codex") == []
    method, notice = next(laptop.place.client.notifications(timeout_s=30))
    assert method == "signal"
    assert notice["signal"]["to"] == ["agent:ann"]
    number = notice["signal"]["id"]
    claimed = laptop.call("signal.ack", agent="ann", signals=[number], claim=True)
    assert claimed["acked"] == [number]
    assert desk.now()["n_signals"] == 1
    assert inbox(desk, agent="codex") == [("ann@laptop", "and here?")]
    # An old file that comes back, a restart and an erased signal deliver nothing again.
    laptop.call("history.purge", containing="the tests pass")
    git(laptop.memories, "commit", "-q", "--allow-empty", "-m", "mine")
    git(laptop.memories, "rm", "-q", ".signals.jsonl")
    git(laptop.memories, "commit", "-q", "-m", "lost")
    settle(laptop, desk)
    laptop.kill()
    laptop.start()
    settle(laptop, desk)
    assert inbox(laptop) == []
    assert "the tests pass" in (laptop.memories / ".signals.jsonl").read_text()
    # The file is no note, and git finds nothing changed.
    assert [*laptop.call("list")["notes"]] == []
    for machine in (desk, laptop):
        assert git(machine.memories, "status", "--porcelain") == ""


def test_a_signal_that_cannot_travel_is_refused_and_one_that_ends_is_gone(
    make_machine: Make,
) -> None:
    alone = make_machine("alone")
    with pytest.raises(BadRequest, match="not shared") as refused:
        send(alone, "hello", "ann@laptop")
    assert "memsyncd share on" in refused.value.hint
    desk, laptop = make_pair(make_machine)
    with pytest.raises(BadRequest, match="attic is no machine") as refused:
        send(desk, "hello", "ann@attic")
    assert "it has: laptop" in refused.value.hint
    with pytest.raises(BadRequest, match="it has a secret"):
        send(desk, f"the key is {SECRET}", "ann@laptop")
    send(desk, f"the key is {SECRET}", "ann")
    send(desk, "all here", everyone=True)
    longer = send(desk, "stays longer", "ann@laptop", expires_s=3600)["signal"]
    send(desk, "soon over", "ann@laptop", expires_s=0.1)
    time.sleep(0.1)
    desk.now()
    assert travel(desk)[:2] == ["waiting", "pushed"]
    laptop.now()
    [received] = laptop.call("signal.inbox", agent="ann")["signals"]
    assert received["content"] == "stays longer"
    assert received["expires_at"] == pytest.approx(longer["expires_at"], abs=0.01)
    # A machine whose clock was wrong gets no signal, because each would end at once, and is named.
    with (laptop.memories / ".signals.jsonl").open("a") as file:
        file.write('{"name":"laptop","at":9e9}\n')
    git(laptop.memories, "commit", "-q", "-am", "wrong clock")
    settle(laptop, desk)
    assert desk.state()["said"] == []
    send(desk, "never arrives", "ann@laptop")
    commits = [desk.now()["committed"] for _ in range(2)]
    assert (commits, travel(desk)[0]) == ([0, 0], "waiting")
    assert "the clock of laptop was wrong" in "".join(desk.state()["said"])
    desk.call("share.switch", on=False)
    with pytest.raises(BadRequest, match="sharing is off"):
        send(desk, "hello", "ann@laptop")


WRAPPER = """#!/bin/sh
case " $* " in *" update-ref "*) echo 0 > "$STEPS"; exec {git} "$@";; esac
if [ -e "$STEPS" ]; then
  n=$(($(cat "$STEPS") + 1)); echo $n > "$STEPS"
  if [ $n -eq "$LAST" ]; then {git} "$@"; kill -9 $PPID; exit 1; fi
fi
exec {git} "$@"
"""


def test_a_kill_after_the_merge_neither_loses_nor_doubles_a_signal(
    make_machine: Make, tmp_path: Path
) -> None:
    desk, laptop = make_pair(make_machine)
    folder = tmp_path / "programs"
    folder.mkdir()
    wrapper = folder / "git"
    wrapper.write_text(WRAPPER.format(git=shutil.which("git")))
    wrapper.chmod(0o755)
    usual = dict(laptop.home.env)
    for step in range(1, 8, 2):
        send(desk, f"signal {step}", "ann@laptop")
        send(laptop, f"answer {step}", "codex@desk", client="ann")
        desk.now()
        laptop.kill()
        (tmp_path / "steps").unlink(missing_ok=True)
        laptop.home.env |= {
            "PATH": f"{folder}:{usual['PATH']}",
            "STEPS": str(tmp_path / "steps"),
            "LAST": str(step),
        }
        laptop.start()
        with contextlib.suppress(MemsyncdError, OSError):
            laptop.now()
        laptop.kill()
        assert (tmp_path / "steps").read_text().strip() == str(step), "it was not killed"
        laptop.home.env.clear()
        laptop.home.env |= usual
        laptop.start()
        settle(laptop, desk)
        wanted = sorted(f"signal {number}" for number in range(1, step + 1, 2))
        assert sorted(text for _, text in inbox(laptop)) == wanted
    assert len(inbox(desk, agent="codex")) == 4


def test_a_signal_travels_by_itself(make_machine: Make) -> None:
    desk, laptop = make_pair(make_machine, BY_ITSELF)
    send(desk, "by itself", "ann@laptop")
    laptop.place.wait(lambda: bool(inbox(laptop)), "it did not arrive")
    desk.place.wait(lambda: travel(desk) == ["pushed"], "it was not noted as pushed")


def test_a_task_that_is_claimed_or_done_is_so_on_the_other_machine(make_machine: Make) -> None:
    desk, laptop = make_pair(make_machine)
    anchor = desk.remember("Define the ports.", kind="decision", task="WU-1", status="open")
    settle(desk, laptop)

    def claim(machine: Machine, name: str, status: str = "doing") -> None:
        metadata = {"owner": f"{name}@{machine.name}"}
        machine.call("memory.set", anchors=[anchor], status=status, metadata=metadata)

    assert laptop.call("task.ready")["items"]
    claim(desk, "ann")
    settle(desk, laptop)
    assert "status: doing" in laptop.text()
    claim(laptop, "ann", "done")
    settle(desk, laptop)
    assert "status: done" in desk.text()
    assert desk.call("task.ready")["items"] == []
    # Both claim it before they meet: both machines name the same owner, and the history of the
    # other machine tells who has changed it.
    claim(desk, "bob")
    claim(laptop, "eve")
    settle(desk, laptop)
    assert "owner: eve@laptop" in desk.text() == laptop.text()
    [revision] = desk.call("history", limit=1)["revisions"]
    assert revision["command"] == "share"
    assert revision["client"].endswith("@laptop")
