"""Decide what may leave a machine, how it is committed, and when the remote is asked.

A section stays back if it has a secret, or if its lifecycle is ephemeral or session, together with
the sections beneath it. If the machines share an earlier text of such a section, that text leaves
in its place: otherwise the section would be deleted on the other machines. The whole note stays as
it was shared last if its other sections would change thereby.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, Protocol

import msgspec

from memsyncd.core.editing.memories import remove_sections
from memsyncd.core.editing.sections import find_sections_bytes, replace_section
from memsyncd.core.guard.injection import GuardPolicy
from memsyncd.core.guard.secrets import redact
from memsyncd.core.markdown.parse import parse_note
from memsyncd.core.markdown.sections import ChunkPolicy
from memsyncd.core.model import Note
from memsyncd.core.paths import Globs, NotePath, is_markdown
from memsyncd.errors import EditRefused, NoteNotFound
from memsyncd.headings import join_headings

PASSING: Final = frozenset({"ephemeral", "session"})
"""The lifecycles of memories that concern one machine alone."""
WHOLE_NOTE: Final = "the whole note stays back, with all that is new in it, because of:"

# --- what leaves --------------------------------------------------------------------------------


class HeldBack(msgspec.Struct, frozen=True, kw_only=True):
    """A section that stays on this machine; without a heading, the whole note does."""

    path: str
    heading: str = ""
    line: int = 0
    reason: str


class SelectedText(msgspec.Struct, frozen=True, kw_only=True):
    """The text of a note that may leave. None: the note stays as it was shared last."""

    data: bytes | None
    held: tuple[HeldBack, ...] = ()


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that decide about the texts of notes."""

    chunking: ChunkPolicy
    guard: GuardPolicy
    exclude: Globs


def select_text(path: str, data: bytes, shared: bytes | None, policy: Policy) -> SelectedText:
    """Return the part of a note that may leave. `shared` is its text on the other machines."""
    if policy.exclude.matches(path):
        return SelectedText(data=None, held=(HeldBack(path=path, reason="share.exclude"),))
    if _has_secret_name(path, policy):
        reason = "its name has a secret"
        return SelectedText(data=None, held=(HeldBack(path=path, reason=reason),))
    note = parse_note(NotePath(path), data, policy.chunking, policy.guard)
    reasons = _find_reasons(note)
    if not reasons:
        return SelectedText(data=data)
    held = _describe(note, reasons)
    removed = _list_removed(note, reasons)
    left = _leave_out(path, data, shared or b"", removed) if is_markdown(path) else None
    if left is not None:
        after = parse_note(NotePath(path), left, policy.chunking, policy.guard)
        if not _find_reasons(after):
            return SelectedText(data=left, held=held)
    if all(each.heading for each in held):
        held = (HeldBack(path=path, reason=WHOLE_NOTE), *held)
    return SelectedText(data=None, held=held)


def _leave_out(path: str, data: bytes, shared: bytes, removed: Collection[str]) -> bytes | None:
    """Return the note with the shared text of sections, and without those that are not shared. None
    if that is no section at all, or if any other section would change.
    """
    if not removed:
        return None
    earlier = {
        anchor: text for anchor, text in _list_own_texts(path, shared).items() if anchor in removed
    }
    expected = [
        earlier.get(anchor, text)
        for anchor, text in _list_own_texts(path, data).items()
        if anchor in earlier or anchor not in removed
    ]
    try:
        left = remove_sections(path, data, set(removed) - earlier.keys())
        for anchor, text in earlier.items():
            left = replace_section(path, left, anchor, text)
    except (EditRefused, NoteNotFound):
        return None
    after = _list_own_texts(path, left).values()
    is_same = [text for text in after if text] == [text for text in expected if text]
    if not is_same:
        return None
    return left + b"\n" if data.endswith(b"\n") and not left.endswith(b"\n") else left


def _list_own_texts(path: str, data: bytes) -> dict[str, bytes]:
    places = find_sections_bytes(path, data)
    return {anchor: data[start:end].rstrip() for anchor, (start, end) in places.items()}


def _has_secret_name(path: str, policy: Policy) -> bool:
    """True if the guard takes a part of a path for a secret."""
    return policy.guard.has_secrets and redact(path) != path


def _find_reasons(note: Note) -> dict[int, str]:
    """Return why sections stay back, by their position; -1 stands for lines of no section."""
    reasons = {
        at: f"its lifecycle is {section.meta.lifecycle}"
        for at, section in enumerate(note.sections)
        if (section.meta.lifecycle or "").lower() in PASSING
    }
    for secret in note.secrets:
        places = [
            at
            for at, section in enumerate(note.sections)
            if section.start <= secret.span.end and secret.span.start <= section.end
        ]
        for at in places or [-1]:
            reasons[at] = f"it has a secret: {secret.what}"
    return reasons


def _describe(note: Note, reasons: Mapping[int, str]) -> tuple[HeldBack, ...]:
    return tuple(
        HeldBack(
            path=note.path,
            heading=redact(join_headings(note.sections[at].heading)) if at >= 0 else "",
            line=note.sections[at].start if at >= 0 else 0,
            reason=reason,
        )
        for at, reason in sorted(reasons.items())
    )


