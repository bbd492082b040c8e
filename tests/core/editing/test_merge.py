"""A merge of two versions of a note loses no section and mixes no two sections."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memsyncd.config import ChunkingConfig
from memsyncd.core.editing.additions import Addition, append_section
from memsyncd.core.editing.memory_tool import insert_text, replace_text
from memsyncd.core.editing.merge import mark_conflict, merge_notes
from memsyncd.core.editing.sections import find_sections_bytes, replace_section, split_note_sections
from memsyncd.core.editing.topics import append_value, patch_front_matter
from memsyncd.core.markdown.parse import parse_note
from memsyncd.core.model import Note
from memsyncd.core.paths import NotePath
from memsyncd.core.upkeep import archive_sections, restore_sections

PATH = "n.md"


def merge(base: str, ours: str, theirs: str) -> str:
    """Merge without a conflict; the sides in the other order give the same note."""
    merged, turned = (
        merge_notes(PATH, base.encode(), side.encode(), other.encode())
        for side, other in ((ours, theirs), (theirs, ours))
    )
    assert (merged.conflicts, turned.conflicts) == ((), ())
    assert merged.data == turned.data
    return merged.data.decode()


def find_conflicts(base: str, ours: str, theirs: str) -> tuple[str, ...]:
    merged = merge_notes(PATH, base.encode(), ours.encode(), theirs.encode())
    text = merged.data.decode()
    assert bool(merged.conflicts) == ("<<<<<<< ours\n" in text)
    return merged.conflicts


# --- Sections -------------------------------------------------------------------------------------

ONE = "## One\n<!-- memory: {kind: decision, created: 2026-01-01T00:00:00Z} -->\nAbout pools.\n"
TWO = "## Two\n<!-- memory: {kind: insight, created: 2026-01-02T00:00:00Z} -->\nAbout cars.\n"
NEW = "## New\n<!-- memory: {created: 2026-02-01T00:00:00Z} -->\nFrom ours.\n"
NEWER = "## Newer\n<!-- memory: {created: 2026-02-02T00:00:00Z} -->\nFrom theirs.\n"


def test_metadata_and_new_sections_of_both_are_kept_apart() -> None:
    """A union of lines would put the text and the status of one section into another."""
    archived = ONE.replace("Z}", "Z, status: archived}")
    urgent = ONE.replace("decision,", "decision, priority: P1,")
    merged = merge(f"# N\n\n{ONE}", f"# N\n\n{urgent}\n{NEW}", f"# N\n\n{archived}\n{NEWER}")
    both = ONE.replace("Z}", "Z, priority: P1, status: archived}")
    assert merged == f"# N\n\n{both}\n{NEW}\n{NEWER}"


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "merged"),
    [
        ("# N\n", f"# N\n\n{NEW}", f"# N\n\n{NEWER}", f"# N\n\n{NEW}\n{NEWER}"),
        ("# N\n", f"# N\n\n{NEWER}", f"# N\n\n{NEW}", f"# N\n\n{NEW}\n{NEWER}"),
        ("# N", f"# N\n\n{NEW}", f"# N\n\n{NEWER}", f"# N\n\n{NEW}\n{NEWER}"),
        ("", NEW, NEWER, f"{NEW}\n{NEWER}"),
        ("", f"# N\n\n{NEW}", f"# N\n\n{NEWER}", f"# N\n\n{NEW}\n{NEWER}"),
        (f"{ONE}\n{TWO}", TWO, f"{ONE}\n{TWO}\n{NEW}", f"{TWO}\n{NEW}"),
        (f"{ONE}\n{TWO}", ONE, f"{NEW}\n{ONE}\n{TWO}", f"{NEW}\n{ONE}"),
        (f"{ONE}\n{TWO}", f"{TWO}\n{ONE}", f"{ONE}\n{TWO}\n{NEW}", f"{TWO}\n{NEW}\n{ONE}"),
        # The same section, copied to both branches.
        (ONE, f"{ONE}\n{NEW}", f"{ONE}\n{NEW}\n{NEWER}", f"{ONE}\n{NEW}\n{NEWER}"),
        # A section beneath another one stays beneath it.
        (
            "## A\n\na\n\n## B\n\nb\n",
            "## A\n\na\n\n### A1\n\na1\n\n## B\n\nb\n",
            "## A\n\na\n\n## N\n\nn\n\n## B\n\nb\n",
            "## A\n\na\n\n### A1\n\na1\n\n## N\n\nn\n\n## B\n\nb\n",
        ),
        # A heading and the text below it.
        ("## A\n\na\n", "## A new\n\na\n", "## A\n\na\n\n## B\n", "## A new\n\na\n\n## B\n"),
        # Line ends, marks and missing ends.
        ("# N\r\n", f"# N\r\n\r\n{NEW}".replace("\n", "\r\n").replace("\r\r", "\r"), "# N\r\n\r\nx", None),
        ("\ufeff# N\n", f"# N\n\n{NEW}", f"\ufeff# N\n\n{NEWER}", f"# N\n\n{NEW}\n{NEWER}"),
    ],
)  # fmt: skip
def test_sections_that_one_version_has_changed_are_taken_from_it(
    base: str, ours: str, theirs: str, merged: str | None
) -> None:
    text = merge(base, ours, theirs)
    if merged is not None:
        assert text == merged
    else:
        assert "\n" not in text.replace("\r\n", "")


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "named"),
    [
        (f"{ONE}\n{TWO}", ONE, f"{ONE}\n{TWO}more\n", ("Two",)),
        (f"{ONE}\n{TWO}", f"{ONE}\n{TWO}more\n", ONE, ("Two",)),
        (ONE, f"{ONE}a\n", f"{ONE}b\n", ("One",)),
        (ONE, ONE.replace("kind: decision", "kind: a"), ONE.replace("decision", "b"), ("One",)),
        (ONE, ONE.replace("One", "A"), ONE.replace("One", "B"), ("A",)),
        # A new section beneath a deleted one would come beneath another section.
        (f"{ONE}\n{TWO}", ONE, f"{ONE}\n{TWO}\n### Beneath\n\nx\n", ("Two",)),
        ("---\na: 1\n---\n", "---\na: 2\n---\n", "---\na: 3\n---\n", ("the front matter",)),
        # A section that leaves a fence open takes in the sections after it.
        (ONE, f"{ONE}\n```\nopen\n", f"{ONE}\n{NEW}", None),
        (f"{ONE}\n{TWO}\n{NEW}", f"{NEW}\n{ONE}\n{TWO}", f"{TWO}\n{ONE}\n{NEW}", None),
    ],
)
def test_different_changes_of_the_same_lines_are_a_conflict(
    base: str, ours: str, theirs: str, named: tuple[str, ...] | None
) -> None:
    conflicts = find_conflicts(base, ours, theirs)
    assert conflicts
    assert named in (None, conflicts)


def test_a_deleted_section_and_a_new_one_at_its_place_are_two() -> None:
    """Otherwise the new section would get the status that the other version gave to the old one."""
    archived = TWO.replace("Z}", "Z, status: archived}")
    assert find_conflicts(f"{ONE}\n{TWO}", f"{ONE}\n{NEW}", f"{ONE}\n{archived}") == ("Two",)
    plain = "## Old\n\nold words\n"
    changed = plain.replace("\n\n", "\n<!-- memory: {status: archived} -->\n")
    assert find_conflicts(plain, NEW, changed) == ("Old",)


def test_markers_stand_around_as_few_lines_as_possible() -> None:
    merged = merge_notes(
        PATH, f"{ONE}\n{TWO}".encode(), f"{ONE}a\n\n{TWO}".encode(), f"{ONE}b\n\n{TWO}x\n".encode()
    )
    assert merged.data.decode() == (f"{ONE}<<<<<<< ours\na\n=======\nb\n>>>>>>> theirs\n\n{TWO}x\n")
    assert mark_conflict("abcd", "abxd") == (
        "a", "b", "<<<<<<< ours", "c", "=======", "x", ">>>>>>> theirs", "d",
    )  # fmt: skip


# --- Metadata and values --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "merged"),
    [
        ("tags: [a, b]", "tags: [a, c]", "tags: [a, b, d]", "tags: [a, c, d]"),
        ("tags: [a]", "tags: [a, b]", "tags: [a, b, c]", "tags: [a, b, c]"),
        ("kind: a", "kind: a, updated: 2026-01-02", "kind: a, updated: 2026-01-03", "kind: a, updated: 2026-01-03"),
        ("kind: a, task: t", "kind: a", "kind: b, task: t", "kind: b"),
        ("", "kind: a", "task: t", "kind: a, task: t"),
    ],
)  # fmt: skip
def test_metadata_are_merged_key_by_key(base: str, ours: str, theirs: str, merged: str) -> None:
    form = "## A\n<!-- memory: {{{}}} -->\nx\n"
    sides = (form.format(keys) for keys in (base, ours, theirs))
    assert merge(*sides) == form.format(merged)


@pytest.mark.parametrize("status", ["", "status: open"])
def test_an_archived_section_can_be_restored_after_a_merge(status: str) -> None:
    base = f"## A\n<!-- memory: {{kind: a, {status or 'task: t'}}} -->\nx\n".encode()
    ours = archive_sections(PATH, base, [f"{PATH}#a"])[0]
    theirs = base.replace(b"} -->", b", topic: z, updated: 2026-01-01} -->")
    merged = merge_notes(PATH, base, ours, theirs)
    assert merged.conflicts == ()
    restored, refused = restore_sections(PATH, merged.data, [f"{PATH}#a"])
    assert refused == {}
    assert parse(restored).sections[0].meta == parse(theirs).sections[0].meta


def test_front_matter_is_merged_key_by_key() -> None:
    base = "---\ntitle: T\ntags:\n- a\nupdated: 2026-01-01\n---\n\n# T\n\nx\n"
    ours = base.replace("- a\n", "- a\n- b\n").replace("01-01", "01-02")
    theirs = base.replace("title: T", "title: U").replace("01-01", "01-03").replace("x\n", "y\n")
    assert merge(base, ours, theirs) == (
        "---\ntitle: U\ntags:\n- a\n- b\nupdated: 2026-01-03\n---\n\n# T\n\ny\n"
    )


def test_the_values_that_both_have_appended_stand_in_the_order_of_their_times() -> None:
    field = "## Log\n<!-- memory: {created: 2026-01-01T00:00:00Z} -->\n"
    values = [f"- 2026-01-0{day}T00:00:00Z value {day}\n" for day in range(1, 6)]
    one, two, three, four, five = values
    base = f"# N\n\n{field}{two}{one}\nother text\n"
    ours = f"# N\n\n{field}{four}{two}{one}\nother text\n"
    theirs = f"# N\n\n{field}{five}  more\n{three}{two}\nchanged text\n"
    assert merge(base, ours, theirs) == (
        f"# N\n\n{field}{five}  more\n{four}{three}{two}\nchanged text\n"
    )
    assert merge("# N\n", f"# N\n\n{field}{one}", f"# N\n\n{field}{two}") == (
        f"# N\n\n{field}{two}{one}"
    )
    assert find_conflicts(base, ours.replace("value 2", "a"), theirs.replace("value 2", "b"))


def test_a_note_in_utf_16_and_plain_text_are_merged_whole_or_not_at_all() -> None:
    sides = [text.encode("utf-16") for text in ("# A\n", "# B\n", "# C\n")]
    merged = merge_notes(PATH, *sides)  # type: ignore[misc]
    assert merged.data == sides[1]
    assert merged.conflicts
    plain = merge_notes("n.txt", b"a\n", b"# b\n", b"# c\n")
    assert plain.conflicts == ("the text",)


# --- Any acts -------------------------------------------------------------------------------------
# Each section has its own word. Its heading, its task, its tags and each of its lines contain the
# word, so a mixture of two sections is detected.

Act = Callable[[random.Random, bytes, str], bytes]


def list_sections(data: bytes) -> dict[str, tuple[str, str]]:
    """Anchor and own text of each section below the title, by its word."""
    places = find_sections_bytes(PATH, data)
    return {
        section.heading[-1].split()[-1]: (
            section.anchor,
            data[slice(*places[section.anchor])].decode(),
        )
        for section in split_note_sections(PATH, data)
        if section.level > 1
    }


def choose(chance: random.Random, data: bytes) -> tuple[str, str, str]:
    word = chance.choice(sorted(list_sections(data)) or [""])
    return word, *list_sections(data).get(word, ("", ""))


def remember(chance: random.Random, data: bytes, word: str) -> bytes:
    addition = Addition(
        content="\n\n".join(f"{word} text {n}" for n in range(chance.randint(1, 2))),
        summary=f"About {word}", task=word, tags=(f"{word}-tag",),
    )  # fmt: skip
    return append_section(PATH, data, [addition], at=make_time(chance))[0]


def add_field(chance: random.Random, data: bytes, word: str) -> bytes:
    time = make_time(chance)
    lines = [
        "",
        f"## Field {word}",
        f"<!-- memory: {{task: {word}}} -->",
        f"- {time} {word} first",
        "",
    ]
    return data + "\n".join(lines).encode()


def insert_section(chance: random.Random, data: bytes, word: str) -> bytes:
    """Insert a section of any level above another section."""
    _, anchor, _ = choose(chance, data)
    heads = {section.anchor: section.start for section in split_note_sections(PATH, data)}
    line = heads.get(anchor, len(data.splitlines()))
    text = f"{'#' * chance.choice((2, 2, 3))} In {word}\n\n{word} inserted\n"
    return insert_text(PATH, data, line, text, "docs").data


def archive(chance: random.Random, data: bytes, _: str) -> bytes:
    return archive_sections(PATH, data, [choose(chance, data)[1]])[0]


def append_to(chance: random.Random, data: bytes, new: str) -> bytes:
    word, anchor, own = choose(chance, data)
    if not anchor or (chance.random() < 0.5 and "## Field" not in own):
        return data
    addition = Addition(content=f"{word} value {new}", tags=chance.choice([(), (f"{word}-{new}",)]))
    return append_value(PATH, data, anchor, addition, at=make_time(chance), keep=3).data


def insert_line(chance: random.Random, data: bytes, new: str) -> bytes:
    word, anchor, own = choose(chance, data)
    if not anchor:
        return data
    start = next(
        section.start for section in split_note_sections(PATH, data) if section.anchor == anchor
    )
    first = 1 + own.count("memory:")
    line = start + chance.randint(first, max(first, len(own.splitlines())))
    return insert_text(PATH, data, line, f"{word} line {new}", "docs").data


def replace_line(chance: random.Random, data: bytes, new: str) -> bytes:
    word, _, own = choose(chance, data)
    lines = [line for line in own.splitlines() if line.startswith(word)]
    if not lines or data.decode().count(old := chance.choice(lines)) != 1:
        return data
    return replace_text(PATH, data, old, f"{word} changed {new}", "docs").data


def set_key(chance: random.Random, data: bytes, new: str) -> bytes:
    _, anchor, own = choose(chance, data)
    if "<!-- memory: {" not in own:
        return data
    changed = re.sub(r", priority: \S+?(?=[,}])", "", own)
    changed = changed.replace("} -->", f", priority: P{chance.randint(0, 3)}}} -->", 1)
    return replace_section(PATH, data, anchor, changed.encode())


def delete(chance: random.Random, data: bytes, _: str) -> bytes:
    _, anchor, _ = choose(chance, data)
    return replace_section(PATH, data, anchor, b"") if anchor else data


def patch(chance: random.Random, data: bytes, new: str) -> bytes:
    return patch_front_matter(
        PATH, data, {chance.choice(["task", "scope"]): new, "updated": make_time(chance)}
    )


def make_time(chance: random.Random) -> str:
    return f"2026-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}T00:00:{chance.randint(0, 59):02}Z"


ACTS: tuple[Act, ...] = (
    remember, remember, add_field, insert_section, archive, append_to, append_to, insert_line,
    replace_line, set_key, delete, patch,
)  # fmt: skip


def act(seed: int, data: bytes, acts: list[int], name: str) -> bytes:
    chance = random.Random(f"{seed} {name}")
    for at, number in enumerate(acts):
        data = ACTS[number](chance, data, f"{name}{at}")
    return data


numbers = st.lists(st.integers(0, len(ACTS) - 1), max_size=6)


@given(st.integers(0, 2**32), numbers, numbers, numbers)
@example(0, [0, 0], [4, 0], [9, 0])
def test_any_acts_of_two_branches_are_merged_or_are_a_conflict(
    seed: int, before: list[int], ours: list[int], theirs: list[int]
) -> None:
    base = act(seed, b"# N\n", [0, *before], "base")
    sides = act(seed, base, ours, "ours"), act(seed, base, theirs, "theirs")
    merged, turned = (merge_notes(PATH, base, *pair) for pair in (sides, sides[::-1]))
    assert bool(merged.conflicts) == bool(turned.conflicts)
    if merged.conflicts:
        assert b"<<<<<<< ours\n" in merged.data
        assert_words_are_kept(sides, merged.data)
        return
    assert turned.data == merged.data
    own_texts = list_sections(merged.data)
    texts = [list_sections(data) for data in (base, *sides)]
    assert own_texts.keys() == merge_sets(*(set(side) for side in texts))
    for word in texts[0].keys() - own_texts.keys():
        assert all(side[word][1] == texts[0][word][1] for side in texts[1:] if word in side)
    for word, (_, own) in own_texts.items():
        lines = [find_lines(side.get(word, ("", ""))[1]) for side in texts]
        assert find_lines(own) == merge_sets(*lines)
    assert_nothing_is_mixed(parse(merged.data), [parse(data) for data in sides])


def find_lines(own: str) -> set[str]:
    """The lines of a section's text."""
    return {line for line in own.splitlines()[1:] if line and "<!-- memory:" not in line}


