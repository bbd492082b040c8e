"""The example runs as the README says it, with a model on loopback in place of Claude."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.integrations.conftest import LAST_WORDS

if TYPE_CHECKING:
    from tests.daemon.conftest import Home, Place
    from tests.integrations.conftest import Model


def test_the_example_asks_and_lets_the_model_remember(home: Home, place: Place, make_model: Callable[..., Model]) -> None:
    model = make_model({"command": "create", "path": "/memories/colour.md", "file_text": "# Colour\n\nchartreuse\n"})
    env = {**home.env, "ANTHROPIC_API_KEY": "none", "ANTHROPIC_BASE_URL": model.url, "NO_PROXY": os.environ["NO_PROXY"]}
    command = [sys.executable, "-m", "memsyncd.integrations.example", "--workspace", str(place.root), "Which colour?"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=45, check=False)
    assert (done.returncode, done.stdout) == (0, f"{LAST_WORDS}\n"), done.stderr
    assert "/memories/colour.md" in done.stderr
    assert model.results[0]["content"] == "File created successfully at: /memories/colour.md"
    assert place.find("chartreuse") == {".memories/colour.md"}
