"""Signals that travel to other machines: the lines of one shared file, and their merge.

A line is a signal or a machine. A machine's line has the last time at which it wrote to the file. A
signal goes when the machine that sent it, or each machine that it is for, has written after its
end. So the file alone decides which lines stay, never the clock of the machine that merges: the
merge is the same on every machine and from both sides, and merging again changes nothing. A wrong
clock harms the signals from and to its own machine alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Annotated, Final, Literal

import msgspec

from memsyncd.errors import BadRequest
from memsyncd.operations.fields import Word
from memsyncd.operations.signals.declare import SignalText, SignalType

SIGNALS_FILE: Final = ".signals.jsonl"
"""The name of the file, in the folder of the repository."""
MOST_MACHINES: Final = 100
"""The machines that wrote last are kept."""
MOST_LIFE_S: Final = 366 * 86_400.0
MACHINE_MARK: Final = "@"

Time = Annotated[float, msgspec.Meta(ge=0, le=1e11)]
MachineName = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Address = Annotated[str, msgspec.Meta(min_length=1, max_length=500)]


class SignalLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A signal to other machines. `to` has addresses such as `agent:NAME@MACHINE`."""

    id: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    at: Time
    machine: MachineName
    """The machine that sent it."""
    writer: Word
    to: Annotated[tuple[Address, ...], msgspec.Meta(min_length=1, max_length=100)]
    type: SignalType
    text: SignalText
    expires: Time
    once: Word | None = None
    """The sender's own name for it, by which it is received once."""

    def list_addresses_on(self, machine: str) -> tuple[str, ...]:
        """Return the addresses on this machine, as its readers name them."""
        places = (split_address(address) for address in self.to)
        return tuple(name for name, place in places if place == machine)


class MachineLine(msgspec.Struct, frozen=True, kw_only=True):
    """A machine, and the last time at which it wrote to the file."""

    name: MachineName
    at: Time


class SignalLines(msgspec.Struct, frozen=True, kw_only=True):
    """The file: the times of machines by their names, and signals by their ids."""

    machines: Mapping[str, float] = {}
    signals: Mapping[str, SignalLine] = {}


# --- the file -----------------------------------------------------------------------------------

_LINES: Final = tuple(map(msgspec.json.Decoder, (SignalLine, MachineLine)))


def parse_signals(data: bytes) -> SignalLines:
    """Return the lines of a file. A line that cannot be read is left out."""
    machines: dict[str, float] = {}
    signals: dict[str, SignalLine] = {}
    for text in data.split(b"\n"):
        line = _read_line(text)
        if isinstance(line, SignalLine):
            signals[line.id] = _choose(signals.get(line.id), line)
        elif line is not None:
            machines[line.name] = max(machines.get(line.name, 0.0), line.at)
    return _settle(machines, signals)


def _read_line(text: bytes) -> SignalLine | MachineLine | None:
    for decoder in _LINES:
        try:
            line: SignalLine | MachineLine = decoder.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        if isinstance(line, SignalLine) and not line.at < line.expires <= line.at + MOST_LIFE_S:
            return None
        return line
    return None


def render_file(lines: SignalLines) -> bytes:
    """Return the bytes of a file: the machines by name, then the signals by time and id."""
    machines = [MachineLine(name=name, at=at) for name, at in sorted(lines.machines.items())]
    signals = sorted(lines.signals.values(), key=lambda line: (line.at, line.id))
    return b"".join(msgspec.json.encode(line) + b"\n" for line in (*machines, *signals))


def join(first: SignalLines, second: SignalLines) -> SignalLines:
    """Return the lines of both, without the signals that have ended."""
    machines, signals = dict(first.machines), dict(first.signals)
    for name, at in second.machines.items():
        machines[name] = max(machines.get(name, 0.0), at)
    for id_, line in second.signals.items():
        signals[id_] = _choose(signals.get(id_), line)
    return _settle(machines, signals)


def merge_files(ours: bytes, theirs: bytes) -> bytes:
    """Merge two versions of the file."""
    return render_file(join(parse_signals(ours), parse_signals(theirs)))


def _choose(first: SignalLine | None, second: SignalLine) -> SignalLine:
    return second if first is None else max(first, second, key=msgspec.json.encode)


