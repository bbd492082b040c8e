from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.cli.figures import measure
from memsyncd.cli.help import render_help, render_overview
from memsyncd.cli.render import render_explanation, render_freshness, render_hit, render_snippet, wrap_words
from memsyncd.cli.status import render_status
from memsyncd.cli.sync import render_report
from memsyncd.cli.table import ENTRIES, load_command
from memsyncd.cli.terminal import Paint
from memsyncd.cli.watch import render_change

PLAIN = Paint()
COLOUR = Paint(has_colour=True)
HIT: dict[str, Any] = {
    "workspace": "notes-1",
    "anchor": ".memories/redis.md#redis/timeouts",
    "path": ".memories/redis.md",
    "start_line": 4,
    "end_line": 6,
    "heading": ["Redis", "Timeouts"],
    "snippet": "The **redis** timeout is 5 s",
    "score": 0.874,
    "kind": "decision",
    "tags": ["redis", "ops"],
    "importance": None,
    "digest": "0",
    "matched": ["redis", "timeout"],
    "explain": {"stemmed": 12.3456, "exact": 3.0},
}


def render(hit: dict[str, Any], paint: Paint = PLAIN, *, width: int = 0) -> str:
    return render_hit(hit, paint, root="/w", cwd="/w", width=width)


def test_a_hit_says_where_what_and_how_good() -> None:
    assert render(HIT) == (
        ".memories/redis.md:4-6  Redis › Timeouts  decision  #redis #ops  0.87\n  The **redis** timeout is 5 s"
    )


def test_a_hit_leaves_out_what_it_has_not() -> None:
    bare = HIT | {"heading": [], "kind": None, "tags": [], "end_line": 4, "snippet": ""}
    assert render(bare).rstrip() == ".memories/redis.md:4  0.87"


def test_a_terminal_is_shown_a_bar_beside_the_score() -> None:
    assert render(HIT, width=80).splitlines()[0].endswith("  ━━━━━━── 0.87")
    assert render(HIT | {"score": 1.0}, width=80).splitlines()[0].endswith("  ━━━━━━━━ 1.00")
    assert render(HIT | {"score": 0.0001}, width=80).splitlines()[0].endswith("  ──────── <0.01")


def test_an_explanation_is_a_table_of_the_parts_of_each_score_and_the_words_held() -> None:
    dated = HIT | {"score": 0.5, "matched": ["redis"], "explain": {"stemmed": 4.0, "date": 0.8}}
    assert render_explanation([HIT, dated], PLAIN).splitlines() == [
        "hit  score  stemmed  exact  date  holds",
        "1    0.87   12.3     3            redis, timeout",
        "2    0.50   4               0.8   redis",
    ]


def test_an_explanation_of_hits_without_parts_still_says_what_they_hold() -> None:
    assert render_explanation([HIT | {"explain": None}], PLAIN).splitlines()[1].split() == ["1", "0.87", "redis,", "timeout"]


def test_colour_replaces_the_marks_of_matched_words() -> None:
    assert list(render_snippet("a **redis** b", COLOUR, width=0)) == ["  a \x1b[1;33mredis\x1b[0m b"]


def test_a_phrase_that_is_wrapped_stays_lit_on_the_next_line() -> None:
    lines = list(render_snippet("aaa **bbb ccc** ddd", COLOUR, width=9))
    assert lines == ["  aaa \x1b[1;33mbbb\x1b[0m", "  \x1b[1;33mccc\x1b[0m ddd"]


@given(st.text(alphabet="ab *記\n", max_size=60), st.integers(4, 30))
def test_wrapping_keeps_every_word_and_fits_unless_a_word_is_too_long(text: str, width: int) -> None:
    lines = list(wrap_words(text, width))
    assert " ".join(lines).split() == text.split()
    assert all(measure(line.replace("**", "")) <= width or " " not in line for line in lines)


@pytest.mark.parametrize(
    ("freshness", "text"),
    [
        ({"pending": 0, "state": "ready"}, ""),
        ({"pending": 1, "state": "ready"}, "1 note not indexed yet; --wait includes them"),
        ({"pending": 0, "state": "degraded"}, "the workspace is degraded; see `memsyncd status`"),
    ],
)
def test_freshness_is_told_when_there_is_something_to_know(freshness: dict[str, Any], text: str) -> None:
    assert render_freshness(freshness) == text


