"""nomad:index/job:Job."""

import json
from collections.abc import Mapping
from typing import Any

from toolchain.plugins import nomad_job_outputs as job_outputs
from toolchain.plugins.json_api import JsonApi
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


class NomadJob(Resource):
    """A job in Nomad, from a JSON jobspec.

    With `preserveCounts` a group's count belongs to the autoscaler. A changed jobspec does not
    overwrite a job that has been changed by something else since the last refresh.
    """

    kind = "nomad:index/job:Job"
    recorded_defaults = dict.fromkeys(
        ("deregisterOnDestroy", "deregisterOnIdChange", "detach"), True
    )
    defaults = {
        **recorded_defaults,
        **dict.fromkeys(("json", "policyOverride", "preserveCounts", "purgeOnDestroy"), False),
        **dict.fromkeys(("readAllocationIds", "rerunIfDead"), False),
    }
    unsupported = ("hcl2", "policyOverride", "readAllocationIds")

    def __init__(self, api: JsonApi) -> None:
        self._api = api

    def check(self, inputs: Properties) -> dict[str, str]:
        failures = super().check(inputs)
        if inputs.get("detach") is False:
            failures["detach"] = (
                "the registry-only nomad plugin does not wait for deployments: leave it out"
            )
        if not inputs.get("json"):
            failures["json"] = (
                "the registry-only nomad plugin accepts only JSON jobspecs: set json=True"
            )
        elif not is_unknown(inputs.get("jobspec")):
            try:
                _parse(inputs.get("jobspec"))
            except ProviderError as problem:
                failures["jobspec"] = str(problem)
        return failures

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
        return job_id, self._register(new)

    def update(self, old: State, new: Properties, operation: Operation) -> Properties:
        return self._register(new)

    def _register(self, new: Properties) -> Properties:
        inputs, job = self._recorded(new), _parse(new["jobspec"])
        namespace = job_outputs.namespace(job)
        request = {
            "Job": job,
            "PreserveCounts": inputs["preserveCounts"],
            "Submission": {"Source": new["jobspec"], "Format": "json"},
        }
        with failing_as("applying jobspec"):
            self._api.json("POST", "/v1/jobs", {"namespace": namespace}, request)
        try:
            return self._read_outputs(job["ID"], namespace, inputs) or inputs
        except ProviderError as problem:
            # Nomad has the job, so the state must keep it whatever fails now.
            message = f"job {job['ID']!r} is registered, but its outputs are not known: {problem}"
            known = {**inputs, "name": job["ID"], "namespace": namespace}
            raise PartlyCreatedError(message, str(job["ID"]), known) from problem

    def read(self, old: State) -> State | None:
        if not old.outputs:
            raise ProviderError(
                f"job {old.id!r} cannot be imported: leave out `import_`. Then its jobspec is "
                "registered, and a job that Nomad already runs from the same one goes on as it is"
            )
        found = self._read_outputs(old.id, old.outputs["namespace"], old.outputs)
        return State(id=old.id, inputs=old.inputs, outputs=found) if found else None

    def _read_outputs(self, job_id: str, namespace: str, recorded: Properties) -> Properties | None:
        """`recorded` updated from what Nomad runs; None if the job is gone."""
        query = {"namespace": namespace}
        with failing_as("checking for job"):
            job = self._api.json_if_there("GET", f"/v1/job/{job_id}", query)
        if job is None:
            return None
        outputs = {**self._recorded(recorded), **job_outputs.computed(job)}
        source = self._submitted_source(job_id, job["Version"], query)
        if source and not _same_spec(recorded.get("jobspec"), source):
            outputs["jobspec"] = source
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
