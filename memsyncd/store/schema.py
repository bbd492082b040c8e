"""The schemas of index.db and records.db.

index.db: the schema, the tokenizer, and the version and policy of the chunker make a fingerprint.
`meta` stores the fingerprint, and `user_version` has its first bits. A file with another
fingerprint is rebuilt, never migrated. `texts` keeps the only copy of a note's text, deflated in
blocks of lines; a chunk's text is read from its lines. The two FTS5 tables have words and no text:
`chunks_fts` has the stems of the words, `chunks_exact` the words as they are written. Most words
are in the column `text`: it is the first, because FTS5 writes two bytes for the number of any other
with each word of each row. There are no triggers, and a change of a chunk's lines touches neither
table. The column `properties` of a note's first chunk has the words of its first `front_lines`
lines, the front matter; the chunk's text does not have them. `sections.slugs` is a section's anchor
without the note's path and the `#`. `extra` has the keys of metadata without a column, in JSON; for
a section it has only keys in which the section differs from its note. `topic` is the stated topic:
a section's own, if it differs from its note's, and empty text if the section states an empty one.
`moment` orders sections by age, and `is_empty` is 1 for a section without text; see
`core/model.find_moment` and `core/model.has_text`. `at` is when a section was created, else its
day, else its note's, else the day on which the note was saved. `links.n` counts the links of a
section from 0. A link can lead only to a note that has a name with the same key; `links.key` is the
number of this key, `links.file` is this note, `links.place` the section in it that the link names.
A name is stored as `/` if it is the name from the note's path, and as empty text if it equals its
key. A section has no two `tags` or `keywords` that differ only in case. `linking` (`store/targets`)
and `counts` (`store/counts`) have sums that each commit keeps, `alone` the notes without a link
that leads to a note, and `files.salience` the worth of a topic (`store/topics`). `counts.last` is
the time of the last visible section of a task or session (`store/groups`). `files.generation` is
the generation with which the note has changed last. `sections.outlook` leads to the values by which
plans judge a memory; it is NULL unless the section is the first of a memory (`store/outlooks`).
`outlook_times` has the numbers of these sections by outlook, period and expiry, which triggers
keep, and the sum of their marks. `counts.is_many` is 1 for the values of a field that may have
many: an index has their order, and most changes of notes change none of them.

records.db: numbered migrations that keep everything.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable
from typing import Any

import apsw

from memsyncd.core.digest import digest_bytes, digest_text
from memsyncd.core.search.tasks import FINISHED
from memsyncd.store.blobs import Blobs

TOKENIZER = "porter unicode61 remove_diacritics 2"
EXACT_TOKENIZER = "unicode61 remove_diacritics 2"
# Increase it if the same bytes and policy no longer give the same sections, chunks, words and
# problems.
READING_VERSION = 28
# A period of `outlook_times` has so many bits of a moment, in seconds: six days.
PERIOD_BITS = 19
_KEEP_TIME = (
    "INSERT INTO outlook_times(outlook, period, expires, n, total) VALUES(new.outlook,"
    f" new.moment >> {PERIOD_BITS}, coalesce(new.expires, ''), 1, new.id * new.id & 4294967295)"
    " ON CONFLICT(outlook, period, expires) DO UPDATE SET n = n + 1, total = total + excluded.total"
)
_IS_TIME = (
    f"outlook = old.outlook AND period = old.moment >> {PERIOD_BITS}"
    " AND expires = coalesce(old.expires, '')"
)
_DROP_TIME = (
    "UPDATE outlook_times SET n = n - 1, total = total - (old.id * old.id & 4294967295)"
    f" WHERE {_IS_TIME}; DELETE FROM outlook_times WHERE {_IS_TIME} AND n = 0"
)
# How FTS5 merges. No commit merges, because a save would wait for it; `Index.tidy` merges instead.
# A level with 2 segments is merged, so that queries have few segments to search. Only a level with
# 512 segments would be merged by a commit; a million chunks have so many. Segments with many
# deleted rows are not merged for this reason alone: each merge would raise them by a level, up to
# the level of the largest segment, which would be merged as well.
MERGING = "('automerge', 0), ('usermerge', 2), ('crisismerge', 512), ('deletemerge', 0)"

# The sections that have a text and are not finished; `s` is the table's name and a dot.
OPEN_WORK = (
    "{s}is_empty IS NULL AND NOT coalesce(lower({s}status) IN"
    f" ({', '.join(map(repr, sorted(FINISHED)))}), 0)"
)
HAS_NO_TASK = "(coalesce({s}task, '') = '')"

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
  generation INTEGER NOT NULL,
  lines INTEGER NOT NULL CHECK (lines >= 0),
  title TEXT NOT NULL,
  day TEXT,
  kind TEXT,
  tags TEXT NOT NULL DEFAULT '',
  topic TEXT,
  extra TEXT,
  is_blank INTEGER CHECK (is_blank = 1),
  salience REAL,
  latest REAL,
  salience_all REAL,
  latest_all REAL
) STRICT;

CREATE TABLE sections(
  id INTEGER PRIMARY KEY,
  file INTEGER NOT NULL REFERENCES files(id) ON DELETE CASCADE,
  slugs TEXT NOT NULL,
  heading TEXT NOT NULL,
  level INTEGER NOT NULL CHECK (level BETWEEN 0 AND 6),
  start_line INTEGER NOT NULL CHECK (start_line >= 1),
  end_line INTEGER NOT NULL CHECK (end_line >= start_line),
  kind TEXT,
  importance REAL CHECK (importance BETWEEN 0 AND 1),
  priority TEXT CHECK (priority IN ('P0', 'P1', 'P2', 'P3')),
  lifecycle TEXT CHECK (lifecycle IN ('ephemeral', 'session', 'task', 'project')),
  status TEXT,
  task TEXT,
  session TEXT,
  source TEXT,
  created TEXT,
  updated TEXT,
  expires TEXT,
  day TEXT,
  topic TEXT,
  moment INTEGER NOT NULL,
  at TEXT NOT NULL,
  is_empty INTEGER CHECK (is_empty = 1),
  extra TEXT,
  outlook INTEGER
) STRICT;
CREATE INDEX sections_by_anchor ON sections(file, slugs);
CREATE INDEX sections_expiring ON sections(expires, outlook, moment) WHERE expires IS NOT NULL;

CREATE TABLE outlooks(
  id INTEGER PRIMARY KEY,
  lifecycle TEXT,
  kind TEXT,
  priority TEXT,
  importance REAL,
  kinds TEXT NOT NULL,
  is_project INTEGER NOT NULL CHECK (is_project IN (0, 1)),
  is_archived INTEGER NOT NULL CHECK (is_archived IN (0, 1))
) STRICT;

CREATE TABLE outlook_times(
  outlook INTEGER NOT NULL,
  period INTEGER NOT NULL,
  expires TEXT NOT NULL,
  n INTEGER NOT NULL CHECK (n >= 0),
  total INTEGER NOT NULL,
  PRIMARY KEY (outlook, period, expires)
) STRICT, WITHOUT ROWID;
CREATE INDEX outlook_times_expiring ON outlook_times(expires) WHERE expires <> '';
CREATE TRIGGER sections_added AFTER INSERT ON sections WHEN new.outlook IS NOT NULL
  BEGIN {_KEEP_TIME}; END;
CREATE TRIGGER sections_deleted AFTER DELETE ON sections WHEN old.outlook IS NOT NULL
  BEGIN {_DROP_TIME}; END;
CREATE TRIGGER sections_left AFTER UPDATE OF outlook, moment, expires ON sections
  WHEN old.outlook IS NOT NULL BEGIN {_DROP_TIME}; END;
CREATE TRIGGER sections_joined AFTER UPDATE OF outlook, moment, expires ON sections
  WHEN new.outlook IS NOT NULL BEGIN {_KEEP_TIME}; END;

CREATE TABLE tags(
  section INTEGER NOT NULL REFERENCES sections(id) ON DELETE CASCADE,
  tag TEXT NOT NULL,
  PRIMARY KEY (section, tag COLLATE NOCASE)
) STRICT, WITHOUT ROWID;

CREATE TABLE standings(
  id INTEGER PRIMARY KEY,
  mark TEXT NOT NULL CHECK (mark IN ('', 'project', 'pinned')),
  kind TEXT,
  importance REAL CHECK (importance BETWEEN 0 AND 1),
  is_archived INTEGER NOT NULL CHECK (is_archived IN (0, 1))
) STRICT;
CREATE UNIQUE INDEX standings_once
  ON standings(mark, coalesce(kind, ''), coalesce(importance, -1), is_archived);

CREATE TABLE standing_files(
  file INTEGER NOT NULL REFERENCES files(id) ON DELETE CASCADE,
  standing INTEGER NOT NULL REFERENCES standings(id),
  mtime_ns INTEGER NOT NULL,
  PRIMARY KEY (file, standing)
) STRICT, WITHOUT ROWID;

CREATE TABLE keywords(
  section INTEGER NOT NULL REFERENCES sections(id) ON DELETE CASCADE,
  keyword TEXT NOT NULL,
  PRIMARY KEY (section, keyword COLLATE NOCASE)
) STRICT, WITHOUT ROWID;

CREATE TABLE links(
  section INTEGER NOT NULL REFERENCES sections(id) ON DELETE CASCADE,
  n INTEGER NOT NULL CHECK (n >= 0),
  line INTEGER NOT NULL CHECK (line >= 1),
  target TEXT NOT NULL,
  heading TEXT NOT NULL,
  relation TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('link', 'embed', 'name', 'path')),
  key INTEGER,
  file INTEGER,
  place INTEGER,
  n_others INTEGER NOT NULL,
  PRIMARY KEY (section, n)
) STRICT, WITHOUT ROWID;
CREATE INDEX links_by_key ON links(key) WHERE key IS NOT NULL;
CREATE INDEX links_by_file ON links(file, relation) WHERE file IS NOT NULL;
CREATE INDEX links_by_place ON links(place) WHERE place IS NOT NULL;

CREATE TABLE linking(
  path TEXT NOT NULL,
  relation TEXT NOT NULL,
  n_links INTEGER NOT NULL,
  n_dangling INTEGER NOT NULL,
  n_ambiguous INTEGER NOT NULL,
  PRIMARY KEY (path, relation)
) STRICT, WITHOUT ROWID;

CREATE TABLE alone(path TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
CREATE TRIGGER files_added AFTER INSERT ON files BEGIN INSERT INTO alone VALUES(new.path); END;
CREATE TRIGGER files_deleted AFTER DELETE ON files BEGIN
  DELETE FROM alone WHERE path = old.path;
END;
CREATE TRIGGER files_renamed AFTER UPDATE OF path ON files BEGIN
  UPDATE alone SET path = new.path WHERE path = old.path;
END;

CREATE TABLE counts(
  field TEXT NOT NULL,
  value TEXT NOT NULL,
  n INTEGER NOT NULL,
  n_notes INTEGER NOT NULL DEFAULT 0,
  n_all INTEGER NOT NULL DEFAULT 0,
  n_notes_all INTEGER NOT NULL DEFAULT 0,
  first TEXT,
  last TEXT,
  last_all TEXT,
  is_ended INTEGER CHECK (is_ended = 1),
  is_many INTEGER CHECK (is_many = 1),
  PRIMARY KEY (field, value)
) STRICT, WITHOUT ROWID;

CREATE TABLE names(
  file INTEGER NOT NULL REFERENCES files(id) ON DELETE CASCADE,
  key TEXT NOT NULL,
  name TEXT NOT NULL,
  PRIMARY KEY (file, key, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX names_by_key ON names(key);

CREATE TABLE blocks(
  section INTEGER NOT NULL REFERENCES sections(id) ON DELETE CASCADE,
  name TEXT NOT NULL
) STRICT;
CREATE INDEX blocks_by_section ON blocks(section);
CREATE INDEX blocks_by_name ON blocks(name);

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
  part INTEGER NOT NULL DEFAULT 0 CHECK (part >= 0),
  front_lines INTEGER NOT NULL DEFAULT 0 CHECK (front_lines >= 0),
  tokens INTEGER NOT NULL CHECK (tokens >= 0),
  digest BLOB NOT NULL
) STRICT;
CREATE INDEX chunks_by_file ON chunks(file);
CREATE INDEX chunks_by_section ON chunks(section);

CREATE TABLE texts(
  id INTEGER PRIMARY KEY,
  file INTEGER NOT NULL REFERENCES files(id) ON DELETE CASCADE,
  start_line INTEGER NOT NULL CHECK (start_line >= 1),
  end_line INTEGER NOT NULL CHECK (end_line >= start_line),
  data BLOB NOT NULL
) STRICT;
CREATE INDEX texts_by_lines ON texts(file, start_line, end_line);

CREATE VIRTUAL TABLE chunks_fts USING fts5(
  text, heading, tags, subwords, properties,
  content='', contentless_delete=1, tokenize='{TOKENIZER}'
);
CREATE VIRTUAL TABLE chunks_exact USING fts5(
  text, heading, tags, subwords, properties,
  content='', contentless_delete=1, tokenize='{EXACT_TOKENIZER}'
);
CREATE VIRTUAL TABLE words_exact USING fts5vocab('chunks_exact', 'row');
INSERT INTO chunks_fts(chunks_fts, rank) VALUES {MERGING};
INSERT INTO chunks_exact(chunks_exact, rank) VALUES {MERGING};
"""

