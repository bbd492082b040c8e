"""Locales whose encoding is not UTF-8: names and texts of notes are UTF-8 all the same."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.daemon.conftest import Home

NAME = "\u65e5\u672c \u2713 \u00fcn\u00ef.md"
LATIN = "de_DE.ISO-8859-1"
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def make_latin_locale(folder: Path) -> dict[str, str]:
    # It warns that the file has no name of the system's locales, with status 1.
    words = ["localedef", "-i", "de_DE", "-f", "ISO-8859-1", str(folder / LATIN)]
    subprocess.run(words, check=False, capture_output=True)
    if not (folder / LATIN).exists():
        pytest.skip("the sources of locales are not installed")
    return {"LOCPATH": str(folder), "LC_ALL": LATIN}


@pytest.mark.parametrize(
    "name",
    [pytest.param("latin", marks=pytest.mark.needs("localedef")), "ascii"],
)
def test_notes_of_any_name_are_served_and_written_in_any_locale(
    own: Home, tmp_path: Path, name: str
) -> None:
    settings = make_latin_locale(tmp_path) if name == "latin" else ASCII
    env = {key: value for key, value in own.env.items() if not key.startswith(("LC_", "LANG"))}
    env |= settings
    encoding = "import sys; print(sys.getfilesystemencoding())"
    shown = subprocess.run(
        [sys.executable, "-c", encoding], check=True, env=env, capture_output=True, text=True
    )
    assert shown.stdout.strip() != "utf-8"
    root = own.make_folder()
    (root / ".memories").mkdir()
    (root / ".memories" / "plain.md").write_text("# Plain\n\nThe larch grows.\n")
    (root / ".memories" / NAME).write_text("# Gr\u00fcn\n\nThe maple grows.\n", encoding="utf-8")
    command = [sys.executable, "-m", "memsyncd"]

    def run(*words: str) -> str:
        done = subprocess.run(
            [*command, *words], env=env, cwd=root, check=True, capture_output=True, timeout=60
        )
        return done.stdout.decode("utf-8")

    run("start", str(root))
    try:
        for word in ("larch", "maple", "gr\u00fcn"):
            assert json.loads(run("search", word, "--wait", "--json"))["hits"], word
        assert "maple" in run("get", f".memories/{NAME}")
        run("remember", "F\u00fcnf \u2713 \u65e5\u672c", "--kind", "decision")
        text = (root / ".memories" / "decisions.md").read_text(encoding="utf-8")
        assert "F\u00fcnf \u2713 \u65e5\u672c" in text
        assert json.loads(run("problems", "--json"))["problems"] == []
    finally:
        run("stop")
    assert "Traceback" not in own.read_log()
