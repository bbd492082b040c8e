from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memsyncd.config import ChunkingConfig, GuardConfig
from memsyncd.core.changes.diff import FileStat
from memsyncd.core.markdown.parse import parse_note
from memsyncd.core.paths import NotePath
from memsyncd.core.search.filters import NO_FILTERS, Filters
from memsyncd.store import starts
from memsyncd.store.index import DropNote, Index, PutNote, TouchNote
from memsyncd.store.starts import StartPolicy, find_start_chunks

Row = tuple[str, str, int]

POLICY = StartPolicy(
    kinds={"error": 0.9, "preference": 0.95, "decision": 0.7}, other=0.5, pin_at=0.9
)
# Each order begins with the best.
REASONS = ("MEMORY.md", "pinned", "important", "project", "recent")
METAS = st.fixed_dictionaries(
    {},
    optional={
        "kind": st.sampled_from(["error", "preference", "decision", "other"]),
        "importance": st.sampled_from(["0.2", "0.9", "0.95", "1"]),
        "tags": st.sampled_from(["[pinned]", "[Pinned, a]", "[b]"]),
        "lifecycle": st.sampled_from(["project", "task"]),
        "status": st.sampled_from(["archived", "open"]),
    },
)
SECTIONS = st.lists(METAS, min_size=1, max_size=4)
PATHS = st.sampled_from(["MEMORY.md", *(f".memories/{name}.md" for name in "abcdef")])
CHANGES = st.lists(
    st.tuples(PATHS, st.sampled_from(["put", "put", "touch", "drop"]), SECTIONS, st.integers(1, 5)),
    min_size=1,
    max_size=14,
)
FILTERS = st.sampled_from(
    [
        NO_FILTERS,
        Filters(kinds=("error", "other")),
        Filters(tags=("b",)),
        Filters(is_archived=True),
        Filters(includes_archived=True),
        Filters(paths=(".memories",)),
    ]
)


def put(path: str, sections: list[dict[str, str]], *, tick: int) -> PutNote:
    data = write(sections).encode()
    stat = FileStat(size_bytes=len(data), mtime_ns=tick, ctime_ns=tick, inode=tick, device=1)
    note = parse_note(NotePath(path), data, ChunkingConfig(), GuardConfig())
    return PutNote(note=note, stat=stat, read_at_ns=tick)


def write(sections: list[dict[str, str]]) -> str:
    lines = []
    for number, meta in enumerate(sections):
        pairs = ", ".join(f"{key}: {value}" for key, value in meta.items())
        lines += [f"# part {number}", f"<!-- memory: {{{pairs}}} -->", f"text {number}", ""]
    return "\n".join(lines)


def list_best(
    disk: dict[str, tuple[list[dict[str, str]], int]], filters: Filters, limit: int, n_recent: int
) -> list[Row]:
    """Compute the sections of a session start from all sections."""
    rows: dict[str, list[Any]] = {reason: [] for reason in REASONS}
    passing = {
        path: [(n, meta) for n, meta in enumerate(sections) if is_passing(path, meta, filters)]
        for path, (sections, _) in disk.items()
    }
    in_order = sorted(filter(passing.get, passing), key=lambda path: (-disk[path][1], path))
    for path in in_order:
        for number, meta in passing[path]:
            reason = find_reason(path, meta)
            kind, stated = meta.get("kind", ""), meta.get("importance")
            weight = float(stated) if stated else POLICY.kinds.get(kind, POLICY.other)
            is_weighed = reason in ("pinned", "important", "project")
            if reason != "recent" or path in in_order[:n_recent]:
                order = (-weight if is_weighed else 0, -disk[path][1], path, number)
                rows[reason].append((order, (reason, path, 4 * number + 1)))
    return [row for reason in REASONS for _, row in sorted(rows[reason])[:limit]]


def is_passing(path: str, meta: dict[str, str], filters: Filters) -> bool:
    is_archived = meta.get("status") == "archived"
    return (
        (not filters.is_archived or is_archived)
        and (not is_archived or filters.is_archived or filters.includes_archived)
        and (not filters.kinds or meta.get("kind") in filters.kinds)
        and (not filters.tags or meta.get("tags") == "[b]")
        and (not filters.paths or path.startswith(".memories"))
    )


def find_reason(path: str, meta: dict[str, str]) -> str:
    if "pinned" in meta.get("tags", "").lower() or float(meta.get("importance", 0)) >= 0.9:
        return "pinned"
    if path == "MEMORY.md":
        return "MEMORY.md"
    if meta.get("kind") in ("error", "preference"):
        return "important"
    return "project" if meta.get("lifecycle") == "project" else "recent"


# The note that was saved last has none of the sections that pass the filter.
@example(
    changes=[
        ("MEMORY.md", "put", [{"importance": "0.95"}], 2),
        (".memories/a.md", "put", [{"importance": "0.95", "tags": "[b]"}], 1),
    ],
    filters=Filters(tags=("b",)),
    limit=1,
    n_recent=1,
    is_listed=False,
)
@given(
    changes=CHANGES,
    filters=FILTERS,
    limit=st.integers(1, 8),
    n_recent=st.integers(1, 4),
    is_listed=st.booleans(),
)
def test_a_session_start_finds_what_reading_all_sections_would_find(
    changes: list[tuple[str, str, list[dict[str, str]], int]],
    filters: Filters,
    limit: int,
    n_recent: int,
    is_listed: bool,
) -> None:
    disk: dict[str, tuple[list[dict[str, str]], int]] = {}
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(starts, "N_RECENT_NOTES", n_recent)
        patch.setattr(starts, "MAX_LISTED_CHUNKS", 100 if is_listed else -1)
        patch.setattr(starts, "MAX_STANDINGS", 2)
        index = Index(Path(folder) / "index.db", "f" * 32)
        for path, action, sections, tick in changes:
            if action == "put" or path not in disk:
                disk[path] = sections, tick
                index.apply([put(path, sections, tick=tick)])
            elif action == "touch":
                disk[path] = disk[path][0], tick
                stat = put(path, disk[path][0], tick=tick).stat
                index.apply([TouchNote(path=path, stat=stat, read_at_ns=tick)])
            else:
                del disk[path]
                index.apply([DropNote(path)])
        with index.pool.acquire(5) as reader:
            chunks = find_start_chunks(reader, filters, POLICY, limit=limit)
        index.close()
    found = [(chunk.reason, chunk.path, chunk.span.start) for chunk in chunks]
    assert found == list_best(disk, filters, limit, n_recent)