# The indexes that only questions need. A first index makes them when it has all rows: that takes
# less time than a change with each row, and their pages are full. Until then questions do without
# them, so no statement may name one by INDEXED BY.
QUESTION_INDEXES = (
    "CREATE INDEX files_by_salience ON files(salience DESC, path) WHERE salience IS NOT NULL",
    "CREATE INDEX files_by_latest ON files(latest DESC, path) WHERE latest IS NOT NULL",
    "CREATE INDEX files_by_topic ON files(coalesce(topic, title) COLLATE NOCASE)",
    "CREATE INDEX files_with_topics ON files(id) WHERE instr(coalesce(topic, title), ',')",
    "CREATE INDEX files_blank ON files(path) WHERE is_blank",
    "CREATE INDEX files_by_time ON files(mtime_ns)",
    "CREATE INDEX sections_by_class ON sections(kind, importance, priority, moment)",
    (
        f"CREATE INDEX sections_of_work ON sections({HAS_NO_TASK.format(s='')},"
        " coalesce(priority, 'P9'), at, kind, status, expires)"
        f" WHERE {OPEN_WORK.format(s='')}"
    ),
    "CREATE INDEX sections_by_task ON sections(task COLLATE NOCASE) WHERE task IS NOT NULL",
    (
        "CREATE INDEX sections_by_session ON sections(session COLLATE NOCASE)"
        " WHERE session IS NOT NULL"
    ),
    "CREATE INDEX sections_by_source ON sections(source COLLATE NOCASE) WHERE source IS NOT NULL",
    "CREATE INDEX sections_by_status ON sections(status COLLATE NOCASE) WHERE status IS NOT NULL",
    (
        "CREATE INDEX sections_by_priority ON sections(priority COLLATE NOCASE)"
        " WHERE priority IS NOT NULL"
    ),
    (
        "CREATE INDEX sections_by_lifecycle ON sections(lifecycle COLLATE NOCASE)"
        " WHERE lifecycle IS NOT NULL"
    ),
    (
        "CREATE INDEX sections_of_project ON sections(kind, importance, at, status, is_empty, task,"
        " expires, file) WHERE lifecycle = 'project'"
    ),
    "CREATE INDEX sections_by_topic ON sections(topic COLLATE NOCASE) WHERE topic IS NOT NULL",
    "CREATE INDEX sections_with_topics ON sections(id) WHERE instr(topic, ',')",
    "CREATE INDEX sections_by_outlook ON sections(outlook, moment) WHERE outlook IS NOT NULL",
    "CREATE INDEX sections_archived ON sections(id) WHERE status = 'archived'",
    "CREATE INDEX tags_by_tag ON tags(tag COLLATE NOCASE)",
    "CREATE INDEX standing_files_by_time ON standing_files(standing, mtime_ns)",
    "CREATE INDEX keywords_by_keyword ON keywords(keyword COLLATE NOCASE)",
    (
        "CREATE INDEX links_by_prefix ON links(substr(target, 1, instr(target, ':') - 1))"
        " WHERE file IS NULL AND instr(target, ':') > 1"
    ),
    "CREATE INDEX linking_by_relation ON linking(relation, path) WHERE relation <> ''",
    "CREATE INDEX linking_most ON linking(n_links DESC, path) WHERE n_links > 0",
    "CREATE INDEX linking_dangling ON linking(path, relation, n_dangling) WHERE n_dangling > 0",
    "CREATE INDEX linking_ambiguous ON linking(path, n_ambiguous) WHERE n_ambiguous > 0",
    "CREATE INDEX counts_by_n ON counts(field, n DESC, value) WHERE is_many",
    "CREATE INDEX counts_by_n_all ON counts(field, n_all DESC, value) WHERE is_many",
    "CREATE INDEX counts_by_last ON counts(field, last DESC, value) WHERE last IS NOT NULL",
    (
        "CREATE INDEX counts_by_last_all ON counts(field, last_all DESC, value)"
        " WHERE last_all IS NOT NULL"
    ),
    (
        "CREATE INDEX counts_going_on ON counts(field, last_all DESC, value)"
        " WHERE last_all IS NOT NULL AND is_ended IS NULL"
    ),
)


