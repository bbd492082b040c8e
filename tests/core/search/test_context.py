from __future__ import annotations

from collections.abc import Sequence
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from memsyncd.core.model import Span, count_tokens
from memsyncd.core.search import context
from memsyncd.core.search.context import (
    CONTEXT_HEADING,
    NO_ROOM,
    Budget,
    ContextBlock,
    ContextChunk,
    build_context_block,
)

# --- Blocks ---------------------------------------------------------------------------------------

PLENTY = Budget(max_tokens=50_000)


def make_chunk(
    path: str,
    start: int,
    text: str,
    *,
    heading: tuple[str, ...] = (),
    kind: str | None = None,
    end: int = 0,
    n_blanks_before: int = 0,
) -> ContextChunk:
    return ContextChunk(
        path=path,
        anchor=f"{path}#{'/'.join(heading).lower()}",
        heading=heading,
        kind=kind,
        span=Span(start, end or start + text.count("\n")),
        text=text,
        reason="matches",
        n_blanks_before=n_blanks_before,
    )


def places(parts: tuple[object, ...]) -> list[str]:
    # type: ignore[attr-defined]
    return [(f"{part.chunk.path}:{part.span.start}-{part.span.end}") for part in parts]


AUTH = make_chunk(
    "auth.md", 3, "## Tokens\n\nThey last an hour.", heading=("Auth", "Tokens"), kind="decision"
)
CACHE = make_chunk("cache.md", 10, "- redis is hot\n- so is the cache", heading=("Cache",))


def test_sections_have_a_label_with_their_place_in_order_of_note_and_line() -> None:
    block = build_context_block([CACHE, AUTH], PLENTY)
    assert block.text == (
        "## Prior Knowledge\n\n"
        "### Auth › Tokens (decision) · auth.md:3-5\nThey last an hour.\n\n"
        "### Cache · cache.md:10-11\n- redis is hot\n- so is the cache"
    )
    assert block.n_tokens == count_tokens(block.text)


def test_included_lines_are_listed_best_first_with_their_reason() -> None:
    block = build_context_block([CACHE, AUTH], PLENTY)
    assert places(block.included) == ["cache.md:10-11", "auth.md:3-5"]
    assert {part.reason for part in block.included} == {"matches"}
    assert block.omitted == ()


def test_nothing_makes_an_empty_text_without_a_heading() -> None:
    assert build_context_block([], PLENTY) == ContextBlock(
        text="", n_tokens=0, included=(), omitted=()
    )


def test_the_heading_can_be_replaced_or_omitted() -> None:
    assert build_context_block([CACHE], PLENTY, heading="## Memories").text.startswith(
        "## Memories\n\n### Cache"
    )
    assert build_context_block([CACHE], PLENTY, heading="").text.startswith("### Cache")


def test_a_section_without_a_heading_is_labelled_by_its_place() -> None:
    assert (
        build_context_block([make_chunk("MEMORY.md", 1, "hello")], PLENTY, heading="").text
        == "### MEMORY.md:1\nhello"
    )


def test_chunks_of_one_section_share_a_label_and_show_each_line_once() -> None:
    first, second = make_chunk("a.md", 1, "one\ntwo\nthree"), make_chunk("a.md", 3, "three\nfour")
    block = build_context_block([second, first], PLENTY, heading="")
    assert block.text == "### a.md:1-4\none\ntwo\nthree\nfour"
    assert places(block.included) == ["a.md:3-4", "a.md:1-3"]


def test_lines_that_are_missing_leave_a_mark() -> None:
    chunks = [
        make_chunk("a.md", 1, "one"),
        make_chunk("a.md", 3, "three"),
        make_chunk("a.md", 9, "nine"),
    ]
    assert (
        build_context_block(chunks, PLENTY, heading="").text
        == "### a.md:1, 3, 9\none\n…\nthree\n…\nnine"
    )


def test_blank_lines_between_chunks_are_not_a_gap() -> None:
    chunks = [
        make_chunk("a.md", 4, "four", n_blanks_before=1),
        make_chunk("a.md", 1, "one\ntwo"),
        make_chunk("a.md", 9, "nine", n_blanks_before=2),
    ]
    assert (
        build_context_block(chunks, PLENTY, heading="").text
        == "### a.md:1-4, 9\none\ntwo\n\nfour\n…\nnine"
    )


def test_a_heading_alone_has_no_lines() -> None:
    assert (
        build_context_block(
            [make_chunk("a.md", 1, "# Later", heading=("Later",))], PLENTY, heading=""
        ).text
        == "### Later · a.md:1"
    )


