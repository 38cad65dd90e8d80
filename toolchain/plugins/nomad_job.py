"""nomad:index/job:Job, and the `nomad` provider."""

# ruff: noqa: ARG002 - the signatures are those of the interface

import json
from collections.abc import Mapping
from typing import Any

from toolchain.plugins import nomad_job_outputs as job_outputs
from toolchain.plugins.json_api import ApiError, JsonApi, setting
from toolchain.plugins.nomad_acl_policy import TOKEN as ACL_POLICY_TOKEN
from toolchain.plugins.nomad_acl_policy import NomadAclPolicy
from toolchain.plugins.nomad_deployment import DeploymentError, wait_for_deployment
from toolchain.plugins.resource import (
    Difference,
    Operation,
    PartlyCreatedError,
    ProviderError,
    Resource,
    Snapshot,
    unknown_outputs,
)
from toolchain.plugins.server import ProviderDefinition
from toolchain.plugins.wire import Properties, is_unknown

TOKEN = "nomad:index/job:Job"  # noqa: S105


class NomadJob(Resource):
    """A job in Nomad, from a JSON jobspec.

    The count of a group belongs to the autoscaler with `preserveCounts`; a job that something else
    has changed since the last refresh is not overwritten by a changed jobspec.
    """

    defaults = {  # noqa: RUF012
        "deregisterOnDestroy": True,
        "deregisterOnIdChange": True,
        "detach": True,
        "json": False,
        "policyOverride": False,
        "preserveCounts": False,
        "purgeOnDestroy": False,
        "readAllocationIds": False,
        "rerunIfDead": False,
    }

    def __init__(self, api: JsonApi) -> None:
        self._api = api

    def check(self, inputs: Properties) -> dict[str, str]:
        if not inputs.get("json") or inputs.get("hcl2"):
            return {
                "json": "the registry-only nomad plugin takes JSON jobspecs only: set json=True"
            }
        if is_unknown(inputs.get("jobspec")):
            return {}
        try:
            _parse(inputs.get("jobspec"))
        except ProviderError as problem:
            return {"jobspec": str(problem)}
        return {}

    def diff(
        self, resource_id: str, old_inputs: Properties, old: Properties, new: Properties
    ) -> Difference:
        # The outputs, not the inputs: a refresh puts what Nomad really runs there.
        recorded = {name: old[name] for name in ("jobspec", *self.defaults) if name in old}
        changed = set(self.changed(recorded, new))
        if is_unknown(new["jobspec"]):
            return Difference(changed=frozenset(changed))
        if "jobspec" in changed and _same_spec(str(old.get("jobspec")), new["jobspec"]):
            changed.discard("jobspec")
        if old.get("status") == "dead" and new.get("rerunIfDead"):
            changed.add("status")
        if "jobspec" not in changed:
            return Difference(changed=frozenset(changed))
        job = _parse(new["jobspec"])
        replaces = self._identity_changes(resource_id, old, new, job)
        if not replaces and job["ID"] == resource_id:
            self._require_unchanged_since_refresh(job, old)
        return Difference(changed=frozenset(changed), replaces=replaces)

    def _identity_changes(
        self, resource_id: str, old: Properties, new: Properties, job: Mapping[str, Any]
    ) -> frozenset[str]:
        moved = job_outputs.namespace(job) != old.get("namespace")
        renamed = job["ID"] != resource_id and new.get("deregisterOnIdChange", True)
        return frozenset({"jobspec"}) if moved or renamed else frozenset()

    def _require_unchanged_since_refresh(self, job: Mapping[str, Any], old: Properties) -> None:
        """Refuse to overwrite what the recorded state has not seen; silent where Nomad is down."""
        try:
            plan = self._api.json(
                "POST",
                f"/v1/job/{job['ID']}/plan",
                {"namespace": job_outputs.namespace(job)},
                {"Job": job, "Diff": False},
            )
        except ProviderError:
            return  # a preview must work without the cluster; the update reports it
        if str(plan["JobModifyIndex"]) != str(old.get("modifyIndex")):
            raise ProviderError(
                "job modify index has changed since last refresh: something else changed job "
                f"{job['ID']!r}; run `pulumi refresh` (or `pulumi up --refresh`) first"
            )

    def planned(self, new: Properties, old: Properties | None) -> Properties:
        inputs = self.with_defaults(new)
        if is_unknown(new["jobspec"]):
            return {**unknown_outputs(*job_outputs.COMPUTED), **inputs}
        job = _parse(new["jobspec"])
        if old is not None and _same_spec(str(old.get("jobspec")), new["jobspec"]):
            return {**old, **inputs}
        known = {
            "name": job["ID"],
            "namespace": job_outputs.namespace(job),
            "type": job.get("Type") or "service",
            "datacenters": job.get("Datacenters") or ["*"],
            "taskGroups": job_outputs.task_groups(job),
        }
        return {**unknown_outputs(*job_outputs.COMPUTED), **known, **inputs}

    def create(self, new: Properties, operation: Operation) -> tuple[str, Properties]:
        job_id = str(_parse(new["jobspec"])["ID"])
        return job_id, self._register(new, operation)

    def update(
        self, resource_id: str, old: Properties, new: Properties, operation: Operation
    ) -> Properties:
        return self._register(new, operation)

    def _register(self, new: Properties, operation: Operation) -> Properties:
        inputs, job = self.with_defaults(new), _parse(new["jobspec"])
        namespace = job_outputs.namespace(job)
        request = {
            "Job": job,
            "PolicyOverride": inputs["policyOverride"],
            "PreserveCounts": inputs["preserveCounts"],
            "Submission": {"Source": new["jobspec"], "Format": "json"},
        }
        try:
            answer = self._api.json("POST", "/v1/jobs", {"namespace": namespace}, request)
        except ProviderError as problem:
            raise ProviderError(f"error applying jobspec: {problem}") from problem
        deployment: Properties = {"deploymentId": "", "deploymentStatus": ""}
        failure: DeploymentError | None = None
        if not inputs["detach"] and answer.get("EvalID"):
            try:
                deployment = wait_for_deployment(self._api, namespace, answer["EvalID"], operation)
            except DeploymentError as problem:
                failure = problem
        found = self._read_outputs(job["ID"], namespace, inputs) or inputs
        outputs = {**found, **deployment}
        if failure is not None:
            message = f"error waiting for job {job['ID']!r} to deploy successfully: {failure}"
            raise PartlyCreatedError(message, str(job["ID"]), outputs) from failure
        return outputs

    def read(self, resource_id: str, inputs: Properties, outputs: Properties) -> Snapshot | None:
        if outputs:
            found = self._read_outputs(resource_id, outputs["namespace"], outputs)
            return None if found is None else Snapshot(inputs=inputs, outputs=found)
        job_id, _, namespace = resource_id.partition("@")
        imported = {**self.defaults, "json": True, "id": job_id}
        found = self._read_outputs(job_id, namespace or "default", imported)
        if found is None:
            return None
        if "jobspec" not in found:
            raise ProviderError(
                f"Nomad no longer has the source of job {job_id!r}: register it anew"
            )
        return Snapshot(inputs={"jobspec": found["jobspec"], "json": True}, outputs=found)

    def _read_outputs(self, job_id: str, namespace: str, recorded: Properties) -> Properties | None:
        """`recorded` brought up to date with what Nomad runs; None where the job is gone."""
        query = {"namespace": namespace}
        try:
            job = self._api.json("GET", f"/v1/job/{job_id}", query)
        except ApiError as problem:
            if problem.status == 404:
                return None
            raise ProviderError(f"error checking for job: {problem}") from problem
        except ProviderError as problem:
            raise ProviderError(f"error checking for job: {problem}") from problem
        outputs = {
            "deploymentId": "",
            "deploymentStatus": "",
            **recorded,
            **job_outputs.computed(job),
        }
        source = self._submitted_source(job_id, job["Version"], query)
        if source and not _same_spec(str(recorded.get("jobspec")), source):
            outputs["jobspec"] = source
        if recorded.get("readAllocationIds"):
            stubs = self._api.json("GET", f"/v1/job/{job_id}/allocations", query)
            outputs["allocationIds"] = [stub["ID"] for stub in stubs]
        return outputs

    def _submitted_source(self, job_id: str, version: int, query: Mapping[str, str]) -> str | None:
        """The jobspec that this version was registered with, where Nomad has kept it."""
        try:
            submission = self._api.json(
                "GET", f"/v1/job/{job_id}/submission", {**query, "version": str(version)}
            )
        except ApiError:
            return None
        return str(submission["Source"]) if submission.get("Format") == "json" else None

    def delete(self, resource_id: str, outputs: Properties, operation: Operation) -> None:
        recorded = self.with_defaults(outputs)
        if not recorded["deregisterOnDestroy"]:
            return
        query = {
            "namespace": str(recorded.get("namespace") or "default"),
            "purge": "true" if recorded["purgeOnDestroy"] else "false",
        }
        try:
            self._api.json("DELETE", f"/v1/job/{resource_id}", query)
        except ApiError as problem:
            if problem.status != 404:
                raise ProviderError(f"error deregistering job: {problem}") from problem
        except ProviderError as problem:
            raise ProviderError(f"error deregistering job: {problem}") from problem


