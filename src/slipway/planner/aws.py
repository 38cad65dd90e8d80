"""The part of a plan that only AWS has. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from slipway.config.aws import AwsPool, AwsSettings
from slipway.config.aws_cloud import AwsCloudSettings
from slipway.config.catalog import Instance
from slipway.config.document import Origin
from slipway.config.errors import Problem, raise_if_any, suggestion
from slipway.inputs import PlanInputs
from slipway.plan import aws as plan
from slipway.plan.figures import Figure

from .supply.aws_hosts import fixed_hosts
from .supply.aws_network import zone_network
from .supply.network_cards import UnknownCardsError, cards_of, interfaces
from .supply.supply import price


def plan_aws(inputs: PlanInputs) -> plan.AwsPlan | None:
    """None where an environment is not on AWS, or can only be planned. Raises ConfigError with
    every instance and image that cannot be used."""
    settings, origin = inputs.environment.settings, inputs.environment.origin
    if not isinstance(settings, AwsSettings) or settings.aws is None:
        return None
    cloud, instances = settings.aws, inputs.catalog.instances
    raise_if_any([*_problems(inputs, settings, cloud, origin)])
    return plan.AwsPlan(
        region=cloud.region,
        zones=tuple(_zone(settings.network.cidr, zone) for zone in cloud.zones),
        egress=cloud.egress,
        bucket=cloud.bucket,
        kms_key=cloud.kms_key or "",
        tags=dict(cloud.tags),
        hosts=_hosts(inputs, settings, cloud, origin),
        pools={
            name: _elastic(inputs, pool, cloud, instances[pool.instance])
            for name, pool in sorted(settings.bought.items())
            if not pool.fixed
        },
    )


def servers_usd_per_hour(inputs: PlanInputs) -> Figure | None:
    """What the servers cost; None where they are not instances that the plan knows."""
    settings = inputs.environment.settings
    if not isinstance(settings, AwsSettings) or settings.aws is None:
        return None
    name = settings.aws.server_instance
    instance = inputs.catalog.instances.get(name)
    if instance is None or instance.usd_per_hour is None:
        return None
    source = f"{settings.servers} x {name} on demand, {instance.price_source}"
    return price(settings.servers * instance.usd_per_hour, source)


def _zone(cidr: str, zone: str) -> plan.AwsZone:
    found = zone_network(cidr, zone)
    return plan.AwsZone(
        name=zone,
        hosts=found.hosts,
        services=found.services,
        public=found.public,
        elastic=found.elastic,
    )


def _hosts(
    inputs: PlanInputs, settings: AwsSettings, cloud: AwsCloudSettings, origin: Origin
) -> Mapping[str, plan.AwsHost]:
    fixed = fixed_hosts(settings, origin)
    found = {
        host.name: plan.AwsHost(
            zone=fixed.zones[host.name],
            instance=cloud.server_instance,
            image=cloud.images.hosts,
            root_gib=cloud.server_root_gib,
        )
        for host in fixed.servers
    }
    for name, hosts in fixed.pools.items():
        pool = settings.bought[name]
        for host in hosts:
            found[host.name] = plan.AwsHost(
                zone=fixed.zones[host.name],
                instance=pool.instance,
                image=_image(inputs, pool, cloud) or cloud.images.hosts,
                root_gib=pool.root_gib,
            )
    return found


def _elastic(
    inputs: PlanInputs, pool: AwsPool, cloud: AwsCloudSettings, instance: Instance
) -> plan.AwsPool:
    return plan.AwsPool(
        zones=(pool.zone,) if pool.zone else cloud.zones,
        image=_image(inputs, pool, cloud) or cloud.images.hosts,
        root_gib=pool.root_gib,
        reservation=pool.reservation or "",
        interfaces=tuple(
            plan.AwsInterface(card=each.card, device=each.device, kind=each.kind)
            for each in interfaces(cards_of(instance), instance.efa_interfaces)
        ),
    )


def _image(inputs: PlanInputs, pool: AwsPool, cloud: AwsCloudSettings) -> str | None:
    """That of the pool's kind; processors have that of all hosts where none is stated."""
    role = _role(inputs, pool)
    return getattr(cloud.images, role, None) if role else cloud.images.cpu or cloud.images.hosts


def _role(inputs: PlanInputs, pool: AwsPool) -> str:
    """The vendor of its accelerators; "" without any."""
    accelerator = inputs.catalog.instances[pool.instance].accelerator
    return inputs.catalog.accelerators[accelerator].vendor if accelerator else ""


def _problems(
    inputs: PlanInputs, settings: AwsSettings, cloud: AwsCloudSettings, origin: Origin
) -> Iterator[Problem]:
    instances = inputs.catalog.instances
    if cloud.server_instance not in instances:
        yield origin.problem(
            ("aws", "server_instance"),
            "is not in catalog/instances.yaml",
            value=cloud.server_instance,
            fix=suggestion(cloud.server_instance, instances),
        )
    for name, pool in sorted(settings.bought.items()):
        if _image(inputs, pool, cloud) is None:
            role = _role(inputs, pool)
            yield origin.problem(
                ("aws", "images"),
                f"has no image for pool {name}, whose accelerators are {role}'s",
                fix=f"add `{role}: ami-…`, with that vendor's driver"
                if role in type(cloud.images).model_fields
                else f"use another instance: no engine of Slipway runs on {role}'s accelerators",
            )
        try:
            cards_of(instances[pool.instance])
        except UnknownCardsError:
            yield origin.problem(
                ("pools", name, "instance"),
                "has EFA, and catalog/instances.yaml does not say what its network cards can have",
                value=pool.instance,
                fix="add `interfaces_per_card` of EC2's DescribeInstanceTypes to the catalog",
            )
