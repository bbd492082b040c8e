from __future__ import annotations

from datetime import date

import apsw
from hypothesis import example, given
from hypothesis import strategies as st

from memsyncd.core.search.dates import parse_day
from memsyncd.core.search.filters import NO_FILTERS, VALUE_LIMIT, Filters, extract_filters
from memsyncd.core.search.query import (
    QUERY_LIMIT,
    TERM_LIMIT,
    Form,
    Term,
    choose_rarest,
    compile_query,
    compile_selection,
    drop_terms,
    find_query_problems,
    find_typed,
    parse_query,
    read_plain_text,
    shorten_query,
)
from memsyncd.core.search.words import find_subwords, fold, is_unspaced, space_out, split_words
from memsyncd.store.schema import TOKENIZER

# --- Filters --------------------------------------------------------------------------------------

NAMES = ("kind", "tag", "path", "section", "task", "is", "after", "before")
typed_filters = st.lists(
    st.sampled_from(
        [
            *NAMES,
            ":",
            '"',
            "-",
            " ",
            "archived",
            "2026-03-01",
            "2026-13",
            "#x",
            "../*",
            "a b",
            "é",
            "\0",
            "\ud800",
            "[",
        ]
    )
    | st.text(max_size=3),
    max_size=30,
).map("".join)


def test_filters_are_extracted_from_the_typed_text() -> None:
    for text, filters, rest in (
        ("", {}, ""),
        ("redis timeout", {}, "redis timeout"),
        ("kind:decision", {"kinds": ("decision",)}, ""),
        ("redis kind:decision timeout", {"kinds": ("decision",)}, "redis timeout"),
        ("KIND:Decision", {"kinds": ("Decision",)}, ""),
        ("kind:decision kind:error kind:error", {"kinds": ("decision", "error")}, ""),
        ('tag:"two words" x', {"tags": ("two words",)}, "x"),
        ("tag:#auth", {"tags": ("auth",)}, ""),
        ("path:.memories/api", {"paths": (".memories/api",)}, ""),
        ("path:**/*.txt path:MEMORY.md", {"paths": ("**/*.txt", "MEMORY.md")}, ""),
        ('section:"Cache keys"', {"sections": ("Cache keys",)}, ""),
        ("section:MEMORY.md#cache/keys", {"sections": ("MEMORY.md#cache/keys",)}, ""),
        ("task:WU-12", {"tasks": ("WU-12",)}, ""),
        ("is:archived old", {"is_archived": True}, "old"),
        ("is:Archived", {"is_archived": True}, ""),
        ("after:2026-03-01", {"after": "2026-03-01"}, ""),
        ("after:2026-3 before:2026", {"after": "2026-03-01", "before": "2026-01-01"}, ""),
        ("after:2026-01-01 after:2026-02-01", {"after": "2026-02-01"}, ""),
        ("before:2026-01-01 before:2026-02-01", {"before": "2026-01-01"}, ""),
        ("redis -kind:draft", {"exclude": Filters(kinds=("draft",))}, "redis"),
        ('-tag:a -tag:"b c" tag:d', {"tags": ("d",), "exclude": Filters(tags=("a", "b c"))}, ""),
        (
            "what of kind:decision, and tag:c++?",
            {"kinds": ("decision",), "tags": ("c++",)},
            "what of and",
        ),
        ("since after:2026-03!", {"after": "2026-03-01"}, "since"),
        (
            'kind:"a?" path:a? -task:x.',
            {"kinds": ("a?",), "paths": ("a?",), "exclude": Filters(tasks=("x",))},
            "",
        ),
        (
            "session:s-1 source:a source:b -priority:P0 lifecycle:task status:open",
            {
                "sessions": ("s-1",),
                "sources": ("a", "b"),
                "lifecycles": ("task",),
                "statuses": ("open",),
                "exclude": Filters(priorities=("P0",)),
            },
            "",
        ),
        ('meta:a=b meta:"c=d e"', {"metas": ("a=b", "c=d e")}, ""),
        ("importance:.5 importance:0.8", {"min_importance": 0.8}, ""),
        ("is:expired IS:Archived", {"is_expired": True, "is_archived": True}, ""),
        # Text that looks like a filter but is not a filter.
        ("meta:owner meta:=x meta:a>b meta:a=[[]]", {}, "meta:owner meta:=x meta:a>b meta:a=[[]]"),
        (
            'meta:owner="Ann Lee" -meta:a="b c" meta:up=[[Note|shown]]',
            {"metas": ("owner=Ann Lee", "up=Note"), "exclude": Filters(metas=("a=b c",))},
            "",
        ),
        ('related_to:resolved_by="Pool size"', {"related_to": ("resolved_by=Pool size",)}, ""),
        ("meta:rating>=7 meta:due<2026-3", {"metas": ("rating>=7", "due<2026-03-01")}, ""),
        ("has:rating -has:year", {"keys": ("rating",), "exclude": Filters(keys=("year",))}, ""),
        ("importance:high importance:2", {}, "importance:high importance:2"),
        ("kind: decision", {}, "kind: decision"),
        ("kind:", {}, "kind:"),
        ('kind:""', {}, 'kind:""'),
        ('kind:"open', {}, 'kind:"open'),
        ("kind:?!", {}, "kind:?!"),
        ("tag:#", {}, "tag:#"),
        ("colour:red", {}, "colour:red"),
        ("mankind:lost", {}, "mankind:lost"),
        ("(kind:x", {}, "(kind:x"),
        ("--kind:x", {}, "--kind:x"),
        ("is:open", {}, "is:open"),
        ("-is:archived", {}, "-is:archived"),
        ("-after:2026", {}, "-after:2026"),
        ("after:spring", {}, "after:spring"),
        ("after:2026-02-30", {}, "after:2026-02-30"),
        ("before:0000", {}, "before:0000"),
        ("path:../*", {}, "path:../*"),
        ("tag:a\0b", {}, "tag:a\0b"),
        ("tag:\ud800", {}, "tag:\ud800"),
        ('"a kind:x b"', {}, '"a kind:x b"'),
        ('5" disk kind:x "and" tag:y', {"tags": ("y",)}, '5" disk kind:x "and"'),
    ):
        taken, left = extract_filters(text)
        assert taken == Filters(**filters), text
        assert left.split() == rest.split(), text


