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
from memsyncd.core.editing.merge import MergedNote, merge_notes
from memsyncd.core.editing.sections import find_sections_bytes, replace_section, split_note_sections
from memsyncd.core.editing.topics import append_value, patch_front_matter
from memsyncd.core.markdown.parse import parse_note
from memsyncd.core.model import Note
from memsyncd.core.paths import NotePath
from memsyncd.core.upkeep import archive_sections, restore_sections
from memsyncd.errors import EditRefused

PATH = "n.md"


def merge_both_ways(base: bytes, ours: bytes, theirs: bytes) -> MergedNote:
    """Merge, and check that the other side gets the same note, and that merging again changes
    nothing.
    """
    merged = merge_notes(PATH, base, ours, theirs)
    assert merge_notes(PATH, base, theirs, ours) == merged
    for side in (ours, theirs):
        # Two machines that have merged the same versions have one note, also by the older base.
        assert merge_notes(PATH, base, merged.data, side).data == merged.data
        assert merge_notes(PATH, side, merged.data, side).data == merged.data
    assert merge_notes(PATH, base, merged.data, merged.data).data == merged.data
    # The same is true if it is known when each was saved.
    timed = merge_notes(PATH, base, ours, theirs, (1, 2))
    assert merge_notes(PATH, base, theirs, ours, (2, 1)) == timed
    for side, saved_s in ((ours, 1), (theirs, 2)):
        assert merge_notes(PATH, base, timed.data, side, (2, saved_s)).data == timed.data
    return merged


def merge(base: str, ours: str, theirs: str) -> str:
    """Merge without a conflict."""
    merged = merge_both_ways(base.encode(), ours.encode(), theirs.encode())
    assert merged.conflicts == ()
    return merged.data.decode()


# --- Sections -------------------------------------------------------------------------------------

ONE = "## One\n<!-- memory: {kind: decision, created: 2026-01-01T00:00:00Z} -->\nAbout pools.\n"
TWO = "## Two\n<!-- memory: {kind: insight, created: 2026-01-02T00:00:00Z} -->\nAbout cars.\n"
NEW = "## New\n<!-- memory: {created: 2026-02-01T00:00:00Z} -->\nFrom ours.\n"
PLAIN = "## Old\n\nold words\n"
MARKED = ONE.replace("Z}", "Z, conflict: one}")
NEWER = "## Newer\n<!-- memory: {created: 2026-02-02T00:00:00Z} -->\nFrom theirs.\n"


def test_metadata_and_new_sections_of_both_are_kept_apart() -> None:
    """A union of lines would put the text and the status of one section into another."""
    done = ONE.replace("Z}", "Z, status: done}")
    urgent = ONE.replace("decision,", "decision, priority: P1,")
    merged = merge(f"# N\n\n{ONE}", f"# N\n\n{urgent}\n{NEW}", f"# N\n\n{done}\n{NEWER}")
    both = ONE.replace("Z}", "Z, priority: P1, status: done}")
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


