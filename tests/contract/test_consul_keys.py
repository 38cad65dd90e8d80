"""consul.Keys through the official SDK, the real CLI and a real Consul with ACLs."""

import base64
from pathlib import Path

import pytest

from tests.contract.agents import CONSUL_ADDRESS, MANAGEMENT_TOKEN, Agent
from tests.contract.operations import recorded
from tests.contract.stack import Stack
from toolchain.plugins.consul_keys import ConsulKeys
from toolchain.plugins.json_api import Certificates, JsonApi
from toolchain.plugins.resource import ProviderError

pytestmark = pytest.mark.binaries

CANARY = "canary-77ab03"
PROGRAM = """
import pulumi_consul
provider = pulumi_consul.Provider("consul", address=address, scheme="http", token=token)
pulumi_consul.Keys(
    "keys",
    keys=[
        pulumi_consul.KeysKeyArgs(path=path, value=pulumi.Output.secret(value), delete=delete)
        for path, value, delete in keys
    ],
    opts=pulumi.ResourceOptions(provider=provider, import_=import_id),
)
"""
UNREACHABLE = "127.91.0.9:8500"


def _access(consul: Agent) -> dict[str, str | None]:
    address = consul.address.removeprefix("http://")
    return {"address": address, "token": MANAGEMENT_TOKEN, "import_id": None}


def _value(consul: Agent, path: str) -> str:
    (entry,) = consul.call("GET", f"/v1/kv/{path}")
    return base64.b64decode(entry["Value"]).decode()


def test_keys_are_written_kept_moved_and_removed(stack: Stack, consul: Agent) -> None:
    access = _access(consul)
    keys = [("t/one", "1-" + CANARY, True), ("t/two words", "2", False)]
    stack.program(PROGRAM, **access, keys=keys)
    created = stack.up()
    assert created.ok, created.output
    assert created.steps == [("create", "keys")]
    assert _value(consul, "t/one") == "1-" + CANARY
    assert _value(consul, "t/two%20words") == "2"
    assert stack.state()["keys"]["id"] == "consul"
    assert stack.outputs("keys")["datacenter"] == "dc1"
    assert stack.outputs("keys")["var"] == {}

    moved = [("t/three", "3", True), ("t/two words", "2b", False)]
    stack.program(PROGRAM, **access, keys=moved)
    assert stack.up().steps == [("update", "keys")]
    assert consul.status("/v1/kv/t/one") == 404
    assert _value(consul, "t/three") == "3"
    assert _value(consul, "t/two%20words") == "2b"

    consul.call("PUT", "/v1/kv/t/three", b"changed outside")
    consul.call("DELETE", "/v1/kv/t/two%20words")
    assert stack.up().steps == []  # without a refresh nothing is seen
    assert stack.up("--refresh").steps == [("update", "keys")]
    assert _value(consul, "t/three") == "3"
    assert _value(consul, "t/two%20words") == "2b"

    assert stack.destroy().ok
    assert consul.status("/v1/kv/t/three") == 404
    assert _value(consul, "t/two%20words") == "2b"  # no `delete`: it stays
    for secret in (CANARY, MANAGEMENT_TOKEN):
        assert stack.files_with(secret) == []
    assert stack.files_with("t/three") == []  # a secret value makes the whole list secret


def test_keys_that_exist_are_taken_over_by_creating_the_resource(
    stack: Stack, consul: Agent
) -> None:
    consul.call("PUT", "/v1/kv/t/taken", b"made outside")
    stack.program(PROGRAM, **_access(consul), keys=[("t/taken", "declared", True)])
    assert stack.up().steps == [("create", "keys")]
    assert _value(consul, "t/taken") == "declared"
    assert stack.destroy().ok


def test_an_import_is_followed_by_an_update_that_writes_the_declared_keys(
    stack: Stack, consul: Agent
) -> None:
    consul.call("PUT", "/v1/kv/t/imported", b"made outside")
    access, keys = _access(consul), [("t/imported", "declared", True)]
    stack.program(PROGRAM, **(access | {"import_id": "consul"}), keys=keys)
    imported = stack.up()
    assert imported.ok, imported.output
    assert imported.steps == [("import", "keys"), ("update", "keys")]
    assert _value(consul, "t/imported") == "declared"
    stack.program(PROGRAM, **access, keys=keys)
    assert stack.up("--refresh", "--expect-no-changes").ok
    assert stack.destroy().ok
    assert consul.status("/v1/kv/t/imported") == 404


def test_a_wrong_token_is_an_error_and_not_an_absence(consul: Agent) -> None:
    api = JsonApi(address=consul.address, token_header="X-Consul-Token", token="wrong")
    denied = recorded({"datacenter": "dc1", "keys": [{"path": "t/denied"}]})
    with pytest.raises(ProviderError, match="403"):
        ConsulKeys(api).read(denied)


