from __future__ import annotations

import math
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from memsyncd.errors import BadRequest, NoteNotFound, PathRefused
from memsyncd.operations.history.declare import DiffParams, HistoryParams, PurgeParams, SetAside
from memsyncd.operations.history.run import purge, read_compared
from memsyncd.operations.records.run import back_up_records
from memsyncd.operations.revisions import Target, parse_target
from memsyncd.operations.signals.declare import SignalSendParams
from memsyncd.operations.signals.run import send_signal
from tests.engine.conftest import Bench, take

NOTE = "# A\none\n\n# B\ntwo\n"


def test_targets_are_parsed_as_people_and_tools_write_them() -> None:
    for anchor, path, target in (
        (None, None, Target()),
        (None, "MEMORY.md", Target(path="MEMORY.md")),
        (None, ".memories/d/", Target(path=".memories/d")),
        (None, "/memories/a.md", Target(path=".memories/a.md")),
        (None, "/memories", Target(path=".memories")),
        ("MEMORY.md#a/b", None, Target(path="MEMORY.md", heading="a/b")),
        ("/memories/a.md#b", None, Target(path=".memories/a.md", heading="b")),
    ):
        assert parse_target(HistoryParams(anchor=anchor, path=path)) == target, anchor


@pytest.mark.parametrize(
    ("anchor", "path", "refusal"),
    [
        ("MEMORY.md", None, BadRequest),
        ("a.md#b", "a.md", BadRequest),
        (None, "../a.md", PathRefused),
        (None, "/etc", PathRefused),
    ],
)
def test_an_invalid_target_is_refused(
    anchor: str | None, path: str | None, refusal: type[Exception]
) -> None:
    with pytest.raises(refusal):
        parse_target(HistoryParams(anchor=anchor, path=path))


def change(bench: Any, path: str | None = None, anchor: str | None = None, **named: Any) -> Any:
    params = DiffParams(anchor=anchor, path=path, **named)
    return take(
        read_compared(bench.workspace, bench.config, bench.clock, parse_target(params), params)
    )[0][0]


def test_a_change_has_the_texts_before_and_after(bench: Any) -> None:
    bench.memory("create", "/memories/MEMORY.md", file_text=NOTE)
    bench.memory("str_replace", "/memories/MEMORY.md", old_str="one", new_str="1")
    bench.memory("str_replace", "/memories/MEMORY.md", old_str="two", new_str="2")
    assert (change(bench, "MEMORY.md").old, change(bench, "MEMORY.md").new) == (
        NOTE.replace("one", "1").encode(),
        NOTE.replace("one", "1").replace("two", "2").encode(),
    )
    assert (change(bench, anchor="MEMORY.md#a").old, change(bench, anchor="MEMORY.md#a").new) == (
        b"# A\none\n",
        b"# A\n1\n",
    )
    first = bench.past()[-1].revision
    assert change(bench, revision=first).old is None
    bench.write("MEMORY.md", "now\n")
    assert change(bench, revision=first, to_now=True).new == b"now\n"


def test_a_missing_revision_or_note_is_an_error(bench: Any) -> None:
    for named in ({"path": "MEMORY.md"}, {"revision": 5}, {"anchor": "MEMORY.md#a"}):
        with pytest.raises(NoteNotFound, match="there is no"):
            change(bench, **named)


def forget(
    bench: Any, path: str | None = None, revision: int | None = None, containing: str | None = None
) -> Any:
    params = PurgeParams(path=path, revision=revision, containing=containing)
    return take(purge(bench.workspace, bench.config, bench.clock, parse_target(params), params))


def test_a_purge_deletes_revisions_that_contain_a_text_and_no_others(bench: Any) -> None:
    bench.memory("create", "/memories/a.md", file_text="fine\n")
    bench.memory("str_replace", "/memories/a.md", old_str="fine", new_str="token-1234")
    bench.memory("str_replace", "/memories/a.md", old_str="token-1234", new_str="fine again")
    bench.memory("create", "/memories/b.md", file_text="b\n")
    done = forget(bench, containing="token-1234")
    assert (done.revisions, done.still_in) == (2, [])
    assert [revision.command for revision in bench.past()] == ["create", "create"]
    bench.undo(".memories/b.md")


def test_notes_that_still_contain_the_text_are_named(bench: Any) -> None:
    bench.memory("create", "/memories/a.md", file_text="token-1234\n")
    bench.fill({"MEMORY.md": "token-1234\n"})
    bench.see()
    done = forget(bench, containing="token-1234")
    assert (done.still_in, done.is_clean) == ([".memories/a.md", "MEMORY.md"], False)


def test_one_revision_or_a_whole_note_can_be_purged(bench: Any) -> None:
    for path in ("a", "b"):
        bench.memory("create", f"/memories/{path}.md", file_text="one\n")
        bench.memory("insert", f"/memories/{path}.md", insert_line=0, insert_text="two")
    assert forget(bench, revision=bench.past()[0].revision).revisions == 1
    assert forget(bench, path=".memories/a.md").revisions == 2
    assert [revision.path for revision in bench.past()] == [".memories/b.md"]


def test_other_texts_survive_a_purge_by_content(bench: Any) -> None:
    bench.memory("create", "/memories/a.md", file_text="fine\n")
    bench.memory("insert", "/memories/a.md", insert_line=1, insert_text="more")
    clean = bench.past()[0].new_digest
    bench.memory("insert", "/memories/a.md", insert_line=2, insert_text="token-1234")
    bench.memory("str_replace", "/memories/a.md", old_str="token-1234", new_str="x")
    forget(bench, containing="token-1234")
    assert bench.workspace.records.history.read_text(clean) == b"fine\nmore\n"
    assert [revision.is_kept for revision in bench.past()] == [True, True]


