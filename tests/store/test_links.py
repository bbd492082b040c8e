from __future__ import annotations

import gc
import tracemalloc
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memsyncd.core.markdown.linkgraph import Edge, LinkResolver, join_links, note_of, walk_links
from memsyncd.core.markdown.links import NameTable, NoteNames, list_names, make_key
from memsyncd.core.model import Note, Section
from memsyncd.core.search.query import parse_query
from memsyncd.store.filters import compile_filters
from memsyncd.store.index import DropNote, Index, PutNote, Update
from memsyncd.store.links import StoredLinks, find_orphans
from memsyncd.store.pool import Reader
from memsyncd.store.schema import compute_fingerprint
from tests.core.markdown.test_linkgraph import EdgeGraph

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
        edges = list(StoredLinks(reader).stream())
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
                read(StoredLinks(reader).stream())
                return tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()

    measure_peak_bytes(list)  # so that nothing is imported or prepared while memory is measured
    assert measure_peak_bytes(lambda edges: deque(edges, maxlen=3)) < measure_peak_bytes(list) / 2


def test_dangling_links_are_those_of_all_that_lead_to_no_note_or_to_no_heading(
    vault: Index, put: Put
) -> None:
    lost = "[[gone|x]] ![[gone]] [a](none/obsidian.txt.md#app) `gone/` ((ffffffff-0000-4000-8000-000000000000)) [[#nowhere]] [[obsidian#none]]\n"
    vault.apply([put("lost.md", f"# Lost\n{lost}\n## Again\n{lost}{lost}")])
    for relations in (None, [""], ["refines"]):
        with vault.pool.acquire(10.0) as reader:
            every = [edge for edge in StoredLinks(reader, relations).stream() if edge.is_dangling]
            links = StoredLinks(reader, relations)
            assert list(links.stream(is_dangling=True)) == every
            assert links.count(is_dangling=True) == len(every)
            assert bool(every) == (relations != ["refines"])


def test_backlinks_are_those_that_the_tools_list(vault: Index) -> None:
    with vault.pool.acquire(10.0) as reader:
        edges = StoredLinks(reader).walk("obsidian.md", direction="in")
    assert {edge.source.rpartition("#")[0] for edge in edges} == {
        "foam.md", "journals/2026_11_20.md", "obsidian.md", "uses.md",
    }  # fmt: skip


def test_a_filter_selects_the_notes_linked_to_or_from_a_note(vault: Index) -> None:
    for query, paths in (
        ("related_to:obsidian.md", {"foam.md", "journals/2026_11_20.md", "uses.md"}),
        ('related_to:"The app"', {"foam.md", "journals/2026_11_20.md", "uses.md"}),
        ("related_to:obsidian.md#app/setup", {"uses.md"}),
        ("related_to:refines=x7qk", {"zk/200911172034 Other.md"}),
        ("related_to:solves=x7qk", set()),
        ("related_to:nothing", set()),
        ("related_to:obsidian.md -related_to:area/topic", {"foam.md", "uses.md"}),
    ):
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


def test_a_link_to_an_id_leads_to_the_section_that_has_it_now(index: Index, put: Put) -> None:
    def find_targets() -> list[str | None]:
        with index.pool.acquire(10.0) as reader:
            return [edge.to for edge in StoredLinks(reader).stream()]

    index.apply([put("a.md", "# A\n- solves [[mem-1]]\n")])
    assert find_targets() == [None]
    moved_in = "# B\n## Part\n<!-- memory: {id: Mem-1} -->\ntext\n"
    index.apply([put("b.md", moved_in)])
    assert find_targets() == ["b.md#b/part"]
    index.apply([put("c.md", "# C\n", tick=2), put("mem-1.md", "# D\n")])
    assert find_targets() == ["mem-1.md"]
    index.apply([DropNote("mem-1.md"), put("b.md", moved_in.replace("Part", "Piece"), tick=3)])
    assert find_targets() == ["b.md#b/piece"]
    index.apply([put("b.md", moved_in.replace("Mem-1", "Mem-2"), tick=4)])
    assert find_targets() == [None]


PATHS = ["a.md", "b.md", "d/a.md", "d/2026_11_20.md", "d/x7qk-c.md", "e___f.md"]
LINES = st.sampled_from([
    "# Head", "## Part", "[[a]]", "[[b#Part]]", "[[#Head]]", "![[d/a]]", "- solves [[other]]",
    "[x](../b.md)", "[x](d/a)", "[[Nov 20th, 2026]]", "[[x7qk]]", "[[e/f]]", "[[gone]]", "text ^b1",
    "## Moved in\n<!-- memory: {id: Mem-1} -->", "[[mem-1]]", "- solves [[MEM-1]]", "[[d/mem-1]]",
    "[[a#^b1]]", f"id:: {UUID}", f"(({UUID}))", "[[a]]: text", "[b]: d/a.md", "[[b]]", "",
])  # fmt: skip
NOTES = st.dictionaries(
    st.sampled_from(PATHS),
    st.tuples(
        st.sampled_from(["", "---\naliases: other\n---\n", "---\naliases: mem-1\n---\n"]),
        st.lists(LINES, max_size=6),
    ),
    min_size=1,
)


