"""Check and match paths of notes, globs and `.gitignore` rules; recognise linked git worktrees;
name the folders of Claude Code's projects.
"""

from __future__ import annotations

import json
import posixpath
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field

import msgspec

from memsyncd.errors import BadRequest, PathRefused

MEMORY_FILE = "MEMORY.md"
MEMORY_FOLDER = ".memories"
MARKDOWN_SUFFIXES = (".md", ".markdown")
PLAIN_SUFFIX = ".txt"
# In lower case; names may have any case.
NOTE_SUFFIXES = (*MARKDOWN_SUFFIXES, PLAIN_SUFFIX)
NAME_LIMIT_BYTES = 255
PATH_LIMIT_BYTES = 4096

# Files with rules for coding agents that have hidden names in a repository. They are notes only if
# an include glob names them, and they are always read-only.
RULE_GLOBS = (
    ".cursorrules",
    ".cursor/rules/**/*.mdc",
    ".github/copilot-instructions.md",
    ".github/instructions/**/*.instructions.md",
)
# Agents read these in any folder. On some disks the case of their names does not matter.
INSTRUCTION_NAMES = frozenset(
    {"agents.md", "agents.override.md", "claude.md", "claude.local.md", "gemini.md"}
)
_RULE_FOLDER = r"\.(?:cursor/rules|github/instructions)(?:/[^/.][^/]*)*"
_RULE_FOLDERS = re.compile(rf"\.cursor|\.github|{_RULE_FOLDER}")
_RULES = re.compile(
    r"\.cursorrules|\.github/copilot-instructions\.md"
    r"|\.cursor/rules(?:/[^/.][^/]*)*/[^/.][^/]*\.mdc"
    r"|\.github/instructions(?:/[^/.][^/]*)*/[^/.][^/]*\.instructions\.md"
)
# Conflict copies by Syncthing; by Dropbox, Nextcloud and Obsidian; by ownCloud and `write.restore`.
_CONFLICT_COPY = re.compile(
    r"\.sync-conflict-\d[\w-]*|[ _-]*\((?:[^()/]*[ _-])?conflicted copy[^()/]*\)"
    r"|[ _-]*[( _-]conflicted copy[^./]*|_conflict-\d[\d-]*",
    re.IGNORECASE,
)
_BREAKING = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class NotePath(msgspec.Struct, frozen=True, order=True):
    """A path beneath a workspace's root, with `/` between its parts. No part is `.` or `..`, and
    none is hidden, except `.memories` itself and the rules of agents.

    Only `parse_note_path` makes one, so the text of a NotePath never leads out of the workspace.
    Whether a link on the disk does is checked where the file is opened.
    """

    text: str

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.text.split("/"))

    @property
    def name(self) -> str:
        return self.text.rpartition("/")[2]

    @property
    def folder(self) -> str:
        """The folder's text, empty for the root."""
        return self.text.rpartition("/")[0]


def parse_note_path(text: str) -> NotePath:
    """Convert text to a NotePath. Raises PathRefused, which names the rule that the text breaks.

    A leading `./` is accepted.
    """
    text = text.removeprefix("./")
    reason = find_refusal(text)
    if reason:
        raise PathRefused(
            f"path refused: {reason}",
            hint="name a note by its path below the workspace's root, such as .memories/context.md",
        )
    return NotePath(text)


def show_path(text: str) -> str:
    """The path for display in a text of several lines. Control characters become U+FFFD, so that
    the path cannot add a line.
    """
    return text if text.isprintable() else _BREAKING.sub("\ufffd", text)


def find_refusal(text: str) -> str:
    """The reason why this text is not a path beneath a root; empty if it is one."""
    if not text:
        return "it is empty"
    if "\0" in text:
        return "it holds a NUL"
    if text.startswith("/"):
        return "it is absolute"
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError:
        return "it is not valid UTF-8"
    if size > PATH_LIMIT_BYTES:
        return f"it is over {PATH_LIMIT_BYTES} bytes"
    may_be_hidden = is_rule_path(text)
    for depth, part in enumerate(text.split("/")):
        reason = _find_part_refusal(part, depth, may_be_hidden=may_be_hidden)
        if reason:
            return reason
    return ""


def _find_part_refusal(part: str, depth: int, *, may_be_hidden: bool) -> str:
    if part in ("", ".", ".."):
        return "it holds an empty part, `.` or `..`"
    if part.startswith(".") and not (depth == 0 and (may_be_hidden or part == MEMORY_FOLDER)):
        return "it holds a hidden name"
    if len(part.encode("utf-8")) > NAME_LIMIT_BYTES:
        return f"it holds a name over {NAME_LIMIT_BYTES} bytes"
    return ""


