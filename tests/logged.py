"""Collects the events of the log while a test runs."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

from memsyncd.logs import ROOT, read_fields


@contextlib.contextmanager
def capture_logs() -> Iterator[list[dict[str, Any]]]:
    """Yield a list that gets the fields of each event, on any thread, in the block."""
    events: list[dict[str, Any]] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            events.append(read_fields(record))

    collector = Collector()
    logger = logging.getLogger(ROOT)
    logger.addHandler(collector)
    try:
        yield events
    finally:
        logger.removeHandler(collector)