def test_of_texts_that_differ_both_stay_and_one_is_marked() -> None:
    for base, ours, theirs, merged in (
        (ONE, f"{ONE}a\n", f"{ONE}b\n", f"{ONE}b\n\n{MARKED}a\n"),
        # The newer text keeps its place.
        (
            ONE,
            ONE.replace("Z}", "Z, updated: 2026-03-01}") + "a\n",
            f"{ONE}b\n",
            ONE.replace("Z}", "Z, updated: 2026-03-01}")
            + "a\n\n"
            + MARKED.replace("conflict", "updated: 2026-03-01, conflict")
            + "b\n",
        ),
        # The sections beneath stay beneath the first text.
        (
            f"# N\n\n{ONE}\n### A\n\nx\n\n{TWO}",
            f"# N\n\n{ONE}a\n\n### A\n\ny\n\n{TWO}",
            f"# N\n\n{ONE}b\n\n### A\n\nx\n\n{TWO}",
            f"# N\n\n{ONE}b\n\n### A\n\ny\n\n{MARKED.replace(': one', ': n/one')}a\n\n{TWO}",
        ),
        (
            f"{PLAIN}\n{TWO}",
            f"{PLAIN.replace('Old', 'A')}\n{TWO}",
            f"{PLAIN.replace('Old', 'B')}\n{TWO}",
            "## B\n\nold words\n\n## A\n<!-- memory: {conflict: b} -->\n\nold words\n\n" + TWO,
        ),
        (
            "x\n\n# N\n",
            "y\n\n# N\n",
            "z\n\n# N\n",
            'z\n\n# N\n\n## The text before the first heading\n<!-- memory: {conflict: "#"} -->\ny\n',
        ),
        # A comment that cannot be read stays as it is.
        (
            "## A\n<!-- memory: [ -->\nx\n",
            "## A\n<!-- memory: [a -->\nx\n",
            "## A\n<!-- memory: [b -->\nx\n",
            "## A\n<!-- memory: [b -->\nx\n\n## A\n<!-- memory: {conflict: a} -->\n<!-- memory: [a -->\nx\n",
        ),
    ):
        done = merge_both_ways(base.encode(), ours.encode(), theirs.encode())
        assert done.data.decode() == merged, base
        marked = [
            section
            for section in parse(done.data).sections
            if "conflict" in dict(section.meta.extra)
        ]
        assert done.conflicts == tuple(section.anchor for section in marked), base
        assert len(marked) == 1, base
        if "updated" not in ours + theirs:
            sides = tuple(text.encode() for text in (base, ours, theirs))
            for saved_s, newer in (((2, 1), sides[1]), ((1, 2), sides[2])):
                data = merge_notes(PATH, *sides, saved_s).data
                above = split_lines(data.partition(b"conflict: ")[0])
                assert split_lines(newer) - split_lines(sides[0]) <= above, newer


@pytest.mark.parametrize(
    ("base", "ours", "theirs"),
    [
        # A section that leaves a fence open would take in the sections after it.
        (ONE, f"{ONE}\n```\nopen\n", f"{ONE}\n{NEW}"),
        ("---\na: 1\na: 2\n---\n", "---\na: 2\na: 2\n---\n", "---\na: 3\na: 2\n---\n"),
    ],
)
def test_a_note_that_cannot_be_merged_is_refused(base: str, ours: str, theirs: str) -> None:
    for pair in ((ours, theirs), (theirs, ours)):
        with pytest.raises(EditRefused, match=r"^n\.md cannot be merged: "):
            merge_notes(PATH, base.encode(), *(side.encode() for side in pair))


def test_a_changed_section_stays_if_the_other_version_has_deleted_or_archived_it() -> None:
    changed = f"{TWO}more\n"
    assert merge(f"{ONE}\n{TWO}", ONE, f"{ONE}\n{changed}") == f"{ONE}\n{changed}"
    archived = TWO.replace("Z}", "Z, status: archived}")
    assert merge(TWO, archived, changed) == changed
    assert merge(f"{ONE}\n{TWO}", ONE, f"{ONE}\n{archived}") == f"{ONE}\n{archived}"
    was_open = TWO.replace("Z}", "Z, status: open}")
    archived = archive_sections(PATH, was_open.encode(), [f"{PATH}#two"])[0].decode()
    assert merge(was_open, archived, f"{was_open}more\n") == f"{was_open}more\n"
    assert merge(f"{ONE}x\n", f"---\nstatus: archived\n---\n{ONE}x\n", f"{ONE}y\n") == f"{ONE}y\n"
    # The heading of a new section stays, too.
    beneath = f"{ONE}\n{TWO}\n### Beneath\n\nx\n"
    assert merge(f"{ONE}\n{TWO}", ONE, beneath) == beneath


def test_a_deleted_section_and_a_new_one_at_its_place_are_two() -> None:
    """Otherwise the new section would get the status that the other version gave to the old one."""
    archived = TWO.replace("Z}", "Z, status: archived}")
    assert merge(f"{ONE}\n{TWO}", f"{ONE}\n{NEW}", f"{ONE}\n{archived}") == (
        f"{ONE}\n{archived}\n{NEW}"
    )
    changed = PLAIN.replace("\n\n", "\n<!-- memory: {status: archived} -->\n")
    assert merge(PLAIN, NEW, changed) == f"{changed}\n{NEW}"


