"""Requests of a client: searches, freshness, reads of sections; `nc -U` suffices as a client."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from memsyncd.errors import BadRequest, MemsyncdError, NoteNotFound, NotFresh, PathRefused
from tests.daemon.conftest import Place, write_first_notes

if TYPE_CHECKING:
    from tests.daemon.conftest import Daemon, Home

pytestmark = pytest.mark.shared_daemon

DECISIONS = """---
kind: decision
tags: [storage, db]
---
# Decisions

## Postgres

We chose Postgres because of its row locks, and retry_with_backoff guards it.

## Redis
<!-- memory: {kind: error, tags: [cache], importance: 0.9} -->

The cache timed out: see #incident and DEC-0054.

## Redis

A twin of the section above, with a row of locks.
"""


@pytest.fixture(scope="module")
def filled_place(home: Home, daemon: Daemon) -> Iterator[Place]:
    """One daemon for all read-only tests; a test that changes notes restores them."""
    root = home.make_folder()
    write_first_notes(root)
    (root / ".memories" / "decisions.md").write_text(DECISIONS)
    (root / ".memories" / "plain.txt").write_text("# no heading here\n\nplain words\n")
    place = Place(home, daemon, root)
    place.find("twin", wait="disk")
    yield place
    place.close()


def search(place: Place, query: str, **options: object) -> list[tuple[str, int, int]]:
    answer = place.client.call("search", query=query, workspace=place.id, **options)
    assert bool(answer["hits"]) == (answer["why_empty"] is None)
    return [
        (hit["anchor"].partition("/")[2], hit["start_line"], hit["end_line"])
        for hit in answer["hits"]
    ]


POSTGRES = ("decisions.md#decisions/postgres", 7, 9)
REDIS = ("decisions.md#decisions/redis", 11, 14)
TWIN = ("decisions.md#decisions/redis-2", 16, 18)


@pytest.mark.parametrize(
    ("query", "options", "found"),
    [
        ('"row locks"', {}, [POSTGRES]),
        ('"locks row"', {}, []),
        ("locks -postgres", {}, [TWIN]),
        ("retr*", {}, [POSTGRES]),
        ("redis", {"filters": {"kind": ["decision"]}}, [TWIN]),
        ("redis", {"filters": {"tag": ["#INCIDENT"]}}, [REDIS]),
        ("plain", {"filters": {"path": [".memories/"]}}, [("plain.txt#", 1, 3)]),
        ("redis -tag:cache path:decisions.md", {}, [TWIN]),
        ("redis", {"filters": {"section": ["decisions/redis"], "kind": ["decision"]}}, [TWIN]),
        ("kind:error", {"filters": {"tag": ["cache"]}}, [REDIS]),
        ("zyzzyva", {}, []),
    ],
)
def test_a_search_finds_the_section_and_its_lines(
    filled_place: Place, query: str, options: dict[str, Any], found: list[tuple[str, int, int]]
) -> None:
    assert search(filled_place, query, **options) == found
    # The same question has the same answer, and the best hits are the first of it.
    assert search(filled_place, query, **options, limit=1) == found[:1]


def test_an_answer_without_hits_says_why_and_what_may_be_meant(filled_place: Place) -> None:
    def ask(query: str, **options: Any) -> dict[str, Any]:
        return filled_place.client.call("search", query=query, workspace=filled_place.id, **options)

    long = ask("x " * 4000)
    assert any("shortened" in problem for problem in long["query_problems"])
    assert "no note" in ask("zyzzyva")["why_empty"]
    assert "no word" in ask("")["why_empty"]
    none = ask("redis", filters={"tag": ["none"]})["why_empty"]
    assert "tag:none leaves none; what matches has the tags" in none
    answer = ask("psotgres kind:decision")
    assert answer["did_you_mean"] == "postgres kind:decision"
    assert ask(answer["did_you_mean"])["hits"]


# --- how fresh ---


def test_a_search_that_waits_for_the_disk_always_finds_the_last_save(place: Place) -> None:
    for number in range(20):
        (place.root / "MEMORY.md").write_text(f"- version{number}\n")
        assert place.find(f"version{number}", wait="disk") == {"MEMORY.md"}
        if number:
            assert not place.find(f"version{number - 1}", wait="disk")


def test_many_concurrent_searches_that_wait_for_the_disk_find_the_save(
    place: Place, daemon: Daemon
) -> None:
    failures: list[str] = []

    def check(name: str) -> None:
        with daemon.client() as client:
            for number in range(10):
                note = place.root / ".memories" / f"{name}.md"
                note.write_text(f"{name}x{number}\n")
                if not client.call(
                    "search", query=f"{name}x{number}", workspace=place.id, wait="disk"
                )["hits"]:
                    failures.append(f"{name}x{number}")

    threads = [threading.Thread(target=check, args=(f"writer{number}",)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_a_deletion_is_seen_at_once_with_wait_and_by_all_after_the_grace_time(
    place: Place,
) -> None:
    (place.root / "MEMORY.md").unlink()
    assert not place.find("keepsake", wait="disk")
    place.wait_found("keepsake")


def test_the_last_sync_of_a_status_is_of_what_was_saved_or_written_last(place: Place) -> None:
    for number, change in enumerate(
        (
            lambda: place.save("MEMORY.md", "# Memory\n\nlarch0\n"),
            lambda: place.client.call("note.add", content="larch1", workspace=place.id),
            lambda: place.save("MEMORY.md", "# Memory\n\nlarch2\n"),
        )
    ):
        before_s = time.time()
        change()
        place.wait(lambda word=f"larch{number}": bool(place.find(word)), "it was not found")
        assert place.status()["last_sync_at"] >= before_s


def test_a_wait_for_a_generation_ends_at_its_timeout(place: Place) -> None:
    generation = place.status()["generation"]
    for method, params in (("search", {"query": "larch"}), ("context", {})):
        with pytest.raises(NotFresh) as failure:
            place.client.call(
                method, **params, workspace=place.id, min_generation=generation + 1, timeout_ms=200
            )
        assert failure.value.code == "timeout"
    save = threading.Timer(0.2, lambda: (place.root / "MEMORY.md").write_text("larch\n"))
    save.start()
    answer = place.client.call(
        "search",
        query="larch",
        workspace=place.id,
        min_generation=generation + 1,
        timeout_ms=45_000,
    )
    save.join()
    assert answer["hits"]
    assert answer["freshness"]["generation"] > generation
    assert answer["freshness"]["state"] == "ready"


def test_a_sync_reports_the_changes(place: Place) -> None:
    memories = place.root / ".memories"
    (memories / "old.md").write_text("# Old\n\nlarch\n")
    place.client.call("sync", workspace=place.id)
    generation = place.status()["generation"]
    place.daemon.process.send_signal(19)  # SIGSTOP: so that no event is received before the sync
    (memories / "old.md").rename(memories / "new.md")
    (memories / "context.md").unlink()
    (memories / "fresh.md").write_text("maple\n")
    (place.root / "MEMORY.md").write_text("# Memory\n\nkeepsake\n\n## More\n\nhazel\n")
    place.client.send("sync", workspace=place.id)
    place.daemon.process.send_signal(18)
    report = place.client.wait(place.client._last_id, timeout_s=45)
    assert {key: report[key] for key in ("added", "modified", "moved", "removed", "failed")} == {
        "added": 1, "modified": 1, "moved": 1, "removed": 1, "failed": [],
    }  # fmt: skip
    assert report["generation"] > generation
    again = place.client.call("sync", workspace=place.id, full=True)
    assert (
        again["added"],
        again["modified"],
        again["moved"],
        again["removed"],
        again["unchanged"],
    ) == (0, 0, 0, 0, 3)


# --- places ---


def test_a_place_is_read_by_anchor_by_path_and_by_lines(filled_place: Place) -> None:
    def get(**where: object) -> dict[str, Any]:
        return filled_place.client.call("get", workspace=filled_place.id, **where)

    lines = DECISIONS.splitlines()
    redis = get(anchor=".memories/decisions.md#decisions/redis")
    assert (redis["start_line"], redis["end_line"], redis["kind"], redis["importance"]) == (
        11,
        15,
        "error",
        0.9,
    )
    assert redis["text"] == "\n".join(lines[10:15])
    assert set(redis["tags"]) >= {"cache", "storage", "db"}
    whole = get(path=".memories/decisions.md")
    assert (whole["start_line"], whole["end_line"], whole["n_lines"]) == (1, len(lines), len(lines))
    assert get(path=".memories/decisions.md", start_line=7, end_line=9)["heading"] == [
        "Decisions",
        "Postgres",
    ]
    assert get(path=".memories/decisions.md", start_line=17, end_line=9999)["end_line"] == len(
        lines
    )


def test_a_list_has_notes_and_sections_with_their_metadata(filled_place: Place) -> None:
    def list_notes(**chosen: object) -> dict[str, Any]:
        answer = filled_place.client.call("list", workspace=filled_place.id, **chosen)
        return {note["path"]: note for note in answer["notes"]}

    path = ".memories/decisions.md"
    every = {"MEMORY.md", ".memories/context.md", path, ".memories/plain.txt"}
    assert list_notes().keys() == every
    note = list_notes(kind="error")[path]
    assert (note["title"], note["kind"], note["n_lines"]) == ("Decisions", "decision", 18)
    assert list_notes(path="MEMORY.md").keys() == {"MEMORY.md"}
    kinds = [section["kind"] for section in list_notes()[path]["sections"]]
    assert kinds == ["decision"] * 3 + ["error", "decision"]


def test_a_section_of_a_note_saved_just_now_has_its_new_position(filled_place: Place) -> None:
    note = filled_place.root / ".memories" / "decisions.md"
    for number in range(1, 10):
        note.write_text(DECISIONS.replace("# Decisions\n", "# Decisions\n" + "\nmore\n" * number))
        got = filled_place.client.call(
            "get", workspace=filled_place.id, anchor=".memories/decisions.md#decisions/redis"
        )
        assert (got["start_line"], got["text"].splitlines()[0]) == (11 + 2 * number, "## Redis")
    note.write_text(DECISIONS)
    assert search(filled_place, "incident", wait="disk") == [REDIS]


@pytest.mark.parametrize(
    ("where", "error"),
    [
        ({"anchor": ".memories/decisions.md#decisions/redsi"}, NoteNotFound),
        ({"anchor": "nowhere.md#"}, NoteNotFound),
        ({"path": "../outside.md"}, PathRefused),
        ({"path": "a\x00b.md"}, PathRefused),
        ({"path": ".memories/context.md", "start_line": 9999}, BadRequest),
        ({"path": ".memories/context.md", "start_line": 3, "end_line": 2}, BadRequest),
        ({}, BadRequest),
        ({"path": "MEMORY.md", "anchor": "MEMORY.md#"}, BadRequest),
    ],
)
def test_an_invalid_position_is_refused_with_a_remedy(
    filled_place: Place, where: dict[str, Any], error: type[MemsyncdError]
) -> None:
    (filled_place.outside / "outside.md").write_text("secret\n")
    with pytest.raises(error) as failure:
        filled_place.client.call("get", workspace=filled_place.id, **where)
    assert failure.value.hint
    assert "secret" not in str(failure.value)


# --- with what everybody has ---


@pytest.mark.needs("nc")
def test_nc_suffices_as_a_client(place: Place) -> None:
    request = {
        "jsonrpc": "2.0",
        "id": "a",
        "method": "search",
        "params": {"query": "keepsake", "workspace": place.id},
    }
    done = subprocess.run(
        ["nc", "-U", "-w", "1", place.client.socket_path],
        input=json.dumps(request) + "\n",
        capture_output=True,
        text=True,
        timeout=45,
        check=True,
    )
    (line,) = done.stdout.splitlines()
    answer = json.loads(line)
    assert answer["id"] == "a"
    assert answer["result"]["hits"][0]["path"] == "MEMORY.md"


@pytest.mark.parametrize(
    ("line", "code", "text_said"),
    [
        ('{"jsonrpc":"2.0","id":1,"method":"serch"}', -32601, "search"),
        ('{"jsonrpc":"2.0","id":1,"method":"search","params":{"qeury":"x"}}', -32602, "query"),
        ('{"jsonrpc":"2.0","id":1,"method":"search","params":{"query":5}}', -32602, ""),
        ('{"jsonrpc":"2.0","id":1,"method":"search","params":["x"]}', -32602, ""),
        (
            '{"jsonrpc":"2.0","id":1,"method":"search","params":{"query":"x","wait":"dsik"}}',
            -32602,
            "disk",
        ),
        (
            '{"jsonrpc":"2.0","id":1,"method":"search","params":{"query":"x","limit":100000}}',
            -32602,
            "",
        ),
        ("not json", -32700, ""),
        ("[" * 100_000, -32700, ""),
        ('{"id":1,"method":"ping"}', -32600, ""),
        ("[]", -32600, ""),
        ('{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600, ""),
    ],
)
def test_a_bad_request_gets_an_exact_error_and_the_next_one_is_answered(
    daemon: Daemon, line: str, code: int, text_said: str
) -> None:
    with daemon.client() as client:
        client._socket.sendall(
            line.encode() + b"\n" + b'{"jsonrpc":"2.0","id":2,"method":"ping"}\n'
        )
        answers: list[dict[str, Any]] = []
        while len(answers) < 2:
            answers += [json.loads(line) for line in client._socket.recv(1 << 20).splitlines()]
    refused = next(answer for answer in answers if "error" in answer)
    assert refused["error"]["code"] == code
    assert text_said in json.dumps(refused)
    assert any(answer.get("result", {}).get("name") == "memsyncd" for answer in answers)
