"""Pure functions that turn results of the daemon into rows, parts and styled pieces of text.

A piece is a text and its style in Textual. Here `clean` or `clean_line` cleans all text of notes.
No text is read as markup.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from rich.cells import get_character_cell_size

from memsyncd.client.words import split_anchor
from memsyncd.core.markdown.scanner import follow_fence
from memsyncd.operations.history.show import (
    TEXTS_GONE,
    describe_change,
    describe_writer,
    render_path_change,
    render_size_change,
)
from memsyncd.operations.status.show import (
    STATE_STYLES,
    list_counts,
    list_daemon_facts,
    list_sync_facts,
    list_warnings,
)
from memsyncd.terminal.console import describe_excluded, describe_relaxed, describe_semantic
from memsyncd.terminal.format import (
    HIGHLIGHT_MARK,
    render_age,
    render_count,
    render_lines,
    render_meta,
    render_name,
    render_score,
    render_size,
)
from memsyncd.terminal.terminal import clean, clean_line, clean_values

StyledText = tuple[str, str]
Pieces = list[StyledText]

TAB_COLUMNS = 4
# Characters without a width share a cell. This limit keeps a row of them short.
MAX_ROW_CHARS_PER_COLUMN = 4


def split_note(text: str, n_lines: int | None = None) -> list[str]:
    """Return the lines of a note or a diff, without control characters. The file has `n_lines`;
    None counts them from the text.
    """
    lines = text.split("\n")
    if n_lines is None:
        n_lines = len(lines) - (lines[-1] == "")
    lines = lines[: max(1, n_lines)]
    return [clean(line).expandtabs(TAB_COLUMNS) for line in lines]


def wrap_line(text: str, width: int) -> list[int]:
    """Return the offsets at which the rows of a line begin. A row begins between words if possible,
    and has at most `width` columns without the blanks at its end.
    """
    return _wrap_ascii(text, width) if text.isascii() else _wrap_wide(text, width)


def _wrap_ascii(text: str, width: int) -> list[int]:
    starts, at = [0], 0
    while len(text) - at > width:
        space = text.rfind(" ", at + 1, at + width + 1)
        at = space + 1 if space > at else at + width
        starts.append(at)
    return starts


def _wrap_wide(text: str, width: int) -> list[int]:
    starts, at, word, used = [0], 0, 0, 0
    for i, char in enumerate(text):
        columns = get_character_cell_size(char)
        is_full = used + columns > width or i - at >= width * MAX_ROW_CHARS_PER_COLUMN
        if is_full and char != " ":
            at = word if word > at else i
            starts.append(at)
            used = sum(map(get_character_cell_size, text[at:i]))
        used += columns
        if char == " ":
            word = i + 1
    return starts


# --- hits -----------------------------------------------------------------------------------------


def split_marks(snippet: str) -> list[tuple[str, bool]]:
    """Split a snippet into its parts, each with True if it is a matched word."""
    parts = clean_line(snippet).split(HIGHLIGHT_MARK)
    return [(part, i % 2 == 1) for i, part in enumerate(parts) if part]


def render_hit_pieces(hit: Mapping[str, Any], workspace: str = "") -> Pieces:
    """Render a hit: its place, heading and metadata, and its snippet with the matched words.
    `workspace` is a name, empty if all hits are from one workspace.
    """
    values = clean_values(dict(hit))
    place = f"{values['path']}:{render_lines(values['start_line'], values['end_line'])}"
    pieces: Pieces = [(f"{clean_line(workspace)} ", "$text-secondary")] if workspace else []
    pieces += [(place, "bold $text-primary"), ("  ", "")]
    pieces += [(render_name(values), "bold"), ("  ", "")]
    pieces += [
        (render_meta(values), "$text-accent"),
        (f"  {render_score(values['score'])}", "dim"),
        ("\n", ""),
    ]
    pieces += [
        (part, "bold underline $text-warning" if is_match else "")
        for part, is_match in split_marks(hit["snippet"])
    ]
    return [piece for piece in pieces if piece[0]]


def describe_answer(answer: Mapping[str, Any], limit: int) -> Pieces:
    """Say how many hits there are, with remarks on the query and the search."""
    hits = answer["hits"]
    if not hits:
        why = clean_line(answer["why_empty"] or "")
        pieces: Pieces = [("nothing found", "bold"), (f": {why}" if why else "", "")]
        meant = clean_line(answer["did_you_mean"] or "")
        if meant:
            pieces += [(" · did you mean ", ""), (meant, "bold"), ("? Ctrl+Y takes it", "")]
    else:
        more = " or more" if len(hits) == limit else ""
        pieces = [(f"{len(hits)}{more} {'hit' if len(hits) == 1 else 'hits'}", "bold")]
        pieces.append((f" in {answer['took_ms']:.1f} ms", "dim"))
        if answer["relaxed"]:
            pieces.append((f" · {describe_relaxed(hits)}", "$text-warning"))
    if reason := describe_semantic(answer):
        pieces.append((f" · {reason}", "dim"))
    pieces += [
        (f" · {clean_line(text)}", "$text-warning") for text in answer.get("query_problems", ())
    ]
    if excluded := describe_excluded(answer):
        pieces.append((f" · {excluded}", "dim"))
    left_out = [
        f" · without {clean_line(info['name'])}: {clean_line(info['failure'])}"
        for info in answer["workspaces"]
        if info["failure"]
    ]
    pieces += [(text, "$text-warning") for text in left_out]
    return [piece for piece in pieces if piece[0]]


# --- the tree of notes ----------------------------------------------------------------------------


@dataclass
class Folder:
    """A folder of notes. `path` ends with a slash; the path of the root is empty."""

    path: str
    folders: dict[str, Folder] = field(default_factory=dict)
    notes: list[dict[str, Any]] = field(default_factory=list)
    n_notes: int = 0


def build_folders(notes: Iterable[dict[str, Any]]) -> Folder:
    """Arrange the notes in their folders, sorted by name."""
    root = Folder("")
    for note in sorted(notes, key=lambda note: str(note["path"]).casefold()):
        folder = root
        folder.n_notes += 1
        *parents, _ = note["path"].split("/")
        for name in parents:
            folder = folder.folders.setdefault(name, Folder(f"{folder.path}{name}/"))
            folder.n_notes += 1
        folder.notes.append(note)
    return root


# --- parts of a long note -------------------------------------------------------------------------

# The layout of a part takes a tenth of a second or two, as in a browser.
PART_LINES = 150
PART_CHARS = 12_000
LINE_CHARS = 4_000
LONG_LINE_END = " … (the line goes on; m shows the source)"
_COMMENT = re.compile(r"\s*<!--\s*memory:.*-->\s*")
_FRONT_MATTER = ("---", "+++")
_FRONT_MATTER_LINES = 200


@dataclass(frozen=True)
class NotePart:
    """Lines of a note that are laid out together, 1-based and inclusive. `fence` is the marker of
    the fenced code that is open before the first line, or empty.
    """

    first: int
    last: int
    fence: str = ""


def split_parts(lines: Sequence[str]) -> list[NotePart]:
    """Split a note into consecutive parts. A part ends before a heading or a blank line if
    possible, and not within fenced code unless the code is long.
    """
    parts: list[NotePart] = []
    first, size, fence, opening = 1, 0.0, "", ""
    for number, line in enumerate(lines, 1):
        if number > first and _is_full(size, line, fence):
            parts.append(NotePart(first, number - 1, opening))
            first, size, opening = number, 0.0, fence
        size += max(1 / PART_LINES, min(len(line), LINE_CHARS) / PART_CHARS)
        fence = follow_fence(fence, line)
    return [*parts, NotePart(first, max(first, len(lines)), opening)]


def _is_full(size: float, next_line: str, fence: str) -> bool:
    if size < 1 or (fence and size < 2):
        return False
    return size >= 2 or next_line.startswith("#") or (size >= 1.5 and not next_line.strip())


def find_part(parts: Sequence[NotePart], line: int) -> int:
    """Return the index of the part that contains this line, else of the last part."""
    return next((i for i, part in enumerate(parts) if line <= part.last), len(parts) - 1)


def prepare_markdown(lines: Sequence[str], part: NotePart) -> str:
    """Return the lines of the part for a markdown parser, without metadata, which is shown
    elsewhere, and without the ends of long lines. Each line keeps its place, except that an added
    first line opens fenced code again.
    """
    chosen = [
        line if len(line) <= LINE_CHARS else line[:LINE_CHARS] + LONG_LINE_END
        for line in lines[part.first - 1 : part.last]
    ]
    if part.first == 1 and lines and lines[0].rstrip() in _FRONT_MATTER:
        ends = (i for i, line in enumerate(chosen) if i and line.rstrip() == lines[0].rstrip())
        end = next(ends, -1)
        if 0 < end < _FRONT_MATTER_LINES:
            chosen[: end + 1] = [""] * (end + 1)
    fence = part.fence
    for i, line in enumerate(chosen):
        if not fence and _COMMENT.fullmatch(line):
            chosen[i] = ""
        fence = follow_fence(fence, line)
    return "\n".join([part.fence, *chosen] if part.fence else chosen)


# --- notes ----------------------------------------------------------------------------------------


def describe_note(path: str, note: Mapping[str, Any] | None, n_lines: int, now_s: float) -> Pieces:
    """Render the line above a note."""
    pieces: Pieces = [(clean_line(path), "bold $text-primary")]
    if note is not None:
        values = clean_values(dict(note))
        marks = [values["kind"] or "", *(f"#{tag}" for tag in values["tags"])]
        pieces.append(("  " + " ".join(filter(None, marks)), "$text-accent"))
        facts = [
            render_count(n_lines, "line"),
            render_size(values["size_bytes"]),
            f"saved {render_age(values['modified_at'], now_s)}",
        ]
        pieces.append(("  " + " · ".join(facts), "dim"))
    return [piece for piece in pieces if piece[0].strip()]


def describe_section(section: Mapping[str, Any]) -> Pieces:
    """Render a section of a note for its outline."""
    values = clean_values(dict(section))
    indent = "  " * max(0, values["level"] - 1)
    name = values["heading"][-1] if values["heading"] else "(before the first heading)"
    details = [
        render_meta(values),
        f"importance {values['importance']:.2f}" if values["is_importance_stated"] else "",
        f"expires {values['expires']}" if values["expires"] else "",
        *(f"{key}: {value}" for key, value in values["meta"].items()),
    ]
    return [
        (f"{indent}{name}", ""),
        (f"  {render_lines(values['start_line'], values['end_line'])}", "dim"),
        ("  " + "  ".join(filter(None, details)), "$text-accent"),
    ]


def find_linked_note(links: Iterable[Mapping[str, Any]], path: str, address: str) -> str | None:
    """Return the target of a link in the note at `path`, as the daemon has resolved it, or None."""
    # An address may be encoded, as in `my%20plan.md`.
    wanted, _ = split_anchor(unquote(address))
    for link in links:
        target_path = split_anchor(link["to"] or "")[0]
        is_own = split_anchor(link["source"])[0] == path
        if is_own and target_path and wanted in (unquote(link["target"]), target_path):
            return target_path
    return None


def describe_link(link: Mapping[str, Any], *, is_backlink: bool) -> Pieces:
    """Render a link from the note, or a backlink to it."""
    values = clean_values(dict(link))
    relation = f"{values['relation']} " if values["relation"] else ""
    place = ", ".join(map(str, values["lines"][:3]))
    if is_backlink:
        return [(f"← {relation}", "$text-accent"), (values["source"], ""), (f":{place}", "dim")]
    if values["to"]:
        return [(f"→ {relation}", "$text-accent"), (values["to"], ""), (f"  line {place}", "dim")]
    similar = f", similar: {values['similar']}" if values["similar"] else ""
    missing = "outside the workspace" if values["is_outside"] else f"no such note{similar}"
    return [
        (f"→ {relation}{values['target']}", "$text-warning"),
        (f"  line {place}: {missing}", "dim"),
    ]


def describe_problem(problem: Mapping[str, Any], *, has_path: bool) -> Pieces:
    """Render a problem with its remedy."""
    values = clean_values(dict(problem))
    line = values["line"]
    if has_path:
        place = f"{values['path']}:{line}" if line else values["path"]
    else:
        place = f"line {line}" if line else "the note"
    hint = f"\n    → {values['hint']}" if values["hint"] else ""
    return [("! ", "$text-warning"), (f"{place}  ", "bold"), (values["problem"], ""), (hint, "dim")]


# --- status ---------------------------------------------------------------------------------------

_COLOURS = {
    "green": "$text-success",
    "cyan": "$text-accent",
    "yellow": "$text-warning",
    "red": "$text-error",
}


def style_of_state(state: str) -> str:
    """Return the style of a workspace's state."""
    return _COLOURS[STATE_STYLES.get(state, "yellow")]


