"""Store the text of notes once, deflated in blocks of lines, and read the text of chunks from it.

A block ends at the first line end after `BLOCK_CHARS` characters: it is small enough that reading a
chunk inflates little, and large enough to compress well. A deflated block of 2 to 4 kB would take a
page of its own, while a longer one fills its pages. The text of a chunk is the text of its lines.
Only a line that is too long for a chunk has several chunks; `part` says which of them.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import apsw
import msgspec

from memsyncd.core.model import (
    CHUNK_LIMIT_CHARS,
    Outline,
    OutlineSection,
    SecretLines,
    Span,
    split_long_text,
)
from memsyncd.errors import StoreCorrupt
from memsyncd.store.pool import MEMO_LIMIT, Reader, encode_numbers
from memsyncd.store.schema import read_fingerprint

BLOCK_CHARS = 12_288
# The level, and the memory of zlib as powers of two: clearing more memory would take longer than
# deflating a note.
_LEVEL, _WINDOW, _MEMORY = 4, 14, 7
# Most memories are shorter than a kilobyte. Deflating begins with these words, as if each block had
# them before its text. Another text needs another READING_VERSION.
_USUAL_WORDS = (
    b"---\ntitle: \naliases: []\ntype: \ndate: \n---\n# ## ### #### - [ ] - [x] ![]("
    b"https://www.http://.com/.md) [[ ]] ```bash ```python ```json ``` Note: must should when"
    b" where which there would because before after between change changed error failed function"
    b" files test tests returns value default request response server client database config"
    b" version update example use used uses using user only than then they been into also not have"
    b" from this with that for The This It In If A We To Do not is are was be by to of in and on at"
    b" or as an the\n- related_to [[- depends_on [[- supersedes [[- blocked_by [[See [[\n"
    b"<!-- memory: {kind: convention, kind: insight, kind: preference, kind: pitfall, kind: fact,"
    b" kind: bug, kind: summary, source: , updated: 2025-, created: 2026-01-01T00:00:00Z, expires:"
    b" 2027-, session: , task: , topic: , keywords: [], priority: P1, priority: P2, status: open,"
    b" status: done, lifecycle: task, lifecycle: session, lifecycle: project, importance: 0.8,"
    b" kind: decision, tags: []} -->\n\n"
)
# A reader remembers so many inflated blocks until the next commit or reconcile: about a megabyte,
# which is the whole workspace of a project. A longer block has a giant line and is not remembered.
MAX_BLOCKS, MAX_BLOCK_CHARS = 96, 2 * BLOCK_CHARS

# First and last line, and the deflated text of these lines, joined by newlines.
TextBlock = tuple[int, int, bytes]

_CHUNKS = (
    "SELECT c.id, max(c.start_line, c.front_lines + 1), c.end_line, c.part, t.id, t.start_line,"
    " t.data FROM chunks c JOIN texts t ON t.file = c.file AND t.start_line <= c.end_line"
    " AND t.end_line >= c.start_line"
    " WHERE c.id IN (SELECT value FROM json_each(?)) ORDER BY c.id, t.start_line"
)
_LINES = (
    "SELECT p.key, p.value ->> 1, p.value ->> 2, t.id, t.start_line, t.data FROM json_each(?) p"
    " JOIN files f ON f.path = p.value ->> 0 JOIN texts t ON t.file = f.id"
    " AND t.start_line <= p.value ->> 2 AND t.end_line >= p.value ->> 1"
    " ORDER BY p.key, t.start_line"
)
_FRONT_MATTER = (
    "SELECT c.id, f.path, c.front_lines FROM chunks c JOIN files f ON f.id = c.file"
    " WHERE c.id IN (SELECT value FROM json_each(?)) AND c.front_lines > 0"
)
_NOTE = (
    "SELECT start_line, end_line, data FROM texts"
    " WHERE file = (SELECT id FROM files WHERE path = ?) ORDER BY start_line"
)


def make_blocks(text: str, n_lines: int) -> Iterator[TextBlock]:
    r"""Yield the blocks of a note's text, whose lines end with `\n`; the last may have no end."""
    at, line = 0, 1
    while line <= n_lines:
        end = text.find("\n", at + BLOCK_CHARS)
        if end < 0:
            end, last = len(text) - text.endswith("\n"), n_lines
        else:
            last = line + text.count("\n", at, end)
        yield line, last, _deflate(text[at:end])
        at, line = end + 1, last + 1


def _deflate(text: str) -> bytes:
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW, _MEMORY, zdict=_USUAL_WORDS)
    return packer.compress(text.encode()) + packer.flush()


def read_note_text(reader: Reader, path: str) -> str:
    """Return the text of a note without its last line end; empty if it is not indexed."""
    return "\n".join(inflate(row[2]) for row in reader.rows(_NOTE, (path,)))


