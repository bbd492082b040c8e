from __future__ import annotations

import contextlib
import gzip
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import apsw
import pytest

from memsyncd.core.digest import digest_bytes
from memsyncd.errors import StoreFailed
from memsyncd.store import records
from memsyncd.store.blobs import Blobs
from memsyncd.store.history import ObservedNote
from memsyncd.store.integrity import Tampering
from memsyncd.store.records import MIGRATIONS, Move, Owner, Records, peek_heads, peek_owners
from memsyncd.store.schema import run_migration

Open = Callable[..., Records]


@pytest.fixture
def open_records(tmp_path: Path) -> Iterator[Open]:
    opened: list[Records] = []

    def open_one(
        *,
        workspace: str = "project-1",
        root: str = "/home/ada/project",
        now_s: float = 1000.0,
        **more: Any,
    ) -> Records:
        path = tmp_path / "state" / "records.db"
        opened.append(Records(path, workspace=workspace, root=root, now_s=now_s, **more))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


def make_move(old: str, new: str, seen_at_s: float = 1.0) -> Move:
    return Move(old_path=old, new_path=new, digest="d" * 32, seen_at_s=seen_at_s)


def ask(path: Path, statement: str) -> list[tuple[object, ...]]:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return connection.execute(statement).fetchall()
    finally:
        connection.close()


def test_moves_are_stored_and_found_newest_first(open_records: Open) -> None:
    kept = open_records()
    kept.add_moves([make_move("a.md", "b.md", 1.0), make_move("x.md", "y.md", 2.0)])
    kept.add_moves([make_move("c.md", "b.md", 3.0)])
    assert kept.find_moves("b.md") == [
        make_move("c.md", "b.md", 3.0),
        make_move("a.md", "b.md", 1.0),
    ]
    assert kept.find_moves("a.md") == []


def test_the_file_names_its_workspace_and_its_creation_time(open_records: Open) -> None:
    open_records(root="/old", now_s=1.0).close()
    path = open_records(root="/new", now_s=2.0).path
    assert ask(path, "SELECT id, root, created_at FROM workspace") == [("project-1", "/new", 1.0)]


def test_a_file_that_several_workspaces_opened_belongs_to_the_next_of_them_that_opens_it(
    tmp_path: Path, open_records: Open
) -> None:
    """Before version 3 the owner of a file was not checked."""
    (tmp_path / "state").mkdir()
    path = tmp_path / "state" / "records.db"
    connection = apsw.Connection(str(path))
    for script in MIGRATIONS[:2]:
        connection.execute(script)
    connection.pragma("user_version", 2)
    rows = [("other-1", "/home/ada/other", 1.0), ("project-1", "/home/ada/project", 2.0)]
    connection.executemany("INSERT INTO workspace VALUES(?,?,?)", rows)
    connection.execute(
        "INSERT INTO moves(old_path, new_path, digest, seen_at) VALUES('a.md', 'b.md', 'd', 1.0)"
    )
    connection.close()
    kept = open_records(inode=2**63 + 1)
    assert (kept.foreign, kept.moved_from) == (None, "")
    assert [move.old_path for move in kept.find_moves("b.md")] == ["a.md"]
    kept.close()
    row = ("project-1", "/home/ada/project", 2.0, str(2**63 + 1))
    assert ask(path, "SELECT id, root, created_at, inode FROM workspace") == [row]


def test_a_file_of_another_workspace_is_set_aside_unchanged(open_records: Open) -> None:
    theirs = open_records(workspace="other-1")
    theirs.history.record_external(
        [ObservedNote(path="a.md", data=b"theirs")], at_s=1.0, is_first=False
    )
    theirs.close()
    before = theirs.path.read_bytes()
    kept = open_records(now_s=77.0)
    assert kept.foreign == kept.path.with_name("records.db.foreign-77")
    assert kept.foreign.read_bytes() == before
    assert kept.set_aside is None
    assert kept.history.find_revisions() == []
    assert [file.name for file in kept.find_set_aside()] == ["records.db.foreign-77"]


