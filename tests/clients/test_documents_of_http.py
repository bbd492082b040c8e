"""Programs of others check the documents that describe the interfaces."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.daemon.conftest import Daemon, Home

if TYPE_CHECKING:
    from tests.clients.conftest import Tools

pytestmark = [pytest.mark.clients, pytest.mark.timeout(600)]

LIMIT_S = 300
# A schema cannot express that a date, a query or a pair of parameters must make sense, so the daemon
# may refuse a request that fits the schema. An answer may be late, because a request can wait for a
# later generation.
SETTINGS = """
[parameters]
"query.timeout_ms" = 50
[checks]
positive_data_acceptance.enabled = false
not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", 503, 504]
negative_data_rejection.expected-statuses = [
    400, 401, 403, 404, 405, 406, 408, 409, 413, 415, 417, 431, 503, 504,
]
"""
READ_META_SCHEMA = """
const schema = require(process.argv[1]);
process.stdout.write(JSON.stringify(schema.default ?? schema));
"""
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
VALIDATE = """
import json, sys
from jsonschema import Draft7Validator
schema, document = json.load(open(sys.argv[1])), json.load(open(sys.argv[2]))
for error in Draft7Validator(schema).iter_errors(document):
    print(error.json_path, error.message[:300])
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Home, Daemon]]:
    """A home with a daemon that has a port and a workspace."""
    home = Home(tmp_path_factory.mktemp("h"), '[http]\nlisten = "127.0.0.1:0"\n')
    root = home.make_folder()
    (root / "MEMORY.md").write_text("# Larch\n\nThe larch is tall.\n")
    daemon = home.start()
    with daemon.client() as client:
        client.call("workspace.add", path=str(root))
        client.call("sync")
    yield home, daemon
    home.close()


def test_schemathesis_finds_nothing_wrong_with_the_http_interface(
    tools: Tools, place: tuple[Home, Daemon], tmp_path: Path
) -> None:
    with place[1].client() as client:
        status = client.call("status")
    token = Path(status["http_token"]).read_text().strip()
    settings = tmp_path / "schemathesis.toml"
    settings.write_text(SETTINGS)
    done = subprocess.run(
        [
            tools.python.with_name("schemathesis"), "--config-file", settings, "run",
            f"{status['http']}/openapi.json", "-H", f"Authorization: Bearer {token}",
            "--phases", "coverage,fuzzing", "--max-examples", "25", "--request-timeout", "30",
            "--exclude-path", "/v1/events",  # a stream has no end
        ],
        capture_output=True, text=True, timeout=LIMIT_S, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    with place[1].client() as client:
        assert client.call("status")["requests"] > 100
    assert "internal" not in place[0].read_log()


def test_the_openrpc_document_is_valid_by_its_meta_schema(
    tools: Tools, place: tuple[Home, Daemon], tmp_path: Path
) -> None:
    package = tools.modules / "@open-rpc" / "meta-schema"
    read = subprocess.run(
        [tools.node, "-e", READ_META_SCHEMA, package],
        capture_output=True, text=True, timeout=LIMIT_S, check=True,
    )  # fmt: skip
    # The schema refers to JSON Schema by addresses that need a network.
    text = read.stdout
    for address, known in (
        ("https://meta.json-schema.tools/#/definitions/JSONSchemaObject", DRAFT_7),
        ("https://meta.json-schema.tools", DRAFT_7),
    ):
        text = text.replace(address, known)
    assert '"openrpc"' in text
    (tmp_path / "schema.json").write_text(text)
    with place[1].client() as client:
        document = client.call("rpc.discover")
    wrong = {**document, "methods": [{"name": 1}]}
    problems = []
    for described in (document, wrong):
        (tmp_path / "document.json").write_text(json.dumps(described))
        done = subprocess.run(
            [tools.python, "-c", VALIDATE, tmp_path / "schema.json", tmp_path / "document.json"],
            capture_output=True, text=True, timeout=LIMIT_S, check=True,
        )  # fmt: skip
        problems.append(done.stdout)
    assert problems[0] == ""
    assert "$.methods[0]" in problems[1]
