"""Print sections that say nearly the same: `memsyncd similar` and `patterns`."""

from __future__ import annotations

from memsyncd.errors import BadRequest
from memsyncd.terminal.actions import send
from memsyncd.terminal.console import read_stdin, report_left_out, show_answer
from memsyncd.terminal.format import render_count, render_name
from memsyncd.terminal.places import find_named
from memsyncd.terminal.terminal import clean_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any

    from memsyncd.terminal.console import Console


# --- similar ------------------------------------------------------------------------------------


def ask_for_similar(args: Args, console: Console) -> int:
    """Carry out `memsyncd similar`. With --duplicates, it asks for groups of near copies."""
    if args.duplicates:
        return _plan_merging(args, console)
    if args.path:
        hint = "add --duplicates, or leave --path out"
        raise BadRequest("similar: --path narrows --duplicates alone", hint=hint)
    params = {**args.params, **_read_subject(args, console)}
    answer = send("similar", params, args, console)
    return show_answer(answer, args, console, _show_similar, found="sections topics")


def _read_subject(args: Args, console: Console) -> dict[str, Any]:
    """Return the parameter that names a section, a text or a topic; with the section's
    `workspace`.
    """
    subjects = (args.anchor is not None, args.text is not None, bool(args.stdin), bool(args.topic))
    if sum(subjects) != 1:
        raise BadRequest(
            "similar: one thing to compare is needed",
            hint="name a section as PATH#heading, or a note, or give --text TEXT, --stdin or"
            " --topic TOPIC",
        )
    if args.topic:
        return {"topic": args.topic}
    if args.anchor is None:
        return {"text": read_stdin(console) if args.stdin else args.text}
    place = find_named(args.anchor, console)
    # It may be the title of a section.
    return {"anchor": place.get("anchor") or place["path"], "workspace": place["workspace"]}


def _show_similar(answer: dict[str, Any], args: Args, console: Console) -> None:
    if args.topic:
        for topic in clean_values(answer["topics"]):
            n_sections = render_count(topic["n_sections"], "section")
            words = (topic["topic"], n_sections, topic["path"])
            console.terminal.print(f"{topic['similarity']:.2f}  {'  '.join(words)}")
    else:
        for section in clean_values(answer["sections"]):
            place = console.render_place(section, section["workspace"])
            trail = render_name(section)
            console.terminal.print(f"{section['similarity']:.2f}  {place}  {trail}")
    if not answer["topics" if args.topic else "sections"]:
        console.terminal.report("nothing similar; take the nearest with -k 5")
    _report_pending(answer, console)


def _plan_merging(args: Args, console: Console) -> int:
    """Print groups of near copies, and how to merge them."""
    if args.anchor is not None or args.text is not None or args.topic or args.stdin:
        raise BadRequest(
            "--duplicates compares all sections", hint="leave out the section, text or topic"
        )
    filters = {"path": args.path, "include_archived": args.include_archived}
    params = {
        "min_similarity": args.min_similarity,
        "limit": args.limit,
        "filters": {name: value for name, value in filters.items() if value} or None,
    }
    plan = send("duplicates", params, args, console)
    return show_answer(plan, args, console, _show_plan, found="groups")


def _show_plan(plan: dict[str, Any], _args: Args, console: Console) -> None:
    terminal = console.terminal
    for number, group in enumerate(clean_values(plan["groups"]), 1):
        alike = f"{group['similarity']:.0%} of the words"
        alike += f", cosine {group['cosine']:.2f}" if group["cosine"] is not None else ""
        terminal.print(terminal.paint("bold", f"{number}. alike by {alike}"))
        for section in group["sections"]:
            lines = f"{section['start_line']}-{section['end_line']}"
            terminal.print(f"   {section['similarity']:.2f}  {section['anchor']}  lines {lines}")
        if (more := group["n_sections"] - len(group["sections"])) > 0:
            terminal.print(terminal.paint("dim", f"   and {render_count(more, 'more section')}"))
    if not plan["groups"]:
        terminal.report("no near copies; look further with --min-similarity 0.5")
    elif (more := plan["n_groups"] - len(plan["groups"])) > 0:
        terminal.report(f"{render_count(more, 'more group')}; see them with --limit")
    if plan["groups"]:
        terminal.report(f"nothing was changed; {plan['how_to_merge']}")
    _report_pending(plan, console)


def _report_pending(answer: dict[str, Any], console: Console) -> None:
    if answer["semantic"] == "partial":
        n = render_count(answer["semantic_pending"], "chunk")
        console.terminal.report(f"{n} without a vector yet; see `memsyncd semantic status`")


# --- patterns -----------------------------------------------------------------------------------


def compare_all(args: Args, _console: Console) -> dict[str, Any]:
    """Return the parameter for all workspaces, unless some are named."""
    return {} if args.workspace else {"workspace": "*"}


def show_patterns(answer: dict[str, Any], args: Args, console: Console) -> None:
    terminal, cleaned = console.terminal, clean_values(answer)
    names = {workspace["id"]: workspace["name"] for workspace in cleaned["workspaces"]}
    for pattern in cleaned["patterns"]:
        subject = "  ".join(filter(None, (pattern["kind"], pattern["topic"])))
        values = pattern["values"]
        places = f"{pattern['n_workspaces']} workspaces"
        places = f"{render_count(len(values), 'value')} of {args.by}" if values else places
        terminal.print(f"{terminal.paint('bold', subject)}  {places}  {pattern['similarity']:.2f}")
        for section in pattern["sections"]:
            workspace, trail = section["workspace"], render_name(section)
            place = console.render_place(section, workspace)
            owner = section["value"] or names.get(workspace, workspace)
            terminal.print(f"  [{owner}] {place}  {trail}")
    if not answer["patterns"]:
        terminal.report("nothing recurs; look further with --min-similarity 0.3")
    n_more = answer["n_patterns"] - len(answer["patterns"])
    if n_more:
        terminal.report(f"{render_count(n_more, 'pattern')} more; show them with --limit")
    if answer["left_out"]:
        terminal.report(
            f"compared {answer['compared']:,} sections, without {answer['left_out']:,} of older"
            " notes; narrow with --kind or --topic"
        )
    report_left_out(answer, console)
