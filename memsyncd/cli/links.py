"""Show how notes link to each other: `memsyncd links`."""

from __future__ import annotations

import os

from memsyncd.cli.console import NOTHING_FOUND, report_freshness
from memsyncd.cli.format import render_path
from memsyncd.cli.note_arguments import find_workspace_note, parse_target, roots_by_id
from memsyncd.cli.parser import (
    JSON,
    Argument,
    Command,
    Option,
    make_workspace_option,
)
from memsyncd.cli.terminal import clean, clean_values
from memsyncd.errors import BadRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any, Final

    from memsyncd.cli.console import Console

DEFAULT_LIMIT: Final = 100
# The most that the daemon returns at a time.
MAX_LIMIT: Final = 10_000


def _links(args: Args, console: Console) -> int:
    roots = roots_by_id(console.call("workspace.list")["workspaces"])
    root, place = _find_place(args.target, console, roots)
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
    if args.json:
        console.terminal.print_json(answer)
    else:
        _print_links(answer, roots.get(answer["workspace"], ""), console)
    return 0 if answer["links"] else NOTHING_FOUND


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
        console.terminal.report(console.terminal.err_paint("yellow", text))
    return {**answer, "links": links}


def _find_place(
    text: str | None, console: Console, roots: dict[str, str]
) -> tuple[str | None, dict[str, str]]:
    """Return the root above the note, if known, and the parameter that names note or section."""
    if text is None:
        return None, {}
    target = parse_target(text)
    if target.start_line is not None:
        raise BadRequest(
            f"links are those of a note or section, not of lines: {text}",
            hint="name it as PATH or PATH#heading",
        )
    root, path = find_workspace_note(target.path, console.cwd, list(roots.values()))
    if target.heading is None:
        return root, {"path": path}
    return root, {"anchor": f"{path}#{target.heading}"}


def _print_links(answer: dict[str, Any], root: str, console: Console) -> None:
    terminal = console.terminal
    if answer["drawing"] is not None:
        terminal.print(clean(answer["drawing"]).rstrip("\n"))
    else:
        for link in clean_values(answer["links"]):
            terminal.print(_render_link(link, root, console))
    n_left_out = answer["n_links"] - len(answer["links"])
    if n_left_out:
        terminal.report(f"{n_left_out:,} more; show them with --limit {answer['n_links']}")
    if not answer["links"]:
        terminal.report("no links")
    report_freshness(answer, console)


def _render_link(link: dict[str, Any], root: str, console: Console) -> str:
    paint = console.terminal.paint
    path = link["source"].rpartition("#")[0]
    first, *others = link["lines"]
    place = f"{render_path(path, root, console.cwd)}:{first}"
    place = paint.link(paint("bold blue", place), os.path.join(root, path), first)
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
