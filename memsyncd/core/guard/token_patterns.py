"""Define the tokens that are known by their form: their issuers gave them a prefix, so that leaked
ones can be found.

Each holds a run of letters, digits, `_` and `-` of at least `MIN_RUN_CHARS`, and begins with the
run or right after its look-behind. The table holds a form if it belongs to one issuer and hardly
anything else has it.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

# The shortest run of all: an access key of AWS, the header of the shortest JWT.
MIN_RUN_CHARS = 20


class TokenPattern(NamedTuple):
    """The form of a token. `why` names the characteristic of the form."""

    what: str
    pattern: str
    why: str


_JWT = r"eyJ[A-Za-z0-9_-]{10,4000}\.eyJ[A-Za-z0-9_-]{10,8000}\.[A-Za-z0-9_-]{20,2000}"

TOKEN_PATTERNS = (
    TokenPattern(
        "AWS access key",
        r"(?:AKIA|ASIA)[A-Z2-7]{16}(?![\w-])",
        "four letters and 16 of base32, no more",
    ),
    TokenPattern(
        "GitHub token",
        r"gh[pousr]_[A-Za-z0-9]{36,255}",
        "a prefix for each sort, and a checksum at the end",
    ),
    TokenPattern(
        "GitHub token", r"github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}", "two parts of fixed length"
    ),
    TokenPattern(
        "GitLab token",
        r"gl(?:pat|oas|dt|rt|cbt|ptt|ft|imt|agent|soat)-[\w-]{20,300}",
        "a prefix for each sort",
    ),
    TokenPattern(
        "Slack token",
        r"xox[a-z]-(?=[A-Za-z0-9-]{0,40}\d{5})[A-Za-z0-9-]{16,250}",
        "the numbers of team and user follow",
    ),
    TokenPattern(
        "Slack token",
        r"xapp-\d-[A-Z0-9]{8,20}-\d{8,20}-[a-z0-9]{32,80}",
        "numbers of app and token",
    ),
    TokenPattern(
        "Stripe key",
        r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,247}",
        "a prefix with the mode of the account",
    ),
    TokenPattern("Stripe key", r"whsec_[A-Za-z0-9]{24,64}", "a prefix; the key signs webhooks"),
    TokenPattern(
        "Anthropic key",
        r"sk-ant-[a-z]{2,12}\d{2}-[\w-]{32,300}",
        "a prefix with the sort and its version",
    ),
    TokenPattern(
        "OpenAI key", r"sk-[\w-]{0,200}?T3BlbkFJ[\w-]{16,200}", "`OpenAI` in base64 in the middle"
    ),
    TokenPattern(
        "OpenAI key", r"sk-(?:proj|svcacct|admin)-[\w-]{40,300}", "a prefix for each sort"
    ),
    TokenPattern(
        "API key",
        r"sk-(?:or-v1-)?[A-Za-z0-9]{32,64}(?![\w-])",
        "the prefix of OpenAI, used by others too",
    ),
    TokenPattern("Google API key", r"AIza[\w-]{35}(?![\w-])", "39 characters, no more"),
    TokenPattern("Google OAuth secret", r"GOCSPX-[\w-]{28}(?![\w-])", "35 characters, no more"),
    TokenPattern("Google OAuth token", r"(?<=ya29\.)[\w-]{30,500}", "what follows `ya29.`"),
    TokenPattern("Groq key", r"gsk_[A-Za-z0-9]{52}(?![\w-])", "56 characters, no more"),
    TokenPattern("xAI key", r"xai-[A-Za-z0-9]{80}(?![\w-])", "84 characters, no more"),
    TokenPattern("Perplexity key", r"pplx-[A-Za-z0-9]{48}(?![\w-])", "53 characters, no more"),
    TokenPattern("Replicate token", r"r8_[A-Za-z0-9]{37}(?![\w-])", "40 characters, no more"),
    TokenPattern(
        "LangSmith key",
        r"lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}(?![\w-])",
        "a prefix for each sort, two parts of fixed length",
    ),
    TokenPattern(
        "Linear key",
        r"lin_(?:api|oauth)_[A-Za-z0-9]{40}(?:[A-Za-z0-9]{24})?(?![\w-])",
        "a prefix for each sort",
    ),
    TokenPattern("Figma token", r"fig[dour]_[\w-]{40,60}(?![\w-])", "a prefix for each sort"),
    TokenPattern(
        "Atlassian token", r"ATATT3x[\w-]{150,250}", "the first bytes are always the same"
    ),
    TokenPattern(
        "Grafana token",
        r"glsa_[A-Za-z0-9]{32}_[0-9a-f]{8}(?![\w-])",
        "two parts of fixed length, the last a checksum",
    ),
    TokenPattern(
        "Databricks token", r"dapi[0-9a-f]{32}(?![\w])", "32 of hexadecimal after a prefix"
    ),
    TokenPattern(
        "Supabase token", r"sbp_[0-9a-f]{40}(?![\w-])", "40 of hexadecimal after a prefix"
    ),
    TokenPattern(
        "Tailscale key",
        r"tskey-(?:auth|api|client|scim|webhook)-[A-Za-z0-9]{8,24}-[A-Za-z0-9]{16,48}",
        "a prefix for each sort",
    ),
    TokenPattern(
        "RubyGems key", r"rubygems_[0-9a-f]{48}(?![\w-])", "48 of hexadecimal after a prefix"
    ),
    TokenPattern(
        "Postman key", r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}(?![\w-])", "two parts of fixed length"
    ),
    TokenPattern(
        "npm token", r"npm_[A-Za-z0-9]{36}(?![\w-])", "40 characters, no more, the last a checksum"
    ),
    TokenPattern(
        "PyPI token", r"pypi-AgE[\w-]{50,500}", "a macaroon, whose first bytes are always the same"
    ),
    TokenPattern("Hugging Face token", r"hf_[A-Za-z0-9]{34}(?![\w-])", "37 characters, no more"),
    TokenPattern(
        "SendGrid key",
        r"(?<=SG\.)[\w-]{22}\.[\w-]{43}(?![\w-])",
        "two parts of fixed length after `SG.`",
    ),
    TokenPattern(
        "Telegram token", r"(?<=\d:)AA[\w-]{33}(?![\w-])", "35 characters after a bot's number"
    ),
    TokenPattern(
        "DigitalOcean token",
        r"do[opr]_v1_[0-9a-f]{64}(?![\w-])",
        "64 of hexadecimal after a prefix",
    ),
    TokenPattern("Docker token", r"dckr_(?:pat|oat)_[\w-]{20,64}", "a prefix for each sort"),
    TokenPattern(
        "Shopify token",
        r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}(?![\w-])",
        "32 of hexadecimal after a prefix",
    ),
    TokenPattern("Vault token", r"(?<=hv[sb]\.)[\w-]{24,300}", "what follows `hvs.` or `hvb.`"),
    TokenPattern(
        "age key", r"AGE-SECRET-KEY-1[02-9AC-HJ-NP-Z]{58}(?![\w-])", "a prefix that names it"
    ),
    TokenPattern("JSON web token", _JWT, "two objects of JSON in base64 and a signature"),
)


@cache
def token_pattern() -> re.Pattern[str]:
    """All of `TOKEN_PATTERNS` as one, whose group `f0` is the first. Compiling it takes 10 ms."""
    forms = (f"(?P<f{number}>{form.pattern})" for number, form in enumerate(TOKEN_PATTERNS))
    return re.compile("|".join(forms), re.ASCII)


# The beginnings of these runs, except for those that follow one of `TOKEN_LOOKBEHINDS`, such as
# letters after a backslash.
TOKEN_STARTS = frozenset(
    "AK AS gh gi gl xo xa sk rk wh AI GO AA gs pp r8 ls li fi AT da sb ts ru PM np py hf do dc sh"
    " AG ey".split()
)
TOKEN_LOOKBEHINDS = ("ya29.", "SG.", "hvs.", "hvb.", "\\")
LONGEST_LOOKBEHIND = max(map(len, TOKEN_LOOKBEHINDS))