def test_damaged_records_that_were_set_aside_are_named(bench: Any) -> None:
    aside = bench.workspace.records_path.parent / "records.db.damaged-17"
    aside.write_bytes(b"token-1234")
    done = forget(bench, containing="token-1234")
    assert done.set_aside == [SetAside(path=str(aside), is_searched=False)]
    assert not done.is_clean


def set_aside_copy(bench: Any) -> Path:
    """Put the history, as it is now, beside records.db, as a restore does."""
    made = take(back_up_records(bench.workspace, bench.config, bench.clock))
    aside = bench.workspace.records_path.parent / "records.db.replaced-17"
    Path(made.path).rename(aside)
    return aside


@pytest.mark.parametrize(
    "chosen",
    [
        {"containing": "token-1234"},
        {"path": ".memories/a.md"},
        {"path": ".memories"},
        {},
    ],
    ids=str,
)
def test_a_purge_is_not_clean_while_a_file_that_was_set_aside_has_the_text(
    bench: Any, chosen: Any
) -> None:
    bench.memory("create", "/memories/a.md", file_text="token-1234\n")
    bench.memory("str_replace", "/memories/a.md", old_str="token-1234", new_str="x")
    aside = set_aside_copy(bench)
    done = forget(bench, **chosen)
    assert done.set_aside == [SetAside(path=str(aside), is_searched=True)]
    assert (done.is_clean, done.is_read) == (False, False)
    aside.unlink()
    done = forget(bench, **chosen)
    assert (done.is_clean, done.set_aside) == (True, [])


def test_one_purged_revision_is_searched_by_its_texts_in_files_that_were_set_aside(
    bench: Any,
) -> None:
    bench.memory("create", "/memories/a.md", file_text="token-1234\n")
    aside = set_aside_copy(bench)
    bench.memory("str_replace", "/memories/a.md", old_str="token-1234", new_str="x")
    bench.memory("str_replace", "/memories/a.md", old_str="x", new_str="y")
    newest, middle, _ = bench.past()
    assert forget(bench, revision=newest.revision).set_aside == []
    assert [aside.path for aside in forget(bench, revision=middle.revision).set_aside] == [
        str(aside)
    ]


def test_a_signal_with_the_text_is_found_in_a_file_that_was_set_aside(bench: Any) -> None:
    params = SignalSendParams(agents=["bob"], content="the key is token-1234")
    take(send_signal(bench.workspace, bench.config, bench.clock, params, sender="eve"))
    aside = set_aside_copy(bench)
    done = forget(bench, containing="token-1234")
    assert (done.signals, [aside.path for aside in done.set_aside]) == (1, [str(aside)])
    assert forget(bench, containing="another text").set_aside == []


def test_a_damaged_text_is_stored_again_from_the_note_that_still_contains_it(bench: Any) -> None:
    bench.memory("create", "/memories/MEMORY.md", file_text=NOTE * 20)
    bench.memory("insert", "/memories/MEMORY.md", insert_line=0, insert_text="two")
    records = bench.workspace.records
    records._writer.execute(
        "UPDATE blobs SET data = zeroblob(length(data)) WHERE digest IN (SELECT digest FROM heads)"
    )
    last = bench.past()[0].revision
    with pytest.raises(NoteNotFound):
        change(bench, revision=last)
    assert change(bench, revision=last).new == b"two\n" + (NOTE * 20).encode()
    assert records.history.damaged == frozenset()


def test_a_damaged_text_that_no_note_contains_stays_lost(bench: Any) -> None:
    bench.memory("create", "/memories/MEMORY.md", file_text=NOTE)
    bench.workspace.records._writer.execute("UPDATE blobs SET data = zeroblob(length(data))")
    bench.write("MEMORY.md", "something else\n")
    for _ in range(2):
        with pytest.raises(NoteNotFound):
            change(bench, revision=bench.past()[0].revision)
    assert bench.workspace.records._writer.execute("SELECT count(*) FROM blobs").get == 1


def test_revisions_are_listed_between_two_times(bench: Bench) -> None:
    """Revisions an hour apart: `since` and `until` choose the same as a comparison of times."""
    day_s = datetime(2026, 3, 9, 12).timestamp()  # noqa: DTZ001  people mean their own days
    bench.update()
    for number in range(60):
        at_s = day_s - number * 3600
        bench.clock = replace(bench.clock, wall_ns=lambda at_s=at_s: round(at_s * 1e9))
        bench.memory("create", f"/memories/n{number}.md", file_text=f"# N{number}\n")
    bench.clock = replace(bench.clock, wall_ns=lambda: round(day_s * 1e9))
    times = [revision.at for revision in bench.past()]
    midnight_s = datetime(2026, 3, 9).timestamp()  # noqa: DTZ001
    bounds = {
        "today": (midnight_s, midnight_s + 86_400),
        "2026-03-08": (midnight_s - 86_400, midnight_s),
        "5h": (day_s - 5 * 3600, day_s - 5 * 3600),
        "this year": (0.0, 2e12),
        "0001": (-math.inf, -6e10),
    }
    for since, (begin_s, _) in bounds.items():
        for until, (_, end_s) in bounds.items():
            expected = [at for at in times if begin_s <= at < end_s]
            found = bench.past(since=since, until=until)
            assert [revision.at for revision in found] == expected, (since, until)
    assert bench.past("/memories/n7.md", since="today") == bench.past("/memories/n7.md")
    assert bench.past("/memories/n7.md", since="6h") == []
    for field in ("since", "until"):
        with pytest.raises(BadRequest, match=f"{field}: 'soon' is no time"):
            bench.past(**{field: "soon"})
