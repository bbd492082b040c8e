"""Redacts secrets in everything that is shown of the index.

The index keeps secrets, so that what is found does not depend on them. Snippets, context blocks,
headings, titles, kinds and tags are redacted when they are read; anchors never contain a secret.
Text that is read in order to be edited (`get`, `memory view`, `diff`) is shown unchanged, because
an edit must see the true bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from msgspec.structs import replace

from memsyncd.config import Config
from memsyncd.core.guard.secrets import REDACTED_LINE, redact, redact_lines, redaction_label
from memsyncd.core.model import SecretLines, Span
from memsyncd.core.search.passages import StartChunk
from memsyncd.core.search.query import NO_FILTERS
from memsyncd.core.search.ranking import Candidate
from memsyncd.store.lookup import StoredNote, StoredSection
from memsyncd.store.pool import Reader
from memsyncd.store.search import (
    ChunkSecrets,
    ChunkText,
    HitSection,
    find_candidates,
    has_secrets,
    read_chunk_secrets,
    read_sections,
    read_texts,
)

MAX_EXAMINED_CHUNKS = 20

_Named = TypeVar("_Named", HitSection, StoredSection, StoredNote)


def read_redacted(
    reader: Reader, chosen: Sequence[Candidate | StartChunk], config: Config
) -> tuple[Mapping[int, HitSection], Mapping[int, ChunkText]]:
    """Read the sections of chunks and their texts, by their numbers, as they may be shown.

    Each text keeps its number of lines; of a section, heading, kind and tags are redacted.
    """
    sections = read_sections(reader, {one.section for one in chosen})
    texts = read_texts(reader, [one.chunk for one in chosen])
    if not config.guard.is_masking or not has_secrets(reader):
        return sections, texts
    shown = _redact_texts(texts, read_chunk_secrets(reader, texts))
    return {number: _redact_section(section) for number, section in sections.items()}, shown


def _redact_texts(
    texts: Mapping[int, ChunkText], held: Mapping[int, ChunkSecrets]
) -> dict[int, ChunkText]:
    return {
        chunk: replace(
            text, text=_redact(text.text, held[chunk]) if chunk in held else redact(text.text)
        )
        for chunk, text in texts.items()
    }


def redact_notes(reader: Reader, notes: Sequence[StoredNote], config: Config) -> list[StoredNote]:
    """Redact the titles, kinds and tags of listed notes and of their sections."""
    if not config.guard.is_masking or not has_secrets(reader):
        return [*notes]
    return [
        _redact_labels(
            replace(
                note,
                title=redact(note.title),
                sections=tuple(map(_redact_section, note.sections)),
            )
        )
        for note in notes
    ]


def is_secret_word(reader: Reader, word: str) -> bool:
    """True if an indexed word occurs only within secrets, judged by the chunks that match it
    best.
    """
    if not word.isalnum() or not has_secrets(reader):
        return False
    found = find_candidates(reader, f'"{word}"', NO_FILTERS, limit=MAX_EXAMINED_CHUNKS)
    texts = read_texts(reader, [candidate.chunk for candidate in found])
    shown = _redact_texts(texts, read_chunk_secrets(reader, texts))
    return _contain(texts, word) and not _contain(shown, word)


def _contain(texts: Mapping[int, ChunkText], word: str) -> bool:
    return any(word in text.text.lower() for text in texts.values())


_Section = TypeVar("_Section", HitSection, StoredSection)


def _redact_section(section: _Section) -> _Section:
    return _redact_labels(replace(section, heading=_redact_all(section.heading)))


def _redact_labels(named: _Named) -> _Named:
    return replace(named, kind=named.kind and redact(named.kind), tags=_redact_all(named.tags))


def _redact_all(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(map(redact, names))


def _redact(text: str, held: ChunkSecrets) -> str:
    """Redact secrets that span lines first, then those within one line."""
    lines = text.split("\n")
    if held.is_partial:
        # A piece of a giant line may be cut within a secret, or between its name and its value.
        return redact_lines(lines, held.secrets[0].what)
    for secret in held.secrets:
        if secret.span.n_lines > 1:
            lines = [*_redact_spanned(lines, held.span, secret)]
    return redact("\n".join(lines))


def _redact_spanned(lines: Sequence[str], span: Span, secret: SecretLines) -> Iterator[str]:
    """A line reads the same in every chunk that shows it."""
    for number, line in enumerate(lines, span.start):
        if number == secret.span.start:
            yield redaction_label(secret.what)
        else:
            is_secret = number in range(secret.span.start, secret.span.end + 1)
            yield REDACTED_LINE if is_secret and line.strip() else line
