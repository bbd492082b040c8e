"""History that goes from one workspace to another over the socket, and a program that is older than what it finds."""

from __future__ import annotations

import base64
import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from memsyncd.errors import BadRequest, PathRefused, StoreFailed
from tests.daemon.conftest import Place

if TYPE_CHECKING:
    from tests.daemon.conftest import Daemon, Home

    MakePlace = Callable[..., Place]

pytestmark = pytest.mark.shared_daemon

LONG = "ü" * 300_000
CONTROLS = "\x01" * 500_000
DIGEST = "0" * 32


@pytest.fixture(scope="module")
def importing(home: Home, daemon: Daemon) -> Iterator[Place]:
    """One for all whose entries are refused."""
    place = Place(home, daemon, home.make_folder())
    yield place
    place.close()


def take_in(place: Place, entries: list[dict[str, Any]], version: int = 1) -> dict[str, Any]:
    return place.client.call("records.import", workspace=place.id, version=version, entries=entries)


def tell(place: Place) -> list[tuple[Any, ...]]:
    revisions = place.client.call("history", workspace=place.id, limit=200)["revisions"]
    return [
        tuple(one[name] for name in ("at", "client", "command", "path", "old_digest", "new_digest", "is_kept"))
        for one in revisions
        if one["command"] != "import"
    ]


@pytest.fixture
def other(home: Home, make_place: MakePlace) -> Place:
    return make_place(home.make_folder())


def test_long_and_odd_texts_come_along_byte_for_byte(place: Place, other: Place, home: Home) -> None:
    file = place.root / ".memories" / "context.md"
    for data in (LONG.encode(), CONTROLS.encode(), b"\xff\xfe" * 200_000, b""):
        before = len(tell(place))
        file.write_bytes(data)
        place.client.call("sync", workspace=place.id)
        place.wait(lambda before=before: len(tell(place)) > before, "it was not recorded")  # type: ignore[misc]
    command = [sys.executable, "-m", "memsyncd"]
    exported = home.folder / "history.jsonl"
    exported.write_text(place.run(*command, "export", place.id, stderr=subprocess.DEVNULL))
    entries = [json.loads(line) for line in exported.read_text().splitlines()]
    assert max(map(len, exported.read_text().splitlines())) < 1 << 20
    assert {entry["entry"] for entry in entries} == {"header", "revision", "text", "tip", "end"}
    pieces = b"".join(base64.b64decode(one["data"]) for one in entries if "data" in one)
    assert pieces == b"\xff\xfe" * 200_000
    place.run(*command, "import", exported, "-w", other.id)
    assert tell(other) == tell(place)
    assert all(one[-1] for one in tell(other))
    assert "nothing new" in place.run(*command, "import", exported, "-w", other.id)


def test_an_import_that_is_repeated_after_a_kill_is_whole(make_home: Callable[[], Home], make_place: MakePlace) -> None:
    home = make_home()
    daemon = home.start()
    with daemon.client() as client:
        roots = [home.make_folder() for _ in range(2)]
        ids = [client.call("workspace.add", path=str(root))["workspaces"][0]["id"] for root in roots]
        for number in range(20):
            client.call("memory", workspace=ids[0], command="create", path=f"/memories/{number}.md", file_text=f"{number}\n" * 50)
        entries = client.call("records.export", workspace=ids[0])["entries"]
        half = client.call("records.import", workspace=ids[1], version=1, entries=entries[: len(entries) // 2])
    daemon.kill()
    with home.start().client() as client:
        rest = client.call("records.import", workspace=ids[1], version=1, entries=entries)
        assert 0 < half["revisions"] < 20
        assert 0 < rest["revisions"] < 20
        found = client.call("history", workspace=ids[1], limit=200)["revisions"]
        assert [one["path"] for one in found if one["command"] != "import"] == [f".memories/{n}.md" for n in reversed(range(20))]
        assert all(one["is_kept"] for one in found)
        assert client.call("records.import", workspace=ids[1], version=1, entries=entries)["revisions"] == 0


REVISION = {
    "entry": "revision",
    "at": 1.0,
    "client": "",
    "command": "edit",
    "named": "a.md",
    "path": "a.md",
    "new_digest": DIGEST,
}


@pytest.mark.parametrize(
    ("entry", "refusal"),
    [
        (REVISION | {"path": "../a.md"}, PathRefused),
        (REVISION | {"old_path": "/etc/passwd"}, PathRefused),
        (REVISION | {"old_path": "a.md"}, BadRequest),
        (REVISION | {"new_digest": None}, BadRequest),
        (REVISION | {"new_digest": "x"}, BadRequest),
        (REVISION | {"new_digest": DIGEST + "\n"}, BadRequest),
        (REVISION | {"at": 1e300}, BadRequest),
        (REVISION | {"unknown": 1}, BadRequest),
        ({"entry": "tip", "path": ".git/config", "digest": DIGEST}, PathRefused),
        ({"entry": "move", "at": 1.0, "old_path": "a.md", "new_path": "../b.md", "digest": DIGEST}, PathRefused),
        ({"entry": "text", "digest": DIGEST, "size": 1}, BadRequest),
        ({"entry": "text", "digest": DIGEST, "size": 1, "text": "a", "data": "YQ=="}, BadRequest),
        ({"entry": "secret"}, BadRequest),
    ],
)
def test_what_no_records_could_hold_is_refused(importing: Place, entry: dict[str, Any], refusal: type[Exception]) -> None:
    with pytest.raises(refusal):
        take_in(importing, [REVISION, entry])
    assert tell(importing) == []


def test_an_export_of_a_newer_program_is_refused_in_words(importing: Place) -> None:
    with pytest.raises(BadRequest, match="newer than this program's") as caught:
        take_in(importing, [], version=2)
    assert "newer memsyncd" in caught.value.hint


def test_the_records_of_a_newer_program_are_refused_in_words_and_left_alone(place: Place, home: Home) -> None:
    client, root = place.client, place.root
    client.call("memory", workspace=place.id, command="create", path="/memories/a.md", file_text="a\n")
    records = home.folder / "state" / "memsyncd" / place.id / "records.db"
    client.call("workspace.remove", workspace=place.id)
    # Closed by its last user, a database has no log any more.
    place.wait(lambda: not records.with_name("records.db-wal").exists(), "the records are still open")
    with sqlite3.connect(records) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    client.call("workspace.add", path=str(root))
    assert place.find("keepsake", wait="disk")
    info = place.status()
    assert info["state"] == "degraded"
    told = place.run(sys.executable, "-m", "memsyncd", "status", "-w", place.id)
    for text in (" ".join(info["reasons"]), " ".join(told.split())):
        assert "records.db has version 99, newer than this program's" in text
        assert "run the newer memsyncd that made it" in text
    for method, asked in (
        ("memory", {"command": "create", "path": "/memories/b.md", "file_text": "b\n"}),
        ("history", {}),
        ("records.export", {}),
        ("records.import", {"version": 1, "entries": []}),
    ):
        with pytest.raises(StoreFailed, match=r"records\.db cannot be opened"):
            client.call(method, workspace=place.id, **asked)
    with sqlite3.connect(f"file:{records}?mode=ro", uri=True) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (99,)
        assert connection.execute("SELECT count(*) FROM revisions").fetchone() == (1,)
    connection.close()
    assert not list(records.parent.glob("records.db.damaged-*"))
