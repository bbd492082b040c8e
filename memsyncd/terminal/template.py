r"""Print things by a template: `{path}:{start}-{end} {title}`, as `--format` takes it.

`{score:.2f}` formats a number as Python does, `\t` and `\n` stand for a tab and a line end, and
`{{` for a brace. A list is joined by commas, a heading by `›`; `{title}` of a section is its name,
`Note › Heading`; a missing value is empty.
"""

from __future__ import annotations

import string
import time

from memsyncd.client.words import split_anchor
from memsyncd.errors import BadRequest
from memsyncd.headings import BETWEEN_HEADINGS
from memsyncd.terminal.format import render_name, render_path
from memsyncd.terminal.terminal import clean_line, clean_values, render_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import SimpleNamespace as Args
    from typing import Any

    Template = list[tuple[str, str | None, str]]
    """The text before a field, the field (None at the end), and its format."""

# Short names for fields, as one types them.
_SHORT = {"start": "start_line", "end": "end_line", "title": "heading"}
_ESCAPES = {"\\t": "\t", "\\n": "\n"}
# The fields that hold or begin with the path of a note.
_PLACES = ("path", "anchor", "source")


def add_short_names(fields: tuple[str, ...]) -> tuple[str, ...]:
    """Return the fields of things, with the short names of some."""
    return (
        *fields,
        *(short for short, name in _SHORT.items() if name in fields and short not in fields),
    )


def parse_template(text: str, fields: tuple[str, ...]) -> Template:
    """Parse a template. Raises ValueError for an unknown field, which lists the fields."""
    for escape, char in _ESCAPES.items():
        text = text.replace(escape, char)
    known = f"the fields are {', '.join(fields)}"
    try:
        parsed = list(string.Formatter().parse(text))
    except ValueError as error:
        raise ValueError(f"{error}; write {{{{ for a brace; {known}") from None
    template = [(literal, name, form or "") for literal, name, form, _ in parsed]
    named = [name for _, name, _ in template if name is not None]
    for name in named:
        if name not in fields:
            raise ValueError(f"no field is called {name or 'nothing'}; {known}")
    if not named:
        raise ValueError(f"it has no field, such as {{{fields[0]}}}; {known}")
    return template


def render_things(
    answer: dict[str, Any], args: Args, find_roots: Callable[[], Mapping[str, str]], cwd: str
) -> list[str]:
    """Render each listed thing by the template of `args.template`, or with `args.paths` the paths,
    each once. `find_roots` gives the folders of workspaces by their ids, if the answer has none.
    Raises BadRequest if the answer lists something else.
    """
    names = [name for name in args.lists.split() if name in answer]
    if not names:
        raise BadRequest("--format and -l do not fit this answer", hint="see it with --json")
    things: list[dict[str, Any]] = next((answer[name] for name in names if answer[name]), [])
    roots = {
        each["id"]: each["root"]
        for each in answer.get("workspaces") or ()
        if isinstance(each, dict) and {"id", "root"} <= each.keys()
    } or (find_roots() if things else {})
    lines: list[str] = []
    for thing in clean_values(things):
        workspace = thing.get("workspace") or answer.get("workspace") or args.each
        root = clean_line(roots.get(workspace, ""))
        if args.template:
            path = thing.get("path")
            shown = thing | ({"path": render_path(path, root, cwd)} if path else {})
            lines.append("".join(_fill(args.template, shown)))
        else:
            lines.append(render_path(_find_path(thing), root, cwd))
    return lines if args.template else list(dict.fromkeys(lines))


def _find_path(thing: Mapping[str, Any]) -> str:
    place = next((str(thing[name]) for name in _PLACES if thing.get(name)), None)
    if place is None:
        raise BadRequest("-l prints paths, and these have none", hint="print names by --format")
    return place if thing.get("path") else split_anchor(place)[0]


def _fill(template: Template, thing: Mapping[str, Any]) -> Iterator[str]:
    for literal, name, form in template:
        yield literal
        if name is None:
            continue
        value = thing.get(name, thing.get(_SHORT.get(name, "")))
        if name == "title" and "heading" in thing:
            value = render_name(dict(thing))
        yield _format_value(name, value, form)


def _format_value(name: str, value: Any, form: str) -> str:
    if isinstance(value, float) and (name == "at" or name.endswith("_at")) and not form:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(value))
    if value is None:
        value = ""
    elif isinstance(value, list) and all(isinstance(each, str) for each in value):
        value = (BETWEEN_HEADINGS if name == "heading" else ", ").join(value)
    elif isinstance(value, list | dict | bool):
        value = render_json(value)
    elif isinstance(value, float) and not form:
        value = f"{value:.10g}"
    try:
        return format(value, form)
    except ValueError as error:
        hint = f"leave the format out: {{{name}}}"
        raise BadRequest(f"--format: {{{name}:{form}}}: {error}", hint=hint) from None
