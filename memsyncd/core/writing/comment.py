"""How is what is known of a section written so that it is read back the same? One HTML comment of YAML, on one line.

Values are plain where that is safe and quoted elsewhere; nothing in them can end the comment.
"""

from __future__ import annotations

import re
import unicodedata

from memsyncd.core.markdown.frontmatter import LIFECYCLES, PRIORITIES, distinct_tags
from memsyncd.core.writing.addition import Addition, find_choice

_PLAIN = re.compile(r"[^\W_](?:(?:[\w./+@ -]|:(?=\w))*\w)?")


def render_comment(addition: Addition, at: str) -> str:
    """`<!-- memory: {kind: decision, tags: [auth], …} -->`; `at` stands for a time that the addition does not say."""
    kind, tags = (addition.kind or "").strip().lower(), distinct_tags(addition.tags)
    pairs = {
        "kind": _quote(kind),
        "tags": f"[{', '.join(map(_quote, tags))}]" if tags else "",
        "importance": "" if addition.importance is None else repr(float(addition.importance)),
        "priority": find_choice(addition.priority or "", PRIORITIES) or "",
        "lifecycle": find_choice(addition.lifecycle or "", LIFECYCLES) or "",
        "task": _quote(addition.task or ""),
        "session": _quote(addition.session or ""),
        "source": _quote(addition.source or ""),
        "created": _quote(addition.created or at),
    }
    return f"<!-- memory: {{{', '.join(f'{key}: {value}' for key, value in pairs.items() if value)}}} -->"


def _quote(text: str) -> str:
    text = text.strip()
    if not text or _PLAIN.fullmatch(text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("-->", "--\\x3e")
    return '"' + "".join(map(_escape, escaped)) + '"'


def _escape(char: str) -> str:
    """Characters that YAML does not take as they are, by their numbers."""
    return f"\\U{ord(char):08x}" if unicodedata.category(char)[0] == "C" else char
