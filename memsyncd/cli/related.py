"""Show how notes belong together: `memsyncd links`, `similar` and `patterns`."""

from __future__ import annotations

from memsyncd.errors import BadRequest
from memsyncd.terminal.answers import report_left_out
from memsyncd.terminal.console import show_answer
from memsyncd.terminal.format import render_count
from memsyncd.terminal.parser import (
    JSON,
    TIMEOUT,
    Argument,
    Command,
    Option,
    make_workspace_option,
    parse_fraction,
)
from memsyncd.terminal.places import find_named
from memsyncd.terminal.terminal import clean_values
from memsyncd.terminal.texts import read_stdin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any

    from memsyncd.terminal.console import Console


# --- similar and patterns ----------------------------------------------------------------------


def _similar(args: Args, console: Console) -> int:
    if args.duplicates:
        return _plan_merging(args, console)
    if args.path:
        hint = "add --duplicates, or leave --path out"
        raise BadRequest("similar: --path narrows --duplicates alone", hint=hint)
    what = _read_what(args, console)
    root = what.pop("workspace", None)
    answer = console.call_on(
        args.workspace or root,
        "similar",
        **what,
        min_similarity=args.min_similarity,
        limit=args.limit,
        include_archived=args.include_archived,
    )
    return show_answer(answer, args, console, _show_similar, found="sections")


def _show_similar(answer: dict[str, Any], _args: Args, console: Console) -> None:
    for one in clean_values(answer["sections"]):
        place = console.render_place(one, one["workspace"])
        trail = " › ".join(one["heading"])
        console.terminal.print(f"{one['similarity']:.2f}  {place}  {trail}")
    if not answer["sections"]:
        console.terminal.report("nothing similar; look further with --min-similarity 0.1")
    _report_pending(answer, console)


def _patterns(args: Args, console: Console) -> int:
    console.set_timeout_ms(args.timeout_ms)
    answer = console.call(
        "patterns",
        workspace=list(map(console.name_workspace, args.workspace)) or None,
        kind=args.kind or None,
        topic=args.topic,
        min_similarity=args.min_similarity,
        min_workspaces=args.min_workspaces,
        limit=args.limit,
        timeout_ms=args.timeout_ms,
    )
    return show_answer(answer, args, console, _show_patterns, found="patterns")


def _show_patterns(answer: dict[str, Any], _args: Args, console: Console) -> None:
    terminal, shown = console.terminal, clean_values(answer)
    names = {one["id"]: one["name"] for one in shown["workspaces"]}
    for pattern in shown["patterns"]:
        subject = "  ".join(filter(None, (pattern["kind"], pattern["topic"])))
        places = f"{pattern['n_workspaces']} workspaces"
        terminal.print(f"{terminal.paint('bold', subject)}  {places}  {pattern['similarity']:.2f}")
        for one in pattern["sections"]:
            place, trail = console.render_place(one, one["workspace"]), " › ".join(one["heading"])
            terminal.print(f"  [{names.get(one['workspace'], one['workspace'])}] {place}  {trail}")
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


def _report_pending(answer: dict[str, Any], console: Console) -> None:
    if answer["semantic"] == "partial":
        n = render_count(answer["semantic_pending"], "chunk")
        console.terminal.report(f"{n} without a vector yet; see `memsyncd semantic status`")


def _plan_merging(args: Args, console: Console) -> int:
    """Print groups of near copies, and how to merge them."""
    if args.section is not None or args.text is not None or args.topic or args.stdin:
        raise BadRequest("--duplicates compares all sections", hint="leave the other one out")
    filters = {"path": args.path, "include_archived": args.include_archived}
    plan = console.call_on(
        args.workspace,
        "duplicates",
        min_similarity=args.min_similarity,
        limit=args.limit,
        filters={name: value for name, value in filters.items() if value} or None,
    )
    return show_answer(plan, args, console, _show_plan, found="groups")


def _show_plan(plan: dict[str, Any], _args: Args, console: Console) -> None:
    terminal = console.terminal
    for number, group in enumerate(clean_values(plan["groups"]), 1):
        alike = f"{group['similarity']:.0%} of the words"
        alike += f", cosine {group['cosine']:.2f}" if group["cosine"] is not None else ""
        terminal.print(terminal.paint("bold", f"{number}. alike by {alike}"))
        for one in group["sections"]:
            lines = f"{one['start_line']}-{one['end_line']}"
            terminal.print(f"   {one['similarity']:.2f}  {one['anchor']}  lines {lines}")
    if not plan["groups"]:
        terminal.report("no near copies; look further with --min-similarity 0.5")
    elif (more := plan["n_groups"] - len(plan["groups"])) > 0:
        terminal.report(f"{render_count(more, 'more group')}; see them with --limit")
    if plan["groups"]:
        terminal.report(f"nothing was changed; {plan['how_to_merge']}")
    _report_pending(plan, console)


def _read_what(args: Args, console: Console) -> dict[str, Any]:
    """Return the parameter with a section, a text or a topic, and the section's `workspace`."""
    given = (args.section is not None, args.text is not None, bool(args.stdin), bool(args.topic))
    if sum(given) != 1:
        raise BadRequest(
            "similar: one thing to compare is needed",
            hint="name a section as PATH#heading, or give --text TEXT, --stdin or --topic TOPIC",
        )
    if args.topic:
        return {"topic": args.topic}
    if args.section is None:
        return {"text": read_stdin(console) if args.stdin else args.text}
    place = find_named(args.section, console)
    if "anchor" not in place:
        raise BadRequest(
            f"{args.section} is no section",
            hint="name it as PATH#heading; memsyncd list --sections shows the headings",
        )
    return place


COMMANDS = {
    "similar": Command(
        _similar,
        arguments=(Argument("section", "[SECTION]", "a section: PATH#heading"),),
        options=(
            Option("--text TEXT", "compare this text"),
            Option("--stdin", "compare a text read from stdin"),
            Option("--topic TOPIC", "what is near the sections of this topic"),
            Option("--duplicates", "plan which sections to merge: groups of near copies"),
            Option("--path P…", "with --duplicates: only this note, folder or glob"),
            Option(
                "--min-similarity S",
                "from 0 to 1; from 0.7 of the words on both say nearly the same",
                parse=parse_fraction,
            ),
            Option("-n --limit N", "at most N sections or groups"),
            Option("--include-archived", "also archived sections"),
            make_workspace_option("look in this workspace"),
            JSON,
        ),
        examples=(
            "memsyncd similar '.memories/errors.md#redis-timeouts'",
            "memsyncd similar --text 'Redis gives up after 30 s.'",
            "memsyncd similar --duplicates --path .memories",
        ),
    ),
    "patterns": Command(
        _patterns,
        options=(
            make_workspace_option("compare these workspaces", default="all", is_repeated=True),
            Option("--kind K…", "only of this kind"),
            Option("--topic TEXT", "only of this topic"),
            Option("--min-similarity S", "from 0.1 to 1 (default 0.5)", parse=parse_fraction),
            Option("--min-workspaces N", "in so many at least (default 2)"),
            Option("-n --limit N", "at most N patterns (default 20)"),
            TIMEOUT,
            JSON,
        ),
        examples=(
            "memsyncd patterns",
            "memsyncd patterns --kind error --min-workspaces 3",
            "memsyncd patterns -w api -w web --topic redis",
        ),
    ),
}
