"""The section `slipway:aws`: where in Amazon's cloud an environment is built, and of what."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Network
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag

from .base import Settings, UsdPerHour, invalid, matching
from .document import KeyPath, Origin
from .errors import Problem, suggestion

# Of the partition `aws`: botocore 1.44.8, data/endpoints.json (2026-11).
REGIONS = (
    "af-south-1",
    "ap-east-1",
    "ap-east-2",
    "ap-northeast-1",
    "ap-northeast-2",
    "ap-northeast-3",
    "ap-south-1",
    "ap-south-2",
    "ap-southeast-1",
    "ap-southeast-2",
    "ap-southeast-3",
    "ap-southeast-4",
    "ap-southeast-5",
    "ap-southeast-6",
    "ap-southeast-7",
    "ca-central-1",
    "ca-west-1",
    "eu-central-1",
    "eu-central-2",
    "eu-north-1",
    "eu-south-1",
    "eu-south-2",
    "eu-west-1",
    "eu-west-2",
    "eu-west-3",
    "il-central-1",
    "me-central-1",
    "me-south-1",
    "mx-central-1",
    "sa-east-1",
    "us-east-1",
    "us-east-2",
    "us-west-1",
    "us-west-2",
)
ZONE_LETTERS = "abcdef"  # us-east-1 has all of them
# Slipway sets these itself.
OWN_TAGS = ("Name", "slipway:environment", "slipway:pool")
MOST_TAGS = 50 - len(OWN_TAGS)  # AWS allows 50 tags on a resource

Image = Annotated[
    str,
    matching(
        r"ami-[0-9a-f]{8}([0-9a-f]{9})?|/[A-Za-z0-9/_.-]{1,1010}",
        allowed="the ID of an image (ami-…), or the path of an SSM parameter that has one (/…)",
        example="ami-0123456789abcdef0",
    ),
]
KmsKey = Annotated[
    str,
    matching(
        r"arn:aws:kms:[a-z0-9-]+:\d{12}:(key/(mrk-[0-9a-f]{32}|[0-9a-f-]{36})|alias/[A-Za-z0-9/_-]+)",
        allowed="the ARN of a KMS key or of an alias",
        example="arn:aws:kms:us-east-1:123456789012:alias/slipway",
    ),
]
Bucket = Annotated[
    str,
    matching(
        r"(?!xn--|sthree-|amzn-s3-demo-)[a-z0-9][a-z0-9-]{1,61}[a-z0-9](?<!-s3alias)(?<!--ol-s3)",
        allowed="3 to 63 lower-case letters, digits and inner hyphens (a dot would break TLS),"
        " without the prefixes and suffixes that S3 keeps (xn--, -s3alias)",
        example="acme-slipway-prod",
    ),
]
TagKey = Annotated[
    str,
    matching(
        r"(?i:(?!aws:))[\w .:/=+@-]{1,128}",
        allowed="1 to 128 letters, digits, spaces or any of .:/=+-@_, not beginning with aws:",
        example="cost-center",
    ),
]
TagValue = Annotated[
    str,
    matching(
        r"[\w .:/=+@-]{0,256}",
        allowed="at most 256 letters, digits, spaces or any of .:/=+-@_",
        example='"42"',
    ),
]
Egress = Literal["endpoints", "nat"]
RootGib = Annotated[int, Field(ge=8, le=16_384)]  # EBS: gp3 has at most 16 TiB
DEFAULT_ROOT_GIB = 100
DEFAULT_ROOT_DEVICE = "/dev/xvda"  # Debian's and Amazon Linux's
MOST_AUTHORIZED_KEYS = 20
PublicKey = Annotated[
    str,
    matching(
        r"(ssh-ed25519|ecdsa-sha2-nistp256|ssh-rsa) [A-Za-z0-9+/]{60,}={0,2}( [ -~]*)?",
        allowed="a public key of OpenSSH (the line in ~/.ssh/id_ed25519.pub)",
        example='"ssh-ed25519 AAAA… operators"',
    ),
]


class ImageSettings(Settings):
    """`root_device` is the name of the image's root volume: by it, the volume gets its size and is
    encrypted."""

    EXAMPLE = "{image: /my/parameter, root_device: /dev/sda1}"
    image: Image
    root_device: Annotated[
        str,
        matching(
            r"/dev/(xvd[a-z]{1,2}|sd[a-z][0-9]{0,2})",
            allowed="the name of the root volume in the image's description",
            example="/dev/sda1, which is Ubuntu's; Debian's and Amazon Linux's is /dev/xvda",
        ),
    ] = DEFAULT_ROOT_DEVICE


def _how_given(value: Any) -> str:
    return "image" if isinstance(value, str) else "settings"


GivenImage = Annotated[
    Annotated[Image, Tag("image")] | Annotated[ImageSettings, Tag("settings")],
    Discriminator(_how_given),
]


class Images(Settings):
    """What the machines boot. `hosts` is for servers and fixed hosts (Debian 12), `cpu` for elastic
    pools without accelerators, `nvidia` and `amd` for pools with them. Each is the ID of an image
    or the path of a parameter, with its `root_device` if that is not /dev/xvda."""

    EXAMPLE = "{hosts: ami-0123456789abcdef0, nvidia: /my/parameter}"
    hosts: GivenImage
    cpu: GivenImage | None = None
    nvidia: GivenImage | None = None
    amd: GivenImage | None = None

    def of(self, role: str) -> ImageSettings | None:
        """None where no image is given for the role."""
        given: str | ImageSettings | None = getattr(self, role)
        return ImageSettings(image=given) if isinstance(given, str) else given


def _client_network(text: str) -> str:
    try:
        return str(IPv4Network(text))
    except ValueError:
        raise invalid(
            "is not an IPv4 network (its host bits must be zero)", fix="write it like 10.0.0.0/8"
        ) from None


MOST_CLIENTS = 50  # a security group has 60 rules in each direction, unless the quota is raised
ClientNetwork = Annotated[str, AfterValidator(_client_network)]


class LoadBalancerSettings(Settings):
    """A network load balancer over the gateway's hosts, for clients with addresses in these
    networks. It passes TLS through. `public` puts it on the internet; otherwise it has addresses in
    the environment's own network alone."""

    EXAMPLE = "{clients: [10.0.0.0/8]}"
    clients: Annotated[tuple[ClientNetwork, ...], Field(max_length=MOST_CLIENTS, strict=False)]
    public: bool = False

    def problems(self, origin: Origin) -> Iterator[Problem]:
        path: KeyPath = ("aws", "load_balancer", "clients")
        if not self.clients:
            yield origin.problem(
                path,
                "must not be empty: nobody could connect",
                fix="name the networks of the clients, or remove the load balancer",
            )
        for index, network in enumerate(self.clients):
            if network in self.clients[:index]:
                yield origin.problem(
                    (*path, index), "is listed twice", value=network, fix="list it once"
                )


