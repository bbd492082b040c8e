"""Print what is shared, set it up after a question, and exchange memories: `memsyncd share`."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from memsyncd.errors import BadRequest, NoDaemon, ShareFailed
from memsyncd.terminal.console import can_ask, show_answer
from memsyncd.terminal.format import render_age, render_count, render_size
from memsyncd.terminal.terminal import clean_line, clean_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import SimpleNamespace as Args
    from typing import Any, Final

    from memsyncd.terminal.console import Console

# Git may ask the remote several times, each for as long as the configuration allows.
EXCHANGE_MS: Final = 600_000
MOST_PATHS: Final = 10
MOST_HELD: Final = 20


def _send(method: str, args: Args, console: Console, **params: Any) -> dict[str, Any]:
    """Call a method on the workspace that is meant, or on the user-wide memory."""
    console.set_timeout_ms(EXCHANGE_MS)
    if args.params.get("user"):
        return console.call(method, user=True, **params)
    return console.call_on(args.workspace, method, **params)


def _with_daemon(console: Console, work: Callable[[], int]) -> int:
    """Carry out a command. If no daemon runs, start one, and stop it afterwards."""
    try:
        console.call("ping")
        return work()
    except NoDaemon:
        console.close()
    program = (sys.executable, "-m", "memsyncd")
    started = subprocess.run(
        (*program, "start"), env=dict(console.env), stdout=subprocess.DEVNULL, check=False
    )
    if started.returncode:
        return started.returncode
    try:
        return work()
    finally:
        console.close()
        subprocess.run(
            (*program, "stop"),
            env=dict(console.env),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )


# --- init ---------------------------------------------------------------------------------------


def set_up_sharing(args: Args, console: Console) -> int:
    """Show what would be pushed, ask, and do it."""
    return _with_daemon(console, lambda: _initialise(args, console))


def _initialise(args: Args, console: Console) -> int:
    remote = args.params.get("remote")
    if remote and os.path.exists(os.path.expanduser(remote)):
        remote = os.path.abspath(os.path.expanduser(remote))
    plan = _send("share.init", args, console, remote=remote)
    if plan["state"]["way"] == "project" and not args.plan:
        state = clean_values(plan["state"])
        raise BadRequest(f"nothing is to set up: {state['problem']}", hint=state["hint"])
    if args.plan:
        return show_answer(plan, args, console, _show_plan)
    if not args.yes:
        _show_plan(plan, args, console)
        if not can_ask():
            raise BadRequest("nothing was done: there is no terminal to ask", hint="add --yes")
        if not console.confirm("Share it?"):
            raise BadRequest("nothing was done", hint="answer y, or use --yes")
    done = _send("share.init", args, console, remote=remote, apply=True, plan=plan["plan"])
    status = show_answer(done, args, console, _show_set_up)
    # It is set up, but nothing has left.
    return ShareFailed.exit_status if done["state"]["problem"] else status


def _show_plan(answer: dict[str, Any], _args: Args, console: Console) -> None:
    terminal, plan = console.terminal, clean_values(answer)
    state = plan["state"]
    if state["way"] == "project":
        terminal.report(state["problem"])
        terminal.report(state["hint"])
        return
    word = "becomes" if plan["is_new"] else "is"
    instead = f", in place of {plan['former']}" if plan["former"] else ""
    remote = state["remote"] or "none"
    terminal.print(f"{state['folder']} {word} a git repository; remote: {remote}{instead}")
    earlier = f", with {render_count(state['ahead'], 'earlier commit')}" if state["ahead"] else ""
    size = render_size(plan["bytes"])
    terminal.print(f"to push: {render_count(plan['n_paths'], 'file')}, {size}{earlier}")
    for path in plan["paths"][:MOST_PATHS]:
        terminal.print(f"  {path}")
    if plan["n_paths"] > MOST_PATHS:
        terminal.print(f"  … and {plan['n_paths'] - MOST_PATHS:,} more")
    _print_held(state, console)
    if plan["advice"]:
        terminal.warn(plan["advice"])


def _show_set_up(answer: dict[str, Any], _args: Args, console: Console) -> None:
    _print_state(clean_values(answer["state"]), console)
    if answer["former"]:
        former = clean_line(answer["former"])
        console.terminal.report(f"the remote was {former}, which keeps what it has")
    if answer["advice"]:
        console.terminal.warn(clean_line(answer["advice"]))


def _print_held(state: dict[str, Any], console: Console) -> None:
    if state["n_held"]:
        n_sections = state["n_held"] - state["n_held_notes"]
        counts = ((n_sections, "section"), (state["n_held_notes"], "whole note"))
        parts = [render_count(n, word) for n, word in counts if n]
        console.terminal.print(f"stays on this machine: {', '.join(parts)}")
    for held in state["held"][:MOST_HELD]:
        place = f"{held['path']}:{held['line']}" if held["line"] else held["path"]
        heading = f"  {held['heading']}" if held["heading"] else ""
        console.terminal.print(f"  {place}{heading}  {held['reason']}")
    if state["n_held"] > MOST_HELD:
        console.terminal.print(f"  … and {state['n_held'] - MOST_HELD:,} more")


# --- states -------------------------------------------------------------------------------------


def begin_sharing(args: Args, console: Console) -> int:
    """Begin to share by itself."""
    return _show_states(_send("share.switch", args, console, on=True), args, console)


def end_sharing(args: Args, console: Console) -> int:
    """Stop sharing by itself."""
    return _show_states(_send("share.switch", args, console, on=False), args, console)


def show_shared(args: Args, console: Console) -> int:
    """Print the state of one memory, or of all that are shared."""
    params = {"user": True} if args.params.get("user") else {}
    workspace = console.name_workspace(args.workspace)
    answer = console.call("share.status", workspace=workspace, **params)
    return _show_states(answer, args, console)


def _show_states(answer: dict[str, Any], args: Args, console: Console) -> int:
    return show_answer(answer, args, console, _print_states, found="shared")


def _print_states(answer: dict[str, Any], _args: Args, console: Console) -> None:
    for state in clean_values(answer["shared"]):
        _print_state(state, console)
    if not answer["shared"]:
        console.terminal.report("nothing is shared; begin with: memsyncd share init [REMOTE]")


def _print_state(state: dict[str, Any], console: Console) -> None:
    terminal, now_s = console.terminal, time.time()
    switch = "on" if state["on"] else "off"
    if state["way"] == "none":
        terminal.print(f"{terminal.paint('bold', state['name'])}  not shared")
        terminal.report("begin with: memsyncd share init [REMOTE]")
        return
    remote = state["remote"] or "no remote"
    terminal.print(
        f"{terminal.paint('bold', state['name'])}  {switch}, {remote}, branch {state['branch']}"
    )
    ages = (
        f"{word} {render_age(state[key], now_s)}"
        for word, key in (
            ("committed", "committed_at"),
            ("fetched", "fetched_at"),
            ("pushed", "pushed_at"),
        )
    )
    terminal.print(f"  {', '.join(ages)}; {render_count(state['ahead'], 'commit')} to push")
    if state["machines"]:
        own = state["machine"]
        names = (f"{each} (this one)" if each == own else each for each in state["machines"])
        terminal.print(f"  machines: {', '.join(names)}")
    if state["problem"]:
        since = (
            f" (first {render_age(state['failed_since'], now_s)})" if state["failed_since"] else ""
        )
        terminal.warn(f"{state['problem']}{since}")
        if state["hint"]:
            terminal.report(state["hint"])
    for text in state["said"]:
        terminal.warn(text)
    _print_held(state, console)


# --- exchanges ----------------------------------------------------------------------------------


def share_now(args: Args, console: Console) -> int:
    """Commit, fetch, merge and push."""
    return _with_daemon(console, lambda: _exchange(args, console, push=True))


def share_pull(args: Args, console: Console) -> int:
    """Commit, fetch and merge."""
    if args.once:
        return _with_daemon(console, lambda: _exchange(args, console, push=False))
    return _exchange(args, console, push=False)


def _exchange(args: Args, console: Console, *, push: bool) -> int:
    answer = _send("share.now", args, console, push=push)
    return show_answer(answer, args, console, _print_exchange)


def _print_exchange(answer: dict[str, Any], _args: Args, console: Console) -> None:
    terminal, answer = console.terminal, clean_values(answer)
    parts = [f"{render_count(answer['committed'], 'commit')}"]
    parts.append(f"{render_count(answer['n_received'], 'note')} changed here")
    if answer["n_signals"]:
        parts.append(f"{render_count(answer['n_signals'], 'signal')} received")
    terminal.print(f"{', '.join(parts)}; {_describe_push(answer)}")
    for path in answer["received"][:MOST_PATHS]:
        terminal.print(f"  {path}")
    _print_held(answer["state"], console)
    for text in answer["state"]["said"]:
        terminal.warn(text)


def _describe_push(answer: dict[str, Any]) -> str:
    """Tell what the remote lacks. It may have got everything a moment before this exchange."""
    state = answer["state"]
    if answer["is_pushed"]:
        return "pushed"
    if state["ahead"]:
        return f"nothing pushed, {render_count(state['ahead'], 'commit')} to push"
    age = f", pushed {render_age(state['pushed_at'], time.time())}" if state["pushed_at"] else ""
    return f"nothing left to push{age}"


# --- log ----------------------------------------------------------------------------------------


def show_log(args: Args, console: Console) -> int:
    """Print commits: when, which machine and writer, and what they changed."""
    answer = _send("share.log", args, console, limit=args.params.get("limit"))
    return show_answer(answer, args, console, _print_log, found="commits")


def _print_log(answer: dict[str, Any], _args: Args, console: Console) -> None:
    terminal, now_s = console.terminal, time.time()
    for entry in clean_values(answer["commits"]):
        origin = f"{entry['writer']}@{entry['machine'] or '?'}"
        age = render_age(entry["at"], now_s)
        terminal.print(f"{entry['commit'][:8]}  {clean_line(entry['subject'])}  {origin}, {age}")
    if not answer["commits"]:
        terminal.report("no commit yet")
