"""Memories of other systems are imported in one change set, exported, and imported again."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from memsyncd.client.memory import Memsyncd
from memsyncd.errors import AlreadyExists, BadRequest

pytestmark = pytest.mark.shared_daemon

if TYPE_CHECKING:
    from tests.daemon.conftest import Place

NODES: list[dict[str, Any]] = [
    {
        "id": "mem-abc1",
        "type": "discovery",
        "lifecycle": "wu",
        "content": "The adapter hides a second socket.\n\nSee [[mem-def2]].",
        "created_at": "2025-01-15T10:00:00Z",
        "wu_id": "WU-123",
        "session_id": "s-1",
        "tags": ["ports"],
        "metadata": {"priority": "P1", "milestone": "ports", "access": {"count": 3}},
    },
    {"id": "mem-def2", "type": "note", "lifecycle": "project", "content": "Ports have one owner."},
    {"from_id": "mem-abc1", "to_id": "mem-def2", "type": "discovered_from"},
    {"id": "mem-ghi3", "type": "note", "content": ""},
]
FOGSIFT = """
CREATE TABLE fragments(id TEXT PRIMARY KEY, content TEXT, topic TEXT, type TEXT, importance REAL,
  scope TEXT, ttl_tier TEXT, created_at TIMESTAMP, last_referenced TIMESTAMP,
  reference_count INTEGER, source JSON);
CREATE TABLE keywords(fragment_id TEXT, keyword TEXT);
CREATE TABLE links(id TEXT PRIMARY KEY, from_id TEXT, to_id TEXT, relation_type TEXT);
CREATE TABLE metadata(key TEXT PRIMARY KEY, value TEXT);
INSERT INTO fragments VALUES
  ('f1', 'Redis ran out of sockets.', 'redis', 'error', 0.9, 'permanent', 'hot',
   '2025-03-01 10:00:00', '2025-04-01 10:00:00', 4, '{"client": "acme"}'),
  ('f2', 'Limit the pool.', 'redis', 'solution_approach', 0.85, 'permanent', 'hot',
   '2025-03-02 10:00:00', NULL, 0, NULL);
INSERT INTO keywords VALUES ('f1', 'sockets');
INSERT INTO links VALUES ('l1', 'f1', 'f2', 'resolved_by');
INSERT INTO metadata VALUES ('version', '2');
"""
FLOWSTATE = """
CREATE TABLE memories(id TEXT, kind TEXT, content TEXT, summary TEXT, source TEXT, tags TEXT,
  run_id TEXT, created_at TEXT);
INSERT INTO memories VALUES ('abc', 'research', 'Streams keep their state in RocksDB.',
  'Kafka Streams', 'research/report.md', '["kafka", "streams"]', 'run-1', '2025-02-01T00:00:00Z');
"""
CLAUDE_MEM = """
CREATE TABLE observations(id INTEGER, memory_session_id TEXT, project TEXT, text TEXT, type TEXT,
  title TEXT, subtitle TEXT, facts TEXT, narrative TEXT, concepts TEXT, files_read TEXT,
  files_modified TEXT, prompt_number INTEGER, created_at TEXT, created_at_epoch INTEGER);
CREATE TABLE session_summaries(id INTEGER, memory_session_id TEXT, project TEXT, request TEXT,
  investigated TEXT, learned TEXT, completed TEXT, next_steps TEXT, notes TEXT, created_at TEXT);
CREATE TABLE user_prompts(id INTEGER, prompt_text TEXT);
INSERT INTO observations VALUES (7, 's-1', 'shop', NULL, 'decision', 'Keep Postgres', NULL, '[]',
  'Its row locks decided.', '["trade-off"]', '[]', '["db.py"]', 2, '2025-12-10T10:00:00Z', 0);
INSERT INTO session_summaries VALUES (1, 's-1', 'shop', 'Choose a database', NULL,
  'Row locks matter.', NULL, NULL, NULL, '2025-12-10T11:00:00Z');
INSERT INTO user_prompts VALUES (1, 'which database?');
"""


def write_database(path: Path, script: str) -> str:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)
    return str(path)


def write_lines(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return str(path)


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The memories of an export without their anchors and headings: a text without a heading gets
    one.
    """
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return sorted(
        ({**row, "anchor": "", "summary": ""} for row in rows), key=lambda row: str(row["content"])
    )


