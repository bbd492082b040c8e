"""Edits of other programs' files: one value changes, and nothing else of the text."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

import pytest
import tomlkit
from hypothesis import assume, given
from hypothesis import strategies as st

from memsyncd.dirs import VARIABLES
from memsyncd.integrations.coding_agents import (
    CLIENTS,
    READ_TOOLS,
    READS,
    File,
    Invocation,
    Piece,
    Prose,
    Table,
    fill,
    install,
    is_installed,
    read_server,
    uninstall,
)
from memsyncd.integrations.config_edit import (
    Path,
    Unreadable,
    add_item,
    add_prose,
    parse_json,
    read_json,
    read_toml,
    remove_part,
    remove_prose,
    remove_table,
    set_member,
    set_table,
    take_back,
    update_value,
)
from memsyncd.own_texts import AGENT_GUIDE as GUIDE

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
    """An object, and its text as JSON with comments."""
    value = draw(OBJECTS)
    return value, draw(GAPS) + _write(draw, value) + draw(GAPS)


def _write(draw: st.DrawFn, value: Any) -> str:
    if not isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=draw(st.booleans()))
    if isinstance(value, dict):
        parts = [
            f"{json.dumps(name)}{draw(GAPS)}:{draw(GAPS)}{_write(draw, member)}"
            for name, member in value.items()
        ]
    else:
        parts = [_write(draw, item) for item in value]
    text = ",".join(f"{draw(GAPS)}{part}{draw(GAPS)}" for part in parts)
    text += "," + draw(GAPS) if parts and draw(st.booleans()) else draw(GAPS)
    return "{" + text + "}" if isinstance(value, dict) else "[" + text + "]"


def drop(_: Path) -> bool:
    return False


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
    gone = remove_part(new, PATH, drop)
    left = read_json(gone, parse_json(gone))
    value.get("mcpServers", {}).pop("memsyncd", None)
    assert {**left, "mcpServers": left.get("mcpServers", {})} == {
        **value,
        "mcpServers": value.get("mcpServers", {}),
    }


@given(documents(), VALUES)
def test_an_item_is_added_and_taken_out(document: tuple[Any, str], item: Any) -> None:
    value, text = document
    if not isinstance(value.get("hooks", []), list):
        with pytest.raises(Unreadable):
            add_item(text, ("hooks",), ["mine", item])
        return
    new = add_item(text, ("hooks",), ["mine", item])
    items = read_json(new, parse_json(new))["hooks"]
    assert items[-1:] == [["mine", item]]
    gone = remove_part(new, ("hooks", len(items) - 1), drop)
    left = read_json(gone, parse_json(gone))
    assert left.get("hooks", []) == value.get("hooks", [])
    assert {**left, "hooks": []} == {**value, "hooks": []}


@given(documents(), OBJECTS)
def test_a_value_is_updated_and_other_members_stay(document: tuple[Any, str], own: Any) -> None:
    value, text = document
    new = update_value(text, (), own)
    changed = read_json(new, parse_json(new))
    assert update_value(new, (), own) == new
    assert {name: changed[name] for name in value if name not in own} == {
        name: old for name, old in value.items() if name not in own
    }
    for name, member in own.items():
        if not isinstance(member, dict | list):
            assert changed[name] == member


def test_comments_and_order_stay() -> None:
    assert set_member(COMMENTED, PATH, VALUE) == COMMENTED.replace(
        "        // last words\n",
        "        // last words\n"
        '        "memsyncd": {\n            "command": "x",\n            "args": [\n'
        '                "mcp"\n            ]\n        }\n',
    )
    # The comma before the part is removed, too, because strict JSON allows no comma at the end.
    without = COMMENTED.replace('"a"},', '"a"}')
    assert remove_part(set_member(COMMENTED, PATH, VALUE), PATH, drop) == without


def test_a_comment_before_a_comma_stays() -> None:
    text = '{"a": 1 /* of b */, "b": 2}'
    assert remove_part(text, ("a",), drop) == '{ /* of b */ "b": 2}'


@pytest.mark.parametrize(
    "text",
    ["{", '{"a": }', '{"a" 1}', "{'a': 1}", '{"a": 1} x', '{"a": 1 "b": 2}', "[}", "nul", "[]"],
)
def test_text_that_is_no_json_object_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(Unreadable, match="line 3: "):
        set_member(f"// one\n\n{text}", PATH, VALUE)


def test_line_ends_of_windows_stay() -> None:
    text = '{\r\n\t"a": 1\r\n}\r\n'
    new = set_member(text, ("b",), {"c": 2})
    assert new == '{\r\n\t"a": 1,\r\n\t"b": {\r\n\t\t"c": 2\r\n\t}\r\n}\r\n'
    for new in (
        set_table("# x\r\n", TABLE, SERVER),
        set_table(f"[{'.'.join(TABLE)}]\r\ncommand = 'x'\r\n", TABLE, SERVER),
        add_prose("# x\r\n", GUIDE),
    ):
        assert "\n" not in new.replace("\r\n", "")


# --- TOML ---

TABLE = ("mcp_servers", "memsyncd")
SERVER = {"command": "/opt/my tools/memsyncd", "args": ["mcp"], "env_vars": ["A", "B"]}
BLOCKS = (
    "[t{n}]\nx = 1  # right {n}\n",
    "[t{n}.sub]\ny = '''\n# none\n[mcp_servers.memsyncd]\n'''\n# below {n}\n",
    "[[a{n}]]\nz = [\n  1, # in {n}\n  2,\n]\n",
    '[mcp_servers.s{n}]\ncommand = "/opt/my tools/memsyncd"\nargs = ["mcp"]\n',
    '[mcp_servers.s{n}.env]\nA = "{n}"\n',
    "\t[ t{n} . 'u v' ] # head {n}\n\tk = nan\n\n",
    "# above {n}\n",
    "\n",
)
ROOTS = (
    "",
    "# file\n\nmodel = 'm' # keep\n",
    "when = 1979-05-27T07:32:00Z\nmcp_servers.d.command = 'x' # d\n",
)
OWN_SUBTABLE = '[mcp_servers.memsyncd.tools.memory_search]\napproval_mode = "approve"\n'


@st.composite
def toml_blocks(draw: st.DrawFn, prefix: str) -> list[str]:
    kinds = draw(st.lists(st.sampled_from(BLOCKS), max_size=5))
    return [kind.replace("{n}", f"{prefix}{at}") for at, kind in enumerate(kinds)]


def read_comments(text: str) -> list[str]:
    return sorted(re.findall(r"# (?:file|keep|d\b|(?:right|below|in|head|above) \w+)", text))


def read_others(text: str) -> dict[str, Any]:
    """The data of all tables other than memsyncd's."""
    data = read_toml(text)
    data.get("mcp_servers", {}).pop("memsyncd", None)
    return {name: value for name, value in data.items() if value != {} or name != "mcp_servers"}