def test_a_text_holds_no_more_filters_than_the_limit() -> None:
    taken, rest = extract_filters(" ".join(f"tag:t{number}" for number in range(VALUE_LIMIT + 2)))
    assert len(taken.tags) == VALUE_LIMIT
    assert rest.split() == [f"tag:t{VALUE_LIMIT}", f"tag:t{VALUE_LIMIT + 1}"]


@given(typed_filters)
@example('kind:"' * 100)
@example("-" * 500 + "kind:x")
def test_filters_are_extracted_from_any_text_and_phrases_stay_unchanged(text: str) -> None:
    taken, rest = extract_filters(text)
    assert taken.is_empty == (rest == text)
    assert len(rest) <= len(text)
    quoted = '"' + text.replace('"', "") + '"'
    assert extract_filters(quoted) == (NO_FILTERS, quoted)


def test_days_in_filters_may_be_relative_to_today() -> None:
    for text, filters, rest in (
        ("after:7d redis", {"after": "2026-11-11"}, "redis"),
        ("after:last week redis", {"after": "2026-11-09"}, "redis"),
        ('before:"last month" redis', {"before": "2026-10-01"}, "redis"),
        ("redis AFTER:Last Month", {"after": "2026-10-01"}, "redis"),
        ("after:yesterday, redis", {"after": "2026-11-17"}, "redis"),
        ("after:monday before:today", {"after": "2026-11-16", "before": "2026-11-18"}, ""),
        ("kind:last week", {"kinds": ("last",)}, "week"),
        ("after:last weekend", {}, "after:last weekend"),
        ("after:last", {}, "after:last"),
    ):
        taken, left = extract_filters(text, date(2026, 11, 18))
        assert taken == Filters(**filters), text
        assert left.split() == rest.split(), text


def test_a_relative_day_is_text_where_today_is_unknown() -> None:
    assert extract_filters("after:7d")[0] == NO_FILTERS


@given(st.text(alphabet="0123456789-/. ", max_size=12))
@example("2026-2-28")
@example("9999-12-31")
def test_a_day_is_a_calendar_day_or_is_refused(text: str) -> None:
    day = parse_day(text)
    assert day is None or parse_day(day) == day


# --- filters as values ----------------------------------------------------------------------------


EMPTY = "was read as words; {}: takes a value, without a blank before it"
DATES = "a day, month or year such as 2026-03-01, or yesterday, 7d, last week"


