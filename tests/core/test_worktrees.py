from __future__ import annotations

import posixpath

from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.paths import GONE, MOVED, Worktree, identify_worktree, read_pointer

LINKED = {
    "/wt/.git": "gitdir: /main/.git/worktrees/wt\n",
    "/main/.git/worktrees/wt/commondir": "../..\n",
    "/main/.git/worktrees/wt/gitdir": "/wt/.git\n",
    "/main/.git/worktrees/wt/HEAD": "ref: refs/heads/wt\n",
}


def identify(files: dict[str, str], top: str = "/wt") -> Worktree | None:
    return identify_worktree(top, files.get, posixpath.normpath)


def test_a_linked_worktree_leads_to_the_main_one_by_absolute_and_relative_pointers() -> None:
    worktree = Worktree(top="/wt", main="/main", repository="/main/.git")
    assert identify(LINKED) == worktree
    relative = {
        **LINKED,
        "/wt/.git": "gitdir: ../main/.git/worktrees/wt\n",
        "/main/.git/worktrees/wt/gitdir": "../../../../wt/.git\n",
    }
    assert identify(relative) == worktree


def test_a_pointer_that_is_not_returned_is_not_followed() -> None:
    for changed, trouble in (
        ({"/main/.git/worktrees/wt/gitdir": "/elsewhere/.git"}, MOVED),
        ({"/main/.git/worktrees/wt/gitdir": ""}, MOVED),
        (dict.fromkeys([*LINKED][1:], ""), None),
    ):
        worktree = identify({**LINKED, **changed})
        assert worktree == (trouble and Worktree(top="/wt", trouble=trouble)), changed


def test_a_worktree_without_its_repository_says_so_and_a_submodule_does_not() -> None:
    assert identify({"/wt/.git": LINKED["/wt/.git"]}) == Worktree(top="/wt", trouble=GONE)
    assert identify({"/wt/.git": "gitdir: ../.git/modules/wt"}) is None
    assert identify({}) is None


@given(
    texts=st.lists(st.text(max_size=40) | st.sampled_from([*LINKED.values()]), min_size=4),
)
def test_a_main_worktree_belongs_to_a_repository_that_lists_this_one_for_any_files(
    texts: list[str],
) -> None:
    files = dict(zip(LINKED, texts, strict=False))
    worktree = identify(files)
    if worktree is not None and worktree.main is not None:
        back = read_pointer(files["/main/.git/worktrees/wt/gitdir"])
        assert back is not None
        assert posixpath.normpath(posixpath.join("/main/.git/worktrees/wt", back)) == "/wt/.git"
        assert worktree.repository == "/main/.git"
