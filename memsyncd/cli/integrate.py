"""`memsyncd integrate`: connect the coding agents of this machine, or one of them, and undo it.

The command reads all files and decides on all changes before it writes a file. It lists the files,
asks once, writes them, and then checks each agent. `cli/agent_files` edits and restores one file.
"""

from __future__ import annotations

import contextlib
import difflib
import os

import memsyncd
from memsyncd.cli.agent_check import LABEL_WIDTH, AgentCheck, ServerAsker, read_warnings
from memsyncd.cli.agent_files import ClientFile, find_invocation, find_targets, is_found
from memsyncd.errors import BadRequest, EditRefused, MemsyncdError
from memsyncd.integrations.coding_agents import (
    CAPTURE,
    CLIENTS,
    PROJECT,
    READS,
    USER,
    AgentClient,
    Invocation,
)
from memsyncd.operations.history.show import render_diff
from memsyncd.terminal.console import NOTHING_FOUND, Console, can_ask
from memsyncd.terminal.files import write_file
from memsyncd.terminal.format import render_count
from memsyncd.terminal.parser import Argument, Command, Option
from memsyncd.terminal.terminal import clean, clean_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import SimpleNamespace as Args

    Changes = Mapping[str, tuple[str | None, str | None]]
    """By path: the text of a file before and after, None for no file."""

NOT_INSTALLED = 1
TITLE_WIDTH = 13
PLACES = {USER: "in all projects", PROJECT: "in this folder"}


class Agent:
    """An agent in one scope: its files, and how they will change. `error` says why it cannot be
    connected.
    """

    def __init__(self, name: str, scope: str, console: Console) -> None:
        self.name = name
        self.scope = scope
        self.client: AgentClient = CLIENTS[name]
        self.program = Invocation(find_invocation(scope), memsyncd.__version__)
        self.targets = find_targets(self.client, scope, console)
        self.changes: Changes = {}
        self.error: MemsyncdError | None = None

    @property
    def is_connected(self) -> bool:
        """Whether a file connects the agent. A section of a note does not: several agents read it.
        Neither does a file that cannot be read.
        """
        with contextlib.suppress(EditRefused):
            return any(
                not target.is_prose and target.is_installed(self.program) for target in self.targets
            )
        return False

    @property
    def changed(self) -> list[ClientFile]:
        return [target for target in self.targets if target.path in self.changes]

    def has_extra(self, name: str) -> bool:
        return self.scope in self.client.extras.get(name, {})

    def plan(self, extras: frozenset[str]) -> None:
        """Decide how the files change, so that they connect the agent. A file that an earlier agent
        of the plan has changed in the same way is not in `targets`.
        """
        self._plan(lambda target: target.install(target.text, self.program, extras))

    def plan_removal(self) -> None:
        self._plan(lambda target: target.uninstall(self.program))

    def _plan(self, change: Callable[[ClientFile], str | None]) -> None:
        try:
            texts = {target.path: (target.text, change(target)) for target in self.targets}
        except EditRefused as error:
            self.error = error
            return
        self.changes = {path: texts for path, texts in texts.items() if texts[0] != texts[1]}


def _integrate(args: Args, console: Console) -> int:
    _refuse_together(args)
    agents = _choose_agents(args, console)
    if args.check:
        return _check(args, agents, console)
    if not agents:
        return NOTHING_FOUND
    if args.remove:
        return _remove(args, agents, console)
    extras = frozenset(name for name in (CAPTURE, READS) if _wants(args, name))
    _plan(agents, extras)
    _refuse_broken(args, agents)
    if args.diff:
        _show_texts(agents, console)
        return 0
    _show_screen(args, agents, console)
    if not any(agent.changes for agent in agents):
        console.terminal.report("nothing to change: connected")
        return _install_service(console) if args.service else _find_status(agents)
    is_service_missing = not args.service and _lacks_service(console)
    letters = _confirm(args, agents, console, is_service_offered=is_service_missing)
    if "r" in letters:
        extras |= {READS}
        _plan(agents, extras)
    _write(agents, extras)
    status = _install_service(console) if "s" in letters else 0
    status = _report_check(agents, console) or status
    _report_done(args, agents, console)
    if is_service_missing and "s" not in letters:
        console.terminal.report("start memsyncd at each login: memsyncd service install")
    return status or _find_status(agents)


def _wants(args: Args, extra: str) -> bool:
    return bool(args.capture if extra == CAPTURE else args.allow_reads)


