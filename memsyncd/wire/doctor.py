"""What does `doctor` take and give? Findings: what was looked at, how it is, and what to do where it is not well."""

from __future__ import annotations

from typing import Literal

from memsyncd.wire.params import Name, Params
from memsyncd.wire.results import Result


class DoctorParams(Params, frozen=True, kw_only=True):
    workspace: Name | None = None
    verify: bool = False
    """Read every note and compare it with all that the index says of it."""


class FindingInfo(Result, frozen=True, kw_only=True):
    level: Literal["ok", "info", "warning", "error"]
    """`info` is worth knowing and asks for nothing."""
    check: str
    """A stable word, such as `index` or `watcher`."""
    what: str
    where: str
    """A path, from the workspace's root or absolute; empty if there is no one place."""
    remedy: str
    workspace: str | None
    """An id; null for what concerns all of them."""


class DoctorResult(Result, frozen=True, kw_only=True):
    findings: list[FindingInfo]
