r"""Render the difference between two texts of a note as a unified diff.

Lines end at `\n` alone, so that other line ends are visible and none is lost. The common beginning
and end are set aside first: they are nearly all of both texts, and the comparison of lines takes
time in proportion to the product of their numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from memsyncd.core.paths import show_path

CONTEXT_LINES = 3
# If the product of the numbers of old and new lines is above this, all old lines are shown as
# replaced by all new lines.
COMPARED_LIMIT = 4_000_000
NOTHING = "/dev/null"
NO_NEWLINE = "\\ No newline at end of file"

Opcode = tuple[str, int, int, int, int]


def render_diff(old: bytes | None, new: bytes | None, *, old_name: str, new_name: str) -> str:
    """A unified diff with headers, or an empty text if both are equal.

    None means no file; invalid UTF-8 is shown as U+FFFD.
    """
    if old == new:
        return ""
    before, after = _split(old or b""), _split(new or b"")
    lines = [
        f"--- {NOTHING if old is None else show_path(old_name)}",
        f"+++ {NOTHING if new is None else show_path(new_name)}",
    ]
    matcher = SequenceMatcher(a=before, b=after, autojunk=False)
    # `get_grouped_opcodes` uses this attribute instead of its own comparison.
    matcher.opcodes = compare_lines(before, after)  # type: ignore[attr-defined]
    for group in matcher.get_grouped_opcodes(CONTEXT_LINES):
        lines.append(_render_head(group))
        lines.extend(_render_group(group, before, after))
    return "".join(f"{line}\n" for line in lines)


def _split(data: bytes) -> list[str]:
    """Split into lines with their line ends, so that a missing last line end is a difference."""
    text = data.decode("utf-8", "replace")
    lines = text.split("\n")
    last = lines.pop()
    return [f"{line}\n" for line in lines] + ([last] if last else [])


def compare_lines(before: Sequence[str], after: Sequence[str]) -> list[Opcode]:
    """Return the opcodes of `SequenceMatcher`; too many different lines count as replaced."""
    shorter = min(len(before), len(after))
    head = next((at for at in range(shorter) if before[at] != after[at]), shorter)
    tail = next(
        (at for at in range(shorter - head) if before[-1 - at] != after[-1 - at]), shorter - head
    )
    old_end, new_end = len(before) - tail, len(after) - tail
    opcodes: list[Opcode] = [("equal", 0, head, 0, head)] if head else []
    if (old_end - head) * (new_end - head) > COMPARED_LIMIT:
        opcodes.append(("replace", head, old_end, head, new_end))
    else:
        middle = SequenceMatcher(a=before[head:old_end], b=after[head:new_end], autojunk=False)
        opcodes += [
            (tag, a + head, b + head, c + head, d + head)
            for tag, a, b, c, d in middle.get_opcodes()
        ]
    if tail:
        opcodes.append(("equal", old_end, len(before), new_end, len(after)))
    return opcodes


def _render_head(group: Sequence[Opcode]) -> str:
    _, old_start, _, new_start, _ = group[0]
    _, _, old_end, _, new_end = group[-1]
    return f"@@ -{_render_lines(old_start, old_end)} +{_render_lines(new_start, new_end)} @@"


def _render_lines(start: int, end: int) -> str:
    """The first line and the number of lines, as `diff` counts.

    For no lines, the first number is the line before them.
    """
    n_lines = end - start
    if n_lines == 1:
        return str(start + 1)
    return f"{start + 1 if n_lines else start},{n_lines}"


def _render_group(
    group: Sequence[Opcode], before: Sequence[str], after: Sequence[str]
) -> Iterator[str]:
    for tag, old_start, old_end, new_start, new_end in group:
        if tag == "equal":
            yield from _render_marked(" ", before[old_start:old_end])
            continue
        yield from _render_marked("-", before[old_start:old_end])
        yield from _render_marked("+", after[new_start:new_end])


def _render_marked(mark: str, lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        yield mark + line.removesuffix("\n")
        if not line.endswith("\n"):
            yield NO_NEWLINE
