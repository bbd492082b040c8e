"""Define commands with their arguments and options, and parse their words.

The parser, the help and the completion read the same definitions. The standard `argparse` is not
used, because its import and its parsers take as long as an answer of the daemon.

Options may stand anywhere between the arguments, as `--tag auth` or `--tag=auth`; after `--` every
word is an argument. The second use of an option that may not be repeated is an error, because one
of its two values would be ignored.
"""

from __future__ import annotations

import sys

from memsyncd.errors import BadRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import SimpleNamespace as Args
    from typing import Any, Final

    Action = Callable[[Args, Any], int]
    """The function of a command: from its words and the console to the exit status."""
    from collections.abc import Iterable, Sequence
    from types import SimpleNamespace
    from typing import NoReturn
else:
    # To import `types` takes a fiftieth of the time of a short command.
    SimpleNamespace = type(sys.implementation)


class Argument:
    """A positional argument. `usage` is its form in the help: `FILE`, `[FILE]`, `FILE…`, `[FILE…]`.

    `name` is the attribute of the parsed words: a text, None if an optional argument is missing, or
    a list if the argument may be repeated. `field` names the parameter of the request with the same
    value; it is empty if there is none. `aliases` maps further words to the word in `choices` that
    each stands for.
    """

    __slots__ = (
        "aliases",
        "choices",
        "field",
        "help",
        "is_needed",
        "is_repeated",
        "metavar",
        "name",
        "usage",
    )

    def __init__(
        self,
        name: str,
        usage: str,
        help_text: str,
        *,
        choices: tuple[str, ...] = (),
        aliases: Mapping[str, str] | None = None,
        field: str = "",
    ) -> None:
        self.name: Final = name
        self.field: Final = field
        self.usage: Final = usage
        self.help: Final = help_text
        self.choices: Final = choices
        self.aliases: Final = aliases or {}
        self.is_needed: Final = not usage.startswith("[")
        inner = usage if self.is_needed else usage[1:-1]
        self.is_repeated: Final = inner.endswith("…")
        self.metavar: Final = inner.removesuffix("…")


class Option:
    """An option. `usage` is its form in the help: `--all`, `-n --limit N`, or `--tag T…` if it may
    be repeated.

    `parse` converts the text of the value, or raises ValueError; by default N and MS are whole
    numbers from 1, other values are texts. Only the words in `choices` are allowed, if there are
    any. With a `bare` value the flag may stand alone, and another value must be attached to it:
    `--open=2`.

    The long flag, or `name`, names the attribute of the parsed words: True or False for a flag
    without a value; the value or None; a list for an option that may be repeated. `field` names the
    parameter of the request, or a field of a parameter, as `filters.kind`. A flag without a value
    sets the parameter to `value`. `collect` makes one parameter from the list of values.
    """

    __slots__ = (
        "bare",
        "choices",
        "collect",
        "field",
        "flags",
        "help",
        "is_repeated",
        "metavar",
        "name",
        "parse",
        "value",
    )

    def __init__(  # noqa: PLR0913  the parts of an option
        self,
        usage: str,
        help_text: str,
        *,
        parse: Callable[[str], object] | None = None,
        choices: tuple[str, ...] = (),
        bare: object = None,
        name: str = "",
        field: str = "",
        value: object = True,
        collect: Callable[[Any], object] | None = None,
    ) -> None:
        words = usage.split()
        metavar = "" if words[-1].startswith("-") else words.pop()
        self.flags: Final = tuple(words)
        self.name: Final = name or words[-1].removeprefix("--").replace("-", "_")
        self.help: Final = help_text
        self.is_repeated: Final = metavar.endswith("…")
        self.metavar: Final = metavar.removesuffix("…")
        self.parse: Final = parse or (parse_count if self.metavar in ("N", "MS") else str)
        self.choices: Final = choices
        self.bare: Final = bare
        self.field: Final = field
        self.value: Final = value
        self.collect: Final = collect

    @property
    def needs_value(self) -> bool:
        return bool(self.metavar) and self.bare is None


class Command:
    """The definition of a command; `run` executes it and returns the exit status.

    `commands` are subcommands, as in `memsyncd memory view`. Only a subcommand has a `summary`; the
    table of commands has the others. With `keeps_exclusions`, a word such as `-draft` excludes a
    word from a search, and is not a mistyped option; `query_filters` are the filters that a query
    may have as words. `gone` maps a former option, or a former option with its value, to a hint.
    With `in_each`, --all runs the command once for each workspace. `lists` names the fields of the
    answer, separated by spaces, that --format and -l print.
    """

    __slots__ = (
        "arguments",
        "commands",
        "examples",
        "gone",
        "in_each",
        "keeps_exclusions",
        "lists",
        "options",
        "query_filters",
        "run",
        "summary",
    )

    def __init__(  # noqa: PLR0913  the parts of a command
        self,
        run: Action,
        *,
        arguments: tuple[Argument, ...] = (),
        options: tuple[Option, ...] = (),
        examples: tuple[str, ...] = (),
        keeps_exclusions: bool = False,
        summary: str = "",
        commands: dict[str, Command] | None = None,
        gone: dict[str, str] | None = None,
        in_each: bool = False,
        lists: str = "",
        query_filters: tuple[str, ...] = (),
    ) -> None:
        self.run: Final = run
        self.arguments: Final = arguments
        self.options: Final = (*options, *EVERYWHERE)
        self.examples: Final = examples
        self.keeps_exclusions: Final = keeps_exclusions
        self.summary: Final = summary
        self.commands: Final = commands or {}
        self.gone: Final = gone or {}
        self.in_each: Final = in_each
        self.lists: Final = lists
        self.query_filters: Final = query_filters


