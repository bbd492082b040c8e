"""What is a finding, and what do many of them come to?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memsyncd.cli.format import display_width, pad, render_count, wrap_words
from memsyncd.cli.terminal import clean_line

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Literal

    Level = Literal["ok", "info", "warning", "error"]
    from collections.abc import Iterator, Mapping, Sequence

    from memsyncd.cli.terminal import Paint

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


# --- rendering -----------------------------------------------------------------------------------

MARKS = {
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
    has_all: bool,
) -> Iterator[str]:
    """Lines: what concerns everything, then each workspace, then the sum. `names` are those of workspaces by their ids.

    `width` 0, for what no terminal shows, leaves each text on one line; with `has_all` nothing is folded.
    """
    groups: dict[str | None, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(finding.workspace, []).append(finding)
    for workspace in sorted(
        groups, key=lambda each: (each is not None, names.get(each or "", each or ""))
    ):
        title = "memsyncd" if workspace is None else f"workspace {names.get(workspace, workspace)}"
        yield paint("bold", clean_line(title))
        yield from _render_group(groups[workspace], paint, width=width, has_all=has_all)
        yield ""
    yield _render_sum(findings, paint)


def _render_group(
    findings: Sequence[Finding], paint: Paint, *, width: int, has_all: bool
) -> Iterator[str]:
    shown = [finding for finding in findings if has_all or finding.level != "ok"]
    column = max((display_width(finding.check) for finding in shown), default=0) + 2
    for finding in sorted(shown, key=lambda each: LEVELS.index(each.level)):
        yield from _render_finding(finding, paint, column=column, width=width)
    well = [finding.check for finding in findings if finding.level == "ok"]
    if well and not has_all:
        told = f"well: {', '.join(dict.fromkeys(well))}"
        lead = f"{INDENT}{paint('green', '✓')} "
        for number, line in enumerate(_wrap(told, width - 4 if width else 0)):
            yield (lead if not number else INDENT * 2) + paint("dim", line)


def _render_finding(finding: Finding, paint: Paint, *, column: int, width: int) -> Iterator[str]:
    mark, style = MARKS[finding.level]
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


def _render_sum(findings: Sequence[Finding], paint: Paint) -> str:
    counts = count_levels(findings)
    told = [
        paint(style, render_count(counts[level], level))
        for level, style in (("error", "red"), ("warning", "yellow"))
        if counts[level]
    ]
    well = f"{counts['ok']} checks are well"
    return f"{', '.join(told)}; {well}" if told else f"{paint('green', 'nothing is wrong')}; {well}"