def is_memory(path: str) -> bool:
    """True for `MEMORY.md`, `.memories` and paths beneath `.memories`."""
    return path in (MEMORY_FILE, MEMORY_FOLDER) or path.startswith(f"{MEMORY_FOLDER}/")


def is_rule_path(path: str) -> bool:
    """True if a file at this path holds rules for an agent; for a glob, true if every file that it
    matches does.
    """
    return path.startswith((".cursor", ".github/")) and _RULES.fullmatch(path) is not None


def is_instruction(path: str) -> bool:
    """True if the file has a name of instructions for agents, such as `AGENTS.md`."""
    return path.rpartition("/")[2].lower() in INSTRUCTION_NAMES


def is_rule_folder(path: str) -> bool:
    """True for the folders that may hold rules for an agent, and for the folders above them."""
    return path.startswith((".cursor", ".github")) and _RULE_FOLDERS.fullmatch(path) is not None


def is_note_name(name: str) -> bool:
    """True if a file of this base name could be a note: it has a note's suffix and is not hidden.
    An editor's backup, such as `note.md~` or Emacs's `#note.md#`, has another suffix.
    """
    return name.lower().endswith(NOTE_SUFFIXES) and not name.startswith(".")


def is_conflict_copy(path: str) -> bool:
    """True if the name is one that sync programs give to a copy of a note in conflict."""
    return "conflict" in path.lower() and _CONFLICT_COPY.search(path) is not None


def find_copied(path: str) -> str:
    """Return the path of the note that the conflict copy at `path` is a copy of; empty for other
    paths.
    """
    return _CONFLICT_COPY.sub("", path) if is_conflict_copy(path) else ""


def is_markdown(path: str) -> bool:
    """True if the note of this path or name may have headings."""
    return path.lower().endswith(MARKDOWN_SUFFIXES)


def is_plain(path: str) -> bool:
    """True if the note of this path or name has paragraphs only."""
    return path.lower().endswith(PLAIN_SUFFIX)


GLOB_LIMIT_CHARACTERS = 1024
# The limit for one pattern. Compiling takes 1 ms for each 40 wildcards, or 1,000 characters.
WILDCARDS_LIMIT = 16
WILDCARDS = re.compile(r"[*?\[]")
_NAME_PART = "[^/]"
_BENEATH = "(?:/.*)?"


@dataclass(frozen=True, slots=True)
class Globs:
    """Several patterns; a path matches if any of them matches. Without patterns nothing matches.

    `parse` and `parse_excludes` make them.
    """

    patterns: tuple[str, ...]
    _regex: re.Pattern[str] | None = field(repr=False, compare=False)

    @classmethod
    def parse(cls, patterns: Iterable[str]) -> Globs:
        """Parse patterns that begin at the root: `README.md` matches only in the root itself.

        Raises BadRequest with the reason of `find_glob_refusal`.
        """
        kept = tuple(_tidy(pattern) for pattern in patterns)
        return cls(kept, _compile(translate_glob(pattern) for pattern in kept))

    @classmethod
    def parse_excludes(cls, patterns: Iterable[str]) -> Globs:
        """Parse exclusions as people write them: a name without `/` matches at any depth, and a
        folder excludes everything beneath it.

        Raises BadRequest with the reason of `find_glob_refusal`.
        """
        kept = tuple(_tidy(pattern) for pattern in patterns)
        return cls(kept, _compile(translate_glob(_float(pattern)) + _BENEATH for pattern in kept))

    def matches(self, path: str) -> bool:
        """True if one of the patterns matches this path, which begins at the root and has `/`
        between its parts.
        """
        if self._regex is None:
            return False
        return (
            self._regex.fullmatch(path if path.isascii() else unicodedata.normalize("NFC", path))
            is not None
        )


NO_GLOBS = Globs((), None)


def find_glob_refusal(pattern: str) -> str:
    """The reason why this text is not a pattern below a root; empty if it is one."""
    if not pattern or "\0" in pattern:
        return "it is empty or holds a NUL"
    if len(pattern) > GLOB_LIMIT_CHARACTERS:
        return f"it is over {GLOB_LIMIT_CHARACTERS} characters"
    if sum(map(pattern.count, "*?[")) > WILDCARDS_LIMIT:
        return f"it holds over {WILDCARDS_LIMIT} wildcards"
    if pattern.startswith(("/", "~")):
        return "it must be written from the workspace's root, not from / or ~"
    if "{" in pattern:
        return "braces are not supported: write one pattern for each alternative"
    parts = pattern.removeprefix("./").removesuffix("/").split("/")
    if any(part in ("", ".", "..") for part in parts):
        return "it holds an empty part, `.` or `..`"
    return ""


def find_file_glob_refusal(pattern: str) -> str:
    """The reason why this text does not name files of one folder below a root; empty if it does.
    Only its last part may hold wildcards.
    """
    folder, _, name = pattern.rpartition("/")
    if not name:
        return "it names no file"
    if has_wildcard(folder):
        return "wildcards may stand in its last part alone"
    return find_glob_refusal(pattern)


