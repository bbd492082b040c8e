"""Where does one message end and the next begin? At a newline; a line over its cap is thrown away up to its end.

Pure: bytes in, lines out, however the bytes were cut. What a line means is `messages`' question.
"""

from __future__ import annotations


class TooLong:
    """Stands for a line that went over the cap. It is given as soon as the cap is passed, once for each such line."""

    __slots__ = ()


TOO_LONG = TooLong()


class LineSplitter:
    """Cuts a stream of bytes at newlines, holding no more than `max_line_bytes` of an unfinished line.

    Blank lines are not given. A carriage return before the newline is left in place: to JSON it is white space.
    """

    __slots__ = ("_is_discarding", "_max_line_bytes", "_partial")

    def __init__(self, max_line_bytes: int) -> None:
        self._max_line_bytes = max_line_bytes
        self._partial = bytearray()
        self._is_discarding = False

    @property
    def is_inside_line(self) -> bool:
        """True while a line has begun and not ended, even if what it holds is being thrown away."""
        return bool(self._partial) or self._is_discarding

    @property
    def n_held_bytes(self) -> int:
        """Of the unfinished line."""
        return len(self._partial)

    def push(self, data: bytes) -> list[bytes | TooLong]:
        """Take the next bytes of the stream, give the lines that they finish, in order and without their newlines."""
        lines: list[bytes | TooLong] = []
        first, newline, rest = data.partition(b"\n")
        self._hold(first, lines)
        if newline:
            self._finish(lines)
            whole, _, tail = rest.rpartition(b"\n")
            self._add_whole(whole, lines)
            self._hold(tail, lines)
        return lines

    def end(self) -> list[bytes | TooLong]:
        """The stream has ended: what is left counts as a line."""
        lines: list[bytes | TooLong] = []
        self._finish(lines)
        return lines

    def _hold(self, data: bytes, lines: list[bytes | TooLong]) -> None:
        if self._is_discarding or not data:
            return
        if len(self._partial) + len(data) > self._max_line_bytes:
            self._is_discarding = True
            self._partial = bytearray()  # a new one: clear() would keep the memory of a long line
            lines.append(TOO_LONG)
        else:
            self._partial += data

    def _finish(self, lines: list[bytes | TooLong]) -> None:
        if self._partial:
            line = bytes(self._partial)
            self._partial = bytearray()
            if not line.isspace():
                lines.append(line)
        self._is_discarding = False

    def _add_whole(self, data: bytes, lines: list[bytes | TooLong]) -> None:
        for line in data.split(b"\n"):
            if len(line) > self._max_line_bytes:
                lines.append(TOO_LONG)
            elif line and not line.isspace():
                lines.append(line)


def join_lines(answers: list[bytes]) -> bytes:
    """The bytes to send for these messages: each one line."""
    return b"\n".join(answers) + b"\n"
