from __future__ import annotations

import posixpath
import re
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.config import ChunkingConfig
from memsyncd.core.editing.link_updates import PathNames, update_links
from memsyncd.core.markdown.links import NameTable, NoteNames, list_names, make_key
from memsyncd.core.markdown.parse import parse_note
from memsyncd.core.model import PATH_LINK
from memsyncd.core.paths import parse_note_path
from memsyncd.errors import EditRefused


def update(text: str | bytes, moved: dict[str, str], *others: str, path: str = "MEMORY.md") -> str:
    paths = {path, *moved, *others}
    before = NoteNames.of((note, "") for note in paths)
    after = NoteNames.of((moved.get(note, note), "") for note in paths)
    data = text if isinstance(text, bytes) else text.encode()
    return update_links(path, data, moved, before=before, after=after).decode(
        "utf-8", "surrogateescape"
    )


MOVED = {".memories/redis.md": ".memories/ops/valkey 8.md"}


def test_links_to_a_renamed_note_lead_to_it_in_their_own_style() -> None:
    for text, updated in (
        ("see [[redis]]\n", "see [[valkey 8]]\n"),
        ("see [[redis#Limits|the limits]]\n", "see [[valkey 8#Limits|the limits]]\n"),
        ("![[redis.md]]", "![[valkey 8.md]]"),
        ("[[.memories/redis]]", "[[.memories/ops/valkey 8]]"),
        ("[x](.memories/redis.md#limits)", "[x](.memories/ops/valkey%208.md#limits)"),
        ("[x](<.memories/redis.md>)", "[x](<.memories/ops/valkey 8.md>)"),
        (
            "- resolved_by [[redis]]\r\n- informs [[redis]]\r\n",
            "- resolved_by [[valkey 8]]\r\n- informs [[valkey 8]]\r\n",
        ),
        ("| [[redis\\|label]] |", "| [[valkey 8\\|label]] |"),
        ("`[[redis]]` [[redis]] `[[redis]]`", "`[[redis]]` [[valkey 8]] `[[redis]]`"),
        ("```\n[[redis]]\n```\n", "```\n[[redis]]\n```\n"),
        (
            "[r](/.memories/redis.md#x) [r](</.memories/redis.md>) [r](/redis.md)\n\n[d]: /.memories/redis.md",
            "[r](/.memories/ops/valkey%208.md#x) [r](</.memories/ops/valkey 8.md>) [r](/redis.md)\n\n[d]: /.memories/ops/valkey%208.md",
        ),
        (
            "[q](.memories/redis.md?x=1#y) [q](<.memories/redis?x>)\n\n[d]: .memories/redis.md?x",
            "[q](.memories/ops/valkey%208.md?x=1#y) [q](<.memories/ops/valkey 8?x>)\n\n[d]: .memories/ops/valkey%208.md?x",
        ),
        ("[e](.memories\\/redis\\.md)", "[e](.memories/ops/valkey%208.md)"),
        (
            "redis, [[other]], [[gone]], [redis](https://redis.md)",
            "redis, [[other]], [[gone]], [redis](https://redis.md)",
        ),
        ("---\nlink: '[[redis]]'\n---\n[[redis]]", "---\nlink: '[[valkey 8]]'\n---\n[[valkey 8]]"),
        (
            '---\nup: "[[redis#Limits|x]]"\nsee: ["[[redis]]", "[[other]]"]\n# [[redis]]\n---',
            '---\nup: "[[valkey 8#Limits|x]]"\nsee: ["[[valkey 8]]", "[[other]]"]\n# [[redis]]\n---',
        ),
        ("---\nx: '[t](.memories/redis.md)'\n---\n", "---\nx: '[t](.memories/redis.md)'\n---\n"),
    ):
        assert update(text, MOVED, ".memories/other.md") == updated, text


def test_a_link_that_still_leads_to_its_note_stays() -> None:
    moved = {".memories/a.md": ".memories/deep/a.md"}
    assert update("[[a]] [b](.memories/a.md)", moved) == "[[a]] [b](.memories/deep/a.md)"


