"""A plan of one server and three nodes, written out: the documents depend on nothing else."""

from __future__ import annotations

import dataclasses

from slipway.plan.certificate_names import peer_names
from slipway.plan.endpoint import PLATFORM, Endpoint
from slipway.plan.fabric import FabricSpec
from slipway.plan.figures import Cost, Figure
from slipway.plan.platform import (
    AutoscalingPlan,
    BudgetPlan,
    EnvoyPlan,
    GatewayPlan,
    MonitoringPlan,
    Node,
    NodeAgentPlan,
    OperatorEnvoy,
    OperatorPlan,
    PlatformPlan,
    Pool,
    SecurityPlan,
    Server,
)

EDGE = "127.77.0.32"
GIB = 1024**3
FREE = Figure(value=0.0, unit="USD/h", basis="declared", source="this machine")


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
        consul=_secured("127.77.0.1", 8501),
        nomad=_secured("127.77.0.1", 4646),
        workload_keys=_secured("127.77.0.1", 4645),
        peers=peer_names("dev"),
        security=SecurityPlan(authorities=(1,), gossip_key=1),
        gateway=GatewayPlan(
            weights="equal",
            envoys=(
                EnvoyPlan(
                    name="envoy",
                    xds_name="xds",
                    pool="edge",
                    node="edge-0",
                    listener=_at(EDGE, 8080),
                    metrics=_at(EDGE, 9901),
                    xds=dataclasses.replace(_secured(EDGE, 18000), server_name="xds.dev.slipway"),
                    xds_http=_secured(EDGE, 18001),
                ),
            ),
            clients=_at(EDGE, 8080),
            shared_address="",
            xds_bundle="xds-000000000000",
            xds_environment="xds-000000000000",
        ),
        monitoring=MonitoringPlan(pool="edge", prometheus=_at(EDGE, 9090), scrape_interval_s=5),
        autoscaling=AutoscalingPlan(
            pool="edge",
            autoscaler=_at(EDGE, 8081),
            evaluation_interval_s=5,
            envoys=1,
            scrape_valid_s=15,
        ),
        snapshots=None,
        node_agent=NodeAgentPlan(
            bundle="host-0123456789ab",
            environment="node-ba9876543210",
            supervisor=_at("127.77.0.1", 9001),
        ),
        ssh=None,
        aws=None,
        operator=OperatorPlan(
            bundle="operator-ab0123456789",
            consul=_secured("127.77.0.1", 8501),
            nomad=_secured("127.77.0.1", 4646),
            prometheus=_at(EDGE, 9090),
            envoys=(
                OperatorEnvoy(
                    listener=_at(EDGE, 8080),
                    metrics=_at(EDGE, 9901),
                    xds_http=_secured(EDGE, 18001),
                ),
            ),
            forwarded=False,
        ),
        tools={"consul": "1.22.6", "nomad": "1.11.3"},
        cost=Cost(
            usd_per_hour=FREE,
            usd_per_month=FREE,
            usd_per_million_output_tokens=None,
            price_date="",
        ),
        usd_per_hour_at_most=0.0,
        budget=BudgetPlan(),
        warnings=(),
    )


def _at(host: str, port: int) -> Endpoint:
    return Endpoint(scheme="http", host=host, port=port)


def _secured(host: str, port: int) -> Endpoint:
    return Endpoint(scheme="https", host=host, port=port, ca=PLATFORM)


def with_more_cpu(plan: PlatformPlan, pool_name: str) -> PlatformPlan:
    """The same plan with a node shape changed in one pool."""
    pools = tuple(
        dataclasses.replace(pool, cpu_mhz=pool.cpu_mhz * 2) if pool.name == pool_name else pool
        for pool in plan.pools
    )
    return dataclasses.replace(plan, pools=pools)


def with_nodes(plan: PlatformPlan, pool_name: str, count: int) -> PlatformPlan:
    """The same plan with another number of nodes in one pool."""
    pools = tuple(
        _pool(pool_name, 100, count) if pool.name == pool_name else pool for pool in plan.pools
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
    return Pool(
        name=name,
        kind="local",
        hosts=nodes,
        range=None,
        memory_bytes=4 * GIB,
        cpu_mhz=4000,
        accelerator="",
        accelerator_names=(),
        accelerator_memory_bytes=0,
        accelerators_per_node=0,
        accelerators_used=0,
        accelerators_used_at_most=0,
        instance="",
        market="owned",
        usd_per_hour=FREE,
        fabric=FabricSpec(),
        quota_nodes=None,
        device_plugin=None,
        model_store=None,
        image=None,
    )
