"""What all tests share: how hard properties are tried."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# No deadline: a busy machine is not a failing one, and pytest-timeout guards against what hangs.
settings.register_profile("memsyncd", deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("memsyncd")
