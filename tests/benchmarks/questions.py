"""Which questions are asked of which notes, and where do their answers stand?

A set is a folder with `questions.jsonl` and the notes that it is about: a question names its
`scope`, a folder of notes that is one workspace, and its `evidence`, lines of notes whose paths
begin at the set's folder.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# A note without a date counts as of the day on which it was saved. 2023-06-01, in seconds: the sets
# mean notes of years, not of the day on which they were copied.
SAVED_AT_S = 1_685_577_600
NOTES = ".memories"
# The category of questions without an answer in the notes: left out of the figures, as is usual for
# this kind of set.
UNANSWERABLE = "adversarial"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """Lines of a note, 1-based and inclusive; the path begins at the scope."""

    path: str
    start: int
    end: int

    def is_overlapping(self, other: Lines) -> bool:
        return self.path == other.path and self.start <= other.end and other.start <= self.end


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    id: str
    scope: str
    text: str
    category: str
    evidence: tuple[Lines, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionSet:
    """`notes` are the lines of each note, by scope and by path in it."""

    name: str
    folder: Path
    questions: tuple[Question, ...]
    notes: dict[str, dict[str, list[str]]]

    def copy_scope(self, scope: str, root: Path) -> None:
        """Put the notes of a scope into a workspace at `root`."""
        shutil.copytree(self.folder / scope, root / NOTES, copy_function=_copy_saved)
        for folder in (root / NOTES, *(root / NOTES).rglob("*/")):
            folder.chmod(0o700)  # a set may be read-only, and its copy must be deletable


def read_set(folder: Path) -> QuestionSet:
    rows = [
        json.loads(line)
        for line in (folder / "questions.jsonl").read_text(encoding="utf-8").splitlines()
        if line
    ]
    questions = tuple(_read_question(row) for row in rows)
    return QuestionSet(
        name=folder.name,
        folder=folder,
        questions=tuple(question for question in questions if question.category != UNANSWERABLE),
        notes={
            scope: _read_notes(folder / scope)
            for scope in sorted({question.scope for question in questions})
        },
    )


def find_scope_path(path: str) -> str:
    """A path as an answer names it, from the scope on."""
    return path.removeprefix(f"{NOTES}/")


def _read_question(row: dict[str, Any]) -> Question:
    return Question(
        id=row["id"],
        scope=row["scope"],
        text=row["question"],
        category=row["category"],
        evidence=tuple(
            Lines(
                path=evidence["path"].removeprefix(row["scope"] + "/"),
                start=evidence["start_line"],
                end=evidence["end_line"],
            )
            for evidence in row["evidence"]
        ),
    )


def _read_notes(scope: Path) -> dict[str, list[str]]:
    return {
        path.relative_to(scope).as_posix(): path.read_text(encoding="utf-8").split("\n")
        for path in sorted(scope.rglob("*.md"))
    }


def _copy_saved(source: str, target: str) -> None:
    shutil.copyfile(source, target)
    os.utime(target, (SAVED_AT_S, SAVED_AT_S))
