"""How often is it right, what is said of notes? By lines that were labelled by hand."""

from __future__ import annotations

import pytest

from memsyncd.core.guard.instructions import find_instructions
from memsyncd.core.guard.secrets import find_secrets, mask_secrets
from tests.core.guard.labelled import MISSED, NO_ORDERS, NO_SECRETS, ORDERS, SECRETS

LEAST_SHOWN = 6
"""Characters of a secret that must not be left in a row."""


def mask(text: str) -> str:
    return mask_secrets(text, find_secrets(text))


@pytest.mark.parametrize(("line", "value"), SECRETS, ids=[line[:40] for line, _ in SECRETS])
def test_a_secret_of_a_note_is_masked_whole_and_alone(line: str, value: str) -> None:
    before, _, after = line.partition("{}")
    masked = mask(f"# Notes\n\n{line.format(value)}\nnext line")
    assert masked.startswith("# Notes\n\n")
    assert masked.endswith("\nnext line")
    assert "[masked: " in masked
    assert not [value[at:] for at in range(len(value) - LEAST_SHOWN) if value[at : at + LEAST_SHOWN] in masked]
    assert before.format()[:12] in masked
    assert after.format()[-6:] in masked


@pytest.mark.parametrize("line", NO_SECRETS, ids=[line[:40] for line in NO_SECRETS])
def test_a_line_without_a_secret_is_shown_as_it_is(line: str) -> None:
    assert mask(line) == line
    assert not find_secrets(f"# Notes\n\n{line}\n")


def test_lines_that_are_let_be_alone_are_let_be_together() -> None:
    assert mask("\n".join(NO_SECRETS)) == "\n".join(NO_SECRETS)


@pytest.mark.parametrize(("line", "value"), MISSED)
def test_what_is_known_to_be_missed_is_listed_until_it_is_found(line: str, value: str) -> None:
    assert mask(line.format(value)) == line.format(value)


@pytest.mark.parametrize("line", ORDERS)
def test_an_order_to_the_reader_is_named(line: str) -> None:
    assert len(find_instructions(f"# Notes\n\n{line}\n")) >= 1


@pytest.mark.parametrize("line", NO_ORDERS)
def test_what_developers_tell_each_other_is_let_be(line: str) -> None:
    assert find_instructions(f"# Notes\n\n- {line}\n") == []
    assert find_instructions(line) == []
