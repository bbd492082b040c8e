"""Resident memory is reported as the system reports it, and threads share one heap."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys

import pytest

from memsyncd.daemon.resources import freeze_loaded_objects, read_rss_bytes
from tests.benchmarks.process import read_rss_mb

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux reports the memory of a process"
)

ALLOCATE = """
import sys, threading

if sys.argv[1] == "shared":
    from memsyncd.daemon.resources import use_one_malloc_arena

    use_one_malloc_arena()
kept = []
thread = threading.Thread(target=lambda: kept.extend(bytearray(50_000) for _ in range(100)))
thread.start()
thread.join()
maps = [line.split()[:2] for line in open("/proc/self/maps")]
spans = [tuple(int(end, 16) for end in place.split("-")) for place, rights in maps if rights == "---p"]
print(sum(end - start > 32 * 1024 * 1024 for start, end in spans))
"""
# The C library reserves 64 MB of address space for each heap but the first.


def count_further_heaps(mode: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", ALLOCATE, mode],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return int(done.stdout)


def test_resident_memory_is_that_of_the_system() -> None:
    assert abs(read_rss_bytes() / 1024**2 - read_rss_mb(os.getpid())) < 16


@pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "mallopt"), reason="this C library has one heap anyway"
)
def test_a_thread_allocates_from_the_common_heap() -> None:
    assert count_further_heaps("own") == 1
    assert count_further_heaps("shared") == 0


def test_the_collector_skips_the_loaded_program() -> None:
    n_visited = len(gc.get_objects())
    freeze_loaded_objects()
    try:
        assert len(gc.get_objects()) < n_visited / 10
    finally:
        gc.unfreeze()
