"""Manage workspaces: `memsyncd init`, `add`, `discover`, `remove`, `list`, `sync`, `reindex`,
`watch`.
"""

from __future__ import annotations

import os
import time

from memsyncd.cli.search import FILTERS, SORT, filters_from
from memsyncd.dirs import find_user_dirs
from memsyncd.errors import BadRequest, MemsyncdError, NoDaemon, PathRefused, WorkspaceNotFound
from memsyncd.first_notes import FIRST_NOTES
from memsyncd.terminal.console import can_ask, show_answer, show_until_indexed, wait_with_progress
from memsyncd.terminal.format import (
    render_count,
    render_duration,
    render_lines,
    render_meta,
    render_path,
    render_table,
    render_tags,
)
from memsyncd.terminal.parser import (
    JSON,
    Argument,
    Command,
    Option,
    find_nearest,
    make_workspace_option,
)
from memsyncd.terminal.terminal import clean_line, clean_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any

    from memsyncd.terminal.console import Console
    from memsyncd.terminal.terminal import Paint


# --- init ---------------------------------------------------------------------------------------


def _init(args: Args, console: Console) -> int:
    if args.user:
        return _init_user_wide(args, console)
    root = find_memory_root(create_folder(args.path or "."), console)
    terminal = console.terminal
    _check_repository(args, root)
    # A vault has its notes already, and they are all that the driver is for.
    is_driver_alone = args.merge_driver and _is_vault(console, root)
    created = [] if is_driver_alone else create_first_notes(root)
    for path in created:
        terminal.print(f"created {clean_line(render_path(path, root, console.cwd))}")
    if not (created or is_driver_alone):
        terminal.report("the files exist already; nothing was changed")
    _offer_merge_driver(args, console, root)
    try:
        console.call("workspace.add", path=root)
    except NoDaemon:
        terminal.report(
            f"no daemon runs; start one and index this folder: memsyncd start {clean_line(root)}"
        )
        return 0
    show_until_indexed(console)
    terminal.report("the daemon watches and indexes it")
    return 0


def _init_user_wide(args: Args, console: Console) -> int:
    root = create_folder(args.path or find_user_dirs(console.env).user_memory)
    terminal = console.terminal
    _check_repository(args, root)
    for path in create_first_notes(root):
        terminal.print(f"created {clean_line(os.path.join(root, path))}")
    if args.merge_driver:
        _offer_merge_driver(args, console, root)
    try:
        answer = console.call("workspace.add", path=root, user=True)
    except NoDaemon:
        terminal.report("no daemon runs; start one and repeat this: memsyncd start")
        return NoDaemon.exit_status
    show_until_indexed(console)
    name = clean_line(answer["workspaces"][0]["name"])
    terminal.report(
        "its MEMORY.md, pinned notes and preferences join the context of each workspace"
    )
    terminal.report(f"add to it: memsyncd remember TEXT --kind preference -w {name}")
    return 0


def find_memory_root(folder: str, console: Console) -> str:
    """Return the folder whose memory this one has: in a linked git worktree that shares any memory
    of the main one that folder, which only the daemon knows.
    """
    # A submodule has a file .git as well, and is a folder like any other.
    if not os.path.isfile(os.path.join(folder, ".git")):
        return folder
    try:
        answer = console.call("workspace.add", path=folder)
    except NoDaemon:
        return folder
    found, root = answer["found"], str(answer["workspaces"][0]["root"])
    if found["worktree"]:
        for line in describe_found(clean_values(found), answer["workspaces"][0], folder):
            console.terminal.report(line)
    return os.path.dirname(found["shared"][0]) if found["shared"] else root


def _check_repository(args: Args, root: str) -> None:
    """Raise BadRequest if a merge driver is asked for where git has no repository."""
    from memsyncd.cli.git_merges import is_repository

    if args.merge_driver and not is_repository(root):
        hint = "begin a repository: git init"
        raise BadRequest(f"{root} is in no repository of git", hint=hint)


