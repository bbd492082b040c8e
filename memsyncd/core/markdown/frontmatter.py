"""Read the metadata of a note or section: YAML between `---` lines at the very top, or in a
`memory:` comment.

Every value is read as the text that was written: a date stays that date, `no` stays `no`. Unknown
keys are kept. A known key with an impossible value is a problem and counts as not stated. YAML that
could grow (aliases) or nests deeply is not read; broken YAML is read line by line as `key: value`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import yaml
from msgspec.structs import replace

from memsyncd.core.guard.secrets import redact
from memsyncd.core.markdown.scanner import FRONT_MATTER, Block
from memsyncd.core.model import (
    ARCHIVED,
    CHOICES,
    EMPTY_META,
    OTHER_KEYS,
    Meta,
    Problem,
    find_choice,
    parse_expiry,
)
from memsyncd.core.paths import is_plain

FRONT_MATTER_LIMIT_CHARS = 65_536
SHOWN_CHARS = 40
PROBLEMS_LIMIT = 20

_DEPTH_LIMIT = 16
_TOO_DEEP: Final = "it nests too deeply"
_COMMENT_LIMIT_LINES = 50
_UNREAD_LIMIT_LINES = 200
# A line with more blanks before it is code.
_MAX_INDENT = 3
_FENCE = re.compile(r"---[ \t]*")
_END = re.compile(r"(?:---|\.\.\.)[ \t]*")
_KEY_VALUE = re.compile(r"([A-Za-z_][\w.-]*)[ \t]*:(?:[ \t]+(.*))?$")
_ANY_LINE = re.compile(r"[^\r\n]+")
_PROPERTY = re.compile(r"([^\W\d_][\w/-]{0,48})::(?:[ \t]+(.*))?")
_PROPERTIES_LIMIT_LINES = 50
# Usual keys of front matter. With one of them, lines between two `---` are front matter and no
# prose.
_USUAL_KEYS: Final = frozenset(
    "alias aliases author date description id name permalink tag title type".split()
)
_LIKE_KEY = re.compile(r"[ \t]*(?:[\w./-]+[ \t]*:(?:[ \t]|$)|-[ \t])|[ \t]")
# For YAML a ` #` begins a comment, so these tags are lost: `tags: #db #infra`.
_COMMENTED_TAGS = re.compile(
    r"^tags?[ \t]*:(?:[ \t]++(?:[^\n\"'\[{#]*[ \t])?|(?:[ \t]*\n[ \t]*-[ \t]++[^#\n][^\n]*)*"
    r"[ \t]*\n[ \t]*-[ \t]++)#(?=\w)",
    re.IGNORECASE | re.MULTILINE,
)
# In Obsidian and Logseq a value may be a link: `status:: [[Active]]`.
_LINK = re.compile(r"\[\[([^\[\]|#]+)[^\[\]]*\]\]")
_NULLS: Final = frozenset(("null", "Null", "NULL", "~"))
_LIKE_PRIORITY = re.compile(r"[Pp] ?\d")
# A template is no YAML until it is filled in.
_TEMPLATE = re.compile(r"\{\{|<%|\{%")
_COMMENT = re.compile(r"[ \t]*<!--\s*memory:\s*(.*?)\s*-->", re.DOTALL)
_COMMENT_START = re.compile(r"[ \t]*<!--\s*memory:")
# Cursor writes globs unquoted, as in `globs: **/*.ts`. For YAML a leading `*` begins an alias, but
# only a word can be the name of an alias.
_UNQUOTED_GLOB = re.compile(
    r"^( *(?:[A-Za-z_][\w.-]*:|-) +)(\*(?![\w-]+ *$).*?)( *)$", re.MULTILINE
)
_LOADER: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_KNOWN: Final = frozenset(Meta.__struct_fields__) - {"extra"}
_SINGLE_FIELDS = tuple(name for name in Meta.__struct_fields__ if name not in ("tags", "extra"))
# The types of Claude Code's own memories, which all have a name and a description.
_CLAUDE_KINDS: Final = {
    "user": "preference",
    "feedback": "preference",
    "project": "insight",
    "reference": "research",
}
_NESTED: Final = "metadata"


class FrontMatter(msgspec.Struct, frozen=True, kw_only=True):
    """The front matter of a note: its first `n_lines` lines, both `---` included; 0 if there is
    none. `meta` and `aliases` include the properties beneath it, and `n_all_lines` counts the lines
    of both.
    """

    n_lines: int
    n_all_lines: int
    meta: Meta
    problems: tuple[Problem, ...]
    aliases: tuple[str, ...] = ()

    @property
    def blocks(self) -> list[Block]:
        """The lines of the front matter as a block, if there are any."""
        return [Block(0, self.n_lines, FRONT_MATTER)] if self.n_lines else []


NO_FRONT_MATTER = FrontMatter(n_lines=0, n_all_lines=0, meta=EMPTY_META, problems=())


def find_front_matter(path: str, lines: Sequence[str]) -> FrontMatter:
    """Find the front matter, and read the properties that begin the text, as in Logseq.

    A `---` is a thematic break if a blank line follows it, or if no second `---` closes it.
    """
    front = _find_yaml(path, lines)
    if not front.problems and (unread := _find_unread_block(path, lines, front.n_lines)):
        front = replace(front, problems=(unread,))
    pairs = list(_find_properties(lines, front.n_lines))
    if not pairs:
        return front
    reader = _MetaReader(path, front.n_lines + 1, [], is_foreign=True)
    own = reader.read(pairs)
    return FrontMatter(
        n_lines=front.n_lines,
        n_all_lines=front.n_lines + pairs[-1][2] + 1,
        meta=merge_meta(front.meta, own),
        problems=front.problems,
        aliases=front.aliases + reader.aliases,
    )


def count_front_lines(path: str, lines: Sequence[str]) -> int:
    """Return the lines of a note's front matter and of the properties beneath it."""
    if is_plain(path):
        return 0
    n_lines = _count_yaml_lines(lines)
    properties = [at for _, _, at in _find_properties(lines, n_lines)]
    return n_lines + properties[-1] + 1 if properties else n_lines


