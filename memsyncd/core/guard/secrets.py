"""Which secrets does a text hold, and how does it read without them?

Tokens of known form, private keys, passwords in URLs, and what is assigned to the name of a secret. Each is looked for only where
a hint stands, and no pattern looks further than some thousand characters: the time grows with the length of the text, whatever
the text. But for private keys a secret lies within one line, so any whole lines of a note give the same as the note does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from memsyncd.core.guard.assigned import ASSIGNED, FLAGGED, HINTS, find_hints, find_value, is_flag, is_named
from memsyncd.core.guard.carried import PLACES, is_password
from memsyncd.core.guard.fold import find_all, fold
from memsyncd.core.guard.forms import BEFORE, FORMS, LONGEST_BEFORE, RUN, STARTS, TOKEN

MASKED_LINE = "[masked]"
"""In place of each further line of a secret."""
PRIVATE_KEY = "private key"
MOST_KEY_LINES = 400
LEAST_KEY_CHARS = 32
"""Of base64 in one go: what has less only shows where a key would begin."""
MOST_URL_CHARS = 200

_RUN = b"a" * RUN
_LASTS = frozenset(ord(before[-1]) for before in BEFORE)
_CLASSES = bytes(97 if chr(code).isascii() and (chr(code).isalnum() or chr(code) in "_-") else 32 for code in range(256))
_KEY_BEGIN = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_BEFORE_KEY = b"private "
_KEY_END = "-----END"
_KEY_TEXT = re.compile(rf"[A-Za-z0-9+/=]{{{LEAST_KEY_CHARS}}}")
_KEY_LINE = re.compile(r"[ \t>]{0,40}(?:[A-Za-z0-9+/=]{0,80}|[A-Za-z-]{1,20}: .{0,80})[ \t]{0,40}")
_URL = re.compile(r"://(?P<user>[^\s:/@\"'`<>]{0,64}):(?P<value>[^\s/@\"'`<>]{1,128})@(?P<host>[A-Za-z0-9_.\[-]{1,80})")
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
    folded = fold(text) if folded is None else folded
    hints = list(find_hints(folded))
    found = [*_find_tokens(text, folded), *_find_in_urls(text, folded), *_find_carried(text, folded)]
    found += _find_assigned(text, folded, hints)
    if any(folded.startswith(_BEFORE_KEY, max(0, at - len(_BEFORE_KEY))) for at, _ in hints):
        found += _find_keys(text, folded)
    return _in_order(found) if found else found


def mask_secrets(text: str, secrets: Iterable[Secret]) -> str:
    """`text` with what each secret is in its place; examples stay. Lines stay lines: a key's are masked one by one."""
    pieces, at = [], 0
    for secret in secrets:
        if secret.is_example:
            continue
        pieces += [text[at : secret.start], mask_lines(text[secret.start : secret.end].split("\n"), secret.what)]
        at = secret.end
    return "".join([*pieces, text[at:]])


def mask_lines(lines: Sequence[str], what: str) -> str:
    """What is shown in place of a secret's lines: the first names it."""
    return "\n".join([mask(what), *(MASKED_LINE if line.strip() else line for line in lines[1:])])


def mask(what: str) -> str:
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
        if text[at : at + 2] in STARTS or (folded[at - 1] in _LASTS and text.endswith(BEFORE, max(0, at - LONGEST_BEFORE), at)):
            # In text within text a line end is `\n`, whose letter is none of the token's.
            token = TOKEN.match(text, at + 1 if text[at - 1 : at] == "\\" else at)
            if token and (secret := _read_token(token)):
                found.append(secret)
                end = secret.end  # what follows at once may be another
        at = runs.find(_RUN, end) if end > at else -1
    return found


def _read_token(found: re.Match[str]) -> Secret | None:
    token = found[0]
    is_example = bool(_EXAMPLE.search(token))
    if not is_example and (len(set(token[-RUN:])) < 7 or "xxxx" in token.lower()):
        return None  # `ghp_xxxx…`, and sixteen zeros: a form to be filled in
    return Secret(start=found.start(), end=found.end(), what=FORMS[(found.lastindex or 1) - 1].what, is_example=is_example)


def _find_keys(text: str, folded: bytes) -> Iterator[Secret]:
    done = 0
    for at in find_all(folded, b"-----begin "):
        begin = _KEY_BEGIN.match(text, at) if at >= done else None
        if begin:
            done = end = _find_key_end(text, begin.end())
            if _KEY_TEXT.search(text, begin.end(), end):
                yield Secret(start=at, end=end, what=PRIVATE_KEY)


def _find_key_end(text: str, at: int) -> int:
    """The end of a key that began before `at`: of its last line, or of as many lines as look like a key's."""
    line_end = _find_line_end(text, at)
    for _ in range(MOST_KEY_LINES):
        closing = text.find(_KEY_END, at, line_end)
        if closing >= 0:
            dashes = text.find("-----", closing + len(_KEY_END), line_end)
            return line_end if dashes < 0 else dashes + 5
        next_end = _find_line_end(text, line_end + 1)
        is_key = _KEY_LINE.fullmatch(text, line_end + 1, next_end) or text.find(_KEY_END, line_end, next_end) >= 0
        if line_end >= len(text) or not is_key:
            return line_end
        at, line_end = line_end + 1, next_end
    return line_end


def _find_line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _find_in_urls(text: str, folded: bytes) -> Iterator[Secret]:
    done = 0
    for at in find_all(folded, b"@"):
        if at < done or folded[at - 1 : at] in b" \n`/\"'(@":
            continue
        first = max(done, at - MOST_URL_CHARS)
        # Neither name nor password holds a blank, and looking back for one is quick.
        scheme = folded.rfind(b"://", max(first, folded.rfind(b" ", first, at)), at)
        found = _URL.match(text, scheme) if scheme >= 0 else None
        if found is None:
            continue
        done = found.end()
        if is_password(found):
            start, end = found.span("value")
            yield Secret(start=start, end=end, what="password in a URL", is_example=bool(_EXAMPLE.search(found["host"])))


def _find_carried(text: str, folded: bytes) -> Iterator[Secret]:
    for place in PLACES:
        for at, _ in place.hints.find(folded):
            found = place.pattern.match(text, at)
            if found and place.is_secret(found):
                start, end = found.span("value")
                yield Secret(start=start, end=end, what=place.what, is_example=bool(_EXAMPLE.search(found[0])))


def _find_assigned(text: str, folded: bytes, hints: Iterable[tuple[int, bytes]]) -> Iterator[Secret]:
    for at, hint in hints:
        if not is_named(folded, at, hint):
            continue
        found = ASSIGNED.match(text, at)
        if found is None and is_flag(folded, at):
            found = FLAGGED.match(text, at)
        if found and (value := find_value(found)):
            start = found.start("value")
            is_example = bool(_EXAMPLE.search(value))
            yield Secret(start=start, end=start + len(value), what=HINTS[hint], is_example=is_example)
