"""Print links between notes: `memsyncd links`."""

from __future__ import annotations

from memsyncd.terminal.actions import send
from memsyncd.terminal.console import show_answer
from memsyncd.terminal.format import render_path
from memsyncd.terminal.places import find_named
from memsyncd.terminal.terminal import clean, clean_line, clean_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any, Final

    from memsyncd.terminal.console import Console


DEFAULT_LINKS: Final = 100
MAX_LINKS: Final = 10_000
"""The most links that the daemon returns at a time."""


def list_links(args: Args, console: Console) -> int:
    """Carry out `memsyncd links`, which may need several pages."""
    params = {**args.params, **find_named(args.target, console)}
    if args.out != args.backlinks:
        params["direction"] = "out" if args.out else "in"
    answer = _read_pages(params, args, console)
    found = "orphans" if params.get("orphans") else "links"
    return show_answer(answer, args, console, _show_links, found=found)


def _read_pages(params: dict[str, Any], args: Args, console: Console) -> dict[str, Any]:
    """Ask for pages of links until there are as many as wanted, or no more."""
    limit = params.get("limit", DEFAULT_LINKS)
    links: list[dict[str, Any]] = []
    generations = set()
    while True:
        page = min(limit - len(links), MAX_LINKS)
        request = {**params, "limit": page, "offset": len(links)}
        answer = send("links", request, args, console)
        links += answer["links"]
        generations.add(answer["freshness"]["generation"])
        # A drawing shows all links, as many as one answer can have.
        if len(answer["links"]) < page or len(links) >= limit or args.format:
            break
    if len(generations) > 1:
        text = "notes changed meanwhile: some links may be missing or listed twice; ask again"
        console.terminal.warn(text)
    return {**answer, "links": links}


def _show_links(answer: dict[str, Any], args: Args, console: Console) -> None:
    terminal = console.terminal
    if answer["drawing"] is not None:
        terminal.print_exactly(clean(answer["drawing"]).rstrip("\n"))
    else:
        for link in clean_values(answer["links"]):
            terminal.print(_render_link(link, answer["workspace"], console))
    n_left_out = answer["n_links"] - len(answer["links"])
    if n_left_out:
        terminal.report(f"{n_left_out:,} more; show them with --limit {answer['n_links']}")
    root = clean_line(console.roots.get(answer["workspace"], ""))
    for path in clean_values(answer["orphans"]):
        terminal.print(render_path(path, root, console.cwd))
    if args.params.get("orphans"):
        if not answer["orphans"]:
            terminal.report("every note has a link")
    elif not answer["links"]:
        others = clean_line(", ".join(answer.get("relations", ())))
        terminal.report("no links" + (f" of this relation; notes have: {others}" if others else ""))


def _render_link(link: dict[str, Any], workspace: str, console: Console) -> str:
    paint, root = console.terminal.paint, clean_line(console.roots.get(workspace, ""))
    first, *more_lines = link["lines"]
    source = {"path": link["source"].rpartition("#")[0], "start_line": first, "end_line": first}
    place = console.render_place(source, workspace)
    more = "".join(f",{line}" for line in more_lines)
    words = " ".join(filter(None, (link["relation"], "embeds" if link["kind"] == "embed" else "")))
    relation = f"{paint('cyan', words)} " if words else ""
    if link.get("is_heading_missing"):
        to = render_path(link["to"], root, console.cwd)
        missing = paint("yellow", f"{to} has no such heading")
        return f"{place}{more}  {relation}→ [[{link['target']}#{link['heading']}]]  {missing}"
    if link["to"] is not None:
        to, newest = render_path(link["to"], root, console.cwd), link.get("superseded_by")
        newer = f"  superseded by {render_path(newest, root, console.cwd)}" if newest else ""
        others = [render_path(path, root, console.cwd) for path in link.get("others", ())]
        twins = f"  not to {', '.join(others)}, which has the name, too" if others else ""
        return f"{place}{more}  {relation}→ {to}{paint('yellow', newer)}{paint('yellow', twins)}"
    if elsewhere := link.get("elsewhere"):
        there = clean_line(console.roots.get(elsewhere["workspace"], ""))
        to = render_path(elsewhere["to"], there, console.cwd)
        return f"{place}{more}  {relation}→ [{elsewhere['name']}] {to}"
    heading = f"#{link['heading']}" if link["heading"] else ""
    similar = f"; similar: {link['similar']}" if link["similar"] else ""
    missing = "outside the workspace" if link["is_outside"] else f"no such note{similar}"
    missing = paint("yellow", missing)
    return f"{place}{more}  {relation}→ [[{link['target']}{heading}]]  {missing}"
