"""Any sequence of writes, external changes, crashes and purges, compared with a plain model."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from memsyncd.core.digest import digest_bytes
from memsyncd.store import blobs
from memsyncd.store.history import Intended, ObservedNote, Revision
from memsyncd.store.records import Records

PATHS = ("a.md", "b.md", "f/c.md", "f/d.md")
LINES = [b"%d: what was said in this line at first\n" % number for number in range(12)]
TEXTS = (
    b"",
    b"".join(LINES),
    b"".join(LINES[:6]) + b"something else\n" + b"".join(LINES[6:]),
    b"".join(LINES[1:]),
    b"".join(LINES[:-1]) + b"an end without its newline",
    b"\xff\0\r\n not text at all",
    b"".join(reversed(LINES)),
)
paths = st.sampled_from(PATHS)
contents = st.sampled_from(TEXTS)


@dataclass
class StoredState:
    id: int
    path: str
    old_path: str | None
    old: bytes | None
    new: bytes | None
    at_s: float
    client: str


@dataclass
class Model:
    files: dict[str, bytes] = field(default_factory=dict)
    heads: dict[str, bytes] = field(default_factory=dict)
    revisions: list[StoredState] = field(default_factory=list)
    forgotten: set[bytes] = field(default_factory=set)
    now_s: float = 0.0


class HistoryMachine(RuleBasedStateMachine):
    """Writes to a history, which sometimes "crashes".

    Then the file is reopened, and intended change sets are settled.
    """

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir=FOLDER[0]))
        self.model = Model()
        self.limits = blobs.MAX_ON_BASE, blobs.REBASE_BYTES
        blobs.MAX_ON_BASE, blobs.REBASE_BYTES = 3, 1
        self.records = self.open()
        self.records.history.set_complete("all")

    def open(self) -> Records:
        records = Records(self.folder / "records.db", workspace="w", root="/w", now_s=1.0)
        # No power fails here, so thousands of commits need not wait for the disk.
        records._writer.pragma("synchronous", "OFF")
        return records

    def teardown(self) -> None:
        self.records.close()
        blobs.MAX_ON_BASE, blobs.REBASE_BYTES = self.limits
        shutil.rmtree(self.folder)

    def begin(self, changes: list[Intended]) -> int:
        self.model.now_s += 1
        self.model.forgotten -= {
            text for change in changes for text in (change.old, change.new) if text is not None
        }
        return self.records.history.begin(
            at_s=self.model.now_s,
            client="ada",
            command="edit",
            path=changes[0].path,
            changes=changes,
        )

    def record(
        self, path: str, old_path: str | None, old: bytes | None, new: bytes | None, client: str
    ) -> None:
        newest = self.records.history.find_revisions(limit=50)
        digests = (
            None if old is None else digest_bytes(old),
            None if new is None else digest_bytes(new),
        )
        known_ids = {kept.id for kept in self.model.revisions}
        ids = [
            revision.id
            for revision in newest
            if revision.id not in known_ids
            and (revision.path, revision.old_path, revision.old_digest, revision.new_digest)
            == (path, old_path, *digests)
        ]
        assert ids, f"the change of {path} is not recorded"
        kept = StoredState(ids[-1], path, old_path, old, new, self.model.now_s, client)
        self.model.revisions.append(kept)

    @rule(path=paths, text=st.none() | contents, happens=st.booleans())
    def write(self, path: str, text: bytes | None, happens: bool) -> None:
        """Write a change set; `see` first records the changes of others, as a writer does."""
        self.observe([path])
        old = self.model.files.get(path)
        number = self.begin([Intended(path=path, old=old, new=text)])
        if not happens:
            self.records.history.discard(number)
            return
        self.records.history.finish(number)
        self.put(path, text)
        self.record(path, None, old, text, "ada")

    def put(self, path: str, text: bytes | None) -> None:
        for where in (self.model.files, self.model.heads):
            where.pop(path, None)
            if text is not None:
                where[path] = text

    @rule(old=paths, new=paths)
    def rename(self, old: str, new: str) -> None:
        data = self.model.files.get(old)
        if data is None or new in self.model.files:
            return
        self.observe([old, new])
        self.records.history.finish(
            self.begin([Intended(path=new, old_path=old, old=data, new=data)])
        )
        self.put(old, None)
        self.put(new, data)
        self.record(new, old, data, data, "ada")

    @rule(texts=st.tuples(contents, contents), is_first_done=st.booleans())
    def crash_within_two_notes(self, texts: tuple[bytes, bytes], is_first_done: bool) -> None:
        self.observe(list(PATHS[:2]))
        changes = [
            Intended(path=path, old=self.model.files.get(path), new=text)
            for path, text in zip(PATHS, texts, strict=False)
        ]
        number = self.begin(changes)
        self.reopen()
        [(intended, revisions)] = self.records.history.find_intended()
        assert intended == number
        assert [(revision.path, revision.new_digest) for revision in revisions] == [
            (change.path, digest_bytes(change.new or b"")) for change in changes
        ]
        self.records.history.settle(number, [revisions[0].id] if is_first_done else [])
        if is_first_done:
            old = self.model.files.get(PATHS[0])
            self.put(PATHS[0], texts[0])
            self.record(PATHS[0], None, old, texts[0], "ada")

    @rule(path=paths, text=st.none() | contents)
    def change_outside(self, path: str, text: bytes | None) -> None:
        self.model.files.pop(path, None)
        if text is not None:
            self.model.files[path] = text

    @rule(which=st.lists(paths, unique=True, min_size=1))
    def observe(self, which: list[str]) -> None:
        self.model.now_s += 1
        differ = [
            path for path in which if self.model.files.get(path) != self.model.heads.get(path)
        ]
        seen = [ObservedNote(path=path, data=self.model.files.get(path)) for path in which]
        assert (
            self.records.history.record_external(seen, at_s=self.model.now_s, is_first=False)
            == differ
        )
        for path in differ:
            old, new = self.model.heads.get(path), self.model.files.get(path)
            self.model.forgotten.discard(new or b"") if new is not None else None
            self.put(path, new)
            self.record(path, None, old, new, "")

    @rule(max_revisions=st.integers(1, 6), max_age_s=st.integers(3, 40))
    def prune(self, max_revisions: int, max_age_s: int) -> None:
        history, model = self.records.history, self.model
        while history.prune(max_revisions=max_revisions, max_age_s=max_age_s, now_s=model.now_s):
            pass
        young = [kept for kept in model.revisions if kept.at_s >= model.now_s - max_age_s]
        model.revisions = [
            kept
            for kept in young
            if sum(later.path == kept.path and later.id > kept.id for later in young)
            < max_revisions
        ]

    @rule(data=st.data())
    def purge(self, data: st.DataObject) -> None:
        if not self.model.revisions:
            return
        chosen = data.draw(
            st.lists(st.sampled_from(self.model.revisions), min_size=1, max_size=3, unique_by=id)
        )
        done = self.records.history.purge(revisions=[kept.id for kept in chosen])
        assert (done.n_revisions, done.is_clean) == (len(chosen), True)
        texts = {text for kept in chosen for text in (kept.old, kept.new) if text is not None}
        self.model.forgotten |= texts - set(self.model.heads.values())
        self.model.revisions = [kept for kept in self.model.revisions if kept not in chosen]

    @rule()
    def reopen(self) -> None:
        self.records.close()
        self.records = self.open()
        assert self.records.set_aside is None

    @invariant()
    def everything_that_is_kept_reads_back_byte_for_byte(self) -> None:
        history = self.records.history
        revisions = history.find_revisions(limit=1000)
        assert [revision.id for revision in revisions] == sorted(
            (revision.id for revision in self.model.revisions), reverse=True
        )
        by_id = {revision.id: revision for revision in revisions}
        for kept in self.model.revisions:
            self.check(by_id[kept.id], kept)
        assert history.damaged == frozenset()

    def check(self, found: Revision, kept: StoredState) -> None:
        assert (found.path, found.old_path, found.at_s, found.client) == (
            kept.path,
            kept.old_path,
            kept.at_s,
            kept.client,
        )
        sides = (
            (found.old_digest, found.old_bytes, kept.old),
            (found.new_digest, found.new_bytes, kept.new),
        )
        for digest, size, text in sides:
            assert digest == (None if text is None else digest_bytes(text))
            is_there = text is not None and text not in self.model.forgotten
            assert size == (len(text or b"") if is_there else None)
            if digest is not None:
                assert self.records.history.read_text(digest) == (text if is_there else None)
        assert found.is_kept == (
            kept.old not in self.model.forgotten and kept.new not in self.model.forgotten
        )

    @invariant()
    def the_heads_are_the_last_recorded_texts_and_can_be_read(self) -> None:
        history = self.records.history
        assert history.heads() == {
            path: digest_bytes(text) for path, text in self.model.heads.items()
        }
        assert all(
            history.read_text(digest_bytes(text)) == text for text in self.model.heads.values()
        )

    @invariant()
    def no_text_is_there_that_nobody_names(self) -> None:
        named = {
            text
            for kept in self.model.revisions
            for text in (kept.old, kept.new)
            if text is not None
        }
        named = (named - self.model.forgotten) | set(self.model.heads.values())
        rows = self.records._writer.execute("SELECT digest FROM blobs").fetchall()
        assert {row[0] for row in rows} == {digest_bytes(text) for text in named}
        assert self.records._writer.execute("PRAGMA foreign_key_check").fetchall() == []
        assert (
            self.records._writer.execute(
                "SELECT count(*) FROM change_sets WHERE id NOT IN (SELECT change_set FROM revisions)"
            ).get
            == 0
        )


FOLDER: list[Path] = []


@pytest.mark.life
def test_no_sequence_of_operations_loses_a_text_or_keeps_a_purged_one(tmp_path: Path) -> None:
    FOLDER[:] = [tmp_path]
    run_state_machine_as_test(HistoryMachine, settings=settings(stateful_step_count=30))