def test_lines_do_not_repeat_the_label() -> None:
    text = "Title\n=====\n<!-- memory: {kind: error} -->\n\nThe words."
    block = build_context_block(
        [make_chunk("a.md", 1, text, heading=("Title",), kind="error")], PLENTY, heading=""
    )
    assert block.text == "### Title (error) · a.md:1-5\nThe words."


def test_a_line_that_only_reads_like_the_heading_stays() -> None:
    block = build_context_block(
        [make_chunk("a.md", 7, "Redis\nand more of it", heading=("Redis",))], PLENTY, heading=""
    )
    assert block.text == "### Redis · a.md:7-8\nRedis\nand more of it"


def test_the_first_chunk_that_does_not_fit_is_cut_at_a_line_end_and_closes_the_block() -> None:
    long = make_chunk("z.md", 1, "\n".join(f"line {i} of a long note" for i in range(1, 30)))
    block = build_context_block([CACHE, long, AUTH], Budget(max_tokens=100))
    assert block.text.endswith("\n…")
    assert places(block.included)[0] == "cache.md:10-11"
    cut = block.included[1].span.end
    assert 1 <= cut < 29
    assert f"line {cut} of a long note\n…" in block.text
    assert f"line {cut + 1} of" not in block.text
    assert places(block.omitted) == [f"z.md:{cut + 1}-29", "auth.md:3-5"]
    assert {part.reason for part in block.omitted} == {NO_ROOM}


def test_a_chunk_of_which_no_line_fits_is_skipped() -> None:
    giant = make_chunk("b.md", 1, "word " * 200)
    block = build_context_block([AUTH, giant, CACHE], Budget(max_tokens=60))
    assert places(block.included) == ["auth.md:3-5", "cache.md:10-11"]
    assert places(block.omitted) == ["b.md:1-1"]


def test_a_best_line_longer_than_the_budget_is_cut() -> None:
    block = build_context_block(
        [make_chunk("b.md", 4, "many words " * 400), CACHE], Budget(max_tokens=100), heading=""
    )
    assert block.text.startswith("### b.md:4\nmany words many")
    assert block.text.endswith("words…") or block.text.endswith("many…")
    assert 80 < block.n_tokens <= 100


def test_the_label_of_a_best_line_is_shortened_where_it_takes_the_room() -> None:
    heading = ("Long", "A heading that goes on and on " * 20)
    chunk = make_chunk("folder/" * 40 + "note.md", 4, "many words " * 400, heading=heading)
    block = build_context_block([chunk], Budget(max_tokens=100))
    label, text = block.text.split("\n")[2:]
    assert label.startswith("### A heading that goes on and on A heading ")
    assert label.endswith("… · …" + "folder/" * 8 + "note.md:4")
    assert text.startswith("many words many")


def test_a_heading_alone_is_shown_however_long_it_is() -> None:
    chunk = make_chunk("a.md", 1, "# " + "long " * 100, heading=("long " * 100,))
    block = build_context_block([chunk], Budget(max_tokens=100))
    assert "### long long" in block.text


def test_chunks_with_a_share_leave_room_to_others_and_follow_when_all_had_their_turn() -> None:
    first = replace(make_chunk("a.md", 1, "first " * 400), share=0.5)
    more = replace(make_chunk("b.md", 1, "more " * 400), share=0.75)
    last = make_chunk("c.md", 1, "last " * 50)
    block = build_context_block([first, more, last], Budget(max_tokens=400), heading="")
    sizes = [block.text.count(word) for word in ("first", "more", "last")]
    assert sizes == [153, 78, 50]
    alone = build_context_block([first], Budget(max_tokens=400), heading="")
    assert alone.text.count("first") == 264


def test_what_says_the_same_is_shown_once_and_named() -> None:
    note = make_chunk("Redis.md", 1, "# Redis\n\nThe pool has forty.", heading=("Redis",))
    copies = [
        make_chunk(f"{name}.md", 1, note.text, heading=note.heading)
        for name in ("Redis (Conflicted copy 2)", "Redis.sync-conflict-20261120-101010-AB", "Same")
    ]
    block = build_context_block([*copies, note], PLENTY)
    assert places(block.included) == ["Redis.md:1-3"]
    assert {part.chunk.path: part.reason for part in block.omitted} == {
        copy.path: "the same as Redis.md#redis" for copy in copies
    }


def test_sections_of_other_headings_may_say_the_same() -> None:
    texts = [("Redis", "Timeout"), ("Postgres", "Timeout")]
    chunks = [make_chunk(f"{text[0]}.md", 1, "## Timeout\n\n30 s", heading=text) for text in texts]
    assert len(build_context_block(chunks, PLENTY).included) == 2