def test_an_open_file_overwritten_with_another_workspaces_is_reported_as_overwritten(
    tmp_path: Path, open_records: Open
) -> None:
    theirs = open_records(workspace="other-1")
    theirs.close()
    their_bytes = theirs.path.read_bytes()
    theirs.path.unlink()
    kept = open_records()
    assert kept.file_guard.find_tampering() is None
    kept.path.write_bytes(their_bytes + bytes(4096))
    assert kept.file_guard.find_tampering() is Tampering.OVERWRITTEN
    kept.close_tampered(Tampering.OVERWRITTEN, now_s=1.0)


def test_a_file_of_another_workspace_whose_rows_are_in_its_wal_is_set_aside_with_the_wal(
    open_records: Open,
) -> None:
    theirs = open_records(workspace="other-1")
    files = {file: file.read_bytes() for file in (theirs.path, Path(f"{theirs.path}-wal"))}
    theirs.close()
    for file, data in files.items():
        file.write_bytes(data)
    assert peek_owners(theirs.path, newest_version=len(MIGRATIONS)) == ()
    kept = open_records()
    assert kept.foreign is not None
    assert kept.history.find_revisions() == []


def test_a_file_of_this_workspace_under_its_former_path_is_adopted(
    open_records: Open,
) -> None:
    before = open_records(workspace="old-1", root="/old", inode=5, now_s=1.0)
    before.history.record_external(
        [ObservedNote(path="a.md", data=b"text")], at_s=1.0, is_first=False
    )
    before.close()
    requested: list[object] = []

    def is_moved(owner: Owner, tips: Mapping[str, str]) -> bool:
        requested.append((owner, dict(tips)))
        return True

    kept = open_records(root="/new", inode=6, is_moved=is_moved)
    assert requested == [(Owner(id="old-1", root="/old", inode=5), {"a.md": digest_bytes(b"text")})]
    assert (kept.foreign, kept.moved_from) == (None, "/old")
    assert len(kept.history.find_revisions()) == 1
    assert ask(kept.path, "SELECT id, root, created_at, inode FROM workspace") == [
        ("project-1", "/new", 1.0, "6")
    ]


def test_purge_and_undo_do_not_count_as_tampering(open_records: Open) -> None:
    records = open_records()
    for number in range(40):
        records.history.record_external(
            [ObservedNote(path="a.md", data=b"%d\n" % number * 9000)], at_s=number, is_first=False
        )
        assert records.file_guard.find_tampering() is None
    records.history.purge(
        revisions=[revision.id for revision in records.history.find_revisions(limit=30)]
    )
    assert records.file_guard.find_tampering() is None
    much = [ObservedNote(path=f"{number}.md", data=os.urandom(200_000)) for number in range(20)]
    with pytest.raises(UnicodeEncodeError):
        records.history.record_external(
            [*much, ObservedNote(path="\ud800", data=b"")], at_s=99, is_first=False
        )
    assert records.file_guard.find_tampering() is None


def test_every_commit_is_on_the_disk_before_it_is_answered(open_records: Open) -> None:
    assert open_records()._writer.pragma("synchronous") == 2


def test_a_damaged_file_is_set_aside_and_never_deleted(tmp_path: Path, open_records: Open) -> None:
    (tmp_path / "state").mkdir()
    path = tmp_path / "state" / "records.db"
    for turn in range(2):
        path.write_bytes(b"damaged" * 1000)
        kept = open_records(now_s=77.5)
        assert kept.set_aside == path.with_name(f"records.db.damaged-77{'x' * turn}")
        assert kept.set_aside.read_bytes() == b"damaged" * 1000
        kept.add_moves([make_move("a.md", "b.md")])
        kept.close()


