"""Serves the panel's files, and the address that opens the panel once and sets a cookie.

The files are in `memsyncd/panel`. A token opens the panel once, within a minute, so an address in
the history of a shell or browser is worth nothing. The browser then has a cookie, which it sends to
this host alone and hides from scripts. The content security policy lets the page load nothing from
elsewhere and run no script from a note.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from urllib.parse import quote

from memsyncd.errors import BadConfig, NotFound
from memsyncd.protocol import http
from memsyncd.protocol.http import Access, HttpRefusal, RequestTarget, Response

TOKEN_AGE_S = 60.0
"""How long an address stays valid."""
PORT_AGE_S = 7 * 24 * 3600.0
"""A daemon that starts opens the panel's last port again if it was used within this time."""
NONCE_BYTES = 24
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SAFE_HEADERS = (
    ("Content-Security-Policy", POLICY),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
)
# A page, no redirect of HTTP: a browser that comes from a file or another program would not send
# the cookie after a redirect. The page replaces the address with the token in the browser's
# history.
_OPENED = f"""<!doctype html><html lang="en"><meta charset="utf-8"><title>memsyncd</title>
<link rel="icon" href="{http.PANEL}icon.svg">
<meta http-equiv="refresh" content="0;url={http.PANEL}%(view)s">
<p><a href="{http.PANEL}%(view)s">memsyncd</a></html>
"""
_USED = http.make_closed_page("This address was used already, or is older than a minute.")


class OneTimeTokens:
    """Tokens that are each valid once, for TOKEN_AGE_S. `now_s` is a monotonic clock."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._expires_s: dict[str, float] = {}

    def make(self) -> str:
        """Return a new token."""
        now_s = self._now_s()
        valid = {token: end_s for token, end_s in self._expires_s.items() if end_s > now_s}
        self._expires_s = valid
        token = secrets.token_urlsafe(NONCE_BYTES)
        self._expires_s[token] = now_s + TOKEN_AGE_S
        return token

    def use(self, token: str) -> bool:
        """True at the first use of a token that is not too old."""
        return self._expires_s.pop(token, 0.0) > self._now_s()


def make_panel_response(
    target: RequestTarget, access: Access | None, tokens: OneTimeTokens | None, now_s: float
) -> Response:
    """Return a file of the panel, or the page that sets the cookie and leads to the panel.

    `access` is None on the Unix socket, which no browser can use. `tokens` is None until the first
    address was made. `now_s` is since the epoch. Raises HttpRefusal.
    """
    if access is None:
        raise HttpRefusal(NotFound("the panel is on a port", hint="open it: memsyncd ui"))
    if target.path != http.PANEL_OPEN:
        return _make_file(target.path.removeprefix(http.PANEL) or http.PANEL_INDEX)
    token = next((value for name, value in target.query if name == "token"), "")
    if tokens is None or not tokens.use(token):
        return Response(401, _USED.encode(), http.HTML, SAFE_HEADERS)
    value = http.make_cookie(access.token, secrets.token_urlsafe(NONCE_BYTES), now_s)
    cookie = (
        f"{access.cookie_name}={value}; Path=/; Max-Age={http.COOKIE_AGE_S}; HttpOnly; "
        "SameSite=Strict"
    )
    workspace = next((value for name, value in target.query if name == "w"), "")
    # After quoting, the name holds no character that has a meaning in HTML.
    view = f"#notes?w={quote(workspace, safe='')}" if workspace else ""
    page = (_OPENED % {"view": view}).encode()
    return Response(200, page, http.HTML, (("Set-Cookie", cookie), *SAFE_HEADERS))


def _make_file(name: str) -> Response:
    content = _read_file(name)
    if content is None:
        raise HttpRefusal(NotFound(f"the panel has no file {name}", hint=f"open {http.PANEL}"))
    kind = http.PANEL_TYPES[name[name.rfind(".") :]]
    return Response(200, content, kind, SAFE_HEADERS)


@cache
def _read_file(name: str) -> bytes | None:
    try:
        return files("memsyncd.panel").joinpath(name).read_bytes()
    except OSError:
        return None


# --- the port: a restarted daemon opens it again, so that open pages find the daemon


def remember_port(path: str, port: int) -> None:
    """Write the number of the panel's port to `path`. Raises BadConfig if that is not possible."""
    temporary = f"{path}.{os.getpid()}"
    try:
        with open(temporary, "w", encoding="ascii") as stream:
            stream.write(f"{port}\n")
        os.replace(temporary, path)
    except OSError as error:
        hint = "make the folder writable, or set `listen` under [http]"
        raise BadConfig(f"cannot write {path}: {error.strerror}", hint=hint) from None


def find_port(path: str, now_s: float) -> int:
    """Return the port that was remembered within PORT_AGE_S; 0 if there is none."""
    try:
        if not 0 <= now_s - os.stat(path).st_mtime < PORT_AGE_S:
            return 0
        with open(path, encoding="ascii") as stream:
            number = int(stream.read(16))
    except (OSError, ValueError):
        return 0
    return number if 0 < number < 65536 else 0
