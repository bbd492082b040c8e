"""Make additions from the result of one step of a run: its artifacts, its failure, the answers of
an interview.

An artifact is split at its `## ` headings into a section each; the text before the first heading is
its overview. `kinds.DEFAULT_STEPS` names the kind of memory that a step produces. Secrets are
masked here, before anything is written. A section that the note already holds from the same run is
not added again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import msgspec

from memsyncd.core.editing.additions import (
    SUMMARY_LIMIT_CHARS,
    WORD_LIMIT_CHARS,
    Addition,
    render_section,
)
from memsyncd.core.editing.kinds import OTHER_STEPS
from memsyncd.core.editing.sections import split_note_sections
from memsyncd.core.guard.secrets import redact
from memsyncd.core.markdown.decode import decode_note
from memsyncd.core.markdown.frontmatter import find_front_matter
from memsyncd.core.markdown.scanner import HEADING, split_blocks
from memsyncd.core.markdown.sections import heading_text
from memsyncd.core.memories import SECTION_LEVEL

OVERVIEW: Final = "Overview"
FAILURE_KIND: Final = "tool_run"
FAILURE_TAG: Final = "failure"
ANSWERS_HEADING: Final = "Interview answers"


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """A text that a step produced; `path` is the file it comes from, if any."""

    content: str
    path: str = ""


class StepResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one step of a run. `overview` is the heading for the text of an artifact before
    its first `## `; if it is empty, the heading is made from that text.
    """

    step: str
    artifacts: tuple[Artifact, ...] = ()
    error: str | None = None
    answers: Mapping[str, str] = MappingProxyType({})
    run_id: str | None = None
    kind: str | None = None
    tags: tuple[str, ...] = ()
    overview: str = OVERVIEW


def split_artifact(text: str) -> list[tuple[str, str]]:
    """Split markdown at its `## ` headings into pairs of heading and body; empty bodies are left
    out.

    The text before the first heading comes first, with an empty heading. Front matter is left out.
    A `## ` in a fence is no heading.
    """
    lines = list(decode_note("artifact.md", text.encode(errors="replace")).lines)
    first = find_front_matter("artifact.md", lines).n_lines
    heads = [
        block
        for block in split_blocks(lines, first)
        if block.kind == HEADING and block.level == SECTION_LEVEL
    ]
    parts = [("", lines[first : heads[0].start if heads else len(lines)])]
    ends = [*(head.start for head in heads[1:]), len(lines)]
    for head, end in zip(heads, ends, strict=False):
        parts.append((heading_text(lines, head), lines[head.end : end]))
    bodies = ((heading, "\n".join(body).strip()) for heading, body in parts)
    return [(heading, body) for heading, body in bodies if body]


def find_step_kind(steps: Mapping[str, str], step: str) -> str:
    """Return the kind of memory that a step produces; `steps` has names in lower case."""
    return steps.get(step.strip().lower(), OTHER_STEPS)


def make_additions(result: StepResult, steps: Mapping[str, str]) -> list[Addition]:
    """Return the additions for the result of a step, without secrets."""
    kind = result.kind or find_step_kind(steps, result.step)
    made = [*_make_artifact_additions(result, kind)]
    if result.answers:
        made.append(_make_answers_addition(result, kind))
    if result.error is not None:
        made.append(_make_failure_addition(result))
    return [_mask(addition) for addition in made]


def _make_artifact_additions(result: StepResult, kind: str) -> Iterator[Addition]:
    for artifact in result.artifacts:
        # The text is masked before it is split, because a key may span several sections.
        for heading, body in split_artifact(redact(artifact.content)):
            yield Addition(
                content=body,
                summary=_shorten(heading or result.overview),
                kind=kind,
                source=_one_line(artifact.path or result.step),
                tags=_make_tags(result, result.step),
                run_id=result.run_id,
            )


def _make_failure_addition(result: StepResult) -> Addition:
    step = _one_line(result.step)
    return Addition(
        content=f"Step '{step}' failed: {(result.error or '').strip() or 'unknown error'}",
        summary=_shorten(f"{step} failure"),
        kind=result.kind or FAILURE_KIND,
        source=step,
        tags=_make_tags(result, result.step, FAILURE_TAG),
        run_id=result.run_id,
    )


def _make_answers_addition(result: StepResult, kind: str) -> Addition:
    lines = [f"{question.strip()}: {answer.strip()}" for question, answer in result.answers.items()]
    return Addition(
        content="\n".join(f"- {line}" for line in lines),
        summary=ANSWERS_HEADING,
        kind=kind,
        source=_one_line(result.step),
        tags=_make_tags(result, result.step, kind),
        run_id=result.run_id,
    )


def _make_tags(result: StepResult, *own: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, map(_one_line, (*own, *result.tags)))))


def _mask(addition: Addition) -> Addition:
    return msgspec.structs.replace(
        addition,
        content=redact(addition.content),
        summary=redact(addition.summary),
        source=redact(str(addition.source or "")) or None,
        tags=tuple(map(redact, addition.tags)),
        run_id=None if addition.run_id is None else redact(addition.run_id),
    )


def _one_line(text: str) -> str:
    printable = "".join(char if char.isprintable() else " " for char in text)
    return " ".join(printable.split())[:WORD_LIMIT_CHARS].strip()


def _shorten(heading: str) -> str:
    """Return the heading on one line, cut to the limit; empty if it has no words. An empty heading
    is made from the text later.
    """
    line = _one_line(heading)
    if len(line) > SUMMARY_LIMIT_CHARS:
        line = line[: SUMMARY_LIMIT_CHARS - 1].rstrip() + "…"
    return line if any(map(str.isalnum, line)) else ""


# --- Sections that a note already holds ---------------------------------------------------------

_CREATED = re.compile(r'(?:, )?created: (?:"(?:[^"\\]|\\.)*"|[^,}]*)(?=[,}])')


def find_new(path: str, data: bytes | None, additions: Sequence[Addition]) -> list[int]:
    """Return the indices of the additions that the note does not hold, each section once.

    Two sections are the same if their headings, texts and metadata are the same, except for the
    time of creation.
    """
    existing = _list_sections(path, data) if data else set()
    new: list[int] = []
    for number, addition in enumerate(additions):
        section = _identify(render_section(addition, ""))
        if section not in existing:
            existing.add(section)
            new.append(number)
    return new


def _list_sections(path: str, data: bytes) -> set[tuple[str, ...]]:
    lines = decode_note(path, data).lines
    sections = [section for section in split_note_sections(path, data) if section.level]
    top = [section.start for section in sections if section.level <= SECTION_LEVEL]
    ends = [*top[1:], len(lines)]
    return {_identify(lines[start:end]) for start, end in zip(top, ends, strict=False)}


def _identify(lines: Sequence[str]) -> tuple[str, ...]:
    kept = [line.rstrip() for line in lines]
    if len(kept) > 1:
        kept[1] = _CREATED.sub("", kept[1], count=1)
    while kept and not kept[-1]:
        kept.pop()
    return tuple(kept)