def merge_meta(note: Meta, stated: Meta) -> Meta:
    """Combine the metadata of a note with the metadata that a section states. The section's values
    replace the note's. The tags and the extra keys of both stay; the section's value of an extra
    key replaces the note's.
    """
    if EMPTY_META in (stated, note):
        return note if stated == EMPTY_META else stated
    over = {name: value for name in _SINGLE_FIELDS if (value := getattr(stated, name)) is not None}
    extra = tuple({**dict(note.extra), **dict(stated.extra)}.items())
    return replace(note, **over, tags=distinct_tags((*note.tags, *stated.tags)), extra=extra)


def _find_properties(lines: Sequence[str], first: int) -> Iterator[tuple[str, str, int]]:
    """Yield the properties on the first lines that are not blank: `key:: value`, one on each
    line.
    """
    has_begun = False
    for at in range(first, min(len(lines), first + _PROPERTIES_LIMIT_LINES)):
        match = _PROPERTY.fullmatch(lines[at])
        if match:
            yield match[1], (match[2] or "").strip(), at - first
        elif has_begun or lines[at].strip():
            return
        has_begun = has_begun or match is not None


def _find_yaml(path: str, lines: Sequence[str]) -> FrontMatter:
    if n_lines := _count_yaml_lines(lines):
        reader, meta = _read_yaml(path, "\n".join(lines[1 : n_lines - 1]), 2, is_foreign=True)
        return FrontMatter(
            n_lines=n_lines,
            n_all_lines=n_lines,
            meta=meta,
            problems=tuple(reader.problems),
            aliases=reader.aliases,
        )
    if not (_may_begin_yaml(lines) and _KEY_VALUE.match(lines[1])):
        return NO_FRONT_MATTER
    open_ended = Problem(
        path,
        1,
        "unclosed_front_matter",
        f"front matter does not end within {FRONT_MATTER_LIMIT_CHARS} characters",
        "end it with a line `---`",
    )
    return replace(NO_FRONT_MATTER, problems=(open_ended,))


def _may_begin_yaml(lines: Sequence[str]) -> bool:
    return len(lines) > 1 and _FENCE.fullmatch(lines[0]) is not None and bool(lines[1].strip())


def _count_yaml_lines(lines: Sequence[str]) -> int:
    end = _find_end(lines) if _may_begin_yaml(lines) else 0
    return end + 1 if end else 0


