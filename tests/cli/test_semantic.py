from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.cli.semantic import switch

HEADERS = ["[semantic]", "  [ semantic ]  # vectors", "[log]", "[[workspace]]"]
LINES = st.sampled_from(
    ["", "# a comment", "enabled = false # why", "  enabled=true", "model = 'm'", *HEADERS]
)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "[semantic]\nenabled = true\n"),
        ("[log]\nlevel = 'info'", "[log]\nlevel = 'info'\n\n[semantic]\nenabled = true\n"),
        ("[semantic]\nenabled = false # mine\n", "[semantic]\nenabled = true # mine\n"),
        ("[semantic]", "[semantic]\nenabled = true\n"),
        (
            "[semantic]\nmodel = 'm'\n\n[sync]\nenabled = false\n",
            "[semantic]\nenabled = true\nmodel = 'm'\n\n[sync]\nenabled = false\n",
        ),
    ],
)
def test_one_line_of_the_configuration_changes(before: str, after: str) -> None:
    assert switch(before, is_on=True) == after


@given(st.lists(LINES, max_size=8), st.booleans())
def test_a_switched_file_means_the_same_but_for_the_switch(lines: list[str], is_on: bool) -> None:
    before = "\n".join(lines)
    try:
        wanted = tomllib.loads(before)
    except tomllib.TOMLDecodeError:
        return
    wanted.setdefault("semantic", {})["enabled"] = is_on
    assert tomllib.loads(switch(before, is_on=is_on)) == wanted