def test_what_does_not_count_as_typed_is_described() -> None:
    for text, problems in (
        (
            "alpha after:2026-02-30",
            [f"after:2026-02-30 was read as words; after: takes {DATES}"],
        ),
        ("BEFORE:spring x", [f"BEFORE:spring was read as words; before: takes {DATES}"]),
        ("is:open", ["is:open was read as words; is: takes archived or expired"]),
        ("-is:archived", ["-is:archived was read as words; is: cannot be excluded"]),
        (
            "importance:high",
            ["importance:high was read as words; importance: takes a number from 0 to 1"],
        ),
        (
            "meta:owner",
            ["meta:owner was read as words; meta: takes KEY=VALUE, or KEY>=7 with a number or day"],
        ),
        ("tier:lukewarm", ["nothing can pass tier:lukewarm; tier: takes hot, warm, cold"]),
        ("-priority:P9", ["nothing can pass -priority:P9; priority: takes P0, P1, P2, P3"]),
        (
            "path:../*",
            [
                "path:../* was read as words; path: takes a note, a folder or a glob within the workspace"
            ],
        ),
        (" ".join(f"w{n}" for n in range(33)), ["one word did not count: a query has at most 32"]),
        (" ".join(f"w{n}" for n in range(40)), ["8 words did not count: a query has at most 32"]),
        ('"after:2026-02-30" kind:decision tier:Hot priority:p0 lifecycle:wu', []),
        ('after:2026-03 before:"last week". https://x note:this "kind: x"', []),
        ("kind: decision", [f"kind: {EMPTY.format('kind')}"]),
        (
            'kind:"" -is: x',
            [f'kind:"" {EMPTY.format("kind")}', "-is: was read as words; is: cannot be excluded"],
        ),
        ("redis meta:", [f"meta: {EMPTY.format('meta')}"]),
        ("Task: mend the login of the page", []),
        ("cake -€", ["-€ did not count: only letters, digits, arrows and emoji are indexed"]),
        ("cake -🎉", []),
        ("🎉 a -> b - c -é -日 --", []),
        ("meta:Kind=decision", ["meta:Kind=decision searches other keys; write kind:decision"]),
        ("meta:tags=db", ["meta:tags=db searches other keys; write tag:db"]),
        ("meta:tag=db meta:owner=kind meta:expires=2026", []),
        (
            "path:/memories/x.md path:/memories path:.memories path:./x path:~x.md path:/home/x.md",
            [],
        ),
        *(
            (
                text,
                [
                    f"nothing can pass {text}; a path begins at the workspace's root, as docs/plan.md"
                ],
            )
            for text in ("path:.", "-path:..", "path:~/x")
        ),
    ):
        assert find_query_problems(text, date(2026, 11, 23)) == problems, text


@example([" -"] * 5)  # a query may exclude fewer terms than it may have
@given(st.lists(st.sampled_from([" ", '"', ' "', " -", "-", " kind:", " after:last week", "é"])))
def test_each_query_with_too_many_terms_is_described(marks: list[str]) -> None:
    text = "".join(f"{mark}{number}" for number, mark in enumerate(marks * 4))
    is_described = any("did not count" in problem for problem in find_query_problems(text[:1_000]))
    assert is_described == bool(parse_query(text[:1_000]).n_dropped)


def test_filters_name_themselves_as_people_type_them() -> None:
    filters, _ = extract_filters("-path:old task:T1 kind:a after:2026 before:2027 is:archived")
    assert filters.words == ("kind", "task", "after", "before", "is:archived", "-path")
    assert filters.join(Filters(kinds=("b",), tags=("t",))).words == (*filters.words, "tag")
    assert NO_FILTERS.words == ()
    assert NO_FILTERS.is_empty


def test_joined_filters_are_kept_once_each() -> None:
    one, two, three = (Filters(kinds=(kind,)) for kind in "abc")
    joined = one.join(two).join(three)
    assert [each.kinds for each in joined.chain()] == [("a",), ("b",), ("c",)]
    assert NO_FILTERS.join(one) == one.join(NO_FILTERS) == one


# --- Queries --------------------------------------------------------------------------------------

