"""What of a text is not shown, though it matches? Secrets, in whose place stands what they are.

The index keeps them, so that what is found does not depend on it; they are masked on the way out:
in snippets and context blocks, in headings, titles, kinds and tags. An anchor never had them. What
is read in order to be edited (`get`, `memory view`, `diff`) is shown as it is: an edit must see the
truth.
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

N_LOOKED_AT = 20

_Named = TypeVar("_Named", HitSection, StoredSection, StoredNote)


def mask_texts(
    reader: Reader, texts: Mapping[int, ChunkText], policy: SearchPolicy
) -> Mapping[int, ChunkText]:
    """The texts of chunks, by chunk, as they may be shown; each keeps its number of lines."""
    if not policy.is_masking or not has_secrets(reader):
        return texts
    held = read_chunk_secrets(reader, texts)
    return {
        chunk: replace(
            text, text=_mask(text.text, held[chunk]) if chunk in held else redact(text.text)
        )
        for chunk, text in texts.items()
    }


def mask_sections(
    reader: Reader, sections: Mapping[int, HitSection], policy: SearchPolicy
) -> Mapping[int, HitSection]:
    """The same for what is said of sections."""
    if not policy.is_masking or not has_secrets(reader):
        return sections
    return {
        one: _mask_names(replace(section, heading=_hide_all(section.heading)))
        for one, section in sections.items()
    }


def mask_notes(
    reader: Reader, notes: Sequence[StoredNote], policy: SearchPolicy
) -> list[StoredNote]:
    """The same for notes and their sections, as they are listed."""
    if not policy.is_masking or not has_secrets(reader):
        return [*notes]
    return [
        _mask_names(
            replace(
                note,
                title=redact(note.title),
                sections=tuple(
                    _mask_names(replace(section, heading=_hide_all(section.heading)))
                    for section in note.sections
                ),
            )
        )
        for note in notes
    ]


def is_secret_word(reader: Reader, word: str) -> bool:
    """True if a word of the index stands in secrets and nowhere else, as far as the chunks tell
    that hold it most.
    """
    if not word.isalnum() or not has_secrets(reader):
        return False
    chunks = [
        one.chunk for one in find_candidates(reader, f'"{word}"', NO_FILTERS, limit=N_LOOKED_AT)
    ]
    texts = read_texts(reader, chunks)
    shown = mask_texts(reader, texts, SearchPolicy())
    is_there, is_shown = (
        any(word in one.text.lower() for one in some.values()) for some in (texts, shown)
    )
    return is_there and not is_shown


def _mask_names(named: _Named) -> _Named:
    return replace(named, kind=named.kind and redact(named.kind), tags=_hide_all(named.tags))


def _hide_all(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(map(redact, names))


def _mask(text: str, held: ChunkSecrets) -> str:
    """A chunk's text without what spans lines and then without what stands within one."""
    lines = text.split("\n")
    if held.is_piece:
        # Of a giant line, which may be cut within a secret or between its name and itself.
        return redact_lines(lines, held.secrets[0].what)
    for secret in held.secrets:
        if secret.span.n_lines > 1:
            lines = [*_mask_spanned(lines, held.span, secret)]
    return redact("\n".join(lines))


def _mask_spanned(lines: Sequence[str], span: Span, secret: SecretLines) -> Iterator[str]:
    """A line reads the same in whichever chunk it is shown."""
    for number, line in enumerate(lines, span.start):
        if number == secret.span.start:
            yield redaction_label(secret.what)
        else:
            yield (
                REDACTED_LINE
                if number in range(secret.span.start, secret.span.end + 1) and line.strip()
                else line
            )
