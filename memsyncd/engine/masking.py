"""What of a text is not shown, though it matches? Secrets, in whose place stands what they are.

The index keeps them, so that what is found does not depend on it; they are masked on the way out, in snippets and context blocks.
What is read in order to be edited (`get`, `memory view`, `diff`) is shown as it is: an edit must see the truth.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from memsyncd.core.guard.secrets import MASKED_LINE, find_secrets, mask, mask_lines, mask_secrets
from memsyncd.core.note import SecretLines
from memsyncd.core.recall.filters import NO_FILTERS
from memsyncd.core.span import Span
from memsyncd.engine.policies import SearchPolicy
from memsyncd.store.readers import Reader
from memsyncd.store.search import ShownSection, ShownText, find_candidates, read_texts
from memsyncd.store.secrets import find_secret_lines, has_secrets

N_LOOKED_AT = 20


def mask_texts(reader: Reader, texts: Mapping[int, ShownText], policy: SearchPolicy) -> Mapping[int, ShownText]:
    """The texts of chunks, by chunk, as they may be shown; each keeps its number of lines."""
    if not policy.is_masking or not has_secrets(reader):
        return texts
    lines = find_secret_lines(reader, texts)
    return {
        chunk: replace(text, text=_mask(text.text, *lines[chunk]) if chunk in lines else _mask_line_by_line(text.text))
        for chunk, text in texts.items()
    }


def mask_sections(reader: Reader, sections: Mapping[int, ShownSection], policy: SearchPolicy) -> Mapping[int, ShownSection]:
    """The same for headings. An anchor names its section and stays as it is."""
    if not policy.is_masking or not has_secrets(reader):
        return sections
    return {one: replace(section, heading=tuple(map(_mask_line_by_line, section.heading))) for one, section in sections.items()}


def is_secret_word(reader: Reader, word: str) -> bool:
    """True if a word of the index stands in secrets and nowhere else, as far as the chunks tell that hold it most."""
    if not word.isalnum() or not has_secrets(reader):
        return False
    chunks = [one.chunk for one in find_candidates(reader, f'"{word}"', NO_FILTERS, limit=N_LOOKED_AT)]
    texts = read_texts(reader, chunks)
    shown = mask_texts(reader, texts, SearchPolicy())
    is_there, is_shown = (any(word in one.text.lower() for one in some.values()) for some in (texts, shown))
    return is_there and not is_shown


def _mask_line_by_line(text: str) -> str:
    return mask_secrets(text, find_secrets(text))


def _mask(text: str, span: Span, secrets: Sequence[SecretLines]) -> str:
    """A chunk's text, whose lines are those of `span`, without what spans lines and then without what stands within one."""
    spanning = [secret for secret in secrets if secret.span.n_lines > 1]
    if spanning:
        lines = text.split("\n")
        if len(lines) != span.n_lines:  # a piece of a giant line: which of its lines are a key's cannot be told
            return mask_lines(lines, spanning[0].what)
        for secret in spanning:
            lines = [*_mask_spanned(lines, span, secret)]
        text = "\n".join(lines)
    return _mask_line_by_line(text)


def _mask_spanned(lines: Sequence[str], span: Span, secret: SecretLines) -> Iterator[str]:
    """A line reads the same in whichever chunk it is shown."""
    for number, line in enumerate(lines, span.start):
        if number == secret.span.start:
            yield mask(secret.what)
        else:
            yield MASKED_LINE if number in range(secret.span.start, secret.span.end + 1) and line.strip() else line