@given(st.sampled_from(ROOTS), toml_blocks("o"), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_a_table_is_added_once_and_taken_out(
    root: str, blocks: list[str], end: str, is_ended: bool
) -> None:
    text = (root + "".join(blocks)).replace("\n", end)
    text = text if is_ended else text.rstrip()
    new = set_table(text, TABLE, SERVER)
    assert new.startswith(text)
    assert read_toml(new)["mcp_servers"]["memsyncd"] == SERVER
    assert set_table(new, TABLE, SERVER) == new
    moved = {**SERVER, "command": "/usr/bin/memsyncd"}
    assert set_table(set_table(new, TABLE, moved), TABLE, SERVER) == new
    gone = remove_table(new, TABLE)
    assert gone == text or not text.strip() or (not is_ended and gone.rstrip() == text)
    assert remove_table(gone, TABLE) == gone


@given(
    st.sampled_from(ROOTS),
    toml_blocks("o"),
    toml_blocks("p"),
    st.lists(st.integers(0, 12), min_size=5, max_size=5),
    st.sampled_from(["", OWN_SUBTABLE]),
    st.sampled_from(["kept", "without comments", "written anew"]),
)
def test_text_of_other_programs_around_a_table_stays(
    root: str, blocks: list[str], added: list[str], places: list[int], sub: str, rewrite: str
) -> None:
    """Other programs add tables before, behind and within memsyncd's lines, or drop comments."""
    text = root + "".join(blocks)
    own = set_table(text, TABLE, SERVER)[len(text) :]
    parts = [*blocks, own]
    for block, place in zip([*added, sub], [*places, 12], strict=False):
        parts.insert(min(place, len(parts)), block)
    edited = root + "".join(parts)
    if rewrite == "without comments":
        edited = re.sub(r"(?m)(^| +)# (?:file|keep|d$|\w+ \w+$)", "", edited)
    elif rewrite == "written anew":
        edited = tomlkit.dumps(tomlkit.parse(edited).unwrap())
    gone = remove_table(edited, TABLE)
    assert "memsyncd" not in read_toml(gone).get("mcp_servers", {})
    assert read_others(gone) == read_others(edited)
    assert read_comments(gone) == read_comments(edited)
    again = set_table(edited, TABLE, {**SERVER, "command": "/usr/bin/memsyncd"})
    assert read_others(again) == read_others(edited)
    assert read_comments(again) == read_comments(edited)
    has_tools = "tools" in read_toml(again)["mcp_servers"]["memsyncd"]
    assert has_tools == bool(sub)


def test_a_table_within_another_is_added_and_taken_out() -> None:
    for text in (
        'mcp_servers = { x = { command = "x" } } # mine\n[tui]\n',
        "mcp_servers = {}\n",
        '[mcp_servers]\nx = { command = "x" }\n# last\n',
    ):
        new = set_table(text, TABLE, SERVER)
        assert tomllib.loads(new)["mcp_servers"]["memsyncd"] == SERVER
        gone = remove_table(new, TABLE)
        assert tomllib.loads(gone) == tomllib.loads(text)
        assert gone.count("#") == text.count("#")


def test_new_keys_of_a_table_stand_above_the_comment_of_the_next() -> None:
    text = '[mcp_servers.memsyncd]\ncommand = "x" # mine\n\n# of the terminal\n[tui]\n'
    new = set_table(text, TABLE, SERVER)
    assert new.index("env_vars") < new.index("# of the terminal")
    assert "# mine" in new
    assert remove_table(new, TABLE) == "# of the terminal\n[tui]\n"


@pytest.mark.parametrize("text", ["[mcp_servers\n", "a = 1\na = 2\n", "mcp_servers = 3\n"])
def test_toml_that_takes_no_table_is_refused(text: str) -> None:
    with pytest.raises(Unreadable, match=r"not TOML|`mcp_servers` takes no table"):
        set_table(text, TABLE, SERVER)


# --- prose ---

LINES = st.sampled_from(["Be kind.", "## Rules", "", "- one", "Mine stays."])


@given(
    st.lists(LINES, max_size=4),
    st.lists(LINES, max_size=4),
    st.integers(0, 6),
    st.sampled_from(["Mine stays.", "- added\n- by me", ""]),
    st.sampled_from(["as written", "wrapped anew", "without heading"]),
)
def test_text_of_others_within_a_section_stays(
    above: list[str], below: list[str], place: int, added: str, rewrite: str
) -> None:
    text = "".join(f"{line}\n" for line in above)
    new = add_prose(text, GUIDE)
    assert new.startswith(text)
    assert add_prose(new, GUIDE) == new
    assert remove_prose(new, GUIDE) == text or not text.strip()
    lines = new[len(text) :].strip("\n").split("\n")
    if rewrite == "wrapped anew":
        lines = [lines[0], "", " ".join(lines[2:])]
    elif rewrite == "without heading":
        lines = lines[1:]
    lines[min(place, len(lines)) :] = [*([added] if added else []), *lines[place:], *below]
    edited = text + "\n".join(lines)
    gone = remove_prose(edited, GUIDE)
    others = [*above, *added.split("\n"), *below]
    kept = [line for line in gone.split("\n") if line.strip()]
    for line in others:
        assert not line or line in kept
    # With a new line in the middle, a sentence is no longer memsyncd's.
    first = 1 if rewrite == "without heading" else 2
    assert "memory_search" not in gone or (added and place > first)


# --- the clients ---


def list_files() -> list[tuple[str, list[Piece]]]:
    groups = [
        pieces
        for client in CLIENTS.values()
        for table in (client.scopes, *client.extras.values())
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
    assert is_installed(text, pieces, PROGRAM, counts_shared=True)
    if path.endswith(".json"):
        assert "@" not in json.dumps(json.loads(text)).replace("@skills-dir", "")
    elif path.endswith(".js"):
        assert f"const COMMAND = {json.dumps(PROGRAM.command)}\n" in text
    elif path.endswith("policies/memsyncd.toml"):
        (rule,) = tomllib.loads(text)["rule"]
        assert rule["toolName"] == list(READ_TOOLS)
    elif path.endswith(".toml"):
        assert tomllib.loads(text)["mcp_servers"]["memsyncd"] == {
            "command": PROGRAM.command[0],
            "args": ["mcp"],
            "env_vars": list(VARIABLES),
        }
    rest = uninstall(text, pieces, PROGRAM)
    assert rest is None
    moved = Invocation(["/usr/bin/memsyncd"], "2")
    if not all(isinstance(piece, File) for piece in pieces):
        assert install(text, pieces, moved) == install(None, pieces, moved)


EDITS = st.sets(st.sampled_from(["other", "server", "hook first", "hook last", "in our group"]))


def edit_settings(value: dict[str, Any], edits: set[str], event: str) -> dict[str, Any]:
    """Return the settings after another program has rewritten them, without comments."""
    value = json.loads(json.dumps(value))
    if "other" in edits:
        value = {"first": 1, **value, "last": [{}]}
    if "server" in edits:
        value["mcpServers"] = {"q": {"command": "q"}, **value.get("mcpServers", {})}
    hook = {"hooks": [{"type": "command", "command": "./mine.sh memsyncd hook"}]}
    events = value.setdefault("hooks", {}) if edits & {"hook first", "hook last"} else {}
    if "hook first" in edits:
        events[event] = [hook, *events.get(event, [])]
    if "hook last" in edits:
        events[event] = [*events.get(event, []), hook]
    return value


@given(
    documents(), EDITS, st.sampled_from(["gemini", "codex", "cursor", "opencode", "claude-code"])
)
def test_values_of_other_programs_in_json_stay(
    document: tuple[Any, str], edits: set[str], client: str
) -> None:
    value, text = document
    reads = CLIENTS[client].extras.get(READS, {}).get("user", ())
    scope = (*CLIENTS[client].scopes["user"], *reads) if client != "claude-code" else reads
    path = next(piece.path for piece in reversed(scope) if piece.path.endswith(".json"))
    pieces = [piece for piece in scope if piece.path == path]
    event = "sessionStart" if client == "cursor" else "SessionStart"
    hooks, servers = value.get("hooks", {}), value.get("mcpServers", {})
    assume(isinstance(servers, dict))
    assume(isinstance(hooks, dict) and all(isinstance(items, list) for items in hooks.values()))
    new = install(text, pieces, PROGRAM)
    assert install(new, pieces, PROGRAM) == new
    settings = read_json(new, parse_json(new))
    edited = edit_settings(settings, edits, event)
    gone = uninstall(json.dumps(edited, indent=3), pieces, PROGRAM, before=text)
    assert gone is not None
    left = json.loads(gone)
    if "version" not in value:
        # Cursor needs the version while its file has any other member.
        left.pop("version", None)
    assert left == edit_settings(value, edits, event)
    # If no other program has edited the file, comments stay, too.
    gone = uninstall(new, pieces, PROGRAM, before=text) or ""
    assert {"version": 1, **read_json(gone, parse_json(gone))} == {"version": 1, **value}
    assert gone.count("// ") + gone.count("/*") == text.count("// ") + text.count("/*")


def test_the_table_of_codex_is_found_by_its_name_and_not_by_comments() -> None:
    """Codex 0.171 made these texts from a file that an earlier memsyncd had written."""
    pieces = [piece for piece in CLIENTS["codex"].scopes["user"] if isinstance(piece, Table)]
    head = '# my codex\nmodel = "m"\n\n[mcp_servers.other]\ncommand = "true"\nenabled = false\n'
    own = '\n[mcp_servers.memsyncd]\ncommand = "/old/memsyncd"\nargs = ["mcp"]\n'
    begin, end = "\n# memsyncd: begin (memsyncd integrate)", "# memsyncd: end\n"
    tui = "\n[tui]\nscreen_reader_detection_done = true\n\n[hooks.state]\n"
    foo = '\n[mcp_servers.foo]\ncommand = "/bin/true"\n'
    for text, others in (
        (head + begin + own + tui + end, head + tui),
        (head + own + foo + end, head + foo),
        (head + begin + own + end, head),
    ):
        assert is_installed(text, pieces, PROGRAM)
        assert uninstall(text, pieces, PROGRAM, before=head) == others
        new = install(text, pieces, PROGRAM)
        assert "# memsyncd" not in new
        assert "/old" not in new
        assert uninstall(new, pieces, PROGRAM, before=head) == others
    assert uninstall(head + end, pieces, PROGRAM, before=head) == head


def test_the_section_of_an_earlier_memsyncd_loses_its_marks_and_no_line_of_others() -> None:
    pieces = [piece for piece in CLIENTS["vscode"].scopes["project"] if isinstance(piece, Prose)]
    begin = "<!-- memsyncd: begin (memsyncd integrate) -->\n"
    text = f"# Rules\n\n{begin}{GUIDE}\nAsk me first.\n<!-- memsyncd: end -->\n\nBe kind.\n"
    new = install(text, pieces, PROGRAM)
    assert new == f"# Rules\n\n{GUIDE}\nAsk me first.\n\nBe kind.\n"
    for each in (text, new):
        gone = uninstall(each, pieces, PROGRAM, before="")
        assert gone == "# Rules\n\nAsk me first.\n\nBe kind.\n"


def test_a_users_hook_beside_one_of_memsyncd_stays() -> None:
    pieces = CLIENTS["gemini"].scopes["user"]
    mine, own = {"command": "./mine.sh"}, {"command": "memsyncd hook session-start"}
    text = json.dumps({"hooks": {"SessionStart": [{"hooks": [mine, own], "matcher": "startup"}]}})
    new = install(text, pieces, PROGRAM)
    groups = json.loads(new)["hooks"]["SessionStart"]
    assert len(groups) == 1
    assert groups[0]["matcher"] == "startup"
    assert groups[0]["hooks"][0] == mine
    assert groups[0]["hooks"][1]["command"].endswith("hook session-start --client gemini")
    assert json.loads(uninstall(new, pieces, PROGRAM) or "") == {
        "hooks": {"SessionStart": [{"hooks": [mine], "matcher": "startup"}]}
    }


def test_a_users_additions_to_memsyncds_own_entries_stay_when_these_are_renewed() -> None:
    pieces = CLIENTS["gemini"].scopes["user"]
    settings = json.loads(install(None, pieces, Invocation(["/old/memsyncd"], "0")))
    settings["mcpServers"]["memsyncd"]["trust"] = True
    settings["hooks"]["SessionStart"][0]["matcher"] = "startup"
    new = json.loads(install(json.dumps(settings), pieces, PROGRAM))
    assert new["mcpServers"]["memsyncd"] == {
        "command": PROGRAM.command[0],
        "args": ["mcp"],
        "trust": True,
    }
    assert new["hooks"]["SessionStart"][0]["matcher"] == "startup"
    assert "/old" not in json.dumps(new)


def test_a_server_of_the_name_that_is_reached_by_http_is_replaced() -> None:
    url = {"url": "http://127.0.0.1:1/mcp"}
    for client, text in (
        ("gemini", json.dumps({"mcpServers": {"memsyncd": url}})),
        ("codex", '[mcp_servers.memsyncd]\nurl = "http://127.0.0.1:1/mcp"\n'),
    ):
        scope = CLIENTS[client].scopes["user"]
        pieces = [piece for piece in scope if piece.path == scope[0].path]
        new = install(text, pieces, PROGRAM)
        assert "url" not in new
        server = read_server(new, pieces)
        assert server is not None
        assert server.command == [*PROGRAM.command, "mcp"]


def test_words_with_blanks_are_quoted_for_a_shell() -> None:
    assert fill("@shell hook stop", PROGRAM.command, "1") == "'/opt/my tools/memsyncd' hook stop"
    assert fill(["@program", "@args", "mcp"], ["python", "-m", "memsyncd"], "1") == [
        "python",
        "-m",
        "memsyncd",
        "mcp",
    ]


@given(documents(), VALUES, st.sampled_from(["gemini", "codex", "cursor", "opencode"]))
def test_a_change_is_taken_back_to_the_layout_from_before_around_an_edit_of_others(
    document: tuple[Any, str], value: Any, client: str
) -> None:
    settings, text = document
    assume(isinstance(settings.get("mcpServers", {}), dict))
    hooks = settings.get("hooks", {})
    assume(isinstance(hooks, dict) and all(isinstance(items, list) for items in hooks.values()))
    scope = CLIENTS[client].scopes["user"]
    path = next(piece.path for piece in reversed(scope) if piece.path.endswith(".json"))
    written = install(text, [piece for piece in scope if piece.path == path], PROGRAM)
    assert take_back(text, written, written) == text
    added = f'"other": {json.dumps(value)},'
    before, after = (
        f"{part[:at]}{added}{part[at:]}"
        for part in (text, written)
        for at in [parse_json(part).start + 1]
    )
    # At the place of a change, another program's edit is not told apart.
    assert take_back(text, written, after) in (None, before)
