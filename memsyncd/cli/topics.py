"""Topics, which are notes, and their fields, which are sections: `memsyncd topic`."""

from __future__ import annotations

from memsyncd.cli.console import NOTHING_FOUND
from memsyncd.cli.format import render_count, render_span
from memsyncd.cli.notes import (
    CLIENT,
    CLIENT_OPTION,
    ON_SIMILAR,
    STDIN,
    WRITE_MS,
    read_text,
    report_similar,
    report_unless_indexed,
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
from memsyncd.cli.terminal import clean, clean_values
from memsyncd.cli.upkeep import APPLY, PLAN, print_plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any, Final

    from memsyncd.cli.console import Console


# --- reading ------------------------------------------------------------------------------------


def _list(args: Args, console: Console) -> int:
    answer = console.call_on(
        args.workspace,
        "topic.list",
        path=args.path,
        sort=args.sort,
        include_archived=args.include_archived,
        limit=args.limit,
    )
    terminal = console.terminal
    if args.json:
        terminal.print_json(answer)
        return 0 if answer["topics"] else NOTHING_FOUND
    for one in clean_values(answer)["topics"]:
        path = terminal.paint("bold blue", one["path"])
        fields = terminal.paint("dim", ", ".join(one["fields"]))
        terminal.print(f"{one['salience']:.2f}  {path}  {one['title']}  {fields}".rstrip())
    left = answer["n_topics"] - len(answer["topics"])
    more = f", {left} more with --limit" if left else ""
    terminal.report(render_count(answer["n_topics"], "topic") + more)
    return 0 if answer["topics"] else NOTHING_FOUND


def _get(args: Args, console: Console) -> int:
    answer = console.call_on(
        args.workspace, "topic.get", topic=args.topic, include_archived=args.include_archived
    )
    terminal = console.terminal
    if args.json:
        terminal.print_json(answer)
        return 0
    shown = clean_values(answer)
    tags = "".join(f"  #{tag}" for tag in shown["tags"])
    state = "  archived" if shown["status"] == "archived" else ""
    terminal.print(
        f"{shown['title']}  {terminal.paint('bold blue', shown['path'])}"
        f"  {shown['salience']:.2f}{tags}{state}"
    )
    if answer["summary"]:
        terminal.print(clean(answer["summary"]))
    for one in shown["relations"]:
        terminal.print(f"{one['kind']} → {one['to']}")
    for raw, one in zip(answer["fields"], shown["fields"], strict=True):
        place = render_span(shown["path"], one["start_line"], one["end_line"])
        marks = f"{one['salience']:.2f}  {terminal.paint('dim', place)}"
        terminal.print(f"\n{terminal.paint('bold', one['name'])}  {marks}")
        for value in raw["values"]:
            _print_value(value["at"], value["text"], console)
    return 0


def _print_value(at: str | None, text: str, console: Console, mark: str = "") -> None:
    lines = clean(text).split("\n")
    time = console.terminal.paint("dim", at or "")
    console.terminal.print("  ".join(filter(None, (time, mark, lines[0]))))
    for line in lines[1:]:
        console.terminal.print(f"  {line}".rstrip())


def _history(args: Args, console: Console) -> int:
    answer = console.call_on(
        args.workspace,
        "field.history",
        topic=args.topic,
        field=args.field,
        limit=args.limit,
        before=args.before,
    )
    if args.json:
        console.terminal.print_json(answer)
        return 0 if answer["values"] else NOTHING_FOUND
    for one in answer["values"]:
        writer = clean_values(one)["client"] or ("external" if one["revision"] else "")
        number = str(one["revision"] or "")
        mark = "  ".join(filter(None, (number, writer, "" if one["is_current"] else "earlier")))
        _print_value(one["at"], one["text"], console, mark)
    return 0 if answer["values"] else NOTHING_FOUND


# --- writing ------------------------------------------------------------------------------------


def _create(args: Args, console: Console) -> int:
    params: dict[str, Any] = {name: getattr(args, name) for name in _METADATA}
    return _write(
        args,
        console,
        "topic.create",
        title=args.title,
        summary=args.summary or "",
        fields=dict(args.field) or None,
        relations=_read_relations(args.relate),
        tags=args.tag or None,
        keywords=args.keyword or None,
        metadata=dict(args.meta) or None,
        note=args.note,
        on_similar=args.on_similar,
        **params,
    )


def _patch(args: Args, console: Console) -> int:
    params: dict[str, Any] = {name: getattr(args, name) for name in _METADATA}
    return _write(
        args,
        console,
        "topic.patch",
        topic=args.topic,
        title=args.title,
        summary=args.summary,
        tags=[tag for tag in args.tag if tag] if args.tag else None,
        keywords=[word for word in args.keyword if word] if args.keyword else None,
        metadata=dict(args.meta) or None,
        relate=_read_relations(args.relate),
        unrelate=_read_relations(args.unrelate),
        if_digest=args.if_digest,
        **params,
    )


def _write(args: Args, console: Console, method: str, **params: object) -> int:
    answer = _call(args, console, method, **params)
    if args.json:
        console.terminal.print_json(answer)
        return 0
    shown = clean_values(answer)
    path = console.terminal.paint("bold blue", shown["path"])
    if answer["action"] == "unchanged":
        console.terminal.report(f"{shown['path']} says that already: nothing was changed")
    elif answer["action"] == "reported":
        console.terminal.report("nothing was written")
    else:
        console.terminal.print(path)
    report_similar(answer, console)
    report_unless_indexed(answer, console)
    return 0


def _append(args: Args, console: Console) -> int:
    content = read_text(" ".join(args.text) if args.text else None, console, is_piped=args.stdin)
    answer = _call(
        args,
        console,
        "field.append",
        topic=args.topic,
        field=args.field,
        content=content,
        kind=args.kind,
        tags=args.tag or None,
        importance=args.importance,
        source=args.source,
        keep=args.keep,
        on_similar=args.on_similar,
        if_digest=args.if_digest,
    )
    terminal = console.terminal
    if args.json:
        terminal.print_json(answer)
        return 0
    shown = clean_values(answer)
    if answer["action"] == "reported":
        terminal.report("nothing was written")
    else:
        place = render_span(shown["path"], shown["start_line"], shown["end_line"])
        terminal.print(terminal.paint("bold blue", place))
    if answer["n_dropped"]:
        left = render_count(answer["n_dropped"], "earlier value")
        terminal.report(f"{left} left the note: memsyncd topic history TOPIC FIELD")
    report_similar(answer, console)
    report_unless_indexed(answer, console)
    return 0


def _archive(args: Args, console: Console) -> int:
    return _keep_up("topic.archive", args, console)


def _restore(args: Args, console: Console) -> int:
    return _keep_up("topic.restore", args, console)


def _keep_up(method: str, args: Args, console: Console) -> int:
    answer = _call(args, console, method, topics=args.topic, dry_run=not args.apply, plan=args.plan)
    return print_plan(answer, args, console)


def _call(args: Args, console: Console, method: str, **params: object) -> dict[str, Any]:
    console.set_timeout_ms(args.timeout_ms or WRITE_MS)
    own = {"client": args.client or CLIENT, "timeout_ms": args.timeout_ms}
    return console.call_on(args.workspace, method, **params, **own)


def _read_relations(pairs: list[tuple[str, str]]) -> list[dict[str, str]] | None:
    return [{"kind": kind, "to": to} for kind, to in pairs] or None


def _parse_pair(text: str) -> tuple[str, str]:
    return parse_pair(text, may_be_empty=True)


def _parse_relation(text: str) -> tuple[str, str]:
    kind, equals, to = text.partition("=")
    return (kind.strip(), to.strip()) if equals else ("related", text.strip())


_METADATA = (
    "kind",
    "importance",
    "priority",
    "lifecycle",
    "source",
    "task",
    "session",
    "scope",
    "expires",
)
_TOPIC: Final = Argument("topic", "TOPIC", "its path, its name in the memory folder, or its title")
_FIELD: Final = Argument("field", "FIELD", "the heading of a section, or its anchor")
_ARCHIVED: Final = Option("--include-archived", "archived ones too")
_LIMIT: Final = Option("-n --limit N", "at most N")
_READING: Final = (make_workspace_option("in this workspace"), JSON)
_WRITING: Final = (make_workspace_option("in this workspace"), CLIENT_OPTION, TIMEOUT, JSON)
_KIND: Final = Option("--kind K", "the kind, such as decision")
_TAG: Final = Option("--tag T…", "add this tag")
_IMPORTANCE: Final = Option("--importance S", "from 0 to 1", parse=parse_fraction)
_SOURCE: Final = Option("--source TEXT", "the source")
_IF_DIGEST: Final = Option("--if-digest DIGEST", "only if the note has this digest")
_STATED: Final = (
    _KIND,
    _IMPORTANCE,
    Option("--priority P", "P0, P1, P2 or P3"),
    Option("--lifecycle L", "ephemeral, session, task or project"),
    _SOURCE,
    Option("--task ID", "the task"),
    Option("--session ID", "the session"),
    Option("--scope TEXT", "the scope"),
    Option("--expires DAY", "the day or time from which searches leave it out"),
    Option("--keyword K…", "a keyword; at most 20"),
    Option("--meta KEY=VALUE…", "metadata of your own", parse=_parse_pair),
)
_RELATE: Final = Option(
    "--relate KIND=NOTE…", "a relation, such as resolved_by=redis-timeouts", parse=_parse_relation
)

_COMMANDS = {
    "list": Command(
        _list,
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
        _get,
        summary="print a topic: summary, relations, fields with their values",
        arguments=(_TOPIC,),
        options=(_ARCHIVED, *_READING),
        examples=("memsyncd topic get auth-service", "memsyncd topic get 'Auth service' --json"),
    ),
    "create": Command(
        _create,
        summary="create a note for a topic",
        arguments=(
            Argument("title", "TITLE", "its title"),
            Argument("summary", "[TEXT]", "its summary"),
        ),
        options=(
            Option("--field NAME=TEXT…", "a field with its first value", parse=_parse_pair),
            _RELATE,
            _TAG,
            *_STATED,
            Option("--note PATH", "the note to create, by default named after the title"),
            ON_SIMILAR,
            *_WRITING,
        ),
        examples=("memsyncd topic create 'Auth service' 'Who you are.' --field 'Status=Redis 7'",),
    ),
    "patch": Command(
        _patch,
        summary="change title, summary, metadata or relations; '' removes one",
        arguments=(_TOPIC,),
        options=(
            Option("--title TEXT", "the title"),
            Option("--summary TEXT", "the text below the title"),
            _RELATE,
            Option("--unrelate KIND=NOTE…", "remove a relation", parse=_parse_relation),
            Option("--tag T…", "its tags, all of them"),
            *_STATED,
            _IF_DIGEST,
            *_WRITING,
        ),
        examples=("memsyncd topic patch auth-service --importance 0.9 --relate part_of=platform",),
    ),
    "append": Command(
        _append,
        summary="append a value to a field, above the earlier ones",
        arguments=(
            _TOPIC,
            _FIELD,
            Argument("text", "[TEXT…]", "the value; - or none to read it from stdin"),
        ),
        options=(
            _KIND,
            _TAG,
            _IMPORTANCE,
            _SOURCE,
            Option("--keep N", "keep N values in the note"),
            ON_SIMILAR,
            _IF_DIGEST,
            STDIN,
            *_WRITING,
        ),
        examples=("memsyncd topic append auth-service Status 'Redis 8 runs in production.'",),
    ),
    "history": Command(
        _history,
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
        _archive,
        summary="archive whole topics; a dry run first",
        arguments=(Argument("topic", "TOPIC…", "topics by path, name or title"),),
        options=(APPLY, PLAN, *_WRITING),
        examples=("memsyncd topic archive auth-service --apply",),
    ),
    "restore": Command(
        _restore,
        summary="restore archived topics, byte for byte",
        arguments=(Argument("topic", "TOPIC…", "topics by path, name or title"),),
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
