"""`index_project` and `sources` against the real daemon, by the command line and by Python."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from memsyncd.client.memory import Memsyncd
from memsyncd.errors import BadRequest

if TYPE_CHECKING:
    from tests.daemon.conftest import Place

pytestmark = pytest.mark.shared_daemon

NOTE = ".memories/project.md"


def test_a_project_is_indexed_once_and_again_only_where_it_has_changed(place: Place) -> None:
    (place.root / "README.md").write_text("# Orchard\n\nPlans the harvest of small farms.\n")
    (place.root / "Makefile").write_text("test: ## Run all tests\n\tpytest\n")
    (place.root / ".github" / "workflows").mkdir(parents=True)
    workflow = place.root / ".github" / "workflows" / "ci.yml"
    workflow.write_text("name: CI\non: push\njobs:\n  all:\n    steps:\n      - run: make test\n")
    (place.root / "CLAUDE.md").symlink_to("/etc/hosts")

    with Memsyncd(str(place.root), env=place.home.env) as memory:

        def index(*, apply: bool = True) -> dict[str, str]:
            indexed = memory.index_project("docs/*.txt", apply=apply)
            assert [skipped["path"] for skipped in indexed["skipped"]] == ["CLAUDE.md"]
            return {source["path"]: source["action"] for source in indexed["sources"]}

        before = place.notes()
        planned = index(apply=False)
        assert place.notes() == before
        assert index() == planned
        assert set(planned.values()) == {"created"}
        assert list(planned) == ["README.md", "Makefile", ".github/workflows/ci.yml"]
        (hit,) = memory.search("harvest", tag="index:architecture")
        assert hit["path"] == NOTE
        assert (hit["kind"], hit["lifecycle"], hit["source"]) == ("summary", "project", "README.md")
        assert {"source_path", "source_hash", "indexed_at"} <= hit["meta"].keys()
        once = place.notes()
        assert set(index().values()) == {"unchanged"}
        assert place.notes() == once
        workflow.unlink()
        (place.root / "Makefile").write_text("lint: ## Check the style\n\truff\n")
        assert index() == {
            "README.md": "unchanged",
            "Makefile": "updated",
            ".github/workflows/ci.yml": "removed",
        }
        assert memory.search("style", tag="index:commands")
        assert not memory.search("pytest", path=NOTE)
        memory.undo(revision=memory.history(limit=1)[0]["revision"])
        assert place.notes() == once
        with pytest.raises(BadRequest, match="empty part"):
            memory.index_project("../secrets.md")
        listed = {source["path"]: source["files"] for source in memory.sources()}
        assert listed["README.md"] == ["README.md"]
        assert listed["package.json"] == []


def test_the_command_says_what_it_does_with_each_source(place: Place) -> None:
    (place.root / "README.md").write_text("# Orchard\n\nPlans the harvest.\n")
    (place.root / "docs").mkdir()
    (place.root / "docs" / "rules.md").write_text("# Rules\n\nNo field is harvested twice.\n")
    os.mkfifo(place.root / "package.json")

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return place.home.run(*words, cwd=place.root)

    source = ("--source", "docs/*.md=index:invariants")
    done = run("index-project", *source)
    assert done.stdout == "created    README.md\ncreated    docs/rules.md\n", done.stderr
    assert "2 sections of .memories/project.md would change" in done.stderr
    assert "not a regular file: package.json" in done.stderr
    assert run("index-project", *source, "--apply").stdout == done.stdout
    assert "up to date" in run("index-project", *source).stderr
    found = run("search", "--wait", "harvested", "--tag", "index:invariants")
    assert ".memories/project.md:" in found.stdout
    assert "README.md" in run("sources").stdout
    assert run("index-project", "--source", "/etc/passwd").returncode == 2
    (place.root / ".tool.config.yaml").write_text("limits:\n  wip: 3\n")
    (place.root / "docs" / "empty.md").write_text("\n")
    more = ("--source", ".tool.config.yaml", "--source", "docs/empty.md")
    asked = run("index-project", *more)
    assert "created    .tool.config.yaml\n" in asked.stdout
    assert "docs/empty.md says nothing that can be summarised" in asked.stderr
    for name, is_reported in (("docs/ruls.md", True), ("docs/*.txt", False)):
        asked = run("index-project", "--source", name)
        assert (f"{name} does not exist" in asked.stderr) is is_reported
