"""nomad:index/aclPolicy:AclPolicy."""

from toolchain.plugins.json_api import JsonApi
from toolchain.plugins.resource import Difference, Operation, Resource, State, failing_as
from toolchain.plugins.wire import Properties

# jobAcl's property -> the API's field
JOB_ACL_FIELDS = {"namespace": "Namespace", "jobId": "JobID", "group": "Group", "task": "Task"}


class NomadAclPolicy(Resource):
    """A Nomad ACL policy. Its id is its name, so a new name makes it a new policy."""

    kind = "nomad:index/aclPolicy:AclPolicy"
    defaults = {"description": ""}

    def __init__(self, api: JsonApi) -> None:
        self._api = api

    def check(self, inputs: Properties) -> dict[str, str]:
        if not inputs.get("name"):
            return {"name": "the registry-only nomad plugin does not generate names: set one"}
        return {}

    def diff(self, old: State, new: Properties) -> Difference:
        changed = self.changed(_settable(old.outputs), _settable(new))
        renamed = changed & {"name"}
        return Difference(changed=changed, replaces=renamed, delete_before_replace=True)

    def planned(self, new: Properties, old: State | None) -> Properties:
        return _outputs(new)

    def create(self, new: Properties, operation: Operation) -> tuple[str, Properties]:
        self._put(new)
        return new["name"], _outputs(new)

    def read(self, old: State) -> State | None:
        policy = self._api.json_if_there("GET", f"/v1/acl/policy/{old.id}")
        if policy is None:
            return None
        job_acl = policy.get("JobACL") or {}
        found = _settable(
            {
                "name": policy["Name"],
                "description": policy.get("Description"),
                "rulesHcl": policy["Rules"],
                "jobAcl": {name: job_acl.get(field) for name, field in JOB_ACL_FIELDS.items()},
            }
        )
        return State(id=old.id, inputs=found, outputs=_outputs(found))

    def update(self, old: State, new: Properties, operation: Operation) -> Properties:
        self._put(new)
        return _outputs(new)

    def delete(self, old: State, operation: Operation) -> None:
        self._api.json_if_there("DELETE", f"/v1/acl/policy/{old.id}")

    def _put(self, new: Properties) -> None:
        policy = {
            "Name": new["name"],
            "Description": new.get("description", ""),
            "Rules": new["rulesHcl"],
        }
        if job_acl := _outputs(new).get("jobAcl"):
            policy["JobACL"] = {field: job_acl[name] for name, field in JOB_ACL_FIELDS.items()}
        with failing_as(f"inserting ACLPolicy {new['name']!r}"):
            self._api.json("POST", f"/v1/acl/policy/{new['name']}", body=policy)


def _settable(properties: Properties) -> Properties:
    """The policy's own properties without empty ones, with the namespace of `jobAcl` filled in."""
    job_acl = _without_empty(properties.get("jobAcl") or {})
    own = {name: properties.get(name) for name in ("name", "description", "rulesHcl")}
    return _without_empty({**own, "jobAcl": job_acl and {"namespace": "default", **job_acl}})


def _outputs(properties: Properties) -> Properties:
    """The policy's own properties as recorded: properties that `jobAcl` leaves out are empty."""
    found = {"description": "", **_settable(properties)}
    if "jobAcl" in found:
        found["jobAcl"] = {**dict.fromkeys(JOB_ACL_FIELDS, ""), **found["jobAcl"]}
    return found


def _without_empty(properties: Properties) -> Properties:
    return {name: value for name, value in properties.items() if value}