def _parse(jobspec: object) -> dict[str, Any]:
    """The job in a JSON jobspec, with or without its "Job" root.

    Raises:
        ProviderError: it is not JSON, or names no job.
    """
    try:
        root = json.loads(str(jobspec))
    except json.JSONDecodeError as problem:
        raise ProviderError(f"error parsing jobspec: {problem}") from problem
    job = root.get("Job", root) if isinstance(root, dict) else None
    if not isinstance(job, dict) or not job.get("ID"):
        raise ProviderError("error parsing jobspec: input JSON is not a valid Nomad jobspec")
    return job


def _same_spec(old: str, new: str) -> bool:
    """Whether two JSON jobspecs mean the same: order of keys, spaces and nulls do not count."""
    try:
        return bool(_without_nulls(_parse(old)) == _without_nulls(_parse(new)))
    except ProviderError:
        return old == new


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def definition(version: str) -> ProviderDefinition:
    """The `nomad` provider."""
    return ProviderDefinition(
        name="nomad",
        version=version,
        config_keys=frozenset({"address", "secretId"}),
        resources=_resources,
    )


def _resources(config: Properties) -> Mapping[str, Resource]:
    api = JsonApi(
        address=setting(config, "address", "NOMAD_ADDR", default="http://127.0.0.1:4646"),
        token_header="X-Nomad-Token",  # noqa: S106
        token=setting(config, "secretId", "NOMAD_TOKEN"),
    )
    return {TOKEN: NomadJob(api), ACL_POLICY_TOKEN: NomadAclPolicy(api)}
