"""Find the memory folder that Claude Code keeps for a project, and the project of such a folder.

Claude Code names the folder by the path of the project's git repository, or of the project itself,
with `-` for every character but letters and digits. Different paths may thus have one folder, so a
project's folder is computed from its path; the path of a known folder is found in its transcripts,
of which each line is JSON with the `cwd` of the session.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

SLUG_LIMIT_CHARACTERS = 200
NAME_KEPT_CHARACTERS = 70
NAME_START = "claude-"
_CWD = re.compile(r'"cwd"\s*:\s*("(?:[^"\\]|\\.)*")')
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def slug_project(path: str) -> str:
    """The name of the folder of the project at an absolute path."""
    # As JavaScript counts: a character outside the basic plane has two units.
    encoded = path.encode("utf-16-le", "surrogatepass")
    units = [int.from_bytes(encoded[at : at + 2], "little") for at in range(0, len(encoded), 2)]
    plain = (chr(unit) if unit < 128 and chr(unit).isalnum() else "-" for unit in units)
    slug = "".join(plain)
    if len(slug) <= SLUG_LIMIT_CHARACTERS:
        return slug
    number = 0
    for unit in units:
        number = (number * 31 + unit) & 0xFFFFFFFF
    if number >= 1 << 31:
        number = (1 << 32) - number
    return f"{slug[:SLUG_LIMIT_CHARACTERS]}-{_to_base36(number)}"


def list_project_folders(path: str, home: str) -> Iterator[str]:
    """Yield the folders that may be the project of a real path: itself and those above.

    Neither the root nor the home folder, or one above it, is the project of what lies beneath.
    """
    yield path
    while (path := path.rpartition("/")[0]) and not f"{home}/".startswith(f"{path}/"):
        yield path


def find_project(transcript: str, slug: str) -> str:
    """The path of the project of a folder by the beginning of a transcript in it; empty if unknown.

    A session may run in a folder beneath the project.
    """
    for found in _CWD.finditer(transcript):
        try:
            cwd = json.loads(found[1])
        except ValueError:
            continue
        for folder in list_project_folders(cwd, ""):
            if slug_project(folder) == slug:
                return folder
    return ""


def name_project_memory(project: str, slug: str, home: str) -> str:
    """The name of the workspace of a project's memory folder; `project` is empty if unknown."""
    name = project.rpartition("/")[2]
    if not name or not name.isprintable():
        name = slug.removeprefix(slug_project(home)).strip("-") or slug.strip("-") or "root"
    return NAME_START + name[:NAME_KEPT_CHARACTERS]


def _to_base36(number: int) -> str:
    digits = ""
    while number or not digits:
        number, rest = divmod(number, 36)
        digits = _DIGITS[rest] + digits
    return digits
