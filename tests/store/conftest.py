"""An index on the real disk, and notes to put into it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memsyncd.config import ChunkingConfig, GuardConfig
from memsyncd.core.changes.diff import FileStat
from memsyncd.core.markdown.parse import parse_note, rechunk_note
from memsyncd.core.paths import NotePath
from memsyncd.store.index import Index, PatchNote, PutNote
from memsyncd.store.pool import Reader
from memsyncd.store.schema import compute_fingerprint
from memsyncd.store.texts import read_note_text, read_texts

POLICY = ChunkingConfig(max_tokens=20, overlap=0)
FINGERPRINT = compute_fingerprint("chunks of a test")


def put_note(
    path: str, text: str | bytes, *, moved_from: str | None = None, tick: int = 1
) -> PutNote:
    """Return the update of a sync for a note with these bytes; `tick` sets all fields of its stat."""
    data = text.encode() if isinstance(text, str) else text
    stat = FileStat(size_bytes=len(data), mtime_ns=tick, ctime_ns=tick, inode=tick, device=1)
    return PutNote(
        note=parse_note(NotePath(path), data, POLICY, GuardConfig()),
        stat=stat,
        read_at_ns=tick,
        moved_from=moved_from,
    )


def make_patch(index: Index, update: PutNote) -> PatchNote | None:
    """Return the same change as a patch, if it is one."""
    old = index.read_outline(update.note.path)
    assert old is not None
    patch = rechunk_note(
        NotePath(update.note.path), update.note.text.encode(), old, POLICY, GuardConfig()
    )
    if patch is None:
        return None
    return PatchNote(patch=patch, stat=update.stat, read_at_ns=update.read_at_ns)


def dump_index(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """Return the content of an index without ids; it is equal for indexes of the same notes."""
    statements = {
        "files": "SELECT path, digest, size, mtime_ns, ctime_ns, inode, device, read_at_ns, lines, title, day, kind,"
        " tags, topic, extra, salience, latest, salience_all, latest_all FROM files",
        "sections": "SELECT f.path, s.slugs, s.heading, s.level, s.start_line, s.end_line, s.kind, s.importance, s.priority,"
        " s.lifecycle, s.status, s.task, s.session, s.source, s.created, s.updated, s.expires, s.day, s.topic,"
        " s.moment, s.is_empty, s.extra, o.lifecycle, o.kind, o.priority, o.importance, o.kinds, o.is_project, o.is_archived"
        " FROM sections s JOIN files f ON f.id = s.file LEFT JOIN outlooks o ON o.id = s.outlook",
        "outlook times": "SELECT o.lifecycle, o.kind, o.priority, o.importance, o.kinds, o.is_project, o.is_archived,"
        " t.period, t.expires, t.n FROM outlook_times t JOIN outlooks o ON o.id = t.outlook",
        "wrong times": "SELECT outlook, moment >> 19, coalesce(expires, ''), count(*), sum(id * id & 4294967295)"
        " FROM sections WHERE outlook IS NOT NULL GROUP BY 1, 2, 3 EXCEPT SELECT * FROM outlook_times",
        "tags": "SELECT f.path, s.slugs, t.tag FROM tags t JOIN sections s ON s.id = t.section"
        " JOIN files f ON f.id = s.file",
        "names": "SELECT f.path, n.name, n.key FROM names n JOIN files f ON f.id = n.file",
        "blocks": "SELECT f.path, s.slugs, b.name FROM blocks b JOIN sections s ON s.id = b.section"
        " JOIN files f ON f.id = s.file",
        "links": "SELECT f.path, s.slugs, l.n, l.line, l.target, l.heading, l.relation, l.kind, l.key, t.path, p.slugs"
        " FROM links l JOIN sections s ON s.id = l.section JOIN files f ON f.id = s.file"
        " LEFT JOIN files t ON t.id = l.file LEFT JOIN sections p ON p.id = l.place",
        "linking": "SELECT path, relation, n_links, n_dangling FROM linking",
        "alone": "SELECT path FROM alone",
        "wrongly alone": "SELECT path FROM files EXCEPT SELECT f.path FROM links l JOIN sections s ON s.id = l.section"
        " JOIN files f ON f.id = s.file WHERE l.file IS NOT NULL EXCEPT SELECT path FROM alone",
        "kept counts": "SELECT field, value, n, n_notes, n_all, n_notes_all, first FROM counts",
        # A patch may leave rows of a file that has no such section any more.
        "standings": "SELECT f.path, d.mark, d.kind, d.importance, d.is_archived, x.mtime_ns FROM standing_files x"
        " JOIN standings d ON d.id = x.standing JOIN files f ON f.id = x.file WHERE EXISTS (SELECT 1 FROM sections s"
        " WHERE s.file = f.id AND s.kind IS d.kind AND s.importance IS d.importance AND (s.status IS 'archived') = d.is_archived"
        " AND (d.mark <> 'project' OR s.lifecycle = 'project'))",
        "problems": "SELECT f.path, p.line, p.code, p.problem, p.hint FROM problems p JOIN files f ON f.id = p.file",
        "chunks": "SELECT f.path, s.slugs, c.start_line, c.end_line, c.part, c.tokens, c.digest, f1.sz, f2.sz"
        " FROM chunks c JOIN files f ON f.id = c.file JOIN sections s ON s.id = c.section"
        " JOIN chunks_fts_docsize f1 ON f1.id = c.id JOIN chunks_exact_docsize f2 ON f2.id = c.id",
        "counts": "SELECT (SELECT count(*) FROM chunks), (SELECT count(*) FROM chunks_fts), (SELECT count(*) FROM chunks_exact), (SELECT count(*) FROM sections),"
        " (SELECT count(*) FROM tags), (SELECT count(*) FROM links), (SELECT count(*) FROM problems)",
    }
    reader = Reader(str(path))
    try:
        dumped = {
            name: sorted(reader.rows(statement), key=repr) for name, statement in statements.items()
        }
        paths = [str(row[0]) for row in dumped["files"]]
        dumped["texts"] = [(path, read_note_text(reader, path)) for path in paths]
        ids = [row[0] for row in reader.rows("SELECT id FROM chunks")]
        dumped["chunk texts"] = sorted((text,) for text in read_texts(reader, ids).values())
        return dumped
    finally:
        reader.connection.close()


@pytest.fixture(scope="session")
def put() -> Callable[..., PutNote]:
    return put_note


@pytest.fixture(scope="session")
def dump() -> Callable[[Path], dict[str, list[tuple[object, ...]]]]:
    return dump_index


@pytest.fixture
def open_index(tmp_path: Path) -> Iterator[Callable[..., Index]]:
    """Open indexes in a temporary folder, and close them at the end."""
    opened: list[Index] = []

    def open_one(name: str = "index.db", fingerprint: str = FINGERPRINT, **more: int) -> Index:
        opened.append(Index(tmp_path / name, fingerprint, **more))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture
def index(open_index: Callable[..., Index]) -> Index:
    return open_index()
