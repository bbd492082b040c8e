from __future__ import annotations

import re
import time
import unicodedata
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memsyncd.core.search.filters import NO_FILTERS, Filters, extract_filters
from memsyncd.errors import BadRequest
from memsyncd.store.filters import compile_filters, compile_section_filters, find_file_ids
from memsyncd.store.index import Index, PutNote
from memsyncd.store.lookup import count_sections, stream_notes

Put = Callable[..., PutNote]

MEMORY = """---
kind: decision
tags: [auth, Two Words]
created: 2026-03-15
---
# Cache

## Cache keys
<!-- memory: {task: WU-1, created: 2026-04-01T10:00:00Z} -->
redis

## Old keys
<!-- memory: {status: archived, kind: error} -->
redis

# Client/Server
redis
"""
API = "# Cache\n<!-- memory: {kind: error, tags: [auth]} -->\nredis\n\n# Cachet\nredis\n"
TOP, CACHE, KEYS, OLD, SERVER = (
    f"MEMORY.md#{slug}"
    for slug in ("", "cache", "cache/cache-keys", "cache/old-keys", "clientserver")
)
API_CACHE, API_CACHET = (f".memories/api/notes.md#{slug}" for slug in ("cache", "cachet"))
DIARY, GONE = ".memories/2026-02-28 diary.txt#", ".memories/gone.md#"
LIVE = {TOP, CACHE, KEYS, SERVER, API_CACHE, API_CACHET, DIARY}


@pytest.fixture
def filled(index: Index, put: Put) -> Index:
    index.apply([
        put("MEMORY.md", MEMORY),
        put(".memories/api/notes.md", API),
        put(".memories/2026-02-28 diary.txt", "redis\n"),
        put(".memories/gone.md", "---\nstatus: archived\n---\nredis\n"),
    ])  # fmt: skip
    return index


def find(index: Index, filters: Filters) -> set[str]:
    """Anchors of the sections that filters select."""
    with index.pool.acquire(5) as reader:
        allowed, bindings = compile_filters(reader, filters)
        rows = f"SELECT rowid FROM chunks_fts WHERE 1 {allowed}"
        statement = f"SELECT f.path || '#' || s.slugs FROM chunks c JOIN sections s ON s.id = c.section JOIN files f ON f.id = s.file WHERE c.id IN ({rows})"
        results = {row[0] for row in reader.rows(statement, bindings)}
        condition, bindings = compile_section_filters(reader, filters)
        found = f"FROM sections s JOIN files f ON f.id = s.file WHERE {condition or 1}"
        rows = [*reader.rows(f"SELECT f.path || '#' || s.slugs, s.id {found}", bindings)]
        with_chunks = {row[0] for row in reader.rows("SELECT section FROM chunks")}
        # The words of front matter find a chunk of another section.
        assert {anchor for anchor, number in rows if number in with_chunks} == results
        return {anchor for anchor, _ in rows}


