"""Any bytes for all code that reads foreign input: only our own errors, and none takes long."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.daemon.conftest import REPOSITORY
from tests.faults.fuzz_targets import LONGEST_BYTES, SEEDS, SLOWEST_S, TARGET_NAMES, find_target

FUZZ_S = 120
Feed = Callable[[bytes], None]


@pytest.fixture(scope="module", params=TARGET_NAMES)
def target(request: pytest.FixtureRequest) -> tuple[str, Feed]:
    return request.param, find_target(request.param)


@st.composite
def wounded(draw: st.DrawFn, seeds: tuple[bytes, ...]) -> bytes:
    """Valid input with parts that were cut, inserted, changed or repeated."""
    data = bytearray(draw(st.sampled_from(seeds)))
    for _ in range(draw(st.integers(1, 4))):
        start, length = draw(st.integers(0, len(data))), draw(st.integers(0, 20))
        piece = draw(
            st.binary(max_size=8)
            | st.sampled_from([bytes(data[start : start + length]), b"\n", b'"', b"[", b"- "])
        )
        data[start : start + draw(st.integers(0, 8))] = piece * draw(
            st.sampled_from([1, 1, 2, 200])
        )
    return bytes(data[:LONGEST_BYTES])


def test_any_bytes_are_answered_or_refused_by_name_in_time(
    target: tuple[str, Feed],
) -> None:
    name, feed = target

    @settings(max_examples=25)
    @given(wounded(SEEDS[name]) | st.binary(max_size=400))
    def tell(data: bytes) -> None:
        began_s = process_time()
        feed(data)
        assert process_time() - began_s < SLOWEST_S

    for seed in SEEDS[name]:
        feed(seed)
    tell()


@pytest.mark.soak
@pytest.mark.timeout(FUZZ_S + 120)
@pytest.mark.skipif(
    importlib.util.find_spec("atheris") is None, reason="needs atheris: pip install atheris"
)
@pytest.mark.parametrize("name", TARGET_NAMES)
def test_coverage_guided_fuzzing_finds_no_failure(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.faults.fuzz_targets", name, str(FUZZ_S), str(tmp_path)]
    done = subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, errors="replace", check=False
    )
    findings = {
        path.name: path.read_bytes()
        for path in tmp_path.iterdir()
        if path.name.startswith(("crash", "timeout", "oom"))
    }
    assert not findings, f"{findings}\n{done.stderr[-4000:]}"
    assert done.returncode == 0, done.stderr[-4000:]