def make_group(name: str, commands: dict[str, Command], examples: tuple[str, ...]) -> Command:
    """Make the first word of other commands, which does nothing by itself."""

    def refuse(args: Args, _console: object) -> NoReturn:
        # If the subcommand is the next word, `main` has called it already.
        raise BadRequest(f"{name}: {args.action} comes first", hint=f"see `memsyncd {name} --help`")

    argument = Argument("action", "COMMAND", "one of the commands above", choices=tuple(commands))
    return Command(refuse, arguments=(argument,), commands=commands, examples=examples)


def parse_count(text: str) -> int:
    """Parse a whole number from 1."""
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise ValueError("expected a whole number from 1")
    return number


def parse_whole(text: str) -> int:
    """Parse a whole number that the daemon compares with limits of its own."""
    if not text.isdecimal():
        raise ValueError("expected a whole number")
    return int(text)


def parse_fraction(text: str) -> float:
    """Parse a number from 0 to 1."""
    return parse_number(text, 1)


def parse_number(text: str, most: int) -> float:
    """Parse a number from 0 to `most`."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= most:
        raise ValueError(f"expected a number from 0 to {most}")
    return number


def parse_pair(text: str, *, may_be_empty: bool = False) -> tuple[str, str]:
    """Parse a name and a value with an equals sign between; the value `may_be_empty`."""
    name, equals, value = (part.strip() for part in text.partition("="))
    if not (name and equals and (value or may_be_empty)):
        raise ValueError("expected a name and a value, such as owner=infra")
    return name, value


def make_workspace_option(
    purpose: str = "the workspace",
    *,
    default: str = "the current folder's",
    is_repeated: bool = False,
) -> Option:
    """Make the option -w; `purpose` says what the command does with the workspace."""
    text = f"{purpose}: a name, an id or a folder in it; by default {default}"
    return Option("-w --workspace WS" + "…" * is_repeated, text)


TAKES_SEVERAL = "search, context, recall, patterns and doctor"
"""The commands that accept several -w."""

EVERYWHERE = (
    Option(
        "--color WHEN",
        "when to use colours: auto (default), on a terminal unless NO_COLOR is set; always; never",
        choices=("auto", "always", "never"),
    ),
    Option("--no-pager", "do not show a long answer with MEMSYNCD_PAGER, PAGER or less"),
    Option("-h --help", "show this help"),
)
"""The options of every command."""
ALL = Option("--all", "all workspaces, one after the other")
PATHS = Option("-l --paths", "print only the paths, each once, one a line")
JSON = Option("--json", "print the daemon's answer as one line of JSON")
IDS = Option("--ids", "begin each place with a short id, which every command takes")
JSON_LINES = Option("--json", "print each change as one line of JSON")


def make_format(fields: tuple[str, ...]) -> Option:
    """Make the option --format for things that have these fields."""

    def parse(text: str) -> object:
        # Late, because a template is rare.
        from memsyncd.terminal.template import add_short_names, parse_template

        return parse_template(text, add_short_names(fields))

    example = "{path}:{start}-{end}" if "start_line" in fields else f"{{{fields[0]}}}"
    text = f"print a line for each, such as '{example}'; an unknown field names all"
    return Option("--format TEMPLATE", text, parse=parse, name="template")


ON_REQUEST: Final = ("worth", "explain")
"""Fields that an answer has only if the request asks for an explanation."""


# --- parsing ------------------------------------------------------------------------------------


def parse_command(name: str, command: Command, words: Sequence[str]) -> SimpleNamespace:
    """Parse the words after the command's name. Raises BadRequest. With `--help`, arguments may be
    missing.
    """
    parser = _Parser(name, command)
    parser.read(words)
    template = getattr(parser.args, "template", None) or ()
    if any(field in ON_REQUEST for _, field, _ in template) and hasattr(parser.args, "explain"):
        parser.args.explain = parser.args.params["explain"] = True
    return parser.args


def find_nearest(word: str, words: Iterable[str]) -> str:
    """Return the most similar of the words, empty if none is similar."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, [*words], n=1)), "")


