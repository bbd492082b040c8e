"""Where does something worth remembering go? Sections appended to the notes that are named, or to
those of their kinds.

Nothing that stands is rewritten. Sections for several notes are one act: all of them are written or
none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from memsyncd.core.digest import digest_bytes
from memsyncd.core.editing.additions import Addition, append_section, check_addition
from memsyncd.core.editing.memory_path import MEMORIES, parse_memory_path
from memsyncd.core.markdown.parse import parse_note
from memsyncd.core.model import Span
from memsyncd.core.notepath import (
    MEMORY_FILE,
    MEMORY_FOLDER,
    NotePath,
    is_markdown,
    parse_note_path,
)
from memsyncd.engine.edit import Act, Decide, Put
from memsyncd.engine.policies import SyncPolicy
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import BadRequest, PathRefused
from memsyncd.files.read import check_size, read_text_file
from memsyncd.files.scope import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One thing to remember, and the note it was meant for, if one was named."""

    addition: Addition
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedSection:
    """Where it stands now; `digest` is the note's."""

    anchor: str
    path: str
    span: Span
    digest: str


def find_decision(
    workspace: Workspace,
    policy: SyncPolicy,
    items: Sequence[Item],
    *,
    command: str,
    client: str,
    at: str,
) -> Decide[list[AddedSection]]:
    """What `edit_workspace` shall do. `at` is the time, in ISO 8601. Raises BadRequest and
    PathRefused at once.
    """
    for item in items:
        check_addition(item.addition)
    paths = [find_destination(workspace.scope, policy, item) for item in items]
    return partial(_append, workspace, policy, items, paths, command, client, at)


def find_destination(scope: Scope, policy: SyncPolicy, item: Item) -> NotePath:
    """The note that an item goes to. A name alone is one beneath `.memories/`; without a suffix it
    is markdown.
    """
    named = item.note or policy.kinds.find_note(item.addition.kind)
    if named.startswith(MEMORIES):
        path = parse_memory_path(named).note
        if path is None:
            raise BadRequest(
                "a folder is no note", hint="name a note in it, such as /memories/decisions.md"
            )
    else:
        has_suffix = "." in named.removeprefix(MEMORY_FOLDER).rpartition("/")[2]
        text = named if has_suffix else f"{named}.md"
        is_whole = (
            text == MEMORY_FILE
            or text.startswith((f"{MEMORY_FOLDER}/", "./"))
            or scope.include.matches(text)
        )
        path = parse_note_path(text if is_whole else f"{MEMORY_FOLDER}/{text}")
    if not is_markdown(path.name):
        raise BadRequest(f"{path.text} cannot hold sections", hint="name a note that ends in .md")
    if not scope.is_note(path.text):
        raise PathRefused(
            f"path refused: {path.text} is no note of this workspace",
            hint="name MEMORY.md or a note beneath .memories/",
        )
    return path


def _append(
    workspace: Workspace,
    policy: SyncPolicy,
    items: Sequence[Item],
    paths: Sequence[NotePath],
    command: str,
    client: str,
    at: str,
) -> tuple[Act, list[AddedSection]]:
    puts: list[Put] = []
    added: dict[int, AddedSection] = {}
    for path in dict.fromkeys(paths):
        mine = [index for index, other in enumerate(paths) if other == path]
        was = read_text_file(workspace.scope, path)
        data, spans = append_section(
            path.text, was.data if was else None, [items[index].addition for index in mine], at=at
        )
        check_size(workspace.scope, path.text, data, way_out="name another note")
        puts.append(Put(path=was.path if was else path, data=data, was=was))
        anchors = {
            section.span.start: section.anchor
            for section in parse_note(path, data, policy.chunking).sections
        }
        digest = digest_bytes(data)
        for index, span in zip(mine, spans, strict=True):
            added[index] = AddedSection(
                anchor=anchors[span.start], path=path.text, span=span, digest=digest
            )
    act = Act(command=command, client=client, path=paths[0].text, operations=tuple(puts))
    return act, [added[index] for index in range(len(items))]
