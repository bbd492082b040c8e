"""Links to another workspace, `[[acme:solutions#Limit the pool]]`, lead where its own links lead."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from memsyncd.config import Config
from memsyncd.core.editing.topics import RelationLink
from memsyncd.engine.elsewhere import find_elsewhere
from memsyncd.engine.places import name_elsewhere, name_relations
from memsyncd.errors import NoteNotFound
from memsyncd.operations.links.declare import LinksParams
from memsyncd.operations.links.run import find_links
from memsyncd.operations.notes.declare import GetParams

SOLUTIONS = "# Solutions\n\n## Limit the pool\n\nForty.\n\n### Why\n\nSockets. ^why\n"


@pytest.fixture
def two(make_bench: Callable[..., Any]) -> tuple[Any, Any]:
    """The workspaces `acme` and `web`, which know each other by name."""
    acme, web = make_bench("acme"), make_bench("web")
    by_name = {bench.workspace.entry.name: bench.workspace for bench in (acme, web)}
    for bench in (acme, web):
        bench.open()
        bench.workspace.find_other = by_name.get
    acme.write(".memories/solutions.md", SOLUTIONS)
    acme.write(".memories/deep/Pool size.md", "---\naliases: [sizes]\n---\n# Pool size\n")
    acme.rebuild()
    return acme, web


def list_links(bench: Any, **params: Any) -> tuple[list[Any], int]:
    return find_links(bench.workspace, Config(), LinksParams(**params))


def test_a_link_with_a_prefix_leads_where_the_link_without_it_leads_there(two: Any) -> None:
    acme, web = two
    rng = random.Random(5)
    notes = ("solutions", "deep/Pool size", "sizes", ".memories/solutions.md", "Solutions", "none")
    headings = ("", "#Limit the pool", "#limit-the-pool/why", "#Why", "#^why", "#Absent")
    targets = [rng.choice(notes) + rng.choice(headings) for _ in range(60)]
    acme.write(
        ".memories/links.md",
        "# L\n\n" + "".join(f"- {n}: [[{t}]]\n" for n, t in enumerate(targets)),
    )
    acme.sync()
    web.write(
        "MEMORY.md", "# M\n\n" + "".join(f"- {n}: [[acme:{t}]]\n" for n, t in enumerate(targets))
    )
    web.write(".memories/acme:named.md", "# Named\n")
    web.write(
        ".memories/other.md",
        "# Other\n\n- [[acme:named]]\n- [[globex:solutions]]\n- [[http:solutions]]\n- [[gone]]\n",
    )
    web.rebuild()
    expected = {
        line: link.to
        for link in list_links(acme, path=".memories/links.md", direction="out", limit=100)[0]
        for line in link.lines
    }
    leading = {
        line: link.elsewhere and link.elsewhere.to
        for link in list_links(web, path="MEMORY.md", direction="out", limit=100)[0]
        for line in link.lines
    }
    assert leading == expected
    assert {None, ".memories/solutions.md#solutions/limit-the-pool/why"} < {*expected.values()}
    # Dangling is what leads to no note of any workspace; a prefix that names none is a name.
    dangling, n_dangling = list_links(web, dangling=True, limit=100)
    assert n_dangling == len(dangling)
    lines = {line for link in dangling if link.source.startswith("MEMORY") for line in link.lines}
    assert lines == {line for line, to in expected.items() if to is None}
    others = [link for link in dangling if link.source.startswith(".memories/other.md")]
    assert [link.target for link in others] == ["globex:solutions", "http:solutions", "gone"]
    [own] = [link for link in list_links(web, path=".memories/other.md")[0] if link.to]
    assert own.to == ".memories/acme:named.md"
    # Pages are cut from the links that dangle.
    pages = [
        list_links(web, dangling=True, limit=2, offset=at)[0] for at in range(0, n_dangling, 2)
    ]
    assert [link for page in pages for link in page] == dangling


def test_a_place_in_another_workspace_is_read_and_related_to_by_its_name(two: Any) -> None:
    acme, web = two
    web.write("MEMORY.md", "# M\n")
    web.rebuild()
    named = name_elsewhere(web.workspace, GetParams(anchor="acme:solutions#Limit the pool"))
    anchor = ".memories/solutions.md#solutions/limit-the-pool"
    assert (named.workspace, named.anchor, named.path) == (acme.workspace.id, anchor, None)
    named = name_elsewhere(web.workspace, GetParams(path="acme:sizes"))
    assert (named.workspace, named.path) == (acme.workspace.id, ".memories/deep/Pool size.md")
    plain = GetParams(path="globex:sizes")
    assert name_elsewhere(web.workspace, plain) is plain
    with pytest.raises(NoteNotFound, match="absent"):
        name_elsewhere(web.workspace, GetParams(path="acme:absent"))
    with web.workspace.acquire(5.0) as reader:
        relate = [RelationLink("resolved_by", "[[acme:solutions#Limit the pool]]")]
        [relation] = name_relations(web.workspace, reader, relate, must_exist=True)
        target, _, heading = relation.to.partition("#")
        assert find_elsewhere(web.workspace, target, heading) == (acme.workspace, anchor)
        absent = [RelationLink("resolved_by", "acme:absent")]
        with pytest.raises(NoteNotFound):
            name_relations(web.workspace, reader, absent, must_exist=True)
