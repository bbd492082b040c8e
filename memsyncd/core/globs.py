"""Match paths against glob patterns.

Patterns cover whole paths below a root and compile to one expression.

`*`, `?` and `[a-z]` match within one name. `**` as a whole part matches any number of folders, and
a `/` at the end matches everything beneath. Upper and lower case differ; composed and decomposed
accents do not. A wildcard matches a leading dot, so that an exclusion reaches into `.memories`;
`notepath` decides whether a hidden name may be a note.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field

from memsyncd.errors import BadRequest

GLOB_LIMIT_CHARACTERS = 1024
# In one pattern. Compiling takes a millisecond for each 40 wildcards, or 1,000 characters.
WILDCARDS_LIMIT = 16
WILDCARDS = re.compile(r"[*?\[]")
_NAME_PART = "[^/]"
_BENEATH = "(?:/.*)?"


@dataclass(frozen=True, slots=True)
class Globs:
    """Patterns that match together; an empty set matches nothing.

    Made by `parse` or `parse_excludes`.
    """

    patterns: tuple[str, ...]
    _regex: re.Pattern[str] | None = field(repr=False, compare=False)

    @classmethod
    def parse(cls, patterns: Iterable[str]) -> Globs:
        """Patterns from the root: `README.md` is the root's own.

        Raises BadRequest with the reason of `find_glob_refusal`.
        """
        kept = tuple(_tidy(pattern) for pattern in patterns)
        return cls(kept, _compile(translate_glob(pattern) for pattern in kept))

    @classmethod
    def parse_excludes(cls, patterns: Iterable[str]) -> Globs:
        """Exclusions as people write them: a name without `/` matches at any depth, and a folder
        includes everything beneath it.

        Raises BadRequest with the reason of `find_glob_refusal`.
        """
        kept = tuple(_tidy(pattern) for pattern in patterns)
        return cls(kept, _compile(translate_glob(_float(pattern)) + _BENEATH for pattern in kept))

    def matches(self, path: str) -> bool:
        """True if one of the patterns matches this path, written from the root with `/` between
        parts.
        """
        if self._regex is None:
            return False
        return (
            self._regex.fullmatch(path if path.isascii() else unicodedata.normalize("NFC", path))
            is not None
        )


NO_GLOBS = Globs((), None)


def find_glob_refusal(pattern: str) -> str:
    """The reason why this text is not a pattern below a root, or an empty string."""
    if not pattern or "\0" in pattern:
        return "it is empty or holds a NUL"
    if len(pattern) > GLOB_LIMIT_CHARACTERS:
        return f"it is over {GLOB_LIMIT_CHARACTERS} characters"
    if sum(map(pattern.count, "*?[")) > WILDCARDS_LIMIT:
        return f"it holds over {WILDCARDS_LIMIT} wildcards"
    if pattern.startswith(("/", "~")):
        return "it must be written from the workspace's root, not from / or ~"
    if "{" in pattern:
        return "braces are not understood: write one pattern for each"
    parts = pattern.removeprefix("./").removesuffix("/").split("/")
    if any(part in ("", ".", "..") for part in parts):
        return "it holds an empty part, `.` or `..`"
    return ""


def find_file_glob_refusal(pattern: str) -> str:
    """The reason why this text is not the path of files in one folder below a root, with wildcards
    in its last part alone; or an empty string.
    """
    folder, _, name = pattern.rpartition("/")
    if not name:
        return "it names no file"
    if has_wildcard(folder):
        return "wildcards may stand in its last part alone"
    return find_glob_refusal(pattern)


def has_wildcard(text: str) -> bool:
    """True if the text contains `*`, `?` or `[`."""
    return WILDCARDS.search(text) is not None


def _tidy(pattern: str) -> str:
    reason = find_glob_refusal(pattern)
    if reason:
        raise BadRequest(
            f"pattern {pattern!r} refused: {reason}", hint="write it from the root, as docs/**/*.md"
        )
    return unicodedata.normalize("NFC", pattern.removeprefix("./"))


def _float(pattern: str) -> str:
    name = pattern.removesuffix("/")
    return name if "/" in name else f"**/{name}"


def _compile(expressions: Iterable[str]) -> re.Pattern[str] | None:
    joined = "|".join(expressions)
    return re.compile(joined, re.DOTALL) if joined else None


def translate_glob(pattern: str) -> str:
    """One expression for a whole path; nothing is checked."""
    # The blocks are the runs of parts between the `**`s.
    if pattern.endswith("/"):
        pattern += "**"
    blocks: list[list[str]] = [[]]
    for part in pattern.split("/"):
        if part == "**":
            blocks.append([])
        else:
            blocks[-1].append(_translate_part(part))
    if len(blocks) == 1:
        return "/".join(blocks[0])
    return _join_blocks(blocks)


def _join_blocks(blocks: list[list[str]]) -> str:
    first, *middle, last = blocks
    head = "".join(f"{part}/" for part in first)
    # Atomic: the leftmost match of a block leaves most room for the next `**`, so the group loses
    # no match, and backtracking cannot explode.
    body = "".join(
        f"(?>(?:{_NAME_PART}+/)*?{''.join(f'{part}/' for part in block)})"
        for block in middle
        if block
    )
    tail = f"(?:{_NAME_PART}+/)*{'/'.join(last)}" if last else ".+"
    return head + body + tail


def _translate_part(part: str) -> str:
    expressions = _split_at_stars(part)
    if len(expressions) == 1:
        return expressions[0]
    first, *middle, last = expressions
    if not (first or last or any(middle)):
        return f"{_NAME_PART}+"
    body = "".join(f"(?>{_NAME_PART}*?{expression})" for expression in middle if expression)
    return f"{first}{body}{_NAME_PART}*{last}"


def _split_at_stars(part: str) -> list[str]:
    """The expressions between the stars of one name."""
    expressions = [""]
    at = 0
    while at < len(part):
        char = part[at]
        close = (
            part.find("]", at + 2 + (part[at + 1 : at + 2] in ("!", "^"))) if char == "[" else -1
        )
        if char == "*":
            expressions.append("")
        elif char == "?":
            expressions[-1] += _NAME_PART
        elif close > 0:
            expressions[-1] += _translate_set(part[at + 1 : close])
            at = close
        else:
            expressions[-1] += re.escape(char)
        at += 1
    return expressions


def _translate_set(content: str) -> str:
    """`[a-z]`, `[!a-z]`: one character of a name. A reversed range matches nothing."""
    is_negated = content[0] in "!^"
    ranges = re.findall(r"(.)-(.)|(.)", content[1:] if is_negated else content, re.DOTALL)
    inside = "".join(
        re.escape(single) if single else f"{re.escape(low)}-{re.escape(high)}"
        for low, high, single in ranges
        if single or low <= high
    )
    if is_negated:
        return f"[^/{inside}]"
    return f"(?!/)[{inside}]" if inside else "(?!)"
