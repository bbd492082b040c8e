"""Notes that no editor would write, and files that are not notes: indexed as well as possible,
reported in `problems`, and harmless to others.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from memsyncd.client import Client
from memsyncd.errors import NoDaemon, NotFresh
from tests.programs import find_missing

if TYPE_CHECKING:
    from tests.daemon.conftest import Home, Place

# A guard: 50 ms are promised, on an idle machine.
ANSWER_S = 15.0
NESTED_YAML = b"---\na: &a [x,x]\nb: &b [*a,*a,*a]\nc: &c [*b,*b,*b]\nd: [*c,*c,*c]\n---\n"

UNUSUAL_TEXTS = {
    "not UTF-8": (b"# Caf\xe9\n\nlarch\n\xff\xfe here\n", [(1, "not_utf8")], (1, 4)),
    "NUL": (b"# Nul\n\nbefore\0after larch\n", [(3, "nul")], (1, 3)),
    "BOM": (b"\xef\xbb\xbf# Bom\n\nlarch\n", [(1, "bom")], (1, 3)),
    "CR only": (b"# Cr\r\rlarch\r", [(1, "cr_line_ends")], (1, 3)),
    "line ends of all sorts": (
        b"# Mixed\r\n\nfirst\r\n\x0b\x0c\xc2\x85\xe2\x80\xa8 larch\r\n",
        [],
        (1, 4),
    ),
    "1 MB line": (b"# Mega\n\n" + b"filler " * 150_000 + b"larch\n", [(3, "long_line")], (1, 3)),
    "1 MB word": (b"# Mega\n\n" + b"a" * 1_000_000 + b" larch\n", [(3, "long_line")], (1, 3)),
    "100 kB of [": (b"# Brackets\n\n" + b"[" * 100_000 + b" larch\n", [(3, "long_line")], (1, 3)),
    "100 kB of >": (b"# Quotes\n\n" + b">" * 100_000 + b"\n\nlarch\n", [(3, "long_line")], (5, 5)),
    "deep list": (b"# List\n\n" + b"- " * 20_000 + b"x\n\nlarch\n", [], (5, 5)),
    "unclosed fence": (b"# Fence\n\n```py\nlarch\n# no heading\n", [(3, "unclosed_fence")], (1, 5)),
    "unclosed comment": (b"# Html\n\n<!-- open\nlarch\n", [(3, "unclosed_comment")], (1, 4)),
    "YAML bomb": (NESTED_YAML + b"# Bomb\n\nlarch\n", [(2, "yaml_refused")], (7, 9)),
    "deep YAML": (
        b"---\na: " + b"[" * 20_000 + b"\n---\n# Deep\n\nlarch\n",
        [(2, "yaml_refused")],
        (4, 6),
    ),
    "broken YAML": (
        b"---\nkind: error\ntags: a: b: c\n---\n# Broken\n\nlarch\n",
        [(3, "broken_yaml")],
        (5, 7),
    ),
    "YAML that would run": (
        b"---\nx: !!python/object/apply:os.system ['exit']\n---\n# Evil\n\nlarch\n",
        [],
        (4, 6),
    ),
    "YAML that is wrong": (
        b"---\nimportance: 5\nexpires: soon\n---\n\nlarch\n",
        [(2, "bad_value"), (3, "bad_value")],
        (6, 6),
    ),
    "broken section comment": (
        b"# H\n<!-- memory: {kind: [a, x: 1} -->\nlarch\n",
        [(2, "broken_yaml")],
        (1, 3),
    ),
    "conflict": (
        b"# C\n\n<<<<<<< HEAD\nlarch\n=======\ntheirs\n>>>>>>> b\n",
        [(3, "conflict_markers")],
        (3, 7),
    ),
    "5,000 headings": (b"# h\n" * 5_000 + b"\nlarch\n", [], (5_000, 5_002)),
}
UNUSUAL_NAMES = {
    b"new\nline.md": "odd_name",
    b"esc\x1b[31m\x07.md": "odd_name",
    b"right\xe2\x80\xae.md": "odd_name",
    b"caf\xc3\xa9.md": "twin_names",
    b"cafe\xcc\x81.md": "twin_names",
    b"note.sync-conflict-20240101-120000-ABCDEFG.md": "sync_conflict",
    b"bad\xff.md": "bad_name",
}


def list_problems(place: Place) -> list[tuple[str, int, str]]:
    answer = place.client.call("problems", workspace=place.id)["problems"]
    assert all(problem["problem"] and problem["hint"] for problem in answer)
    return sorted((problem["path"], problem["line"], problem["code"]) for problem in answer)


def search(place: Place, query: str) -> list[tuple[str, int, int]]:
    asked = {"query": query, "workspace": place.id, "wait": "disk", "timeout_ms": 40_000}
    hits = place.client.call("search", **asked)["hits"]
    return [(hit["path"], hit["start_line"], hit["end_line"]) for hit in hits]


@pytest.mark.parametrize("sort", UNUSUAL_TEXTS)
def test_an_unusual_text_is_found_at_its_lines_with_its_problems_and_others_are_found_too(
    place: Place, sort: str
) -> None:
    data, problems, span = UNUSUAL_TEXTS[sort]
    (place.root / ".memories" / "odd.md").write_bytes(data)
    assert search(place, "larch") == [(".memories/odd.md", *span)]
    assert list_problems(place) == [(".memories/odd.md", *problem) for problem in problems]
    assert search(place, "bystander") == [(".memories/context.md", 1, 3)]
    got = place.client.call(
        "get", workspace=place.id, path=".memories/odd.md", start_line=span[0], end_line=span[1]
    )
    assert "larch" in got["text"]


def test_the_daemon_answers_while_it_indexes_all_unusual_texts_at_once(place: Place) -> None:
    for number, (data, *_) in enumerate(UNUSUAL_TEXTS.values()):
        (place.root / ".memories" / f"odd{number}.md").write_bytes(data)
    slowest_s, client = 0.0, place.daemon.client()
    while place.notes().keys() < {
        f".memories/odd{number}.md" for number in range(len(UNUSUAL_TEXTS))
    }:
        began_s = time.monotonic()
        client.call("status")
        slowest_s = max(slowest_s, time.monotonic() - began_s)
        time.sleep(0.05)
        assert place.find("bystander") == {".memories/context.md"}
    client.close()
    place.wait_equal()
    assert slowest_s < ANSWER_S


@pytest.mark.parametrize("name", UNUSUAL_NAMES)
def test_a_note_with_an_unusual_name_is_found_if_its_name_can_be_encoded(
    place: Place, name: bytes
) -> None:
    for other in UNUSUAL_NAMES if UNUSUAL_NAMES[name] == "twin_names" else ():
        Path(os.fsdecode(os.fsencode(place.root / ".memories") + b"/" + other)).write_text(
            "maple\n"
        )
    Path(os.fsdecode(os.fsencode(place.root / ".memories") + b"/" + name)).write_text("larch\n")
    shown = f".memories/{name.decode(errors='replace')}"
    assert search(place, "larch") == ([] if UNUSUAL_NAMES[name] == "bad_name" else [(shown, 1, 1)])
    assert (shown, 0, UNUSUAL_NAMES[name]) in list_problems(place)


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def make_socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # a socket's path must be short
    try:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.bind(path.name)
    finally:
        os.chdir(here)


STRANGE: dict[str, tuple[Callable[[Path], None], str]] = {
    "a FIFO": (make_fifo, "not_a_file"),
    "a socket": (make_socket, "not_a_file"),
    "a link out": (lambda path: path.symlink_to("/etc/passwd"), "link_outside"),
    "a link to a device": (lambda path: path.symlink_to("/dev/zero"), "link_outside"),
    "a link to a folder outside": (lambda path: path.symlink_to("/etc"), "link_outside"),
    "a broken link": (lambda path: path.symlink_to("nowhere.md"), "link_broken"),
    "a link to itself": (lambda path: path.symlink_to(path.name), "link_loop"),
    "a link to the folder above": (lambda path: path.symlink_to(".."), "link_loop"),
}


@pytest.mark.parametrize("sort", STRANGE)
def test_a_special_file_with_the_name_of_a_note_is_reported_and_never_opened(
    place: Place, sort: str
) -> None:
    make, code = STRANGE[sort]
    make(place.root / ".memories" / "strange.md")
    (place.root / ".memories" / "plain.md").write_text("larch\n")
    assert search(place, "larch") == [(".memories/plain.md", 1, 1)]
    assert list_problems(place) == [(".memories/strange.md", 0, code)]
    assert not place.find("root")
    assert place.status()["state"] == "ready"


@pytest.mark.parametrize("sort", [sort for sort in STRANGE if "link" not in sort])
def test_a_memory_file_that_is_not_a_regular_file_is_reported(place: Place, sort: str) -> None:
    make, code = STRANGE[sort]
    (place.root / "MEMORY.md").unlink()
    make(place.root / "MEMORY.md")
    assert search(place, "bystander") == [(".memories/context.md", 1, 3)]
    assert list_problems(place) == [("MEMORY.md", 0, code)]


def test_a_note_of_50_mb_is_reported_and_never_read(place: Place) -> None:
    with (place.root / ".memories" / "big.md").open("wb") as stream:
        stream.write(b"larch\n" * 1000)
        stream.truncate(50 * 1024 * 1024)
    before = place.client.call("status")["rss_bytes"]
    assert not search(place, "larch")
    assert list_problems(place) == [(".memories/big.md", 0, "too_large")]
    assert place.client.call("status")["rss_bytes"] < before + 20 * 1024 * 1024
    (place.root / ".memories" / "big.md").write_text("larch, and all else cut\n")
    assert search(place, "larch") == [(".memories/big.md", 1, 1)]
    assert not list_problems(place)


def test_a_note_that_outgrows_the_limit_is_reported_and_not_found_any_more(place: Place) -> None:
    note = place.root / ".memories" / "growing.md"
    note.write_text("larch\n")
    assert search(place, "larch") == [(".memories/growing.md", 1, 1)]
    note.write_text("larch\n" * 400_000)
    assert (".memories/growing.md", 0, "too_large") in (
        search(place, "bystander") and list_problems(place)
    )
    place.wait_found("larch")


def test_a_note_that_grows_while_it_is_read_is_found_to_its_end(place: Place) -> None:
    note = place.root / ".memories" / "growing.md"
    program = "import sys, time\nwith open(sys.argv[1], 'ab', 0) as f:\n    for n in range(15000): f.write(b'- line %d of it\\n' % n)"
    writer = subprocess.Popen(
        [sys.executable, "-c", program + "\n    f.write(b'larch\\n')", str(note)]
    )
    n_looks = 0
    while writer.poll() is None:
        assert place.find("bystander", wait="disk") == {".memories/context.md"}
        n_looks += 1
    assert writer.returncode == 0
    assert n_looks
    assert search(place, "larch") == [(".memories/growing.md", 14982, 15001)] or place.find("larch")
    place.wait_equal()


# --- what root without its powers meets, or anybody else ---


@pytest.fixture
def plain(make_home: Callable[[], Home]) -> Iterator[Home]:
    """A home whose daemon can read only what modes allow; started as root, it drops its
    capabilities first.
    """
    prefix = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
    if prefix and find_missing("setpriv"):
        pytest.skip("setpriv is not installed, and root may read everything")
    home = make_home()
    with home.log.open("ab") as log:
        process = subprocess.Popen(
            [*prefix, sys.executable, "-m", "memsyncd", "run"],
            env=home.env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    yield home
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0, home.read_log()


def check_freshness(client: Client, *unread: str) -> None:
    """An answer names what it may miss, and one that must miss nothing is refused."""
    for method, params in (("search", {"query": "aspen"}), ("context", {}), ("list", {})):
        freshness = client.call(method, **params)["freshness"]
        assert freshness["state"] == ("degraded" if unread else "ready")
        assert all(name in (freshness["reason"] or "") for name in unread)
        if not unread:
            assert freshness["reason"] is None
    for method in ("search", "context"):
        ask = partial(client.call, method, query="aspen", wait="disk")
        if unread:
            with pytest.raises(NotFresh, match="cannot be"):
                ask()
        else:
            assert ask()["freshness"]["state"] == "ready"


def test_an_unreadable_note_is_reported_keeps_its_index_and_recovers(plain: Home) -> None:
    client = connect_when_up(plain)
    root = plain.make_folder()
    for path, word in (("open.md", "larch"), ("shut.md", "maple"), ("folder/in.md", "hazel")):
        (root / ".memories" / path).parent.mkdir(parents=True, exist_ok=True)
        (root / ".memories" / path).write_text(f"{word} before\n")
    client.call("workspace.add", path=str(root))

    def find(word: str) -> list[str]:
        client.call("sync")
        return [hit["path"] for hit in client.call("search", query=word)["hits"]]

    def list_codes() -> set[tuple[str, str]]:
        return {
            (problem["path"], problem["code"]) for problem in client.call("problems")["problems"]
        }

    assert find("hazel") == [".memories/folder/in.md"]
    check_freshness(client)
    (root / ".memories" / "shut.md").write_text("rowan after\n")
    (root / ".memories" / "shut.md").chmod(0)
    client.call("sync")
    check_freshness(client, "shut.md")
    (root / ".memories" / "folder").chmod(0)
    (root / ".memories" / "open.md").write_text("aspen after\n")
    assert find("aspen") == [".memories/open.md"]
    client.call("sync", full=True)
    assert find("maple") == [".memories/shut.md"] or find("rowan") == [".memories/shut.md"]
    assert find("hazel") == [".memories/folder/in.md"]
    assert list_codes() == {
        (".memories/shut.md", "unreadable_file"),
        (".memories/folder", "unreadable_folder"),
        ("", "folders"),
    }
    check_freshness(client, "shut.md", "a folder of notes")
    [status] = client.call("status")["workspaces"]
    assert status["state"] == "degraded"
    reason = client.call("search", query="aspen")["freshness"]["reason"]
    assert reason == "; ".join(status["reasons"])

    (root / ".memories" / "shut.md").chmod(0o600)
    (root / ".memories" / "folder").chmod(0o700)
    assert find("rowan") == [".memories/shut.md"]
    assert find("hazel") == [".memories/folder/in.md"]
    assert not list_codes()
    check_freshness(client)
    client.close()


def test_a_root_that_cannot_be_listed_is_reported_keeps_its_index_and_recovers(plain: Home) -> None:
    client = connect_when_up(plain)
    root = plain.make_folder()
    (root / "MEMORY.md").write_text("hazel\n")
    client.call("workspace.add", path=str(root))

    def find(word: str) -> list[str]:
        client.call("sync")
        return [hit["path"] for hit in client.call("search", query=word)["hits"]]

    assert find("hazel")
    root.chmod(0)
    assert find("hazel") == ["MEMORY.md"]
    client.call("sync", full=True)
    assert find("hazel") == ["MEMORY.md"]
    assert client.call("status")["workspaces"][0]["state"] == "degraded"
    assert client.call("problems")["problems"]
    check_freshness(client, "the folder cannot be listed")
    root.chmod(0o700)
    assert find("hazel") == ["MEMORY.md"]
    assert client.call("status")["workspaces"][0]["state"] == "ready"
    client.close()


def connect_when_up(home: Home) -> Client:
    for _ in range(600):
        try:
            return Client(home.socket_path, 45.0)
        except NoDaemon:
            time.sleep(0.05)
    raise AssertionError(f"no daemon came up:\n{home.read_log()}")
