"""As few folders as possible are watched, and no event that matters is missed."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.changes.watchplan import (
    ANY_DEPTH,
    NO_INCLUDES,
    Include,
    Includes,
    Watch,
    find_include_refusal,
    is_relevant,
    parse_include,
    plan_watches,
)
from memsyncd.core.paths import RULE_GLOBS, Globs, find_refusal, is_rule_path
from memsyncd.errors import BadRequest

ROOT = "/home/ada/proj"
INCLUDES = Includes.parse(["README.md", "docs/**/*.md", "notes/plans/*.md"])


def plan(
    *folders: str, includes: Includes = NO_INCLUDES, link_folders: tuple[str, ...] = ()
) -> set[tuple[str, str]]:
    """The plan as pairs of a folder below the root and how it is watched; these folders exist."""
    existing = {ROOT, *(f"{ROOT}/{folder}" for folder in folders), *link_folders}
    watches = plan_watches(
        ROOT, includes, is_folder=existing.__contains__, link_folders=link_folders
    )
    return {(watch.folder.removeprefix(ROOT), _how(watch)) for watch in watches}


def _how(watch: Watch) -> str:
    if watch.is_pruned:
        return "pruned"
    return "link" if watch.is_link_target else "deep" if watch.is_recursive else "flat"


def test_the_root_is_watched_without_its_subfolders_and_the_memories_recursively() -> None:
    assert plan(".memories", "src", "node_modules") == {("", "flat"), ("/.memories", "deep")}


def test_an_include_is_watched_where_its_fixed_part_ends() -> None:
    for includes, folders, watched in (
        ("docs/**/*.md", "docs", "docs:deep"),
        ("docs/*.md", "docs", "docs:flat"),
        ("README.md", "", ""),
        # Each folder on the way is watched for its renaming.
        ("a/b/c/*/x.md", "a a/b a/b/c", "a:flat a/b:flat a/b/c:deep"),
        # For a missing folder the nearest folder above is watched.
        ("a/b/c/*.md", "a", "a:flat"),
        # A folder below a recursive watch is not watched again.
        ("docs/*.md docs/** docs/api/*.md", "docs docs/api", "docs:deep"),
    ):
        planned = plan(*folders.split(), includes=Includes.parse(includes.split()))
        expected = {(f"/{folder}", how) for folder, how in (w.split(":") for w in watched.split())}
        assert planned == {("", "flat"), *expected}, includes


def test_for_a_missing_root_the_nearest_folder_above_is_watched() -> None:
    for existing, nearest in (({"/", "/home"}, "/home"), ({"/"}, "/")):
        watches = plan_watches(ROOT, INCLUDES, is_folder=existing.__contains__)
        assert watches == {Watch(nearest, is_recursive=False)}


@pytest.mark.parametrize("pattern", ["**", "**/*.md", "*/README.md", "doc?/x.md"])
def test_an_include_over_every_folder_has_the_whole_root_watched_without_pruned_folders(
    pattern: str,
) -> None:
    includes = Includes.parse([pattern, "docs/*.md"])
    assert plan(".memories", "docs", "src", includes=includes) == {
        ("", "pruned"),
        ("/.memories", "deep"),
        ("/docs", "flat"),
    }


def test_a_whole_root_is_watched_only_once_a_scan_knows_the_pruned_folders() -> None:
    watches = plan_watches(
        ROOT, Includes.parse(["**"]), is_folder={ROOT}.__contains__, is_scanned=False
    )
    assert watches == {Watch(ROOT, is_recursive=False)}


@pytest.mark.parametrize(
    ("paths", "is_expected"),
    [
        ("a.md a/b/c.md a/ .gitignore a/.gitignore .memories/x.md", True),
        ("a/b.png .git/ .git/x.md .git/.gitignore a/node_modules/ a/node_modules/b/c.md", False),
    ],
)
def test_events_in_a_whole_folder_are_relevant_outside_of_pruned_folders(
    paths: str, is_expected: bool
) -> None:
    includes = Includes.parse(["**"])
    for path in paths.split():
        is_folder = path.endswith("/")
        is_seen = is_relevant(path.removesuffix("/"), is_folder=is_folder, includes=includes)
        assert is_seen == is_expected, path


def test_for_a_missing_folder_of_a_link_target_the_nearest_is_watched() -> None:
    includes = Includes.parse(["docs/*.md"])
    existing = {ROOT, f"{ROOT}/docs"}
    watches = plan_watches(
        ROOT,
        includes,
        is_folder=existing.__contains__,
        link_folders=[f"{ROOT}/docs/a/b", f"{ROOT}/x"],
    )
    assert {watch.folder for watch in watches if watch.is_link_target} == {f"{ROOT}/docs", ROOT}


def test_the_folders_of_link_targets_are_watched() -> None:
    assert plan(link_folders=("/elsewhere/notes",)) == {("", "flat"), ("/elsewhere/notes", "link")}


def test_an_include_knows_its_folder_and_depth() -> None:
    for pattern, include in (
        ("./README.md", Include(pattern="README.md", path="README.md", depth=0)),
        ("*.md", Include(pattern="*.md", path="", depth=0)),
        ("docs/", Include(pattern="docs/**", path="docs", depth=ANY_DEPTH)),
        ("docs/**", Include(pattern="docs/**", path="docs", depth=ANY_DEPTH)),
        ("docs/a*/b.txt", Include(pattern="docs/a*/b.txt", path="docs", depth=1)),
        ("docs/x/*", Include(pattern="docs/x/*", path="docs/x", depth=0)),
        ("docs/x.[mt]?", Include(pattern="docs/x.[mt]?", path="docs", depth=0)),
    ):
        assert parse_include(pattern) == include, pattern


def test_a_scan_walks_each_place_once() -> None:
    places = Includes.parse(["**", "**/*.md", "docs/*.txt", "docs/*.md", "docs/a.md"]).places
    walked = [(include.path, include.depth) for include in places]
    assert walked == [("", ANY_DEPTH), ("docs", 0), ("docs/a.md", 0)]


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("/etc/x.md", "from the workspace's root"),
        ("../x.md", "`..`"),
        (".claude/CLAUDE.md", "hidden"),
        ("docs/.x/*.md", "hidden"),
        ("src/*.py", "cannot match a note"),
        ("docs", "cannot match a note"),
        ("docs/*.{md,txt}", "braces"),
        ("", "empty"),
    ],
)
def test_an_include_that_cannot_be_watched_cheaply_is_refused_with_its_reason(
    pattern: str, reason: str
) -> None:
    assert reason in find_include_refusal(pattern)
    with pytest.raises(BadRequest, match=re.escape(reason)):
        Includes.parse(["ok.md", pattern])


RELEVANT = (
    "/ MEMORY.md .memories/ .memories/a.md .memories/a/b.txt .memories/a/ README.md docs/ docs"
    " docs/a/b.md docs/a/ notes/ notes/plans/ notes/plans/x.md"
)
NOT_RELEVANT = (
    "MEMORY.md~ MEMORY.md.tmp.123.abc .MEMORY.md.swp 4913 src/ other.md doc/ .memories2/"
    " .memories/.git/ .memories/.git/x.md .memories/#a.md# .memories/.#a.md .memories/a.png"
    " docs/.hidden/x.md docs/x.py notes/x.md notes/other/ notes/plans/deeper/"
    " notes/plans/deeper/x.md"
)


@pytest.mark.parametrize("is_expected", [True, False])
def test_only_events_that_could_concern_memory_are_relevant(is_expected: bool) -> None:
    """A slash at the end stands for a folder."""
    for path in (RELEVANT if is_expected else NOT_RELEVANT).split():
        is_folder = path.endswith("/")
        is_seen = is_relevant(path.removesuffix("/"), is_folder=is_folder, includes=INCLUDES)
        assert is_seen == is_expected, path


def test_excluded_paths_are_not_relevant() -> None:
    excludes = Globs.parse_excludes(["drafts/", "*.tmp.md"])
    for path, is_folder in (
        (".memories/drafts", True),
        (".memories/drafts/a.md", False),
        (".memories/a.tmp.md", False),
    ):
        assert is_relevant(path, is_folder=is_folder)
        assert not is_relevant(path, is_folder=is_folder, excludes=excludes)


PARTS = st.sampled_from(["docs", "notes", "plans", "a", "b.md", "c.txt", "*.md", "**", "*"])
PATTERNS = (
    st.lists(PARTS, min_size=1, max_size=4)
    .map("/".join)
    .filter(lambda pattern: not find_include_refusal(pattern))
)
PATHS = st.lists(
    st.sampled_from(["docs", "notes", "plans", "a", "b.md", "c.txt"]), min_size=1, max_size=5
)


@given(patterns=st.lists(PATTERNS, max_size=3), parts=PATHS)
def test_every_path_that_an_include_matches_is_in_a_watched_folder(
    patterns: list[str], parts: list[str]
) -> None:
    includes, path = Includes.parse(patterns), "/".join(parts)
    watches = plan_watches(ROOT, includes, is_folder=lambda folder: True)
    assert Watch(ROOT, is_recursive=True) not in watches
    is_whole = Watch(ROOT, is_recursive=True, is_pruned=True) in watches
    assert is_whole == any(include.is_whole for include in includes.places)
    if includes.named_globs.matches(path) or includes.whole.matches(path):
        folder = f"{ROOT}/{path}".rpartition("/")[0]
        assert any(
            watch.folder == folder or (watch.is_recursive and folder.startswith(f"{watch.folder}/"))
            for watch in watches
        )
        for depth in range(1, len(parts)):
            assert is_relevant("/".join(parts[:depth]), is_folder=True, includes=includes)


# --- Rules of agents ------------------------------------------------------------------------------


@pytest.mark.parametrize("pattern", RULE_GLOBS)
def test_the_hidden_rules_of_agents_may_be_included(pattern: str) -> None:
    assert not find_include_refusal(pattern)
    assert is_rule_path(pattern.replace("**/*", "a/b"))
    assert not find_refusal(pattern.replace("**/*", "a"))


def test_nothing_else_that_is_hidden_is_a_path() -> None:
    for path in (
        ".cursor/mcp.json .cursor/rules/a.md .cursor/rules/.x/a.mdc .cursor/rules/../a.mdc"
        " .cursor/rules/.mdc .cursor/a.mdc .cursorrules/a.md .cursorrules2 .github/workflows/ci.md"
        " .github/instructions/a.md docs/.cursorrules .git/config"
    ).split():
        assert find_refusal(path), path
        assert find_include_refusal(path), path


def test_rules_are_watched_and_their_events_relevant() -> None:
    includes = Includes.parse(RULE_GLOBS)
    seen = plan_watches("/w", includes, is_folder=lambda path: ".github" not in path)
    folders = {(watch.folder, watch.is_recursive) for watch in seen}
    assert {("/w", False), ("/w/.cursor", False), ("/w/.cursor/rules", True)} <= folders
    for path in (".cursorrules", ".cursor/rules/a/b.mdc", ".github/copilot-instructions.md"):
        assert is_relevant(path, is_folder=False, includes=includes)
        assert not is_relevant(path, is_folder=False, includes=INCLUDES)
    for path in (".cursor", ".cursor/rules", ".cursor/rules/a", ".github"):
        assert is_relevant(path, is_folder=True, includes=includes)
    assert not is_relevant(".cursor/rules/.x", is_folder=True, includes=includes)
    assert not is_relevant(".github/workflows", is_folder=True, includes=includes)
