"""Prometheus: its configuration and its Nomad job."""

from __future__ import annotations

from typing import Any

import yaml

from components.certificates.task import AUTHORITY, CERTIFICATE, KEY, certificate_files
from components.consul.agent_config import DEVICES
from components.metrics import device_alerts, fabric_alerts, gateway_alerts, group_alerts
from components.metrics.device_alerts import SCRAPE_JOB
from components.nomad.addresses import IN_FILES, in_arguments, in_files
from components.nomad.jobspec import File, Group, HttpCheck, Job, Service, Task
from slipway.plan.certificate_names import LOCALHOST
from slipway.plan.platform import DevicePluginPlan, PlatformPlan

JOB_ID = "prometheus"
OF_MODEL = "__meta_consul_service_metadata_model"


def prometheus_job(plan: PlatformPlan) -> Job:
    monitoring = plan.monitoring
    return Job(
        id=JOB_ID,
        datacenter=plan.datacenter,
        node_pool=monitoring.pool,
        address=monitoring.prometheus.host,
        group=Group(
            name="prometheus",
            count=1,
            ports={"http": monitoring.prometheus.port},
            disk_mb=1024,
            services=(
                Service(
                    name="prometheus",
                    port="http",
                    tags=("metrics",),
                    meta={"metrics_path": "/metrics", "metrics_scheme": "https"},
                    checks=(HttpCheck(path="/-/ready", port="http", protocol="https"),),
                ),
            ),
            tasks=(
                Task(
                    name="prometheus",
                    command="${meta.runtime}/tools/bin/"
                    f"prometheus-{plan.tools['prometheus']}/prometheus",
                    args=(
                        "--config.file=local/prometheus.yml",
                        "--web.config.file=local/web.yml",
                        "--storage.tsdb.path=${NOMAD_ALLOC_DIR}/data/prometheus",
                        "--storage.tsdb.retention.time=7d",
                        "--storage.tsdb.retention.size=900MB",
                        f"--web.listen-address={in_arguments(monitoring.prometheus).authority}",
                    ),
                    files=(
                        *certificate_files(JOB_ID, change_mode="noop"),
                        File(
                            path="local/prometheus.yml",
                            content=prometheus_config(plan),
                            templates=(IN_FILES,),
                        ),
                        File(path="local/web.yml", content=web_config(plan), templates=(IN_FILES,)),
                        *(
                            File(path=f"local/{name}", content=rules)
                            for name, rules in _alerts(plan)
                        ),
                    ),
                    consul_identity=True,
                    cpu_mhz=100,
                    memory_mb=256,
                ),
            ),
        ),
    )


def prometheus_config(plan: PlatformPlan) -> str:
    """prometheus.yml: everything is found through Consul, with the task's own token."""
    interval_s = plan.monitoring.scrape_interval_s
    config = {
        "global": {
            "scrape_interval": f"{interval_s}s",
            "scrape_timeout": f"{min(interval_s, 5)}s",
            "external_labels": {"environment": plan.environment},
        },
        "rule_files": [name for name, _ in _alerts(plan)],
        "scrape_configs": [
            *_services(plan),
            _consul_agents(plan),
            _nomad_agents(plan),
            *([_devices(plan, plan.device_plugin)] if plan.device_plugin else []),
        ],
    }
    return yaml.safe_dump(config, sort_keys=True)


def _alerts(plan: PlatformPlan) -> tuple[tuple[str, str], ...]:
    """Names and contents of the rule files."""
    found = [(gateway_alerts.FILE, gateway_alerts.gateway_alerts())]
    if plan.device_plugin is not None:
        found.append((device_alerts.FILE, device_alerts.device_alerts()))
    if groups := [model.name for model in plan.models if model.replica.nodes > 1]:
        found.append((group_alerts.FILE, group_alerts.group_alerts(groups)))
    if any(pool.fabric_check for pool in plan.pools):
        found.append((fabric_alerts.FILE, fabric_alerts.fabric_alerts()))
    return tuple(found)


def web_config(plan: PlatformPlan) -> str:
    """Prometheus's TLS: its clients are itself, the autoscaler, the gateway's control planes, the
    operator, and Consul's agent on the same node, whose check shows the node's certificate."""
    peers, own_node = plan.peers, in_files(plan.monitoring.prometheus).host
    control_planes = plan.gateway.envoys[0].xds.server_name  # they share one name
    clients = [peers.prometheus, peers.autoscaler, control_planes, peers.operator, own_node]
    config = {
        # Prometheus reads this file, and those that it names, again for each connection.
        "tls_server_config": {
            **_certificate_files("cert_file", "key_file", "client_ca_file"),
            "client_auth_type": "RequireAndVerifyClientCert",
            "client_allowed_sans": clients,
            "min_version": "TLS13",
        }
    }
    return yaml.safe_dump(config, sort_keys=True)


def _consul_discovery(plan: PlatformPlan, **selection: Any) -> list[dict[str, Any]]:
    return [
        {
            "server": plan.consul.at(in_files(plan.monitoring.prometheus).host).authority,
            "scheme": "https",
            "tls_config": _certificate(),
            "authorization": _consul_token(),
            "refresh_interval": "5s",
            **selection,
        }
    ]


