"""Cursors: a client sends the cursor of one page to get the next one.

A cursor holds the place of the last note of its page, so notes may come and go between pages.
"""

from __future__ import annotations

import base64
import binascii

import msgspec

from memsyncd.errors import BadRequest


class NotePlace(msgspec.Struct, frozen=True, array_like=True):
    """The place of a note in a list: its path, and the key by which the list is sorted (0 for the
    order of paths). `now_s` is when the first page was read: the worth of sections changes with
    time. `part` counts the workspaces of the list.
    """

    path: str
    key: float = 0.0
    now_s: float = 0.0
    part: int = 0


def encode_cursor(place: NotePlace) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode("ascii")


def decode_cursor(cursor: str | None) -> NotePlace | None:
    """Return the place that a cursor holds; None without one. Raises BadRequest."""
    if cursor is None:
        return None
    try:
        data = base64.b64decode(cursor.encode("ascii"), b"-_", validate=True)
        return msgspec.json.decode(data, type=NotePlace)
    except (UnicodeError, binascii.Error, ValueError):
        hint = "send the cursor as it was received, or none to begin"
        raise BadRequest("this cursor is not valid", hint=hint) from None
