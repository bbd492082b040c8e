"""Begin a memory: `memsyncd init`."""

from __future__ import annotations

import os

from memsyncd.dirs import find_user_dirs
from memsyncd.errors import BadRequest, NoDaemon
from memsyncd.first_notes import FIRST_NOTES
from memsyncd.operations.workspaces.show import describe_found, find_folder
from memsyncd.terminal.console import can_ask, show_until_indexed
from memsyncd.terminal.format import render_path
from memsyncd.terminal.parser import Argument, Command, Option
from memsyncd.terminal.terminal import clean_line, clean_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args

    from memsyncd.terminal.console import Console


def _init(args: Args, console: Console) -> int:
    if args.user:
        return _init_user_wide(args, console)
    root = find_memory_root(create_folder(args.path or "."), console)
    terminal = console.terminal
    _check_repository(args, root)
    # A vault has notes already: with --merge-driver it gets only the driver.
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
    """Return the folder that holds the memory of this folder. For a linked git worktree that shares
    the memory of the main worktree it is the main worktree, which only the daemon knows.
    """
    # A submodule has a file `.git` too; the daemon finds that it is no worktree.
    if not os.path.isfile(os.path.join(folder, ".git")):
        return folder
    try:
        answer = console.call("workspace.add", path=folder)
    except NoDaemon:
        return folder
    place, root = answer["found"], str(answer["workspaces"][0]["root"])
    if place["worktree"]:
        for line in describe_found(clean_values(place), answer["workspaces"][0], folder):
            console.terminal.report(line)
    return os.path.dirname(place["shared"][0]) if place["shared"] else root


def _check_repository(args: Args, root: str) -> None:
    """Raise BadRequest for --merge-driver outside of a git repository."""
    from memsyncd.cli.git_merges import is_repository

    if args.merge_driver and not is_repository(root):
        hint = "begin a repository: git init"
        raise BadRequest(f"{root} is in no repository of git", hint=hint)


def _offer_merge_driver(args: Args, console: Console, root: str) -> None:
    """Set up the merge driver with --merge-driver, or after a yes on a terminal; else say how."""
    from memsyncd.cli.git_merges import add_driver, find_missing

    is_vault = _is_vault(console, root)
    missing = find_missing(root, is_vault=is_vault)
    if not (missing or args.merge_driver):
        return
    terminal = console.terminal
    if args.merge_driver or _confirm_merge_driver(console):
        from memsyncd.cli.agent_files import find_invocation
        from memsyncd.integrations.coding_agents import USER

        add_driver(root, find_invocation(USER), is_vault=is_vault)
        terminal.report("git merges memories by sections: see .gitattributes and git config")
        terminal.report("each other clone needs this once: memsyncd init --merge-driver")
    elif not terminal.is_err_terminal:
        folder = clean_line(args.path or ".")
        terminal.report(f"{missing}; have it: memsyncd init --merge-driver {folder}")


def _is_vault(console: Console, root: str) -> bool:
    """Return whether a workspace at this folder is a vault: every markdown file is a note."""
    try:
        answer = console.call("workspace.list")
    except NoDaemon:
        return False
    presets = [info["preset"] for info in answer["workspaces"] if info["root"] == root]
    return presets == ["vault"]


def _confirm_merge_driver(console: Console) -> bool:
    question = (
        "Two branches may each change memories. Have git merge them by sections, with lines in "
        ".gitattributes and a merge driver in its configuration?"
    )
    return console.terminal.is_err_terminal and can_ask() and console.confirm(question)


def create_folder(path: str) -> str:
    """Create the folder and its parents if they are missing. Return the folder as `find_folder`
    does. Raises BadRequest.
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
    """Create the first notes that are missing, and overwrite none. Return the paths of the created
    notes, relative to the root.
    """
    if os.path.isdir(os.path.join(root, ".memories")):
        names = ["MEMORY.md"]
    else:
        names = list(FIRST_NOTES)
        folder = os.path.join(root, ".memories")
        os.mkdir(folder)
        os.chmod(folder, os.stat(folder).st_mode & ~0o777 | os.stat(root).st_mode & 0o777)
    return [path for path in names if _write_new(os.path.join(root, path), FIRST_NOTES[path])]


def _write_new(path: str, text: str) -> bool:
    # O_EXCL refuses every existing entry, including a dangling link.
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    except FileExistsError:
        return False
    with open(descriptor, "w", encoding="utf-8") as file:
        # The permissions of the folder apply, as for notes that the daemon creates.
        os.fchmod(descriptor, os.stat(os.path.dirname(path)).st_mode & 0o666)
        file.write(text)
    return True


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
}
