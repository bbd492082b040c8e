"""Make commands that call one method, and print its answer as JSON or as text.

The options and arguments are the parameters of the request, by their names. What an answer says of
itself (how fresh it is, whether a write is indexed) is reported here, alike for all commands.
"""

from __future__ import annotations

from memsyncd.cli.console import NOTHING_FOUND
from memsyncd.cli.format import render_freshness
from memsyncd.cli.parser import Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import SimpleNamespace as Args
    from typing import Any, Final

    from memsyncd.cli.console import Console
    from memsyncd.cli.parser import Action

    Answer = dict[str, Any]
    Show = Callable[[Answer, Args, Console], None]
    MakeParams = Callable[[Args, Console], dict[str, Any]]

CLIENT: Final = "cli"
# The daemon's default limit for a write; the client waits longer, for the daemon's own error.
WRITE_MS: Final = 30_000
CLIENT_OPTION: Final = Option(
    "--client NAME", f"the writer's name in the history (default {CLIENT})"
)
# Options that are no parameters.
_OWN: Final = frozenset({"help", "json", "workspace"})


def make_action(
    method: str, show: Show, *, found: str = "", make_params: MakeParams | None = None
) -> Action:
    """Make the action of a command that calls one method.

    `show` prints the answer for people. The status is 1 if all fields of the answer that `found`
    names are empty. `make_params` returns parameters that differ from the options, None for options
    that are none, and as `workspace` that of a note which is named.
    """

    def run(args: Args, console: Console) -> int:
        params = make_params(args, console) if make_params else {}
        return show_answer(
            call_method(args, console, method, **params), args, console, show, found=found
        )

    return run


def call_method(args: Args, console: Console, method: str, **params: Any) -> Answer:
    """Call a method with the options of the command that are given, and other `params` in place of
    them.
    """
    request = {
        name: value
        for name, value in vars(args).items()
        if name not in _OWN and value is not False and value != []
    }
    is_writing = "client" in request
    if is_writing:
        request["client"] = args.client or CLIENT
    if "timeout_ms" in request:
        console.set_timeout_ms(args.timeout_ms or (WRITE_MS if is_writing else None))
    request |= params
    of_note = request.pop("workspace", None)
    return console.call_on(args.workspace or of_note, method, **request)


def show_answer(
    answer: Answer, args: Args, console: Console, show: Show, *, found: str = ""
) -> int:
    """Print the answer and return the exit status."""
    if args.json:
        console.terminal.print_json(answer)
    else:
        show(answer, args, console)
        report_state(answer, console)
    names = found.split()
    return NOTHING_FOUND if names and not any(answer[name] for name in names) else 0


def report_state(answer: Answer, console: Console) -> None:
    """Report how far the index of an answer is behind the disk, and a write that searches do not
    find yet.
    """
    if "freshness" in answer:
        console.terminal.warn(render_freshness(answer["freshness"]))
    if not answer.get("is_indexed", True):
        console.terminal.warn("written, but not indexed yet; see `memsyncd status`")
