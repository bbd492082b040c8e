from __future__ import annotations

import gc
import itertools
import math
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest

from memsyncd.config import Config
from memsyncd.core.editing.kinds import DEFAULT_KINDS, OTHER_KINDS
from memsyncd.engine.browse import find_problems, name_from_root
from memsyncd.errors import BadRequest, Busy, NoteNotFound, TooLarge
from memsyncd.files.scope import Scope, parse_scope
from memsyncd.operations.links.declare import LinksParams
from memsyncd.operations.links.run import find_links
from memsyncd.operations.notes import read as notes_read
from memsyncd.operations.notes.declare import GetParams, Got, ListParams, NoteInfo, ValidateParams
from memsyncd.operations.notes.read import list_notes, read_place
from memsyncd.operations.sections import Filters
from memsyncd.operations.upkeep.declare import ArchiveParams


@pytest.fixture
def filled(bench: Any) -> Any:
    bench.write("MEMORY.md", "# Cache\nredis is hot\n\n# Disk\nthe disk is cold\n")
    bench.write(".memories/b.md", "plain")
    bench.write("README.md", "not memory")
    bench.sync()
    return bench


def read(bench: Any, **place: Any) -> Got:
    return read_place(bench.workspace, GetParams(**place), now_ns=1)[0]


def make_scope(memory_dir: str = ".memories") -> Scope:
    return parse_scope("/w", memory_dir=memory_dir, max_file_bytes=1 << 20)


def is_current(bench: Any, **place: Any) -> bool:
    return read_place(bench.workspace, GetParams(**place), now_ns=1)[1]


def test_lines_are_read_as_an_editor_counts_them_and_cut_at_the_end(filled: Any) -> None:
    for start, end, span, text in (
        (2, 2, (2, 2), "redis is hot"),
        (5, None, (5, 5), "the disk is cold"),
        (None, 1, (1, 1), "# Cache"),
        (4, 999, (4, 5), "# Disk\nthe disk is cold"),
    ):
        part = read(filled, path="./MEMORY.md", start_line=start, end_line=end)
        assert ((part.start_line, part.end_line), part.text) == (span, text)


def test_a_path_of_the_memory_tool_names_its_note() -> None:
    for memory_dir, place, named in (
        (".memories", {"path": "/memories/a.md"}, {"path": ".memories/a.md"}),
        (".memories", {"path": "/memories/MEMORY.md"}, {"path": "MEMORY.md"}),
        (".memories", {"anchor": "/memories/a.md#b/c"}, {"anchor": ".memories/a.md#b/c"}),
        ("inbox", {"path": "/memories/a.md"}, {"path": "inbox/a.md"}),
        (".", {"path": "/memories/a.md"}, {"path": "a.md"}),
        (".memories", {"path": ".memories/a.md"}, {"path": ".memories/a.md"}),
        (".memories", {"path": "/memoriesque/a.md"}, {"path": "/memoriesque/a.md"}),
    ):
        scope = make_scope(memory_dir)
        assert name_from_root(scope, GetParams(**place), may_be_folder=False) == GetParams(
            **named
        ), memory_dir


@pytest.mark.parametrize("path", ["/memories", "/memories/", "/memories/../a.md"])
def test_a_path_of_the_memory_tool_that_is_no_note_is_refused(path: str) -> None:
    with pytest.raises(BadRequest):
        name_from_root(make_scope(), GetParams(path=path), may_be_folder=False)


def test_the_folder_of_the_memory_tool_is_one_for_methods_that_take_folders() -> None:
    for memory_dir, path in ((".memories", ".memories"), ("inbox", "inbox"), (".", None)):
        named = name_from_root(
            make_scope(memory_dir), ValidateParams(path="/memories"), may_be_folder=True
        )
        assert named == ValidateParams(path=path), memory_dir


def test_each_anchor_of_the_memory_tool_names_its_section() -> None:
    params = ArchiveParams(anchors=["/memories/a.md#b", "MEMORY.md#c", "no anchor"])
    named = name_from_root(make_scope(), params, may_be_folder=True)
    assert named.anchors == [".memories/a.md#b", "MEMORY.md#c", "no anchor"]


