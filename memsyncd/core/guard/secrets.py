"""Find secrets in a text, and redact them.

Secrets are tokens of a known form, private keys, passwords in URLs, credentials in headers and
commands, and values that are assigned to the name of a secret. A pattern is tried only where a hint
occurs, and it looks no further than some thousand characters. So for any text the time is
proportional to its length. Only a private key has several lines: any whole lines of a note without
a private key have the same secrets as in the note.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

import msgspec
from msgspec.structs import replace


class Prefilter:
    """Words to look for in folded texts.

    Words that share a rare letter are found in one pass, which skips from one such letter to the
    next.
    """

    def __init__(self, *words: bytes, letter: bytes = b"") -> None:
        """`letter` occurs in each of the `words`. A rare letter makes the search faster; one word
        alone needs no letter.
        """
        self._words: Sequence[bytes] = words
        self._before = [word.rindex(letter) for word in words]
        self._pattern: re.Pattern[bytes] | None = None
        if letter:
            ends = (
                rb"%b(?<=%b)()" % (word[at + 1 :], word)
                for word, at in zip(words, self._before, strict=True)
            )
            self._pattern = re.compile(letter + b"(?:" + b"|".join(ends) + b")")

    def find(self, folded: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield the offset of each word that occurs, and the word, in order."""
        if self._pattern is None:
            yield from ((at, self._words[0]) for at in find_all(folded, self._words[0]))
            return
        for match in self._pattern.finditer(folded):
            number = (match.lastindex or 1) - 1
            yield match.start() - self._before[number], self._words[number]


def fold_case(text: str) -> bytes:
    """The text in lower case, one byte for each character; a character beyond ASCII becomes `?`."""
    return text.encode("ascii", "replace").lower()


def find_all(folded: bytes, hint: bytes) -> Iterator[int]:
    """The offsets of `hint`, in order."""
    at = folded.find(hint)
    while at >= 0:
        yield at
        at = folded.find(hint, at + 1)


# --- Finding and redacting ------------------------------------------------------------------------

# Replaces each line of a secret after the first.
REDACTED_LINE = "[masked]"
PRIVATE_KEY = "private key"
URL_LIMIT_CHARS = 200
# The length of the shortest text with a secret: `pwd=` and the shortest password.
MIN_CHARS = 12
# The length of the shortest run of a token: an access key of AWS, the header of the shortest JWT.
MIN_RUN_CHARS = 20

_RUN = b"a" * MIN_RUN_CHARS
_CLASSES = bytes(
    97 if chr(code).isascii() and (chr(code).isalnum() or chr(code) in "_-") else 32
    for code in range(256)
)
_BEFORE_KEY = b"private "
_URL = re.compile(
    # A password may hold an `@` that is not escaped.
    r"://(?P<user>[^\s:/@\"'`<>]{0,64}):(?P<value>[^\s/@\"'`<>]{1,128}(?:@[^\s/@?#,\"'`<>]{1,64}){0,2})@"
    r"(?P<host>[A-Za-z0-9_.\[-]{1,80})"
)
_MAYBE = re.compile(rf"\d|@|[\w+/=-]{{{MIN_RUN_CHARS}}}")
_ESCAPED = re.compile(r"\\(?=_)")
# Secrets from documentation: Amazon's keys, names under `example.`, the token on jwt.io.
_EXAMPLE = re.compile(r"(?i)example|eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9l")


class Secret(msgspec.Struct, frozen=True, kw_only=True):
    """The range of a secret in characters, `end` exclusive.

    `what` names its sort for people. `is_example` is true if its own text marks it as an example.
    """

    start: int
    end: int
    what: str
    is_example: bool = False


def find_secrets(text: str, folded: bytes | None = None) -> list[Secret]:
    r"""The secrets in a text with `\n` for every line end, in order; no two overlap.

    `folded` is `fold_case(text)`, if the caller has computed it.
    """
    secrets = _find_all(text, fold_case(text) if folded is None else folded)
    if "\\_" in text:
        secrets = _find_escaped(text) + secrets
    return _in_order(secrets) if secrets else secrets


def redact(text: str) -> str:
    """The text with a label in place of each secret. A short text, such as most names, needs only a
    first check.
    """
    if len(text) < MIN_CHARS or not _MAYBE.search(text):
        return text
    return redact_secrets(text, find_secrets(text))


