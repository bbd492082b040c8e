"""Which program opens a note at a line, and how does it want to be called? `$VISUAL`, else `$EDITOR`, as other programs do."""

from __future__ import annotations

import os
import shlex

from memsyncd.errors import BadRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import NoReturn

_BY_PLACE = frozenset({"hx", "helix", "subl", "zed", "zeditor"})
"""Those that take `PATH:LINE`."""
_BY_GOTO = frozenset({"code", "code-insiders", "codium", "cursor", "windsurf"})
"""Those that take `--goto PATH:LINE`; all others know `+LINE PATH`."""


def find_editor(env: Mapping[str, str], path: str, line: int) -> list[str]:
    """The words that open the file at the line. Raises BadRequest where no editor is named, or not as a shell would read it."""
    named = env.get("VISUAL") or env.get("EDITOR") or ""
    try:
        words = shlex.split(named)
    except ValueError as error:
        raise BadRequest(f"the editor {named} cannot be called: {error}", hint="export EDITOR=vim") from None
    if not words:
        raise BadRequest("no editor is named", hint="name one: export EDITOR=vim")
    name = os.path.basename(words[0])
    if name in _BY_GOTO:
        return [*words, "--goto", f"{path}:{line}"]
    return [*words, f"{path}:{line}"] if name in _BY_PLACE else [*words, f"+{line}", path]


def become_editor(words: list[str]) -> NoReturn:
    """Be the editor from now on. Raises BadRequest if it cannot be started."""
    try:
        os.execvp(words[0], words)  # noqa: S606  whoever names an editor wants it called
    except OSError as error:
        raise BadRequest(f"{words[0]} cannot be started: {error.strerror}", hint="export EDITOR=vim") from None
