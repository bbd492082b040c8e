"""Finds the source files of a project, and keeps the sections of their summaries up to date.

Sources are read beneath the workspace's root and never through a link. A source that cannot be read
keeps its section, and the answer says why it was not read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable

import msgspec

from memsyncd.config import Config
from memsyncd.core.digest import digest_bytes
from memsyncd.core.editing.project_index import (
    DEFAULT_SOURCES,
    Source,
    SourceFile,
    merge_sources,
    plan_index,
)
from memsyncd.core.paths import Globs, NotePath, find_file_glob_refusal, has_wildcard
from memsyncd.engine.additions import choose_note
from memsyncd.engine.edit import Put, make_put
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import BadRequest, MemsyncdError, TooLarge
from memsyncd.files.confined import open_beneath, open_folder_beneath
from memsyncd.files.read import read_content, read_text_file, translating_errors
from memsyncd.operations.call import Call
from memsyncd.operations.fields import WorkspaceParams
from memsyncd.operations.plans import carry_out
from memsyncd.operations.project.declare import (
    IndexProjectParams,
    ProjectIndexed,
    ProjectSource,
    SkippedSource,
    SourceChange,
    SourceInfo,
    Sources,
)


class IndexPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The new bytes of the note with the summaries, and the change for each source."""

    digest: str
    puts: tuple[Put, ...]
    note: str
    sources: list[SourceChange]
    skipped: list[SkippedSource]


PROJECT_NOTE = "project.md"
"""The note with the summaries, in the memory folder."""
SOURCE_LIMIT_BYTES = 1024 * 1024
FILES_LIMIT = 200


def make_index_planner(
    workspace: Workspace, config: Config, params: IndexProjectParams, *, at: str
) -> Callable[[], IndexPlan]:
    """Return a function that plans to bring the summaries of all sources up to date.

    `at` is the time in ISO 8601. Raises BadRequest and PathRefused at once, not when the plan is
    made.
    """
    sources = _merge(config, params.sources)
    path = choose_note(workspace.scope, config, note=PROJECT_NOTE)

    def plan() -> IndexPlan:
        files, skipped = _read_sources(workspace, sources)
        was = read_text_file(workspace.scope, path)
        old = was.data if was else None
        data, changes = plan_index(path.text, old, files, at=at)
        changed = {change.path for change in changes}
        skipped += [
            SkippedSource(path=file.path, reason=f"{file.path} says nothing that can be summarised")
            for file in files
            if file.data is not None and file.path not in changed
        ]
        skipped += _find_missing(params.sources, changed, skipped)
        puts: tuple[Put, ...] = ()
        if data is not None and data != old:
            way_out = "name fewer sources"
            puts = (make_put(workspace.scope, path, data, was, way_out=way_out),)
        # Without the time, which the new bytes have: a plan is the same whenever it is made.
        digests = [(file.path, file.tags, digest_bytes(file.data or b"")) for file in files]
        parts = (path.text, was.digest if was else "", digests)
        return IndexPlan(
            digest=digest_bytes(msgspec.json.encode(parts)),
            puts=puts,
            note=path.text,
            sources=[SourceChange(path=change.path, action=change.action) for change in changes],
            skipped=skipped,
        )

    return plan


def _merge(config: Config, more: Iterable[ProjectSource]) -> list[Source]:
    configured = [Source(source.path, tuple(source.tags)) for source in config.source]
    added = [Source(source.path, tuple(source.tags)) for source in more]
    for source in added:
        if refusal := find_file_glob_refusal(source.path):
            raise BadRequest(
                f"source {source.path!r} refused: {refusal}",
                hint="write it from the project's folder, such as docs/rules.md or docs/*.md",
            )
    return merge_sources(DEFAULT_SOURCES, configured, added)


def _find_files(workspace: Workspace, source: Source) -> list[str]:
    """Return the existing files of a source, sorted; links count as files."""
    root, (folder, _, name) = workspace.scope.root, source.path.rpartition("/")
    if not has_wildcard(name):
        return [source.path] if os.path.lexists(os.path.join(root, source.path)) else []
    try:
        fd = open_folder_beneath(root, folder)
    except OSError:
        return []
    try:
        paths = (f"{folder}/{entry}" if folder else entry for entry in os.listdir(fd))
        matches = Globs.parse([source.path]).matches
        return sorted(path for path in paths if matches(path))[:FILES_LIMIT]
    finally:
        os.close(fd)


def _read_sources(
    workspace: Workspace, sources: Iterable[Source]
) -> tuple[list[SourceFile], list[SkippedSource]]:
    files: list[SourceFile] = []
    skipped: list[SkippedSource] = []
    for path, tags in _list_files(workspace, sources).items():
        data: bytes | None = None
        try:
            data = _read(workspace, path)
        except MemsyncdError as error:
            skipped.append(SkippedSource(path=path, reason=error.message))
        files.append(SourceFile(path, tags, data))
    return files, skipped


def _find_missing(
    named: Iterable[ProjectSource], changed: Collection[str], skipped: Iterable[SkippedSource]
) -> list[SkippedSource]:
    """Return the files that the request names and that neither exist nor had a section."""
    reported = {*changed, *(source.path for source in skipped)}
    return [
        SkippedSource(path=source.path, reason=f"{source.path} does not exist")
        for source in named
        if not has_wildcard(source.path) and source.path not in reported
    ]


def _list_files(workspace: Workspace, sources: Iterable[Source]) -> dict[str, tuple[str, ...]]:
    """Return the tags of each existing file, by path; the last source with the file gives them."""
    return {path: source.tags for source in sources for path in _find_files(workspace, source)}


def _read(workspace: Workspace, path: str) -> bytes:
    with translating_errors(NotePath(path)):
        fd = open_beneath(workspace.scope.root, path)
        try:
            content = read_content(fd, max_bytes=SOURCE_LIMIT_BYTES)
        finally:
            os.close(fd)
    if len(content.data) > SOURCE_LIMIT_BYTES:
        raise TooLarge(f"{path} is over {SOURCE_LIMIT_BYTES} bytes", hint="name a smaller file")
    return content.data


# --- the operations -----------------------------------------------------------------------------


async def index_files(call: Call, params: IndexProjectParams) -> ProjectIndexed:
    plan = make_index_planner(call.workspace, call.config, params, at=call.stamp["at"])
    outcome = await carry_out(
        call, "index_project", plan, is_applied=params.apply, digest=params.plan
    )
    answer = outcome.answer
    return ProjectIndexed(
        is_applied=params.apply,
        plan=answer.digest,
        note=answer.note,
        sources=answer.sources,
        skipped=answer.skipped,
        **call.describe_write(outcome),
    )


async def list_sources(call: Call, _params: WorkspaceParams) -> Sources:
    workspace, config = call.workspace, call.config

    def read() -> list[SourceInfo]:
        return [
            SourceInfo(
                path=source.path, tags=list(source.tags), files=_find_files(workspace, source)
            )
            for source in _merge(config, ())
        ]

    return Sources(workspace=workspace.id, sources=await call.read(read, on_disk=True))
