"""Which values are secrets by their name? What `password = …` or `api_key: …` says, if it looks like one and not like code.

A name alone proves nothing: most of what follows `token:` in notes about programs is a type, a variable, a word. What counts is a
value of letters and digits mixed as nobody writes words.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator

from memsyncd.core.guard.fold import Hints

HINTS = {b"pass": "password", b"secret": "secret", b"token": "token", b"key": "API key"}
"""What a name holds, in lower case, and what its value is. A key is a secret only after a word of `_OF_KEY`."""

LEAST_PASSWORD_CHARS, LEAST_SECRET_CHARS = 8, 16
LEAST_PASSWORD_BITS, LEAST_SECRET_BITS = 2.75, 3.0
"""Entropy a character: 2.75 is seven different ones of eight. English words have as much, but no digits among them."""

ASSIGNED = re.compile(
    r"(?i:(?P<pass>pass(?:wor[dt]|wd|phrase|code)?)|secret|token|key)(?P<suffix>s?(?:[A-Z0-9_-][A-Za-z0-9_-]{0,24})?)"
    r"[\"'`*_\])]{0,4}[ \t]{0,8}(?::=|=>|[:=|])[ \t]{0,8}(?:[\"'`*_]{1,4}[ \t]{0,2}){0,2}(?i:bearer[ \t])?"
    r"(?P<value>[^\s\"'`<>|,;\\]{8,200})"
)
_OF_KEY = (b"api", b"access", b"account", b"auth", b"private", b"signing", b"encryption", b"license", b"deploy", b"webhook")
_NO_SECRET_SUFFIX = re.compile(
    r"(?i)hash|digest|sha\d|_?(?:id|name|file|path|url|uri|type|limit|count|expir\w*|length|size|ref|version|at|date|algo\w*)s?\b"
)
_CODE = re.compile(r"[(){}\[\]]|^[$%@/~.&#!-]|::|\.\.|->|://|\$[A-Z_]{3,}$")
_WORDS = re.compile(r"[A-Za-z]+(?:[._/:=-]+[A-Za-z]+)*[._/-]?\d{0,4}[.!?]?")
_DATED = re.compile(r"\d{1,4}[-./:]\d")
_UUID = re.compile(r"(?i)[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_STAND_IN = re.compile(
    r"(?i)your|xxx|placeholder|change|redacted|masked|dummy|fake|sample|foo|test|insert|replace|secret|passw|token|1234|abcd|asdf|\*\*"
)


_FINDERS = (Hints(b"pass"), Hints(b"secret"), Hints(b"key", b"token", letter=b"k"))


def find_hints(folded: bytes) -> Iterator[tuple[int, bytes]]:
    """Where each of `HINTS` stands in a folded text, those that are looked for together in order."""
    for hints in _FINDERS:
        yield from hints.find(folded)


def is_named(folded: bytes, at: int, hint: bytes) -> bool:
    """Does what stands before make the hint at `at` a name of something secret?"""
    if hint != b"key":
        return True
    return folded[max(0, at - 14) : at].rstrip(b"-_ ").endswith(_OF_KEY)


def find_value(found: re.Match[str]) -> str:
    """The value that a match of `ASSIGNED` assigns, if it looks like a secret, else an empty text."""
    value = found["value"].rstrip(".,:)*_")
    if _NO_SECRET_SUFFIX.search(found["suffix"]) or _is_innocent(value):
        return ""
    if found["pass"]:
        is_secret = len(value) >= LEAST_PASSWORD_CHARS and find_entropy(value) >= LEAST_PASSWORD_BITS
    else:
        is_secret = len(value) >= LEAST_SECRET_CHARS and find_entropy(value) >= LEAST_SECRET_BITS and _is_mixed(value)
    return value if is_secret else ""


def is_stand_in(value: str) -> bool:
    """Is this a word in the place of a secret, such as `your-password`, `$PASSWORD` or `xxxx`?"""
    return bool(_STAND_IN.search(value) or _CODE.search(value))


def find_entropy(text: str) -> float:
    """Bits a character, by how often each occurs."""
    counts = Counter(text)
    return -sum(n / len(text) * math.log2(n / len(text)) for n in counts.values())


def _is_innocent(value: str) -> bool:
    """Words, code, dates and numbers, which a name says nothing about."""
    has_both = any(char.isdigit() for char in value) and any(char.isalpha() for char in value)
    if not has_both or not value.isascii() or is_stand_in(value):
        return True
    return bool(_WORDS.fullmatch(value) or _DATED.match(value) or _UUID.fullmatch(value))


def _is_mixed(value: str) -> bool:
    """Do digits stand among the letters, in more than one place?"""
    n_places = len(re.findall(r"\d+", value))
    return (n_places >= 2 or "EXAMPLE" in value) and max(map(len, re.split(r"[._/:-]", value))) >= 12