# --- index.db -----------------------------------------------------------------------------------


@functools.lru_cache(maxsize=8)
def compute_fingerprint(reading: str) -> str:
    """Return the fingerprint of an index; `reading` describes the policies that parse its notes."""
    parts = (SCHEMA, *QUESTION_INDEXES, TOKENIZER, str(READING_VERSION), reading)
    return digest_text("\n".join(parts))


def create_schema(connection: apsw.Connection, fingerprint: str, *, generation: int) -> None:
    """Create the tables in an empty file, without the indexes that only questions need, within the
    caller's transaction.
    """
    connection.execute(SCHEMA)
    rows = [("fingerprint", fingerprint), ("generation", str(generation))]
    connection.executemany("INSERT INTO meta(key, value) VALUES(?, ?)", rows)
    connection.pragma("user_version", compute_user_version(fingerprint))


def list_missing_indexes(connection: apsw.Connection) -> list[str]:
    """Return the statements that make the missing ones of the indexes that only questions need."""
    rows = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'index'")
    present = {name for (name,) in rows}
    return [sql for sql in QUESTION_INDEXES if _name_index(sql) not in present]


def drop_question_indexes(connection: apsw.Connection) -> None:
    for sql in QUESTION_INDEXES:
        connection.execute(f"DROP INDEX IF EXISTS {_name_index(sql)}")


