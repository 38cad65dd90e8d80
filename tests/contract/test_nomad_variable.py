"""nomad.Variable through the official SDK, the real CLI and a real Nomad with ACLs."""

import pytest

from tests.contract.agents import MANAGEMENT_TOKEN, Agent
from tests.contract.operations import idle_operation, recorded
from tests.contract.stack import Stack
from toolchain.plugins.json_api import JsonApi
from toolchain.plugins.nomad_variable import NomadVariable
from toolchain.plugins.resource import ProviderError

pytestmark = pytest.mark.binaries

CANARY = "canary-40d2aa"
PROGRAM = """
import pulumi_nomad
provider = pulumi_nomad.Provider("nomad", address=address, secret_id=token)
pulumi_nomad.Variable(
    "variable", path=path, items={"key": value}, opts=pulumi.ResourceOptions(provider=provider)
)
"""


def test_a_variable_is_created_repaired_moved_and_deleted(stack: Stack, nomad: Agent) -> None:
    access = {"address": nomad.address, "token": MANAGEMENT_TOKEN}
    stack.program(PROGRAM, **access, path="contract/one", value=CANARY)
    created = stack.up()
    assert created.ok, created.output
    assert nomad.call("GET", "/v1/var/contract/one")["Items"] == {"key": CANARY}
    assert stack.state()["variable"]["id"] == "contract/one@default"
    assert stack.outputs("variable")["namespace"] == "default"

    nomad.call("PUT", "/v1/var/contract/one", {"Path": "contract/one", "Items": {"key": "other"}})
    assert stack.up("--refresh").steps == [("update", "variable")]
    assert nomad.call("GET", "/v1/var/contract/one")["Items"] == {"key": CANARY}

    stack.program(PROGRAM, **access, path="contract/two", value=CANARY + "-2")
    assert [operation for operation, _ in stack.up().steps] == [
        "create-replacement",
        "replace",
        "delete-replaced",
    ]
    assert nomad.status("/v1/var/contract/one") == 404
    assert nomad.call("GET", "/v1/var/contract/two")["Items"] == {"key": CANARY + "-2"}
    assert stack.files_with("contract/two") != []  # the search would have found a value as well
    assert stack.files_with(CANARY) == []

    assert stack.destroy().ok
    assert nomad.status("/v1/var/contract/two") == 404


def _variables(nomad: Agent, token: str) -> NomadVariable:
    return NomadVariable(JsonApi(address=nomad.address, token_header="X-Nomad-Token", token=token))


def test_a_wrong_token_is_an_error_and_not_an_absence(nomad: Agent) -> None:
    wrong = "00000000-0000-4000-8000-000000000000"
    old = recorded({"path": "contract/denied", "namespace": "default"})
    with pytest.raises(ProviderError, match=r"error checking for variable .*403"):
        _variables(nomad, wrong).read(old)


def test_deleting_what_is_gone_is_success(nomad: Agent) -> None:
    old = recorded({"path": "contract/never-made", "namespace": "default"})
    assert _variables(nomad, MANAGEMENT_TOKEN).read(old) is None
    _variables(nomad, MANAGEMENT_TOKEN).delete(old, idle_operation())


@pytest.mark.parametrize(
    ("inputs", "complaint"),
    [
        ({"path": "a.b", "items": {"a": "b"}}, "path"),
        ({"path": "a" * 129, "items": {"a": "b"}}, "path"),
        ({"path": "a"}, "items"),
        ({"path": "a", "items": {"a": "b"}, "itemsWoVersion": 1}, "itemsWoVersion"),
    ],
)
def test_what_nomad_or_this_plugin_would_not_take_is_refused_at_preview(
    inputs: dict[str, object], complaint: str
) -> None:
    nowhere = JsonApi(address="http://127.91.0.9:1", token_header="X-Token", token="")
    assert list(NomadVariable(nowhere).check(inputs)) == [complaint]
