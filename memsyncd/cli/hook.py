"""`memsyncd hook`: what do programs want that run models? Texts to put into a prompt; no daemon is asked."""

from __future__ import annotations

from memsyncd.cli.grammar import Argument, Command
from memsyncd.errors import BadRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import NoReturn

    from memsyncd.cli.console import Console


def _instructions(_args: Args, console: Console) -> int:
    from memsyncd.integrations.instructions import INSTRUCTIONS

    console.terminal.print(INSTRUCTIONS.rstrip("\n"))
    return 0


def _refuse(_args: Args, _console: Console) -> NoReturn:
    raise BadRequest("hook: the command stands first", hint="see `memsyncd hook --help`")


_ACTIONS = {
    "instructions": Command(
        _instructions,
        summary="print the text that tells a model when and how to use its memory",
        examples=("memsyncd hook instructions >> AGENTS.md",),
    ),
}

COMMANDS = {
    "hook": Command(
        _refuse,
        arguments=(Argument("action", "COMMAND", "one of these", choices=tuple(_ACTIONS)),),
        commands=_ACTIONS,
        examples=("memsyncd hook instructions",),
    )
}
