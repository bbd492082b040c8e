"""What can be odd about a file or folder of memory, and what should a person do then? A table of stable words.

No text here names a path outside the workspace.
"""

from __future__ import annotations

from memsyncd.core.model import Problem
from memsyncd.workspace.names import show_name

ODDITIES: dict[str, tuple[str, str]] = {
    "bad_name": ("the name is not valid UTF-8, so it is not indexed", "rename it"),
    "evicted": (
        "a cloud service has taken the content off this machine; what was indexed stays",
        "download it to have changes indexed",
    ),
    "link_broken": ("the link leads nowhere", "mend or remove the link"),
    "link_loop": ("the link leads back to a folder above it", "remove the link"),
    "link_outside": (
        "the link leaves the workspace, so it is not followed",
        "allow the target's folder with allow_links_to in your own configuration, or copy the note",
    ),
    "not_indexed": (
        "files lie here that are kept and not searched, for only .md, .markdown and .txt are indexed",
        "rename those that should be found",
    ),
    "not_a_file": ("it is not a regular file, so it is not indexed", "remove or rename it"),
    "not_a_folder": ("it is not a folder, so there are no notes beneath it", "make it a folder"),
    "odd_name": ("the name holds control characters; it is indexed, and shown without them", "rename it"),
    "shadowed": (
        "/memories/MEMORY.md of the memory tool is the MEMORY.md beside .memories, so this one cannot be reached by it",
        "rename it, or merge the two",
    ),
    "sync_conflict": (
        "it is a copy that a sync tool made of two versions; both are indexed",
        "merge the two and delete the copy",
    ),
    "too_large": ("it is over max_file_bytes, so it is not indexed", "split the note, or raise sync.max_file_bytes"),
    "twin_names": ("another note has the same name with accents written differently; both are indexed", "merge the two"),
    "unreadable_file": ("it cannot be read; what was indexed stays", "make it readable for you"),
    "unreadable_folder": ("the folder cannot be listed; what was indexed stays", "make it readable for you"),
}


def odd(path: str, code: str, *, why: str = "") -> Problem:
    """The problem `code` of a path; `why` is the system's own word for it. A name that is no UTF-8 is shown as well as can be."""
    problem, hint = ODDITIES[code]
    return Problem(
        path=show_name(path), line=0, code=code, problem=f"{problem} ({show_name(why)})" if why else problem, hint=hint
    )
