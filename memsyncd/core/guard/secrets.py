"""Which secrets does a text hold, and how does it read without them?

Tokens of known form, private keys, passwords in URLs, and what is assigned to the name of a secret. Each is looked for only where
a hint stands, and no pattern looks further than some thousand characters: the time grows with the length of the text, whatever
the text. But for private keys a secret lies within one line, so any whole lines of a note give the same as the note does.


Which values are secrets by their name? What `password = …` or `api_key: …` says, if it looks like one and not like code.

A name alone proves nothing: most of what follows `token:` in notes about programs is a type, a variable, a word. What counts is a
value of letters and digits mixed as nobody writes words.


Which secrets are known by where they stand? What a URL, a header or a command hands over to say who asks.

A pattern is matched where one of its hints stands.


Where do private keys stand in a text? From the line that begins one to that which ends it, whatever stands before each line.

One that nothing ends has as many lines as look like a key's.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from memsyncd.core.guard.hints import Hints, find_all, fold_case
from memsyncd.core.guard.token_patterns import (
    LONGEST_LOOKBEHIND,
    MIN_RUN_CHARS,
    TOKEN,
    TOKEN_LOOKBEHINDS,
    TOKEN_PATTERNS,
    TOKEN_STARTS,
)

# --- secrets -----------------------------------------------------------------------------------

REDACTED_LINE = "[masked]"
"""In place of each further line of a secret."""
PRIVATE_KEY = "private key"
URL_LIMIT_CHARS = 200
MIN_CHARS = 12
"""Of a text that holds a secret: `pwd=` and what is long enough for a password."""

_RUN = b"a" * MIN_RUN_CHARS
_LASTS = frozenset(ord(before[-1]) for before in TOKEN_LOOKBEHINDS)
_CLASSES = bytes(97 if chr(code).isascii() and (chr(code).isalnum() or chr(code) in "_-") else 32 for code in range(256))
_BEFORE_KEY = b"private "
_URL = re.compile(r"://(?P<user>[^\s:/@\"'`<>]{0,64}):(?P<value>[^\s/@\"'`<>]{1,128})@(?P<host>[A-Za-z0-9_.\[-]{1,80})")
_MAYBE = re.compile(rf"\d|@|[\w+/=-]{{{MIN_RUN_CHARS}}}")
_ESCAPED = re.compile(r"\\(?=_)")
_EXAMPLE = re.compile(r"(?i)example|eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9l")
"""What documents use: Amazon's keys, names under `example.`, the token on jwt.io."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """Where a secret stands, in characters, `end` exclusive. `what` is for people. An example says itself that it is one."""

    start: int
    end: int
    what: str
    is_example: bool = False


def find_secrets(text: str, folded: bytes | None = None) -> list[Secret]:
    r"""Those in a text with `\n` for every line end, in order, none within another. `folded` is `fold(text)`, if at hand."""
    found = _find_all(text, fold_case(text) if folded is None else folded)
    if "\\_" in text:
        found = _find_escaped(text) + found
    return _in_order(found) if found else found


def redact(text: str) -> str:
    """A text as it may be shown. Most names are soon seen to be none."""
    if len(text) < MIN_CHARS or not _MAYBE.search(text):
        return text
    return redact_secrets(text, find_secrets(text))


def _find_all(text: str, folded: bytes) -> list[Secret]:
    hints = list(_find_keywords(folded))
    found = [*_find_tokens(text, folded), *_find_in_urls(text, folded), *_find_carried(text, folded)]
    found += _find_assigned(text, folded, hints)
    if any(folded.startswith(_BEFORE_KEY, max(0, at - len(_BEFORE_KEY))) for at, _ in hints):
        found += [Secret(start=start, end=end, what=PRIVATE_KEY) for start, end in _find_private_keys(text, folded)]
    return found


def _find_escaped(text: str) -> list[Secret]:
    r"""Those that markdown's escapes break: `ghp\_…` reads as `ghp_…`. Only lines with escapes are looked through once more."""
    pieces: list[str] = []
    read_at: list[int] = []
    written_at: list[int] = []
    n_read, at = 0, text.find("\\_")
    while at >= 0:
        start, end = text.rfind("\n", 0, at) + 1, text.find("\n", at) + 1 or len(text)
        for stop in [*(found.start() for found in _ESCAPED.finditer(text, start, end)), end]:
            pieces.append(text[start:stop])
            read_at.append(n_read)
            written_at.append(start)
            n_read, start = n_read + stop - start, stop + 1
        at = text.find("\\_", end)
    read = "".join(pieces)

    def find_written(place: int) -> int:
        piece = bisect_right(read_at, place) - 1
        return written_at[piece] + place - read_at[piece]

    return [
        replace(secret, start=find_written(secret.start), end=find_written(secret.end - 1) + 1)
        for secret in _find_all(read, fold_case(read))
    ]


