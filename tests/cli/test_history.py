from __future__ import annotations

from typing import Any

import pytest

from memsyncd.operations.history.show import (
    describe_change,
    render_diff,
    render_revisions,
    render_size_change,
    render_undone,
)
from memsyncd.terminal.terminal import Paint

PLAIN = Paint()
COLOUR = Paint(has_colour=True)
EDIT: dict[str, Any] = {
    "revision": 42,
    "change_set": 17,
    "at": 1000.0,
    "client": "cli",
    "command": "str_replace",
    "path": ".memories/redis.md",
    "old_path": None,
    "old_digest": "aa",
    "new_digest": "bb",
    "old_bytes": 100,
    "new_bytes": 220,
    "is_kept": True,
}
SEEN = EDIT | {"revision": 7, "client": "", "command": "external"}
MADE = {"old_digest": None, "old_bytes": None}
GONE = {"new_digest": None, "new_bytes": None}


def test_revisions_line_up() -> None:
    first = SEEN | MADE | {"command": "first_seen", "revision": 6}
    revisions = [EDIT, SEEN | MADE | {"is_kept": False}, first]
    lines = [*render_revisions(revisions, PLAIN, now_s=1000 + 7200)]
    assert lines == [
        "42  2 h ago  cli       str_replace  +120 B  .memories/redis.md",
        (
            "7   2 h ago  external  create       +220 B  .memories/redis.md  (its texts are no"
            " longer kept)"
        ),
        "6   2 h ago  -         first seen   +220 B  .memories/redis.md",
    ]


def test_a_move_shows_both_paths() -> None:
    moved = SEEN | {"old_path": ".memories/old.md", "new_bytes": 100}
    assert next(render_revisions([moved], PLAIN, now_s=1000)).endswith(
        "rename  ±0 B  .memories/old.md → .memories/redis.md"
    )


@pytest.mark.parametrize(
    ("revision", "deed"),
    [
        (EDIT, "str_replace"),
        (SEEN, "edit"),
        (SEEN | MADE, "create"),
        (SEEN | GONE, "delete"),
        (SEEN | {"old_path": "x.md"}, "rename"),
        (SEEN | MADE | {"command": "first_seen"}, "first seen"),
    ],
)
def test_an_external_change_is_named_by_its_effect(revision: dict[str, Any], deed: str) -> None:
    assert describe_change(revision) == deed


@pytest.mark.parametrize(
    ("revision", "growth"),
    [
        (EDIT, "+120 B"),
        (EDIT | GONE, "-100 B"),
        (EDIT | MADE, "+220 B"),
        (EDIT | {"new_bytes": 100}, "±0 B"),
    ],
)
def test_growth_has_its_sign(revision: dict[str, Any], growth: str) -> None:
    assert render_size_change(revision) == growth


DIFF = (
    "--- a\n+++ b\n@@ -1,3 +1,3 @@\n # Redis\n--- a list\n+++ another\n\\ No newline"
    " at end of file\n"
)


def test_a_diff_stays_as_it_is_where_there_are_no_colours() -> None:
    assert render_diff(DIFF, PLAIN) == DIFF.removesuffix("\n")


def test_lines_of_a_diff_are_coloured_by_what_was_done_to_them() -> None:
    assert render_diff(DIFF, COLOUR).splitlines() == [
        "\x1b[1m--- a\x1b[0m",
        "\x1b[1m+++ b\x1b[0m",
        "\x1b[36m@@ -1,3 +1,3 @@\x1b[0m",
        " # Redis",
        "\x1b[31m--- a list\x1b[0m",
        "\x1b[32m+++ another\x1b[0m",
        "\x1b[2m\\ No newline at end of file\x1b[0m",
    ]


def test_an_undo_names_the_undone_revision() -> None:
    assert (
        render_undone(EDIT, now_s=1180)
        == ".memories/redis.md  undid revision 42: str_replace by cli, 3 min ago"
    )
    assert render_undone(SEEN | {"old_path": "x.md"}, now_s=1180) == (
        ".memories/redis.md → x.md  undid revision 7: rename by another program, 3 min ago"
    )