def test_a_link_that_another_note_would_take_over_is_made_exact() -> None:
    moved = {".memories/x/a.md": ".memories/y/a.md"}
    assert update("[[a]]", moved, ".memories/a.md", path=".memories/x/b.md") == "[[.memories/y/a]]"


def test_relative_links_of_the_renamed_note_itself_are_updated() -> None:
    moved = {".memories/a.md": ".memories/deep/a.md"}
    text = "[m](../MEMORY.md) [[b]] [b](b.md)"
    updated = update(text, moved, "MEMORY.md", ".memories/b.md", path=".memories/a.md")
    assert updated == "[m](../../MEMORY.md) [[b]] [b](../b.md)"


def test_bytes_beside_the_links_stay() -> None:
    data = b"\xef\xbb\xbfa \xff [[redis]]\r\n\0 [[redis]]\rend"
    assert update(data, {".memories/redis.md": ".memories/r.md"}).encode(
        "utf-8", "surrogateescape"
    ) == data.replace(b"redis", b"r")
    with pytest.raises(EditRefused):
        update("[[redis]]".encode("utf-16"), MOVED)


@pytest.mark.parametrize("name", ["C#.md", "a [b].md", "a|b.md", "x^2.md"])
def test_a_name_that_no_link_can_have_is_refused_where_it_would_need_one(name: str) -> None:
    moved = {".memories/redis.md": f".memories/{name}"}
    with pytest.raises(EditRefused, match=r"MEMORY\.md"):
        update("see [[redis]]\n", moved)
    assert update("no link\n", moved) == "no link\n"


@pytest.mark.parametrize("name", ['"C".md', "don't.md", "a\\b.md"])
def test_a_name_that_would_end_a_text_of_yaml_is_refused_where_a_property_needs_it(
    name: str,
) -> None:
    moved = {".memories/redis.md": f".memories/{name}"}
    with pytest.raises(EditRefused, match=r"MEMORY\.md"):
        update('---\nup: "[[redis]]"\n---\n', moved)
    assert name.removesuffix(".md") in update("[[redis]]\n", moved)


POLICY = ChunkingConfig(max_tokens=100, overlap=0)
ODD_PATHS = [
    f"{folder}{name}"
    for folder in ("", ".memories/", ".memories/x (y)/")
    for name in ("b[1].md", "c(1).md", "d?.md", "e_f.md", "g#h.md", "100%.md", "a.md", "(i) j.md")
]
ESCAPED = re.compile(r"[\[\]()_?]")


def write_address(path: str, form: str) -> str:
    match form:
        case "angle":
            encoded = re.sub(r"[#?]", lambda sign: f"%{ord(sign[0]):02X}", path)
            return f"<{encoded}>"
        case "escaped":
            return ESCAPED.sub(r"\\\g<0>", path).replace("#", "%23").replace(" ", "%20")
        case _:
            # As Obsidian writes it: brackets that match may stay.
            encoded = quote(path, safe="/[]()")
            return f"/{encoded}" if form == "root" else encoded


