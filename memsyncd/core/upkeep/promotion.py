"""Make the section that promotes a memory to lasting knowledge of a project, and find it again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from memsyncd.core.editing.additions import SUMMARY_LIMIT_CHARS, Addition
from memsyncd.core.markdown.scanner import HEADING, split_blocks
from memsyncd.core.model import Meta, Section

# The key of the metadata, and the relation of the link, that name the source.
DISCOVERED_FROM: Final = "discovered_from"

_COMMENT = re.compile(r"\s*<!--\s*memory:.*?-->", re.DOTALL)
_NO_LINK = re.compile(r"[\[\]|#]")


def make_promotion(
    path: str, anchor: str, heading: str, lines: Sequence[str], meta: Meta, tag: str
) -> Addition:
    """Make the addition for a memory with these lines. Its text is that of the memory, then a typed
    link to it.
    """
    name = f"{path}#{heading}" if heading and not _NO_LINK.search(heading) else path
    text = _find_text(lines) or heading
    return Addition(
        content=f"{text}\n\n- {DISCOVERED_FROM} [[{name}]]",
        summary=heading if len(heading) <= SUMMARY_LIMIT_CHARS else "",
        kind=meta.kind,
        importance=meta.importance,
        priority=meta.priority,
        lifecycle="project",
        source=meta.source,
        topic=dict(meta.extra).get("topic"),
        tags=(tag, *(one for one in meta.tags if one.casefold() != tag)),
        metadata={DISCOVERED_FROM: anchor},
    )


def _find_text(lines: Sequence[str]) -> str:
    """Return the text of a memory without its heading and its own comment."""
    blocks = split_blocks(lines)
    first = blocks[0].end if blocks and blocks[0].kind == HEADING else 0
    return (
        _COMMENT.sub("", "\n".join(lines[first:]), count=1).strip()
        if first
        else "\n".join(lines).strip()
    )


def find_promoted(sections: Sequence[Section], anchor: str, tag: str) -> str | None:
    """Return the anchor of the section to which a memory was promoted with this tag."""
    for section in sections:
        tags = {one.casefold() for one in section.meta.tags}
        if dict(section.meta.extra).get(DISCOVERED_FROM) == anchor and tag in tags:
            return section.anchor
    return None
