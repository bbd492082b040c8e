"""`memsyncd search` and `context`: find passages, and print memory for a prompt."""

from __future__ import annotations

import os

from memsyncd.errors import BadRequest, NoteNotFound
from memsyncd.terminal.console import show_answer
from memsyncd.terminal.format import list_parts, render_count, render_explanation, render_hit
from memsyncd.terminal.parser import (
    JSON,
    KINDS,
    NO_MARK,
    TIMEOUT,
    Argument,
    Command,
    Option,
    make_workspace_option,
    parse_fraction,
    take_mark,
)
from memsyncd.terminal.terminal import clean, clean_line, clean_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import SimpleNamespace as Args
    from typing import Any, Final, NoReturn

    from memsyncd.terminal.console import Console


# --- filters ------------------------------------------------------------------------------------

FILTERS: Final = (
    Option("--kind K…", f"only this kind: {KINDS}"),
    Option("--tag T…", "only with this tag"),
    Option("--path P…", "only this note, folder or glob"),
    Option("--section S…", "only below this heading or anchor"),
    Option("--task ID…", "only of this task"),
    Option("--session ID…", "only of this session"),
    Option("--source S…", "only from this source"),
    Option("--priority P…", "only of this priority, P0 to P3"),
    Option("--lifecycle L…", "only ephemeral, session, task or project"),
    Option("--status S…", "only of this status"),
    Option("--meta KEY=VALUE…", "only with this other metadata; 'rating>=7' compares"),
    Option("--has KEY…", "only with any value of this key"),
    Option("--related-to NOTE…", "only notes linked to or from this one"),
    Option("--tier T…", "only hot, warm or cold by age and importance"),
    Option(
        "--min-importance I", "only of this importance or more, from 0 to 1", parse=parse_fraction
    ),
    Option("--after DAY", "only from this day on: 2026-03-01, 2026-03, 7d, 'last week'"),
    Option("--before DAY", "only before this day, month or year"),
    Option("--archived", "only archived sections, which are left out otherwise"),
    Option("--expired", "only expired sections, which are left out otherwise"),
    Option("--include-archived", "archived sections too"),
    Option("--include-expired", "expired sections too"),
)


def filters_from(args: Args) -> dict[str, object] | None:
    """Return the parameter `filters` for the options, None if none was given."""
    given = {option.name: getattr(args, option.name) for option in FILTERS}
    # An empty text is no filter that was left out: the daemon refuses it.
    return {name: value for name, value in given.items() if value or value == ""} or None


def take_filters(args: Args, _console: Console) -> dict[str, Any]:
    """Return the parameter `filters`, in place of the options for them."""
    return {**dict.fromkeys(option.name for option in FILTERS), "filters": filters_from(args)}


FOLLOW: Final = Option("--follow R…", "show what this relation leads to: resolved_by")
SORTS: Final = ("relevance", "decay", "importance", "priority", "recency", "file")
SORT: Final = Option("--sort S", "by decay, importance, priority, recency or file", choices=SORTS)


# --- search -------------------------------------------------------------------------------------

ALL_WORKSPACES = "*"
# The daemon's default number of hits.
DEFAULT_LIMIT = 10


def _search(args: Args, console: Console) -> int:
    if args.open and args.json:
        raise BadRequest("--open and --json do not go together", hint="use only one of them")
    console.set_timeout_ms(args.timeout_ms)
    answer = console.call_on_several(_list_workspaces(args), "search", **_search_params(args))
    return show_answer(answer, args, console, _show_found, found="hits")


def _show_found(answer: dict[str, Any], args: Args, console: Console) -> None:
    if answer["hits"]:
        _show_hits(answer, console, args)
    else:
        _report_no_hits(clean_values(answer), console)
    _report_answer(answer, console)


def _list_workspaces(args: Args) -> list[str]:
    if args.all and args.workspace:
        raise BadRequest("--all and --workspace do not go together", hint="use only one of them")
    return [ALL_WORKSPACES] if args.all else list(args.workspace)


def report_left_out(answer: dict[str, Any], console: Console) -> None:
    """Name the workspaces that the answer lacks."""
    for one in clean_values(answer["workspaces"]):
        if one["failure"]:
            text = f"without {one['name']}: {one['failure']}"
            console.terminal.warn(text)


def _search_params(args: Args) -> dict[str, object]:
    return {
        "query": " ".join(args.query),
        "limit": max(args.limit or DEFAULT_LIMIT, args.open) if args.open else args.limit,
        "filters": filters_from(args),
        "min_score": args.min_score,
        "sort": args.sort,
        "wait": "disk" if args.wait else None,
        "timeout_ms": args.timeout_ms,
        "explain": args.explain or None,
        "follow": args.follow or None,
    }


