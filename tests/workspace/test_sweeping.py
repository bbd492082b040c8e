from __future__ import annotations

import os
from pathlib import Path

from memsyncd.core.notepath import NotePath
from memsyncd.workspace.scope import parse_scope
from memsyncd.workspace.sweeping import sweep_temporaries

LEFT = ".memsyncd-0123456789abcdef.tmp"
KNOWN = [b"x"]


def test_sweeping_takes_what_was_left_here_and_above_and_nothing_else(root: Path) -> None:
    for path in (LEFT, f".memories/{LEFT}", f".memories/a/{LEFT}", f".memories/b/{LEFT}", ".memories/a/.other.tmp"):
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_text("x")
    aside = root / ".memories" / LEFT.replace("0", "f")
    (aside / "b/c").mkdir(parents=True)
    (aside / "b/c/d.md").write_text("x")
    sweep_temporaries(parse_scope(str(root)), NotePath(".memories/a/n.md"), KNOWN)
    left = sorted(str(place.relative_to(root)) for place in root.rglob("*"))
    assert left == [".memories", ".memories/a", ".memories/a/.other.tmp", ".memories/b", f".memories/b/{LEFT}"]


def test_sweeping_where_the_folder_is_gone_takes_what_was_left_above(root: Path) -> None:
    (root / ".memories" / LEFT).write_text("x")
    (root / LEFT).write_text("x")
    sweep_temporaries(parse_scope(str(root)), NotePath(".memories/gone/too/n.md"), KNOWN)
    assert os.listdir(root) == [".memories"]
    assert os.listdir(root / ".memories") == []
    sweep_temporaries(parse_scope(str(root.parent / "gone")), NotePath("MEMORY.md"), KNOWN)


def test_sweeping_leaves_alone_what_lies_behind_a_link_out(root: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / LEFT).write_text("x")
    (root / ".memories/link").symlink_to(tmp_path / "out")
    for scope in (parse_scope(str(root)), parse_scope(str(root), allow_links_to=[str(tmp_path / "out")])):
        sweep_temporaries(scope, NotePath(".memories/link/n.md"), KNOWN)
    assert (tmp_path / "out" / LEFT).exists()


def test_what_somebody_wrote_in_the_last_instant_gets_its_name_back_or_one_beside_it(root: Path) -> None:
    (root / f".memories/{LEFT}").write_text("theirs")
    sweep_temporaries(parse_scope(str(root)), NotePath(".memories/a.md"), [b"old", b"new"])
    (root / f".memories/{LEFT}").write_text("theirs, too")
    (root / f".memories/{LEFT.replace('0', 'f')}").write_text("ne")
    sweep_temporaries(parse_scope(str(root)), NotePath(".memories/a.md"), [b"old", b"new"])
    found = {place.name: place.read_text() for place in (root / ".memories").iterdir()}
    assert found == {"a.md": "theirs", "a_conflict-1.md": "theirs, too"}


def test_a_folder_in_which_somebody_wrote_gets_its_name_back(root: Path) -> None:
    aside = root / ".memories" / LEFT
    for path, text in (("b/old.md", "old"), ("b/c/new.md", "theirs")):
        (aside / path).parent.mkdir(parents=True, exist_ok=True)
        (aside / path).write_text(text)
    sweep_temporaries(parse_scope(str(root)), NotePath(".memories/a/b/old.md"), [b"old"])
    assert (root / ".memories/a/b/c/new.md").read_text() == "theirs"
    assert not aside.exists()
