from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import apsw
from hypothesis import example, given
from hypothesis import strategies as st

from memsyncd.core.markdown.links import list_names
from memsyncd.store.index import (
    FTS_TABLES,
    DropNote,
    Index,
    PatchNote,
    PutNote,
    TouchNote,
    Update,
)
from memsyncd.store.rows import to_json_list
from memsyncd.store.sections import read_anchors
from memsyncd.store.targets import pack_name, unpack_name
from memsyncd.store.texts import read_texts
from tests.store.conftest import make_patch

Put = Callable[..., PutNote]
Dump = Callable[[Path], dict[str, list[tuple[object, ...]]]]

NOTE = "# red\none\n\n# blue\ntwo\n\n## dark #tint\nthree [[link]]\n\n# green\nfour\n"


def ask(index: Index, statement: str, *bindings: object) -> list[tuple[object, ...]]:
    with index.pool.acquire(5) as reader:
        return reader.rows(statement, bindings)


def find_ids(index: Index) -> dict[str, int]:
    """Return chunk ids by text."""
    return {text: chunk for chunk, text in find_texts(index).items()}


def find_texts(index: Index) -> dict[int, str]:
    with index.pool.acquire(5) as reader:
        return read_texts(reader, [row[0] for row in reader.rows("SELECT id FROM chunks")])


@given(st.lists(st.text(max_size=20), max_size=3))
def test_headings_are_kept_as_any_reader_of_json_expects(words: list[str]) -> None:
    assert to_json_list(words) == json.dumps(words, ensure_ascii=False)


def find_places(index: Index) -> dict[str, tuple[int, int]]:
    texts = find_texts(index)
    rows = ask(index, "SELECT id, start_line, end_line FROM chunks")
    return {texts[int(str(id_))]: (int(str(start)), int(str(end))) for id_, start, end in rows}


# --- what a changed note costs --------------------------------------------------------------------


def test_lines_inserted_above_move_spans_and_write_nothing_to_fts(index: Index, put: Put) -> None:
    index.apply([put("MEMORY.md", NOTE)])
    ids, places = find_ids(index), find_places(index)
    data = [ask(index, f"SELECT id, block FROM {table}_data ORDER BY id") for table in FTS_TABLES]
    written = index.apply([put("MEMORY.md", f"\n\n\n{NOTE}")])
    assert (written.upserted, written.deleted, written.kept, written.moved) == (0, 0, 0, 4)
    assert find_ids(index) == ids
    assert find_places(index) == {
        text: (start + 3, end + 3) for text, (start, end) in places.items()
    }
    assert data == [
        ask(index, f"SELECT id, block FROM {table}_data ORDER BY id") for table in FTS_TABLES
    ]


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
    ids = find_ids(index)
    for words, texts in {
        "MEMORY red": {"# red\none"},
        "MEMORY azure": {"# azure\ntwo", "## dark #tint\nthree [[link]]"},
        "MEMORY azure dark tint": {"## dark #tint\nthree [[link]]"},
        "MEMORY green": {"# green\nfour"},
        "blue": set(),
    }.items():
        match = f'heading : "{words}"'
        rows = ask(index, "SELECT rowid FROM chunks_fts WHERE chunks_fts MATCH ?", match)
        assert {chunk for (chunk,) in rows} == {ids[text] for text in texts}


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
    with index.pool.acquire(5) as reader:
        assert read_anchors(reader, ".memories/old-name.md") == []
        assert read_anchors(reader, ".memories/new/name.md")[0] == ".memories/new/name.md#red"


def test_a_move_from_an_unindexed_path_adds_the_note(index: Index, put: Put) -> None:
    written = index.apply([put("MEMORY.md", NOTE, moved_from=".memories/never.md")])
    assert (written.upserted, index.counts.files) == (4, 1)


def test_notes_that_move_at_once_add_one_segment_to_each_fts_table(index: Index, put: Put) -> None:
    """FTS5 ends a segment at each row whose id is smaller than the id before, and merges segments."""
    numbers = range(40)
    index.apply([put(f".memories/{n}.md", NOTE) for n in numbers])
    moved = [put(f".memories/new/{n}.md", NOTE, moved_from=f".memories/{n}.md") for n in numbers]
    assert index.apply(moved).upserted == 4 * len(numbers)
    for table in FTS_TABLES:
        assert ask(index, f"SELECT count(DISTINCT segid) FROM {table}_idx") == [(2,)]


