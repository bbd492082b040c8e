"""Patterns match the paths that they should, and no others."""

from __future__ import annotations

import re
import time
import unicodedata
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.paths import NO_GLOBS, Globs, find_glob_refusal
from memsyncd.errors import BadRequest

MATCHING = [
    ("README.md", "README.md"), ("./README.md", "README.md"), ("docs/*.md", "docs/a.md"),
    ("docs/**/*.md", "docs/a.md"), ("docs/**/*.md", "docs/a/b/c.md"), ("docs/**", "docs/a/b"),
    ("docs/", "docs/a/b"), ("docs/a**b.md", "docs/axxb.md"), ("**/x.md", "x.md"),
    ("**/x.md", ".memories/x.md"), ("**/a/**/b.md", "q/a/b.md"), ("**/a/**/b.md", "q/a/a/r/b.md"),
    ("a/**/**/b", "a/b"), ("?.md", "a.md"), ("[a-c]*.md", "bob.md"), ("[!a-c]*.md", "dob.md"),
    ("[]x].md", "].md"), ("[-x].md", "-.md"), ("[a-].md", "-.md"), ("[x.md", "[x.md"),
    ("a*b*c.md", "a1b2b3c.md"), ("a\nb.md", "a\nb.md"), ("*.md", "a\nb.md"), ("a\\b.md", "a\\b.md"),
]  # fmt: skip
NOT_MATCHING = [
    ("README.md", "sub/README.md"), ("README.md", "READMEXmd"), ("README.md", "readme.md"),
    ("docs/*.md", "docs/a/b.md"), ("docs/**/*.md", "doc/a.md"), ("docs/**", "docs"),
    ("docs/", "docs"), ("?.md", "/.md"), ("a?b", "a/b"), ("a[!x]b", "a/b"), ("a[.-0]b", "a/b"),
    ("[c-a].md", "b.md"), ("*/x.md", "x.md"), ("docs/*", "docs/"),
]  # fmt: skip


@pytest.mark.parametrize(("pattern", "path"), [*MATCHING, *NOT_MATCHING])
def test_a_path_matches_if_it_fits_the_pattern(pattern: str, path: str) -> None:
    assert Globs.parse([pattern]).matches(path) == ((pattern, path) in MATCHING)


def test_an_exclusion_without_a_slash_matches_at_any_depth_with_all_content() -> None:
    for path in ("a.draft.md", ".memories/a.draft.md", ".memories/old/deep/x.md", "old"):
        assert Globs.parse_excludes(["*.draft.md", "old/"]).matches(path), path


@pytest.mark.parametrize("path", [".memories/sessions/a.md", ".memories/sessions"])
def test_an_exclusion_with_a_slash_is_written_from_the_root(path: str) -> None:
    excludes = Globs.parse_excludes([".memories/sessions"])
    assert excludes.matches(path)
    assert not excludes.matches("docs/" + path)
    assert not excludes.matches(".memories/sessions.md")


def test_one_of_several_patterns_suffices_and_no_pattern_matches_nothing() -> None:
    assert Globs.parse(["a|b", "c.md"]).matches("c.md")
    assert not Globs.parse(["a|b", "c.md"]).matches("b")
    assert not Globs.parse([]).matches("")
    assert not NO_GLOBS.matches("a.md")


def test_composed_and_decomposed_accents_are_the_same_name() -> None:
    name = "résumé.md"
    for form in ("NFC", "NFD"):
        for other in ("NFC", "NFD"):
            assert Globs.parse([unicodedata.normalize(form, name)]).matches(
                unicodedata.normalize(other, name)
            )


def test_a_pattern_that_cannot_lie_below_a_root_is_refused_with_its_reason() -> None:
    refused = "/etc/* ~/x.md ../x a/../b a//b a/./b x\0 *.{md,txt} / .".split(" ")
    for pattern in (*refused, "", "a" * 1025):
        reason = find_glob_refusal(pattern)
        assert reason, pattern
        with pytest.raises(BadRequest, match=re.escape(reason)):
            Globs.parse([pattern])


def test_a_pattern_with_too_many_wildcards_is_refused() -> None:
    assert Globs.parse(["*a" * 16]).matches("ba" * 16)
    with pytest.raises(BadRequest, match="wildcards"):
        Globs.parse(["*a" * 17])


def test_many_stars_against_a_long_name_stay_quick() -> None:
    globs = Globs.parse(["a*" * 16 + "b", "**/a/" * 8 + "b.md"])
    started_s = time.thread_time()
    assert not globs.matches("a" * 4000)
    assert not globs.matches("a/" * 2000 + "c.md")
    assert time.thread_time() - started_s < 1


@given(
    pattern=st.text("ab*?[]!-.", min_size=1, max_size=8).filter(
        lambda text: text not in (".", "..", "**")
    ),
    name=st.text("ab!-.]", min_size=1, max_size=8),
)
def test_within_one_name_it_agrees_with_the_standard_library(pattern: str, name: str) -> None:
    assert Globs.parse([pattern]).matches(name) == fnmatchcase(name, re.sub(r"\[\^", "[!", pattern))


def _matches_slowly(pattern: list[str], path: list[str]) -> bool:
    if not pattern:
        return not path
    if pattern[0] == "**" and len(pattern) == 1:
        return bool(path)
    if pattern[0] == "**":
        return any(_matches_slowly(pattern[1:], path[skipped:]) for skipped in range(len(path)))
    return (
        bool(path) and fnmatchcase(path[0], pattern[0]) and _matches_slowly(pattern[1:], path[1:])
    )


@given(
    pattern=st.lists(
        st.sampled_from(["**", "**", "*", "a", "b", "a*", "ab"]), min_size=1, max_size=6
    ),
    path=st.lists(st.sampled_from(["a", "b", "ab", "ba"]), min_size=1, max_size=6),
)
def test_across_folders_it_agrees_with_trying_every_split(
    pattern: list[str], path: list[str]
) -> None:
    assert Globs.parse(["/".join(pattern)]).matches("/".join(path)) == _matches_slowly(
        pattern, path
    )