def _find_status(agents: list[Agent]) -> int:
    return next((agent.error.exit_status for agent in agents if agent.error), 0)


# --- words --------------------------------------------------------------------------------------

# Options that choose an action, and the other options that each action accepts.
_ACTS = {"diff": ("capture", "allow_reads"), "remove": ("yes",), "check": ("json",)}
_OPTIONS = ("yes", "capture", "allow_reads", "service", "json")


def _refuse_together(args: Args) -> None:
    """Raise BadRequest if an option would be ignored."""
    acts = [name for name in _ACTS if getattr(args, name)]
    if len(acts) > 1:
        raise BadRequest("--diff, --remove and --check do not go together", hint="use one of them")
    taken = _ACTS[acts[0]] if acts else ("yes", "capture", "allow_reads", "service")
    for option in _OPTIONS:
        if getattr(args, option) and option not in taken:
            where = f"with --{acts[0]}" if acts else "without --check"
            flag = f"--{option.replace('_', '-')}"
            raise BadRequest(f"{flag} has no effect {where}", hint=f"leave {flag} out")


def _choose_agents(args: Args, console: Console) -> list[Agent]:
    """Return the named agent, or all that are installed on this machine. Those that are connected
    are connected again in the same scope. Raises BadRequest.
    """
    if args.service:
        _lacks_service(console, is_needed=True)
    if args.client is None:
        return _find_agents(args, console)
    client = CLIENTS[args.client]
    scope = args.scope or next(iter(client.scopes))
    agent = Agent(args.client, scope, console)
    if args.capture and not agent.has_extra(CAPTURE):
        raise BadRequest(f"{client.title} has no hooks to capture with", hint="leave --capture out")
    if args.allow_reads and not agent.has_extra(READS):
        raise BadRequest(
            f"no file gives {client.title} this permission {PLACES[scope]}",
            hint="Codex and VS Code ask nothing for tools that only read; see Settings of Cursor",
        )
    return [agent]


def _find_agents(args: Args, console: Console) -> list[Agent]:
    agents: list[Agent] = []
    # The home folder is no project: there, the files of both scopes may be the same.
    is_home = console.cwd == os.path.realpath(console.env.get("HOME", ""))
    only = args.scope or (USER if is_home else "")
    for name, client in CLIENTS.items():
        scopes = [only] if only else list(client.scopes)
        every = [Agent(name, scope, console) for scope in scopes if console.cwd or scope == USER]
        connected = [agent for agent in every if agent.is_connected]
        if connected or args.remove or not is_found(client, console):
            agents += connected
        else:
            agents += every[:1]
    if not agents and args.remove:
        console.terminal.report("no agent is connected")
    elif not agents:
        names = ", ".join(program for client in CLIENTS.values() for program in client.programs)
        console.terminal.report(f"no coding agent was found on this machine; looked for {names}")
        console.terminal.report("  → to connect one all the same: memsyncd integrate NAME")
    return agents


def _refuse_broken(args: Args, agents: list[Agent]) -> None:
    """Raise the error of an agent that was named. Among several, the others are connected."""
    for agent in agents:
        if agent.error is not None and args.client is not None and not args.diff:
            raise agent.error


def _plan(agents: list[Agent], extras: frozenset[str]) -> None:
    planned: set[str] = set()
    for agent in agents:
        agent.plan(extras)
        agent.changes = {
            path: texts for path, texts in agent.changes.items() if path not in planned
        }
        planned |= set(agent.changes)


def _lacks_service(console: Console, *, is_needed: bool = False) -> bool:
    """Return whether the system could run memsyncd as a service, and no service is installed.

    Raises BadRequest if the service `is_needed` and the system cannot run one.
    """
    # Imported late, because --check and --diff do not need it.
    from memsyncd.cli.service import find_supervisor

    try:
        supervisor = find_supervisor(console)
    except BadRequest:
        if is_needed:
            raise
        return False
    return supervisor.is_available() and not supervisor.is_installed()


def _install_service(console: Console) -> int:
    from memsyncd.cli.service import install_service

    return install_service(console)


# --- the screen, and the question ---------------------------------------------------------------


