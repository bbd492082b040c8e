"""Generate memsyncd/client/types.py from the structs of the protocol.

    python -m tests.client.generate_types

Writes the file; tests/client/test_types.py fails while the file differs from the generated text.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec

import memsyncd.client
from memsyncd.operations import fields
from memsyncd.operations.capture.declare import Captured, CapturedText
from memsyncd.operations.changes.declare import Changed
from memsyncd.operations.history.declare import Diff, Purged, Undone
from memsyncd.operations.links.declare import Links
from memsyncd.operations.notes import declare as memory_protocol
from memsyncd.operations.notes.declare import Got
from memsyncd.operations.project.declare import ProjectIndexed, ProjectSource, SourceInfo
from memsyncd.operations.recall.declare import Recalled
from memsyncd.operations.search import declare as search_protocol
from memsyncd.operations.sections import Filters, FoundSection, RelatedMeta, SectionMeta, Sort
from memsyncd.operations.signals import declare as signals_protocol
from memsyncd.operations.similar.declare import Duplicates, Patterns, SimilarSection
from memsyncd.operations.stats.declare import AccessStats, MemoryStats, RecordedAccesses
from memsyncd.operations.tasks import declare as tasks_protocol
from memsyncd.operations.topics import declare as topics_protocol
from memsyncd.operations.upkeep.declare import Promoted, Upkept
from memsyncd.operations.workspaces.declare import SyncReport
from memsyncd.operations.writes import AddedSection, Written, WrittenSection
from tests.source_comments import read_comments

TARGET = Path(memsyncd.client.__file__).with_name("types.py")
WIDTH = 100

# The parameters that callers of Memsyncd write as keyword arguments or dictionaries, by their
# names there, each with the fields that Memsyncd fills in itself.
PARAMETERS: dict[str, tuple[type[msgspec.Struct], frozenset[str]]] = {
    "NewSection": (memory_protocol.NewSection, frozenset()),
    "CapturedText": (CapturedText, frozenset()),
    "ProjectSource": (ProjectSource, frozenset()),
    "NewRelation": (topics_protocol.NewRelation, frozenset()),
    "TopicMetadata": (
        topics_protocol.TopicCreateParams,
        frozenset(
            "title summary fields relations note on_similar client workspace timeout_ms".split()
        ),
    ),
    "TopicChanges": (
        topics_protocol.TopicPatchParams,
        frozenset("topic relate unrelate if_digest client workspace timeout_ms".split()),
    ),
    "Filters": (Filters, frozenset()),
    "MemoryCommand": (
        memory_protocol.MemoryParams,
        frozenset({"command", "client", "workspace", "timeout_ms"}),
    ),
}
# Words that parameters accept.
WORDS: dict[str, Any] = {"Sort": Sort}
# Results that methods of Memsyncd return; the structs that they contain follow from their fields.
RESULTS: tuple[type[msgspec.Struct], ...] = (
    fields.Freshness,
    fields.SectionPlace,
    SectionMeta,
    FoundSection,
    RelatedMeta,
    search_protocol.Hit,
    search_protocol.AnsweringWorkspace,
    Got,
    search_protocol.ContextPart,
    search_protocol.LeftOutPart,
    MemoryStats,
    AccessStats,
    RecordedAccesses,
    signals_protocol.Signal,
    signals_protocol.SignalSent,
    signals_protocol.SignalsAcked,
    Written,
    memory_protocol.MemoryResult,
    AddedSection,
    WrittenSection,
    memory_protocol.Added,
    tasks_protocol.TaskReady,
    tasks_protocol.TaskContext,
    tasks_protocol.TaskSummary,
    tasks_protocol.SessionStarted,
    tasks_protocol.SessionBlock,
    tasks_protocol.Triage,
    tasks_protocol.Profile,
    topics_protocol.TopicInfo,
    topics_protocol.Topic,
    topics_protocol.TopicWritten,
    topics_protocol.FieldAppended,
    topics_protocol.FieldHistory,
    ProjectIndexed,
    SourceInfo,
    SimilarSection,
    Patterns,
    Links,
    Duplicates,
    Captured,
    memory_protocol.Validation,
    Upkept,
    Promoted,
    Recalled,
    Diff,
    Undone,
    Purged,
    memory_protocol.Cleared,
    SyncReport,
    Changed,
)
HEAD = '''\
"""Types of the parameters and results of `Memsyncd`, for type checkers; unused at run time.

Generated from the protocol by `python -m tests.client.generate_types`; do not edit. Values are
plain dictionaries with the keys of the protocol: lines are 1-based and inclusive, times (`at`,
`_at`) seconds since 1970, digests xxh3-128 in hexadecimal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Required, TypedDict

