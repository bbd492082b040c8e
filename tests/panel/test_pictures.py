"""The page is small, and the documents have its pictures, which are small, too."""

from __future__ import annotations

import struct
from pathlib import Path

from tests.benchmarks.panel import compute_size_kb, list_files
from tests.panel.screenshots import FOLDER, SIZE, VIEWS

ROOT = Path(__file__).parents[2]


def test_the_files_of_the_page_are_small() -> None:
    assert len(list_files()) > 10
    assert compute_size_kb() < 150


def test_the_pictures_of_the_documents_are_there_and_small() -> None:
    pictures = sorted(FOLDER.iterdir())
    assert [picture.name for picture in pictures] == sorted(f"{name}.png" for name in VIEWS)
    assert sum(picture.stat().st_size for picture in pictures) < 150_000
    text = (ROOT / "README.md").read_text() + (ROOT / "memsyncd" / "GUIDE.md").read_text()
    for picture in pictures:
        assert picture.relative_to(ROOT).as_posix() in text
        width, height = struct.unpack_from(">II", picture.read_bytes(), 16)
        assert {"width": width, "height": height} == SIZE