def _show_screen(args: Args, agents: list[Agent], console: Console) -> None:
    """Print each agent with the files that will be written, and the agents that were not found."""
    terminal = console.terminal
    for agent in agents:
        place = PLACES[agent.scope]
        state = "disconnect" if args.remove else "connect"
        if agent.error is not None:
            state, place = "cannot be connected", ""
        elif not agent.changes:
            state = "connected"
        elif agent.is_connected and not args.remove:
            state = "renew"
        title = terminal.paint("bold", f"{agent.client.title:<{TITLE_WIDTH}}")
        terminal.print(f"{title} {state} {place}".rstrip())
        if agent.error is not None:
            terminal.print(f"  {_shorten(agent.error.message, console)}")
        for path, texts in agent.changes.items():
            terminal.print(f"  {_describe(*texts):<9} {_shorten(path, console)}")
    missing = [name for name in CLIENTS if name not in {agent.name for agent in agents}]
    if args.client is None and not args.remove and missing and agents:
        terminal.print(terminal.paint("dim", f"{'not found':<{TITLE_WIDTH}} {', '.join(missing)}"))


def _describe(before: str | None, after: str | None) -> str:
    return "create" if before is None else "delete" if after is None else "change"


def _shorten(text: str, console: Console) -> str:
    """Return a text with its paths as a person would write them: below the current folder, or below
    the home folder.
    """
    text = clean_line(text)
    home = console.env.get("HOME", "")
    if console.cwd and console.cwd != home:
        text = text.replace(f"{console.cwd}/", "./")
    return text.replace(f"{home}/", "~/") if home else text


def _show_texts(agents: list[Agent], console: Console) -> None:
    """Print the changes of all files as a diff; of a file that cannot be edited, the text that
    belongs in it.
    """
    for agent in agents:
        if agent.error is not None:
            console.terminal.report(agent.error.message)
            for target in agent.targets:
                with contextlib.suppress(EditRefused):
                    _show_diff(target.path, None, target.install(None, agent.program), console)
        for path, (before, after) in agent.changes.items():
            _show_diff(path, before, after, console)


def _show_diff(path: str, before: str | None, after: str | None, console: Console) -> None:
    old, new = (os.devnull if text is None else clean_line(path) for text in (before, after))
    lines = difflib.unified_diff(
        _split_lines(before or ""), _split_lines(after or ""), old, new, lineterm=""
    )
    console.terminal.print(render_diff(clean("\n".join(lines)), console.terminal.paint))


def _split_lines(text: str) -> list[str]:
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines if lines[-1] else lines[:-1]


def _confirm(args: Args, agents: list[Agent], console: Console, *, is_service_offered: bool) -> str:
    """Ask whether to write the changes. Return the letters of the answer: `r` for the permission to
    read, `s` for the service. Raises EditRefused unless the user agrees.
    """
    letters = "s" if args.service else ""
    if args.yes:
        return letters
    console.terminal.out.flush()
    if not can_ask():
        words = " ".join(["memsyncd integrate", *_list_words(args), "--yes"])
        raise EditRefused("nothing was changed", hint=f"to do this: {words}")
    offers = {}
    paths = _list_paths_of_reads(agents) if not args.remove and not args.allow_reads else []
    if paths:
        files = (f"\n       {_shorten(path, console)}" for path in paths)
        offers["r"] = "agents read memory without asking you each time; this also writes"
        offers["r"] += "".join(files)
    if is_service_offered:
        offers["s"] = "memsyncd starts at each login, so that the first session has memory, too"
    if offers:
        console.terminal.report("Add a letter to your answer if you want this, too:")
    for letter, text in offers.items():
        console.terminal.report(f"  {letter}  {text}")
    more = f"; y{''.join(offers)}: all of it" if offers else ""
    question = f"{_describe_plan(agents)}? [y/N{more}; d: show the text]"
    while (answer := console.ask(question)) in {"d", "diff"}:
        _show_texts(agents, console)
        console.terminal.out.flush()
    chosen = set(answer) if answer != "yes" else {"y"}
    if "y" not in chosen or not chosen <= {"y", *offers}:
        raise EditRefused("nothing was changed", hint="answer with y to do it, or use --yes")
    return letters + "".join(letter for letter in offers if letter in chosen)


def _describe_plan(agents: list[Agent]) -> str:
    """Return the change in a few words: `Write 3 files`, `Write 2 files and delete 3 files`."""
    changes = {path: texts for agent in agents for path, texts in agent.changes.items()}
    n_deleted = sum(after is None for _, after in changes.values())
    acts = [("write", len(changes) - n_deleted), ("delete", n_deleted)]
    parts = [f"{act} {render_count(n, 'file')}" for act, n in acts if n]
    return " and ".join(parts).capitalize()