# One word, or several of which any one matches.
Words = str | Sequence[str]
'''


def generate_types() -> str:
    """Return the text of the module."""
    parts = [HEAD, "\n# --- parameters ---\n"]
    parts += [_render_parameters(name, *PARAMETERS[name]) for name in PARAMETERS]
    parts += [_render_words(name, kind) for name, kind in WORDS.items()]
    parts += ["\n# --- results ---\n"]
    parts += [_render_result(struct) for struct in _find_structs(RESULTS)]
    return "\n".join(parts)


def _find_structs(structs: tuple[type[msgspec.Struct], ...]) -> list[type[msgspec.Struct]]:
    """Return the structs and those that their fields contain, each after the ones it needs."""
    found: dict[type[msgspec.Struct], None] = {}
    for struct in structs:
        needed = [kind for field in msgspec.structs.fields(struct) for kind in _walk(field.type)]
        found |= dict.fromkeys(_find_structs(tuple(needed)))
        found[struct] = None
    return list(found)


def _walk(kind: Any) -> Iterator[type[msgspec.Struct]]:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield kind
    for each in get_args(kind):
        yield from _walk(each)


def _render_parameters(name: str, struct: type[msgspec.Struct], filled_in: frozenset[str]) -> str:
    fields = [each for each in msgspec.structs.fields(struct) if each.encode_name not in filled_in]
    comments = read_comments(struct)
    lines = [f"\nclass {name}(TypedDict, total=False):", *_render_docstring(struct)]
    for field in fields:
        kind = _render_parameter_type(field.type)
        lines += _render_comment(comments.get(field.name, ""))
        lines.append(f"    {field.encode_name}: {f'Required[{kind}]' if field.required else kind}")
    return "\n".join(lines) + "\n"


def _render_words(name: str, kind: Any) -> str:
    line = f"\n{name} = {_render_type(kind)}"
    if len(line) <= WIDTH:
        return line
    listed = textwrap.fill(", ".join(f'"{word}"' for word in get_args(kind)), WIDTH - 4)
    return f"\n{name} = Literal[\n{textwrap.indent(listed, '    ')}\n]"


def _render_result(struct: type[msgspec.Struct]) -> str:
    base = next((each for each in RESULTS if each in struct.__bases__), None)
    inherited = {each.name for each in msgspec.structs.fields(base)} if base else set()
    comments = read_comments(struct)
    lines = [f"\nclass {struct.__name__}({base.__name__ if base else 'TypedDict'}):"]
    lines += _render_docstring(struct)
    for field in msgspec.structs.fields(struct):
        if field.name not in inherited:
            lines += _render_comment(comments.get(field.name, ""))
            lines.append(f"    {field.encode_name}: {_render_type(field.type)}")
    return "\n".join(lines) + "\n"


def _render_parameter_type(kind: Any) -> str:
    """Render a type that also accepts what is convenient to write: one word for a list of words."""
    if get_origin(kind) is Annotated:
        return _render_parameter_type(get_args(kind)[0])
    if get_origin(kind) in (list, tuple):
        items = {_render_parameter_type(each) for each in get_args(kind)}
        return "Words" if items == {"str"} else f"Sequence[{' | '.join(sorted(items))}]"
    return _render_type(kind, _render_parameter_type)


def _render_type(kind: Any, render: Any = None) -> str:
    render = render or _render_type
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return str(render(args[0]))
    if origin is Literal:
        return f"Literal[{', '.join(map(repr, args))}]".replace("'", '"')
    if origin in (list, dict):
        return f"{origin.__name__}[{', '.join(map(render, args))}]"
    if args:
        return " | ".join(map(render, args))
    return "None" if kind is NoneType else str(kind.__name__)


def _render_docstring(struct: type[msgspec.Struct]) -> list[str]:
    text = " ".join((vars(struct).get("__doc__") or "").split())
    if not text:
        return []
    first, *more = textwrap.wrap(f'"""{text}', WIDTH - 4, break_on_hyphens=False)
    if not more and len(first) <= WIDTH - 7:
        return [f'    {first}"""', ""]
    return [*(f"    {line}" for line in (first, *more)), '    """', ""]


def _render_comment(text: str) -> list[str]:
    wrapped = textwrap.wrap(" ".join(text.split()), WIDTH - 6, break_on_hyphens=False)
    return [f"    # {line}" for line in wrapped]


if __name__ == "__main__":
    TARGET.write_text(generate_types(), encoding="utf-8")
