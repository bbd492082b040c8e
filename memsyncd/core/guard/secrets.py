"""Which secrets does a text hold, and how does it read without them?

Tokens of known form, private keys, passwords in URLs, and what is assigned to the name of a secret. Each is looked for only where
a hint stands, and no pattern looks further than some thousand characters: the time grows with the length of the text, whatever
the text. But for private keys a secret lies within one line, so any whole lines of a note give the same as the note does.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from memsyncd.core.guard.assigned import _ASSIGNMENT, _KEYWORDS, _OPTION, _find_keywords, _is_option, _names_secret, _secret_value
from memsyncd.core.guard.carried import _CREDENTIAL_PATTERNS, _is_url_password
from memsyncd.core.guard.fold import find_all, fold_case
from memsyncd.core.guard.forms import LONGEST_LOOKBEHIND, MIN_RUN_CHARS, TOKEN, TOKEN_LOOKBEHINDS, TOKEN_PATTERNS, TOKEN_STARTS
from memsyncd.core.guard.keys import _find_private_keys

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