def _list_paths_of_reads(agents: list[Agent]) -> list[str]:
    """Return the files that would give agents the permission to read."""
    return [
        target.path
        for agent in agents
        if agent.error is None
        for target in agent.targets
        if target.lacks_extra(READS, agent.program)
    ]


def _list_words(args: Args) -> list[str]:
    """Return the words of this call, without --yes."""
    words = [args.client] if args.client else []
    words += ["--scope", args.scope] if args.scope else []
    flags = ("remove", "capture", "allow_reads", "service")
    return words + [f"--{flag.replace('_', '-')}" for flag in flags if getattr(args, flag)]


# --- writing ------------------------------------------------------------------------------------


def _write(agents: list[Agent], extras: frozenset[str]) -> None:
    _check_unchanged(agents)
    for agent in agents:
        for target in agent.changed:
            try:
                new = agent.changes[target.path][1] or ""
                target.save_record(agent.name, new, agent.program, extras)
            except OSError as error:
                raise EditRefused(
                    f"{target.record.copy_path} cannot be written: {error.strerror};"
                    " nothing was done",
                    hint="make its folder writable: memsyncd keeps copies of earlier files there",
                ) from error
    _write_changes(agents)


def _check_unchanged(agents: Iterable[Agent]) -> None:
    for agent in agents:
        for target in agent.targets if agent.error is None else ():
            target.check_unchanged()


def _write_changes(agents: Iterable[Agent]) -> None:
    for path, (_, after) in [item for agent in agents for item in agent.changes.items()]:
        try:
            if after is None:
                os.unlink(path)
            else:
                write_file(path, after, like=path)
        except OSError as error:
            raise EditRefused(
                f"{path} cannot be written: {error.strerror}",
                hint="make its folder writable, then run this again; others may already be written",
            ) from error


def _report_done(args: Args, agents: list[Agent], console: Console) -> None:
    """Say what remains to be done, and how to undo it."""
    terminal = console.terminal
    connected = [agent for agent in agents if agent.changes]
    paths = {
        " ".join(agent.program.command)
        for agent in connected
        if agent.scope == PROJECT and agent.program.command != ["memsyncd"]
    }
    for path in paths:
        terminal.report(f"memsyncd is not on the PATH, so the files call it by its path: {path}")
        terminal.report("  Other people who share the files may not have this path.")
    if args.capture:
        terminal.report("the hooks write what [capture] in memsyncd's configuration allows")
    words = [args.client] if args.client else []
    words += ["--scope", args.scope] if args.scope else []
    terminal.report(" ".join(["undo: memsyncd integrate", *words, "--remove"]))
    _report_no_memory(console)


def _report_no_memory(console: Console) -> None:
    with contextlib.suppress(MemsyncdError):
        if not console.call("workspace.list")["workspaces"]:
            console.terminal.report(
                "no folder has memory yet; give one to a project: memsyncd init"
            )


# --- remove -------------------------------------------------------------------------------------


def _remove(args: Args, agents: list[Agent], console: Console) -> int:
    removed = {(agent.name, agent.scope) for agent in agents}
    for agent in agents:
        agent.targets = [
            target for target in agent.targets if not _is_shared(target, agent, removed, console)
        ]
        agent.plan_removal()
    _refuse_broken(args, agents)
    if not any(agent.changes for agent in agents):
        console.terminal.report("nothing to change: removed")
        return _find_status(agents)
    _show_screen(args, agents, console)
    _confirm(args, agents, console, is_service_offered=False)
    _check_unchanged(agents)
    _write_changes(_without_repeats(agents))
    for agent in agents:
        if agent.error is None:
            place = PLACES[agent.scope]
            console.terminal.report(f"{agent.client.title} is disconnected {place}")
            _close_records(agent, console)
    return _find_status(agents)


def _without_repeats(agents: list[Agent]) -> list[Agent]:
    """Leave a file that two agents share to the first."""
    seen: set[str] = set()
    for agent in agents:
        agent.changes = {path: texts for path, texts in agent.changes.items() if path not in seen}
        seen |= set(agent.changes)
    return agents


def _close_records(agent: Agent, console: Console) -> None:
    changed = agent.changed
    folders = {folder for target in changed for folder in target.record.folders}
    for target in changed:
        copy = target.close_record(agent.changes[target.path][1], agent.program)
        if copy:
            console.terminal.report(f"  another program had changed {clean_line(target.path)};")
            console.terminal.report(f"  a copy of the earlier text stays here: {clean_line(copy)}")
    for folder in sorted(folders, key=len, reverse=True):
        with contextlib.suppress(OSError):
            os.rmdir(folder)


