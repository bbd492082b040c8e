"""Actions of commands that call one operation: words become parameters, the answer becomes text.

A capability's module `show` has its functions that prepare parameters and print answers. It is
imported when its command runs.
"""

from __future__ import annotations

import os
import sys

from memsyncd.errors import BadRequest, ConfirmationNeeded
from memsyncd.terminal._generated import CURRENT
from memsyncd.terminal.console import (
    CLIENT,
    WRITE_MS,
    can_ask,
    only_reads,
    read_typed,
    show_answer,
)
from memsyncd.terminal.places import resolve_places
from memsyncd.terminal.terminal import clean_line, clean_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import SimpleNamespace as Args
    from typing import Any

    from memsyncd.terminal.console import Answer, Console
    from memsyncd.terminal.parser import Action


def load_show(folder: str, function: str) -> Callable[..., Any]:
    """Return a function of the `show` in a folder; `upkeep:show_plan` names another folder."""
    other, _, function = function.rpartition(":")
    module = f"memsyncd.operations.{other or folder}.show"
    # `importlib` itself imports `warnings`: half a millisecond of each command.
    __import__(module)
    loaded: Callable[..., Any] = getattr(sys.modules[module], function)
    return loaded


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


def call_operation(  # noqa: PLR0913  the parts of a declaration
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
    is_long: bool = False,
) -> Action:
    """Make the action of a command that calls one operation, by the words of its declaration.

    `show` and `prepare` name functions of the folder's `show`; `found` names the fields of the
    answer that are all empty if nothing was found; `stdin` names the field whose text may come from
    stdin; `places` name fields with paths. An operation that `is_wide` is about all workspaces
    unless one is named. A command that `is_long` draws its progress.
    """

    def run(args: Args, console: Console) -> int:
        params: dict[str, Any] = {**(fixed or {}), **args.params}
        if stdin:
            params[stdin] = read_typed(params.get(stdin), console, is_piped=args.stdin)
        # First, because it refuses wrong words without a daemon.
        prepared = load_show(folder, prepare)(args, console) if prepare else {}
        params |= resolve_places(params, places, console) | prepared
        if args.each and not only_reads(method, params):
            raise BadRequest("--all only reads", hint="name the workspace that is to change by -w")
        console.draws_progress = is_long
        answer = (
            send_wide(method, params, console) if is_wide else send(method, params, args, console)
        )
        show_function = load_show(folder, show) if show else show_fields
        return show_answer(answer, args, console, show_function, found=found)

    return run


def show_fields(answer: Answer, _args: Args, console: Console) -> None:
    """Print each field of an answer on its own line, for an operation without a `show` function."""
    for name, value in clean_values(answer).items():
        console.terminal.print(f"{name}  {value}")


def send_wide(method: str, params: Mapping[str, Any], console: Console) -> Answer:
    """Call a method on the workspace that the parameters name, or on all."""
    workspace = console.name_workspace(params.get("workspace"))
    return console.call(method, **{**params, "workspace": workspace})


def send(method: str, params: Mapping[str, object], args: Args, console: Console) -> Answer:
    """Call a method on the workspaces of -w, with the client of `--client` and the time limit of
    `--timeout-ms`.
    """
    request: dict[str, Any] = {**find_current(method, os.environ), **params}
    is_writing = hasattr(args, "client")
    if is_writing:
        request["client"] = args.client or CLIENT
    if hasattr(args, "timeout_ms"):
        has_limit = is_writing and not console.draws_progress
        console.set_timeout_ms(args.timeout_ms or (WRITE_MS if has_limit else None))
    root_of_path = request.pop("workspace", None)
    workspace = args.workspace or root_of_path
    if isinstance(workspace, list):
        return console.call_on_several(workspace, method, **request)
    return console.call_on(workspace, method, **request)


def send_confirmed(
    method: str, params: Mapping[str, object], args: Args, console: Console, *, question: str
) -> Answer:
    """Send as `send`. If the daemon needs a confirmation and a terminal is there, ask and send
    again. Raises ConfirmationNeeded without a terminal, BadRequest for another answer than yes.
    """
    try:
        return send(method, params, args, console)
    except ConfirmationNeeded as failure:
        if not can_ask():
            raise
        if not console.confirm(f"{clean_line(failure.message)}; {question}"):
            raise BadRequest("nothing was changed", hint="answer y, or add --yes") from None
        return send(method, {**params, "confirm": True}, args, console)


def find_current(method: str, env: Mapping[str, str]) -> dict[str, object]:
    """Return the current task and session that the environment names, for an operation that takes
    them.
    """
    fields = ((field, env.get(f"MEMSYNCD_{field.upper()}")) for field in CURRENT.get(method, ()))
    return {field: value for field, value in fields if value}


ALL_WORKSPACES = "*"


def send_to_several(
    method: str, params: Mapping[str, object], args: Args, console: Console
) -> Answer:
    """Call a method on the workspaces of -w, or on all with --all."""
    if args.all:
        args.workspace = [ALL_WORKSPACES]
    return send(method, params, args, console)
