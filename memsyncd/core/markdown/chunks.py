"""Split a section into chunks for the index: whole blocks until a chunk is full; the next chunk
repeats its end.

A block is split, at line ends, only if it alone is more than twice too long. Lines are never split:
a line longer than `CHUNK_LIMIT_CHARS` makes several chunks of the same span, so that a search sees
all of it. `sections` decides where a section begins and ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple, Protocol

from memsyncd.core.markdown.blockrules import BLANKS
from memsyncd.core.markdown.scanner import Block
from memsyncd.core.model import (
    CHUNK_LIMIT_CHARS,
    QUARTERS_PER_TOKEN,
    Chunk,
    count_quarters,
    split_long_text,
)


class ChunkPolicy(Protocol):
    """Chunks take at most `max_tokens` and repeat at most `overlap` of the chunk before."""

    @property
    def max_tokens(self) -> int: ...
    @property
    def overlap(self) -> int: ...


WHOLE = slice(0, None)


class Unit(NamedTuple):
    """Lines that are packed as one: a block, or a line of a block that is too long. 0-based, end
    exclusive.
    """

    start: int
    end: int


class Packer:
    """Pack the blocks of one note. Raises ValueError for a policy whose overlap would never end.

    The costs of the lines are summed once, so any run of lines costs one subtraction. Of a part of
    a note, only the lines of `part` can be packed.
    """

    __slots__ = ("_cost_before", "_first", "_lines", "_max", "_overlap")

    def __init__(
        self,
        lines: Sequence[str],
        policy: ChunkPolicy,
        *,
        part: slice = WHOLE,
    ) -> None:
        if not 0 <= policy.overlap < policy.max_tokens:
            raise ValueError(f"not a chunk policy: {policy.overlap} of {policy.max_tokens} tokens")
        # Most lines are ASCII, also of notes that are not: a call for each would take longer.
        costs = [
            (len(line) if line.isascii() else count_quarters(line)) + 1 for line in lines[part]
        ]
        self._cost_before = list(accumulate(costs, initial=0))
        self._first: int = part.start
        self._lines = lines
        self._max = policy.max_tokens * QUARTERS_PER_TOKEN
        self._overlap = policy.overlap * QUARTERS_PER_TOKEN

    def pack(self, anchor: str, start: int, blocks: Sequence[Block]) -> list[Chunk]:
        """Chunks of the blocks in order.

        The first begins at line `start`, the heading's line, at or before its first block.
        """
        end = blocks[-1].end
        if self._cost(start, end) <= self._max:
            # Most sections are short: there is nothing to split and nothing to group.
            return self._make_chunks(anchor, start, end)
        units = self._split_units(blocks)
        chunks: list[Chunk] = []
        for first, last in self._group(start, units):
            chunks += self._make_chunks(
                anchor, units[first].start if first else start, units[last].end
            )
        return chunks

    def _cost(self, start: int, end: int) -> int:
        """Quarters of a token that the lines take, joined by newlines."""
        before = self._cost_before
        return before[end - self._first] - before[start - self._first] - 1

    def _split_units(self, blocks: Sequence[Block]) -> list[Unit]:
        units: list[Unit] = []
        for start, end, _, _ in blocks:
            if self._cost(start, end) <= 2 * self._max:
                units.append(Unit(start, end))
            else:
                units.extend(
                    Unit(at, at + 1) for at in range(start, end) if self._lines[at].strip(BLANKS)
                )
        return units

    def _group(self, start: int, units: Sequence[Unit]) -> Iterator[tuple[int, int]]:
        """The first and last unit of each chunk."""
        if not units:
            return
        first = 0
        for at in range(1, len(units)):
            if self._cost(units[first].start if first else start, units[at].end) > self._max:
                yield first, at - 1
                first = self._next_first_unit(units, first, at)
        yield first, len(units) - 1

    def _next_first_unit(self, units: Sequence[Unit], first: int, at: int) -> int:
        """The first unit of the chunk that must hold unit `at`, after a chunk that began at
        `first`.
        """
        for earlier in range(at - 1, first - 1, -1):
            begin = units[earlier].start
            if (
                self._cost(begin, units[at - 1].end) > self._overlap
                or self._cost(begin, units[at].end) > self._max
            ):
                return earlier + 1
        return max(first, 1)

    def _make_chunks(self, anchor: str, start: int, end: int) -> list[Chunk]:
        text = "\n".join(self._lines[start:end])
        if len(text) <= CHUNK_LIMIT_CHARS:
            return [Chunk(anchor, start + 1, end, text)]
        parts = enumerate(split_long_text(text))
        return [Chunk(anchor, start + 1, end, part, number) for number, part in parts]
