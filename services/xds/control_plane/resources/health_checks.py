"""Envoy's own health checks: whether a replica's engine moves.

Not the engine answers but what watches it (its launcher), because an engine that stands still may
answer, and one that is busy may not. 503 takes a replica out for new requests at once; it cuts no
stream, and one that moves again is back with its next check. Consul's checks would take 10 s.
"""

from __future__ import annotations

from typing import Any

LIVENESS_PATH = "/slipway/live"
INTERVAL, TIMEOUT = "1s", "1s"
# Without an answer. Two in a row, because a single one also fails when this Envoy, or the other
# side, was paused for a moment.
CHECKS_FAILED = 2


def health_check(path: str, codec: str) -> dict[str, Any]:
    """One entry of a cluster's `health_checks`; `codec` is HTTP1 or HTTP2."""
    return {
        "interval": INTERVAL,
        # Where there was no request yet; Envoy's default is a minute.
        "no_traffic_interval": INTERVAL,
        "timeout": TIMEOUT,
        "unhealthy_threshold": CHECKS_FAILED,
        "healthy_threshold": 1,
        "http_health_check": {
            "path": path,
            "codec_client_type": codec,
            # One who does not know the page does not say that the engine stands still.
            "expected_statuses": [{"start": 200, "end": 500}],
        },
    }
