"""An exported stack, changed so that the next update does what the files say."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from slipway.cli.environment import Environment
from slipway.cli.pulumi.state import NOMAD_JOB, is_job_to_delete

JsonObject = dict[str, Any]


def with_jobs_kept(exported: str, jobs: Collection[str]) -> str:
    """An exported stack that will forget, not delete, those of its replaced `jobs` (IDs); the same
    text when it would already.

    Their entries stay until they are forgotten: a run that fails before it has adopted a job
    leaves it owned, and when it is no longer wanted it is to be deleted again. A job that another
    entry owns by now is forgotten too.

    Their gates run again (tainted: replaced by themselves): the change that failed may have taken
    replicas away, and nothing of it may go before they are back.
    """
    stack = json.loads(exported)
    resources = stack["deployment"]["resources"]
    marked = [each for each in resources if is_job_to_delete(each)]
    gates = {f"{_name(each)}-ready" for each in marked if each["id"] in jobs}
    owned = {
        each["id"] for each in resources if each["type"] == NOMAD_JOB and not each.get("delete")
    }

    def repaired(resource: JsonObject) -> JsonObject:
        if is_job_to_delete(resource):
            return _forgotten(resource, really=resource["id"] in {*jobs, *owned})
        return {**resource, "taint": True} if _name(resource) in gates else resource

    stack["deployment"]["resources"] = [repaired(each) for each in resources]
    return exported if stack["deployment"]["resources"] == resources else json.dumps(stack)


def _forgotten(resource: JsonObject, *, really: bool) -> JsonObject:
    """With Pulumi's flag for a deletion that touches nothing but the state, or without it."""
    rest = {key: value for key, value in resource.items() if key != "retainOnDelete"}
    return {**rest, "retainOnDelete": True} if really else rest


def _name(resource: Mapping[str, Any]) -> str:
    return str(resource["urn"].rpartition("::")[2])


def leaving_hosts(environment: Environment) -> Iterable[str]:
    """Those whose removal did not end (services/node/lifecycle.py)."""
    return (path.parent.name for path in (environment.run / "nodes").glob("*/leaving"))


def with_hosts_applied(exported: str, hosts: Collection[str]) -> str:
    """An exported stack that will update the nodes of `hosts`: what it remembers of their inputs
    is no longer what the program asks for. (A tainted node would be removed in the end.)"""
    stack = json.loads(exported)
    nodes = {f"node-{host}" for host in hosts}
    for resource in stack["deployment"]["resources"]:
        if _name(resource) in nodes:
            resource["inputs"] = {**resource["inputs"], "environment": {}}
    return json.dumps(stack)
