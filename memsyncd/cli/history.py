"""`memsyncd history`, `history purge` and `diff`: what changed in notes, and what did they say before?"""

from __future__ import annotations

import time

from memsyncd.cli.figures import render_count
from memsyncd.cli.grammar import JSON, Argument, Command, Option, name_workspace_option, read_count
from memsyncd.cli.revisions import render_diff, render_revisions
from memsyncd.cli.stdin import DASH, read_stdin
from memsyncd.cli.subject import REVISION, TARGET, ask_about_change, find_subject
from memsyncd.cli.terminal import clean, clean_line, clean_values
from memsyncd.errors import BadRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any

    from memsyncd.cli.console import Console

NOTHING_FOUND = 1
MOST_SHOWN = 20
"""Revisions, unless somebody says how many; the daemon's default."""


def _list(args: Args, console: Console) -> int:
    root, named = find_subject(args.target, console)
    answer = console.ask_about(args.workspace or root, "history", **named, limit=args.limit, before=args.before)
    if args.json:
        console.terminal.print_json(answer)
    else:
        _print_revisions(clean_values(answer["revisions"]), args.limit or MOST_SHOWN, console)
    return 0 if answer["revisions"] else NOTHING_FOUND


def _print_revisions(revisions: list[dict[str, Any]], limit: int, console: Console) -> None:
    terminal = console.terminal
    for line in render_revisions(revisions, terminal.paint, now_s=time.time()):
        terminal.print(line)
    if not revisions:
        terminal.say("nothing has changed there since memsyncd looks after it")
    elif len(revisions) == limit:
        terminal.say(terminal.err_paint("dim", f"older ones: --before {revisions[-1]['revision']}"))


def _diff(args: Args, console: Console) -> int:
    _check_named(args, "diff")
    answer = ask_about_change(args, console, "diff", to_now=args.to_now or None)
    terminal = console.terminal
    if args.json:
        terminal.print_json(answer)
    elif answer["diff"]:
        terminal.print(render_diff(clean(answer["diff"]), terminal.paint))
    else:
        terminal.say(f"{clean_line(answer['path'])}: both texts are the same")
    return 0 if answer["diff"] else NOTHING_FOUND


def _check_named(args: Args, name: str) -> None:
    if not (args.target or args.revision):
        raise BadRequest(f"{name}: name a section, a note or a revision", hint="list what there is with `memsyncd history`")


def _purge(args: Args, console: Console) -> int:
    containing = read_stdin(console).removesuffix("\n") if args.containing == DASH else args.containing
    if (args.target, args.revision, containing) == (None, None, None) and not args.all:
        raise BadRequest("history purge: say what to forget", hint="name a note, --revision N, --containing TEXT or --all")
    root, named = find_subject(args.target, console)
    asked = {**named, "revision": args.revision, "containing": containing, "all": args.all or None}
    answer = console.ask_about(args.workspace or root, "history.purge", **asked)
    if args.json:
        console.terminal.print_json(answer)
    else:
        _say_purged(clean_values(answer), console)
    return 0 if answer["revisions"] else NOTHING_FOUND


def _say_purged(answer: dict[str, Any], console: Console) -> None:
    terminal = console.terminal
    n_texts = render_count(answer["texts"], "text")
    terminal.say(
        f"forgot {render_count(answer['revisions'], 'revision')} and {n_texts}" if answer["revisions"] else "nothing to forget"
    )
    left = [f"{path} still says it: take it out there, then purge once more" for path in answer["still_in"]]
    if not answer["is_clean"]:
        left.append("another program reads records.db: traces of it go as soon as that lets them")
    left += [f"{name}, a file set aside beside records.db, may still say it" for name in answer["set_aside"]]
    for line in left:
        terminal.say(terminal.err_paint("yellow", line))


_PLACE = Argument("target", "ANCHOR|PATH", "a section, a note or a folder; by default all of the workspace", many="optional")

COMMANDS = {
    "history": Command(
        _list,
        arguments=(_PLACE,),
        options=(
            Option("-n --limit", f"at most N revisions (default {MOST_SHOWN})", metavar="N", read=read_count),
            Option("--before", "only what is older than revision N", metavar="N", read=read_count),
            name_workspace_option(),
            JSON,
        ),
        commands={
            "purge": Command(
                _purge,
                summary="forget revisions for good; notes stay as they are",
                arguments=(_PLACE,),
                options=(
                    Option("--revision", "forget revision N", metavar="N", read=read_count),
                    Option("--containing", "forget those whose text held this; - reads it from stdin", metavar="TEXT"),
                    Option("--all", "forget every revision of the workspace"),
                    name_workspace_option(),
                    JSON,
                ),
                examples=(
                    "memsyncd history purge --containing - < pasted-token.txt",
                    "memsyncd history purge .memories/draft.md",
                ),
            )
        },
        examples=("memsyncd history", "memsyncd history .memories/redis.md -n 5", "memsyncd history 'MEMORY.md#redis/timeouts'"),
    ),
    "diff": Command(
        _diff,
        arguments=(TARGET,),
        options=(
            REVISION,
            Option("--to-now", "up to what stands now, instead of what the revision made of it"),
            name_workspace_option(),
            JSON,
        ),
        examples=("memsyncd diff .memories/redis.md", "memsyncd diff 42", "memsyncd diff 42 --to-now"),
    ),
}