def test_nothing_is_shown_where_not_even_the_heading_fits() -> None:
    block = build_context_block([CACHE], Budget(max_tokens=100), heading="字" * 200)
    assert block.text == ""
    assert places(block.omitted) == ["cache.md:10-11"]


def test_a_fence_that_is_cut_is_closed() -> None:
    text = "```sh\n" + "\n".join(f"echo line {i}" for i in range(60)) + "\n```"
    block = build_context_block([make_chunk("a.md", 1, text)], Budget(max_tokens=100), heading="")
    assert block.text.endswith("\n```\n…")
    assert block.text.count("```") == 2


def test_chunks_of_a_giant_line_do_not_hide_each_other_s_place() -> None:
    chunks = [
        make_chunk("a.md", 5, "tail of it", end=6),
        make_chunk("a.md", 5, "begin\nhead of it"),
    ]
    block = build_context_block(chunks, PLENTY, heading="")
    assert block.text == "### a.md:5-6\ntail of it"
    assert block.omitted == ()


# --- Properties -----------------------------------------------------------------------------------

LINES = st.sampled_from(
    [
        "",
        "a",
        "words of a line",
        "```",
        "~~~~ py",
        "字が続く文",
        "# Title",
        "- item é",
        "x" * 300,
        "…",
    ]
)


@st.composite
def offers(draw: st.DrawFn) -> list[ContextChunk]:
    """Chunks of some notes as parsing makes them: chunks of one text, overlapping, in any order."""
    notes = {
        f"{name}.md": draw(st.lists(LINES, min_size=1, max_size=30))
        for name in draw(st.sets(st.sampled_from("abc")))
    }
    chunks: list[ContextChunk] = []
    for path, lines in notes.items():
        for _ in range(draw(st.integers(0, 6))):
            start = draw(st.integers(0, len(lines) - 1))
            end = draw(st.integers(start + 1, len(lines)))
            heading = draw(st.sampled_from([("Title",), ()]))
            # Two sections never share lines: give each its own note.
            name = path if heading else f"{path}.txt"
            chunks.append(make_chunk(name, start + 1, "\n".join(lines[start:end]), heading=heading))
    return draw(st.permutations(chunks))


BUDGETS = st.builds(
    Budget, max_tokens=st.integers(0, 400), max_bytes=st.one_of(st.none(), st.integers(0, 800))
)
HEADINGS = st.sampled_from([CONTEXT_HEADING, "", "## 記憶"])


@given(offers(), BUDGETS, HEADINGS)
def test_a_block_never_exceeds_its_budget(
    chunks: list[ContextChunk], budget: Budget, heading: str
) -> None:
    block = build_context_block(chunks, budget, heading=heading)
    assert count_tokens(block.text) == block.n_tokens <= budget.max_tokens
    assert budget.max_bytes is None or len(block.text.encode()) <= budget.max_bytes


@given(offers(), st.integers(100, 400), st.none() | st.integers(100, 800), HEADINGS, st.data())
def test_the_best_chunk_is_always_shown(
    chunks: list[ContextChunk],
    max_tokens: int,
    max_bytes: int | None,
    heading: str,
    data: st.DataObject,
) -> None:
    shares = st.lists(
        st.sampled_from([0.25, 0.5, 1.0]), min_size=len(chunks), max_size=len(chunks)
    ).map(sorted)
    long = st.sampled_from(["", "heading ", "字"])
    chunks = [
        replace(chunk, share=share, heading=tuple(part + 60 * extra for part in chunk.heading))
        for chunk, share, extra in zip(
            chunks,
            data.draw(shares),
            data.draw(st.lists(long, min_size=len(chunks), max_size=len(chunks))),
            strict=True,
        )
    ]
    block = build_context_block(
        chunks, Budget(max_tokens=max_tokens, max_bytes=max_bytes), heading=heading
    )
    assert block.n_tokens <= max_tokens
    assert max_bytes is None or len(block.text.encode()) <= max_bytes
    if chunks and chunks[0].share == 1.0:
        assert block.included[0].chunk.anchor == chunks[0].anchor


@given(offers(), BUDGETS, HEADINGS, st.integers(0, 1000))
def test_passing_over_chunks_without_rendering_them_changes_no_block(
    chunks: list[ContextChunk], budget: Budget, heading: str, n_ample: int
) -> None:
    with mock.patch.object(context, "AMPLE_QUARTERS", n_ample):
        fast = build_context_block(chunks, budget, heading=heading)
    with (
        mock.patch.object(context._Filling, "_may_fit_label", return_value=True),
        mock.patch.object(context._Filling, "_may_fit", return_value=True),
    ):
        assert build_context_block(chunks, budget, heading=heading) == fast


