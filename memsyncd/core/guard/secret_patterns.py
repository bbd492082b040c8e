"""Define what secrets look like: tokens with a form of their own, and values whose name says it.

The issuers of tokens gave them a prefix, so that leaked ones can be found. Each holds a run of
letters, digits, `_` and `-` of at least `MIN_RUN_CHARS`, and begins with the run or right after its
look-behind. The table holds a form if it belongs to one issuer and hardly anything else has it.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache

from memsyncd.core.guard.prefilter import Hints

# The shortest run of all: an access key of AWS, the header of the shortest JWT.
MIN_RUN_CHARS = 20

_JWT = r"eyJ[A-Za-z0-9_-]{10,4000}\.eyJ[A-Za-z0-9_-]{10,8000}\.[A-Za-z0-9_-]{20,2000}"

# Each with the sort of secret that it is.
TOKEN_PATTERNS = (
    ("AWS access key", r"(?:AKIA|ASIA)[A-Z2-7]{16}(?![\w-])"),
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
    """All of `TOKEN_PATTERNS` as one, whose group `f0` is the first. Compiling it takes 10 ms."""
    forms = (f"(?P<f{number}>{pattern})" for number, (_, pattern) in enumerate(TOKEN_PATTERNS))
    return re.compile("|".join(forms), re.ASCII)


# The beginnings of these runs, except for those that follow one of `TOKEN_LOOKBEHINDS`, such as
# letters after a backslash.
TOKEN_STARTS = frozenset(
    "AK AS gh gi gl xo xa sk rk wh AI GO AA gs pp r8 ls li fi AT da sb ts ru PM np py hf do dc sh"
    " AG ey".split()
)
TOKEN_LOOKBEHINDS = ("ya29.", "SG.", "hvs.", "hvb.", "\\")
LONGEST_LOOKBEHIND = max(map(len, TOKEN_LOOKBEHINDS))


# --- Keyword values: secrets by their name, as in `password = …`, `api_key: …` --------------------
# A name alone proves nothing: most values after `token:` in notes about programs are types,
# variables or words. A value counts if it mixes letters and digits as no word does.

# Parts of names, in lower case, and the sort of their value. A key is a secret only after a word of
# `_OF_KEY`.
KEYWORDS = {
    b"pass": "password",
    b"pwd": "password",
    b"secret": "secret",
    b"token": "token",
    b"key": "API key",
}

_MIN_PASSWORD_CHARS, _MIN_SECRET_CHARS = 8, 16
# Entropy a character: 2.75 is seven different characters of eight. English words have as much, but
# no digits among them.
_MIN_PASSWORD_BITS, _MIN_SECRET_BITS = 2.75, 3.0

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
# Words before `token` that make it a position in a sequence.
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
_CODE = re.compile(r"[(){}\[\]]|^[$%@/~.&#!-]|::|\.\.|->|://|\$[A-Z_]{3,}$")
_NEXT_PARAMETER = re.compile(r"&[A-Za-z_][\w.-]{0,40}=")
_WORDS = re.compile(
    # an abbreviation before a word, as in `E2E-krypteringspassord`
    r"(?:[A-Z]\d[A-Z]?-(?=[a-z]{8}))?"
    r"[A-Za-z]+(?:[._/:=-]+(?:[A-Za-z]+|\d{1,2}(?![0-9A-Za-z])))*[._/-]?\d{0,4}[.!?]?"
)
# The most common form of passwords that people choose.
_WORD_AND_YEAR = re.compile(r"(?=.*[a-z])(?=.*[A-Z])[A-Za-z]{4,20}\d{2,4}[.!?]?")
# In a sentence a value must be more than a word with digits.
_STATED_VALUE = re.compile(r"(?=.*[a-z])(?=.*[A-Z])[A-Za-z0-9!@#$%^*+]+|[0-9a-f]{24,}")
_DATE_START = re.compile(r"\d{1,4}[-./:]\d")
_UUID = re.compile(r"(?i)[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
# The beginnings of fingerprints and public keys.
_PUBLIC_KEY = re.compile(r"(?i)(?:sha256|md5):|ssh-|age1")
_PLACEHOLDER = re.compile(
    r"(?i)your|xxx|placeholder|change|redacted|masked|dummy|fake|sample|foo|test|insert|replace"
    r"|secret|passw|token|1234|abcd|asdf|\*\*"
    r"|argon2|bcrypt|scrypt|pbkdf2|sha\d|base64|oauth2"
)


_FINDERS = (
    Hints(b"pass", b"pwd", letter=b"p"),
    Hints(b"secret"),
    Hints(b"key", b"token", letter=b"k"),
)


def find_keywords(folded: bytes) -> Iterator[tuple[int, bytes]]:
    """The offsets of the `KEYWORDS` in a folded text; those that are searched for together are in
    order.
    """
    for hints in _FINDERS:
        yield from hints.find(folded)


def names_secret(folded: bytes, at: int, hint: bytes) -> bool:
    """True if the text before makes the keyword at `at` a name of a secret."""
    if hint == b"key":
        before = folded[max(0, at - 24) : at].rstrip(b"-_ ")
        return before.endswith(_OF_KEY) and b"public" not in before
    if hint == b"token":
        return not folded[max(0, at - 16) : at].rstrip(b"-_ ").endswith(_OF_PLACE)
    return hint != b"pass" or not folded[max(0, at - 5) : at].endswith(_NO_PASS)


def is_option(folded: bytes, at: int) -> bool:
    """True if a command's option begins just before `at`, with or without a first word, as in
    `--db-password`.
    """
    return b"--" in folded[max(0, at - 15) : at] and bool(_FLAG.search(folded, max(0, at - 15), at))


def secret_value(found: re.Match[str]) -> str:
    """The value that a match of `ASSIGNMENT` or `OPTION` assigns, if it looks like a secret, else
    an empty text.
    """
    suffix, name = found["suffix"], (found["pass"] or "").lower()
    value = _cut_end(found["value"])
    if (
        _NO_SECRET_SUFFIX.search(suffix)
        or (name == "pass" and not _PASS_SUFFIX.fullmatch(suffix))
        or _is_harmless(value, name)
    ):
        return ""
    if (
        found.re is ASSIGNMENT
        and found["verb"]
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
    """True for a word in the place of a secret, such as `your-password`, `$PASSWORD` or `xxxx`."""
    return bool(_PLACEHOLDER.search(value) or _CODE.search(value))


def _entropy_bits(text: str) -> float:
    """Bits a character, by how often each occurs."""
    counts = Counter(text)
    return -sum(n / len(text) * math.log2(n / len(text)) for n in counts.values())


def is_token_like(value: str) -> bool:
    """True if the value is as long and as mixed as a token, and neither words, code nor a
    placeholder.
    """
    return (
        not _is_harmless(value, "")
        and _entropy_bits(value) >= _MIN_SECRET_BITS
        and _is_mixed(value)
    )


def _cut_end(value: str) -> str:
    """The value without the end of the sentence, bracket or parameter around it."""
    if "&" in value and (following := _NEXT_PARAMETER.search(value)):
        value = value[: following.start()]
    for opening, closing in ("()", "[]", "{}"):
        if closing in value and opening not in value:
            value = value[: value.index(closing)]
    return value.rstrip(".,:)*_")


def _is_harmless(value: str, name: str) -> bool:
    """True for words, code, dates and numbers, which are no secrets under any name."""
    has_both = any(char.isdigit() for char in value) and any(char.isalpha() for char in value)
    if not has_both or not value.isascii() or is_placeholder(value):
        return True
    if _DATE_START.match(value) or _UUID.fullmatch(value) or _PUBLIC_KEY.match(value):
        return True
    return bool(_WORDS.fullmatch(value)) and not (
        len(name) > len("pass") and _WORD_AND_YEAR.fullmatch(value)
    )


def _is_mixed(value: str) -> bool:
    """True if digits occur among the letters, in more than one place."""
    n_places = len(re.findall(r"\d+", value))
    return (n_places >= 2 or "EXAMPLE" in value) and max(
        map(len, re.split(r"[._/:-]", value))
    ) >= 12