def _offer_merge_driver(args: Args, console: Console, root: str) -> None:
    """Have git merge memories, if that is asked for; else ask on a terminal, or say how."""
    from memsyncd.cli.git_merges import add_driver, find_missing

    is_vault = _is_vault(console, root)
    missing = find_missing(root, is_vault=is_vault)
    if not (missing or args.merge_driver):
        return
    terminal = console.terminal
    if args.merge_driver or _confirm_merge_driver(console):
        from memsyncd.cli.integrate import find_invocation
        from memsyncd.integrations.coding_agents import USER

        add_driver(root, find_invocation(USER), is_vault=is_vault)
        terminal.report("git merges memories by sections: see .gitattributes and git config")
        terminal.report("each other clone needs this once: memsyncd init --merge-driver")
    elif not terminal.is_err_terminal:
        folder = clean_line(args.path or ".")
        terminal.report(f"{missing}; have it: memsyncd init --merge-driver {folder}")


def _is_vault(console: Console, root: str) -> bool:
    """Whether a workspace at this folder has every file of markdown for a note."""
    try:
        answer = console.call("workspace.list")
    except NoDaemon:
        return False
    presets = [one["preset"] for one in answer["workspaces"] if one["root"] == root]
    return presets == ["vault"]


def _confirm_merge_driver(console: Console) -> bool:
    question = (
        "Two branches may each change memories. Have git merge them by sections, with lines in "
        ".gitattributes and a merge driver in its configuration?"
    )
    return console.terminal.is_err_terminal and can_ask() and console.confirm(question)


def find_folder(path: str) -> str:
    """Return the folder's absolute path. Raises BadRequest for anything else, PathRefused for a
    folder too wide for a workspace.
    """
    full = os.path.abspath(os.path.expanduser(path))
    if not os.path.isdir(full):
        raise BadRequest(f"{path} is not a folder", hint="name a folder that exists")
    if os.path.realpath(full) in ("/", os.path.realpath(os.path.expanduser("~"))):
        raise PathRefused(f"{full} is too wide to be a workspace", hint="name a folder within it")
    return full


def create_folder(path: str) -> str:
    """Create the folder and its parents if they are missing. Returns and raises as
    `find_folder`.
    """
    full = os.path.abspath(os.path.expanduser(path))
    try:
        os.makedirs(full, exist_ok=True)
    except FileExistsError:
        pass  # a file has this name: find_folder refuses it
    except OSError as error:
        hint = "name a folder that you may create"
        raise BadRequest(f"{path} cannot be created: {error.strerror}", hint=hint) from None
    return find_folder(path)


def create_first_notes(root: str) -> list[str]:
    """Create the first notes that are missing. Return their paths, relative to the root; nothing is
    overwritten.
    """
    if os.path.isdir(os.path.join(root, ".memories")):
        wanted = ["MEMORY.md"]
    else:
        wanted = list(FIRST_NOTES)
        folder = os.path.join(root, ".memories")
        os.mkdir(folder)
        os.chmod(folder, os.stat(folder).st_mode & ~0o777 | os.stat(root).st_mode & 0o777)
    return [path for path in wanted if _write_new(os.path.join(root, path), FIRST_NOTES[path])]


def _write_new(path: str, text: str) -> bool:
    # O_EXCL refuses every existing entry, including a dangling link.
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    except FileExistsError:
        return False
    with open(descriptor, "w", encoding="utf-8") as file:
        # The folder's permissions, as for the notes that the daemon creates.
        os.fchmod(descriptor, os.stat(os.path.dirname(path)).st_mode & 0o666)
        file.write(text)
    return True


# --- add, remove and list -----------------------------------------------------------------------


def _add(args: Args, console: Console) -> int:
    answer = console.call(
        "workspace.add",
        path=find_folder(args.path),
        name=args.name,
        preset=args.preset,
        include=args.include or None,
        exclude=args.exclude or None,
        read_only=args.read_only or None,
        memory_dir=args.memory_dir,
    )
    return show_answer(answer, args, console, _show_added)


