"""A plan of one server and three nodes, written out: the documents depend on nothing else."""

from __future__ import annotations

import dataclasses

from slipway.plan.platform import (
    AutoscalingPlan,
    GatewayPlan,
    MonitoringPlan,
    Node,
    NodeAgentPlan,
    PlatformPlan,
    Pool,
    Server,
)

EDGE = "127.77.0.32"
GIB = 1024**3


def cluster_plan(*, servers: int = 1) -> PlatformPlan:
    return PlatformPlan(
        environment="dev",
        target="dev",
        datacenter="dev",
        cidr="127.77.0.0/24",
        servers=tuple(
            Server(name=f"server-{index}", address=f"127.77.0.{index + 1}")
            for index in range(servers)
        ),
        pools=(_pool("cpu", 16, 2), _pool("edge", 32, 1)),
        models=(),
        gateway=GatewayPlan(
            pool="edge",
            address=EDGE,
            port=8080,
            admin_port=9901,
            xds_port=18000,
            xds_metrics_port=18001,
            xds_bundle="xds-000000000000",
            xds_environment="xds-000000000000",
        ),
        monitoring=MonitoringPlan(pool="edge", address=EDGE, port=9090, scrape_interval_s=5),
        autoscaling=AutoscalingPlan(pool="edge", address=EDGE, port=8081, evaluation_interval_s=5),
        node_agent=NodeAgentPlan(
            bundle="node-0123456789ab",
            environment="node-ba9876543210",
            supervisor_address="127.77.0.1",
            supervisor_port=9001,
        ),
        tools={"consul": "1.22.6", "nomad": "1.11.3"},
    )


def with_more_cpu(plan: PlatformPlan, pool_name: str) -> PlatformPlan:
    """The same plan with a node shape changed in one pool."""
    pools = tuple(
        dataclasses.replace(pool, cpu_mhz=pool.cpu_mhz * 2) if pool.name == pool_name else pool
        for pool in plan.pools
    )
    return dataclasses.replace(plan, pools=pools)


def _pool(name: str, first: int, count: int) -> Pool:
    nodes = tuple(
        Node(
            name=f"{name}-{index}",
            pool=name,
            address=f"127.77.0.{first + index}",
            min_dynamic_port=20000,
            max_dynamic_port=31999,
        )
        for index in range(count)
    )
    return Pool(name=name, kind="local", nodes=nodes, memory_bytes=4 * GIB, cpu_mhz=4000)
