"""Decide what a search for notes in a whole folder leaves out.

That is hidden folders, packages of other programs, caches, virtual environments and build output,
and what `.gitignore` files ignore, which `files.ignore_rules` reads.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection

import msgspec

from memsyncd.core.globs import GLOB_LIMIT_CHARACTERS, WILDCARDS_LIMIT, translate_glob

# Left out wherever they are.
PRUNED_NAMES = frozenset(
    "node_modules bower_components jspm_packages site-packages __pycache__ _build _site".split()
)
# A folder that holds one of these is a virtual environment or a cache.
PRUNED_MARKERS = frozenset({"pyvenv.cfg", "CACHEDIR.TAG"})
# Build output only beside a file of a build tool: elsewhere they may hold notes.
BUILD_NAMES = frozenset("build dist out target".split())
BUILD_FILES = frozenset(
    "package.json pyproject.toml setup.py Cargo.toml pom.xml build.gradle build.gradle.kts"
    " CMakeLists.txt Makefile meson.build mix.exs Package.swift".split()
)
IGNORE_FILE = ".gitignore"


def is_pruned_path(path: str) -> bool:
    """True if a part of this path is left out by its name alone."""
    if path.startswith(".") or "/." in path:
        return True
    return not PRUNED_NAMES.isdisjoint(path.split("/"))


def is_build_output(name: str, siblings: Collection[str]) -> bool:
    """True if a folder of this name beside these files is the output of a build."""
    return name in BUILD_NAMES and not BUILD_FILES.isdisjoint(siblings)


def is_pruned_content(names: Collection[str]) -> bool:
    """True if a folder with these entries is left out."""
    return not PRUNED_MARKERS.isdisjoint(names)


# --- The rules of a `.gitignore` file -------------------------------------------------------------
# The rules are git's: the last pattern that matches decides, `!` takes a path back, a `/` at the
# end means folders alone, and a pattern with any other `/` begins at the folder of the file. A
# pattern is matched against the entry itself: who walks a tree does not enter an ignored folder.
# Patterns are compiled by `globs`; named classes such as `[[:alpha:]]` are not known.
#
# pathspec decides for whole paths instead: it calls a folder ignored that `!*/` takes back, takes
# ten times as long for a file, and 47 ms to be imported.

_ESCAPED = re.compile(r"\\(.)")
_TRAILING_SPACES = re.compile(r"(?<!\\) +$")


class _Run(msgspec.Struct, frozen=True):
    """Patterns in a row that all ignore or all take back; `of_files` has those not for folders."""

    is_ignoring: bool
    of_files: re.Pattern[str] | None
    of_folders: re.Pattern[str]


class IgnoreRules(msgspec.Struct, frozen=True):
    """The patterns of one file, in runs from the last to the first."""

    runs: tuple[_Run, ...]

    @classmethod
    def parse(cls, text: str) -> IgnoreRules:
        groups: list[tuple[bool, list[tuple[str, bool]]]] = []
        for line in text.removeprefix("\ufeff").split("\n"):
            pattern = _parse_line(line)
            if pattern is None:
                continue
            is_ignoring, expression, is_of_folders = pattern
            if not groups or groups[-1][0] != is_ignoring:
                groups.append((is_ignoring, []))
            groups[-1][1].append((expression, is_of_folders))
        return cls(tuple(_make_run(*group) for group in reversed(groups)))

    def decide(self, path: str, *, is_folder: bool) -> bool | None:
        """True if the entry at this path from the file's folder is ignored, False if it is taken
        back, None if no pattern matches it.
        """
        path = path if path.isascii() else unicodedata.normalize("NFC", path)
        for run in self.runs:
            regex = run.of_folders if is_folder else run.of_files
            if regex is not None and regex.fullmatch(path):
                return run.is_ignoring
        return None


def _parse_line(line: str) -> tuple[bool, str, bool] | None:
    """Whether the pattern ignores, its expression, and whether it is for folders alone."""
    line = _TRAILING_SPACES.sub("", line.removesuffix("\r"))
    is_ignoring = not line.startswith("!")
    body = line if is_ignoring else line[1:]
    is_of_folders = body.endswith("/")
    pattern = body.removesuffix("/")
    if not pattern or line.startswith("#") or len(pattern) > GLOB_LIMIT_CHARACTERS:
        return None
    if sum(map(pattern.count, "*?[")) > WILDCARDS_LIMIT or pattern.endswith("\\"):
        return None
    has_place = "/" in pattern
    parts = pattern.removeprefix("/").split("/")
    if "" in parts:
        return None  # git matches no path with an empty part either
    glob = _ESCAPED.sub(_unescape, unicodedata.normalize("NFC", "/".join(parts)))
    return is_ignoring, translate_glob(glob if has_place else f"**/{glob}"), is_of_folders


def _unescape(match: re.Match[str]) -> str:
    return f"[{match[1]}]" if match[1] in "*?[" else match[1]


def _make_run(is_ignoring: bool, patterns: list[tuple[str, bool]]) -> _Run:
    of_files = [expression for expression, is_of_folders in patterns if not is_of_folders]
    return _Run(
        is_ignoring,
        re.compile("|".join(of_files), re.DOTALL) if of_files else None,
        re.compile("|".join(expression for expression, _ in patterns), re.DOTALL),
    )