def _show_added(answer: dict[str, Any], args: Args, console: Console) -> None:
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
    """Describe a collection that was added: its workspaces, its notes, and how to leave one out."""
    found, name = answer["found"], answer["collections"][0]["name"]
    counted = "" if found["is_complete"] else "more than "
    notes = counted + render_count(found["notes"], "note")
    folders = render_count(len(answer["workspaces"]), "memory folder")
    return [
        f"{found['what']}: {folders}, {notes}; a project's is added with its first note",
        f"to leave one out: memsyncd remove NAME; all of them: memsyncd remove {name}",
    ]


def describe_found(found: dict[str, Any], info: dict[str, Any], path: str) -> list[str]:
    """Describe what was added: what the folder is, its notes, and how to change that."""
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
    if not found["notes"]:
        return [*_suggest_notes(found, info, path, counted), *_describe_namesakes(found)]
    notes = counted + render_count(found["notes"], "note")
    folder = info["memory_dir"]
    where = "the folder itself" if folder == "." else f"{folder}/"
    lines = [f"{found['what']}: {notes}; memories are written to {where}"]
    if found["read_only"]:
        lines.append(f"read only: {', '.join(found['read_only'])}")
    if info["preset"] == "vault":
        return [*lines, "to change this: --preset memory, --include GLOB, --exclude GLOB"]
    more = "to index more: --preset vault for every note, or --include GLOB"
    return [*lines, *_describe_namesakes(found), more]


def _describe_namesakes(found: dict[str, Any]) -> list[str]:
    """Name the files that are nearly the workspace's MEMORY.md, and how they are read."""
    # A daemon that was started before an update sends none.
    return [
        f"{name} is seen, but not read as memory; "
        + (f"index it: --include {name}" if "/" in name else "rename it to MEMORY.md")
        for name in found.get("namesakes", ())
    ]


def _suggest_notes(
    found: dict[str, Any], info: dict[str, Any], path: str, counted: str
) -> list[str]:
    """Say that there is nothing to index, and what would give a note."""
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


def _remove(args: Args, console: Console) -> int:
    answer = console.call("workspace.remove", workspace=console.name_workspace(args.workspace))
    return show_answer(answer, args, console, _show_removed)


def _show_removed(_answer: dict[str, Any], args: Args, console: Console) -> None:
    name = clean_line(args.workspace)
    console.terminal.report(f"{name} is no longer watched; its notes are unchanged")


def _list(args: Args, console: Console) -> int:
    # A filter or a workspace applies to notes only, so it implies --notes.
    is_filtered = filters_from(args) or args.sort or args.explain
    if args.notes or args.sections or is_filtered or args.workspace:
        if args.names:
            hint = "leave --names out, or what concerns notes"
            raise BadRequest("--names lists workspaces, the rest notes", hint=hint)
        return _list_notes(args, console)
    return show_answer(console.call("workspace.list"), args, console, _show_workspaces)


def _show_workspaces(answer: dict[str, Any], args: Args, console: Console) -> None:
    if args.names:
        for info in clean_values(answer)["workspaces"]:
            console.terminal.print(info["name"])
    elif answer["workspaces"] or answer["collections"]:
        _print_workspaces(answer, console)
    else:
        console.terminal.report("no workspace yet; add this folder with `memsyncd add .`")


def _list_notes(args: Args, console: Console) -> int:
    filters = filters_from(args) or {}
    # As a parameter of its own it also lists notes without a section.
    path = args.path[0] if len(args.path) == 1 else None
    if path:
        del filters["path"]
    args.sections = bool(args.sections or filters or args.sort or args.explain)
    answer = console.call_on(
        args.workspace,
        "list",
        path=path,
        filters=filters or None,
        sort=args.sort,
        explain=args.explain or None,
        # All sections of a large vault are more than an answer may hold.
        sections=None if args.sections or args.json else False,
    )
    return show_answer(answer, args, console, _show_notes, found="notes")