def _find_all(text: str, folded: bytes) -> list[Secret]:
    hints = list(find_keywords(folded))
    secrets = [
        *_find_tokens(text, folded),
        *_find_in_urls(text, folded),
        *_find_credentials(text, folded),
    ]
    secrets += _find_keyword_values(text, folded, hints)
    if any(folded.startswith(_BEFORE_KEY, max(0, at - len(_BEFORE_KEY))) for at, _ in hints):
        secrets += [
            Secret(start=start, end=end, what=PRIVATE_KEY)
            for start, end in _find_private_keys(text, folded)
        ]
    return secrets


def _find_escaped(text: str) -> list[Secret]:
    r"""The secrets with escapes of markdown in them: `ghp\_…` reads as `ghp_…`.

    Only lines with escapes are searched again.
    """
    parts: list[str] = []
    read_at: list[int] = []
    written_at: list[int] = []
    n_read, at = 0, text.find("\\_")
    while at >= 0:
        start, end = text.rfind("\n", 0, at) + 1, text.find("\n", at) + 1 or len(text)
        for stop in [*(escape.start() for escape in _ESCAPED.finditer(text, start, end)), end]:
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
    """The text with a label in place of each secret; examples stay.

    The number of lines stays the same, because a key is redacted line by line.
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
    """The text that replaces a secret's lines. Its first line names the sort of secret, `what`."""
    return "\n".join(
        [redaction_label(what), *(REDACTED_LINE if line.strip() else line for line in lines[1:])]
    )


def redaction_label(what: str) -> str:
    """The label that replaces a secret of this sort."""
    return f"[masked: {what}]"


def is_redacted(text: str) -> bool:
    """True if the text may contain a label in place of a secret."""
    return "[masked" in text


def _in_order(secrets: list[Secret]) -> list[Secret]:
    """Sort secrets by offset, and drop overlapping ones.

    If two overlap, the one that begins first stays. If both begin together, the first in `secrets`
    stays, which is more specific.
    """
    chosen: list[Secret] = []
    for secret in sorted(secrets, key=lambda secret: secret.start):
        if not chosen or secret.start >= chosen[-1].end:
            chosen.append(secret)
    return chosen


def _find_in_urls(text: str, folded: bytes) -> Iterator[Secret]:
    done = 0
    for at in find_all(folded, b"@"):
        if at < done or folded[at - 1 : at] in b" \n`/\"'(@":
            continue
        first = max(done, at - URL_LIMIT_CHARS)
        # Neither name nor password holds a blank, and searching backwards for one is fast.
        scheme = folded.rfind(b"://", max(first, folded.rfind(b" ", first, at)), at)
        url = _URL.match(text, scheme) if scheme >= 0 else None
        if url is None:
            continue
        done = url.end()
        if _is_url_password(url):
            start, end = url.span("value")
            yield Secret(
                start=start,
                end=end,
                what="password in a URL",
                is_example=bool(_EXAMPLE.search(url["host"])),
            )


def _find_credentials(text: str, folded: bytes) -> Iterator[Secret]:
    for credential in _CREDENTIAL_PATTERNS:
        for at, _ in credential.hints.find(folded):
            match = credential.pattern.match(text, at)
            if match and credential.is_secret(match):
                start, end = match.span("value")
                yield Secret(
                    start=start,
                    end=end,
                    what=credential.what,
                    is_example=bool(_EXAMPLE.search(match[0])),
                )


# --- Tokens with a form of their own --------------------------------------------------------------
# Issuers give their tokens a prefix, so that leaked tokens can be found. A token has a run of at
# least `MIN_RUN_CHARS` letters, digits, `_` and `-`. It begins with the run, or right after the
# look-behind of its pattern. The table has a form only if it belongs to one issuer and hardly any
# other text has it.

_JWT = r"eyJ[A-Za-z0-9_-]{10,4000}\.eyJ[A-Za-z0-9_-]{10,8000}\.[A-Za-z0-9_-]{20,2000}"

# Amazon's secret keys have no form of their own, but an access key before them.
_AWS_VALUE = (
    r"(?=[A-Z0-9/+]{0,39}[a-z])(?=[a-z0-9/+]{0,39}[A-Z])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])"
)
AWS_ACCESS_KEY, AWS_SECRET_KEY = "AWS access key", "AWS secret key"
# A blank, a sign or a word between an access key and its secret, or nothing.
AWS_PAIRED = re.compile(
    rf"(?:[ \t:,;/|=\"'`*()<>&-]|\\[nt]|(?i:and|secret|key)){{0,12}}(?P<value>{_AWS_VALUE})"
)
_TWILIO_BETWEEN = r"[ \t]?[:,;/|]?[ \t]?"

