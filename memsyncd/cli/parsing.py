"""What did the person type? The words of one command, read by its grammar; what is wrong is told with a way out.

Options may stand anywhere between the arguments, as `--tag auth` or `--tag=auth`; after `--` every word is an argument.
"""

from __future__ import annotations

from types import SimpleNamespace

from memsyncd.errors import BadRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import NoReturn

    from memsyncd.cli.grammar import Argument, Command, Option


def parse_words(name: str, command: Command, words: Sequence[str]) -> SimpleNamespace:
    """Read the words after the command's name. Raises BadRequest, unless help is asked for."""
    reading = _Reading(name, command)
    reading.read(words)
    return reading.args


def find_nearest(word: str, known: Iterable[str]) -> str:
    """The known word that this one was probably meant to be, or an empty string."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, [*known], n=1)), "")


class _Reading:
    __slots__ = ("args", "command", "flags", "name")

    def __init__(self, name: str, command: Command) -> None:
        self.name = name
        self.command = command
        self.flags = {flag: option for option in command.options for flag in option.flags}
        self.args = SimpleNamespace()
        for option in command.options:
            setattr(self.args, option.name, [] if option.is_repeated else None if option.metavar else False)

    def read(self, words: Sequence[str]) -> None:
        plain: list[str] = []
        rest = list(reversed(words))
        while rest:
            word = rest.pop()
            if word == "--":
                plain += reversed(rest)
                break
            flag, value = self._split(word)
            if flag is None:
                plain.append(word)
            else:
                self._take(flag, value, rest)
        if not self.args.help:
            self._place(plain)

    def _split(self, word: str) -> tuple[str | None, str | None]:
        """The flag and the value that is glued to it; no flag if the word is an argument."""
        if not word.startswith("-") or word == "-":
            return None, None
        flag, equals, value = word.partition("=")
        if flag in self.flags:
            return flag, value if equals else None
        short = self.flags.get(word[:2])
        if short and short.metavar and (word[2:].isdecimal() or not self.command.keeps_exclusions):
            return word[:2], word[2:]
        if len(flag.split()) > 1 or flag != flag.strip():
            return None, None  # `- an item of a list` and `--- front matter` are text
        if word.startswith("--"):
            self._refuse_unknown(flag)
        if not self.command.keeps_exclusions:
            self._refuse_unknown(flag)
        if f"-{word}" in self.flags:
            self._refuse(f"{word} would leave a word out", f"the option is -{word}")
        return None, None

    def _take(self, flag: str, value: str | None, rest: list[str]) -> None:
        option = self.flags[flag]
        if not option.metavar:
            if value is not None:
                self._refuse(f"{flag} takes no value")
            setattr(self.args, option.name, True)
            return
        if value is None and option.bare is not None:
            setattr(self.args, option.name, option.bare)
            return
        if value is None:
            if not rest or rest[-1] in self.flags:
                self._refuse(f"{flag} needs a value: {flag} {option.metavar}")
            value = rest.pop()
        self._keep(option, flag, value)

    def _keep(self, option: Option, flag: str, value: str) -> None:
        try:
            meaning = option.read(value)
        except ValueError as error:
            self._refuse(f"{flag} {value}: {error}")
        if option.is_repeated:
            getattr(self.args, option.name).append(meaning)
        else:
            setattr(self.args, option.name, meaning)

    def _place(self, plain: list[str]) -> None:
        for argument in self.command.arguments:
            n = len(plain) if argument.many in ("any", "some") else min(1, len(plain))
            taken, plain = plain[:n], plain[n:]
            if not taken and argument.many in ("one", "some"):
                self._refuse(f"{argument.metavar} is missing")
            self._check_choices(argument, taken)
            is_list = argument.many in ("any", "some")
            setattr(self.args, argument.name, taken if is_list else taken[0] if taken else None)
        if plain:
            self._refuse(f"one word too many: {plain[0]}")

    def _check_choices(self, argument: Argument, taken: list[str]) -> None:
        for word in taken:
            if argument.choices and word not in argument.choices:
                self._refuse(f"no such {argument.metavar.lower()}: {word}", f"choose from {', '.join(argument.choices)}")

    def _refuse_unknown(self, flag: str) -> NoReturn:
        near = find_nearest(flag, self.flags)
        self._refuse(f"no such option: {flag}", f"did you mean {near}?" if near else "")

    def _refuse(self, message: str, hint: str = "") -> NoReturn:
        raise BadRequest(f"{self.name}: {message}", hint=hint or f"see `memsyncd {self.name} --help`")
