"""Print tasks and sessions of agents: `memsyncd task`, `session`, `triage` and `profile`."""

from __future__ import annotations

from memsyncd.terminal.format import render_count
from memsyncd.terminal.terminal import clean, clean_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any

    from memsyncd.terminal.console import Console


def _show_items(answer: dict[str, Any], console: Console) -> None:
    rows = [
        [
            console.render_place(section, answer["workspace"]),
            *(section[name] or "" for name in ("priority", "kind", "task", "status")),
            "".join(section["heading"][-1:]),
        ]
        for section in clean_values(answer["items"])
    ]
    # A column without a value would be a gap.
    used = [any(column) for column in zip(*rows, strict=True)]
    rows = [[cell for cell, is_used in zip(row, used, strict=True) if is_used] for row in rows]
    console.terminal.print_table(rows)


def show_text(answer: dict[str, Any], _args: Args, console: Console) -> None:
    if answer["text"]:
        console.terminal.print(clean(answer["text"]).removesuffix("\n"), hang=0)
    else:
        console.terminal.report("there is nothing yet")


# --- task ---------------------------------------------------------------------------------------


def show_ready(answer: dict[str, Any], _args: Args, console: Console) -> None:
    _show_items(answer, console)
    console.terminal.report(f"{answer['n_ready']:,} ready, {answer['blocked']:,} blocked")


def show_list(answer: dict[str, Any], args: Args, console: Console) -> None:
    if args.params.get("task") is None:
        show_groups(answer["tasks"], answer["n_tasks"], console, "no section has a task")
        return
    _show_items(answer, console)
    if not answer["items"]:
        console.terminal.report("no section has this task")


def show_groups(
    groups: list[dict[str, Any]], n_groups: int, console: Console, nothing: str
) -> None:
    """Print a line for each task or session: its name, its sections, when it was worked on."""
    rows = [
        [
            group["name"],
            render_count(group["sections"], "section"),
            f"{group['open']:,} open",
            group["last"][:10],
            ", ".join(group["tasks"]) if group["tasks"] != [group["name"]] else "",
            "ended" if group["is_ended"] else "",
        ]
        for group in clean_values(groups)
    ]
    console.terminal.print_table(rows)
    if not rows:
        console.terminal.report(nothing)
    elif n_groups > len(rows):
        console.terminal.report(f"{n_groups - len(rows):,} more; see more with --limit")


def show_sessions(answer: dict[str, Any], args: Args, console: Console) -> None:
    nothing = "no session goes on; with those that ended: --include-ended"
    nothing = "no section has a session" if args.include_ended else nothing
    show_groups(answer["sessions"], answer["n_sessions"], console, nothing)


def show_checkpoint(answer: dict[str, Any], _args: Args, console: Console) -> None:
    console.print_place(answer, answer["workspace"])


def show_summary(answer: dict[str, Any], args: Args, console: Console) -> None:
    show_text(answer, args, console)
    if answer["text"] and not args.params.get("apply"):
        console.terminal.report("nothing was written; write it with --apply")
    if answer["added"]:
        added, paint = clean_values(answer["added"]), console.terminal.err_paint
        place = console.render_place(added, answer["workspace"], paint)
        console.terminal.report(f"written to {place}")


# --- session, triage, profile -------------------------------------------------------------------


def show_start(answer: dict[str, Any], _args: Args, console: Console) -> None:
    console.print_place(answer["added"], answer["workspace"])
    if answer["text"]:
        console.terminal.print(clean(answer["text"]).removesuffix("\n"), hang=0)


def show_triage(answer: dict[str, Any], args: Args, console: Console) -> None:
    _show_items(answer, console)
    counts = f"{answer['open']:,} open, {answer['closed']:,} closed"
    console.terminal.report(f"{counts}, {answer['untriaged']:,} without a task")
    if answer["promoted"] is not None:
        console.print_place(answer["promoted"], answer["workspace"])
    elif args.promote:
        console.terminal.report("the task has this section already")


def show_profile(answer: dict[str, Any], _args: Args, console: Console) -> None:
    _show_items(answer, console)
    tags = ", ".join(f"{tag} {n}" for tag, n in clean_values(answer["tags"]).items())
    sections, notes = answer["sections"], answer["notes"]
    counted = f"{render_count(sections, 'section')} in {render_count(notes, 'note')}"
    console.terminal.report(counted + (f"; tags: {tags}" if tags else ""))
