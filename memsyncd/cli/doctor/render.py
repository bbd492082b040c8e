"""How do findings look to people? The worst first, what is well folded into one line, and for the rest what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memsyncd.cli.doctor.findings import LEVELS, count_levels
from memsyncd.cli.format import display_width, pad, render_count, wrap_words
from memsyncd.cli.terminal import clean_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from memsyncd.cli.doctor.findings import Finding
    from memsyncd.cli.terminal import Paint

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
