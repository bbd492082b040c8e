"""The commands are generated from the declarations, and the file is up to date."""

from __future__ import annotations

from memsyncd.operations.generate_cli import TARGET, generate
from memsyncd.operations.table import COMMAND_GROUPS, OPERATIONS


def test_the_commands_are_those_that_are_generated_from_the_declarations() -> None:
    made = generate(OPERATIONS.values(), COMMAND_GROUPS)
    files = {
        "" if path.stem == "__init__" else path.stem: path.read_text(encoding="utf-8")
        for path in TARGET.glob("*.py")
    }
    assert files == made, "run: python -m memsyncd.operations.generate"
