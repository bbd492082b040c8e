from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memsyncd.core.search.words import (
    FAMILY_WEIGHT,
    IDENTIFIER_WEIGHT,
    K1,
    MAX_IDENTIFIERS,
    N_SUGGESTIONS,
    NAME_LIMIT_CHARACTERS,
    IdentifierMatcher,
    SubwordFinder,
    compute_gains,
    compute_idf,
    edit_distance,
    find_identifiers,
    find_subword_ranges,
    find_subwords,
    fold,
    fold_with_places,
    fold_word,
    is_related,
    is_unspaced,
    make_family,
    respell,
    spell_out,
    split_words,
    suggest_words,
)

# --- Folding --------------------------------------------------------------------------------------


LETTERS = st.sampled_from(
    "aeuÄßñéﬁ２ＡｶﾞがカガｱΆάᾳΈЙйёїאשּהأإآٱةؤﻻ한설설葛㎏Ⅷ½²ŉ\u0300\u0301\u0308\u0345\u05b7\u05c1\u064b\u0654\u0640"
    "\u200b\u200d\u00ad\ufeff\u202e\ufe0f\U000e0100\u3099\uff9e\u0bc6\u0bbe 。,-\n"
)
TEXTS = st.text(LETTERS, max_size=30) | st.text(max_size=30)


def test_a_text_is_folded_to() -> None:
    for text, folded in (
        ("plain text", "plain text"),
        ("Müller, naïve", "Müller, naïve"),  # the tokenizer folds these, and `ue` is indexed, too
        ("Mu\u0308ller", "Müller"),
        ("Βάση Αθήνα ᾠδή", "Βαση Αθηνα ωδη"),
        ("ещё мой Київ", "еще мои Киів"),
        ("הַמַּעֲרֶכֶת", "המערכת"),
        ("כִּתְבֵי־הַקֹּדֶשׁ", "כתבי־הקדש"),
        ("كِتَابُ الـعـربـيـة إلى ٱلله مؤمن", "كتاب العربية الى الله مومن"),
        ("설정", "설정"),
        ("がぎ ﾃﾞｰﾀﾍﾞｰｽ", "がぎ データベース"),
        ("葛\U000e0100城", "葛城"),
        ("ＡＰＩ２ ﬁle oﬃcial Ⅷ x² 5㎏", "API2 file official VIII x2 5kg"),
        ("1½", "1 1\u20442"),
        ("co\u00adoperate zero\u200bwidth می\u200cخواهم", "cooperate zerowidth میخواهم"),
        ("Wi\u2011Fi e\u2010mail", "Wi-Fi e-mail"),
        ("™ 使用，等", "™ 使用，等"),
        ("ㅋㅋ", "ㅋㅋ"),
    ):
        assert fold(unicodedata.normalize("NFC", text)) == folded, text
        assert fold(unicodedata.normalize("NFD", text)) == folded, text


@pytest.mark.life
def test_any_letter_is_folded_to_the_same_in_all_its_forms() -> None:
    # Compatibility jamo, which people type one by one, are no such letters.
    different = [
        letter
        for c in range(0x110000)
        if (letter := chr(c)).isalnum() and not (0x3131 <= c <= 0x318E or 0xFFA0 <= c <= 0xFFDC)
        for form in ("NFC", "NFD", "NFKC", "NFKD")
        if drop_latin_accents(unicodedata.normalize(form, letter)) != drop_latin_accents(letter)
    ]
    assert not different


def drop_latin_accents(text: str) -> str:
    """The folded text without the accents that FTS5's tokenizer folds."""
    plain = unicodedata.normalize("NFD", fold(text).strip())
    return "".join(char for char in plain if not "\u0300" <= char <= "\u036f")


@given(TEXTS)
@example("e\u200d\u0301")
def test_a_folded_text_stays_as_it_is(text: str) -> None:
    assert fold(fold(text)) == fold(text)


@given(TEXTS, TEXTS)
def test_lines_are_folded_one_by_one(text: str, other: str) -> None:
    assert fold(f"{text}\n{other}") == f"{fold(text)}\n{fold(other)}"


@given(TEXTS, TEXTS)
@example("¼Ö", "")
@example("ｶﾞｷﾞ", "")
def test_a_range_of_a_folded_text_is_that_of_the_text_it_stands_for(text: str, other: str) -> None:
    text = f"{text} {other}"
    folded = fold_with_places(text)
    for start in range(len(folded.text)):
        end = start + 1
        first, after = folded.find_original(start, end)
        assert 0 <= first < after <= len(text)
        assert folded.text[start:end] in fold(text[first:after])
        # The smallest piece: a character with the marks and signs on it.
        assert len(fold(text[first:after])) <= 8 or text[first] == "\ufdfa"