def _list_removed(note: Note, reasons: Collection[int]) -> set[str]:
    """Return the anchors of the sections that stay back; none if the whole note does."""
    removed: set[str] = set()
    level = 0
    for at, section in enumerate(note.sections):
        if at in reasons and (not level or section.level <= level):
            level = section.level
        elif level and section.level <= level:
            level = 0
        if level or at in reasons:
            removed.add(section.anchor)
    is_whole = -1 in reasons or any(note.sections[at].level == 0 for at in reasons if at >= 0)
    return set() if is_whole or len(removed) == len(note.sections) else removed


# --- commits ------------------------------------------------------------------------------------


class RecordedChange(msgspec.Struct, frozen=True):
    """The latest change of a note in the history; `writer` is empty for another program."""

    path: str
    writer: str
    command: str


class CommitPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A commit: its author, its message and the paths that it changes."""

    writer: str
    message: str
    paths: tuple[str, ...]


MACHINE_KEY: Final = "Memsyncd-Machine"
MOST_NAMED: Final = 50
"""A message names so many notes."""
OWN_COMMAND: Final = "share"
"""The command that the history records for changes of other machines."""


def plan_commits(
    paths: Collection[str], changes: Iterable[RecordedChange], machine: str
) -> list[CommitPlan]:
    """Plan a commit for each writer of these notes. `changes` has the newest first."""
    latest: dict[str, RecordedChange] = {}
    for change in changes:
        if change.command != OWN_COMMAND:
            latest.setdefault(change.path, change)
    groups: dict[str, list[RecordedChange]] = {}
    for path in sorted(paths):
        change = latest.get(path) or RecordedChange(path, "", "")
        groups.setdefault(clean_name(change.writer), []).append(change)
    return [
        CommitPlan(
            writer=writer,
            message=make_message(group, machine),
            paths=tuple(change.path for change in group),
        )
        for writer, group in sorted(groups.items())
    ]


def make_message(changes: Sequence[RecordedChange], machine: str) -> str:
    """Return the message of a commit in the history's words: commands and paths, never a text."""
    words = [f"{change.command or 'save'} {change.path}" for change in changes]
    commands = ", ".join(dict.fromkeys(change.command or "save" for change in changes))
    head = words[0] if len(words) == 1 else f"{commands} in {len(words)} notes"
    more = [f"… and {len(words) - MOST_NAMED} more"] if len(words) > MOST_NAMED else []
    body = ["", *words[:MOST_NAMED], *more] if len(words) > 1 else []
    lines = [*map(clean_name, [head]), *body, "", f"{MACHINE_KEY}: {machine}"]
    return "\n".join(lines) + "\n"


def clean_name(text: str) -> str:
    """Return a text as git takes it for the name of an author."""
    return " ".join("".join(letter for letter in text if letter not in "<>\0").split())


def name_origin(writer: str, machine: str) -> str:
    """Return the writer that the history names for a change of another machine."""
    return f"{writer or 'another program'}@{machine or 'another machine'}"


# --- when ---------------------------------------------------------------------------------------

MOST_QUIET: Final = 10
"""Notes that never rest are committed after so many quiet times."""
MOST_BACKOFF_S: Final = 3600.0


class Pace(Protocol):
    """The times of the configuration."""

    @property
    def quiet_s(self) -> float: ...

    @property
    def fetch_s(self) -> float: ...


class Times(msgspec.Struct, kw_only=True):
    """Moments of one shared memory, on the monotonic clock; None for never."""

    changed_s: float | None = None
    """The first change since the last commit."""
    latest_s: float | None = None
    """The last change."""
    asked_s: float | None = None
    """The last time that the remote was asked."""
    n_failures: int = 0
    """How often in a row the remote could not be asked."""


def find_commit_time(times: Times, pace: Pace) -> float | None:
    """Return when changes are committed; None if there are none."""
    if times.changed_s is None or times.latest_s is None:
        return None
    return min(times.latest_s + pace.quiet_s, times.changed_s + MOST_QUIET * pace.quiet_s)


def find_fetch_time(times: Times, pace: Pace, chance: float) -> float:
    """Return when the remote is asked next. `chance`, from 0 to 1, keeps the machines from asking
    at the same moment: the interval is up to a fifth shorter or longer.
    """
    if times.asked_s is None:
        return 0.0
    interval_s = pace.fetch_s * (0.8 + 0.4 * chance)
    if times.n_failures:
        wait_s = interval_s * 2.0 ** min(times.n_failures - 1, 20)
        return times.asked_s + min(wait_s, max(interval_s, MOST_BACKOFF_S))
    return times.asked_s + interval_s


# --- the folder ---------------------------------------------------------------------------------

SYNCED_FOLDERS: Final = frozenset(
    "box box-box cloudstorage dropbox googledrive nextcloud onedrive owncloud pclouddrive".split()
)


def find_synced_folder(path: str) -> str:
    """Return the part of a path by whose name another service copies the folder; empty for none."""
    for part in path.split("/"):
        name = part.lower().replace(" ", "")
        if name.partition("-")[0] in SYNCED_FOLDERS or name in ("mobiledocuments", "iclouddrive"):
            return part
    return ""


def find_password(remote: str) -> bool:
    """True if the address of a remote contains a password or token."""
    scheme, mark, rest = remote.partition("://")
    user = rest.partition("/")[0].rpartition("@")[0]
    is_web = scheme.lower() in ("http", "https", "ftp", "ftps")
    return bool(mark) and (":" in user or (bool(user) and is_web))
