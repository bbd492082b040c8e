"""The commands are generated from the declarations, and the file is up to date."""

from __future__ import annotations

from memsyncd.operations.generate_cli import TARGET, generate
from memsyncd.operations.table import COMMAND_GROUPS, OPERATIONS


def test_the_commands_are_those_that_are_generated_from_the_declarations() -> None:
    assert TARGET.read_text(encoding="utf-8") == generate(OPERATIONS.values(), COMMAND_GROUPS), (
        "run: python -m memsyncd.operations.generate"
    )
