"""`memsyncd doctor`: check the daemon, its files and the system, with a remedy for each finding.

This module has the findings and renders them: the worst first, passed checks in one line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memsyncd.terminal.format import render_count
from memsyncd.terminal.terminal import clean_line
from memsyncd.terminal.wrap import display_width, pad, wrap_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from memsyncd.findings import Level
    from memsyncd.terminal.terminal import Paint

# From the worst to the best.
LEVELS: tuple[Level, ...] = ("error", "warning", "info", "ok")


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. `check` is a stable name, `where` a path or empty.

    `remedy` is empty if there is nothing to do. `workspace` is an id, None for a finding about the
    whole installation.
    """

    level: Level
    check: str
    what: str
    remedy: str = ""
    where: str = ""
    workspace: str | None = None


def read_findings(answer: dict[str, Any]) -> list[Finding]:
    """Read the findings in the daemon's result of `doctor`. A daemon of another version may send
    other levels and fields: an unknown level becomes a warning.
    """
    findings = []
    for each in answer["findings"]:
        level: Level = next((name for name in LEVELS if name == each["level"]), "warning")
        texts = {name: str(each.get(name) or "") for name in ("what", "where", "remedy")}
        findings.append(
            Finding(level=level, check=str(each["check"]), workspace=each.get("workspace"), **texts)
        )
    return findings


def count_levels(findings: Iterable[Finding]) -> dict[str, int]:
    """Count the findings of each level."""
    levels: list[str] = [finding.level for finding in findings]
    return {level: levels.count(level) for level in reversed(LEVELS)}


def is_healthy(findings: Iterable[Finding]) -> bool:
    """Return whether no finding needs action."""
    return all(finding.level in ("ok", "info") for finding in findings)


# --- rendering ----------------------------------------------------------------------------------

LEVEL_MARKS = {
    "error": ("✗", "red"),
    "warning": ("!", "yellow"),
    "info": ("·", "cyan"),
    "ok": ("✓", "green"),
}
INDENT = "  "


def render_examination(
    findings: Sequence[Finding],
    names: Mapping[str, str],
    paint: Paint,
    *,
    width: int,
    is_complete: bool,
) -> Iterator[str]:
    """Render the findings about the installation, then about each workspace, then the summary.
    `names` maps the ids of workspaces to names.

    `width` 0 is for output that is not a terminal: lines are not wrapped. With `is_complete`, each
    passed check has its own line.
    """
    groups: dict[str | None, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(finding.workspace, []).append(finding)
    for workspace in sorted(
        groups, key=lambda each: (each is not None, names.get(each or "", each or ""))
    ):
        title = "memsyncd" if workspace is None else f"workspace {names.get(workspace, workspace)}"
        yield paint("bold", clean_line(title))
        yield from _render_group(groups[workspace], paint, width=width, is_complete=is_complete)
        yield ""
    yield _render_summary(findings, paint)


def _render_group(
    findings: Sequence[Finding], paint: Paint, *, width: int, is_complete: bool
) -> Iterator[str]:
    listed = [finding for finding in findings if is_complete or finding.level != "ok"]
    column = max((display_width(finding.check) for finding in listed), default=0) + 2
    for finding in sorted(listed, key=lambda each: LEVELS.index(each.level)):
        yield from _render_finding(finding, paint, column=column, width=width)
    passed = [finding.check for finding in findings if finding.level == "ok"]
    if passed and not is_complete:
        text = f"ok: {', '.join(dict.fromkeys(passed))}"
        lead = f"{INDENT}{paint('green', '✓')} "
        for number, line in enumerate(_wrap(text, width - 4 if width else 0)):
            yield (lead if not number else INDENT * 2) + paint("dim", line)


def _render_finding(finding: Finding, paint: Paint, *, column: int, width: int) -> Iterator[str]:
    mark, style = LEVEL_MARKS[finding.level]
    indent = INDENT * 2 + " " * column
    room = max(width - len(indent), 30) if width else 0
    lead = f"{INDENT}{paint(style, mark)} {paint('bold', pad(clean_line(finding.check), column))}"
    for number, line in enumerate(_wrap(clean_line(finding.what), room)):
        yield (lead if not number else indent) + line
    if finding.where:
        yield indent + paint("dim", clean_line(finding.where))
    for number, line in enumerate(_wrap(clean_line(finding.remedy), room - 2 if room else 0)):
        yield indent + (f"{paint('cyan', '→')} " if not number else INDENT) + line


def _wrap(text: str, width: int) -> Iterator[str]:
    if not text:
        return iter(())
    return wrap_words(text, width) if width else iter((text,))


def _render_summary(findings: Sequence[Finding], paint: Paint) -> str:
    counts = count_levels(findings)
    counted = [
        paint(style, render_count(counts[level], level))
        for level, style in (("error", "red"), ("warning", "yellow"))
        if counts[level]
    ]
    passed = f"{counts['ok']} checks passed"
    return (
        f"{', '.join(counted)}; {passed}"
        if counted
        else f"{paint('green', 'nothing is wrong')}; {passed}"
    )
