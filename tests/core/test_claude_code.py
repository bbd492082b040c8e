from __future__ import annotations

import json
import re

from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.paths import (
    find_project,
    list_project_folders,
    name_project_memory,
    slug_project,
)

PARTS = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1)
PATHS = st.lists(PARTS, min_size=1, max_size=5).map(lambda parts: "/" + "/".join(parts))


def test_a_project_has_the_folder_that_claude_code_gives_it() -> None:
    for path, slug in (
        ("/home/ann/code/my_api.v2", "-home-ann-code-my-api-v2"),
        ("/srv/Ünï code", "-srv--n--code"),
        ("/a/😀b", "-a---b"),
        # As Claude Code 2.1 names them.
        ("/x" * 100, "-x" * 100),
        ("/xy" * 70, ("-xy" * 67)[:200] + "-typurk"),
    ):
        assert slug_project(path) == slug, path


@given(PATHS)
def test_a_folder_name_is_plain_and_short_and_depends_on_the_path_alone(path: str) -> None:
    slug = slug_project(path)
    assert re.fullmatch(r"[A-Za-z0-9-]+", slug)
    assert slug == slug_project(path)
    assert len(slug) <= 200 + 1 + 7


@given(PATHS, PATHS)
def test_a_project_is_looked_for_from_a_path_upwards_but_not_at_home(path: str, home: str) -> None:
    folders = list(list_project_folders(path, home))
    assert folders[0] == path
    assert all(f"{path}/".startswith(f"{folder}/") for folder in folders)
    assert not any(f"{home}/".startswith(f"{folder}/") for folder in folders[1:])
    assert folders == sorted(folders, key=len, reverse=True)


@given(PATHS, st.lists(PARTS, max_size=2), st.text(max_size=20), st.booleans())
def test_a_project_is_found_in_a_transcript_of_a_session_in_it(
    project: str, deeper: list[str], noise: str, is_ascii: bool
) -> None:
    cwd = "/".join([project, *deeper])
    lines = [{"type": "summary", "text": noise}, {"cwd": "/elsewhere"}, {"cwd": cwd, "x": noise}]
    transcript = "\n".join(json.dumps(line, ensure_ascii=is_ascii) for line in lines)
    folder = find_project(transcript, slug_project(project))
    assert slug_project(folder) == slug_project(project)
    assert f"{cwd}/".startswith(f"{folder}/") or folder == "/elsewhere"


def test_without_a_matching_folder_in_a_transcript_the_project_is_unknown() -> None:
    assert find_project('{"cwd":"/a/b"}\n{"cwd": "\\', "-a-c") == ""
    assert find_project('{"cwd":"\\ud800\\x"}', "-a-c") == ""


def test_a_memory_is_named_by_its_project_or_by_its_folder() -> None:
    assert name_project_memory("/home/ann/api", "-home-ann-api", "/home/ann") == "claude-api"
    assert name_project_memory("", "-home-ann-code-api", "/home/ann") == "claude-code-api"
    assert name_project_memory("/a\nb", "-a-b", "/home/ann") == "claude-a-b"
    assert name_project_memory("", "-", "/") == "claude-root"
