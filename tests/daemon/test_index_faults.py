"""Files of memsyncd are deleted, replaced or damaged: it repairs them, reports that, and answers as
well as possible.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import shutil
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from memsyncd.errors import MemsyncdError, StoreFailed
from tests.daemon.conftest import wait_until
from tests.daemon.workspace_files import WorkspaceFiles

if TYPE_CHECKING:
    from tests.daemon.conftest import Daemon, Home

N_MANY = 150


LOOKS = "[sync]\nreconcile_s = 0.3\n"


@pytest.fixture(scope="module")
def home(make_home: Callable[..., Home]) -> Home:
    return make_home(LOOKS)


@pytest.fixture
def own(make_home: Callable[..., Home]) -> Home:
    return make_home(LOOKS)


@pytest.fixture
def make_kept(home: Home, daemon: Daemon) -> Iterator[Callable[[], WorkspaceFiles]]:
    made: list[WorkspaceFiles] = []

    def make() -> WorkspaceFiles:
        made.append(WorkspaceFiles(home, daemon))
        return made[-1]

    yield make
    for kept in made:
        kept.client.call("workspace.remove", workspace=kept.id)
        kept.client.close()


@pytest.fixture
def kept(make_kept: Callable[[], WorkspaceFiles]) -> WorkspaceFiles:
    return make_kept()


def delete(index: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        Path(f"{index}{suffix}").unlink(missing_ok=True)


def delete_alone(index: Path) -> None:
    index.unlink()


def delete_wal(index: Path) -> None:
    Path(f"{index}-wal").unlink(missing_ok=True)


def delete_folder(index: Path) -> None:
    shutil.rmtree(index.parent)


def replace_by_an_empty_one(index: Path) -> None:
    fresh = index.with_name("other")
    fresh.touch()
    fresh.replace(index)


def replace_by_another_database(index: Path) -> None:
    fresh = index.with_name("other")
    with sqlite3.connect(fresh) as other:
        other.execute("CREATE TABLE t(x)")
    fresh.replace(index)


def replace_by_text(index: Path) -> None:
    fresh = index.with_name("other")
    fresh.write_text("this is no database\n" * 100)
    fresh.replace(index)


def replace_by_a_folder(index: Path) -> None:
    delete(index)
    index.mkdir()
    (index / "file").write_text("another program's\n")


def delete_shared(index: Path) -> None:
    Path(f"{index}-shm").unlink(missing_ok=True)


def truncate(index: Path) -> None:
    os.truncate(index, 5000)


def overwrite_middle(index: Path) -> None:
    write_into(index, 4096, os.urandom(index.stat().st_size - 4096))


def overwrite_head(index: Path) -> None:
    write_into(index, 0, b"\0" * 100)


def flip_here_and_there(index: Path) -> None:
    chance = random.Random(1)
    for _ in range(30):
        write_into(index, chance.randrange(4096, index.stat().st_size - 16), chance.randbytes(16))


def harm_words(index: Path) -> None:
    """As a person might with the sqlite3 shell: the tables are complete, but FTS5's shadow tables
    are not.
    """
    with contextlib.closing(sqlite3.connect(index, isolation_level=None)) as file:
        file.execute("UPDATE chunks_fts_data SET block = randomblob(length(block)) WHERE id > 10")
        file.execute("DELETE FROM chunks_exact_idx")
        file.execute("PRAGMA wal_checkpoint(PASSIVE)")


def write_into(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as stream:
        stream.seek(offset)
        stream.write(data)


AWAY = [
    delete,
    delete_alone,
    delete_wal,
    delete_shared,
    delete_folder,
    replace_by_an_empty_one,
    replace_by_another_database,
    replace_by_text,
    replace_by_a_folder,
]
DAMAGE = [truncate, overwrite_middle, overwrite_head, flip_here_and_there, harm_words]
# A clean stop deletes these files itself.
ONLY_WHILE_OPEN = [delete_wal, delete_shared]


def test_an_index_that_is_removed_while_it_is_open_is_rebuilt(
    make_kept: Callable[[], WorkspaceFiles],
) -> None:
    harmed = {tamper: make_kept() for tamper in AWAY}
    for tamper, kept in harmed.items():
        tamper(kept.index)
    for tamper, kept in harmed.items():
        kept.wait_rebuilt(tamper.__name__)
        kept.wait_healed()
        assert "index_corrupt" in kept.log()


def test_a_removed_index_is_noticed_by_a_request_before_the_next_reconcile(
    own: Home,
) -> None:
    own.config.write_text("[sync]\nreconcile_s = 600\n")
    kept = WorkspaceFiles(own, own.start())
    ways = {"status": {}, "search": {"query": "larch"}}
    for tamper, ask in itertools.product((delete, delete_folder, replace_by_an_empty_one), ways):
        kept.settle()
        n_rebuilt = kept.log().count("index_rebuilt")
        tamper(kept.index)
        with contextlib.suppress(StoreFailed):
            kept.client.call(ask, **ways[ask])
        wait_until(
            lambda n=n_rebuilt: kept.log().count("index_rebuilt") > n,
            f"it was not rebuilt: {tamper.__name__}, {ask}",
        )
        kept.wait_healed()
    kept.client.close()


def test_an_index_truncated_while_it_is_open_is_rebuilt_without_any_query(
    kept: WorkspaceFiles,
) -> None:
    generation = kept.settle()
    n_rebuilt = kept.log().count("index_rebuilt")
    truncate(kept.index)
    kept.wait(lambda: kept.log().count("index_rebuilt") > n_rebuilt, "it was not rebuilt")
    kept.wait_healed()
    assert kept.status()["generation"] > generation


def test_damage_that_recurs_within_ten_minutes_is_reported_and_rebuilt_on_request(
    kept: WorkspaceFiles,
) -> None:
    def count_rebuilt() -> int:
        return kept.log().count("index_rebuilt")

    def is_said() -> bool:
        return "again within ten minutes" in " ".join(kept.status()["reasons"])

    # At the end of a scan a truncated file counts as replaced, and is rebuilt every time.
    for _ in range(8):
        kept.settle()
        n_rebuilt = count_rebuilt()
        truncate(kept.index)
        kept.wait(
            lambda n=n_rebuilt: count_rebuilt() > n or is_said(), "it was neither rebuilt nor said"
        )
        if is_said():
            break
    assert is_said()
    n_rebuilt = count_rebuilt()
    for _ in range(10):
        # Scans of the folder continue, and whether they find the damage or not, it remains.
        with contextlib.suppress(MemsyncdError):
            kept.find("larch")
        assert kept.status()["state"] != "ready"
        time.sleep(0.1)
    assert count_rebuilt() == n_rebuilt
    kept.client.call("sync", rebuild=True, workspace=kept.id)
    kept.wait_healed()


# --- between two starts ---


@pytest.fixture(scope="module")
def second_life(make_home: Callable[..., Home]) -> Iterator[dict[str, WorkspaceFiles]]:
    """Workspaces of a daemon that was stopped and started again, by what was done to each of them
    in between.
    """
    home = make_home(LOOKS)
    harms = {
        tamper.__name__: tamper for tamper in (*AWAY, *DAMAGE) if tamper not in ONLY_WHILE_OPEN
    }
    first = home.start()
    all_kept = {
        name: WorkspaceFiles(home, first)
        for name in (*harms, "other", "as other", "no root", "no root, no index")
    }
    (all_kept["other"].root / ".memories" / "other.md").write_text("hazel\n")
    assert all_kept["other"].find("hazel", wait="disk")
    assert first.stop() == 0
    for name, tamper in harms.items():
        tamper(all_kept[name].index)
    shutil.copyfile(all_kept["other"].index, all_kept["as other"].index)
    for name in ("no root", "no root, no index"):
        all_kept[name].root.rename(all_kept[name].root.parent / "aside")
    shutil.rmtree(all_kept["no root, no index"].index.parent)
    second = home.start()
    for kept in all_kept.values():
        kept.client.close()
        kept.client = second.client()
    yield all_kept
    for kept in all_kept.values():
        kept.client.close()
    assert second.stop() == 0, home.read_log()


@pytest.mark.parametrize(
    "tamper",
    [tamper for tamper in (*AWAY, *DAMAGE) if tamper not in ONLY_WHILE_OPEN],
    ids=lambda tamper: tamper.__name__,
)
def test_an_index_damaged_between_two_starts_is_rebuilt(
    second_life: dict[str, WorkspaceFiles], tamper: Callable[[Path], None]
) -> None:
    second_life[tamper.__name__].wait_healed()


def test_damage_that_no_question_meets_after_a_kill_is_found_in_idle_time_and_repaired(
    own: Home,
) -> None:
    files = WorkspaceFiles(own, own.start())
    files.settle()
    files.daemon.kill()
    with contextlib.closing(sqlite3.connect(files.index)) as file, file:
        file.execute("UPDATE chunks_fts_data SET block = randomblob(length(block)) WHERE id > 10")
    files.client.close()
    files.daemon = own.start()
    files.client = files.daemon.client()
    files.wait(lambda: "index.db is damaged" in files.log(), "nobody noticed")
    files.wait_healed()
    files.client.close()
    assert files.daemon.stop() == 0, own.read_log()


def test_an_index_of_another_workspace_is_not_used(
    second_life: dict[str, WorkspaceFiles],
) -> None:
    kept, other = second_life["as other"], second_life["other"]
    kept.wait_healed()
    assert not kept.find("hazel")
    n_rebuilt = kept.log().count("index_rebuilt")
    shutil.copyfile(other.index, kept.index.with_name("copy"))
    delete_wal(kept.index)
    kept.index.with_name("copy").replace(kept.index)
    kept.wait(lambda: kept.log().count("index_rebuilt") > n_rebuilt, "it was not rebuilt")
    kept.wait_healed()
    assert not kept.find("hazel")


def test_a_root_missing_at_the_start_answers_from_its_index_and_is_watched_for(
    second_life: dict[str, WorkspaceFiles],
) -> None:
    kept = second_life["no root"]
    kept.wait(lambda: kept.status()["state"] == "missing", "nobody noticed")
    assert len(kept.find("larch")) == kept.n_notes
    aside = kept.root.parent / "aside"
    (aside / ".memories" / "0.md").write_text("larch hazel\n")
    aside.rename(kept.root)
    kept.wait(lambda: kept.find("hazel") == {".memories/0.md"}, "it was not taken up")
    kept.wait_healed()


def test_a_missing_root_without_index_is_reported_and_causes_no_busy_loop(
    second_life: dict[str, WorkspaceFiles],
) -> None:
    kept = second_life["no root, no index"]
    kept.wait(lambda: kept.status()["state"] == "missing", "nobody noticed")
    assert "missing" in kept.client.call("search", query="larch", workspace=kept.id)["why_empty"]
    n_lines = kept.log().count("\n")
    time.sleep(1.5)
    assert kept.log().count("\n") < n_lines + 3
    (kept.root.parent / "aside").rename(kept.root)
    kept.wait_healed()


# --- by what memsyncd does itself ---


def test_searches_work_during_a_rebuild_for_another_chunking_and_across_a_restart(
    own: Home,
) -> None:
    kept = WorkspaceFiles(own, own.start())
    for number in range(kept.n_notes, N_MANY):
        text = "\n\n".join(
            f"## Part {part}\n\nlarch words of part {part}\n\n{'more ' * 30}" for part in range(12)
        )
        (kept.root / ".memories" / f"{number}.md").write_text(text)
    kept.n_notes = N_MANY
    kept.client.call("sync")
    n_chunks = kept.status()["chunks"]

    def count_answers(n_rebuilt: int) -> int:
        n_answers = 0
        while kept.log().count("index_rebuilt") < n_rebuilt:
            assert kept.find("number5") == {".memories/5.md"}
            assert "larch" in kept.client.call("get", path=".memories/5.md")["text"]
            n_answers += 1
        return n_answers

    own.config.write_text(f"{LOOKS}[chunking]\nmax_tokens = 20\noverlap = 5\n")
    kept.daemon.process.send_signal(signal.SIGHUP)
    assert count_answers(1) > 1
    kept.wait_healed()
    assert kept.status()["chunks"] > n_chunks
    kept.restart(between=lambda: own.config.write_text(LOOKS))
    count_answers(2)
    kept.wait_healed()
    assert kept.status()["chunks"] <= n_chunks
    kept.client.close()


def test_a_requested_reindex_keeps_the_answers_and_the_records(kept: WorkspaceFiles) -> None:
    before = kept.records.read_bytes()
    generation = kept.status()["generation"]
    report = kept.client.call("sync", rebuild=True, workspace=kept.id)
    assert report["generation"] > generation
    assert len(kept.find("larch")) == kept.n_notes
    assert kept.records.read_bytes() == before


# --- the root ---


def test_a_deleted_root_keeps_its_index_and_is_indexed_again_when_recreated(
    kept: WorkspaceFiles,
) -> None:
    shutil.rmtree(kept.root)
    kept.wait(lambda: kept.status()["state"] == "missing", "nobody noticed")
    assert any("missing" in reason for reason in kept.status()["reasons"])
    assert any(
        "missing" in problem["problem"]
        for problem in kept.client.call("problems", workspace=kept.id)["problems"]
    )
    assert len(kept.find("larch")) == kept.n_notes
    assert len(kept.find("larch", wait="disk")) == kept.n_notes
    kept.client.call("sync", full=True, workspace=kept.id)
    assert kept.status()["files"] == kept.n_notes
    with pytest.raises(MemsyncdError, match="missing"):
        kept.client.call("sync", rebuild=True, workspace=kept.id)
    assert len(kept.find("larch")) == kept.n_notes
    (kept.root / ".memories").mkdir(parents=True)
    (kept.root / ".memories" / "new.md").write_text("hazel\n")
    kept.wait(lambda: kept.find("hazel") == {".memories/new.md"}, "it was not taken up")
    kept.wait(lambda: not kept.find("larch"), "what is gone stayed")
    kept.wait(lambda: kept.status()["state"] == "ready", "it is not ready")


def test_the_index_of_a_missing_root_is_rebuilt_when_the_root_returns(kept: WorkspaceFiles) -> None:
    aside = kept.root.parent / "aside"
    kept.root.rename(aside)
    kept.wait(lambda: kept.status()["state"] == "missing", "nobody noticed")
    delete(kept.index)
    time.sleep(1)
    assert len(kept.find("larch")) == kept.n_notes, (
        "the open index answers though its file was deleted"
    )
    aside.rename(kept.root)
    kept.wait_healed()
