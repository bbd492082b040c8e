"""The upkeep of vectors repeats failed work by itself, and reports a failure once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from memsyncd.config import SemanticConfig
from memsyncd.engine import vector_upkeep
from memsyncd.engine.vector_upkeep import VectorUpkeep
from memsyncd.engine.workspace import SEMANTIC_NOTICE
from tests.engine.conftest import Bench
from tests.semantic.conftest import EmbeddingServer, make_config

pytest.importorskip("numpy", reason="the extra `semantic` is not installed")

pytestmark = pytest.mark.life

# Vectors are made with the lowest priority, which a busy machine keeps waiting.
LIMIT_S = 150.0


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    server = EmbeddingServer()
    yield server
    server.close()


async def wait_for(is_so: Callable[[], object], complaint: str) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not is_so():  # noqa: ASYNC110 - another process makes it so
            await asyncio.sleep(0.01)
    assert is_so(), complaint


def test_what_has_failed_is_made_by_itself_once_its_cause_is_gone(
    make_bench: Callable[..., Bench],
    server: EmbeddingServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(vector_upkeep, "RETRY_S", 0.1)
    monkeypatch.setattr(vector_upkeep, "MAX_RETRY_S", 0.2)
    bench = make_bench("notes")
    bench.write("MEMORY.md", "# Garage\n\nthe vehicle is red\n")
    bench.rebuild()
    workspace = bench.workspace
    server.answer = lambda texts: b""

    async def run() -> None:
        upkeep = VectorUpkeep(make_config(server))
        upkeep.open(workspace)
        try:
            upkeep.refresh(workspace)
            await wait_for(lambda: workspace.vectors.status().failed, "it is not reported")
            n_asked = len(server.texts)
            await wait_for(lambda: len(server.texts) > n_asked + 2, "it is not tried again")
            server.answer = server.answer_well
            await wait_for(lambda: workspace.vectors.status().state == "ready", "it is not made")
            assert not workspace.vectors.status().failed
        finally:
            upkeep.stop()

    asyncio.run(run())


def test_switched_off_nothing_stays_of_a_damaged_file_that_was_set_aside(
    make_bench: Callable[..., Bench], server: EmbeddingServer
) -> None:
    bench = make_bench("notes")
    bench.write("MEMORY.md", "# Garage\n\nthe vehicle is red\n")
    bench.rebuild()
    workspace = bench.workspace
    folder = workspace.index_path.parent
    (folder / "vectors.db").write_bytes(b"no database at all" * 1000)

    async def run() -> None:
        upkeep = VectorUpkeep(make_config(server))
        upkeep.open(workspace)
        try:
            upkeep.refresh(workspace)
            await wait_for(
                lambda: workspace.condition.notices.get(SEMANTIC_NOTICE), "it is not reported"
            )
            assert (folder / "vectors.db.damaged").exists()
            await wait_for(lambda: workspace.vectors.status().state == "ready", "it is not made")
            upkeep.configure(SemanticConfig())
            assert not workspace.condition.notices.get(SEMANTIC_NOTICE)
            await wait_for(lambda: not [*folder.glob("vectors.db*")], "a file is left")
        finally:
            upkeep.stop()

    asyncio.run(run())
