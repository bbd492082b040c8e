"""A workspace whose databases a test damages."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from memsyncd.client import Client
from tests.daemon.conftest import wait_until

if TYPE_CHECKING:
    from tests.daemon.conftest import Daemon, Home

WAIT_S = 60.0


class WorkspaceFiles:
    """One workspace, and the files that the daemon keeps for it."""

    def __init__(self, home: Home, daemon: Daemon) -> None:
        self.home, self.daemon, self.root = home, daemon, home.make_folder()
        self.n_notes = 20
        (self.root / ".memories").mkdir()
        for number in range(self.n_notes):
            (self.root / ".memories" / f"{number}.md").write_text(
                f"# Note {number}\n\nlarch number{number}\n"
            )
        self.client: Client = daemon.client()
        self.id = self.client.call("workspace.add", path=str(self.root))["workspaces"][0]["id"]
        self.find("x", wait="disk")
        self.index = home.folder / "cache" / "memsyncd" / self.id / "index.db"
        self.records = home.folder / "state" / "memsyncd" / self.id / "records.db"

    def restart(self, *, between: Callable[[], object]) -> None:
        self.client.close()
        assert self.daemon.stop() == 0, self.home.read_log()
        between()
        self.daemon = self.home.start()
        self.client = self.daemon.client()

    def status(self) -> dict[str, Any]:
        return dict(self.client.call("status", workspace=self.id)["workspaces"][0])

    def find(self, query: str, **options: object) -> set[str]:
        hits = self.client.call("search", query=query, workspace=self.id, limit=50, **options)[
            "hits"
        ]
        return {hit["path"] for hit in hits}

    def wait(self, is_so: Callable[[], bool], complaint: str) -> None:
        wait_until(is_so, complaint)

    def wait_rebuilt(self, after: str) -> None:
        self.wait(lambda: "index_rebuilt" in self.log(), f"it was not rebuilt: {after}")

    def wait_healed(self) -> None:
        def is_healed() -> bool:
            status = self.status()
            return status["state"] == "ready" and not status["reasons"] and self.is_sound()

        self.wait(is_healed, "it did not heal")
        assert self.status()["files"] == self.n_notes
        assert len(self.find("larch")) >= min(self.n_notes, 20)
        (self.root / ".memories" / "0.md").write_text("# Note\n\nlarch maple\n")
        assert self.find("maple", wait="disk") == {".memories/0.md"}

    def settle(self) -> int:
        """Move all rows from the WAL to the file; return the generation."""
        self.client.call("sync", workspace=self.id, rebuild=True)
        self.wait(
            lambda: self.status()["state"] == "ready" and not self.status()["pending"],
            "it did not settle",
        )
        return int(self.status()["generation"])

    def is_sound(self) -> bool:
        """True if the file under the index's name is the one that answers, complete and with every
        note.
        """
        if not self.index.exists():
            return False
        try:
            with sqlite3.connect(f"file:{self.index}?mode=ro", uri=True) as file:
                n_files = file.execute("SELECT count(*) FROM files").fetchone()[0]
                return bool(
                    n_files == self.n_notes
                    and file.execute("PRAGMA quick_check").fetchone()[0] == "ok"
                )
        except sqlite3.Error:
            return False

    def log(self) -> str:
        """The log lines about this workspace."""
        return "\n".join(line for line in self.home.log.read_text().splitlines() if self.id in line)