@given(st.text(LETTERS, max_size=30))
def test_a_text_is_folded_alike_with_and_without_places(text: str) -> None:
    # Nobody writes an invisible sign between letters that compose.
    assert len(fold_with_places(text).text) >= len(fold(text))
    if not any(unicodedata.category(char) == "Cf" for char in text):
        assert fold_with_places(text).text == fold(text)


def test_these_subwords_are_indexed_with_a_text() -> None:
    for text, parts in (
        ("plain words, snake_case and DEC-0054", "snakecase"),
        ("call getUserName or HTTPServer2", "get User Name HTTP Server 2"),
        ("C++ and f#, not a+b or #tag", "Cplusplus fsharp"),
        ("日本語のメモ", "日本 本語 語の のメ メモ モ"),
        ("人々", "人々 々"),
        ("v2の設計", "の設 設計 計"),
        ("使用Redis缓存", "使用 用 缓存 存"),
        ("API를 호출", "를 호출 출"),
        ("Søren Łukasz", "Soren Lukasz"),
        ("a re-index, the e-mail", "reindex email"),
        ("day-to-day, long-standing, internal-name, x-1, --a-b-c", "longstanding"),
        ("Wi-Fi", "WiFi"),
        ("12,480 and 1.000.000,00", "12480 1000000"),
        ("3.141 is one, but 192.168.1.100, 1,2,300 and 2.5 are not", "3141"),
        ("v1.4.2, go1.22 and v2", "1 4 2 1 22"),
        ("on 2026-03-16T10:11:12Z", "16 T 10 12 Z 2026 03 16 10 11 12"),
        ("from 2026-03-16T10:11+02:00", "16 T 10 2026 03 16 10 11"),
        ("at 10:11:12, 2026-03-16T10:111 or T10:11", "16 T 10"),
        ("C++20", "Cplusplus"),
        ("✅ done → §", "sign9989 sign8594 sign167"),
        ("ภาษา", "ภา าษ ษา า"),
        ("x" * 100_000, ""),
        ("aB" * NAME_LIMIT_CHARACTERS, ""),
        ("Müller geht", "Mueller"),
        ("die Straße und das Öl", "Strasse Oel"),
        ("café", ""),
        ("GRÜẞE", "GRUeSSE"),
    ):
        assert find_subwords(text) == parts, text


def test_a_typed_word_is_split_into_these_sequences() -> None:
    for typed, rows in (
        ("snake_case", [("snake", "case")]),
        ("src/app/main.py", [("src", "app", "main", "py")]),
        ("C++", [("Cplusplus",)]),
        ("日本語", [("日本", "本語")]),
        ("語", [("語",)]),
        ("疫苗温度", [("疫苗",), ("苗温",), ("温度",)]),
        ("v2の設計", [("v2",), ("の設", "設計")]),
        ("re-index", [("reindex",)]),
        ("(E-Mail)?", [("EMail",)]),
        ("dry-run", [("dry", "run")]),
        ("re-index-all", [("re", "index", "all")]),
        ("!?", []),
    ):
        assert [row.words for row in split_words(typed)] == rows, typed


def test_a_phrase_of_any_length_is_one_sequence() -> None:
    assert [row.words for row in split_words("疫苗温度", is_strict=True)] == [
        ("疫", "苗", "温", "度")
    ]


@given(
    st.text(st.characters(min_codepoint=0x4E00, max_codepoint=0x9FFF), min_size=2, max_size=12),
    st.data(),
)
def test_any_two_adjacent_characters_are_found(run: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(run) - 2))
    [row] = split_words(run[at : at + 2])
    assert is_unspaced(run)
    assert row.words[0] in find_subwords(f"before {run} after").split()


@given(st.text(max_size=200))
def test_any_text_can_be_split(text: str) -> None:
    find_subwords(text)
    assert all(row.words for row in split_words(text))


@given(st.text(max_size=100).map(fold))
def test_a_subword_is_found_at_its_range(text: str) -> None:
    for start, end, word in find_subword_ranges(text):
        plain = text[start:end]
        spelled = spell_out(plain)
        named = f"sign{ord(plain[0])}"
        assert word[0] in (plain[0], spelled[:1]) or word in plain or word in (spelled, named)
        assert start < end <= len(text)


HUMPED = st.text(st.sampled_from("aB1 _+#.C日本é"), max_size=60)


