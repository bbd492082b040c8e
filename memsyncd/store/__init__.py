"""The only user of SQLite: index.db, which can be rebuilt, and records.db, which cannot."""
