"""How are records handed out and taken in for clients? A page a request, each on the lane, checked where it comes in."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from memsyncd.core.notepath import parse_note_path
from memsyncd.engine.house import House
from memsyncd.engine.transfer import export_page, take_page
from memsyncd.errors import BadRequest
from memsyncd.protocol import records as wire
from memsyncd.server.session import Outcome, Session
from memsyncd.server.writes import WRITE_S, wait_for_turn
from memsyncd.store.entries import Entry, Move, PastChange, TextPiece, Tip


class RecordsTransfer:
    """Exports and imports records for sessions."""

    def __init__(self, house: House) -> None:
        self._house = house
        self.methods: dict[str, Callable[[Session, Any], Outcome]] = {
            "records.export": self._export,
            "records.import": self._import,
        }

    async def _export(self, _session: Session, params: wire.ExportParams) -> wire.ExportPage:
        workspace = self._house.find(params.workspace)
        future = self._house.writers.ask(workspace, partial(export_page, after=params.after))
        page = await wait_for_turn(self._house, workspace, future, WRITE_S)
        return wire.ExportPage(
            workspace=workspace.id,
            root=workspace.entry.root,
            version=wire.FORMAT_VERSION,
            entries=[_to_wire(entry) for entry in page.entries],
            after=page.after,
            damaged=page.n_damaged,
        )

    async def _import(self, session: Session, params: wire.ImportParams) -> wire.Imported:
        workspace = self._house.find(params.workspace)
        if params.version > wire.FORMAT_VERSION:
            raise BadRequest(
                f"the export has version {params.version}, newer than this program's {wire.FORMAT_VERSION}",
                hint="import it with the newer memsyncd that made it: pip install --upgrade memsyncd",
            )
        job = partial(take_page, entries=[_from_wire(entry) for entry in params.entries], client=params.client or session.name)
        future = self._house.writers.edit(workspace, job)
        taken = (await wait_for_turn(self._house, workspace, future, WRITE_S)).answer
        return wire.Imported(
            workspace=workspace.id,
            revisions=taken.n_revisions,
            texts=taken.n_texts,
            moves=taken.n_moves,
            is_renumbered=taken.n_renumbered > 0,
        )


def _to_wire(entry: Entry) -> wire.Entry:
    match entry:
        case PastChange():
            return wire.RevisionEntry(
                at=entry.at_s,
                client=entry.client,
                command=entry.command,
                named=entry.named,
                new_named=entry.new_named,
                path=entry.path,
                old_path=entry.old_path,
                old_digest=entry.old_digest,
                new_digest=entry.new_digest,
            )
        case TextPiece(digest=digest, size=size, offset=offset, data=data):
            try:
                return wire.TextEntry(digest=digest, size=size, offset=offset, text=data.decode())
            except UnicodeDecodeError:
                return wire.TextEntry(digest=digest, size=size, offset=offset, data=data)
        case Tip():
            return wire.TipEntry(path=entry.path, digest=entry.digest)
        case Move():
            return wire.MoveEntry(at=entry.seen_at_s, old_path=entry.old_path, new_path=entry.new_path, digest=entry.digest)


def _from_wire(entry: wire.Entry) -> Entry:
    """Raises BadRequest and PathRefused for what no records can hold."""
    match entry:
        case wire.RevisionEntry():
            return _from_revision(entry)
        case wire.TextEntry():
            data = entry.data if entry.text is None else entry.text.encode()
            if data is None or (entry.text is not None and entry.data is not None):
                raise BadRequest("a text has either `text` or `data`", hint="import the file as it was exported")
            return TextPiece(digest=entry.digest, size=entry.size, offset=entry.offset, data=data)
        case wire.TipEntry():
            return Tip(path=_check(entry.path), digest=entry.digest)
        case wire.MoveEntry():
            old_path, new_path = _check(entry.old_path), _check(entry.new_path)
            return Move(old_path=old_path, new_path=new_path, digest=entry.digest, seen_at_s=entry.at)


def _from_revision(entry: wire.RevisionEntry) -> PastChange:
    path, old_path = _check(entry.path), None if entry.old_path is None else _check(entry.old_path)
    if path == old_path or entry.old_digest is entry.new_digest is None:
        raise BadRequest(f"a revision of {path} changes nothing", hint="import the file as it was exported")
    return PastChange(
        at_s=entry.at,
        client=entry.client,
        command=entry.command,
        named=entry.named,
        new_named=entry.new_named,
        path=path,
        old_path=old_path,
        old_digest=entry.old_digest,
        new_digest=entry.new_digest,
    )


def _check(path: str) -> str:
    return parse_note_path(path).text
