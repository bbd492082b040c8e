"""Define the values that reading a note gives and the store keeps: notes, edits, spans, tokens.

Lines are 1-based and inclusive at both ends, everywhere. The token count is an estimate that all of
memsyncd shares: four characters a token, and one token for each character of a script that writes
no spaces. No model's own tokenizer runs. The count is kept in quarters of a token, which add up
exactly, so a caller can sum them line by line and round once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Final, Literal, NamedTuple, get_args

import msgspec

_DAY_S = 86_400.0
_DAY_NS = 86_400_000_000_000
IMPORTANCE_BY_PRIORITY: Final = {"P0": 2.0, "P1": 1.5, "P2": 1.0, "P3": 0.5}
USUAL_IMPORTANCE: Final = 0.7

Tier = Literal["hot", "warm", "cold"]


WORTH_ORDERS: Final = frozenset({"worth", "decay", "salience"})
"""The order by worth, and its former names."""


class Worth(msgspec.Struct, frozen=True):
    """The worth of a memory, and the factors whose product it is."""

    value: float
    recency: float
    accesses: float
    importance: float


def compute_worth(
    *, age_s: float, half_life: float, n_accesses: int, priority: str | None, importance: float
) -> Worth:
    """Compute the worth of a memory: recency * accesses * importance.

    `recency` is exp(-age / half_life), from 1 for a new memory towards 0; `half_life` is in days,
    and a negative age counts as 0. `accesses` is 1 + ln(1 + n_accesses) / 10. `importance` is 2,
    1.5, 1 or 0.5 for the priorities P0 to P3, else `importance` / 0.7. So the worth is at least 0;
    a new memory of usual importance that nobody has recalled has the worth 1.

    It is LumenFlow's decay score, recencyScore * (1 + accessScore) * importanceScore, with a
    half-life for each kind, and with an importance for memories without a priority. The tiers of
    Fogsift are its names (`find_tier`); the salience of MemState is its mean over the fields of a
    topic.
    """
    recency = math.exp(-max(0.0, age_s) / (half_life * _DAY_S))
    accesses = weigh_accesses(n_accesses)
    factor = IMPORTANCE_BY_PRIORITY.get(priority or "", importance / USUAL_IMPORTANCE)
    return Worth(recency * accesses * factor, recency, accesses, factor)


def weigh_accesses(n: int) -> float:
    return 1 + math.log1p(n) / 10


def find_tier(worth: float, *, hot_from: float, warm_from: float) -> Tier:
    """Return the name of a worth."""
    if worth >= hot_from:
        return "hot"
    return "warm" if worth >= warm_from else "cold"


# --- Notes ----------------------------------------------------------------------------------------

# The status of sections that searches leave out.
ARCHIVED: Final = "archived"
ID_KEY: Final = "id"
"""The key of the metadata for the id that a memory has in another system. It is a name of it."""
CONFLICT_KEY: Final = "conflict"
"""The key in the comment of a section that holds the other text of a conflict. Its value is the
part of the first section's anchor after `#`."""
NO_EXTRA: tuple[tuple[str, str], ...] = ()


class Problem(msgspec.Struct, frozen=True):
    """A defect in a note. It is reported and never raised.

    `line` is 1-based, 0 for the note as a whole. `code` is a stable word.
    """

    path: str
    line: int
    code: str
    problem: str
    hint: str = ""


class Attributes(NamedTuple):
    """The permission bits and the modification time (ns since 1970) of a note's file. A file that
    is created again gets both.
    """

    mode: int
    mtime_ns: int


class Meta(msgspec.Struct, frozen=True, kw_only=True):
    """Metadata that a note or a section states. None means that it does not state the field.

    `importance` is 0-1. `status` is any word. Searches leave out a section whose status is
    `archived`, and a section from the day or time `expires` on. `extra` holds unknown keys as text,
    in the order written.
    """

    kind: str | None = None
    tags: tuple[str, ...] = ()
    importance: float | None = None
    priority: str | None = None
    lifecycle: str | None = None
    task: str | None = None
    session: str | None = None
    source: str | None = None
    created: str | None = None
    updated: str | None = None
    expires: str | None = None
    status: str | None = None
    extra: tuple[tuple[str, str], ...] = NO_EXTRA


EMPTY_META = Meta()


def parse_expiry(text: str) -> str | None:
    """Read a day or time in ISO form; None if it is neither.

    Returns a day as it is, and a time without fractions of a second. A time that names a time zone
    is returned in UTC with a `Z`, any other in local time. Within one zone the order of the texts
    is the order of the times, and a day comes before all times of that day.
    """
    try:
        time = datetime.fromisoformat(text)
        if len(text) <= len("2026-W01-1"):
            return date.fromisoformat(text).isoformat()
        if time.tzinfo is None:
            return time.isoformat(timespec="seconds")
        return time.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="seconds") + "Z"
    except (ValueError, OverflowError):
        return None


