"""Read the rows of other systems, and of memsyncd's own export, as memories; make sections of them.

Rows are dictionaries of text, numbers, lists and None, from JSON or SQLite. A row that cannot
become a memory is no error: it is listed with its place and the reason, and so is a value that has
no place in a section.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

from memsyncd.core.editing.additions import (
    KEYWORDS_LIMIT,
    SUMMARY_LIMIT_CHARS,
    TAGS_LIMIT,
    Addition,
    find_faults,
    make_heading,
)
from memsyncd.core.editing.kinds import is_kind
from memsyncd.core.editing.sections import add_links
from memsyncd.core.markdown.frontmatter import is_memory_comment
from memsyncd.core.model import ID_KEY
from memsyncd.errors import BadRequest

ForeignRow = Mapping[str, Any]
Tables = Mapping[str, Sequence[ForeignRow]]

_WORD = re.compile(r"[^A-Za-z0-9_-]+")
_RELATION = re.compile(r"[^a-z0-9_]+")
_KEY = re.compile(r"[^A-Za-z0-9_.-]+")


class ForeignRelation(NamedTuple):
    """A relation of a memory to another memory: its kind, and the id of the other."""

    kind: str
    to: str


class ForeignMemory(msgspec.Struct, frozen=True, kw_only=True):
    """A memory of another system. Relations of other memories name it by its `id`, which its
    section keeps as `alias`, unless that is None. `note` is the note for it, None for the note of
    its kind. `accesses` is the number of its reads in that system, `accessed` the time of the last.
    """

    id: str
    alias: str | None = None
    content: str
    summary: str = ""
    kind: str | None = None
    note: str | None = None
    tags: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    importance: float | None = None
    priority: str | None = None
    lifecycle: str | None = None
    status: str | None = None
    source: str | Mapping[str, str] | None = None
    task: str | None = None
    session: str | None = None
    topic: str | None = None
    run_id: str | None = None
    created: str | None = None
    is_undated: bool = False
    updated: str | None = None
    expires: str | None = None
    metadata: Mapping[str, str] = MappingProxyType({})
    relations: tuple[ForeignRelation, ...] = ()
    accesses: int = 0
    accessed: str | None = None


class LeftOut(NamedTuple):
    """An item that is not carried over: its place, and the reason."""

    place: str
    reason: str


class ForeignMemories(NamedTuple):
    """The memories of a file, and the items that have no place in a memory."""

    memories: list[ForeignMemory]
    left_out: list[LeftOut]


# --- rows of files and tables ---------------------------------------------------------------------


def parse_json_lines(text: str) -> tuple[list[tuple[int, ForeignRow]], list[LeftOut]]:
    """Return the objects of a JSONL file with the numbers of their lines, and the lines without an
    object.
    """
    rows: list[tuple[int, ForeignRow]] = []
    left_out: list[LeftOut] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if isinstance(row, dict):
            rows.append((number, row))
        else:
            left_out.append(LeftOut(f"line {number}", "is no JSON object"))
    return rows, left_out


def read_own_lines(text: str) -> ForeignMemories:
    """Read memsyncd's own export, or lines of another program that have a `content`."""
    rows, left_out = parse_json_lines(text)
    collector = _Collector(left_out)
    for number, row in rows:
        collector.at(f"line {number}").take(
            row,
            _OWN_FIELDS,
            id=row.get("anchor") or row.get("id") or f"line {number}",
            alias=row.get("id"),
            content=row.get("content", row.get("text")),
            summary=row.get("summary", row.get("title")),
            kind=row.get("kind", row.get("type")),
            relations=_read_relations(row.get("relations")),
            accesses=row.get("accesses"),
            metadata=row.get("metadata"),
            # A memory of an export without a time had none.
            is_undated="anchor" in row and not row.get("created"),
            **{name: row.get(name) for name in _PLAIN_FIELDS},
        )
    return collector.done()


