from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.errors import StoreCorrupt
from memsyncd.store.index import Index, PutNote
from memsyncd.store.texts import (
    BLOCK_CHARS,
    MAX_BLOCKS,
    inflate,
    make_blocks,
    read_note_text,
    read_texts,
)

Put = Callable[..., PutNote]

LINES = st.lists(st.text("ab é日", max_size=9) | st.just("long " * 3000), max_size=12)


@given(LINES, st.booleans())
def test_the_blocks_of_a_text_hold_each_of_its_lines_once(lines: list[str], has_end: bool) -> None:
    if lines and not lines[-1]:
        lines[-1] = "x"
    blocks = list(make_blocks("\n".join(lines) + "\n" * (has_end and bool(lines)), len(lines)))
    done = 0
    for start, end, data in blocks:
        assert start == done + 1
        assert inflate(data).split("\n") == lines[start - 1 : end]
        assert len("\n".join(lines[start - 1 : end - 1])) <= BLOCK_CHARS
        done = end
    assert done == len(lines)


def test_the_text_of_a_chunk_is_the_text_of_its_lines_in_one_block_or_several(
    index: Index, put: Put
) -> None:
    update = put("MEMORY.md", "".join(f"- {n} {'word ' * 20}\n" for n in range(500)))
    index.apply([update])
    with index.pool.acquire(5) as reader:
        assert len(reader.rows("SELECT id FROM texts")) > 4
        texts = read_texts(reader, [row[0] for row in reader.rows("SELECT id FROM chunks")])
        assert read_note_text(reader, "MEMORY.md") == update.note.text.rstrip("\n")
        # With each chunk the remembered blocks are read further, or not at all.
        for chunks in (sorted(texts), sorted(texts, reverse=True)):
            reader.memo.clear()
            for chunk in chunks:
                assert read_texts(reader, [chunk]) == {chunk: texts[chunk]}
    assert sorted(texts.values()) == sorted(chunk.text for chunk in update.note.chunks)


def test_each_part_of_a_line_that_is_too_long_has_its_own_text(index: Index, put: Put) -> None:
    update = put("MEMORY.md", f"# One\n{'word ' * 40_000}\n")
    assert len(update.note.chunks) > 3
    index.apply([update])
    with index.pool.acquire(5) as reader:
        texts = read_texts(reader, [row[0] for row in reader.rows("SELECT id FROM chunks")])
    assert sorted(texts.values()) == sorted(chunk.text for chunk in update.note.chunks)


def test_a_chunk_has_its_new_text_after_a_commit(index: Index, put: Put) -> None:
    for text in ("old", "new", "newer"):
        index.apply([put("MEMORY.md", text)])
        with index.pool.acquire(5) as reader:
            chunks = [row[0] for row in reader.rows("SELECT id FROM chunks")]
            assert [*read_texts(reader, chunks).values()] == [text]


def test_the_blocks_used_last_are_remembered_but_no_giant_ones(index: Index, put: Put) -> None:
    notes = [put(f"{number}.md", f"# {number}") for number in range(MAX_BLOCKS + 9)]
    index.apply([*notes, put("giant.md", "word " * 40_000)])
    with index.pool.acquire(5) as reader:
        rows = reader.rows(
            "SELECT c.id, t.id FROM chunks c JOIN texts t ON t.file = c.file ORDER BY c.id"
        )
        giant = {block for _, block in rows if [row[1] for row in rows].count(block) > 1}
        read_texts(reader, [chunk for chunk, _ in rows])
        first = next(block for _, block in rows if block not in giant)
        assert len(giant) == 1
        assert len(reader.memo["blocks"]) == MAX_BLOCKS
        assert not reader.memo["blocks"].keys() & {first, *giant}
        read_texts(reader, [chunk for chunk, block in rows if block == first])
        assert len(reader.memo["blocks"]) == MAX_BLOCKS
        assert [*reader.memo["blocks"]][-1] == first


@pytest.mark.parametrize("damage", ["data = x'00'", "data = substr(data, 1, length(data) - 4)"])
def test_a_damaged_text_asks_for_a_rebuild(index: Index, put: Put, damage: str) -> None:
    index.apply([put("MEMORY.md", "some words")])
    index._writer.execute(f"UPDATE texts SET {damage}")
    with index.pool.acquire(5) as reader, pytest.raises(StoreCorrupt):
        read_texts(reader, [1])
