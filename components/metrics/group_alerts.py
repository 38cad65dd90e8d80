"""Alerts on replicas over several hosts, evaluated by Prometheus; `slipway status` names who is
missing."""

from __future__ import annotations

from collections.abc import Sequence

from components.metrics.alert_rules import alert, rule_file

FILE = "group_alerts.yml"
REPLACED_WITHIN_S = 60  # Nomad places a member again within seconds where a host is free


def group_alerts(models: Sequence[str]) -> str:
    """The rule file, on Nomad's figures of the jobs of these models, whose names have no letters
    that patterns have a use for."""
    waits = alert(
        "GroupIncomplete",
        f'nomad_nomad_job_summary_queued{{exported_job=~"model-({"|".join(models)})-[0-9a-z]+"}}'
        " > 0",
        "{{ $value }} members of {{ $labels.exported_job }} have no host: their replicas do not"
        " serve, and the count of replicas stays as it is",
        "slipway status shows which; slipway hosts shows hosts that are down or take no work",
        for_s=REPLACED_WITHIN_S,
    )
    return rule_file("groups", [waits])
