"""Rules that import-linter cannot express: purity of core and protocol, a door for each library.

Sizes, names, and logging by constants are checked too.
"""

from __future__ import annotations

import ast
import functools
import graphlib
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memsyncd.config import ARRAYS, find_keys
from memsyncd.logs import KEYS, Event
from tests.conftest import ROOMS_WITH_PROGRAMS

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "memsyncd"

DOORS = {
    "apsw": "memsyncd/store/",
    "h11": "memsyncd/server/http.py",
    # Textual's own parser, for texts in a terminal.
    "markdown_it": ("memsyncd/core/markdown/", "memsyncd/cli/tui/notes_view.py"),
    "rich": "memsyncd/cli/tui/",
    "sqlite3": "no file: the system's SQLite may lack what the index needs",
    "structlog": "memsyncd/logs.py",
    "textual": "memsyncd/cli/tui/",
    "tomlkit": "memsyncd/integrations/config_edit.py",
    "watchdog": "memsyncd/watch/",
    "xxhash": "memsyncd/core/digest.py",
    "yaml": "memsyncd/core/markdown/frontmatter.py",
}
IMPURE = """
    apsw asyncio ctypes fcntl glob io logging multiprocessing os pathlib pwd queue random secrets select selectors shutil signal
    socket sqlite3 ssl structlog subprocess sys tempfile threading time urllib uuid watchdog
"""
IMPURE_METHODS = frozenset({"now", "today", "utcnow"})
LOADING_CALLS = frozenset({"call_operation", "load_action", "load_parser"})
IMPURE_PARTS = (
    "background.py",
    "docs.py",
    "generate.py",
    "git.py",
    "run.py",
    "show.py",
    "generate_cli.py",
    "generate_client.py",
)
IMPURE_CALLS = frozenset({"open", "print", "input", "exec", "eval", "__import__"})
CLIENT_PATH = (
    "memsyncd.client",
    "memsyncd.client.memory",
    "memsyncd.dirs",
    "memsyncd.errors",
    "memsyncd.lock",
    "memsyncd.cli.main",
)
FORBIDDEN_NAME_PARTS = frozenset(
    {"util", "helper", "common", "misc", "base", "manager", "runner", "coordinator", "processor"}
)
# Private names of an earlier code base; the field's terms replaced them.
RETIRED_NAMES = frozenset(
    """
    doorbell footing gathering glance handover heed house lane leaning leg lend oddity patience
    pulse ring rung see_others stray sweeping tally tips vitals
    """.split()
)
OPEN_MARKS = ("TODO", "FIXME", "XXX", "NotImplementedError", "pragma: no cover")
FILE_LIMIT_LINES = 1000
SHORT_MODULE_LINES = 60
SHORT_FOR_A_REASON = {
    "memsyncd/__main__.py": "what `python -m memsyncd` runs",
    "memsyncd/operations/generate.py": "what `python -m memsyncd.operations.generate` runs",
    "memsyncd/integrations/example.py": "a program to read and copy",
    "memsyncd/watch/fsevents.py": "macOS alone reads it",
    "memsyncd/terminal/pager.py": "loaded for an answer longer than the screen alone",
}
# The constants with which ranking fuses cosines.
UNREAD_FOR_A_REASON = frozenset(
    {
        "memsyncd/semantic/__init__.py: median",
    }
)
GENERATED = (
    "memsyncd/client/_generated.py",
    "memsyncd/client/types.py",
    "memsyncd/protocol/_generated.py",
)
# The same thing seen from two layers, such as on the socket and in the store.
SHARED_NAMES = frozenset(
    """
    Backup ContextBlock Dialect Filters Freshness Globs History InThread Purged State Target
    Workspaces Written create_folder find_orphans find_target is_temporary
    is_within main parse_target read_texts release_memory render_change render_count render_diff
    render_snippet search translate_error translating_errors with_memory
    """.split()
)
# Two things with the same name, each under the word of its own field.
TWO_MEANINGS = frozenset({"Command", "Entry"})
# Clients read the fields of messages on the socket, and their programs read public names.
READ_BY_OTHERS = (
    "memsyncd/operations/",
    "memsyncd/protocol/",
    "memsyncd/client/",
    "memsyncd/integrations/",
    "memsyncd/logs.py",
)
# Attributes by which a class of the terminal's panel configures Textual.
READ_BY_TEXTUAL = frozenset(
    """
    BINDINGS BULLETS COMPONENT_CLASSES CSS_PATH ENABLE_COMMAND_PALETTE HORIZONTAL_BREAKPOINTS
    """.split()
)
FUNCTION_LIMIT_LINES = 60
NAMED_FUNCTION = re.compile(r"([a-z_]+(?:\.[a-z_]+)*):([a-z_]+)")
LOG_METHODS = frozenset({"debug", "info", "warning", "error", "exception", "critical"})


