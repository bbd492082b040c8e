"""Add, find, list, sync and remove workspaces: `memsyncd add`, `discover`, `list`, `sync`,
`reindex`, `remove`.
"""

from __future__ import annotations

import os

from memsyncd.errors import BadRequest, MemsyncdError, PathRefused
from memsyncd.terminal.console import can_ask, show_answer, show_until_indexed, wait_with_progress
from memsyncd.terminal.format import (
    render_count,
    render_duration,
    render_lines,
    render_meta,
    render_path,
    render_tags,
    render_worth,
)
from memsyncd.terminal.parser import find_nearest
from memsyncd.terminal.terminal import clean_line, clean_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any

    from memsyncd.terminal.console import Console
    from memsyncd.terminal.terminal import Paint


# --- add and remove -----------------------------------------------------------------------------


def name_folder(args: Args, _console: Console) -> dict[str, Any]:
    """Return the parameter `path`, made absolute. Raises the errors of `find_folder`."""
    return {"path": find_folder(args.path)}


_FOLDER_HINT = "name a folder that exists, or begin a new one: memsyncd init FOLDER"


def find_folder(path: str) -> str:
    """Return the folder's absolute path. Raises BadRequest if it is not a folder, PathRefused if it
    is too wide for a workspace.
    """
    full = os.path.abspath(os.path.expanduser(path))
    if not os.path.isdir(full):
        raise BadRequest(f"{path} is not a folder", hint=_FOLDER_HINT)
    if os.path.realpath(full) in ("/", os.path.realpath(os.path.expanduser("~"))):
        raise PathRefused(f"{full} is too wide to be a workspace", hint="name a folder within it")
    return full


def show_added_workspaces(answer: dict[str, Any], args: Args, console: Console) -> None:
    show_until_indexed(console)
    _print_workspaces(answer, console)
    answer = clean_values(answer)
    lines = (
        describe_added_projects(answer)
        if answer.get("collections")
        else describe_found(answer["found"], answer["workspaces"][0], clean_line(args.path))
    )
    for line in lines:
        console.terminal.report(line)


def describe_added_projects(answer: dict[str, Any]) -> list[str]:
    """Describe an added collection: its workspaces, its notes, and how to leave out a project."""
    found, name = answer["found"], answer["collections"][0]["name"]
    counted = "" if found["is_complete"] else "more than "
    notes = counted + render_count(found["notes"], "note")
    folders = render_count(len(answer["workspaces"]), "memory folder")
    return [
        f"{found['what']}: {folders}, {notes}; a project's is added with its first note",
        f"to leave one out: memsyncd remove NAME; all of them: memsyncd remove {name}",
    ]


def describe_found(found: dict[str, Any], info: dict[str, Any], path: str) -> list[str]:
    """Describe an added folder: its kind, its notes, and how to index others."""
    if found["worktree"] and found["worktree"] != info["root"]:
        shared = f"{found['worktree']} is a linked git worktree: it shares the memory of"
        return [
            f"{shared} {info['root']}",
            'for a memory of its own: worktrees = "own" under [sync], see memsyncd config path',
        ]
    if found["worktree"]:
        own = f"{found['worktree']} is a linked git worktree with memory of its own"
        return [own, *(f"it shares {path}" for path in found["shared"])]
    counted = "" if found["is_complete"] else "more than "
    inner = [f"{vault} is a vault: memsyncd add {vault}" for vault in found.get("vaults", ())]
    if not found["notes"]:
        return [*inner, *_suggest_notes(found, info, path, counted), *_describe_namesakes(found)]
    notes = counted + render_count(found["notes"], "note")
    folder = info["memory_dir"]
    where = "the folder itself" if folder == "." else f"{folder}/"
    lines = [f"{found['what']}: {notes}; memories are written to {where}"]
    if found["read_only"]:
        lines.append(f"read only: {', '.join(found['read_only'])}")
    # A daemon of an older version does not send them.
    for setting, globs in found.get("dropped", {}).items():
        option = f"--{setting.replace('_', '-')}"
        lines.append(f"dropped, name them again to keep them: {option} {', '.join(globs)}")
    if info["preset"] == "vault":
        if info["exclude"]:
            lines.append(f"left out: {', '.join(info['exclude'])}")
        return [*lines, "to change this: --preset memory, --include GLOB, --exclude GLOB"]
    lines += inner
    more = "to index more: --preset vault for every note, or --include GLOB"
    return [*lines, *_describe_namesakes(found), more]


