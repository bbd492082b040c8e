"""Give commands the terminal, the environment and the connection to the daemon; show answers; draw
progress.

The connection is opened on first use. Without -w, a command uses the workspace of the current
folder. If the folder is in no workspace and only one workspace exists, commands that only read use
it and say so.

For all commands, this module reports how fresh an answer is and whether a write is indexed.
"""

from __future__ import annotations

import os
import sys
import time

from memsyncd.client import TIMEOUT_S, NoAnswer, OtherVersion, connect
from memsyncd.client.connection import check_version
from memsyncd.errors import BadRequest, MemsyncdError, WorkspaceNotFound
from memsyncd.headings import join_headings
from memsyncd.terminal.format import (
    render_bar,
    render_freshness,
    render_place,
    render_span,
    truncate,
)
from memsyncd.terminal.terminal import clean_line, clean_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import SimpleNamespace as Args
    from typing import Any, Final

    from memsyncd.client import Client
    from memsyncd.terminal.parser import Action
    from memsyncd.terminal.terminal import Paint, Terminal


# Exit statuses: the command found nothing; Ctrl-C ended the command.
NOTHING_FOUND = 1
INTERRUPTED = 130

# The client waits this much longer than `timeout_ms`, so that the daemon's own refusal arrives.
GRACE_S = 2.0


def only_reads(method: str, params: Mapping[str, object]) -> bool:
    """Return whether this call changes neither notes nor records. Any other call needs a named
    workspace, or a current folder within one.
    """
    # Imported late: the generated commands import this module.
    from memsyncd.terminal._generated import READING, READING_IF

    if method in READING or params.get("apply") is False:
        return True
    reading_if = READING_IF.get(method)
    return reading_if is not None and all(
        params.get(name) == value for name, value in reading_if.items()
    )


