"""Show, delete and revert changes: `memsyncd history`, `history purge`, `diff` and `undo`."""

from __future__ import annotations

import time

from memsyncd.errors import BadRequest
from memsyncd.terminal.actions import send_confirmed
from memsyncd.terminal.console import DASH, can_ask, read_stdin, show_answer
from memsyncd.terminal.format import render_age, render_count, render_size
from memsyncd.terminal.places import find_revision
from memsyncd.terminal.terminal import clean, clean_line, clean_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import SimpleNamespace as Args
    from typing import Any

    from memsyncd.terminal.console import Console
    from memsyncd.terminal.terminal import Paint


# --- revisions as text --------------------------------------------------------------------------

EXTERNAL, FIRST_SEEN = "external", "first_seen"
TEXTS_GONE = "(its texts are no longer kept)"
# Styles of a diff's lines, after the two names, by their first character.
DIFF_STYLES = {"@": "cyan", "+": "green", "-": "red", "\\": "dim"}
N_NAMES = 2


def list_rows(
    revisions: Sequence[dict[str, Any]], paint: Paint, *, now_s: float
) -> list[list[str]]:
    """Return a row for each revision: number of the change, age, writer, command, size, path."""
    return [
        [
            paint("bold", str(revision["change_set"])),
            paint("dim", render_age(revision["at"], now_s)),
            describe_writer(revision),
            describe_change(revision),
            render_size_change(revision),
            render_path_change(revision) + ("" if revision["is_kept"] else f"  {TEXTS_GONE}"),
        ]
        for revision in revisions
    ]


def describe_writer(revision: dict[str, Any]) -> str:
    """Return the writer's name, `-` for a note that was first seen."""
    return str(revision["client"]) or ("-" if revision["command"] == FIRST_SEEN else EXTERNAL)


def describe_change(revision: dict[str, Any]) -> str:
    """Return the writer's command, or the kind of an external change."""
    command = str(revision["command"])
    if command == FIRST_SEEN:
        return "first seen"
    if command != EXTERNAL:
        return command
    if revision["old_path"] not in (None, revision["path"]):
        return "rename"
    return (
        "create"
        if revision["old_digest"] is None
        else "delete"
        if revision["new_digest"] is None
        else "edit"
    )


def render_size_change(revision: dict[str, Any]) -> str:
    """Render `+120 B`, `-40 B`, `±0 B`: the growth of the note."""
    growth_bytes = (revision["new_bytes"] or 0) - (revision["old_bytes"] or 0)
    sign = "+" if growth_bytes > 0 else "-" if growth_bytes < 0 else "±"
    return sign + render_size(abs(growth_bytes))


def render_path_change(revision: dict[str, Any]) -> str:
    """Render the path of a note; of a moved note, `OLD → NEW`."""
    path, old_path = str(revision["path"]), revision["old_path"]
    return path if old_path in (None, path) else f"{old_path} → {path}"


def render_diff(diff: str, paint: Paint) -> str:
    """Colour the lines of a unified diff."""
    lines = diff.removesuffix("\n").split("\n")
    names = [paint("bold", line) for line in lines[:N_NAMES]]
    return "\n".join(names + [_paint_line(line, paint) for line in lines[N_NAMES:]])


def _paint_line(line: str, paint: Paint) -> str:
    style = DIFF_STYLES.get(line[:1])
    return paint(style, line) if style else line


# --- history and diff ---------------------------------------------------------------------------

# The most revisions, and the daemon's default number of them.
MOST = 1000
DEFAULT_LIMIT = 20


def find_target(args: Args, console: Console) -> dict[str, Any]:
    """Return the parameters that name the note, section or folder of `history`, or a change."""
    return find_revision(args, console)


def show_revisions(answer: dict[str, Any], args: Args, console: Console) -> None:
    terminal, revisions = console.terminal, clean_values(answer["revisions"])
    terminal.print_table(list_rows(revisions, terminal.paint, now_s=time.time()))
    if not revisions:
        filters = {"since", "until", "writer", "before_change_set"} & args.params.keys()
        terminal.report("no change passes the filters" if filters else "no changes recorded")
    elif len(revisions) == (args.limit or DEFAULT_LIMIT):
        last = revisions[-1]["change_set"]
        is_cut = last in (each["change_set"] for each in revisions[-2:-1])
        more = f"; all of {last}: memsyncd history {last} -n {MOST}" if is_cut else ""
        terminal.note(f"older ones: --before {last}{more}")


def show_diff(answer: dict[str, Any], _args: Args, console: Console) -> None:
    if answer["diff"]:
        console.terminal.print(render_diff(clean(answer["diff"]), console.terminal.paint))
    else:
        console.terminal.report(f"{clean_line(answer['path'])}: both texts are the same")
    if answer.get("n_more"):
        n_more = render_count(answer["n_more"], "more note")
        console.terminal.note(f"and {n_more}; name one: memsyncd diff NOTE --change-set N")