def test_damage_within_the_file_is_found(tmp_path: Path, open_records: Open) -> None:
    kept = open_records()
    kept.add_moves([make_move(f"{number}.md", f"{number}b.md") for number in range(500)])
    path = kept.path
    kept.close()
    data = bytearray(path.read_bytes())
    for at in range(4096 * 3, len(data), 4096):
        data[at : at + 64] = b"\xa5" * 64
    path.write_bytes(data)
    assert open_records().set_aside is not None


def test_a_file_of_a_newer_program_is_refused_and_stays_unchanged(open_records: Open) -> None:
    path = open_records().path
    open_records().close()
    connection = apsw.Connection(str(path))
    connection.pragma("user_version", len(MIGRATIONS) + 1)
    connection.close()
    with pytest.raises(StoreFailed, match="newer") as caught:
        open_records()
    assert "newer memsyncd" in caught.value.hint
    assert ask(path, "PRAGMA user_version") == [(len(MIGRATIONS) + 1,)]


def test_each_migration_keeps_everything(
    open_records: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = open_records()
    first.add_moves([make_move("a.md", "b.md")])
    first.close()
    steps = ("ALTER TABLE moves ADD COLUMN why TEXT", "UPDATE moves SET why = 'kept'")
    monkeypatch.setattr(records, "MIGRATIONS", (*MIGRATIONS, *steps))
    second = open_records()
    assert second.find_moves("b.md") == [make_move("a.md", "b.md")]
    assert ask(second.path, "SELECT why FROM moves") == [("kept",)]
    assert ask(second.path, "PRAGMA user_version") == [(len(MIGRATIONS) + 2,)]


def test_a_failed_migration_keeps_the_former_version(
    open_records: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = open_records().path
    open_records().close()
    steps = (
        "ALTER TABLE moves ADD COLUMN why TEXT",
        "ALTER TABLE moves ADD COLUMN note TEXT; SELECT * FROM moves LIMIT 'x'",
    )
    monkeypatch.setattr(records, "MIGRATIONS", (*MIGRATIONS, *steps))
    with pytest.raises(StoreFailed):
        open_records()
    assert ask(path, "PRAGMA user_version") == [(len(MIGRATIONS) + 1,)]
    columns = [row[0] for row in ask(path, "SELECT name FROM pragma_table_info('moves')")]
    assert "why" in columns
    assert "note" not in columns


def test_a_file_of_the_first_version_keeps_everything_and_can_hold_history(
    tmp_path: Path, open_records: Open
) -> None:
    path = tmp_path / "state" / "records.db"
    path.parent.mkdir()
    connection = apsw.Connection(str(path))
    connection.pragma("journal_mode", "wal")
    connection.execute(MIGRATIONS[0])
    connection.execute("INSERT INTO workspace VALUES('project-1', '/home/ada/project', 12.5)")
    connection.execute("INSERT INTO moves VALUES(7, 'a.md', 'b.md', ?, 13.5)", ("d" * 32,))
    connection.pragma("user_version", 1)
    connection.close()
    kept = open_records()
    assert kept.set_aside is None
    assert ask(path, "SELECT id, root, created_at FROM workspace") == [
        ("project-1", "/home/ada/project", 12.5)
    ]
    assert ask(path, "SELECT * FROM moves") == [(7, "a.md", "b.md", "d" * 32, 13.5)]
    assert ask(path, "PRAGMA user_version") == [(len(MIGRATIONS),)]
    assert kept.history.record_external(
        [ObservedNote(path="b.md", data=b"now")], at_s=20.0, is_first=False
    ) == ["b.md"]
    assert kept.history.read_text(kept.history.heads()["b.md"]) == b"now"


OLD_FILE = Path(__file__).with_name("records-version-3.db.gz")
UNCHANGED = {
    "acts": "SELECT id, at, client, path, new_path FROM acts WHERE id <= 93 ORDER BY id",
    "revisions": "SELECT id, path, old_path, old_digest, new_digest, state FROM revisions"
    " ORDER BY id",
    "moves": "SELECT * FROM moves ORDER BY id",
    "meta": "SELECT * FROM meta ORDER BY key",
    "workspace": "SELECT id, created_at, inode FROM workspace",
    "sequence": "SELECT seq FROM sqlite_sequence WHERE name = 'revisions'",
}
# In a file of version 3, and in a file of this version.
COMMANDS_BEFORE = """
SELECT revisions.id, CASE command WHEN 'outside' THEN
  iif(old_digest IS NULL AND old_path IS NULL, 'first_seen', 'external') ELSE command END
FROM revisions JOIN acts ON acts.id = act ORDER BY 1
"""
COMMANDS = """
SELECT revisions.id, command FROM revisions JOIN change_sets ON change_sets.id = change_set
ORDER BY 1
"""


def test_every_text_of_a_file_with_deltas_is_the_same_after_its_migration(
    tmp_path: Path, open_records: Open
) -> None:
    """The program of version 3 made the file.

    It has 80 edits of a note, notes that were renamed, deleted and swapped back, a text of 40 KB,
    an intended change set, and a damaged text.
    """
    path = tmp_path / "state" / "records.db"
    path.parent.mkdir()
    path.write_bytes(gzip.decompress(OLD_FILE.read_bytes()))
    before = {name: ask(path, statement) for name, statement in UNCHANGED.items()}
    commands = ask(path, COMMANDS_BEFORE)
    sizes = {str(row[0]): row[1] for row in ask(path, "SELECT digest, size FROM texts")}
    heads = dict(ask(path, "SELECT path, digest FROM tips"))
    [rotted] = [
        str(row[0])
        for row in ask(
            path, "SELECT digest FROM texts WHERE size > 0 AND data = zeroblob(length(data))"
        )
    ]
    assert (len(sizes), ask(path, "SELECT max(height) FROM texts")) == (92, [(64,)])
    kept = open_records()
    assert (kept.set_aside, kept.foreign) == (None, None)
    after = {
        name: statement.replace("acts", "change_sets") for name, statement in UNCHANGED.items()
    }
    assert {name: ask(path, statement) for name, statement in after.items()} == before
    assert ask(path, COMMANDS) == commands
    assert {"first_seen", "external"} < {str(command) for _, command in commands}
    assert kept.history.heads() == heads
    texts = {digest: kept.history.read_text(digest) for digest in sizes}
    # A delta on the damaged text cannot be read by either program.
    lost = {digest for digest, text in texts.items() if text is None}
    assert rotted in lost
    assert kept.history.damaged == lost
    assert len(lost) == 2
    for digest, text in texts.items():
        if text is not None:
            assert (digest_bytes(text), len(text)) == (digest, sizes[digest])
    assert dict(ask(path, "SELECT digest, size FROM blobs")) == sizes
    assert ask(path, "PRAGMA foreign_key_check") == []
    assert ask(path, "PRAGMA integrity_check") == [("ok",)]
    tables = ask(path, "SELECT name FROM sqlite_schema WHERE name IN ('texts', 'tips', 'acts')")
    assert tables == []


def test_creations_of_other_programs_in_a_file_of_version_7_are_first_sights(
    tmp_path: Path, open_records: Open
) -> None:
    """Version 7 recorded first sights as creations, so an undo would have deleted the notes."""
    path = tmp_path / "state" / "records.db"
    path.parent.mkdir()
    with contextlib.closing(apsw.Connection(str(path))) as old, old:
        for migration in MIGRATIONS[:7]:
            run_migration(old, migration)
        old.execute("PRAGMA user_version = 7")
        old.execute("INSERT INTO workspace VALUES('project-1', '/home', 1.0, NULL)")
        blobs = Blobs(old)
        one, two = blobs.keep(b"one"), blobs.keep(b"two")
        old.executemany(
            "INSERT INTO change_sets(at, client, command, path) VALUES(?, ?, ?, '')",
            [(1, "", "external"), (2, "", "external"), (3, "", "external"), (4, "cli", "create")],
        )
        rows = [
            (1, "a.md", None, None, one),  # alone
            (2, "b.md", None, None, one),  # beside changes of known notes
            (2, "c.md", None, one, two),
            (2, "e.md", "d.md", one, one),
            (3, "c.md", None, two, None),
            (4, "f.md", None, None, two),
        ]
        old.executemany(
            "INSERT INTO revisions(change_set, path, old_path, old_digest, new_digest, state)"
            " VALUES(?, ?, ?, ?, ?, 'done')",
            rows,
        )
        old.execute("INSERT INTO heads VALUES('a.md', ?), ('f.md', ?)", (one, two))
    history = open_records().history
    revisions = history.find_revisions()
    assert [
        (revision.id, revision.path, revision.command, revision.at_s)
        for revision in reversed(revisions)
    ] == [
        (1, "a.md", "first_seen", 1),
        (2, "b.md", "first_seen", 2),
        (3, "c.md", "external", 2),
        (4, "e.md", "external", 2),
        (5, "c.md", "external", 3),
        (6, "f.md", "create", 4),
    ]
    assert len({revision.change_set for revision in revisions if revision.at_s == 2}) == 2
    assert all(revision.is_kept for revision in revisions)
    assert history.heads() == {"a.md": one, "f.md": two}


def test_a_file_with_deltas_has_the_same_heads_before_and_after_its_migration(
    tmp_path: Path, open_records: Open
) -> None:
    path = tmp_path / "state" / "records.db"
    path.parent.mkdir()
    path.write_bytes(gzip.decompress(OLD_FILE.read_bytes()))
    before = peek_heads(path)
    kept = open_records()
    heads = kept.history.heads()
    kept.close()
    assert len(heads) > 2
    assert before == heads == peek_heads(path)


TABLES = (
    {
        "workspace": ["id", "root", "created_at"],
        "moves": ["id", "old_path", "new_path", "digest", "seen_at"],
    },
    {
        "meta": ["key", "value"],
        "texts": ["digest", "size", "base", "height", "data"],
        "tips": ["path", "digest"],
        "acts": ["id", "at", "client", "command", "path", "new_path"],
        "revisions": ["id", "act", "path", "old_path", "old_digest", "new_digest", "state"],
    },
)


@pytest.mark.parametrize(("number", "tables"), list(enumerate(TABLES)))
def test_a_released_migration_never_changes(number: int, tables: dict[str, list[str]]) -> None:
    """A released migration is never changed; a new version is a new script."""
    connection = apsw.Connection(":memory:")
    connection.execute(MIGRATIONS[number])
    made = [
        row[0]
        for row in connection.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
        )
    ]
    columns = {
        table: [
            row[0]
            for row in connection.execute(
                f"SELECT name FROM pragma_table_info('{table}') ORDER BY cid"
            )
        ]
        for table in made
    }
    assert columns == tables
    connection.close()


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO blobs(digest, size, data) VALUES('short', 1, x'00')",
        "INSERT INTO revisions(change_set, path, state) VALUES(1, 'a.md', 'perhaps')",
        "INSERT INTO revisions(change_set, path, old_path, state) VALUES(1, 'a.md', 'a.md', 'done')",
        "INSERT INTO revisions(change_set, path, state) VALUES(99, 'a.md', 'done')",
    ],
)
def test_the_database_refuses_invalid_rows(open_records: Open, statement: str) -> None:
    writer = open_records()._writer
    writer.execute("INSERT INTO change_sets VALUES(1, 0.0, '', 'edit', 'a.md', NULL)")
    with pytest.raises(apsw.ConstraintError):
        writer.execute(statement)