pieces = [
    "kind:",
    "-tag:",
    "path:",
    "section:",
    "is:archived",
    "after:",
    "2026",
    '"',
    " ",
    "-",
    "a",
    "b*",
]
typed = (
    st.text(max_size=250)
    | st.text(
        alphabet=st.sampled_from("ab\"-*_:()^+{}[]~. \t'’é\u0301ß日本ANDORNOT0"), max_size=250
    )
    | st.lists(st.sampled_from(pieces), max_size=30).map("".join)
)


def make_table(*texts: str) -> apsw.Connection:
    """A real FTS5 table with two columns, as the index has more than one."""
    connection = apsw.Connection(":memory:")
    connection.execute(
        f"CREATE VIRTUAL TABLE notes USING fts5(text, subwords, tokenize='{TOKENIZER}')"
    )
    connection.executemany(
        "INSERT INTO notes VALUES(?, ?)",
        [(space_out(text), find_subwords(text)) for text in map(fold, texts)],
    )
    return connection


def find(connection: apsw.Connection, query: str) -> list[int]:
    """The 1-based numbers of the texts that a query finds; none for a query without terms."""
    match = compile_query(parse_query(query))
    return (
        sorted(
            row[0]
            for row in connection.execute("SELECT rowid FROM notes WHERE notes MATCH ?", (match,))
        )
        if match
        else []
    )


def show(terms: tuple[Term, ...]) -> list[str]:
    return [f"{term.form.value}:{' '.join(term.words)}" for term in terms]


# --- parsing --------------------------------------------------------------------------------------


def test_a_query_compiles_to_this_expression() -> None:
    for text, expression in (
        ("", ""),
        ("  \t ", ""),
        ("?!", ""),
        ("_ __ -_", ""),
        ("redis", '"redis"'),
        ("redis timeout", '"redis" OR "timeout"'),
        ("redis redis Redis", '"redis"'),
        ("How does the redis cache work?", '"redis" OR "cache" OR "work"'),
        ("the", '"the"'),
        ("what's this?", '"what" OR "this"'),
        ("what's new", '"new"'),
        ("What’s new", '"new"'),
        ("to-do list", '"to do" OR "list"'),
        ('"redis timeout"', '-subwords : "redis timeout"'),
        (
            '"redis timeout" cache',
            '-subwords : "redis timeout" AND (-subwords : "redis timeout" OR "cache")',
        ),
        ('"redis timeout" "is cold"', '-subwords : "redis timeout" AND -subwords : "is cold"'),
        ('"redis timeout" the', '-subwords : "redis timeout"'),
        ('a "b', '"b"'),
        ('5" disk failure', '"5" OR "disk" OR "failure"'),
        ("redis -cache", '("redis") NOT "cache"'),
        ('redis -"cold cache" -warm', '(("redis") NOT -subwords : "cold cache") NOT "warm"'),
        ("redis -the", '("redis") NOT "the"'),
        ("git push --force", '"git" OR "push" OR "force"'),
        ("- redis", '"redis"'),
        ("-cache", ""),
        ("re*", '"re" *'),
        ("r*", '"r"'),
        ("*", ""),
        ("redis*", '"redis" *'),
        ("redis redis*", '"redis" OR "redis" *'),
        ("snake_ca*", '"snake ca" *'),
        (
            "snake_case DEC-0054 a/b.py user@host",
            '"snake case" OR "DEC 0054" OR "a b py" OR "user host"',
        ),
        ("NEAR(a b, 3) AND OR NOT", '"NEAR a" OR "b" OR "3"'),
        ("text:redis {heading}:x ^start", '"text redis" OR "heading x" OR "start"'),
        ("don't", '"don t"'),
        ("Ann's dog's", '"Ann" OR "dog"'),
        ("Ann’s?", '"Ann"'),
        ("日本語", '"日本 本語"'),
        ("語", '"語" *'),
        ("疫苗温度", '"疫苗" OR "苗温" OR "温度"'),
        ('"疫苗温度"', '-subwords : "疫 苗 温 度"'),
        ("x -疫苗温度", '("x") NOT "疫 苗 温 度"'),
        ("v2の設計", '"v2" OR "の設 設計"'),
        ("C++ f#", '"Cplusplus" OR "fsharp"'),
        ("cafe\u0301s", '"cafés"'),
        ("nul\0byte \ud800", '"nul byte"'),
        ("kind:decision", ""),
        ("redis kind:decision -tag:old cache", '"redis" OR "cache"'),
        ('"cold start" section:"Cache keys"', '-subwords : "cold start"'),
        ("is:archived redis after:2026-03 before:2027", '"redis"'),
        ('"kind:decision"', '-subwords : "kind decision"'),
        ("kind: decision", '"kind" OR "decision"'),
        ("what do we know about Amara?", '"Amara"'),
        ("who said so", '"who" OR "said" OR "so"'),
        ("after:spring", '"after spring"'),
    ):
        assert compile_query(parse_query(text)) == expression, text


