"""Secrets are found by form or name, similar text is no secret, and a redaction keeps the lines."""

from __future__ import annotations

import itertools
import random
import re
import string
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.guard.secrets import (
    AWS_PAIRED,
    KEYWORDS,
    MIN_RUN_CHARS,
    PRIVATE_KEY,
    REDACTED_LINE,
    TOKEN_PATTERNS,
    TOKEN_STARTS,
    Prefilter,
    find_keywords,
    find_secrets,
    fold_case,
    redact,
    redact_secrets,
    token_pattern,
)

BASE62 = string.ascii_letters + string.digits
HEX = "0123456789abcdef"


def make(n: int, letters: str = BASE62) -> str:
    """Make a value that is the same every time. No scanner finds a token in this file."""
    return "".join(random.Random(n).choices(letters, k=n))


KEY_LINES = [make(64, BASE62) for _ in range(5)]
KEY = "\n".join(
    [
        "-----BEGIN RSA " + "PRIVATE KEY-----",
        *KEY_LINES,
        make(22) + "==",
        "-----END RSA " + "PRIVATE KEY-----",
    ]
)
JWT = ".".join(["eyJ" + make(33), "eyJ" + make(60), make(43)])

KNOWN = [
    ("AWS access key", "AKIA" + make(16, string.ascii_uppercase + "234567")),
    ("AWS access key", "ASIA" + make(16, string.ascii_uppercase + "234567")),
    ("Twilio token", "AC" + make(32, HEX) + ":" + make(33, HEX)[1:]),
    ("Twilio token", "SK" + make(32, HEX) + "/" + make(32)),
    ("GitHub token", "ghp_" + make(36)),
    ("GitHub token", "gho_" + make(36)),
    ("GitHub token", "github_pat_" + make(22) + "_" + make(59)),
    ("GitLab token", "glpat-" + make(20)),
    (
        "Slack token",
        "xoxb-" + make(12, string.digits) + "-" + make(13, string.digits) + "-" + make(24),
    ),
    (
        "Slack token",
        "xapp-1-A" + make(10, BASE62.upper()) + "-" + make(13, string.digits) + "-" + make(64, HEX),
    ),
    ("Stripe key", "sk_live_" + make(24)),
    ("Stripe key", "rk_test_" + make(24)),
    ("Stripe key", "whsec_" + make(32)),
    ("Anthropic key", "sk-ant-api03-" + make(93, BASE62 + "-_") + "AA"),
    ("OpenAI key", "sk-" + make(20) + "T3Blbk" + "FJ" + make(20)),
    ("OpenAI key", "sk-proj-" + make(74) + "T3Blbk" + "FJ" + make(74)),
    ("API key", "sk-" + make(32, HEX)),
    ("API key", "sk-or-v1-" + make(64, HEX)),
    ("Google API key", "AIza" + make(35)),
    ("Google OAuth secret", "GOCSPX-" + make(28)),
    ("Groq key", "gsk_" + make(52)),
    ("xAI key", "xai-" + make(80)),
    ("Perplexity key", "pplx-" + make(48)),
    ("Replicate token", "r8_" + make(37)),
    ("LangSmith key", "lsv2_pt_" + make(32, HEX) + "_" + make(10, HEX)),
    ("Linear key", "lin_api_" + make(40)),
    ("Figma token", "figd_" + make(43)),
    ("Atlassian token", "ATATT3x" + make(185)),
    ("Grafana token", "glsa_" + make(32) + "_" + make(8, HEX)),
    ("Databricks token", "dapi" + make(32, HEX)),
    ("Supabase token", "sbp_" + make(40, HEX)),
    ("Tailscale key", "tskey-auth-" + make(12) + "CNTRL-" + make(32)),
    ("RubyGems key", "rubygems_" + make(48, HEX)),
    ("Postman key", "PMAK-" + make(24, HEX) + "-" + make(34, HEX)),
    ("npm token", "npm_" + make(36)),
    ("PyPI token", "pypi-AgE" + make(120)),
    ("Hugging Face token", "hf_" + make(34)),
    ("DigitalOcean token", "dop_v1_" + make(64, HEX)),
    ("Docker token", "dckr_pat_" + make(27)),
    ("Shopify token", "shpat_" + make(32, HEX)),
    ("age key", "AGE-SECRET-KEY-1" + make(58, "023456789ACDEFGHJKLMNPQRSTUVWXYZ")),
    ("JSON web token", JWT),
]
LOOKED_BACK = [
    ("Google OAuth token", "ya29." + make(60)),
    ("SendGrid key", "SG." + make(22) + "." + make(43)),
    ("Telegram token", "123456789:AA" + make(33)),
    ("Vault token", "hvs." + make(24)),
]
ASSIGNED = [
    ("password", "password: ", "kX9mQ2vL7p"),
    ("password", "DB_PASSWORD=", "kX9mQ2vL7p"),
    ("password", "- **Password:** `", "kX9mQ2vL7p"),
    ("password", "db_pass = '", "Wh4t-3ver!"),
    ("password", "| password | ", "kX9mQ2vL7p"),
    ("API key", "api_key: ", make(32, HEX)),
    ("API key", "X-Api-Key: ", make(32, HEX)),
    ("API key", "AccountKey=", make(86) + "=="),
    ("API key", '"apiKey": "', make(24)),
    ("secret", "client_secret = ", make(32)),
    ("secret", "AWS_SECRET_ACCESS_KEY=", make(18) + "/" + make(12) + "+" + make(8)),
    ("secret", "aws_secret_access_key=", "wJalrXUtnFEMI/K7MDENG/bPxRfiCY" + "EXAMPKEY"),
    ("token", "export CI_TOKEN=", make(24)),
    ("token", "token: Bearer ", make(40)),
    ("password", "pwd=", "kX9mQ2vL7p"),
    ("password", "the password for the staging host: ", "kX9mQ2vL7p"),
    ("password", "Its password is ", "kX9mQ2vL7p"),
    ("password", "DB_PASSWORD=", "Winter2024!"),
    ("password", "mysqldump --password ", "kX9mQ2vL7p"),
    ("API key", "tool --api-key ", make(32, HEX)),
    ("password", "mysqldump --password ", "K9m-zebrawal7"),
    ("token", "[x](https://acme.dev/r?next=1&token=", make(40)),
    ("password in a URL", "postgres://app:", "kX9mQ2@"),
    ("password in a URL", "see https://deploy:", "kX9mQ2@"),
]
INNOCENT = """
We chose JWTs; the header is `eyJhbGciOiJIUzI1NiJ9`, which says nothing.
commit 3f786850e387550fdab836ed7e6dc881de23001b fixes #12
sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
session 123e4567-e89b-12d3-a456-426614174000 ended
token: 123e4567-e89b-12d3-a456-426614174000
![pixel](data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDw\
ADhgGAWjR9awAAAABJRU5ErkJggg==)
max_tokens = 4096, tokenizer = cl100k_base, secret_name: projects/1234/secrets/db-main-7
password: string; password = get_password(user); password=$DB_PASSWORD; password: ${{ \
secrets.DB_PASSWORD }}
password: hunter; password = "correct horse battery staple"; the password is the same as before
api_key = os.environ["SERVICE_API_KEY_2"]; apiKey: process.env.API_KEY_V2; api_key: \
YOUR_API_KEY_HERE_123
token = tokenizer.next_token_v2(text); token: <your-token>; access_token=ACCESS_TOKEN_2024
password_hash: $2b$12$saltsaltsaltsaltsaltsO; secret_sha256 = \
e3b0c44298fc1c149afbf4c8996fb92427ae41e4
primary_key: user_2024_a1b2c3d4e5f6a7b8; cache key: v2:user:1234:profile:aaaa1111bbbb2222
ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx sk_live_000000000000000000000000 \
xoxb-your-token-goes-here-please
git+https://git:github_pat_asdf@acme.dev/x
postgres://user:password@localhost/db https://name:$TOKEN@host.dev git@github.com:acme/shop.git \
postgres://app:app@db
https://cdn.dev/npm/@scope/package@1.2.3/dist/index.min.js mailto:ann@acme.dev \
ssh://git@acme.dev:2222/x
-----BEGIN PUBLIC KEY-----
MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAu1SU1LfVLPHCozMxH2Mo
-----END PUBLIC KEY-----
A key begins with `-----BEGIN RSA PRIVATE KEY-----` and ends with `-----END RSA PRIVATE KEY-----`.
-----BEGIN CERTIFICATE REQUEST-----
| --------------------------------- | :-------------------------------: |
| `--password` | E2E-krypteringspassord (du blir bedt om det) |
monkey: a1b2c3d4e5f6a7b8c9d0 keyboard = qwertyuiop1234567890asdf
test_that_a_very_long_name_of_a_test_is_no_secret_at_all \
node_modules/.pnpm/some-package-with-a-long-name@4.5.6
"""


