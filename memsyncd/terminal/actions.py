"""The actions of commands that call one operation: parameters from words, the answer as text.

The functions of a capability that prepare parameters and print answers are in its module `show`,
which is imported when its command runs.
"""

from __future__ import annotations

import sys

from memsyncd.errors import BadRequest
from memsyncd.terminal.console import CLIENT, WRITE_MS, read_typed, show_answer
from memsyncd.terminal.places import resolve_places
from memsyncd.terminal.terminal import clean_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import SimpleNamespace as Args
    from typing import Any

    from memsyncd.terminal.console import Answer, Console
    from memsyncd.terminal.parser import Action


def load_show(folder: str, function: str) -> Callable[..., Any]:
    """Return a function of a capability's `show`, or of another's: `upkeep:show_plan`."""
    other, _, function = function.rpartition(":")
    module = f"memsyncd.operations.{other or folder}.show"
    # `importlib` itself imports `warnings`: half a millisecond of each command.
    __import__(module)
    found: Callable[..., Any] = getattr(sys.modules[module], function)
    return found


def load_action(folder: str, function: str) -> Action:
    """Return an action that is written by hand."""

    def run(args: Args, console: Console) -> int:
        return int(load_show(folder, function)(args, console))

    return run


def load_parser(folder: str, function: str) -> Callable[[str], object]:
    """Return a function that parses the text of an option."""

    def parse(text: str) -> object:
        return load_show(folder, function)(text)

    return parse


def call_operation(  # noqa: PLR0913  one for each thing that a declaration may have
    folder: str,
    method: str,
    *,
    show: str = "",
    prepare: str = "",
    found: str = "",
    stdin: str = "",
    fixed: Mapping[str, object] | None = None,
    places: tuple[str, ...] = (),
    is_wide: bool = False,
) -> Action:
    """Make the action of a command that calls one operation, with the words of its declaration.
    `is_wide`: without a named workspace it is about all, not about the current folder's.
    """

    def run(args: Args, console: Console) -> int:
        params: dict[str, Any] = {**(fixed or {}), **args.params}
        if stdin:
            params[stdin] = read_typed(params.get(stdin), console, is_piped=args.stdin)
        params |= resolve_places(params, places, console)
        if prepare:
            params |= load_show(folder, prepare)(args, console)
        answer = (
            send_wide(method, params, console) if is_wide else send(method, params, args, console)
        )
        shown = load_show(folder, show) if show else show_fields
        return show_answer(answer, args, console, shown, found=found)

    return run


def show_fields(answer: Answer, _args: Args, console: Console) -> None:
    """Print each field of an answer on a line; for an operation without a `show` of its own."""
    for name, value in clean_values(answer).items():
        console.terminal.print(f"{name}  {value}")


def send_wide(method: str, params: Mapping[str, Any], console: Console) -> Answer:
    """Call a method that is about all workspaces unless the parameters name one."""
    named = console.name_workspace(params.get("workspace"))
    return console.call(method, **{**params, "workspace": named})


def send(method: str, params: Mapping[str, object], args: Args, console: Console) -> Answer:
    """Call a method with the parameters of a command's words, in the name of its writer, for as
    long as `--timeout-ms` says.
    """
    request: dict[str, Any] = dict(params)
    is_writing = hasattr(args, "client")
    if is_writing:
        request["client"] = args.client or CLIENT
    if hasattr(args, "timeout_ms"):
        console.set_timeout_ms(args.timeout_ms or (WRITE_MS if is_writing else None))
    of_note = request.pop("workspace", None)
    named = args.workspace or of_note
    if isinstance(named, list):
        return console.call_on_several(named, method, **request)
    return console.call_on(named, method, **request)


ALL_WORKSPACES = "*"


def send_to_several(
    method: str, params: Mapping[str, object], args: Args, console: Console
) -> Answer:
    """Call a method on the workspaces of -w, or on all with --all."""
    if args.all and args.workspace:
        raise BadRequest("--all and --workspace do not go together", hint="use only one of them")
    if args.all:
        args.workspace = [ALL_WORKSPACES]
    return send(method, params, args, console)