def find_change(args: Args, console: Console) -> dict[str, Any]:
    """Return the parameters that name a change. Raises BadRequest if nothing is named."""
    if not (args.target or args.change_set):
        hint = "list changes with `memsyncd history`"
        raise BadRequest("name a section, a note or the number of a change", hint=hint)
    return find_revision(args, console)


def find_purged(args: Args, console: Console) -> dict[str, Any]:
    """Return the parameters that select revisions to purge, after a question if these are all of a
    workspace. Raises BadRequest if none is selected, or for another answer than yes.
    """
    containing = args.containing
    if containing == DASH:
        containing = read_stdin(console).removesuffix("\n")
    if (args.target, args.change_set, containing) == (None, None, None) and not args.all:
        raise BadRequest(
            "history purge: name the earlier texts to erase",
            hint="name a note, a change N, --containing TEXT or --everything",
        )
    params = {**find_revision(args, console), "containing": containing}
    is_whole = args.all or params.get("path") == "."
    if is_whole and containing is None and not args.yes:
        named = args.workspace or params.get("workspace")
        workspace = clean_values(console.find_workspace(named, to_write=True))
        _confirm_purge(workspace["root"], console)
    return params


def _confirm_purge(root: str, console: Console) -> None:
    message = f"the whole history of {root} would go for good"
    if not can_ask():
        raise BadRequest(message, hint="if it is meant, add --yes")
    if not console.confirm(f"{message}; erase it?"):
        raise BadRequest("nothing was purged", hint="answer y, or add --yes")


def show_purged(answer: dict[str, Any], _args: Args, console: Console) -> None:
    # Late, because shlex imports re.
    from shlex import quote

    terminal, answer = console.terminal, clean_values(answer)
    n_texts = render_count(answer["texts"], "text")
    terminal.report(
        f"forgot {render_count(answer['revisions'], 'revision')} and {n_texts}"
        if answer["revisions"]
        else "nothing to purge"
    )
    for path in answer["still_in"]:
        terminal.warn(f"{path} still contains it: remove it there, then purge again")
    if answer["is_read"]:
        terminal.warn("another program is reading records.db: traces in the file go when it stops")
    for aside in answer["set_aside"]:
        what = "still has it" if aside["is_searched"] else "cannot be searched, and may have it"
        terminal.warn(
            f"{aside['path']} {what}: it was set aside, so memsyncd leaves it; if you do not need"
            f" it: rm {quote(aside['path'])}"
        )


# --- undo ---------------------------------------------------------------------------------------


def undo(args: Args, console: Console) -> int:
    """Undo a change. If it needs a confirmation and somebody can answer, ask first."""
    params = args.params | find_change(args, console)
    answer = send_confirmed("undo", params, args, console, question="undo it?")
    return show_answer(answer, args, console, show_undone)


def show_undone(answer: dict[str, Any], args: Args, console: Console) -> None:
    terminal, answer = console.terminal, clean_values(answer)
    if answer["change_set"] is None:
        notes = answer["undone"] or answer["paths"]
        names = ", ".join(dict.fromkeys(note["path"] for note in notes))
        terminal.report(f"nothing to undo: already as before: {names}")
        return
    for revision in answer["undone"]:
        terminal.print(render_undone(revision, now_s=time.time()))
    for state in answer["paths"] if args.to else ():
        terminal.print(f"{state['path']}  is as it was after change {args.to}")
    for gone in (state["path"] for state in answer["paths"] if state["digest"] is None):
        terminal.note(f"{gone} does not exist any more, as before")
    if others := answer["others"]:
        whole = {**answer, "change_set": answer["undone"][0]["change_set"]}
        terminal.report(
            f"change {whole['change_set']} also changed {', '.join(others)}; take this back, too:"
            f" {console.render_undo(whole)}"
        )
    terminal.note(console.render_undo(answer, "to revert this: "))
    is_latest = args.target and not args.target.isdecimal() and args.change_set is None
    if is_latest and any(each["command"] == "undo" for each in answer["undone"]):
        terminal.note(
            "this took back an undo; further back: memsyncd undo NOTE --to N, with N from"
            " memsyncd history NOTE"
        )


def render_undone(revision: dict[str, Any], *, now_s: float) -> str:
    """Render `.memories/redis.md  undid 42: str_replace by cli, 3 min ago`."""
    path, old_path = revision["path"], revision["old_path"]
    moved = "" if old_path in (None, path) else f" → {old_path}"
    change = f"{describe_change(revision)} by {revision['client'] or 'another program'}"
    age = render_age(revision["at"], now_s)
    return f"{path}{moved}  undid {revision['change_set']}: {change}, {age}"