def find_moment(updated: str | None, created: str | None, day: str | None, mtime_ns: int) -> int:
    """Return the first of these texts that is a time, in seconds since 1970; else the day on which
    the note was saved. A text without a time zone counts as UTC, so that the same note gives the
    same moment on every machine: sections are ordered by it, and it is right to about a day.
    """
    for text in (updated, created, day):
        if text:
            try:
                time = datetime.fromisoformat(text.strip())
                zone = time if time.tzinfo else time.replace(tzinfo=UTC)
                return math.floor(zone.timestamp())
            except (ValueError, OverflowError):
                continue
    return mtime_ns // _DAY_NS * int(_DAY_S)


SECTION_COMMENT: Final = re.compile(r"\s*<!--\s*memory:.*?-->", re.DOTALL)
"""The comment with the metadata of a section, and the blanks and ends of lines above it."""


def strip_section_comment(text: str) -> str:
    """Return the text of a section, below its heading, without its comment."""
    text = text.strip()
    # Most sections have no comment, and begin with a letter.
    return SECTION_COMMENT.sub("", text, count=1).strip() if "<!--" in text else text


def has_text(text: str) -> bool:
    """True if a section has a text; `text` is without heading and front matter."""
    return bool(strip_section_comment(text))


# The garbage collector does not track the values of a note (`gc=False`): a first index makes
# hundreds of thousands, and none can be part of a cycle.
class Section(msgspec.Struct, frozen=True, gc=False):
    """The lines under one heading: `start` to `end`, 1-based, inclusive.

    `heading` is the breadcrumb from the outermost heading to this one, as plain text. `anchor` is
    unique in a workspace. The section before the first heading has level 0, no heading and the
    anchor `path#`. `meta` is the section's own metadata over the note's. Its `tags` include the
    `#tags` of the section's own prose.
    """

    anchor: str
    heading: tuple[str, ...]
    level: int
    start: int
    end: int
    meta: Meta = EMPTY_META

    @property
    def span(self) -> Span:
        return Span(self.start, self.end)


class Chunk(msgspec.Struct, frozen=True, gc=False):
    """The indexed piece of a section: the whole lines `start` to `end` of the note, joined by
    newlines. Lines that are too long for one chunk are split; `part` is the number of the part.

    The words of the note's front matter, its first `n_front_lines` lines, find its first chunk,
    whose text is without them. A note of front matter alone has one chunk of these lines, without
    text.
    """

    anchor: str
    start: int
    end: int
    text: str
    part: int = 0
    n_front_lines: int = 0

    @property
    def span(self) -> Span:
        return Span(self.start, self.end)


PATH_LINK: Final = "path"
NAME_LINK: Final = "name"


class Link(msgspec.Struct, frozen=True, gc=False):
    """A link out of a section.

    `target` is as written, `heading` is the part after a `#`, `relation` is the word before a typed
    link. `kind` is `link`, `embed`, `path` or `name`. The last two are links only if a note has
    this path or name.
    """

    anchor: str
    line: int
    target: str
    heading: str = ""
    relation: str = ""
    kind: str = "link"


class BlockName(msgspec.Struct, frozen=True, gc=False):
    """The name of a block of a section, in lower case: `^id`, or `((uuid))`."""

    anchor: str
    line: int
    name: str


class SecretLines(msgspec.Struct, frozen=True, kw_only=True):
    """Lines that hold a secret; `what` names its sort."""

    span: Span
    what: str


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """One note as read: sections and chunks in order of lines.

    Each chunk has the anchor of one of the sections. `digest` is the digest of the file's bytes.
    `n_lines` counts lines as an editor does. `aliases` are further titles. `text` is the decoded
    text of the file, with LF for every line end.
    """

    path: str
    digest: str
    n_lines: int
    title: str
    aliases: tuple[str, ...] = ()
    meta: Meta = EMPTY_META
    sections: tuple[Section, ...] = ()
    chunks: tuple[Chunk, ...] = ()
    links: tuple[Link, ...] = ()
    block_names: tuple[BlockName, ...] = ()
    problems: tuple[Problem, ...] = msgspec.field(default=())
    secrets: tuple[SecretLines, ...] = ()
    text: str = ""


# --- Long lines ----------------------------------------------------------------------------------

CHUNK_LIMIT_CHARS: Final = 65_536

_CUT_BACK_CHARS = 1024


def split_long_text(text: str) -> list[str]:
    """Split the text of a chunk's lines into parts that are short enough to be indexed."""
    parts: list[str] = []
    at = 0
    while len(text) - at > CHUNK_LIMIT_CHARS:
        end = at + CHUNK_LIMIT_CHARS
        blank = text.rfind(" ", end - _CUT_BACK_CHARS, end)
        end = blank + 1 if blank > 0 else end
        parts.append(text[at:end])
        at = end
    parts.append(text[at:])
    return parts


# --- Spans ----------------------------------------------------------------------------------------


