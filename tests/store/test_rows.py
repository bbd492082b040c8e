from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import apsw
from hypothesis import example, given
from hypothesis import strategies as st

from memsyncd.store.index import DropNote, Index, PutNote, Update
from memsyncd.store.rows import to_json_list

Put = Callable[..., PutNote]
Dump = Callable[[Path], dict[str, list[tuple[object, ...]]]]

NOTE = "# red\none\n\n# blue\ntwo\n\n## dark #tint\nthree [[link]]\n\n# green\nfour\n"


def ask(index: Index, statement: str, *bindings: object) -> list[tuple[object, ...]]:
    with index.pool.acquire(5) as reader:
        return reader.rows(statement, bindings)


def find_ids(index: Index) -> dict[str, int]:
    """Chunk ids by text."""
    return {
        str(text): int(str(row)) for row, text in ask(index, "SELECT rowid, text FROM chunks_fts")
    }


@given(st.lists(st.text(max_size=20), max_size=3))
def test_headings_are_kept_as_any_reader_of_json_expects(words: list[str]) -> None:
    assert to_json_list(words) == json.dumps(words, ensure_ascii=False)


def find_places(index: Index) -> dict[str, tuple[int, int]]:
    rows = ask(
        index,
        "SELECT t.text, start_line, end_line FROM chunks c JOIN chunks_fts t ON t.rowid = c.id",
    )
    return {str(text): (int(str(start)), int(str(end))) for text, start, end in rows}


# --- what a changed note costs --------------------------------------------------------------------


def test_lines_inserted_above_move_spans_and_write_nothing_to_fts(index: Index, put: Put) -> None:
    index.apply([put("MEMORY.md", NOTE)])
    ids, places = find_ids(index), find_places(index)
    data = ask(index, "SELECT id, block FROM chunks_fts_data ORDER BY id")
    content = ask(index, "SELECT * FROM chunks_fts_content ORDER BY id")
    written = index.apply([put("MEMORY.md", f"\n\n\n{NOTE}")])
    assert (written.upserted, written.deleted, written.kept, written.moved) == (0, 0, 0, 4)
    assert find_ids(index) == ids
    assert find_places(index) == {
        text: (start + 3, end + 3) for text, (start, end) in places.items()
    }
    assert ask(index, "SELECT id, block FROM chunks_fts_data ORDER BY id") == data
    assert ask(index, "SELECT * FROM chunks_fts_content ORDER BY id") == content


def test_only_the_chunk_that_changed_is_rewritten(index: Index, put: Put) -> None:
    index.apply([put("MEMORY.md", NOTE)])
    before = find_ids(index)
    written = index.apply([put("MEMORY.md", NOTE.replace("two", "2"))])
    after = find_ids(index)
    assert (written.upserted, written.deleted, written.kept, written.moved) == (1, 1, 3, 0)
    assert len(set(before.values()) & set(after.values())) == 3
    assert "# blue\n2" in after
    assert "# blue\ntwo" not in after


def test_a_section_that_moves_within_its_note_keeps_its_chunks(index: Index, put: Put) -> None:
    index.apply([put("MEMORY.md", "# red\none\n\n# blue\ntwo\n")])
    ids = find_ids(index)
    index.apply([put("MEMORY.md", "# blue\ntwo\n\n# red\none\n")])
    assert find_ids(index) == ids


def test_a_changed_heading_rewrites_the_sections_beneath_it(index: Index, put: Put) -> None:
    index.apply([put("MEMORY.md", NOTE)])
    index.apply([put("MEMORY.md", NOTE.replace("# blue", "# azure"))])
    found = ask(index, "SELECT heading FROM chunks_fts ORDER BY rowid")
    assert {heading for (heading,) in found} == {
        "MEMORY red",
        "MEMORY azure",
        "MEMORY azure dark #tint",
        "MEMORY green",
    }


def test_a_tag_that_changes_rewrites_the_section(index: Index, put: Put) -> None:
    index.apply([put("MEMORY.md", "# a\ntext #old\n\n# b\nmore\n")])
    written = index.apply([put("MEMORY.md", "# a\ntext #new\n\n# b\nmore\n")])
    assert (written.upserted, written.deleted, written.kept) == (1, 1, 1)
    assert ask(index, "SELECT tag FROM tags") == [("new",)]


