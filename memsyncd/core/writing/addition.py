"""What may somebody ask to be remembered? The content, and what can be known of it; an addition that cannot be is named.

Limits are those of the wire, so that a request which passed there passes here; what it cannot check, one line, words that
metadata can hold, is checked.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from datetime import date
from typing import Final, NoReturn

from memsyncd.core.markdown.blocks import HEADING, Block
from memsyncd.core.markdown.frontmatter import LIFECYCLES, PRIORITIES, distinct_tags
from memsyncd.core.markdown.sections import heading_text
from memsyncd.core.writing.notetext import check_text
from memsyncd.errors import BadRequest, TooLarge

CONTENT_LIMIT_CHARS: Final = 100_000
SUMMARY_LIMIT_CHARS: Final = 200
WORD_LIMIT_CHARS: Final = 200
TAGS_LIMIT: Final = 32
MADE_HEADING_CHARS: Final = 72

_KIND = re.compile(r"\w[\w-]*")
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?")
_NOTHING = ("null", "~")
_ONE_LINE = frozenset({"Cc", "Zl", "Zp"})
_LEADING_MARKS = re.compile(r"\s*(?:(?:[-+*>]|\d{1,9}[.)]|#{1,6}|\[[ xX]\])\s+)*")
_NO_HEADING = re.compile(r"\s*(?:```|~~~|<!--)")
# A dot behind a single letter is that of an abbreviation.
_SENTENCE = re.compile(r"\W*\w.*?(?:(?:(?<!\b\w)\.|[!?])(?=\s|\Z)|[。！？])")
_HAS_WORD = re.compile(r"\w")


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """Something to be remembered. `summary` is the heading; empty, it is made from what the content begins with.

    `importance` is 0-1, `priority` P0-P3, `lifecycle` one of ephemeral, session, task, project, `created` an ISO day or time.
    """

    content: str
    summary: str = ""
    kind: str | None = None
    importance: float | None = None
    priority: str | None = None
    lifecycle: str | None = None
    source: str | None = None
    task: str | None = None
    session: str | None = None
    created: str | None = None
    tags: tuple[str, ...] = ()


def check_addition(addition: Addition) -> None:
    """Raise BadRequest, or TooLarge, naming the field that cannot be."""
    _check_content(addition.content)
    _check_summary(addition.summary)
    for name in ("kind", "source", "task", "session", "created"):
        _check_word(name, getattr(addition, name))
    if addition.kind is not None and not _KIND.fullmatch(addition.kind.strip().lower()):
        _refuse("kind", "is not one word", "letters, digits, `_` and `-`, such as decision")
    if addition.created is not None and not _is_time(addition.created.strip()):
        _refuse("created", "is not an ISO day or time", "write 2026-03-14 or 2026-03-14T09:30:00Z")
    if addition.importance is not None and not 0 <= addition.importance <= 1:
        _refuse("importance", "is not from 0 to 1", "0.9 matters much, 0.1 little")
    _check_choice("priority", addition.priority, PRIORITIES)
    _check_choice("lifecycle", addition.lifecycle, LIFECYCLES)
    if len(addition.tags) > TAGS_LIMIT:
        _refuse("tags", f"are more than {TAGS_LIMIT}", "leave some out")
    for tag in addition.tags:
        _check_word("tags", tag)
        if not distinct_tags([tag]):
            _refuse("tags", "hold an empty one", "leave it out")


def find_choice(said: str, choices: tuple[str, ...]) -> str | None:
    """The one of the words that was meant, whatever its case."""
    return next((choice for choice in choices if choice.lower() == said.strip().lower()), None)


def make_heading(addition: Addition) -> str:
    """The summary, or else the first sentence of the content as plain text, cut at a word if it is long."""
    if addition.summary.strip():
        return " ".join(addition.summary.split())
    for line in re.split(r"[\r\n]+", addition.content):
        text = "" if _NO_HEADING.match(line) else _plain_text(_LEADING_MARKS.sub("", line, count=1))
        if _HAS_WORD.search(text):
            return _shorten(text)
    return addition.kind or "Note"


def _plain_text(text: str) -> str:
    return heading_text([f"# {text}"], Block(0, 1, HEADING, 1))


def _shorten(text: str) -> str:
    found = _SENTENCE.match(text)
    text = found[0].rstrip(".。") if found else text
    if len(text) <= MADE_HEADING_CHARS:
        return text
    cut = text[:MADE_HEADING_CHARS]
    blank = cut.rfind(" ")
    return (cut[:blank] if blank > MADE_HEADING_CHARS // 2 else cut).rstrip(" ,;:-") + "…"


def _check_content(content: str) -> None:
    check_text("content", content)
    if not content.strip():
        _refuse("content", "is empty", "say what is to be remembered")
    if "\0" in content:
        _refuse("content", "holds a NUL", "remove it")
    if len(content) > CONTENT_LIMIT_CHARS:
        raise TooLarge(f"content: is over {CONTENT_LIMIT_CHARS} characters", hint="write it to a note of its own with create")


def _check_summary(summary: str) -> None:
    if not summary.strip():
        return
    check_text("summary", summary)
    if any(unicodedata.category(char) in _ONE_LINE for char in summary.strip()):
        _refuse("summary", "is not one line", "it is the section's heading; put the rest into content")
    if len(summary) > SUMMARY_LIMIT_CHARS:
        raise TooLarge(f"summary: is over {SUMMARY_LIMIT_CHARS} characters", hint="put the rest into content")
    if not _plain_text(summary):
        _refuse("summary", "has no words", "leave it out, and a heading is made from the content")


def _check_word(name: str, word: str | None) -> None:
    if word is None:
        return
    check_text(name, word)
    if not word.strip() or word.strip() in _NOTHING:
        _refuse(name, "says nothing", "leave it out")
    if any(unicodedata.category(char) in _ONE_LINE for char in word):
        _refuse(name, "is not one line", "remove line ends and control characters")
    if len(word) > WORD_LIMIT_CHARS:
        raise TooLarge(f"{name}: is over {WORD_LIMIT_CHARS} characters", hint="say it in fewer words")


def _check_choice(name: str, said: str | None, choices: tuple[str, ...]) -> None:
    if said is not None and find_choice(said, choices) is None:
        _refuse(name, f"is none of {', '.join(choices)}", "use one of these, or leave it out")


def _is_time(text: str) -> bool:
    try:
        return bool(_TIME.fullmatch(text)) and date.fromisoformat(text[:10]) is not None
    except ValueError:
        return False


def _refuse(name: str, problem: str, hint: str) -> NoReturn:
    raise BadRequest(f"{name}: {problem}", hint=hint)
