from __future__ import annotations

import re

from hypothesis import assume, example, given, reject
from hypothesis import strategies as st
from msgspec.structs import replace

from memsyncd.config import ChunkingConfig
from memsyncd.core.editing.additions import append_section, check_addition
from memsyncd.core.editing.capture import (
    Artifact,
    StepResult,
    find_new,
    find_step_kind,
    make_additions,
    split_artifact,
)
from memsyncd.core.editing.kinds import DEFAULT_KINDS, DEFAULT_STEPS
from memsyncd.core.markdown.parse import parse_note
from memsyncd.core.paths import parse_note_path
from memsyncd.errors import MemsyncdError

PATH = ".memories/research.md"
AT, LATER = "2026-11-22T01:43:24Z", "2026-11-23T00:00:00Z"
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
TEXTS = st.text(
    st.characters(exclude_categories=["Cs"]) | st.sampled_from("\n\n\n## \n``` <!-->"), max_size=300
)
SECTIONS = st.lists(
    st.tuples(
        st.text(st.sampled_from("abcXYZ 0é漢"), min_size=1, max_size=20).filter(str.strip),
        st.text(st.sampled_from("abc .é漢\n"), min_size=1, max_size=40).filter(str.strip),
    ),
    max_size=5,
)


def write(sections: list[tuple[str, str]]) -> str:
    return "\n\n".join(f"## {heading}\n\n{body}" for heading, body in sections)


# --- splitting ---


def test_an_artifact_is_split_at_its_headings_and_begins_with_an_overview() -> None:
    text = "intro\n\n## First *thing*\n\nbody\n### Deeper\nmore\n\n## Empty\n\n## Last\nend\n"
    assert split_artifact(text) == [
        ("", "intro"),
        ("First thing", "body\n### Deeper\nmore"),
        ("Last", "end"),
    ]


def test_a_heading_in_a_fence_and_front_matter_split_nothing() -> None:
    text = "---\ntitle: x\n---\n# Report\n```\n## no heading\n```\n## Yes\nbody"
    assert split_artifact(text) == [("", "# Report\n```\n## no heading\n```"), ("Yes", "body")]


@given(SECTIONS)
def test_sections_that_are_joined_are_split_again(sections: list[tuple[str, str]]) -> None:
    assert split_artifact(write(sections)) == [
        (" ".join(heading.split()), body.strip()) for heading, body in sections
    ]


@given(TEXTS)
@example("## a\n## b")
def test_splitting_loses_no_word_of_a_text(text: str) -> None:
    parts = split_artifact(text)
    assert all(body.strip() for _, body in parts)
    kept = set(re.findall(r"\w{2,}", " ".join(f"{heading} {body}" for heading, body in parts)))
    bodies = re.sub(r"(?m)^ {0,3}##(?!#).*$", "", text)  # headings without a text are dropped
    assume(not bodies.lstrip("\ufeff").startswith("---"))
    assert set(re.findall(r"\w{2,}", bodies)) <= kept


# --- kinds ---


def test_the_table_maps_steps_to_kinds() -> None:
    for step, kind in (
        ("research", "research"),
        ("Strategy ", "strategy"),
        ("gsd", "decision"),
        ("discipline", "tool_run"),
        ("interview", "decision"),
        ("something else", "insight"),
    ):
        assert find_step_kind(DEFAULT_STEPS, step) == kind, step


def test_each_step_has_a_kind_that_has_a_note() -> None:
    assert set(DEFAULT_STEPS.values()) <= set(DEFAULT_KINDS)


def test_a_failure_is_a_tool_run_with_the_tag_failure() -> None:
    (failure,) = make_additions(StepResult(step="build", error="exit 2", run_id="r"), DEFAULT_STEPS)
    assert failure.content == "Step 'build' failed: exit 2"
    assert (failure.summary, failure.kind, failure.source) == ("build failure", "tool_run", "build")
    assert (failure.tags, failure.run_id) == (("build", "failure"), "r")


def test_the_answers_of_an_interview_are_one_decision() -> None:
    answers = {"Core problem": "notes are lost", "Architecture": "one daemon"}
    (made,) = make_additions(StepResult(step="interview", answers=answers), DEFAULT_STEPS)
    assert made.content == "- Core problem: notes are lost\n- Architecture: one daemon"
    assert (made.summary, made.kind) == ("Interview answers", "decision")
    assert made.tags == ("interview", "decision")


# --- secrets ---


@given(
    st.sampled_from(["content", "path", "error", "question", "answer", "run_id", "step", "tag"]),
    st.text(st.sampled_from("ab \n#"), max_size=20),
)
def test_no_secret_is_captured(place: str, around: str) -> None:
    text = f"{around} {TOKEN} {around}"
    values = {name: text if name == place else "plain" for name in ("content", "path", "error")}
    question, answer = (text if place == name else "plain" for name in ("question", "answer"))
    result = StepResult(
        step=text if place == "step" else "build",
        artifacts=(Artifact(content=values["content"], path=values["path"]),),
        error=values["error"],
        answers={question: answer},
        run_id=text if place == "run_id" else None,
        tags=(text,) if place == "tag" else (),
    )
    made = make_additions(result, DEFAULT_STEPS)
    assert made
    assert TOKEN not in repr(made)


# --- once ---


@given(TEXTS, st.text(st.characters(exclude_categories=["Cs"]), max_size=60), TEXTS)
def test_a_section_in_the_note_is_not_new(content: str, error: str, before: str) -> None:
    result = StepResult(
        step="research",
        artifacts=(Artifact(content=content), Artifact(content=content)),
        error=error,
        run_id="r1",
    )
    additions = make_additions(result, DEFAULT_STEPS)
    try:
        for addition in additions:
            check_addition(addition)
        chosen = [additions[at] for at in find_new(PATH, before.encode(), additions)]
        data, spans, _ = append_section(PATH, before.encode(), chosen, at=AT)
    except MemsyncdError:
        reject()
    assert find_new(PATH, data, additions) == []
    assert len(spans) == len(chosen) <= len(additions)
    later = [replace(addition, created=LATER) for addition in additions]
    assert find_new(PATH, data, later) == []
    another = [replace(addition, run_id="r2") for addition in additions]
    assert len(find_new(PATH, data, another)) == len(
        {(addition.summary, addition.content) for addition in another}
    )


def test_a_captured_section_names_its_run() -> None:
    additions = make_additions(StepResult(step="build", error="x", run_id="run 7"), DEFAULT_STEPS)
    data, _, _ = append_section(PATH, None, additions, at=AT)
    section = parse_note(parse_note_path(PATH), data, ChunkingConfig()).sections[-1]
    assert section.meta.kind == "tool_run"
    assert dict(section.meta.extra)["run_id"] == "run 7"
