"""Measures ripgrep, tantivy, qmd and basic-memory beside memsyncd, on the same notes and queries.

Each is used where it is installed, and reported as missing where it is not: `rg`, `qmd` and
`basic-memory` on PATH or in the folder that `install` fills from the package registries, tantivy
from that folder's Python or this one. Where a peer is a command, its whole process is measured.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.benchmarks.bench import Bench, Indexed, compare
from tests.benchmarks.figure import Figure, Measured, find_median
from tests.benchmarks.process import read_own_children_s
from tests.benchmarks.queries import LIGHT, Query
from tests.benchmarks.searches import time_by_turns

COMMAND_TIMEOUT_S = 900.0
N_OF_COMMANDS = 5
"""So many queries for peers that are commands."""
# pip installs ripgrep only where it finds a wheel; Debian's package serves as well.
PIP_PACKAGES = ("ripgrep", "tantivy", "basic-memory")
NPM_PACKAGES = ("@tobilu/qmd", "bun")
# Run by the Python that has tantivy: rows and queries come as JSON, times go back.
TANTIVY = """
import json, sys, tempfile, time
import tantivy
given = json.load(sys.stdin)
builder = tantivy.SchemaBuilder()
for name in ("heading", "text"):
    builder.add_text_field(name, stored=True, tokenizer_name="en_stem")
began = time.process_time()
index = tantivy.Index(builder.build(), path=tempfile.mkdtemp(dir=given["folder"]))
writer = index.writer(128_000_000, 1)
for heading, text in given["rows"]:
    writer.add_document(tantivy.Document(heading=heading, text=text))
writer.commit()
writer.wait_merging_threads()
cpu_s = time.process_time() - began
index.reload()
searcher, times_ms = index.searcher(), []
for words in given["queries"]:
    took = []
    for _ in range(3):
        start = time.perf_counter()
        query = index.parse_query(words, ["heading", "text"])
        for _, address in searcher.search(query, 10).hits:
            searcher.doc(address)
        took.append((time.perf_counter() - start) * 1000)
    times_ms.append(min(took))
json.dump({"cpu_s": cpu_s, "times_ms": times_ms}, sys.stdout)
"""


class PeerMissing(Exception):
    """A peer is not installed or does not work; the message says why."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a peer took: processor seconds to index, milliseconds of each query."""

    index_cpu_s: float | None
    times_ms: list[float]


def install(folder: Path) -> None:
    """Install the peers by name; what cannot be installed is told and will be missing."""
    folder.mkdir(parents=True, exist_ok=True)
    python = folder / "venv" / "bin" / "python"
    if not python.exists():
        subprocess.run((sys.executable, "-m", "venv", folder / "venv"), check=True)
    for package in PIP_PACKAGES:
        _try((str(python), "-m", "pip", "install", "-q", package), folder, package)
    if not (folder / "package.json").exists():
        (folder / "package.json").write_text('{"name": "peers", "private": true}\n')
    for package in NPM_PACKAGES:
        _try(("npm", "install", "--silent", "--no-audit", "--no-fund", package), folder, package)


def measure_peers(bench: Bench) -> Iterator[Figure]:
    """All peers with the fewest notes; those that take no minutes for it with all notes, too."""
    for size in sorted({bench.smallest, bench.whole}):
        indexed, queries = bench.indexed(size), bench.queries(size)[LIGHT]
        root = indexed[0].root
        peers: dict[str, Callable[[], Result]] = {
            "ripgrep": partial(run_ripgrep, bench, root, queries),
            "tantivy": partial(run_tantivy, bench, size, queries),
        }
        if size == bench.smallest:
            peers["qmd"] = partial(run_qmd, bench, root, queries)
            peers["basic-memory"] = partial(run_basic_memory, bench, root, queries)
        ours = time_by_turns(bench, indexed, [query.text for query in queries])
        for peer, run in peers.items():
            yield from _compare_peer(peer, run, indexed, ours)


def _compare_peer(
    peer: str, run: Callable[[], Result], indexed: Sequence[Indexed], ours: list[list[float]]
) -> Iterator[Figure]:
    name = f"two or three words, {indexed[0].n_chunks:,} chunks, p50"
    try:
        result = run()
    except (PeerMissing, OSError, subprocess.SubprocessError) as error:
        note = str(error).splitlines()[0][:160]
        yield Figure(row="peers", name=f"{peer}: {name}", is_missing=True, note=note)
        return
    limit = find_median(result.times_ms)
    measured = [Measured(value=find_median(one), limit=limit) for one in ours]
    yield compare("peers", name, measured, unit="ms", limit_name=peer)
    if result.index_cpu_s is not None:
        cold = [Measured(value=one.cold_cpu_s, limit=result.index_cpu_s) for one in indexed]
        name = f"cold index, {indexed[0].n_chunks:,} chunks, CPU"
        yield compare("peers", name, cold, unit="s", limit_name=peer)


