"""What Envoy counts of each request, beside its own statistics of clusters: time to the first
token, length of streams, and where the key came from that chose the replica.

Labels are names of clusters, of which there are as many as jobs, and never what a client sent.
"""

from __future__ import annotations

from typing import Any

from .routes import STREAM_HEADER
from .triton import STREAM_PATH

STAT_PREFIX = "slipway"

_TYPE = "type.googleapis.com/envoy.extensions.access_loggers.stats.v3.Config"
_Json = dict[str, Any]
_CLUSTER = {"name": "cluster", "value_format": "%UPSTREAM_CLUSTER%"}
_KEY = {"name": "key", "value_format": "%DYNAMIC_METADATA(slipway:key)%"}  # set by request.lua


def stats_loggers() -> list[_Json]:
    """Access loggers of the connection manager."""
    requests = {"stat": {"name": "requests", "tags": [_CLUSTER, _KEY]}, "value_fixed": 1}
    return [
        _logger({"not_health_check_filter": {}}, {"counters": [requests]}),
        _logger(
            _streams(),
            {
                "histograms": [
                    # Engines send headers with the first token.
                    _milliseconds("first_token_ms", "%RESPONSE_DURATION%"),
                    _milliseconds("stream_ms", "%DURATION%"),
                ]
            },
        ),
    ]


def _logger(chosen: _Json, what: _Json) -> _Json:
    config = {"@type": _TYPE, "stat_prefix": STAT_PREFIX, **what}
    return {"name": "envoy.access_loggers.stats", "filter": chosen, "typed_config": config}


def _streams() -> _Json:
    """Streams that have begun: only they have a first token."""
    asked = {"name": STREAM_HEADER, "present_match": True}
    over_grpc = {"name": ":path", "string_match": {"exact": STREAM_PATH}}
    either = {"filters": [{"header_filter": {"header": each}} for each in (asked, over_grpc)]}
    highest = {"default_value": 299, "runtime_key": "slipway.highest_status_of_streams"}
    begun = {"status_code_filter": {"comparison": {"op": "LE", "value": highest}}}
    return {"and_filter": {"filters": [{"or_filter": either}, begun]}}


def _milliseconds(name: str, value: str) -> _Json:
    return {
        "stat": {"name": name, "tags": [_CLUSTER]},
        "unit": "Milliseconds",
        "value_format": value,
    }