_PLAIN_FIELDS = (
    "note tags keywords importance priority lifecycle status source task session topic run_id"
    " created updated expires accessed"
).split()
_OWN_FIELDS: Final = frozenset(
    "id anchor content text summary title kind type relations accesses metadata".split()
).union(_PLAIN_FIELDS)
_LUMENFLOW_FIELDS: Final = frozenset(
    "id type lifecycle content created_at updated_at wu_id session_id metadata tags".split()
)


def read_lumenflow(text: str) -> ForeignMemories:
    """Read the nodes of LumenFlow's memory file, and the relationships if lines have some. A later
    line replaces an earlier line with the same id, because the file only grows.
    """
    rows, left_out = parse_json_lines(text)
    nodes: dict[str, tuple[int, ForeignRow]] = {}
    relations: dict[str, list[ForeignRelation]] = {}
    for number, row in rows:
        if "from_id" in row and "to_id" in row:
            relation = ForeignRelation(str(row.get("type", "related")), str(row["to_id"]))
            relations.setdefault(str(row["from_id"]), []).append(relation)
        else:
            nodes[str(row.get("id", f"line {number}"))] = (number, row)
    collector = _Collector(left_out)
    for node_id, (number, row) in nodes.items():
        meta = _as_object(row.get("metadata"))
        access = _as_object(meta.get("access"))
        others = {
            key: value for key, value in meta.items() if key not in ("access", "status", "priority")
        }
        lifecycle = row.get("lifecycle")
        collector.at(f"line {number}").take(
            row,
            _LUMENFLOW_FIELDS,
            id=node_id,
            alias=row.get("id"),
            content=row.get("content"),
            kind=row.get("type"),
            lifecycle="task" if lifecycle == "wu" else lifecycle,
            task=row.get("wu_id"),
            session=row.get("session_id"),
            tags=row.get("tags"),
            status=meta.get("status"),
            priority=meta.get("priority"),
            created=row.get("created_at"),
            updated=row.get("updated_at"),
            metadata=others,
            relations=relations.pop(node_id, ()),
            accesses=access.get("count"),
            accessed=access.get("last_accessed_at"),
        )
    for node_id in relations:
        collector.left_out.append(LeftOut(node_id, "has relations, and no memory with this id"))
    return collector.done()


def read_fogsift(tables: Tables) -> ForeignMemories:
    """Read Fogsift's fragments with their keywords and links."""
    keywords: dict[str, list[str]] = {}
    for row in tables.get("keywords", ()):
        keywords.setdefault(str(row["fragment_id"]), []).append(str(row["keyword"]))
    relations: dict[str, list[ForeignRelation]] = {}
    for row in tables.get("links", ()):
        relation = ForeignRelation(str(row["relation_type"]), str(row["to_id"]))
        relations.setdefault(str(row["from_id"]), []).append(relation)
    collector = _Collector([])
    for row in tables.get("fragments", ()):
        fragment_id = str(row["id"])
        collector.at(f"fragment {fragment_id}").take(
            row,
            None,
            id=fragment_id,
            alias=fragment_id,
            content=row.get("content"),
            kind=row.get("type"),
            topic=row.get("topic"),
            importance=row.get("importance"),
            lifecycle="session" if row.get("scope") == "session" else None,
            source=_parse_object(row.get("source")),
            keywords=keywords.get(fragment_id, ()),
            relations=relations.get(fragment_id, ()),
            created=row.get("created_at"),
            accesses=row.get("reference_count"),
            accessed=row.get("last_referenced"),
        )
    return collector.done()


def read_flowstate(tables: Tables) -> ForeignMemories:
    """Read FlowState's memories."""
    collector = _Collector([])
    for number, row in enumerate(tables.get("memories", ()), 1):
        collector.at(f"memory {row.get('id', number)}").take(
            row,
            None,
            id=row.get("id", number),
            alias=row.get("id"),
            content=row.get("content"),
            summary=row.get("summary"),
            kind=row.get("kind"),
            source=row.get("source"),
            tags=_parse_words(row.get("tags")),
            run_id=row.get("run_id"),
            created=row.get("created_at"),
        )
    return collector.done()


_CLAUDE_MEM_KINDS: Final = {"decision": "decision", "discovery": "discovery"}


