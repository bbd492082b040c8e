"""`workspace.add` with a folder that has more notes than can be counted in time."""

from __future__ import annotations

from pathlib import Path

import pytest

from memsyncd.config import Config
from memsyncd.engine.workspace import Entry
from memsyncd.errors import BadRequest
from memsyncd.files.scan import NoteCount
from memsyncd.operations.capture.declare import CaptureParams
from memsyncd.operations.history.declare import UndoParams
from memsyncd.operations.notes.declare import NewSection, NoteAddManyParams
from memsyncd.operations.tasks.declare import SessionStartParams
from memsyncd.operations.workspaces import run as adding
from memsyncd.operations.workspaces.declare import AddParams
from memsyncd.server.places import PathLookup
from tests.server.test_handlers import HandlersBench, run


def make_vault(folder: Path) -> str:
    root = folder / "vault"
    (root / ".obsidian").mkdir(parents=True)
    for number in range(10):
        (root / f"{number}.md").write_text("larch\n")
    return str(root)


def test_a_vault_that_cannot_be_counted_in_time_is_refused_unless_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_vault(tmp_path)
    monkeypatch.setattr(adding, "COUNT_S", 0.0)

    async def refuse(bench: HandlersBench) -> None:
        with pytest.raises(BadRequest, match="more than could be counted"):
            await bench.ask("workspace.add", AddParams(path=root))
        assert not bench.workspaces.by_id

    async def accept(bench: HandlersBench) -> None:
        added = await bench.ask("workspace.add", AddParams(path=root, preset="vault"))
        assert not added.found.is_complete
        assert len(bench.workspaces.by_id) == 1

    run(tmp_path, refuse, accept)


def test_a_count_of_other_notes_that_is_not_over_in_time_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_vault(tmp_path)
    (tmp_path / "vault" / ".obsidian").rmdir()

    async def count(bench: HandlersBench) -> None:
        found = (await bench.ask("workspace.add", AddParams(path=root))).found
        assert (found.notes, found.others, found.is_complete) == (0, 10, True)
        monkeypatch.setattr(adding, "COUNT_S", 0.0)
        found = (await bench.ask("workspace.add", AddParams(path=root))).found
        assert (found.notes, found.is_complete) == (0, False)

    run(tmp_path, count)


def test_adding_a_known_folder_counts_its_notes_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, limits = make_vault(tmp_path), list[float]()
    count_notes = PathLookup.count_notes

    async def count(self: PathLookup, entry: Entry, config: Config, limit_s: float) -> NoteCount:
        limits.append(limit_s)
        return await count_notes(self, entry, config, limit_s)

    monkeypatch.setattr(PathLookup, "count_notes", count)

    async def add_twice(bench: HandlersBench) -> None:
        for options in ({}, {"preset": "vault"}):
            limits.clear()
            found = (await bench.ask("workspace.add", AddParams(path=root, **options))).found
            assert (found.notes, limits) == (10, [adding.COUNT_S])

    run(tmp_path, add_twice)


def test_each_answer_to_a_write_of_notes_names_the_change_set_that_undoes_it(
    tmp_path: Path,
) -> None:
    async def write(bench: HandlersBench) -> None:
        root = tmp_path / "project"
        root.mkdir()
        added = await bench.ask("workspace.add", AddParams(path=str(root)))
        workspace = added.workspaces[0].id
        items = [NewSection(content="Larch"), NewSection(content="Spruce")]
        for method, params in (
            ("note.add_many", NoteAddManyParams(items=items, workspace=workspace)),
            ("capture", CaptureParams(step="deploy", error="Fir", workspace=workspace)),
            ("session.start", SessionStartParams(session="pine", workspace=workspace)),
        ):
            written = await bench.ask(method, params)
            undo = UndoParams(change_set=written.change_set, workspace=workspace)
            assert (await bench.ask("undo", undo)).undone, method

    run(tmp_path, write)
