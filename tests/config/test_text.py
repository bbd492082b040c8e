from __future__ import annotations

import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memsyncd.config import load_config
from memsyncd.config.text import FILE_LIMIT_BYTES, read_config_text
from memsyncd.errors import BadConfig

TEXT = '''
top = 1
[a]   # a comment
"quoted key" = """
[not] = 1
x = 2
"""
list = [
  1, # ]
  { in = 2 },
]
dotted.one = 1
inline = {two = 2, three = [{four = 4}]}

[[many]]
x = 1
[[many]]
 y = "]["
[many.below]
z = 1979-05-27
'''


@pytest.mark.parametrize(
    ("key", "line"),
    [
        ("top", 2),
        ("a", 3),
        ("a.quoted key", 4),
        ("a.list", 8),
        ("a.list.0.in", 8),
        ("a.dotted.one", 12),
        ("a.inline.two", 13),
        ("a.inline.three.0.four", 13),
        ("many.0", 15),
        ("many.0.x", 16),
        ("many.1", 17),
        ("many.1.y", 18),
        ("many.1.absent", 17),
        ("nowhere", 1),
    ],
)
def test_the_line_of_a_key_is_found_however_it_is_written(key: str, line: int, tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(TEXT)
    assert read_config_text(str(path), is_required=True).find_line(key) == line


PIECES = """
[sync] [[workspace]] [workspace] [log.x] debounce_ms= path= include= level= " \'\'\' [ ] { } , = . # \\ 1 nan
true 1979-05-27 ~ /a x
""".split()
texts = st.lists(st.sampled_from([*PIECES, "\n", " "])).map("".join).map(str.encode)


@given(st.binary() | texts)
@example(b"a = " + b"[" * 5000)
@example(b"a = " + b"9" * 5000)
@example(b"[sync]\ndebounce_ms = " + b"9" * 4000)
@example(b"[[workspace]]\npath = 1979-05-27\ninclude = [1, {}]\n")
@example(b"workspace = [{}, 1]\n")
def test_any_bytes_are_a_configuration_or_are_refused(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "config.toml")
        path.write_bytes(data)
        try:
            what = load_config(str(path), {}).path
        except BadConfig as refused:
            what = refused.message
        assert what.startswith(str(path))


def test_a_long_list_takes_no_long_time(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    lines = "".join(f'  "docs/{number}.md",\n' for number in range(8000))
    path.write_text(f'[[workspace]]\npath = "/a"\ninclude = [\n{lines}]\nname = "last"\n')
    assert path.stat().st_size < FILE_LIMIT_BYTES
    began = time.perf_counter()
    assert load_config(str(path), {}).origins["workspace.0.name"].endswith(":8005")
    assert time.perf_counter() - began < 20
