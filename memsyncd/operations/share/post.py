"""Commit the signals to other machines, and receive theirs.

`records.db` has the signals of this machine, and the ids of all that it has received; the file on
the branch has the signals of all machines. Both are compared at each exchange, so an exchange that
ends half way, or a file that was lost, is made up for by the next one.
"""

from __future__ import annotations

from collections.abc import Sequence

from memsyncd.config import Config
from memsyncd.engine.clock import Clock
from memsyncd.engine.rebuild import require_records
from memsyncd.engine.worker import Job
from memsyncd.engine.workspace import Workspace
from memsyncd.operations.share.exchange import Committing
from memsyncd.operations.share.git import Author, Head, NewCommit, Repository, hash_blob
from memsyncd.operations.share.rules import MACHINE_KEY, clean_name, name_origin
from memsyncd.operations.travel import (
    SIGNALS_FILE,
    SignalLine,
    SignalLines,
    add_own,
    parse_signals,
    render_file,
    split_address,
)
from memsyncd.store.records import NewSignal, SentSignal, StoredSignal, Travel

MOST_FILE_BYTES = 32 * 1024 * 1024
TOO_LARGE = f"{SIGNALS_FILE} is too large: no signal goes to other machines or comes from them"
AHEAD = (
    "the clock of {} was wrong, so a signal from or to it cannot leave: correct the clock, and give"
    " the machine another name in share.machine"
)
AHEAD_S = 86_400.0
"""Clocks differ by less."""
NO_ROOM = "signals of other machines wait: too many here are unread; memsyncd signal ack makes room"


def read_sent(workspace: Workspace, _config: Config, clock: Clock) -> Job[list[SentSignal]]:
    """Return the signals of this machine to others that have not expired."""
    sent = require_records(workspace, clock).signals.list_sent_elsewhere(clock.wall_s())
    yield
    return sent


def read_post(repository: Repository, blob: str) -> SignalLines | None:
    """Return the lines of the file with this id, which may be empty; None if it is too large."""
    if not blob:
        return SignalLines()
    texts = repository.read_blobs([blob], MOST_FILE_BYTES)
    return parse_signals(texts[blob]) if blob in texts else None


def commit_signals(
    repository: Repository,
    head: Head,
    lines: SignalLines,
    sent: Sequence[SentSignal],
    who: Committing,
) -> tuple[str, SignalLines, str]:
    """Commit the lines that this machine has to write. Return the branch's commit, its lines and
    the id of their file. Raises ShareFailed.
    """
    own = [_make_line(each, who.machine) for each in sent]
    after = add_own(lines, who.machine, own, round(who.at_s, 3))
    if after is lines:
        return head.commit, lines, ""
    new = [line for line in own if line.id in after.signals and line.id not in lines.signals]
    data = render_file(after)
    writers = {clean_name(line.writer) for line in new}
    words = _describe(len(new), who.machine, is_known=who.machine in lines.machines)
    writer = writers.pop() if len(writers) == 1 else who.identity.name
    message = f"{words}\n\n{MACHINE_KEY}: {who.machine}\n"
    plan = NewCommit(
        author=Author(writer, who.identity.email),
        message=message,
        parents=(),
        files={SIGNALS_FILE: data},
    )
    commit = repository.extend(head.branch, head.commit, [plan], who.identity, who.at_s)
    return commit, after, hash_blob(data, commit)


def list_ahead(
    lines: SignalLines, machine: str, sent: Sequence[SentSignal], now_s: float
) -> list[str]:
    """Return the machines that signals cannot leave or reach, because a time of the future in the
    file ends each of them.
    """
    waiting = [each for each in sent if each.travel == "waiting" and each.line not in lines.signals]
    names = {split_address(address)[1] for each in waiting for address in each.addresses}
    names |= {machine for _ in waiting}
    return sorted(name for name in names if lines.machines.get(name, 0.0) > now_s + AHEAD_S)


def _describe(n_new: int, machine: str, *, is_known: bool) -> str:
    """Return the first line of the message of a commit of the file."""
    if n_new:
        return f"send {n_new} signal{'s' * (n_new != 1)} to other machines"
    if is_known:
        return "remove signals that have ended"
    return f"{machine} begins to share this memory"


def _make_line(sent: SentSignal, machine: str) -> SignalLine:
    signal = sent.signal
    return SignalLine(
        id=sent.line,
        at=round(signal.at_s, 3),
        machine=machine,
        writer=signal.sender,
        to=sent.addresses,
        type=signal.type,
        text=signal.content,
        expires=round(signal.expires_at_s, 3),
        once=sent.key,
    )


def deliver(
    workspace: Workspace,
    config: Config,
    clock: Clock,
    *,
    lines: SignalLines | None,
    machine: str,
    here: Sequence[SentSignal],
    is_pushed: bool,
) -> Job[tuple[list[StoredSignal], bool]]:
    """Store the signals to this machine, each once, and note how far its own signals `here` in the
    file have come. Return the new signals, and False if not all have room.
    """
    signals = require_records(workspace, clock).signals
    travel: Travel = "pushed" if is_pushed else "committed"
    come = [each.line for each in here if each.travel not in (travel, "pushed")]
    if come:
        signals.note_travel(come, travel)
    if lines is None:
        return [], True
    yield
    news = [
        NewSignal(
            sender=name_origin(line.writer, line.machine),
            key=line.once,
            type=line.type,
            content=line.text,
            addresses=addresses,
            at_s=line.at,
            expires_at_s=line.expires,
            line=line.id,
        )
        for line in sorted(lines.signals.values(), key=lambda line: (line.at, line.id))
        if (addresses := line.list_addresses_on(machine))
    ]
    return signals.receive(news, now_s=clock.wall_s(), max_signals=config.signal.max_signals)
