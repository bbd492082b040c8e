"""Redacts secrets in everything that is shown of the index.

The index keeps secrets, so that what is found does not depend on them. Snippets, context blocks,
headings, titles, kinds and tags are redacted when they are read; anchors never contain a secret.
Text that is read in order to be edited (`get`, `memory view`, `diff`) is shown unchanged, because
an edit must see the true bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from memsyncd.core.guard.secrets import REDACTED_LINE, redact, redact_lines, redaction_label
from memsyncd.core.model import SecretLines, Span
from memsyncd.core.search.query import NO_FILTERS
from memsyncd.engine.policies import SearchPolicy
from memsyncd.store.lookup import StoredNote, StoredSection
from memsyncd.store.pool import Reader
from memsyncd.store.search import (
    ChunkSecrets,
    ChunkText,
    HitSection,
    find_candidates,
    has_secrets,
    read_chunk_secrets,
    read_texts,
)

MAX_EXAMINED_CHUNKS = 20

_Named = TypeVar("_Named", HitSection, StoredSection, StoredNote)


def redact_texts(
    reader: Reader, texts: Mapping[int, ChunkText], policy: SearchPolicy
) -> Mapping[int, ChunkText]:
    """Redact the texts of chunks, by chunk. Each text keeps its number of lines."""
    if not policy.is_masking or not has_secrets(reader):
        return texts
    held = read_chunk_secrets(reader, texts)
    return {
        chunk: replace(
            text, text=_redact(text.text, held[chunk]) if chunk in held else redact(text.text)
        )
        for chunk, text in texts.items()
    }


def redact_sections(
    reader: Reader, sections: Mapping[int, HitSection], policy: SearchPolicy
) -> Mapping[int, HitSection]:
    """Redact the headings, kinds and tags of sections, by section."""
    if not policy.is_masking or not has_secrets(reader):
        return sections
    return {number: _redact_section(section) for number, section in sections.items()}


def redact_notes(
    reader: Reader, notes: Sequence[StoredNote], policy: SearchPolicy
) -> list[StoredNote]:
    """Redact the titles, kinds and tags of listed notes and of their sections."""
    if not policy.is_masking or not has_secrets(reader):
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
    texts = read_texts(reader, [row[0] for row in found.rows])
    shown = redact_texts(reader, texts, SearchPolicy())
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
    if held.is_piece:
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
