"""Pulumi's state of an environment; in our file backend it is read without Pulumi."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cli.environment import Environment

PROJECT = "slipway"
NOMAD_JOB = "nomad:index/job:Job"
REMOTE_COMMAND = "command:remote:Command"
PLATFORM = "slipway:index:Platform"
AUTHORITY = "slipway:index:CertificateAuthority"


@dataclass(frozen=True, slots=True, kw_only=True)
class StackState:
    """`resource_types` has one entry per resource. `interrupted` are the names of resources that
    were being created when an earlier run ended. `jobs_to_delete` are the Nomad jobs that a failed
    run has replaced but not deleted. `protected` are the URNs of resources that must not be
    destroyed. `usd_per_hour` is the planned cost of the environment at the declared load; 0
    without prices. `authorities` are those that everybody trusts, generations and
    fingerprints; the first signs."""

    resource_types: tuple[str, ...] = ()
    interrupted: tuple[str, ...] = ()
    jobs_to_delete: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    usd_per_hour: float = 0.0
    authorities: tuple[int | str, ...] = ()

    @property
    def needs_cluster(self) -> bool:
        """Whether a refresh asks Nomad or Consul."""
        return any(kind.startswith(("nomad:", "consul:")) for kind in self.resource_types)

    @property
    def needs_ssh(self) -> bool:
        """Whether a removal runs programs on hosts."""
        return REMOTE_COMMAND in self.resource_types


def read_state(environment: Environment) -> StackState | None:
    """The stack's state; None if the stack does not exist."""
    try:
        document = json.loads(_checkpoint(environment).read_text())
    except FileNotFoundError:
        return None
    return state_of(document["checkpoint"].get("latest") or {})


def state_of(deployment: Mapping[str, Any]) -> StackState:
    """The state in a deployment, from a checkpoint or from `pulumi stack export`."""
    resources = deployment.get("resources") or []
    cost = _facts(resources, PLATFORM).get("cost") or {}
    return StackState(
        resource_types=tuple(resource["type"] for resource in resources),
        jobs_to_delete=tuple(
            resource["id"] for resource in resources if is_job_to_delete(resource)
        ),
        interrupted=tuple(
            operation["resource"]["urn"].rpartition("::")[2]
            for operation in deployment.get("pending_operations") or []
            if operation["type"] == "creating"
        ),
        protected=tuple(resource["urn"] for resource in resources if resource.get("protect")),
        usd_per_hour=float(cost.get("usd_per_hour") or 0),
        authorities=tuple(_facts(resources, AUTHORITY).get("authorities") or ()),
    )


def _facts(resources: Iterable[Mapping[str, Any]], component: str) -> Mapping[str, Any]:
    """Those of the first component of this type; empty without one."""
    for resource in resources:
        if resource["type"] == component:
            facts: Mapping[str, Any] = resource.get("inputs", {}).get("facts", {})
            return facts
    return {}


def is_job_to_delete(resource: Mapping[str, Any]) -> bool:
    """Whether a resource of a deployment is a replaced Nomad job that is still to be deleted."""
    return bool(resource.get("delete")) and resource["type"] == NOMAD_JOB


def lock_files(environment: Environment) -> Iterator[Path]:
    """Pulumi's locks of this stack."""
    folder = environment.state / ".pulumi" / "locks" / "organization" / PROJECT / environment.name
    yield from sorted(folder.glob("*.json"))


def forget(environment: Environment) -> None:
    """Removes the stack with its backups and history, like `pulumi stack rm --force`.

    Does not use Pulumi, which may be missing from the cache or unable to read a damaged state.
    """
    current = _checkpoint(environment)
    for file in current.parent.glob(f"{environment.name}.json*"):
        file.unlink(missing_ok=True)
    for kept in ("backups", "history"):
        folder = environment.state / ".pulumi" / kept / PROJECT / environment.name
        shutil.rmtree(folder, ignore_errors=True)


def _checkpoint(environment: Environment) -> Path:
    return environment.state / ".pulumi" / "stacks" / PROJECT / f"{environment.name}.json"