def _is_shared(
    target: ClientFile, agent: Agent, removed: set[tuple[str, str]], console: Console
) -> bool:
    """Return whether the section in this file also serves another agent that stays connected."""
    others = (
        Agent(name, agent.scope, console)
        for name in CLIENTS
        if target.is_prose and name != agent.name and (name, agent.scope) not in removed
    )
    return any(
        other.is_connected and any(file.path == target.path for file in other.targets)
        for other in others
    )


# --- check --------------------------------------------------------------------------------------


def _check(args: Args, agents: list[Agent], console: Console) -> int:
    checks = _make_checks(agents, console)
    warnings = read_warnings(console) if agents else []
    if args.json:
        found = [
            {"client": agent.name, "scope": agent.scope, **check.to_json()}
            for agent, check in checks
        ]
        answer = {**found[0], "warnings": warnings} if args.client else None
        console.terminal.print_json(answer or {"agents": found, "warnings": warnings})
    else:
        _show_checks(checks, console)
        for warning in warnings:
            console.terminal.warn(f"  {clean_line(warning)}")
    is_fine = bool(checks) and all(check.is_fine for _, check in checks)
    return 0 if is_fine else NOT_INSTALLED if checks else NOTHING_FOUND


def _make_checks(agents: list[Agent], console: Console) -> list[tuple[Agent, AgentCheck]]:
    asker = ServerAsker(console)
    return [
        (agent, AgentCheck(agent.client, agent.targets, agent.program, asker, console))
        for agent in agents
    ]


def _show_checks(checks: list[tuple[Agent, AgentCheck]], console: Console) -> None:
    for agent, check in checks:
        console.terminal.print(f"{agent.client.title} ({agent.scope})")
        for line in check.render():
            # A line begins with two blanks.
            console.terminal.print(line, hang=LABEL_WIDTH - 2)
        if not check.is_fine:
            words = f"memsyncd integrate {agent.name} --scope {agent.scope}"
            console.terminal.report(f"  → {words}")


def _report_check(agents: list[Agent], console: Console) -> int:
    """Check the agents that were connected, and say in a line how each is."""
    # The files as they are now.
    written = [Agent(agent.name, agent.scope, console) for agent in agents if agent.changes]
    terminal, status = console.terminal, 0
    for agent, check in _make_checks(written, console):
        title = terminal.paint("bold", f"{agent.client.title:<{TITLE_WIDTH}}")
        if check.is_fine:
            n_tools = render_count(len(check.answer["tools"]), "tool")
            terminal.print(f"{title} {terminal.paint('green', '✓')} memsyncd answers, {n_tools}")
        else:
            status = NOT_INSTALLED
            said = check.error or "its files are not as they should be"
            terminal.print(f"{title} {terminal.paint('red', '✗')} {clean_line(said)}")
            terminal.report(f"  → memsyncd integrate {agent.name} --check")
        if check.lost:
            names = ", ".join(check.lost)
            terminal.print(f"  {agent.client.title} does not pass on {names}")
        if agent.client.note and (check.untrusted or not agent.client.trust_file):
            terminal.print(f"  {agent.client.note}")
    return status


COMMANDS = {
    "integrate": Command(
        _integrate,
        arguments=(
            Argument(
                "client",
                "[CLIENT]",
                f"{', '.join(CLIENTS)}; by default all that are installed",
                choices=tuple(CLIENTS),
                # People know an agent by its program, too.
                aliases={
                    program: name for name, each in CLIENTS.items() for program in each.programs
                },
            ),
        ),
        options=(
            Option(
                "--scope SCOPE",
                "user: in all projects; project: in the current folder, to be shared",
                choices=(USER, PROJECT),
            ),
            Option("-y --yes", "write without asking; required if there is no terminal"),
            Option("--diff", "show the text of all changes and write nothing"),
            Option("--remove", "remove from the files all that memsyncd has added"),
            Option("--check", "say whether it is connected and whether the daemon answers"),
            Option("--allow-reads", "let agents read memory without a question each time"),
            Option(
                "--service", "also start memsyncd at each login: runs `memsyncd service install`"
            ),
            Option("--capture", "also install hooks that write memories; see [capture]"),
            Option("--json", "with --check: print the result as JSON"),
        ),
        examples=(
            "memsyncd integrate",
            "memsyncd integrate codex --yes --allow-reads",
            "memsyncd integrate cursor --scope project --diff",
        ),
        gone={"--print": "use --diff"},
    ),
}
