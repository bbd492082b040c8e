"""Comparing index and disk finds everything that can differ, and nothing else."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memsyncd.engine.verify import (
    BATCH_NOTES,
    Comparison,
    compare_batch,
    describe_comparison,
    find_orphans,
    list_batches,
    split_batches,
)
from memsyncd.errors import NotFresh

if TYPE_CHECKING:
    from tests.engine.conftest import Bench

RICH = """---
kind: decision
tags: [auth, db]
title: Sessions
created: 2026-03-04
---
# Where sessions live

<!-- memory: {kind: preference, importance: 0.7, priority: P1, lifecycle: task, task: T-1, source: talk, colour: blue} -->

Sessions live in Redis because of its expiry #cache, see [[other#part]].

- replaced_by [[newer]]

## Part

One paragraph that is long enough to be cut, and another one after it to have more than a chunk of this note to compare.

And this is the other, with a\0NUL.

password: Tr0ub4dor3xQ9z
"""


def prove(bench: Bench) -> Comparison:
    compared = Comparison()
    for paths in list_batches(bench.workspace):
        compare_batch(bench.workspace, bench.config, paths, compared, now_ns=bench.clock.wall_ns())
    find_orphans(bench.workspace, compared)
    return compared


def find_levels(compared: Comparison) -> set[str]:
    return {finding.level for finding in describe_comparison(compared, n_synced=0)}


@pytest.fixture
def filled(bench: Bench) -> Bench:
    bench.write("MEMORY.md", RICH)
    bench.write(".memories/plain.txt", "some words\n\nsome more words\n")
    bench.write(".memories/empty.md", "")
    bench.sync()
    return bench


def tamper(bench: Bench, statement: str) -> None:
    index = bench.workspace.index
    assert index is not None
    index._writer.execute("PRAGMA foreign_keys = OFF")
    index._writer.execute(statement)
    assert index._writer.changes() > 0, "this changes nothing"


def test_words_of_any_form_and_length_are_looked_up_as_they_are_indexed(bench: Bench) -> None:
    words = {
        "code": "0x" + "60ab" * 300,
        "data": "QUJD" * 25_000,
        "decomposed": unicodedata.normalize("NFD", "naïvetés Übergrößenträger"),
        "private": "\uf8ffapple \ue001word",
        "joined": "हिन्दी व्यक्तिगत בְּרֵאשִׁית 日本語の文章です。 snake_case a\u200db",
    }
    for name, text in words.items():
        bench.write(f".memories/{name}.md", f"# {name}\n\n{text}\n")
    bench.sync()
    assert prove(bench).wrong == {}
    columns = "chunks_exact(rowid, heading, text, tags, subwords)"
    tamper(bench, f"REPLACE INTO {columns} SELECT id, '', 'other', '', '' FROM chunks")
    assert len(prove(bench).wrong) == len(words)


OTHERWISE = [
        *(
            f"UPDATE files SET {each} WHERE path = 'MEMORY.md'"
            for each in ("lines = 1", "title = 'x'", "day = NULL", "kind = NULL", "tags = '[]'", "size = size + 1", "extra = 'x'")
        ),
        *(
            f"UPDATE sections SET {each} WHERE level = 1"
            for each in (
                "slugs = 'other'", "heading = '[]'", "level = 2", "end_line = end_line + 1", "kind = 'x'",
                "importance = 0.1", "priority = 'P2'", "lifecycle = 'session'", "status = 'archived'", "task = NULL",
                "session = 'x'", "source = NULL", "created = 'x'", "expires = 'x'", "day = 'x'",
                "updated = 'x'", "extra = 'x'",
            )
        ),
        "DELETE FROM tags WHERE tag = 'cache'",
        "INSERT INTO tags SELECT id, 'surplus' FROM sections",
        "UPDATE links SET target = 'x'",
        "DELETE FROM links WHERE relation <> ''",
        "UPDATE links SET line = line + 1",
        "DELETE FROM problems",
        "DELETE FROM secrets",
        "UPDATE secrets SET end_line = end_line + 1",
        "UPDATE secrets SET what = 'x'",
        "UPDATE chunks SET start_line = start_line + 1, end_line = end_line + 1",
        "UPDATE chunks SET tokens = tokens + 1",
        "DELETE FROM chunks WHERE id = (SELECT min(id) FROM chunks)",
        "DELETE FROM chunks_fts WHERE rowid = (SELECT max(id) FROM chunks)",
        "UPDATE chunks SET digest = x'00' WHERE id = (SELECT max(id) FROM chunks)",
        "UPDATE chunks SET part = part + 1 WHERE id = (SELECT max(id) FROM chunks)",
        "DELETE FROM texts WHERE id = (SELECT max(id) FROM texts)",
        "UPDATE texts SET data = (SELECT data FROM texts ORDER BY id DESC LIMIT 1)",
        "UPDATE texts SET data = x'00'",
        *(
            f"REPLACE INTO {table}(rowid, heading, text, tags, subwords) SELECT max(id), {columns} FROM chunks"
            for table in ("chunks_fts", "chunks_exact")
            for columns in ("'MEMORY other', 'other words', '', ''", "'', '', '', ''")
        ),
    ]  # fmt: skip


@pytest.mark.life
def test_every_difference_from_a_fresh_parse_is_reported_as_wrong(filled: Bench) -> None:
    unseen = []
    for statement in OTHERWISE:
        tamper(filled, statement)
        compared = prove(filled)
        if not compared.wrong or find_levels(compared) != {"error"}:
            unseen.append(statement)
        filled.rebuild()
        assert find_levels(prove(filled)) == {"ok"}, statement
    assert not unseen, "\n".join(unseen)


def test_edits_of_a_large_note_leave_the_rows_that_parsing_it_gives(filled: Bench) -> None:
    lines = [line for n in range(400) for line in (f"## Part {n}", "", f"{n} {'word ' * 40}", "")]
    filled.fill({".memories/large.md": "\n".join(lines)})
    for at, put in ((402, ["other"]), (403, ["", "two more", "lines"]), (9, []), (0, ["## New"])):
        lines[at : at + 1] = put
        filled.fill({".memories/large.md": "\n".join(lines)})
        assert find_levels(prove(filled)) == {"ok"}, (at, put)


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM chunks_exact WHERE rowid = (SELECT max(id) FROM chunks)",
        "INSERT INTO chunks_exact(rowid, heading, text, tags, subwords) VALUES(999, 'a', 'stray', '', '')",
        "INSERT INTO chunks_fts(rowid, heading, text, tags, subwords) VALUES(999, 'a', 'stray', '', '')",
        "REPLACE INTO chunks_exact(rowid, heading, text, tags, subwords) SELECT max(id), 'a', 'fewer', '', '' FROM chunks",
    ],
)
def test_orphan_rows_and_other_words_are_found(filled: Bench, statement: str) -> None:
    tamper(filled, statement)
    compared = prove(filled)
    assert compared.orphans
    assert find_levels(compared) == {"error"}


def test_a_note_saved_meanwhile_is_changed_and_right_after_a_sync(filled: Bench) -> None:
    filled.write("MEMORY.md", "# Other\n")
    filled.write(".memories/new.md", "# New\n")
    (filled.root / ".memories" / "plain.txt").unlink()
    compared = prove(filled)
    assert compared.changed == {"MEMORY.md", ".memories/new.md", ".memories/plain.txt"}
    assert compared.wrong == {}
    assert find_levels(compared) == {"warning"}
    filled.sync()
    late = sorted(compared.changed)
    compare_batch(filled.workspace, filled.config, late, compared, now_ns=filled.clock.wall_ns())
    assert (compared.changed, compared.wrong) == (set(), {})


def test_other_bytes_with_the_same_stat_are_found_and_read_by_a_full_sync(
    filled: Bench,
) -> None:
    tamper(filled, "UPDATE files SET digest = 'd0' WHERE path = 'MEMORY.md'")
    compared = prove(filled)
    assert (compared.unseen, compared.wrong) == ({"MEMORY.md"}, {})
    assert find_levels(compared) == {"error"}
    filled.sync(is_full=True)
    assert find_levels(prove(filled)) == {"ok"}


def test_a_note_missing_in_the_index_is_changed_until_a_sync_finds_it(filled: Bench) -> None:
    tamper(filled, "DELETE FROM files WHERE path = '.memories/empty.md'")
    compared = prove(filled)
    assert compared.changed == {".memories/empty.md"}


def test_an_unreadable_note_is_reported_and_not_a_difference(filled: Bench) -> None:
    place = filled.root / ".memories" / "plain.txt"
    place.unlink()
    os.mkfifo(place)
    compared = prove(filled)
    assert compared.unreadable == {".memories/plain.txt"}
    assert find_levels(compared) == {"ok", "info"}


def test_a_missing_folder_cannot_be_verified(filled: Bench) -> None:
    filled.root.rename(filled.root.with_name("elsewhere"))
    with pytest.raises(NotFresh):
        prove(filled)


def test_the_first_difference_is_named_with_the_number_of_all() -> None:
    compared = Comparison(n_notes=9, wrong={f"{n}.md": "tags: 1 lacking" for n in range(5)})
    [finding] = describe_comparison(compared, n_synced=0)
    assert finding.check == "verify"
    assert finding.what == "index and disk differ in 5 of 9 notes: 0.md: tags: 1 lacking"
    assert finding.where == "0.md, 1.md, 2.md and 2 more"
    assert finding.remedy == "rebuild the index: memsyncd reindex"


@given(st.integers(0, 4 * BATCH_NOTES))
def test_batches_have_every_path_once_in_order(n_paths: int) -> None:
    paths = [f"{number}.md" for number in range(n_paths)]
    pieces = split_batches(paths)
    assert [path for piece in pieces for path in piece] == paths
    assert all(pieces)


LINES = st.sampled_from(
    "# One|## Two|## Two|plain words|- item #tag|- about [[x]]|```|<!-- memory: {kind: error, tags: [a]} -->|---|tags: [q]|"
    "|a\0b|日本語の文|snake_case CamelCase|> quoted|| a | b |".split("|")
)
EDITS = st.lists(st.tuples(st.integers(0, 3), st.lists(LINES, max_size=12) | st.none()), max_size=8)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edits=EDITS)
def test_after_any_writes_and_syncs_the_index_equals_the_disk(
    make_bench: Callable[..., Bench], edits: list[tuple[int, list[str] | None]]
) -> None:
    make_bench.n = getattr(make_bench, "n", 0) + 1  # type: ignore[attr-defined]
    bench = make_bench(f"p{make_bench.n}")  # type: ignore[attr-defined]
    bench.open()
    for number, lines in edits:
        place = bench.root / ".memories" / f"{number}.md"
        if lines is None:
            place.unlink(missing_ok=True)
        else:
            place.write_text("\n".join(lines))
        bench.sync()
    compared = prove(bench)
    assert (compared.wrong, compared.changed, compared.orphans) == ({}, set(), [])
