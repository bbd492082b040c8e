"""The client writes and reads the same JSON as `json`, with its engine in C and without."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.client.connection import encode_json, parse_json

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(value=values)
def test_values_are_written_as_json_writes_them_and_read_back(value: object) -> None:
    text = encode_json(value)
    assert text == json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    assert parse_json(f" {text}\n") == value
    assert parse_json(json.dumps(value, indent=1)) == value


@given(text=st.text(alphabet='{}[]":,0-1e.ntrufals \\\n', max_size=12) | st.text(max_size=12))
def test_texts_are_read_or_refused_like_json(text: str) -> None:
    assert read(parse_json, text) == read(json.loads, text)


def read(parse: Callable[[str], object], text: str) -> str:
    try:
        return repr(parse(text))
    except ValueError:
        return "refused"


def test_broken_json_is_refused_by_a_program_that_has_not_imported_json() -> None:
    code = """if True:
        import sys
        from memsyncd.client.connection import parse_json
        assert "json.decoder" not in sys.modules
        for text in ('{', '[1,', '{"a"', '"', '{"a":1,}', 'x', ''):
            try:
                parse_json(text)
            except ValueError:
                continue
            raise SystemExit(text)
    """
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_the_engine_in_c_the_results_are_the_same() -> None:
    code = """if True:
        import sys
        sys.modules["_json"] = None
        from memsyncd.client.connection import parse_json, encode_json
        assert "json" in sys.modules
        value = {"a": ["ä\\n", 1, 2.5, None, True]}
        assert encode_json(value) == '{"a":["ä\\\\n",1,2.5,null,true]}'
        assert parse_json(" " + encode_json(value)) == value
        try:
            parse_json("1 2")
        except ValueError:
            print("refused")
    """
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "refused\n"


def test_values_that_json_cannot_express_are_refused() -> None:
    with pytest.raises(TypeError, match="set cannot"):
        encode_json({"query": {1}})