class Console:
    """The terminal, the environment and the daemon of a command. `cwd` is the current folder, or
    empty if the folder was deleted. With `draws_progress`, calls of workspaces may take long.
    """

    __slots__ = ("_client", "_names", "_roots", "cwd", "draws_progress", "env", "terminal", "words")

    def __init__(self, terminal: Terminal, env: Mapping[str, str]) -> None:
        self.terminal = terminal
        self.env = env
        self.cwd = _find_cwd()
        self.draws_progress = False
        self.words: Sequence[str] = ()
        """The words of the command line after the program's name."""
        self._client: Client | None = None
        self._roots: dict[str, str] | None = None
        self._names: dict[str, str] = {}

    @property
    def roots(self) -> dict[str, str]:
        """The folders of all workspaces by their ids."""
        if self._roots is None:
            answer = self.call("workspace.list")
            self._roots = {
                str(workspace["id"]): str(workspace["root"]) for workspace in answer["workspaces"]
            }
            self._names = {
                str(workspace["id"]): str(workspace["name"]) for workspace in answer["workspaces"]
            }
        return self._roots

    def render_place(
        self, section: Mapping[str, Any], workspace: str, paint: Paint | None = None
    ) -> str:
        """Render the path and lines of a cleaned section as a link, by default for stdout."""
        root = self.roots.get(workspace, "")
        return render_place(section, paint or self.terminal.paint, root=root, cwd=self.cwd)

    def print_place(self, section: Mapping[str, Any], workspace: str) -> None:
        """Print the place of a section that was just written."""
        self.terminal.print(self.render_place(clean_values(section), workspace))

    def render_undo(self, answer: Mapping[str, Any], before: str = "") -> str:
        """Return the command that takes a write back, after the words `before`; empty if no command
        does. It names the workspace unless the current folder is in it.
        """
        number = answer["change_set"]
        if number is None:
            return ""
        root = self.roots.get(answer["workspace"], "")
        inner = (other for other in self.roots.values() if _is_within(other, root))
        is_here = _is_within(self.cwd, root) and not any(
            _is_within(self.cwd, other) for other in inner if other != root
        )
        name = self._names.get(answer["workspace"], answer["workspace"])
        return f"{before}memsyncd undo {number}" + f" -w {clean_line(name)}" * (not is_here)

    def report_plan(self, plan: str) -> None:
        """Report on stderr how a plan that was printed is carried out."""
        import shlex

        words = ["memsyncd", *(word for word in self.words if word != "--dry-run")]
        at = words.index("--") if "--" in words else len(words)
        options = ["--apply", "--plan", plan]
        words[at:at] = options
        # A name with control characters is not printed, so the command cannot be copied.
        command = shlex.join(words if all(map(str.isprintable, words)) else options)
        self.terminal.report(f"nothing was changed; do it with: {command}")

    def confirm(self, question: str) -> bool:
        """Ask on stderr for a yes. Call it only if `can_ask`."""
        return self.ask(f"{question} [y/N]") in ("y", "yes")

    def ask(self, question: str) -> str:
        """Ask on stderr and return the answer in small letters. Call it only if `can_ask`."""
        self.terminal.out.flush()
        self.terminal.err.write(f"{question} ")
        self.terminal.err.flush()
        return sys.stdin.readline().strip().lower()

    @property
    def client(self) -> Client:
        """The connection, opened on first use. Raises NoDaemon."""
        if self._client is None:
            self._client = self.connect()
        return self._client

    def connect(self) -> Client:
        """Open another connection."""
        return connect(env=self.env, timeout_s=TIMEOUT_S)

    def find_other_version(self, error: Exception) -> OtherVersion | None:
        """Return the error of a daemon of another version, if that may explain this error."""
        if self._client is None or not isinstance(error, LookupError | TypeError | ValueError):
            return None
        try:
            check_version(self._client.socket_path, "its answer is of another form")
        except OtherVersion as other:
            return other
        return None

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def set_timeout_ms(self, timeout_ms: int | None) -> None:
        """Let the connection wait as long as the request may take; None keeps the default."""
        if timeout_ms is not None:
            self.client.timeout_s = timeout_ms / 1000 + GRACE_S

    def call(self, method: str, **params: object) -> dict[str, Any]:
        """Call a method that is not about one workspace."""
        return self.client.call(method, **params)

    def call_on_several(
        self, workspaces: list[str], method: str, **params: object
    ) -> dict[str, Any]:
        """Call a method on several workspaces; `*` names all. Fewer than two are handled as by
        `call_on`.
        """
        if len(workspaces) < 2:
            return self.call_on(workspaces[0] if workspaces else None, method, **params)
        names = [self.name_workspace(name) for name in workspaces]
        return self.client.call(method, workspace=names, **params)

    def call_on(self, workspace: str | None, method: str, **params: object) -> dict[str, Any]:
        """Call a method on the named workspace, else on the workspace of the current folder.

        If the folder is in no workspace, a method that writes raises WorkspaceNotFound, because it
        would write into another project. A method that reads uses the only workspace and says so;
        it raises WorkspaceNotFound if there are several or none.
        """
        if workspace is not None:
            return self._ask(method, workspace=self.name_workspace(workspace), **params)
        return self._call_here(method, params, is_reading=only_reads(method, params))

    def _call_here(
        self, method: str, params: dict[str, Any], *, is_reading: bool
    ) -> dict[str, Any]:
        if not self.cwd and not is_reading:
            # Without a path, the daemon would choose the only workspace.
            raise self._make_choice_error(WorkspaceNotFound("no such workspace"))
        try:
            return self._ask(method, workspace=self.cwd or None, **params)
        except WorkspaceNotFound as error:
            if not is_reading:
                raise self._make_choice_error(error) from error
            return self._call_only_workspace(method, params, error)

    def _call_only_workspace(
        self, method: str, params: dict[str, Any], error: WorkspaceNotFound
    ) -> dict[str, Any]:
        try:
            answer = self._ask(method, **params)
        except WorkspaceNotFound:
            raise self._make_choice_error(error) from error
        if method == "status" and len(answer["workspaces"]) != 1:
            # Without a workspace, `status` describes all workspaces instead of failing.
            raise self._make_choice_error(error)
        text = "the current folder is in no workspace: this is from the only one there is"
        self.terminal.warn(text)
        self.terminal.report("  → add it with `memsyncd add .`, or name a workspace with -w")
        return answer

    def _ask(self, method: str, **params: object) -> dict[str, Any]:
        client = self.client
        if not self.draws_progress:
            return client.call(method, **params)
        limit_ms = params.get("timeout_ms")
        number = client.send(method, **params)
        return wait_with_progress(self, number, timeout_s=client.timeout_s if limit_ms else None)

    def find_workspace(self, workspace: str | None, *, to_write: bool = False) -> dict[str, Any]:
        """Return the status of the named workspace, else of the current folder's workspace.

        For a command that writes (`to_write`), the folder must be in a workspace. Raises
        WorkspaceNotFound.
        """
        answer = (
            self._call_here("status", {}, is_reading=False)
            if to_write and workspace is None
            else self.call_on(workspace, "status")
        )
        infos: list[dict[str, Any]] = answer["workspaces"]
        if len(infos) != 1:
            # Without a workspace, `status` describes all workspaces instead of failing.
            raise self._make_choice_error(WorkspaceNotFound("no such workspace"))
        return infos[0]

    def name_workspace(self, text: str | None) -> str | None:
        """Return the name of a workspace for the daemon, or None. A path becomes absolute, because
        the daemon does not know the current folder.
        """
        if text is not None and text.startswith(("/", ".", "~")):
            return os.path.abspath(os.path.expanduser(text))
        return text

    def _make_choice_error(self, error: WorkspaceNotFound) -> WorkspaceNotFound:
        """Make the error of a command whose folder is in no workspace."""
        names = sorted(str(info["name"]) for info in self.call("workspace.list")["workspaces"])
        if "git worktree" in error.hint:
            return error
        if not names:
            return WorkspaceNotFound(
                "there is no workspace yet", hint="add this folder with `memsyncd add .`"
            )
        first_names = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
        return WorkspaceNotFound(
            "the current folder is in no workspace",
            hint=f"add it with `memsyncd add .`, or name another with -w: {first_names}",
        )


