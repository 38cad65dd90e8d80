"""nomad:index/aclPolicy:AclPolicy."""

# ruff: noqa: ARG002 - the signatures are those of the interface

from toolchain.plugins.json_api import ApiError, JsonApi
from toolchain.plugins.resource import Difference, Operation, ProviderError, Resource, Snapshot
from toolchain.plugins.wire import Properties

TOKEN = "nomad:index/aclPolicy:AclPolicy"  # noqa: S105
# jobAcl's property -> the API's field
JOB_ACL_FIELDS = {"namespace": "Namespace", "jobId": "JobID", "group": "Group", "task": "Task"}


class NomadAclPolicy(Resource):
    """A Nomad ACL policy; its id is its name, so another name is another policy."""

    defaults = {"description": ""}  # noqa: RUF012

    def __init__(self, api: JsonApi) -> None:
        self._api = api

    def check(self, inputs: Properties) -> dict[str, str]:
        if not inputs.get("name"):
            return {"name": "the registry-only nomad plugin makes up no names: set one"}
        return {}

    def diff(
        self, resource_id: str, old_inputs: Properties, old: Properties, new: Properties
    ) -> Difference:
        changed = self.changed(_settable(old), _settable(new))
        return Difference(changed=changed, replaces=changed & {"name"})

    def planned(self, new: Properties, old: Properties | None) -> Properties:
        return self.with_defaults(_settable(new))

    def create(self, new: Properties, operation: Operation) -> tuple[str, Properties]:
        self._put(new)
        return new["name"], self.with_defaults(_settable(new))

    def read(self, resource_id: str, inputs: Properties, outputs: Properties) -> Snapshot | None:
        try:
            policy = self._api.json("GET", f"/v1/acl/policy/{resource_id}")
        except ApiError as problem:
            if problem.status == 404:
                return None
            raise
        job_acl = policy.get("JobACL") or {}
        found: Properties = {
            "name": policy["Name"],
            "description": policy.get("Description", ""),
            "rulesHcl": policy["Rules"],
            "jobAcl": {
                name: job_acl[field] for name, field in JOB_ACL_FIELDS.items() if job_acl.get(field)
            },
        }
        found = _settable(found)
        return Snapshot(inputs=found, outputs=found)

    def update(
        self, resource_id: str, old: Properties, new: Properties, operation: Operation
    ) -> Properties:
        self._put(new)
        return self.with_defaults(_settable(new))

    def delete(self, resource_id: str, outputs: Properties, operation: Operation) -> None:
        try:
            self._api.json("DELETE", f"/v1/acl/policy/{resource_id}")
        except ApiError as problem:
            if problem.status != 404:
                raise

    def _put(self, new: Properties) -> None:
        policy = {
            "Name": new["name"],
            "Description": new.get("description", ""),
            "Rules": new["rulesHcl"],
        }
        if job_acl := _settable(new).get("jobAcl"):
            policy["JobACL"] = {
                field: job_acl[name] for name, field in JOB_ACL_FIELDS.items() if job_acl.get(name)
            }
        try:
            self._api.json("POST", f"/v1/acl/policy/{new['name']}", body=policy)
        except ProviderError as problem:
            raise ProviderError(
                f"error inserting ACLPolicy {new['name']!r}: {problem}"
            ) from problem


def _settable(properties: Properties) -> Properties:
    """The policy's own properties, an empty `jobAcl` left out and its namespace filled in."""
    names = ("name", "description", "rulesHcl", "jobAcl")
    result = {name: properties[name] for name in names if properties.get(name)}
    if "jobAcl" in result:
        result["jobAcl"] = {"namespace": "default", **result["jobAcl"]}
    return result
