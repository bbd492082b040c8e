"""The configuration's structs are the policies of core, engine and server."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

import memsyncd
from memsyncd.config import Config, GuardConfig, HistoryConfig, find_keys
from memsyncd.config.load import load_config
from memsyncd.core.editing.kinds import DEFAULT_KINDS, OTHER_KINDS, KindDefaults, find_kind
from memsyncd.engine.workspace import index_fingerprint

PACKAGE = Path(memsyncd.__file__).parent
# These words are also used for other subjects: the path and the level of many things.
COMMON_WORDS = {"exclude", "path", "level", "format", "enabled", "secrets", "importance"}
# The budget of a context, not the size of a chunk.
CONTEXT_TOKENS = {
    (room, "max_tokens") for room in ("client", "context", "integrations", "protocol", "recall")
}


@pytest.mark.life
def test_the_default_of_a_key_is_written_in_the_configuration_alone() -> None:
    schema = PACKAGE / "config" / "__init__.py"
    keys = {key.partition(".")[2] for key, _ in find_keys()} - COMMON_WORDS
    copies = [
        f"{path.relative_to(PACKAGE.parent)}:{line}: {name}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if path != schema
        for name, default, line in find_defaults(path)
        if name in keys and is_value(default) and (path.parent.name, name) not in CONTEXT_TOKENS
    ]
    assert not copies, "the default of a key is written twice:\n" + "\n".join(copies)


def find_defaults(path: Path) -> Iterator[tuple[str, ast.expr, int]]:
    """Return the fields of classes and the parameters of functions that have a default."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef):
            for field in node.body:
                if isinstance(field, ast.AnnAssign) and field.value is not None:
                    yield ast.unparse(field.target), field.value, field.lineno
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            of = node.args
            positional = [*of.posonlyargs, *of.args]
            with_default = zip(
                positional[len(positional) - len(of.defaults) :], of.defaults, strict=True
            )
            named = zip(of.kwonlyargs, of.kw_defaults, strict=True)
            for argument, default in (*with_default, *named):
                if default is not None:
                    yield argument.arg, default, argument.lineno


def is_value(default: ast.expr) -> bool:
    """True for all defaults but None, which stands for the configured value."""
    return not (isinstance(default, ast.Constant) and default.value is None)


def test_the_age_of_revisions_is_configured_in_days() -> None:
    assert HistoryConfig(max_age_days=0.5).max_age_s == 43_200.0


def test_a_configured_kind_changes_a_predefined_one_or_is_added(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(
        '[kinds.decision]\nappend_to = "docs/adr.md"\nimportance = 0.8\n'
        '[kinds.recipe]\nappend_to = ".memories/recipes.md"\nhalf_life = 7\n'
    )
    kinds = load_config(str(path), {}).config.kinds
    decision, recipe = (
        KindDefaults("docs/adr.md", 0.8, DEFAULT_KINDS["decision"].half_life),
        KindDefaults(".memories/recipes.md", OTHER_KINDS.importance, 7.0),
    )
    assert kinds == {**DEFAULT_KINDS, "decision": decision, "recipe": recipe}
    assert find_kind(kinds, "Recipe") == recipe


def test_an_unknown_kind_is_added_where_no_kind_is() -> None:
    for kind in ("rumour", None):
        assert find_kind(Config().kinds, kind) == OTHER_KINDS


def test_notes_are_guarded_as_configured() -> None:
    flagged = GuardConfig(secrets="flag", instructions="off")
    assert flagged.has_secrets
    assert not flagged.has_instructions
    assert not flagged.is_masking
    assert not GuardConfig(secrets="off").has_secrets
    assert GuardConfig().is_masking
    assert GuardConfig().has_instructions


def test_an_index_is_rebuilt_for_other_checks_and_not_for_masking() -> None:
    mask, flag, off = (
        index_fingerprint(Config(guard=GuardConfig(secrets=secrets)))
        for secrets in ("mask", "flag", "off")
    )
    assert mask == flag != off


def test_an_index_is_rebuilt_for_another_importance_of_a_kind_alone() -> None:
    kinds = Config().kinds
    before, important, protected = (
        index_fingerprint(Config(kinds={**kinds, "decision": replace(kinds["decision"], **change)}))
        for change in ({}, {"importance": 0.1}, {"protected": True})
    )
    assert before == protected != important