def read_texts(reader: Reader, chunks: Sequence[int]) -> dict[int, str]:
    """Return the text of chunks, by id."""
    parts: dict[int, int] = {}
    rows = []
    for chunk, start, end, parts[chunk], *block in reader.rows(_CHUNKS, (encode_numbers(chunks),)):
        rows.append((chunk, start, end, *block))
    lines = _take_lines(reader, rows)
    return {chunk: _take_part("\n".join(lines[chunk]), parts[chunk]) for chunk in lines}


class NoteLines(NamedTuple):
    """Lines of a note, 1-based and inclusive."""

    path: str
    start: int
    end: int


def read_lines(reader: Reader, places: Sequence[NoteLines]) -> list[str]:
    """Return the text of each of these lines, without a last line end; empty for a note that is not
    indexed.
    """
    rows = reader.rows(_LINES, (json.dumps(places),))
    lines = _take_lines(reader, rows)
    return ["\n".join(lines.get(number, ())) for number in range(len(places))]


def read_front_matter(reader: Reader, chunks: Iterable[int]) -> dict[int, str]:
    """Return the front matter whose words find a chunk, for each of the chunks that has any."""
    rows = reader.rows(_FRONT_MATTER, (encode_numbers(chunks),))
    places = [NoteLines(path, 1, n_lines) for _, path, n_lines in rows]
    texts = read_lines(reader, places) if places else []
    return {chunk: text for (chunk, _, _), text in zip(rows, texts, strict=True)}


def _take_lines(reader: Reader, rows: Iterable[tuple[Any, ...]]) -> dict[int, list[str]]:
    """Return lines by the first number of each row: first and last line, and a block that has any
    of them, with its id, its first line and its data.
    """
    # Blocks by id; the block that was used last is at the end. Each is a list of lines as far as
    # lines were needed; its last item is the unsplit rest.
    blocks: dict[int, list[str]] = reader.memo.setdefault("blocks", {})
    giant: list[int] = []
    lines_of: dict[int, list[str]] = {}
    for number, start, end, block, first, data in rows:
        lines = blocks.pop(block, None)
        if lines is None:
            lines = [inflate(data)]
            if len(lines[0]) > MAX_BLOCK_CHARS:
                giant.append(block)
        blocks[block] = lines
        n_more = end + 2 - first - len(lines)
        if n_more > 0:
            lines += lines.pop().split("\n", n_more)
        lines_of.setdefault(number, []).extend(lines[max(0, start - first) : end + 1 - first])
    for block in giant:
        del blocks[block]
    for block in [*blocks][:-MAX_BLOCKS]:
        del blocks[block]
    return lines_of


def inflate(data: Any) -> str:
    """Return the text of a block. Raises StoreCorrupt if it is damaged."""
    try:
        unpacker = zlib.decompressobj(zdict=_USUAL_WORDS)
        text = unpacker.decompress(data)
        if not unpacker.eof:
            raise zlib.error("the end is missing")
        return text.decode()
    except (zlib.error, UnicodeDecodeError) as error:
        raise StoreCorrupt(
            "the database is damaged: a text cannot be inflated",
            hint="memsyncd rebuilds it by itself",
        ) from error


def _take_part(text: str, part: int) -> str:
    if part == 0 and len(text) <= CHUNK_LIMIT_CHARS:
        return text
    parts = split_long_text(text)
    if part < len(parts):
        return parts[part]
    raise StoreCorrupt(
        "the database is damaged: a chunk is no part of its lines",
        hint="memsyncd rebuilds it by itself",
    )


# --- The text of a note before a change ----------------------------------------------------------

TEXTS_OF_FILE = "SELECT start_line, end_line, data FROM texts WHERE file = ? ORDER BY start_line"
_SECRETS_OF_FILE = "SELECT start_line, end_line FROM secrets WHERE file = ?"
_OUTLINE = (
    "SELECT slugs, heading, level, start_line FROM sections WHERE file = ? ORDER BY start_line"
)


def read_outline(connection: apsw.Connection, path: str) -> Outline | None:
    """Return the outline of an indexed note, which a patch needs; None if it is not indexed."""
    file_id = connection.execute("SELECT id FROM files WHERE path = ?", (path,)).get
    if file_id is None:
        return None
    problems = connection.execute("SELECT code FROM problems WHERE file = ?", (file_id,))
    blocks = connection.execute(TEXTS_OF_FILE, (file_id,))
    return Outline(
        text="\n".join(inflate(data) for _, _, data in blocks),
        sections=_read_headings(connection, file_id, path),
        problems=frozenset(code for (code,) in problems),
    )


_decode_headings = msgspec.json.Decoder(list[tuple[str, ...]]).decode


def read_headings(
    connection: apsw.Connection, path: str, digest: str
) -> tuple[OutlineSection, ...] | None:
    """Return the sections of a note; None unless its text is indexed with this digest."""
    statement = "SELECT id FROM files WHERE path = ? AND digest = ?"
    file_id = connection.execute(statement, (path, digest)).get
    return None if file_id is None else _read_headings(connection, file_id, path)


