"""Data that must not be lost, and data that must not be public."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rules.facts import Unevaluable, flag_or_none, mapping, mappings, text_or_none
from rules.network import INSTANCE, LAUNCH_TEMPLATE
from rules.rule import (
    ALWAYS,
    CONSUL_CLUSTER,
    NODE_POOL,
    NOMAD_CLUSTER,
    PRODUCTION,
    SHARED,
    Resource,
    rule,
)

VOLUME = "aws:ebs/volume:Volume"
FILE_SYSTEM = "aws:efs/fileSystem:FileSystem"
BUCKET = "aws:s3/bucket:Bucket"
BUCKET_V2 = "aws:s3/bucketV2:BucketV2"
BUCKET_ACL = "aws:s3/bucketAcl:BucketAcl"
PUBLIC_ACCESS = "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock"

_ACCESS_BLOCKS = (
    "blockPublicAcls",
    "blockPublicPolicy",
    "ignorePublicAcls",
    "restrictPublicBuckets",
)


@rule(
    VOLUME,
    FILE_SYSTEM,
    INSTANCE,
    LAUNCH_TEMPLATE,
    severity=ALWAYS,
    why="A volume outlives its node in snapshots and returned disks, with weights, logs and prompts"
    " on it.",
    fix="Set `encrypted` to true on every volume, the root volume included.",
)
def unencrypted_volume(owner: Resource) -> Iterator[str]:
    """Every volume is encrypted"""
    for name, volume in _volumes(owner):
        if flag_or_none(volume, "encrypted") is not True:
            yield f"{name} is not encrypted"


def _volumes(owner: Resource) -> Iterator[tuple[str, Mapping[str, Any]]]:
    props = owner.props
    if owner.type in {VOLUME, FILE_SYSTEM}:
        yield "it", props
    elif owner.type == INSTANCE:
        yield "its root volume", mapping(props, "rootBlockDevice")
        for device in mappings(props, "ebsBlockDevices"):
            yield text_or_none(device, "deviceName") or "a volume", device
    else:
        devices = mappings(props, "blockDeviceMappings")
        if not devices:  # the image's own mapping applies, which is not visible here
            yield "its root volume", {}
        for device in devices:
            if mapping(device, "ebs"):
                yield text_or_none(device, "deviceName") or "a volume", mapping(device, "ebs")


@rule(
    NODE_POOL,
    CONSUL_CLUSTER,
    NOMAD_CLUSTER,
    VOLUME,
    FILE_SYSTEM,
    BUCKET,
    BUCKET_V2,
    severity=PRODUCTION,
    why="A renamed key or a moved resource is a replace: unprotected, a whole pool or a cluster's"
    " data goes with one confirmed preview.",
    fix="Set `protect` on the resource. To remove it, first remove `protect` in a separate change.",
)
def unprotected(resource: Resource) -> Iterator[str]:
    """What holds data or machines is protected from deletion"""
    if resource.protect is None:
        raise Unevaluable("the document does not say whether it is protected")
    if not resource.protect:
        yield "is not protected"


@rule(
    BUCKET,
    BUCKET_V2,
    severity=SHARED,
    why="Removing the resource would delete every object: weights, logs, recordings.",
    fix="Leave out `forceDestroy`, and empty the bucket by hand before you remove it.",
)
def force_destroy(bucket: Resource) -> Iterator[str]:
    """A bucket with objects cannot be destroyed"""
    if flag_or_none(bucket.props, "forceDestroy"):
        yield "would be deleted with all of its objects"


@rule(
    BUCKET,
    BUCKET_V2,
    BUCKET_ACL,
    PUBLIC_ACCESS,
    severity=ALWAYS,
    why="Weights may be licensed and logs hold prompts; neither is for everyone.",
    fix="Use no public ACL and block all four kinds of public access.",
)
def public_bucket(bucket: Resource) -> Iterator[str]:
    """No bucket is public"""
    acl = text_or_none(bucket.props, "acl") or ""
    if acl.startswith("public-") or acl == "authenticated-read":
        yield f"has the ACL {acl}"
    if bucket.type == PUBLIC_ACCESS:
        for block in _ACCESS_BLOCKS:
            if flag_or_none(bucket.props, block) is not True:
                yield f"does not set {block}"
