"""Resolves links to other workspaces, `[[acme:solutions#Limit the pool]]`, when a question asks.

The index of each workspace has only its own notes: it holds such a link as one that leads to no
note. The part before the colon is the name or id of a workspace, the rest names a note there. If no
workspace has this name, or several have, the link is an ordinary name with a colon.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from memsyncd.engine.browse import LINKS_LIMIT_S
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import MemsyncdError


class Elsewhere(NamedTuple):
    """The workspace that a link names, and the note or section there; None if there is none."""

    workspace: Workspace
    to: str | None


def split_prefix(workspace: Workspace, target: str) -> tuple[Workspace, str] | None:
    """Return the other workspace that the target of a link names, and the name of the note there;
    None for an ordinary name.
    """
    name, colon, rest = target.partition(":")
    other = workspace.find_other(name.strip()) if colon and rest.strip() else None
    return None if other is None else (other, rest.strip())


def find_elsewhere(workspace: Workspace, target: str, heading: str) -> Elsewhere | None:
    """Find the place to which a link leads that leads to no note of its own workspace; None if it
    names no other workspace, or one whose index cannot be read now.
    """
    from memsyncd.store.links import StoredLinks

    named = split_prefix(workspace, target)
    if named is None:
        return None
    other, rest = named
    try:
        with other.acquire(LINKS_LIMIT_S) as reader:
            return Elsewhere(other, StoredLinks(reader).resolver.resolve("", rest, heading))
    except MemsyncdError:
        return None


def may_lead_elsewhere(workspace: Workspace, prefixes: Collection[str]) -> bool:
    """True if any of these beginnings of targets, before the colon, names another workspace."""
    return any(workspace.find_other(prefix.strip()) for prefix in prefixes)
