"""Parameters, results and operations: summaries of a project's files in one note."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from memsyncd.operations.fields import (
    Params,
    Place,
    PlanParams,
    Result,
    Tags,
    WorkspaceParams,
    Written,
)
from memsyncd.operations.operation import (
    OPENS,
    WRITES,
    Command,
    Operation,
    Python,
    Shape,
)


class ProjectSource(Params, frozen=True, kw_only=True):
    """Files of a project, and the tags of their summaries."""

    path: Place
    """A path from the project's folder. Only its last part may have wildcards."""
    tags: Tags = msgspec.field(default_factory=list)


class IndexProjectParams(PlanParams, frozen=True, kw_only=True):
    """Bring the summaries of a project's files up to date. `project.md` in the memory folder has a
    section for each file, with `source_path`, `source_hash` and `indexed_at`.
    """

    sources: Annotated[list[ProjectSource], msgspec.Meta(max_length=100)] = msgspec.field(
        default_factory=list
    )
    """More files, besides the files that `sources` lists. Each replaces a source of the same
    path."""


class SourceChange(Result, frozen=True, kw_only=True):
    path: str
    action: Literal["created", "updated", "unchanged", "removed"]
    """The change of the file's section, which is `removed` when the file is gone."""


class SkippedSource(Result, frozen=True, kw_only=True):
    """A file that has nothing to summarise, or that cannot be read, so that its section stays."""

    path: str
    reason: str


class ProjectIndexed(Written, frozen=True, kw_only=True):
    is_applied: bool
    plan: str
    """The digest of the plan, for the parameter `plan`."""
    note: str
    sources: list[SourceChange]
    skipped: list[SkippedSource]


class SourceInfo(Result, frozen=True, kw_only=True):
    path: str
    tags: list[str]
    files: list[str]
    """The files that exist now."""


class Sources(Result, frozen=True, kw_only=True):
    workspace: str
    sources: list[SourceInfo]
    """The predefined sources, and each `[[source]]` of the configuration."""


# --- the operations ---------------------------------------------------------------------------

OPERATIONS = (
    Operation(
        name="index_project",
        params=IndexProjectParams,
        result=ProjectIndexed,
        summary="Summarise the README, manifests and other files of a project in one note.",
        shape=Shape.STEPS,
        run="project.run:index_files",
        errors=WRITES,
        command=Command(
            words="index-project",
            group="Write",
            summary="summarise README, manifests and CI of a project; its plan first",
            usages={"sources": "--source PATH[=TAG,TAG]…"},
            help={
                "sources": "summarise this file as well; its last part may have wildcards",
            },
            parse={"sources": "parse_source"},
            show="show_summaries",
            examples=(
                "memsyncd index-project",
                "memsyncd index-project --source docs/rules.md=index:invariants --apply",
            ),
        ),
        python=Python(
            name="index_project",
            positional=("*sources",),
            doc=(
                "An unchanged file leaves its summary as it is. A source is a path, or a dictionary"
                " with `path` and `tags`."
            ),
        ),
    ),
    Operation(
        name="sources",
        params=WorkspaceParams,
        result=Sources,
        summary="List the files that `index_project` summarises.",
        shape=Shape.STEPS,
        run="project.run:list_sources",
        errors=OPENS,
        reads=True,
        command=Command(
            words="sources",
            lists="sources",
            group="Write",
            summary="list the files that index-project summarises",
            show="show_sources",
            examples=("memsyncd sources",),
        ),
        python=Python(name="sources", returns="sources"),
    ),
)
