"""When an Envoy of a test takes a replica, or its host, for dead.

The platform's own times are short, and a busy machine outlasts them: bench/service_times.py
measures them. Nothing else of a cluster is changed.
"""

from __future__ import annotations

from typing import Any

import pytest
from control_plane import building
from control_plane.resources.clusters import clusters
from control_plane.routing import Route

NEVER_S = 3600.0
_HTTP = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"


def take_for_dead(
    monkeypatch: pytest.MonkeyPatch, *, unchecked_s: float = NEVER_S, silent_s: float = NEVER_S
) -> None:
    """A replica leaves after two checks without an answer of `unchecked_s` each; a connection ends
    `silent_s` after a ping without an answer. A refused connection is one at once."""

    def patient(routes: tuple[Route, ...]) -> dict[str, dict[str, Any]]:
        found = clusters(routes)
        for cluster in found.values():
            cluster["connect_timeout"] = f"{NEVER_S}s"
            cluster["outlier_detection"]["base_ejection_time"] = f"{NEVER_S}s"
            for check in cluster.get("health_checks", ()):
                check["timeout"] = f"{unchecked_s}s"
            if keepalive := _http2(cluster).get("connection_keepalive"):
                keepalive["timeout"] = f"{silent_s}s"
        return found

    monkeypatch.setattr(building, "clusters", patient)


def _http2(cluster: dict[str, Any]) -> dict[str, Any]:
    """Its options of HTTP/2, if it speaks that."""
    options = cluster["typed_extension_protocol_options"][_HTTP]
    versions = options.get("auto_config") or options["explicit_http_config"]
    found: dict[str, Any] = versions.get("http2_protocol_options", {})
    return found