def _print_workspaces(answer: dict[str, Any], console: Console) -> None:
    paint = console.terminal.paint
    answer = clean_values(answer)
    rows = [_render_workspace(info) for info in answer["workspaces"]]
    rows += [_render_collection(info) for info in answer.get("collections", ())]
    for name, *rest in render_table(rows):
        console.terminal.print(paint("bold", name) + "".join(rest))


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
    rows = [_render_note(note, root, console.cwd) for note in notes]
    for note, (path, *rest) in zip(notes, render_table(rows), strict=True):
        name = path.rstrip()
        linked = paint.link(paint("bold blue", name), os.path.join(root, note["path"]), 1)
        terminal.print((linked + path[len(name) :] + "".join(rest)).rstrip())
        if args.sections:
            for section in note["sections"]:
                terminal.print(_render_section(section, paint).rstrip())
    if not notes:
        terminal.report("no notes")


def _render_note(note: dict[str, Any], root: str, cwd: str) -> list[str]:
    marks = "  ".join(filter(None, [note["kind"] or "", render_tags(note["tags"])]))
    return [
        render_path(note["path"], root, cwd),
        note["title"],
        render_count(note["n_lines"], "line"),
        marks,
    ]


def _render_section(section: dict[str, Any], paint: Paint) -> str:
    lines = render_lines(section["start_line"], section["end_line"])
    title = section["heading"][-1] if section["heading"] else "(before the first heading)"
    marks = render_meta(section)
    indent = "  " * max(section["level"] - 1, 0)
    shown = f"{paint('dim', f'{lines:>12}')}  {indent}{title}  {paint('cyan', marks)}"
    if not section["explain"]:
        return shown
    parts = "  ".join(f"{name} {part:g}" for name, part in section["explain"].items())
    return f"{shown}  {section['tier']}  {paint('dim', parts)}"


# --- sync and reindex ---------------------------------------------------------------------------

CHANGES = ("added", "modified", "moved", "removed", "unchanged")


def _sync(args: Args, console: Console) -> int:
    return _run_sync(args, console, full=args.full or None)


def _reindex(args: Args, console: Console) -> int:
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
    shown = clean_values(report)
    console.terminal.print(render_sync_report(shown, console.terminal.paint))
    for failed in shown["failed"]:
        console.terminal.report(
            f"{console.terminal.err_paint('yellow', failed['path'])}  {failed['problem']}"
        )


def render_sync_report(report: dict[str, Any], paint: Paint) -> str:
    """Render on one line the changes of notes, the chunks written and the duration."""
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


_SYNC_TIMEOUT = Option("--timeout-ms MS", "give up after this long; by default wait until done")


# --- watch --------------------------------------------------------------------------------------

N_PATHS_SHOWN = 6


def _watch(args: Args, console: Console) -> int:
    names = {
        info["id"]: clean_line(info["name"])
        for info in console.call("workspace.list")["workspaces"]
    }
    answer = _subscribe(args, console)
    terminal = console.terminal
    watched = ", ".join(
        f"{names.get(key, key)} (generation {n})" for key, n in answer["generations"].items()
    )
    terminal.note(f"watching {watched or 'all future workspaces'}; Ctrl-C ends")
    for method, change in console.client.notifications():
        if method != "changed":
            continue
        if args.json:
            terminal.print_json(change)
        else:
            terminal.print(
                render_change(
                    clean_values(change), names, terminal.paint, clock=time.strftime("%H:%M:%S")
                )
            )
        terminal.out.flush()
    return 0


def _subscribe(args: Args, console: Console) -> dict[str, Any]:
    paths = args.path or None
    if args.all and args.workspace is not None:
        raise BadRequest("--all and --workspace do not go together", hint="use only one of them")
    if args.all:
        return console.call("subscribe", paths=paths)
    if args.workspace is not None:
        return console.call(
            "subscribe", paths=paths, workspace=console.name_workspace(args.workspace)
        )
    try:
        return console.call("subscribe", paths=paths, workspace=console.cwd or None)
    except WorkspaceNotFound:
        return console.call("subscribe", paths=paths)


