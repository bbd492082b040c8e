"""The parts of a context for hooks: they are the whole text, and a session gets each of them once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.model import Span, count_tokens
from memsyncd.core.search.context import Budget, ContextBlock, ContextChunk, build_context_block
from memsyncd.operations.answers import split_block
from memsyncd.operations.context.declare import ContextPart, ContextResult
from memsyncd.operations.fields import Freshness
from memsyncd.server.hooks import MAX_SESSIONS, HookSession, HookSessions, select_parts

LINES = st.lists(
    st.sampled_from(["larch", "oak and ash", "", "### Elm · a.md:1-2", "```", "- item", "日本語"]),
    min_size=1,
    max_size=6,
)
NOTES = st.dictionaries(
    st.sampled_from(["a.md", "b c.md", ".memories/d.md"]), LINES, min_size=1, max_size=3
)


def make_result(notes: dict[str, list[str]], max_tokens: int) -> ContextResult:
    """A context of one section for each note, as the daemon makes it."""
    chunks = [
        ContextChunk(
            path=path,
            anchor=f"{path}#tree",
            heading=("Tree",),
            kind=None,
            span=Span(1, len(lines) + 1),
            text="\n".join(["# Tree", *lines]),
            reason="match",
        )
        for path, lines in notes.items()
    ]
    block: ContextBlock = build_context_block(chunks, Budget(max_tokens=max_tokens))
    included = [
        ContextPart(
            workspace="w", anchor=part.chunk.anchor, path=part.chunk.path,
            start_line=part.span.start, end_line=part.span.end, heading=["Tree"], reason="match",
            **dict.fromkeys(MISSING),
        )
        for part in block.included
    ]  # fmt: skip
    fresh = Freshness(
        generation=1, pending=0, unrecorded=0, synced_at=1.0, state="ready", reason=None
    )
    return ContextResult(
        workspace="w", text=block.text, tokens=block.n_tokens, included=included, left_out=[],
        unranked=0, why_empty=None, workspaces=[], freshness=fresh, took_ms=1.0,
    )  # fmt: skip


MISSING = [
    field
    for field in ContextPart.__struct_fields__
    if field
    not in {
        "workspace", "anchor", "path", "start_line", "end_line", "heading", "reason", "relation",
        "related_to", "contradicts", "contradicted_by",
    }
]  # fmt: skip


@given(NOTES, st.integers(min_value=100, max_value=400))
def test_the_parts_are_the_text_and_come_once(notes: dict[str, list[str]], max_tokens: int) -> None:
    block = make_result(notes, max_tokens)
    head, parts = split_block(block)
    pieces = [head, *(part.text for part in parts)]
    assert "".join("".join(pieces).split()) == "".join(block.text.split())
    # A line of a note may look like a label; then its section has two parts.
    assert len(parts) >= len({part.anchor for part in block.included})
    session = HookSession()
    selected = select_parts(parts, session, head, max_tokens)
    assert selected == parts
    session.add_parts(selected)
    assert select_parts(parts, session, head, max_tokens) == []
    assert select_parts(parts, HookSession(), head, max_tokens) == parts


@given(NOTES, st.integers(min_value=5, max_value=60))
def test_parts_keep_the_budget(notes: dict[str, list[str]], max_tokens: int) -> None:
    _, parts = split_block(make_result(notes, 2000))
    selected = select_parts(parts, HookSession(), "", max_tokens)
    assert count_tokens("\n\n".join(part.text for part in selected)) <= max_tokens
    assert selected or not parts


def test_a_changed_line_is_new_and_other_line_numbers_are_not() -> None:
    session = HookSession()
    _, parts = split_block(make_result({"a.md": ["larch", "oak"]}, 1000))
    session.add_parts(parts)
    (moved,) = split_block(make_result({"a.md": ["larch", "", "oak"]}, 1000))[1]
    assert session.has_part(moved)
    (changed,) = split_block(make_result({"a.md": ["larch", "elm"]}, 1000))[1]
    assert not session.has_part(changed)
    (other,) = split_block(make_result({"b c.md": ["larch", "oak"]}, 1000))[1]
    assert not session.has_part(other)


def test_the_sessions_used_last_are_kept() -> None:
    sessions = HookSessions()
    _, parts = split_block(make_result({"a.md": ["larch"]}, 1000))
    for number in range(MAX_SESSIONS):
        sessions.use("w", str(number)).add_parts(parts)
    assert sessions.use("w", "0").has_part(parts[0])
    sessions.use("w", "new")
    assert sessions.use("w", "0").has_part(parts[0])
    assert not sessions.use("w", "1").has_part(parts[0])
    # Without an id, nobody keeps what was shown.
    sessions.use("w", "").add_parts(parts)
    assert not sessions.use("w", "").has_part(parts[0])