def merge_sets(base: set[str], ours: set[str], theirs: set[str]) -> set[str]:
    return (ours & theirs) | (ours - base) | (theirs - base)


def assert_words_are_kept(sides: tuple[bytes, bytes], merged: bytes) -> None:
    """A conflict shows all lines that either version has changed."""
    for line in {*sides[0].splitlines(), *sides[1].splitlines()}:
        if line.startswith((b"ours", b"theirs")):
            assert line in merged


def parse(data: bytes) -> Note:
    return parse_note(NotePath(PATH), data, ChunkingConfig())


def assert_nothing_is_mixed(merged: Note, sides: list[Note]) -> None:
    parents = [
        {part.heading[-1]: part.heading[:-1] for part in side.sections if part.heading}
        for side in sides
    ]
    assert merged.problems == ()
    for section in merged.sections:
        if section.level < 2:
            continue
        word = section.heading[-1].split()[-1]
        lines = merged.text.split("\n")[section.span.start : section.span.end]
        assert all(
            word in line for line in lines if line.strip() and "status: archived" not in line
        )
        assert {tag.partition("-")[0] for tag in section.meta.tags} <= {word}
        assert section.heading[:-1] in [part.get(section.heading[-1]) for part in parents]


@given(st.integers(0, 2**32), numbers, numbers)
def test_an_unchanged_version_gives_the_bytes_of_the_other(
    seed: int, before: list[int], acts: list[int]
) -> None:
    base = act(seed, b"# N\n", before, "base")
    ours = act(seed, base, acts, "ours")
    for sides in ((ours, base), (base, ours), (ours, ours)):
        assert merge_notes(PATH, base, *sides).data == ours


texts = st.lists(
    st.sampled_from(
        ["# A", "## A", "### A", "## B", "x", "y", "", "```", "<!-- memory: {a: b} -->", "---", "a: 1",
         "<!--", "-->", "- 2026-01-01T00:00:00Z x", "    code", "===", "\r", "> q", "\0", "é\u2028"]
    ), max_size=9,
).map(lambda lines: "\n".join(lines).encode())  # fmt: skip


@given(texts, texts, texts)
def test_any_texts_are_merged_and_no_line_of_a_change_is_lost(
    base: bytes, ours: bytes, theirs: bytes
) -> None:
    merged = merge_notes(PATH, base, ours, theirs)
    if not merged.conflicts:
        for side, other in ((ours, theirs), (theirs, ours)):
            new = split_lines(side) - split_lines(base) - split_lines(other)
            assert new <= split_lines(merged.data)
    else:
        assert b"<<<<<<< ours" in merged.data


def split_lines(data: bytes) -> set[bytes]:
    """The lines that are not blank."""
    return {line.strip() for line in data.splitlines() if line.strip()}