def _name_index(sql: str) -> str:
    return sql.split()[2]


def compute_user_version(fingerprint: str) -> int:
    """Return 31 bits of the fingerprint, never zero. Other programs tell schemas apart by it."""
    return (int(fingerprint[:8], 16) & 0x7FFFFFFF) or 1


def is_empty(connection: apsw.Connection) -> bool:
    """True for a file without tables."""
    return not connection.execute("SELECT count(*) FROM sqlite_schema").get


def read_fingerprint(connection: apsw.Connection) -> str:
    """Return the fingerprint in the file; empty if there is none.

    Raises apsw.Error if the file cannot be read.
    """
    if not connection.table_exists(None, "meta"):
        return ""
    statement = "SELECT value FROM meta WHERE key = 'fingerprint'"
    return str(connection.execute(statement).get or "")


# --- records.db ---------------------------------------------------------------------------------


def migrate_texts(connection: apsw.Connection) -> None:
    """Convert version 3 to 4: texts, which may be deltas on other texts, become blobs.

    A text whose data is damaged keeps its row without data. So it is still reported, and it is
    stored again when a note has this text.
    """
    connection.execute(_BLOBS)
    texts = _DeltaTexts(connection)
    blobs = Blobs(connection)
    done: set[str] = set()
    rows: list[Any] = connection.execute(_TEXTS_IN_ORDER).fetchall()
    for digest, like in rows:
        if digest in done:
            continue
        done.add(digest)
        if (text := texts.read(digest)) is not None:
            blobs.keep(text, like=like)
        else:
            connection.execute(_PUT_DAMAGED, (digest,))
    connection.execute(_DROP_TEXTS)


