from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from memsyncd.files import confined
from memsyncd.files.confined import (
    FILE_FLAGS,
    FOLDER_FLAGS,
    ConfinedPath,
    NotRegularError,
    choose_opener,
    find_target,
    open_beneath,
    open_part_by_part,
)


@pytest.fixture(params=["best", "part by part"])
def opener(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways of opening: with openat2, and part by part."""
    if request.param == "best":
        choose_opener.cache_clear()
    else:
        monkeypatch.setattr(confined, "choose_opener", lambda: open_part_by_part)
    return str(request.param)


def read(folder: Path, path: str) -> bytes:
    fd = open_beneath(str(folder), path)
    try:
        return os.read(fd, 100)
    finally:
        os.close(fd)


def count_descriptors() -> int:
    return len(os.listdir("/dev/fd"))


@pytest.mark.usefixtures("opener")
class TestOpenBeneath:
    def test_a_regular_file_opens_at_any_depth(self, root: Path) -> None:
        (root / "a/b").mkdir(parents=True)
        (root / "a/b/c.md").write_text("c")
        (root / "d.md").write_text("d")
        assert (read(root, "a/b/c.md"), read(root, "d.md")) == (b"c", b"d")

    @pytest.mark.parametrize("path", ["../x.md", "a/../../x.md", "/etc/passwd", "", "a/.."])
    def test_a_path_that_leads_out_is_refused(self, root: Path, path: str) -> None:
        with pytest.raises(OSError, match="leads out") as caught:
            open_beneath(str(root), path)
        assert caught.value.errno == errno.EXDEV

    @pytest.mark.parametrize("target", ["/etc/passwd", "real.md", "/proc/self/fd/0"])
    def test_a_link_as_the_last_part_is_not_followed(self, root: Path, target: str) -> None:
        (root / "real.md").write_text("x")
        (root / "link.md").symlink_to(target)
        with pytest.raises(OSError) as caught:  # noqa: PT011 - the error number is compared
            open_beneath(str(root), "link.md")
        assert caught.value.errno == errno.ELOOP

    def test_a_link_as_a_folder_of_the_path_is_not_followed(self, root: Path) -> None:
        (root / "real").mkdir()
        (root / "real/a.md").write_text("x")
        (root / "link").symlink_to("real")
        with pytest.raises(OSError) as caught:  # noqa: PT011
            open_beneath(str(root), "link/a.md")
        assert caught.value.errno in (errno.ELOOP, errno.ENOTDIR)

    def test_a_root_swapped_for_a_link_is_not_followed(self, root: Path) -> None:
        (root / "a.md").write_text("x")
        swapped = root.parent / "swapped"
        swapped.symlink_to(root)
        with pytest.raises(OSError):  # noqa: PT011
            open_beneath(str(swapped), "a.md")

    def test_a_fifo_is_refused_without_waiting_for_a_writer(self, root: Path) -> None:
        os.mkfifo(root / "fifo.md")
        with pytest.raises(NotRegularError):
            open_beneath(str(root), "fifo.md")

    def test_a_folder_and_a_device_are_refused(self, root: Path) -> None:
        (root / "folder.md").mkdir()
        with pytest.raises(NotRegularError):
            open_beneath(str(root), "folder.md")
        with pytest.raises(NotRegularError):
            open_beneath("/dev", "null")

    def test_a_missing_file_raises_file_not_found(self, root: Path) -> None:
        for path in ("gone.md", "gone/a.md"):
            with pytest.raises(FileNotFoundError):
                open_beneath(str(root), path)

    def test_no_descriptor_is_left_open_and_none_is_inherited(self, root: Path) -> None:
        (root / "a").mkdir()
        (root / "a/b.md").write_text("x")
        os.mkfifo(root / "fifo.md")
        before = count_descriptors()
        for path in ("a/b.md", "a/gone.md", "gone/b.md", "fifo.md", "a/b.md/c.md"):
            try:
                fd = open_beneath(str(root), path)
            except OSError:
                continue
            assert not os.get_inheritable(fd)
            os.close(fd)
        assert count_descriptors() == before

    def test_a_folder_that_is_swapped_for_a_link_while_files_are_opened_never_leads_out(
        self, root: Path
    ) -> None:
        (root / "in").mkdir()
        (root / "in/a.md").write_text("inside")
        (root.parent / "out").mkdir()
        (root.parent / "out/a.md").write_text("outside")
        (root / "link").symlink_to(root.parent / "out")
        stop = threading.Event()

        def swap() -> None:
            while not stop.is_set():
                os.rename(root / "in", root / "kept")
                os.rename(root / "link", root / "in")
                os.rename(root / "in", root / "link")
                os.rename(root / "kept", root / "in")

        swapper = threading.Thread(target=swap)
        swapper.start()
        seen = set()
        try:
            for _ in range(2000):
                try:
                    seen.add(read(root, "in/a.md"))
                except OSError:
                    continue
        finally:
            stop.set()
            swapper.join()
        assert seen <= {b"inside"}


def test_a_target_has_the_folder_that_holds_it(root: Path, tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared/a.md").write_text("x")
    (root / "out.md").symlink_to(tmp_path / "shared/a.md")
    (root / "up").symlink_to(root)
    shared = os.path.realpath(tmp_path / "shared")
    assert find_target(f"{root}/out.md", [str(root)]) is None
    assert find_target(f"{root}/out.md", [str(root), shared]) == ConfinedPath(shared, "a.md")
    assert find_target(f"{root}/up", [str(root)]) == ConfinedPath(str(root), "")


@pytest.mark.skipif(choose_opener() is open_part_by_part, reason="the kernel has no openat2")
@pytest.mark.parametrize(
    "path", ["../outside.md", "in/../../outside.md", "{root}/in/a.md", "{root}/../outside.md"]
)
def test_the_kernel_opens_nothing_outside_the_open_folder(root: Path, path: str) -> None:
    (root / "in").mkdir()
    for place in (root / "in/a.md", root.parent / "outside.md"):
        place.write_text("x")
    folder_fd = os.open(root, FOLDER_FLAGS)
    try:
        with pytest.raises(OSError) as caught:  # noqa: PT011 - the error number is compared
            choose_opener()(folder_fd, path.format(root=root), FILE_FLAGS)
    finally:
        os.close(folder_fd)
    assert caught.value.errno == errno.EXDEV