def _read_headings(
    connection: apsw.Connection, file_id: int, path: str
) -> tuple[OutlineSection, ...]:
    sections: list[tuple[str, str, int, int]] = list(connection.execute(_OUTLINE, (file_id,)))
    # All headings are decoded by a single call: there may be thousands.
    headings = _decode_headings(f"[{','.join([heading for _, heading, _, _ in sections])}]")
    return tuple(
        OutlineSection(f"{path}#{slugs}", heading, level, start)
        for (slugs, _, level, start), heading in zip(sections, headings, strict=True)
    )


def has_lost_secret(connection: apsw.Connection, file_id: int, text: str) -> bool:
    """True if the indexed text of a file has lines with a secret that `text` does not have."""
    spans: list[tuple[int, int]] = list(connection.execute(_SECRETS_OF_FILE, (file_id,)))
    if not spans:
        return False
    blocks = connection.execute(TEXTS_OF_FILE, (file_id,))
    old = "\n".join(inflate(data) for _, _, data in blocks).split("\n")
    lines = f"\n{text}\n"
    return any("\n".join(("", *old[start - 1 : end], "")) not in lines for start, end in spans)


# --- Secrets in texts -----------------------------------------------------------------------------

_HAS_SECRETS = "SELECT EXISTS(SELECT 1 FROM secrets)"
_IS_PARTIAL = (
    "EXISTS(SELECT 1 FROM chunks o WHERE o.file = c.file AND o.start_line = c.start_line"
    " AND o.end_line = c.end_line AND o.id <> c.id)"
)
_LINES_OF_CHUNKS = (
    f"SELECT c.id, f.path, c.start_line, c.end_line, {_IS_PARTIAL} FROM chunks c"
    " JOIN files f ON f.id = c.file WHERE c.id IN (SELECT value FROM json_each(?)) ORDER BY c.id"
)
_SECRETS_OF_CHUNKS = (
    f"SELECT c.id, c.start_line, c.end_line, s.start_line, s.end_line, s.what, {_IS_PARTIAL}"
    " FROM chunks c JOIN secrets s"
    " ON s.file = c.file AND s.start_line <= c.end_line AND s.end_line >= c.start_line"
    " WHERE c.id IN (SELECT value FROM json_each(?)) ORDER BY c.id, s.start_line, s.end_line"
)


class ChunkLines(NamedTuple):
    """Where a chunk lies: its note, and its lines, of whose text it may hold only a part."""

    chunk: int
    path: str
    start: int
    end: int
    is_partial: bool


class ChunkSecrets(msgspec.Struct, frozen=True, kw_only=True):
    """The lines of a chunk, and in order the lines of all secrets that overlap them.

    `is_partial`: the chunk holds only a part of the text of its lines.
    """

    span: Span
    is_partial: bool
    secrets: list[SecretLines]


def knows_secrets(reader: Reader, fingerprint: str) -> bool:
    """True if the index has this fingerprint, and with it the lines of all secrets of its notes."""
    is_same = read_fingerprint(reader.connection) == fingerprint
    return is_same and reader.connection.table_exists(None, "secrets")


def has_secrets(reader: Reader, fingerprint: str) -> bool:
    """True if any note contains a secret, or the index does not know."""
    remembered: dict[str, bool] = reader.memo.setdefault("has_secrets", {})
    if fingerprint not in remembered:
        if len(remembered) >= MEMO_LIMIT:
            remembered.clear()
        is_known = knows_secrets(reader, fingerprint)
        remembered[fingerprint] = not is_known or bool(reader.rows(_HAS_SECRETS)[0][0])
    return remembered[fingerprint]


def read_chunk_secrets(reader: Reader, chunks: Iterable[int]) -> dict[int, ChunkSecrets]:
    """Return the secrets of each of `chunks` that shares lines with one."""
    secrets: dict[int, ChunkSecrets] = {}
    rows = reader.rows(_SECRETS_OF_CHUNKS, (encode_numbers(chunks),))
    for chunk, start, end, first, last, what, is_partial in rows:
        of_chunk = ChunkSecrets(span=Span(start, end), is_partial=bool(is_partial), secrets=[])
        secret = SecretLines(span=Span(first, last), what=what)
        secrets.setdefault(chunk, of_chunk).secrets.append(secret)
    return secrets


def read_chunk_lines(reader: Reader, chunks: Iterable[int]) -> list[ChunkLines]:
    """Return where each of `chunks` lies."""
    return [
        ChunkLines(chunk, path, start, end, bool(is_partial))
        for chunk, path, start, end, is_partial in reader.rows(
            _LINES_OF_CHUNKS, (encode_numbers(chunks),)
        )
    ]