LET_THROUGH = [
    ("", LIVE),
    ("kind:decision", {TOP, CACHE, KEYS, SERVER}),
    ("kind:Decision kind:error", {TOP, CACHE, KEYS, SERVER, API_CACHE}),
    ("kind:none", set()),
    ("tag:AUTH kind:error", {API_CACHE}),
    ("tag:#auth", {TOP, CACHE, KEYS, SERVER, API_CACHE}),
    ('tag:"two words"', {TOP, CACHE, KEYS, SERVER}),
    ("path:MEMORY.md", {TOP, CACHE, KEYS, SERVER}),
    ("path:./MEMORY.md", {TOP, CACHE, KEYS, SERVER}),
    ("path:.memories/api", {API_CACHE, API_CACHET}),
    ("path:api/", {API_CACHE, API_CACHET}),
    ("path:api/*.md", {API_CACHE, API_CACHET}),
    ("path:**/*.txt path:api", {DIARY, API_CACHE, API_CACHET}),
    ("path:nowhere", set()),
    ("section:cache", {CACHE, KEYS, API_CACHE}),
    ('section:"Cache Keys"', {KEYS}),
    ("section:cache/keys", set()),
    ("section:cache/cache-keys", {KEYS}),
    ("section:client/server", {SERVER}),
    ("section:MEMORY.md#cache", {CACHE, KEYS}),
    ("section:MEMORY.md#cach", set()),
    ("section:MEMORY.md#", {TOP}),
    ("section:#Cachet", {API_CACHET}),
    ("task:wu-1", {KEYS}),
    ("after:2026-03", {TOP, CACHE, KEYS, SERVER}),
    ("after:2026-04-01", {KEYS}),
    ("after:2026-04-02", set()),
    # Notes without a date have the day on which they were saved: here in 1970.
    ("before:2026-04-01", {TOP, CACHE, SERVER, DIARY, API_CACHE, API_CACHET}),
    ("before:1971", {API_CACHE, API_CACHET}),
    ("after:1960 before:2020", {API_CACHE, API_CACHET}),
    ("after:2026-02-28 before:2026-03-01", {DIARY}),
    ("is:archived", {OLD, GONE}),
    ("is:archived kind:error", {OLD}),
    ("-kind:decision", {API_CACHE, API_CACHET, DIARY}),
    ("-kind:decision -kind:error", {API_CACHET, DIARY}),
    ("-path:.memories -tag:nothing", {TOP, CACHE, KEYS, SERVER}),
    ("-section:cache -task:x", {TOP, SERVER, API_CACHET, DIARY}),
    ("kind:decision -section:cache", {TOP, SERVER}),
]


def test_filters_select_these_sections(filled: Index) -> None:
    assert [
        (text, find(filled, extract_filters(text)[0])) for text, _ in LET_THROUGH
    ] == LET_THROUGH


def test_no_statement_runs_without_a_filter(index: Index, put: Put) -> None:
    index.apply([put("MEMORY.md", "redis")])
    with index.pool.acquire(5) as reader:
        assert compile_filters(reader, NO_FILTERS) == ("", {})


def test_a_note_that_is_restored_is_found_again(filled: Index, put: Put) -> None:
    filled.apply([put(".memories/gone.md", "---\nstatus: active\n---\nredis\n", tick=2)])
    assert find(filled, NO_FILTERS) == LIVE | {GONE}
    assert find(filled, Filters(is_archived=True)) == {OLD}


FILM = """---
director: ["[[Ridley Scott]]", "[[Ann O'Hara|Ann]]"]
Owner: Ann Lee
rating: 7
year: 1982
seen: 2026-02-03
empty:
---
text
"""
CAR = "type:: [[Feature]]\nrating:: 10\n\n# Car\n<!-- memory: {owner: Bob, task: T-1} -->\ntext\n"
FILM_TOP, CAR_TOP, CAR_OWN = "film.md#", "car.md#", "car.md#car"


def test_properties_are_filtered_as_they_are_meant(index: Index, put: Put) -> None:
    index.apply([put("film.md", FILM), put("car.md", CAR)])
    for text, found in (
        ('meta:director="ridley scott"', {FILM_TOP}),
        ('meta:director="[[Ridley Scott]]"', {FILM_TOP}),
        ('meta:"Director=Ann O\'Hara"', {FILM_TOP}),
        ("meta:type=feature", {CAR_TOP, CAR_OWN}),
        ('meta:OWNER="ANN LEE" meta:owner=bob', {FILM_TOP, CAR_OWN}),
        ("meta:rating>=7", {FILM_TOP, CAR_TOP, CAR_OWN}),
        ("meta:rating>7 meta:rating<=10", {CAR_TOP, CAR_OWN}),
        ("meta:rating>7 meta:rating<9", set()),
        ("-meta:rating>7", {FILM_TOP}),
        ("meta:year<2000", {FILM_TOP}),
        ("meta:seen>=2026-02 meta:seen<2026-03", {FILM_TOP}),
        ("has:year", {FILM_TOP}),
        ("has:RATING -has:Owner", {CAR_TOP}),
        ("has:task", {CAR_OWN}),
        ("has:empty", set()),
        ("has:tags", set()),
        ("has:year has:task", {FILM_TOP, CAR_OWN}),
    ):
        assert find(index, extract_filters(text)[0]) == found


