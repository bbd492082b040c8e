"""Where is something in a note? Lines are 1-based and inclusive at both ends, everywhere."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """First and last line, 1-based, inclusive. Raises ValueError unless 1 <= start <= end."""

    start: int
    end: int

    def __post_init__(self) -> None:
        if not 1 <= self.start <= self.end:
            raise ValueError(f"not a span: {self.start}-{self.end}")

    @property
    def n_lines(self) -> int:
        return self.end - self.start + 1

    def is_touching(self, other: Span) -> bool:
        """True if the two overlap or no more than one line lies between them (a blank line between blocks)."""
        return self.start <= other.end + 2 and other.start <= self.end + 2

    def join(self, other: Span) -> Span:
        """The smallest span that holds both."""
        return Span(min(self.start, other.start), max(self.end, other.end))

    def shifted(self, n_lines: int) -> Span:
        return Span(self.start + n_lines, self.end + n_lines)


def span_from_map(line_map: tuple[int, int], *, lines_before: int = 0) -> Span:
    """Turn markdown-it's map (0-based, end exclusive) into a span; `lines_before` were cut off above the parsed text."""
    first, after = line_map
    return Span(first + 1 + lines_before, max(after, first + 1) + lines_before)