def _find_unread_block(path: str, lines: Sequence[str], first: int) -> Problem | None:
    """Report front matter that is not read, because blank lines or a first block precede it."""
    at = first
    while at < len(lines) and not lines[at].strip():
        at += 1
    if at >= len(lines) or (not first and at == 0 and lines[0][:1] == "-"):
        return None
    mark = lines[at]
    if len(mark) - len(mark.lstrip(" ")) > _MAX_INDENT or not _FENCE.fullmatch(mark.lstrip(" ")):
        return None
    keys: set[str] = set()
    for line in lines[at + 1 : at + 1 + _UNREAD_LIMIT_LINES]:
        if _END.fullmatch(line.lstrip(" ")):
            break
        if not _LIKE_KEY.match(line):
            return None
        keys.add(line.partition(":")[0].strip())
    else:
        return None
    if keys.isdisjoint(_KNOWN | _USUAL_KEYS):
        return None
    if first:
        problem, hint = "a second block of front matter is not read", "merge it with the first"
    else:
        problem = "front matter is not read, because it does not begin the note"
        hint = "remove the blanks above and before its `---`"
    return Problem(path, at + 1, "unread_front_matter", problem, hint)


def is_memory_comment(line: str) -> bool:
    """True if a `memory:` comment begins on this line."""
    return _COMMENT_START.match(line) is not None


def find_section_meta(
    path: str, lines: Sequence[str], first: int, after: int
) -> tuple[Meta, tuple[Problem, ...]]:
    """Read a `<!-- memory: {…} -->` if it comes first in the lines from `first` to before `after`
    (0-based).
    """
    for at in range(first, after):
        if lines[at].strip():
            break
    else:
        return EMPTY_META, ()
    if not is_memory_comment(lines[at]):
        return EMPTY_META, ()
    match = _COMMENT.match("\n".join(lines[at : min(after, at + _COMMENT_LIMIT_LINES)]))
    if not match:
        return EMPTY_META, (
            Problem(
                path, at + 1, "broken_yaml", "a memory comment is never closed", "end it with `-->`"
            ),
        )
    return parse_meta(path, match[1], at + 1)


def parse_meta(path: str, text: str, line: int) -> tuple[Meta, tuple[Problem, ...]]:
    """Read YAML that begins at `line` of the note. Never raises: unreadable YAML is a problem."""
    reader, meta = _read_yaml(path, text, line, is_foreign=False)
    return meta, tuple(reader.problems)


def _read_yaml(path: str, text: str, line: int, *, is_foreign: bool) -> tuple[_MetaReader, Meta]:
    problems: list[Problem] = []
    pairs: list[tuple[str, yaml.Node | str, int]]
    try:
        pairs = _flatten(list(_read_pairs(text)))
    except _Refused as refusal:
        problems.append(
            Problem(
                path,
                line,
                "yaml_refused",
                f"YAML is not read: {refusal}",
                "keep metadata short and flat",
            )
        )
        pairs = []
    except (yaml.YAMLError, _NoMapping, ValueError, RecursionError) as error:
        at = line + min(_error_line(error), text.count("\n"))
        hint = "it was read line by line; quote values with `: `"
        if not (is_foreign and _TEMPLATE.search(text)):
            problems.append(Problem(path, at, "broken_yaml", "YAML cannot be parsed", hint))
        pairs = list(_read_plain_pairs(text))
    if "#" in text and (commented := _COMMENTED_TAGS.search(text)):
        at = line + text.count("\n", 0, commented.end())
        problem = "tags are not read: YAML takes what follows a `#` for a comment"
        problems.append(Problem(path, at, "commented_tags", problem, "write tags: [db, infra]"))
    reader = _MetaReader(path, line, problems, is_foreign=is_foreign)
    return reader, reader.read(pairs)


def load_yaml(text: str) -> object:
    """Load YAML as texts, lists, and dictionaries with texts as keys. Every value is the text as
    written.

    Raises ValueError if the YAML cannot be parsed or could grow.
    """
    try:
        _refuse_growth(text)
        root = yaml.compose(text, Loader=_LOADER)
    except (_Refused, yaml.YAMLError, RecursionError) as error:
        raise ValueError("not readable YAML") from error
    return _make_plain(root) if root is not None else None