def _show_hits(answer: dict[str, Any], console: Console, args: Args) -> None:
    roots = {one["id"]: one["root"] for one in answer["workspaces"]}
    if args.open:
        _open_hit(answer["hits"], args.open, roots, console)
    terminal, hits = console.terminal, clean_values(answer["hits"])
    _print_hits(hits, roots, console)
    if args.explain:
        terminal.print()
        terminal.print(render_explanation(hits, terminal.paint))
        for line in list_parts(hits):
            terminal.note(line)
    if answer["relaxed"]:
        terminal.note(describe_relaxed(hits))


def describe_relaxed(hits: list[dict[str, Any]]) -> str:
    """Say what hits contain, none of which contains every word itself."""
    if any(hit["matched"] for hit in hits):
        return "no passage contains every word; these contain some"
    if not any(hit.get("matched_related") for hit in hits):
        return "no passage contains any of these words; these are near in meaning"
    return "no passage contains any of these words; these contain related ones"


def _open_hit(
    hits: list[dict[str, Any]], number: int, roots: dict[str, str], console: Console
) -> NoReturn:
    if number > len(hits):
        raise NoteNotFound(
            f"there is no hit {number}: {render_count(len(hits), 'passage')} found",
            hint="leave --open out",
        )
    hit = hits[number - 1]
    words = build_editor_command(
        console.env, os.path.join(roots.get(hit["workspace"], ""), hit["path"]), hit["start_line"]
    )
    console.close()
    console.terminal.out.flush()
    exec_editor(words)


def _print_hits(hits: list[dict[str, Any]], roots: dict[str, str], console: Console) -> None:
    terminal = console.terminal
    for i, hit in enumerate(hits):
        if i:
            terminal.print()
        root = roots.get(hit["workspace"], "")
        width = terminal.width if terminal.is_out_terminal else 0
        terminal.print(render_hit(hit, terminal.paint, root=root, cwd=console.cwd, width=width))


def _report_no_hits(answer: dict[str, Any], console: Console) -> None:
    terminal = console.terminal
    why, meant = (clean_line(answer.get(name) or "") for name in ("why_empty", "did_you_mean"))
    terminal.report(f"nothing found: {why}" if why else "nothing found")
    if meant:
        terminal.report(f"did you mean: {terminal.err_paint('bold', meant)}")


def report_query(answer: dict[str, Any], console: Console) -> None:
    """Report what of the query did not count as it was typed, and what it excluded."""
    # A daemon that was started before an update sends none.
    for problem in answer.get("query_problems", ()):
        console.terminal.warn(clean_line(problem))
    console.terminal.note(describe_excluded(answer))


def _report_answer(answer: dict[str, Any], console: Console) -> None:
    """Report how the query was read, why not all was searched by meaning, and the workspaces that
    the answer lacks.
    """
    report_query(answer, console)
    console.terminal.note(describe_semantic(answer))
    report_left_out(answer, console)


def describe_excluded(answer: Mapping[str, Any]) -> str:
    """Say what the query excluded; empty if nothing."""
    excluded = clean_line(" ".join(answer.get("excluded", ())))
    return f"excluded: {excluded} (in quotes it would be searched for)" if excluded else ""


def describe_semantic(answer: Mapping[str, Any]) -> str:
    """Say why not all was searched by meaning although that is switched on; empty if all was."""
    reason = clean_line(answer.get("semantic_reason") or "")
    how = "by words alone" if answer["semantic"] == "off" else "not all by meaning"
    return f"{how}: {reason}" if reason else ""


# --- --open -------------------------------------------------------------------------------------

# Editors that take `PATH:LINE`.
_PATH_LINE_EDITORS = frozenset({"hx", "helix", "subl", "zed", "zeditor"})
# Editors that take `--goto PATH:LINE`; all others take `+LINE PATH`.
_GOTO_EDITORS = frozenset({"code", "code-insiders", "codium", "cursor", "windsurf"})


def build_editor_command(env: Mapping[str, str], path: str, line: int) -> list[str]:
    """Return the command that opens the file at the line, with `$VISUAL`, else `$EDITOR`.

    Raises BadRequest if neither is set, or if it is not valid shell syntax.
    """
    # Late, for shlex imports re.
    import shlex

    named = env.get("VISUAL") or env.get("EDITOR") or ""
    try:
        words = shlex.split(named)
    except ValueError as error:
        raise BadRequest(
            f"the editor {named} cannot be called: {error}", hint="export EDITOR=vim"
        ) from None
    if not words:
        raise BadRequest("no editor is named", hint="name one: export EDITOR=vim")
    name = os.path.basename(words[0])
    if name in _GOTO_EDITORS:
        return [*words, "--goto", f"{path}:{line}"]
    return [*words, f"{path}:{line}"] if name in _PATH_LINE_EDITORS else [*words, f"+{line}", path]