def read_claude_mem(tables: Tables) -> ForeignMemories:
    """Read claude-mem's observations and the summaries of its sessions."""
    collector = _Collector([])
    for row in tables.get("observations", ()):
        facts = [f"- {fact}" for fact in _parse_words(row.get("facts"))]
        parts = [row.get("subtitle"), row.get("narrative") or row.get("text"), "\n".join(facts)]
        files = _parse_words(row.get("files_modified")) or _parse_words(row.get("files_read"))
        source = {"project": row.get("project"), "file": next(iter(files), None)}
        kind = str(row.get("type") or "")
        collector.at(f"observation {row.get('id')}").take(
            row,
            None,
            id=f"obs-{row.get('id')}",
            alias=f"obs-{row.get('id')}",
            content="\n\n".join(str(part) for part in parts if part),
            summary=row.get("title"),
            kind=_CLAUDE_MEM_KINDS.get(kind, "insight"),
            tags=[kind] if kind and kind not in _CLAUDE_MEM_KINDS else [],
            keywords=_parse_words(row.get("concepts")),
            session=row.get("memory_session_id") or row.get("sdk_session_id"),
            source=source,
            created=row.get("created_at"),
        )
    for row in tables.get("session_summaries", ()):
        texts = [
            f"{label}: {row[name]}"
            for name, label in _SUMMARY_PARTS.items()
            if row.get(name) and str(row[name]).strip()
        ]
        collector.at(f"session summary {row.get('id')}").take(
            row,
            None,
            id=f"summary-{row.get('id')}",
            alias=f"summary-{row.get('id')}",
            content="\n\n".join(texts),
            summary=row.get("request"),
            kind="summary",
            session=row.get("memory_session_id") or row.get("sdk_session_id"),
            source={"project": row.get("project")},
            created=row.get("created_at"),
        )
    return collector.done()


_SUMMARY_PARTS: Final = {
    "investigated": "Investigated",
    "learned": "Learned",
    "completed": "Completed",
    "next_steps": "Next",
    "notes": "Notes",
}
# The tables and their columns, by format; a column that a database lacks is None.
SQLITE_TABLES: Final[Mapping[str, Mapping[str, str]]] = {
    "fogsift": {
        "fragments": "id content topic type importance scope created_at last_referenced"
        " reference_count source",
        "keywords": "fragment_id keyword",
        "links": "from_id to_id relation_type",
    },
    "flowstate": {"memories": "id kind content summary source tags run_id created_at"},
    "claude-mem": {
        "observations": "id memory_session_id sdk_session_id project text type title subtitle facts"
        " narrative concepts files_read files_modified created_at",
        "session_summaries": "id memory_session_id sdk_session_id project request investigated"
        " learned completed next_steps notes created_at",
    },
}
READ_TABLES: Final[Mapping[str, Callable[[Tables], ForeignMemories]]] = {
    "fogsift": read_fogsift,
    "flowstate": read_flowstate,
    "claude-mem": read_claude_mem,
}
READ_LINES: Final[Mapping[str, Callable[[str], ForeignMemories]]] = {
    "jsonl": read_own_lines,
    "lumenflow": read_lumenflow,
}


# --- one row --------------------------------------------------------------------------------------


_NOTHING: Final[tuple[Any, ...]] = (None, "", [], (), {})


