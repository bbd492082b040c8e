"""Which blocks does a markdown text have, found by hand where that is certain, many times faster than by a parser?

The rule for every line here is: be exactly right or say that it is awkward. Awkward regions (html, lazy lines after nested
blocks, multi-line reference definitions) are handed to a parser that is passed in, by way of `regions`. That both ways agree is
proved by an oracle test. Single lines are judged by `linerules`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from memsyncd.core.markdown import linerules as rules
from memsyncd.core.markdown.blocks import BLANKS, CODE, FENCE, HEADING, HTML, ITEM, PARAGRAPH, QUOTE, RULE, TABLE, Block
from memsyncd.core.markdown.regions import RegionParser, is_before_delimiter, read_region

UNCERTAIN: Final = -1


def scan_blocks(lines: Sequence[str], first: int, parse_region: RegionParser) -> list[Block]:
    """The blocks of the lines from `first` on, in order; reference definitions are left out."""
    return _Scan(lines, parse_region).run(first)


class _Scan:
    """One pass over one text. Each `_scan_…` takes the line where a block begins, appends it, and gives the line to go on from,
    or `AWKWARD`.
    """

    __slots__ = ("_blocks", "_lines", "_n", "_parse_region", "_starts", "_undefined_until")

    def __init__(self, lines: Sequence[str], parse_region: RegionParser) -> None:
        self._lines = lines
        self._n = len(lines)
        self._parse_region = parse_region
        self._blocks: list[Block] = []
        self._undefined_until = 0
        self._starts: dict[str, Callable[[int], int]] = {
            "#": self._scan_heading,
            ">": self._scan_quote,
            "`": self._scan_fence,
            "~": self._scan_fence,
            "<": self._scan_html,
            "[": self._scan_reference,
            "-": self._scan_rule_or_list,
            "*": self._scan_rule_or_list,
            "_": self._scan_rule_or_list,
            "+": self._scan_rule_or_list,
            **dict.fromkeys("0123456789", self._scan_rule_or_list),
        }

    def run(self, first: int) -> list[Block]:
        lines, n, special = self._lines, self._n, rules.SPECIAL_STARTS
        at = first
        while at < n:
            line = lines[at]
            if not line:
                at += 1
                continue
            after = self._scan_paragraph(at) if line[0] not in special else self._scan_special(at, line)
            at = after if after > at else self._parse_from(at)
        return self._blocks

    # --- paragraphs, and what may turn out to be one ------------------------------------------------------------------

    def _scan_special(self, at: int, line: str) -> int:
        text = line.lstrip(BLANKS)
        if not text:
            return at + 1
        if rules.is_indented_code(line):
            return self._scan_code(at)
        if "|" in text and at + 1 < self._n and rules.is_table(line, self._lines[at + 1]):
            return self._scan_table(at)
        scan = self._starts.get(text[0])
        return scan(at) if scan else self._scan_paragraph(at)

    def _scan_paragraph(self, at: int) -> int:
        lines, n, special = self._lines, self._n, rules.SPECIAL_STARTS
        end = at + 1
        while end < n:
            line = lines[end]
            if not line:
                break
            if line[0] in special:
                after = self._check_line(at, end, line)
                if after:
                    return after
                if not self._continues(line):
                    break
            end += 1
        self._blocks.append(Block(at, end, PARAGRAPH))
        return end

    def _check_line(self, at: int, end: int, line: str) -> int:
        """Where to go on if this line makes something else than a paragraph of the lines before it; 0 if not."""
        if rules.is_delimiter(line):
            if rules.is_table(self._lines[end - 1], line):
                if end - 1 > at:
                    self._blocks.append(Block(at, end - 1, PARAGRAPH))
                return self._scan_table(end - 1)
        elif rules.may_be_html(line):
            return UNCERTAIN
        level = rules.underline_level(line)
        if level:
            self._blocks.append(Block(at, end + 1, HEADING, level))
            return end + 1
        return 0

    @staticmethod
    def _continues(line: str) -> bool:
        """True if the line, which is no underline, goes on with a paragraph."""
        if not line.strip(BLANKS):
            return False
        return rules.is_indented_code(line) or not rules.is_interrupting(line)

    def _scan_reference(self, at: int) -> int:
        line = self._lines[at]
        if rules.is_reference(line, self._lines[at + 1] if at + 1 < self._n else ""):
            return at + 1
        return UNCERTAIN if self._may_define(at) else self._scan_paragraph(at)

    def _may_define(self, at: int) -> bool:
        """True if a label that opens on this line might close as a definition's; it may go on beyond what ends a paragraph."""
        end = max(at, self._undefined_until)
        while end < self._n and self._lines[end].strip(BLANKS):
            line = self._lines[end]
            if "]:" in line:
                return True
            if end > at and rules.is_terminator(line):
                break
            end += 1
        self._undefined_until = end
        return False

    # --- leaves -------------------------------------------------------------------------------------------------------

    def _scan_heading(self, at: int) -> int:
        level = rules.heading_level(self._lines[at])
        if not level:
            return self._scan_paragraph(at)
        self._blocks.append(Block(at, at + 1, HEADING, level))
        return at + 1

    def _scan_code(self, at: int) -> int:
        end = after = at + 1
        while after < self._n:
            line = self._lines[after]
            after += 1
            if rules.is_indented_code(line) and line.strip(BLANKS):
                end = after
            elif line.strip(BLANKS):
                break
        self._blocks.append(Block(at, end, CODE))
        return end

    def _scan_fence(self, at: int) -> int:
        mark = rules.fence_mark(self._lines[at])
        if not mark:
            return self._scan_paragraph(at)
        end = at + 1
        while end < self._n:
            line = self._lines[end]
            end += 1
            if mark in line and rules.is_closing_fence(line, mark):
                break
        self._blocks.append(Block(at, end, FENCE))
        return end

    def _scan_html(self, at: int) -> int:
        """Comments by hand, as metadata is written in them; other html is awkward."""
        if not self._lines[at].lstrip(BLANKS).startswith("<!--"):
            return UNCERTAIN if rules.may_be_html(self._lines[at]) else self._scan_paragraph(at)
        end = at + 1
        while end <= self._n and "-->" not in self._lines[end - 1]:
            end += 1
        self._blocks.append(Block(at, min(end, self._n), HTML))
        return min(end, self._n)

    def _scan_table(self, at: int) -> int:
        n_columns = rules.count_cells(self._lines[at])
        end, n_missing = at + 2, 0
        while end < self._n:
            line = self._lines[end]
            if not line.startswith("|"):
                if rules.may_be_html(line):
                    return UNCERTAIN
                if not line.strip(rules.TRIMMED) or rules.is_indented_code(line) or rules.is_terminator(line):
                    break
            n_missing += n_columns - rules.count_cells(line)
            if n_missing > rules.MISSING_CELLS_LIMIT:
                break
            end += 1
        self._blocks.append(Block(at, end, TABLE))
        return end

    # --- containers ---------------------------------------------------------------------------------------------------

    def _scan_quote(self, at: int) -> int:
        """Lines with `>`; a plain line may follow only if all before it are one plain paragraph."""
        end, is_plain, is_empty = at, True, False
        is_deep = rules.is_deep(self._lines[at])
        while end < self._n:
            line = self._lines[end]
            content = rules.quoted_text(line)
            if content is not None:
                is_plain = is_plain and rules.is_paragraph_text(content)
                is_empty = not content.strip(BLANKS)
            elif is_empty or not line.strip(BLANKS) or (not rules.is_indented_code(line) and rules.is_terminator(line)):
                break
            elif not (is_deep or (is_plain and rules.is_paragraph_text(line))):
                return UNCERTAIN
            end += 1
        self._blocks.append(Block(at, end, QUOTE))
        return end

    def _scan_rule_or_list(self, at: int) -> int:
        line = self._lines[at]
        if rules.is_rule(line):
            self._blocks.append(Block(at, at + 1, RULE))
            return at + 1
        if not rules.is_marker(line):
            return self._scan_paragraph(at)
        return self._scan_list(at)

    def _scan_list(self, at: int) -> int:
        kind = ""
        while at < self._n:
            line = self._lines[at]
            item = rules.parse_item(line)
            if item is None:
                return self._leave_list(at) if rules.is_marker(line) else at
            if kind not in ("", item.kind) or (item.content[:1] == item.kind and rules.is_rule(line)):
                return at
            kind = item.kind
            end = self._find_item_end(at, item)
            if end == UNCERTAIN:
                return self._leave_list(at)
            self._blocks.append(Block(at, end, ITEM))
            at = end
        return at

    def _find_item_end(self, at: int, item: rules.Item) -> int:
        """The line after an item and the blank lines that follow it."""
        end = at + 1
        if end < self._n and rules.is_marker_at_margin(self._lines[end]):
            return end
        is_plain, was_blank = rules.is_paragraph_text(item.content), not item.content
        if was_blank and end < self._n and not self._lines[end].strip(BLANKS):
            return end + 1
        while end < self._n:
            line = self._lines[end]
            text = line.lstrip(BLANKS)
            if rules.is_marker_at_margin(line):
                return end
            if not text:
                is_plain, was_blank = False, True
            elif rules.indent_width(line) >= item.indent:
                is_plain, was_blank = is_plain and rules.is_paragraph_text(text), False
            elif rules.is_indented_code(line):
                return UNCERTAIN
            elif was_blank or rules.is_terminator(line):
                return end
            elif not (is_plain and rules.is_paragraph_text(text)) and not rules.is_deep(self._lines[at]):
                return UNCERTAIN
            end += 1
        return end

    # --- regions for the parser ---------------------------------------------------------------------------------------

    def _leave_list(self, at: int) -> int:
        """Keep the items found; the one at `at` is awkward. What begins anew there must not be taken for a table's head."""
        while self._blocks and is_before_delimiter(self._lines, at):
            last = self._blocks[-1]
            if last.kind != ITEM or last.end != at:
                break
            at = self._blocks.pop().start
        return self._parse_from(at)

    def _parse_from(self, at: int) -> int:
        while self._blocks and self._blocks[-1].start >= at:
            self._blocks.pop()
        found, after = read_region(self._lines, at, self._parse_region)
        self._blocks.extend(found)
        return after
