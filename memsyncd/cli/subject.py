"""Which section, note, folder or revision is a question of history about? What was typed, as the daemon takes it."""

from __future__ import annotations

from memsyncd.cli.grammar import Argument, Option, read_count
from memsyncd.cli.places import find_own_note, find_roots
from memsyncd.client.anchors import split_anchor
from memsyncd.errors import BadRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any, Final

    from memsyncd.cli.console import Console

MEMORIES = "/memories"

TARGET: Final = Argument("target", "ANCHOR|PATH|N", "a section, a note, or the number of a revision", many="optional")
REVISION: Final = Option("--revision", "revision N, which may stand as a word alone, too", metavar="N", read=read_count)


def find_subject(text: str | None, console: Console) -> tuple[str | None, dict[str, object]]:
    """The root that the path lies beneath, if that is known, and the parameters that name what is meant."""
    if text is None:
        return None, {}
    if not text:
        raise BadRequest("the name of the note is empty", hint="name a section, a note or a folder; a dot is for all of them")
    path, heading = split_anchor(text)
    root, path = find_writable(path, console, find_roots(console.ask("workspace.list")["workspaces"]))
    return root, {"path": path} if heading is None else {"anchor": f"{path}#{heading}"}


def find_writable(path: str, console: Console, roots: dict[str, str]) -> tuple[str | None, str]:
    """The root that the path lies beneath, if that is known, and the path from there; the memory tool's own stay as they are."""
    if path == MEMORIES or path.startswith(f"{MEMORIES}/"):
        return None, path
    return find_own_note(path, console.cwd, list(roots.values()))


def ask_about_change(args: Args, console: Console, method: str, **params: object) -> dict[str, Any]:
    """Ask about the revision that was named, or the latest one of a section or note. A number alone is a revision's."""
    target: str | None = args.target
    is_number = target is not None and target.isdecimal() and args.revision is None
    root, named = find_subject(None if is_number else target, console)
    revision = int(target or 0) if is_number else args.revision
    return console.ask_about(args.workspace or root, method, **named, revision=revision, **params)
