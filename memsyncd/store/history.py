"""What did notes say before, and who changed them when?

An act is what somebody asked for, a revision what it did to one note. Before a file is touched its act is written down as
intended, with the text that stands there and the one to come; afterwards it is settled by what has really happened. What others
change is seen later and becomes an act of nobody. A tip is what a note said when last heard of; its text is kept, so that the
next change from outside has something that was before. Every method is one commit, on the disk when it returns.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import apsw

from memsyncd.core.digest import digest_bytes
from memsyncd.errors import StoreFull
from memsyncd.store.connections import naming_failures, transaction
from memsyncd.store.footing import Footing
from memsyncd.store.revisions import Revision, Wanted, select_intended, select_revisions, select_standing
from memsyncd.store.texts import Texts
from memsyncd.store.tips import Change, Seen, Tips

__all__ = ["Change", "History", "Intended", "Purged", "Revision", "Seen"]

OUTSIDE = "outside"
"""The command of an act that was only seen."""
PRUNE_STEP = 200
"""Revisions that one call of `prune` drops at most, so that writers need not wait long."""
_COMPLETE, UNWIPED = "is_complete", "is_unwiped"
"""Keys in `meta`: every note has been seen; what was purged may still lie about in the file."""
_HALF_DONE = "half_done/"
"""The beginning of a key in `meta` for each change set of which only a part has happened; its number follows."""

_ADD_ACT = "INSERT INTO acts(at, client, command, path, new_path) VALUES(?,?,?,?,?) RETURNING id"
_ADD_REVISION = "INSERT INTO revisions(act, path, old_path, old_digest, new_digest, state) VALUES(?,?,?,?,?,?)"
_TOO_OLD = """
SELECT revisions.id FROM acts JOIN revisions ON act = acts.id WHERE at < ? AND state = 'done' ORDER BY revisions.id LIMIT ?
"""
_CROWDED = "SELECT path FROM revisions GROUP BY path HAVING count(*) > ? LIMIT ?"
_TOO_MANY = """
SELECT id FROM (SELECT id FROM revisions WHERE path = ? AND state = 'done' ORDER BY id DESC LIMIT -1 OFFSET ?) ORDER BY id LIMIT ?
"""
_DROP_REVISION = "DELETE FROM revisions WHERE id = ? RETURNING act, old_digest, new_digest"
_DROP_EMPTY_ACT = "DELETE FROM acts WHERE id = ?1 AND NOT EXISTS(SELECT 1 FROM revisions WHERE act = ?1)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Intended:
    """What shall become of one note. `old` and `new` are whole texts, None for no file; `old_path` is where it moves from."""

    path: str
    old_path: str | None = None
    old: bytes | None
    new: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Purged:
    """What is forgotten. `is_clean`: the files hold no trace of it; else another program reads them, and will have to stop."""

    n_revisions: int
    n_texts: int
    is_clean: bool


class History:
    """The history within a records.db, for the writer's thread. Methods raise the classes of `naming_failures`."""

    def __init__(self, writer: apsw.Connection, texts: Texts, tips: Tips, footing: Footing) -> None:
        self._writer = writer
        self._footing = footing
        self._texts = texts
        self._tips = tips
        with naming_failures():
            self._is_clean = not self._has(UNWIPED)

    def begin(
        self, *, at_s: float, client: str, command: str, path: str, new_path: str | None = None, changes: Sequence[Intended]
    ) -> int:
        """Write down what is about to be done; the act's number. `path` and `new_path` are what was named."""
        with transaction(self._writer):
            act = self._add_act((at_s, client, command, path, new_path))
            self._add_revisions(act, [self._keep(change) for change in changes], "intended")
        return act

    def finish(self, act: int) -> None:
        """All of it has happened."""
        self.settle(act, [revision.id for revision in self._find_intended_of(act)])

    def take_back(self, act: int) -> None:
        """Nothing of it has happened."""
        self.settle(act, [])

    def forget_intended(self, act: int) -> None:
        """As `take_back`, and nothing of it stays in the files."""
        self.take_back(act)
        with naming_failures():
            self._is_clean = self._footing.empty_log() and self._is_clean

    def settle(self, act: int, happened: Collection[int], *, is_half_done: bool = False) -> None:
        """These revisions of an intended act have happened, and none of its others. One that is settled stays as it is.

        With `is_half_done` that is not as it should be, and `find_half_done` says so.
        """
        with transaction(self._writer):
            if is_half_done and happened:
                self._mark(f"{_HALF_DONE}{act}")
            intended = self._find_intended_of(act)
            self._forget([revision.id for revision in intended if revision.id not in happened])
            self._writer.execute("UPDATE revisions SET state = 'done' WHERE act = ?", (act,))
            changes = [_change_of(revision) for revision in intended if revision.id in happened]
            self._tips.apply(changes)
            self._lean(changes)

    def find_intended(self) -> list[tuple[int, list[Revision]]]:
        """Acts that were begun and never settled, in order: a crash or a full disk came between."""
        with naming_failures():
            revisions = select_intended(self._writer, self._texts.damaged)
        return [(act, list(of_act)) for act, of_act in groupby(revisions, key=lambda revision: revision.act)]

    def find_half_done(self) -> list[tuple[int, str]]:
        """Number and command of the change sets of which only a part has happened.

        Without those whose notes were all changed since by somebody who asked for it, as an undo does.
        """
        with naming_failures():
            keys: list[Any] = self._writer.execute("SELECT key FROM meta WHERE key GLOB ?", (f"{_HALF_DONE}*",)).fetchall()
            acts = {int(key.removeprefix(_HALF_DONE)) for (key,) in keys}
            left = select_standing(self._writer, acts, apart_from=OUTSIDE)
        if over := acts - {act for act, _ in left}:
            with transaction(self._writer):
                self._writer.executemany("DELETE FROM meta WHERE key = ?", [(f"{_HALF_DONE}{act}",) for act in over])
        return left

    def see(self, seen: Sequence[Seen], *, at_s: float, is_first: bool) -> list[str]:
        """Record what differs from the tips as one act of nobody; the paths of its revisions.

        With `is_first` notes that have no tip are only taken note of, unless they are new: nobody knows what they said before.
        """
        texts = {one.path: one.data for one in seen}
        with naming_failures():
            changes = list(self._tips.find_changes({one.path: one for one in seen}))
        if not changes:
            return []
        new = {one.path for one in seen if one.is_new}
        told = [one for one in changes if not is_first or one.old_digest is not None or one.path in new]
        paths = list(dict.fromkeys(change.path for change in told))
        with transaction(self._writer):
            for path in {change.path for change in changes}:
                if (data := texts[path]) is not None:
                    self._texts.keep(data)
            if told:
                act = self._add_act((at_s, "", OUTSIDE, paths[0] if len(paths) == 1 else "", None))
                self._add_revisions(act, told, "done")
            self._tips.apply(changes)
            self._lean(changes)
            self._texts.drop_unused(change.old_digest for change in changes if change.old_digest is not None)
        return paths

    def tips(self) -> dict[str, str]:
        """Of each note the digest of what it said when last heard of, by path."""
        with naming_failures():
            return self._tips.read()

    def find_tips(self, paths: Iterable[str]) -> dict[str, str]:
        """The same of these notes, as far as they have been heard of."""
        with naming_failures():
            found = {path: self._tips.find(path) for path in paths}
        return {path: digest for path, digest in found.items() if digest is not None}

    @property
    def is_complete(self) -> bool:
        """True once every note of the workspace has been seen: what is new from then on is a change."""
        with naming_failures():
            return self._has(_COMPLETE)

    def set_complete(self) -> None:
        with transaction(self._writer):
            self._mark(_COMPLETE)

    @property
    def damaged(self) -> frozenset[str]:
        """Digests of the texts that were asked for and did not come out right."""
        return frozenset(self._texts.damaged)

    def find_menders(self) -> set[str]:
        """Notes that say what is damaged here, or what that stands on, if they say what they said when last heard of."""
        with naming_failures():
            return self._tips.find_beneath(self._texts.damaged)

    def mend(self, path: str, data: bytes) -> None:
        """This is what the note says: if it is what it said when last heard of, have that text right again."""
        with transaction(self._writer):
            if self._tips.find(path) == digest_bytes(data):
                self._texts.keep(data)

    def find_revisions(
        self,
        *,
        path: str | None = None,
        act: int | None = None,
        revision: int | None = None,
        before: int | None = None,
        limit: int = 20,
    ) -> list[Revision]:
        """Newest first; all that is given must hold. `path` is a note or folder, followed back through its renames."""
        wanted = Wanted(path=path, act=act, revision=revision, before=before, limit=limit)
        with naming_failures():
            return select_revisions(self._writer, wanted, self._texts.damaged)

    def read_text(self, digest: str) -> bytes | None:
        """The text with this digest, byte for byte; None if it is not kept, or damaged, which `damaged` then says."""
        with naming_failures():
            return self._texts.read(digest)

    def prune(self, *, max_revisions: int, max_age_s: float, now_s: float) -> int:
        """Drop the oldest revisions of notes with more than that many, and what is older; how many. Call again until it is 0."""
        with naming_failures():
            too_old: list[Any] = self._writer.execute(_TOO_OLD, (now_s - max_age_s, PRUNE_STEP)).fetchall()
            doomed = [row[0] for row in too_old] or self._find_too_many(max_revisions)
        if doomed:
            with transaction(self._writer):
                self._forget(doomed)
        if not self._is_clean:
            self._wipe()
        return len(doomed)

    def purge(self, *, revisions: Collection[int], texts: Collection[str] | None = None) -> Purged:
        """Forget these revisions and, whichever others name them too, `texts`; without those, all that the revisions held.

        What a note says today stays, since it stands in the note anyway.
        """
        with transaction(self._writer):
            rows = [row for id_ in revisions for row in select_revisions(self._writer, Wanted(revision=id_), set())]
            held = {digest for row in rows for digest in (row.old_digest, row.new_digest) if digest is not None}
            doomed = {digest for digest in (held if texts is None else texts) if not self._tips.is_tip(digest)}
            n_texts = self._texts.drop(doomed) + self._forget([row.id for row in rows])
            self._mark(UNWIPED)
        self._wipe()
        return Purged(n_revisions=len(rows), n_texts=n_texts, is_clean=self._is_clean)

    def _find_too_many(self, max_revisions: int) -> list[int]:
        found: list[int] = []
        paths: list[Any] = self._writer.execute(_CROWDED, (max_revisions, PRUNE_STEP)).fetchall()
        for (path,) in paths:
            rows: list[Any] = self._writer.execute(_TOO_MANY, (path, max_revisions, PRUNE_STEP - len(found))).fetchall()
            found += [row[0] for row in rows]
        return found

    def _wipe(self) -> None:
        """Rewrite the file without what was deleted from it, and empty the log of writes. What cannot be done now comes later."""
        self._is_clean = False
        with contextlib.suppress(StoreFull), naming_failures():
            if self._has(UNWIPED):
                # What is deleted is zeroed, but not the copies that SQLite leaves when it shifts rows within a page.
                self._writer.execute("VACUUM")
                self._writer.execute("DELETE FROM meta WHERE key = ?", (UNWIPED,))
            self._is_clean = self._footing.empty_log()

    def _has(self, key: str) -> bool:
        return self._writer.execute("SELECT 1 FROM meta WHERE key = ?", (key,)).get is not None

    def _mark(self, key: str) -> None:
        self._writer.execute("INSERT OR IGNORE INTO meta VALUES(?, 'yes')", (key,))

    def _keep(self, change: Intended) -> Change:
        return Change(
            path=change.path,
            old_path=change.old_path,
            old_digest=None if change.old is None else self._texts.keep(change.old),
            new_digest=None if change.new is None else self._texts.keep(change.new),
        )

    def _add_act(self, row: tuple[float, str, str, str, str | None]) -> int:
        return int(self._writer.execute(_ADD_ACT, row).get)

    def _add_revisions(self, act: int, changes: Iterable[Change], state: str) -> None:
        rows = ((act, one.path, one.old_path, one.old_digest, one.new_digest, state) for one in changes)
        self._writer.executemany(_ADD_REVISION, rows)

    def _find_intended_of(self, act: int) -> list[Revision]:
        with naming_failures():
            return [one for one in select_intended(self._writer, set()) if one.act == act]

    def _lean(self, changes: Iterable[Change]) -> None:
        for one in changes:
            if one.old_digest is not None and one.new_digest is not None:
                self._texts.lean(one.old_digest, one.new_digest)

    def _forget(self, revisions: Collection[int]) -> int:
        """Drop these rows, acts that are left with none, and texts that nobody names any more; how many texts."""
        acts: set[int] = set()
        digests: set[str] = set()
        for id_ in revisions:
            rows: list[Any] = self._writer.execute(_DROP_REVISION, (id_,)).fetchall()
            for act, *sides in rows:
                acts.add(act)
                digests.update(side for side in sides if side is not None)
        self._writer.executemany(_DROP_EMPTY_ACT, ((act,) for act in acts))
        return self._texts.drop_unused(digests)


def _change_of(revision: Revision) -> Change:
    return Change(path=revision.path, old_path=revision.old_path, old_digest=revision.old_digest, new_digest=revision.new_digest)
