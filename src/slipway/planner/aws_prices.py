"""What an environment on AWS pays for beside its pools: its servers, and parts of its network.
Pure."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from slipway.config.aws import AwsSettings
from slipway.config.aws_cloud import AwsCloudSettings
from slipway.config.catalog import Catalog
from slipway.config.document import Origin
from slipway.config.errors import Problem
from slipway.inputs import PlanInputs
from slipway.plan.aws import AwsPlan
from slipway.plan.aws_endpoints import interface_endpoints
from slipway.plan.figures import Figure

from .fleet.cost import old_price_warning
from .supply.supply import price
from .wording import counted

# Keys of catalog/services.yaml.
LOAD_BALANCER, ENDPOINT, NAT, ADDRESS = (
    "network-load-balancer",
    "interface-endpoint",
    "nat-gateway",
    "public-address",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BesidePools:
    """Something that is paid for all the time. `priced` is its entry of catalog/<file>.yaml whose
    price is oldest, `price_date` that price's date: ISO, "" of a declared price."""

    name: str
    priced: str
    file: str
    usd_per_hour: Figure
    price_date: str


def beside_pools(inputs: PlanInputs, aws: AwsPlan | None) -> tuple[BesidePools, ...]:
    """Nothing where it is not known what will be built."""
    settings, catalog = inputs.environment.settings, inputs.catalog
    if not isinstance(settings, AwsSettings) or settings.aws is None or aws is None:
        return ()
    servers = _servers(settings.servers, settings.aws, catalog, inputs.environment.origin)
    parts = network_parts(settings.aws, elastic=bool(aws.pools))
    oldest = min(parts, key=lambda part: catalog.services[part].date)  # there are some
    network = BesidePools(
        name="network",
        priced=oldest,
        file="services",
        usd_per_hour=aws.network_usd_per_hour,
        price_date=catalog.services[oldest].date.isoformat(),
    )
    return servers, network


def beside_warnings(parts: Iterable[BesidePools], today: datetime.date | None) -> Iterator[str]:
    """Prices that are old at `today`."""
    if today is None:
        return
    for each in parts:
        yield from old_price_warning(each.priced, each.price_date, each.file, today)


def server_price_problems(
    cloud: AwsCloudSettings, catalog: Catalog, origin: Origin
) -> Iterator[Problem]:
    """Servers without a price would be counted as if they cost nothing."""
    instance = catalog.instances[cloud.server_instance]
    if cloud.server_usd_per_hour is None and instance.usd_per_hour is None:
        yield origin.problem(
            ("aws", "server_instance"),
            "has no price: catalog/instances.yaml has none for it",
            value=cloud.server_instance,
            fix="add `server_usd_per_hour:`, the cost of one server, to slipway:aws",
        )


def _servers(count: int, cloud: AwsCloudSettings, catalog: Catalog, origin: Origin) -> BesidePools:
    name, declared = cloud.server_instance, cloud.server_usd_per_hour
    instance = catalog.instances[name]
    one = instance.usd_per_hour if declared is None else declared
    assert one is not None  # noqa: S101  (server_price_problems)
    source = (
        f", {origin.source}: aws.server_usd_per_hour"
        if declared is not None
        else f" on demand, {instance.price_source}"
    )
    return BesidePools(
        name="servers",
        priced=name,
        file="instances",
        usd_per_hour=price(count * one, f"{count} x {name}{source}"),
        price_date=instance.priced_on.isoformat() if declared is None else "",
    )


def network_parts(cloud: AwsCloudSettings, *, elastic: bool) -> Mapping[str, int]:
    """How many there are of what costs something, by the key of its price."""
    zones, nat = len(cloud.zones), cloud.egress == "nat"
    balancer = cloud.load_balancer
    counts = {
        LOAD_BALANCER: 1 if balancer else 0,
        ENDPOINT: zones * len(interface_endpoints(cloud.egress, elastic=elastic)),
        NAT: 1 if nat else 0,
        ADDRESS: (1 if nat else 0) + (zones if balancer and balancer.public else 0),
    }
    return {part: count for part, count in counts.items() if count}


def network_price(cloud: AwsCloudSettings, catalog: Catalog, *, elastic: bool) -> Figure:
    parts = network_parts(cloud, elastic=elastic)
    hourly = sum(count * catalog.services[part].usd_per_hour for part, count in parts.items())
    return price(hourly, f"{_listed(parts)}, without traffic: catalog/services.yaml")


def _listed(parts: Mapping[str, int]) -> str:
    words = {
        LOAD_BALANCER: "network load balancer",
        ENDPOINT: "interface endpoint",
        NAT: "NAT gateway",
        ADDRESS: "public IPv4",
    }
    return " + ".join(counted(count, words[part]) for part, count in parts.items())
