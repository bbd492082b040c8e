"""`similar` against the real daemon: a text that nearly exists is found, other texts are not."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from memsyncd.client.memory import Memsyncd
from memsyncd.errors import BadRequest, NoteNotFound

if TYPE_CHECKING:
    from tests.daemon.conftest import Place

pytestmark = pytest.mark.shared_daemon

POOL = "Redis gives up after 30 s, so the connection pool must not wait longer than that."


def test_what_nearly_exists_is_found_before_it_is_written_again(place: Place) -> None:
    with Memsyncd(str(place.root), env=place.home.env) as memory:
        first = memory.add(POOL, summary="Redis timeouts", kind="error")
        memory.add("Postgres was chosen for its row locks.", summary="Database", kind="decision")
        again = "Redis gives up after 30 s; the connection pool must not wait longer."
        (found,) = memory.similar(again)
        assert found["anchor"] == first["anchor"]
        assert found["kind"] == "error"
        assert found["similarity"] > 0.6
        assert memory.similar("The harvest of apples begins in September.") == []
        assert memory.similar("?!") == []
        second = memory.add(again, summary="Timeouts of Redis", kind="error")
        (other,) = memory.similar(anchor=first["anchor"])
        assert other["anchor"] == second["anchor"]
        assert memory.similar(anchor=first["anchor"], min_similarity=0.99) == []
        with pytest.raises(BadRequest, match="name one of anchor, text and topic"):
            memory.similar()
        with pytest.raises(NoteNotFound):
            memory.similar(anchor=".memories/errors.md#absent")
        # The relations of a memory are no part of what it says.
        related = [f"informs={first['anchor']}"]
        zig = memory.add("Zig has comptime.", kind="decision", relations=related)
        for relations in ([], related):
            copy = memory.add("Zig has comptime.", on_similar="report", relations=relations)
            assert (copy["action"], copy["anchor"]) == ("reported", zig["anchor"])
        plain = memory.add("Go has goroutines.", kind="decision")
        copy = memory.add("Go has goroutines.", on_similar="report", relations=related)
        assert (copy["action"], copy["anchor"]) == ("reported", plain["anchor"])


def test_the_command_names_each_similar_section(place: Place) -> None:
    (place.root / ".memories").mkdir(exist_ok=True)
    (place.root / ".memories" / "errors.md").write_text(f"# Errors\n\n## Redis\n\n{POOL}\n")

    def run(*words: str, given: str = "") -> subprocess.CompletedProcess[str]:
        return place.home.run(*words, cwd=place.root, text=given)

    assert run("sync").returncode == 0
    done = run("similar", "--text", POOL)
    assert done.stdout.endswith(".memories/errors.md:3-5  Errors › Redis\n"), done.stderr
    assert run("similar", "--stdin", given=POOL).stdout == done.stdout
    alone = run("similar", ".memories/errors.md#errors/redis")
    assert (alone.returncode, alone.stdout) == (1, "")
    assert "-k 5" in alone.stderr
    assert run("similar").returncode == 2
    assert run("similar", ".memories/absent.md").returncode == 4
    (place.root / ".memories" / "cache.md").write_text(f"# Cache\n\n## Pool\n\n{POOL}\n")
    assert run("sync").returncode == 0
    # Of a whole note each section is compared, so that a long note has similar sections, too.
    (place.root / ".memories" / "errors.md").write_text(
        "# Errors\n\n"
        + "".join(f"## Error {n}\n\nAn orchard of {n} trees grows.\n\n" for n in range(30))
        + f"## Redis\n\n{POOL}\n"
    )
    assert run("sync").returncode == 0
    for name in (".memories/errors.md", "Errors"):
        of_note = run("similar", name)
        assert of_note.stdout.endswith("  .memories/cache.md:3-5  Cache › Pool\n"), of_note.stderr
    topics = run("similar", "--topic", "errors", "-k", "3")
    assert topics.stdout.splitlines()[0].endswith("  Cache  2 sections  .memories/cache.md")
    with Memsyncd(str(place.root), env=place.home.env) as memory:
        [topic] = memory.similar_topics("errors", nearest=1)
        assert (topic["topic"], topic["path"]) == ("Cache", ".memories/cache.md")
