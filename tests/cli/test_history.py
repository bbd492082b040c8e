from __future__ import annotations

from typing import Any

from memsyncd.operations.history.show import list_rows, render_diff, render_undone
from memsyncd.terminal.terminal import Paint
from memsyncd.terminal.wrap import render_table

PLAIN = Paint()
EDIT: dict[str, Any] = {
    "revision": 42,
    "change_set": 17,
    "at": 1000.0,
    "client": "cli",
    "command": "str_replace",
    "path": "a.md",
    "old_path": None,
    "old_digest": "aa",
    "new_digest": "bb",
    "old_bytes": 100,
    "new_bytes": 220,
    "is_kept": True,
}
EXTERNAL = EDIT | {"change_set": 7, "client": "", "command": "external"}
MADE = {"old_digest": None, "old_bytes": None}
GONE = {"new_digest": None, "new_bytes": None}


def test_revisions_line_up_with_their_writer_effect_growth_and_path() -> None:
    revisions = [
        EDIT,
        EXTERNAL | {"new_bytes": 100},
        EXTERNAL | MADE | {"is_kept": False},
        EXTERNAL | GONE,
        EXTERNAL | {"old_path": "b.md"},
        EXTERNAL | MADE | {"command": "first_seen"},
    ]
    rows = render_table(list_rows(revisions, PLAIN, now_s=1000 + 7200))
    assert ["".join(row) for row in rows] == [
        "17  2 h ago  cli       str_replace  +120 B  a.md",
        "7   2 h ago  external  edit         ±0 B    a.md",
        "7   2 h ago  external  create       +220 B  a.md  (its texts are no longer kept)",
        "7   2 h ago  external  delete       -100 B  a.md",
        "7   2 h ago  external  rename       +120 B  b.md → a.md",
        "7   2 h ago  -         first seen   +220 B  a.md",
    ]


def test_lines_of_a_diff_are_coloured_by_their_kind() -> None:
    diff = "--- a\n+++ b\n@@ -1,3 +1,3 @@\n # Redis\n--- a list\n+++ another\n\\ No newline\n"
    assert render_diff(diff, Paint(has_colour=True)).splitlines() == [
        "\x1b[1m--- a\x1b[0m",
        "\x1b[1m+++ b\x1b[0m",
        "\x1b[36m@@ -1,3 +1,3 @@\x1b[0m",
        " # Redis",
        "\x1b[31m--- a list\x1b[0m",
        "\x1b[32m+++ another\x1b[0m",
        "\x1b[2m\\ No newline\x1b[0m",
    ]


def test_an_undo_of_a_rename_names_both_paths() -> None:
    assert render_undone(EXTERNAL | {"old_path": "b.md"}, now_s=1180) == (
        "a.md → b.md  undid 7: rename by another program, 3 min ago"
    )
