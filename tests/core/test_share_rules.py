"""What leaves a machine, how trees are merged, and when the remote is asked."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memsyncd.config import Config, ShareConfig
from memsyncd.core.paths import Globs
from memsyncd.operations.share.rules import (
    WHOLE_NOTE,
    Policy,
    RecordedChange,
    Times,
    find_commit_time,
    find_fetch_time,
    find_password,
    find_synced_folder,
    plan_commits,
    select_text,
)
from memsyncd.operations.share.trees import Sides, merge_trees

SECRET = "AKIAQ3EGRZ7XJ4WLT2PM"
CONFIG = Config()
POLICY = Policy(chunking=CONFIG.chunking, guard=CONFIG.guard, exclude=Globs.parse(()))

# --- what leaves --------------------------------------------------------------------------------

PARTS = st.lists(
    st.tuples(st.integers(2, 4), st.sampled_from(["plain", "secret", "session"])),
    min_size=1,
    max_size=7,
)
COMMENTS = {"session": "<!-- memory: {lifecycle: session} -->\n", "plain": "", "secret": ""}


def render(parts: list[tuple[int, str]]) -> str:
    text = "# Notes\n"
    for number, (level, kind) in enumerate(parts):
        key = f" {SECRET}" if kind == "secret" else ""
        text += f"\n{'#' * level} Part {number}\n{COMMENTS[kind]}{kind}{number}x{key}\n"
    return text


@given(PARTS)
@settings(max_examples=60)
def test_a_section_that_must_stay_stays_with_the_sections_beneath_it_and_all_others_leave(
    parts: list[tuple[int, str]],
) -> None:
    selected = select_text("a.md", render(parts).encode(), None, POLICY)
    stays: set[int] = set()
    level = 0
    for number, (own, kind) in enumerate(parts):
        level = 0 if level and own <= level else level
        level = level or (own if kind != "plain" else 0)
        stays |= {number} if level else set()
    text = (selected.data or b"").decode()
    assert SECRET not in text
    left = {number for number, (_, kind) in enumerate(parts) if f"{kind}{number}x\n" in text}
    assert left == set(range(len(parts))) - stays
    assert bool(selected.held) == bool(stays)


@given(PARTS, PARTS)
@settings(max_examples=40)
def test_the_shared_text_of_a_section_that_must_stay_leaves_in_its_place(
    parts: list[tuple[int, str]], more: list[tuple[int, str]]
) -> None:
    shared = render([(level, "plain") for level, _ in parts]).encode()
    kinds = [(level, "plain" if kind == "session" else kind) for level, kind in parts]
    now = render([*kinds, *((2, kind) for _, kind in more)])
    selected = select_text("a.md", now.encode(), shared, POLICY)
    # Each section that the machines share is there, and what is new without a secret is, too.
    new = [number for number, (_, kind) in enumerate(more, len(parts)) if kind == "plain"]
    text = (selected.data or b"").decode()
    assert SECRET not in text
    assert text.count("## Part") == len(parts) + len(new)
    assert all(f"plain{number}x\n" in text for number in [*range(len(parts)), *new])
    assert bool(selected.held) == (SECRET in now or "session" in now)


def test_a_note_of_which_no_section_can_leave_is_named_as_a_whole() -> None:
    shared = "# Notes\n\nwords\n"
    selected = select_text("a.md", f"# Notes\n\n{SECRET}\n".encode(), shared.encode(), POLICY)
    assert selected.data is None
    assert [(each.heading, each.reason) for each in selected.held] == [
        ("", WHOLE_NOTE),
        ("Notes", "it has a secret: AWS access key"),
    ]
    assert SECRET not in str(select_text("a.md", f"## {SECRET}\n".encode(), None, POLICY).held)


def test_a_note_whose_name_has_a_secret_stays() -> None:
    path = f".memories/keys/{SECRET}.md"
    selected = select_text(path, b"# A\n\nwords\n", None, POLICY)
    assert selected.data is None
    assert [held.reason for held in selected.held] == ["its name has a secret"]


# --- trees --------------------------------------------------------------------------------------

PATHS = st.sampled_from("abcdef")
TREES = st.dictionaries(PATHS, st.sampled_from("123456789"), max_size=6)


@given(TREES, TREES, TREES, st.dictionaries(PATHS, PATHS), st.dictionaries(PATHS, PATHS))
@settings(max_examples=300)
def test_trees_are_merged_alike_from_both_sides_and_keep_each_change(
    base: dict[str, str],
    ours: dict[str, str],
    theirs: dict[str, str],
    moved_ours: dict[str, str],
    moved_theirs: dict[str, str],
) -> None:
    # A move leads from a file of the base that is gone to a new file.
    moves = [
        {
            old: new
            for new, old in {new: old for old, new in moved.items()}.items()
            if old in base and old not in side and new in side and new not in base
        }
        for moved, side in ((moved_ours, ours), (moved_theirs, theirs))
    ]
    merged = merge_trees(base, ours, theirs, moves[0], moves[1])
    swapped = merge_trees(base, theirs, ours, moves[1], moves[0])
    assert {path: describe(sides) for path, sides in merged.items()} == {
        path: describe(sides) for path, sides in swapped.items()
    }
    present = {blob for sides in merged.values() for blob in describe(sides)}
    for side in (ours, theirs):
        known = set(base.values())
        assert {blob for blob in side.values() if blob not in known} <= present
    # Whoever has merged and merges again changes nothing.
    tree = {path: sides.chosen or "x" for path, sides in merged.items()}
    again = merge_trees(theirs, tree, theirs, {}, {})
    assert {path: sides.chosen for path, sides in again.items()} == tree


def describe(sides: Sides) -> list[str]:
    return [sides.chosen] if sides.chosen else sorted([sides.ours, sides.theirs])


# --- commits and times --------------------------------------------------------------------------


def test_each_writer_has_a_commit_in_the_words_of_the_history() -> None:
    changes = [
        RecordedChange("a.md", "codex@desk", "share"),
        RecordedChange("a.md", "claude <code>\n", "note.add"),
        RecordedChange("b.md", "", "external"),
    ]
    plans = plan_commits(["a.md", "b.md", "c.md"], changes, "laptop")
    assert [(plan.writer, plan.paths) for plan in plans] == [
        ("", ("b.md", "c.md")),
        ("claude code", ("a.md",)),
    ]
    assert plans[1].message == "note.add a.md\n\nMemsyncd-Machine: laptop\n"
    assert plans[0].message.startswith("external, save in 2 notes\n\nexternal b.md\nsave c.md\n")


def test_commits_wait_for_a_quiet_time_and_the_remote_is_asked_less_often_while_it_is_away() -> (
    None
):
    pace = ShareConfig(quiet_s=60, fetch_s=300)
    assert find_commit_time(Times(), pace) is None
    assert find_commit_time(Times(changed_s=0, latest_s=100), pace) == 160
    assert find_commit_time(Times(changed_s=0, latest_s=5000), pace) == 600
    waits = [
        find_fetch_time(Times(asked_s=0, n_failures=n), pace, 0.5) for n in (0, 1, 2, 3, 4, 5, 99)
    ]
    assert waits == [300, 300, 600, 1200, 2400, 3600, 3600]
    spread = [find_fetch_time(Times(asked_s=0), pace, chance) for chance in (0.0, 1.0)]
    assert spread == pytest.approx([240, 360])


def test_an_address_with_a_password_is_recognised() -> None:
    for remote, has_password in (
        ("https://me:token@example.org/a.git", True),
        ("https://ghp_token@example.org/a.git", True),
        ("ssh://git@example.org/a.git", False),
        ("git@example.org:a.git", False),
        ("https://example.org/a.git", False),
        ("/home/me/a:b@c.git", False),
    ):
        assert find_password(remote) == has_password, remote


def test_folders_that_another_service_copies_are_recognised() -> None:
    assert find_synced_folder("/home/me/Dropbox/notes") == "Dropbox"
    assert find_synced_folder("/Users/me/Library/Mobile Documents/x") == "Mobile Documents"
    assert find_synced_folder("/home/me/notes/boxes") == ""