@given(HUMPED)
def test_subwords_of_camel_case_are_those_of_a_plain_pattern(text: str) -> None:
    humped = re.compile(
        rf"(?<![A-Za-z0-9])(?=[A-Za-z0-9]*?(?:[a-z0-9][A-Z]|[A-Z]{{2}}[a-z]))"
        rf"[A-Za-z0-9]{{2,{NAME_LIMIT_CHARACTERS}}}+(?![A-Za-z0-9])"
    )
    part = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
    plain = [
        (match.start(), match.end(), match[0])
        for word in humped.finditer(text)
        for match in part.finditer(text, word.start(), word.end())
    ]
    assert find_subword_ranges(text)[: len(plain)] == plain
    # A name that touches a script without spaces is a word as a whole, too.
    others = [
        match
        for start, end, match in find_subword_ranges(text)[len(plain) :]
        if match == text[start:end]
        if not is_unspaced(text[end : end + 1]) and not is_unspaced(text[start - 1 : start])
    ]
    assert not any(map(humped.search, others))


def test_a_typed_word_has_this_other_spelling() -> None:
    for typed, words in (
        ("v1.4.2", ("1", "4", "2")),
        ("Søren", ("Soren",)),
        ("plain", ()),
        ("Plain", ()),
        ("snake_case", ()),
        ("well-to-do", ()),
        ("v2", ()),
    ):
        [row] = split_words(typed)
        assert respell(row.words) == words, typed


MARKED = st.text(st.sampled_from("aBv1 20-.,_日ø"), max_size=40)


@given(MARKED | HUMPED)
def test_a_text_of_any_marks_is_found_by_itself_in_one_pass(text: str) -> None:
    assert find_subwords(text).split() == [word for _, _, word in find_subword_ranges(text)]


WORDS = st.lists(
    st.sampled_from(
        [
            "aB",
            "HTTPServer",
            "plain",
            "C++",
            "C#",
            "日本",
            "é",
            "x1Y2",
            " ",
            "_",
            "a" * 90,
            "re-",
            "v1",
            ".2",
            "12,",
            "345",
            "2026-03-16T10:11",
            "ＡＰ",
            "²",
            "ø",
        ]
    ),
    max_size=5,
).map("".join)


@given(st.lists(WORDS, min_size=1, max_size=6), st.lists(WORDS, max_size=3), st.data())
def test_the_subwords_of_a_piece_of_a_text_are_those_of_the_piece_alone(
    lines: list[str], titles: list[str], data: st.DataObject
) -> None:
    finder = SubwordFinder("\n".join(lines))
    for _ in range(2):
        first = data.draw(st.integers(1, len(lines)))
        piece = "\n".join(lines[first - 1 : data.draw(st.integers(first, len(lines)))])
        piece = (
            piece[: data.draw(st.integers(0, len(piece)))] if data.draw(st.booleans()) else piece
        )
        assert finder.find(titles, piece, first) == find_subwords(f"{' '.join(titles)}\n{piece}")


def test_the_subwords_of_each_line_are_its_own_whatever_joins_their_words() -> None:
    lines = ["1.000 and re-index", "1,000", "snake_case", "e-mail", "v1.2", "a_b 2,000"]
    finder = SubwordFinder("\n".join(lines))
    assert [finder.find((), line, number) for number, line in enumerate(lines, 1)] == [
        "1000 reindex", "1000", "snakecase", "email", "1 2", "ab 2000",
    ]  # fmt: skip


@given(st.characters())
def test_no_character_of_a_script_without_spaces_is_overlooked(character: str) -> None:
    # A code point without a meaning is no letter to FTS5 either.
    if is_unspaced(character) and character.isalnum():
        assert find_subwords(f"a {character} b") == character


OCCURRENCES = st.dictionaries(st.integers(1, 20), st.floats(0.01, 50))


def test_words_are_related_by_a_long_enough_beginning() -> None:
    for stem, other, is_one in (
        ("electr", "electrician", True),
        ("mainten", "maintain", True),
        ("heizung", "heizt", False),
        ("photograph", "photocopi", False),
        ("authent", "auth", True),
        ("configur", "conf", True),
        ("configur", "con", False),
        ("market", "marksman", False),
        ("ключ", "ключи", True),
        ("test", "test", False),
    ):
        family = make_family(stem)
        assert family is not None, stem
        assert is_related(family, other) is is_one, stem


@pytest.mark.parametrize("stem", ["", "oil", "37f2ab", "x1y2z3"])
def test_short_words_and_numbers_have_no_family(stem: str) -> None:
    assert make_family(stem) is None


