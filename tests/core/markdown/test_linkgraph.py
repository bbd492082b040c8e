from __future__ import annotations

from collections.abc import Collection, Iterable

from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.markdown.linkgraph import (
    Edge,
    LinkResolver,
    join_links,
    note_of,
    walk_links,
)
from memsyncd.core.markdown.links import NoteNames
from memsyncd.core.model import Link

NAMES = NoteNames.of(
    [
        ("MEMORY.md", "Memory"),
        (".memories/redis.md", "Redis and its time limits"),
        (".memories/ops/redis.md", "Redis in production"),
        (".memories/ops/Über uns.md", ""),
        (".memories/c#.md", "C sharp"),
        (".memories/plain.txt", ""),
        (".memories/pages/custom.css.md", ""),
    ]
)


def test_a_target_is_found_by_path_by_the_end_of_a_path_and_by_title() -> None:
    for source, target, path in (
        ("MEMORY.md", "", "MEMORY.md"),
        ("MEMORY.md", "redis", ".memories/redis.md"),
        ("MEMORY.md", "Redis", ".memories/redis.md"),
        ("MEMORY.md", "ops/redis", ".memories/ops/redis.md"),
        ("MEMORY.md", ".memories/redis.md", ".memories/redis.md"),
        ("MEMORY.md", "/.memories/redis.md", ".memories/redis.md"),
        (".memories/ops/new.md", "redis", ".memories/ops/redis.md"),
        (".memories/ops/new.md", "../redis.md", ".memories/redis.md"),
        (".memories/ops/new.md", "..\\redis.md", ".memories/redis.md"),
        (".memories/ops/new.md", "../../MEMORY.md", "MEMORY.md"),
        (".memories/ops/new.md", "../../../MEMORY.md", "MEMORY.md"),
        ("MEMORY.md", "Redis in production", ".memories/ops/redis.md"),
        ("MEMORY.md", ".memories/ops/%C3%9Cber%20uns.md", ".memories/ops/Über uns.md"),
        ("MEMORY.md", "u\u0308ber uns", ".memories/ops/Über uns.md"),
        ("MEMORY.md", "plain", ".memories/plain.txt"),
        ("MEMORY.md", "memories/redis", None),
        ("MEMORY.md", "dis", None),
        ("MEMORY.md", "nothing", None),
    ):
        assert NAMES.find(source, target) == path, source


def test_a_similar_note_is_suggested_for_a_missing_one() -> None:
    assert NAMES.find_similar("ops/rediss") == ".memories/ops/redis.md"
    assert NAMES.find_similar("zebra") is None
    assert NAMES.find_similar("") is None


ANCHORS = {
    ".memories/redis.md": [
        ".memories/redis.md#",
        ".memories/redis.md#redis",
        ".memories/redis.md#redis/time-limits",
    ]
}


BLOCKS = {("^limit", ".memories/redis.md"): ".memories/redis.md#redis/time-limits"}


class Places:
    def read_anchors(self, path: str) -> list[str]:
        return ANCHORS.get(path, [])

    def find_block(self, block: str, path: str = "") -> str | None:
        return BLOCKS.get((block, path))


def make(*links: tuple[str, int, str, str, str]) -> list[Edge]:
    return join([Link(*link) for link in links])


def join(links: list[Link]) -> list[Edge]:
    resolver = LinkResolver(NAMES, Places())
    return join_links(
        (
            link,
            resolver.resolve(note_of(link.anchor), link.target, link.heading, link.kind),
            NAMES.count_others(note_of(link.anchor), link.target, link.kind),
        )
        for link in links
    )


def test_a_heading_leads_to_its_section_and_a_missing_one_to_the_note() -> None:
    for heading, to in (
        ("Time limits", ".memories/redis.md#redis/time-limits"),
        ("Redis#Time limits", ".memories/redis.md#redis/time-limits"),
        ("redis/time-limits", ".memories/redis.md#redis/time-limits"),
        ("gone", ".memories/redis.md"),
        ("^block", ".memories/redis.md"),
        ("^Limit", ".memories/redis.md#redis/time-limits"),
        ("", ".memories/redis.md"),
    ):
        (edge,) = make(("MEMORY.md#", 1, "redis", heading, ""))
        assert edge.to == to, heading


