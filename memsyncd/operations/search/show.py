"""`memsyncd search`: find passages."""

from __future__ import annotations

import os

from memsyncd.errors import BadRequest, NoteNotFound
from memsyncd.terminal.actions import send_to_several
from memsyncd.terminal.console import (
    describe_relaxed,
    report_answer,
    show_answer,
)
from memsyncd.terminal.format import render_count, render_hit
from memsyncd.terminal.terminal import clean_line, clean_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import SimpleNamespace as Args
    from typing import Any, NoReturn

    from memsyncd.terminal.console import Console


# --- search -------------------------------------------------------------------------------------

# The daemon's default number of hits.
DEFAULT_LIMIT = 10


def search(args: Args, console: Console) -> int:
    """Search; with `--open`, open a hit in the editor."""
    if args.open and (args.json or args.template or args.paths):
        hint = "leave out --json, --format and -l"
        raise BadRequest("--open opens a hit instead of printing", hint=hint)
    params = {**args.params, "query": " ".join(args.query)}
    if args.open:
        params["limit"] = max(args.limit or DEFAULT_LIMIT, args.open)
    answer = send_to_several("search", params, args, console)
    return show_answer(answer, args, console, _show_found, found="hits")


def _show_found(answer: dict[str, Any], args: Args, console: Console) -> None:
    if answer["hits"]:
        _show_hits(answer, console, args)
    else:
        _report_no_hits(clean_values(answer), console)
    report_answer(answer, console)


def _show_hits(answer: dict[str, Any], console: Console, args: Args) -> None:
    roots = {workspace["id"]: workspace["root"] for workspace in answer["workspaces"]}
    if args.open:
        _open_hit(answer["hits"], args.open, roots, console)
    terminal, hits = console.terminal, clean_values(answer["hits"])
    _print_hits(hits, roots, console)
    if answer["relaxed"]:
        terminal.note(describe_relaxed(hits))
    if args.limit is None and len(hits) == DEFAULT_LIMIT:
        terminal.note(f"the first {DEFAULT_LIMIT} are shown; for more: -n {3 * DEFAULT_LIMIT}")


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


# --- --open -------------------------------------------------------------------------------------

# Editors that take `PATH:LINE`.
_PATH_LINE_EDITORS = frozenset({"hx", "helix", "subl", "zed", "zeditor"})
# Editors that take `--goto PATH:LINE`; all others take `+LINE PATH`.
_GOTO_EDITORS = frozenset({"code", "code-insiders", "codium", "cursor", "windsurf"})


def build_editor_command(env: Mapping[str, str], path: str, line: int) -> list[str]:
    """Return the command that opens the file at the line, with `$VISUAL`, else `$EDITOR`.

    Raises BadRequest if neither is set, or if it is not valid shell syntax.
    """
    # Imported late, because shlex imports re.
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
