"""Read tables of another program's SQLite file, and write a file that any SQLite searches."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import apsw

from memsyncd.errors import AlreadyExists, BadRequest
from memsyncd.store.connection import open_reader, translating_errors

# The columns of `memories_fts` and of `memories`. No name is in both, so that a join of the two
# tables needs no prefixes.
TEXT_COLUMNS = ("summary", "content", "tags")
MEMORY_COLUMNS = (
    "id kind source run_id topic keywords task session status priority importance created_at"
    " updated_at path"
).split()
_SCHEMA = f"""
CREATE TABLE memories({", ".join(MEMORY_COLUMNS)});
CREATE VIRTUAL TABLE memories_fts USING fts5(
  {", ".join(TEXT_COLUMNS)}, tokenize='porter unicode61'
);
"""


def read_tables(
    path: str, tables: Mapping[str, Sequence[str]]
) -> tuple[dict[str, list[dict[str, Any]]], list[tuple[str, int]]]:
    """Return the rows of these tables with these columns, None for a column that the file lacks;
    and the other tables that have rows, with the number of these.

    Raises BadRequest if the file is no database, or has none of the tables.
    """
    if not os.path.isfile(path):
        raise BadRequest(f"no file at {path}", hint="name the database file")
    try:
        with contextlib.closing(open_reader(path)) as connection, translating_errors():
            names = [
                str(name)
                for (name,) in connection.execute(
                    "SELECT name FROM sqlite_schema WHERE type = 'table'"
                    " AND name NOT LIKE 'sqlite_%' AND sql NOT LIKE 'CREATE VIRTUAL%'"
                )
            ]
            if not set(tables) & set(names):
                raise BadRequest(
                    f"{path} has none of the tables {', '.join(tables)}",
                    hint="name the database of the system that --from names",
                )
            rows = {
                name: _read_rows(connection, name, columns)
                for name, columns in tables.items()
                if name in names
            }
            others = [
                (name, int(connection.execute(f'SELECT count(*) FROM "{name}"').get))
                for name in names
                if name not in tables and '"' not in name
            ]
            return rows, [(name, n) for name, n in others if n]
    except BadRequest:
        raise
    except Exception as error:
        raise BadRequest(
            f"{path} cannot be read as a database: {error}", hint="close the program that uses it"
        ) from error


def _read_rows(
    connection: apsw.Connection, table: str, columns: Sequence[str]
) -> list[dict[str, Any]]:
    present = {str(row[1]) for row in connection.execute(f"PRAGMA table_info({table})")}
    chosen = ", ".join(name if name in present else f"NULL AS {name}" for name in columns)
    return [
        dict(zip(columns, row, strict=True))
        for row in connection.execute(f"SELECT {chosen} FROM {table} ORDER BY rowid")
    ]


def write_memories(path: str, rows: Iterable[Sequence[Any]]) -> None:
    """Write a new file with the tables `memories` and `memories_fts`, whose rows have the same
    number; a row has a value for each of `TEXT_COLUMNS`, then of `MEMORY_COLUMNS`. Raises
    AlreadyExists, and the classes of `translating_errors`.
    """
    if os.path.lexists(path):
        raise AlreadyExists(f"{path} exists", hint="name a new file")
    n_texts = len(TEXT_COLUMNS)
    add_text = f"INSERT INTO memories_fts(rowid, {', '.join(TEXT_COLUMNS)}) VALUES(?,?,?,?)"
    add = f"INSERT INTO memories VALUES({', '.join('?' * len(MEMORY_COLUMNS))})"
    with translating_errors():
        connection = apsw.Connection(path)
        try:
            with connection:
                connection.execute(_SCHEMA)
                for number, row in enumerate(rows, 1):
                    connection.execute(add_text, (number, *row[:n_texts]))
                    connection.execute(add, tuple(row[n_texts:]))
        finally:
            connection.close()
