from __future__ import annotations

import gc
import tracemalloc
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memsyncd.core.markdown.linkgraph import Edge, EdgeGraph, walk_links
from memsyncd.core.search.query import parse_query
from memsyncd.store.filters import compile_filters
from memsyncd.store.index import Index, PutNote
from memsyncd.store.links import StoredLinks
from memsyncd.store.pool import Reader
from memsyncd.store.schema import compute_fingerprint

Put = Callable[..., PutNote]
UUID = "0b0c7a3e-1111-2222-3333-444455556666"

# One note of each tool, and what its documentation says of each link.
VAULT = {
    "obsidian.md": "---\naliases: [The app, 'One, two']\n---\n# App\n\nidea ^b1\n\n## Setup\n\nsee [[#App]]\n",
    "uses.md": "[[obsidian|label]], [[obsidian#Setup]], [[obsidian#^b1]], ![[the app]], [[One, two]]\n",
    "pages/area___topic.md": f"alias:: subject\n\n- block\n  id:: {UUID}\n",
    "journals/2026_11_20.md": f"- see [[area/topic]], [[Subject]] and (({UUID}))\n- {{{{embed [[obsidian]]}}}}\n",
    "zk/x7qk-idea.md": "# An idea\n\n[[Nov 20th, 2026]], [other](200911172034%20Other)\n",
    "zk/200911172034 Other.md": "# Other\n\n[[x7qk]]\n- refines [[An idea]]\n",
    "foam.md": "# Foam\n\n[[tool]], [the tool][tool] and [gone]\n\n[tool]: obsidian.md 'App'\n[gone]: gone.md\n",
}
EXPECTED = [
    ("foam.md#foam", "gone.md", None, "link", ""),
    ("foam.md#foam", "obsidian.md", "obsidian.md", "link", ""),
    ("journals/2026_11_20.md#", f"(({UUID}))", "pages/area___topic.md#", "link", ""),
    ("journals/2026_11_20.md#", "area/topic", "pages/area___topic.md", "link", ""),
    ("journals/2026_11_20.md#", "obsidian", "obsidian.md", "embed", ""),
    ("obsidian.md#app/setup", "", "obsidian.md#app", "link", ""),
    ("uses.md#", "obsidian", "obsidian.md", "link", ""),
    ("uses.md#", "obsidian", "obsidian.md#app", "link", ""),
    ("uses.md#", "obsidian", "obsidian.md#app/setup", "link", ""),
    ("uses.md#", "the app", "obsidian.md", "embed", ""),
    ("zk/200911172034 Other.md#other", "An idea", "zk/x7qk-idea.md", "link", "refines"),
    ("zk/200911172034 Other.md#other", "x7qk", "zk/x7qk-idea.md", "link", ""),
    ("zk/x7qk-idea.md#an-idea", "200911172034%20Other", "zk/200911172034 Other.md", "link", ""),
    ("zk/x7qk-idea.md#an-idea", "Nov 20th, 2026", "journals/2026_11_20.md", "link", ""),
]


@pytest.fixture
def vault(index: Index, put: Put) -> Index:
    index.apply([put(path, text) for path, text in VAULT.items()])
    return index


def test_links_lead_where_the_documentation_of_each_tool_says(vault: Index) -> None:
    with vault.pool.acquire(10.0) as reader:
        edges = list(StoredLinks(reader).stream_all())
    results = [(edge.source, edge.target, edge.to, edge.kind, edge.relation) for edge in edges]
    assert sorted(results, key=repr) == sorted(EXPECTED, key=repr)


def test_the_links_of_one_note_are_in_memory_at_a_time(index: Index, put: Put) -> None:
    text = "".join(f"- see [[note {number}]]\n" for number in range(100))
    index.apply([put(f"{number}.md", text) for number in range(20)])

    def measure_peak_bytes(read: Callable[[Iterator[Edge]], object]) -> int:
        with index.pool.acquire(30.0) as reader:
            gc.collect()
            tracemalloc.start()
            try:
                read(StoredLinks(reader).stream_all())
                return tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()

    measure_peak_bytes(list)  # so that nothing is imported or prepared while memory is measured
    assert measure_peak_bytes(lambda edges: deque(edges, maxlen=3)) < measure_peak_bytes(list) / 2


def test_links_that_lead_nowhere_are_those_of_all_that_lead_to_no_note(
    vault: Index, put: Put
) -> None:
    lost = "[[gone|x]] ![[gone]] [a](none/obsidian.txt.md#app) `gone/` ((ffffffff-0000-4000-8000-000000000000)) [[#nowhere]] [[obsidian#none]]\n"
    vault.apply([put("lost.md", f"# Lost\n{lost}\n## Again\n{lost}{lost}")])
    for relations in (None, [""], ["refines"]):
        with vault.pool.acquire(10.0) as reader:
            every = [
                edge for edge in StoredLinks(reader, relations).stream_all() if edge.to is None
            ]
            assert StoredLinks(reader, relations).list_dangling() == every
            assert bool(every) == (relations != ["refines"])


