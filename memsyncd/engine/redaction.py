"""Redacts secrets in all text that answers take from the index.

The index keeps secrets, so that results do not depend on the redaction. Snippets, context blocks,
headings, titles, kinds, tags and other metadata are redacted when they are read; anchors never
contain a secret. Text that is read for an edit (`get`, `memory view`, `diff`) stays unchanged,
because an edit must see the true bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from memsyncd.config import Config, GuardConfig
from memsyncd.core.guard.injection import find_warnings
from memsyncd.core.guard.secrets import REDACTED_LINE, redact, redact_lines, redaction_label
from memsyncd.core.model import SecretLines, Span
from memsyncd.core.search.filters import NO_FILTERS
from memsyncd.core.search.plan import SearchPlan
from memsyncd.core.search.words import find_subwords, fold
from memsyncd.engine.workspace import index_fingerprint
from memsyncd.store.lookup import StoredNote
from memsyncd.store.pool import Reader
from memsyncd.store.search import find_candidates
from memsyncd.store.sections import (
    HitSection,
    SectionTitle,
    StoredSection,
    read_section_titles,
    read_sections,
)
from memsyncd.store.texts import (
    ChunkSecrets,
    has_secrets,
    knows_secrets,
    read_chunk_lines,
    read_chunk_secrets,
    read_front_matter,
    read_note_text,
    read_texts,
)

MAX_EXAMINED_CHUNKS = 20
# The most redacted values that are remembered while notes are redacted.
N_SHARED = 1_024

_Named = TypeVar("_Named", HitSection, StoredSection, StoredNote)


def read_redacted_chunks(
    reader: Reader, chunks: Sequence[int], config: Config
) -> Mapping[int, str]:
    """Read the redacted texts of chunks, by their numbers. Each text keeps its number of lines."""
    return redact_texts(reader, read_texts(reader, chunks), config)


def redact_texts(reader: Reader, texts: Mapping[int, str], config: Config) -> Mapping[int, str]:
    """Redact the texts of chunks, by their numbers."""
    if not must_redact(reader, config):
        return texts
    return _redact_texts(texts, _find_secrets(reader, texts, index_fingerprint(config)))


class ShownReader(NamedTuple):
    """Reads texts for an answer from one snapshot of an index, redacted if need be."""

    reader: Reader
    plan: SearchPlan
    config: Config

    @property
    def is_redacting(self) -> bool:
        return self.plan.is_masking and has_secrets(self.reader, self.plan.fingerprint)

    def read_sections(self, ids: Iterable[int]) -> Mapping[int, HitSection]:
        """Read sections with their metadata, by their numbers."""
        sections = read_sections(self.reader, ids)
        return redact_sections(sections) if self.is_redacting else sections

    def read_titles(self, ids: Iterable[int]) -> Mapping[int, SectionTitle]:
        """Read anchors, headings and kinds of sections, by their numbers."""
        is_redacting = self.is_redacting
        titles = read_section_titles(self.reader, ids)
        return _redact_titles(titles) if is_redacting else titles

    def read_texts(self, chunks: Sequence[int]) -> Mapping[int, str]:
        """Read the texts of chunks, by their numbers. Each text keeps its number of lines."""
        texts = read_texts(self.reader, chunks)
        return redact_texts(self.reader, texts, self.config) if self.is_redacting else texts


def must_redact(reader: Reader, config: Config) -> bool:
    """True if texts of this index may have to be redacted for an answer."""
    return config.guard.is_masking and has_secrets(reader, index_fingerprint(config))


def read_redacted_sections(
    reader: Reader, ids: Iterable[int], config: Config
) -> Mapping[int, HitSection]:
    """Read redacted sections with their metadata, by their numbers."""
    sections = read_sections(reader, ids)
    return redact_sections(sections) if must_redact(reader, config) else sections


def redact_sections(sections: Mapping[int, HitSection]) -> Mapping[int, HitSection]:
    """Redact headings and metadata of sections, by their numbers."""
    show = cache(redact)  # sections of a note share most of their values
    return {number: redact_section(section, show) for number, section in sections.items()}


def _redact_titles(titles: Mapping[int, SectionTitle]) -> Mapping[int, SectionTitle]:
    show = cache(redact)
    return {
        number: replace(
            title,
            note=show(title.note),
            heading=tuple(map(show, title.heading)),
            kind=title.kind and show(title.kind),
        )
        for number, title in titles.items()
    }


def _redact_texts(
    texts: Mapping[int, str], secrets: Mapping[int, ChunkSecrets]
) -> Mapping[int, str]:
    """Redact the texts of chunks that hold secrets."""
    return {
        chunk: redact_chunk(text, secrets[chunk]) if chunk in secrets else text
        for chunk, text in texts.items()
    }


def _find_secrets(
    reader: Reader, chunks: Iterable[int], fingerprint: str
) -> Mapping[int, ChunkSecrets]:
    """Return the secrets of each chunk that shares lines with a secret, by its number."""
    if knows_secrets(reader, fingerprint):
        return read_chunk_secrets(reader, chunks)
    # An index of another version, or from a time when secrets were not looked for, answers until it
    # is rebuilt. A key may span chunks, so whole notes are searched.
    secrets: dict[int, ChunkSecrets] = {}
    secrets_of: dict[str, Sequence[SecretLines]] = {}
    for chunk, path, start, end, is_partial in read_chunk_lines(reader, chunks):
        if path not in secrets_of:
            text = read_note_text(reader, path)
            secrets_of[path] = find_warnings(path, text, GuardConfig()).secrets
        span = Span(start, end)
        shared = [
            secret
            for secret in secrets_of[path]
            if secret.span.start <= end and start <= secret.span.end
        ]
        if shared:
            secrets[chunk] = ChunkSecrets(span=span, is_partial=is_partial, secrets=shared)
    return secrets


def redact_notes(
    reader: Reader, notes: Iterable[StoredNote], config: Config, *, has_sections: bool = True
) -> Iterator[StoredNote]:
    """Yield listed notes with redacted titles, kinds and tags. With `has_sections` their sections
    are redacted as well; without it sections are not shown.
    """
    if not must_redact(reader, config):
        yield from notes
        return
    # Most sections of a note have the same metadata.
    show = lru_cache(maxsize=N_SHARED)(redact)
    for note in notes:
        sections = note.sections
        if has_sections:
            sections = tuple(redact_section(section, show) for section in sections)
        yield _redact_labels(replace(note, title=show(note.title), sections=sections), show)


def is_secret_word(reader: Reader, word: str, fingerprint: str) -> bool:
    """True if an indexed word occurs only within secrets; only the chunks that match it best are
    read. `fingerprint` is the fingerprint of an index that is made as configured.
    """
    if not word.isalnum() or not has_secrets(reader, fingerprint):
        return False
    candidates = find_candidates(reader, f'"{word}"', NO_FILTERS, limit=MAX_EXAMINED_CHUNKS)
    chunks = [row[0] for row in candidates.rows]
    texts, fronts = read_texts(reader, chunks), read_front_matter(reader, chunks)
    redacted = _redact_texts(texts, _find_secrets(reader, texts, fingerprint))
    of_chunks, shown = [*texts.values(), *fronts.values()], [*redacted.values()]
    shown += map(_redact_front_matter, fronts.values())
    return _contain(of_chunks, word) and not _contain(shown, word)


def _redact_front_matter(text: str) -> str:
    secrets = [*find_warnings("", text, GuardConfig()).secrets]
    span = Span(1, text.count("\n") + 1)
    return redact_chunk(text, ChunkSecrets(span=span, is_partial=False, secrets=secrets))


def _contain(texts: Iterable[str], word: str) -> bool:
    folded = map(fold, texts)
    return any(word in f"{text} {find_subwords(text)}".lower() for text in folded)


_Section = TypeVar("_Section", HitSection, StoredSection)
_TEXTS = ("status", "task", "session", "source", "created", "updated")


def redact_section(section: _Section, show: Callable[[str], str] = redact) -> _Section:
    """Redact the heading and the metadata of a section, each value by `show`."""
    stated = {name: getattr(section, name) for name in _TEXTS}
    redacted = replace(
        section,
        heading=tuple(map(show, section.heading)),
        note=show(section.note),
        **{name: show(text) for name, text in stated.items() if text},
        extra={show(key): _redact_value(key, text, show) for key, text in section.extra.items()},
    )
    return _redact_labels(redacted, show)


def _redact_value(key: str, text: str, show: Callable[[str], str]) -> str:
    """Redact a value as a reader sees it, after its key: `password: hunter2`."""
    return show(f"{key}: {text}").removeprefix(f"{key}: ")


def _redact_labels(named: _Named, show: Callable[[str], str]) -> _Named:
    return replace(named, kind=named.kind and show(named.kind), tags=tuple(map(show, named.tags)))


def redact_chunk(text: str, of_chunk: ChunkSecrets) -> str:
    """Redact secrets that span lines first, then secrets within one line."""
    lines = text.split("\n")
    if of_chunk.is_partial:
        # A piece of a giant line may be cut within a secret, or between its name and its value.
        return redact_lines(lines, of_chunk.secrets[0].what)
    for secret in of_chunk.secrets:
        if secret.span.n_lines > 1:
            lines = [*_redact_spanned(lines, of_chunk.span, secret)]
    return redact("\n".join(lines))


def _redact_spanned(lines: Sequence[str], span: Span, secret: SecretLines) -> Iterator[str]:
    """Yield lines without a secret that spans lines. A line is the same in each of its chunks."""
    for number, line in enumerate(lines, span.start):
        if number == secret.span.start:
            yield redaction_label(secret.what)
        else:
            is_secret = number in range(secret.span.start, secret.span.end + 1)
            yield REDACTED_LINE if is_secret and line.strip() else line
