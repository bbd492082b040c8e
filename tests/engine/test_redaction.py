"""Answers about notes with secrets show the position and the kind, never the secret; and nothing
else changes.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from memsyncd.config import Config, GuardConfig
from memsyncd.core.guard.secrets import redact
from memsyncd.core.model import CHUNK_LIMIT_CHARS
from memsyncd.core.search.filters import NO_FILTERS
from memsyncd.engine.browse import find_problems
from memsyncd.engine.plan import RunOptions
from memsyncd.engine.redaction import read_redacted_chunks
from memsyncd.engine.workspace import index_fingerprint
from memsyncd.operations.notes.declare import GetParams, ListParams
from memsyncd.operations.notes.read import list_notes, read_place
from memsyncd.operations.similar.declare import DuplicatesParams
from memsyncd.operations.similar.run import find_duplicates
from memsyncd.store import pool
from memsyncd.store.search import find_candidates
from memsyncd.store.texts import read_texts
from tests.core.guard.test_secrets import HEX, KEY, KEY_LINES, make
from tests.engine.conftest import POLICY, build_block, search_in

TOKEN = "ghp_" + make(36)
PASSWORD = "kX9mQ2vL7p"
API_KEY = "sk-" + make(32, HEX)
HOSTS = f"""# Hosts

The runner's token is {TOKEN}, made in spring.

## Database of {TOKEN}

password: {PASSWORD}

## Shell

{KEY}