def test_backlinks_are_those_that_the_tools_list(vault: Index) -> None:
    with vault.pool.acquire(10.0) as reader:
        edges = StoredLinks(reader).walk("obsidian.md", direction="in")
    assert {edge.source.rpartition("#")[0] for edge in edges} == {
        "foam.md", "journals/2026_11_20.md", "obsidian.md", "uses.md",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("query", "paths"),
    [
        ("related_to:obsidian.md", {"foam.md", "journals/2026_11_20.md", "uses.md"}),
        ('related_to:"The app"', {"foam.md", "journals/2026_11_20.md", "uses.md"}),
        ("related_to:obsidian.md#app/setup", {"uses.md"}),
        ("related_to:refines=x7qk", {"zk/200911172034 Other.md"}),
        ("related_to:solves=x7qk", set()),
        ("related_to:nothing", set()),
        ("related_to:obsidian.md -related_to:area/topic", {"foam.md", "uses.md"}),
    ],
)
def test_a_filter_selects_the_notes_linked_to_or_from_a_note(
    vault: Index, query: str, paths: set[str]
) -> None:
    with vault.pool.acquire(10.0) as reader:
        assert find_paths(reader, query) == paths


def test_a_tag_stands_for_those_that_are_nested_in_it(index: Index, put: Put) -> None:
    index.apply([
        put("a.md", "#db/sql text\n"),
        put("b.md", "---\ntags: [DB, other]\n---\ntext\n"),
        put("c.md", "#dbx and #other/db text\n"),
        put("d.md", "#Größe/klein text\n"),
    ])  # fmt: skip
    with index.pool.acquire(10.0) as reader:
        assert find_paths(reader, "tag:db") == {"a.md", "b.md"}
        assert find_paths(reader, "tag:db/") == {"a.md", "b.md"}
        assert find_paths(reader, "tag:db/sql") == {"a.md"}
        assert find_paths(reader, "tag:other") == {"b.md", "c.md"}
        assert find_paths(reader, "tag:größe") == {"d.md"}


def find_paths(reader: Reader, query: str) -> set[str]:
    allowed, bindings = compile_filters(reader, parse_query(query).filters)
    statement = (
        "SELECT DISTINCT f.path FROM chunks c JOIN files f ON f.id = c.file WHERE c.id IN"
        f" (SELECT rowid FROM chunks WHERE 1 {allowed})"
    )
    return {path for (path,) in reader.rows(statement, bindings)}


PATHS = ["a.md", "b.md", "d/a.md", "d/2026_11_20.md", "d/x7qk-c.md", "e___f.md"]
LINES = st.sampled_from([
    "# Head", "## Part", "[[a]]", "[[b#Part]]", "[[#Head]]", "![[d/a]]", "- solves [[other]]",
    "[x](../b.md)", "[x](d/a)", "[[Nov 20th, 2026]]", "[[x7qk]]", "[[e/f]]", "[[gone]]", "text ^b1",
    "[[a#^b1]]", f"id:: {UUID}", f"(({UUID}))", "[[a]]: text", "[b]: d/a.md", "[[b]]", "",
])  # fmt: skip
NOTES = st.dictionaries(
    st.sampled_from(PATHS),
    st.tuples(st.sampled_from(["", "---\naliases: other\n---\n"]), st.lists(LINES, max_size=6)),
    min_size=1,
)


@settings(max_examples=40)
@given(notes=NOTES, changed=NOTES)
def test_the_links_of_one_note_are_those_of_the_whole_graph(
    notes: dict[str, tuple[str, list[str]]],
    changed: dict[str, tuple[str, list[str]]],
    put: Put,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    path: Path = tmp_path_factory.mktemp("links") / "index.db"
    index = Index(path, compute_fingerprint("links"))
    try:
        for tick, texts in enumerate((notes, changed), 1):
            index.apply([
                put(name, front + "\n".join(lines) + "\n", tick=tick)
                for name, (front, lines) in texts.items()
            ])  # fmt: skip
        with index.pool.acquire(10.0) as reader:
            links = StoredLinks(reader)
            whole = EdgeGraph(links.stream_all())
            for name in {*notes, *changed}:
                assert list(links.list_outgoing(name)) == list(whole.list_outgoing(name))
                assert sort(links.list_incoming(name)) == sort(whole.list_incoming(name))
                for depth in (1, 2, 3):
                    walks = (walk_links(each, name, max_depth=depth) for each in (links, whole))
                    one, other = (sort(walk) for walk in walks)
                    assert one == other
            for relations in ({"solves"}, {"solves", ""}, {"refines"}):
                typed = StoredLinks(reader, relations)
                of_them = EdgeGraph(
                    edge for edge in links.stream_all() if edge.relation in relations
                )
                for name in {*notes, *changed}:
                    for depth in (1, 2, 3):
                        walks = [
                            sort(walk_links(of_them, name, max_depth=depth)),
                            sort(typed.walk(name, max_depth=depth)),
                        ]
                        assert walks[0] == walks[1]
    finally:
        index.close()


def sort(edges: object) -> list[Edge]:
    assert isinstance(edges, list | tuple)
    return sorted(edges, key=repr)
