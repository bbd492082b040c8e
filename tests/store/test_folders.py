"""The folders of the index are what the paths of its notes say."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memsyncd.store.folders import MOST_COUNTED, ListedEntry, find_by_name, list_entries, read_names
from memsyncd.store.index import Index, PutNote
from memsyncd.store.schema import compute_fingerprint

Put = Callable[..., PutNote]

# Names whose order differs from the order of their paths, and that begin each other.
FOLDERS = st.sampled_from(["a", "a b", "a-", "a0", "Ä", "a.md.d", "日記"])
PATHS = st.builds(
    lambda folders, name: "/".join((*folders, f"{name}.md")),
    st.lists(FOLDERS, max_size=3),
    st.sampled_from(["a", "b", "a0", "ä"]),
)


@settings(max_examples=40)
@given(paths=st.sets(PATHS), length=st.integers(1, 4))
def test_each_folder_lists_what_is_right_in_it_page_by_page(
    paths: set[str], length: int, put: Put, tmp_path_factory: pytest.TempPathFactory
) -> None:
    index = Index(tmp_path_factory.mktemp("f") / "index.db", compute_fingerprint("folders"))
    index.apply([put(path, "text") for path in paths])
    folders = {""} | {path[:at] for path in paths for at, sign in enumerate(path) if sign == "/"}
    try:
        with index.pool.acquire(10.0) as reader:
            for folder in folders:
                begin = f"{folder}/" if folder else ""
                beneath = [path[len(begin) :] for path in paths if path.startswith(begin)]
                expected = {
                    ListedEntry(begin + name, is_folder := "/" in path, is_folder and n)
                    for path in beneath
                    for name in [path.partition("/")[0]]
                    for n in [sum(other.startswith(f"{name}/") for other in beneath)]
                }
                listed: list[ListedEntry] = []
                while True:
                    after = listed[-1].path if listed else ""
                    page = list_entries(reader, folder, after=after, limit=length)
                    listed += page
                    if len(page) < length:
                        break
                assert len(listed) == len(expected)
                assert set(listed) == expected
                notes = [entry.path for entry in listed if not entry.is_folder]
                assert [note.path for note in read_names(reader, notes)] == sorted(notes)
    finally:
        index.close()


def test_notes_are_found_by_parts_of_their_names_and_a_large_folder_is_not_counted_whole(
    index: Index, put: Put
) -> None:
    index.apply([
        put("work/Plan.md", "---\nkind: decision\ntags: [Auth, later]\naliases: The road map\n---\n# Über\n"),
        put("work/old/plan-b.md", "# Second\n"),
        put("A\u0308mter/Bar.md", "text"),
        put("root.md", "# Either/Or\n"),
        *(put(f"many/{number}.md", "text") for number in range(MOST_COUNTED + 1)),
    ])  # fmt: skip
    with index.pool.acquire(10.0) as reader:

        def find(*words: str) -> list[str]:
            return [note.path for note in find_by_name(reader, words, after="", limit=9)]

        plan, second = "work/Plan.md", "work/old/plan-b.md"
        assert find("plan") == find("WORK/") == [plan, second]
        found = ("über",), ("road",), ("decision",), ("#auth",), ("#la", "plan")
        assert [find(*words) for words in found] == [[plan]] * len(found)
        assert find("second", "old") == [second]
        # Letters fold as in links, and a word with a folder is looked for with it.
        offices = ("Ämter",), ("ämter", "bar.md"), ("ÄMTER/b",)
        assert [find(*words) for words in offices] == [["A\u0308mter/Bar.md"]] * len(offices)
        assert find("foo/bar") == find("plan.md", "second") == []
        assert find("either/or") == ["root.md"]
        assert "A\u0308mter/Bar.md" in find("/")
        assert find("#map") == find("plan", "gone") == []
        assert len(find("many")) == 9
        [_, many, *_] = list_entries(reader, "", limit=9)
        assert many == ListedEntry("many", is_folder=True, n_notes=MOST_COUNTED)