# Texts in the order of their revisions, each with the text before it; then texts that no revision
# names.
_TEXTS_IN_ORDER = """
SELECT digest, like_digest FROM (
  SELECT id, 0 AS side, old_digest AS digest, NULL AS like_digest FROM revisions
  UNION ALL SELECT id, 1, new_digest, old_digest FROM revisions
  UNION ALL SELECT 9223372036854775807, rowid, digest, NULL FROM texts
) WHERE digest IN (SELECT digest FROM texts) ORDER BY id, side
"""
_BLOBS = """
CREATE TABLE blobs(
  digest TEXT PRIMARY KEY CHECK (length(digest) = 32),
  size INTEGER NOT NULL CHECK (size >= 0),
  base TEXT REFERENCES blobs(digest) DEFERRABLE INITIALLY DEFERRED CHECK (base <> digest),
  data BLOB NOT NULL
) STRICT;
CREATE INDEX blobs_by_base ON blobs(base) WHERE base IS NOT NULL;
ALTER TABLE tips RENAME TO heads;
DROP INDEX tips_by_digest;
CREATE INDEX heads_by_digest ON heads(digest);
"""
_PUT_DAMAGED = (
    "INSERT INTO blobs(digest, size, data) SELECT digest, size, x'' FROM texts WHERE digest = ?"
)
# The rows refer to each other.
_DROP_TEXTS = "UPDATE texts SET base = NULL; DROP TABLE texts;"