def _describe_namesakes(found: dict[str, Any]) -> list[str]:
    """Name the files that look like a MEMORY.md but are not read, and say how to index them."""
    # A daemon of an older version does not send them.
    return [
        f"{name} is seen, but not read as memory; "
        + (f"index it: --include {name}" if "/" in name else "rename it to MEMORY.md")
        for name in found.get("namesakes", ())
    ]


def _suggest_notes(
    found: dict[str, Any], info: dict[str, Any], path: str, counted: str
) -> list[str]:
    """Say that there is nothing to index yet, and how to get a first note."""
    if info["preset"] == "vault":
        return [f"{found['what']}: nothing to index yet; new notes are found as they appear"]
    missing = "there is neither MEMORY.md nor .memories/"
    if info["include"]:
        missing = f"no note matches {', '.join(info['include'])}, and {missing}"
    if info["has_memory"]:
        missing = "MEMORY.md and .memories/ hold no note"
    nothing, first = f"nothing to index yet: {missing}", "create a first MEMORY.md: memsyncd init"
    if not found["others"]:
        return [nothing, f"{first} {path}"]
    notes = counted + render_count(found["others"], "note")
    every = f"the folder holds {notes}; index them all: memsyncd add {path} --preset vault"
    return [nothing, every, f"or {first} {path}"]


def show_removed(_answer: dict[str, Any], args: Args, console: Console) -> None:
    name = clean_line(args.workspace)
    console.terminal.report(f"{name} is no longer watched; its notes are unchanged")


# --- list ---------------------------------------------------------------------------------------


def list_workspaces_or_notes(args: Args, console: Console) -> int:
    """List workspaces; or the notes of a workspace, if an option concerns notes."""
    # A filter or a workspace applies to notes only, so it implies --notes.
    is_filtered = {"filters", "sort", "explain", "limit", "cursor"} & args.params.keys()
    is_filtered = is_filtered or args.template or args.paths
    if args.notes or args.sections or args.ids or is_filtered or args.workspace:
        if args.names:
            hint = "leave --names out, or what concerns notes"
            raise BadRequest("--names lists workspaces, the rest notes", hint=hint)
        return _list_notes(args, console)
    return show_answer(console.call("workspace.list"), args, console, show_workspaces)


def show_workspaces(answer: dict[str, Any], args: Args, console: Console) -> None:
    if args.names:
        for info in clean_values(answer)["workspaces"]:
            console.terminal.print(info["name"])
    elif answer["workspaces"] or answer["collections"]:
        _print_workspaces(answer, console)
    else:
        console.terminal.report("no workspace yet; add this folder with `memsyncd add .`")


def _list_notes(args: Args, console: Console) -> int:
    filters = dict(args.params.get("filters", {}))
    # Unlike the filter, the parameter `path` also lists notes without a section.
    path = filters.pop("path")[0] if len(args.path) == 1 and args.path[0] else None
    args.sections = bool(args.sections or filters or args.sort or args.explain or args.ids)
    # Whoever sorts by worth wants to see it.
    args.explain = args.explain or args.sort in ("worth", "decay")
    answer = console.call_on(
        args.workspace,
        "list",
        path=path,
        filters=filters or None,
        sort=args.sort,
        explain=args.explain or None,
        limit=args.params.get("limit"),
        cursor=args.params.get("cursor"),
        sections=None if args.sections or args.json else False,
    )
    return show_answer(answer, args, console, _show_notes, found="notes")


