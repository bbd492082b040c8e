"""A word is found in every script, by each of its spellings: on a real index."""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engine.conftest import search_in

MakeBench = Callable[..., Any]
few = settings(
    max_examples=settings().max_examples // 2,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
numbers = itertools.count()

WORDS = st.sampled_from(
    "naïve Straße Βάση ᾠδή Αθήνα ещё мой їжак הַמַּעֲרֶכֶת كِتَابُ الـعـربـيـة إلى مؤمن شيء 설정 데이터베이스 がぎ データベース"
    " 葛城 使用 official office 2048 x2 VIII Łódź đường Ångström".split()
)
UNSEEN = st.sampled_from(["\u200b", "\u200d", "\u00ad", "\ufeff", "\u2060", "\u202a", "\ufe0f"])
# The letters and digits of the words in other forms.
OTHER_FORMS: dict[str, list[str]] = {}
for letter in map(chr, range(0xA0, 0x1D800)):
    plain = unicodedata.normalize("NFKC", letter)
    if letter.isalnum() and plain != letter and len(plain) == 1:
        OTHER_FORMS.setdefault(plain, []).append(letter)


@st.composite
def spellings(draw: st.DrawFn, word: str) -> str:
    """The word as other programs and people write it."""
    letters = [
        draw(st.sampled_from([letter, *OTHER_FORMS.get(letter, ())]))
        + draw(st.just("") | st.just("") | UNSEEN)
        for letter in unicodedata.normalize("NFC", word)
    ]
    form: Any = draw(st.sampled_from(["NFC", "NFD", "NFKC", "NFKD"]))
    spelled = unicodedata.normalize(form, "".join(letters))
    return drop_marks(spelled) if draw(st.booleans()) else spelled


def drop_marks(word: str) -> str:
    """The word without marks, if its script has letters without them."""
    if any(
        "HANGUL" in (name := unicodedata.name(c, "")) or "KATA" in name or "HIRA" in name
        for c in word
    ):
        return word
    plain = "".join(c for c in unicodedata.normalize("NFD", word) if not unicodedata.combining(c))
    return plain.replace("\u0640", "")


@pytest.fixture
def make(make_bench: MakeBench) -> Callable[[str, str], Any]:
    def make_one(path: str, text: str) -> Any:
        bench = make_bench(f"project-{next(numbers)}")
        bench.open()
        bench.fill({path: text, ".memories/other.md": "# Other\n\nnothing of it\n"})
        return bench

    return make_one


def find_paths(bench: Any, query: str) -> list[str]:
    return [hit.path for hit in search_in([bench.workspace], query, timeout_s=30).hits]


@few
@given(WORDS, st.data(), st.sampled_from(["text", "heading", "tag", "name"]))
def test_a_word_is_found_by_any_of_its_spellings(
    make: Callable[[str, str], Any], word: str, data: st.DataObject, place: str
) -> None:
    written, typed = data.draw(spellings(word)), data.draw(spellings(word))
    if place == "name":
        written = written.replace("\ufeff", "")
    path = f".memories/{written if place == 'name' else 'note'}.md"
    text = {
        "text": f"before {written} after\n",
        "heading": f"# About {written}\n\ntext\n",
        "tag": f"---\ntags: [{written}]\n---\n\ntext\n",
        "name": "text\n",
    }[place]
    bench = make(path, text)
    assert find_paths(bench, typed) == [path]
    assert find_paths(bench, f'"{typed}"') == [path]
    if place == "text":
        [hit] = search_in([bench.workspace], typed, timeout_s=30).hits
        assert hit.snippet.count("**") == 2
        assert hit.snippet.split("**")[1].replace("\ufeff", "") == written.replace("\ufeff", "")


@pytest.mark.parametrize("path", ["setup-guide.md", "2026-03-16.md", "api_v2.txt", "a/MEMORY.md"])
@pytest.mark.parametrize("quote", ["", '"'])
def test_the_name_of_a_file_with_its_ending_finds_the_note(
    make: Callable[[str, str], Any], path: str, quote: str
) -> None:
    path = f".memories/{path}"
    bench = make(path, "text\n")
    bench.fill({".memories/more.md": "the setup guide of api v2, a memory of 2026 03 16\n"})
    name = path.rpartition("/")[2]
    # Each path here has a word with the stem of `MEMORY`.
    assert find_paths(bench, f"{quote}{name}{quote}")[: 1 if "MEMORY" in name else None] == [path]
    assert find_paths(bench, f"{quote}{path}{quote}") == [path]
    assert path not in find_paths(bench, f"memories -{name}")


@pytest.mark.parametrize("sign", ["✅", "🚀", "§§", "→", "❤", "👩\u200d💻"])
def test_a_sign_is_found_by_itself(make: Callable[[str, str], Any], sign: str) -> None:
    bench = make(".memories/note.md", f"a {sign} b\n")
    bench.fill({".memories/third.md": "a b\n"})
    assert find_paths(bench, sign) == find_paths(bench, f'"{sign}"') == [".memories/note.md"]
    assert find_paths(bench, f"a -{sign}") == [".memories/third.md"]
    assert find_paths(bench, f"nothing {sign}") == [".memories/other.md"]