def test_metadata_links_and_problems_follow_the_note(index: Index, put: Put) -> None:
    head = "<!-- memory: {kind: decision, importance: 0.9, tags: [auth]} -->"
    index.apply([put("MEMORY.md", f"# a\n{head}\ntext [[old]]\n\n```\nopen\n")])
    assert ask(index, "SELECT kind, importance FROM sections") == [("decision", 0.9)]
    assert ask(index, "SELECT target FROM links") == [("old",)]
    assert ask(index, "SELECT code FROM problems") == [("unclosed_fence",)]
    index.apply([put("MEMORY.md", "# a\n\ntext [[new]]\n\n```\nclosed\n```\n")])
    assert ask(index, "SELECT kind, importance FROM sections") == [(None, None)]
    assert ask(index, "SELECT tag FROM tags") == []
    assert ask(index, "SELECT target FROM links") == [("new",)]
    assert ask(index, "SELECT code FROM problems") == []


def test_a_moved_note_keeps_its_rows(index: Index, put: Put) -> None:
    index.apply([put(".memories/old-name.md", NOTE), put("MEMORY.md", "other")])
    [(file_id,)] = ask(index, "SELECT id FROM files WHERE path = '.memories/old-name.md'")
    written = index.apply([put(".memories/new/name.md", NOTE, moved_from=".memories/old-name.md")])
    assert written.paths == (".memories/new/name.md", ".memories/old-name.md")
    assert ask(index, "SELECT id FROM files WHERE path = '.memories/new/name.md'") == [(file_id,)]
    assert index.counts.files == 2
    assert ask(index, "SELECT count(*) FROM chunks_fts WHERE chunks_fts MATCH 'heading : old'") == [
        (0,)
    ]
    assert ask(index, "SELECT count(*) FROM chunks_fts WHERE chunks_fts MATCH 'heading : new'") == [
        (4,)
    ]
    assert not ask(index, "SELECT anchor FROM sections WHERE anchor LIKE '%old%'")


def test_a_move_from_an_unindexed_path_adds_the_note(index: Index, put: Put) -> None:
    written = index.apply([put("MEMORY.md", NOTE, moved_from=".memories/never.md")])
    assert (written.upserted, index.counts.files) == (4, 1)


def test_notes_may_swap_paths_in_one_transaction(
    index: Index, put: Put, dump: Dump, open_index: Callable[..., Index]
) -> None:
    index.apply([put(".memories/a.md", "red"), put(".memories/b.md", "blue")])
    after = [put(".memories/a.md", "blue"), put(".memories/b.md", "red")]
    index.apply(after)
    fresh = open_index("fresh.db")
    fresh.apply(after)
    assert dump(index.path) == dump(fresh.path)


def test_dropping_a_note_deletes_all_its_rows(index: Index, put: Put) -> None:
    index.apply([put("MEMORY.md", f"---\nkind: x\nodd: [\n---\n{NOTE}")])
    index.apply([DropNote("MEMORY.md")])
    for table in ("files", "sections", "tags", "links", "problems", "chunks", "chunks_fts"):
        assert ask(index, f"SELECT count(*) FROM {table}") == [(0,)], table


def test_a_changed_tag_of_the_front_matter_rewrites_all_sections(index: Index, put: Put) -> None:
    """The text stays unchanged, and only the chunk of the front matter contains the tag."""
    for tag in ("old", "new"):
        index.apply([put("MEMORY.md", f"---\ntags: [{tag}]\n---\n# a\ntext\n")])
    assert ask(index, "SELECT count(*) FROM chunks_fts WHERE chunks_fts MATCH 'tags : new'") == [
        (2,)
    ]
    assert ask(index, "SELECT count(*) FROM chunks_fts WHERE chunks_fts MATCH 'tags : old'") == [
        (0,)
    ]


# --- properties -----------------------------------------------------------------------------------

