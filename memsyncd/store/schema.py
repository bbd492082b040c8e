"""Which tables does index.db have, and is a file found on disk one of ours?

The schema, the tokenizer and the chunker's version and policy are one fingerprint in `meta`, its first bits in `user_version`;
a file with another fingerprint is rebuilt, never migrated. FTS5 keeps its own copy of the text, the only one: there are no
triggers, and moving a chunk's lines does not touch it. `chunks_exact` has the words as they are written and no text.
"""

from __future__ import annotations

import apsw

from memsyncd.core.digest import digest_text

TOKENIZER = "porter unicode61 remove_diacritics 2"
EXACT_TOKENIZER = "unicode61 remove_diacritics 2"
READING_VERSION = 5
"""Grows when the same bytes and policy give other sections, chunks or problems than before."""

SCHEMA = f"""
CREATE TABLE meta(
  key TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE files(
  id INTEGER PRIMARY KEY,
  path TEXT NOT NULL UNIQUE,
  digest TEXT NOT NULL,
  size INTEGER NOT NULL CHECK (size >= 0),
  mtime_ns INTEGER NOT NULL,
  ctime_ns INTEGER NOT NULL,
  inode INTEGER NOT NULL,
  device INTEGER NOT NULL,
  read_at_ns INTEGER NOT NULL,
  lines INTEGER NOT NULL CHECK (lines >= 0),
  title TEXT NOT NULL,
  day TEXT,
  kind TEXT,
  tags TEXT NOT NULL DEFAULT ''
) STRICT;

CREATE TABLE sections(
  id INTEGER PRIMARY KEY,
  file INTEGER NOT NULL REFERENCES files(id) ON DELETE CASCADE,
  anchor TEXT NOT NULL UNIQUE,
  heading TEXT NOT NULL,
  level INTEGER NOT NULL CHECK (level BETWEEN 0 AND 6),
  start_line INTEGER NOT NULL CHECK (start_line >= 1),
  end_line INTEGER NOT NULL CHECK (end_line >= start_line),
  kind TEXT,
  importance REAL CHECK (importance BETWEEN 0 AND 1),
  priority TEXT CHECK (priority IN ('P0', 'P1', 'P2', 'P3')),
  lifecycle TEXT CHECK (lifecycle IN ('ephemeral', 'session', 'task', 'project')),
  status TEXT CHECK (status IN ('active', 'archived')),
  task TEXT,
  session TEXT,
  source TEXT,
  created TEXT,
  expires TEXT,
  day TEXT,
  extra TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX sections_by_file ON sections(file);
CREATE INDEX sections_by_kind ON sections(kind) WHERE kind IS NOT NULL;
CREATE INDEX sections_archived ON sections(id) WHERE status = 'archived';

CREATE TABLE tags(
  section INTEGER NOT NULL REFERENCES sections(id) ON DELETE CASCADE,
  tag TEXT NOT NULL,
  PRIMARY KEY (section, tag)
) STRICT, WITHOUT ROWID;
CREATE INDEX tags_by_tag ON tags(tag COLLATE NOCASE);

CREATE TABLE links(
  section INTEGER NOT NULL REFERENCES sections(id) ON DELETE CASCADE,
  line INTEGER NOT NULL CHECK (line >= 1),
  target TEXT NOT NULL,
  heading TEXT NOT NULL,
  relation TEXT NOT NULL
) STRICT;
CREATE INDEX links_by_section ON links(section);

CREATE TABLE problems(
  file INTEGER NOT NULL REFERENCES files(id) ON DELETE CASCADE,
  line INTEGER NOT NULL CHECK (line >= 0),
  code TEXT NOT NULL,
  problem TEXT NOT NULL,
  hint TEXT NOT NULL
) STRICT;
CREATE INDEX problems_by_file ON problems(file);

CREATE TABLE secrets(
  file INTEGER NOT NULL REFERENCES files(id) ON DELETE CASCADE,
  start_line INTEGER NOT NULL CHECK (start_line >= 1),
  end_line INTEGER NOT NULL CHECK (end_line >= start_line),
  what TEXT NOT NULL
) STRICT;
CREATE INDEX secrets_by_file ON secrets(file);

CREATE TABLE chunks(
  id INTEGER PRIMARY KEY,
  file INTEGER NOT NULL REFERENCES files(id) ON DELETE CASCADE,
  section INTEGER NOT NULL REFERENCES sections(id) ON DELETE CASCADE,
  start_line INTEGER NOT NULL CHECK (start_line >= 1),
  end_line INTEGER NOT NULL CHECK (end_line >= start_line),
  tokens INTEGER NOT NULL CHECK (tokens >= 0),
  digest TEXT NOT NULL
) STRICT;
CREATE INDEX chunks_by_file ON chunks(file);
CREATE INDEX chunks_by_section ON chunks(section);

CREATE VIRTUAL TABLE chunks_fts USING fts5(heading, text, tags, parts, tokenize='{TOKENIZER}');
CREATE VIRTUAL TABLE chunks_exact USING fts5(
  heading, text, tags, parts, content='', contentless_delete=1, tokenize='{EXACT_TOKENIZER}'
);
CREATE VIRTUAL TABLE words_exact USING fts5vocab('chunks_exact', 'row');
"""


def find_fingerprint(reading: str) -> str:
    """The fingerprint of an index whose notes were read by the policies that `reading` describes."""
    return digest_text("\n".join((SCHEMA, TOKENIZER, str(READING_VERSION), reading)))


def create_schema(connection: apsw.Connection, fingerprint: str, *, generation: int) -> None:
    """Make the tables in an empty file, within the caller's transaction."""
    connection.execute(SCHEMA)
    rows = [("fingerprint", fingerprint), ("generation", str(generation))]
    connection.executemany("INSERT INTO meta(key, value) VALUES(?, ?)", rows)
    connection.pragma("user_version", find_user_version(fingerprint))


def find_user_version(fingerprint: str) -> int:
    """31 bits of the fingerprint, never zero, so that other programs can tell one schema from another."""
    return (int(fingerprint[:8], 16) & 0x7FFFFFFF) or 1


def is_empty(connection: apsw.Connection) -> bool:
    """True for a file that holds nothing yet."""
    return not connection.execute("SELECT count(*) FROM sqlite_schema").get


def read_fingerprint(connection: apsw.Connection) -> str:
    """The fingerprint that the file carries, empty for a file that is none of ours; raises apsw.Error if it cannot be read."""
    if not connection.table_exists(None, "meta"):
        return ""
    return str(connection.execute("SELECT value FROM meta WHERE key = 'fingerprint'").get or "")