@given(st.text("abcdeé", min_size=4, max_size=12), st.text("abcdeé", max_size=8))
def test_all_that_continues_a_word_is_related_to_it(stem: str, ending: str) -> None:
    family = make_family(stem)
    assert family is not None
    assert is_related(family, stem + ending) is bool(ending)
    assert all(len(stem) <= 2 * len(short) for short in family.shorter)


def score(idf: float, occurrences: float) -> float:
    return idf * (K1 + 1) * occurrences / (1 + occurrences)


@given(own=OCCURRENCES, longer=OCCURRENCES, shorter=OCCURRENCES)
def test_a_chunk_scores_as_if_related_words_were_a_share_of_the_word(
    own: dict[int, float], longer: dict[int, float], shorter: dict[int, float]
) -> None:
    n_chunks = 100
    every = {chunk: own.get(chunk, 0) + longer.get(chunk, 0) for chunk in {*own, *longer}}

    def score_all(counts: dict[int, float]) -> dict[int, float]:
        idf = compute_idf(n_chunks, len(counts))
        return {chunk: score(idf, n) for chunk, n in counts.items()}

    mine = score_all(own)
    related = [score_all(every), score_all(shorter)]
    gains = compute_gains(n_chunks, len(own), mine, related, has_own=True)
    idf = compute_idf(n_chunks, len(own) or len({*every, *shorter}))
    for chunk in {*every, *shorter}:
        n_related = longer.get(chunk, 0) + shorter.get(chunk, 0)
        wanted = score(idf, own.get(chunk, 0) + FAMILY_WEIGHT * n_related)
        assert mine.get(chunk, 0) + gains.get(chunk, 0) == pytest.approx(wanted, rel=1e-6)
    assert gains.keys() == longer.keys() | shorter.keys()


NAMES = st.from_regex(r"[a-z]{2,6}([-._][a-z]{2,6}){1,3}", fullmatch=True)
WHOLE = 1 + IDENTIFIER_WEIGHT


def test_names_of_code_are_found_in_a_question() -> None:
    for text, names in (
        ("what does `--no-build` do", ("no-build",)),
        ("is --frozen allowed?", ("frozen",)),
        ("where is tool.uv.sources read.", ("tool.uv.sources",)),
        ("MAX_SIZE and maxSize, max_size", ("max_size", "maxsize")),
        ("who calls std::vec::new in src/main.rs?", ("std::vec::new", "src/main.rs")),
        ("`jj log` in `FAQ.md`", ("jj log", "faq.md")),
        ("who cooks on Friday, and what?", ()),
        ("_private_name of a__b", ("_private_name", "a__b")),
        ("`x` and `--y`", ()),
    ):
        assert find_identifiers(text) == names, text


@given(
    st.sampled_from(
        ["`{}`", "--{}", "-{}", "a.{}", "a-{}", "a:{}", "a::{}", "a/{}", "a_{}", "a{}"]
    ),
    st.from_regex(r"[A-Z]{3,9}", fullmatch=True),
    st.from_regex(r"[a-z ]{0,9}", fullmatch=True),
)
def test_names_of_code_are_found_among_plain_words(form: str, name: str, words: str) -> None:
    named = form.format(name)
    assert find_identifiers(f"{words} {named} {words}") == (named.strip("`-").lower(),)


def test_a_question_has_so_many_names_at_most() -> None:
    text = " ".join(f"key_{number}" for number in range(40))
    assert len(find_identifiers(text)) == MAX_IDENTIFIERS


@pytest.mark.parametrize(
    ("text", "factor"),
    [
        ("Set `--no-build` first.", WHOLE),
        ("Set `uv sync --no-build` first.", WHOLE),
        ("```sh\nuv sync --no-build\n```\n", WHOLE),
        ("~~~\n--No-Build", WHOLE),
        ("``a ` --no-build``", WHOLE),
        ("Set --no-build first.", 1.0),
        ("Set `--no-build-isolation` first.", 1.0),
        ("Set `--no-build.x` or `x-no-build` first.", 1.0),
        ("A `no` and a build", 1.0),
        ("a `b` no-build `c`", 1.0),
        ("", 1.0),
    ],
)
def test_a_name_counts_where_it_is_whole_and_in_code(text: str, factor: float) -> None:
    assert IdentifierMatcher(["no-build"]).compute_factor(text, "") == pytest.approx(factor)


