"""Find secrets in a text, and redact them.

Secrets are tokens of a known form, private keys, passwords in URLs, credentials in headers and
commands, and values assigned to the name of a secret. Each sort is looked for only where a hint
occurs, and no pattern looks further than some thousand characters: the time grows with the length
of the text, for any text. A secret other than a private key lies within one line, so any whole
lines of a note give the same secrets as the note.
"""

from __future__ import annotations

import base64
import binascii
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from memsyncd.core.guard.prefilter import Hints, find_all, fold_case
from memsyncd.core.guard.secret_patterns import (
    ASSIGNMENT,
    KEYWORDS,
    LONGEST_LOOKBEHIND,
    MIN_RUN_CHARS,
    OPTION,
    TOKEN_LOOKBEHINDS,
    TOKEN_PATTERNS,
    TOKEN_STARTS,
    find_keywords,
    is_option,
    is_placeholder,
    is_token_like,
    names_secret,
    secret_value,
    token_pattern,
)

# --- Finding and redacting ------------------------------------------------------------------------

# In place of each further line of a secret.
REDACTED_LINE = "[masked]"
PRIVATE_KEY = "private key"
URL_LIMIT_CHARS = 200
# The shortest text that holds a secret: `pwd=` and the shortest password.
MIN_CHARS = 12

_RUN = b"a" * MIN_RUN_CHARS
_LASTS = frozenset(ord(before[-1]) for before in TOKEN_LOOKBEHINDS)
_CLASSES = bytes(
    97 if chr(code).isascii() and (chr(code).isalnum() or chr(code) in "_-") else 32
    for code in range(256)
)
_BEFORE_KEY = b"private "
_URL = re.compile(
    r"://(?P<user>[^\s:/@\"'`<>]{0,64}):(?P<value>[^\s/@\"'`<>]{1,128})@"
    r"(?P<host>[A-Za-z0-9_.\[-]{1,80})"
)
_MAYBE = re.compile(rf"\d|@|[\w+/=-]{{{MIN_RUN_CHARS}}}")
_ESCAPED = re.compile(r"\\(?=_)")
# Secrets from documentation: Amazon's keys, names under `example.`, the token on jwt.io.
_EXAMPLE = re.compile(r"(?i)example|eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9l")


class Secret(msgspec.Struct, frozen=True, kw_only=True):
    """The range of a secret in characters, `end` exclusive.

    `what` is readable. An example is marked as one by its own text.
    """

    start: int
    end: int
    what: str
    is_example: bool = False


def find_secrets(text: str, folded: bytes | None = None) -> list[Secret]:
    r"""The secrets in a text with `\n` for every line end, in order, none within another.

    `folded` is `fold_case(text)`, if already computed.
    """
    found = _find_all(text, fold_case(text) if folded is None else folded)
    if "\\_" in text:
        found = _find_escaped(text) + found
    return _in_order(found) if found else found


def redact(text: str) -> str:
    """A text without its secrets. Most names need only a first check."""
    if len(text) < MIN_CHARS or not _MAYBE.search(text):
        return text
    return redact_secrets(text, find_secrets(text))


def _find_all(text: str, folded: bytes) -> list[Secret]:
    hints = list(find_keywords(folded))
    found = [
        *_find_tokens(text, folded),
        *_find_in_urls(text, folded),
        *_find_credentials(text, folded),
    ]
    found += _find_keyword_values(text, folded, hints)
    if any(folded.startswith(_BEFORE_KEY, max(0, at - len(_BEFORE_KEY))) for at, _ in hints):
        found += [
            Secret(start=start, end=end, what=PRIVATE_KEY)
            for start, end in _find_private_keys(text, folded)
        ]
    return found


def _find_escaped(text: str) -> list[Secret]:
    r"""The secrets that markdown's escapes interrupt: `ghp\_…` reads as `ghp_…`.

    Only lines with escapes are searched again.
    """
    parts: list[str] = []
    read_at: list[int] = []
    written_at: list[int] = []
    n_read, at = 0, text.find("\\_")
    while at >= 0:
        start, end = text.rfind("\n", 0, at) + 1, text.find("\n", at) + 1 or len(text)
        for stop in [*(found.start() for found in _ESCAPED.finditer(text, start, end)), end]:
            parts.append(text[start:stop])
            read_at.append(n_read)
            written_at.append(start)
            n_read, start = n_read + stop - start, stop + 1
        at = text.find("\\_", end)
    read = "".join(parts)

    def find_written(place: int) -> int:
        part = bisect_right(read_at, place) - 1
        return written_at[part] + place - read_at[part]

    return [
        replace(secret, start=find_written(secret.start), end=find_written(secret.end - 1) + 1)
        for secret in _find_all(read, fold_case(read))
    ]


