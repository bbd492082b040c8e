"""`memsyncd discover`: list the places on this machine that have notes, and add them on request."""

from __future__ import annotations

from memsyncd.cli.calls import show_answer
from memsyncd.cli.console import can_ask, show_until_indexed
from memsyncd.cli.format import render_count
from memsyncd.cli.parser import JSON, Argument, Command, Option, find_nearest
from memsyncd.cli.terminal import clean_line, clean_values
from memsyncd.errors import BadRequest, MemsyncdError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any

    from memsyncd.cli.console import Console

# The variables by which tools are told to keep their things elsewhere.
VARIABLES = {
    "claude_dir": "CLAUDE_CONFIG_DIR",
    "codex_dir": "CODEX_HOME",
    "config_dir": "XDG_CONFIG_HOME",
    "zk_dir": "ZK_NOTEBOOK_DIR",
}


def _discover(args: Args, console: Console) -> int:
    if args.names and not args.add:
        raise BadRequest("names are for --add", hint="add these: memsyncd discover --add NAME")
    # As XDG says, a relative path counts as unset.
    named = {key: console.env.get(variable, "") for key, variable in VARIABLES.items()}
    folders = {key: path for key, path in named.items() if path.startswith("/")}
    answer = console.call("workspace.discover", path=console.cwd or None, **folders)
    if not args.add:
        return show_answer(answer, args, console, _show_places, found="places")
    chosen = choose_places(answer["places"], args.names)
    if not chosen:
        console.terminal.report("nothing to add: every place that was found is watched already")
        return 0
    if not (args.names or args.yes):
        _confirm(clean_values(chosen), console)
    return _add_places(chosen, args, console)


def _show_places(answer: dict[str, Any], _args: Args, console: Console) -> None:
    terminal, places = console.terminal, clean_values(answer["places"])
    for place in places:
        terminal.print(terminal.paint("bold", place["name"]) + "  " + describe_place(place))
        terminal.print(f"  {place['path']}")
        if place["command"]:
            terminal.print(f"  {terminal.paint('cyan', '→')} {place['command']}")
    if not places:
        terminal.report("no memory of an agent, no vault and no rules of this repository found")
        terminal.report("add a folder of notes: memsyncd add PATH")
    if n_new := sum(bool(place["command"]) for place in places):
        terminal.report(f"add {'it' if n_new == 1 else 'them all'}: memsyncd discover --add")


def describe_place(place: dict[str, Any]) -> str:
    """Describe a place: what it is, its notes, and whether it is watched."""
    counted = "" if place["is_complete"] else "at least "
    parts = [f"{place['what']}: {counted}{render_count(place['notes'], 'note')}"]
    if place["refusal"]:
        parts.append(f"cannot be added: {place['refusal']}")
    elif place["workspace"] is None:
        parts.append("not watched")
    else:
        parts.append(f"watched as {place['workspace']}")
    return "; ".join(parts)


def choose_places(places: list[dict[str, Any]], names: list[str]) -> list[dict[str, Any]]:
    """Return the places of these names, or without names all, that are not watched already.

    Raises BadRequest for a name that no place has, and for a place that cannot be added.
    """
    by_name = {place["name"]: place for place in places}
    for name in names:
        if name not in by_name:
            near = find_nearest(name, by_name)
            known = f"did you mean {near}?" if near else f"known: {', '.join(by_name) or 'none'}"
            raise BadRequest(f"no place is called {name}", hint=known)
        if by_name[name]["refusal"]:
            reason = by_name[name]["refusal"]
            hint = "name another place, or a folder within: memsyncd add PATH"
            raise BadRequest(f"{name} cannot be added: {reason}", hint=hint)
    chosen = [by_name[name] for name in dict.fromkeys(names)] if names else places
    return [place for place in chosen if place["add"] is not None]


def _confirm(places: list[dict[str, Any]], console: Console) -> None:
    """Ask before all places are added. Raises BadRequest unless the answer is yes."""
    for place in places:
        console.terminal.report(f"{place['name']}  {place['command']}")
    if not can_ask():
        hint = "add --yes to add all of these, or name some: memsyncd discover --add NAME"
        raise BadRequest("nothing was added: there is no terminal to ask", hint=hint)
    if not console.confirm(f"Add {render_count(len(places), 'place')}?"):
        raise BadRequest("nothing was added", hint="answer y, or use --yes")


def _add_places(places: list[dict[str, Any]], args: Args, console: Console) -> int:
    """Add each place. One that fails is reported, and decides the exit status; others follow."""
    status, answers = 0, []
    for place in places:
        try:
            answer = console.call("workspace.add", **place["add"])
        except MemsyncdError as failure:
            status = failure.exit_status
            remedy = f"; {failure.hint}" if failure.hint else ""
            message = f"{place['name']} was not added: {failure.message}{remedy}"
            console.terminal.report(clean_line(message))
            continue
        answers.append(answer)
        if not args.json:
            name = place["workspace"] or (answer["collections"] or answer["workspaces"])[0]["name"]
            notes = render_count(answer["found"]["notes"], "note")
            line = f"added {name}: {answer['found']['what']}, {notes}"
            console.terminal.print(clean_line(line))
    if args.json:
        console.terminal.print_json({"added": answers})
    show_until_indexed(console)
    return status


COMMANDS = {
    "discover": Command(
        _discover,
        arguments=(Argument("names", "[NAME…]", "with --add: only these of the places"),),
        options=(
            Option("--add", "add the named places, or all, after a question"),
            Option("-y --yes", "add all without asking; needed without a terminal"),
            JSON,
        ),
        examples=(
            "memsyncd discover",
            "memsyncd discover --add claude-code vault",
            "memsyncd discover --add --yes",
        ),
    ),
}