def make_unread(chunks: Sequence[ContextChunk]) -> list[ContextChunk]:
    return [
        replace(chunk, text="", n_blanks_before=0, unread=number)
        for number, chunk in enumerate(chunks, 1)
    ]


@given(offers(), BUDGETS, HEADINGS, st.integers(1, 5))
def test_chunks_that_are_read_when_they_are_tried_make_the_same_block(
    chunks: list[ContextChunk], budget: Budget, heading: str, n_at_once: int
) -> None:
    def read(unread: Sequence[ContextChunk]) -> list[ContextChunk]:
        assert unread
        return [chunks[chunk.unread - 1] for chunk in unread]

    whole = build_context_block(chunks, budget, heading=heading)
    with mock.patch.object(context, "N_READ_FIRST", n_at_once):
        block = build_context_block(make_unread(chunks), budget, heading=heading, read=read)
    assert (block.text, block.n_tokens) == (whole.text, whole.n_tokens)
    assert block.included == whole.included
    assert [(part.chunk.anchor, part.span) for part in block.omitted] == [
        (part.chunk.anchor, part.span) for part in whole.omitted
    ]


def test_chunks_after_the_one_that_closes_the_block_are_not_read() -> None:
    chunks = [make_chunk(f"{n}.md", 1, "word\n" * 100 + f"end {n}") for n in range(100)]
    asked: list[int] = []

    def read(unread: Sequence[ContextChunk]) -> list[ContextChunk]:
        asked.extend(chunk.unread for chunk in unread)
        return [chunks[chunk.unread - 1] for chunk in unread]

    block = build_context_block(make_unread(chunks), Budget(max_tokens=450), read=read)
    assert len(block.included) == 4
    assert asked == list(range(1, context.N_READ_FIRST + 1))


def test_a_chunk_without_room_for_its_label_is_not_read() -> None:
    first = make_chunk("a.md", 1, "x" * 60)
    second = make_chunk(f"{'long' * 20}.md", 1, "y")

    def read(unread: Sequence[ContextChunk]) -> list[ContextChunk]:
        raise AssertionError(f"reads {unread}")

    [unread] = make_unread([second])
    block = build_context_block([first, unread], Budget(max_tokens=35), heading="", read=read)
    assert [part.chunk.path for part in block.included] == ["a.md"]
    assert [part.chunk.path for part in block.omitted] == [second.path]


@given(offers(), BUDGETS)
def test_every_candidate_line_is_included_or_omitted(
    chunks: list[ContextChunk], budget: Budget
) -> None:
    block = build_context_block(chunks, budget)
    parts = {"in": block.included, "out": block.omitted}
    lines = {
        name: {
            (part.chunk.anchor, line)
            for part in each
            for line in range(part.span.start, part.span.end + 1)
        }
        for name, each in parts.items()
    }
    offered = {(p.anchor, line) for p in chunks for line in range(p.span.start, p.span.end + 1)}
    assert lines["in"] | lines["out"] == offered
    ends = {(part.chunk.anchor, part.span.end + 1, part.reason) for part in block.omitted}
    starts = {(part.chunk.anchor, part.span.start, part.reason) for part in block.omitted}
    assert not ends & starts
    assert not lines["in"] & lines["out"]
    assert bool(block.included) == bool(block.text)


@given(offers(), BUDGETS)
def test_no_line_is_shown_twice(chunks: list[ContextChunk], budget: Budget) -> None:
    numbered = [
        ContextChunk(
            path=p.path,
            anchor=p.anchor,
            heading=p.heading,
            kind=p.kind,
            span=p.span,
            reason=p.reason,
            text="\n".join(f"<{p.path}:{line}>" for line in range(p.span.start, p.span.end + 1)),
        )
        for p in chunks
    ]
    text = build_context_block(numbered, budget).text
    for p in numbered:
        assert all(text.count(line) <= 1 for line in p.text.split("\n"))


@given(offers())
def test_nothing_is_omitted_if_everything_fits(chunks: list[ContextChunk]) -> None:
    block = build_context_block(chunks, PLENTY)
    visible = {part.chunk.anchor for part in block.included}
    assert all(part.same_as in visible for part in block.omitted)


@given(offers(), BUDGETS)
def test_labels_are_never_in_a_fence(chunks: list[ContextChunk], budget: Budget) -> None:
    is_open = ""
    for line in build_context_block(chunks, budget).text.split("\n"):
        if line.startswith(("```", "~~~")):
            mark = line.split(" ")[0]
            is_open = (
                mark
                if not is_open
                else ""
                if mark.startswith(is_open) and mark == line.rstrip()
                else is_open
            )
        elif line.startswith("### "):
            assert not is_open