@pytest.mark.parametrize(
    "around",
    [
        "{}",
        "token={}.",
        "use `{}` here",
        'curl -H "Authorization: Bearer {}"',
        r"a\n{}\n",
        "| {} |",
    ],
)
def test_a_token_of_known_form_is_found_whole_at_any_place(around: str) -> None:
    reported, masked = [], []
    for _, token in KNOWN:
        text = f"# Notes\n\n{around.format(token)}\nmore"
        reported += [(s.what, text[s.start : s.end], s.is_example) for s in find_secrets(text)]
        masked.append(redact_secrets(text, find_secrets(text)))
    assert reported == [(what, token, False) for what, token in KNOWN]
    assert not [what for (what, token), shown in zip(KNOWN, masked, strict=True) if token in shown]


@pytest.mark.parametrize(("what", "token"), LOOKED_BACK)
def test_a_token_may_be_known_by_the_text_before_it(what: str, token: str) -> None:
    masked = redact_secrets(f"use {token}!", find_secrets(f"use {token}!"))
    assert masked.endswith(f"[masked: {what}]!")
    assert token[-20:] not in masked


@pytest.mark.parametrize(("what", "name", "value"), ASSIGNED)
def test_a_value_assigned_to_the_name_of_a_secret_is_one_if_it_looks_like_it(
    what: str, name: str, value: str
) -> None:
    text = f"{name}{value}{'db.acme.dev/shop' if value.endswith('@') else ''}"
    assert redact_secrets(text, find_secrets(text)).startswith(f"{name}[masked: {what}]")


