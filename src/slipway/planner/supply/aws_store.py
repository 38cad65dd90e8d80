"""Where instances keep weights: on their own disks (instance store), or on the root volume.

Nodes of an elastic pool mount their own disks at the `path` of its model store
(services/aws/membership/local_disks.py). On fixed hosts somebody mounts a disk there, as on owned
ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from slipway.config.aws import AwsPool
from slipway.config.catalog import Instance
from slipway.config.document import Origin
from slipway.config.errors import Problem
from slipway.config.model_store import AwsModelStoreSettings
from slipway.plan.platform import ModelStore
from slipway.planner.units import GIB

from .model_store import store_of

GB = 10**9  # EC2's: a disk of 125 GB is one of 116.4 GiB for lsblk
# What the file system leaves of the disks. ext4, as nodes make it, took 0.5 % of 125 GB, and less
# of larger disks; an array takes 128 MiB of each of its disks.
USABLE = 0.98
# Of a root volume, for the system, drivers, and environments of engines: ample, and not measured.
ROOT_RESERVE_GIB = 20


def uses_own_disks(pool: AwsPool, instance: Instance) -> bool:
    """Whether the nodes of a pool have their own disks as its model store."""
    return (
        pool.model_store is not None and pool.model_store.path is not None and _has(pool, instance)
    )


def aws_store(
    name: str, pool: AwsPool, instance: Instance, origin: Origin
) -> ModelStore | Problem | None:
    """None where the pool states none."""
    settings = pool.model_store
    if settings is None:
        return None
    for problem in _problems(name, pool, settings, instance, origin):
        return problem
    return store_of(settings, settings.size or usable_bytes(instance))


def usable_bytes(instance: Instance) -> int:
    """What the file system on all disks of an instance holds."""
    return int(instance.nvme_gb * GB * USABLE)


def _has(pool: AwsPool, instance: Instance) -> bool:
    return not pool.fixed and instance.nvme_gb > 0


def _problems(
    name: str,
    pool: AwsPool,
    settings: AwsModelStoreSettings,
    instance: Instance,
    origin: Origin,
) -> Iterator[Problem]:
    if settings.path is not None and not pool.fixed and not instance.nvme_gb:
        yield origin.problem(
            ("pools", name, "model_store", "path"),
            f"names a disk, and {pool.instance} has none of its own",
            value=settings.path,
            fix="remove it (weights are then kept on the root volume), or use an instance with"
            " local disks",
        )
    if settings.size is None:
        if not uses_own_disks(pool, instance):
            yield _without_size(name, pool, settings, instance, origin)
    elif settings.path is None:
        yield from _root_problems(name, pool, settings.size, origin)
    elif uses_own_disks(pool, instance) and settings.size > usable_bytes(instance):
        yield origin.problem(
            ("pools", name, "model_store", "size"),
            f"is more than the disks of {pool.instance} hold, {_gib(usable_bytes(instance))}",
            value=_gib(settings.size),
            fix="leave it out: the store then has all of the disks",
        )


def _without_size(
    name: str,
    pool: AwsPool,
    settings: AwsModelStoreSettings,
    instance: Instance,
    origin: Origin,
) -> Problem:
    """Of a disk that somebody mounts on fixed hosts, or of a folder on the root volume."""
    fix = "add the size of the disk that is mounted there"
    if settings.path is None:
        fix = "add what weights may take of the root volume"
        if _has(pool, instance):
            fix += f", or `path: /mnt/models` for the {instance.nvme_gb} GB of its own disks"
    return origin.problem(
        ("pools", name, "model_store", "size"),
        "is missing: it is known only of disks that the nodes of an elastic pool have themselves",
        fix=fix,
    )


def _root_problems(name: str, pool: AwsPool, size_bytes: int, origin: Origin) -> Iterator[Problem]:
    if size_bytes > (pool.root_gib - ROOT_RESERVE_GIB) * GIB:
        yield origin.problem(
            ("pools", name, "model_store", "size"),
            f"is more than a root volume of {pool.root_gib} GiB has beside {ROOT_RESERVE_GIB} GiB"
            " for the system and engines",
            value=_gib(size_bytes),
            fix=f"set `root_gib: {math.ceil(size_bytes / GIB) + ROOT_RESERVE_GIB}`",
        )


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / GIB:.1f} GiB"
