"""Find the passages that hold a command as a question names it, such as `git commit -m`.

The dash of an option reads as an exclusion. A passage that holds the option behind the word before
it, as typed, is spared by the exclusion; if there is any, the question looks for both in a row.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from memsyncd.core.search.query import Term, TypedCommand, compile_term, find_typed
from memsyncd.engine.candidates import HURRIED, AskedQuestion
from memsyncd.engine.explain import Question
from memsyncd.errors import NotFresh
from memsyncd.store.pool import MEMO_LIMIT, Reader
from memsyncd.store.search import find_best_matching, find_matching_among, find_rows
from memsyncd.store.texts import read_texts

# So many texts are read at most, some at a time: those that match best of passages with both words
# in a row. It takes up to 0.15 ms for each.
MAX_READ, PORTION = 2_000, 500


def list_held_commands(reader: Reader, question: Question) -> set[str]:
    """Return the texts of the question's commands that a passage holds which it may find.

    Raises NotFresh if the question is hurried and there are texts to read.
    """
    excluded = question.must_not._replace(spared=_find_spared(reader, question))
    held = set()
    for command in question.query.commands:
        holding = _find_holding(reader, command, question)
        if find_rows(reader, holding, question.filters, excluded):
            held.add(command.phrase.text)
    return held


def spare_commands(reader: Reader, asked: AskedQuestion) -> AskedQuestion:
    """Return the question that excludes no passage with one of its commands."""
    question = asked.question
    if not question.query.commands:
        return asked
    spared = _find_spared(reader, question)
    if not spared:
        return asked
    return _spare(asked, spared)


def _spare(asked: AskedQuestion, spared: Sequence[int]) -> AskedQuestion:
    excluded = asked.question.must_not._replace(spared=spared)
    return asked._replace(
        question=replace(asked.question, must_not=excluded),
        relaxed=_spare(asked.relaxed, spared) if asked.relaxed else None,
    )


def _find_spared(reader: Reader, question: Question) -> list[int]:
    """Return the chunks with commands in which no other excluded word stands."""
    holding: dict[Term, set[int]] = {}
    for command in question.query.commands:
        found = _find_holding(reader, command, question)
        holding.setdefault(command.excluded, set()).update(found)
    spared = set().union(*holding.values())
    for term in question.query.must_not:
        if spared:
            matching = find_matching_among(reader, compile_term(term), sorted(spared))
            spared.difference_update(set(matching) - holding.get(term, set()))
    return sorted(spared)


def _find_holding(reader: Reader, command: TypedCommand, question: Question) -> list[int]:
    """Return the chunks whose text holds a command as it was typed.

    Secrets are not masked in these texts, because the index has no word of them.
    """
    known: dict[str, list[int]] = reader.memo.setdefault("commands", {})
    if command.phrase.text not in known:
        chunks = find_best_matching(reader, compile_term(command.phrase), limit=MAX_READ)
        if chunks and question.is_hurried:
            raise NotFresh(HURRIED)
        pattern = command.make_pattern()
        holding: list[int] = []
        for at in range(0, len(chunks), PORTION):
            texts = read_texts(reader, chunks[at : at + PORTION])
            holding += (chunk for chunk, text in texts.items() if find_typed(pattern, text))
        if len(known) >= MEMO_LIMIT:
            known.clear()
        known[command.phrase.text] = holding
    return known[command.phrase.text]
