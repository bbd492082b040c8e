"""The properties that an answer shows in place of front matter."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from memsyncd.core.search.passages import MOST_CHARACTERS, MOST_LABELS, choose_labels

TEXTS = st.text(alphabet="ab :\n", max_size=200)


@given(
    st.dictionaries(st.sampled_from(["status", "task"]), TEXTS),
    st.dictionaries(st.sampled_from(["owner", "url", "title", "aliases", "notes", "b"]), TEXTS),
)
@example({"status": "a"}, {"notes": "a " * 90 + "b" + " a" * 90})
def test_labels_are_few_and_short_and_show_the_matching_word(
    stated: dict[str, str], extra: dict[str, str]
) -> None:
    def matches(text: str) -> bool:
        return "b" in text.replace(":", " ").split()

    labels = choose_labels(stated, extra, matches)
    assert len(labels) <= MOST_LABELS
    assert all(len(label) <= len("aliases: ") + MOST_CHARACTERS + 3 for label in labels)
    keys = [label.partition(":")[0] for label in labels]
    assert "title" not in keys
    every = {**stated, **extra}
    matching = [matches(f"{key}: {every[key]}") for key in keys]
    assert matching == sorted(matching, reverse=True)
    shown = [matches(label) for label in labels]
    assert all(
        is_shown for is_shown, is_matching in zip(shown, matching, strict=True) if is_matching
    )
    # Other fields of an answer have what is stated.
    assert not {key for key, is_matching in zip(keys, matching, strict=True) if not is_matching} & {
        *stated
    }
