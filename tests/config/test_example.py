from __future__ import annotations

import re
from pathlib import Path

import pytest

from memsyncd.config import (
    Config,
    KindConfig,
    WorkspaceConfig,
    find_keys,
    load_config,
)
from memsyncd.core.editing.kinds import DEFAULT_KINDS, OTHER_KINDS
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
    commented = EXAMPLE.read_text().partition("#\n# [[kind]]")[2].partition("\n\n")[0]
    config_path.write_text(
        "[[kind]]\n" + "\n".join(line.removeprefix("# ") for line in commented.splitlines())
    )
    loaded = load_config(str(config_path), {})
    defaults = DEFAULT_KINDS["decision"]
    assert loaded.config.kind == (
        KindConfig(name="decision", note=defaults.note, importance=defaults.importance),
    )


def test_the_example_lists_the_kinds_that_there_are() -> None:
    listed = re.findall(r"^# (\w+) +(\S+\.md) +(0\.\d+)$", EXAMPLE.read_text(), flags=re.MULTILINE)
    assert [(name, note, float(importance)) for name, note, importance in listed] == [
        (name, kind.note, kind.importance) for name, kind in DEFAULT_KINDS.items()
    ]
    assert (
        f"goes to {OTHER_KINDS.note}\n# with an importance of {OTHER_KINDS.importance}:"
        in EXAMPLE.read_text()
    )