def has_wildcard(text: str) -> bool:
    """True if the text contains `*`, `?` or `[`."""
    return WILDCARDS.search(text) is not None


def _tidy(pattern: str) -> str:
    reason = find_glob_refusal(pattern)
    if reason:
        raise BadRequest(
            f"pattern {pattern!r} refused: {reason}", hint="write it from the root, as docs/**/*.md"
        )
    return unicodedata.normalize("NFC", pattern.removeprefix("./"))


def _float(pattern: str) -> str:
    name = pattern.removesuffix("/")
    return name if "/" in name else f"**/{name}"


def _compile(expressions: Iterable[str]) -> re.Pattern[str] | None:
    joined = "|".join(expressions)
    return re.compile(joined, re.DOTALL) if joined else None


def translate_glob(pattern: str) -> str:
    """Translate a valid pattern to a regular expression for a whole path."""
    # The blocks are the runs of parts between the `**`s.
    if pattern.endswith("/"):
        pattern += "**"
    blocks: list[list[str]] = [[]]
    for part in pattern.split("/"):
        if part == "**":
            blocks.append([])
        else:
            blocks[-1].append(_translate_part(part))
    if len(blocks) == 1:
        return "/".join(blocks[0])
    return _join_blocks(blocks)


def _join_blocks(blocks: list[list[str]]) -> str:
    first, *middle, last = blocks
    head = "".join(f"{part}/" for part in first)
    # The groups are atomic, so that backtracking cannot explode. They lose no match: the leftmost
    # match of a block leaves the most room for the next `**`.
    body = "".join(
        f"(?>(?:{_NAME_PART}+/)*?{''.join(f'{part}/' for part in block)})"
        for block in middle
        if block
    )
    tail = f"(?:{_NAME_PART}+/)*{'/'.join(last)}" if last else ".+"
    return head + body + tail


def _translate_part(part: str) -> str:
    expressions = _split_at_stars(part)
    if len(expressions) == 1:
        return expressions[0]
    first, *middle, last = expressions
    if not (first or last or any(middle)):
        return f"{_NAME_PART}+"
    body = "".join(f"(?>{_NAME_PART}*?{expression})" for expression in middle if expression)
    return f"{first}{body}{_NAME_PART}*{last}"


def _split_at_stars(part: str) -> list[str]:
    """The expressions between the stars of one name."""
    expressions = [""]
    at = 0
    while at < len(part):
        char = part[at]
        close = (
            part.find("]", at + 2 + (part[at + 1 : at + 2] in ("!", "^"))) if char == "[" else -1
        )
        if char == "*":
            expressions.append("")
        elif char == "?":
            expressions[-1] += _NAME_PART
        elif close > 0:
            expressions[-1] += _translate_set(part[at + 1 : close])
            at = close
        else:
            expressions[-1] += re.escape(char)
        at += 1
    return expressions


def _translate_set(content: str) -> str:
    """Translate the inside of `[a-z]` or `[!a-z]`, which matches one character of a name. A
    reversed range matches nothing.
    """
    is_negated = content[0] in "!^"
    ranges = re.findall(r"(.)-(.)|(.)", content[1:] if is_negated else content, re.DOTALL)
    inside = "".join(
        re.escape(single) if single else f"{re.escape(low)}-{re.escape(high)}"
        for low, high, single in ranges
        if single or low <= high
    )
    if is_negated:
        return f"[^/{inside}]"
    return f"(?!/)[{inside}]" if inside else "(?!)"


# Folders that are left out wherever they are.
PRUNED_NAMES = frozenset(
    "node_modules bower_components jspm_packages site-packages __pycache__ _build _site".split()
)
# A folder that holds one of these is a virtual environment or a cache.
PRUNED_MARKERS = frozenset({"pyvenv.cfg", "CACHEDIR.TAG"})
# These folders are build output only beside a file of a build tool: elsewhere they may hold notes.
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
# pattern is matched against the entry itself, because a walk of a tree does not enter an ignored
# folder. `translate_glob` compiles the patterns. Named classes such as `[[:alpha:]]` are not
# supported.
#
# The library pathspec is not used: it decides for whole paths, so it ignores a folder that `!*/`
# takes back; it takes ten times as long for a file, and 47 ms to be imported.

_ESCAPED = re.compile(r"\\(.)")
_TRAILING_SPACES = re.compile(r"(?<!\\) +$")


class _Run(msgspec.Struct, frozen=True):
    """Consecutive patterns that all ignore, or all take back. `of_files` has only the patterns that
    also match files.
    """

    is_ignoring: bool
    of_files: re.Pattern[str] | None
    of_folders: re.Pattern[str]


