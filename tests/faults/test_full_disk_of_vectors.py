"""Vectors do not fit on the disk: it is reported, words answer, and with space they are made."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.test_full_disk import fill_up
from tests.semantic.conftest import (
    EmbeddingServer,
    Notes,
    answer_with,
    finish,
    make_config,
    wait_until,
)

pytest.importorskip("numpy", reason="the extra `semantic` is not installed")


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    server = EmbeddingServer()
    yield server
    server.close()


def test_vectors_that_do_not_fit_are_made_once_there_is_room(
    tmp_path: Path, mount: Callable[[Path, str], None], server: EmbeddingServer
) -> None:
    disk = tmp_path / "disk"
    mount(disk, "3m")
    notes = Notes(disk)
    try:
        server.answer = lambda texts: answer_with(
            [[float(len(text)), *[0.5] * 999] for text in texts]
        )
        notes.put(**{f"n{number}": f"# Note {number}\n\n{'x' * number}" for number in range(200)})
        vectors = notes.serve(make_config(server))
        rest = fill_up(disk)
        report = notes.refresh()
        assert "cannot be stored" in report.fault
        assert "free some space" in report.fault
        assert vectors.status().failed
        rest.unlink()
        assert notes.refresh().pending == 0
        assert notes.ask(vectors, "x")
        wait_until(lambda: vectors.status().state == "ready", "it is not ready")
        assert finish(vectors.begin("y"), time.monotonic() + 20) is not None
    finally:
        notes.close()
