"""What does this process take of the system at this moment? In the form in which `metrics` tells it."""

from __future__ import annotations

import threading
import time

from memsyncd.daemon.files import count_open_files, find_file_limit
from memsyncd.daemon.memory import read_rss_bytes
from memsyncd.logs import count_lost_lines
from memsyncd.protocol.metrics import ProcessMetrics


def read_vitals() -> ProcessMetrics:
    return ProcessMetrics(
        rss_bytes=read_rss_bytes(),
        cpu_s_total=round(time.process_time(), 6),
        threads=threading.active_count(),
        fds=count_open_files(),
        max_fds=find_file_limit(),
        lost_log_lines_total=count_lost_lines(),
    )