def redact_secrets(text: str, secrets: Iterable[Secret]) -> str:
    """`text` with a label in place of each secret; examples stay.

    The number of lines stays: a key is redacted line by line.
    """
    parts, at = [], 0
    for secret in secrets:
        if secret.is_example:
            continue
        parts += [
            text[at : secret.start],
            redact_lines(text[secret.start : secret.end].split("\n"), secret.what),
        ]
        at = secret.end
    return "".join([*parts, text[at:]])


def redact_lines(lines: Sequence[str], what: str) -> str:
    """The text in place of a secret's lines: the first line names its sort."""
    return "\n".join(
        [redaction_label(what), *(REDACTED_LINE if line.strip() else line for line in lines[1:])]
    )


def redaction_label(what: str) -> str:
    """The label in place of a secret of this sort."""
    return f"[masked: {what}]"


def is_redacted(text: str) -> bool:
    """True if the text may have a label in place of a secret."""
    return "[masked" in text


def _in_order(found: list[Secret]) -> list[Secret]:
    """Secrets in order of offset.

    Of two that overlap the first stays; of two that begin together, the first found, which is the
    more specific.
    """
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
            folded[at - 1] in _LASTS
            and text.endswith(TOKEN_LOOKBEHINDS, max(0, at - LONGEST_LOOKBEHIND), at)
        ):
            # In an escaped text a line end is `\n`, whose letter does not belong to the token.
            token = token_pattern().match(text, at + 1 if text[at - 1 : at] == "\\" else at)
        if token is None and text[at] == "_":
            token = _match_emphasised(text, at, end if end >= 0 else len(text))
        if token and (secret := _read_token(token)):
            found.append(secret)
            end = secret.end  # another may follow at once
        at = runs.find(_RUN, end) if end > at else -1
    return found


def _match_emphasised(text: str, start: int, end: int) -> re.Match[str] | None:
    """The token in a run that markdown shows without the `_` around it."""
    within = text[start:end].strip("_")
    first = text.index(within, start)
    return (
        token_pattern().match(text, first, first + len(within))
        if within[:2] in TOKEN_STARTS
        else None
    )


def _read_token(found: re.Match[str]) -> Secret | None:
    token = found[0]
    is_example = bool(_EXAMPLE.search(token))
    if not is_example and (len(set(token[-MIN_RUN_CHARS:])) < 7 or "xxxx" in token.lower()):
        return None  # `ghp_xxxx…`, and sixteen zeros: a form to be filled in
    return Secret(
        start=found.start(),
        end=found.end(),
        what=TOKEN_PATTERNS[(found.lastindex or 1) - 1][0],
        is_example=is_example,
    )


def _find_in_urls(text: str, folded: bytes) -> Iterator[Secret]:
    done = 0
    for at in find_all(folded, b"@"):
        if at < done or folded[at - 1 : at] in b" \n`/\"'(@":
            continue
        first = max(done, at - URL_LIMIT_CHARS)
        # Neither name nor password holds a blank, and searching backwards for one is fast.
        scheme = folded.rfind(b"://", max(first, folded.rfind(b" ", first, at)), at)
        found = _URL.match(text, scheme) if scheme >= 0 else None
        if found is None:
            continue
        done = found.end()
        if _is_url_password(found):
            start, end = found.span("value")
            yield Secret(
                start=start,
                end=end,
                what="password in a URL",
                is_example=bool(_EXAMPLE.search(found["host"])),
            )


def _find_credentials(text: str, folded: bytes) -> Iterator[Secret]:
    for credential in _CREDENTIAL_PATTERNS:
        for at, _ in credential.hints.find(folded):
            found = credential.pattern.match(text, at)
            if found and credential.is_secret(found):
                start, end = found.span("value")
                yield Secret(
                    start=start,
                    end=end,
                    what=credential.what,
                    is_example=bool(_EXAMPLE.search(found[0])),
                )