@pytest.mark.parametrize("on_disk", ["M\u00fcsli", "Mu\u0308sli"])
@pytest.mark.parametrize("typed", ["M\u00fcsli", "Mu\u0308sli"])
def test_a_name_is_found_however_its_accents_are_composed(
    bench: Any, on_disk: str, typed: str
) -> None:
    bench.fill({f".memories/{on_disk}.md": "# Oats\n"})
    assert read(bench, path=f"./.memories/{typed}.md").text == "# Oats"
    assert read(bench, anchor=f".memories/{typed}.md#oats").text == "# Oats"


def test_lines_that_begin_after_the_end_are_refused(filled: Any) -> None:
    with pytest.raises(BadRequest, match="5 lines"):
        read(filled, path="MEMORY.md", start_line=6)


def test_text_comes_from_the_disk_and_a_note_changed_since_is_reported(filled: Any) -> None:
    filled.write("MEMORY.md", "changed\n")
    part = read(filled, path="MEMORY.md")
    assert (part.text, is_current(filled, path="MEMORY.md")) == ("changed", False)
    filled.sync()
    assert is_current(filled, path="MEMORY.md")


def test_an_empty_note_has_one_empty_line(filled: Any) -> None:
    filled.write("MEMORY.md", "")
    part = read(filled, path="MEMORY.md")
    assert (part.start_line, part.end_line, part.text) == (1, 1, "")


def test_a_file_that_is_not_a_note_is_not_read(filled: Any) -> None:
    for path in ("README.md", ".memories", ".memories/none.md", ".memories/x.py"):
        with pytest.raises(NoteNotFound) as refused:
            read(filled, path=path)
        # A file that could be a note, but is not below what is indexed.
        assert ("--include" in refused.value.hint) == (path == "README.md")


def test_a_link_that_leads_out_is_not_read(filled: Any) -> None:
    (filled.root / ".memories/out.md").symlink_to("/etc/hostname")
    with pytest.raises(NoteNotFound, match="cannot be read"):
        read(filled, path=".memories/out.md")


def test_a_missing_note_is_refused_with_the_one_that_is_meant(filled: Any) -> None:
    filled.fill({".memories/decisions.md": "plain"})
    for path in ("decisions.md", "decision.md", ".memories/decision.md", "decisions"):
        with pytest.raises(NoteNotFound) as caught:
            read(filled, path=path)
        assert caught.value.hint == "did you mean .memories/decisions.md?"
    (filled.root / ".memories/decisions.md").unlink()
    with pytest.raises(NoteNotFound, match="is not there") as caught:
        read(filled, path=".memories/decisions.md")
    assert "did you mean" not in caught.value.hint


def test_an_unknown_anchor_is_refused_with_the_nearest(filled: Any) -> None:
    with pytest.raises(NoteNotFound) as caught:
        read(filled, anchor="MEMORY.md#dsk")
    assert "MEMORY.md#disk" in caught.value.hint
    with pytest.raises(NoteNotFound) as caught:
        read(filled, anchor="MEMORY.md#quux")  # only the note's name is alike
    assert "did you mean" not in caught.value.hint


def test_a_place_is_an_anchor_or_a_path(filled: Any) -> None:
    for place in ({}, {"anchor": "MEMORY.md#disk", "path": "MEMORY.md"}):
        with pytest.raises(BadRequest):
            read(filled, **place)


def measure_peak_bytes(call: Callable[[], object]) -> int:
    """The most memory that Python's objects take at once while this runs."""
    gc.collect()
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_list_takes_memory_for_the_answer_that_is_allowed_and_not_for_the_vault(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notes_read, "READ_LIMIT_S", 60.0)  # while all allocations are counted
    sections = "".join(f"## Section {number}\n\n" for number in range(40))
    for number in range(40):
        bench.write(f".memories/{number}.md", sections)
    bench.sync()

    def list_all(**more: Any) -> int:
        params = ListParams(sort="importance")
        return len(list_notes(bench.workspace, Config(), params, **more).notes)

    assert list_all() == 40  # nothing is imported or prepared while memory is measured
    whole_bytes = measure_peak_bytes(list_all)
    assert whole_bytes > 500_000
    assert 1 < list_all(max_bytes=50_000) < 10
    assert measure_peak_bytes(partial(list_all, max_bytes=50_000)) < whole_bytes / 2
    params = ListParams(sort="importance", sections=False)
    few = partial(list_notes, bench.workspace, Config(), params)
    assert measure_peak_bytes(few) < whole_bytes / 2