def is_generated(name: str) -> bool:
    return name in GENERATED or name.startswith("memsyncd/terminal/_generated/")


@functools.cache
def read_all() -> dict[str, str]:
    """Return the texts of all files of the package, by name."""
    return {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(PACKAGE.rglob("*.py"))
    }


@functools.cache
def parse_all() -> dict[str, ast.Module]:
    return {name: ast.parse(text) for name, text in read_all().items()}


@functools.cache
def walk(tree: ast.AST) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree))


def find_imports(tree: ast.AST) -> Iterator[tuple[str, int]]:
    for node in walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: a relative import"
            yield str(node.module), node.lineno


def find_named(tree: ast.AST) -> Iterator[tuple[str, int]]:
    for node in walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.lineno


def is_type_checking(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.If)
        and isinstance(node.test, ast.Name)
        and node.test.id == "TYPE_CHECKING"
    )


@functools.cache
def without_type_checking(tree: ast.Module) -> ast.Module:
    return ast.Module(
        body=[node for node in tree.body if not is_type_checking(node)], type_ignores=[]
    )


def test_a_library_has_one_door() -> None:
    wrong = [
        f"{name}:{line}: {module}, whose door is {DOORS[library]}"
        for name, tree in parse_all().items()
        for module, line in find_imports(without_type_checking(tree))
        if (library := module.partition(".")[0]) in DOORS and not name.startswith(DOORS[library])
    ]
    assert not wrong, "\n".join(wrong)


def test_only_the_rooms_that_may_start_programs_do() -> None:
    """`pytest --may-run-programs` relies on this (tests/conftest.py)."""
    starting = {
        name
        for name, tree in parse_all().items()
        for module, _ in find_imports(tree)
        if module in ("subprocess", "pty", "multiprocessing")
    }
    rooms = tuple(f"memsyncd/{room}/" for room in ROOMS_WITH_PROGRAMS)
    # These start Python, git, and the user's pager.
    assert {name for name in starting if not name.startswith(rooms)} == {
        "memsyncd/engine/index_process.py",
        "memsyncd/operations/share/git.py",
        "memsyncd/operations/share/show.py",
        "memsyncd/semantic/vector_client.py",
        "memsyncd/terminal/pager.py",
    }


def test_core_protocol_and_declarations_see_no_clock_disk_socket_database_log_or_chance() -> None:
    pure = [
        name
        for name in parse_all()
        if name.startswith(("memsyncd/core/", "memsyncd/protocol/", "memsyncd/operations/"))
        and Path(name).name not in IMPURE_PARTS
    ]
    wrong = [
        f"{name}:{line}: {what}"
        for name in pure
        for what, line in find_impurities(without_type_checking(parse_all()[name]))
    ]
    assert not wrong, "\n".join(wrong)


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Late imports count, too: a circle that is hidden in a function is one."""
    modules = {
        name.removesuffix(".py").removesuffix("/__init__").replace("/", "."): tree
        for name, tree in parse_all().items()
    }
    imports = {
        module: {
            target
            for name, _ in find_imported_names(without_type_checking(tree))
            if (target := name if name in modules else name.rpartition(".")[0]) in modules
            and target != module
        }
        for module, tree in modules.items()
    }
    # It raises CycleError, which names a circle.
    assert len([*graphlib.TopologicalSorter(imports).static_order()]) == len(modules)


def test_an_operation_imports_declarations_and_texts_of_others_alone() -> None:
    """No operation calls the `run` or `show` of another capability."""
    wrong = [
        f"{name}:{line}: {module}"
        for name, tree in parse_all().items()
        if (own := find_capability(name.removesuffix(".py").replace("/", ".")))
        for module, line in find_imported_names(tree)
        if (other := find_capability(module)) not in ("", own)
        and not re.match(rf"memsyncd\.operations\.{other}\.(declare|text)\b", module)
    ]
    assert not wrong, "\n".join(wrong)


def find_capability(module: str) -> str:
    """The folder of `memsyncd/operations` that a module is in; empty if it is in none."""
    parts = module.split(".")
    is_in_folder = parts[:2] == ["memsyncd", "operations"] and len(parts) > 2
    return parts[2] if is_in_folder and (PACKAGE / "operations" / parts[2]).is_dir() else ""


def find_imported_names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Each imported module, with each name that is imported from it: `package.module.name`."""
    for node in walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)


