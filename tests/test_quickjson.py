"""The client's JSON is the JSON of `json`."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.quickjson import parse_json, render_json

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(value=values)
def test_values_are_written_as_json_writes_them_and_read_back(value: object) -> None:
    text = render_json(value)
    assert text == json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    assert parse_json(f" {text}\n") == value
    assert parse_json(json.dumps(value, indent=1)) == value


@given(text=st.text(alphabet='{}[]":,0-1e.ntrufals \\\n', max_size=12) | st.text(max_size=12))
def test_texts_are_read_or_refused_as_json_does(text: str) -> None:
    assert read(parse_json, text) == read(json.loads, text)


def read(parse: Callable[[str], object], text: str) -> str:
    try:
        return repr(parse(text))
    except ValueError:
        return "refused"


def test_what_json_has_no_word_for_is_refused() -> None:
    with pytest.raises(TypeError, match="set cannot"):
        render_json({"query": {1}})
