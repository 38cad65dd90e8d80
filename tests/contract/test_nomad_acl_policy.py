"""nomad.AclPolicy through the official SDK, the real CLI and a real Nomad with ACLs."""

import pytest

from tests.contract.agents import MANAGEMENT_TOKEN, Agent
from tests.contract.operations import idle_operation, recorded
from tests.contract.stack import Stack
from toolchain.plugins.json_api import JsonApi
from toolchain.plugins.nomad_acl_policy import NomadAclPolicy

pytestmark = pytest.mark.binaries

PROGRAM = """
import pulumi_nomad
provider = pulumi_nomad.Provider("nomad", address=address, secret_id=token)
pulumi_nomad.AclPolicy(
    "policy",
    name=name,
    description="may read",
    rules_hcl='namespace "default" { policy = "%s" }' % level,
    job_acl=pulumi_nomad.AclPolicyJobAclArgs(job_id="some-job"),
    opts=pulumi.ResourceOptions(provider=provider, import_=import_id),
)
"""


def test_a_policy_is_imported_updated_repaired_renamed_and_deleted(
    stack: Stack, nomad: Agent
) -> None:
    policy = {
        "Name": "reader",
        "Description": "may read",
        "Rules": 'namespace "default" { policy = "read" }',
        "JobACL": {"Namespace": "default", "JobID": "some-job"},
    }
    nomad.call("POST", "/v1/acl/policy/reader", policy)
    access = {"address": nomad.address, "token": MANAGEMENT_TOKEN}
    stack.program(PROGRAM, **access, name="reader", level="read", import_id="reader")
    imported = stack.up()
    assert imported.steps == [("import", "policy")], imported.output
    stack.program(PROGRAM, **access, name="reader", level="read", import_id=None)
    assert stack.preview("--expect-no-changes").ok
    job_acl = {"namespace": "default", "jobId": "some-job", "group": "", "task": ""}
    assert stack.outputs("policy")["jobAcl"] == job_acl

    foreign = {**policy, "Description": "changed outside"}
    nomad.call("POST", "/v1/acl/policy/reader", foreign)
    stack.program(PROGRAM, **access, name="reader", level="write", import_id=None)
    assert stack.up("--refresh").steps == [("update", "policy")]
    mended = nomad.call("GET", "/v1/acl/policy/reader")
    assert mended["Description"] == "may read"
    assert "write" in mended["Rules"]
    assert mended["JobACL"]["JobID"] == "some-job"

    stack.program(PROGRAM, **access, name="writer", level="write", import_id=None)
    assert [operation for operation, _ in stack.up().steps] == [
        "delete-replaced",
        "replace",
        "create-replacement",
    ]
    assert stack.state()["policy"]["id"] == "writer"
    assert stack.outputs("policy")["jobAcl"] == job_acl
    assert nomad.status("/v1/acl/policy/reader") == 404
    created = nomad.call("GET", "/v1/acl/policy/writer")
    assert created["JobACL"]["Namespace"] == "default"

    assert stack.destroy().ok
    assert nomad.status("/v1/acl/policy/writer") == 404


def test_a_policy_deleted_outside_is_gone_and_deleting_it_again_is_success(nomad: Agent) -> None:
    api = JsonApi(address=nomad.address, token_header="X-Nomad-Token", token=MANAGEMENT_TOKEN)
    policies = NomadAclPolicy(api)
    never_made = recorded({"name": "never-made"}, "never-made")
    assert policies.read(never_made) is None
    policies.delete(never_made, idle_operation())