@settings(max_examples=60)
@given(
    steps=st.lists(
        st.tuples(NOTES, st.sets(st.sampled_from(PATHS)), st.booleans()), min_size=1, max_size=4
    )
)
def test_links_lead_where_a_computation_from_nothing_says(
    steps: list[tuple[dict[str, tuple[str, list[str]]], set[str], bool]],
    put: Put,
    dump: Callable[[Path], object],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder: Path = tmp_path_factory.mktemp("links")
    index = Index(folder / "index.db", compute_fingerprint("links"))
    disk: dict[str, str] = {}
    for tick, (notes, gone, is_renaming) in enumerate(steps, 1):
        updates: list[Update] = []
        for name in gone & disk.keys():
            text, new_name = disk.pop(name), f"moved/{name}"
            # A note that takes the place of another is no move for a scan.
            is_move = is_renaming and new_name not in disk
            if not is_move:
                updates.append(DropNote(name))
            if is_renaming:
                moved_from = name if is_move else None
                updates.append(put(new_name, text, tick=tick, moved_from=moved_from))
            disk |= {new_name: text} if is_renaming else {}
        texts = {name: front + "\n".join(lines) + "\n" for name, (front, lines) in notes.items()}
        updates += (put(name, text, tick=tick) for name, text in texts.items())
        disk |= texts
        index.apply(updates)
    fresh = Index(folder / "fresh.db", compute_fingerprint("links"))
    fresh.apply([put(name, text) for name, text in disk.items()])
    try:
        with index.pool.acquire(10.0) as reader, fresh.pool.acquire(10.0) as fresh_reader:
            links = StoredLinks(reader)
            every = list(links.stream())
            assert every == list(StoredLinks(fresh_reader).stream()) == resolve_all(disk, put)
            places = [place for edge in every if edge.to for place in (edge.source, edge.to)]
            assert find_orphans(reader, limit=99) == sorted(disk.keys() - {*map(note_of, places)})
            dangling = [edge for edge in every if edge.to is None or edge.is_part_missing]
            assert list(links.stream(is_dangling=True)) == dangling
            assert links.count(is_dangling=True) == len(dangling)
            ambiguous = [edge for edge in every if edge.n_others]
            assert list(links.stream_ambiguous()) == ambiguous
            assert index.count_ambiguous() == fresh.count_ambiguous() == len(ambiguous)
            for relations in (None, ["solves"], ["", "solves"], ["refines"]):
                typed = StoredLinks(reader, relations)
                whole = EdgeGraph(
                    edge for edge in every if relations is None or edge.relation in relations
                )
                assert typed.count() == len(whole.edges)
                for offset in range(len(whole.edges) + 1):
                    assert list(typed.stream(offset=offset)) == whole.edges[offset:]
                check_most_first(typed, whole.edges)
                nodes = {
                    *disk,
                    *(edge.source for edge in every),
                    *(edge.to for edge in every if edge.to),
                }
                for node in nodes:
                    for depth in (1, 2, 3):
                        walk = typed.walk(node, max_depth=depth)
                        assert sort(walk) == sort(walk_links(whole, node, max_depth=depth))
    finally:
        index.close()
        fresh.close()


def check_most_first(links: StoredLinks, edges: Sequence[Edge]) -> None:
    most = list(links.stream(is_most_first=True))
    assert sort(most) == sort(edges)
    for offset in range(len(most)):
        assert list(links.stream(offset=offset, is_most_first=True)) == most[offset:]
    n_links = Counter((note_of(edge.source), edge.relation) for edge in edges)
    firsts = {note_of(edge.source): None for edge in most}
    largest = [max(n for (path, _), n in n_links.items() if path == first) for first in firsts]
    assert largest == sorted(largest, reverse=True)


def resolve_all(disk: dict[str, str], put: Put) -> list[Edge]:
    """The links of all notes, resolved by their names alone."""
    notes = [put(name, text).note for name, text in sorted(disk.items())]
    names = NoteNames(NameTable(
        (make_key(name), note.path, name)
        for note in notes
        for name in list_names(note.path, note.title, note.aliases)
    ))  # fmt: skip
    resolver = LinkResolver(names, Parts(notes))
    return [
        edge
        for note in notes
        for edge in join_links(
            (
                link,
                resolver.resolve(note.path, link.target, link.heading, link.kind),
                names.count_others(note.path, link.target, link.kind),
            )
            for link in note.links
        )
    ]


class Parts:
    """The sections and blocks of notes, which are sorted by path."""

    def __init__(self, notes: list[Note]) -> None:
        self._notes = notes

    def read_anchors(self, path: str) -> list[str]:
        return [each.anchor for note in self._notes if note.path == path for each in note.sections]

    def find_block(self, block: str, path: str = "") -> str | None:
        return next(
            (
                section.anchor
                for note in self._notes
                if path in ("", note.path)
                for section in note.sections
                if block in self._name_parts(note, section)
            ),
            None,
        )

    def _name_parts(self, note: Note, section: Section) -> set[str]:
        ids = {value.lower() for key, value in section.meta.extra if key == "id"}
        return ids | {each.name for each in note.block_names if each.anchor == section.anchor}


def sort(edges: object) -> list[Edge]:
    assert isinstance(edges, list | tuple)
    return sorted(edges, key=repr)