class _DeltaTexts:
    """Reads the table `texts` of versions 2 and 3, where a text may be a delta on another.

    A delta begins with a byte for its method and three numbers of seven bits per byte: the length
    of the beginning and of the end that it has in common with its base, and the length of its own
    middle. The middle follows, either as it is or deflated with the base's middle as dictionary. A
    whole text is a delta on an empty text.
    """

    _PLAIN, _DEFLATED = 0, 1
    _WINDOW_BYTES = 32 * 1024
    _MAX_NUMBER_BYTES = 6

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def read(self, digest: str) -> bytes | None:
        """Return the text; None if its data, or the data of a text below it, is damaged."""
        deltas: list[bytes] = []
        passed: set[str] = set()
        at: str | None = digest
        while at is not None and at not in passed:
            passed.add(at)
            statement = "SELECT base, data FROM texts WHERE digest = ?"
            row = self._connection.execute(statement, (at,)).fetchone()
            if row is None:
                return None
            at = row[0]
            deltas.append(row[1])
        text = b""
        try:
            for delta in reversed(deltas):
                text = self._apply(text, delta)
        except (ValueError, IndexError, zlib.error):
            return None
        return text if digest_bytes(text) == digest else None

    def _apply(self, base: bytes, delta: bytes) -> bytes:
        n_before, at = self._read_number(delta, 1)
        n_after, at = self._read_number(delta, at)
        n_middle, at = self._read_number(delta, at)
        end = len(base) - n_after
        if n_before > end or delta[0] not in (self._PLAIN, self._DEFLATED):
            raise ValueError("this is no delta on that text")
        middle = delta[at:]
        if delta[0] == self._DEFLATED:
            dictionary = base[n_before:end][-self._WINDOW_BYTES :]
            middle = zlib.decompressobj(wbits=-15, zdict=dictionary).decompress(middle, n_middle)
        return b"".join((base[:n_before], middle, base[end:]))

    def _read_number(self, data: bytes, at: int) -> tuple[int, int]:
        number = 0
        for place, byte in enumerate(data[at : at + self._MAX_NUMBER_BYTES]):
            number |= (byte & 0x7F) << (7 * place)
            if byte <= 0x7F:
                return number, at + place + 1
        raise ValueError("the delta ends too soon")


def separate_first_sights(connection: apsw.Connection) -> None:
    """Convert version 7 to 8: add attributes of files, and the command `first_seen`.

    A note that existed before it was noticed is no longer a creation by another program. Older
    versions did not distinguish the two, so every external creation becomes `first_seen`.
    """
    connection.execute(_ADD_ATTRIBUTES)
    mixed: list[Any] = connection.execute(_MIXED_CHANGE_SETS).fetchall()
    for (number,) in mixed:
        new = connection.execute(_COPY_CHANGE_SET, (number,)).get
        connection.execute(_MOVE_CREATIONS, (new, number))
    connection.execute(_RENAME_CREATIONS)