class AwsCloudSettings(Settings):
    """Without this section an environment of target aws can only be planned.

    `zones`: fixed hosts are placed in the first three in turn, elastic pools in all. `egress` is
    how hosts without public addresses reach AWS: an interface endpoint per service, or one NAT
    gateway. `bucket` has what hosts fetch when they start; user data names it, so it must be known
    before it exists. `authorized_keys` are those of the operators, who log in to fixed hosts as
    root; a host keeps those that it was made with. `server_instance` is a key of
    catalog/instances.yaml, `server_usd_per_hour` the price of one server, where it differs from the
    catalog's on-demand price. Without a `load_balancer` only operators reach the gateway.
    """

    EXAMPLE = (
        "{region: us-east-1, zones: [us-east-1a], images: {hosts: ami-0123456789abcdef0},"
        " bucket: acme-slipway-prod, authorized_keys: [ssh-ed25519 AAAA…]}"
    )
    region: str
    zones: Annotated[tuple[str, ...], Field(min_length=1, max_length=6, strict=False)]
    images: Images
    bucket: Bucket
    authorized_keys: Annotated[
        tuple[PublicKey, ...], Field(max_length=MOST_AUTHORIZED_KEYS, strict=False)
    ]
    server_instance: str = "m7i.2xlarge"
    server_usd_per_hour: UsdPerHour | None = None
    server_root_gib: RootGib = DEFAULT_ROOT_GIB
    kms_key: KmsKey | None = None
    egress: Egress = "endpoints"
    load_balancer: LoadBalancerSettings | None = None
    tags: Annotated[Mapping[TagKey, TagValue], Field(max_length=MOST_TAGS)] = {}

    def problems(self, origin: Origin) -> Iterator[Problem]:
        yield from self._region_problems(origin)
        if not self.authorized_keys:
            yield origin.problem(
                ("aws", "authorized_keys"),
                "must not be empty: nobody could log in to the hosts",
                fix="add at least one public key",
            )
        yield from self._zone_problems(origin)
        if self.load_balancer is not None:
            yield from self.load_balancer.problems(origin)
        if self.kms_key is not None and self.kms_key.split(":")[3] != self.region:
            yield origin.problem(
                ("aws", "kms_key"),
                f"is a key of another region than {self.region}",
                value=self.kms_key,
                fix=f"name a key of {self.region}: a volume can be encrypted by no other",
            )
        for tag in self.tags:
            if tag in OWN_TAGS:
                yield origin.problem(
                    ("aws", "tags", tag), "is a tag that Slipway sets itself", fix="remove it"
                )

    def _region_problems(self, origin: Origin) -> Iterator[Problem]:
        if self.region not in REGIONS:
            yield origin.problem(
                ("aws", "region"),
                "is not a region of AWS that Slipway knows",
                value=self.region,
                fix=suggestion(self.region, REGIONS),
            )

    def _zone_problems(self, origin: Origin) -> Iterator[Problem]:
        for index, zone in enumerate(self.zones):
            path: KeyPath = ("aws", "zones", index)
            if not _is_zone_of(self.region, zone):
                yield origin.problem(
                    path,
                    f"is not an availability zone of {self.region} (local zones and the IDs of"
                    " zones are not supported)",
                    value=zone,
                    fix=f"write e.g. {self.region}a",
                )
            elif zone in self.zones[:index]:
                yield origin.problem(
                    path, "is listed twice", value=zone, fix="list every zone once"
                )


def _is_zone_of(region: str, zone: str) -> bool:
    return re.fullmatch(rf"{re.escape(region)}[{ZONE_LETTERS}]", zone) is not None
