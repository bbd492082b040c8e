"""The panel's address opens once, its cookie outlives the daemon, and nothing is served without."""

from __future__ import annotations

import json
import re
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any

from tests.daemon.conftest import Place, wait_until

if TYPE_CHECKING:
    from tests.daemon.conftest import Home

LIMIT_S = 60.0


class Page:
    """A browser, as far as cookies go."""

    def __init__(self, url: str) -> None:
        match = re.fullmatch(r"http://127\.0\.0\.1:(\d+)(/panel/open\?token=\S+)", url)
        assert match is not None
        self.port, self.opening = int(match[1]), match[2]
        self.cookie = ""

    def get(self, path: str, **headers: str) -> tuple[int, bytes]:
        return self.ask("GET", path, None, **headers)

    def ask(self, verb: str, path: str, body: Any, **headers: str) -> tuple[int, bytes]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=LIMIT_S)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.cookie:
            given["Cookie"] = self.cookie
        data = None if body is None else json.dumps(body)
        if data is not None:
            given["Content-Type"] = "application/json"
        connection.request(verb, path, data, given)
        response = connection.getresponse()
        if cookie := response.getheader("Set-Cookie"):
            assert "HttpOnly" in cookie
            assert "SameSite=Strict" in cookie
            self.cookie = cookie.partition(";")[0]
        found = response.status, response.read()
        connection.close()
        return found

    def call(self, method: str, **params: Any) -> Any:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        status, body = self.ask("POST", "/rpc", message)
        assert status == 200, body
        return json.loads(body)["result"]


def test_the_panel_opens_once_and_comes_back_after_a_restart(own: Home) -> None:
    daemon = own.start()
    root = own.make_folder()
    (root / "MEMORY.md").write_text("# Head\n\nText <b>of</b> [[Nowhere]].\n")
    place = Place(own, daemon, root)
    page = Page(place.client.call("panel.open")["url"])
    status, body = page.get("/panel/")
    assert status == 401
    assert b"<code>memsyncd ui</code>" in body
    assert b"Bearer" in page.get("/panel/app.js")[1]
    assert page.get(page.opening)[0] == 200
    assert Page(f"http://127.0.0.1:{page.port}{page.opening}").get(page.opening)[0] == 401
    status, body = page.get("/panel/")
    assert status == 200
    names = re.findall(rb'(?:src|href)="([a-z]+\.[a-z]+)"', body)
    assert len(names) == 3
    assert all(page.get(f"/panel/{name.decode()}")[0] == 200 for name in names)
    assert page.get("/panel/missing.js")[0] == 404
    assert page.get("/v1/status", Origin="http://127.0.0.1:1")[0] == 403
    assert page.get("/panel/", Host=f"evil.example:{page.port}")[0] == 403
    stranger = Page(f"http://127.0.0.1:{page.port}{page.opening}")
    for path in ("/panel/", "/panel/app.js", "/v1/status", "/v1/events", "/metrics"):
        assert stranger.get(path)[0] in (401, 404), path
    assert stranger.ask("POST", "/rpc", {"jsonrpc": "2.0", "id": 1, "method": "ping"})[0] == 401
    assert "&lt;b&gt;of&lt;/b&gt;" in page.call("render", path="MEMORY.md")["html"]
    assert page.call("list", sections=False)["notes"][0]["sections"] == []
    assert isinstance(page.call("log.tail")["lines"], list)
    assert place.client.call("panel.open")["url"].startswith(f"http://127.0.0.1:{page.port}/")
    place.client.close()
    daemon.stop()
    own.start()
    wait_until(lambda: page.get("/panel/")[0] == 200, "the port is not open again")
    logged = own.log.read_text()
    assert page.cookie.partition("=")[2] not in logged
    assert page.opening.partition("=")[2] not in logged
