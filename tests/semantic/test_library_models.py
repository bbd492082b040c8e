"""The vector process loads models of fastembed and model2vec without a network.

It finds them by their names or in a folder.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from memsyncd.config import SemanticConfig
from tests.semantic.conftest import Notes, wait_until

pytest.importorskip("numpy", reason="the extra `semantic` is not installed")

from tests.semantic.library_models import (
    FASTEMBED_MODEL,
    ROWS,
    write_fastembed_cache,
    write_fastembed_model,
    write_model2vec_cache,
)

pytestmark = pytest.mark.life

STATIC_MODEL = "nobody/tiny-static"
TEXTS = {"garage": "the vehicle", "kennel": "the hound", "oven": "a loaf"}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of downloaded models, also for the vector process."""
    cache = tmp_path / "models"
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(cache))
    monkeypatch.setenv("HF_HUB_CACHE", str(cache))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return cache


@pytest.mark.parametrize("library", ["fastembed", "model2vec"])
def test_a_downloaded_model_is_loaded_by_its_name(
    notes: Notes, tmp_path: Path, cache: Path, library: str
) -> None:
    pytest.importorskip(library, reason=f"{library} is not installed")
    if library == "fastembed":
        write_fastembed_cache(cache)
        name = FASTEMBED_MODEL
    else:
        write_model2vec_cache(cache, STATIC_MODEL)
        name = STATIC_MODEL
    notes.put(**{note: f"# {note}\n\n{text}" for note, text in TEXTS.items()})
    config = SemanticConfig(enabled=True, embedder=library, model=name, question_ms=20_000)  # type: ignore[arg-type]
    vectors = notes.serve(config)
    # As after a question, the library is loaded with the usual priority, not the lowest.
    report = notes.refresh(is_asked=True)
    assert (report.pending, report.total, report.fault) == (0, 3, "")
    assert report.embedder == name
    cosines = notes.ask(vectors, "car")
    assert max(cosines, key=cosines.__getitem__) == "garage"
    assert cosines["garage"] > cosines["kennel"] + 0.2
    notes.ask(vectors, "unheard of")  # the model knows none of its words
    assert vectors.status().state == "ready"


@pytest.mark.parametrize("library", ["fastembed", "model2vec"])
def test_a_model_that_is_not_there_is_named_and_used_once_it_is(
    notes: Notes, tmp_path: Path, cache: Path, library: str
) -> None:
    pytest.importorskip(library, reason=f"{library} is not installed")
    notes.put(**{note: f"# {note}\n\n{text}" for note, text in TEXTS.items()})
    name = FASTEMBED_MODEL if library == "fastembed" else STATIC_MODEL
    config = SemanticConfig(enabled=True, embedder=library, model=name, question_ms=20_000)  # type: ignore[arg-type]
    vectors = notes.serve(config)
    report = notes.refresh(is_asked=True)
    assert f"the model {name} cannot be used" in report.fault
    assert vectors.status().state == "off"
    shutil.rmtree(cache, ignore_errors=True)
    if library == "fastembed":
        write_fastembed_cache(cache)
    else:
        write_model2vec_cache(cache, STATIC_MODEL)
    # A report of the failure may still come.
    wait_until(lambda: not notes.refresh(is_asked=True).fault, "the model is not used")
    wait_until(lambda: vectors.status().state == "ready", "it is not ready")
    assert max(notes.ask(vectors, "car"), key=notes.ask(vectors, "car").__getitem__) == "garage"


def test_a_model_folder_that_changes_or_vanishes_is_noticed(
    notes: Notes, tmp_path: Path, cache: Path
) -> None:
    pytest.importorskip("fastembed", reason="fastembed is not installed")
    folder = tmp_path / "model"
    write_fastembed_model(folder)
    notes.put(**{note: f"# {note}\n\n{text}" for note, text in TEXTS.items()})
    config = SemanticConfig(
        enabled=True,
        embedder="fastembed",
        model=FASTEMBED_MODEL,
        model_folder=str(folder),
        question_ms=20_000,
    )
    vectors = notes.serve(config)
    report = notes.refresh(is_asked=True)
    assert (report.pending, report.fault) == (0, "")
    first = notes.ask(vectors, "car")
    assert max(first, key=first.__getitem__) == "garage"
    write_fastembed_model(folder, ROWS[[0, 1, 4, 3, 4, 5]])  # a car is a hound now
    assert notes.refresh().pending == 0
    second = notes.ask(vectors, "car")
    assert max(second, key=second.__getitem__) == "kennel"
    folder.rename(tmp_path / "elsewhere")
    assert str(folder) in notes.refresh().fault
    assert vectors.status().state == "off"
    assert "restore the folder" in str(vectors.status().reason)
    (tmp_path / "elsewhere").rename(folder)
    wait_until(lambda: not notes.refresh(is_asked=True).fault, "the model is not used again")
    assert notes.ask(vectors, "car") == second