@given(st.data())
def test_every_address_leads_to_the_same_note_after_any_renaming(data: st.DataObject) -> None:
    chosen = st.lists(st.sampled_from(ODD_PATHS), min_size=2, max_size=5, unique=True)
    paths = data.draw(chosen, label="paths")
    targets = data.draw(st.permutations(paths), label="new paths")
    moved = {old: new for old, new in zip(paths, targets, strict=True) if old != new}
    source = data.draw(st.sampled_from(["MEMORY.md", *paths]), label="source")
    folder = source.rpartition("/")[0] or "."
    forms = st.sampled_from(["plain", "root", "angle", "escaped"])
    rests = st.sampled_from(["", "#h", "?q=1", "?q=a.b#h"])
    named = data.draw(st.lists(st.tuples(st.sampled_from(paths), forms, rests), max_size=5))
    lines = []
    for path, form, rest in named:
        address = path if form == "root" else posixpath.relpath(path, folder)
        address = write_address(address, form)
        whole = f"{address[:-1]}{rest}>" if form == "angle" else f"{address}{rest}"
        lines.append(f"see [t]({whole}) and")
    text = "\n\n".join(lines) + "\n"
    before = NoteNames.of((path, "") for path in {"MEMORY.md", *paths})
    after = NoteNames.of((moved.get(path, path), "") for path in {"MEMORY.md", *paths})

    def resolve(path: str, content: bytes, names: NoteNames) -> list[tuple[str | None, str]]:
        note = parse_note(parse_note_path(path), content, POLICY)
        return [
            (names.find(path, link.target, is_path=link.kind == PATH_LINK), link.heading)
            for link in note.links
        ]

    expected = [(path, rest.partition("#")[2]) for path, _, rest in named]
    assert resolve(source, text.encode(), before) == expected
    updated = update_links(source, text.encode(), moved, before=before, after=after)
    resolved = resolve(moved.get(source, source), updated, after)
    assert resolved == [(moved.get(path, path), heading) for path, heading in expected]
    queries = [rest.partition("#")[0] for _, _, rest in named]
    assert re.findall(r"[?]q=[^#)>]*", updated.decode()) == [query for query in queries if query]


PATHS = st.sampled_from(
    [
        f"{folder}{name}"
        for folder in ("", ".memories/", ".memories/x/", ".memories/x y/")
        for name in ("a.md", "b c.md", "MEMORY.md", "a.txt")
    ]
)


@given(st.data())
def test_every_link_leads_to_the_same_note_after_any_renaming(data: st.DataObject) -> None:
    paths = data.draw(st.lists(PATHS, min_size=2, max_size=6, unique=True), label="paths")
    targets = data.draw(st.permutations(paths), label="new paths")
    moved = {old: new for old, new in zip(paths, targets, strict=True) if old != new}
    source = data.draw(st.sampled_from(paths), label="source")
    links = data.draw(
        st.lists(
            st.sampled_from(
                [
                    "[[{0}]]",
                    "[[{1}]]",
                    "[[{2}#h|l]]",
                    "[t]({3})",
                    "[t](<{0}>)",
                    "[t](./{3})",
                    "- by [[{1}]]",
                ]
            ).flatmap(
                lambda form: st.sampled_from(paths).map(
                    lambda path: form.format(
                        path,
                        path.rpartition(".")[0],
                        path.rpartition("/")[2],
                        path.replace(" ", "%20"),
                    )
                )
            ),
            max_size=5,
        ),
        label="links",
    )
    properties = data.draw(st.lists(st.sampled_from(paths), max_size=3), label="properties")
    front = "".join(f'p{at}: "[[{path}]]"\n' for at, path in enumerate(properties))
    text = (f"---\n{front}---\n" if front else "") + "\n\n".join(links) + "\n"
    before = NoteNames.of((path, "") for path in paths)
    after = NoteNames.of((moved.get(path, path), "") for path in paths)
    # An index has titles besides, which other programs do not know.
    titles = data.draw(st.lists(st.sampled_from(["a", "b c", ""]), min_size=6, max_size=6))
    titled = NameTable(
        (make_key(name), path, name)
        for path, title in zip(paths, titles, strict=False)
        for name in list_names(path, title)
    )
    updated = update_links(
        source,
        text.encode(),
        moved,
        before=NoteNames(PathNames(titled, without=moved, added=moved)),
        after=NoteNames(PathNames(titled, without=moved, added=moved.values())),
    )

    def resolve(path: str, content: bytes, names: NoteNames) -> list[str | None]:
        note = parse_note(parse_note_path(path), content, POLICY)
        return [names.find(path, link.target) for link in note.links]

    old = resolve(source, text.encode(), before)
    new = resolve(moved.get(source, source), updated, after)
    assert new == [old_path and moved.get(old_path, old_path) for old_path in old]