def test_versions_without_a_common_one_share_the_sections_that_they_have_both() -> None:
    ours = f"# N\n\nAbout.\n\n{ONE}\n### A\n\na\n\n{TWO}"
    theirs = f"# N\n\nAbout.\n\n{TWO}\n{ONE}\n### A\n\na\n\n{NEW}"
    merged = group_sections(merge("", ours, theirs).encode())
    assert {word: len(sections) for word, sections in merged.items()} == (
        {"One": 1, "A": 1, "Two": 1, "New": 1}
    )


# --- Metadata and values --------------------------------------------------------------------------


def test_metadata_are_merged_key_by_key() -> None:
    for base, ours, theirs, merged in (
        ("tags: [a, b]", "tags: [a, c]", "tags: [a, b, d]", "tags: [a, c, d]"),
        ("tags: [a]", "tags: [a, b]", "tags: [a, b, c]", "tags: [a, b, c]"),
        ("kind: a", "kind: a, updated: 2026-01-02", "kind: a, updated: 2026-01-03", "kind: a, updated: 2026-01-03"),
        ("kind: a, task: t", "kind: a", "kind: b, task: t", "kind: b"),
        ("", "kind: a", "task: t", "kind: a, task: t"),
    ):  # fmt: skip
        form = "## A\n<!-- memory: {{{}}} -->\nx\n"
        sides = (form.format(keys) for keys in (base, ours, theirs))
        assert merge(*sides) == form.format(merged), base


@pytest.mark.parametrize("status", ["", "status: open"])
def test_an_archived_section_can_be_restored_after_a_merge(status: str) -> None:
    base = f"## A\n<!-- memory: {{kind: a, {status or 'task: t'}}} -->\nx\n".encode()
    ours = archive_sections(PATH, base, [f"{PATH}#a"])[0]
    theirs = base.replace(b"} -->", b", topic: z, updated: 2026-01-01} -->")
    merged = merge_both_ways(base, ours, archive_sections(PATH, theirs, [f"{PATH}#a"])[0])
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
    sides = ours.replace("value 2", "a"), theirs.replace("value 2", "b")
    assert merge_both_ways(base.encode(), *(side.encode() for side in sides)).conflicts == (
        f"{PATH}#n/log-2",
    )


def test_a_note_in_utf_16_and_plain_text_are_merged_whole_or_not_at_all() -> None:
    base, *sides = (text.encode("utf-16") for text in ("# A\n", "# B\n", "# C\n"))
    assert merge_notes(PATH, base, base, sides[0]).data == sides[0]
    for path, old, ours, theirs in ((PATH, base, *sides), ("n.txt", b"a\n", b"# b\n", b"# c\n")):
        with pytest.raises(EditRefused):
            merge_notes(path, old, ours, theirs)
    assert merge_notes("n.txt", b"a\nb\nc\n", b"A\nb\nc\n", b"a\nb\nC\n").data == b"A\nb\nC\n"


def test_lines_and_items_of_lists_are_merged() -> None:
    for base, ours, theirs, merged in (
        ("a\nb\nc\n", "A\nb\nc\n", "a\nb\nC\n", "A\nb\nC\n"),
        ("x\n", "x\n\n- b\n", "x\n\n- a\n  more\n", "x\n\n- a\n  more\n- b\n"),
        ("- a\n- b\n", "- a\n- b\n- c\n", "- b\n- d\n", "- b\n- c\n- d\n"),
        # Relations are a set.
        ("- see [[A]]\n", "- see [[B]]\n", "- see [[C]]\n- see [[B]]\n", "- see [[B]]\n- see [[C]]\n"),
    ):  # fmt: skip
        assert (
            merge(*(f"## A\n\n{text}" for text in (base, ours, theirs))) == f"## A\n\n{merged}"
        ), base


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
def test_any_acts_of_two_branches_are_merged_and_lose_nothing(
    seed: int, before: list[int], ours: list[int], theirs: list[int]
) -> None:
    base = act(seed, b"# N\n", [0, *before], "base")
    sides = act(seed, base, ours, "ours"), act(seed, base, theirs, "theirs")
    merged = merge_both_ways(base, *sides)
    own_texts = group_sections(merged.data)
    texts = [group_sections(data) for data in (base, *sides)]
    for word in {*texts[0], *texts[1], *texts[2]} - own_texts.keys():
        # A section is forgotten if one version has deleted it and the other has not changed it.
        assert word in texts[0]
        assert all(side[word][0][1] == texts[0][word][0][1] for side in texts[1:] if word in side)
    for word, owns in own_texts.items():
        lines = [find_lines(side.get(word, [])) for side in texts]
        if any(word not in side for side in texts[1:]):
            assert find_lines(owns) == lines[1] | lines[2]
        elif not any(anchor in merged.conflicts for anchor, _ in owns):
            assert find_lines(owns) == merge_sets(*lines)
        assert find_lines(owns) >= (lines[1] - lines[0]) | (lines[2] - lines[0])
    assert_nothing_is_mixed(parse(merged.data), [parse(data) for data in sides])