That was the key of the shell.
"""
MASKED, UNMASKED, UNGUARDED = (
    structs.replace(POLICY, guard=GuardConfig(secrets=secrets))
    for secrets in ("mask", "flag", "off")
)


def show(bench: Any, query: str, config: Config = MASKED) -> str:
    """All texts of a search result."""
    hits = search_in([bench.workspace], query, config, limit=50).hits
    return "\n".join(
        f"{hit.anchor} {hit.heading} {hit.kind} {hit.tags} {hit.snippet} {hit.matched}"
        for hit in hits
    )


def explain_empty(bench: Any, query: str) -> str:
    answer = search_in([bench.workspace], query, MASKED)
    assert not answer.hits
    return f"{answer.why_empty} {answer.did_you_mean}"


def build(bench: Any, query: str = "", config: Config = MASKED, max_tokens: int = 2000) -> str:
    return build_block(bench.workspace, query, config, max_tokens=max_tokens).text


@pytest.fixture
def filled(bench: Any) -> Any:
    bench.write(".memories/hosts.md", HOSTS)
    bench.write("MEMORY.md", "# Memory\n\nThe runner waits for the database.\n")
    bench.sync()
    return bench


def test_a_snippet_redacts_a_secret_and_highlights_the_query(filled: Any) -> None:
    hits = search_in([filled.workspace], "runner token spring", MASKED).hits
    assert (
        hits[0].snippet
        == "The **runner**'s **token** is [masked: GitHub **token**], made in **spring**."
    )
    assert "[masked: **password**]" in show(filled, "password")
    assert PASSWORD not in show(filled, "password")
    assert "'Database of [masked: GitHub token]'" in show(filled, "password")


def test_a_search_for_a_secret_finds_it_without_showing_it(filled: Any) -> None:
    hits = search_in([filled.workspace], TOKEN, MASKED).hits
    assert hits
    assert not any(TOKEN in hit.snippet for hit in hits)
    assert KEY_LINES[2] not in show(filled, f"shell {KEY_LINES[2]}").replace(
        f"'{KEY_LINES[2]}'", ""
    )


def test_a_key_that_many_chunks_share_is_redacted_in_each(filled: Any) -> None:
    chunks = filled.ask(
        "SELECT count(*) FROM chunks c JOIN secrets s ON s.what = 'private key' AND s.start_line <= c.end_line"
    )
    assert chunks[0][0] > 2
    text = build(filled, "path:hosts.md")
    assert text.count("[masked: private key]") == 1
    assert text.count("\n[masked]") == len(KEY.split("\n")) - 1
    assert "That was the key of the shell." in text


def test_redaction_changes_neither_the_hits_nor_their_order(filled: Any) -> None:
    for query in ("token", "runner database", "password shell key", TOKEN):
        masked, plain = (
            [
                (hit.path, hit.start_line, hit.end_line, hit.score, hit.matched)
                for hit in search_in([filled.workspace], query, config).hits
            ]
            for config in (MASKED, UNMASKED)
        )
        assert masked == plain


def test_notes_without_secrets_are_unchanged_by_redaction(bench: Any) -> None:
    bench.fill(
        {"MEMORY.md": "# Memory\n\nmax_tokens: 4096, api_key: YOUR_KEY, password: see the vault\n"}
    )
    assert show(bench, "password") == show(bench, "password", UNMASKED)
    assert build(bench) == build(bench, config=UNMASKED)


def test_similar_words_never_reveal_a_secret(bench: Any) -> None:
    bench.fill({"MEMORY.md": "# Hosts\n\npassword: Sunflowre-9x4z\n\nThe sunflowar grows.\n"})
    assert "similar words in notes: sunflowar;" in explain_empty(bench, "snuflower")
    bench.fill({"MEMORY.md": "# Hosts\n\npassword: Sunflowre-9x4z\n"})
    assert "similar words" not in explain_empty(bench, "snuflower")
    bench.fill(
        {"MEMORY.md": "# Hosts\n\npassword: Sunflowre-9x4z\n\nThe word sunflowre is a slip.\n"}
    )
    assert "sunflowre" in explain_empty(bench, "snuflower")


def test_no_chunk_shows_a_secret_whether_or_not_it_is_redacted_as_a_whole(bench: Any) -> None:
    key = "\n".join(["-----BEGIN PRIVATE KEY-----", *["QUJDREVGR0g" * 5] * 30])
    lines = [f"plain line {number} of the note about hosts" for number in range(60)]
    secrets = (TOKEN, "password: hunter2-9x4z-Q", "postgres://ann:s3cr3t-9Q@db.test/x", key)
    for number, secret in enumerate(secrets):
        text = "\n\n".join([*lines, secret, *lines, "at 10:30, id 4711", secret])
        bench.write(f".memories/{number}.md", f"# Hosts {number}\n\n{text}\n")
    bench.sync()
    with bench.workspace.acquire(5) as reader:
        chunks = [row[0] for row in reader.rows("SELECT id FROM chunks")]
        texts = read_texts(reader, chunks)
        candidates = find_candidates(reader, '"note" OR "hosts"', NO_FILTERS, limit=10_000)
        visible = read_redacted_chunks(reader, [row[0] for row in candidates.rows], MASKED)
    assert visible
    assert {chunk: redact(text) for chunk, text in visible.items()} == visible
    untouched = [chunk for chunk, text in visible.items() if text == texts[chunk]]
    assert {chunk: redact(texts[chunk]) for chunk in untouched} == {
        chunk: texts[chunk] for chunk in untouched
    }


def test_reads_for_editing_are_not_redacted(filled: Any) -> None:
    assert (
        TOKEN
        in read_place(filled.workspace, GetParams(path=".memories/hosts.md"), now_ns=0)[0].text
    )
    assert TOKEN in filled.memory("view", "/memories/hosts.md").text


def test_problems_list_secrets_until_they_are_removed(filled: Any) -> None:
    secrets = [problem for problem in find_problems(filled.workspace) if problem.code == "secret"]
    assert [(problem.path, problem.line) for problem in secrets] == [
        (".memories/hosts.md", line) for line in (3, 5, 7, 11)
    ]
    assert not any(TOKEN in str(problem) or PASSWORD in str(problem) for problem in secrets)
    filled.fill({".memories/hosts.md": "# Hosts\n\nIn the vault.\n"})
    assert find_problems(filled.workspace) == []
    assert filled.ask("SELECT count(*) FROM secrets") == [(0,)]
    filled.fill({".memories/hosts.md": HOSTS})
    (filled.root / ".memories/hosts.md").unlink()
    filled.sync()
    assert filled.ask("SELECT count(*) FROM secrets") == [(0,)]


def test_the_guard_checks_are_part_of_the_fingerprint_of_an_index(bench: Any) -> None:
    assert index_fingerprint(UNGUARDED) != index_fingerprint(bench.config)
    bench.config = UNGUARDED
    bench.fill({"MEMORY.md": f"# Memory\n\nThe token is {TOKEN}.\n"})
    assert find_problems(bench.workspace) == []
    assert TOKEN in show(bench, "token", UNGUARDED)


QUERIES = ("", "token password key shell runner database", "path:hosts.md", "rsa private")


def assert_nothing_leaks(bench: Any) -> None:
    visible = [build(bench, query, max_tokens=9000) for query in QUERIES]
    visible += [show(bench, query) for query in QUERIES]
    visible.append(str(list_notes(bench.workspace, MASKED, ListParams()).notes))
    assert "[masked: private key]" in str(visible)
    leaked = [
        secret
        for secret in (TOKEN, PASSWORD, *KEY_LINES)
        if any(secret in text for text in visible)
    ]
    assert leaked == []


def test_an_index_made_without_the_check_shows_no_secret_while_it_answers(bench: Any) -> None:
    bench.config = UNGUARDED
    bench.write(".memories/hosts.md", HOSTS)
    bench.rebuild()
    assert bench.ask("SELECT count(*) FROM secrets") == [(0,)]
    assert_nothing_leaks(bench)


def test_an_index_of_an_older_version_shows_no_secret_that_it_missed(filled: Any) -> None:
    writer = filled.workspace.index._writer
    writer.execute("UPDATE meta SET value = 'older' WHERE key = 'fingerprint'")
    writer.execute("DELETE FROM secrets WHERE start_line > 3")
    assert_nothing_leaks(filled)


def test_similar_words_reveal_no_secret_of_an_index_made_without_the_check(bench: Any) -> None:
    bench.config = UNGUARDED
    bench.write("MEMORY.md", "# Hosts\n\npassword: Sunflowre-9x4z\n")
    bench.rebuild()
    assert "similar words" not in explain_empty(bench, "snuflower")


def test_a_secret_that_an_edit_writes_or_moves_is_masked(bench: Any) -> None:
    plain = "".join(f"# Host {n}\n\nThe runner {n} waits.\n\n" for n in range(40))
    for at in ("# Host 20\n", "The runner 39 waits.\n", "# Host 0\n"):
        bench.fill({".memories/hosts.md": plain})
        for moved in ("", "An early line.\n\n"):
            text = plain.replace("The runner 5 waits.\n", f"The runner 5 waits.\n{moved}")
            bench.fill({".memories/hosts.md": text.replace(at, f"{at}\n{HOSTS}")})
            assert_nothing_leaks(bench)


def test_an_index_without_secret_rows_is_redacted_too(filled: Any) -> None:
    filled.workspace.index._writer.execute("DROP TABLE secrets")
    assert TOKEN not in show(filled, "token")
    assert "[masked: GitHub token]" in build(filled, "token")


def test_a_chunk_of_a_giant_line_shows_nothing_of_a_key(bench: Any) -> None:
    bench.fill({"MEMORY.md": f"{'larch ' * 12_000}\n{KEY}\n{'maple ' * 12_000}\n"})
    for query in ("larch", "maple", "larch maple rsa"):
        text = build(bench, query, max_tokens=100_000)
        assert text
        assert not any(line in text for line in KEY_LINES)


LINES = st.sampled_from(
    [
        "",
        "# Heading",
        "word",
        "- item",
        "```",
        f"the token {TOKEN} is old",
        f"password: {PASSWORD}",
        KEY,
    ]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(LINES, max_size=12), max_tokens=st.integers(20, 400))
def test_no_reported_secret_is_ever_shown(bench: Any, lines: list[str], max_tokens: int) -> None:
    bench.fill({"MEMORY.md": "\n".join(lines)})
    visible = [
        build(bench, query, max_tokens=max_tokens)
        for query in ("", "token password word heading item rsa", "path:MEMORY.md")
    ]
    visible.append(show(bench, "token password word rsa private"))
    assert not any(secret in text for text in visible for secret in (TOKEN, PASSWORD, *KEY_LINES))


ANY_WORD = "token password word item rsa private heading is old"
SAVES = st.tuples(
    st.sampled_from(["MEMORY.md", ".memories/a.md", ".memories/b.md"]),
    st.none() | st.lists(LINES, max_size=6).map("\n".join),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    saves=st.lists(st.tuples(SAVES, st.sampled_from([MASKED, UNMASKED])), min_size=2, max_size=5),
    kept_bytes=st.sampled_from([0, 4_000, pool.KEPT_BYTES]),
)
def test_what_a_reader_keeps_changes_no_answer_after_any_save(
    bench: Any, saves: list[tuple[tuple[str, str | None], Config]], kept_bytes: int
) -> None:
    """An answer has the notes as saved last, and masks as configured, though other answers about
    them were given before.
    """
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pool, "KEPT_BYTES", kept_bytes)
        for (path, text), config in saves:
            if text is None:
                (bench.root / path).unlink(missing_ok=True)
            else:
                bench.write(path, text)
            # A sync of everything would have readers forget all.
            bench.sync(path)
            warm = [show(bench, ANY_WORD, each) for each in (MASKED, UNMASKED, config)]
            bench.workspace.readers.release_idle()
            assert warm == [show(bench, ANY_WORD, each) for each in (MASKED, UNMASKED, config)]
            assert not any(secret in warm[0] for secret in (TOKEN, PASSWORD, *KEY_LINES))


NAMES = f"""---
kind: {API_KEY}
title: Larch {API_KEY}
tags: [{API_KEY}, tree]
importance: {API_KEY}
---
# Larch {API_KEY}

