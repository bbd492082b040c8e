"""How does a loaded configuration read? As TOML that loads to the same, each line with its origin."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import msgspec

from memsyncd.config.keys import ARRAYS, SECTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from memsyncd.config.load import Loaded


def render_config(loaded: Loaded) -> str:
    """The whole configuration as TOML that loads to the same, each line with its origin."""
    lines = [f"# {loaded.path}" + ("" if loaded.is_file_found else " (no such file: defaults and environment)")]
    for section in SECTIONS:
        lines += ["", f"[{section}]", *_render_keys(getattr(loaded.config, section), section, loaded.origins)]
    for name in ARRAYS:
        for index, table in enumerate(getattr(loaded.config, name)):
            lines += ["", f"[[{name}]]", *_render_keys(table, f"{name}.{index}", loaded.origins)]
    return "\n".join(lines) + "\n"


def _render_keys(values: msgspec.Struct, prefix: str, origins: Mapping[str, str]) -> Iterator[str]:
    for field in msgspec.structs.fields(type(values)):
        text = f"{field.name} = {_render_value(getattr(values, field.name))}"
        yield f"{text:<40}  # {origins.get(f'{prefix}.{field.name}', 'default')}"


def _render_value(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_render_value, value))}]"
    # JSON's strings, numbers and words are TOML's, but for DEL, which TOML wants escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
