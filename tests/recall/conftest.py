"""Sets of questions, asked of the real engine in this process."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from memsyncd.config import Config
from tests.benchmarks.in_process import find_lines, find_shown, open_indexed
from tests.benchmarks.questions import Lines, QuestionSet

# The lines of hits, and the lines in a block, by the question's id; the best first.
Answers = tuple[dict[str, list[Lines]], dict[str, list[Lines]]]
BLOCK_TOKENS = 500


@pytest.fixture(scope="session")
def ask_all(tmp_path_factory: pytest.TempPathFactory) -> Callable[[QuestionSet], Answers]:
    """Index the notes of a set and ask all its questions."""

    def ask(question_set: QuestionSet) -> Answers:
        hits: dict[str, list[Lines]] = {}
        blocks: dict[str, list[Lines]] = {}
        config = Config()
        for scope in question_set.notes:
            with open_indexed(question_set, scope, tmp_path_factory.mktemp("r")) as workspace:
                for question in question_set.questions:
                    if question.scope == scope:
                        hits[question.id] = find_lines(workspace, question, config)
                        blocks[question.id] = find_shown(
                            workspace, question, config, max_tokens=BLOCK_TOKENS
                        )
        return hits, blocks

    return ask