class Span(msgspec.Struct, frozen=True, order=True, gc=False):
    """First and last line, 1-based, inclusive. Raises ValueError unless 1 <= start <= end."""

    start: int
    end: int

    def __post_init__(self) -> None:
        if not 1 <= self.start <= self.end:
            raise ValueError(f"not a span: {self.start}-{self.end}")

    @property
    def n_lines(self) -> int:
        return self.end - self.start + 1

    def join(self, other: Span) -> Span:
        """The smallest span that holds both."""
        return Span(min(self.start, other.start), max(self.end, other.end))

    def shifted(self, n_lines: int) -> Span:
        return Span(self.start + n_lines, self.end + n_lines)


# --- Words of paths and headings ------------------------------------------------------------------

_JOINTS = re.compile(r"[/_.\-\s]+")
_SUFFIX = re.compile(r"\.(md|markdown|txt)$")


def path_words(path: str) -> str:
    """The words of a path: `.memories/api-notes.md` → `memories api notes`."""
    return _JOINTS.sub(" ", _SUFFIX.sub("", path)).strip()


# --- Tokens ---------------------------------------------------------------------------------------

QUARTERS_PER_TOKEN: Final = 4

# Thai, Lao, Myanmar, Khmer; Hangul Jamo; CJK radicals to Hangul syllables; full-width forms; CJK
# beyond the BMP.
_WIDE_RUN = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1100-\u11ff\u2e80-\ua4cf\ua960-\ua97f\uac00-\ud7ff"
    "\uf900-\ufaff\uff00-\uffef\U0001b000-\U0001b16f\U00020000-\U0003ffff]+"
)


def count_tokens(text: str) -> int:
    """The tokens of a text, rounded up; 0 for an empty text."""
    return -(-count_quarters(text) // QUARTERS_PER_TOKEN)


def count_quarters(text: str) -> int:
    """Quarters of a token: 4 for each character of a script without spaces, 1 for any other.

    The count of two joined texts is the sum of their counts.
    """
    if text.isascii():
        return len(text)
    return len(text) + (QUARTERS_PER_TOKEN - 1) * sum(map(len, _WIDE_RUN.findall(text)))


# --- Words of metadata ---------------------------------------------------------------------------

# Keys and filters that accept only these words.
CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "priority": ("P0", "P1", "P2", "P3"),
    "lifecycle": ("ephemeral", "session", "task", "project"),
    "tier": get_args(Tier),
}
# Words that other programs use for a key and for a lifecycle.
OTHER_KEYS: Final = {"wu_id": "task"}
_OTHER_CHOICES: Final = {("lifecycle", "wu"): "task"}


def find_choice(name: str, value: str) -> str | None:
    """The choice of this key that equals the word, in any case, or for which other programs use the
    word; None if there is none.
    """
    word = value.strip().lower()
    same = (choice for choice in CHOICES[name] if choice.lower() == word)
    return next(same, _OTHER_CHOICES.get((name, word)))


# --- A note before an edit, and its change --------------------------------------------------------
# `rechunk_note` in `core/markdown/parse` uses these values. They are defined here, because the
# store keeps them and needs no parser.


class OutlineSection(msgspec.Struct, frozen=True, gc=False):
    """A section as it was before the edit; `start` is its first line, 1-based."""

    anchor: str
    heading: tuple[str, ...]
    level: int
    start: int


class Outline(msgspec.Struct, frozen=True, kw_only=True):
    """A note as it was before the edit. `text` has LF for every line end, and no line end after the
    last line. `problems` are the codes of its problems.
    """

    text: str
    sections: tuple[OutlineSection, ...]
    problems: frozenset[str]


class NotePatch(msgspec.Struct, frozen=True, kw_only=True):
    """The change of some sections of a note; the others keep their names.

    `note` is the whole note as it is now, but it has only the sections, chunks and links of the
    replaced lines: in the old text these lines begin at `start` and end before `old_after`. Later
    sections move by `n_shift` lines. Both texts have the same lines before `first_changed`, and the
    old text's lines from `old_same` on are unchanged. All lines are 1-based.
    """

    note: Note
    start: int
    old_after: int
    n_shift: int
    first_changed: int
    old_same: int


def find_with_text(note: Note) -> set[str]:
    """Return the anchors of the sections that have a text below their headings."""
    levels = {section.anchor: section.level for section in note.sections}
    with_text: set[str] = set()
    # The beginning of the other sections' texts.
    begun: dict[str, str] = {}
    for chunk in note.chunks:
        anchor = chunk.anchor
        if anchor in with_text:
            continue
        if anchor in begun:
            # The chunk above has the heading alone, or the beginning of the comment.
            text = f"{begun[anchor]}\n{chunk.text}"
        else:
            text = chunk.text.partition("\n")[2] if levels[anchor] else chunk.text
        if text.lstrip()[:4] in ("", "<!--"):
            begun[anchor] = text
        else:
            with_text.add(anchor)
    with_text.update(anchor for anchor, text in begun.items() if has_text(text))
    return with_text
