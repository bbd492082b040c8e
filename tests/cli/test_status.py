from __future__ import annotations

import re
from typing import Any

from memsyncd.operations.status.show import render_status
from memsyncd.terminal.terminal import Paint

PLAIN = Paint()
COLOUR = Paint(has_colour=True)

STATUS: dict[str, Any] = {
    "version": "0.2.0",
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


def test_status_lists_agents_by_their_last_call_then_those_that_are_connected_but_silent() -> None:
    agents = [
        {"name": "codex", "last_call_at": 40.0},
        {"name": "claude-code", "last_call_at": -20.0},
    ]
    status, connected = {**STATUS, "agents": agents}, ["codex", "gemini"]
    text = render_status(status, PLAIN, now_s=100.0, connected=connected)
    line = "  agents  codex 1 min ago · claude-code 2 min ago · gemini no call in the log"
    assert line in text.splitlines()
    unlogged = render_status({**status, "agents": None}, PLAIN, now_s=100.0, connected=connected)
    assert "  agents  codex · gemini" in unlogged.splitlines()


def test_status_shows_what_a_bug_report_needs() -> None:
    text = re.sub(
        r"Python \S+, \S+ \S+,", "Python P, SYSTEM,", render_status(STATUS, PLAIN, now_s=100.0)
    )
    assert text == (
        "memsyncd 0.2.0 · pid 42 · up 3 h 12 min · 31.4 MB · 2 clients · 1,204 requests"
        " (3 failed)\n"
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
