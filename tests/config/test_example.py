from __future__ import annotations

import re
from pathlib import Path

import pytest

from memsyncd.config import (
    Config,
    WorkspaceConfig,
    find_keys,
)
from memsyncd.config.load import load_config
from memsyncd.core.editing.kinds import DEFAULT_KINDS, OTHER_KINDS, KindDefaults
from tests.config.generate_example import TARGET as EXAMPLE
from tests.config.generate_example import generate_example


@pytest.fixture
def config_path(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


def test_the_example_is_generated_from_the_keys() -> None:
    assert EXAMPLE.read_text(encoding="utf-8") == generate_example(), (
        "run: python -m tests.config.generate_example"
    )


def test_the_example_holds_every_key_with_its_default() -> None:
    loaded = load_config(str(EXAMPLE), {})
    assert loaded.config == Config()
    assert {key for key, origin in loaded.origins.items() if origin != "default"} == {
        key for key, _ in find_keys()
    }


def test_the_example_explains_every_key_of_a_workspace_with_its_default(config_path: Path) -> None:
    commented = EXAMPLE.read_text().partition("#\n# [[workspace]]")[2]
    config_path.write_text(
        "[[workspace]]\n" + "\n".join(line.removeprefix("# ") for line in commented.splitlines())
    )
    loaded = load_config(str(config_path), {"HOME": "/home/ann"})
    assert loaded.config.workspace == (WorkspaceConfig(path="/home/ann/projects/shop"),)
    assert {
        key.partition(".0.")[2]
        for key, origin in loaded.origins.items()
        if key.startswith("workspace")
    } == set(WorkspaceConfig.__struct_fields__)
    assert "default" not in {
        origin for key, origin in loaded.origins.items() if key.startswith("workspace")
    }


def test_the_example_explains_every_key_of_a_kind(config_path: Path) -> None:
    commented = EXAMPLE.read_text().partition("#\n# [kinds.decision]")[2].partition("\n\n")[0]
    lines = [line.removeprefix("# ") for line in commented.splitlines()]
    config_path.write_text("[kinds.decision]\n" + "\n".join(lines))
    loaded = load_config(str(config_path), {})
    assert loaded.config.kinds == DEFAULT_KINDS
    example_keys = {key.rpartition(".")[2] for key in loaded.origins if key.startswith("kinds.")}
    assert example_keys == set(KindDefaults.__struct_fields__)


def test_the_example_lists_the_kinds_that_there_are() -> None:
    row = r"^# (\w+) +(\S+\.md) +(0\.\d+) +(\d+)(  protected)?$"
    listed = re.findall(row, EXAMPLE.read_text(), flags=re.MULTILINE)
    assert {
        name: KindDefaults(note, float(importance), float(days), protected=bool(protected))
        for name, note, importance, days, protected in listed
    } == DEFAULT_KINDS
    assert (
        f"goes to {OTHER_KINDS.append_to}\n# with an importance of {OTHER_KINDS.importance}"
        f" and a half-life of {OTHER_KINDS.half_life:g} days:"
    ) in EXAMPLE.read_text()