class _Parser:
    __slots__ = ("args", "command", "flags", "name", "seen")

    def __init__(self, name: str, command: Command) -> None:
        self.name = name
        self.command = command
        self.flags = {flag: option for option in command.options for flag in option.flags}
        self.args = SimpleNamespace(params={}, typed={}, lists=command.lists, each=None)
        self.seen: set[str] = set()
        for option in command.options:
            setattr(
                self.args,
                option.name,
                [] if option.is_repeated else None if option.metavar else False,
            )

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
                self._accept(flag, value, rest)
        if not self.args.help:
            self._assign(plain)

    def _split(self, word: str) -> tuple[str | None, str | None]:
        """Split a word into a flag and its attached value; the flag is None for an argument."""
        if not word.startswith("-") or word == "-":
            return None, None
        flag, equals, value = word.partition("=")
        if flag in self.flags:
            return flag, value if equals else None
        short = self.flags.get(word[:2])
        if short and short.metavar and (word[2:].isdecimal() or not self.command.keeps_exclusions):
            return word[:2], word[2:]
        if flag in self.command.gone or (word[:2] in self.command.gone and word[2:].isdecimal()):
            # Without this, `-n 5` would exclude a word.
            self._refuse_unknown(flag if flag in self.command.gone else word[:2])
        if len(flag.split()) > 1 or flag != flag.strip():
            return None, None  # such as `- an item of a list` and `--- front matter`
        if word.startswith("--"):
            self._refuse_unknown(flag)
        if not self.command.keeps_exclusions:
            self._refuse_unknown(flag)
        if f"-{word}" in self.flags:
            self._refuse(f"{word} would exclude a word", f"the option is -{word}")
        return None, None

    def _accept(self, flag: str, value: str | None, rest: list[str]) -> None:
        option = self.flags[flag]
        self.args.typed[option.name] = flag
        if not option.is_repeated:
            self._refuse_second(option, flag)
        if not option.metavar:
            if value is not None:
                self._refuse(f"{flag} takes no value")
            setattr(self.args, option.name, True)
            self._keep(option.field, option.value)
            return
        if value is None and option.bare is not None:
            setattr(self.args, option.name, option.bare)
            self._keep(option.field, option.bare)
            return
        if value is None:
            if not rest or rest[-1] in self.flags:
                self._refuse(f"{flag} needs a value: {flag} {option.metavar}")
            value = rest.pop()
        self._store(option, flag, value)

    def _store(self, option: Option, flag: str, value: str) -> None:
        try:
            if option.choices and value not in option.choices:
                raise ValueError(f"expected one of {', '.join(option.choices)}")
            parsed = option.parse(value)
        except ValueError as error:
            hint = self.command.gone.get(f"{flag} {value}", "")
            self._refuse(f"{flag} {value}: {error}", hint)
        if option.is_repeated:
            values = getattr(self.args, option.name)
            values.append(parsed)
            self._keep(option.field, option.collect(values) if option.collect else values)
        else:
            setattr(self.args, option.name, parsed)
            self._keep(option.field, parsed)

    def _keep(self, field: str, value: object) -> None:
        """Set the parameter of an option or argument, if it has one."""
        outer, dot, inner = field.partition(".")
        if dot:
            self.args.params.setdefault(outer, {})[inner] = value
        elif field:
            self.args.params[field] = value

    def _assign(self, plain: list[str]) -> None:
        for argument in self.command.arguments:
            n = len(plain) if argument.is_repeated else min(1, len(plain))
            values, plain = [argument.aliases.get(word, word) for word in plain[:n]], plain[n:]
            if not values and argument.is_needed:
                hint = f"choose from {', '.join(argument.choices)}" if argument.choices else ""
                self._refuse(f"{argument.metavar} is missing", hint or self._offer_filters())
            self._check_choices(argument, values)
            value = values if argument.is_repeated else values[0] if values else None
            setattr(self.args, argument.name, value)
            if values:
                self._keep(argument.field, value)
        if plain:
            self._refuse(f"too many arguments: {plain[0]}")

    def _offer_filters(self) -> str:
        """The hint that the filters of the options can be the query; empty without filters."""
        texts = {
            name: values[0] if isinstance(values, list) else values
            for name, values in self.args.params.get("filters", {}).items()
        }
        places = {text.partition(":")[0] for text in self.command.query_filters}
        words = [
            f"{name}:{text}" if text.isalnum() else f"'{name}:\"{text}\"'"
            for name, text in texts.items()
            if name in places
        ]
        return f"a filter can be the query: memsyncd {self.name} {' '.join(words)}" if words else ""

    def _check_choices(self, argument: Argument, values: list[str]) -> None:
        for word in values:
            if argument.choices and word not in argument.choices:
                self._refuse(
                    f"no such {argument.metavar.lower()}: {word}",
                    f"choose from {', '.join(argument.choices)}",
                )

    def _refuse_second(self, option: Option, flag: str) -> None:
        if option.name in self.seen:
            several = f"; {TAKES_SEVERAL} take several" if option.name == "workspace" else ""
            self._refuse(f"{flag} is given twice", f"give it once{several}")
        self.seen.add(option.name)

    def _refuse_unknown(self, flag: str) -> NoReturn:
        nearest = find_nearest(flag, self.flags)
        hint = self.command.gone.get(flag) or (f"did you mean {nearest}?" if nearest else "")
        self._refuse(f"no such option: {flag}", hint)

    def _refuse(self, message: str, hint: str = "") -> NoReturn:
        raise BadRequest(
            f"{self.name}: {message}", hint=hint or f"see `memsyncd {self.name} --help`"
        )
