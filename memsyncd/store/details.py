"""Read the details of a note in index.db, and write those that a change of the note changes.

Details are tags, keywords, links and blocks of sections, and problems, secrets and names of notes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import apsw

Row = tuple[Any, ...]

# The tables with details of sections and of files, with the columns by which rows are compared: a
# change of a note writes the tables in which its details differ. Their first column is `section` or
# `file`.
_DETAILS = {
    "tags": "section, tag",
    "keywords": "section, keyword",
    "links": "section, n, line, target, heading, relation, kind, key",
    "blocks": "section, name",
    "problems": "file, line, code, problem, hint",
    "secrets": "file, start_line, end_line, what",
    "names": "file, name, key",
}
_READ_DETAILS = {
    table: f"SELECT {columns} FROM {table} WHERE "
    + (
        "file = ?1"
        if columns.startswith("file")
        else "section IN (SELECT id FROM sections WHERE {})"
    )
    + (" ORDER BY line, n" if table == "links" else "")
    for table, columns in _DETAILS.items()
}
_DELETE_DETAILS = {
    table: f"DELETE FROM {table} WHERE {columns.partition(',')[0]} = ?"
    for table, columns in _DETAILS.items()
}

Details = Mapping[str, list[Row]]
"""The details of a note or of some of its sections: the rows of the tables of `_DETAILS`."""


def read_details(connection: apsw.Connection, where: str, bindings: Row) -> Details:
    """Read the details of a file, and of its sections that `where` selects. The first of the
    bindings is the file's id.
    """
    return {
        table: connection.execute(
            statement.format(where), bindings if "{}" in statement else bindings[:1]
        ).fetchall()
        for table, statement in _READ_DETAILS.items()
    }


def delete_differing(
    connection: apsw.Connection, old: Details, new: Details, *, is_moved: bool = False
) -> tuple[Details, bool]:
    """Delete the details of each section, or of the note, for which they differ in a table; return
    the new details to insert for them, and whether links are replaced.
    """
    added: dict[str, list[Row]] = {}
    are_links_new = False
    for table, before in old.items():
        after = new[table]
        if before == after and not (is_moved and table == "links"):
            continue
        owned = _group_by_owner(before), _group_by_owner(after)
        if table == "links" and is_moved:
            # The links of a note that has moved may lead elsewhere.
            differing = {*owned[0], *owned[1]}
        else:
            differing = _find_differing(*owned)
        are_links_new |= table == "links" and bool(differing)
        if gone := [(owner,) for owner in differing if owner in owned[0]]:
            connection.executemany(_DELETE_DETAILS[table], gone)
        added[table] = [row for row in after if row[0] in differing]
    return added, are_links_new


def _group_by_owner(details: Iterable[Row]) -> dict[int, list[Row]]:
    owned: dict[int, list[Row]] = {}
    for row in details:
        owned.setdefault(row[0], []).append(row)
    return owned


def _find_differing(old: Mapping[int, list[Row]], new: Mapping[int, list[Row]]) -> set[int]:
    """Return the owners whose rows differ."""
    return {
        owner
        for owner in {*old, *new}
        if (before := old.get(owner, [])) != (after := new.get(owner, []))
        and sorted(before) != sorted(after)
    }
