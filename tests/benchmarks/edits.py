"""Measure the cost of one changed line of a 1 MB note, against the same note written again, and
against reading it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from memsyncd.core.markdown.parse import parse_note
from memsyncd.core.notepath import NotePath
from memsyncd.engine.sync import SyncRequest
from memsyncd.engine.workspace import Workspace
from tests.benchmarks.cold import POLICY, open_workspace, run_sync, scratch
from tests.benchmarks.figure import Figure, find_median

N_ROUNDS = 7
NOTE_BYTES = 1_000_000
PATH = ".memories/large.md"


def measure(corpus: Path) -> Iterator[Figure]:
    text = make_note(corpus)
    edits, news, reads = [], [], []
    with scratch() as folder:
        note = folder / "root" / PATH
        note.parent.mkdir(parents=True)
        workspace = open_workspace(folder / "root", folder)
        for number in range(N_ROUNDS):
            note.unlink(missing_ok=True)
            time_sync(workspace)
            note.write_text(text)
            news.append(time_sync(workspace))
            note.write_text(text.replace("# Middle\n", f"# Middle\n\nan edited line {number}\n", 1))
            edits.append(time_sync(workspace))
            began_s = time.process_time()
            parse_note(NotePath(PATH), note.read_bytes(), POLICY.chunking, POLICY.guard)
            reads.append(time.process_time() - began_s)
        workspace.close()
    edit_s, new_s, read_s = find_median(edits), find_median(news), find_median(reads)
    note = f"{edit_s * 1000:.0f} / {new_s * 1000:.0f} ms"
    yield Figure(
        name="one line of a 1 MB note / all of it, CPU",
        value=edit_s / new_s,
        unit="x",
        target=0.5,
        note=note,
    )
    yield Figure(
        name="one line of a 1 MB note / reading it, CPU", value=edit_s / read_s, unit="x", target=2
    )


def make_note(corpus: Path) -> str:
    """Notes of the corpus, one after the other, with a heading in the middle."""
    texts, n_chars = [], 0
    for path in sorted(corpus.rglob("*.md")):
        if n_chars > NOTE_BYTES:
            break
        texts.append(path.read_text(errors="replace"))
        n_chars += len(texts[-1])
    middle = len(texts) // 2
    return "\n\n".join((*texts[:middle], "# Middle\n", *texts[middle:]))


def time_sync(workspace: Workspace) -> float:
    began_s = time.process_time()
    run_sync(workspace, SyncRequest(only=frozenset({PATH})))
    return time.process_time() - began_s
