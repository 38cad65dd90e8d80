"""The part of a plan that only AWS has. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from slipway.config import aws as config
from slipway.config.aws import AwsSettings
from slipway.config.aws_cloud import AwsCloudSettings, ImageSettings
from slipway.config.catalog import Instance
from slipway.config.document import Origin
from slipway.config.errors import Problem, raise_if_any, suggestion
from slipway.inputs import PlanInputs
from slipway.plan.aws import AwsHost, AwsImage, AwsLoadBalancer, AwsPlan, AwsPool
from slipway.plan.endpoint import Endpoint

from .aws_prices import network_price, server_price_problems
from .supply.aws_network import zone_network
from .supply.aws_store import uses_own_disks
from .supply.elastic_subnets import subnet_problems
from .supply.network_cards import UnknownCardsError, cards_of, interfaces
from .supply.supplies import Hosts

INTRODUCER_PORT = 4650  # beside Nomad's


def plan_aws(
    inputs: PlanInputs, hosts: Hosts, load_balancer: AwsLoadBalancer | None
) -> AwsPlan | None:
    """None where an environment is not on AWS, or can only be planned. Raises ConfigError with
    every instance and image that cannot be used, or with pools for which the network is too
    small."""
    settings, origin = inputs.environment.settings, inputs.environment.origin
    if not isinstance(settings, AwsSettings) or settings.aws is None:
        return None
    cloud, pools = settings.aws, dict(sorted(settings.bought.items()))
    raise_if_any([*_problems(inputs, pools, cloud, origin)])
    found = {name: _image(inputs, pool, cloud) for name, pool in pools.items()}
    images = {name: _planned(image) for name, image in found.items() if image}
    elastic = {
        name: _elastic(pool, images[name], cloud, inputs.catalog.instances[pool.instance])
        for name, pool in pools.items()
        if not pool.fixed
    }
    raise_if_any([*subnet_problems(settings, elastic, origin)])
    return AwsPlan(
        region=cloud.region,
        zones=tuple(zone_network(settings.network.cidr, zone) for zone in cloud.zones),
        egress=cloud.egress,
        bucket=cloud.bucket,
        kms_key=cloud.kms_key or "",
        tags=dict(cloud.tags),
        authorized_keys=cloud.authorized_keys,
        hosts={
            **{server.name: _server(cloud, hosts.zones[server.name]) for server in hosts.servers},
            **{
                node.name: _host(pool, images[name], hosts.zones[node.name])
                for name, pool in pools.items()
                for node in hosts.supplies[name].hosts
            },
        },
        pools=elastic,
        load_balancer=load_balancer,
        network_usd_per_hour=network_price(cloud, inputs.catalog, elastic=bool(elastic)),
        bundle=inputs.artifacts.bundles["aws"],
        introducers=_introducers(settings, hosts),
    )


def _introducers(settings: AwsSettings, hosts: Hosts) -> tuple[Endpoint, ...]:
    """On every host of the gateway's pool, where pools are elastic."""
    if all(pool.fixed for pool in settings.bought.values()):
        return ()
    return tuple(
        Endpoint(scheme="https", host=node.address, port=INTRODUCER_PORT)
        for node in hosts.supplies[settings.gateway.pool].hosts
    )


def _server(cloud: AwsCloudSettings, zone: str) -> AwsHost:
    return AwsHost(
        zone=zone,
        instance=cloud.server_instance,
        image=_planned(_hosts_image(cloud)),
        root_gib=cloud.server_root_gib,
    )


def _host(pool: config.AwsPool, image: AwsImage, zone: str) -> AwsHost:
    return AwsHost(zone=zone, instance=pool.instance, image=image, root_gib=pool.root_gib)


def _elastic(
    pool: config.AwsPool, image: AwsImage, cloud: AwsCloudSettings, instance: Instance
) -> AwsPool:
    zones = (pool.zone,) if pool.zone else cloud.zones
    efa = instance.efa_interfaces if len(zones) == 1 else 0  # it works within one zone
    return AwsPool(
        zones=zones,
        instance=pool.instance,
        image=image,
        root_gib=pool.root_gib,
        market=pool.market,
        reservation=pool.reservation or "",
        interfaces=interfaces(cards_of(instance), efa),
        local_store=uses_own_disks(pool, instance),
    )


def _many_cards_problems(name: str, instance: Instance, origin: Origin) -> Iterator[Problem]:
    """An instance with one card serves as well without EFA; the others are bought for it."""
    if instance.efa_interfaces and instance.network_cards > 1:
        yield origin.problem(
            ("pools", name, "zone"),
            f"is missing: EFA, for which the instance has {instance.network_cards} network cards,"
            " works within one zone",
            fix="add `zone:`, one of slipway:aws.zones",
        )


def _image(
    inputs: PlanInputs, pool: config.AwsPool, cloud: AwsCloudSettings
) -> ImageSettings | None:
    """That of the pool's kind; elastic pools of processors have that of all hosts where none is
    stated. None if there is none for its accelerators."""
    role = _role(inputs, pool)
    if role:
        return cloud.images.of(role) if role in type(cloud.images).model_fields else None
    return (None if pool.fixed else cloud.images.of("cpu")) or _hosts_image(cloud)


def _hosts_image(cloud: AwsCloudSettings) -> ImageSettings:
    image = cloud.images.of("hosts")
    assert image is not None  # noqa: S101  (it is required)
    return image


def _planned(image: ImageSettings) -> AwsImage:
    return AwsImage(name=image.image, root_device=image.root_device)


def _role(inputs: PlanInputs, pool: config.AwsPool) -> str:
    """The vendor of its accelerators; "" without any."""
    accelerator = inputs.catalog.instances[pool.instance].accelerator
    return inputs.catalog.accelerators[accelerator].vendor if accelerator else ""


def _problems(
    inputs: PlanInputs,
    pools: Mapping[str, config.AwsPool],
    cloud: AwsCloudSettings,
    origin: Origin,
) -> Iterator[Problem]:
    instances = inputs.catalog.instances
    if cloud.server_instance not in instances:
        yield origin.problem(
            ("aws", "server_instance"),
            "is not in catalog/instances.yaml",
            value=cloud.server_instance,
            fix=suggestion(cloud.server_instance, instances),
        )
    else:
        yield from server_price_problems(cloud, inputs.catalog, origin)
    for name, pool in pools.items():
        if _image(inputs, pool, cloud) is None:
            role = _role(inputs, pool)
            yield origin.problem(
                ("aws", "images"),
                f"has no image for pool {name}, whose accelerators are {role}'s",
                fix=f"add `{role}: ami-…`, with that vendor's driver"
                if role in type(cloud.images).model_fields
                else f"use another instance: no engine of Slipway runs on {role}'s accelerators",
            )
        if not pool.fixed and pool.zone is None and len(cloud.zones) > 1:
            yield from _many_cards_problems(name, instances[pool.instance], origin)
        try:
            cards_of(instances[pool.instance])
        except UnknownCardsError:
            yield origin.problem(
                ("pools", name, "instance"),
                "has EFA, and catalog/instances.yaml does not say what its network cards can have",
                value=pool.instance,
                fix="add `interfaces_per_card` of EC2's DescribeInstanceTypes to the catalog",
            )
