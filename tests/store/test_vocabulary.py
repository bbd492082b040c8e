from __future__ import annotations

from collections.abc import Callable

import pytest

from memsyncd.store import lookup
from memsyncd.store.index import DropNote, Index, PutNote
from memsyncd.store.lookup import find_similar_words, find_words_by_first_letter

Put = Callable[..., PutNote]


@pytest.fixture
def filled(index: Index, put: Put) -> Index:
    index.apply([
        put("MEMORY.md", "# Caching\n\nRedis caches sessions; the café is open.\n"),
        put(".memories/b.md", "redis Éclair éclairs\n"),
    ])  # fmt: skip
    return index


def find_alike(index: Index, word: str) -> dict[str, int]:
    with index.pool.acquire(5) as reader:
        return dict(find_similar_words(reader, word))


def find_of_letter(index: Index, word: str) -> dict[str, int]:
    with index.pool.acquire(5) as reader:
        return dict(find_words_by_first_letter(reader, word))


def test_words_are_counted_without_case_and_accents(
    filled: Index,
) -> None:
    assert find_alike(filled, "rebus") == {"redis": 2}
    assert find_alike(filled, "caxxxx") == {"caching": 1, "caches": 1, "cafe": 1}
    assert find_of_letter(filled, "cxxxxx") == {"caching": 1, "caches": 1, "cafe": 1}
    assert find_alike(filled, "ecxxxx") == {"eclair": 1, "eclairs": 1}


def test_the_same_reader_can_query_again(filled: Index) -> None:
    with filled.pool.acquire(5) as reader:
        assert find_similar_words(reader, "rebus") == find_similar_words(reader, "rebus")


def test_a_word_is_found_with_one_typing_error_at_its_beginning(filled: Index) -> None:
    typed = "edis xredis erdis tedis rdis rxedis rdeis rtdis rredis reddis".split()
    assert not [word for word in typed if "redis" not in find_alike(filled, word)]


def test_a_word_of_a_deleted_note_is_not_found(filled: Index) -> None:
    filled.apply([DropNote(".memories/b.md")])
    assert find_alike(filled, "eclipse") == {}


def test_any_text_can_be_looked_up(filled: Index) -> None:
    for word in ("\U0010ffff" * 3, "\x00\x00\x00", '"""', "日本語", "%_*"):
        assert "redis" not in find_alike(filled, word)
        assert "redis" not in find_of_letter(filled, word)


def test_the_number_of_words_read_is_limited(
    filled: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup, "MAX_WORDS", 2)
    assert len(find_of_letter(filled, "c")) == 2
