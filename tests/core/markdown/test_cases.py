"""Whole notes are parsed as expected: `cases/NAME` is a note, `cases/NAME.expected` has its
sections, chunks, links and problems.

After an intended change, write the expected files again with `python
tests/core/markdown/test_cases.py` and read the difference.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from memsyncd.config import ChunkingConfig, GuardConfig
from memsyncd.core.markdown.parse import parse_note
from memsyncd.core.model import Meta, Note
from memsyncd.core.paths import NotePath

CASES = sorted(
    path
    for path in (Path(__file__).parents[1] / "cases").iterdir()
    if path.suffix in (".md", ".txt")
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_note_is_parsed_as_its_case_expects(case: Path) -> None:
    assert render(read(case)) == expected_of(case).read_text(encoding="utf-8")


def read(case: Path) -> Note:
    data = case.read_bytes()
    policy = re.search(rb"<!-- policy: (\d+)/(\d+) -->", data)
    sizes = {"max_tokens": int(policy[1]), "overlap": int(policy[2])} if policy else {}
    return parse_note(NotePath(case.name), data, ChunkingConfig(**sizes), GuardConfig())


def render(note: Note) -> str:
    return "".join(f"{line}\n" for line in _render_lines(note))


def expected_of(case: Path) -> Path:
    return case.with_name(f"{case.name}.expected")


def _render_lines(note: Note) -> Iterator[str]:
    yield f"note     1-{note.n_lines} {note.title!r}{_render_meta(note.meta)}"
    for section in note.sections:
        heading = " > ".join(section.heading)
        place = f"{section.span.start}-{section.span.end} {section.anchor}"
        yield f"section  {place} h{section.level} {heading!r}{_render_meta(section.meta)}"
    for chunk in note.chunks:
        yield f"chunk    {chunk.span.start}-{chunk.span.end} {chunk.anchor}"
    for link in note.links:
        target = f"{link.target}#{link.heading}" if link.heading else link.target
        yield f"link     {link.line} {link.relation or '-'} {target} in {link.anchor}"
    for problem in note.problems:
        yield f"problem  {problem.line} {problem.code}: {problem.problem}"


def _render_meta(meta: Meta) -> str:
    message = {name: getattr(meta, name) for name in Meta.__struct_fields__}
    return "".join(
        f" {name}={value!r}" for name, value in message.items() if value not in (None, ())
    )


if __name__ == "__main__":
    for written in CASES:
        expected_of(written).write_text(render(read(written)), encoding="utf-8")
