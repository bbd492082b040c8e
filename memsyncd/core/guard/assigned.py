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

_KEYWORDS = {b"pass": "password", b"pwd": "password", b"secret": "secret", b"token": "token", b"key": "API key"}
"""What a name holds, in lower case, and what its value is. A key is a secret only after a word of `_OF_KEY`."""

_MIN_PASSWORD_CHARS, _MIN_SECRET_CHARS = 8, 16
_MIN_PASSWORD_BITS, _MIN_SECRET_BITS = 2.75, 3.0
"""Entropy a character: 2.75 is seven different ones of eight. English words have as much, but no digits among them."""

_NAME = (
    r"(?i:(?P<pass>pass(?:wor[dt]|wd|phrase|code)?|pwd)|secret|token|key)(?P<suffix>s?(?:[A-Z0-9_-][A-Za-z0-9_-]{0,24})?)"
    r"[\"'`*_\])]{0,4}"
)
_FOR = r"(?:[ \t](?:for|of|to|on)(?:[ \t][\w.'-]{1,24}){1,4}?)?"
_ASSIGNED_VALUE = r"(?:[\"'`*_]{1,4}[ \t]{0,2}){0,2}(?i:bearer[ \t])?(?P<value>[^\s\"'`<>|,;\\]{8,200})"

_ASSIGNMENT = re.compile(
    rf"{_NAME}{_FOR}(?:[ \t]{{0,8}}(?::=|=>|[:=|])[ \t]{{0,8}}|(?P<said>[ \t]{{1,4}}is:?[ \t]{{1,4}})){_ASSIGNED_VALUE}"
)
_OPTION = re.compile(rf"{_NAME}[ \t]{{1,4}}{_ASSIGNED_VALUE}")
"""A command's option, whose value stands behind it: `--password …`."""

