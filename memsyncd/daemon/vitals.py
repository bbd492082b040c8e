"""What does this process take of the system at this moment? In the form in which `metrics` tells it."""

from __future__ import annotations

import os
import resource
import threading
import time

from memsyncd.daemon.memory import read_rss_bytes
from memsyncd.logs import count_lost_lines
from memsyncd.wire.metrics import ProcessMetrics


def read_vitals() -> ProcessMetrics:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return ProcessMetrics(
        rss_bytes=read_rss_bytes(),
        cpu_s_total=round(time.process_time(), 6),
        threads=threading.active_count(),
        # Where they are listed, one is of the listing itself.
        fds=len(os.listdir("/dev/fd")) - 1,
        max_fds=None if limit == resource.RLIM_INFINITY else limit,
        lost_log_lines_total=count_lost_lines(),
    )
