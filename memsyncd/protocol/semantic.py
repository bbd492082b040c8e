"""The state of semantic search: what answers, `semantic.status` and the commands report."""

from __future__ import annotations

from typing import Literal

from memsyncd.protocol.fields import Result

SemanticState = Literal["off", "partial", "ready"]


class SemanticStatus(Result, frozen=True, kw_only=True):
    """How much of a workspace semantic search covers.

    `partial`: some chunks have no vector yet, or the model is not loaded; what there is counts.
    """

    state: SemanticState
    pending: int = 0
    """Chunks without a vector of the embedder."""
    total: int = 0
    """Chunks of the index."""
    embedder: str | None = None
    """The name of the model; null if it is off."""
    reason: str | None = None
    """Why it is off or partial, and what to do."""
