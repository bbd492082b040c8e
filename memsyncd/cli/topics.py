"""Topics, which are notes, and their fields, which are sections: `memsyncd topic`."""

from __future__ import annotations

from memsyncd.cli.console import CLIENT_OPTION, make_action
from memsyncd.cli.format import render_count
from memsyncd.cli.note_arguments import find_among
from memsyncd.cli.notes import (
    IF_DIGEST,
    ON_SIMILAR,
    SOURCE,
    STATED,
    STDIN,
    TAG,
    read_typed,
    report_similar,
)
from memsyncd.cli.parser import (
    JSON,
    TIMEOUT,
    Argument,
    Command,
    Option,
    make_group,
    make_workspace_option,
    parse_fraction,
    parse_pair,
)
from memsyncd.cli.terminal import clean, clean_line, clean_values
from memsyncd.cli.upkeep import APPLY, CHANGED, PLAN, plan_params, show_plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any, Final

    from memsyncd.cli.console import Console


# --- reading ------------------------------------------------------------------------------------


def _find_topics(args: Args, console: Console) -> dict[str, Any]:
    return find_among(args.path, console)


def _show_list(answer: dict[str, Any], _args: Args, console: Console) -> None:
    terminal = console.terminal
    for one in clean_values(answer)["topics"]:
        place = console.render_place(one, answer["workspace"])
        fields = terminal.paint("dim", ", ".join(one["fields"]))
        terminal.print(f"{one['salience']:.2f}  {place}  {one['title']}  {fields}".rstrip())
    left = answer["n_topics"] - len(answer["topics"])
    more = f", {left} more with --limit" if left else ""
    terminal.report(render_count(answer["n_topics"], "topic") + more)


def _show_topic(answer: dict[str, Any], _args: Args, console: Console) -> None:
    terminal, shown = console.terminal, clean_values(answer)
    tags = "".join(f"  #{tag}" for tag in shown["tags"])
    state = "  archived" if shown["status"] == "archived" else ""
    place = console.render_place(shown, answer["workspace"])
    terminal.print(f"{shown['title']}  {place}  {shown['salience']:.2f}{tags}{state}")
    if answer["summary"]:
        terminal.print(clean(answer["summary"]))
    for one in shown["relations"]:
        terminal.print(f"{one['kind']} → {one['to']}")
    for raw, one in zip(answer["fields"], shown["fields"], strict=True):
        place = console.render_place({**one, "path": shown["path"]}, answer["workspace"])
        terminal.print(f"\n{terminal.paint('bold', one['name'])}  {one['salience']:.2f}  {place}")
        for value in raw["values"]:
            _print_value(value["at"], value["text"], console)


def _print_value(at: str | None, text: str, console: Console, mark: str = "") -> None:
    lines = clean(text).split("\n")
    time = console.terminal.paint("dim", at or "")
    console.terminal.print("  ".join(filter(None, (time, mark, lines[0]))))
    for line in lines[1:]:
        console.terminal.print(f"  {line}".rstrip())


def _show_history(answer: dict[str, Any], _args: Args, console: Console) -> None:
    for one in answer["values"]:
        is_external = one["revision"] and one["command"] != "first_seen"
        writer = clean_line(one["client"] or ("external" if is_external else ""))
        number = str(one["revision"] or "")
        mark = "  ".join(filter(None, (number, writer, "" if one["is_current"] else "earlier")))
        _print_value(one["at"], one["text"], console, mark)
    if not answer["is_complete"]:
        numbers = [one["revision"] for one in answer["values"] if one["revision"]]
        page = f"are older than these (--before {numbers[-1]}), or " if numbers else ""
        console.terminal.note(f"earlier values, if any, {page}are not in the history any more")


# --- writing ------------------------------------------------------------------------------------


def _make_topic(args: Args, _console: Console) -> dict[str, Any]:
    return {
        "fields": dict(args.fields),
        "metadata": dict(args.metadata),
        "relations": _read_relations(args.relations),
    }


def _make_patch(args: Args, _console: Console) -> dict[str, Any]:
    # The empty word alone stands for none.
    words = {name: getattr(args, name) for name in ("tags", "keywords")}
    return {
        **{name: [word for word in given if word] for name, given in words.items() if given},
        "metadata": dict(args.metadata) or None,
        "relate": _read_relations(args.relate),
        "unrelate": _read_relations(args.unrelate),
    }


def _make_value(args: Args, console: Console) -> dict[str, Any]:
    return {"content": read_typed(args.content, args, console), "stdin": None}


def _show_written(answer: dict[str, Any], _args: Args, console: Console) -> None:
    shown = clean_values(answer)
    if answer["action"] == "unchanged":
        console.terminal.report(f"{shown['path']} says that already: nothing was changed")
    elif answer["action"] == "reported":
        console.terminal.report("nothing was written")
    else:
        console.print_place(answer, answer["workspace"])
    if answer.get("n_dropped"):
        left = render_count(answer["n_dropped"], "earlier value")
        console.terminal.report(
            f"{left} left the note; the history keeps what [history] allows:"
            " memsyncd topic history TOPIC FIELD"
        )
    report_similar(answer, console)


def _read_relations(pairs: list[tuple[str, str]]) -> list[dict[str, str]] | None:
    return [{"kind": kind, "to": to} for kind, to in pairs] or None


def _parse_pair(text: str) -> tuple[str, str]:
    return parse_pair(text, may_be_empty=True)