class _Collector:
    """Makes memories of rows, and lists the rest. `at` names the place of the next row."""

    def __init__(self, left_out: list[LeftOut]) -> None:
        self.memories: list[ForeignMemory] = []
        self.left_out = left_out
        self._place = ""

    def at(self, place: str) -> _Collector:
        self._place = place
        return self

    def done(self) -> ForeignMemories:
        return ForeignMemories(self.memories, self.left_out)

    def take(self, row: ForeignRow, read: frozenset[str] | None, **values: Any) -> None:
        """Make a memory of these values, unless it has no text. Keys of the row that are not in
        `read` are listed as left out; None lists none.
        """
        unread = [] if read is None else [key for key in row if key not in read]
        for key in unread:
            if row[key] not in _NOTHING:
                self._leave(f"{key} has no place")
        content = values.pop("content")
        if not isinstance(content, str) or not content.strip():
            self._leave("has no text")
            return
        content = content.replace("\0", "")
        metadata, kept = self._read_metadata(values.pop("metadata", None)), {}
        for name, value in values.items():
            convert: Callable[[Any], Any] = _CONVERTERS.get(name, _read_text)
            converted = None if value in _NOTHING else convert(value)
            if converted is not None:
                kept[name] = converted
            elif value not in _NOTHING:
                self._leave(f"{name} is {_shorten(value)}, which has no place")
        memory = ForeignMemory(content=content, metadata=metadata, **kept)
        self.memories.append(self._drop_faults(memory))

    def _read_metadata(self, values: Any) -> dict[str, str]:
        if not isinstance(values, Mapping):
            return {}
        kept = {}
        for key, value in values.items():
            name = _KEY.sub("_", str(key)).lstrip("0123456789.-") or "value"
            if isinstance(value, (dict, list)):
                text = json.dumps(value, ensure_ascii=False)
            elif isinstance(value, bool):
                text = "true" if value else "false"
            else:
                text = "" if value is None else " ".join(str(value).split())
            if text:
                kept[name] = text
        return kept

    def _drop_faults(self, memory: ForeignMemory) -> ForeignMemory:
        """Return the memory without the fields that a section cannot state."""
        names = {fault.message.partition(":")[0]: fault for fault in find_memory_faults(memory)}
        empty = {name: _EMPTY.get(name) for name in names if name != "content"}
        for name in empty:
            self._leave(f"{name} {names[name].message.partition(': ')[2]}")
        return msgspec.structs.replace(memory, **empty) if empty else memory

    def _leave(self, reason: str) -> None:
        self.left_out.append(LeftOut(self._place, reason))


_EMPTY: Final[Mapping[str, Any]] = {
    "summary": "",
    "tags": (),
    "keywords": (),
    "metadata": MappingProxyType({}),
}


def find_memory_faults(memory: ForeignMemory) -> list[BadRequest]:
    """Return an error for each field that a section could not state."""
    faults = find_faults(make_memory_addition(memory, ""))
    return [fault for fault in faults if not fault.message.startswith("content:")]