def exec_editor(words: list[str]) -> NoReturn:
    """Replace this process with the editor. Raises BadRequest if the editor cannot be started."""
    try:
        os.execvp(words[0], words)  # noqa: S606  the user has named the editor
    except OSError as error:
        raise BadRequest(
            f"{words[0]} cannot be started: {error.strerror}", hint="export EDITOR=vim"
        ) from None


# --- context ------------------------------------------------------------------------------------


def _context(args: Args, console: Console) -> int:
    console.set_timeout_ms(args.timeout_ms)
    answer = console.call_on_several(_list_workspaces(args), "context", **_context_params(args))
    return show_answer(answer, args, console, _show_block, found="text")


def _context_params(args: Args) -> dict[str, object]:
    return {
        "query": " ".join(args.query) or None,
        "max_tokens": args.max_tokens,
        "max_bytes": args.max_bytes,
        "sort": args.sort,
        "filters": filters_from(args),
        "heading": args.heading,
        "follow": args.follow or None,
        **take_mark(args),
        "user": False if args.no_user else None,
        "wait": "disk" if args.wait else None,
        "timeout_ms": args.timeout_ms,
    }


def _show_block(answer: dict[str, Any], _args: Args, console: Console) -> None:
    terminal = console.terminal
    if answer["text"]:
        terminal.print(clean(answer["text"]))
    else:
        terminal.report(f"no context: {clean_line(answer['why_empty'])}")
    n_left_out = sum(one["reason"] == "no room" for one in answer["left_out"])
    if answer["text"] and n_left_out:
        n_sections = render_count(n_left_out, "place")
        weaker = (
            f" and {render_count(answer['unranked'], 'weaker match', 'weaker matches')}"
            if answer["unranked"]
            else ""
        )
        summary = f"{answer['tokens']:,} tokens; no room for {n_sections} more{weaker},"
        summary += " see --json and --max-tokens"
        terminal.note(summary)
    for line in _list_sources(clean_values(answer)):
        terminal.note(line)
    _report_answer(answer, console)


def _list_sources(answer: dict[str, Any]) -> list[str]:
    """List each label of a workspace in the block, with the folder that its paths start from."""
    shown = {part["workspace"] for part in answer["included"]}
    every = answer["workspaces"]
    is_labelled = sum(not one["user"] for one in every) > 1
    return [
        f"[{'user-wide' if one['user'] else one['name']}]  {one['root']}"
        for one in every
        if one["id"] in shown and (one["user"] or is_labelled)
    ]


COMMANDS = {
    "search": Command(
        _search,
        keeps_exclusions=True,
        arguments=(
            Argument(
                "query",
                "QUERY…",
                'words, "phrases", -not, prefix*, and each filter below as a word, such as'
                " kind:decision, meta:owner=infra, related_to:redis, tier:hot, is:archived,"
                " importance:0.8",
            ),
        ),
        options=(
            make_workspace_option("search this workspace, or several", is_repeated=True),
            Option("--all", "search all workspaces"),
            Option("-n --limit N", "at most N hits (default 10)"),
            *FILTERS,
            Option(
                "--min-score S",
                "only hits that score at least S, from 0 to 1",
                parse=parse_fraction,
            ),
            SORT,
            FOLLOW,
            Option("--wait", "first index everything that is on disk now"),
            TIMEOUT,
            Option("--explain", "show the parts of each score"),
            Option("--open N", "open the first hit, or the Nth, in $VISUAL or $EDITOR", bare=1),
            JSON,
        ),
        examples=(
            "memsyncd search redis timeout",
            "memsyncd search 'why did we choose \"connection pool\"' -draft",
            "memsyncd search token --kind decision --wait --json",
            "memsyncd search token --all --open",
            "memsyncd search token -w api -w web",
            "memsyncd search redis timeout --kind error --follow resolved_by",
        ),
    ),
    "context": Command(
        _context,
        keeps_exclusions=True,
        arguments=(
            Argument("query", "[QUERY…]", "the subject; without one, the context of a new session"),
        ),
        options=(
            make_workspace_option("use this workspace, or several", is_repeated=True),
            Option("--all", "use all workspaces"),
            Option("--no-user", "without the user-wide workspace"),
            NO_MARK,
            Option("-n --max-tokens N", "at most N tokens, from 100 to 50,000 (default 2000)"),
            Option("--max-bytes N", "at most N bytes as well"),
            *FILTERS,
            SORT,
            Option("--heading TEXT", "the first line (default '## Prior Knowledge'); '' for none"),
            FOLLOW,
            Option("--wait", "first index everything that is on disk now"),
            TIMEOUT,
            JSON,
        ),
        examples=(
            "memsyncd context",
            "memsyncd context why postgres --max-tokens 500",
            "memsyncd context --kind decision --heading '## Decisions so far'",
        ),
    ),
}