def _parse_relation(text: str) -> tuple[str, str]:
    kind, equals, to = text.partition("=")
    return (kind.strip(), to.strip()) if equals else ("related", text.strip())


_TOPIC: Final = Argument("topic", "TOPIC", "its path, its name in the memory folder, or its title")
_FIELD: Final = Argument("field", "FIELD", "the heading of a section, or its anchor")
_ARCHIVED: Final = Option("--include-archived", "archived ones too")
_LIMIT: Final = Option("-n --limit N", "at most N")
_READING: Final = (make_workspace_option("in this workspace"), JSON)
_WRITING: Final = (make_workspace_option("in this workspace"), CLIENT_OPTION, TIMEOUT, JSON)
_KIND: Final = Option("--kind K", "the kind, such as decision")
_IMPORTANCE: Final = Option("--importance S", "from 0 to 1", parse=parse_fraction)
_STATED: Final = (
    _KIND,
    _IMPORTANCE,
    *STATED,
    Option("--meta KEY=VALUE…", "metadata of your own", parse=_parse_pair, name="metadata"),
)
_RELATIONS: Final = "a relation, such as resolved_by=redis-timeouts"

_COMMANDS = {
    "list": Command(
        make_action("topic.list", _show_list, found="topics", make_params=_find_topics),
        summary="list topics by salience",
        arguments=(Argument("path", "[PATH]", "a note, folder or glob"),),
        options=(
            Option("--sort S", "by salience (default), recency or file"),
            _ARCHIVED,
            _LIMIT,
            *_READING,
        ),
        examples=("memsyncd topic list", "memsyncd topic list .memories/services --sort recency"),
    ),
    "get": Command(
        make_action("topic.get", _show_topic),
        summary="print a topic: summary, relations, fields with their values",
        arguments=(_TOPIC,),
        options=(_ARCHIVED, *_READING),
        examples=("memsyncd topic get auth-service", "memsyncd topic get 'Auth service' --json"),
    ),
    "create": Command(
        make_action("topic.create", _show_written, make_params=_make_topic),
        summary="create a note for a topic",
        arguments=(
            Argument("title", "TITLE", "its title"),
            Argument("summary", "[TEXT]", "its summary"),
        ),
        options=(
            Option(
                "--field NAME=TEXT…",
                "a field with its first value",
                parse=_parse_pair,
                name="fields",
            ),
            Option("--relate KIND=NOTE…", _RELATIONS, parse=_parse_relation, name="relations"),
            TAG,
            *_STATED,
            Option("--note PATH", "the note to create, by default named after the title"),
            ON_SIMILAR,
            *_WRITING,
        ),
        examples=("memsyncd topic create 'Auth service' 'Who you are.' --field 'Status=Redis 7'",),
    ),
    "patch": Command(
        make_action("topic.patch", _show_written, make_params=_make_patch),
        summary="change title, summary, metadata or relations; '' removes one",
        arguments=(_TOPIC,),
        options=(
            Option("--title TEXT", "the title"),
            Option("--summary TEXT", "the text below the title"),
            Option("--relate KIND=NOTE…", _RELATIONS, parse=_parse_relation),
            Option("--unrelate KIND=NOTE…", "remove a relation", parse=_parse_relation),
            Option("--tag T…", "its tags, all of them", name="tags"),
            *_STATED,
            IF_DIGEST,
            *_WRITING,
        ),
        examples=("memsyncd topic patch auth-service --importance 0.9 --relate part_of=platform",),
    ),
    "append": Command(
        make_action("field.append", _show_written, make_params=_make_value),
        summary="append a value to a field, above the earlier ones",
        arguments=(
            _TOPIC,
            _FIELD,
            Argument("content", "[TEXT…]", "the value; - or none to read it from stdin"),
        ),
        options=(
            _KIND,
            TAG,
            _IMPORTANCE,
            SOURCE,
            Option("--keep N", "keep N values in the note"),
            ON_SIMILAR,
            IF_DIGEST,
            STDIN,
            *_WRITING,
        ),
        examples=("memsyncd topic append auth-service Status 'Redis 8 runs in production.'",),
    ),
    "history": Command(
        make_action("field.history", _show_history, found="values"),
        summary="list the values that a field has and had",
        arguments=(_TOPIC, _FIELD),
        options=(
            _LIMIT,
            Option("--before N", "before this revision"),
            *_READING,
        ),
        examples=("memsyncd topic history auth-service Status",),
    ),
    "archive": Command(
        make_action("topic.archive", show_plan, found=CHANGED, make_params=plan_params),
        summary="archive whole topics; a dry run first",
        arguments=(Argument("topics", "TOPIC…", "topics by path, name or title"),),
        options=(APPLY, PLAN, *_WRITING),
        examples=("memsyncd topic archive auth-service --apply",),
    ),
    "restore": Command(
        make_action("topic.restore", show_plan, found=CHANGED, make_params=plan_params),
        summary="restore archived topics, byte for byte",
        arguments=(Argument("topics", "TOPIC…", "topics by path, name or title"),),
        options=(APPLY, PLAN, *_WRITING),
        examples=("memsyncd topic restore auth-service --apply",),
    ),
}

COMMANDS = {
    "topic": make_group(
        "topic",
        _COMMANDS,
        ("memsyncd topic list", "memsyncd topic append auth-service Status 'Redis 8'"),
    ),
}