def _settle(machines: Mapping[str, float], signals: Mapping[str, SignalLine]) -> SignalLines:
    latest = sorted(machines.items(), key=lambda item: (item[1], item[0]))[-MOST_MACHINES:]
    kept = {id_: line for id_, line in signals.items() if not _has_ended(line, machines)}
    return SignalLines(machines=dict(latest), signals=kept)


def _has_ended(line: SignalLine, machines: Mapping[str, float]) -> bool:
    """True if the sender or all addressees have written after the end of a signal, and for a
    signal to nobody.
    """
    if machines.get(line.machine, 0.0) >= line.expires:
        return True
    places = {split_address(address)[1] for address in line.to} & machines.keys()
    return all(machines[place] >= line.expires for place in places)


def add_own(
    lines: SignalLines, machine: str, sent: Iterable[SignalLine], now_s: float
) -> SignalLines:
    """Return the lines after this machine has written: with its own signals, without the signals
    from or to it that have ended. They stay as they are if it has nothing to write.
    """
    last_s = lines.machines.get(machine, 0.0)
    new = [line for line in sent if line.expires > now_s and line.id not in lines.signals]
    is_due = any(
        # Its time in the file says it already; other addressees may still have to say so.
        last_s < line.expires <= now_s
        and (line.machine == machine or line.list_addresses_on(machine))
        for line in lines.signals.values()
    )
    after = join(
        lines,
        SignalLines(machines={machine: now_s}, signals={line.id: line for line in new}),
    )
    # A wrong clock may have written a time at which a new signal has ended.
    is_new = any(line.id in after.signals for line in new)
    return after if is_new or is_due or machine not in lines.machines else lines


# --- addresses ----------------------------------------------------------------------------------


class Machines(msgspec.Struct, frozen=True, kw_only=True):
    """The machines of a shared memory, by their names."""

    own: str
    others: tuple[str, ...] = ()
    state: Literal["none", "off", "on"] = "none"
    """Whether the memory is shared."""


ALONE: Final = Machines(own="")
"""The machines of a memory that is not shared."""


class SignalRoute(msgspec.Struct, frozen=True, kw_only=True):
    """The addresses of a signal: all, without the name of this machine, and those on others."""

    addresses: tuple[str, ...]
    elsewhere: tuple[str, ...]


def split_address(address: str) -> tuple[str, str]:
    """Return the address on a machine and the machine; without one, the machine is empty."""
    name, _, machine = address.rpartition(MACHINE_MARK)
    return (name, machine) if machine and name[name.find(":") + 1 :] else (address, "")


def route_signal(
    addresses: Sequence[str], machines: Machines, readers: Collection[str]
) -> SignalRoute:
    """Return where a signal goes. An address that a reader of this machine has is this reader's,
    unless it names another machine of the memory. Raises BadRequest for a machine that is unknown,
    and while the memory is not shared.
    """
    routed: list[str] = []
    elsewhere: list[str] = []
    for address in addresses:
        name, machine = split_address(address)
        if machine in machines.others:
            elsewhere.append(address)
        elif machine and machine != machines.own and address not in readers:
            raise _make_unknown(machine, machines)
        routed.append(name if machine == machines.own else address)
    if elsewhere and machines.state == "off":
        raise _make_off(split_address(elsewhere[0])[1])
    return SignalRoute(addresses=tuple(routed), elsewhere=tuple(elsewhere))


def _make_off(machine: str) -> BadRequest:
    hint = "begin again: memsyncd share on"
    return BadRequest(f"no signal goes to {machine}: sharing is off", hint=hint)


def _make_unknown(machine: str, machines: Machines) -> BadRequest:
    if machines.state == "none":
        hint = "share it: memsyncd share init [REMOTE]; if it was shared: memsyncd share on"
        return BadRequest(f"no signal goes to {machine}: the memory is not shared", hint=hint)
    if machines.state == "off":
        return _make_off(machine)
    others = ", ".join(machines.others) or "no other machine yet"
    hint = f"it has: {others}; a machine is known after its first memsyncd share now"
    return BadRequest(f"{machine} is no machine of this shared memory", hint=hint)
