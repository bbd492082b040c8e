"""A drawing of links is well-formed and complete, and the same for the same links."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.markdown.linkgraph import Edge, render_dot

NAMES = st.text('ab#/.<&"\\é\x00', min_size=1, max_size=12)
LINKS = st.lists(
    st.builds(
        Edge,
        source=NAMES,
        to=NAMES | st.none(),
        target=NAMES,
        heading=st.just(""),
        relation=st.sampled_from(["", "resolved_by", 'a"b<c>']),
        lines=st.just((1,)),
    ),
    max_size=12,
)


def make_link(source: str, to: str | None, relation: str = "", target: str = "") -> Edge:
    return Edge(source, to, target, "", relation, (1,))


def test_a_graph_in_dot_names_each_note_relation_and_missing_note() -> None:
    links = [
        make_link("errors.md#timeouts", "fixes/pool.md#size", "resolved_by"),
        make_link("errors.md#again", "fixes/pool.md", "resolved_by"),
        make_link("errors.md#", None, target="absent"),
    ]
    assert render_dot(links, "errors.md") == (
        "digraph memory {\n"
        "  rankdir=LR;\n"
        "  node [shape=box, style=rounded];\n"
        '  "errors.md" [label="errors", penwidth=2];\n'
        '  "absent" [label="absent", style=dashed];\n'
        '  "fixes/pool.md" [label="pool"];\n'
        '  "errors.md" -> "fixes/pool.md" [label="resolved_by"];\n'
        '  "errors.md" -> "absent";\n'
        "}\n"
    )


def test_a_drawing_around_a_section_shows_sections_and_links_within_a_note() -> None:
    links = [
        make_link("errors.md#errors/timeouts", "errors.md#errors/pool", "caused_by"),
        make_link("errors.md#errors/timeouts", "fixes.md#size", "resolved_by"),
    ]
    around = render_dot(links, "errors.md#errors/timeouts")
    assert '"errors.md#errors/pool" [label="pool"];' in around
    assert '"errors.md#errors/timeouts" -> "fixes.md#size" [label="resolved_by"];' in around
    assert '"errors.md" -> "errors.md" [label="caused_by"];' in render_dot(links, "errors.md")


# A quoted word of DOT: `\\` escapes a quotation mark or itself.
WORD = r'"(?:[^"\\]|\\.)*"'


@given(links=LINKS, start=NAMES | st.none())
def test_any_links_become_a_well_formed_drawing_with_each_end_of_an_arrow(
    links: list[Edge], start: str | None
) -> None:
    text = render_dot(links, start)
    assert text == render_dot(list(links), start)
    first, *lines, last, empty = text.split("\n")
    assert (first, last, empty) == ("digraph memory {", "}", "")
    nodes, ends = set(), set()
    for line in lines[2:]:
        node = re.fullmatch(rf"  ({WORD}) \[label={WORD}(, style=dashed|, penwidth=2)?\];", line)
        arrow = re.fullmatch(rf"  ({WORD}) -> ({WORD})( \[label={WORD}\])?;", line)
        assert node or arrow, line
        nodes |= {node[1]} if node else set()
        ends |= {arrow[1], arrow[2]} if arrow else set()
    assert ends <= nodes
    assert bool(ends) == bool(links)
