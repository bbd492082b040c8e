"""Summaries of a project's files are extracted and current, and leave text of people as it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.editing.project_index import (
    SOURCE_SUMMARY_LIMIT_CHARS,
    SectionChange,
    Source,
    SourceFile,
    merge_sources,
    plan_index,
    summarize_source,
)

NOTE = ".memories/project.md"
AT = "2026-11-20T09:00:00Z"
LATER = "2026-11-21T09:00:00Z"

README = """\
# Orchard

[![build](https://ci.example/badge.svg)](https://ci.example)

Orchard plans the harvest of small farms.

## Layout

`fields/` has one module for each crop.

## Tests

- `make test` runs them.
"""


def make_file(path: str, text: str, *tags: str) -> SourceFile:
    return SourceFile(path, tags, text.encode())


# --- one file -----------------------------------------------------------------------------------


def test_a_readme_becomes_its_first_paragraph_and_an_item_for_each_heading() -> None:
    assert summarize_source("README.md", README).split("\n") == [
        "Orchard plans the harvest of small farms.",
        "",
        "- **Layout**: `fields/` has one module for each crop.",
        "- **Tests**: `make test` runs them.",
    ]


def test_each_format_gives_the_name_and_the_commands_of_a_project() -> None:
    for path, text, expected in (
        (
            "pyproject.toml",
            (
                '[project]\nname = "orchard"\nversion = "1.2"\ndependencies = ["numpy>=2"]\n'
                '[project.scripts]\norchard = "orchard.cli:main"\n[tool.ruff]\nline-length = 100\n'
            ),
            [
                "- name: orchard 1.2",
                "- dependencies: numpy>=2",
                "- tools configured: ruff",
                "- `orchard`: orchard.cli:main",
            ],
        ),
        (
            "package.json",
            '{"name": "orchard", "workspaces": ["packages/*"], "scripts": {"test": "vitest"}}',
            ["- name: orchard", "- workspaces: packages/*", "- `npm run test`: vitest"],
        ),
        (
            "Cargo.toml",
            '[package]\nname = "orchard"\nedition = "2024"\n[dependencies]\nserde = "1"\n',
            ["- name: orchard", "- edition: 2024", "- dependencies: serde"],
        ),
        (
            "Makefile",
            "CC := gcc\n.PHONY: test\n# Run all tests.\ntest: build\n\tpytest\nbuild: ## Compile\n",
            ["- `make test`: Run all tests.", "- `make build`: Compile"],
        ),
        (
            ".github/workflows/ci.yml",
            (
                "name: CI\non: [push]\njobs:\n  test:\n    steps:\n      - uses: checkout@v4\n"
                "      - run: |\n          make test\n          make lint\n"
            ),
            ["- name: CI", "- runs on: push", "- job `test`: `make test`"],
        ),
        (
            ".gitlab-ci.yml",
            "stages: [test]\nunit:\n  script:\n    - make test\n",
            ["- stages: test", "- job `unit`: `make test`"],
        ),
        ("NOTES.cfg", "a = 1\n\nb = 2\n", ["    a = 1", "    b = 2"]),
    ):
        assert summarize_source(path, text).split("\n") == expected, path


@pytest.mark.parametrize("path", ["package.json", "pyproject.toml", "a/b.yml", "Makefile", "a.md"])
@given(text=st.text(max_size=400))
def test_any_text_of_any_format_has_a_bounded_summary(path: str, text: str) -> None:
    summary = summarize_source(path, text)
    assert len(summary) <= SOURCE_SUMMARY_LIMIT_CHARS
    assert summary == summarize_source(path, text)


def test_yaml_that_could_grow_is_quoted_instead_of_read() -> None:
    text = "a: &a [x, x]\nb: [*a, *a]\njobs: {}\n"
    assert summarize_source("x.yml", text).startswith("    a: &a [x, x]")


@pytest.mark.parametrize(
    ("path", "start"), [("package.json", '{"scripts": '), ("pyproject.toml", "project = ")]
)
def test_a_manifest_that_nests_without_end_is_quoted(path: str, start: str) -> None:
    assert summarize_source(path, start + 100_000 * "[").startswith(f"    {start}[")


def test_a_secret_of_a_source_is_masked() -> None:
    key = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    assert key not in summarize_source("package.json", f'{{"scripts": {{"up": "push {key}"}}}}')


def test_a_long_source_is_cut() -> None:
    text = "".join(f"## Part {number}\n\n{'word ' * 60}\n\n" for number in range(60))
    summary = summarize_source("README.md", text)
    assert len(summary) <= SOURCE_SUMMARY_LIMIT_CHARS
    assert summary.endswith("…")


# --- the note -----------------------------------------------------------------------------------


def test_a_section_is_made_with_its_provenance_and_replaced_when_its_file_changes() -> None:
    readme = make_file("README.md", README, "index:architecture")
    made, changes = plan_index(NOTE, None, [readme], at=AT)
    assert changes == [SectionChange("README.md", "created")]
    assert made is not None
    assert b"tags: [index:architecture], lifecycle: project, source: README.md" in made
    assert b"source_path: README.md" in made
    assert f"indexed_at: {AT}".encode() in made.replace(b'"', b"")
    own = b"\n## Ours\n\nWritten by hand.\n"
    changed = make_file("README.md", README.replace("harvest", "sowing"), "index:architecture")
    updated, changes = plan_index(NOTE, made + own, [changed], at=LATER)
    assert changes == [SectionChange("README.md", "updated")]
    assert updated is not None
    assert updated.endswith(own)
    assert b"plans the sowing" in updated
    assert b"harvest" not in updated


def test_other_tags_make_the_section_new() -> None:
    made, _ = plan_index(NOTE, None, [make_file("a.md", "text", "index:commands")], at=AT)
    _, changes = plan_index(NOTE, made, [make_file("a.md", "text", "index:invariants")], at=LATER)
    assert changes == [SectionChange("a.md", "updated")]


def test_a_deleted_file_loses_its_section_and_an_unreadable_one_keeps_it() -> None:
    files = [make_file("a.md", "one"), make_file("b.md", "two")]
    made, _ = plan_index(NOTE, None, files, at=AT)
    kept, changes = plan_index(NOTE, made, [SourceFile("b.md", (), None)], at=LATER)
    assert changes == [SectionChange("a.md", "removed")]
    assert kept is not None
    assert b"## b.md" in kept
    assert b"## a.md" not in kept


def test_a_note_is_not_made_for_nothing() -> None:
    assert plan_index(NOTE, None, [make_file("README.md", "\n")], at=AT) == (None, [])


SOURCES = st.dictionaries(
    st.sampled_from(["README.md", "a/x.yml", "Makefile", "package.json"]),
    st.text(max_size=80),
    max_size=4,
)


@given(before=SOURCES, after=SOURCES, own=st.sampled_from(["", "# Ours\n\ntext\n", "## Ours\r\n"]))
def test_indexing_twice_equals_once_and_keeps_the_text_of_people(
    before: dict[str, str], after: dict[str, str], own: str
) -> None:
    data: bytes | None = own.encode() or None
    for files in (before, after):
        sources = [make_file(path, text, "index:commands") for path, text in files.items()]
        data, _ = plan_index(NOTE, data, sources, at=AT)
        again, changes = plan_index(NOTE, data, sources, at=LATER)
        assert again == data
        assert {change.action for change in changes} <= {"unchanged"}
    assert (data or b"").startswith(own.strip().encode())


def test_a_later_source_of_the_same_path_counts() -> None:
    merged = merge_sources([Source("a.md", ("x",)), Source("b.md", ())], [Source("a.md", ("y",))])
    assert merged == [Source("a.md", ("y",)), Source("b.md", ())]