_ADD_ATTRIBUTES = """
ALTER TABLE heads ADD COLUMN mode INTEGER;
ALTER TABLE heads ADD COLUMN mtime_ns INTEGER;
ALTER TABLE revisions ADD COLUMN old_mode INTEGER;
ALTER TABLE revisions ADD COLUMN old_mtime_ns INTEGER;
ALTER TABLE revisions ADD COLUMN new_mode INTEGER;
ALTER TABLE revisions ADD COLUMN new_mtime_ns INTEGER;
"""
_IS_CREATION = "(old_digest IS NULL AND old_path IS NULL)"
_MIXED_CHANGE_SETS = f"""
SELECT change_sets.id FROM change_sets JOIN revisions ON change_set = change_sets.id
WHERE command = 'external' GROUP BY change_sets.id
HAVING sum({_IS_CREATION}) BETWEEN 1 AND count(*) - 1
"""
_COPY_CHANGE_SET = """
INSERT INTO change_sets(at, client, command, path, new_path)
SELECT at, client, command, path, new_path FROM change_sets WHERE id = ? RETURNING id
"""
_MOVE_CREATIONS = f"UPDATE revisions SET change_set = ? WHERE change_set = ? AND {_IS_CREATION}"
_RENAME_CREATIONS = f"""
UPDATE change_sets SET command = 'first_seen' WHERE command = 'external'
AND id IN (SELECT change_set FROM revisions WHERE {_IS_CREATION})
"""

Migration = str | Callable[[apsw.Connection], None]

