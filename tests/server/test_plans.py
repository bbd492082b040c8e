"""Which plans wait for the turn of long works, and when a long work ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from memsyncd.errors import NotFresh
from memsyncd.operations.table import OPERATIONS
from memsyncd.operations.upkeep import rules
from memsyncd.server.reads import Reads
from tests.growing import write_notes
from tests.server.test_handlers import HandlersBench, run

NOTE = "# Log\n\n## Old\n<!-- memory: {created: 2020-01-01} -->\n\ntext\n"
ANCHOR = ".memories/n1.md#log/old"


def test_only_plans_that_may_read_much_wait_for_long_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "notes"
    (root / ".memories").mkdir(parents=True)
    for number in range(3):
        (root / f".memories/n{number}.md").write_text(NOTE)
    works: list[bool] = []
    run_read = Reads.run

    async def note_work(reads: Reads, read: Any, *rest: Any, **more: Any) -> Any:
        works.append(more.get("is_long", False))
        return await run_read(reads, read, *rest, **more)

    monkeypatch.setattr(Reads, "run", note_work)

    async def scenario(bench: HandlersBench) -> None:
        await bench.add(root)

        async def is_long(method: str, **params: Any) -> bool:
            works.clear()
            await bench.ask(method, msgspec.convert(params, OPERATIONS[method].params))
            return any(works)

        for is_applied in (False, True):
            assert not await is_long("archive", anchors=[ANCHOR], apply=is_applied)
            assert not await is_long("archive.restore", anchors=[ANCHOR], apply=is_applied)
            assert not await is_long("topic.archive", topics=["n2"], apply=is_applied)
            assert not await is_long("topic.restore", topics=["n2"], apply=is_applied)
        assert await is_long("archive", path=".memories/n0.md")
        assert await is_long("archive.restore", path=".memories/n0.md")
        for method in ("archive", "cleanup"):
            assert not await is_long(method)
            assert await is_long(method, apply=True)
        monkeypatch.setattr(rules, "MAX_LISTED", 0)
        monkeypatch.setattr(rules, "MAX_WALKED", 0)
        assert await is_long("archive")

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("duplicates", {}),
        ("archive", {"path": ".memories"}),
        ("archive.restore", {"path": ".memories"}),
        ("cleanup", {"apply": True}),
    ],
)
def test_a_long_work_ends_when_the_time_of_its_request_is_over(
    method: str, params: dict[str, Any], tmp_path: Path
) -> None:
    root = tmp_path / "notes"
    root.mkdir()
    write_notes(root, 100)

    async def scenario(bench: HandlersBench) -> None:
        workspace = await bench.add(root)
        limited = msgspec.convert(params | {"timeout_ms": 1}, OPERATIONS[method].params)
        with pytest.raises(NotFresh):
            await bench.ask(method, limited)
        # It has set its turn free, and left no word of its progress.
        assert await bench.ask(method, msgspec.convert(params, OPERATIONS[method].params))
        assert not workspace.condition.notices

    run(tmp_path, scenario)