POOL = """---
topic: [redis, pools]
keywords: [sockets]
source: {client: Acme, date: 2026-03-01}
---
# Auth server, sessions
text
## Own
<!-- memory: {topic: login, keywords: [Über, "e-mail"], source: acme} -->
text
"""
PLAIN = "---\nsource: {client: acmeson}\n---\n# Auth server, sessions\n<!-- memory: {tags: [sockets, e/mail]} -->\ntext\n"
POOL_TITLE, POOL_OWN, PLAIN_TITLE, FILE_NAME = (
    "pool.md#auth-server-sessions",
    "pool.md#auth-server-sessions/own",
    "plain.md#auth-server-sessions",
    "lone.md#",
)
POOL_TOP, PLAIN_TOP = "pool.md#", "plain.md#"


def test_topics_keywords_and_parts_of_a_source_are_filtered(index: Index, put: Put) -> None:
    index.apply([put("pool.md", POOL), put("plain.md", PLAIN), put("lone.md", "text\n")])
    for text, anchors in (
        ("topic:REDIS", {POOL_TOP, POOL_TITLE}),
        ("topic:pools", {POOL_TOP, POOL_TITLE}),
        ("topic:login", {POOL_OWN}),
        ("topic:redis topic:login", {POOL_TOP, POOL_TITLE, POOL_OWN}),
        ('topic:"auth server, sessions"', {PLAIN_TOP, PLAIN_TITLE}),
        ('-topic:"auth server, sessions" -topic:login', {POOL_TOP, POOL_TITLE, FILE_NAME}),
        ("topic:lone", {FILE_NAME}),
        ("topic:other", set()),
        ("tag:sockets", {POOL_TOP, POOL_TITLE, PLAIN_TITLE}),
        ("tag:über", {POOL_OWN}),
        ("tag:E-Mail", {POOL_OWN}),
        ("-tag:sockets", {POOL_OWN, PLAIN_TOP, FILE_NAME}),
        ("source:client=acme", {POOL_TOP, POOL_TITLE}),
        ('source:client="ACME" source:acme', {POOL_TOP, POOL_TITLE, POOL_OWN}),
        ("source:date=2026-03-01", {POOL_TOP, POOL_TITLE}),
        ("source:client=acm", set()),
    ):
        assert find(index, extract_filters(text)[0]) & {
            POOL_TOP, POOL_TITLE, POOL_OWN, PLAIN_TOP, PLAIN_TITLE, FILE_NAME,
        } == anchors  # fmt: skip


def test_a_keyword_that_is_removed_is_no_longer_filtered(index: Index, put: Put) -> None:
    index.apply([put("pool.md", POOL)])
    index.apply([put("pool.md", POOL.replace("keywords: [sockets]", "owner: Ann"), tick=2)])
    assert find(index, Filters(tags=("sockets",))) == set()
    assert find(index, Filters(tags=("e-mail",))) == {POOL_OWN}


def test_a_heading_of_a_day_dates_its_section_and_those_beneath_it(index: Index, put: Put) -> None:
    own = "<!-- memory: {created: 2024-05-05} -->"
    log = f"# Log\na\n## 2026-03-01\nb\n### Later\nc\n### Own\n{own}\nd\n## Rest\ne\n"
    index.apply([put(".memories/log.md", f"---\ncreated: 2025-01-01\n---\n{log}")])

    def slugs(text: str) -> set[str]:
        return {anchor.rpartition("/")[2] for anchor in find(index, extract_filters(text)[0])}

    assert slugs("after:2026") == {"2026-03-01", "later"}
    assert slugs("before:2025") == {"own"}
    assert slugs("after:2025 before:2026") == {"log.md#", "log.md#log", "rest"}


