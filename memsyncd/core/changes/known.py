"""Keep what the index recorded of all files in compact form, so that a scan can skip those that are
unchanged without a look at the index.

A note's stat is packed into 32 bytes and compared as a whole. A note is packed as NEVER_SAME, which
equals no stat, if a scan must always look at it: its record is racy, its name may have to be
reported, or a number does not fit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

from memsyncd.core.changes.diff import FileStat, is_racy_stat
from memsyncd.core.notepath import MEMORY_FILE, MEMORY_FOLDER, is_note_name, is_rule_path

NEVER_SAME = b""
# The memory tool cannot reach this note, and every scan reports it.
SHADOWED = f"{MEMORY_FOLDER}/{MEMORY_FILE}"

KnownStats = Mapping[str, bytes]
"""The packed stat of every recorded note by path."""

pack_stat = struct.Struct("<4q").pack
"""Packs size, mtime_ns, ctime_ns and inode. Raises struct.error for a number over 63 bits."""


def pack_record(path: str, stat: FileStat, read_at_ns: int) -> bytes:
    """Return the packed stat that the file must have for a scan to skip it, or NEVER_SAME."""
    if is_racy_stat(stat, read_at_ns) or not has_ordinary_name(path):
        return NEVER_SAME
    try:
        return pack_stat(stat.size_bytes, stat.mtime_ns, stat.ctime_ns, stat.inode)
    except struct.error:
        return NEVER_SAME


def has_ordinary_name(path: str) -> bool:
    """True if a scan has nothing to report about the name of this note."""
    return (
        path.isascii()
        and path.isprintable()
        and "conflict" not in path
        and (is_note_name(path.rpartition("/")[2]) or is_rule_path(path))
        and path != SHADOWED
    )


def find_not_skipped(known: KnownStats, skipped: Iterable[str]) -> set[str]:
    """Return the known notes that a scan has not skipped: changed, not seen, or NEVER_SAME."""
    return set(known).difference(skipped)