def _make_plain(node: yaml.Node) -> object:
    if isinstance(node, yaml.MappingNode):
        return {_render(key): _make_plain(value) for key, value in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [_make_plain(item) for item in node.value]
    return node.value


class YamlItem(NamedTuple):
    """An item of a list as it is written: its text, and its offsets in the YAML."""

    text: str
    start: int
    end: int


class YamlEntry(NamedTuple):
    """A key of a mapping as it is written: offsets in the YAML of the key's beginning and end, and
    of the value. `style` is `flow` or `block` for a list, else the quote of a text or empty.
    """

    key: str
    start: int
    key_end: int
    value_start: int
    end: int
    style: str
    text: str
    items: tuple[YamlItem, ...] | None
    """None if the value is no list of texts."""


class YamlMapping(NamedTuple):
    """The keys of a mapping in their order. `is_flow`: it is written in braces."""

    entries: tuple[YamlEntry, ...]
    is_flow: bool


def find_entries(text: str) -> YamlMapping:
    """Return where the keys and values of a mapping are written; of YAML that cannot be parsed
    those lines that are read as `key: value`.

    Raises ValueError for YAML that cannot be read so either, could grow, or is no mapping.
    """
    try:
        _refuse_growth(text)
        # Only the loader in Python counts characters in every text.
        root = yaml.compose(text, Loader=yaml.BaseLoader)
    except (_Refused, RecursionError) as error:
        raise ValueError("not readable YAML") from error
    except yaml.YAMLError as error:
        if entries := tuple(_find_plain_entries(text)):
            return YamlMapping(entries, is_flow=False)
        raise ValueError("not readable YAML") from error
    if root is None:
        return YamlMapping((), is_flow=False)
    if not isinstance(root, yaml.MappingNode):
        raise ValueError("no mapping of YAML")  # noqa: TRY004  one error for all
    entries = tuple(_make_entry(text, key, value) for key, value in root.value)
    return YamlMapping(entries, is_flow=bool(root.flow_style))


def _find_plain_entries(text: str) -> Iterator[YamlEntry]:
    """Yield the lines that `_read_plain_pairs` reads."""
    for line in _ANY_LINE.finditer(text):
        pair = _KEY_VALUE.match(line[0])
        if pair is None:
            continue
        start, value = line.start(), (pair[2] or "").rstrip()
        value_start = start + (pair.start(2) if pair[2] else pair.end(1) + 1)
        yield YamlEntry(
            key=pair[1],
            start=start,
            key_end=start + pair.end(1),
            value_start=value_start,
            end=value_start + len(value),
            style="",
            text=value.strip("\"'"),
            items=None,
        )


def _make_entry(text: str, key: yaml.Node, value: yaml.Node) -> YamlEntry:
    items = None
    style = "mapping"
    if isinstance(value, yaml.SequenceNode):
        style = "flow" if value.flow_style else "block"
        if all(isinstance(item, yaml.ScalarNode) for item in value.value):
            items = tuple(
                YamlItem(_render(item), item.start_mark.index, _find_node_end(text, item))
                for item in value.value
            )
    elif isinstance(value, yaml.ScalarNode):
        style = value.style or ""
    return YamlEntry(
        key=_render(key).strip(),
        start=key.start_mark.index,
        key_end=key.end_mark.index,
        value_start=value.start_mark.index,
        end=_find_node_end(text, value),
        style=style,
        text="" if _is_null(value) else _render(value),
        items=items,
    )


def _find_node_end(text: str, node: yaml.Node) -> int:
    """Return the end of a node. YAML's own mark of a block is where the next key begins."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style:
        nodes = [
            part
            for child in node.value
            for part in (child if isinstance(child, tuple) else [child])
        ]
        return max((_find_node_end(text, part) for part in nodes), default=node.start_mark.index)
    if isinstance(node, yaml.ScalarNode) and node.style in ("|", ">"):
        return len(text[: node.end_mark.index].rstrip())
    return int(node.end_mark.index)


class _NoMapping(Exception):
    """The YAML is no mapping."""


class _Refused(Exception):
    """The YAML might grow without limit, or nests too deeply."""


def _find_end(lines: Sequence[str]) -> int:
    n_chars = 0
    for at in range(1, len(lines)):
        if _END.fullmatch(lines[at]):
            return at
        n_chars += len(lines[at])
        if n_chars > FRONT_MATTER_LIMIT_CHARS:
            break
    return 0


def _read_pairs(text: str) -> Iterator[tuple[str, yaml.Node | str, int]]:
    flat = _read_flat_pairs(text)
    if flat is not None:
        yield from flat
        return
    text = _UNQUOTED_GLOB.sub(_quote_glob, text)
    _refuse_growth(text)
    root = yaml.compose(text, Loader=_LOADER)
    if root is None:
        return
    if not isinstance(root, yaml.MappingNode):
        raise _NoMapping
    for key, value in root.value:
        yield _render(key), value, key.start_mark.line


def _quote_glob(match: re.Match[str]) -> str:
    escaped = match[2].replace("'", "''")
    return f"{match[1]}'{escaped}'{match[3]}"


def _flatten(
    pairs: list[tuple[str, yaml.Node | str, int]],
) -> list[tuple[str, yaml.Node | str, int]]:
    """Replace a nested `metadata:`, which agents write, by the pairs in it.

    A key beside it counts over the same key in it.
    """
    if not any(key == _NESTED for key, _, _ in pairs):
        return pairs
    beside = {key.strip().lower() for key, _, _ in pairs}
    flat: list[tuple[str, yaml.Node | str, int]] = []
    for key, value, at in pairs:
        if key != _NESTED or not isinstance(value, yaml.MappingNode):
            flat.append((key, value, at))
            continue
        nested = ((_render(inner), node, inner.start_mark.line) for inner, node in value.value)
        flat += [pair for pair in nested if pair[0].strip().lower() not in beside]
    return flat


# Fast path for plain `key: value` lines, and for `{key: value, …}` in a line, as in most section
# comments. It accepts only values that YAML reads as this very text, and lists of such values.
_QUOTED = r'"[ !#-\[\]-~]*"|\'[ -&(-~]*\''
_PLAIN = r"[A-Za-z0-9](?:[A-Za-z0-9_./()+@-]| (?=[A-Za-z0-9_./()+-])|:(?=[A-Za-z0-9]))*"
_FLAT_LIST = rf"\[ *(?:(?:{_QUOTED}|{_PLAIN})(?: *, *(?:{_QUOTED}|{_PLAIN}))* *)?\]"
_FLAT_KEY = r"[A-Za-z_][A-Za-z0-9_.-]{0,99}"
_FLAT_VALUE = f"{_QUOTED}|{_PLAIN}|{_FLAT_LIST}"
_FLAT_LINE = re.compile(rf"({_FLAT_KEY}):(?: +({_FLAT_VALUE}))? *")
_FLAT_PAIR = re.compile(rf"({_FLAT_KEY}): +({_FLAT_VALUE})")
_FLAT_MAPPING = re.compile(
    rf"\{{ *{_FLAT_KEY}: +(?:{_FLAT_VALUE}) *(?:, *{_FLAT_KEY}: +(?:{_FLAT_VALUE}) *)*\}} *"
)
_FLAT_ITEM = re.compile(f"{_QUOTED}|{_PLAIN}")


def _read_flat_pairs(text: str) -> list[tuple[str, yaml.Node | str, int]] | None:
    """Read flat metadata without YAML, which takes long. None for any other metadata."""
    if text[:1] == "{":
        if _FLAT_MAPPING.fullmatch(text) is None:
            return None
        return [(key, _make_flat_node(value), 0) for key, value in _FLAT_PAIR.findall(text)]
    pairs: list[tuple[str, yaml.Node | str, int]] = []
    for at, line in enumerate(text.split("\n")):
        match = _FLAT_LINE.fullmatch(line)
        if match is None:
            return None
        pairs.append((match[1], _make_flat_node(match[2] or ""), at))
    return pairs


def _make_flat_node(written: str) -> yaml.Node:
    if written[:1] == "[":
        items = [_make_flat_node(item) for item in _FLAT_ITEM.findall(written)]
        return yaml.SequenceNode("", items)
    if written[:1] in ("'", '"'):
        return yaml.ScalarNode("", written[1:-1], style=written[0])
    return yaml.ScalarNode("", written)


def _refuse_growth(text: str) -> None:
    depth = 0
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            if isinstance(event, yaml.AliasEvent):
                raise _Refused("it holds aliases")
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            if depth > _DEPTH_LIMIT:
                raise _Refused(_TOO_DEEP)
    except yaml.scanner.ScannerError as error:
        # Since 0.2.6 libyaml has a limit of its own, and it reads ahead of the events it returns.
        if "nesting depth" in str(error.problem):
            raise _Refused(_TOO_DEEP) from error
        raise


def _read_plain_pairs(text: str) -> Iterator[tuple[str, yaml.Node | str, int]]:
    for at, line in enumerate(text.split("\n")):
        match = _KEY_VALUE.match(line)
        if match:
            yield match[1], (match[2] or "").strip().strip("\"'"), at


def _error_line(error: Exception) -> int:
    mark = getattr(error, "problem_mark", None)
    return int(mark.line) if mark is not None else 0


class _MetaReader:
    """Read one mapping into a Meta.

    Other tools write front matter, too (`is_foreign`). There an impossible value that may be meant
    for another tool is kept as free metadata. Elsewhere it is a problem and counts as not stated.
    """

    def __init__(self, path: str, line: int, problems: list[Problem], *, is_foreign: bool) -> None:
        self._path = path
        self._line = line
        self._is_foreign = is_foreign
        self.problems = problems
        self.aliases: tuple[str, ...] = ()

    def read(self, pairs: Sequence[tuple[str, yaml.Node | str, int]]) -> Meta:
        values: dict[str, Any] = {}
        extra: dict[str, str] = {}
        seen: set[str] = set()
        for key, node, at in pairs:
            name = key.strip().lower()
            name = OTHER_KEYS.get(name, name)
            value = "" if _is_null(node) else node
            if name in seen:
                hint = "the first one counts"
                self._report(at, "duplicate_key", f"`{_shorten(key)}` occurs twice", hint)
            elif name in _KNOWN:
                if not self._read_known(name, value, at, values):
                    extra[key.strip()] = _render(value)
            elif name:
                extra[key.strip()] = _render(value)
                self._read_shared(name, value, values)
            seen.add(name)
        if "kind" not in values and (kind := _find_claude_kind(extra)):
            values["kind"] = kind
        if not values and not extra:
            return EMPTY_META
        return Meta(**values, extra=tuple(extra.items()))

    def _read_shared(self, name: str, value: yaml.Node | str, values: dict[str, Any]) -> None:
        """Read keys of other tools for a tag, another title, the session or the lifecycle. They
        stay free metadata, too.
        """
        if name == "tag":
            values["tags"] = distinct_tags((*values.get("tags", ()), *_list_tags(value)))
        elif name in ("alias", "aliases"):
            self.aliases += tuple(filter(None, _list_texts(value)))
        elif name == "originsessionid" and (text := _render(value).strip()):
            # Claude Code writes this key; a stated `session` counts over it.
            values.setdefault("session", text)
        elif name == "scope" and _render(value).strip().lower() == "session":
            # Fogsift's other scope, `permanent`, is a memory without a lifecycle.
            values.setdefault("lifecycle", "session")

    def _read_known(
        self, name: str, value: yaml.Node | str, at: int, values: dict[str, Any]
    ) -> bool:
        """Read the value of a known key. False if the value is meant for another tool."""
        if name == "tags":
            values["tags"] = distinct_tags((*values.get("tags", ()), *_list_tags(value)))
            return True
        text = _render(value).strip()
        if not text:
            return True
        if self._is_foreign and (link := _LINK.fullmatch(text)):
            text = value = link[1]
        if name == "source" and isinstance(value, yaml.MappingNode):
            values[name] = text
            return True
        is_many = isinstance(value, yaml.CollectionNode)
        is_many = is_many or (isinstance(value, str) and value[0] in "[{")
        if self._is_foreign and (is_many or _is_foreign_value(name, text)):
            return False
        if is_many:
            self._report(at, "bad_value", f"`{name}` takes one value", "the value is ignored")
        elif name == "importance":
            self._read_importance(text, at, values)
        elif name in CHOICES:
            self._read_choice(name, text, at, values)
        elif name == "expires":
            self._read_expiry(text, at, values)
        else:
            is_folded = name == "kind" or (name == "status" and text.lower() == ARCHIVED)
            values[name] = text.lower() if is_folded else text
        return True

    def _read_importance(self, text: str, at: int, values: dict[str, Any]) -> None:
        try:
            number = float(text)
        except ValueError:
            number = -1.0
        if 0.0 <= number <= 1.0:
            values["importance"] = number
        else:
            problem = f"`importance` is not from 0 to 1: {_shorten(text)}"
            self._report(at, "bad_value", problem, "the value is ignored")

    def _read_expiry(self, text: str, at: int, values: dict[str, Any]) -> None:
        if parse_expiry(text) is not None:
            values["expires"] = text
        elif text.lower() != "never":
            problem = f"`expires` is neither a day nor a time: {_shorten(text)}"
            self._report(at, "bad_value", problem, "write 2026-12-31 or 2026-12-31T18:00")

    def _read_choice(self, name: str, text: str, at: int, values: dict[str, Any]) -> None:
        choice = find_choice(name, text)
        if choice is not None:
            values[name] = choice
            return
        problem = f"`{name}` is none of {', '.join(CHOICES[name])}: {_shorten(text)}"
        self._report(at, "bad_value", problem, "the value is ignored")

    def _report(self, at: int, code: str, problem: str, hint: str) -> None:
        if len(self.problems) < PROBLEMS_LIMIT:
            self.problems.append(Problem(self._path, self._line + at, code, problem, hint))


def _find_claude_kind(extra: Mapping[str, str]) -> str | None:
    """The kind of a memory that Claude Code wrote; None for any other note."""
    is_memory = "name" in extra and "description" in extra
    return _CLAUDE_KINDS.get(extra.get("type", "").strip().lower()) if is_memory else None


_BEFORE_TAG: Final = re.compile(r"\A[\s#]+")


def _is_foreign_value(name: str, text: str) -> bool:
    """True for a value that is meant for another tool, such as `priority: high`. A misspelt value
    of memsyncd is not.
    """
    if name == "importance":
        return text[:1].isalpha()
    return name == "priority" and not _LIKE_PRIORITY.match(text)


def distinct_tags(tags: Sequence[str]) -> tuple[str, ...]:
    """The tags without their `#`. Tags that differ only in case appear once, as first written."""
    distinct: dict[str, str] = {}
    for tag in tags:
        # Blanks and `#` are removed together, so that a tag written from this is read as the same.
        text = _BEFORE_TAG.sub("", tag).rstrip()
        if text:
            distinct.setdefault(text.casefold(), text)
    return tuple(distinct.values())


def list_tags(text: str) -> list[str]:
    """Split a text into tags at its commas, or at its blanks if it has no comma. A tag may be a
    link, as in Logseq.
    """
    text = text.strip("[]") if "[[" not in text else text.replace("[[", "").replace("]]", "")
    return [tag.strip(" \t\"'") for tag in (text.split(",") if "," in text else text.split())]


def _list_tags(value: yaml.Node | str) -> list[str]:
    if isinstance(value, yaml.SequenceNode):
        return [_render(item) for item in value.value if not _is_null(item)]
    return list_tags(_render(value))


def _list_texts(value: yaml.Node | str) -> list[str]:
    """The items of a list, or the parts of a text between commas."""
    if isinstance(value, yaml.SequenceNode):
        return [_render(item).strip() for item in value.value if not _is_null(item)]
    return [text.strip(" \t\"'[]") for text in _render(value).split(",")]


def _is_null(value: yaml.Node | str) -> bool:
    """True for YAML's null. In quotes it is a text."""
    if isinstance(value, yaml.ScalarNode):
        return not value.style and value.value in _NULLS
    return isinstance(value, str) and value in _NULLS


def _render(value: yaml.Node | str) -> str:
    if isinstance(value, yaml.SequenceNode):
        return ", ".join(_render(item) for item in value.value)
    if isinstance(value, yaml.MappingNode):
        return "; ".join(f"{_render(key)}: {_render(item)}" for key, item in value.value)
    return value if isinstance(value, str) else str(value.value)


def _shorten(text: str) -> str:
    text = redact(text)
    return text if len(text) <= SHOWN_CHARS else text[:SHOWN_CHARS] + "…"