def test_links_from_one_section_to_one_place_by_one_relation_are_one() -> None:
    edges = make(
        ("MEMORY.md#a", 9, "redis", "", ""),
        ("MEMORY.md#a", 3, ".memories/redis.md", "", ""),
        ("MEMORY.md#a", 5, "redis", "", "informs"),
        ("MEMORY.md#b", 7, "redis", "", ""),
        ("MEMORY.md#b", 8, "gone", "", ""),
        ("MEMORY.md#b", 9, "lost", "", ""),
    )
    assert [(edge.source[-1], edge.to and 1, edge.relation, edge.lines) for edge in edges] == [
        ("a", 1, "", (3, 9)),
        ("a", 1, "informs", (5,)),
        ("b", 1, "", (7,)),
        ("b", None, "", (8,)),
        ("b", None, "", (9,)),
    ]


def test_a_name_of_a_file_leads_to_the_note_with_that_name_and_else_is_no_link() -> None:
    edges = join([
        Link("MEMORY.md#", 1, "custom.css", "", "", "name"),
        Link("MEMORY.md#", 2, "gone.css", "", "", "name"),
    ])  # fmt: skip
    assert [(edge.to, edge.kind) for edge in edges] == [(".memories/pages/custom.css.md", "link")]


def test_the_note_of_a_place_is_its_path() -> None:
    for place, path in (
        ("a.md", "a.md"),
        ("a.md#", "a.md"),
        ("a.md#x/y", "a.md"),
        ("c#.md", "c#.md"),
        ("c#.md#x", "c#.md"),
    ):
        assert note_of(place) == path, place


class EdgeGraph:
    """A graph of edges in memory."""

    def __init__(self, edges: Iterable[Edge]) -> None:
        self.edges = list(edges)

    def read_outgoing(self, nodes: Collection[str]) -> dict[str, list[Edge]]:
        return {
            node: [edge for edge in self.edges if is_within(edge.source, node)] for node in nodes
        }

    def read_incoming(self, nodes: Collection[str]) -> dict[str, list[Edge]]:
        return {
            node: [edge for edge in self.edges if edge.to and is_within(edge.to, node)]
            for node in nodes
        }


def is_within(place: str, node: str) -> bool:
    return node in (note_of(place), place) or place.startswith(f"{node}/")


PATHS = st.sampled_from(["a.md", "b.md", "c.md", "d/e.md"])
SLUGS = st.sampled_from(["", "x", "x/y", "xy"])
EDGES = st.lists(
    st.builds(
        lambda path, slugs, to, to_slugs: Edge(
            f"{path}#{slugs}", to and (f"{to}#{to_slugs}" if to_slugs else to), "t", "", "", (1,)
        ),
        PATHS,
        SLUGS,
        st.none() | PATHS,
        SLUGS,
    ),
    max_size=12,
    unique=True,
)


@given(EDGES, PATHS, PATHS)
def test_backlinks_are_the_inverse_of_links(edges: list[Edge], one: str, other: str) -> None:
    out = {
        edge
        for edge in walk_links(EdgeGraph(edges), one, direction="out")
        if edge.to and note_of(edge.to) == other
    }
    back = {
        edge
        for edge in walk_links(EdgeGraph(edges), other, direction="in")
        if note_of(edge.source) == one
    }
    assert out == back


@given(EDGES, PATHS, st.sampled_from(["out", "in", "both"]))
def test_a_walk_ends_and_finds_each_edge_once_and_nearest_first(
    edges: list[Edge], start: str, direction: str
) -> None:
    walks = [
        walk_links(EdgeGraph(edges), start, direction=direction, max_depth=depth)  # type: ignore[arg-type]
        for depth in (1, 2, 20)
    ]
    for walk, depth in zip(walks, (1, 2, 20), strict=True):
        walked = [edge._replace(depth=0) for edge in walk]
        assert len(set(walked)) == len(walked)
        assert set(walked) <= set(edges)
        assert [edge.depth for edge in walk] == sorted(edge.depth for edge in walk)
        assert all(1 <= edge.depth <= depth for edge in walk)
    assert walks[0] == [edge for edge in walks[2] if edge.depth == 1]
    assert walks[1] == [edge for edge in walks[2] if edge.depth <= 2]


def test_a_walk_from_a_section_covers_the_sections_beneath_it_and_no_others() -> None:
    edges = [
        Edge("a.md#x", "b.md", "", "", "", (1,)),
        Edge("a.md#x/y", "c.md", "", "", "", (2,)),
        Edge("a.md#xy", "d/e.md", "", "", "", (3,)),
        Edge("b.md#", "a.md#x/y", "", "", "", (1,)),
        Edge("c.md#", "a.md", "", "", "", (1,)),
    ]
    assert [edge.to for edge in walk_links(EdgeGraph(edges), "a.md#x", direction="out")] == [
        "b.md",
        "c.md",
    ]
    assert [edge.source for edge in walk_links(EdgeGraph(edges), "a.md#x", direction="in")] == [
        "b.md#"
    ]
