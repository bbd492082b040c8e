"""How many tokens does a text take? Four characters a token, and one for each character of a script that writes no spaces.

The count is an estimate that every part of memsyncd shares; no model's own tokenizer is asked. It is kept in quarters of a
token, which add up exactly, so that a caller may sum them line by line and round once.
"""

from __future__ import annotations

import re
from typing import Final

QUARTERS_PER_TOKEN: Final = 4

# Thai, Lao, Myanmar, Khmer; Hangul Jamo; CJK radicals to Hangul syllables; full-width forms; CJK beyond the BMP.
_WIDE_RUN = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1100-\u11ff\u2e80-\ua4cf\ua960-\ua97f\uac00-\ud7ff"
    "\uf900-\ufaff\uff00-\uffef\U0001b000-\U0001b16f\U00020000-\U0003ffff]+"
)


def count_tokens(text: str) -> int:
    """Tokens of a text, rounded up; 0 for an empty one."""
    return -(-count_quarters(text) // QUARTERS_PER_TOKEN)


def count_quarters(text: str) -> int:
    """Quarters of a token: 1 for a character, 4 for one of a script without spaces. Additive over concatenation."""
    if text.isascii():
        return len(text)
    return len(text) + (QUARTERS_PER_TOKEN - 1) * sum(map(len, _WIDE_RUN.findall(text)))
