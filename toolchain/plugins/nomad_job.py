"""nomad:index/job:Job, and the `nomad` provider."""

# ruff: noqa: ARG002 - the interface defines the signatures

import json
from collections.abc import Mapping
from typing import Any

from toolchain.plugins import nomad_job_outputs as job_outputs
from toolchain.plugins.json_api import JsonApi, setting
from toolchain.plugins.nomad_acl_policy import TOKEN as ACL_POLICY_TOKEN
from toolchain.plugins.nomad_acl_policy import NomadAclPolicy
from toolchain.plugins.nomad_deployment import wait_for_deployment
from toolchain.plugins.resource import (
    Difference,
    Operation,
    PartlyCreatedError,
    ProviderError,
    Resource,
    State,
    failing_as,
)
from toolchain.plugins.wire import UNKNOWN, Properties, is_unknown

TOKEN = "nomad:index/job:Job"  # noqa: S105


class NomadJob(Resource):
    """A job in Nomad, from a JSON jobspec.

    With `preserveCounts` a group's count belongs to the autoscaler. A changed jobspec does not
    overwrite a job that has been changed by something else since the last refresh.
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
    recorded_defaults = {  # noqa: RUF012
        "deregisterOnDestroy": True,
        "deregisterOnIdChange": True,
        "detach": True,
    }

    def __init__(self, api: JsonApi) -> None:
        self._api = api

    def check(self, inputs: Properties) -> dict[str, str]:
        if not inputs.get("json") or inputs.get("hcl2"):
            return {
                "json": "the registry-only nomad plugin accepts only JSON jobspecs: set json=True"
            }
        if is_unknown(inputs.get("jobspec")):
            return {}
        try:
            _parse(inputs.get("jobspec"))
        except ProviderError as problem:
            return {"jobspec": str(problem)}
        return {}

    def diff(self, old: State, new: Properties) -> Difference:
        # The outputs and not the inputs, because a refresh puts there what Nomad really runs.
        inputs = ("jobspec", *self.defaults)
        recorded = {name: value for name, value in old.outputs.items() if name in inputs}
        changed = self.changed(recorded, new)
        if is_unknown(new["jobspec"]):
            return Difference(changed=changed)
        if _same_spec(recorded.get("jobspec"), new["jobspec"]):
            changed.discard("jobspec")
        if old.outputs.get("status") == "dead" and new.get("rerunIfDead"):
            changed.add("status")
        if "jobspec" not in changed:
            return Difference(changed=changed)
        job = _parse(new["jobspec"])
        moved = job_outputs.namespace(job) != old.outputs.get("namespace")
        renamed = job["ID"] != old.id
        if moved or (renamed and new.get("deregisterOnIdChange", True)):
            return Difference(changed=changed, replaces={"jobspec"})
        if not renamed:
            self._require_unchanged_since_refresh(job, old.outputs)
        return Difference(changed=changed)

    def _require_unchanged_since_refresh(self, job: Mapping[str, Any], old: Properties) -> None:
        """Refuse to overwrite changes that the recorded state does not have; silent if Nomad is
        down."""
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

    def planned(self, new: Properties, old: State | None) -> Properties:
        inputs = self._recorded(new)
        unknown = dict.fromkeys(job_outputs.COMPUTED, UNKNOWN)
        if is_unknown(new["jobspec"]):
            return {**unknown, **inputs}
        if old is not None and _same_spec(old.outputs.get("jobspec"), new["jobspec"]):
            return {**old.outputs, **inputs}
        job = _parse(new["jobspec"])
        known = {
            "name": job["ID"],
            "namespace": job_outputs.namespace(job),
            "type": job.get("Type") or "service",
            "datacenters": job.get("Datacenters") or ["*"],
            "taskGroups": job_outputs.task_groups(job),
        }
        return {**unknown, **known, **inputs}

    def _recorded(self, inputs: Properties) -> Properties:
        """`inputs` as outputs; two without a default in the official plugin are null there."""
        return {**self.defaults, "policyOverride": None, "purgeOnDestroy": None, **inputs}

    def create(self, new: Properties, operation: Operation) -> tuple[str, Properties]:
        job_id = str(_parse(new["jobspec"])["ID"])
        return job_id, self._register(new, operation)

    def update(self, old: State, new: Properties, operation: Operation) -> Properties:
        return self._register(new, operation)

    def _register(self, new: Properties, operation: Operation) -> Properties:
        inputs, job = self._recorded(new), _parse(new["jobspec"])
        namespace = job_outputs.namespace(job)
        request = {
            "Job": job,
            "PolicyOverride": bool(inputs["policyOverride"]),
            "PreserveCounts": inputs["preserveCounts"],
            "Submission": {"Source": new["jobspec"], "Format": "json"},
        }
        with failing_as("applying jobspec"):
            answer = self._api.json("POST", "/v1/jobs", {"namespace": namespace}, request)
        deployment: Properties = {}
        try:
            if not inputs["detach"] and answer.get("EvalID"):
                deployment = wait_for_deployment(self._api, namespace, answer["EvalID"], operation)
            outputs = self._read_outputs(job["ID"], namespace, inputs)
        except ProviderError as problem:
            # Nomad has the job, so the state must keep it whatever fails now.
            message = f"error waiting for job {job['ID']!r} to deploy successfully: {problem}"
            accepted = self._accepted(job["ID"], namespace, inputs)
            raise PartlyCreatedError(message, str(job["ID"]), accepted) from problem
        return {**(outputs or inputs), **deployment}

    def _accepted(self, job_id: str, namespace: str, inputs: Properties) -> Properties:
        """A job that Nomad has accepted, whether or not Nomad answers now."""
        known = {**inputs, "name": job_id, "namespace": namespace}
        try:
            return self._read_outputs(job_id, namespace, inputs) or known
        except ProviderError:
            return known

    def read(self, old: State) -> State | None:
        if old.outputs:
            found = self._read_outputs(old.id, old.outputs["namespace"], old.outputs)
            return State(id=old.id, inputs=old.inputs, outputs=found) if found else None
        job_id, _, namespace = old.id.rpartition("@")
        if not job_id or not namespace:
            raise ProviderError(
                f"job {old.id!r} does not exist: the id of an import is <job>@<namespace>"
            )
        found = self._read_outputs(job_id, namespace, {"json": True})
        if found is None:
            return None
        if "jobspec" not in found:
            raise ProviderError(
                f"job {job_id!r} cannot be imported: Nomad has no JSON source of it. Register it "
                "once with `nomad job run -json`, or leave out `import_`: creating the resource "
                "registers the declared jobspec under this id"
            )
        inputs = {"jobspec": found["jobspec"], "json": True}
        return State(id=job_id, inputs=inputs, outputs=found)

    def _read_outputs(self, job_id: str, namespace: str, recorded: Properties) -> Properties | None:
        """`recorded` updated from what Nomad runs; None if the job is gone."""
        query = {"namespace": namespace}
        with failing_as("checking for job"):
            job = self._api.json_if_there("GET", f"/v1/job/{job_id}", query)
        if job is None:
            return None
        settings = self._recorded(recorded)
        # A deployment that was not waited for is null; if the job has none it is empty.
        deployment = dict.fromkeys(job_outputs.DEPLOYMENT, None if settings["detach"] else "")
        outputs = {**deployment, **settings, **job_outputs.computed(job)}
        source = self._submitted_source(job_id, job["Version"], query)
        if source and not _same_spec(recorded.get("jobspec"), source):
            outputs["jobspec"] = source
        if recorded.get("readAllocationIds"):
            stubs = self._api.json("GET", f"/v1/job/{job_id}/allocations", query)
            outputs["allocationIds"] = [stub["ID"] for stub in stubs]
        return outputs

    def _submitted_source(self, job_id: str, version: int, query: Mapping[str, str]) -> str | None:
        """The jobspec that this version was registered with, if Nomad has kept it."""
        path = f"/v1/job/{job_id}/submission"
        submission = self._api.json_if_there("GET", path, {**query, "version": str(version)}) or {}
        return str(submission["Source"]) if submission.get("Format") == "json" else None

    def delete(self, old: State, operation: Operation) -> None:
        recorded = self.with_defaults(old.outputs)
        if not recorded["deregisterOnDestroy"]:
            return
        query = {
            "namespace": str(recorded.get("namespace") or "default"),
            "purge": "true" if recorded["purgeOnDestroy"] else "false",
        }
        with failing_as("deregistering job"):
            self._api.json_if_there("DELETE", f"/v1/job/{old.id}", query)


def _parse(jobspec: object) -> dict[str, Any]:
    """The job in a JSON jobspec, with or without its "Job" root.

    Raises:
        ProviderError: it is not JSON or does not name a job.
    """
    try:
        root = json.loads(str(jobspec))
    except json.JSONDecodeError as problem:
        raise ProviderError(f"error parsing jobspec: {problem}") from problem
    job = root.get("Job", root) if isinstance(root, dict) else None
    if not isinstance(job, dict) or not job.get("ID"):
        raise ProviderError("error parsing jobspec: input JSON is not a valid Nomad jobspec")
    return job


def _same_spec(old: object, new: object) -> bool:
    """Whether two JSON jobspecs are equivalent, ignoring order of keys, whitespace and nulls."""
    try:
        return bool(_without_nulls(_parse(old)) == _without_nulls(_parse(new)))
    except ProviderError:
        return old == new


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


CONFIG_KEYS = frozenset({"address", "secretId"})


def resources(config: Properties) -> Mapping[str, Resource]:
    """The `nomad` provider."""
    api = JsonApi(
        address=setting(config, "address", "NOMAD_ADDR", default="http://127.0.0.1:4646"),
        token_header="X-Nomad-Token",  # noqa: S106
        token=setting(config, "secretId", "NOMAD_TOKEN"),
    )
    return {TOKEN: NomadJob(api), ACL_POLICY_TOKEN: NomadAclPolicy(api)}
