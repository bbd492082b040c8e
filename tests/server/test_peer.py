from __future__ import annotations

import os
import socket

from memsyncd.server.connection import is_gone, is_own_user, read_peer


def test_the_kernel_says_whose_the_other_end_is() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs:
        assert read_peer(ours) == (os.geteuid(), os.getpid())


def test_only_the_same_user_is_our_own() -> None:
    assert is_own_user(os.geteuid())
    assert not is_own_user(os.geteuid() + 1)
    assert not is_own_user(-1)


def test_one_that_sends_no_more_but_reads_is_not_gone() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs:
        assert not is_gone(ours)
        theirs.shutdown(socket.SHUT_WR)
        assert not is_gone(ours)
        theirs.close()
        assert is_gone(ours)