@pytest.mark.parametrize("line", INNOCENT.strip().split("\n"))
def test_text_that_only_looks_like_a_secret_stays(line: str) -> None:
    assert find_secrets(line) == []


def test_lines_that_are_harmless_alone_have_no_secret_when_joined() -> None:
    assert find_secrets(INNOCENT) == []


def test_an_example_is_reported_as_one_and_not_redacted() -> None:
    for text in (
        "AKIA" + "IOSFODNN7EXAMPLE",
        "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCY" + "EXAMPLEKEY",
        "https://deploy:kX9mQ2vL@git.example.com/x",
    ):
        assert [secret.is_example for secret in find_secrets(text)] == [True], text
        assert redact_secrets(text, find_secrets(text)) == text, text


@pytest.mark.parametrize("indent", ["", "    ", "> ", "\t"])
def test_a_private_key_is_redacted_from_its_first_line_to_its_last(indent: str) -> None:
    lines = [indent + line for line in KEY.split("\n")]
    text = "\n".join(["before", *lines, "after"])
    assert [secret.what for secret in find_secrets(text)] == [PRIVATE_KEY]
    masked = redact_secrets(text, find_secrets(text)).split("\n")
    assert masked == [
        "before",
        f"{indent}[masked: {PRIVATE_KEY}]",
        *[REDACTED_LINE] * (len(lines) - 1),
        "after",
    ]


