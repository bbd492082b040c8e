"""What may stand after a command's name? Its arguments and options as values: the parser, the help and completion read them.

A table of our own and no argparse, which would take as long to import and build as the daemon takes to answer.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import SimpleNamespace as Args
    from typing import Final, Literal

    from memsyncd.cli.console import Console

    Act = Callable[[Args, Console], int]
    Many = Literal["one", "optional", "any", "some"]


class Argument:
    """A word, or words, without a flag. `many` says how many: one; optional: none or one; any: none or more; some: one or more.

    `name` is that of the attribute that holds it: text, None for an optional one left out, a list for any and some.
    """

    __slots__ = ("choices", "help", "many", "metavar", "name")

    def __init__(self, name: str, metavar: str, help_text: str, *, many: Many = "one", choices: tuple[str, ...] = ()) -> None:
        self.name: Final = name
        self.metavar: Final = metavar
        self.help: Final = help_text
        self.many: Final = many
        self.choices: Final = choices


class Option:
    """A flag, with a value if it has a `metavar`. `read` turns the value's text into what it means, or raises ValueError.

    The attribute that holds it is named by the long flag: False or True without a value; None or the value; a list if it may
    be repeated. Where there is a `bare` meaning the flag may stand alone, and a value must be glued to it: `--open=2`.
    """

    __slots__ = ("bare", "flags", "help", "is_repeated", "metavar", "name", "read")

    def __init__(
        self,
        flags: str,
        help_text: str,
        *,
        metavar: str = "",
        read: Callable[[str], object] = str,
        is_repeated: bool = False,
        bare: object = None,
    ) -> None:
        self.flags: Final = tuple(flags.split())
        self.name: Final = self.flags[-1].removeprefix("--").replace("-", "_")
        self.help: Final = help_text
        self.metavar: Final = metavar
        self.read: Final = read
        self.is_repeated: Final = is_repeated
        self.bare: Final = bare

    @property
    def needs_value(self) -> bool:
        return bool(self.metavar) and self.bare is None


class Command:
    """How a command is read and done; `act` returns the exit status.

    `commands` are those of which one may be named next, as in `memsyncd memory view`, and have a `summary` of what each is for.
    Where `keeps_exclusions`, a word such as `-draft` is no mistyped option but leaves a word out of a search.
    """

    __slots__ = ("act", "arguments", "commands", "examples", "keeps_exclusions", "options", "summary")

    def __init__(
        self,
        act: Act,
        *,
        arguments: tuple[Argument, ...] = (),
        options: tuple[Option, ...] = (),
        examples: tuple[str, ...] = (),
        keeps_exclusions: bool = False,
        summary: str = "",
        commands: dict[str, Command] | None = None,
    ) -> None:
        self.act: Final = act
        self.arguments: Final = arguments
        self.options: Final = (*options, HELP)
        self.examples: Final = examples
        self.keeps_exclusions: Final = keeps_exclusions
        self.summary: Final = summary
        self.commands: Final = commands or {}


def read_count(text: str) -> int:
    """A whole number from 1."""
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise ValueError("a whole number from 1 is wanted")
    return number


def read_share(text: str) -> float:
    """A number from 0 to 1."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise ValueError("a number from 0 to 1 is wanted")
    return number


def name_workspace_option(what: str = "the workspace") -> Option:
    """The option -w, `what` saying what is done with the workspace."""
    meant = "a name, an id or a folder in it; by default the current folder's, else the only one"
    return Option("-w --workspace", f"{what}: {meant}", metavar="WS")


HELP = Option("-h --help", "show this")
JSON = Option("--json", "print the daemon's answer as one line of JSON")
TIMEOUT = Option("--timeout-ms", "give up after this long", metavar="MS", read=read_count)
