from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.editing.additions import Addition, check_addition, render_comment
from memsyncd.core.markdown.frontmatter import distinct_tags, find_section_meta
from memsyncd.core.model import Meta
from memsyncd.errors import BadRequest

AT = "2026-11-22T01:43:24Z"
AWKWARD = """--> -- > <!-- " ' \\ : , # [ ] { } &a *a ! | % null ~ é 日 a 1 - ? @ ` = <<""".split()
BLANKS = [": ", ", ", " #", " ", "\u00a0", "\ufeff", "\U0001f600"]
TEXTS = st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp")), max_size=2)


def may_be_said(word: str) -> bool:
    try:
        check_addition(Addition(content="x", tags=(word,)))
    except BadRequest:
        return False
    return True


words = st.lists(st.sampled_from([*AWKWARD, *BLANKS]) | TEXTS, min_size=1, max_size=6).map("".join).filter(may_be_said)


def read(addition: Addition) -> Meta:
    line = render_comment(addition, AT)
    assert "\n" not in line
    assert line.index("-->") == len(line) - len("-->")
    meta, problems = find_section_meta("n.md", [line], 0, 1)
    assert not problems
    return meta


@pytest.mark.parametrize(
    ("addition", "comment"),
    [
        (Addition(content="x"), f"{{created: {AT}}}"),
        (
            Addition(content="x", kind="Decision", tags=("#auth", "Auth", "a b"), importance=0.9, created="2026-01-02"),
            "{kind: decision, tags: [auth, a b], importance: 0.9, created: 2026-01-02}",
        ),
        (
            Addition(content="x", priority="p0", lifecycle="TASK", task="WU-12", session="s 1", source="https://a.b/c?d"),
            f'{{priority: P0, lifecycle: task, task: WU-12, session: s 1, source: "https://a.b/c?d", created: {AT}}}',
        ),
        (Addition(content="x", source='say "-->"'), f'{{source: "say \\"--\\x3e\\"", created: {AT}}}'),
        (Addition(content="x", tags=("a, b", "c: d")), f'{{tags: ["a, b", "c: d"], created: {AT}}}'),
    ],
)
def test_what_is_known_is_one_comment(addition: Addition, comment: str) -> None:
    assert render_comment(addition, AT) == f"<!-- memory: {comment} -->"


@given(words, words, words, st.lists(words, max_size=4), st.floats(0, 1))
def test_what_is_written_is_read_back(task: str, session: str, source: str, tags: list[str], importance: float) -> None:
    words = {"task": task, "session": session, "source": source}
    addition = Addition(content="x", tags=tuple(tags), importance=importance, priority="P2", kind="Error", **words)
    check_addition(addition)
    assert read(addition) == Meta(
        kind="error",
        tags=distinct_tags(tags),
        importance=importance,
        priority="P2",
        task=task.strip(),
        session=session.strip(),
        source=source.strip(),
        created=AT,
    )


@pytest.mark.parametrize("char", ["\ufeff", "\ufffe", "\U0001ffff", "\U000e0001", "\ue000", "\u0378"])
def test_characters_that_yaml_does_not_take_are_written_by_their_numbers(char: str) -> None:
    assert read(Addition(content="x", source=f"a{char}b")).source == f"a{char}b"


def test_the_longest_that_can_be_said_is_read_back() -> None:
    tags = tuple(f"{number:02}{'x, ' * 66}" for number in range(32))
    addition = Addition(content="x", task="x: " * 66, session="y" * 200, source="é" * 200, tags=tags)
    check_addition(addition)
    assert read(addition).tags == tuple(tag.strip() for tag in tags)
