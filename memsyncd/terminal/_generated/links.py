"""The commands of one capability.

Generated from the declarations by `python -m memsyncd.operations.generate`; do not edit.
"""

from __future__ import annotations

from memsyncd.terminal.actions import call_operation, load_action, load_parser
from memsyncd.terminal.parser import (
    IDS,
    JSON,
    ALL,
    JSON_LINES,
    PATHS,
    Argument,
    Command,
    Option,
    make_format,
    make_group,
    parse_fraction,
    parse_pair,
    parse_whole,
)


def make_links() -> Command:
    return Command(
        load_action("links", "list_links"),
        arguments=(
            Argument("target", "[ANCHOR|PATH]", "a note or section; without one, all links of the workspace"),
        ),
        options=(
            Option("--relation R…", "only typed links of this relation, such as resolved_by", field="relation"),
            Option("--depth N", "follow links this many steps from the note or section (default 1)", field="depth"),
            Option("--draw D", "draw the links as well: dot, the language of Graphviz", name="format", choices=("dot",), field="format"),
            Option("--dangling", "only links to notes that do not exist, or to headings that their note does not have", field="dangling"),
            Option("--orphans", "list the notes that no link leads to or from, instead of links", field="orphans"),
            Option("-n --limit N", "at most so many links, or notes without links (default 100)", field="limit"),
            Option("--out", "only links from it"),
            Option("--backlinks", "only links to it"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            ALL,
            PATHS,
            make_format(("source", "lines", "relation", "kind", "to", "target", "heading", "depth", "similar", "elsewhere", "superseded_by", "is_outside", "is_heading_missing", "others")),
            JSON,
        ),
        examples=("memsyncd links .memories/redis.md", "memsyncd links '.memories/errors.md#timeouts' --relation resolved_by --depth 3", "memsyncd links --dangling", "memsyncd links --orphans", "memsyncd links .memories/redis.md --depth 2 --draw dot | dot -Tsvg > redis.svg"),
        gone={"--format dot": "to draw the links: --draw dot", "--draw svg": "Graphviz makes one: memsyncd links … --draw dot | dot -Tsvg"},
        in_each=True,
        lists="links",
    )
