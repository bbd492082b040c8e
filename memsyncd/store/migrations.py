"""The versions of records.db: script n leads from version n to n + 1 and keeps everything."""

from __future__ import annotations

MIGRATIONS: tuple[str, ...] = (
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
    # Text, for an inode may be larger than SQLite's integers.
    "ALTER TABLE workspace ADD COLUMN inode TEXT",
)
"""Script n leads from version n to n + 1; what stands here has run on people's machines and never changes."""
