"""The guard's hits and misses on two sets of lines that were labelled by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from memsyncd.core.guard.injection import find_injections
from memsyncd.core.guard.secrets import find_secrets, redact_secrets
from tests.core.guard import labelled, labelled_passwords
from tests.core.guard.labelled import NO_ORDERS, ORDERS

REPOSITORY = Path(__file__).resolve().parents[3]
# A masked text must not hold this many characters of a secret in a row.
LEAST_SHOWN = 6


def mask(text: str) -> str:
    return redact_secrets(text, find_secrets(text))


Labelled = list[tuple[str, str]]
SETS = {"lines of notes": labelled, "passwords of people": labelled_passwords}


@pytest.mark.parametrize("secrets", [labels.SECRETS for labels in SETS.values()], ids=SETS)
def test_secrets_of_notes_are_redacted_whole_and_alone(secrets: Labelled) -> None:
    wrong = [
        (line, mask(put_in(line, value)))
        for line, value in secrets
        if not is_masked_alone(line, value)
    ]
    assert not wrong, "\n".join(map(repr, wrong))


def put_in(line: str, value: str) -> str:
    return f"# Notes\n\n{line.format(value)}\nnext line"


def is_masked_alone(line: str, value: str) -> bool:
    before, _, after = line.partition("{}")
    masked = mask(put_in(line, value))
    visible = [
        at for at in range(len(value) - LEAST_SHOWN) if value[at : at + LEAST_SHOWN] in masked
    ]
    is_whole = (
        masked.startswith("# Notes\n\n")
        and masked.endswith("\nnext line")
        and "[masked: " in masked
    )
    return (
        is_whole
        and not visible
        and before.format()[:12] in masked
        and after.format()[-6:] in masked
    )


@pytest.mark.parametrize("lines", [labels.NO_SECRETS for labels in SETS.values()], ids=SETS)
def test_lines_without_a_secret_are_shown_as_they_are(lines: list[str]) -> None:
    assert [mask(line) for line in lines] == lines
    assert not [line for line in lines if find_secrets(f"# Notes\n\n{line}\n")]


@pytest.mark.parametrize("lines", [labels.NO_SECRETS for labels in SETS.values()], ids=SETS)
def test_lines_that_are_harmless_alone_are_harmless_together(lines: list[str]) -> None:
    assert mask("\n".join(lines)) == "\n".join(lines)


@pytest.mark.parametrize("missed", [labels.MISSED for labels in SETS.values()], ids=SETS)
def test_known_misses_are_listed_until_they_are_found(missed: Labelled) -> None:
    assert [mask(line.format(value)) for line, value in missed] == [
        line.format(value) for line, value in missed
    ]


def test_the_guide_gives_these_figures() -> None:
    counts = [
        (len(labels.SECRETS), len(labels.SECRETS) + len(labels.MISSED), len(labels.NO_SECRETS))
        for labels in SETS.values()
    ]
    guide = " ".join((REPOSITORY / "memsyncd" / "GUIDE.md").read_text(encoding="utf-8").split())
    (n_masked, n_secrets, n_others), (n_masked_2, n_secrets_2, n_others_2) = counts
    assert (
        f"{n_masked} of {n_secrets} secrets are found, and none of {n_others} look-alikes" in guide
    )
    assert f"{n_masked_2} of {n_secrets_2} are found, and none of {n_others_2} look-alikes" in guide


def test_orders_to_the_reader_are_named() -> None:
    assert not [line for line in ORDERS if not find_injections(f"# Notes\n\n{line}\n")]


def test_instructions_between_developers_are_not_reported() -> None:
    assert not [
        line
        for line in NO_ORDERS
        if find_injections(f"# Notes\n\n- {line}\n") or find_injections(line)
    ]