_OF_KEY = (b"api", b"access", b"account", b"auth", b"private", b"signing", b"encryption", b"license", b"deploy", b"webhook")
_OF_PLACE = (b"page", b"pagination", b"next", b"continuation", b"cursor", b"sync", b"resume", b"cancellation", b"design")
"""Tokens that say how far somebody has read."""
_NO_PASS = (b"by", b"com", b"tres", b"over", b"under", b"sur", b"im")
_FLAG = re.compile(rb"--[a-z]{0,12}-?\Z")
_NO_SECRET_SUFFIX = re.compile(
    r"(?i)hash|digest|sha\d|_?(?:id|name|file|path|url|uri|type|limit|count|expir\w*|length|size|ref|version|at|date|algo\w*)s?\b"
)
_PASS_SUFFIX = re.compile(r"[_-]?\d*")
_CODE = re.compile(r"[(){}\[\]]|^[$%@/~.&#!-]|::|\.\.|->|://|\$[A-Z_]{3,}$")
_NEXT_PARAMETER = re.compile(r"&[A-Za-z_][\w.-]{0,40}=")
_WORDS = re.compile(r"[A-Za-z]+(?:[._/:=-]+(?:[A-Za-z]+|\d{1,2}(?![0-9A-Za-z])))*[._/-]?\d{0,4}[.!?]?")
_WORD_AND_YEAR = re.compile(r"(?=.*[a-z])(?=.*[A-Z])[A-Za-z]{4,20}\d{2,4}[.!?]?")
"""What people choose most."""
_STATED_VALUE = re.compile(r"(?=.*[a-z])(?=.*[A-Z])[A-Za-z0-9!@#$%^*+]+|[0-9a-f]{24,}")
"""In a sentence a value must be more than a word with digits."""
_DATE_START = re.compile(r"\d{1,4}[-./:]\d")
_UUID = re.compile(r"(?i)[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_PUBLIC_KEY = re.compile(r"(?i)(?:sha256|md5):|ssh-|age1")
"""How fingerprints and public keys begin."""
_PLACEHOLDER = re.compile(
    r"(?i)your|xxx|placeholder|change|redacted|masked|dummy|fake|sample|foo|test|insert|replace|secret|passw|token|1234|abcd|asdf|\*\*"
    r"|argon2|bcrypt|scrypt|pbkdf2|sha\d|base64|oauth2"
)


_FINDERS = (Hints(b"pass", b"pwd", letter=b"p"), Hints(b"secret"), Hints(b"key", b"token", letter=b"k"))


def _find_keywords(folded: bytes) -> Iterator[tuple[int, bytes]]:
    """Where each of `HINTS` stands in a folded text, those that are looked for together in order."""
    for hints in _FINDERS:
        yield from hints.find(folded)


def _names_secret(folded: bytes, at: int, hint: bytes) -> bool:
    """Does what stands before make the hint at `at` a name of something secret?"""
    if hint == b"key":
        before = folded[max(0, at - 24) : at].rstrip(b"-_ ")
        return before.endswith(_OF_KEY) and b"public" not in before
    if hint == b"token":
        return not folded[max(0, at - 16) : at].rstrip(b"-_ ").endswith(_OF_PLACE)
    return hint != b"pass" or not folded[max(0, at - 5) : at].endswith(_NO_PASS)


def _is_option(folded: bytes, at: int) -> bool:
    """Does a command's option begin just before `at`, with or without a first word, as in `--db-password`?"""
    return b"--" in folded[max(0, at - 15) : at] and bool(_FLAG.search(folded, max(0, at - 15), at))


def _secret_value(found: re.Match[str]) -> str:
    """The value that a match of `ASSIGNED` or `FLAGGED` assigns, if it looks like a secret, else an empty text."""
    suffix, name = found["suffix"], (found["pass"] or "").lower()
    value = _cut_end(found["value"])
    if _NO_SECRET_SUFFIX.search(suffix) or (name == "pass" and not _PASS_SUFFIX.fullmatch(suffix)) or _is_harmless(value, name):
        return ""
    if found.re is _ASSIGNMENT and found["said"] and (_WORDS.fullmatch(value) or not _STATED_VALUE.fullmatch(value)):
        return ""
    if name:
        is_secret = len(value) >= _MIN_PASSWORD_CHARS and _entropy_bits(value) >= _MIN_PASSWORD_BITS
    else:
        is_secret = len(value) >= _MIN_SECRET_CHARS and _entropy_bits(value) >= _MIN_SECRET_BITS and _is_mixed(value)
    return value if is_secret else ""


def _is_placeholder(value: str) -> bool:
    """Is this a word in the place of a secret, such as `your-password`, `$PASSWORD` or `xxxx`?"""
    return bool(_PLACEHOLDER.search(value) or _CODE.search(value))


def _entropy_bits(text: str) -> float:
    """Bits a character, by how often each occurs."""
    counts = Counter(text)
    return -sum(n / len(text) * math.log2(n / len(text)) for n in counts.values())


def _is_token_like(value: str) -> bool:
    """Is this as long and as mixed as a token, and neither words, code nor a stand-in?"""
    return not _is_harmless(value, "") and _entropy_bits(value) >= _MIN_SECRET_BITS and _is_mixed(value)


def _cut_end(value: str) -> str:
    """Without what closes the sentence, the bracket or the parameter in which the value stands."""
    if "&" in value and (following := _NEXT_PARAMETER.search(value)):
        value = value[: following.start()]
    for opening, closing in ("()", "[]", "{}"):
        if closing in value and opening not in value:
            value = value[: value.index(closing)]
    return value.rstrip(".,:)*_")


def _is_harmless(value: str, name: str) -> bool:
    """Words, code, dates and numbers, which a name says nothing about."""
    has_both = any(char.isdigit() for char in value) and any(char.isalpha() for char in value)
    if not has_both or not value.isascii() or _is_placeholder(value):
        return True
    if _DATE_START.match(value) or _UUID.fullmatch(value) or _PUBLIC_KEY.match(value):
        return True
    return bool(_WORDS.fullmatch(value)) and not (len(name) > len("pass") and _WORD_AND_YEAR.fullmatch(value))


def _is_mixed(value: str) -> bool:
    """Do digits stand among the letters, in more than one place?"""
    n_places = len(re.findall(r"\d+", value))
    return (n_places >= 2 or "EXAMPLE" in value) and max(map(len, re.split(r"[._/:-]", value))) >= 12