def can_ask() -> bool:
    """Return whether stdin is a terminal, so that somebody can answer a question."""
    return sys.stdin is not None and sys.stdin.isatty()


def _is_within(path: str, folder: str) -> bool:
    return bool(folder) and f"{path}/".startswith(f"{folder.rstrip('/')}/")


def _find_cwd() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""


# --- progress of an index -----------------------------------------------------------------------

# Time between two `status` requests, which the daemon answers at any time.
POLL_S = 0.2
PLAN_REASONS = ("planning: ", "changing: ")
"""Begin the reasons with which a workspace's status tells how far a plan is."""


class Progress:
    """Count progress. The total is the largest number of pending notes so far; a note that is no
    longer pending is done.
    """

    __slots__ = ("_console", "_totals")

    def __init__(self, console: Console) -> None:
        self._console = console
        self._totals: dict[str, int] = {}

    def update(self, client: Client) -> bool:
        """Draw the progress of the workspaces. Return whether a first index or a rebuild still
        runs.
        """
        workspaces = client.call("status")["workspaces"]
        busy = [info for info in workspaces if info["state"] == "indexing" or info["pending"]]
        reasons = [reason for info in workspaces for reason in info["reasons"]]
        plans = [reason for reason in reasons if reason.startswith(PLAN_REASONS)]
        if plans:
            self._console.terminal.draw(clean_line(plans[0]))
        elif busy:
            self._console.terminal.draw(self.render(busy))
        else:
            self._console.terminal.clear()
        return any(info["state"] == "indexing" for info in busy)

    def render(self, busy: list[dict[str, Any]]) -> str:
        """Render the line of progress for these workspaces."""
        for info in busy:
            self._totals[info["id"]] = max(self._totals.get(info["id"], 0), info["pending"])
        total = sum(self._totals.values())
        done = total - sum(info["pending"] for info in busy)
        names = truncate(
            clean_line(", ".join(info["name"] for info in busy)),
            max(self._console.terminal.width - 56, 8),
        )
        paint = self._console.terminal.err_paint
        counts = f"{done:,}/{total:,} notes" if total else "reading"
        bar = paint("cyan", render_bar(done, total) if total else "")
        return f"indexing {paint('bold', names)}  {bar}  {counts}"


def show_until_indexed(console: Console) -> None:
    """Draw progress on a terminal until everything is indexed. Ctrl-C ends the command, while the
    daemon continues to index.
    """
    if not console.terminal.can_draw:
        return
    progress = Progress(console)
    try:
        while progress.update(console.client):
            time.sleep(POLL_S)
    except KeyboardInterrupt:
        console.terminal.report("indexing continues in the background; see `memsyncd status`")
        raise
    console.terminal.clear()


