from __future__ import annotations

import pytest

from memsyncd.workspace.names import is_leftover, show_name


@pytest.mark.parametrize(
    "name",
    [
        "4913", "sedAb12cD", "a.md~", "a.md.swp", ".a.md.swo", "#a.md#", ".#a.md", "MEMORY.md.tmp.123.0123456789ab", "a.tmp",
        "a.vsctmp", "a.md___jb_tmp___", "a.md___jb_old___", ".syncthing.a.md.tmp", ".goutputstream-X1", "a.part",
    ],
)  # fmt: skip
def test_what_tools_leave_for_a_while_is_known(name: str) -> None:
    assert is_leftover(name)


@pytest.mark.parametrize("name", ["a.json", "notes", "a.xml", "template.py", "sed.txt.bak", "49130", "swp", "tmpfs", "a.md.orig"])
def test_what_somebody_may_have_written_is_no_leftover(name: str) -> None:
    assert not is_leftover(name)


def test_any_name_can_be_shown() -> None:
    assert show_name("a\udcffb.md") == "a\ufffdb.md"
    assert show_name("ñ.md") == "ñ.md"
