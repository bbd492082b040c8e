"""Which secrets are known by where they stand? What a URL, a header or a command hands over to say who asks.

A pattern is matched where one of its hints stands.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from typing import NamedTuple

from memsyncd.core.guard.assigned import _is_placeholder, _is_token_like
from memsyncd.core.guard.fold import Hints

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