def test_an_unreachable_consul_stops_only_what_needs_it(stack: Stack, consul: Agent) -> None:
    stack.program(
        """
        import pulumi_consul
        pulumi_consul.Keys("keys", keys=[pulumi_consul.KeysKeyArgs(path="t/down", value="1")])
        """
    )
    reachable = {"CONSUL_HTTP_ADDR": consul.address, "CONSUL_HTTP_TOKEN": MANAGEMENT_TOKEN}
    unreachable = {**reachable, "CONSUL_HTTP_ADDR": UNREACHABLE}

    stack.variables = unreachable
    assert stack.preview().steps == [("create", "keys")]
    stack.variables = reachable
    assert stack.up().ok
    stack.variables = unreachable
    failed = stack.refresh()
    assert not failed.ok
    assert "connection refused" in failed.text
    assert "keys" in stack.state()
    assert stack.preview("--expect-no-changes").ok


def test_a_provider_configured_by_a_later_value_can_be_previewed(stack: Stack) -> None:
    stack.program(
        """
        import pulumi_command
        import pulumi_consul
        found = pulumi_command.local.Command("find", create="echo 127.0.0.1:8500")
        provider = pulumi_consul.Provider("consul", address=found.stdout)
        pulumi_consul.Keys(
            "keys",
            keys=[pulumi_consul.KeysKeyArgs(path="t/later", value=found.stdout)],
            opts=pulumi.ResourceOptions(provider=provider),
        )
        """
    )
    planned = stack.preview()
    assert planned.ok, planned.output
    assert planned.steps == [("create", "find"), ("create", "keys")]


def test_certificates_and_the_token_may_be_files_that_the_update_itself_writes(
    stack: Stack, consul: Agent, authority: Path
) -> None:
    stack.program(
        """
        import pulumi_command
        import pulumi_consul
        written = pulumi_command.local.Command(
            "written", create=f"cp {authority}/*.pem . && echo {token} > token", dir=folder
        )
        pulumi_consul.Keys(
            "keys",
            keys=[pulumi_consul.KeysKeyArgs(path="t/encrypted", value="1", delete=True)],
            opts=pulumi.ResourceOptions(depends_on=[written]),
        )
        """,
        authority=str(authority),
        folder=str(stack.folder),
        token=MANAGEMENT_TOKEN,
    )
    names = {"CACERT": "ca.pem", "CLIENT_CERT": "client.pem", "CLIENT_KEY": "client-key.pem"}
    files = {**names, "HTTP_TOKEN_FILE": "token"}
    stack.variables = {
        "CONSUL_HTTP_ADDR": consul.address.removeprefix("http://").replace("8500", "8501"),
        "CONSUL_HTTP_SSL": "true",
        **{f"CONSUL_{name}": str(stack.folder / file) for name, file in files.items()},
    }
    applied = stack.up()
    assert applied.ok, applied.output
    assert _value(consul, "t/encrypted") == "1"
    (stack.folder / "ca.pem").unlink()
    failed = stack.destroy()
    assert not failed.ok
    assert str(stack.folder / "ca.pem") in failed.text
    consul.call("DELETE", "/v1/kv/t/encrypted")


def _encrypted(consul: Agent, server_name: str = "", **certificates: str) -> JsonApi:
    return JsonApi(
        address=consul.address.replace("http:", "https:").replace("8500", "8501"),
        server_name=server_name,
        token_header="X-Consul-Token",
        token=MANAGEMENT_TOKEN,
        certificates=Certificates(**certificates),
    )


def test_a_server_must_be_verified_and_verifies_its_clients(consul: Agent, authority: Path) -> None:
    ca, own, key = (str(authority / f"{name}.pem") for name in ("ca", "client", "client-key"))
    texts = {"ca": Path(ca).read_text(), "own": Path(own).read_text(), "key": Path(key).read_text()}
    for given in (texts, {"ca": ca, "own": own, "key": key}):
        assert _encrypted(consul, **given).json("GET", "/v1/agent/self")["Config"]
    with pytest.raises(ProviderError, match="CERTIFICATE_VERIFY_FAILED"):
        _encrypted(consul, own=own, key=key).json("GET", "/v1/agent/self")
    with pytest.raises(ProviderError, match="CERTIFICATE_REQUIRED"):
        _encrypted(consul, ca=ca).json("GET", "/v1/agent/self")


def test_a_server_is_verified_by_its_name_where_one_is_given(
    consul: Agent, authority: Path
) -> None:
    files = {
        part: str(authority / f"{name}.pem")
        for part, name in (("ca", "ca"), ("own", "client"), ("key", "client-key"))
    }
    with pytest.raises(ProviderError, match="Hostname mismatch"):
        _encrypted(consul, "server.another.consul", **files).json("GET", "/v1/agent/self")
    named = _encrypted(consul, CONSUL_ADDRESS, **files)
    assert named.json("GET", "/v1/agent/self")["Config"]


@pytest.mark.stand_in
def test_a_setting_that_the_plugin_does_not_know_is_refused_by_name(stack: Stack) -> None:
    stack.program(
        """
        import pulumi_consul
        pulumi_consul.Provider("consul", address="127.0.0.1:8500", ca_path="/ca")
        """
    )
    refused = stack.preview()
    assert not refused.ok
    assert "caPath" in refused.text
