"""Measures a daemon's start with nothing changed: until the first answer, and from there until its
workspace is ready.

To be ready it must have seen that no note has changed: that is compared to a bare walk which takes
the stat of each note, and to one which also watches each folder. The first answer is compared to a
Python that does nothing.
"""

from __future__ import annotations

import json
import resource
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tests.benchmarks.bare import walk_notes, watch_notes
from tests.benchmarks.bench import Bench, compare
from tests.benchmarks.figure import Figure, Measured, Target, find_median
from tests.benchmarks.home import Home

LEAST_COMMAND = """
import os, sys, _socket
connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
connection.connect(sys.argv[1])
connection.sendall(sys.argv[2].encode() + b"\\n")
answer = b""
while not answer.endswith(b"\\n"):
    answer += connection.recv(65536)
os.write(1, answer)
os._exit(0)
"""


class Restart(NamedTuple):
    """The least times of some restarts, in milliseconds."""

    answer_ms: float
    ready_cpu_ms: float
    ready_wall_ms: float
    walk_cpu_ms: float
    watch_cpu_ms: float
    nothing_ms: float


def measure_ready(bench: Bench) -> Iterator[Figure]:
    restarts = restart_by_turns(bench, bench.whole)
    yield compare(
        "ready",
        "start, nothing changed: answering → `ready`, CPU",
        [Measured(value=restart.ready_cpu_ms, limit=restart.walk_cpu_ms) for restart in restarts],
        unit="ms",
        limit_name="scandir + stat",
        target=Target(most=5),
        note=f"{restarts[0].ready_wall_ms:.0f} ms of wall clock",
    )
    yield compare(
        "ready",
        "… beside the same walk with each folder opened and watched",
        [Measured(value=restart.ready_cpu_ms, limit=restart.watch_cpu_ms) for restart in restarts],
        unit="ms",
        limit_name="scandir + stat + inotify",
    )


def measure_first_answer(bench: Bench) -> Iterator[Figure]:
    restarts = restart_by_turns(bench, bench.whole)
    yield compare(
        "first-answer",
        "start → first answer",
        [Measured(value=restart.answer_ms, limit=restart.nothing_ms) for restart in restarts],
        unit="ms",
        limit_name="`python -c pass`",
        target=Target(most=200, unit="ms"),
    )


def restart_by_turns(bench: Bench, n_chunks: int) -> list[Restart]:
    return bench.once(("restarts", n_chunks), lambda: _restart_by_turns(bench, n_chunks))


def _restart_by_turns(bench: Bench, n_chunks: int) -> list[Restart]:
    indexed = bench.indexed(n_chunks)
    rounds: list[list[Restart]] = [[] for _ in indexed]
    for at, place in bench.by_turns(indexed):
        nothing_ms = time_nothing(place.home.checkout.python)
        walk_ms = take_own_cpu_ms(lambda root=str(place.root): walk_notes(root))
        watch_ms = take_own_cpu_ms(lambda root=str(place.root): watch_notes(root))
        place.home.stop()
        answer_ms = place.home.start() * 1000
        before_s, began_s = place.home.cpu_s(), time.perf_counter()
        place.home.wait_until_ready()
        cpu_ms = (place.home.cpu_s() - before_s) * 1000
        wall_ms = (time.perf_counter() - began_s) * 1000
        rounds[at].append(Restart(answer_ms, cpu_ms, wall_ms, walk_ms, watch_ms, nothing_ms))
    return [
        Restart(*(min(values) for values in zip(*restarts, strict=True))) for restarts in rounds
    ]


def take_own_cpu_ms(call: Callable[[], object]) -> float:
    """Milliseconds of this process's processor time."""
    began_s = time.process_time()
    call()
    return (time.process_time() - began_s) * 1000


def time_nothing(python: str) -> float:
    """Milliseconds of a Python that does nothing."""
    began_s = time.perf_counter()
    subprocess.run((python, "-c", "pass"), check=True)
    return (time.perf_counter() - began_s) * 1000


def measure_command(bench: Bench) -> Iterator[Figure]:
    """`memsyncd search` from start to end, as it is installed."""
    homes = [bench.start_home(checkout) for checkout in bench.checkouts]
    roots = [home.make_workspace("few", 50) for home in homes]
    for home, root in zip(homes, roots, strict=True):
        home.add(root)
    searches: list[list[float]] = [[] for _ in homes]
    nothings: list[list[float]] = [[] for _ in homes]
    least: list[float] = []
    for at, home in bench.by_turns(homes, bench.effort.n_commands):
        nothings[at].append(time_nothing(home.checkout.python))
        if home is homes[0]:
            least.append(time_least_command(home))
        began_s = time.perf_counter()
        command = (home.checkout.command, "search", "note", "words")
        subprocess.run(command, env=home.env, cwd=roots[at], stdout=subprocess.DEVNULL, check=True)
        searches[at].append((time.perf_counter() - began_s) * 1000)
    yield compare(
        "command",
        "`memsyncd search`, whole process, p50",
        [
            Measured(value=find_median(search), limit=find_median(nothing))
            for search, nothing in zip(searches, nothings, strict=True)
        ],
        unit="ms",
        limit_name="`python -c pass`",
        target=Target(most=1.5),
        note=f"least {min(searches[0]):.1f} / {min(nothings[0]):.1f} ms",
    )
    yield compare(
        "command",
        "… of the smallest program that asks the same and prints the answer's line",
        [Measured(value=find_median(least), limit=find_median(nothings[0]))],
        unit="ms",
        limit_name="`python -c pass`",
    )


def time_least_command(home: Home) -> float:
    """Milliseconds of a Python that only connects, sends a search and copies the answer."""
    request = {"jsonrpc": "2.0", "id": 1, "method": "search", "params": {"query": "note words"}}
    began_s = time.perf_counter()
    subprocess.run(
        (home.checkout.python, "-c", LEAST_COMMAND, home.socket_path, json.dumps(request)),
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return (time.perf_counter() - began_s) * 1000


def measure_hook(bench: Bench) -> Iterator[Figure]:
    """Processor time of `memsyncd hook session-start`, which agents run for each session."""
    homes = [bench.start_home(checkout) for checkout in bench.checkouts]
    roots = [home.make_workspace("few", 50) for home in homes]
    for home, root in zip(homes, roots, strict=True):
        home.add(root)
    hooks: list[list[float]] = [[] for _ in homes]
    nothings: list[list[float]] = [[] for _ in homes]
    for at, home in bench.by_turns(homes, bench.effort.n_commands):
        given = json.dumps({"cwd": str(roots[at]), "hook_event_name": "SessionStart"})
        command = (str(home.checkout.command), "hook", "session-start")
        nothings[at].append(take_cpu_ms((home.checkout.python, "-c", "pass"), home.env))
        hooks[at].append(take_cpu_ms(command, home.env, given))
    yield compare(
        "hook",
        "`memsyncd hook session-start`, whole process, CPU, least",
        [
            Measured(value=min(hook), limit=min(nothing))
            for hook, nothing in zip(hooks, nothings, strict=True)
        ],
        unit="ms",
        limit_name="`python -c pass`",
        target=Target(most=2.5),
    )


def take_cpu_ms(command: tuple[str, ...], env: dict[str, str], given: str = "") -> float:
    """Milliseconds of processor time of a program from start to end."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=env, input=given, text=True, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000