FILTERS = [Filters(), Filters(kind=["decision"]), Filters(tag=["auth"], include_archived=True)]


def test_all_pages_together_are_the_whole_list(filled: Any) -> None:
    filled.write(".memories/a.md", "---\nimportance: 0.9\nkind: decision\n---\n# One\n## Two\n")
    filled.write(".memories/c.md", "")
    filled.write(".memories/d.md", "---\nstatus: archived\ntags: [auth]\n---\n# Old\n")
    filled.sync()

    def list_all(limit: int, max_bytes: float = math.inf, **wanted: Any) -> list[NoteInfo]:
        notes: list[NoteInfo] = []
        after = None
        while True:
            params = ListParams(limit=limit, **wanted)
            page = list_notes(
                filled.workspace, Config(), params, now_s=1e9, max_bytes=max_bytes, after=after
            )
            assert 0 < len(page.notes) <= limit
            notes += page.notes
            after = page.after
            if after is None:
                return notes

    sorts = ("file", "importance", "priority", "recency", "worth")
    for sort, filters, sections in itertools.product(sorts, FILTERS, (True, False)):
        pages = partial(list_all, sort=sort, filters=filters, sections=sections)
        every = pages(1000)
        sizes = [len(msgspec.json.encode(note)) + 1 for note in every]
        if sort == "file":
            assert [note.path for note in every] == sorted(note.path for note in every)
        assert len(every) == 4 or filters != Filters()
        assert pages(1) == pages(2) == every
        assert pages(1000, max(sizes)) == pages(1000, sum(sizes)) == every
        with pytest.raises(TooLarge):
            pages(1000, sizes[0] - 1)


LINKED = {
    "MEMORY.md": "# Start\nsee [[redis]] and [[gone note]]\n",
    ".memories/redis.md": "# Redis\n- resolved_by [[fix#The cure]]\n\n## Limits\n[up](../MEMORY.md)\n",
    ".memories/fix.md": "# Fix\n\n## The cure\n[[redis]] `[[code]]`\n",
}


@pytest.fixture
def linked(bench: Any) -> Any:
    for path, text in LINKED.items():
        bench.write(path, text)
    bench.sync()
    return bench


def list_links(bench: Any, **params: Any) -> list[tuple[str, str, str | None]]:
    found, n_links = find_links(bench.workspace, Config(), LinksParams(**params))
    assert n_links == len(found)
    return [(link.source, link.relation, link.to) for link in found]


FROM_START = ("MEMORY.md#start", "", ".memories/redis.md")
TO_NOTHING = ("MEMORY.md#start", "", None)
TO_FIX = (".memories/redis.md#redis", "resolved_by", ".memories/fix.md#fix/the-cure")
TO_START = (".memories/redis.md#redis/limits", "", "MEMORY.md")
TO_REDIS = (".memories/fix.md#fix/the-cure", "", ".memories/redis.md")


def test_links_are_listed_by_note_section_direction_relation_and_depth(linked: Any) -> None:
    assert list_links(linked) == [TO_REDIS, TO_FIX, TO_START, FROM_START, TO_NOTHING]
    assert list_links(linked, path="MEMORY.md") == [FROM_START, TO_NOTHING, TO_START]
    assert list_links(linked, path="MEMORY.md", direction="in") == [TO_START]
    assert list_links(linked, path=".memories/redis.md", direction="in") == [TO_REDIS, FROM_START]
    assert list_links(linked, anchor=".memories/redis.md#redis/limits") == [TO_START]
    assert list_links(linked, path=".memories/redis.md", relation="resolved_by") == [TO_FIX]
    assert list_links(linked, relation="") == [TO_REDIS, TO_START, FROM_START, TO_NOTHING]
    deep = list_links(linked, path="MEMORY.md", direction="out", depth=3)
    assert deep == [FROM_START, TO_NOTHING, TO_FIX, TO_START, TO_REDIS]


def test_get_counts_the_links_that_are_listed(linked: Any) -> None:
    for place in ({"path": "MEMORY.md"}, {"anchor": ".memories/redis.md#redis/limits"}):
        n_out, n_in = (len(list_links(linked, **place, direction=each)) for each in ("out", "in"))
        got = read(linked, **place)
        assert (got.n_links, got.n_backlinks) == (n_out, n_in)
    linked.fill({".memories/new.md": "[[MEMORY]]\n"})
    assert read(linked, path="MEMORY.md").n_backlinks == 2


