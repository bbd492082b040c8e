"""The example runs as the README describes, with a model on loopback in place of Claude."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tests.integrations.conftest import LAST_WORDS

if TYPE_CHECKING:
    from tests.daemon.conftest import Place
    from tests.integrations.conftest import Model

# Slow: each test has a daemon of its own, and the SDKs take seconds to import.
pytestmark = pytest.mark.life

QUESTION = "Which colour?"


def test_the_example_asks_and_lets_the_model_remember(
    place: Place,
    make_model: Callable[..., Model],
    socket: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    model = make_model(
        {
            "command": "create",
            "path": "/memories/colour.md",
            "file_text": "# Colour\n\nchartreuse\n",
        }
    )
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none is needed")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", model.url)
    monkeypatch.setattr(sys, "argv", ["example", "--workspace", str(place.root), QUESTION])
    runpy.run_module("memsyncd.integrations.example", run_name="__main__")
    message, calls = capsys.readouterr()
    assert message == f"{LAST_WORDS}\n"
    assert "/memories/colour.md" in calls
    assert model.requests[0]["messages"][0]["content"] == QUESTION
    assert model.results[0]["content"] == "File created successfully at: /memories/colour.md"
    assert place.find("chartreuse") == {".memories/colour.md"}


def test_without_the_sdk_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["example", QUESTION])
    monkeypatch.delitem(sys.modules, "memsyncd.integrations.anthropic", raising=False)
    monkeypatch.setitem(sys.modules, "anthropic", None)
    with pytest.raises(SystemExit, match=r"pip install 'memsyncd\[anthropic\]'"):
        runpy.run_module("memsyncd.integrations.example", run_name="__main__")
