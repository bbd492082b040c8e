"""Counts that commits keep equal counts of all sections, after any changes and at any time."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from memsyncd.core.editing.fields import value_topic
from memsyncd.core.editing.kinds import DEFAULT_KINDS
from memsyncd.core.search.filters import EVERYTHING, NO_FILTERS, Filters
from memsyncd.operations.stats.declare import GROUPS
from memsyncd.store.counts import find_places_of_kinds
from memsyncd.store.index import DropNote, Index, PutNote, TouchNote, Update
from memsyncd.store.lookup import count_passing, count_sections, stream_notes
from memsyncd.store.pool import Reader
from memsyncd.store.topics import Topics

Put = Callable[..., PutNote]
DAY_S = 86_400
BEGAN_S = datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp()
METAS = st.fixed_dictionaries(
    {},
    optional={
        "kind": st.sampled_from(["decision", "error"]),
        "task": st.sampled_from(["T-1", "T-2"]),
        "importance": st.sampled_from(["0.2", "0.9"]),
        "status": st.sampled_from(["open", "archived"]),
        "expires": st.sampled_from(["2026-03-02", "2026-03-04T10:00:00Z", "2026-03-05T01:00:00"]),
        "created": st.sampled_from(["2026-02-03", "2025-12-31"]),
        "tags": st.sampled_from(["[db/sql, ops]", "[db]", "[a/b/c]"]),
        "owner": st.sampled_from(["ann", "ann, bob", "carl"]),
        "Keywords": st.sampled_from(["[x, y]", "[y]"]),
    },
)
PATHS = st.sampled_from(["a.md", "b.md", "2025-06-07.md", "f/c.md"])
NOTES = st.tuples(METAS, st.lists(METAS, max_size=3), st.sampled_from([1, 300]))
STEPS = st.lists(
    st.tuples(
        st.dictionaries(PATHS, NOTES, max_size=3),
        st.dictionaries(PATHS, st.sampled_from(["drop", "move", "touch"]), max_size=2),
        st.integers(0, 3),
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=60)
@given(steps=STEPS, days_later=st.integers(-3, 5))
def test_kept_counts_are_the_counts_of_all_sections(
    steps: list[
        tuple[dict[str, tuple[dict[str, str], list[dict[str, str]], int]], dict[str, str], int]
    ],
    days_later: int,
    put: Put,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        index = Index(Path(folder) / "index.db", "f" * 32)
        disk: dict[str, str] = {}
        now_s = BEGAN_S
        for notes, others, days in steps:
            now_s += days * DAY_S
            updates: list[Update] = []
            for path, action in others.items():
                if path not in disk:
                    continue
                text = disk.pop(path)
                if action == "drop":
                    updates.append(DropNote(path))
                else:
                    new = f"moved/{path}" if action == "move" else path
                    moved = save(put(new, text, moved_from=path), now_s)
                    disk[new] = text
                    updates.append(
                        moved
                        if action == "move"
                        else TouchNote(path=path, stat=moved.stat, read_at_ns=moved.read_at_ns)
                    )
            texts = {path: render(*note) for path, note in notes.items() if path not in others}
            updates += (save(put(path, text), now_s) for path, text in texts.items())
            disk |= texts
            index.apply(updates)
        try:
            with index.pool.acquire(10.0) as reader:
                for at_s in (now_s, now_s + days_later * DAY_S):
                    check(reader, replace(NO_FILTERS, now_s=at_s))
                    check(reader, replace(EVERYTHING, now_s=at_s))
                places = reader.rows(
                    "SELECT s.kind, count(*), min(f.path) FROM sections s"
                    " JOIN files f ON f.id = s.file WHERE s.kind IS NOT NULL GROUP BY 1 ORDER BY 1"
                )
                assert find_places_of_kinds(reader) == places
                for is_all in (False, True):
                    check_topics(reader, is_all=is_all)
        finally:
            index.close()


def check(reader: Reader, filters: Filters) -> None:
    groups = [*GROUPS, "meta", "meta:owner", "meta:KEYWORDS"]
    for most in (2, 100):
        kept = count_sections(reader, filters, groups, most=most)
        counted = count_passing(reader, filters, groups, most=most)
        assert kept == counted


def check_topics(reader: Reader, *, is_all: bool) -> None:
    """Check that topics are listed as they are valued by all of their sections."""
    filters = replace(EVERYTHING, includes_archived=is_all)
    notes = {note.path: note for note in stream_notes(reader, filters=filters)}
    salience = {path: value_topic(note.sections, DEFAULT_KINDS, {}) for path, note in notes.items()}
    moments: dict[str, int] = dict(
        reader.rows(
            "SELECT f.path, max(s.moment) FROM files f JOIN sections s ON s.file = f.id"
            " WHERE ? OR s.status IS NOT 'archived' GROUP BY 1",
            (is_all,),
        )
    )
    by_salience = sorted(notes, key=lambda path: (-salience[path], path))
    by_moment = sorted(notes, key=lambda path: (-moments[path], path))
    for limit in (1, 100):
        topics = Topics(reader, is_all=is_all)
        orders = {"worth": by_salience, "recency": by_moment, "file": sorted(notes)}
        for order, paths in orders.items():
            listed = [(path, salience[path]) for path in paths[:limit]]
            assert topics.list_first(order, limit=limit) == listed
        assert topics.count() == len(notes)
        files = [row[0] for row in reader.rows("SELECT id FROM files")][:2]
        among = Topics(reader, is_all=is_all, files=files)
        assert len(among.list_first("worth", limit=9)) == among.count()


def save(update: PutNote, now_s: float) -> PutNote:
    """Let a note be saved now."""
    now_ns = int(now_s * 1e9)
    return replace(update, stat=update.stat._replace(mtime_ns=now_ns), read_at_ns=now_ns)


def render(meta: dict[str, str], sections: list[dict[str, str]], n_words: int) -> str:
    front = "".join(f"{key}: {value}\n" for key, value in meta.items())
    text = f"---\n{front}---\n# Note\n\n{'word ' * n_words}\n" if front else "# Note\n\ntext\n"
    for number, own in enumerate(sections):
        pairs = ", ".join(f"{key}: {value}" for key, value in own.items())
        comment = f"<!-- memory: {{{pairs}}} -->\n" if own else ""
        text += f"\n## Part {number}\n{comment}\ntext\n"
    return text
