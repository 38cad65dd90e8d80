"""Edits an exported stack so that the next update does what the files say."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable

from cli.console import say
from cli.environment import Environment
from cli.pulumi.exported import JsonObject, edited, name_of, resources_of
from cli.pulumi.state import NOMAD_JOB, is_job_to_delete

ROUTES_GATE = "routes-acknowledged"  # stacks/platform.py


def with_jobs_kept(exported: str, jobs: Collection[str]) -> str:
    """The exported stack, changed to forget its replaced `jobs` (IDs) instead of deleting them; the
    same text if no change is needed.

    Their entries stay until they are forgotten: if a run fails before it has adopted a job, the job
    still has an owner, and it is deleted again once it is no longer wanted. A job that another
    entry owns by now is forgotten too.

    Their gates run again (they are tainted, so Pulumi replaces them): the failed change may have
    removed replicas, and nothing may be deleted before they are back. The routes' gate also runs
    again as long as any job is to be deleted: Pulumi remembers that it opened, but not that routes
    have moved since.
    """
    resources = resources_of(exported)
    marked = [each for each in resources if is_job_to_delete(each)]
    gates = {f"{name_of(each)}-ready" for each in marked if each["id"] in jobs}
    gates |= {ROUTES_GATE} if marked else set()
    owned = {
        each["id"] for each in resources if each["type"] == NOMAD_JOB and not each.get("delete")
    }

    def repaired(resource: JsonObject) -> JsonObject:
        if is_job_to_delete(resource):
            return _forgotten(resource, really=resource["id"] in {*jobs, *owned})
        return {**resource, "taint": True} if name_of(resource) in gates else resource

    return edited(exported, repaired)


def say_kept(jobs: Collection[str]) -> None:
    say(f"an earlier change failed; still serving and kept: {', '.join(sorted(jobs))}")


def _forgotten(resource: JsonObject, *, really: bool) -> JsonObject:
    """The entry with or without Pulumi's flag for a deletion that changes only the state."""
    rest = {key: value for key, value in resource.items() if key != "retainOnDelete"}
    return {**rest, "retainOnDelete": True} if really else rest


def without_resources(exported: str, urns: Collection[str]) -> str:
    """The exported stack without these resources, on which no other depends then.

    `pulumi state delete` refuses a resource on which others depend, or deletes those too.
    """
    stack = json.loads(exported)
    kept = [each for each in stack["deployment"]["resources"] if each["urn"] not in urns]
    stack["deployment"]["resources"] = [_independent(each, urns) for each in kept]
    return json.dumps(stack)


def _independent(resource: JsonObject, urns: Collection[str]) -> JsonObject:
    def others(names: Iterable[str]) -> list[str]:
        return [name for name in names if name not in urns]

    changed = dict(resource)
    if "dependencies" in changed:
        changed["dependencies"] = others(changed["dependencies"])
    if "propertyDependencies" in changed:
        of_properties = changed["propertyDependencies"]
        changed["propertyDependencies"] = {
            name: others(found or ()) for name, found in of_properties.items()
        }
    return changed


def leaving_hosts(environment: Environment) -> Iterable[str]:
    """Hosts whose removal did not finish (services/host/host/lifecycle.py)."""
    return (path.parent.name for path in (environment.run / "nodes").glob("*/leaving"))


def with_hosts_applied(exported: str, hosts: Collection[str]) -> str:
    """The exported stack, changed so that the nodes of `hosts` are updated: their recorded inputs
    no longer match the program's. (A tainted node would be removed at the end.)"""
    nodes = {f"node-{host}" for host in hosts}

    def marked(resource: JsonObject) -> JsonObject:
        if name_of(resource) not in nodes:
            return resource
        return {**resource, "inputs": {**resource["inputs"], "environment": {}}}

    return edited(exported, marked)
