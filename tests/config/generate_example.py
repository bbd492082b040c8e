"""Generate config.example.toml from the structs of memsyncd/config/__init__.py.

    python -m tests.config.generate_example

Writes the file; tests/config/test_example.py fails while the file differs from the generated text.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from pathlib import Path

import msgspec

from memsyncd.config import ARRAYS, SECTIONS, TABLES
from memsyncd.core.editing.kinds import (
    DEFAULT_KINDS,
    DEFAULT_STEPS,
    OTHER_KINDS,
    OTHER_STEPS,
    KindDefaults,
)
from memsyncd.operations.docs import read_comments

TARGET = Path(__file__).parents[2] / "config.example.toml"
WIDTH = 100
# Values of the keys that have no default.
SAMPLES = {
    "kinds": msgspec.structs.asdict(DEFAULT_KINDS["decision"]),
    "step": {"name": "review", "kind": "insight"},
    "source": {"path": "docs/rules.md", "tags": ["index:invariants"]},
    "workspace": {"path": "~/projects/shop"},
}
HEAD = """\
# The configuration of memsyncd, with every default. Copy it to ~/.config/memsyncd/config.toml and
# keep the lines that you change.
# Check it with `memsyncd config check`; `memsyncd config show` prints the origin of each value.
# An environment variable overrides each key: MEMSYNCD_SYNC_DEBOUNCE_MS=200,
# MEMSYNCD_LOG_LEVEL=debug, …
# A running daemon reloads a changed file within reconcile_s, or at once on SIGHUP, and refuses an
# invalid one: `memsyncd status` says so.
"""


def generate_example() -> str:
    """Return the text of the file."""
    lines = [HEAD.rstrip("\n")]
    for name, struct in SECTIONS.items():
        lines += ["", *_render_comment(_read_docstring(struct)), f"[{name}]", *_render_keys(struct)]
    lines += ["", *_render_comment(_read_docstring(KindDefaults)), "#", *_render_kinds(), "#"]
    for name, struct in TABLES.items():
        lines += [f"# [{name}.decision]"]
        lines += [f"# {line}" for line in _render_keys(struct, SAMPLES[name])]
    for name, struct in ARRAYS.items():
        lines += ["", *_render_comment(_read_docstring(struct)), "#"]
        predefined = {"step": _render_steps}.get(name)
        lines += [*predefined(), "#"] if predefined else []
        keys = _render_keys(struct, SAMPLES[name])
        lines += [f"# [[{name}]]", *(f"# {line}" for line in keys)]
    return "\n".join(lines) + "\n"


def _read_docstring(struct: type[msgspec.Struct]) -> str:
    return " ".join((struct.__doc__ or "").split())


def _render_keys(
    struct: type[msgspec.Struct], samples: dict[str, object] | None = None
) -> Iterator[str]:
    comments = read_comments(struct)
    for field in msgspec.structs.fields(struct):
        yield from _render_comment(comments[field.name])
        value = (samples or {}).get(field.name, field.default)
        yield f"{field.name} = {_render_value(value)}"


def _render_comment(text: str) -> Iterator[str]:
    yield from (f"# {line}" for line in textwrap.wrap(text, WIDTH - 2, break_on_hyphens=False))


def _render_value(value: object) -> str:
    if isinstance(value, int) and value >= 10_000:
        return f"{value:_}"
    return json.dumps(value)


def _render_kinds() -> Iterator[str]:
    kind, note = (max(map(len, names)) for names in (DEFAULT_KINDS, _list_notes()))
    yield "# These are predefined:"
    yield "#"
    for name, each in DEFAULT_KINDS.items():
        row = f"# {name:<{kind}}  {each.append_to:<{note}}  {each.importance:<4}"
        yield f"{row}  {each.half_life:g}{'  protected' if each.protected else ''}"
    yield "#"
    yield f"# A memory without a kind, or with another, goes to {OTHER_KINDS.append_to}"
    yield (
        f"# with an importance of {OTHER_KINDS.importance}"
        f" and a half-life of {OTHER_KINDS.half_life:g} days:"
    )


def _render_steps() -> Iterator[str]:
    width = max(map(len, DEFAULT_STEPS))
    yield "# These are predefined:"
    yield "#"
    for name, kind in DEFAULT_STEPS.items():
        yield f"# {name:<{width}}  {kind}"
    yield "#"
    yield f"# Another step has the kind {OTHER_STEPS}; a failure always has the kind tool_run:"


def _list_notes() -> list[str]:
    return [kind.append_to for kind in DEFAULT_KINDS.values()]


if __name__ == "__main__":
    TARGET.write_text(generate_example(), encoding="utf-8")