# Pairs of a sort of secret and its pattern.
TOKEN_PATTERNS = (
    (AWS_ACCESS_KEY, rf"(?:AKIA|ASIA)[A-Z2-7]{{16}}(?:(?![\w-])|(?={_AWS_VALUE}))"),
    # The first half names an account or a key. It is no secret alone.
    ("Twilio token", rf"AC[0-9a-f]{{32}}{_TWILIO_BETWEEN}[0-9a-f]{{32}}(?![\w-])"),
    ("Twilio token", rf"SK[0-9a-f]{{32}}{_TWILIO_BETWEEN}[A-Za-z0-9]{{32}}(?![\w-])"),
    ("GitHub token", r"gh[pousr]_[A-Za-z0-9]{36,255}"),
    ("GitHub token", r"github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}"),
    ("GitLab token", r"gl(?:pat|oas|dt|rt|cbt|ptt|ft|imt|agent|soat)-[\w-]{20,300}"),
    ("Slack token", r"xox[a-z]-(?=[A-Za-z0-9-]{0,40}\d{5})[A-Za-z0-9-]{16,250}"),
    ("Slack token", r"xapp-\d-[A-Z0-9]{8,20}-\d{8,20}-[a-z0-9]{32,80}"),
    ("Stripe key", r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,247}"),
    ("Stripe key", r"whsec_[A-Za-z0-9]{24,64}"),  # signs webhooks
    ("Anthropic key", r"sk-ant-[a-z]{2,12}\d{2}-[\w-]{32,300}"),
    ("OpenAI key", r"sk-[\w-]{0,200}?T3BlbkFJ[\w-]{16,200}"),  # `OpenAI` in base64
    ("OpenAI key", r"sk-(?:proj|svcacct|admin)-[\w-]{40,300}"),
    ("API key", r"sk-(?:or-v1-)?[A-Za-z0-9]{32,64}(?![\w-])"),  # used by others than OpenAI, too
    ("Google API key", r"AIza[\w-]{35}(?![\w-])"),
    ("Google OAuth secret", r"GOCSPX-[\w-]{28}(?![\w-])"),
    ("Google OAuth token", r"(?<=ya29\.)[\w-]{30,500}"),
    ("Groq key", r"gsk_[A-Za-z0-9]{52}(?![\w-])"),
    ("xAI key", r"xai-[A-Za-z0-9]{80}(?![\w-])"),
    ("Perplexity key", r"pplx-[A-Za-z0-9]{48}(?![\w-])"),
    ("Replicate token", r"r8_[A-Za-z0-9]{37}(?![\w-])"),
    ("LangSmith key", r"lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}(?![\w-])"),
    ("Linear key", r"lin_(?:api|oauth)_[A-Za-z0-9]{40}(?:[A-Za-z0-9]{24})?(?![\w-])"),
    ("Figma token", r"fig[dour]_[\w-]{40,60}(?![\w-])"),
    ("Atlassian token", r"ATATT3x[\w-]{150,250}"),
    ("Grafana token", r"glsa_[A-Za-z0-9]{32}_[0-9a-f]{8}(?![\w-])"),
    ("Databricks token", r"dapi[0-9a-f]{32}(?![\w])"),
    ("Supabase token", r"sbp_[0-9a-f]{40}(?![\w-])"),
    (
        "Tailscale key",
        r"tskey-(?:auth|api|client|scim|webhook)-[A-Za-z0-9]{8,24}-[A-Za-z0-9]{16,48}",
    ),
    ("RubyGems key", r"rubygems_[0-9a-f]{48}(?![\w-])"),
    ("Postman key", r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}(?![\w-])"),
    ("npm token", r"npm_[A-Za-z0-9]{36}(?![\w-])"),
    ("PyPI token", r"pypi-AgE[\w-]{50,500}"),  # a macaroon
    ("Hugging Face token", r"hf_[A-Za-z0-9]{34}(?![\w-])"),
    ("SendGrid key", r"(?<=SG\.)[\w-]{22}\.[\w-]{43}(?![\w-])"),
    ("Telegram token", r"(?<=\d:)AA[\w-]{33}(?![\w-])"),  # behind a bot's number
    ("DigitalOcean token", r"do[opr]_v1_[0-9a-f]{64}(?![\w-])"),
    ("Docker token", r"dckr_(?:pat|oat)_[\w-]{20,64}"),
    ("Shopify token", r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}(?![\w-])"),
    ("Vault token", r"(?<=hv[sb]\.)[\w-]{24,300}"),
    ("age key", r"AGE-SECRET-KEY-1[02-9AC-HJ-NP-Z]{58}(?![\w-])"),
    ("JSON web token", _JWT),
)


