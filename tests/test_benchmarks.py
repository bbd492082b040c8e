"""The parts of the benchmarks that compute.

These are percentiles, verdicts, the table, plots, sizes, cuts and growth of a corpus, and queries.
"""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.benchmarks.__main__ import choose_rows, find_status, parse_sizes
from tests.benchmarks.corpus import (
    BROAD,
    BROAD_PERCENT,
    Copy,
    Source,
    cut_to_bytes,
    cut_to_notes,
    find_folder,
    find_sources,
    salt_words,
    write_workspace,
)
from tests.benchmarks.figure import (
    Figure,
    Measured,
    Target,
    find_percentile,
    render_table,
    to_json,
)
from tests.benchmarks.plot import SMALLEST, draw_plot, render_tick
from tests.benchmarks.queries import FILTERED, Vocabulary, make_queries
from tests.benchmarks.questions import Lines, Question
from tests.benchmarks.recall import MethodResult, print_met
from tests.benchmarks.saves import change_lines

TEXTS = tuple(
    f"# Heading {number}\n\nshared words stand beside special{letter}{letter}{letter} things\n"
    f"\nanother paragraph mentions nothing besides shared{letter} words\n"
    for number, letter in enumerate("abcdefghijklmnopqrstuvwxyz")
)


def make_figure(value: float, limit: float | None, most: float, unit: str) -> Figure:
    target = Target(most=most, unit=unit)
    now = Measured(value=value, limit=limit)
    return Figure(row="row", name="work", unit="ms", limit_name="bare", now=now, target=target)


def make_sources(n_notes: int, size: int = 100) -> list[Source]:
    return [Source(Path(f"note-{n}.md"), f"folder/note-{n}.md", size) for n in range(n_notes)]


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0, 100))
def test_a_percentile_is_a_value_that_so_many_do_not_exceed(
    values: list[float], percent: float
) -> None:
    percentile = find_percentile(values, percent)
    assert percentile in values
    assert sum(value <= percentile for value in values) >= len(values) * percent / 100


@pytest.mark.parametrize(
    ("figure", "verdict"),
    [
        (make_figure(10, 5, 2, "×"), "met"),
        (make_figure(11, 5, 2, "×"), "MISSED"),
        (make_figure(11, 5, 11, "ms"), "met"),
        (make_figure(11, 5, 10, "ms"), "MISSED"),
        (make_figure(11, None, 2, "×"), "MISSED"),
        (Figure(row="row", name="work"), "FAILED"),
        (Figure(row="row", name="work", is_missing=True), "missing"),
        (Figure(row="row", name="work", now=Measured(value=1)), ""),
    ],
)
def test_a_figure_meets_its_target_by_its_ratio_or_by_its_value(
    figure: Figure, verdict: str
) -> None:
    assert figure.verdict == verdict


def test_only_failures_and_with_strict_missed_targets_make_the_command_fail() -> None:
    met, missed = make_figure(1, 1, 2, "×"), make_figure(3, 1, 2, "×")
    missing = Figure(row="row", name="work", is_missing=True)
    failed = Figure(row="row", name="work")
    assert find_status([met, missed, missing], is_strict=False) == 0
    assert find_status([met, missing], is_strict=True) == 0
    assert find_status([met, missed], is_strict=True) == 1
    assert find_status([met, failed], is_strict=False) == 1


def test_the_table_has_a_cell_for_each_column_and_the_other_checkout_beside() -> None:
    figure = make_figure(1234.5, 100, 2, "×")
    table = render_table([figure], has_before=False).splitlines()
    assert table[2] == "| row | work | bare 100 ms | 1,234 ms | 12.35 × | ≤ 2 × | MISSED |"
    for has_before in (False, True):
        header, rule, line = render_table([figure], has_before=has_before).splitlines()
        assert header.count("|") == rule.count("|") == line.count("|")


def test_a_figure_can_be_written_as_json() -> None:
    figure = json.loads(json.dumps(to_json(make_figure(3, 2, 2, "×"))))
    assert figure["now"] == {"value": 3, "limit": 2, "ratio": 1.5}
    assert figure["before"] is None
    assert figure["verdict"] == "met"


@given(
    st.dictionaries(
        st.text(st.characters(codec="utf-8", exclude_categories=["C"]), max_size=5),
        st.lists(st.tuples(st.floats(-1, 1e9), st.floats(-1, 1e9)), max_size=5),
        max_size=3,
    )
)
def test_a_plot_is_well_formed_and_all_its_points_lie_in_it(
    series: dict[str, list[tuple[float, float]]],
) -> None:
    n_drawn = sum(min(x, y) >= SMALLEST for points in series.values() for x, y in points)
    if not n_drawn:
        with pytest.raises(ValueError, match="nothing to draw"):
            draw_plot("a <title>", "x", "y", series)
        return
    picture = ET.fromstring(draw_plot("a <title>", "x", "y", series))
    circles = picture.findall("{http://www.w3.org/2000/svg}circle")
    assert len(circles) == n_drawn
    for circle in circles:
        assert 0 <= float(circle.attrib["cx"]) <= float(picture.attrib["width"])
        assert 0 <= float(circle.attrib["cy"]) <= float(picture.attrib["height"])


def test_ticks_are_short() -> None:
    assert [render_tick(value) for value in (0.1, 1, 1e4, 1e6, 1e9)] == [
        "0.1",
        "1",
        "10k",
        "1M",
        "1G",
    ]


