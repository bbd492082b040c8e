"""Links as a drawing: well-formed, complete, the same for the same links."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.markdown.drawing import render_dot, render_svg
from memsyncd.core.markdown.linkgraph import Edge

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
SVG = "{http://www.w3.org/2000/svg}"


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
    loops = ET.fromstring(render_svg(links, "errors.md")).findall(f"{SVG}path[@class='link']")
    assert len(loops) == 2


@given(links=LINKS, start=NAMES | st.none())
def test_any_links_become_a_well_formed_drawing_with_a_box_for_each_note(
    links: list[Edge], start: str | None
) -> None:
    text = render_svg(links, start)
    assert text == render_svg(list(links), start)
    boxes = ET.fromstring(text).findall(f"{SVG}g/{SVG}rect")
    listed = render_dot(links, start).split("\n")
    assert len(boxes) == sum(1 for line in listed if "[label=" in line and " -> " not in line)
    assert len(boxes) >= bool(links)


def test_no_two_boxes_lie_on_each_other() -> None:
    links = [make_link("hub.md", f"note-{number:02}.md") for number in range(40)]
    rects = [
        tuple(float(rect.get(name, "")) for name in ("x", "y", "width", "height"))
        for rect in ET.fromstring(render_svg(links, "hub.md")).iter(f"{SVG}rect")
    ]
    assert len(rects) == 41
    for number, (x, y, width, height) in enumerate(rects):
        for other_x, other_y, other_width, other_height in rects[:number]:
            assert (
                x + width <= other_x
                or other_x + other_width <= x
                or y + height <= other_y
                or other_y + other_height <= y
            )
