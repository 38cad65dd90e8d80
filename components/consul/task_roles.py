"""The permissions in Consul of the platform's own jobs."""

from __future__ import annotations

from components.consul import acl
from components.devices.job import JOB_ID as EVACUATION_JOB
from components.metrics.prometheus import JOB_ID as PROMETHEUS_JOB
from components.snapshots.job import JOB_ID as SNAPSHOTS_JOB
from slipway.plan.platform import PlatformPlan


def task_roles(plan: PlatformPlan) -> dict[str, str]:
    """The platform's jobs whose tasks use Consul -> their roles in Consul."""
    control_planes = {envoy.xds_name: acl.CONTROL_PLANE_ROLE for envoy in plan.gateway.envoys}
    snapshots = {SNAPSHOTS_JOB: acl.SNAPSHOTS_ROLE} if plan.snapshots else {}
    evacuation = {EVACUATION_JOB: acl.EVACUATION_ROLE} if plan.device_plugin else {}
    members = {
        f"model-{model.name}-*": acl.MEMBERS_ROLE
        for model in plan.models
        if model.replica.nodes > 1
    }
    return {
        **control_planes,
        **members,
        PROMETHEUS_JOB: acl.PROMETHEUS_ROLE,
        **snapshots,
        **evacuation,
    }
