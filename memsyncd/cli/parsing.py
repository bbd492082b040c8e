"""What did the person type? One parser, for the command that was called; what is wrong is told in a line with a way out."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, NoReturn

from memsyncd.cli.terminal import find_width
from memsyncd.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from memsyncd.cli.table import Command

# No command line can hold a NUL, so a word that begins with one was marked here.
_MARK = "\0"


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Help in the terminal's width. argparse would import `shutil` to find that out, for every single argument."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=26, width=min(find_width(os.environ), 100))


class Parser(argparse.ArgumentParser):
    """Raises BadRequest instead of leaving the process."""

    def error(self, message: str) -> NoReturn:
        raise BadRequest(f"{self.prog.partition(' ')[2]}: {message}", hint=self._find_hint(message))

    def _find_hint(self, message: str) -> str:
        unknown = message.removeprefix("unrecognized arguments: ").split()[0] if message.startswith("unrec") else ""
        near = find_nearest(unknown, self._option_string_actions)
        return f"did you mean {near}? " * bool(near) + f"see `{self.prog} --help`"


def make_parser(name: str, summary: str, command: Command) -> Parser:
    """The parser of one command."""
    epilog = "examples:\n" + "\n".join(f"  {line}" for line in command.examples) if command.examples else None
    parser = Parser(
        prog=f"memsyncd {name}",
        description=summary[0].upper() + summary[1:] + ".",
        epilog=epilog,
        formatter_class=Formatter,
        allow_abbrev=False,
    )
    command.declare(parser)
    return parser


def parse_arguments(parser: Parser, words: Sequence[str]) -> argparse.Namespace:
    """Read the words; options may stand anywhere between them. Raises BadRequest."""
    if parser.get_default("keeps_exclusions"):
        words = _mark_exclusions(words, parser)
    args = parser.parse_intermixed_args([*words])
    for name, value in vars(args).items():
        setattr(args, name, _unmark(value))
    return args


def find_nearest(word: str, known: Iterable[str]) -> str:
    """The known word that this one was probably meant to be, or an empty string."""
    if not word:
        return ""
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, [*known], n=1)), "")


def add_workspace(parser: argparse.ArgumentParser, *, what: str = "the workspace") -> None:
    parser.add_argument(
        "-w",
        "--workspace",
        metavar="WS",
        help=f"{what}: a name, an id or a folder in it; by default the current folder's, else the only one",
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the daemon's answer as one line of JSON")


def count(text: str) -> int:
    """A whole number from 1; argparse says `invalid count value` otherwise."""
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def _mark_exclusions(words: Sequence[str], parser: Parser) -> list[str]:
    """Mark words such as `-draft`, which leave a word out of a search, so that argparse does not take them for options."""
    known = parser._option_string_actions  # noqa: SLF001  argparse has no other way to ask
    marked: list[str] = []
    for i, word in enumerate(words):
        if word == "--":
            return marked + [_MARK + rest for rest in words[i + 1 :]]
        is_limit = word.startswith("-n") and word[2:].isdecimal()
        is_option = not word.startswith("-") or word.startswith("--") or word in known or is_limit
        if not is_option and f"-{word}" in known:
            parser.error(f"{word} leaves out a word; the option is -{word}")
        marked.append(word if is_option else _MARK + word)
    return marked


def _unmark(value: object) -> object:
    if isinstance(value, list):
        return [_unmark(item) for item in value]
    return value.removeprefix(_MARK) if isinstance(value, str) else value
