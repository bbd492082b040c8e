from __future__ import annotations

from typing import Any

import pytest

from memsyncd.config import ChunkingConfig, Config
from memsyncd.core.markdown.parse import parse_note
from memsyncd.core.paths import NotePath
from memsyncd.engine.additions import make_addition_decision
from memsyncd.errors import BadRequest, Conflict, NoteNotFound, PathRefused, TooLarge
from memsyncd.operations.fields import AddedSection
from memsyncd.operations.notes.declare import NewSection
from memsyncd.operations.notes.run import validate_notes, validate_section

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
    section = next(section for section in note.sections if section.anchor == added.anchor)
    assert (section.span.start, section.span.end) == (added.start_line, added.end_line)
    assert section.heading[-1] == "Which database"
    assert (section.meta.kind, section.meta.tags, section.meta.importance) == (
        "decision",
        ("db",),
        0.9,
    )
    assert bench.ask(
        "SELECT path || '#' || slugs FROM sections JOIN files ON files.id = file"
        " WHERE sections.kind = 'decision'"
    ) == [(added.anchor,)]


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
    ("named", "refusal", "reason"),
    [
        ("../out.md", PathRefused, "`..`"),
        ("/etc/passwd", PathRefused, "absolute"),
        ("/memories/../out.md", PathRefused, "escape"),
        (".memories/.hidden.md", PathRefused, "hidden"),
        (".memories/notes.txt", BadRequest, "sections"),
        (".memories/state.json", BadRequest, "sections"),
        ("/memories", BadRequest, "folder"),
        ("MEMORY.md#head", BadRequest, "is a section"),
        ("/memories/redis.md#redis/pool", BadRequest, "is a section"),
    ],
)
def test_a_note_that_takes_no_section_is_refused(
    bench: Any, named: str, refusal: type[Exception], reason: str
) -> None:
    with pytest.raises(refusal, match=reason):
        add(bench, item("one", note=named))
    assert bench.files() == {}


def test_a_note_whose_name_contains_the_mark_of_a_section_takes_additions(bench: Any) -> None:
    bench.write(".memories/a.md#b.md", "# B\n")
    bench.open()
    (added,) = add(bench, item("one", note="a.md#b.md"))
    assert added.path == ".memories/a.md#b.md"


def test_many_additions_are_one_change_set_in_the_given_order(bench: Any) -> None:
    added = add(bench, item("a", kind="error"), item("b", kind="decision"), item("c", kind="error"))
    assert [section.path for section in added] == [
        ".memories/errors.md",
        ".memories/decisions.md",
        ".memories/errors.md",
    ]
    assert added[0].end_line < added[2].start_line
    assert {revision.change_set for revision in bench.past()} == {1}
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


def test_an_addition_longer_than_configured_is_refused_and_other_faults_are_named_too(
    bench: Any,
) -> None:
    with pytest.raises(BadRequest) as refused:
        add(bench, item("x" * 10_001, kind="no kind", wu_id="WU-1", keywords=["k"] * 21))
    assert [fault["field"] for fault in refused.value.data["faults"]] == [
        "content", "kind", "keywords",
    ]  # fmt: skip
    assert bench.files() == {}


def test_a_task_may_be_named_as_other_programs_do(bench: Any) -> None:
    (added,) = add(bench, item("done", wu_id="WU-1", lifecycle="wu"))
    assert b"lifecycle: task, task: WU-1" in bench.files()[added.path]
    with pytest.raises(BadRequest, match="wu_id"):
        add(bench, item("done", wu_id="WU-1", task="WU-2"))


# --- validation ---------------------------------------------------------------------------------


def test_a_section_is_checked_without_being_written() -> None:
    section = {
        "content": "fine", "importance": "much", "kind": "a b", "colour": "red", "tags": ["a", 1],
    }  # fmt: skip
    checked = validate_section(section, Config())
    assert not checked.is_valid
    assert sorted(fault.field for fault in checked.faults) == [
        "colour", "importance", "kind", "tags",
    ]  # fmt: skip
    assert validate_section({"content": "fine", "wu_id": "WU-1"}, Config()).is_valid
    assert [fault.field for fault in validate_section({}, Config()).faults] == ["content"]


def test_existing_notes_are_checked(bench: Any) -> None:
    bench.write(".memories/good.md", "# Good\n<!-- memory: {kind: note, topic: x} -->\n\ntext\n")
    keywords = ", ".join(f"k{number}" for number in range(21))
    bad = f"---\npriority: P7\nkind: rumour\n---\n# Bad\n<!-- memory: {{keywords: [{keywords}]}} -->\nx\n"
    bench.fill({".memories/bad.md": bad})
    checked = validate_notes(bench.workspace, bench.config, None)
    assert {(fault.path, fault.line, fault.field) for fault in checked.faults} == {
        (".memories/bad.md", 1, "kind"), (".memories/bad.md", 2, ""),
        (".memories/bad.md", 5, "kind"), (".memories/bad.md", 5, "keywords"),
    }  # fmt: skip
    assert checked.checked == 3
    assert validate_notes(bench.workspace, bench.config, ".memories/good.md").is_valid


def test_a_place_without_notes_does_not_pass_a_check(bench: Any) -> None:
    bench.fill({".memories/good.md": "# Good\n\ntext\n"})
    for path in (".memories/goood.md", "docs/*.md"):
        with pytest.raises(NoteNotFound, match="no note is indexed at"):
            validate_notes(bench.workspace, bench.config, path)
