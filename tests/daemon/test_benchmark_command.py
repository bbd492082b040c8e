"""The benchmark command runs: it measures every row on a few notes, of this checkout."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks.__main__ import ROWS

REPOSITORY = Path(__file__).parents[2]
MEMORIES = REPOSITORY / "tests" / "recall" / "memories"
NOTES = [
    note for name in ("harrier", "hostel") for note in sorted(MEMORIES.glob(f"{name}/**/*.md"))
]
N_NOTES = 30
LIMIT_S = 540
# A program that these need may not be installed, or no size may be large enough.
MAY_BE_MISSING = ("large", "semantic", "many-vectors", "vectors", "panel")

pytestmark = [
    pytest.mark.run_first,
    pytest.mark.timeout(600),
    pytest.mark.skipif(sys.platform != "linux", reason="needs /proc"),
]


def test_every_row_is_measured_and_printed_with_its_limit(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for number, note in enumerate(NOTES[:N_NOTES]):
        shutil.copyfile(note, corpus / f"{number}.md")
    results, plots = tmp_path / "results.json", tmp_path / "plots"
    options = ("--quick", "--sizes", "50,all", "--json", results, "--svg", plots)
    with subprocess.Popen(
        (sys.executable, "-m", "tests.benchmarks", corpus, *options),
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as command:
        try:
            printed, complaint = command.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            # Not by a kill: it ends the daemons that it has started.
            command.terminate()
            printed, complaint = command.communicate()
    assert command.returncode == 0, printed + complaint
    run = json.loads(results.read_text())
    assert run["notes"] == N_NOTES
    assert {figure["row"] for figure in run["figures"]} == set(ROWS)
    for figure in run["figures"]:
        assert figure["now"] or figure["row"] in MAY_BE_MISSING, figure
        assert f"| {figure['row']} | {figure['name']}" in printed
    assert {plot.suffix for plot in plots.iterdir()} == {".svg"}
    assert len(list(plots.iterdir())) == len(run["growth"]) == 6