def describe_state(workspace: Mapping[str, Any], now_s: float) -> Pieces:
    """Render the state of a workspace, and why it is not ready."""
    values = clean_values(dict(workspace))
    style = style_of_state(values["state"])
    facts = [*list_counts(values), *list_sync_facts(values, now_s)]
    warnings = list_warnings(values)
    pieces = [
        (f"● {values['name']}", f"bold {style}"),
        (f"  {values['state']}", style),
        ("  " + " · ".join(warnings) if warnings else "", "$text-warning"),
        (f"\n  {values['root']}", "dim"),
        (f"\n  {' · '.join(facts)}", ""),
        *((f"\n  ! {reason}", "$text-warning") for reason in values["reasons"]),
    ]
    return [piece for piece in pieces if piece[0]]


def describe_daemon(status: Mapping[str, Any]) -> Pieces:
    """Render the line about the daemon itself."""
    values = clean_values({k: v for k, v in status.items() if k != "workspaces"})
    facts = list_daemon_facts(values)
    pieces = [(f"memsyncd {values['version']}", "bold"), ("  " + " · ".join(facts), "")]
    if values["socket_problem"]:
        pieces.append((f"\n! {values['socket_problem']}", "$text-warning"))
    return pieces


# --- history --------------------------------------------------------------------------------------


