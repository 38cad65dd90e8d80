"""Alerts on the fabric of hosts, evaluated by Prometheus; `slipway status` and `hosts` say the
same."""

from __future__ import annotations

from components.metrics.alert_rules import alert, rule_file

FILE = "fabric_alerts.yml"
ADMITTED = "slipway_fabric_admitted"  # services/fabric/admission/page.py
SILENT_FOR_S = 120


def fabric_alerts() -> str:
    """The rule file. Labels come from the figure's."""
    rules = [
        alert(
            "FabricCheckNotPassed",
            f"{ADMITTED} == 0",
            "{{ $labels.host }} of {{ $labels.pool }} takes no members of groups:"
            " {{ $labels.reason }}",
            "{{ $labels.fix }}; then slipway check {{ $labels.host }}",
            for_s=SILENT_FOR_S,
        ),
        alert(
            "FabricUnchecked",
            f"absent({ADMITTED})",
            "nobody says which hosts take members of groups: the last verdicts hold",
            "slipway status shows the job fabric-admission; slipway logs says why it does not run",
            for_s=SILENT_FOR_S,
        ),
    ]
    return rule_file("fabric", rules)
