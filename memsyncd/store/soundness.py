"""Is a database file sound, as the disk has it now?

Looked at over a connection of its own, which has no page in memory yet, and which cannot write. SQLite's quick_check looks at
FTS5's tables, too: whether their words are those of the text that is kept.
"""

from __future__ import annotations

from pathlib import Path

from memsyncd.store.connections import deadline, naming_failures, open_reader
from memsyncd.store.readers import Reader
from memsyncd.store.texts import Texts

CHECK_S = 120.0
N_SHOWN = 5
ASIDE_MARK = ".damaged-"


def find_damage(path: Path, *, is_thorough: bool) -> list[str]:
    """What SQLite finds wrong with the file, in its words; `is_thorough` compares every table with its indexes as well.

    Raises the classes of `naming_failures`, StoreCorrupt for a file that cannot even be looked at.
    """
    connection = open_reader(str(path))
    try:
        with deadline(connection, CHECK_S):
            rows = connection.execute(f"PRAGMA {'integrity_check' if is_thorough else 'quick_check'}({N_SHOWN})").fetchall()
            found = [str(row[0]) for row in rows if row[0] != "ok"]
            if is_thorough and not found:
                found = [f"{row[0]}: a row belongs to nothing" for row in connection.execute("PRAGMA foreign_key_check")]
    finally:
        connection.close()
    return found[:N_SHOWN]


def count_lost_texts(path: Path) -> int:
    """How many texts of a records.db no longer come out right, though SQLite finds nothing wrong with their rows.

    Raises as `find_damage`.
    """
    connection = open_reader(str(path))
    try:
        with deadline(connection, CHECK_S):
            texts = Texts(connection)
            return sum(texts.read(str(row[0])) is None for row in connection.execute("SELECT digest FROM texts"))
    finally:
        connection.close()


def read_generation(reader: Reader) -> int:
    """The generation that the file says it has."""
    with naming_failures():
        return int(reader.rows("SELECT value FROM meta WHERE key = 'generation'")[0][0])


def find_set_aside(path: Path) -> list[Path]:
    """Files that were found damaged and moved away from `path`, oldest first; a log only where it was moved alone."""
    found = set(path.parent.glob(f"{path.name}{ASIDE_MARK}*"))
    return sorted(one for one in found if not one.name.endswith(("-shm", "-wal")) or _is_alone(one, found))


def _is_alone(log: Path, found: set[Path]) -> bool:
    return log.name.endswith("-wal") and log.with_name(log.name.removesuffix("-wal")) not in found
