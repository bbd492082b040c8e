"""Add memories to a note: check each addition, and append it as a section of its own.

The text of the note stays as it is. `append_section` first adds a missing final newline, and closes
a fence or comment that was left open, because it would take in the new section. Then it adds a
blank line and the section. `sections.contain` keeps the content within its section.

The limits are the same as in the protocol, so a request that passes there passes here. This module
also checks rules that the protocol cannot: texts of one line, words that metadata can hold. A
section's metadata is YAML in one HTML comment on one line, and is read back as it was written.
Values are plain where that is safe, and quoted elsewhere. No value can end the comment.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import date
from functools import partial
from types import MappingProxyType
from typing import Final, NamedTuple, NoReturn

import msgspec

from memsyncd.core.editing.kinds import is_kind
from memsyncd.core.editing.sections import (
    check_text,
    contain,
    count_lines,
    find_closing_lines,
    join_texts,
    make_heading_line,
    open_text,
    split_note_sections,
    unify_line_ends,
    write_line_ends,
)
from memsyncd.core.markdown.decode import decode_note
from memsyncd.core.markdown.frontmatter import distinct_tags, find_front_matter
from memsyncd.core.markdown.scanner import HEADING, Block, heading_level, split_blocks
from memsyncd.core.markdown.sections import (
    RawSection,
    heading_text,
    split_sections,
    split_sections_below,
)
from memsyncd.core.memories import SECTION_LEVEL
from memsyncd.core.model import (
    CHOICES,
    OTHER_KEYS,
    Meta,
    OutlineSection,
    Span,
    find_choice,
    parse_expiry,
    path_words,
)
from memsyncd.core.paths import MARKDOWN_SUFFIXES, MEMORY_FILE, is_markdown
from memsyncd.errors import BadRequest, EditRefused, TooLarge

# --- Checks ---------------------------------------------------------------------------------------

CONTENT_LIMIT_CHARS: Final = 100_000
SUMMARY_LIMIT_CHARS: Final = 200
WORD_LIMIT_CHARS: Final = 200
TAGS_LIMIT: Final = 32
TOPIC_LIMIT_CHARS: Final = 100
KEYWORDS_LIMIT: Final = 20
KEYWORD_LIMIT_CHARS: Final = 100
METADATA_LIMIT: Final = 50
METADATA_LIMIT_CHARS: Final = 2000
MADE_HEADING_CHARS: Final = 72

_TIME = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?"
)
_NOTHING = ("null", "~")
_ONE_LINE = frozenset({"Cc", "Zl", "Zp"})
_LEADING_MARKS = re.compile(r"\s*(?:(?:[-+*>]|\d{1,9}[.)]|#{1,6}|\[[ xX]\])\s+)*")
_NO_HEADING = re.compile(r"\s*(?:```|~~~|<!--)")
# A dot after a single letter belongs to an abbreviation and ends no sentence.
_SENTENCE = re.compile(r"\W*\w.*?(?:(?:(?<!\b\w)\.|[!?])(?=\s|\Z)|[。！？])")
_HAS_WORD = re.compile(r"\w")
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,99}")
_OWN_KEYS: Final = frozenset({*Meta.__struct_fields__, *OTHER_KEYS, "keywords", "topic", "scope"})


class Addition(msgspec.Struct, frozen=True, kw_only=True):
    """A memory to add. `summary` is the heading; if it is empty, the heading is made from the
    beginning of the content.

    `importance` is 0-1, `priority` P0-P3, `lifecycle` one of ephemeral, session, task, project.
    `created` is an ISO day or time; without it, the section states the present time, unless it
    `is_undated`. `run_id` names the run of the program that captured the memory.
    A `source` may be a mapping. `metadata` has further keys, which the writer chooses.
    """

    content: str
    summary: str = ""
    kind: str | None = None
    importance: float | None = None
    priority: str | None = None
    lifecycle: str | None = None
    status: str | None = None
    source: str | Mapping[str, str] | None = None
    task: str | None = None
    session: str | None = None
    created: str | None = None
    is_undated: bool = False
    updated: str | None = None
    expires: str | None = None
    topic: str | None = None
    scope: str | None = None
    keywords: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, str] = MappingProxyType({})
    run_id: str | None = None


def check_addition(addition: Addition, *, most_chars: int = CONTENT_LIMIT_CHARS) -> None:
    """Raise BadRequest or TooLarge, which names each invalid field; several faults are listed as
    `faults` in the data of the error. `most_chars` limits the content.
    """
    raise_faults(find_faults(addition, most_chars=most_chars))


def raise_faults(faults: Sequence[BadRequest]) -> None:
    """Raise one error for all faults; nothing if there are none."""
    if not faults:
        return
    if len(faults) == 1:
        raise faults[0]
    raise BadRequest(
        "; ".join(fault.message for fault in faults),
        hint=" ".join(dict.fromkeys(f"{describe_fault(fault)['hint']}." for fault in faults)),
        faults=[describe_fault(fault) for fault in faults],
    )


def describe_fault(fault: BadRequest) -> dict[str, str]:
    field, _, problem = fault.message.partition(": ")
    return {"field": field, "problem": problem, "hint": fault.hint}


def find_faults(addition: Addition, *, most_chars: int = CONTENT_LIMIT_CHARS) -> list[BadRequest]:
    """Return one error for each different fault, in the order of the fields."""
    faults: dict[str, BadRequest] = {}
    for check in _list_checks(addition, most_chars):
        try:
            check()
        except BadRequest as fault:
            # Several keywords may have the same fault; it is reported once.
            faults.setdefault(fault.message, fault)
    return [*faults.values()]


def _list_checks(addition: Addition, most_chars: int) -> Iterator[Callable[[], None]]:
    yield partial(_check_content, addition.content, most_chars)
    yield partial(_check_summary, addition.summary)
    yield partial(_check_kind, addition.kind)
    yield partial(_check_importance, addition.importance)
    yield partial(_check_choice, "priority", addition.priority)
    yield partial(_check_choice, "lifecycle", addition.lifecycle)
    yield partial(_check_source, addition.source)
    for name in ("status", "task", "session", "scope", "run_id"):
        yield partial(_check_word, name, getattr(addition, name))
    yield partial(_check_word, "topic", addition.topic, TOPIC_LIMIT_CHARS)
    for name in ("created", "updated"):
        yield partial(_check_time, name, getattr(addition, name))
    yield partial(_check_expiry, addition.expires)
    yield partial(_check_number, "keywords", addition.keywords, KEYWORDS_LIMIT)
    yield from (partial(_check_keyword, keyword) for keyword in addition.keywords)
    yield partial(_check_number, "tags", addition.tags, TAGS_LIMIT)
    yield from (partial(_check_tag, tag) for tag in addition.tags)
    yield partial(_check_metadata, addition.metadata)


def _check_kind(kind: str | None) -> None:
    _check_word("kind", kind)
    if kind is not None and not is_kind(kind):
        _refuse("kind", "is not one word", "letters, digits, `_` and `-`, such as decision")


def _check_importance(importance: float | None) -> None:
    if importance is not None and not 0 <= importance <= 1:
        _refuse("importance", "is not from 0 to 1", "0.9 matters much, 0.1 little")


def _check_source(source: str | Mapping[str, str] | None) -> None:
    if isinstance(source, str) or source is None:
        _check_word("source", source)
        return
    if not source:
        _refuse("source", "is empty", "leave it out")
    for key, value in source.items():
        _check_key("source", key)
        _check_word("source", value)


def _check_time(name: str, text: str | None) -> None:
    _check_word(name, text)
    if text is not None and not _is_time(text.strip()):
        _refuse(name, "is not an ISO day or time", "write 2026-03-14 or 2026-03-14T09:30:00Z")


def _check_expiry(text: str | None) -> None:
    _check_word("expires", text)
    if text is not None and parse_expiry(text.strip()) is None:
        _refuse("expires", "is neither a day nor a time", "write 2026-12-31 or 2026-12-31T18:00")


def _check_number(name: str, values: Sequence[str], most: int) -> None:
    if len(values) > most:
        _refuse(name, f"are more than {most}", "leave some out")


def _check_keyword(keyword: str) -> None:
    _check_word("keywords", keyword, KEYWORD_LIMIT_CHARS)
    if "," in keyword:
        _refuse("keywords", "contain a keyword with a comma", "make it two keywords")


def _check_tag(tag: str) -> None:
    _check_word("tags", tag)
    if not distinct_tags([tag]):
        _refuse("tags", "contain an empty tag", "leave it out")


def _check_metadata(metadata: Mapping[str, str]) -> None:
    if len(metadata) > METADATA_LIMIT:
        _refuse("metadata", f"has more than {METADATA_LIMIT} keys", "leave some out")
    for key, value in metadata.items():
        _check_key("metadata", key)
        _check_word("metadata", value, METADATA_LIMIT_CHARS)
        if key.lower() in _OWN_KEYS:
            _refuse("metadata", f"has `{key}`, which is a field", "give it as the field")


def _check_key(name: str, key: str) -> None:
    if not _KEY.fullmatch(key):
        hint = "begin it with a letter; letters, digits, `_`, `-` and `.` may follow"
        _refuse(name, "has a key that is not one word", hint)


def make_heading(addition: Addition) -> str:
    """Return the summary; if it is empty, the first sentence of the content as plain text, which is
    cut at a word if it is long.
    """
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
    sentence = _SENTENCE.match(text)
    text = sentence[0].rstrip(".。") if sentence else text
    if len(text) <= MADE_HEADING_CHARS:
        return text
    cut = text[:MADE_HEADING_CHARS]
    blank = cut.rfind(" ")
    return (cut[:blank] if blank > MADE_HEADING_CHARS // 2 else cut).rstrip(" ,;:-") + "…"


def _check_content(content: str, most_chars: int) -> None:
    check_text("content", content)
    if not content.strip():
        _refuse("content", "is empty", "give the text of the memory")
    if "\0" in content:
        _refuse("content", "holds a NUL", "remove it")
    if len(content) > most_chars:
        raise TooLarge(
            f"content: is over {most_chars} characters",
            hint="write it to a separate note, with `memsyncd memory create` or the memory tool",
        )


def _check_summary(summary: str) -> None:
    if not summary.strip():
        return
    check_text("summary", summary)
    if any(unicodedata.category(char) in _ONE_LINE for char in summary.strip()):
        _refuse(
            "summary", "is not one line", "it is the section's heading; put the rest into content"
        )
    if len(summary) > SUMMARY_LIMIT_CHARS:
        raise TooLarge(
            f"summary: is over {SUMMARY_LIMIT_CHARS} characters", hint="put the rest into content"
        )
    if not _plain_text(summary):
        _refuse("summary", "has no words", "leave it out, and a heading is made from the content")


def _check_word(name: str, word: str | None, most_chars: int = WORD_LIMIT_CHARS) -> None:
    if word is None:
        return
    check_text(name, word)
    if not word.strip() or word.strip() in _NOTHING:
        _refuse(name, "is empty", "leave it out")
    if any(unicodedata.category(char) in _ONE_LINE for char in word):
        _refuse(name, "is not one line", "remove line ends and control characters")
    if len(word) > most_chars:
        raise TooLarge(f"{name}: is over {most_chars} characters", hint="shorten it")


def _check_choice(name: str, value: str | None) -> None:
    if value is not None and find_choice(name, value) is None:
        _refuse(name, f"is none of {', '.join(CHOICES[name])}", "use one of these, or leave it out")


def _is_time(text: str) -> bool:
    try:
        return bool(_TIME.fullmatch(text)) and date.fromisoformat(text[:10]) is not None
    except ValueError:
        return False


def _refuse(name: str, problem: str, hint: str) -> NoReturn:
    raise BadRequest(f"{name}: {problem}", hint=hint)


# --- Appending ------------------------------------------------------------------------------------


class AppendedSections(NamedTuple):
    """A note after sections were appended, with the span of each, from its heading to its last
    line, and its anchor.
    """

    data: bytes
    spans: tuple[Span, ...]
    anchors: tuple[str, ...]


def append_section(
    path: str,
    data: bytes | None,
    additions: Sequence[Addition],
    *,
    at: str,
    known: Sequence[OutlineSection] | None = None,
) -> AppendedSections:
    """Append a section for each addition.

    `at` is the current time as ISO text, for additions without a time. A missing or empty note
    begins with its name as a title. `known` are the sections of the note, if the caller knows them:
    then only its last section is parsed. Raises BadRequest for an invalid addition, and EditRefused
    for a note to which no section can be added.
    """
    if not is_markdown(path):
        raise BadRequest(
            "note: only markdown has sections",
            hint=f"name a note that ends with {' or '.join(MARKDOWN_SUFFIXES)}",
        )
    for addition in additions:
        check_addition(addition)
    if not additions:
        return AppendedSections(data or b"", (), ())
    note = open_text(path, data or b"")
    end = _NoteEnd(path, data or b"", known)
    text = note.text + end.close(note.line_end) if data else f"{_make_title(path)}\n"
    unified = unify_line_ends(text)
    last_line = unified[unified.rfind("\n", 0, -1) + 1 :]
    is_apart = last_line.endswith("\n") and not last_line.strip(" \t\n")
    lines, spans = _stack(
        [render_section(addition, at) for addition in additions],
        count_lines(unified),
        is_apart=is_apart,
    )
    added = note.to_bytes(join_texts(text, write_line_ends("\n".join((*lines, "")), note.line_end)))
    return AppendedSections(added, spans, end.find_anchors(added, spans))


def _stack(
    sections: Sequence[list[str]], n_above: int, *, is_apart: bool
) -> tuple[list[str], tuple[Span, ...]]:
    """Join the lines of all sections, with a blank line above each that needs it. Returns the lines
    and the span of each section in the note; `n_above` lines precede them.
    """
    lines: list[str] = []
    spans: list[Span] = []
    for section in sections:
        if lines or not is_apart:
            lines.append("")
        start = n_above + len(lines) + 1
        lines += section
        spans.append(Span(start, n_above + len(lines)))
    return lines, tuple(spans)


class _NoteEnd:
    """The last section of a note, below which sections are appended. If it begins with a heading of
    one line, nothing above it needs to be parsed.
    """

    def __init__(self, path: str, data: bytes, known: Sequence[OutlineSection] | None) -> None:
        self._path = path
        self._data = data
        self._lines = decode_note(path, data).lines
        self._n_front_lines = find_front_matter(path, self._lines).n_lines
        self._above: Sequence[OutlineSection | RawSection] = ()
        self._own: Sequence[OutlineSection | RawSection] = ()
        self._start = self._n_front_lines
        if known:
            self._above, self._own = known[:-1], known[-1:]
            self._start = known[-1].start - 1
        if not known or not heading_level(self._lines[self._start]):
            self._above, self._own = (), split_note_sections(path, data) if data else ()
            self._start = self._n_front_lines

    def close(self, line_end: str) -> str:
        """Return the text that must end the note before a section can follow: a missing line end,
        and the end of an open fence or comment.
        """
        closing = find_closing_lines(self._lines, self._start)
        missing = "" if self._data.endswith((b"\n", b"\r")) else line_end
        return missing + "".join(f"{line}{line_end}" for line in closing)

    def find_anchors(self, added: bytes, spans: Sequence[Span]) -> tuple[str, ...]:
        """Return the anchors of the sections at these spans of the new note. Raises EditRefused
        unless each begins at its span and the anchors of earlier sections are unchanged.
        """
        lines = decode_note(self._path, added).lines
        after = self._split(lines)
        anchors = {
            section.start + 1: section.anchor for section in after if section.level == SECTION_LEVEL
        }
        before = [section.anchor for section in self._own]
        is_same_front = find_front_matter(self._path, lines).n_lines == self._n_front_lines
        is_kept = [section.anchor for section in after[: len(before)]] == before
        if not (is_same_front and is_kept and all(span.start in anchors for span in spans)):
            hint = "close its front matter, fence or comment"
            raise EditRefused(f"no section can be added at the end of {self._path}", hint=hint)
        return tuple(anchors[span.start] for span in spans)

    def _split(self, lines: Sequence[str]) -> list[RawSection]:
        """Split the lines of the new note from the last section on."""
        blocks = split_blocks(lines, self._start)
        if self._above or (self._own and self._own[0].level):
            return split_sections_below(self._path, lines, blocks, len(lines), self._above)
        return split_sections(self._path, lines, blocks, has_top=self._n_front_lines > 0)


def _make_title(path: str) -> str:
    name = path.rpartition("/")[2]
    words = "memory" if name == MEMORY_FILE else path_words(name)
    return f"# {words[:1].upper()}{words[1:]}" if words else "# Notes"


def render_section(addition: Addition, at: str) -> list[str]:
    """Return the lines of a section: its heading, its comment, its content."""
    lines = unify_line_ends(addition.content).split("\n")
    while not lines[0].strip():
        del lines[0]
    while not lines[-1].strip():
        del lines[-1]
    return [
        make_heading_line(SECTION_LEVEL, make_heading(addition)),
        *filter(None, [render_comment(addition, at)]),
        *contain(lines),
    ]


# --- Metadata as a comment ------------------------------------------------------------------------

_PLAIN = re.compile(r"[^\W_](?:(?:[\w./+@ -]|:(?=\w))*\w)?")


def render_comment(addition: Addition, at: str) -> str:
    """Return the comment: `<!-- memory: {kind: decision, tags: [auth], …} -->`; empty if there is
    nothing to state. `at` is the time for an addition without a time.
    """
    stated = ", ".join(f"{key}: {value}" for key, value in render_metadata(addition, at).items())
    return f"<!-- memory: {{{stated}}} -->" if stated else ""


def render_metadata(addition: Addition, at: str | None) -> dict[str, str]:
    """Return the metadata that an addition states, as keys with YAML values."""
    kind, tags = (addition.kind or "").strip().lower(), distinct_tags(addition.tags)
    keywords = dict.fromkeys(keyword.strip() for keyword in addition.keywords)
    pairs = {
        "kind": quote_value(kind),
        "tags": quote_values(tags),
        "importance": "" if addition.importance is None else repr(float(addition.importance)),
        "priority": find_choice("priority", addition.priority or "") or "",
        "lifecycle": find_choice("lifecycle", addition.lifecycle or "") or "",
        "status": quote_value(addition.status or ""),
        "task": quote_value(addition.task or ""),
        "session": quote_value(addition.session or ""),
        "source": _render_source(addition.source),
        "topic": quote_value(addition.topic or ""),
        "keywords": quote_values(keywords),
        "scope": quote_value(addition.scope or ""),
        "run_id": quote_value(addition.run_id or ""),
        "created": quote_value(addition.created or ("" if addition.is_undated else at or "")),
        "updated": quote_value(addition.updated or ""),
        "expires": quote_value(addition.expires or ""),
        **{key: quote_value(value) for key, value in addition.metadata.items()},
    }
    return {key: value for key, value in pairs.items() if value}


def _render_source(source: str | Mapping[str, str] | None) -> str:
    if source is None or isinstance(source, str):
        return quote_value(source or "")
    return "{" + ", ".join(f"{key}: {quote_value(value)}" for key, value in source.items()) + "}"


def quote_value(text: str) -> str:
    """Return a text as a YAML value on one line. It may stand within `{}`."""
    text = text.strip()
    if not text or _PLAIN.fullmatch(text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("-->", "--\\x3e")
    return '"' + "".join(map(_escape, escaped)) + '"'


def quote_values(texts: Collection[str]) -> str:
    """Return texts as a YAML list on one line; an empty text for no texts."""
    return f"[{', '.join(map(quote_value, texts))}]" if texts else ""


def _escape(char: str) -> str:
    """Escape a character that YAML does not accept by its number."""
    return f"\\U{ord(char):08x}" if unicodedata.category(char)[0] == "C" else char
