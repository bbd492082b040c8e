"""`memsyncd capture`: append what a step of a run produced to the notes of its kind."""

from __future__ import annotations

from memsyncd.cli.format import render_path, render_span
from memsyncd.cli.note_arguments import roots_by_id
from memsyncd.cli.notes import CLIENT, CLIENT_OPTION, WRITE_MS, read_stdin, report_unless_indexed
from memsyncd.cli.parser import (
    JSON,
    TIMEOUT,
    Argument,
    Command,
    Option,
    make_workspace_option,
    parse_pair,
)
from memsyncd.cli.terminal import clean_values
from memsyncd.errors import BadRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args

    from memsyncd.cli.console import Console


def _capture(args: Args, console: Console) -> int:
    artifacts = [{"content": _read_file(path, console), "path": path[:200]} for path in args.file]
    if args.stdin:
        artifacts.append({"content": read_stdin(console)})
    if not artifacts and args.error is None and not args.answer:
        raise BadRequest(
            "capture: there is nothing to capture", hint="name a FILE, or use --error or --answer"
        )
    console.set_timeout_ms(args.timeout_ms or WRITE_MS)
    answer = console.call_on(
        args.workspace,
        "capture",
        step=args.step,
        artifacts=artifacts,
        error=args.error,
        answers=dict(args.answer),
        run_id=args.run_id,
        kind=args.kind,
        tags=args.tag,
        client=args.client or CLIENT,
        timeout_ms=args.timeout_ms,
    )
    if args.json:
        console.terminal.print_json(answer)
        return 0
    roots = roots_by_id(console.call("workspace.list")["workspaces"])
    root = roots.get(answer["workspace"], "")
    for added in clean_values(answer["added"]):
        path = render_path(added["path"], root, console.cwd)
        console.terminal.print(render_span(path, added["start_line"], added["end_line"]))
    if not answer["added"]:
        console.terminal.report("nothing new: the notes hold it already")
    report_unless_indexed(answer, console)
    return 0


def _read_file(path: str, console: Console) -> str:
    if path == "-":
        return read_stdin(console)
    try:
        with open(path, "rb") as file:
            return file.read().decode("utf-8-sig")
    except OSError as error:
        raise BadRequest(
            f"{path} cannot be read: {error.strerror}", hint="name a readable file"
        ) from error
    except UnicodeDecodeError as error:
        raise BadRequest(
            f"{path} is not valid UTF-8", hint=f"convert it first, as with: iconv -t UTF-8 {path}"
        ) from error


COMMANDS = {
    "capture": Command(
        _capture,
        arguments=(
            Argument("step", "STEP", "the step's name; the configuration names its kind"),
            Argument("file", "[FILE…]", "a markdown file that it produced; - for stdin"),
        ),
        options=(
            Option("--run-id ID", "the run, kept with each section"),
            Option("--error TEXT", "the step failed with this message"),
            Option("--answer QUESTION=ANSWER…", "an answer of an interview", parse=parse_pair),
            Option("--kind K", "the kind; by default that of the step"),
            Option("--tag T…", "add this tag"),
            Option("--stdin", "read an artifact from stdin, like FILE -"),
            make_workspace_option("capture into this workspace"),
            CLIENT_OPTION,
            TIMEOUT,
            JSON,
        ),
        examples=(
            "memsyncd capture research report.md --run-id r-7",
            "memsyncd capture build --run-id r-7 --error 'exit 2: no rule to make target x'",
            "memsyncd capture interview --answer 'Core problem=notes are lost'",
        ),
    ),
}