def test_strict_terms_and_others_are_distinguished() -> None:
    query = parse_query('cache redis* "time out" -slow -"very slow"')
    assert show(query.should) == ["word:cache", "prefix:redis"]
    assert show(query.must) == ["phrase:time out"]
    assert show(query.must_not) == ["word:slow", "phrase:very slow"]
    assert show(query.positive) == ["phrase:time out", "word:cache", "prefix:redis"]


def test_a_term_keeps_the_text_as_it_was_typed() -> None:
    assert [term.text for term in parse_query('Snake_Case "Two Words" re*').positive] == [
        "Two Words",
        "Snake_Case",
        "re*",
    ]


# --- bounds ---------------------------------------------------------------------------------------


def test_characters_count_toward_the_limit_and_a_query_within_it_is_as_it_was_typed() -> None:
    for text in ("日" * QUERY_LIMIT, "x" * QUERY_LIMIT, " a\n" * (QUERY_LIMIT // 3)):
        assert shorten_query(text) == text
        assert find_query_problems(text) == find_query_problems(shorten_query(text))


WORDS = ["word", "数据库", "か\u3099", '"two words"', "-no", '-"old plan"', 'section:"A B"', "\n"]
OVERLONG = ["w" * 400, "w" * 1500, "数据库超时" * 300]


def repeat(words: list[str]) -> str:
    return " ".join(words * 9)


# A run without spaces is cut inside of an open phrase, which is then closed.
@example(repeat(['"', "数据库超时" * 300]))
@given(st.lists(st.sampled_from([*WORDS, *OVERLONG, '"']), min_size=1, max_size=40).map(repeat))
def test_a_longer_query_keeps_whole_words_in_their_order(text: str) -> None:
    shortened = shorten_query(text)
    assert len(shortened) <= max(QUERY_LIMIT, len(text) if text == shortened else 0)
    typed = iter(text.split())
    for word in shortened.split():
        start = word.removesuffix('"')
        assert any(
            word in (other, f'{other}"')
            or (is_unspaced(start) and other.startswith(start) and other[len(start)] != "\u3099")
            for other in typed
        )
    problems = find_query_problems(text)
    is_described = any("is shortened to" in problem for problem in problems)
    assert is_described == (len(text) > QUERY_LIMIT)


@given(st.lists(st.sampled_from([*WORDS, *OVERLONG]), min_size=1, max_size=40).map(repeat))
def test_a_shortened_query_excludes_and_filters_nothing_that_was_not_typed(text: str) -> None:
    query = parse_query(text)
    assert {term.text for term in query.must_not} <= {"no", "old plan"}
    assert not {"old", "plan"} & {term.text for term in query.should}
    assert {*query.filters.sections} <= {"A B"}


def test_conditions_beyond_the_limit_are_named() -> None:
    [problem] = find_query_problems(f"-first {'word ' * 300} -last kind:todo -first")
    assert problem.endswith(", by whole words, and kind:todo -last did not count")


def test_a_word_without_spaces_that_is_too_long_does_not_hide_the_words_after_it() -> None:
    assert shorten_query(f"decode {'x' * 5000} in the parser") == "decode in the parser"
    assert shorten_query(f'"{"long phrase " * 200}"') == f'"{"long phrase " * 85}"'.replace(
        ' "', '"'
    )


# --- exclusions that may be options ---------------------------------------------------------------


def test_an_exclusion_beside_a_word_may_be_an_option() -> None:
    for text, commands, excluded in (
        ("tar -xzf", ["tar -xzf"], ["-xzf"]),
        ("how do I use `git commit -m`?", ["commit -m"], ["-m`?"]),
        ("-m git commit", ["-m git"], ["-m"]),
        ("tar -x -z a", ["tar -x", "-x -z"], ["-x", "-z"]),
        ('"git commit" -m', ["git commit -m"], ["-m"]),
        ('cold -"slow start"', ["cold -slow start"], ['-"slow start"']),
        ("-m", ["-m"], ["-m"]),
        ("kind:todo -m", [], ["-m"]),
        ("a -kind:old -tag:x b", [], ["-kind:old", "-tag:x"]),
        ("git --amend", [], []),
        ("a -> b", [], []),
    ):
        query = parse_query(text)
        assert [command.phrase.text for command in query.commands] == commands, text
        assert sorted(query.excluded) == sorted(excluded), text


def test_a_command_is_held_as_it_was_typed() -> None:
    for text, is_held in (
        ("Run `git commit -m msg`.", True),
        ("Git  Commit\n-m", True),
        ("git commit \u2010m", True),
        ("git commit m", False),
        ("git commit -message", False),
        ("recommit -m", False),
        ("git commit --m", False),
        ("git commit-m", False),
    ):
        [command] = parse_query("git commit -m").commands
        assert find_typed(command.make_pattern(), text) == is_held, text


@given(st.text("abcXYZ019", min_size=1, max_size=12))
def test_a_plain_word_is_one_term_of_the_words_that_the_index_has(word: str) -> None:
    [row] = split_words(word)
    [positive, negative] = [parse_query(word).positive, parse_query(f"x -{word}").must_not]
    assert positive == negative == (Term(text=row.text, words=row.words, form=Form.WORD),)


@given(st.lists(st.sampled_from(["die", "was", "ist", "que", "the", "of", "Tests", "foo"])))
def test_the_language_that_has_most_words_of_a_question_tells_its_stopwords(
    words: list[str],
) -> None:
    kept = {term.text for term in parse_query(" ".join(words)).should}
    unique = {*words}
    n_english = len(unique & {"was", "the", "of"})
    is_german = len(unique & {"die", "was", "ist"}) >= max(2, n_english + 1)
    dropped = {"was", "the", "of"} | ({"die", "ist"} if is_german else set())
    assert kept == (unique - dropped or unique)


def test_stopwords_do_not_count_toward_the_limit_of_terms() -> None:
    query = parse_query(" ".join(f"the of w{number}" for number in range(TERM_LIMIT)))
    assert len(query.should) == TERM_LIMIT
    assert query.n_dropped == 0


def test_must_not_terms_count_after_any_number_of_words() -> None:
    words = " ".join(f"w{number}" for number in range(TERM_LIMIT + 5))
    query = parse_query(f'{words} -secret "a phrase"')
    assert show(query.must_not) == ["word:secret"]
    assert show(query.must) == ["phrase:a phrase"]
    assert query.n_dropped == 7


@given(typed)
@example('"' * 200)
@example("-a " * 300)
@example('"a" ' * 250)
@example(" ".join(f'"{number}"' for number in range(200)))
@example(" ".join(f"-{number}" for number in range(150)) + " x")
def test_a_query_never_holds_more_terms_than_the_limit(text: str) -> None:
    query = parse_query(text)
    assert len(query.positive) + len(query.must_not) <= TERM_LIMIT


# --- compiling to FTS5 ----------------------------------------------------------------------------


@given(typed, st.text(max_size=100))
@example("(" * 1000, "")
@example(" ".join(f"-{number}" for number in range(200)) + " x", "")
@example("a." * 512, "")
@example("\U00011fc0", "")
def test_any_text_compiles_to_valid_fts5(text: str, note: str) -> None:
    connection = make_table("a b", note.encode("utf-8", "replace").decode())
    find(connection, text)
    connection.close()


# Scripts and forms that people write: precomposed and not, letters with an irregular case,
# ligatures, scripts with and without spaces.
words = st.text(
    alphabet=st.sampled_from("abzAZ09éÉïßİıǅﬁΣςжЖא日本語한국กำहिन्दी²½")
    | st.sampled_from("\u0301\u0308_-./@"),
    min_size=1,
    max_size=12,
)


@given(words)
@example("İstanbul")
@example("re\u0301sume\u0301")
@example("snake_case")
@example("DEC-0054")
@example("a/b.py")
@example("user@host")
def test_typing_the_words_of_a_note_finds_it(word: str) -> None:
    connection = make_table(f"before {word} after", "another note")
    tokens = connection.fts5_tokenizer("porter", ["unicode61", "remove_diacritics", "2"])(
        word.encode(),
        apsw.FTS5_TOKENIZE_DOCUMENT,
        None,
        include_offsets=False,
        include_colocated=False,
    )
    typed_word = word.lstrip("-")
    if tokens and parse_query(typed_word).positive:
        assert 1 in find(connection, typed_word)
    connection.close()


def test_words_find_notes_with_any_of_them_and_phrases_only_those_with_them_in_a_row() -> None:
    connection = make_table(
        "redis runs hot", "the timeout of redis", "redis timeout is long", "nothing"
    )
    assert find(connection, "redis timeout") == [1, 2, 3]
    assert find(connection, '"redis timeout"') == [3]
    assert find(connection, '"redis timeout" hot') == [3]


def test_a_prefix_finds_its_words_also_within_an_identifier() -> None:
    connection = make_table("kubernetes", "kube_proxy", "cube", "kube_client")
    assert find(connection, "kube*") == [1, 2, 4]
    assert find(connection, "kube_cl*") == [4]


def test_common_words_are_dropped_while_others_remain() -> None:
    query = parse_query("redis file cache")
    redis, file, cache = query.should
    assert drop_terms(query, [file]).should == (redis, cache)
    assert drop_terms(query, [redis, file, cache]) == query
    strict = parse_query('"cold start" file')
    assert drop_terms(strict, strict.should).positive == strict.must


# --- the rarest terms -----------------------------------------------------------------------------


def make_terms(n_terms: int) -> list[Term]:
    return [Term(text=f"w{n}", words=(f"w{n}",), form=Form.WORD) for n in range(n_terms)]


@given(st.lists(st.integers(0, 50), min_size=1, max_size=12), st.integers(0, 300))
def test_the_chosen_terms_match_something_fit_and_leave_no_rarer_one_out(
    counts: list[int], most: int
) -> None:
    terms = make_terms(len(counts))
    of = dict(zip(terms, counts, strict=True))
    chosen = choose_rarest(terms, counts, most=most)
    n_matches = sum(of[term] for term in chosen)
    assert [term for term in terms if term in chosen] == [*chosen]
    assert bool(n_matches) == any(counts)
    assert n_matches <= most or sum(of[term] > 0 for term in chosen) == 1
    for term in set(terms) - set(chosen):
        assert of[term] >= max(of[chosen_] for chosen_ in chosen)
        assert n_matches + of[term] > most


@given(
    st.lists(st.sets(st.integers(0, 6)), min_size=1, max_size=12),
    st.integers(1, 3),
    st.integers(0, 4),
)
def test_a_selection_matches_what_has_a_rare_term_or_two_of_the_others(
    texts: list[set[int]], n_rare: int, n_others: int
) -> None:
    terms = make_terms(n_rare + n_others)
    selection = compile_selection(terms[:n_rare], terms[n_rare:])
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE VIRTUAL TABLE texts USING fts5(text)")
    rows = [(number, " ".join(f"w{word}" for word in text)) for number, text in enumerate(texts)]
    connection.executemany("INSERT INTO texts(rowid, text) VALUES(?, ?)", rows)
    results = connection.execute("SELECT rowid FROM texts WHERE texts MATCH ?", (selection,))
    assert {row[0] for row in results} == {
        number
        for number, text in enumerate(texts)
        if text & {*range(n_rare)} or len(text & {*range(n_rare, n_rare + n_others)}) > 1
    }


def test_stopwords_of_a_language_are_dropped_from_its_questions() -> None:
    for text, kept in (
        ("Wo liegt der Schlüssel für die Halle?", ["liegt", "Schlüssel", "Halle"]),
        ("где лежит ключ от кладовой", ["лежит", "ключ", "кладовой"]),
        ("¿Cuándo llega el tren de la mañana?", ["llega", "tren", "mañana"]),
        ("À quelle heure ferme le dépôt ?", ["heure", "ferme", "dépôt"]),
        ("the war of the die makers", ["war", "die", "makers"]),
        ("no car", ["car"]),
        ("die cast", ["die", "cast"]),
    ):
        assert [term.text.strip("¿?") for term in parse_query(text).should] == kept, text


def test_the_plain_text_of_a_query_has_neither_filters_nor_quotes_nor_what_is_excluded() -> None:
    query = parse_query('path:a.md the "black cat" -dog tag:x sat')
    assert query.plain_text == "the black cat sat"
    assert parse_query("tag:x").plain_text == ""


@given(typed_filters)
def test_the_plain_text_is_read_without_parsing_the_query(text: str) -> None:
    assert read_plain_text(text) == parse_query(text).plain_text
