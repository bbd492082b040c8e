"""Report the secrets and prompt injections in a note as problems with place and remedy, and list
the secret lines.

A problem never quotes a secret, it names only the sort.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from memsyncd.core.guard.prefilter import fold_case
from memsyncd.core.model import Problem, SecretLines, Span

if TYPE_CHECKING:
    from memsyncd.core.guard.secrets import Secret

SECRET, PROMPT_INJECTION = "secret", "prompt_injection"
# The secrets of one note that get a problem each; a dump of thousands is one task.
REPORTED_SECRETS_LIMIT = 20

_REMEDY = (
    "if it is real, revoke it and remove it, then purge it from the history: memsyncd "
    "history purge --containing -"
)
_EXAMPLE = "it is marked as an example and is not masked; if it is real, revoke it and remove it"
_REVIEW = "check whether it is intended before an agent reads it"


class GuardPolicy(Protocol):
    """Which checks to run on notes."""

    @property
    def has_secrets(self) -> bool: ...
    @property
    def has_instructions(self) -> bool: ...


class Warnings(msgspec.Struct, frozen=True, kw_only=True):
    """The result of the checks. `secrets` are lines that hold one, without examples."""

    problems: tuple[Problem, ...] = ()
    secrets: tuple[SecretLines, ...] = ()


NO_WARNINGS = Warnings()


def find_warnings(path: str, text: str, policy: GuardPolicy) -> Warnings:
    r"""Check a note's text, which has `\n` for every line end."""
    # The configuration needs the policy at the start: the patterns are compiled for the first note.
    from memsyncd.core.guard.injection import find_injections
    from memsyncd.core.guard.secrets import find_secrets

    folded = fold_case(text)
    secrets = find_secrets(text, folded) if policy.has_secrets else []
    injections = find_injections(text, folded) if policy.has_instructions else []
    if not secrets and not injections:
        return NO_WARNINGS
    firsts = _line_numbers(text, [secret.start for secret in secrets])
    lasts = _line_numbers(text, [secret.end - 1 for secret in secrets])
    lines = _line_numbers(text, [injection.start for injection in injections])
    return Warnings(
        problems=(
            *_report_secrets(path, secrets, firsts),
            *(
                Problem(
                    path=path,
                    line=line,
                    code=PROMPT_INJECTION,
                    problem=injection.what,
                    hint=_REVIEW,
                )
                for line, injection in zip(lines, injections, strict=True)
            ),
        ),
        secrets=tuple(
            SecretLines(span=Span(first, last), what=secret.what)
            for secret, first, last in zip(secrets, firsts, lasts, strict=True)
            if not secret.is_example
        ),
    )


def _report_secrets(
    path: str, secrets: Sequence[Secret], lines: Sequence[int]
) -> Iterator[Problem]:
    for secret, line in zip(
        secrets[:REPORTED_SECRETS_LIMIT], lines[:REPORTED_SECRETS_LIMIT], strict=True
    ):
        hint = _EXAMPLE if secret.is_example else _REMEDY
        yield Problem(
            path=path,
            line=line,
            code=SECRET,
            problem=f"holds what looks like a secret: {secret.what}",
            hint=hint,
        )
    if len(secrets) > REPORTED_SECRETS_LIMIT:
        more = f"holds {len(secrets) - REPORTED_SECRETS_LIMIT:,} more that look like secrets"
        yield Problem(
            path=path, line=lines[REPORTED_SECRETS_LIMIT], code=SECRET, problem=more, hint=_REMEDY
        )


def _line_numbers(text: str, places: Sequence[int]) -> list[int]:
    """The line of each offset, offsets being in order. Each part of the text is counted once."""
    lines: list[int] = []
    line, at = 1, 0
    for place in places:
        line, at = line + text.count("\n", at, place), place
        lines.append(line)
    return lines