def test_the_name_of_a_note_counts_as_its_code() -> None:
    matcher = IdentifierMatcher(["faq.md", "jj log"])
    assert matcher.compute_factor("text", "docs/FAQ.md") == pytest.approx(1 + IDENTIFIER_WEIGHT / 2)
    assert matcher.compute_factor("text", "docs/OLDFAQ.md") == 1.0
    assert matcher.compute_factor("see `jj log`", "FAQ.md") == pytest.approx(WHOLE)


@given(name=NAMES, before=st.text("ab .,\n", max_size=8), after=st.text("ab .,\n", max_size=8))
def test_a_name_in_backticks_is_found_in_a_question_and_in_a_text(
    name: str, before: str, after: str
) -> None:
    text = f"{before}`{name}`{after}"
    assert name in find_identifiers(text)
    assert IdentifierMatcher([name]).compute_factor(text, "") == pytest.approx(WHOLE)


@given(st.text(max_size=60), st.lists(NAMES, min_size=1, max_size=4), st.text(max_size=20))
def test_a_factor_is_bounded_for_any_text(text: str, names: list[str], path: str) -> None:
    assert 1.0 <= IdentifierMatcher(names).compute_factor(text, path) <= WHOLE + 1e-9


# --- Spelling -------------------------------------------------------------------------------------


LETTER_WORDS = st.text(alphabet="abcd", max_size=8)


def near(word: str, *known: str) -> tuple[str, ...]:
    return suggest_words(word, [(other, 1) for other in known])


def test_the_intended_word_is_suggested() -> None:
    for typed, meant in (
        ("conection", "connection"),
        ("connnection", "connection"),
        ("conmection", "connection"),
        ("passwrod", "password"),
        ("Kubernets", "kubernetes"),
        ("edis", "redis"),
        ("erdis", "redis"),
        ("cafe", "café"),
        ("auth", "authentication"),
        ("postgresql", "postgres"),
        ("zürich", "zurch"),
    ):
        folded = fold_word(meant)
        words = near(typed, "unlike", "another", "thing", folded)
        assert words == ((folded,) if folded != fold_word(typed) else ()), typed


def test_words_without_a_typing_error_between_them_are_not_suggested() -> None:
    for typed, other in (
        ("redis", "media"),  # two letters of five
        ("no", "on"),
        ("2024", "2025"),
        ("v12", "v13"),
        ("dec0054", "dec0053"),
        ("x" * 50, "x" * 49),
        ("car", "card game"),
        ("同期", "同時"),
    ):
        assert near(typed, other) == (), typed


def test_the_fewest_edits_come_first_then_the_same_first_letter_then_the_commoner() -> None:
    candidates = [
        ("bessions", 90),
        ("sessions", 1),
        ("session", 5),
        ("sesions", 9),
        ("sxssionx", 99),
    ]
    assert suggest_words("sesssions", candidates) == ("sessions",)
    assert suggest_words("sesssions", [*candidates[:1], *candidates[2:]]) == (
        "sesions",
        "session",
        "bessions",
    )


def test_no_more_suggestions_are_returned_than_are_of_use() -> None:
    candidates = [(f"word{letter}", 1) for letter in "abcdefgh"]
    assert len(suggest_words("wordx", candidates)) == N_SUGGESTIONS


def count_edits(one: str, other: str) -> int:
    """The edits by the whole table of beginnings, without any shortcut."""
    table = {(i, 0): i for i in range(len(one) + 1)} | {(0, j): j for j in range(len(other) + 1)}
    for i, letter in enumerate(one, 1):
        for j, theirs in enumerate(other, 1):
            ways = [table[i - 1, j] + 1, table[i, j - 1] + 1]
            ways.append(table[i - 1, j - 1] + (letter != theirs))
            if i > 1 < j and letter == other[j - 2] and one[i - 2] == theirs:
                ways.append(table[i - 2, j - 2] + 1)
            table[i, j] = min(ways)
    return table[len(one), len(other)]


@given(LETTER_WORDS, LETTER_WORDS, st.integers(0, 4))
def test_the_edit_distance_is_that_of_the_whole_table(one: str, other: str, most: int) -> None:
    assert edit_distance(one, other, most) == min(count_edits(one, other), most + 1)


@given(st.text(), st.lists(st.tuples(st.text(min_size=1), st.integers(0, 5))))
def test_suggestions_for_any_text_are_known_words(word: str, known: list[tuple[str, int]]) -> None:
    words = suggest_words(word, known)
    assert set(words) <= {other for other, _ in known}
    assert fold_word(word) not in words
    assert words == suggest_words(word, reversed(known))
