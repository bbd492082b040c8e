"""Instructions for a model: when and how to read its memory, and to write so that search finds it.

The text names no workspace and does not depend on how the model reaches the `memory` tool, so one
text serves all prompts.
"""

from memsyncd.own_texts import INSTRUCTIONS

__all__ = ["INSTRUCTIONS"]
