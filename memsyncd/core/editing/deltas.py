"""Store a text as its difference from another: the lengths of the common beginning and end, and the
packed middle.

Most edits change one place, so a delta is small. Where an edit changes several places, the other
text's middle is deflate's dictionary. A whole text is a delta on an empty one. A delta does not
name its base: the caller checks the result.
"""

from __future__ import annotations

import zlib
from functools import partial

_PLAIN, _DEFLATED = 0, 1
# At the best speed: a tenth larger than by default, in a fifth of the time, for which every write
# of a note has to wait.
_RAW_DEFLATE = -15
# Deflate looks back no further.
_WINDOW_BYTES = 32 * 1024
# Numbers of seven bits a byte: texts are below 4 TiB.
_NUMBER_LIMIT_BYTES = 6


class DeltaBroken(ValueError):
    """These bytes are no delta, or not one on that text."""


def make_delta(base: bytes, target: bytes) -> bytes:
    """The delta from `base` to `target`."""
    n_before = _count_shared_start(base, target)
    n_after = _count_shared_end(base[n_before:], target[n_before:])
    middle = target[n_before : len(target) - n_after]
    packed = _deflate(middle, base[n_before : len(base) - n_after])
    method, body = (_DEFLATED, packed) if len(packed) < len(middle) else (_PLAIN, middle)
    return b"".join((bytes([method]), *map(_write_number, (n_before, n_after, len(middle))), body))


def apply_delta(base: bytes, delta: bytes) -> bytes:
    """The text that `make_delta` was given.

    Raises DeltaBroken on a delta that cannot belong to a base of this length.
    """
    if not delta:
        raise DeltaBroken("nothing is no delta")
    n_before, at = _read_number(delta, 1)
    n_after, at = _read_number(delta, at)
    n_middle, at = _read_number(delta, at)
    if n_before + n_after > len(base):
        raise DeltaBroken("it stands on more text than there is")
    end = len(base) - n_after
    if delta[0] not in (_PLAIN, _DEFLATED):
        raise DeltaBroken("it is packed in an unknown way")
    middle = (
        delta[at:] if delta[0] == _PLAIN else _inflate(delta[at:], base[n_before:end], n_middle)
    )
    if len(middle) != n_middle:
        raise DeltaBroken("its text has another length than it says")
    return b"".join((base[:n_before], middle, base[end:]))


def _count_shared_start(one: bytes, other: bytes) -> int:
    """By halves, so that memcmp does the comparing."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _count_shared_end(one: bytes, other: bytes) -> int:
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[len(one) - middle : len(one) - low] == other[len(other) - middle : len(other) - low]:
            low = middle
        else:
            high = middle - 1
    return low


def _deflate(text: bytes, known: bytes) -> bytes:
    window = known[-_WINDOW_BYTES:]
    begin = partial(zlib.compressobj, level=zlib.Z_BEST_SPEED, wbits=_RAW_DEFLATE)
    packer = begin(zdict=window) if window else begin()
    return packer.compress(text) + packer.flush()


def _inflate(packed: bytes, known: bytes, size: int) -> bytes:
    unpacker = zlib.decompressobj(wbits=_RAW_DEFLATE, zdict=known[-_WINDOW_BYTES:])
    try:
        # One byte more than expected, so that a text that is too short or too long is noticed, and
        # no bomb is unpacked.
        text = unpacker.decompress(packed, size + 1)
    except zlib.error as error:
        raise DeltaBroken("its text cannot be unpacked") from error
    if not unpacker.eof or unpacker.unused_data:
        raise DeltaBroken("its text has another length than it says")
    return text


def _write_number(number: int) -> bytes:
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)


def _read_number(data: bytes, at: int) -> tuple[int, int]:
    """A number and the offset of its end."""
    number = 0
    for place, byte in enumerate(data[at : at + _NUMBER_LIMIT_BYTES]):
        number |= (byte & 0x7F) << (7 * place)
        if byte <= 0x7F:
            return number, at + place + 1
    raise DeltaBroken("it ends too soon")