def list_fields(place: Place) -> dict[str, dict[str, Any]]:
    """The metadata of all sections below the titles, by anchor."""
    names = "kind tags importance priority lifecycle status task session source created".split()
    listing = place.client.call("list", workspace=place.id)
    return {
        section["anchor"]: {name: section.get(name) for name in names}
        for note in listing["notes"]
        for section in note["sections"]
        if section["level"] == 2
    }


def test_lumenflows_memories_are_imported_once_and_taken_back_whole(
    place: Place, tmp_path: Path
) -> None:
    file = write_lines(tmp_path / "memory.jsonl", NODES)
    with Memsyncd(place.root, env=place.env, client="mover") as memory:
        planned = memory.import_memories(file, format="lumenflow", apply=False)
        assert (planned["n_added"], planned["change_set"]) == (2, None)
        assert not (place.root / ".memories" / "discoveries.md").exists()
        done = memory.import_memories(file, format="lumenflow")
        assert [memory["anchor"] for memory in done["added"]] == [
            memory["anchor"] for memory in planned["added"]
        ]
        assert done["left_out"] == [{"place": "line 4", "reason": "has no text"}]
        assert (done["n_relations"], done["n_accesses"]) == (1, 1)
        first, second = (memory["anchor"] for memory in done["added"])
        section = memory.get(first)
        assert section is not None
        assert (section["task"], section["session"], section["priority"]) == ("WU-123", "s-1", "P1")
        assert (section["lifecycle"], section["tags"]) == ("task", ["ports"])
        assert section["created"] == "2025-01-15T10:00:00Z"
        assert [link["to"] for link in memory.links(first)["links"]] == [second, second]
        assert memory.search("adapter", meta="id=mem-abc1")[0]["anchor"] == first
        assert memory.access_stats(first)["counts"][0]["count"] >= 3
        named = memory.get("mem-abc1")
        assert named is not None
        assert named["anchor"] == first
        later = memory.add("Later than [[mem-abc1]].", relations=["informs=MEM-ABC1"])
        assert [link["to"] for link in memory.links(later["anchor"])["links"]] == [first, first]
        memory.undo(change_set=later["change_set"])
        again = memory.import_memories(file, format="lumenflow")
        assert (again["n_added"], again["n_unchanged"], again["change_set"]) == (0, 2, None)
        memory.undo(change_set=done["change_set"])
        assert memory.get(first) is None
        assert not (place.root / ".memories" / "discoveries.md").exists()


@pytest.mark.parametrize(
    ("name", "script", "words", "left_out"),
    [
        ("fogsift", FOGSIFT, "sockets", ["table metadata"]),
        ("flowstate", FLOWSTATE, "RocksDB", []),
        ("claude-mem", CLAUDE_MEM, "locks decided", ["table user_prompts"]),
    ],
)
def test_a_database_is_imported_exported_and_imported_again(
    place: Place, tmp_path: Path, name: Any, script: str, words: str, left_out: list[str]
) -> None:
    file = write_database(tmp_path / "memory.db", script)
    before = Path(file).read_bytes()
    with Memsyncd(place.root, env=place.env, client="mover") as memory:
        done = memory.import_memories(file, format=name)
        assert [item["place"] for item in done["left_out"]] == left_out
        assert memory.search(words)[0]["anchor"] == done["added"][0]["anchor"]
        exported = memory.export_memories(str(tmp_path / "out.jsonl"))
        assert exported["n_memories"] >= done["n_added"]
        with pytest.raises(AlreadyExists):
            memory.export_memories(str(tmp_path / "out.jsonl"))
        fields = list_fields(place)
        memory.undo(change_set=done["change_set"])
        assert not fields.keys() & list_fields(place).keys()
        back = memory.import_memories(str(tmp_path / "out.jsonl"))
        assert back["left_out"] == []
        assert list_fields(place) == fields
        table = str(tmp_path / "out.db")
        memory.export_memories(table, format="sqlite")
        memory.undo(change_set=back["change_set"])
    assert Path(file).read_bytes() == before
    with closing(sqlite3.connect(table)) as connection:
        hits = connection.execute(
            "SELECT summary, kind, created_at FROM memories_fts JOIN memories"
            " ON memories.rowid = memories_fts.rowid WHERE memories_fts MATCH ?"
            " ORDER BY rank LIMIT 10",
            (words,),
        ).fetchall()
        kinds = connection.execute("SELECT kind, COUNT(*) AS n FROM memories GROUP BY kind")
        assert sum(n for _, n in kinds) == exported["n_memories"]
    assert len(hits) == 1