def test_show_loads_no_library_and_nothing_of_the_daemon() -> None:
    """A command must start fast; it loads the `show` of its own capability."""
    light = tuple(
        f"memsyncd.{room}" for room in "client dirs errors headings lock terminal".split()
    )
    wrong = [
        f"{name}:{line}: {module}"
        for name, tree in parse_all().items()
        if name.startswith("memsyncd/operations/") and name.endswith("/show.py")
        for module, line in find_imports(without_type_checking(tree))
        if module.partition(".")[0] not in sys.stdlib_module_names
        if module != "memsyncd" and not module.startswith(light)
    ]
    assert not wrong, "\n".join(wrong)


def find_impurities(tree: ast.AST) -> Iterator[tuple[str, int]]:
    impure = set(IMPURE.split())
    yield from (
        (module, line) for module, line in find_imports(tree) if module.partition(".")[0] in impure
    )
    for node in walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in IMPURE_CALLS
        ):
            yield f"{node.func.id}()", node.lineno
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in IMPURE_METHODS
        ):
            yield f".{node.func.attr}()", node.lineno
        if isinstance(node, ast.Global):
            yield f"global {', '.join(node.names)}", node.lineno


def test_files_stay_short() -> None:
    lengths = {
        name: len(text.splitlines()) for name, text in read_all().items() if not is_generated(name)
    }
    assert not {name: n_lines for name, n_lines in lengths.items() if n_lines > FILE_LIMIT_LINES}