pieces = st.sampled_from([
    "# red\n", "## blue\n", "# red\n", "Setext\n===\n", "text here\n", "more text\n", "\n", "- item #tag\n", "- rel [[x#y]]\n",
    "```\ncode\n", "| a |\n|---|\n", "<!-- memory: {kind: Decision, importance: 1, tags: [a b, A, '#c'], priority: p0} -->\n",
    "---\n", "importance: .inf\n", "status: archived\n", "tags: [x,\n", "x: &a [*a]\n", "created: 2024-01-01\n",
    "word " * 60 + "\n", "<<<<<<< a\n", "=======\n", ">>>>>>> b\n", "\u2028\x0b\x85", "\0", "日本語\n",
    "###### six\n", "####### seven\n",
    "\\ud800 \\u0000\n",
])  # fmt: skip
documents = st.lists(pieces, max_size=14).map("".join)
FREE = (".memories/free1.md", ".memories/free2.md", ".memories/free3.md")
paths = st.sampled_from(
    ["MEMORY.md", ".memories/a.md", ".memories/a.txt", ".memories/b/ü.markdown", ".memories/a#b.md"]
)


@given(written=st.lists(st.tuples(paths, documents | st.binary(max_size=200)), max_size=4))
@example(written=[("MEMORY.md", b"\xff\xfe\x00# \xed\xa0\x80\n")])
@example(written=[("MEMORY.md", '---\ntitle: "\\uD800"\nkind: "\\0"\nimportance: .nan\n---\n# \n')])
@example(written=[("MEMORY.md", "x" * 200_000)])
def test_the_rows_of_a_note_of_any_bytes_can_be_written(
    put: Put, written: list[tuple[str, str | bytes]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        index = Index(Path(folder) / "index.db", "f" * 32)
        for path, text in written:
            index.apply([put(path, text)])
        assert index.find_damage() == ""
        assert index.counts.files == len({path for path, _ in written})
        index.close()


@given(data=st.data())
def test_an_index_that_followed_changes_equals_a_new_one(
    put: Put, dump: Dump, data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        index = Index(Path(folder) / "followed.db", "f" * 32)
        disk: dict[str, str] = {}
        for _ in range(data.draw(st.integers(1, 4))):
            index.apply(draw_settle(data, disk, put))
        fresh = Index(Path(folder) / "fresh.db", "f" * 32)
        fresh.apply([put(path, text) for path, text in disk.items()])
        index.close()
        fresh.close()
        reopened = Index(Path(folder) / "followed.db", "f" * 32)
        reopened.close()
        assert index.counts == fresh.counts == reopened.counts
        followed = dump(Path(folder) / "followed.db")
        assert followed == dump(Path(folder) / "fresh.db")
        check_whole(Path(folder) / "followed.db")


def draw_settle(data: st.DataObject, disk: dict[str, str], put: Put) -> list[Update]:
    """Some changes as a sync would write them, each path once; brings `disk` up to date."""
    updates: list[Update] = []
    for path in data.draw(st.lists(paths, unique=True, max_size=4)):
        action = data.draw(st.sampled_from(["write", "write", "insert above", "drop", "move"]))
        free = sorted(set(FREE) - set(disk) - {find_path(update) for update in updates})
        if action == "drop" and path in disk:
            del disk[path]
            updates.append(DropNote(path))
        elif action == "move" and path in disk and free:
            disk[free[0]] = disk.pop(path)
            updates.append(put(free[0], disk[free[0]], moved_from=path))
        elif action in ("write", "insert above"):
            disk[path] = data.draw(documents) + (
                disk.get(path, "") if action == "insert above" else ""
            )
            updates.append(put(path, disk[path]))
    return updates


def find_path(update: Update) -> str:
    return update.note.path if isinstance(update, PutNote) else update.path


def check_whole(path: Path) -> None:
    """SQLite's own checks, and FTS5's of its own index."""
    connection = apsw.Connection(str(path))
    assert connection.execute("PRAGMA integrity_check").get == "ok"
    assert not connection.execute("PRAGMA foreign_key_check").fetchall()
    connection.execute("INSERT INTO chunks_fts(chunks_fts, rank) VALUES('integrity-check', 1)")
    connection.close()
