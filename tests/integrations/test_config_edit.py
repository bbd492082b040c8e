"""Edits of other programs' files: one value changes, and nothing else of the text."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.integrations.coding_agents import (
    CLIENTS,
    File,
    Invocation,
    MarkedBlock,
    Piece,
    fill,
    install,
    is_installed,
    uninstall,
)
from memsyncd.integrations.config_edit import (
    MARKDOWN_MARKS,
    TOML_MARKS,
    Unreadable,
    add_item,
    find_block,
    parse_json,
    read_json,
    remove_block,
    remove_part,
    set_block,
    set_member,
)

PROGRAM = Invocation(["/opt/my tools/memsyncd"], "1.2.3")
VALUE = {"command": "x", "args": ["mcp"]}
PATH = ("mcpServers", "memsyncd")
COMMENTED = """\
// mine
{
    "theme": "dark", // night
    /* servers */
    "mcpServers": {
        "other": {"command": "a"}, // the other
        // last words
    },
    "z": [1, 2,],
}
"""
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda values: (
        st.lists(values, max_size=3) | st.dictionaries(st.text(max_size=4), values, max_size=3)
    ),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from(["a", "mcpServers", "é", "hooks", ""]), VALUES)
GAPS = st.sampled_from(["", " ", "\n", "\r\n  ", " // note\n", "/* x */", "\n\t// {\n"])


@st.composite
def documents(draw: st.DrawFn) -> tuple[Any, str]:
    """An object, and JSON with comments for it."""
    value = draw(OBJECTS)
    return value, draw(GAPS) + _write(draw, value) + draw(GAPS)


def _write(draw: st.DrawFn, value: Any) -> str:
    if not isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=draw(st.booleans()))
    if isinstance(value, dict):
        parts = [
            f"{json.dumps(name)}{draw(GAPS)}:{draw(GAPS)}{_write(draw, one)}"
            for name, one in value.items()
        ]
    else:
        parts = [_write(draw, one) for one in value]
    text = ",".join(f"{draw(GAPS)}{part}{draw(GAPS)}" for part in parts)
    text += "," + draw(GAPS) if parts and draw(st.booleans()) else draw(GAPS)
    return "{" + text + "}" if isinstance(value, dict) else "[" + text + "]"


# --- JSON ---


@given(documents())
def test_json_with_comments_is_read(document: tuple[Any, str]) -> None:
    value, text = document
    assert read_json(text, parse_json(text)) == value


@given(documents())
def test_a_member_is_set_and_all_else_stays(document: tuple[Any, str]) -> None:
    value, text = document
    if not isinstance(value.get("mcpServers", {}), dict):
        with pytest.raises(Unreadable):
            set_member(text, PATH, VALUE)
        return
    new = set_member(text, PATH, VALUE)
    expected = {**value, "mcpServers": {**value.get("mcpServers", {}), "memsyncd": VALUE}}
    assert read_json(new, parse_json(new)) == expected
    assert list(read_json(new, parse_json(new))) == list(expected)
    assert new.count("//") + new.count("/*") >= text.count("//") + text.count("/*")
    assert set_member(new, PATH, VALUE) == new
    gone = remove_part(new, PATH, None)
    left = read_json(gone, parse_json(gone))
    value.get("mcpServers", {}).pop("memsyncd", None)
    assert {**left, "mcpServers": left.get("mcpServers", {})} == {
        **value,
        "mcpServers": value.get("mcpServers", {}),
    }


@given(documents(), VALUES)
def test_an_item_is_added_once_and_taken_out(document: tuple[Any, str], item: Any) -> None:
    value, text = document

    def is_same(one: Any) -> bool:
        return bool(one == ["mine", item])

    if not isinstance(value.get("hooks", []), list):
        with pytest.raises(Unreadable):
            add_item(text, ("hooks",), ["mine", item], is_same)
        return
    new = add_item(text, ("hooks",), ["mine", item], is_same)
    assert read_json(new, parse_json(new))["hooks"][-1:] == [["mine", item]]
    assert add_item(new, ("hooks",), ["mine", item], is_same) == new
    gone = remove_part(new, ("hooks",), is_same)
    left = read_json(gone, parse_json(gone))
    assert left.get("hooks", []) == value.get("hooks", [])
    assert {**left, "hooks": []} == {**value, "hooks": []}


def test_comments_and_order_stay() -> None:
    assert set_member(COMMENTED, PATH, VALUE) == COMMENTED.replace(
        "        // last words\n",
        "        // last words\n"
        '        "memsyncd": {\n            "command": "x",\n            "args": [\n'
        '                "mcp"\n            ]\n        }\n',
    )
    # The comma of the part before goes as well: strict JSON allows none at the end.
    without = COMMENTED.replace('"a"},', '"a"}')
    assert remove_part(set_member(COMMENTED, PATH, VALUE), PATH, None) == without


@pytest.mark.parametrize(
    "text",
    ["{", '{"a": }', '{"a" 1}', "{'a': 1}", '{"a": 1} x', '{"a": 1 "b": 2}', "[}", "nul", "[]"],
)
def test_what_is_no_json_object_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(Unreadable, match="line 3: "):
        set_member(f"// one\n\n{text}", PATH, VALUE)


def test_line_ends_of_windows_stay() -> None:
    text = '{\r\n\t"a": 1\r\n}\r\n'
    new = set_member(text, ("b",), {"c": 2})
    assert new == '{\r\n\t"a": 1,\r\n\t"b": {\r\n\t\t"c": 2\r\n\t}\r\n}\r\n'
    assert "\n" not in set_block("# x\r\n", TOML_MARKS, "a = 1\nb = 2").replace("\r\n", "")


# --- blocks ---


@given(
    st.lists(st.sampled_from(["a = 1", "# c", "", "[t]", "text", "  "]), max_size=6),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([TOML_MARKS, MARKDOWN_MARKS]),
)
def test_a_block_is_set_replaced_and_taken_out(lines: list[str], end: str, marks: Any) -> None:
    text = "".join(f"{line}{end}" for line in lines)
    new = set_block(text, marks, "x\ny")
    assert new.startswith(text)
    assert set_block(new, marks, "x\ny") == new
    place = find_block(set_block(new, marks, "z"), marks)
    assert place is not None
    assert remove_block(new, marks).strip() == text.strip()
    assert find_block(remove_block(new, marks), marks) is None


def test_a_block_without_its_end_is_refused() -> None:
    with pytest.raises(Unreadable, match="line 2: the block of memsyncd has no end"):
        set_block(f"x\n{TOML_MARKS.start}\ny\n", TOML_MARKS, "z")


# --- the clients ---


def list_files() -> list[tuple[str, list[Piece]]]:
    groups = [
        pieces
        for client in CLIENTS.values()
        for table in (client.scopes, client.capture)
        for pieces in table.values()
    ]
    return [
        (path, [piece for piece in pieces if piece.path == path])
        for pieces in groups
        for path in dict.fromkeys(piece.path for piece in pieces)
    ]


@pytest.mark.parametrize(("path", "pieces"), list_files())
def test_each_clients_file_is_made_valid_once_and_undone(path: str, pieces: list[Piece]) -> None:
    text = install(None, pieces, PROGRAM)
    assert install(text, pieces, PROGRAM) == text
    assert is_installed(text, pieces, PROGRAM)
    if path.endswith(".json"):
        assert "@" not in json.dumps(json.loads(text)).replace("@skills-dir", "")
    elif path.endswith(".toml"):
        assert tomllib.loads(text)["mcp_servers"]["memsyncd"] == {
            "command": PROGRAM.command[0],
            "args": ["mcp"],
        }
    rest = uninstall(text, pieces, PROGRAM)
    assert rest is None
    moved = Invocation(["/usr/bin/memsyncd"], "2")
    if not all(isinstance(piece, File) for piece in pieces):
        assert install(text, pieces, moved) == install(None, pieces, moved)


@given(documents())
def test_a_clients_own_settings_survive_install_and_uninstall(document: tuple[Any, str]) -> None:
    value, text = document
    pieces = CLIENTS["gemini"].scopes["user"]
    try:
        new = install(text, pieces, PROGRAM)
    except Unreadable:
        return
    rest = uninstall(new, pieces, PROGRAM)
    left = {} if rest is None else read_json(rest, parse_json(rest))
    for name in ("a", "é", ""):
        assert left.get(name) == value.get(name)


def test_a_table_that_somebody_else_wrote_is_refused() -> None:
    pieces = [piece for piece in CLIENTS["codex"].scopes["user"] if isinstance(piece, MarkedBlock)]
    with pytest.raises(Unreadable, match=r"\[mcp_servers.memsyncd\] is there already"):
        install('[mcp_servers.memsyncd]\ncommand = "x"\n', pieces[:1], PROGRAM)
    with pytest.raises(Unreadable, match=r"write it as \[mcp_servers.NAME\]"):
        install('mcp_servers = { x = { command = "x" } }\n', pieces[:1], PROGRAM)
    with pytest.raises(Unreadable, match="not TOML"):
        install("[mcp_servers\n", pieces[:1], PROGRAM)


def test_a_users_hook_beside_one_of_memsyncd_stays() -> None:
    pieces = CLIENTS["gemini"].scopes["user"]
    both = [{"command": "./mine.sh"}, {"command": "memsyncd hook session-start"}]
    text = json.dumps({"hooks": {"SessionStart": [{"hooks": both}]}})
    new = install(text, pieces, PROGRAM)
    assert {"hooks": both} in json.loads(new)["hooks"]["SessionStart"]
    assert json.loads(uninstall(new, pieces, PROGRAM) or "") == json.loads(text)


def test_words_with_blanks_are_quoted_for_a_shell() -> None:
    assert fill("@shell hook stop", PROGRAM.command, "1") == "'/opt/my tools/memsyncd' hook stop"
    assert fill(["@program", "@args", "mcp"], ["python", "-m", "memsyncd"], "1") == [
        "python",
        "-m",
        "memsyncd",
        "mcp",
    ]