def test_a_folder_of_basic_memory_is_copied_byte_by_byte(place: Place, tmp_path: Path) -> None:
    folder = tmp_path / "basic"
    (folder / "brewing").mkdir(parents=True)
    note = "---\ntitle: Coffee\npermalink: brewing/coffee\ntags: [coffee]\n---\n\n# Coffee\n\n"
    note += (
        "## Observations\n\n- [method] Pour slowly #brewing\n\n## Relations\n\n- needs [[Water]]\n"
    )
    (folder / "brewing" / "coffee.md").write_bytes(note.encode())
    (folder / "water.md").write_bytes(
        b"---\ntitle: Water\npermalink: water\n---\n\n# Water\n\nSoft.\n"
    )
    (folder / "plain.md").write_bytes(b"First line.\nSecond line.\n")
    (folder / "image.png").write_bytes(b"\x89PNG")
    with Memsyncd(place.root, env=place.env, client="mover") as memory:
        done = memory.import_memories(str(folder), format="basic-memory")
        copied = place.root / ".memories" / "brewing" / "coffee.md"
        assert copied.read_bytes() == note.encode()
        assert memory.search("pour slowly")[0]["path"] == ".memories/brewing/coffee.md"
        [link] = memory.links(".memories/brewing/coffee.md", relation="needs")["links"]
        assert link["to"] == ".memories/water.md"
        # Front matter is no text of a memory, and no line of a text is lost.
        memory.export_memories(str(tmp_path / "out.jsonl"))
        rows = read_rows(tmp_path / "out.jsonl")
        exported = {row["content"] for row in rows}
        assert {"Soft.", "- needs [[Water]]", "First line.\nSecond line."} <= exported
        assert not any("title:" in content for content in exported)
        (folder / "water.md").write_bytes(b"# Another water\n")
        again = memory.import_memories(str(folder), format="basic-memory")
        assert (again["n_unchanged"], [item["place"] for item in again["left_out"]]) == (
            2,
            ["water.md"],
        )
        memory.undo(change_set=done["change_set"])
        assert not copied.exists()
        # A memory without a time has none afterwards.
        memory.import_memories(str(tmp_path / "out.jsonl"))
        memory.export_memories(str(tmp_path / "again.jsonl"))
        assert read_rows(tmp_path / "again.jsonl") == rows


def test_a_file_that_is_not_what_it_should_be_is_refused_with_what_to_do(
    place: Place, tmp_path: Path
) -> None:
    (tmp_path / "bad.db").write_bytes(b"no database at all")
    write_database(tmp_path / "other.db", "CREATE TABLE plants(name)")
    (tmp_path / "latin.jsonl").write_bytes(b'{"content": "caf\xe9"}\n')
    with Memsyncd(place.root, env=place.env, client="mover") as memory:
        for file, name, problem in (
            ("bad.db", "fogsift", "cannot be read as a database"),
            ("other.db", "flowstate", "none of the tables memories"),
            ("gone.db", "claude-mem", "no file at"),
            ("latin.jsonl", "jsonl", "is not UTF-8"),
            ("gone.jsonl", "lumenflow", "cannot be read: no such file"),
            ("gone", "basic-memory", "no folder at"),
        ):
            with pytest.raises(BadRequest, match=problem) as refused:
                memory.import_memories(str(tmp_path / file), format=name)  # type: ignore[arg-type]
            assert refused.value.hint
        with pytest.raises(BadRequest, match="not absolute"):
            memory.import_memories("memory.jsonl")


def test_the_commands_say_what_was_done_and_what_was_left_out(place: Place, tmp_path: Path) -> None:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return place.home.run(*words, "-w", place.id, cwd=tmp_path)

    write_lines(tmp_path / "m.jsonl", NODES)
    planned = run("import", "--from", "lumenflow", "m.jsonl", "--dry-run")
    assert planned.returncode == 0
    assert "2 memories would be imported, 1 relation" in planned.stderr
    assert "left out: line 4: has no text" in planned.stderr
    done = run("import", "--from", "lumenflow", "m.jsonl")
    assert ".memories/discoveries.md  1 memory" in done.stdout
    change_set = done.stderr.partition("memsyncd undo ")[2].split()[0]
    exported = run("export", "--sqlite", "out.db")
    assert exported.returncode == 0
    assert "written to" in exported.stderr
    refused = run("export", "--sqlite", "--jsonl", "other")
    assert (refused.returncode, (tmp_path / "other").exists()) == (2, False)
    assert run("undo", change_set, "--yes").returncode == 0