@pytest.mark.parametrize("frame", ["+{}", "| {} |", "{}\n", '"{}\\n" +', "- {}"])
def test_a_private_key_is_redacted_with_any_text_around_its_lines(frame: str) -> None:
    text = "\n".join(["before", *map(frame.format, KEY.split("\n")), "after"])
    masked = redact_secrets(text, find_secrets(text))
    assert not any(line in masked for line in KEY_LINES)
    assert masked.startswith("before\n")
    assert masked.endswith("\nafter")


def test_text_between_two_keys_is_shown() -> None:
    text = f"{KEY.rpartition(chr(10))[0]}\n\nThe one above is cut off.\n\n{KEY}\nend"
    masked = redact_secrets(text, find_secrets(text))
    assert "The one above is cut off." in masked
    assert not any(line in masked for line in KEY_LINES)


@pytest.mark.parametrize(
    "token",
    ["ghp_" + make(36), "sk-" + make(32, HEX), "lsv2_pt_" + make(32, HEX) + "_" + make(10, HEX)],
)
@pytest.mark.parametrize("frame", ["_{}_", "__{}__", "**{}**", "~~_{}_~~", "({})"])
def test_a_token_is_found_as_markdown_shows_it(token: str, frame: str) -> None:
    for written in (token, token.replace("_", "\\_")):
        text = f"a \\_ b\n{frame.format(written)} \\_c\n"
        masked = redact_secrets(text, find_secrets(text))
        assert masked.startswith("a \\_ b\n")
        assert masked.endswith(" \\_c\n")
        assert written[-12:] not in masked
        assert written[:12] not in masked


PARTS_OF_SECRETS = ["pwd=", "a1b2c3d4", "Xy9", "://a:", "secret-of@b", " ", "token=", "word", "key"]


@given(st.text() | st.lists(st.sampled_from(PARTS_OF_SECRETS), max_size=5).map("".join))
def test_texts_that_the_first_check_skips_hold_no_secret(text: str) -> None:
    assert redact(text) == redact_secrets(text, find_secrets(text))


def test_a_private_key_without_an_end_has_the_lines_that_look_like_a_key() -> None:
    text = KEY.rpartition("\n")[0] + "\n\nThat was the key of the old host.\n"
    masked = redact_secrets(text, find_secrets(text))
    assert masked.endswith("\nThat was the key of the old host.\n")
    assert not any(line in masked for line in KEY_LINES)


def test_a_private_key_within_one_line_ends_there() -> None:
    text = '{"private_key": "' + KEY.replace("\n", "\\n") + '\\n", "id": 7}\nmore'
    assert (
        redact_secrets(text, find_secrets(text))
        == '{"private_key": "[masked: private key]\\n", "id": 7}\nmore'
    )


def test_if_two_secrets_overlap_only_one_is_named() -> None:
    text = "GITHUB_TOKEN=ghp_" + make(36)
    assert [(secret.what, secret.start) for secret in find_secrets(text)] == [
        ("GitHub token", len("GITHUB_TOKEN="))
    ]


def test_every_token_form_has_a_hint_and_a_run() -> None:
    """The fast first search must not skip a text that a pattern would match."""
    assert {what for what, _ in TOKEN_PATTERNS} == {what for what, _ in [*KNOWN, *LOOKED_BACK]}
    for _, token in KNOWN:
        runs = "".join(char if char in BASE62 + "_-" else " " for char in token).split(" ")
        assert len(runs[0]) >= MIN_RUN_CHARS
        assert token[:2] in TOKEN_STARTS


TOKENS = [token for _, token in [*KNOWN, *LOOKED_BACK]]