def redact_secrets(text: str, secrets: Iterable[Secret]) -> str:
    """`text` with what each secret is in its place; examples stay. Lines stay lines: a key's are masked one by one."""
    pieces, at = [], 0
    for secret in secrets:
        if secret.is_example:
            continue
        pieces += [text[at : secret.start], redact_lines(text[secret.start : secret.end].split("\n"), secret.what)]
        at = secret.end
    return "".join([*pieces, text[at:]])


def redact_lines(lines: Sequence[str], what: str) -> str:
    """What is shown in place of a secret's lines: the first names it."""
    return "\n".join([redaction_label(what), *(REDACTED_LINE if line.strip() else line for line in lines[1:])])


def redaction_label(what: str) -> str:
    """What stands in place of a secret of this sort."""
    return f"[masked: {what}]"


def _in_order(found: list[Secret]) -> list[Secret]:
    """By place; of two that overlap the first, which is the more telling where both begin together."""
    chosen: list[Secret] = []
    for secret in sorted(found, key=lambda secret: secret.start):
        if not chosen or secret.start >= chosen[-1].end:
            chosen.append(secret)
    return chosen


def _find_tokens(text: str, folded: bytes) -> list[Secret]:
    found: list[Secret] = []
    runs = folded.translate(_CLASSES)
    at = runs.find(_RUN)
    while at >= 0:
        end = runs.find(b" ", at)
        token = None
        if text[at : at + 2] in TOKEN_STARTS or (
            folded[at - 1] in _LASTS and text.endswith(TOKEN_LOOKBEHINDS, max(0, at - LONGEST_LOOKBEHIND), at)
        ):
            # In text within text a line end is `\n`, whose letter is none of the token's.
            token = TOKEN.match(text, at + 1 if text[at - 1 : at] == "\\" else at)
        if token is None and text[at] == "_":
            token = _match_emphasised(text, at, end if end >= 0 else len(text))
        if token and (secret := _read_token(token)):
            found.append(secret)
            end = secret.end  # what follows at once may be another
        at = runs.find(_RUN, end) if end > at else -1
    return found


def _match_emphasised(text: str, start: int, end: int) -> re.Match[str] | None:
    """The token in a run that markdown shows without the `_` around it."""
    within = text[start:end].strip("_")
    first = text.index(within, start)
    return TOKEN.match(text, first, first + len(within)) if within[:2] in TOKEN_STARTS else None


def _read_token(found: re.Match[str]) -> Secret | None:
    token = found[0]
    is_example = bool(_EXAMPLE.search(token))
    if not is_example and (len(set(token[-MIN_RUN_CHARS:])) < 7 or "xxxx" in token.lower()):
        return None  # `ghp_xxxx…`, and sixteen zeros: a form to be filled in
    return Secret(
        start=found.start(), end=found.end(), what=TOKEN_PATTERNS[(found.lastindex or 1) - 1].what, is_example=is_example
    )


def _find_in_urls(text: str, folded: bytes) -> Iterator[Secret]:
    done = 0
    for at in find_all(folded, b"@"):
        if at < done or folded[at - 1 : at] in b" \n`/\"'(@":
            continue
        first = max(done, at - URL_LIMIT_CHARS)
        # Neither name nor password holds a blank, and looking back for one is quick.
        scheme = folded.rfind(b"://", max(first, folded.rfind(b" ", first, at)), at)
        found = _URL.match(text, scheme) if scheme >= 0 else None
        if found is None:
            continue
        done = found.end()
        if _is_url_password(found):
            start, end = found.span("value")
            yield Secret(start=start, end=end, what="password in a URL", is_example=bool(_EXAMPLE.search(found["host"])))


def _find_carried(text: str, folded: bytes) -> Iterator[Secret]:
    for place in _CREDENTIAL_PATTERNS:
        for at, _ in place.hints.find(folded):
            found = place.pattern.match(text, at)
            if found and place.is_secret(found):
                start, end = found.span("value")
                yield Secret(start=start, end=end, what=place.what, is_example=bool(_EXAMPLE.search(found[0])))


def _find_assigned(text: str, folded: bytes, hints: Iterable[tuple[int, bytes]]) -> Iterator[Secret]:
    for at, hint in hints:
        if not _names_secret(folded, at, hint):
            continue
        found = _ASSIGNMENT.match(text, at)
        if found is None and _is_option(folded, at):
            found = _OPTION.match(text, at)
        if found and (value := _secret_value(found)):
            start = found.start("value")
            is_example = bool(_EXAMPLE.search(value))
            yield Secret(start=start, end=start + len(value), what=_KEYWORDS[hint], is_example=is_example)


# --- assigned ----------------------------------------------------------------------------------

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


# --- carried -----------------------------------------------------------------------------------