def _find_keyword_values(
    text: str, folded: bytes, hints: Iterable[tuple[int, bytes]]
) -> Iterator[Secret]:
    for at, hint in hints:
        if not names_secret(folded, at, hint):
            continue
        found = ASSIGNMENT.match(text, at)
        if found is None and is_option(folded, at):
            found = OPTION.match(text, at)
        if found and (value := secret_value(found)):
            start = found.start("value")
            is_example = bool(_EXAMPLE.search(value))
            yield Secret(
                start=start, end=start + len(value), what=KEYWORDS[hint], is_example=is_example
            )


# --- Credentials in URLs, headers and commands ----------------------------------------------------

_MIN_URL_PASSWORD_CHARS = 6
_COMMON_PASSWORDS = frozenset(
    "password passwd passwort secret pass1234 hunter2 admin123 mypassword opensesame".split()
)
_USER = r"[^\s:/@\"'`<>]{0,64}"


class _CredentialPattern(NamedTuple):
    """`pattern` is matched at a hint and has the secret as its group `value`; `is_secret` checks
    it.
    """

    what: str
    hints: Hints
    pattern: re.Pattern[str]
    is_secret: Callable[[re.Match[str]], bool]


def _is_url_password(found: re.Match[str]) -> bool:
    """True if the value is not a placeholder and differs from the `user`."""
    return _is_real_password(found["user"], found["value"])


def _is_real_password(user: str, password: str) -> bool:
    is_usual = (
        re.sub(r"\W", "", password.lower()) in _COMMON_PASSWORDS
        or password == user
        or is_placeholder(password)
    )
    return not is_usual and len(password) >= _MIN_URL_PASSWORD_CHARS


def _is_credential(found: re.Match[str]) -> bool:
    if found["scheme"].lower() != "basic":
        return is_token_like(found["value"])
    try:
        user, colon, password = (
            base64.b64decode(found["value"], validate=True).decode("ascii").partition(":")
        )
    except (binascii.Error, UnicodeDecodeError):
        return False
    return bool(colon) and password.isprintable() and _is_real_password(user, password)


def _is_webhook(found: re.Match[str]) -> bool:
    return is_token_like(found["value"].rpartition("/")[2])


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
            rf"(?i)curl [^\n]{{0,120}}?(?<=[ \t])(?:-u|--user)[ =]?[\"']?(?P<user>{_USER}):"
            rf"(?P<value>[^\s\"'`<>]{{1,128}})"
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


# --- Private keys ---------------------------------------------------------------------------------

_KEY_LIMIT_LINES = 400
_KEY_LIMIT_CHARS = 32_768
# Of base64 in one run: a shorter text only shows where a key would begin.
_MIN_KEY_CHARS = 32

_KEY_NAME = r"(?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
_KEY_BEGIN = re.compile(rf"-----BEGIN {_KEY_NAME}")
_KEY_END = re.compile(rf"-----END {_KEY_NAME}")
_KEY_TEXT = re.compile(rf"[A-Za-z0-9+/=]{{{_MIN_KEY_CHARS}}}")
_KEY_LINE = re.compile(r"[ \t>]{0,40}(?:[A-Za-z0-9+/=]{0,80}|[A-Za-z-]{1,20}: .{0,80})[ \t]{0,40}")


def _find_private_keys(text: str, folded: bytes) -> Iterator[tuple[int, int]]:
    """Start and end of each private key, in characters. `folded` is the text folded.

    A key runs from its first line to its last, whatever precedes each line; one without an end has
    as many lines as look like a key's.
    """
    done = 0
    for at in find_all(folded, b"-----begin "):
        begin = _KEY_BEGIN.match(text, at) if at >= done else None
        if begin:
            done = end = _key_end(text, begin.end())
            if _KEY_TEXT.search(text, begin.end(), end):
                yield at, end


def _key_end(text: str, at: int) -> int:
    following = text.find("-----BEGIN ", at, at + _KEY_LIMIT_CHARS)
    end = _KEY_END.search(text, at, following if following >= 0 else at + _KEY_LIMIT_CHARS)
    return end.end() if end else _last_key_line_end(text, at)


def _last_key_line_end(text: str, at: int) -> int:
    """The end of the last line that looks like one of the key that began before `at`."""
    end = _line_end(text, at)
    for _ in range(_KEY_LIMIT_LINES):
        next_end = _line_end(text, end + 1)
        if end >= len(text) or not _KEY_LINE.fullmatch(text, end + 1, next_end):
            return end
        end = next_end
    return end


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end