@cache
def token_pattern() -> re.Pattern[str]:
    """`TOKEN_PATTERNS` as one pattern with a group for each: `f0` is the first. Compiling it takes
    10 ms.
    """
    forms = (f"(?P<f{number}>{pattern})" for number, (_, pattern) in enumerate(TOKEN_PATTERNS))
    return re.compile("|".join(forms), re.ASCII)


# The first two characters of these runs. A run after one of `TOKEN_LOOKBEHINDS`, such as a
# backslash, may begin otherwise.
TOKEN_STARTS = frozenset(
    "AK AS AC SK gh gi gl xo xa sk rk wh AI GO AA gs pp r8 ls li fi AT da sb ts ru PM np py hf do"
    " dc sh AG ey".split()
)
TOKEN_LOOKBEHINDS = ("ya29.", "SG.", "hvs.", "hvb.", "\\")
LONGEST_LOOKBEHIND = max(map(len, TOKEN_LOOKBEHINDS))
_LASTS = frozenset(ord(before[-1]) for before in TOKEN_LOOKBEHINDS)


def _find_tokens(text: str, folded: bytes) -> list[Secret]:
    secrets: list[Secret] = []
    runs = folded.translate(_CLASSES)
    at = runs.find(_RUN)
    while at >= 0:
        end = runs.find(b" ", at)
        token = None
        if text[at : at + 2] in TOKEN_STARTS or (
            folded[at - 1] in _LASTS
            and text.endswith(TOKEN_LOOKBEHINDS, max(0, at - LONGEST_LOOKBEHIND), at)
        ):
            # An escaped text has `\n` as a line end; its letter does not belong to the token.
            token = token_pattern().match(text, at + 1 if text[at - 1 : at] == "\\" else at)
        if token is None and text[at] == "_":
            token = _match_emphasised(text, at, end if end >= 0 else len(text))
        if token and (secret := _read_token(token)):
            secrets.append(secret)
            end = secret.end  # another token may follow directly
        if token and (paired := _read_paired(token)):
            secrets.append(paired)
            end = paired.end
        at = runs.find(_RUN, end) if end > at else -1
    return secrets


def _match_emphasised(text: str, start: int, end: int) -> re.Match[str] | None:
    """Match a token between the `_` that markdown takes for emphasis."""
    within = text[start:end].strip("_")
    first = text.index(within, start)
    return (
        token_pattern().match(text, first, first + len(within))
        if within[:2] in TOKEN_STARTS
        else None
    )


def _read_token(match: re.Match[str]) -> Secret | None:
    token = match[0]
    is_example = bool(_EXAMPLE.search(token))
    if not is_example and (len(set(token[-MIN_RUN_CHARS:])) < 7 or "xxxx" in token.lower()):
        return None  # `ghp_xxxx…` and sixteen zeros are placeholders
    return Secret(
        start=match.start(),
        end=match.end(),
        what=TOKEN_PATTERNS[(match.lastindex or 1) - 1][0],
        is_example=is_example,
    )


def _read_paired(match: re.Match[str]) -> Secret | None:
    """Return the secret key of Amazon that follows an access key, even an example's."""
    if TOKEN_PATTERNS[(match.lastindex or 1) - 1][0] != AWS_ACCESS_KEY:
        return None
    paired = AWS_PAIRED.match(match.string, match.end())
    if paired is None:
        return None
    start, end = paired.span("value")
    is_example = bool(_EXAMPLE.search(paired["value"]))
    return Secret(start=start, end=end, what=AWS_SECRET_KEY, is_example=is_example)


# --- Keyword values: secrets with a name, as in `password = …`, `api_key: …` ----------------------
# A name alone proves nothing: in notes about programs most values after `token:` are types,
# variables or words. A value counts if it mixes letters and digits as no word does.

# Parts of names, in lower case, and the sort of their value. `key` counts only after a word of
# `_OF_KEY`.
KEYWORDS = {
    b"pass": "password",
    b"pwd": "password",
    b"secret": "secret",
    b"token": "token",
    b"key": "API key",
}