_MIN_URL_PASSWORD_CHARS = 6
_COMMON_PASSWORDS = frozenset("password passwd passwort secret pass1234 hunter2 admin123 mypassword opensesame".split())
_USER = r"[^\s:/@\"'`<>]{0,64}"


class _CredentialPattern(NamedTuple):
    """`pattern` has the secret as its group `value`; `is_secret` says whether it is one."""

    what: str
    hints: Hints
    pattern: re.Pattern[str]
    is_secret: Callable[[re.Match[str]], bool]


def _is_url_password(found: re.Match[str]) -> bool:
    """Is the value more than a stand-in, and not the `user` once more?"""
    return _is_real_password(found["user"], found["value"])


def _is_real_password(user: str, password: str) -> bool:
    is_usual = re.sub(r"\W", "", password.lower()) in _COMMON_PASSWORDS or password == user or _is_placeholder(password)
    return not is_usual and len(password) >= _MIN_URL_PASSWORD_CHARS


def _is_credential(found: re.Match[str]) -> bool:
    if found["scheme"].lower() != "basic":
        return _is_token_like(found["value"])
    try:
        user, colon, password = base64.b64decode(found["value"], validate=True).decode("ascii").partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return False
    return bool(colon) and password.isprintable() and _is_real_password(user, password)


def _is_webhook(found: re.Match[str]) -> bool:
    return _is_token_like(found["value"].rpartition("/")[2])


_SCHEME = r"(?P<scheme>bearer|token|apikey|basic)[ \t]{1,4}"
_SLACK = r"(?<=//)hooks\.slack\.com/services/(?=T\w{6,14}/B\w{6,14}/\w{20,60})"
_DISCORD = r"(?<=/api/web)hooks/(?=\d{15,22}/[\w-]{60,80})"

_CREDENTIAL_PATTERNS = (
    _CredentialPattern(
        "credentials in a header",
        Hints(b"authorization", letter=b"z"),
        re.compile(
            rf"(?i)authorization[\"'`*\]]{{0,4}}[ \t]{{0,4}}[:=][ \t]{{0,4}}[\"'`]{{0,2}}{_SCHEME}"
            r"(?P<value>[\w.~+/=-]{8,2000})",
            re.ASCII,
        ),
        _is_credential,
    ),
    _CredentialPattern(
        "password in a command",
        Hints(b"curl ", letter=b"u"),
        re.compile(
            rf"(?i)curl [^\n]{{0,120}}?(?<=[ \t])(?:-u|--user)[ =]?[\"']?(?P<user>{_USER}):(?P<value>[^\s\"'`<>]{{1,128}})"
        ),
        _is_url_password,
    ),
    _CredentialPattern(
        "webhook",
        Hints(b"hooks", letter=b"k"),
        re.compile(rf"(?i)(?:{_SLACK}|{_DISCORD})(?P<value>[\w/-]+)", re.ASCII),
        _is_webhook,
    ),
)


# --- keys --------------------------------------------------------------------------------------

_KEY_LIMIT_LINES = 400
_KEY_LIMIT_CHARS = 32_768
_MIN_KEY_CHARS = 32
"""Of base64 in one go: what has less only shows where a key would begin."""

_KEY_NAME = r"(?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
_KEY_BEGIN = re.compile(rf"-----BEGIN {_KEY_NAME}")
_KEY_END = re.compile(rf"-----END {_KEY_NAME}")
_KEY_TEXT = re.compile(rf"[A-Za-z0-9+/=]{{{_MIN_KEY_CHARS}}}")
_KEY_LINE = re.compile(r"[ \t>]{0,40}(?:[A-Za-z0-9+/=]{0,80}|[A-Za-z-]{1,20}: .{0,80})[ \t]{0,40}")


def _find_private_keys(text: str, folded: bytes) -> Iterator[tuple[int, int]]:
    """Start and end, in characters, of each. `folded` is the text folded."""
    done = 0
    for at in find_all(folded, b"-----begin "):
        begin = _KEY_BEGIN.match(text, at) if at >= done else None
        if begin:
            done = end = _find_key_end(text, begin.end())
            if _KEY_TEXT.search(text, begin.end(), end):
                yield at, end


def _find_key_end(text: str, at: int) -> int:
    following = text.find("-----BEGIN ", at, at + _KEY_LIMIT_CHARS)
    end = _KEY_END.search(text, at, following if following >= 0 else at + _KEY_LIMIT_CHARS)
    return end.end() if end else _find_last_key_line(text, at)


def _find_last_key_line(text: str, at: int) -> int:
    """The end of the last line that looks like one of the key that began before `at`."""
    end = _find_line_end(text, at)
    for _ in range(_KEY_LIMIT_LINES):
        next_end = _find_line_end(text, end + 1)
        if end >= len(text) or not _KEY_LINE.fullmatch(text, end + 1, next_end):
            return end
        end = next_end
    return end


def _find_line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end
