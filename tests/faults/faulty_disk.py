"""A disk that fails on request: the n-th system call of SQLite returns an error.

SQLite's own file layer stays in use, with other system calls, so an error takes the same way up as
on a disk that fails by itself. A write that fails has written half of its bytes.
"""

from __future__ import annotations

import ctypes
import errno
from dataclasses import dataclass
from typing import Any, Self

import apsw

SYSTEM = ctypes.CDLL(None, use_errno=True)
N_BYTES, OFFSET = ctypes.c_size_t, ctypes.c_int64
CALLS: dict[str, tuple[Any, ...]] = {
    "pread64": (ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p, N_BYTES, OFFSET),
    "pwrite64": (ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p, N_BYTES, OFFSET),
    "ftruncate": (ctypes.c_int, ctypes.c_int, OFFSET),
    "unlink": (ctypes.c_int, ctypes.c_char_p),
    "mmap": (
        ctypes.c_void_p,
        ctypes.c_void_p,
        N_BYTES,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        OFFSET,
    ),
}
"""Result and arguments of each, as the C library declares it."""
WRITES = frozenset({"pwrite64"})
FAILED = {"mmap": ctypes.c_void_p(-1).value}
"""What a call gives back that has failed, where that is not -1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A failure of the `at`-th call from now on (1 is the next).

    If it `lasts`, all calls after it fail too, until the disk is repaired.
    """

    at: int
    error: int
    lasts: bool = False

    def is_met(self, n_calls: int) -> bool:
        return n_calls >= self.at if self.lasts else n_calls == self.at

    def concerns(self, name: str) -> bool:
        """True if this call fails: a full disk can still be read."""
        return self.error != errno.ENOSPC or name in WRITES


class FaultyDisk:
    """Within `with`, the faults apply to all calls of SQLite in this process."""

    def __init__(self) -> None:
        self._vfs = apsw.VFS("faulty", "unix")
        self._fault: Fault | None = None
        self._n_calls = 0
        self._calls = {name: self._make_call(name, kinds) for name, kinds in CALLS.items()}

    def __enter__(self) -> Self:
        for name, call in self._calls.items():
            if not self._vfs.xSetSystemCall(name, ctypes.cast(call, ctypes.c_void_p).value):
                raise LookupError(name)
        return self

    def __exit__(self, *_: object) -> None:
        for name in self._calls:
            self._vfs.xSetSystemCall(name, 0)
        self._vfs.unregister()

    def expect(self, fault: Fault) -> None:
        self._fault, self._n_calls = fault, 0

    def repair(self) -> bool:
        """End all faults. Return true if one has occurred."""
        has_failed = self.has_failed
        self._fault = None
        return has_failed

    @property
    def has_failed(self) -> bool:
        return self._fault is not None and self._n_calls >= self._fault.at

    def _make_call(self, name: str, kinds: tuple[Any, ...]) -> Any:
        real = getattr(SYSTEM, name)
        real.restype, *real.argtypes = kinds

        def call(*arguments: Any) -> Any:
            fault = self._fault
            if fault is None or not fault.concerns(name):
                return real(*arguments)
            self._n_calls += 1
            if not fault.is_met(self._n_calls):
                return real(*arguments)
            if name in WRITES:
                file, data, n_bytes, offset = arguments
                real(file, data, n_bytes // 2, offset)
            ctypes.set_errno(fault.error)
            return FAILED.get(name, -1)

        return ctypes.CFUNCTYPE(*kinds, use_errno=True)(call)


def find_calls() -> set[str]:
    """Return the names of the system calls that SQLite allows to replace here."""
    vfs = apsw.VFS("looked at", "unix")
    try:
        names: set[str] = set()
        name = None
        while (name := vfs.xNextSystemCall(name)) is not None:
            names.add(name)
        return names
    finally:
        vfs.unregister()
