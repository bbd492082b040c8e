"""Marks text that tries to instruct its reader, wherever memsyncd makes a text for a model.

A block for a prompt has the mark as its first line, unless the caller asks for the text alone. A
hit or a recalled memory has the warning as a field. Text that is read in order to be edited (`get`,
`memory view`, `diff`) is the note's own.
"""

from __future__ import annotations

from memsyncd.config import Config
from memsyncd.operations.sections import mark_warning


def find_warning(text: str, config: Config) -> str:
    """Say how a text tries to instruct its reader; empty if it does not, or if the configuration
    switches the mark off.
    """
    if not config.guard.has_instructions:
        return ""
    # The patterns are compiled at their first use.
    from memsyncd.core.guard.injection import describe_injections

    return describe_injections(text)


def mark_text(text: str, what: str, config: Config) -> str:
    """Return the line that marks a text, empty if it needs none."""
    warning = find_warning(text, config)
    return mark_warning(warning, what) if warning else ""