def _consul_token() -> dict[str, str]:
    # Relative to the configuration file in local/; Nomad writes the workload's token there.
    return {"credentials_file": "../secrets/consul_token"}


def _certificate() -> dict[str, str]:
    """Prometheus reads these files again for each connection."""
    return _certificate_files("cert_file", "key_file", "ca_file")


def _certificate_files(certificate: str, key: str, authority: str) -> dict[str, str]:
    """The files by these keys, relative to the configuration file in local/."""
    paths = {certificate: CERTIFICATE, key: KEY, authority: AUTHORITY}
    return {name: f"../{path}" for name, path in paths.items()}


def _services(plan: PlatformPlan) -> list[dict[str, Any]]:
    """Every service that registers with the tag `metrics` and the path of its metrics. Replicas on
    nodes of a range are verified by name, so replicas then have a section of their own."""
    if not _has_ranges(plan):
        return [_services_that(plan, "services", _certificate())]
    by_name = {**_certificate(), "server_name": plan.peers.replica}
    same_job = {"target_label": "job", "replacement": "services"}
    return [
        _services_that(plan, "services", _certificate(), _drop(OF_MODEL, ".+")),
        _services_that(plan, "replicas", by_name, _keep(OF_MODEL, ".+"), same_job),
    ]


def _has_ranges(plan: PlatformPlan) -> bool:
    return any(pool.range is not None for pool in plan.pools)


def _of_hosts(plan: PlatformPlan) -> dict[str, str]:
    """Agents of a range have no address in their certificates; every host's has this name."""
    return {**_certificate(), **({"server_name": LOCALHOST} if _has_ranges(plan) else {})}


def _services_that(
    plan: PlatformPlan, name: str, tls: dict[str, str], *selection: dict[str, Any]
) -> dict[str, Any]:
    return {
        "job_name": name,
        "tls_config": tls,
        "consul_sd_configs": _consul_discovery(plan, tags=["metrics"]),
        "relabel_configs": [
            *selection,
            # Agents need a token; they have their own scrape jobs below.
            _drop("__meta_consul_service", "consul-agent"),
            _copy("__meta_consul_service_metadata_metrics_path", "__metrics_path__", "(.+)"),
            _copy("__meta_consul_service_metadata_metrics_scheme", "__scheme__", "(.+)"),
            _copy("__meta_consul_service_metadata_metrics_format", "__param_format", "(.+)"),
            # Envoy: without it statistics that were never used are sent, too.
            _copy("__meta_consul_service_metadata_metrics_used_only", "__param_usedonly", "(.+)"),
            _copy("__meta_consul_service", "service"),
            _copy("__meta_consul_node", "node"),
            _copy(OF_MODEL, "model", "(.+)"),
            # The name that a replica keeps when it restarts elsewhere; weights are kept by it.
            _copy("__meta_consul_service_metadata_replica", "replica", "(.+)"),
        ],
    }


def _consul_agents(plan: PlatformPlan) -> dict[str, Any]:
    return {
        "job_name": "consul",
        "metrics_path": "/v1/agent/metrics",
        "scheme": "https",
        "tls_config": _of_hosts(plan),
        "params": {"format": ["prometheus"]},
        "authorization": _consul_token(),
        "consul_sd_configs": _consul_discovery(plan, services=["consul-agent"]),
        "relabel_configs": [_copy("__meta_consul_node", "node")],
    }


def _nomad_agents(plan: PlatformPlan) -> dict[str, Any]:
    return {
        "job_name": "nomad",
        "metrics_path": "/v1/metrics",
        "scheme": "https",
        "tls_config": _of_hosts(plan),
        "params": {"format": ["prometheus"]},
        "consul_sd_configs": _consul_discovery(
            plan, services=["nomad", "nomad-client"], tags=["http"]
        ),
        "relabel_configs": [_copy("__meta_consul_node", "node")],
    }


def _devices(plan: PlatformPlan, plugin: DevicePluginPlan) -> dict[str, Any]:
    """The device plugins of nodes that have devices: children of their Nomad agents."""
    return {
        "job_name": SCRAPE_JOB,
        "scheme": "https",
        "tls_config": _of_hosts(plan),
        "consul_sd_configs": _consul_discovery(plan, services=["nomad-client"], tags=["http"]),
        "relabel_configs": [
            _keep(f"__meta_consul_metadata_{DEVICES}", ".+"),
            _copy("__meta_consul_node", "node"),
            {
                "source_labels": ["__address__"],
                "regex": "(.+):[0-9]+",
                "target_label": "__address__",
                "replacement": f"$1:{plugin.figures_port}",
            },
        ],
    }


def _copy(source: str, target: str, regex: str | None = None) -> dict[str, Any]:
    rule: dict[str, Any] = {"source_labels": [source], "target_label": target}
    return rule | ({"regex": regex} if regex else {})


def _keep(source: str, regex: str) -> dict[str, Any]:
    return {"source_labels": [source], "regex": regex, "action": "keep"}


def _drop(source: str, regex: str) -> dict[str, Any]:
    return {"source_labels": [source], "regex": regex, "action": "drop"}