def test_sizes_are_numbers_of_chunks_in_order() -> None:
    assert parse_sizes("1M,all,10k,500", lambda: 7000) == [500, 7000, 10_000, 1_000_000]
    for wrong in ("", "k", "10x", "-5", "0", "1.5k"):
        with pytest.raises(SystemExit, match="is no size"):
            parse_sizes(wrong, lambda: 1)


def test_an_unknown_row_is_refused_with_the_names_of_all() -> None:
    assert list(choose_rows(["ready", "cold"])) == ["cold", "ready"]
    assert "found" in choose_rows(None)
    with pytest.raises(SystemExit, match=r"no row is called redy.*ready"):
        choose_rows(["redy"])


@given(st.integers(1, 50), st.integers(1, 20_000))
def test_a_cut_has_about_the_bytes_asked_for_and_grows_by_copies(
    n_notes: int, n_bytes: int
) -> None:
    sources = make_sources(n_notes)
    chosen = cut_to_bytes(sources, n_bytes)
    assert chosen == cut_to_bytes(sources, n_bytes)
    assert abs(len(chosen) * 100 - n_bytes) <= 100
    assert len({copy.target for copy in chosen}) == len(chosen)
    assert {copy.number for copy in chosen} <= set(range(n_bytes // (n_notes * 100) + 1))


def test_a_cut_to_notes_takes_no_note_twice() -> None:
    sources = make_sources(20)
    assert len({copy.source for copy in cut_to_notes(sources, 7)}) == 7
    assert len(cut_to_notes(sources, 50)) == 20


def test_salted_copies_have_new_words_and_the_same_length_in_words() -> None:
    text = " ".join(TEXTS).encode()
    first, second = salt_words(text, 1), salt_words(text, 2)
    assert salt_words(text, 1) == first != second
    assert len(first.split()) == len(text.split())
    assert set(first.split()) - set(text.split())
    assert set(first.split()) & set(text.split())


def test_a_broad_folder_has_most_notes() -> None:
    folders = [find_folder(f"note-{number}.md") for number in range(2000)]
    assert abs(folders.count(BROAD) / 2000 - BROAD_PERCENT / 100) < 0.05


def test_notes_below_hidden_folders_are_copied_once_to_where_they_are_indexed(
    tmp_path: Path,
) -> None:
    hidden = tmp_path / "corpus" / ".memories" / "node_modules"
    hidden.mkdir(parents=True)
    (hidden / "note.md").write_text("# A note that is long enough\n")
    (hidden / "same.md").write_text("# A note that is long enough\n")
    sources = find_sources(tmp_path / "corpus")
    assert [source.path for source in sources] == ["memories/note.md"]
    n_bytes = write_workspace([Copy(sources[0], 0), Copy(sources[0], 1)], tmp_path / "root")
    written = sorted((tmp_path / "root" / ".memories").rglob("*.md"))
    assert len(written) == 2
    assert sum(note.stat().st_size for note in written) == n_bytes


def test_a_folder_without_notes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="has no markdown files"):
        find_sources(tmp_path)


def test_queries_of_nine_classes_are_the_same_in_each_run() -> None:
    queries = make_queries(Vocabulary(TEXTS), 5)
    assert queries == make_queries(Vocabulary(TEXTS), 5)
    assert len(queries) == 9
    assert all(len(of_class) == 5 for of_class in queries.values())
    for query in queries[FILTERED]:
        assert query.text == f"{query.without_filter} path:{BROAD}"


def test_rare_words_are_in_few_passages_and_common_words_in_many() -> None:
    vocabulary = Vocabulary(TEXTS)
    rare, common = vocabulary.find_words((0, 3), 5), vocabulary.find_words((40, 100), 1)
    assert "speciala" not in rare
    assert "specialaaa" in rare
    assert "shared" in common
    assert not set(rare) & set(common)


def test_one_line_or_all_lines_of_prose_of_a_note_change() -> None:
    lines = ["# Heading", "", "first line", "| a table |", "last line"]
    changed = change_lines(lines, "edited1word", is_whole=False)
    assert sum(old != new for old, new in zip(lines, changed, strict=True)) == 1
    every = change_lines(lines, "edited1word", is_whole=True)
    assert every == [
        "# Heading",
        "",
        "first line edited1word",
        "| a table |",
        "last line edited1word",
    ]
    assert change_lines(every, "edited2word", is_whole=True)[-1] == "last line edited2word"


def test_the_first_question_about_each_note_counts_if_it_meets_it_among_three_hits(
    capsys: pytest.CaptureFixture[str],
) -> None:
    drawn = [("a", "fr"), ("a", "fr"), ("b", "fr"), ("b", "de"), ("c", "de")]
    questions = [
        Question(
            id=str(number),
            scope="notes",
            text="?",
            category=category,
            evidence=(Lines(path=path, start=1, end=1),),
        )
        for number, (path, category) in enumerate(drawn)
    ]
    words = MethodResult("words", ranks=[4.0, 1.0, 3.0, 1.0, 4.0])
    print_met([words, MethodResult("vectors", ranks=[1.0] * 5)], questions)
    printed = capsys.readouterr().out.splitlines()
    assert "| de | 2 | 1 | 2 |" in printed
    assert "| fr | 2 | 1 | 2 |" in printed
