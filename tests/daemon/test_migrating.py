"""Each call that memsyncd/MIGRATING.md names is run, and gives what the page says."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from memsyncd.errors import MemsyncdError
from tests.daemon.conftest import REPOSITORY, WAIT_S

if TYPE_CHECKING:
    from tests.daemon.conftest import Place

pytestmark = pytest.mark.shared_daemon

PAGE = (REPOSITORY / "memsyncd" / "MIGRATING.md").read_text(encoding="utf-8")
ROOT = '"~/project"'
CODE = re.compile(r"`([^`]+)`")
# A condition that must be true, not a name in the prose.
CHECK = re.compile(r"\bresult\b|\bmemory\.\w+\(")
# The functions of the four systems, by the systems' own names.
OFFERED = {
    "FlowState": """MemoryStore MemoryKind MemoryEntry.create add add_many search get get_by_kind
        get_context count clear close on_step_completed on_step_failed TOOL_TO_KIND""",
    "LumenFlow": """loadMemory appendNode queryReady queryByWu validateMemoryNode MemoryNodeSchema
        MEMORY_NODE_TYPES MEMORY_LIFECYCLES createCheckpoint sendSignal generateContext
        recordAccess recordAccessBatch getAccessStats computeDecayScore computeRecencyScore
        computeAccessScore computeImportanceScore DEFAULT_HALF_LIFE_MS IMPORTANCE_BY_PRIORITY
        archiveByDecay isArchived DEFAULT_DECAY_THRESHOLD cleanupMemory cleanupExpired promoteNode
        promoteFromWu ALLOWED_PROMOTION_TAGS generateProfile DEFAULT_PROFILE_LIMIT indexProject
        getDefaultSources initMemory startSession createMemoryNode summarizeWu triageBugs
        RelationshipSchema validateRelationship RELATIONSHIP_TYPES""",
    "MemState": """create_topic append_field_history update_topic_meta add_related_edge
        vector_knn_topic_ids bootstrap_kuzu_schema query ro_query RELATED MemStateMeta""",
    "Fogsift": """related caused_by resolved_by part_of contradicts informs ttl_tier scope
        reference_count last_referenced token_budget RecallRequest""",
}


def read_rows(system: str) -> tuple[str, list[list[str]]]:
    """The code before the table of a system, and the cells of its rows."""
    passage = PAGE.partition(f"\n## {system}\n")[2].partition("\n## ")[0]
    code = re.search(r"```python\n(.*?)```", passage, flags=re.DOTALL)
    assert code is not None
    lines = [line for line in passage.splitlines() if line.startswith("|")][2:]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    assert all(len(row) == 3 for row in rows), [row for row in rows if len(row) != 3]
    return code[1], rows


def run_python(code: str, names: dict[str, Any]) -> Any:
    """Run one statement, and return its value or the value that it assigns."""
    [statement] = ast.parse(code).body
    if isinstance(statement, ast.Expr):
        return eval(code, names)
    exec(code, names)
    assert isinstance(statement, ast.Assign)
    return eval(ast.unparse(statement.targets[0]), names)


def run_command(code: str, place: Place) -> str:
    words = [sys.executable, "-m", *shlex.split(code)]
    done = subprocess.run(
        words, cwd=place.root, env=place.env, capture_output=True, text=True, timeout=WAIT_S,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, (code, done.stdout, done.stderr)
    return done.stdout + done.stderr


def refused(call: Callable[..., object], **parameters: object) -> str:
    with pytest.raises(MemsyncdError) as caught:
        call(**parameters)
    return str(caught.value)


@pytest.mark.parametrize("system", OFFERED)
def test_each_call_of_another_system_has_the_counterpart_that_the_page_says(
    place: Place, system: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in place.env.items():
        monkeypatch.setenv(name, value)
    (place.root / "README.md").write_text("# Project\n\nIt keeps offsets.\n")
    root = repr(str(place.root))
    before, rows = read_rows(system)
    names: dict[str, Any] = {"refused": refused}
    exec(before.replace(ROOT, root), names)
    try:
        for theirs, ours, outcome in rows:
            [*codes] = CODE.findall(ours)
            if ours == "nothing":
                assert len(outcome) > 40, f"{theirs}: the reason is missing"
                continue
            [code] = codes
            is_command = code.startswith("memsyncd ")
            names["result"] = run_command(code, place) if is_command else run_python(code, names)
            checks = [code for code in CODE.findall(outcome) if CHECK.search(code)]
            assert checks, f"{theirs}: the page does not say what it gives"
            for check in checks:
                value = eval(check.replace(ROOT, root), names)
                assert value, (theirs, code, check, names["result"])
    finally:
        names["memory"].close()


@pytest.mark.parametrize("system", OFFERED)
def test_everything_that_another_system_offers_is_on_the_page(system: str) -> None:
    _, rows = read_rows(system)
    said = set(re.findall(r"[\w.]+", " ".join(theirs for theirs, *_ in rows)))
    said |= {name.rpartition(".")[2] for name in said}
    assert not set(OFFERED[system].split()) - said
