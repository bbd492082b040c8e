"""What is said of a note that holds secrets or instructs its reader? Problems with place and remedy, and which lines are secret.

No problem ever says what a secret is, only of what sort.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from memsyncd.core.guard.fold import fold
from memsyncd.core.guard.instructions import find_instructions
from memsyncd.core.guard.secrets import Secret, find_secrets
from memsyncd.core.note import Problem, SecretLines
from memsyncd.core.span import Span

SECRET, INSTRUCTS = "secret", "instructs_reader"
MOST_SAID = 20
"""Secrets of one note that get a problem each; a dump of thousands is one thing to be done."""

_REMEDY = "if it is real, revoke it and take it out, then forget what stood there: memsyncd history purge --containing -"
_EXAMPLE = "it says itself that it is an example, and is not masked; if it is real, revoke it and take it out"
_LOOK = "see whether it is meant so before an agent reads it"


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardPolicy:
    """What notes are looked through for."""

    has_secrets: bool = True
    has_instructions: bool = True


DEFAULT_GUARD = GuardPolicy()


@dataclass(frozen=True, slots=True, kw_only=True)
class Warned:
    """What a note gave reason to say. `secrets` are lines that hold one, without examples."""

    problems: tuple[Problem, ...] = ()
    secrets: tuple[SecretLines, ...] = ()


NOTHING = Warned()


def find_warnings(path: str, text: str, policy: GuardPolicy) -> Warned:
    r"""Look through a note's text, which has `\n` for every line end."""
    folded = fold(text)
    secrets = find_secrets(text, folded) if policy.has_secrets else []
    instructions = find_instructions(text, folded) if policy.has_instructions else []
    if not secrets and not instructions:
        return NOTHING
    firsts = _find_lines(text, [secret.start for secret in secrets])
    lasts = _find_lines(text, [secret.end - 1 for secret in secrets])
    lines = _find_lines(text, [instruction.start for instruction in instructions])
    return Warned(
        problems=(
            *_say_secrets(path, secrets, firsts),
            *(
                Problem(path=path, line=line, code=INSTRUCTS, problem=instruction.what, hint=_LOOK)
                for line, instruction in zip(lines, instructions, strict=True)
            ),
        ),
        secrets=tuple(
            SecretLines(span=Span(first, last), what=secret.what)
            for secret, first, last in zip(secrets, firsts, lasts, strict=True)
            if not secret.is_example
        ),
    )


def _say_secrets(path: str, secrets: Sequence[Secret], lines: Sequence[int]) -> Iterator[Problem]:
    for secret, line in zip(secrets[:MOST_SAID], lines[:MOST_SAID], strict=True):
        hint = _EXAMPLE if secret.is_example else _REMEDY
        yield Problem(path=path, line=line, code=SECRET, problem=f"holds what looks like a secret: {secret.what}", hint=hint)
    if len(secrets) > MOST_SAID:
        more = f"holds {len(secrets) - MOST_SAID:,} more that look like secrets"
        yield Problem(path=path, line=lines[MOST_SAID], code=SECRET, problem=more, hint=_REMEDY)


def _find_lines(text: str, places: Sequence[int]) -> list[int]:
    """The line of each place, places being in order. Each piece of the text is counted once."""
    lines: list[int] = []
    line, at = 1, 0
    for place in places:
        line, at = line + text.count("\n", at, place), place
        lines.append(line)
    return lines
