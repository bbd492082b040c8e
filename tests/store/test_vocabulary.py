from __future__ import annotations

from collections.abc import Callable

import pytest

from memsyncd.store import vocabulary
from memsyncd.store.index import Index
from memsyncd.store.updates import DropNote, PutNote
from memsyncd.store.vocabulary import find_words_alike, find_words_begun_otherwise

Put = Callable[..., PutNote]


@pytest.fixture
def filled(index: Index, put: Put) -> Index:
    index.apply([
        put("MEMORY.md", "# Caching\n\nRedis caches sessions; the café is open.\n"),
        put(".memories/b.md", "redis Éclair éclairs\n"),
    ])  # fmt: skip
    return index


def find_alike(index: Index, word: str) -> dict[str, int]:
    with index.readers.lend(5) as reader:
        return dict(find_words_alike(reader, word))


def find_otherwise(index: Index, word: str) -> dict[str, int]:
    with index.readers.lend(5) as reader:
        return dict(find_words_begun_otherwise(reader, word))


def test_words_stand_as_they_are_written_without_case_and_accents_and_are_counted(filled: Index) -> None:
    assert find_alike(filled, "rebus") == {"redis": 2}
    assert find_alike(filled, "cxx") == {"caching": 1, "caches": 1, "cafe": 1}
    assert find_alike(filled, "eclipse") == {"eclair": 1, "eclairs": 1}


def test_the_same_reader_may_ask_again(filled: Index) -> None:
    assert find_alike(filled, "rebus") == find_alike(filled, "rebus")
    with filled.readers.lend(5) as reader:
        assert find_words_alike(reader, "rebus") == find_words_alike(reader, "rebus")


@pytest.mark.parametrize("typed", ["edis", "xredis", "erdis", "tedis"])
def test_a_word_whose_first_letters_are_wrong_is_found_by_the_others(filled: Index, typed: str) -> None:
    assert "redis" in find_otherwise(filled, typed)


def test_a_word_that_is_gone_is_known_no_more(filled: Index) -> None:
    filled.apply([DropNote(".memories/b.md")])
    assert find_alike(filled, "eclipse") == {}


def test_there_is_nothing_like_nothing(filled: Index) -> None:
    assert find_alike(filled, "") == {}
    assert find_alike(filled, "\U0010ffff") == {}


def test_no_more_than_some_words_are_read(filled: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vocabulary, "N_WORDS", 2)
    assert len(find_alike(filled, "c")) == 2
