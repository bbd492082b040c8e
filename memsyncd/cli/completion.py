"""`memsyncd completion`: render completion scripts for bash, zsh and fish.

The definitions of the commands give the scripts. A script contains all commands and options; it
asks the daemon only for the names of workspaces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from memsyncd.cli.commands import ENTRIES, load_command
from memsyncd.terminal.parser import Argument, Command

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import SimpleNamespace as Args

    from memsyncd.terminal.console import Console
    from memsyncd.terminal.parser import Option

NAMES = "memsyncd list --names 2>/dev/null"
FILE_METAVARS = ("PATH", "FILE", "ANCHOR|PATH", "ANCHOR|PATH|N", "ANCHOR|PATH[:A[-B]]")


class Completions(NamedTuple):
    """The words that may follow a command: its options, the words of its closed lists, and whether
    it takes files or workspaces. `values` has the words that may follow an option, by its flags.
    """

    options: tuple[Option, ...]
    values: dict[tuple[str, ...], tuple[str, ...]]
    choices: tuple[str, ...]
    takes_file: bool
    takes_workspace: bool


def find_completions(name: str) -> Completions:
    """Return the words that may follow the command `name`."""
    command = load_command(name)
    every = (command, *command.commands.values())
    metavars = {argument.metavar for each in every for argument in each.arguments}
    choices = (choice for argument in command.arguments for choice in argument.choices)
    options: dict[tuple[str, ...], Option] = {}
    values: dict[tuple[str, ...], tuple[str, ...]] = {}
    for option in (option for each in every for option in each.options):
        options[option.flags] = option
        # The words of an option may differ from one action of a command to the next.
        words = (*values.get(option.flags, ()), *option.choices)
        values[option.flags] = tuple(dict.fromkeys(words))
    return Completions(
        options=tuple(options.values()),
        values=values,
        choices=tuple(dict.fromkeys((*choices, *command.commands))),
        takes_file=not metavars.isdisjoint(FILE_METAVARS),
        takes_workspace="WS" in metavars,
    )


def render_bash() -> str:
    lines = [
        "# bash completion for memsyncd: source it, or put it into",
        "# ~/.local/share/bash-completion/completions/memsyncd",
        "_memsyncd() {",
        '    local word="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}"',
        "    local words= choices= files= workspaces= values= name quoted",
        "    COMPREPLY=()",
        "    local IFS=$' \\t\\n'",
        # bash makes three words of `--color=always`.
        '    if [[ "$word" == "=" ]]; then',
        "        word=",
        '    elif [[ "$previous" == "=" ]] && (( COMP_CWORD > 2 )); then',
        '        previous="${COMP_WORDS[COMP_CWORD-2]}"',
        "    fi",
        "    if (( COMP_CWORD == 1 )); then",
        f'        COMPREPLY=($(compgen -W "{" ".join(ENTRIES)} help --help --version" -- "$word"))',
        "        return",
        "    fi",
        '    case "${COMP_WORDS[1]}" in',
        *_render_bash_cases(),
        "    esac",
        '    if [[ -n "$values" ]]; then',
        '        COMPREPLY=($(compgen -W "$values" -- "$word"))',
        '    elif [[ "$previous" == -w || "$previous" == --workspace',
        '        || ( -n "$workspaces" && "$word" != -* ) ]]; then',
        # A folder's name is untrusted: compgen, and then the shell, would execute a `$(…)` in it.
        "        while IFS= read -r name; do",
        '            printf -v quoted %q "$name"',
        '            if [[ "$name" == "$word"* || "$quoted" == "$word"* ]]; then',
        '                COMPREPLY+=("$quoted")',
        "            fi",
        f"        done < <({NAMES})",
        '    elif [[ -n "$choices" && "$word" != -* ]] && (( COMP_CWORD == 2 )); then',
        '        COMPREPLY=($(compgen -W "$choices" -- "$word"))',
        '    elif [[ "$word" == -* || -z "$files" ]]; then',
        '        COMPREPLY=($(compgen -W "$words" -- "$word"))',
        "    fi",
        "}",
        "complete -o bashdefault -o default -F _memsyncd memsyncd",
    ]
    return "\n".join(lines)


def _render_bash_cases() -> Iterator[str]:
    for name in ENTRIES:
        words = find_completions(name)
        flags = " ".join(flag for option in words.options for flag in option.flags)
        choices = f' choices="{" ".join(words.choices)}"' if words.choices else ""
        marks = " files=1" * words.takes_file + " workspaces=1" * words.takes_workspace
        yield f'        {name}) words="{flags}"{choices}{marks}'
        yield '            case "$previous" in'
        for option, values in words.values.items():
            if values:
                yield f'                {"|".join(option)}) values="{" ".join(values)}" ;;'
        yield "            esac ;;"


def render_zsh() -> str:
    lines = [
        "#compdef memsyncd",
        "# zsh completion for memsyncd: put it into a folder of $fpath as _memsyncd",
        "_memsyncd_workspaces() {",
        "    local -a names",
        f'    names=("${{(@f)$({NAMES})}}")',
        "    compadd -a names",
        "}",
        "_memsyncd() {",
        "    local -a commands",
        "    commands=(",
        *(f"        {_quote_zsh(f'{name}:{entry.summary}')}" for name, entry in ENTRIES.items()),
        "    )",
        "    if (( CURRENT == 2 )); then",
        "        _describe command commands",
        "        return",
        "    fi",
        "    shift words",
        "    (( CURRENT-- ))",
        "    case $words[1] in",
        *(
            f"        {name}) _arguments {' '.join(_render_zsh_words(find_completions(name)))} ;;"
            for name in ENTRIES
        ),
        "    esac",
        "}",
        'if [[ "$funcstack[1]" == _memsyncd ]]; then _memsyncd "$@"',
        "else compdef _memsyncd memsyncd; fi",
    ]
    return "\n".join(lines)


def _render_zsh_words(words: Completions) -> Iterator[str]:
    for option in words.options:
        action = (
            ":workspace:_memsyncd_workspaces"
            if option.metavar == "WS"
            else f":{option.metavar}:({' '.join(values)})"
            if (values := words.values[option.flags])
            else f":{option.metavar}: "
            if option.needs_value
            else ""
        )
        text = _first_clause(option).replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")
        for flag in option.flags:
            yield _quote_zsh(f"*{flag}[{text}]{action}")
    if words.choices:
        yield _quote_zsh(f"1:action:({' '.join(words.choices)})")
    if words.takes_file:
        yield "'*:file:_files'"
    if words.takes_workspace:
        yield "'1:workspace:_memsyncd_workspaces'"


def _first_clause(option: Option) -> str:
    # A menu has one line for each option, so the explanation after the colon is left out.
    return option.help.partition(":")[0]


def _quote_zsh(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def render_fish() -> str:
    lines = [
        "# fish completion for memsyncd: put it into ~/.config/fish/completions/memsyncd.fish",
        "complete -c memsyncd -f",
    ]
    for name, entry in ENTRIES.items():
        lines.append(
            "complete -c memsyncd -n __fish_use_subcommand"
            f" -a {name} -d {_quote_fish(entry.summary)}"
        )
        lines += [
            f"complete -c memsyncd -n '__fish_seen_subcommand_from {name}' {rest}"
            for rest in _render_fish_words(find_completions(name))
        ]
    return "\n".join(lines)


def _render_fish_words(words: Completions) -> Iterator[str]:
    for option in words.options:
        flags = " ".join(
            f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.flags
        )
        value = (
            f" -x -a {_quote_fish(f'({NAMES})')}"
            if option.metavar == "WS"
            else f" -x -a {_quote_fish(' '.join(values))}"
            if (values := words.values[option.flags])
            else " -x"
            if option.needs_value
            else ""
        )
        yield f"{flags}{value} -d {_quote_fish(_first_clause(option))}"
    if words.choices:
        yield f"-a {_quote_fish(' '.join(words.choices))}"
    if words.takes_file:
        yield "-F"
    if words.takes_workspace:
        yield f"-a {_quote_fish(f'({NAMES})')}"


def _quote_fish(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


SHELLS = {"bash": render_bash, "zsh": render_zsh, "fish": render_fish}


def _completion(args: Args, console: Console) -> int:
    console.terminal.print_exactly(SHELLS[args.shell]())
    return 0


COMMANDS = {
    "completion": Command(
        _completion,
        arguments=(Argument("shell", "SHELL", "bash, zsh or fish", choices=tuple(SHELLS)),),
        examples=(
            'eval "$(memsyncd completion bash)"',
            "memsyncd completion zsh > ~/.zfunc/_memsyncd",
            "memsyncd completion fish > ~/.config/fish/completions/memsyncd.fish",
        ),
    )
}