def test_functions_stay_short() -> None:
    lengths = {
        f"{name}: {node.name}": (node.end_lineno or 0) - node.lineno + 1
        for name, tree in parse_all().items()
        if not is_generated(name)
        for node in walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert not {
        name: n_lines for name, n_lines in lengths.items() if n_lines > FUNCTION_LIMIT_LINES
    }


def test_names_come_from_the_field() -> None:
    names = [(name, part) for name in parse_all() for part in Path(name).with_suffix("").parts]
    names += [
        (f"{name}:{line}", named)
        for name, tree in parse_all().items()
        for named, line in find_named(tree)
    ]
    assert not [(place, name) for place, name in names if FORBIDDEN_NAME_PARTS & split_name(name)]


def test_retired_names_do_not_return() -> None:
    wrong = {
        f"{name}: {named}"
        for name, tree in parse_all().items()
        for named in find_identifiers(tree)
        if {named, *split_name(named)} & RETIRED_NAMES
    }
    assert not wrong


def find_identifiers(tree: ast.AST) -> set[str]:
    """Return all names that a module binds: definitions, parameters, variables and attributes."""
    names = {name for name, _ in find_named(tree)}
    for node in walk(tree):
        if isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.add(node.attr)
    return names


def test_a_public_name_of_core_has_one_meaning() -> None:
    assert not find_repeated("memsyncd/core/", find_defined)


def test_a_public_class_or_function_has_one_meaning_or_is_one_act_of_two_layers() -> None:
    assert find_repeated("memsyncd/", find_public) <= SHARED_NAMES | TWO_MEANINGS


def find_repeated(folder: str, find: Callable[[ast.Module], Iterator[str]]) -> set[str]:
    """Return the names that several modules of the folder define."""
    places: dict[str, set[str]] = {}
    for name, tree in parse_all().items():
        if name.startswith(folder) and not is_generated(name):
            for defined in find(tree):
                places.setdefault(defined, set()).add(name)
    return {defined for defined, found in places.items() if len(found) > 1}


def find_public(tree: ast.Module) -> Iterator[str]:
    """Return the public classes, functions and types that a module defines, without type variables."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
            yield node.name
        if isinstance(node, ast.Assign) and not isinstance(node.value, ast.Call | ast.Constant):
            [target, *_] = node.targets
            if isinstance(target, ast.Name) and target.id[0].isupper() and not target.id.isupper():
                yield target.id


def test_a_short_module_has_two_importers_or_a_reason() -> None:
    short = {
        name
        for name, text in read_all().items()
        if len(text.splitlines()) < SHORT_MODULE_LINES
        # The commands of a declaration load `show` by its name.
        and not name.endswith(("__init__.py", "/show.py"))
        and not is_generated(name)
    }
    importers = find_importers()
    alone = {
        name
        for name in short
        # A capability has a folder, however small its parts are.
        if len(importers.get(name, ())) < (1 if name.startswith("memsyncd/operations/") else 2)
    }
    assert alone - SHORT_FOR_A_REASON.keys() == set()


@functools.cache
def find_importers() -> dict[str, set[str]]:
    """Return the modules that import each module, by file."""
    found: dict[str, set[str]] = {}
    for name, tree in parse_all().items():
        for node in walk(tree):
            if isinstance(node, ast.ImportFrom):
                imported = [node.module or "", *(f"{node.module}.{a.name}" for a in node.names)]
            elif isinstance(node, ast.Import):
                imported = [alias.name for alias in node.names]
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                named_function = NAMED_FUNCTION.fullmatch(node.value)
                if named_function is None:
                    continue
                imported = [f"memsyncd.operations.{named_function[1]}"]
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                # A generated command names the folder whose `show` it loads.
                if node.func.id not in ("call_operation", "load_action", "load_parser"):
                    continue
                folder = node.args[0]
                imported = [f"memsyncd.operations.{ast.literal_eval(folder)}.show"]
            else:
                continue
            for module in imported:
                found.setdefault(f"{module.replace('.', '/')}.py", set()).add(name)
    return found


def test_each_constant_class_function_and_field_is_read() -> None:
    """A counter that is only increased is not read, nor is a field that is only set."""
    used = {name for tree in parse_all().values() for name in find_loaded(tree)}
    unread = {
        f"{name}: {defined}"
        for name, tree in parse_all().items()
        if not name.startswith(READ_BY_OTHERS) and not is_generated(name)
        for defined in (*find_defined(tree), *find_fields(tree))
        if defined not in used and not defined.startswith("_")
        if not (name.startswith("memsyncd/cli/tui/") and defined in READ_BY_TEXTUAL)
    }
    assert unread - UNREAD_FOR_A_REASON == set()


def test_each_constant_and_class_of_the_protocol_is_read() -> None:
    """Clients read the fields."""
    used = {name for tree in parse_all().values() for name in find_loaded(tree)}
    unread = {
        f"{name}: {defined}"
        for name, tree in parse_all().items()
        if name.startswith(("memsyncd/protocol/", "memsyncd/operations/"))
        for defined in find_defined(tree)
        if defined not in used
    }
    assert unread == set()


def test_each_key_of_the_configuration_is_read_outside_of_it() -> None:
    outside = {
        name
        for file, tree in parse_all().items()
        if not file.startswith("memsyncd/config/")
        for name in find_loaded(tree)
    }
    keys = {key for key, _ in find_keys()}
    keys |= {
        f"{section}.{key}" for section, kind in ARRAYS.items() for key in kind.__struct_fields__
    }
    derived = find_derived(parse_all()["memsyncd/config/__init__.py"])
    unread = {
        key
        for key in keys
        if not {key.partition(".")[2], *derived.get(key.partition(".")[2], ())} & outside
    }
    assert unread == set()


def find_derived(tree: ast.Module) -> dict[str, set[str]]:
    """Return the properties that read each name."""
    found: dict[str, set[str]] = {}
    for node in walk(tree):
        if isinstance(node, ast.FunctionDef):
            for name in find_loaded(node):
                found.setdefault(name, set()).add(node.name)
    return found


def find_loaded(tree: ast.AST) -> Iterator[str]:
    """Return the names whose value is read: as a variable, an attribute or in a pattern.

    Functions that a declaration names as `module:function` count too.
    """
    for node in walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and (named := NAMED_FUNCTION.fullmatch(node.value))
        ):
            yield named[2]
        if isinstance(node, ast.Call):
            # The functions that a generated command names.
            yield from (
                str(word.value)
                for word in (*node.args, *(keyword.value for keyword in node.keywords))
                if isinstance(word, ast.Constant)
                and isinstance(node.func, ast.Name)
                and node.func.id in LOADING_CALLS
            )
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            yield node.attr
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.MatchClass):
            yield from node.kwd_attrs


def find_fields(tree: ast.Module) -> Iterator[str]:
    """Return the fields and constants that the classes of a module declare."""
    for node in walk(tree):
        if isinstance(node, ast.ClassDef):
            yield from find_declared(node)


def find_declared(node: ast.ClassDef) -> Iterator[str]:
    for line in node.body:
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            yield line.target.id
        elif isinstance(line, ast.Assign):
            yield from (target.id for target in line.targets if isinstance(target, ast.Name))


def find_defined(tree: ast.Module) -> Iterator[str]:
    """Return the public names that a module defines at its top level, without imported names."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names = [node.name]
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [
                part.id
                for target in targets
                for part in ast.walk(target)
                if isinstance(part, ast.Name)
            ]
        else:
            names = []
        yield from (name for name in names if not name.startswith("_"))


def split_name(name: str) -> set[str]:
    """Return the words of a name in either case, singular."""
    spaced = "".join(f"_{letter}" if letter.isupper() else letter for letter in name)
    return {word.lower().removesuffix("s") for word in spaced.split("_")}


def test_every_module_has_a_docstring() -> None:
    # A marker of a package may be empty.
    modules = [name for name in parse_all() if not name.endswith(("__init__.py", "__main__.py"))]
    assert not [name for name in modules if not ast.get_docstring(parse_all()[name])]


def test_nothing_is_left_open() -> None:
    assert not [
        (name, mark) for name, text in read_all().items() for mark in OPEN_MARKS if mark in text
    ]


def test_events_are_logged_by_their_constants() -> None:
    """No event's name and no key is made up in place, so none can contain a note's text or a query."""
    wrong = [
        f"{name}:{call.lineno}: {describe_wrong(call)}"
        for name in parse_all()
        for call in find_log_calls(parse_all()[name])
        if describe_wrong(call)
    ]
    assert not wrong, "\n".join(wrong)


def test_every_event_is_logged_somewhere() -> None:
    named = {
        node.attr
        for tree in parse_all().values()
        for node in walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "Event"
    }
    assert named == set(Event.__members__)


def describe_wrong(call: ast.Call) -> str:
    event = call.args[0] if call.args else None
    # A variable may hold an event that was chosen before; a text may not.
    is_event = isinstance(event, ast.Name) or (
        isinstance(event, ast.Attribute) and event.attr in Event.__members__
    )
    unknown = [word.arg for word in call.keywords if word.arg is not None and word.arg not in KEYS]
    return "" if is_event and not unknown else f"log a member of Event; unknown keys: {unknown}"


def find_log_calls(tree: ast.AST) -> Iterator[ast.Call]:
    for node in walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in LOG_METHODS
        ):
            owner = node.func.value
            owner_name = (
                owner.attr
                if isinstance(owner, ast.Attribute)
                else owner.id
                if isinstance(owner, ast.Name)
                else ""
            )
            if owner_name.lower().strip("_") == "log":
                yield node


@pytest.mark.parametrize("module", CLIENT_PATH)
def test_the_client_path_loads_the_standard_library_alone(module: str) -> None:
    # Isolated, so that no .pth file of the environment imports anything; the standard library knows
    # its own names.
    script = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); before = set(sys.modules); import {module}\n"
        "parts = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(*sorted(parts - sys.stdlib_module_names - {'memsyncd'}))\n"
        "print(*sorted({'asyncio', 'dataclasses', 'json', 're', 'typing_extensions'} & set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True, timeout=30
    )
    assert done.stdout.split() == []