def test_a_link_to_no_note_names_a_similar_one(linked: Any) -> None:
    linked.fill({".memories/gone-notes.md": "here"})
    ((link,), _) = find_links(linked.workspace, Config(), LinksParams(dangling=True))
    assert (link.to, link.target, link.similar) == (None, "gone note", ".memories/gone-notes.md")


def test_a_link_that_leads_out_of_the_workspace_says_so_and_names_no_similar_note(
    linked: Any,
) -> None:
    linked.fill({"MEMORY.md": "[[../CONTRIBUTING.md]] [o](../redis.txt) [[gone note]]\n"})
    links, _ = find_links(linked.workspace, Config(), LinksParams(dangling=True))
    assert [(link.target, link.is_outside) for link in links] == [
        ("../CONTRIBUTING.md", True), ("gone note", False)
    ]  # fmt: skip
    assert links[0].similar is None


def test_links_beyond_the_limit_are_counted(linked: Any) -> None:
    found, n_links = find_links(linked.workspace, Config(), LinksParams(limit=2))
    assert (len(found), n_links) == (2, 5)
    every, _ = find_links(linked.workspace, Config(), LinksParams())
    pages = [
        find_links(linked.workspace, Config(), LinksParams(limit=2, offset=at)) for at in (0, 2, 4)
    ]
    assert [link for page, n_links in pages if n_links == 5 for link in page] == every
    assert find_links(linked.workspace, Config(), LinksParams(offset=5)) == ([], 5)


def test_links_of_a_place_that_is_not_indexed_are_refused(linked: Any) -> None:
    for place in ({"path": ".memories/no.md"}, {"anchor": "MEMORY.md#strt"}):
        with pytest.raises(NoteNotFound) as caught:
            list_links(linked, **place)
        assert caught.value.hint
    with pytest.raises(BadRequest):
        list_links(linked, path="MEMORY.md", anchor="MEMORY.md#start")


def test_a_secret_in_a_link_is_redacted(linked: Any) -> None:
    token = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
    linked.fill({"MEMORY.md": f"[[{token}]]\n"})
    ((link,), _) = find_links(
        linked.workspace, Config(), LinksParams(path="MEMORY.md", dangling=True, direction="out")
    )
    assert token not in link.target


def test_problems_come_from_the_workspace_the_scan_and_the_notes(filled: Any) -> None:
    (filled.root / ".memories/out.md").symlink_to("/etc/hostname")
    filled.fill({".memories/z.md": "```\nopen"})
    filled.workspace.set_fault("watch", "out of watches")
    results = [(problem.path, problem.code) for problem in find_problems(filled.workspace)]
    assert results == [
        ("", "watch"),
        (".memories/out.md", "link_outside"),
        (".memories/z.md", "unclosed_fence"),
    ]


def test_a_workspace_that_is_being_opened_is_busy(make_bench: Callable[..., Any]) -> None:
    bench = make_bench("unopened")
    with pytest.raises(Busy):
        read(bench, path="MEMORY.md")
    assert find_problems(bench.workspace) == []


def test_an_unknown_kind_is_one_problem_however_many_sections_have_it(bench: Any) -> None:
    for name in ("a", "b"):
        text = "---\nkind: rumour\n---\n# One\n\nx\n\n# Two\n\ny\n"
        bench.write(f".memories/{name}.md", text)
    bench.fill({".memories/c.md": "---\nkind: Decision\n---\nz\n"})
    [problem] = find_problems(bench.workspace)
    assert (problem.path, problem.code) == (".memories/a.md", "unknown_kind")
    assert "`rumour`" in problem.problem
    assert "[kinds.NAME]" in problem.hint
    kinds = {"rumour": OTHER_KINDS, **DEFAULT_KINDS}
    assert find_problems(bench.workspace, kinds) == []
    counted = [bench.workspace.condition.count_problems(each) for each in (DEFAULT_KINDS, kinds)]
    assert counted == [1, 0]
    bench.fill({".memories/a.md": "one\n", ".memories/b.md": "two\n"})
    assert bench.workspace.condition.count_problems(DEFAULT_KINDS) == 0
