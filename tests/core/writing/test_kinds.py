from __future__ import annotations

from memsyncd.core.editing.additions import DEFAULT_KINDS, OTHER_KINDS
from memsyncd.core.notepath import is_markdown, is_note_name, parse_note_path


def test_each_kind_has_a_note_that_takes_sections_and_an_importance() -> None:
    for kind, defaults in [*DEFAULT_KINDS.items(), ("", OTHER_KINDS)]:
        path = parse_note_path(defaults.note)
        assert path.folder == ".memories", kind
        assert is_note_name(path.name), kind
        assert is_markdown(path.name), kind
        assert 0 <= defaults.importance <= 1, kind


def test_no_two_kinds_share_a_note() -> None:
    notes = [defaults.note for defaults in (*DEFAULT_KINDS.values(), OTHER_KINDS)]
    assert len(set(notes)) == len(notes)
