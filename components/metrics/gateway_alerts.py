"""Alerts on the gateway, evaluated by Prometheus."""

from __future__ import annotations

from components.metrics.alert_rules import alert, rule_file

FILE = "gateway_alerts.yml"
RESTARTED_WITHIN_S = 120  # the only replica of a model is held while it restarts, too


def gateway_alerts() -> str:
    """The rule file, on the control planes' figures (services/xds/control_plane/metrics.py)."""
    held = alert(
        "ReplicasHeld",
        "slipway_xds_held_replicas > 0",
        "Consul takes {{ $value }} replicas of {{ $labels.model }} for unhealthy, all there are or"
        " half of them at once; the gateway uses those that answer it",
        "slipway status --why MODEL shows them; if they answer, look at Consul's"
        " agents and the network between hosts, else at what these replicas share",
        for_s=RESTARTED_WITHIN_S,
    )
    return rule_file("gateway", [held])
