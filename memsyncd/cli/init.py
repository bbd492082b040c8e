"""`memsyncd init`: what does a folder need to begin with memory? A MEMORY.md and .memories/; what stands there is left alone."""

from __future__ import annotations

import os

from memsyncd.cli.grammar import Argument, Command
from memsyncd.cli.places import show_path
from memsyncd.cli.progress import show_until_indexed
from memsyncd.cli.terminal import clean_line
from memsyncd.errors import BadRequest, NoDaemon, PathRefused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args

    from memsyncd.cli.console import Console

FIRST_NOTES = {
    "MEMORY.md": """\
# Memory

What is worth knowing next time, in plain words: decisions with their reasons, preferences, errors and how they were
solved. A heading for each topic. What deserves a note of its own goes into `.memories/`.
""",
    ".memories/context.md": """\
# Context

What this is about, who takes part, and what is under way.
""",
}


def _act(args: Args, console: Console) -> int:
    root = find_folder(args.path or ".")
    terminal = console.terminal
    made = write_first_notes(root)
    for path in made:
        terminal.print(f"made {clean_line(show_path(path, root, console.cwd))}")
    if not made:
        terminal.say("everything is there already; nothing was changed")
    try:
        console.ask("workspace.add", path=root)
    except NoDaemon:
        terminal.say(f"no daemon runs: `memsyncd start {clean_line(root)}` starts one and indexes this folder")
        return 0
    show_until_indexed(console)
    terminal.say("the daemon watches and indexes it")
    return 0


def find_folder(path: str) -> str:
    """The folder's absolute path. Raises BadRequest if it is none, PathRefused if it is too wide to be a workspace."""
    full = os.path.abspath(os.path.expanduser(path))
    if not os.path.isdir(full):
        raise BadRequest(f"{path} is not a folder", hint="name a folder that exists")
    if os.path.realpath(full) in ("/", os.path.realpath(os.path.expanduser("~"))):
        raise PathRefused(f"{full} is too wide to be a workspace", hint="name a folder within it")
    return full


def write_first_notes(root: str) -> list[str]:
    """Make what is missing of the first notes. Returns the paths made, from the root; nothing is ever written over."""
    if os.path.isdir(os.path.join(root, ".memories")):
        wanted = ["MEMORY.md"]
    else:
        wanted = list(FIRST_NOTES)
        os.mkdir(os.path.join(root, ".memories"))
    return [path for path in wanted if _write_new(os.path.join(root, path), FIRST_NOTES[path])]


def _write_new(path: str, text: str) -> bool:
    # O_EXCL refuses whatever has the name, be it a link that leads elsewhere.
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    except FileExistsError:
        return False
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    return True


COMMANDS = {
    "init": Command(
        _act,
        arguments=(Argument("path", "PATH", "the folder; by default the current one", many="optional"),),
        examples=("memsyncd init", "memsyncd init ~/notes"),
    )
}