@given(
    st.lists(
        st.one_of(
            st.sampled_from([*TOKENS, *"._-:\\\n é", "SG.", "hv", "doc"]),
            st.text("aB1-_.", max_size=30),
        )
    )
)
def test_the_fast_search_for_tokens_misses_none(pieces: list[str]) -> None:
    # An escape is read as the character that it escapes.
    text = re.sub(r"\\+_", "_", "".join(pieces))
    slowly, at = [], 0
    while run := re.compile(rf"[A-Za-z0-9_-]{{{MIN_RUN_CHARS},}}").search(text, at):
        is_escaped = text[run.start() - 1 : run.start()] == "\\"
        # Rendered, an emphasised token is the text between the marks.
        first, last = run.end() - len(run[0].lstrip("_")), run.start() + len(run[0].rstrip("_"))
        token = token_pattern().match(text, run.start() + is_escaped)
        if not token and first > run.start():
            token = token_pattern().match(text, first, max(first, last))
        is_one = token and (len(set(token[0][-MIN_RUN_CHARS:])) >= 7 or "EXAMPLE" in token[0])
        at = token.end() if token and is_one else run.end()
        if token and is_one:
            slowly.append(token.span())
        if token and token.lastgroup == "f0" and (paired := AWS_PAIRED.match(text, token.end())):
            slowly.append(paired.span("value"))
            at = paired.end()
    assert [(secret.start, secret.end) for secret in find_secrets(text)] == slowly


BETWEEN = [
    "", ":", ",", " ", "/", ";", " / ", ": ", " = ", "\t", "`, `", '", "', " | ", " -> ", "\\n",
    " and ", ", secret ", ", secret key: ", "\nsecret_access_key = ", " AWS_SECRET_ACCESS_KEY=",
]  # fmt: skip


@given(
    st.lists(
        st.permutations(["l", "U", "7", "+"]).flatmap(
            lambda kinds: st.tuples(*(st.sampled_from(AWS_LETTERS[kind]) for kind in kinds))
        ),
        min_size=10,
        max_size=10,
    ).map(lambda groups: "".join(itertools.chain(*groups))),
    st.sampled_from(["AKIA", "ASIA"]),
    st.sampled_from(BETWEEN),
)
def test_a_secret_of_amazon_is_found_behind_its_access_key_and_behind_its_name(
    secret: str, prefix: str, between: str
) -> None:
    example = "AKIA" + "IOSFODNN7EXAMPLE"
    for key in (prefix + make(16, string.ascii_uppercase + "234567"), example):
        masked = redact(f"use {key}{between}{secret} there")
        assert (key in masked) == (key == example)
        assert not any(secret[at : at + 6] in masked for at in range(35))
        assert masked.endswith(" there")
    example_secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCY" + "EXAMPLEKEY"
    assert redact(f"{example}{between}{example_secret}") == f"{example}{between}{example_secret}"


AWS_LETTERS = {
    "l": string.ascii_lowercase,
    "U": string.ascii_uppercase,
    "7": string.digits,
    "+": BASE62 + "/+",
}


@given(
    st.lists(st.sampled_from(["a \\_b_ line", "plain", "", "\\", "ends in \\"]), max_size=4),
    st.sampled_from(["", "\n"]),
)
def test_a_secret_with_escapes_is_found_at_its_place_in_the_source(
    lines: list[str], end: str
) -> None:
    token = "ghp\\_" + make(36)
    text = "\n".join([*lines, f"use {token} here \\_", *lines]) + end
    assert [text[secret.start : secret.end] for secret in find_secrets(text)] == [token]


@given(
    st.text("pasectrokny \n", max_size=60),
    st.lists(st.tuples(st.sampled_from([*KEYWORDS]), st.text("kaes ", max_size=3))),
)
def test_hints_that_are_searched_together_are_all_found(
    text: str, pieces: list[tuple[bytes, str]]
) -> None:
    folded = fold_case(text + "".join(hint.decode() + after for hint, after in pieces))
    alone = {(at, hint) for hint in KEYWORDS for at, _ in Prefilter(hint).find(folded)}
    assert set(find_keywords(folded)) == alone


@given(st.text())
def test_a_folded_text_has_a_byte_for_each_character(text: str) -> None:
    assert len(fold_case(text)) == len(text)


PIECES = st.sampled_from(
    [
        "password: kX9mQ2vL7p", "ghp_" + make(36), JWT, "://a:kX9mQ2vL@b", "\n", " ", "é", "日本",
        "word", "token=", "@", KEY, "AKIA",
    ]
)  # fmt: skip