def test_a_renamed_note_has_the_day_of_its_new_name(filled: Index, put: Put) -> None:
    old = ".memories/2026-02-28 diary.txt"
    filled.apply([put(".memories/2026-05-01.txt", "redis\n", moved_from=old)])
    assert find(filled, Filters(after="2026-05-01")) == {".memories/2026-05-01.txt#"}


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_filters_ignore_case_and_composition_of_accents(index: Index, put: Put, form: str) -> None:
    text = unicodedata.normalize(
        form, "# Café Müller\n<!-- memory: {tags: [Über], task: Ölung-1} -->\nredis\n"
    )
    note = put(unicodedata.normalize(form, ".memories/größe é.md"), text)
    index.apply([note, put("MEMORY.md", "redis")])
    anchors = {section.anchor for section in note.note.sections}
    for typed in (
        "tag:über",
        "task:ölung-1",
        'section:"café müller"',
        'path:"größe é.md"',
        "path:gr*.md",
    ):
        for typed_form in ("NFC", "NFD"):
            assert (
                find(index, extract_filters(unicodedata.normalize(typed_form, typed))[0]) == anchors
            ), (typed, typed_form)


def test_the_worth_of_a_section_is_asked_once_however_many_groups_and_chunks_there_are(
    index: Index, put: Put
) -> None:
    index.apply([put("a.md", "# One\n" + "many words\n\n" * 2_000), put("b.md", "# Two\nredis\n")])
    asked: list[str] = []

    def find_worth(anchor: str, *_stated: object) -> float:
        asked.append(anchor)
        return 0.3 if anchor == "a.md#one" else 0.1

    filters = Filters(tiers=("warm",), find_worth=find_worth, tiers_from=(0.2, 0.5))
    with index.pool.acquire(30) as reader:
        assert reader.rows("SELECT count(*) FROM chunks")[0][0] > 2
        counts = count_sections(reader, filters, ["kind", "month", "tag"], most=5)
        assert sorted(asked) == ["a.md#one", "b.md#two"]
        assert (counts.n_sections, counts.n_notes) == (1, 1)
        assert [note.path for note in stream_notes(reader, filters=filters)] == ["a.md"]
    assert sorted(asked) == ["a.md#one", "a.md#one", "b.md#two", "b.md#two"]


def test_an_invalid_glob_is_refused_with_its_reason(filled: Index) -> None:
    with pytest.raises(BadRequest, match=re.escape("`..`")):
        find(filled, Filters(paths=("../*",)))


def test_paths_name_files_folders_and_globs(filled: Index) -> None:
    requested = {
        "MEMORY.md": 1,
        ".memories": 3,
        ".memories/api": 1,
        "api": 1,
        "**": 4,
        "[": 0,
        "none": 0,
        "": 0,
        "/": 0,
        "./": 0,
    }
    with filled.pool.acquire(5) as reader:
        paths = dict(reader.rows("SELECT id, path FROM files"))
        for path, n_found in requested.items():
            numbers = find_file_ids(reader, [path])
            assert len(numbers) == n_found, (path, [paths[row] for row in numbers])


def test_a_path_of_the_memory_tool_names_the_same_notes(filled: Index) -> None:
    for path, found in (
        ("/memories/api/notes.md", {API_CACHE, API_CACHET}),
        ("/memories/api/", {API_CACHE, API_CACHET}),
        ("/memories/api/*.md", {API_CACHE, API_CACHET}),
        ("/memories/MEMORY.md", {TOP, CACHE, KEYS, SERVER}),
        ("/memories", {API_CACHE, API_CACHET, DIARY}),
        ("/memoriesapi", set()),
    ):
        assert find(filled, Filters(paths=(path,))) == found


