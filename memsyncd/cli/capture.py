"""`memsyncd capture`: append what a step of a run produced to the notes of its kind."""

from __future__ import annotations

from memsyncd.cli.calls import CLIENT_OPTION, make_action
from memsyncd.cli.notes import TAG, read_stdin
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
    from typing import Any

    from memsyncd.cli.console import Console


def _make_params(args: Args, console: Console) -> dict[str, Any]:
    artifacts = [{"content": _read_file(path, console), "path": path[:200]} for path in args.file]
    if args.stdin:
        artifacts.append({"content": read_stdin(console)})
    if not artifacts and args.error is None and not args.answers:
        raise BadRequest(
            "capture: there is nothing to capture", hint="name a FILE, or use --error or --answer"
        )
    answers = dict(args.answers)
    return {"artifacts": artifacts, "answers": answers, "file": None, "stdin": None}


def _show_captured(answer: dict[str, Any], _args: Args, console: Console) -> None:
    for added in clean_values(answer["added"]):
        console.terminal.print(console.render_place(added, answer["workspace"]))
    if not answer["added"]:
        console.terminal.report("nothing new: the notes hold it already")


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
        make_action("capture", _show_captured, make_params=_make_params),
        arguments=(
            Argument("step", "STEP", "the step's name; the configuration names its kind"),
            Argument("file", "[FILE…]", "a markdown file that it produced; - for stdin"),
        ),
        options=(
            Option("--run-id ID", "the run, kept with each section"),
            Option("--error TEXT", "the step failed with this message"),
            Option(
                "--answer QUESTION=ANSWER…",
                "an answer of an interview",
                parse=parse_pair,
                name="answers",
            ),
            Option("--kind K", "the kind; by default that of the step"),
            TAG,
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