def _print_workspaces(answer: dict[str, Any], console: Console) -> None:
    paint = console.terminal.paint
    answer = clean_values(answer)
    rows = [_render_workspace(info) for info in answer["workspaces"]]
    rows += [_render_collection(info) for info in answer.get("collections", ())]
    console.terminal.print_table([[paint("bold", name), *rest] for name, *rest in rows])


def _render_workspace(info: dict[str, Any]) -> list[str]:
    every = ["**"] if info["preset"] == "vault" else []
    globs = [*every, *info["include"], *info["read_only"]]
    globs += ["!" + glob for glob in info["exclude"]]
    of_project = f"  memory of {info['project']}" if info.get("project") else ""
    marks = "".join("  " + glob for glob in globs) + of_project
    return [info["name"], info["root"], info["id"] + marks]


def _render_collection(info: dict[str, Any]) -> list[str]:
    count = render_count(len(info["workspaces"]), "workspace")
    state = "missing" if info["is_missing"] else count
    excluded = "".join(f"  !{glob}" for glob in info["exclude"])
    return [info["name"], info["root"], f"{info['id']}  each project's memory: {state}{excluded}"]


def _show_notes(answer: dict[str, Any], args: Args, console: Console) -> None:
    terminal, paint, notes = console.terminal, console.terminal.paint, clean_values(answer["notes"])
    root = clean_line(console.roots.get(answer["workspace"], ""))
    rows = [_render_note(note, root, console.cwd, paint) for note in notes]
    for note, row in zip(notes, terminal.line_up(rows), strict=True):
        terminal.print_row(row)
        if args.sections:
            for section in note["sections"]:
                lines = render_lines(section["start_line"], section["end_line"])
                terminal.print(_render_section(section, paint).rstrip(), hang=len(lines) + 2)
                if section["explain"]:
                    worth = render_worth(section["explain"])
                    terminal.print(paint("dim", f"{'':14}{worth}  {section['tier']}"))
    if not notes:
        terminal.report("no notes")
    if answer.get("cursor"):
        terminal.report(f"there are more; add: --cursor {answer['cursor']}")


def _render_note(note: dict[str, Any], root: str, cwd: str, paint: Paint) -> list[str]:
    marks = "  ".join(filter(None, [note["kind"] or "", render_tags(note["tags"])]))
    path = paint("bold blue", render_path(note["path"], root, cwd))
    return [
        paint.link(path, os.path.join(root, note["path"]), 1),
        note["title"],
        render_count(note["n_lines"], "line"),
        marks,
    ]


def _render_section(section: dict[str, Any], paint: Paint) -> str:
    lines = render_lines(section["start_line"], section["end_line"])
    title = section["heading"][-1] if section["heading"] else "(before the first heading)"
    marks = render_meta(section)
    indent = "  " * max(section["level"] - 1, 0)
    place = f"{paint('dim', f'{lines:>12}')}  {paint.render_id(section)}"
    return f"{place}{indent}{title}  {paint('cyan', marks)}"


# --- sync and reindex ---------------------------------------------------------------------------

CHANGES = ("added", "modified", "moved", "removed", "unchanged")


def sync_index(args: Args, console: Console) -> int:
    """Bring the index up to date, and draw the progress."""
    return _run_sync(args, console, full=args.full or None)


def reindex(args: Args, console: Console) -> int:
    """Build the index again, and draw the progress."""
    return _run_sync(args, console, rebuild=True)


def _run_sync(args: Args, console: Console, **params: object) -> int:
    workspace = console.find_workspace(args.workspace)["id"]
    console.set_timeout_ms(args.timeout_ms)
    request_id = console.client.send(
        "sync", workspace=workspace, timeout_ms=args.timeout_ms, **params
    )
    report = wait_with_progress(
        console, request_id, timeout_s=args.timeout_ms and console.client.timeout_s
    )
    return show_answer(report, args, console, _show_report)


