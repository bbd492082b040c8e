"""Show how notes link to each other: `memsyncd links`."""

from __future__ import annotations

from memsyncd.cli.console import show_answer
from memsyncd.cli.format import render_path
from memsyncd.cli.note_arguments import find_named
from memsyncd.cli.parser import JSON, Argument, Command, Option, make_workspace_option
from memsyncd.cli.terminal import clean, clean_line, clean_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any, Final

    from memsyncd.cli.console import Console

DEFAULT_LIMIT: Final = 100
# The most that the daemon returns at a time.
MAX_LIMIT: Final = 10_000


def _links(args: Args, console: Console) -> int:
    place = find_named(args.target, console)
    root = place.pop("workspace", None)
    answer = _list_links(
        console,
        args.workspace or root,
        args.limit or DEFAULT_LIMIT,
        **place,
        direction="both" if args.out == args.backlinks else "out" if args.out else "in",
        relation=args.relation or None,
        depth=args.depth or 1,
        dangling=args.dangling,
        format=args.format,
    )
    return show_answer(answer, args, console, _show_links, found="links")


def _list_links(
    console: Console, workspace: str | None, limit: int, **params: object
) -> dict[str, Any]:
    """Ask for as many links as the daemon returns at a time, until there are enough or no more."""
    links: list[dict[str, Any]] = []
    generations = set()
    while True:
        page = min(limit - len(links), MAX_LIMIT)
        answer = console.call_on(workspace, "links", limit=page, offset=len(links), **params)
        links += answer["links"]
        generations.add(answer["freshness"]["generation"])
        # A drawing is one of all links, so it has as many as one answer can.
        if len(answer["links"]) < page or len(links) >= limit or params["format"]:
            break
    if len(generations) > 1:
        text = "notes changed meanwhile: some links may be missing or listed twice; ask again"
        console.terminal.warn(text)
    return {**answer, "links": links}


def _show_links(answer: dict[str, Any], _args: Args, console: Console) -> None:
    terminal = console.terminal
    if answer["drawing"] is not None:
        terminal.print(clean(answer["drawing"]).rstrip("\n"))
    else:
        for link in clean_values(answer["links"]):
            terminal.print(_render_link(link, answer["workspace"], console))
    n_left_out = answer["n_links"] - len(answer["links"])
    if n_left_out:
        terminal.report(f"{n_left_out:,} more; show them with --limit {answer['n_links']}")
    if not answer["links"]:
        terminal.report("no links")


def _render_link(link: dict[str, Any], workspace: str, console: Console) -> str:
    paint, root = console.terminal.paint, clean_line(console.roots.get(workspace, ""))
    first, *others = link["lines"]
    source = {"path": link["source"].rpartition("#")[0], "start_line": first, "end_line": first}
    place = console.render_place(source, workspace)
    more = "".join(f",{line}" for line in others)
    words = " ".join(filter(None, (link["relation"], "embeds" if link["kind"] == "embed" else "")))
    relation = f"{paint('cyan', words)} " if words else ""
    if link["to"] is not None:
        return f"{place}{more}  {relation}→ {render_path(link['to'], root, console.cwd)}"
    heading = f"#{link['heading']}" if link["heading"] else ""
    similar = f"; similar: {link['similar']}" if link["similar"] else ""
    missing = paint("yellow", f"no such note{similar}")
    return f"{place}{more}  {relation}→ [[{link['target']}{heading}]]  {missing}"


COMMANDS = {
    "links": Command(
        _links,
        arguments=(
            Argument(
                "target",
                "[ANCHOR|PATH]",
                "a note or section; without one, all links of the workspace",
            ),
        ),
        options=(
            Option("--out", "only links from it"),
            Option("--backlinks", "only links to it"),
            Option("--relation R…", "only typed links such as resolved_by"),
            Option("--depth N", "follow links this many steps (default 1)"),
            Option("--dangling", "only links to notes that do not exist"),
            Option("--limit N", f"at most this many (default {DEFAULT_LIMIT})"),
            Option(
                "--format F",
                "draw the links: dot, for Graphviz, or svg",
                choices=("dot", "svg"),
            ),
            make_workspace_option("the links of this workspace"),
            JSON,
        ),
        examples=(
            "memsyncd links .memories/redis.md",
            "memsyncd links '.memories/errors.md#timeouts' --relation resolved_by --depth 3",
            "memsyncd links --dangling",
            "memsyncd links .memories/redis.md --depth 2 --format svg > redis.svg",
        ),
    ),
}
