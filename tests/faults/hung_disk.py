"""A disk that never answers.

`unshare -m python hung_disk.py` reads `hang FOLDER` and `release FOLDER`, a line each, from stdin.
It mounts a FUSE file system over the folder and never reads its requests, so every access to the
folder waits. A release takes the mount away and closes the device: waiting accesses then fail, and
the folder beneath is back. Other processes join with `nsenter`; when this process ends, its mounts
are gone with their namespace.
"""

from __future__ import annotations

import ctypes
import os
import sys

MNT_DETACH = 2


def hang(libc: ctypes.CDLL, folder: str) -> int:
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()
    if libc.mount(b"hung", folder.encode(), b"fuse", 0, options):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return device


def release(libc: ctypes.CDLL, folder: str, device: int) -> None:
    if libc.umount2(folder.encode(), MNT_DETACH):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    os.close(device)


def main() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    devices: dict[str, int] = {}
    print("ready", flush=True)
    for line in sys.stdin:
        action, _, folder = line.rstrip("\n").partition(" ")
        try:
            if action == "hang":
                devices[folder] = hang(libc, folder)
            else:
                release(libc, folder, devices.pop(folder))
        except OSError as error:
            print(f"failed: {error}", flush=True)
        else:
            print("done", flush=True)


if __name__ == "__main__":
    main()