# Migration n leads from version n to n + 1. Released migrations never change, because they have run
# on users' machines.
MIGRATIONS: tuple[Migration, ...] = (
    """
    CREATE TABLE workspace(
      id TEXT PRIMARY KEY,
      root TEXT NOT NULL,
      created_at REAL NOT NULL
    ) STRICT;
    CREATE TABLE moves(
      id INTEGER PRIMARY KEY,
      old_path TEXT NOT NULL,
      new_path TEXT NOT NULL,
      digest TEXT NOT NULL,
      seen_at REAL NOT NULL
    ) STRICT;
    CREATE INDEX moves_by_new_path ON moves(new_path);
    """,
    """
    CREATE TABLE meta(
      key TEXT PRIMARY KEY,
      value TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE texts(
      digest TEXT PRIMARY KEY CHECK (length(digest) = 32),
      size INTEGER NOT NULL CHECK (size >= 0),
      base TEXT REFERENCES texts(digest) DEFERRABLE INITIALLY DEFERRED CHECK (base <> digest),
      height INTEGER NOT NULL DEFAULT 0 CHECK (height >= 0),
      data BLOB NOT NULL
    ) STRICT;
    CREATE INDEX texts_by_base ON texts(base) WHERE base IS NOT NULL;
    CREATE TABLE tips(
      path TEXT PRIMARY KEY,
      digest TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX tips_by_digest ON tips(digest);
    CREATE TABLE acts(
      id INTEGER PRIMARY KEY AUTOINCREMENT,
      at REAL NOT NULL,
      client TEXT NOT NULL,
      command TEXT NOT NULL,
      path TEXT NOT NULL,
      new_path TEXT
    ) STRICT;
    CREATE INDEX acts_by_at ON acts(at);
    CREATE TABLE revisions(
      id INTEGER PRIMARY KEY AUTOINCREMENT,
      act INTEGER NOT NULL REFERENCES acts(id) ON DELETE CASCADE,
      path TEXT NOT NULL,
      old_path TEXT CHECK (old_path <> path),
      old_digest TEXT,
      new_digest TEXT,
      state TEXT NOT NULL CHECK (state IN ('intended', 'done'))
    ) STRICT;
    CREATE INDEX revisions_by_act ON revisions(act);
    CREATE INDEX revisions_by_path ON revisions(path);
    CREATE INDEX revisions_by_old_path ON revisions(old_path) WHERE old_path IS NOT NULL;
    CREATE INDEX revisions_by_old_digest ON revisions(old_digest);
    CREATE INDEX revisions_by_new_digest ON revisions(new_digest);
    CREATE INDEX revisions_intended ON revisions(act) WHERE state = 'intended';
    """,
    # The column is text because an inode may be larger than SQLite's integers.
    "ALTER TABLE workspace ADD COLUMN inode TEXT",
    migrate_texts,
    """
    ALTER TABLE acts RENAME TO change_sets;
    ALTER TABLE revisions RENAME COLUMN act TO change_set;
    DROP INDEX acts_by_at;
    CREATE INDEX change_sets_by_at ON change_sets(at);
    DROP INDEX revisions_by_act;
    CREATE INDEX revisions_by_change_set ON revisions(change_set);
    UPDATE change_sets SET command = 'external' WHERE command = 'outside';
    """,
    """
    CREATE TABLE accesses(
      id INTEGER PRIMARY KEY,
      path TEXT NOT NULL,
      section TEXT NOT NULL,
      count INTEGER NOT NULL CHECK (count >= 1),
      last_at REAL NOT NULL,
      UNIQUE (path, section)
    ) STRICT;
    CREATE INDEX accesses_by_last_at ON accesses(last_at);
    CREATE TABLE access_sessions(
      access INTEGER NOT NULL REFERENCES accesses(id) ON DELETE CASCADE,
      session TEXT NOT NULL,
      at REAL NOT NULL,
      PRIMARY KEY (access, session)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX access_sessions_by_at ON access_sessions(at);
    """,
    """
    CREATE TABLE signals(
      id INTEGER PRIMARY KEY AUTOINCREMENT,
      at REAL NOT NULL,
      sender TEXT NOT NULL,
      key TEXT,
      type TEXT NOT NULL,
      content TEXT NOT NULL,
      expires_at REAL NOT NULL,
      UNIQUE (sender, key)
    ) STRICT;
    CREATE INDEX signals_by_expiry ON signals(expires_at);
    CREATE TABLE signal_addressees(
      signal INTEGER NOT NULL REFERENCES signals(id) ON DELETE CASCADE,
      address TEXT NOT NULL,
      PRIMARY KEY (signal, address)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX signals_by_address ON signal_addressees(address);
    CREATE TABLE signal_receipts(
      signal INTEGER NOT NULL REFERENCES signals(id) ON DELETE CASCADE,
      reader TEXT NOT NULL,
      at REAL NOT NULL,
      PRIMARY KEY (signal, reader)
    ) STRICT, WITHOUT ROWID;
    """,
    separate_first_sights,
    """
    CREATE TABLE signal_claims(
      signal INTEGER PRIMARY KEY REFERENCES signals(id) ON DELETE CASCADE,
      reader TEXT NOT NULL
    ) STRICT;
    CREATE TABLE signal_readers(reader TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
    INSERT INTO signal_readers SELECT DISTINCT reader FROM signal_receipts;
    """,
    # The id of an answer is its time in microseconds since 1970.
    """
    CREATE TABLE agent_answers(
      id INTEGER PRIMARY KEY,
      client TEXT NOT NULL,
      agent TEXT NOT NULL,
      session TEXT NOT NULL,
      call TEXT NOT NULL,
      tokens INTEGER NOT NULL CHECK (tokens >= 0),
      unlisted INTEGER NOT NULL CHECK (unlisted >= 0),
      left_out TEXT NOT NULL,
      signals INTEGER NOT NULL CHECK (signals >= 0),
      change_set INTEGER,
      failure TEXT,
      query TEXT
    ) STRICT;
    CREATE TABLE answer_sections(
      answer INTEGER NOT NULL REFERENCES agent_answers(id) ON DELETE CASCADE,
      position INTEGER NOT NULL,
      act TEXT NOT NULL CHECK (act IN ('given', 'written', 'left out')),
      workspace TEXT,
      path TEXT NOT NULL,
      section TEXT,
      heading TEXT NOT NULL,
      start_line INTEGER,
      end_line INTEGER,
      tokens INTEGER,
      reason TEXT NOT NULL,
      PRIMARY KEY (answer, position)
    ) STRICT, WITHOUT ROWID;
    """,
    # Signals to other machines have the same id on all of them.
    """
    CREATE TABLE sent_signals(
      signal INTEGER PRIMARY KEY REFERENCES signals(id) ON DELETE CASCADE,
      line TEXT NOT NULL UNIQUE,
      addresses TEXT NOT NULL,
      travel TEXT NOT NULL CHECK (travel IN ('waiting', 'committed', 'pushed'))
    ) STRICT;
    CREATE TABLE received_signals(
      line TEXT PRIMARY KEY,
      expires_at REAL NOT NULL
    ) STRICT, WITHOUT ROWID;
    """,
    # The order tells which reader goes first.
    """
    ALTER TABLE signal_readers RENAME TO former_readers;
    CREATE TABLE signal_readers(id INTEGER PRIMARY KEY, reader TEXT NOT NULL UNIQUE) STRICT;
    INSERT INTO signal_readers(reader) SELECT reader FROM former_readers;
    DROP TABLE former_readers;
    """,
)


def run_migration(connection: apsw.Connection, migration: Migration) -> None:
    """Run one migration within the caller's transaction."""
    if isinstance(migration, str):
        connection.execute(migration)
    else:
        migration(connection)