The maple grows. #{API_KEY}

## Below

<!-- memory: {{kind: {API_KEY}, tags: [{API_KEY}]}} -->
An elder grows.
"""


def test_no_section_name_contains_a_secret_and_its_anchor_finds_it(bench: Any) -> None:
    bench.fill({"MEMORY.md": NAMES})
    answer = search_in([bench.workspace], "maple elder larch", MASKED)
    assert {tag for hit in answer.hits for tag in hit.tags} == {"tree", "[masked: API key]"}
    notes = list_notes(bench.workspace, MASKED, ListParams()).notes
    block = build_block(bench.workspace, "maple elder", MASKED)
    problems = find_problems(bench.workspace)
    empty_reason = [
        explain_empty(bench, f"maple {filters}")
        for filters in ("kind:none", "tag:none", f"tag:{API_KEY[:-1]}")
    ]
    for reported in (answer, notes, block, problems, empty_reason):
        assert API_KEY[4:] not in str(reported).replace("maple tag", "")
    assert "[masked: API key]" in empty_reason[0]
    for hit in answer.hits:
        read, _ = read_place(bench.workspace, GetParams(anchor=hit.anchor), now_ns=0)
        assert hit.path == "MEMORY.md"
        assert hit.start_line <= read.start_line <= hit.end_line or hit.anchor == "MEMORY.md#"
    assert API_KEY in str(list_notes(bench.workspace, UNMASKED, ListParams()).notes)
    assert search_in([bench.workspace], f"maple tag:{API_KEY}", MASKED).hits


def test_near_copies_and_notes_without_their_sections_show_no_secret(bench: Any) -> None:
    text = "maple elder larch birch willow aspen alder hazel rowan\n" * 5
    for name in "ab":
        bench.write(f".memories/{name}.md", f"# About {API_KEY}\n\n## Key {API_KEY}\n{text}")
    bench.sync()
    options = RunOptions(now_s=1.0)
    duplicates = find_duplicates(bench.workspace, DuplicatesParams(), MASKED, options)
    notes = list_notes(bench.workspace, MASKED, ListParams(sections=False, sort="recency")).notes
    assert (duplicates.n_groups, len(notes)) == (1, 2)
    for answer in (duplicates, notes):
        assert API_KEY not in str(answer)
        assert str(answer).count("[masked: API key]") >= 2
    plain = find_duplicates(bench.workspace, DuplicatesParams(), UNMASKED, options)
    assert API_KEY in str(plain)


@pytest.mark.parametrize("between", [" ", "x,"])
def test_a_secret_at_the_border_of_two_chunks_of_a_giant_line_is_shown_in_neither(
    bench: Any, between: str
) -> None:
    for cut in (*range(0, 44, 5), *range(-20, 0, 3)):
        before = (between * CHUNK_LIMIT_CHARS)[: CHUNK_LIMIT_CHARS - cut]
        bench.write(
            "MEMORY.md",
            f"larch {before} password: {PASSWORD} token={TOKEN},{between * 5000} maple\n",
        )
        bench.sync()
        for query in ("larch", "maple", "larch maple password token"):
            text = build(bench, query, max_tokens=50_000) + show(bench, query)
            assert "[masked" in text, cut
            assert not [piece for piece in (PASSWORD, TOKEN[:20], TOKEN[-20:]) if piece in text], (
                cut
            )