_MIN_PASSWORD_CHARS, _MIN_SECRET_CHARS = 8, 16
# Entropy for each character: 2.75 means seven different characters of eight. English words have as
# much, but they have no digits.
_MIN_PASSWORD_BITS, _MIN_SECRET_BITS = 2.75, 3.0
# A tenth of random values of 24 letters and digits have digits in one place only.
_MIN_JUMBLED_CHARS, _MIN_JUMBLED_BITS = 24, 3.5
_SMALL_LETTERS = re.compile(r"[a-z]{4,}")
_BOTH_CASES = re.compile(r"(?=.*[a-z]).*[A-Z]")

_NAME = (
    r"(?i:(?P<pass>pass(?:wor[dt]|wd|phrase|code)?|pwd)|secret|token|key)"
    r"(?P<suffix>s?(?:[A-Z0-9_-][A-Za-z0-9_-]{0,24})?)"
    r"[\"'`*_\])]{0,4}"
)
_FOR = r"(?:[ \t](?:for|of|to|on)(?:[ \t][\w.'-]{1,24}){1,4}?)?"
_ASSIGNED_VALUE = (
    r"(?:[\"'`*_]{1,4}[ \t]{0,2}){0,2}(?i:bearer[ \t])?(?P<value>[^\s\"'`<>|,;\\]{8,200})"
)

ASSIGNMENT = re.compile(
    rf"{_NAME}{_FOR}(?:[ \t]{{0,8}}(?::=|=>|[:=|])[ \t]{{0,8}}"
    rf"|(?P<verb>[ \t]{{1,4}}is:?[ \t]{{1,4}})){_ASSIGNED_VALUE}"
)
# A command's option, followed by its value: `--password …`.
OPTION = re.compile(rf"{_NAME}[ \t]{{1,4}}{_ASSIGNED_VALUE}")