def wait_with_progress(
    console: Console, request_id: int, *, timeout_s: float | None
) -> dict[str, Any]:
    """Wait for the result of a long request. On a terminal, draw its progress over a second
    connection.
    """
    client = console.client
    if not console.terminal.can_draw:
        return client.wait(request_id, timeout_s=timeout_s)
    deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
    progress = Progress(console)
    with console.connect() as status_client:
        while True:
            try:
                answer = client.wait(request_id, timeout_s=POLL_S)
            except NoAnswer:
                if deadline_s is not None and time.monotonic() > deadline_s:
                    raise
                progress.update(status_client)
            else:
                console.terminal.clear()
                return answer


# --- answers ----------------------------------------------------------------

if TYPE_CHECKING:
    Answer = dict[str, Any]
    Show = Callable[[Answer, Args, Console], None]

CLIENT: Final = "cli"
# The daemon's default limit for a write. The client waits longer, to receive the daemon's error.
WRITE_MS: Final = 30_000


def show_answer(
    answer: Answer, args: Args, console: Console, show: Show, *, found: str = ""
) -> int:
    """Print the answer. Return the exit status: NOTHING_FOUND if the `found` fields are empty."""
    if _is_listing(args):
        _print_things(answer, args, console, show)
    elif args.json:
        console.terminal.print_json({"workspace": args.each} | answer if args.each else answer)
    else:
        console.terminal.paint.shows_ids = getattr(args, "ids", False)
        with console.terminal.page():
            show(answer, args, console)
            report_state(answer, args, console)
    names = found.split()
    return NOTHING_FOUND if names and not any(answer[name] for name in names) else 0


def _is_listing(args: Args) -> bool:
    """True if only the listed things are printed, by a template or their paths."""
    return bool(args.lists and (args.template or getattr(args, "paths", False)))


def _print_things(answer: Answer, args: Args, console: Console, show: Show) -> None:
    """Print the listed things by a template, or their paths; or say why there are none."""
    # Late, because a template is rare.
    from memsyncd.terminal.template import render_things

    if args.json:
        hint = "use only one of them"
        raise BadRequest("--json does not go together with --format or -l", hint=hint)
    with console.terminal.page():
        lines = render_things(answer, args, lambda: console.roots, console.cwd)
        for line in lines:
            console.terminal.print_exactly(line)
        if not lines:
            show(answer, args, console)
        elif any(isinstance(each, dict) and each.get("failure") for each in _list_asked(answer)):
            report_left_out(answer, console)
        report_state(answer, args, console)


def _list_asked(answer: Answer) -> Sequence[Any]:
    """Return the workspaces that were asked, if the answer names them."""
    return answer.get("workspaces") or ()


def run_in_each(run: Action, args: Args, console: Console) -> int:
    """Run a command in each workspace, below the workspace's name. A workspace that fails is
    reported, and decides the exit status. A command that does not end runs once, for all of them.
    Raises WorkspaceNotFound without a workspace.
    """
    if getattr(args, "follow", None) is True:
        return run(args, console)
    workspaces = console.call("workspace.list")["workspaces"]
    if not workspaces:
        hint = "add this folder with `memsyncd add .`"
        raise WorkspaceNotFound("there is no workspace yet", hint=hint)
    is_plain = args.json or _is_listing(args)
    terminal, found, failed = console.terminal, [], []
    with terminal.page():
        for number, info in enumerate(clean_values(workspaces)):
            if not is_plain:
                name = terminal.paint("bold", info["name"])
                terminal.print("\n" * bool(number) + f"{name}  {info['root']}")
            args.workspace = args.each = args.params["workspace"] = info["id"]
            try:
                found.append(run(args, console))
            except BadRequest:
                raise
            except MemsyncdError as error:
                terminal.warn(clean_line(f"without {info['name']}: {error.message}"))
                failed.append(error.exit_status)
    return failed[0] if failed else min(found)


def report_state(answer: Answer, args: Args, console: Console) -> None:
    """Warn if the index behind an answer lacks changes on disk, or if searches do not find a write
    yet.
    """
    if "freshness" in answer:
        can_wait = hasattr(args, "wait")
        console.terminal.warn(render_freshness(answer["freshness"], can_wait=can_wait))
    if not answer.get("is_indexed", True):
        console.terminal.warn("written, but not indexed yet; see `memsyncd status`")


DASH = "-"


