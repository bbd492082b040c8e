from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from memsyncd.engine import transfer
from memsyncd.engine.policies import HistoryPolicy
from memsyncd.engine.transfer import Page, export_page, take_page
from memsyncd.errors import BadRequest, NotFresh, StoreFailed
from memsyncd.store.entries import Entry
from tests.engine.conftest import take


def export(bench: Any, after: str | None = None) -> Page:
    return take(export_page(bench.workspace, bench.policy, bench.clock, after=after))  # type: ignore[no-any-return]


def take_in(bench: Any, entries: list[Entry]) -> Any:
    return take(take_page(bench.workspace, bench.policy, bench.clock, entries=entries, client="test")).answer


@pytest.fixture
def old(make_bench: Callable[..., Any]) -> Any:
    """A workspace with some history."""
    bench = make_bench("old")
    bench.open()
    bench.memory("create", "/memories/a.md", file_text="one\n")
    bench.memory("str_replace", "/memories/a.md", old_str="one", new_str="two")
    bench.memory("rename", old_path="/memories/a.md", new_path="/memories/b.md")
    return bench


@pytest.mark.parametrize("page_bytes", [1, 400, 1 << 20])
def test_pages_together_are_all_there_is(old: Any, bench: Any, monkeypatch: pytest.MonkeyPatch, page_bytes: int) -> None:
    whole = export(old)
    assert whole.after is None
    monkeypatch.setattr(transfer, "PAGE_BYTES", page_bytes)
    entries, after, n_pages = [], None, 0
    while n_pages == 0 or after is not None:
        page = export(old, after)
        entries, after, n_pages = entries + page.entries, page.after, n_pages + 1
        take_in(bench, page.entries)
    assert entries == whole.entries
    assert (n_pages == 1) == (page_bytes == 1 << 20)
    assert [(one.path, one.old_path) for one in bench.past(".memories/b.md")[-3:]] == [
        (".memories/b.md", ".memories/a.md"),
        (".memories/a.md", None),
        (".memories/a.md", None),
    ]


@pytest.mark.parametrize(
    "after", ["", "revisions", "revisions/x/1", "revisions/0/x", "moves/0/", "other/0/1", "revisions/0/" + "9" * 30]
)
def test_a_place_at_which_no_page_ends_is_refused(old: Any, after: str) -> None:
    with pytest.raises(BadRequest, match="no page ended there"):
        export(old, after)


def test_a_place_behind_everything_is_the_end(old: Any) -> None:
    assert export(old, "moves/0/999") == Page(entries=[], after=None, n_damaged=0)


def test_imported_revisions_are_undone_as_any(old: Any, bench: Any) -> None:
    bench.write(".memories/b.md", "two\n")
    bench.sync()
    assert take_in(bench, export(old).entries).n_revisions == 3
    edit = bench.past(".memories/b.md")[1].revision
    bench.undo(".memories/b.md")
    assert bench.files() == {".memories/a.md": b"two\n"}
    bench.undo(revision=edit)
    assert bench.files() == {".memories/a.md": b"one\n"}


def test_what_a_note_said_elsewhere_is_brought_back_by_undoing_the_import(bench: Any, make_bench: Callable[..., Any]) -> None:
    elsewhere = make_bench("elsewhere")
    for one, text in ((elsewhere, "there\n"), (bench, "here\n")):
        one.write("MEMORY.md", text)
        one.open()
        one.sync()
        one.see()
    take_in(bench, export(elsewhere).entries)
    assert bench.files()["MEMORY.md"] == b"here\n"
    [imported] = bench.past("MEMORY.md")
    assert (imported.command, imported.client) == ("import", "test")
    bench.undo("MEMORY.md")
    assert bench.files()["MEMORY.md"] == b"there\n"


def test_a_workspace_that_was_never_looked_at_is_looked_at_first(old: Any, make_bench: Callable[..., Any]) -> None:
    bench = make_bench("unseen")
    bench.write(".memories/b.md", "two\n")
    assert take_in(bench, export(old).entries).n_revisions == 3
    assert bench.workspace.records.history.is_complete
    assert [one.command for one in bench.past()] == ["rename", "str_replace", "create"]


def test_a_workspace_whose_folder_is_missing_takes_nothing(old: Any, make_bench: Callable[..., Any]) -> None:
    bench = make_bench("gone")
    shutil.rmtree(bench.root)
    with pytest.raises(NotFresh, match="missing"):
        take_in(bench, export(old).entries)
    assert not bench.workspace.records.history.is_complete


def test_without_history_nothing_is_taken_but_what_there_is_can_be_had(old: Any) -> None:
    entries = export(old).entries
    old.policy = replace(old.policy, history=HistoryPolicy(is_enabled=False))
    assert export(old).entries == entries
    with pytest.raises(BadRequest, match="no history is kept"):
        take_in(old, entries)


def test_records_that_cannot_be_opened_are_not_exported_as_if_empty(make_bench: Callable[..., Any]) -> None:
    bench = make_bench()
    bench.workspace.records_path.parent.parent.mkdir(parents=True, exist_ok=True)
    bench.workspace.records_path.parent.write_text("a file where the folder should be")
    with pytest.raises(StoreFailed):
        export(bench)
