"""What is a finding, and what do many of them come to?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Literal

    Level = Literal["ok", "info", "warning", "error"]

LEVELS: tuple[Level, ...] = ("error", "warning", "info", "ok")
"""From the worst on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at: `check` is a stable word for it, `where` a path or empty.

    `remedy` is what to do, empty where nothing need be done. `workspace` is an id, None for what concerns all.
    """

    level: Level
    check: str
    what: str
    where: str = ""
    remedy: str = ""
    workspace: str | None = None

    def to_json(self) -> dict[str, Any]:
        """As the socket's `doctor` says it."""
        return {
            name: getattr(self, name)
            for name in ("level", "check", "what", "where", "remedy", "workspace")
        }


def read_findings(answer: dict[str, Any]) -> list[Finding]:
    """The findings in the daemon's answer to `doctor`; one of another version may know other levels, and say more or less."""
    found = []
    for each in answer["findings"]:
        level: Level = next((known for known in LEVELS if known == each["level"]), "warning")
        texts = {name: str(each.get(name) or "") for name in ("what", "where", "remedy")}
        found.append(
            Finding(level=level, check=str(each["check"]), workspace=each.get("workspace"), **texts)
        )
    return found


def count_levels(findings: Iterable[Finding]) -> dict[str, int]:
    """How many there are of each level."""
    levels: list[str] = [finding.level for finding in findings]
    return {level: levels.count(level) for level in reversed(LEVELS)}


def is_well(findings: Iterable[Finding]) -> bool:
    """True if nothing asks for somebody to act."""
    return all(finding.level in ("ok", "info") for finding in findings)
