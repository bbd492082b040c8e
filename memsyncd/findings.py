"""Read tables of the doctor's findings. They are texts; each row has this form:

name: level check
the finding, with {facts} in braces
→ the remedy, if there is one
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple, cast

Level = Literal["ok", "info", "warning", "error"]


class FindingRow(NamedTuple):
    """A finding with places for its facts. `check` is empty if the caller names the check."""

    level: Level
    check: str
    what: str
    remedy: str


def parse_rows(text: str) -> dict[str, FindingRow]:
    """Return the rows of a table by their names."""
    rows = {}
    for block in re.split(r"\n(?=\w+: )", text.strip()):
        head, _, body = block.partition("\n")
        name, _, kind = head.partition(": ")
        level, _, check = kind.partition(" ")
        what, _, remedy = " ".join(body.split()).partition("→ ")
        rows[name] = FindingRow(cast("Level", level), check, what.strip(), remedy)
    return rows
