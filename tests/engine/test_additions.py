from __future__ import annotations

from typing import Any

import pytest

from memsyncd.config import ChunkingConfig
from memsyncd.core.markdown.parse import parse_note
from memsyncd.core.notepath import NotePath
from memsyncd.engine.memory_tool import make_addition_decision
from memsyncd.errors import BadRequest, Conflict, PathRefused, TooLarge
from memsyncd.protocol.memory import AddedSection, NewSection

AT = "2026-03-01T12:00:00Z"


def add(bench: Any, *items: NewSection) -> list[AddedSection]:
    decide = make_addition_decision(
        bench.workspace, bench.config, items, command="note.add", client="test", at=AT
    )
    return bench.edit(decide).answer  # type: ignore[no-any-return]


def item(content: str, note: str | None = None, **message: Any) -> NewSection:
    return NewSection(content=content, note=note, **message)


def test_an_addition_becomes_a_section_of_the_note_of_its_kind(bench: Any) -> None:
    (added,) = add(
        bench,
        item(
            "SQLite it is.", kind="decision", summary="Which database", tags=["db"], importance=0.9
        ),
    )
    assert added.path == ".memories/decisions.md"
    note = parse_note(NotePath(added.path), bench.files()[added.path], ChunkingConfig())
    section = next(one for one in note.sections if one.anchor == added.anchor)
    assert (section.span.start, section.span.end) == (added.start_line, added.end_line)
    assert section.heading[-1] == "Which database"
    assert (section.meta.kind, section.meta.tags, section.meta.importance) == (
        "decision",
        ("db",),
        0.9,
    )
    assert bench.ask("SELECT anchor FROM sections WHERE kind = 'decision'") == [(added.anchor,)]


def test_existing_text_is_not_rewritten(bench: Any) -> None:
    bench.write(".memories/decisions.md", b"# Mine\r\n\r\n*  my way of writing \r\n")
    add(bench, item("one", kind="decision"))
    assert bench.files()[".memories/decisions.md"].startswith(
        b"# Mine\r\n\r\n*  my way of writing \r\n\r\n## "
    )


@pytest.mark.parametrize(
    ("named", "path"),
    [
        ("MEMORY.md", "MEMORY.md"),
        ("redis", ".memories/redis.md"),
        ("redis.md", ".memories/redis.md"),
        ("ops/redis.md", ".memories/ops/redis.md"),
        (".memories/redis.md", ".memories/redis.md"),
        ("/memories/redis.md", ".memories/redis.md"),
        ("/memories/MEMORY.md", "MEMORY.md"),
        ("docs/guide.md", "docs/guide.md"),
    ],
)
def test_a_note_can_be_named_in_many_ways(make_bench: Any, named: str, path: str) -> None:
    bench = make_bench(include=("docs/*.md",))
    bench.open()
    (added,) = add(bench, item("one", note=named))
    assert added.path == path
    assert list(bench.files()) == [path]


@pytest.mark.parametrize(
    ("named", "refusal"),
    [
        ("../out.md", PathRefused),
        ("/etc/passwd", PathRefused),
        ("/memories/../out.md", PathRefused),
        (".memories/.hidden.md", PathRefused),
        (".memories/notes.txt", BadRequest),
        (".memories/state.json", BadRequest),
        ("/memories", BadRequest),
    ],
)
def test_a_note_that_takes_no_section_is_refused(
    bench: Any, named: str, refusal: type[Exception]
) -> None:
    with pytest.raises(refusal):
        add(bench, item("one", note=named))
    assert bench.files() == {}


def test_many_additions_are_one_change_set_in_the_given_order(bench: Any) -> None:
    added = add(bench, item("a", kind="error"), item("b", kind="decision"), item("c", kind="error"))
    assert [one.path for one in added] == [
        ".memories/errors.md",
        ".memories/decisions.md",
        ".memories/errors.md",
    ]
    assert added[0].end_line < added[2].start_line
    assert {one.change_set for one in bench.past()} == {1}
    bench.undo(change_set=1)
    assert bench.files() == {}


def test_if_one_addition_cannot_be_written_none_is(bench: Any) -> None:
    limit = bench.workspace.scope.max_file_bytes
    for bad, refusal in (("x" * (limit + 1), TooLarge), (" ", BadRequest)):
        with pytest.raises((refusal, BadRequest)):
            add(bench, item("a", kind="error"), item(bad, kind="decision"))
        assert bench.files() == {}


def test_if_one_addition_fails_on_the_disk_none_stays(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from memsyncd.engine import edit as edit_module

    put = edit_module.put_text_file

    def fail_for_decisions(scope: Any, path: NotePath, data: bytes, **named: Any) -> Any:
        if path.text == ".memories/decisions.md":
            raise Conflict("somebody else was there first")
        return put(scope, path, data, **named)

    monkeypatch.setattr(edit_module, "put_text_file", fail_for_decisions)
    with pytest.raises(Conflict):
        add(bench, item("a", kind="error"), item("b", kind="decision"))
    assert bench.files() == {}
    assert bench.past() == []
