"""The artifacts of each host: folders of the cache, named by what they contain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from components.gateway.shared_address import KEEPALIVED
from components.hosts.firewall import NFTABLES_PACKAGE, needs_firewall
from slipway.plan.platform import ModelPlan, Node, PlatformPlan, Pool

AGENTS = ("consul", "nomad")
PLATFORM_JOBS = ("envoy", "nomad-autoscaler", "prometheus")
# Debian package -> the file that a host needs of it: one with a shared address, and one that runs
# Triton, whose Python backend is linked with the library of the host's Python.
KEEPALIVED_PACKAGE = {"keepalived": KEEPALIVED}
PYTHON_PACKAGE = {"libpython3.11": "/usr/lib/x86_64-linux-gnu/libpython3.11.so.1.0"}
TRITON = "triton"
# Environments that no other Python can run than the one they are made for: those of engines.
OF_ONE_PYTHON = (TRITON, "vllm", "vllm_cuda")


def node_named(plan: PlatformPlan, host: str) -> Node | None:
    """None for a server."""
    nodes = (node for pool in plan.pools for node in pool.hosts)
    return next((node for node in nodes if node.name == host), None)


def of_host(plan: PlatformPlan, host: str) -> tuple[str, ...]:
    node = node_named(plan, host)
    return of_server(plan) if node is None else of_node(plan, node)


def environments(artifacts: Iterable[str]) -> dict[str, str]:
    """The environments among artifacts: name -> folder."""
    folders = (each.removeprefix("envs/") for each in artifacts if each.startswith("envs/"))
    return {folder.rpartition("-")[0]: folder for folder in folders}


def of_server(plan: PlatformPlan) -> tuple[str, ...]:
    return tuple(sorted(_of_every_host(plan)))


def of_node(plan: PlatformPlan, node: Node) -> tuple[str, ...]:
    """Platform jobs may run on every node of the gateway's pool, replicas on every node of their
    model's."""
    return tuple(sorted({*of_agents(plan, node), *of_replicas(plan, node.pool)}))


def of_agents(plan: PlatformPlan, node: Node) -> tuple[str, ...]:
    """Those of a node's agents and, on the gateway's hosts, of platform jobs."""
    found = set(_of_every_host(plan))
    if node.pool in {envoy.pool for envoy in plan.gateway.envoys}:
        found.update(_tools(plan, PLATFORM_JOBS))
        found.add(f"bundles/{plan.gateway.xds_bundle}")
        found.add(f"envs/{plan.gateway.xds_environment}")
        if plan.device_plugin is not None:  # the job that moves replicas from unhealthy devices
            found.add(f"bundles/{plan.device_plugin.bundle}")
        if plan.aws is not None and plan.aws.introducers:
            found.add(f"bundles/{plan.aws.bundle}")
        found.update(
            f"bundles/{each.fabric_check.bundle}" for each in plan.pools if each.fabric_check
        )
    if (check := plan.pool(node.pool).fabric_check) is not None:
        found.add(f"bundles/{check.bundle}")
    plugin = plan.pool(node.pool).device_plugin
    if plugin is not None:
        found.update((f"bundles/{plugin.bundle}", f"envs/{plugin.environment}"))
    return tuple(sorted(found))


def of_replicas(plan: PlatformPlan, pool: str) -> tuple[str, ...]:
    """Those of every model in the pool."""
    found = set[str]()
    for model in plan.models:
        if model.pool == pool:
            found.update(_of_model(model))
            if model.replica.proxy is not None:
                found.add(f"tools/bin/{model.replica.proxy.tool}")
    return tuple(sorted(found))


def of_image(plan: PlatformPlan, pool: Pool) -> tuple[str, ...]:
    """The environments that run in containers of the pool, by the Python of its image."""
    used = (
        folder
        for model in plan.models
        if model.pool == pool.name and model.replica.container is not None
        for folder in model.replica.environments.values()
    )
    return tuple(sorted({f"envs/{folder}" for folder in used}))


def packages(plan: PlatformPlan, node: Node | None) -> dict[str, str]:
    """Debian packages that must be on a node, or on a server (None), because they are not
    delivered."""
    if node is None:
        return {}
    with_envoy = {envoy.node for envoy in plan.gateway.envoys}
    shares = node.name in with_envoy and plan.gateway.shared_address
    triton = any(
        model.pool == node.pool and TRITON in model.replica.environments for model in plan.models
    )
    return {
        **(KEEPALIVED_PACKAGE if shares else {}),
        **(PYTHON_PACKAGE if triton else {}),
        **(NFTABLES_PACKAGE if needs_firewall(plan, plan.pool(node.pool)) else {}),
    }


def _of_every_host(plan: PlatformPlan) -> Iterator[str]:
    yield from _tools(plan, AGENTS)
    yield f"bundles/{plan.node_agent.bundle}"
    yield f"envs/{plan.node_agent.environment}"


def _of_model(model: ModelPlan) -> Iterator[str]:
    replica = model.replica
    yield f"bundles/{replica.bundle}"
    yield from (f"envs/{folder}" for folder in replica.environments.values())
    if replica.weights is not None and not replica.weights.fetched_by_hosts:
        yield replica.weights.directory


def _tools(plan: PlatformPlan, names: tuple[str, ...]) -> Iterator[str]:
    return (f"tools/bin/{name}-{plan.tools[name]}" for name in names)