STATUS: dict[str, Any] = {
    "version": "0.1.0",
    "protocol": 1,
    "pid": 42,
    "uptime_s": 11_525.0,
    "rss_bytes": 31_400_000,
    "clients": 2,
    "requests": 1204,
    "failed_requests": 3,
    "socket": "/run/m.sock",
    "config": "/c/config.toml",
    "sqlite": "3.54.1",
    "workspaces": [
        {
            "id": "notes-1",
            "name": "notes",
            "root": "/w",
            "state": "degraded",
            "reasons": ["inotify watch limit reached"],
            "watcher": "timed",
            "generation": 43,
            "files": 312,
            "sections": 1204,
            "chunks": 3410,
            "pending": 2,
            "last_sync_at": 97.0,
            "problems": 1,
            "index_bytes": 2_100_000,
            "missed_events": 0,
            "failed_syncs": 1,
        }
    ],
}


def test_status_shows_what_a_bug_report_needs() -> None:
    text = re.sub(r"Python \S+, \S+ \S+,", "Python P, SYSTEM,", render_status(STATUS, PLAIN, now_s=100.0))
    assert text == (
        "memsyncd 0.1.0 · pid 42 · up 3 h 12 min · 31.4 MB · 2 clients · 1,204 requests (3 failed)\n"
        "  socket  /run/m.sock\n"
        "  config  /c/config.toml\n"
        "  runs on SQLite 3.54.1, Python P, SYSTEM, protocol 1\n"
        "\n"
        "● notes  degraded\n"
        "  /w  notes-1\n"
        "  312 notes · 1,204 sections · 3,410 chunks · 2.1 MB\n"
        "  synced 3 s ago · generation 43 · timed scans · 2 pending · 1 problem · 1 failed sync\n"
        "  ! inotify watch limit reached"
    )


REPORT: dict[str, Any] = {
    "workspace": "notes-1",
    "generation": 43,
    "added": 3,
    "modified": 0,
    "moved": 1,
    "removed": 0,
    "unchanged": 1200,
    "failed": [],
    "chunks": {"upserted": 14, "deleted": 2, "kept": 9, "moved": 1},
    "duration_ms": 35.2,
}


def test_a_sync_is_told_in_one_line() -> None:
    assert (
        render_report(REPORT, PLAIN) == "3 added, 1 moved, 1,200 unchanged · 14 chunks written · 2 deleted · 35 ms, generation 43"
    )


def test_a_sync_of_nothing_says_so() -> None:
    empty = (
        REPORT
        | dict.fromkeys(("added", "moved", "unchanged"), 0)
        | {"chunks": {"upserted": 0, "deleted": 0, "kept": 0, "moved": 0}}
    )
    assert render_report(empty, PLAIN) == "no notes · 35 ms, generation 43"


def test_a_sync_counts_what_failed() -> None:
    assert "1 failed" in render_report(REPORT | {"failed": [{"path": "a.md", "problem": "x"}]}, PLAIN)


CHANGE: dict[str, Any] = {"workspace": "notes-1", "generation": 43, "paths": ["a.md", "b.md"], "chunks": 3, "complete": True}


def render_named(change: dict[str, Any]) -> str:
    return render_change(change, {"notes-1": "notes"}, PLAIN, clock="12:03:44")


def test_a_change_is_one_line() -> None:
    assert render_named(CHANGE) == "12:03:44  notes  generation 43  3 chunks  a.md, b.md"


def test_a_change_of_many_notes_names_a_few_and_counts_the_rest() -> None:
    assert render_named(CHANGE | {"paths": [f"{n}.md" for n in range(9)]}).endswith(
        "0.md, 1.md, 2.md, 3.md, 4.md, 5.md and 3 more"
    )


def test_a_change_after_forgotten_ones_says_so() -> None:
    assert render_named(CHANGE | {"complete": False}).endswith("(older changes are forgotten: search again)")


def test_a_name_with_a_newline_does_not_break_the_line() -> None:
    assert "\n" not in render_named(CHANGE | {"paths": ["a\nb.md"]})


def test_the_overview_names_every_command() -> None:
    text = render_overview(PLAIN)
    assert [name for name in ENTRIES if f"\n  {name} " not in text] == []


INNER = {f"{name} {action}": each for name in ENTRIES for action, each in load_command(name).commands.items()}
EVERY = {name: load_command(name) for name in ENTRIES} | INNER


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_help_of_every_command_names_its_options_and_fits(name: str, width: int) -> None:
    command = EVERY[name]
    summary = command.summary if name in INNER else ENTRIES[name].summary
    text = render_help(name, summary, command, PLAIN, width=width)
    assert [flag for option in command.options for flag in option.flags if flag not in text] == []
    told = text.partition("Examples")[0]
    assert all(measure(line) <= max(width, 80) for line in told.splitlines())


def test_the_help_of_a_command_names_those_that_it_has_within() -> None:
    text = render_help("memory", "edit notes", EVERY["memory"], PLAIN, width=80)
    assert [name for name in INNER if name.startswith("memory ") and f"  {name} " not in text] == []
    assert "memsyncd memory COMMAND --help" in text
