"""The instructions for a model are true of memsyncd, and short enough for every prompt."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap

from memsyncd.cli.commands import ENTRIES
from memsyncd.config import ChunkingConfig
from memsyncd.core.markdown.parse import parse_note
from memsyncd.core.model import count_tokens
from memsyncd.core.paths import parse_note_path
from memsyncd.integrations.instructions import INSTRUCTIONS

MOST_TOKENS = 1000


def test_all_six_commands_are_named() -> None:
    assert "(view, create, str_replace, insert, delete, rename)" in INSTRUCTIONS.replace("\n", " ")


def test_the_text_leaves_a_prompt_its_room() -> None:
    assert count_tokens(INSTRUCTIONS) < MOST_TOKENS


def test_lines_are_narrow_enough_to_be_read() -> None:
    assert max(map(len, INSTRUCTIONS.splitlines())) <= 100


def test_only_existing_commands_are_named() -> None:
    named = re.findall(r"`memsyncd ([a-z]+)", INSTRUCTIONS)
    assert named
    assert set(named) <= set(ENTRIES)


def test_the_example_section_is_parsed_with_all_its_metadata() -> None:
    example = "\n".join(
        line for line in INSTRUCTIONS.splitlines() if line.startswith("      ") or not line
    )
    example = textwrap.dedent(example[example.index("      ## ") :]).strip() + "\n"
    note = parse_note(parse_note_path(".memories/decisions.md"), example.encode(), ChunkingConfig())
    (section,) = [section for section in note.sections if section.heading]
    meta = section.meta
    assert section.heading == ("Sessions live in Redis",)
    assert (meta.kind, meta.tags, meta.importance, meta.created) == (
        "decision",
        ("auth", "redis"),
        0.8,
        "2026-03-14",
    )
    assert not note.problems


def test_the_text_needs_the_standard_library_alone() -> None:
    script = (
        "import sys; import memsyncd.integrations.instructions\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules} & {'anthropic',"
        " 'msgspec', 'apsw', 'asyncio'}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=30
    )
    assert done.stdout.split() == []
