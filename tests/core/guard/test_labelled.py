"""How often the guard is right, measured on lines that were labelled by hand."""

from __future__ import annotations

from memsyncd.core.guard.injection import find_injections
from memsyncd.core.guard.secrets import find_secrets, redact_secrets
from tests.core.guard.labelled import MISSED, NO_ORDERS, NO_SECRETS, ORDERS, SECRETS

# Characters of a secret that must not remain in a row.
LEAST_SHOWN = 6


def mask(text: str) -> str:
    return redact_secrets(text, find_secrets(text))


def test_secrets_of_notes_are_redacted_whole_and_alone() -> None:
    wrong = [
        (line, mask(put_in(line, value)))
        for line, value in SECRETS
        if not is_masked_alone(line, value)
    ]
    assert not wrong, "\n".join(map(repr, wrong))


def put_in(line: str, value: str) -> str:
    return f"# Notes\n\n{line.format(value)}\nnext line"


def is_masked_alone(line: str, value: str) -> bool:
    before, _, after = line.partition("{}")
    masked = mask(put_in(line, value))
    shown = [at for at in range(len(value) - LEAST_SHOWN) if value[at : at + LEAST_SHOWN] in masked]
    is_whole = (
        masked.startswith("# Notes\n\n")
        and masked.endswith("\nnext line")
        and "[masked: " in masked
    )
    return (
        is_whole and not shown and before.format()[:12] in masked and after.format()[-6:] in masked
    )


def test_lines_without_a_secret_are_shown_as_they_are() -> None:
    assert [mask(line) for line in NO_SECRETS] == NO_SECRETS
    assert not [line for line in NO_SECRETS if find_secrets(f"# Notes\n\n{line}\n")]


def test_lines_that_are_harmless_alone_are_harmless_together() -> None:
    assert mask("\n".join(NO_SECRETS)) == "\n".join(NO_SECRETS)


def test_known_misses_are_listed_until_they_are_found() -> None:
    assert [mask(line.format(value)) for line, value in MISSED] == [
        line.format(value) for line, value in MISSED
    ]


def test_orders_to_the_reader_are_named() -> None:
    assert not [line for line in ORDERS if not find_injections(f"# Notes\n\n{line}\n")]


def test_instructions_between_developers_are_not_reported() -> None:
    assert not [
        line
        for line in NO_ORDERS
        if find_injections(f"# Notes\n\n- {line}\n") or find_injections(line)
    ]
