"""Property tests on a machine of any speed."""

from __future__ import annotations

from hypothesis import HealthCheck, settings


def without_time_limits() -> None:
    """By default hypothesis fails an example that takes 200 ms, and data that is made slowly."""
    settings.register_profile(
        "any speed", deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("any speed")
