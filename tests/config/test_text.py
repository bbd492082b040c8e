from __future__ import annotations

from pathlib import Path

import pytest

from memsyncd.config.text import read_config_text

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
