"""Render `--help`: the groups of commands, or the arguments and options of one command; and name
options in the daemon's errors.
"""

from __future__ import annotations

from memsyncd.cli.commands import ENTRIES, GROUPS
from memsyncd.terminal.format import wrap_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from memsyncd.errors import MemsyncdError
    from memsyncd.terminal.parser import Command, Option
    from memsyncd.terminal.terminal import Paint

INTRO = "memsyncd keeps markdown memories indexed while you write them, and answers searches."
BEGIN = "`memsyncd run --init ~/notes` makes a folder with first notes, and indexes it."
MAX_WIDTH = 100
COLUMN = 26


def render_overview(paint: Paint) -> str:
    """Render the list of all commands, in groups."""
    width = max(map(len, ENTRIES)) + 2
    lines = [INTRO, "", f"{paint('bold', 'Usage')}  memsyncd COMMAND …"]
    for group, entries in GROUPS.items():
        lines += ["", paint("bold", group)]
        lines += [
            f"  {paint('cyan', name)}{' ' * (width - len(name))}{entry.summary}"
            for name, entry in entries.items()
        ]
    lines += ["", BEGIN, "`memsyncd COMMAND --help` describes one command."]
    return "\n".join(lines)


def render_help(name: str, summary: str, command: Command, paint: Paint, *, width: int) -> str:
    """Render the help of one command."""
    words = [f"memsyncd {name}", *(argument.usage for argument in command.arguments), "[OPTIONS]"]
    lines = [
        f"{paint('bold', 'Usage')}  {' '.join(words)}",
        "",
        f"{summary[0].upper()}{summary[1:]}.",
    ]
    if command.commands:
        rows = [(f"{name} {action}", each.summary) for action, each in command.commands.items()]
        lines += ["", paint("bold", "Commands"), *_render_rows(rows, paint, width)]
    rows = [
        (argument.metavar, argument.help)
        for argument in command.arguments
        if not command.commands or argument.choices != (*command.commands,)
    ]
    if rows:
        lines += ["", paint("bold", "Arguments"), *_render_rows(rows, paint, width)]
    lines += [
        "",
        paint("bold", "Options"),
        *_render_rows([_render_option(option) for option in command.options], paint, width),
    ]
    if command.examples:
        lines += ["", paint("bold", "Examples"), *(f"  {example}" for example in command.examples)]
    if command.commands:
        lines += ["", f"`memsyncd {name} COMMAND --help` describes one command."]
    return "\n".join(lines)


def _render_option(option: Option) -> tuple[str, str]:
    lead = "" if len(option.flags) > 1 else "    "
    repeated = "; may be repeated" if option.is_repeated else ""
    value = (
        f" {option.metavar}"
        if option.needs_value
        else f"[={option.metavar}]"
        if option.metavar
        else ""
    )
    return f"{lead}{', '.join(option.flags)}{value}", option.help + repeated


def _render_rows(rows: list[tuple[str, str]], paint: Paint, width: int) -> Iterator[str]:
    for term, text in rows:
        lines = list(wrap_words(text, max(min(width, MAX_WIDTH) - COLUMN - 2, 30)))
        gap = " " * (COLUMN - len(term))
        if len(term) >= COLUMN:
            yield f"  {paint('cyan', term)}"
            yield from (" " * (COLUMN + 2) + line for line in lines)
        else:
            yield f"  {paint('cyan', term)}{gap}{lines[0]}"
            yield from (" " * (COLUMN + 2) + line for line in lines[1:])


# --- errors of the daemon -----------------------------------------------------------------------

_PARAMETER = r"(?s)parameter `([^`]*)`(.*)"


def name_options(error: MemsyncdError, name: str, command: Command) -> tuple[str, str]:
    """Return the message and the hint of an error, with the options and arguments of the command
    for the parameters of its request.
    """
    import re  # late: only a refused request needs it

    words = {argument.name: argument.metavar for argument in command.arguments}
    words |= {option.name: option.flags[-1] for option in command.options}
    message, hint = error.message, error.hint
    if match := re.fullmatch(_PARAMETER, message):
        place = match[1].partition("[")[0].rpartition(".")[2]
        shown = words.get(place, place)
        message = f"{name}: {shown}{match[2]}"
        hint = hint if hint.startswith("one of") else f"see `memsyncd {name} --help`"
    for parameter, word in words.items():
        # Other names are also plain words.
        if "_" in parameter:
            hint = re.sub(rf"\b{parameter}\b:?", word, hint)
    return message, hint