def _show_report(report: dict[str, Any], _args: Args, console: Console) -> None:
    cleaned = clean_values(report)
    console.terminal.print(render_sync_report(cleaned, console.terminal.paint))
    for failed in cleaned["failed"]:
        console.terminal.report(
            f"{console.terminal.err_paint('yellow', failed['path'])}  {failed['problem']}"
        )


def render_sync_report(report: dict[str, Any], paint: Paint) -> str:
    """Render the changes of notes, the written chunks and the duration, on one line."""
    changes = [f"{report[change]:,} {change}" for change in CHANGES if report[change]] or [
        "no notes"
    ]
    chunks = report["chunks"]
    written = [
        render_count(chunks["upserted"], "chunk") + " written" if chunks["upserted"] else "",
        f"{chunks['deleted']:,} deleted" if chunks["deleted"] else "",
    ]
    failed = paint("yellow", f"{len(report['failed']):,} failed") if report["failed"] else ""
    took = paint(
        "dim", f"{render_duration(report['duration_ms'] / 1000)}, generation {report['generation']}"
    )
    return " · ".join(filter(None, [", ".join(changes), *written, failed, took]))


# --- discover -----------------------------------------------------------------------------------

# Environment variables that move the folders of tools.
TOOL_VARIABLES = {
    "claude_dir": "CLAUDE_CONFIG_DIR",
    "codex_dir": "CODEX_HOME",
    "config_dir": "XDG_CONFIG_HOME",
    "zk_dir": "ZK_NOTEBOOK_DIR",
}


def discover_places(args: Args, console: Console) -> int:
    """List the places of this machine that have notes, or add them."""
    if args.names and not args.add:
        raise BadRequest("names are for --add", hint="add these: memsyncd discover --add NAME")
    # By the XDG specification, a relative path counts as unset.
    named = {key: console.env.get(variable, "") for key, variable in TOOL_VARIABLES.items()}
    folders = {key: path for key, path in named.items() if path.startswith("/")}
    answer = console.call("workspace.discover", path=console.cwd or None, **folders)
    if not args.add:
        return show_answer(answer, args, console, _show_places, found="places")
    chosen = choose_places(answer["places"], args.names)
    if not chosen:
        console.terminal.report("nothing to add: every place that was found is watched already")
        return 0
    if not (args.names or args.yes):
        _confirm_places(clean_values(chosen), console)
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
    """Return the places with these names, or all places without names, that are not watched yet.

    Raises BadRequest for a name that no place has, and for a place that cannot be added.
    """
    by_name = {place["name"]: place for place in places}
    for name in names:
        if name not in by_name:
            nearest = find_nearest(name, by_name)
            all_names = ", ".join(by_name) or "none"
            hint = f"did you mean {nearest}?" if nearest else f"known: {all_names}"
            raise BadRequest(f"no place is called {name}", hint=hint)
        if by_name[name]["refusal"]:
            reason = by_name[name]["refusal"]
            hint = "name another place, or a folder within: memsyncd add PATH"
            raise BadRequest(f"{name} cannot be added: {reason}", hint=hint)
    chosen = [by_name[name] for name in dict.fromkeys(names)] if names else places
    return [place for place in chosen if place["add"] is not None]


def _confirm_places(places: list[dict[str, Any]], console: Console) -> None:
    """Ask before all places are added. Raises BadRequest unless the answer is yes."""
    for place in places:
        console.terminal.report(f"{place['name']}  {place['command']}")
    if not can_ask():
        hint = "add --yes to add all of these, or name some: memsyncd discover --add NAME"
        raise BadRequest("nothing was added: there is no terminal to ask", hint=hint)
    if not console.confirm(f"Add {render_count(len(places), 'place')}?"):
        raise BadRequest("nothing was added", hint="answer y, or use --yes")


def _add_places(places: list[dict[str, Any]], args: Args, console: Console) -> int:
    """Add each place. A failure is reported and decides the exit status; other places follow."""
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
