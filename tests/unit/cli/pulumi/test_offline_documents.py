from __future__ import annotations

import json
from typing import Any

import pytest

from cli.pulumi.offline_documents import documents
from slipway.plan.preview import Resource

JOB = {
    "Job": {
        "TaskGroups": [
            {
                "Tasks": [
                    {
                        "Name": "server",
                        "Templates": [{"DestPath": "local/a.yml", "EmbeddedTmpl": "b: 1\n"}],
                    },
                    {"Name": "other"},
                ]
            }
        ],
        "ID": "model-x-abc123",
    }
}
UNKNOWN = {"<unknown>": True}


def resource(type_: str, name: str, **inputs: Any) -> Resource:
    return {
        "type": type_,
        "name": name,
        "parent": "",
        "urn": f"urn:pulumi:dev::slipway::{type_}::{name}",
        "protect": False,
        "inputs": inputs,
    }


def job(jobspec: Any, name: str = "model-x") -> Resource:
    return resource("nomad:index/job:Job", name, jobspec=jobspec)


def program(environment: Any) -> Resource:
    return resource("command:local:Command", "node-a", environment=environment)


def key(value: Any) -> dict[str, Any]:
    return {"path": "slipway/routes/x", "value": value}


def test_a_job_is_a_document_under_its_resources_name_and_so_is_every_file_in_it() -> None:
    found = documents([job(json.dumps(JOB, separators=(",", ":")))])
    assert found == {
        "jobs/model-x.json": json.dumps(JOB, indent=2, sort_keys=True) + "\n",
        "jobs/model-x/server/local/a.yml": "b: 1\n",
    }


def test_what_a_host_program_is_given_is_a_document_and_so_is_every_agents_configuration() -> None:
    document = {"host": "a", "agents": [{"name": "consul", "configuration": {"b": 1, "a": 2}}]}
    found = documents([program({"SLIPWAY_DOCUMENT": json.dumps(document)})])
    assert found == {
        "programs/node-a.json": json.dumps(document, indent=2, sort_keys=True) + "\n",
        "hosts/a/consul/config.json": '{\n  "a": 2,\n  "b": 1\n}\n',
    }


def test_values_in_consul_and_rules_in_nomad_are_documents_as_they_are() -> None:
    keys = resource("consul:index/keys:Keys", "route", keys=[key("{ }")])
    policy = resource("nomad:index/aclPolicy:AclPolicy", "scale", rulesHcl="namespace {}")
    assert documents([keys, policy]) == {
        "consul/slipway/routes/x": "{ }",
        "acl/scale.hcl": "namespace {}",
    }


@pytest.mark.parametrize("value", [UNKNOWN, "[secret]"])
def test_what_is_unknown_or_secret_has_no_document(value: Any) -> None:
    hidden = [
        job(value),
        program(value),
        program({"SLIPWAY_DOCUMENT": value}),
        resource("consul:index/keys:Keys", "route", keys=value),
        resource("consul:index/keys:Keys", "route", keys=[key(value)]),
        resource("nomad:index/aclPolicy:AclPolicy", "scale", rulesHcl=value),
    ]
    assert documents(hidden) == {}


def test_other_programs_and_resources_have_no_documents() -> None:
    others = [program({"PATH": "/bin"}), resource("command:local:Command", "x", create="true")]
    assert documents([*others, resource("random:index/randomId:RandomId", "y", length=8)]) == {}


def test_two_documents_never_share_a_path() -> None:
    other = {"Job": {**JOB["Job"], "ID": "another"}}
    with pytest.raises(ValueError, match=r"jobs/model-x\.json"):
        documents([job(json.dumps(JOB)), job(json.dumps(other))])