def run_ripgrep(bench: Bench, root: Path, queries: Sequence[Query]) -> Result:
    program = find_program(bench, "rg")
    commands = [
        (program, "-i", "-l", "-F", *(part for word in query.text.split() for part in ("-e", word)))
        for query in queries
    ]
    notes = str(root / ".memories")
    # 1 is ripgrep's status if nothing is found.
    return Result(None, [_time((*command, notes), root, {}, (0, 1)) for command in commands])


def run_tantivy(bench: Bench, size: int, queries: Sequence[Query]) -> Result:
    python = sys.executable
    if bench.peers_folder and (bench.peers_folder / "venv").exists():
        python = str(bench.peers_folder / "venv" / "bin" / "python")
    probe = (python, "-c", "import tantivy")
    if subprocess.run(probe, capture_output=True, check=False).returncode:
        raise PeerMissing("tantivy is not installed: pip install tantivy")
    given = {
        "folder": str(bench.folder),
        "rows": [row[:2] for row in bench.rows(size)],
        "queries": [query.text for query in queries],
    }
    done = subprocess.run(
        (python, "-c", TANTIVY), input=json.dumps(given), capture_output=True, text=True, check=True
    )
    answer = json.loads(done.stdout)
    return Result(answer["cpu_s"], answer["times_ms"])


def run_qmd(bench: Bench, root: Path, queries: Sequence[Query]) -> Result:
    program = find_program(bench, "qmd")
    home = bench.folder / "qmd"
    home.mkdir(exist_ok=True)
    # qmd leaves hidden folders out.
    add = (program, "collection", "add", ".", "--name", "notes", "--mask", "**/*.md")
    index_cpu_s = _time_cpu(add, root / ".memories", _env(bench, home))
    times_ms = [
        _time((program, "search", query.text, "-n", "10"), root, _env(bench, home))
        for query in queries[:N_OF_COMMANDS]
    ]
    return Result(index_cpu_s, times_ms)


def run_basic_memory(bench: Bench, root: Path, queries: Sequence[Query]) -> Result:
    program = find_program(bench, "basic-memory")
    home = bench.folder / "basic-memory"
    home.mkdir(exist_ok=True)
    env = _env(bench, home)
    _time((program, "project", "add", "notes", str(root / ".memories")), root, env)
    index_cpu_s = _time_cpu((program, "reindex", "--project", "notes"), root, env)
    times_ms = [
        _time((program, "tool", "search-notes", query.text, "--project", "notes"), root, env)
        for query in queries[:N_OF_COMMANDS]
    ]
    return Result(index_cpu_s, times_ms)


def find_program(bench: Bench, name: str) -> str:
    """Return the program in the folder of installed peers or on PATH. Raises PeerMissing."""
    found = shutil.which(name, path=_find_path(bench))
    if not found:
        raise PeerMissing(f"{name} is not installed")
    return found


def _find_path(bench: Bench) -> str:
    own = []
    if bench.peers_folder:
        folder = bench.peers_folder
        own = [str(folder / "venv" / "bin"), str(folder / "node_modules" / ".bin")]
    return os.pathsep.join((*own, os.environ["PATH"]))


def _env(bench: Bench, home: Path) -> dict[str, str]:
    return {"PATH": _find_path(bench), "HOME": str(home), "LANG": "C.UTF-8"}


def _time(
    command: Sequence[str], cwd: Path, env: dict[str, str], statuses: tuple[int, ...] = (0,)
) -> float:
    """Milliseconds of the whole process. Raises PeerMissing if it ends with another status."""
    began_s = time.perf_counter()
    done = subprocess.run(
        command,
        cwd=cwd,
        env=env or None,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=COMMAND_TIMEOUT_S,
        check=False,
    )
    took_ms = (time.perf_counter() - began_s) * 1000
    if done.returncode not in statuses:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise PeerMissing(f"{Path(command[0]).name} failed: {said[-1] if said else 'no reason'}")
    return took_ms


def _time_cpu(command: Sequence[str], cwd: Path, env: dict[str, str]) -> float:
    """Processor seconds of the whole process and its children."""
    before_s = read_own_children_s()
    _time(command, cwd, env)
    return read_own_children_s() - before_s


def _try(command: Sequence[str], folder: Path, package: str) -> None:
    print(f"installing {package}", file=sys.stderr)
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, timeout=COMMAND_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        print(f"{package} could not be installed: {error}", file=sys.stderr)
        return
    if done.returncode:
        print(f"{package} could not be installed; it is used if it is on PATH", file=sys.stderr)