def _shorten(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= 40 else f"{text[:39]}…"


def _read_text(value: Any) -> str | None:
    text = " ".join(str(value).split())
    return text or None


def _read_summary(value: Any) -> str | None:
    text = _read_text(value) or ""
    return text if len(text) <= SUMMARY_LIMIT_CHARS else f"{text[: SUMMARY_LIMIT_CHARS - 1]}…"


def _read_kind(value: Any) -> str | None:
    word = _WORD.sub("_", str(value).strip().lower()).strip("_")
    return word if is_kind(word) else None


def _read_number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if 0 <= number <= 1 else None


def _read_count(value: Any) -> int | None:
    if isinstance(value, Mapping):
        value = value.get("count")
    return value if isinstance(value, int) and value >= 0 else None


def _read_time(value: Any) -> str | None:
    """Return an ISO day or time; a number is seconds, or milliseconds, since the epoch."""
    if isinstance(value, (int, float)):
        seconds = value / 1000 if value > 1e11 else value
        try:
            return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")[:-6] + "Z"
        except (OverflowError, OSError, ValueError):
            return None
    try:
        datetime.fromisoformat(str(value).strip())
    except ValueError:
        return None
    return str(value).strip()


def _read_words(value: Any, most: int) -> tuple[str, ...] | None:
    words = [" ".join(word.replace(",", " ").split()) for word in _parse_words(value)]
    return tuple(dict.fromkeys(filter(None, words)))[:most] or None


def _read_source(value: Any) -> str | dict[str, str] | None:
    if not isinstance(value, Mapping):
        return _read_text(value)
    kept = {_KEY.sub("_", str(key)): _read_text(item) for key, item in value.items() if item}
    return {key: item for key, item in kept.items() if key and item} or None


def _read_relations(value: Any) -> tuple[ForeignRelation, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        return ()
    relations = []
    for item in value:
        if isinstance(item, ForeignRelation):
            relations.append(item)
        elif isinstance(item, Mapping) and item.get("to"):
            relations.append(ForeignRelation(str(item.get("kind", "related")), str(item["to"])))
    return tuple(
        ForeignRelation(
            _RELATION.sub("_", relation.kind.lower()).strip("_") or "related", relation.to
        )
        for relation in relations
    )


_CONVERTERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "summary": _read_summary,
    "kind": _read_kind,
    "importance": _read_number,
    "accesses": _read_count,
    "created": _read_time,
    "is_undated": bool,
    "updated": _read_time,
    "expires": _read_time,
    "accessed": _read_time,
    "tags": lambda value: _read_words(value, TAGS_LIMIT),
    "keywords": lambda value: _read_words(value, KEYWORDS_LIMIT),
    "source": _read_source,
    "relations": _read_relations,
}


def _as_object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _parse_object(value: Any) -> Any:
    """Return the object of a column of JSON; other text as it is."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def _parse_words(value: Any) -> list[str]:
    """Return the words of a list, of a column of JSON, or of a text with commas."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = json.loads(value)
        except ValueError:
            value = value.strip("[] ")
    if isinstance(value, str):
        value = value.split(",")
    if not isinstance(value, Sequence):
        return []
    return [text for item in value if (text := str(item).strip())]


# --- sections ---------------------------------------------------------------------------------


def choose_headings(
    memories: Iterable[ForeignMemory], taken: Mapping[str, Iterable[str]]
) -> list[str]:
    """Return a heading for each memory that no other section of its note has. `taken` has the
    headings of each note, by the note that `ForeignMemory.note` names.
    """
    used = {note: {heading.lower() for heading in headings} for note, headings in taken.items()}
    chosen = []
    for memory in memories:
        of_note = used.setdefault(memory.note or "", set())
        made = heading = make_heading(make_memory_addition(memory, ""))
        number = 2
        while heading.lower() in of_note:
            heading = f"{made} ({number})"
            number += 1
        of_note.add(heading.lower())
        chosen.append(heading)
    return chosen


def make_memory_addition(
    memory: ForeignMemory, heading: str, links: Sequence[ForeignRelation] = ()
) -> Addition:
    """Return the section of a memory. `links` are its relations, each to the target of a link."""
    lines = [f"- {relation.kind} [[{relation.to}]]" for relation in links]
    content = memory.content.strip("\n")
    content = add_links(content, lines) if lines else content
    fields = {
        name: getattr(memory, name)
        for name in Addition.__struct_fields__
        if name in ForeignMemory.__struct_fields__
        and name not in ("content", "summary", "metadata")
    }
    metadata = {**memory.metadata, ID_KEY: memory.alias} if memory.alias else memory.metadata
    return Addition(content=content, summary=heading or memory.summary, metadata=metadata, **fields)


def resolve_relations(
    memory: ForeignMemory, targets: Mapping[str, str]
) -> tuple[list[ForeignRelation], list[ForeignRelation]]:
    """Return the relations with the targets of their links, and the relations without a memory."""
    links = [
        ForeignRelation(relation.kind, targets[relation.to])
        for relation in memory.relations
        if relation.to in targets
    ]
    return links, [relation for relation in memory.relations if relation.to not in targets]


def list_mentions(text: str, targets: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the ids of imported memories that a text names in `[[…]]`, with their targets."""
    for match in re.finditer(r"\[\[([^\[\]|#]+)\]\]", text):
        if (target := targets.get(match[1].strip())) is not None:
            yield match[1], target


def strip_comment(lines: Sequence[str]) -> Sequence[str]:
    """Return the lines of a section without the comment that has its metadata."""
    start = next((number for number, line in enumerate(lines) if line.strip()), len(lines))
    if start == len(lines) or not is_memory_comment(lines[start]):
        return lines
    end = next((n for n in range(start, len(lines)) if "-->" in lines[n]), start)
    return lines[end + 1 :]


def rewrite_mentions(text: str, targets: Mapping[str, str]) -> str:
    """Return the text with links to the new sections of memories in place of links to their ids."""
    for name, target in list_mentions(text, targets):
        text = text.replace(f"[[{name}]]", f"[[{target}]]")
    return text