def group_sections(data: bytes) -> dict[str, list[tuple[str, str]]]:
    """Anchor and own text of the sections below the title, by their word. A conflict has two."""
    places = find_sections_bytes(PATH, data)
    groups: dict[str, list[tuple[str, str]]] = {}
    for section in split_note_sections(PATH, data):
        if section.level > 1:
            own = data[slice(*places[section.anchor])].decode()
            groups.setdefault(section.heading[-1].split()[-1], []).append((section.anchor, own))
    return groups


@given(st.integers(0, 2**32), numbers, numbers, numbers)
@example(1, [2], [], [7])
@example(212979, [3, 0, 0], [], [3])
def test_versions_without_a_common_one_are_merged_and_share_their_sections(
    seed: int, before: list[int], ours: list[int], theirs: list[int]
) -> None:
    base = act(seed, b"# N\n", [0, *before], "base")
    sides = act(seed, base, ours, "ours"), act(seed, base, theirs, "theirs")
    merged = merge_both_ways(b"", *sides)
    texts = [group_sections(side) for side in sides]
    for word, owns in group_sections(merged.data).items():
        assert len({own for _, own in owns}) == len(owns)
        left, right = (side.get(word, []) for side in texts)
        assert find_lines(owns) == find_lines(left) | find_lines(right)
        assert len(owns) == 1 or [own for _, own in left] != [own for _, own in right]


def find_lines(sections: list[tuple[str, str]]) -> set[str]:
    """The lines of the texts of sections."""
    lines = (line for _, own in sections for line in own.splitlines()[1:])
    return {line for line in lines if line and "<!-- memory:" not in line}


def merge_sets(base: set[str], ours: set[str], theirs: set[str]) -> set[str]:
    return (ours & theirs) | (ours - base) | (theirs - base)


def parse(data: bytes) -> Note:
    return parse_note(NotePath(PATH), data, ChunkingConfig())


def assert_nothing_is_mixed(merged: Note, sides: list[Note]) -> None:
    # A section that the other version has inserted above a section is its parent, too.
    parents = [
        {part.heading[-1]: part.heading[:-1] for part in side.sections if part.heading}
        for side in sides
    ]
    assert {problem.code for problem in merged.problems} <= {"conflict"}
    for section in merged.sections:
        if section.level < 2:
            continue
        word = section.heading[-1].split()[-1]
        lines = merged.text.split("\n")[section.span.start : section.span.end]
        assert all(
            word in line for line in lines if line.strip() and "status: archived" not in line
        )
        assert {tag.partition("-")[0] for tag in section.meta.tags} <= {word}
        is_known = section.heading[:-1] in [part.get(section.heading[-1]) for part in parents]
        assert is_known or any(heading.startswith("In ") for heading in section.heading[:-1])


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
def test_any_texts_are_merged_or_refused_and_no_line_of_a_change_is_lost(
    base: bytes, ours: bytes, theirs: bytes
) -> None:
    try:
        merged = merge_notes(PATH, base, ours, theirs)
    except EditRefused:
        with pytest.raises(EditRefused):
            merge_notes(PATH, base, theirs, ours)
        return
    assert merge_notes(PATH, base, theirs, ours) == merged
    for side, other in ((ours, theirs), (theirs, ours)):
        new = split_lines(side) - split_lines(base) - split_lines(other)
        assert new <= split_lines(merged.data)


def split_lines(data: bytes) -> set[bytes]:
    """The lines that are not blank."""
    return {line.strip() for line in data.splitlines() if line.strip()}
