"""Name the folders that a search for notes in a whole folder leaves out.

Those are hidden folders, packages of other programs, caches, virtual environments and build output.
`.gitignore` files and globs of the workspace leave out more; `files.ignore` reads those.
"""

from __future__ import annotations

from collections.abc import Collection

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