@given(st.lists(st.one_of(PIECES, st.text(max_size=20))).map(" ".join))
def test_secrets_are_in_order_and_separate_and_gone_after_redaction(text: str) -> None:
    secrets = find_secrets(text)
    for secret, other in itertools.pairwise(secrets):
        assert secret.end <= other.start
    masked = redact_secrets(text, secrets)
    assert masked.count("\n") == text.count("\n")
    assert not any(
        text[s.start : s.end] in masked
        for s in secrets
        if not s.is_example and s.end - s.start > MIN_RUN_CHARS
    )


@given(
    st.lists(st.one_of(PIECES.filter(lambda piece: piece != KEY), st.text(max_size=20))).map(
        "".join
    )
)
def test_any_whole_lines_give_the_same_secrets_as_the_text(text: str) -> None:
    apart = "\n".join(redact_secrets(line, find_secrets(line)) for line in text.split("\n"))
    assert redact_secrets(text, find_secrets(text)) == apart


HOSTILE = {
    "a long run": "a" * 100_000,
    "runs that are nearly long enough": ("a" * 19 + " ") * 5_000,
    "a token that goes on": "ghp_" + "a1" * 50_000,
    "tokens upon tokens": "ghp_" * 25_000,
    "the head of a JWT": "eyJ" * 33_000,
    "heads of JWTs": "eyJhbGciOiJIUzI1NiJ9.eyJ" * 4_000,
    "keys that begin": "-----BEGIN RSA PRIVATE KEY-----" * 3_000,
    "keys that begin on lines": "-----BEGIN RSA PRIVATE KEY-----\n" * 3_000,
    "a key without end": "-----BEGIN RSA PRIVATE KEY-----\n" + ("A" * 64 + "\n") * 1_500,
    "keys that end at once": "-----BEGIN RSA PRIVATE KEY----------END RSA PRIVATE KEY-----" * 1_500,
    "ends of keys": "-----BEGIN RSA PRIVATE KEY-----" + "-----END " * 10_000,
    "underscores": "_" * 100_000,
    "escapes": "\\_" * 50_000,
    "escaped tokens": "ghp\\_" * 20_000,
    "emphasis": ("__ghp_" + "a1" * 10 + "__ ") * 3_000,
    "names": "password" * 12_500,
    "names and blanks": "password =" + " " * 100_000,
    "assignments": "password=a1b2c3 " * 6_000,
    "at signs": "@" * 100_000,
    "beginnings of URLs": "://" * 33_000,
    "URLs": "://a:b@" * 14_000,
    "options": "--password " * 9_000,
    "purposes": "password for a b c d " * 4_500,
    "sentences": "password is " * 8_000,
    "parameters": "token=a1b2c3d4&a=" * 5_000,
    "brackets": "token=" + "a1)" * 30_000,
    "headers": "authorization: bearer " * 4_500,
    "a header that goes on": "authorization: basic " + "aA1+" * 25_000,
    "commands": "curl -u " * 12_000,
    "passwords of commands": "mysql -p" * 12_000,
    "passwords of commands, ended": "sshpass -p a1 mysql -u b -pc2 " * 3_000,
    "passwords after a blank": "docker login -p " * 7_000,
    "passwords after a blank, ended": "redis-cli -a a1 docker login -p b2 " * 3_000,
    "passwords with signs": "://a:b@c@d@e " * 8_000,
    "words in place of a password": "password: " + "passwordpass1" * 9_000,
    "many such words": ("password: " + "passwordpass" * 14 + "1x\n") * 600,
    "a command that goes on": "curl " + "-u a " * 20_000,
    "places of webhooks": "hooks.slack.com/services/" * 4_000,
    "Slack": "xoxb-" + "a-" * 40_000,
    "numbers": "1:AA" * 25_000,
    "access keys": ("AKIA" + "QWERTYUIOPASDFG7" + "secret " * 12) * 1_000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_no_text_takes_long(text: str) -> None:
    began_s = time.process_time()
    find_secrets(text)
    assert time.process_time() - began_s < 2.0
