"""Alerts on accelerators, evaluated by Prometheus; `slipway status` and `hosts` say the same."""

from __future__ import annotations

from components.metrics.alert_rules import alert, rule_file

FILE = "device_alerts.yml"
SCRAPE_JOB = "devices"
SILENT_FOR_S = 60  # Nomad restarts a killed plugin within seconds


def device_alerts() -> str:
    """The rule file. Labels come from the figures' (services/devices/figures/exposition.py)."""
    rules = [
        alert(
            "AcceleratorUnhealthy",
            "slipway_device_healthy == 0",
            "{{ $labels.modelName }} {{ $labels.UUID }} of {{ $labels.node }} takes no work:"
            " {{ $labels.reason }}",
            "slipway hosts shows what still runs on it; after a repair, slipway return HOST",
        ),
        alert(
            "AcceleratorsUnseen",
            f'up{{job="{SCRAPE_JOB}"}} == 0',
            "the accelerators of {{ $labels.node }} are not monitored: its device plugin does not"
            " answer",
            "see slipway logs HOST nomad; Nomad restarts a plugin that exits, so look for repeated"
            " starts",
            for_s=SILENT_FOR_S,
        ),
    ]
    return rule_file("devices", rules)