_OF_KEY = (
    b"api",
    b"access",
    b"account",
    b"auth",
    b"private",
    b"signing",
    b"encryption",
    b"license",
    b"deploy",
    b"webhook",
)
# After one of these words a `token` is a position in a sequence.
_OF_PLACE = (
    b"page",
    b"pagination",
    b"next",
    b"continuation",
    b"cursor",
    b"sync",
    b"resume",
    b"cancellation",
    b"design",
)
_NO_PASS = (b"by", b"com", b"tres", b"over", b"under", b"sur", b"im")
_FLAG = re.compile(rb"--[a-z]{0,12}-?\Z")
_NO_SECRET_SUFFIX = re.compile(
    r"(?i)hash|digest|sha\d|_?(?:id|name|file|path|url|uri|type|limit|count|expir\w*"
    r"|length|size|ref|version|at|date|algo\w*)s?\b"
)
_PASS_SUFFIX = re.compile(r"[_-]?\d*")
_CODE = re.compile(
    r"[(){}\[\]]|^[$%@/~.&#!-]|::|\.\.|->|://|\$[A-Z_]{3,}$"
    r"|^(?:arn|enc|env|file|op|sops|ssm|vault):"
)
_NEXT_PARAMETER = re.compile(r"&[A-Za-z_][\w.-]{0,40}=")
_WORDS = re.compile(
    # An abbreviation before a word, as in `E2E-krypteringspassord`.
    r"(?:[A-Z]\d[A-Z]?-(?=[a-z]{8}))?"
    r"[A-Za-z]+(?:[._/:=-]+(?:[A-Za-z]+|\d{1,2}(?![0-9A-Za-z])))*[._/-]?\d{0,4}[.!?]?"
)
# The most common form of a password that people choose.
_WORD_AND_YEAR = re.compile(r"(?=.*[a-z])(?=.*[A-Z])[A-Za-z]{4,20}\d{2,4}[.!?]?")
# In a sentence a value must be more than a word with digits.
_STATED_VALUE = re.compile(r"(?=.*[a-z])(?=.*[A-Z])[A-Za-z0-9!@#$%^*+]+|[0-9a-f]{24,}")
_DATE_START = re.compile(r"\d{1,4}[-./:]\d")
_UUID = re.compile(r"(?i)[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
# The beginnings of fingerprints and public keys.
_PUBLIC_KEY = re.compile(r"(?i)(?:sha256|md5):|ssh-|age1")
# A value that holds one of these as a separate word is a placeholder.
_PLACEHOLDER = re.compile(
    r"(?i)x{4}|(?<![a-z0-9])(?:xxx|passw0rd)(?![a-z0-9])|\*\*"
    r"|(?<![a-z])change[-_ ]?(?:me|it|this)(?![a-z])"
    r"|(?<![a-z0-9])(?:argon2(?:id|i|d)?|bcrypt|scrypt|pbkdf2|sha\d+|base64|oauth2)(?![a-z])"
)
_PLACEHOLDER_WORDS = frozenset({"your", "placeholder", "redacted", "masked"})
# A value is also a placeholder if it consists of these words and of `_FILLERS`. Other values may
# hold one of them: `contestWinner88` has its letters by chance, `Test-Drive-77` has the word.
_MARKERS = (
    "abc(?:d(?:ef)?)?|asdf|bar|changed?|dummy|examples?|fake|foo|insert|keys?|pass(?:phrase|code)?"
    "|passw(?:or[dt]|d)|placeholder|pwd?|qwerty|replaced?|samples?|secrets?|tests?|testing|tokens?"
)
_FILLERS = (
    "a|access|account|admin|an|api|app|auth|aws|azure|bearer|bot|by|client|credentials?|db|default"
    "|demo|dev|enter|for|from|git|github|gitlab|goes|google|here|id|in|is|it|jwt|local|long|me|my"
    "|mysql|name|new|not|now|of|old|on|openai|or|pat|please|postgres|prod|production|project|put|random"
    "|redis|refresh|root|service|session|set|slack|some|staging|string|strong|stripe|super|text|the"
    "|this|to|use|users?|value|very|with|your"
)
_MARKER = re.compile(_MARKERS)
# The bound keeps the time linear, because a word may be split in several ways.
_VOCABULARY = re.compile(rf"(?:{_MARKERS}|{_FILLERS}){{1,6}}")
_LETTERS = re.compile(r"[a-z]+")
# A capital begins a new word: `YOUR_API_KEY`, `yourPassword`.
_CASED_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
# A beginning of these digits, such as `1234` or `123456`, is a placeholder.
_COUNTED = "1234567890"


_FINDERS = (
    Prefilter(b"pass", b"pwd", letter=b"p"),
    Prefilter(b"secret"),
    Prefilter(b"key", b"token", letter=b"k"),
)


def _find_keyword_values(
    text: str, folded: bytes, hints: Iterable[tuple[int, bytes]]
) -> Iterator[Secret]:
    for at, hint in hints:
        if not names_secret(folded, at, hint):
            continue
        match = ASSIGNMENT.match(text, at)
        if match is None and is_option(folded, at):
            match = OPTION.match(text, at)
        if match and (value := secret_value(match)):
            start = match.start("value")
            is_example = bool(_EXAMPLE.search(value))
            yield Secret(
                start=start, end=start + len(value), what=KEYWORDS[hint], is_example=is_example
            )


def find_keywords(folded: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the offsets of the `KEYWORDS` in a folded text, and the keywords. The offsets are in
    order for each of `_FINDERS`.
    """
    for hints in _FINDERS:
        yield from hints.find(folded)


def names_secret(folded: bytes, at: int, hint: bytes) -> bool:
    """True if the keyword `hint` at `at` names a secret, judged by the text before it."""
    if hint == b"key":
        before = folded[max(0, at - 24) : at].rstrip(b"-_ ")
        return before.endswith(_OF_KEY) and b"public" not in before
    if hint == b"token":
        return not folded[max(0, at - 16) : at].rstrip(b"-_ ").endswith(_OF_PLACE)
    return hint != b"pass" or not folded[max(0, at - 5) : at].endswith(_NO_PASS)


def is_option(folded: bytes, at: int) -> bool:
    """True if the keyword at `at` belongs to a command's option, such as `--password` or
    `--db-password`.
    """
    return b"--" in folded[max(0, at - 15) : at] and bool(_FLAG.search(folded, max(0, at - 15), at))


def secret_value(match: re.Match[str]) -> str:
    """The value of a match of `ASSIGNMENT` or `OPTION` if it looks like a secret, else an empty
    text.
    """
    suffix, name = match["suffix"], match["pass"] or ""
    value = _cut_end(match["value"])
    # In `PGPASSWORD=exchange-77-Lk` the value is a literal, even if it consists of words.
    is_variable = name.isupper() and match.string[match.end("suffix")] == "="
    if (
        _NO_SECRET_SUFFIX.search(suffix)
        or (name.lower() == "pass" and not _PASS_SUFFIX.fullmatch(suffix))
        or _is_harmless(value, name, may_be_words=is_variable)
    ):
        return ""
    if (
        match.re is ASSIGNMENT
        and match["verb"]
        and (_WORDS.fullmatch(value) or not _STATED_VALUE.fullmatch(value))
    ):
        return ""
    if name:
        is_secret = len(value) >= _MIN_PASSWORD_CHARS and _entropy_bits(value) >= _MIN_PASSWORD_BITS
    else:
        is_secret = (
            len(value) >= _MIN_SECRET_CHARS
            and _entropy_bits(value) >= _MIN_SECRET_BITS
            and _is_mixed(value)
        )
    return value if is_secret else ""


def is_placeholder(value: str) -> bool:
    """True for words in the place of a secret, such as `your-password`, `$PASSWORD`, `test1234`.

    Such a word within another word does not count: `contestWinner88` is a password.
    """
    if _PLACEHOLDER.search(value) or _CODE.search(value) or _COUNTED.startswith(value):
        return True
    if any(word.lower() in _PLACEHOLDER_WORDS for word in _CASED_WORD.findall(value)):
        return True
    words = _LETTERS.findall(value.lower())
    return any(map(_MARKER.search, words)) and all(map(_VOCABULARY.fullmatch, words))


def _entropy_bits(text: str) -> float:
    """The entropy for each character, in bits, from how often each character occurs."""
    counts = Counter(text)
    return -sum(n / len(text) * math.log2(n / len(text)) for n in counts.values())


def is_token_like(value: str) -> bool:
    """True if the value is as long and as mixed as a token, and consists neither of words nor of
    code nor of a placeholder.
    """
    return (
        not _is_harmless(value, "")
        and _entropy_bits(value) >= _MIN_SECRET_BITS
        and _is_mixed(value)
    )


def _cut_end(value: str) -> str:
    """The value without what follows it: the end of a sentence, a closing bracket, or the next
    parameter of a URL.
    """
    if "&" in value and (following := _NEXT_PARAMETER.search(value)):
        value = value[: following.start()]
    for opening, closing in ("()", "[]", "{}"):
        if closing in value and opening not in value:
            value = value[: value.index(closing)]
    return value.rstrip(".,:)*_")


def _is_harmless(value: str, name: str, *, may_be_words: bool = False) -> bool:
    """True for code, dates and numbers, which are no secrets under any name. True also for words,
    except with `may_be_words`: then the value may consist of words and digits.
    """
    has_both = any(char.isdigit() for char in value) and any(char.isalpha() for char in value)
    if not has_both or not value.isascii() or is_placeholder(value):
        return True
    if _DATE_START.match(value) or _UUID.fullmatch(value) or _PUBLIC_KEY.match(value):
        return True
    return (
        not may_be_words
        and bool(_WORDS.fullmatch(value))
        and not (len(name) > len("pass") and _WORD_AND_YEAR.fullmatch(value))
    )


def _is_mixed(value: str) -> bool:
    """True if digits occur among the letters, in more than one place; in a long value also in one
    place, if large and small letters alternate as in no word.
    """
    if len(re.findall(r"\d+", value)) >= 2:
        return max(map(len, re.split(r"[._/:-]", value))) >= 12
    n_in_words = sum(map(len, _SMALL_LETTERS.findall(value)))
    return (
        len(value) >= _MIN_JUMBLED_CHARS
        and _entropy_bits(value) >= _MIN_JUMBLED_BITS
        and bool(_BOTH_CASES.match(value))
        and n_in_words <= len(value) / 4
    )


# --- Credentials in URLs, headers and commands ----------------------------------------------------

_MIN_URL_PASSWORD_CHARS = 6
_COMMON_PASSWORDS = frozenset(
    "password passwd passwort secret pass1234 hunter2 admin123 mypassword opensesame".split()
)
_USER = r"[^\s:/@\"'`<>]{0,64}"


class _CredentialPattern(NamedTuple):
    """`pattern` is matched at a hint, and its group `value` is the secret. `is_secret` checks the
    match.
    """

    what: str
    hints: Prefilter
    pattern: re.Pattern[str]
    is_secret: Callable[[re.Match[str]], bool]


def _is_url_password(match: re.Match[str]) -> bool:
    """True if the value is not a placeholder and differs from the `user`."""
    return _is_real_password(match["user"], match["value"])


def _is_real_password(user: str, password: str) -> bool:
    is_usual = (
        re.sub(r"\W", "", password.lower()) in _COMMON_PASSWORDS
        or password == user
        or is_placeholder(password)
    )
    return not is_usual and len(password) >= _MIN_URL_PASSWORD_CHARS


def _is_command_password(match: re.Match[str]) -> bool:
    """True unless the value has no digit, or is a list of ports or a placeholder."""
    value = match["value"]
    is_plain = not any(char.isdigit() for char in value) or _PORTS.fullmatch(value)
    return not is_plain and _is_real_password("", value)


def _is_credential(match: re.Match[str]) -> bool:
    if match["scheme"].lower() != "basic":
        return is_token_like(match["value"])
    try:
        user, colon, password = (
            base64.b64decode(match["value"], validate=True).decode("ascii").partition(":")
        )
    except (binascii.Error, UnicodeDecodeError):
        return False
    return bool(colon) and password.isprintable() and _is_real_password(user, password)


_SCHEME = r"(?P<scheme>bearer|token|apikey|basic)[ \t]{1,4}"
_SLACK = r"(?<=//)hooks\.slack\.com/services/(?=T\w{6,14}/B\w{6,14}/\w{20,60})"
_DISCORD = r"(?<=/api/web)hooks/(?=\d{15,22}/[\w-]{60,80})"

# The password follows the option directly; `sshpass` also takes a blank between them.
_ATTACHED = re.compile(
    r"(?:mysql(?:dump|admin|import|sh)?|mariadb(?:-[a-z]{1,12})?|sshpass)(?:[ \t][^\n|;&]{0,120}?)?"
    r"[ \t]-p(?:(?<=sshpass[ \t]-p)[ \t]{1,4})?[\"']?(?P<value>[^\s\"'`<>]{6,128})"
)
# The password follows a blank: `docker login … -p …`, `redis-cli … -a …`.
_SEPARATE = re.compile(
    r"(?:(?:docker|podman) login|redis-cli)(?:[ \t][^\n|;&]{0,120}?)?[ \t]"
    r"-[ap][ \t]{1,4}[\"']?(?P<value>[^\s\"'`<>]{6,128})"
)
# For a container, ports follow `-p`.
_PORTS = re.compile(r"[\d:./]+(?:tcp|udp)?")

_CREDENTIAL_PATTERNS = (
    _CredentialPattern(
        "credentials in a header",
        Prefilter(b"authorization", letter=b"z"),
        re.compile(
            rf"(?i)authorization[\"'`*\]]{{0,4}}[ \t]{{0,4}}[:=][ \t]{{0,4}}[\"'`]{{0,2}}{_SCHEME}"
            r"(?P<value>[\w.~+/=-]{8,2000})",
            re.ASCII,
        ),
        _is_credential,
    ),
    _CredentialPattern(
        "password in a command",
        Prefilter(b"curl ", letter=b"u"),
        re.compile(
            rf"(?i)curl [^\n]{{0,120}}?(?<=[ \t])(?:-u|--user)[ =]?[\"']?(?P<user>{_USER}):"
            rf"(?P<value>[^\s\"'`<>]{{1,128}})"
        ),
        _is_url_password,
    ),
    *(
        _CredentialPattern(
            "password in a command", Prefilter(command), _ATTACHED, _is_command_password
        )
        for command in (b"mysql", b"mariadb", b"sshpass")
    ),
    *(
        _CredentialPattern(
            "password in a command", Prefilter(command), _SEPARATE, _is_command_password
        )
        for command in (b"docker login", b"podman login", b"redis-cli")
    ),
    _CredentialPattern(
        "webhook",
        Prefilter(b"hooks", letter=b"k"),
        re.compile(rf"(?i)(?:{_SLACK}|{_DISCORD})(?P<value>[\w/-]+)", re.ASCII),
        lambda match: is_token_like(match["value"].rpartition("/")[2]),
    ),
)


# --- Private keys ---------------------------------------------------------------------------------

_KEY_LIMIT_LINES = 400
_KEY_LIMIT_CHARS = 32_768
# The length of one run of base64. A shorter run only shows where a key would begin.
_MIN_KEY_CHARS = 32

_KEY_NAME = r"(?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
_KEY_BEGIN = re.compile(rf"-----BEGIN {_KEY_NAME}")
_KEY_END = re.compile(rf"-----END {_KEY_NAME}")
_KEY_TEXT = re.compile(rf"[A-Za-z0-9+/=]{{{_MIN_KEY_CHARS}}}")
_KEY_LINE = re.compile(r"[ \t>]{0,40}(?:[A-Za-z0-9+/=]{0,80}|[A-Za-z-]{1,20}: .{0,80})[ \t]{0,40}")


def _find_private_keys(text: str, folded: bytes) -> Iterator[tuple[int, int]]:
    """Yield start and end of each private key, in characters. `folded` is the folded text.

    A key runs from its first line to its last, whatever precedes each line. A key without a last
    line extends over all following lines that look like lines of a key.
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
    """The end of the last line that looks like a line of the key. The key began before `at`."""
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
