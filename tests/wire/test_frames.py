from __future__ import annotations

from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from memsyncd.wire.frames import TOO_LONG, LineSplitter, TooLong, join_lines

PIECES = st.lists(st.binary(max_size=20), max_size=20)
STREAMS = st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\r\n", b" ", b"{}", b"x" * 9, b"\xff"]), max_size=40).map(b"".join)


def read_all(pieces: list[bytes], *, max_line_bytes: int) -> list[bytes | TooLong]:
    splitter = LineSplitter(max_line_bytes)
    return [line for piece in pieces for line in splitter.push(piece)] + splitter.end()


def expect(stream: bytes, *, max_line_bytes: int) -> list[bytes | TooLong]:
    """The same, said in one line for a stream that is whole."""
    lines = (line for line in stream.split(b"\n") if line.strip() or len(line) > max_line_bytes)
    return [TOO_LONG if len(line) > max_line_bytes else line for line in lines]


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(stream) + 1) for place in places), len(stream)]
    return [stream[start:end] for start, end in pairwise(edges)]


@given(STREAMS, st.lists(st.integers(0, 1000), max_size=12), st.integers(1, 12))
@example(b"abc\ndef", [1, 3, 4], 3)
@example(b"abcd\ndef\n", [1, 2, 3, 4, 5], 3)
def test_any_split_of_the_bytes_reads_the_same(stream: bytes, places: list[int], max_line_bytes: int) -> None:
    assert read_all(cut(stream, places), max_line_bytes=max_line_bytes) == expect(stream, max_line_bytes=max_line_bytes)


@given(STREAMS)
def test_bytes_one_by_one_read_the_same(stream: bytes) -> None:
    one_by_one = [bytes([byte]) for byte in stream]
    assert read_all(one_by_one, max_line_bytes=5) == read_all([stream], max_line_bytes=5)


def test_a_line_is_given_with_its_newline_and_not_before() -> None:
    splitter = LineSplitter(100)
    assert splitter.push(b'{"id"') == []
    assert splitter.is_inside_line
    assert splitter.push(b":1}\n{") == [b'{"id":1}']
    assert splitter.is_inside_line
    assert splitter.push(b"}\n") == [b"{}"]
    assert not splitter.is_inside_line


def test_a_line_of_exactly_the_cap_is_read() -> None:
    assert read_all([b"12345\n123456\n"], max_line_bytes=5) == [b"12345", TOO_LONG]


def test_a_line_over_the_cap_is_said_once_and_at_once_and_what_follows_is_read() -> None:
    splitter = LineSplitter(5)
    assert splitter.push(b"1234") == []
    assert splitter.push(b"56") == [TOO_LONG]
    assert [line for _ in range(1000) for line in splitter.push(b"more")] == []
    assert splitter.is_inside_line
    assert splitter.push(b"\nnext\n") == [b"next"]


def test_an_unfinished_line_at_the_end_counts() -> None:
    assert read_all([b"a\nb"], max_line_bytes=9) == [b"a", b"b"]


def test_a_discarded_line_at_the_end_is_not_said_twice() -> None:
    assert read_all([b"123456"], max_line_bytes=5) == [TOO_LONG]


def test_blank_lines_say_nothing() -> None:
    assert read_all([b"\n\r\n  \n\ta\n\n"], max_line_bytes=9) == [b"\ta"]


def test_answers_leave_one_a_line() -> None:
    assert join_lines([b"{}", b"[]"]) == b"{}\n[]\n"