class IgnoreRules(msgspec.Struct, frozen=True):
    """The patterns of one `.gitignore` file, as runs from the last to the first."""

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
        """True if the entry is ignored, False if a pattern takes it back, None if no pattern
        matches. The path begins at the folder of the `.gitignore` file.
        """
        path = path if path.isascii() else unicodedata.normalize("NFC", path)
        for run in self.runs:
            regex = run.of_folders if is_folder else run.of_files
            if regex is not None and regex.fullmatch(path):
                return run.is_ignoring
        return None


def _parse_line(line: str) -> tuple[bool, str, bool] | None:
    """Parse one line. Returns whether the pattern ignores, its expression, and whether it matches
    folders alone; None for a line without a usable pattern.
    """
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
        return None  # git, too, matches no path with an empty part
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


ReadText = Callable[[str], str | None]
"""Returns the text of a small regular file; None if there is none."""
Resolve = Callable[[str], str]
"""Returns the real path of a path."""

GONE = (
    "this is a linked git worktree whose repository is gone: restore the repository, or remove"
    " the file .git and add the folder with: memsyncd add PATH"
)
MOVED = (
    "this is a linked git worktree that its repository knows at another place: run `git worktree"
    " repair` in it"
)


class Worktree(msgspec.Struct, frozen=True, kw_only=True):
    """A linked worktree: its top folder, its repository, and the main worktree, all real paths.

    `main` is None for a bare repository that lies in no folder of its own. `trouble` says why the
    pointers cannot be followed; `main` and `repository` are then unknown.
    """

    top: str
    main: str | None = None
    repository: str = ""
    trouble: str = ""

    @property
    def is_bare(self) -> bool:
        """True if the repository is bare, as far as its name tells: it is not called `.git`."""
        return posixpath.basename(self.repository) != ".git"

    def in_tree(self, path: str, other_top: str) -> str:
        """Return the path in the worktree `other_top` for a real path at or beneath `top`."""
        return other_top + path[len(self.top) :]


def identify_worktree(top: str, read: ReadText, resolve: Resolve) -> Worktree | None:
    """Return the linked worktree with this top folder; None if the folder is no linked worktree."""
    git_folder = _follow(read(f"{top}/.git"), top, resolve, prefix="gitdir:")
    if git_folder is None:
        return None
    repository = _follow(read(f"{git_folder}/commondir"), git_folder, resolve)
    if repository is None:
        is_listed = posixpath.basename(posixpath.dirname(git_folder)) == "worktrees"
        is_gone = is_listed and read(f"{git_folder}/HEAD") is None
        return Worktree(top=top, trouble=GONE) if is_gone else None
    if posixpath.dirname(git_folder) != f"{repository}/worktrees":
        return None  # the repository does not list this worktree, whatever the pointers say
    if _follow(read(f"{git_folder}/gitdir"), git_folder, resolve) != resolve(f"{top}/.git"):
        return Worktree(top=top, trouble=MOVED)
    # A bare repository beside its worktrees is called `.git` or `.bare`. A repository of another
    # name has no main worktree.
    is_hidden = posixpath.basename(repository).startswith(".")
    main = posixpath.dirname(repository) if is_hidden else None
    return Worktree(top=top, main=main, repository=repository)


def read_pointer(text: str | None, prefix: str = "") -> str | None:
    """Return the path that a file of one line holds after `prefix`; None for another text."""
    line = (text or "").strip()
    target = line.removeprefix(prefix).strip()
    if not target or not line.startswith(prefix) or "\n" in target or "\0" in target:
        return None
    return target


def _follow(text: str | None, folder: str, resolve: Resolve, *, prefix: str = "") -> str | None:
    target = read_pointer(text, prefix)
    return None if target is None else resolve(posixpath.join(folder, target))


SLUG_LIMIT_CHARACTERS = 200
NAME_KEPT_CHARACTERS = 70
NAME_START = "claude-"
_CWD = re.compile(r'"cwd"\s*:\s*("(?:[^"\\]|\\.)*")')
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def slug_project(path: str) -> str:
    """The name of the folder that Claude Code keeps for the project at an absolute path."""
    # JavaScript counts UTF-16 units: a character outside the basic plane has two.
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
    """Yield the folders that may be the project of a real path: the path itself and the folders
    above it.

    The root, the home folder and the folders above the home folder are left out.
    """
    yield path
    while (path := path.rpartition("/")[0]) and not f"{home}/".startswith(f"{path}/"):
        yield path


def find_project(transcript: str, slug: str) -> str:
    """The path of the project whose folder has the name `slug`, read from the beginning of a
    transcript in that folder; empty if unknown.

    A session may run in a folder beneath the project.
    """
    for match in _CWD.finditer(transcript):
        try:
            cwd = json.loads(match[1])
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