def test_a_touched_note_has_the_moments_of_its_new_day(
    open_index: Callable[..., Index], put: Put, dump: Dump, tmp_path: Path
) -> None:
    text = f"{NOTE}\n# Dated\n<!-- memory: {{updated: 1970-01-01}} -->\ntext\n"
    old, new = put("MEMORY.md", text), put("MEMORY.md", text, tick=400_000_000_000_000)
    touch = TouchNote(path="MEMORY.md", stat=new.stat, read_at_ns=new.read_at_ns)
    touched, fresh = open_index("touched.db"), open_index("fresh.db")
    touched.apply([old])
    touched.apply([touch])
    fresh.apply([new])
    assert dump(tmp_path / "touched.db") == dump(tmp_path / "fresh.db")


# --- properties -----------------------------------------------------------------------------------

pieces = st.sampled_from([
    "# red\n", "## blue\n", "# red\n", "Setext\n===\n", "text here\n", "more text\n", "\n", "- item #tag\n", "- rel [[x#y]]\n",
    "```\ncode\n", "| a |\n|---|\n", "<!-- memory: {kind: Decision, importance: 1, tags: [a b, A, '#c'], priority: p0} -->\n",
    "---\n", "importance: .inf\n", "status: archived\n", "tags: [x,\n", "x: &a [*a]\n", "created: 2024-01-01\n",
    "word " * 60 + "\n", "<<<<<<< a\n", "=======\n", ">>>>>>> b\n", "\u2028\x0b\x85", "\0", "日本語\n",
    "###### six\n", "####### seven\n", "aliases: [x, Y]\n", "alias:: z\n", "owner:: ann ^b1\n", "![[x#^b1]] [v](b/c)\n",
    "id:: 0b0c7a3e-1111-2222-3333-444455556666\n", "((0b0c7a3e-1111-2222-3333-444455556666))\n", "[x]: y.md\n", "> [!note] t\n",
    "\\ud800 \\u0000\n", "topic: a, b\n", "title: t\n", "<!-- memory: {topic: '', updated: 2026-01-01} -->\n",
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


@given(
    texts=st.lists(documents, min_size=2, max_size=2),
    changes=st.lists(st.tuples(st.integers(0, 1), documents), min_size=1, max_size=5),
    is_dropped=st.booleans(),
)
@example(texts=[NOTE, ""], changes=[(0, "# red\none\n"), (0, NOTE)], is_dropped=False)
@example(texts=[NOTE, ""], changes=[(0, f"new\n{NOTE}")], is_dropped=True)
def test_a_note_that_changes_again_in_one_transaction_has_the_rows_of_its_last_text(
    put: Put, dump: Dump, texts: list[str], changes: list[tuple[int, str]], is_dropped: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        changed = Index(Path(folder) / "changed.db", "f" * 32)
        changed.apply([put(f".memories/{n}.md", text) for n, text in enumerate(texts)])
        updates: list[Update] = [put(f".memories/{n}.md", text) for n, text in changes]
        last = dict(enumerate(texts)) | dict(changes)
        if is_dropped:
            updates.append(DropNote(".memories/0.md"))
            del last[0]
        changed.apply(updates)
        fresh = Index(Path(folder) / "fresh.db", "f" * 32)
        fresh.apply([put(f".memories/{n}.md", text) for n, text in last.items()])
        assert changed.counts == fresh.counts
        changed.close()
        fresh.close()
        assert dump(Path(folder) / "changed.db") == dump(Path(folder) / "fresh.db")
        check_whole(Path(folder) / "changed.db")


def draw_settle(data: st.DataObject, disk: dict[str, str], put: Put) -> list[Update]:
    """Draw some changes as a sync would write them, each path once, and update `disk`."""
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
    if isinstance(update, PatchNote):
        return update.patch.note.path
    return update.note.path if isinstance(update, PutNote) else update.path


def check_whole(path: Path) -> None:
    """Run SQLite's own checks, and FTS5's check of its index."""
    connection = apsw.Connection(str(path))
    assert connection.execute("PRAGMA integrity_check").get == "ok"
    assert not connection.execute("PRAGMA foreign_key_check").fetchall()
    for table in FTS_TABLES:
        connection.execute(f"INSERT INTO {table}({table}, rank) VALUES('integrity-check', 1)")
    connection.close()


# --- patches --------------------------------------------------------------------------------------


@given(data=st.data())
def test_an_index_that_was_patched_equals_one_made_anew(
    put: Put, dump: Dump, data: st.DataObject
) -> None:
    long = "word " * 700
    lines = ["# first"]
    for number in range(data.draw(st.integers(2, 12))):
        lines += [
            f"# head {number}",
            "",
            f"{long}{number} #tag{number}",
            "",
            f"see [[note{number}]]",
        ]
    with tempfile.TemporaryDirectory() as folder:
        index = Index(Path(folder) / "patched.db", "f" * 32)
        index.apply([put("MEMORY.md", "\n".join(lines)), put(".memories/a.md", NOTE)])
        for tick in range(2, 2 + data.draw(st.integers(1, 5))):
            at = data.draw(st.integers(1, len(lines)))
            after = at + data.draw(st.integers(0, 2))
            lines[at:after] = data.draw(st.lists(st.sampled_from(MORE), max_size=3))
            # A section without a date has the day on which its note was saved.
            update = put("MEMORY.md", "\n".join(lines), tick=tick * 50_000_000_000_000)
            written = index.apply([make_patch(index, update) or update])
            assert written.kept + written.moved + written.upserted == len(update.note.chunks)
        fresh = Index(Path(folder) / "fresh.db", "f" * 32)
        fresh.apply([update, put(".memories/a.md", NOTE)])
        index.close()
        fresh.close()
        reopened = Index(Path(folder) / "patched.db", "f" * 32)
        reopened.close()
        assert index.counts == fresh.counts == reopened.counts
        assert dump(Path(folder) / "patched.db") == dump(Path(folder) / "fresh.db")
        check_whole(Path(folder) / "patched.db")


MORE = (
    "",
    "text",
    "- item #other",
    "word " * 2000,
    "```",
    "> [[link]]",
    "key:: value ^b1",
    "see [a][note] ![[a#^b1]]",
    "[note]: b.md",
    "password: Tr0ub4dor3xQ9z",
    "# head 1",
    "## beneath",
    '## new\n<!-- memory: {kind: bug, tags: [x, "#y"], task: T-1, keywords: [Über, "a\'b"]} -->\ntext',
    "### deep\n<!-- memory: {lifecycle: project, session: S-1, keywords: [über, c]} -->\ntext",
)


def test_a_patch_rewrites_one_section_of_many(index: Index, put: Put) -> None:
    lines = [line for n in range(200) for line in (f"# head {n}", f"text {n} {'word ' * 60}")]
    index.apply([put("MEMORY.md", "\n".join(lines))])
    before = dict(ask(index, "SELECT start_line, data FROM texts"))
    lines[201:202] = ["other words", "", "and more"]
    patch = make_patch(index, put("MEMORY.md", "\n".join(lines), tick=2))
    assert patch is not None
    written = index.apply([patch])
    assert (written.upserted, written.deleted, written.kept, written.moved) == (1, 1, 100, 99)
    after = dict(ask(index, "SELECT start_line, data FROM texts"))
    assert len(set(after.values()) - set(before.values())) <= 3


@given(path=st.text(min_size=1, max_size=20), title=st.text(max_size=20))
@example(path="notes/A Plan.md", title="/notes/a plan")
@example(path="notes/redis.md", title="Redis")
def test_a_name_is_read_as_it_was_stored(path: str, title: str) -> None:
    names = list_names(path, title)
    packed = [pack_name(name) for name in names]
    assert [unpack_name(path, name, key) for name, key in packed] == list(names)
    assert len({*packed}) == len(names)