def read_text(text: str | None, console: Console, *, is_piped: bool) -> str:
    """Return the typed text. Return stdin instead if `-` or --stdin asks for it, or if no text was
    typed and stdin is not a terminal.

    Raises BadRequest if there is no text, or if there are two.
    """
    if is_piped and text not in (None, DASH):
        raise BadRequest("--stdin and a text do not go together", hint="use only one of them")
    if is_piped or text == DASH:
        return read_stdin(console)
    if text is None and sys.stdin is not None and not sys.stdin.isatty():
        # Without a terminal, stdin may be inherited and empty, which is not a text.
        text = read_stdin(console) or None
    if text is None:
        raise BadRequest("the text is missing", hint="give it after the other words, or pipe it in")
    return text


def read_stdin(console: Console) -> str:
    """Return all of stdin. Raises BadRequest for text that is not valid UTF-8."""
    if sys.stdin is None:
        raise BadRequest("stdin is closed", hint="give the text as a word")
    if sys.stdin.isatty():
        console.terminal.note("type the text; Ctrl-D on a line of its own ends it")
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise BadRequest(
            "the text on stdin is not valid UTF-8", hint="convert it first, as with: iconv -t UTF-8"
        ) from error


def read_typed(words: Sequence[str] | str | None, console: Console, *, is_piped: bool) -> str:
    """Join the words to one text, or read stdin as `read_text` does."""
    text = words if isinstance(words, str) else " ".join(words or ()) or None
    return read_text(text, console, is_piped=is_piped)


def report_left_out(answer: dict[str, Any], console: Console) -> None:
    """Name the workspaces that the answer lacks."""
    for workspace in clean_values(answer["workspaces"]):
        if workspace["failure"]:
            text = f"without {workspace['name']}: {workspace['failure']}"
            console.terminal.warn(text)


def describe_relaxed(hits: list[dict[str, Any]]) -> str:
    """Describe hits of which none contains every word of the query."""
    if any(hit["matched"] for hit in hits):
        return "no passage contains every word; these contain some"
    if not any(hit.get("matched_related") for hit in hits):
        return "no passage contains any of these words; these are near in meaning"
    return "no passage contains any of these words; these contain related ones"


def report_query(answer: dict[str, Any], console: Console) -> None:
    """Report the parts of the query that were read otherwise than typed, and the excluded words."""
    # A daemon of an older version does not send this field.
    for problem in answer.get("query_problems", ()):
        console.terminal.warn(clean_line(problem))
    console.terminal.note(describe_excluded(answer))


def describe_excluded(answer: Mapping[str, Any]) -> str:
    """Name the words that the query excluded; empty if there are none."""
    excluded = clean_line(" ".join(answer.get("excluded", ())))
    return f"excluded: {excluded} (in quotes it would be searched for)" if excluded else ""


def describe_semantic(answer: Mapping[str, Any]) -> str:
    """Say why a search by meaning was not complete; empty if it was, or if it is switched off."""
    reason = clean_line(answer.get("semantic_reason") or "")
    how = "by words alone" if answer["semantic"] == "off" else "not all by meaning"
    return f"{how}: {reason}" if reason else ""


def report_answer(answer: dict[str, Any], console: Console) -> None:
    """Report how the query was read, why not all was searched by meaning, and the workspaces that
    the answer lacks.
    """
    report_query(answer, console)
    console.terminal.note(describe_semantic(answer))
    report_left_out(answer, console)


def report_similar(answer: dict[str, Any], console: Console) -> None:
    """Report sections that say nearly the same as the text of this write."""
    for section in clean_values(answer)["similar"]:
        place = render_span(section["path"], section["start_line"], section["end_line"])
        heading = join_headings(section["heading"])
        was = "appended to" if _is_target(section, answer) else "nearly the same"
        console.terminal.report(f"{was}: {place}  {heading}  {section['similarity']:.2f}")
    if not answer["similar"] or answer["action"] in ("appended", "unchanged"):
        return
    undo = console.render_undo(answer)
    console.terminal.report(
        f"to append there instead: {undo}{', then ' * bool(undo)}--on-similar append"
    )


def _is_target(section: dict[str, Any], answer: dict[str, Any]) -> bool:
    place = answer.get("anchor", answer["path"])
    return answer["action"] == "appended" and place in (section["anchor"], section["path"])