def render_change(
    change: dict[str, Any], names: dict[str, str], paint: Paint, *, clock: str
) -> str:
    """Render `12:03:44 notes generation 43 3 chunks .memories/redis.md`."""
    paths = [clean_line(path) for path in change["paths"]]
    shown = ", ".join(paths[:N_PATHS_SHOWN])
    if len(paths) > N_PATHS_SHOWN:
        shown += f" and {len(paths) - N_PATHS_SHOWN:,} more"
    if not change["complete"]:
        shown += "  (older changes are missing: search again)"
    return "  ".join(
        [
            paint("dim", clock),
            paint("bold", names.get(change["workspace"], change["workspace"])),
            f"generation {change['generation']}",
            render_count(change["chunks"], "chunk"),
            shown,
        ]
    )


# --- discover ------------------------------------------------------------------------------------

# The variables by which tools are told to keep their things elsewhere.
TOOL_VARIABLES = {
    "claude_dir": "CLAUDE_CONFIG_DIR",
    "codex_dir": "CODEX_HOME",
    "config_dir": "XDG_CONFIG_HOME",
    "zk_dir": "ZK_NOTEBOOK_DIR",
}


def _discover(args: Args, console: Console) -> int:
    if args.names and not args.add:
        raise BadRequest("names are for --add", hint="add these: memsyncd discover --add NAME")
    # As XDG says, a relative path counts as unset.
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
    "init": Command(
        _init,
        arguments=(Argument("path", "[PATH]", "the folder; by default the current one"),),
        options=(
            Option("--merge-driver", "have git merge memories of two branches by their sections"),
            Option("--user", "the user-wide memory, which joins the context of every workspace"),
        ),
        examples=("memsyncd init", "memsyncd init ~/notes", "memsyncd init --user"),
    ),
    "add": Command(
        _add,
        arguments=(Argument("path", "PATH", "the folder"),),
        options=(
            Option("--name NAME", "the workspace's name; by default the folder's"),
            Option(
                "--preset P",
                "memory: MEMORY.md and .memories/; vault: every note; claude-code: the memory of "
                "each project; else the folder decides",
                choices=("memory", "vault", "claude-code"),
            ),
            Option(
                "--include G…",
                "also index these, such as 'docs/**/*.md', and no longer those named before",
            ),
            Option("--exclude G…", "do not index these files"),
            Option("--read-only G…", "also index these, and never write"),
            Option("--memory-dir D", "the folder to write memories to; . for PATH itself"),
            JSON,
        ),
        examples=(
            "memsyncd add .",
            "memsyncd add ~/code/api --include 'docs/**/*.md' --read-only README.md",
            "memsyncd add ~/notes --preset vault --exclude drafts",
            "memsyncd add ~/.claude --preset claude-code",
        ),
    ),
    "remove": Command(
        _remove,
        arguments=(Argument("workspace", "WS", "a name, an id or the folder"),),
        options=(JSON,),
        examples=("memsyncd remove notes", "memsyncd remove ~/notes"),
    ),
    "list": Command(
        _list,
        options=(
            Option("--names", "print only the names of the workspaces"),
            Option("--notes", "list the notes of a workspace"),
            Option("--sections", "list notes with their sections"),
            *FILTERS,
            SORT,
            Option("--explain", "show what each section is worth at its age, and its tier"),
            make_workspace_option(),
            JSON,
        ),
        examples=(
            "memsyncd list",
            "memsyncd list --notes --kind decision",
            "memsyncd list -w notes --sections",
        ),
    ),
    "sync": Command(
        _sync,
        options=(
            Option(
                "--full", "read and hash every note again, even if its size and times are unchanged"
            ),
            make_workspace_option(),
            _SYNC_TIMEOUT,
            JSON,
        ),
        examples=("memsyncd sync", "memsyncd sync --full -w notes"),
    ),
    "reindex": Command(
        _reindex,
        options=(make_workspace_option(), _SYNC_TIMEOUT, JSON),
        examples=("memsyncd reindex", "memsyncd reindex -w notes"),
    ),
    "watch": Command(
        _watch,
        options=(
            make_workspace_option("watch this workspace"),
            Option("--all", "watch all workspaces"),
            Option("--path G…", "only notes that match"),
            Option("--json", "print each change as one line of JSON"),
        ),
        examples=("memsyncd watch", "memsyncd watch --all --json"),
    ),
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
