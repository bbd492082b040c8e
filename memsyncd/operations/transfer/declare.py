"""Parameters, results and operations: memories of other systems, and files that others read."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from memsyncd.operations.fields import (
    AddedSection,
    Result,
    WorkspaceParams,
    WriteParams,
    Written,
)
from memsyncd.operations.operation import (
    READS,
    WRITES,
    Command,
    Extra,
    Operation,
    Python,
    Shape,
)

FilePath = Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]
ImportFormat = Literal["jsonl", "lumenflow", "fogsift", "flowstate", "basic-memory", "claude-mem"]
ExportFormat = Literal["jsonl", "sqlite"]


class ImportParams(WriteParams, frozen=True, kw_only=True):
    """Append each memory of a file to the note of its kind, with its dates and relations. Memories
    that exist already are not written again.
    """

    file: FilePath
    """The file or folder with the memories, absolute."""
    format: ImportFormat = "jsonl"
    """The system that wrote it: `jsonl` is memsyncd's own export."""
    apply: bool = True
    """If false, change nothing; answer with the sections that would be written."""


class LeftOutItem(Result, frozen=True, kw_only=True):
    place: str
    """A line of the file, or the id of a memory."""
    reason: str


class Imported(Written, frozen=True, kw_only=True):
    """`change_set` is null for a plan, and if every memory exists already."""

    is_applied: bool
    added: list[AddedSection]
    """The new sections, at most 200 of them."""
    n_added: int
    n_unchanged: int
    """The number of memories that exist already."""
    n_relations: int
    """The number of relations that became links."""
    n_accesses: int
    """The number of memories whose accesses were carried over."""
    left_out: list[LeftOutItem]
    """The items that have no place here, at most 200."""
    n_left_out: int


class ExportParams(WorkspaceParams, frozen=True, kw_only=True):
    """Write the memories of a workspace to a new file. A memory is a section of the second level
    with the sections beneath it.
    """

    file: FilePath
    """The file to write, absolute; it must not exist."""
    format: ExportFormat = "jsonl"
    """`jsonl`, which `memory.import` reads, or `sqlite`, which any SQLite searches."""


class Exported(Result, frozen=True, kw_only=True):
    workspace: str
    path: str
    n_memories: int
    bytes: int
    left_out: list[LeftOutItem]
    """Notes that could not be read."""


# --- the operations ---------------------------------------------------------------------------

OPERATIONS = (
    Operation(
        name="memory.import",
        params=ImportParams,
        result=Imported,
        summary="Import memories of another system, or of an export.",
        shape=Shape.STEPS,
        run="transfer.run:import_memories",
        errors=WRITES,
        command=Command(
            words="import",
            group="Write",
            omit=("file",),
            usages={"format": "--from FORMAT", "apply": "--dry-run"},
            help={"apply": "write nothing, only report"},
            extra=(
                Extra(
                    name="file",
                    usage="FILE",
                    help="the file with the memories; for basic-memory the folder of its notes",
                    is_argument=True,
                ),
            ),
            prepare="name_file",
            show="show_imported",
            examples=(
                "memsyncd import --from lumenflow .lumenflow/memory/memory.jsonl --dry-run",
                "memsyncd import --from claude-mem ~/.claude-mem/claude-mem.db",
            ),
        ),
        python=Python(
            name="import_memories",
            positional=("file",),
        ),
    ),
    Operation(
        name="memory.export",
        params=ExportParams,
        result=Exported,
        summary="Export the memories of a workspace to a file.",
        shape=Shape.STEPS,
        run="transfer.run:export_memories",
        errors=READS,
        reads=True,
        command=Command(
            words="export",
            group="Maintain",
            omit=("file", "format"),
            extra=(
                Extra(usage="--jsonl", help="a line of JSON for each memory (the default)"),
                Extra(usage="--sqlite", help="a SQLite file with `memories` and `memories_fts`"),
                Extra(name="file", usage="FILE", help="the file to write", is_argument=True),
            ),
            prepare="choose_format",
            show="show_exported",
            examples=(
                "memsyncd export --jsonl memories.jsonl",
                "memsyncd export --sqlite memories.db",
            ),
        ),
        python=Python(
            name="export_memories",
            positional=("file",),
        ),
    ),
)