def describe_revision(revision: Mapping[str, Any], now_s: float) -> Pieces:
    """Render a revision in the list."""
    values = clean_values(dict(revision))
    return [
        (f"{values['revision']:>4}  ", "bold"),
        (f"{render_age(values['at'], now_s):<12} ", "dim"),
        (f"{describe_change(values):<9} ", "$text-accent"),
        (render_path_change(values), ""),
        (f"  {render_size_change(values)}", "dim"),
        (f"  {describe_writer(values)}", "dim"),
        ("" if values["is_kept"] else f"  {TEXTS_GONE}", "$text-warning"),
    ]


def describe_refusal(
    revision: Mapping[str, Any], later: Sequence[Mapping[str, Any]], digest: str | None
) -> str:
    """Say why the daemon would refuse to undo the revision, and what to do; empty if it would not.

    `later` are the later revisions of its note, `digest` is the current digest of the note, None if
    the note does not exist.
    """
    if revision["undo"] == "never":
        return "the note was there when memsyncd first saw it: delete it with your editor"
    if not revision["is_kept"]:
        return (
            "its texts are no longer kept (history.max_age_days, or purged): restore the note "
            "from a backup"
        )
    if digest == revision["new_digest"] or digest == revision["old_digest"]:
        return ""
    if later:
        numbers = ", ".join(str(other["revision"]) for other in later[:5])
        more = " and more" if len(later) > 5 else ""
        return f"the note was changed since, by {numbers}{more}: undo these first, the newest first"
    return "the note is not as this revision left it: wait until its last save is in the history"


def describe_deletion(revisions: Iterable[Mapping[str, Any]]) -> str:
    """Name the files that an undo of these revisions deletes although memsyncd did not create them;
    empty if there are none.
    """
    paths = [
        clean_line(revision["path"]) for revision in revisions if revision["undo"] == "confirm"
    ]
    if not paths:
        return ""
    more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    return f"it deletes {'the file' if len(paths) == 1 else 'files'}: {', '.join(paths[:3])}{more}"


def style_of_diff(line: str, number: int) -> str:
    """Return the kind of a line of a unified diff: `head`, `hunk`, `added`, `removed` or empty."""
    if number < 2 and line.startswith(("--- ", "+++ ")):
        return "head"
    kinds = {"@": "hunk", "+": "added", "-": "removed", "\\": "hunk"}
    return kinds.get(line[:1], "")


def list_later(
    revisions: Iterable[Mapping[str, Any]], revision: Mapping[str, Any]
) -> Iterator[Mapping[str, Any]]:
    """Yield the later revisions of the same note, the newest first."""
    names = {revision["path"], revision["old_path"]} - {None}
    for other in revisions:
        if other["revision"] > revision["revision"] and names & {other["path"], other["old_path"]}:
            yield other