def test_an_absolute_path_within_the_root_names_the_same_notes(filled: Index) -> None:
    for path, n_found in (
        ("/home/you/api/.memories/api/notes.md", 1),
        ("/home/you/api/.memories/api/", 1),
        ("/home/you/api/**/*.md", 3),
        ("/home/you/api", 4),
        ("/home/you/api/", 4),
        ("/home/you/apis/MEMORY.md", 0),
        ("/home/you", 0),
        ("/memories", 4),
    ):
        with filled.pool.acquire(5) as reader:
            reader.root, reader.memory_folder = "/home/you/api", ""
            assert len(find_file_ids(reader, [path])) == n_found
            counted = count_sections(reader, Filters(paths=(path,)), [], most=1)
            assert bool(counted.n_notes) == bool(n_found)


def test_a_path_with_the_name_of_a_note_or_folder_is_no_glob(index: Index, put: Put) -> None:
    paths = ["a[1].md", "a1.md", "b*.md", "b2.md", "x[{].md", "d[1]/n.md", "d1/n.md"]
    paths += [".memories/c[1].md", ".memories/c1.md", ".memories/é[1].md"]
    index.apply([put(path, "redis\n") for path in paths])
    requested = {
        "a[1].md": {"a[1].md"},
        "./a[1].md": {"a[1].md"},
        "a[12].md": {"a1.md"},
        "b*.md": {"b*.md"},
        "b?.md": {"b*.md", "b2.md"},
        "x[{].md": {"x[{].md"},
        "d[1]": {"d[1]/n.md"},
        "d[1]/": {"d[1]/n.md"},
        "d[1]/*.md": {"d1/n.md"},
        "c[1].md": {".memories/c[1].md"},
        unicodedata.normalize("NFD", "é[1].md"): {".memories/é[1].md"},
    }
    with index.pool.acquire(5) as reader:
        path_by_id = dict(reader.rows("SELECT id, path FROM files"))
        for path, expected in requested.items():
            assert {path_by_id[row] for row in find_file_ids(reader, [path])} == expected, path
    for path, expected in requested.items():
        places = find(index, Filters(paths=(path,)))
        assert {anchor.partition("#")[0] for anchor in places} == expected, path


def test_filters_need_no_query_per_selected_chunk(index: Index, put: Put) -> None:
    index.apply(
        [
            put(f".memories/{number}.md", "---\nkind: log\n---\n" + "redis runs\n\n" * 60)
            for number in range(40)
        ]
    )
    with index.pool.acquire(30) as reader:
        costs = []
        for filters in (NO_FILTERS, Filters(kinds=("log",))):
            allowed, bindings = compile_filters(reader, filters)
            statement = f"SELECT rowid FROM chunks_fts WHERE chunks_fts MATCH 'redis OR runs' {allowed} ORDER BY bm25(chunks_fts)"
            rounds = []
            for _ in range(5):  # the least of some, since the machine is shared
                began_s = time.thread_time()
                assert reader.rows(statement, bindings)
                rounds.append(time.thread_time() - began_s)
            costs.append(min(rounds))
    assert costs[1] < 10 * costs[0]


filters_typed = st.lists(
    st.sampled_from(
        [
            "kind:decision",
            "kind:error",
            "tag:auth",
            "path:api",
            "path:**/*.md",
            "section:cache",
            "task:WU-1",
        ]
    )
    | st.sampled_from(
        ["after:2026-03-15", "before:2026-04", "-kind:error", "-path:MEMORY.md", "-section:keys"]
    ),
    max_size=6,
).map(" ".join)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(typed=filters_typed, more=filters_typed)
def test_filters_only_remove_results(filled: Index, typed: str, more: str) -> None:
    one, other = extract_filters(typed)[0], extract_filters(more)[0]
    both = find(filled, one.join(other))
    assert both == find(filled, one) & find(filled, other)
    assert both == find(filled, other.join(one))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    values=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), max_size=3).map(
        tuple
    )
)
def test_any_values_can_be_filters(filled: Index, values: tuple[str, ...]) -> None:
    for name in ("kinds", "tags", "sections", "tasks"):
        more: dict[str, Any] = {name: values}
        assert find(filled, Filters(**more)) <= LIVE
        assert (
            find(filled, Filters(exclude=Filters(**more))) == LIVE - find(filled, Filters(**more))
            or not values
        )
