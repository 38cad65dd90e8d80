"""The parts of the registry-only plugins that need neither the CLI nor a server."""

import string
from typing import Any

import pytest
from google.protobuf.struct_pb2 import Struct  # type: ignore[import-untyped]

from tests.contract.jobs import SECOND_NS, sleeper
from tests.contract.operations import idle_operation, recorded
from toolchain.plugins.consul_keys import ConsulKeys
from toolchain.plugins.json_api import Certificates, JsonApi
from toolchain.plugins.local_command import LocalCommand
from toolchain.plugins.nomad_acl_policy import NomadAclPolicy
from toolchain.plugins.nomad_job import NomadJob
from toolchain.plugins.nomad_job_outputs import computed
from toolchain.plugins.nomad_variable import NomadVariable
from toolchain.plugins.provider import PROVIDERS
from toolchain.plugins.random_password import RandomPassword
from toolchain.plugins.remote_command import RemoteCommand
from toolchain.plugins.resource import PartlyCreatedError, ProviderError, Resource
from toolchain.plugins.tls_certificate import LocallySignedCert
from toolchain.plugins.wire import UNKNOWN, decode, encode

NOWHERE = JsonApi(address="http://127.91.0.9:1", token_header="X-Token", token="")
JOB = NomadJob(NOWHERE)


def test_decoding_unwraps_secrets_drops_nulls_and_leaves_the_message_alone() -> None:
    secret = {
        "4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270",
        "value": ["s", {"n": 2.0}],
    }
    struct = Struct()
    struct.update({"a": secret, "b": None, "c": {"d": 1.5, "e": True}, "f": 3})
    before = struct.SerializeToString(deterministic=True)
    assert decode(struct) == {"a": ["s", {"n": 2}], "c": {"d": 1.5, "e": True}, "f": 3}
    assert struct.SerializeToString(deterministic=True) == before


def test_encoding_gives_back_what_was_decoded() -> None:
    properties = {"a": [1, "x", {"b": False}], "c": {}, "d": []}
    assert decode(encode(properties)) == properties


def test_what_is_none_is_recorded_as_null_and_read_as_absent() -> None:
    struct = encode({"a": None, "b": [{"c": None}]})
    assert struct.fields["a"].WhichOneof("kind") == "null_value"
    assert decode(struct) == {"b": [{}]}


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0s"),
        (100_000_000, "100ms"),
        (1_500_000_000, "1.5s"),
        (30 * SECOND_NS, "30s"),
        (90 * SECOND_NS, "1m30s"),
        (300 * SECOND_NS, "5m0s"),
        (3600 * SECOND_NS, "1h0m0s"),
    ],
)
def test_a_duration_is_written_as_go_does(nanoseconds: int, text: str) -> None:
    job = {"ID": "a", "Update": {"HealthyDeadline": nanoseconds}}
    (update,) = computed(job)["updateStrategies"]
    assert update["healthyDeadline"] == text


@pytest.mark.parametrize(
    ("resource", "inputs", "complaint"),
    [
        (RandomPassword(), {"length": 0}, "length"),
        (RandomPassword(), {"length": 9, "minNumeric": 3}, "minNumeric"),
        (RandomPassword(), {"length": 9, "overrideSpecial": "%"}, "overrideSpecial"),
        (
            RandomPassword(),
            {"length": 9, "lower": False, "upper": False, "numeric": False, "special": False},
            "length",
        ),
        (LocalCommand(), {"create": "true", "assetPaths": ["*"]}, "assetPaths"),
        (JOB, {"jobspec": "job {}"}, "json"),
        (JOB, {"jobspec": "job {}", "json": True}, "jobspec"),
        (JOB, {"jobspec": '{"Job": {"Name": "x"}}', "json": True}, "jobspec"),
        (JOB, {"jobspec": UNKNOWN, "json": True, "detach": False}, "detach"),
        (JOB, {"jobspec": UNKNOWN, "json": True, "hcl2": {"allowFs": True}}, "hcl2"),
        (JOB, {"jobspec": UNKNOWN, "json": True, "policyOverride": True}, "policyOverride"),
        (JOB, {"jobspec": UNKNOWN, "json": True, "readAllocationIds": True}, "readAllocationIds"),
        (NomadAclPolicy(NOWHERE), {"rulesHcl": ""}, "name"),
        (ConsulKeys(NOWHERE), {"keys": [{"path": "a", "name": "read"}]}, "keys"),
        (ConsulKeys(NOWHERE), {"keys": UNKNOWN, "datacenter": "dc2"}, "datacenter"),
        (ConsulKeys(NOWHERE), {"keys": UNKNOWN, "token": UNKNOWN}, "token"),
    ],
)
def test_inputs_that_cannot_work_are_refused_at_preview(
    resource: Resource, inputs: dict[str, Any], complaint: str
) -> None:
    assert list(resource.check(inputs)) == [complaint]


@pytest.mark.parametrize(
    ("resource", "inputs"),
    [
        (RandomPassword(), {"length": UNKNOWN}),
        (JOB, {"jobspec": UNKNOWN, "json": True}),
        (ConsulKeys(NOWHERE), {"keys": UNKNOWN}),
        (ConsulKeys(NOWHERE), {"keys": [{"path": "a", "value": UNKNOWN}]}),
        (LocalCommand(), {"create": UNKNOWN, "environment": {"A": UNKNOWN}}),
        (RemoteCommand(), {"create": "true", "connection": UNKNOWN}),
        (NomadVariable(NOWHERE), {"path": UNKNOWN, "items": UNKNOWN}),
        (LocallySignedCert(), {"caCertPem": UNKNOWN, "earlyRenewalHours": UNKNOWN}),
    ],
)
def test_unknown_inputs_pass_a_preview_of_create_and_update_without_network(
    resource: Resource, inputs: dict[str, Any]
) -> None:
    assert resource.check(inputs) == {}
    assert UNKNOWN in str(resource.planned(inputs, None))
    outputs = {"jobspec": sleeper("a"), "namespace": "default", "keys": [], "stdout": ""}
    old = recorded({**outputs, "validityEndTime": "2999-01-01T00:00:00Z"})
    assert resource.diff(old, inputs).changed
    assert UNKNOWN in str(resource.planned(inputs, old))


@pytest.mark.parametrize(
    ("classes", "expected"),
    [
        ({}, string.ascii_letters + string.digits + "!@#$%&*()-_=+[]{}<>:?"),
        ({"special": False}, string.ascii_letters + string.digits),
        ({"special": False, "number": False, "upper": False}, string.ascii_lowercase),
        ({"special": False, "lower": False, "upper": False}, string.digits),
    ],
)
def test_a_password_has_every_character_of_its_classes_and_no_other(
    classes: dict[str, bool], expected: str
) -> None:
    _, outputs = RandomPassword().create({"length": 5000, **classes}, idle_operation())
    assert len(outputs["result"]) == 5000
    assert set(outputs["result"]) == set(expected)


def test_a_jobspec_written_differently_is_not_a_change() -> None:
    old = {"jobspec": '{"ID": "a", "Priority": 50, "Meta": null}', "json": True}
    same = {"jobspec": '{"Job": {"Priority": 50,  "ID": "a"}}', "json": True}
    assert not JOB.diff(recorded({**old, "namespace": "default"}, "a"), same).changed


def test_a_changed_jobspec_is_shown_even_when_nomad_does_not_answer() -> None:
    old = {"jobspec": '{"ID": "a"}', "json": True, "namespace": "default", "modifyIndex": "7"}
    changed = {"jobspec": '{"ID": "a", "Priority": 1}', "json": True}
    difference = JOB.diff(recorded(old, "a"), changed)
    assert difference.changed == {"jobspec"}
    assert not difference.replaces


def test_another_namespace_or_id_is_a_replacement() -> None:
    old = {"jobspec": '{"ID": "a"}', "json": True, "namespace": "default", "modifyIndex": "7"}
    for spec in ('{"ID": "b"}', '{"ID": "a", "Namespace": "other"}'):
        changed = {"jobspec": spec, "json": True}
        assert JOB.diff(recorded(old, "a"), changed).replaces == {"jobspec"}


def test_a_refused_connection_is_an_error_and_never_an_absence() -> None:
    outputs = {"namespace": "default", "path": "a", "keys": [{"path": "a"}], "datacenter": "dc1"}
    old = recorded(outputs)
    resources = (NomadAclPolicy(NOWHERE), NomadVariable(NOWHERE), ConsulKeys(NOWHERE))
    for resource in (JOB, *resources):
        with pytest.raises(ProviderError, match="connection refused"):
            resource.read(old)


def server_of(provider: str, config: dict[str, Any]) -> JsonApi:
    first, *_ = PROVIDERS[provider][1](config)
    api: JsonApi = first._api  # type: ignore[attr-defined]
    return api


@pytest.mark.parametrize(
    ("provider", "variables"),
    [
        ("nomad", {"NOMAD_CACERT": "ca", "NOMAD_CLIENT_CERT": "own", "NOMAD_CLIENT_KEY": "key"}),
        (
            "consul",
            {"CONSUL_CACERT": "ca", "CONSUL_CLIENT_CERT": "own", "CONSUL_CLIENT_KEY": "key"},
        ),
        ("consul", {"CONSUL_CA_FILE": "ca", "CONSUL_CERT_FILE": "own", "CONSUL_KEY_FILE": "key"}),
    ],
)
def test_certificates_come_from_the_configuration_and_then_from_variables(
    provider: str, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert server_of(provider, {}).certificates == Certificates(ca="ca", own="own", key="key")
    configured = {"caPem": "text", "caFile": "file", "certFile": "file", "keyFile": "file"}
    expected = Certificates(ca="text", own="file", key="file")
    assert server_of(provider, configured).certificates == expected


@pytest.mark.parametrize("provider", ["nomad", "consul"])
def test_the_name_that_a_server_is_verified_by_comes_from_a_variable(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not server_of(provider, {}).server_name
    monkeypatch.setenv(f"{provider.upper()}_TLS_SERVER_NAME", "server.name")
    assert server_of(provider, {}).server_name == "server.name"


@pytest.mark.parametrize(
    ("config", "encrypted", "address"),
    [
        ({}, "", "http://127.0.0.1:8500"),
        ({}, "true", "https://127.0.0.1:8500"),
        ({"scheme": "http"}, "1", "http://127.0.0.1:8500"),
        ({"address": "a:1", "scheme": "https"}, "", "https://a:1"),
        ({"address": "https://a:1"}, "", "https://a:1"),
    ],
)
def test_consuls_address_has_a_scheme_or_gets_one(
    config: dict[str, Any], encrypted: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONSUL_HTTP_SSL", encrypted)
    assert server_of("consul", config).address == address


class AcceptsAndFallsSilent(JsonApi):
    """A Nomad that takes a job and then has no leader to ask."""

    def json(self, method: str, path: str, *_: Any, **__: Any) -> Any:
        assert (method, path) == ("POST", "/v1/jobs")
        return {"EvalID": "e"}

    def json_if_there(self, *_: Any, **__: Any) -> Any:
        raise ProviderError("HTTP 500: No cluster leader")


def test_a_job_that_was_accepted_is_kept_when_nomad_no_longer_answers() -> None:
    silent = AcceptsAndFallsSilent(address=NOWHERE.address, token_header="X-Token", token="")
    inputs = {"jobspec": sleeper("a"), "json": True}
    with pytest.raises(PartlyCreatedError, match="job 'a' is registered, but") as failed:
        NomadJob(silent).create(inputs, idle_operation())
    assert failed.value.resource_id == "a"
    kept = failed.value.outputs
    assert (kept["name"], kept["namespace"], kept["jobspec"]) == ("a", "default", sleeper("a"))


def test_a_command_that_does_not_read_its_input_still_succeeds() -> None:
    inputs = {"create": "echo done", "stdin": "x" * 1_000_000}
    resource_id, outputs = LocalCommand().create(inputs, idle_operation())
    assert outputs["stdout"] == "done"
    assert resource_id.startswith("name")


def test_a_command_that_cannot_be_started_is_a_plain_error() -> None:
    with pytest.raises(ProviderError, match="cannot run 'true'"):
        LocalCommand().create({"create": "true", "dir": "/nonexistent"}, idle_operation())


@pytest.mark.parametrize(
    ("logging", "expected"),
    [
        (None, {"out", "aside"}),
        ("stdoutAndStderr", {"out", "aside"}),
        ("stdout", {"out"}),
        ("stderr", {"aside"}),
        ("none", set()),
    ],
)
def test_logging_chooses_what_is_shown_and_not_what_is_kept(
    logging: str | None, expected: set[str]
) -> None:
    shown: list[str] = []
    inputs = {"create": "echo out; echo aside >&2", "logging": logging}
    _, outputs = LocalCommand().create(inputs, idle_operation(shown))
    assert set(shown) == expected
    assert (outputs["stdout"], outputs["stderr"]) == ("out", "aside")


def test_previous_outputs_can_be_kept_out_of_the_environment() -> None:
    old = recorded({"stdout": "before", "stderr": "aside"})
    new = {"create": "echo ${PULUMI_COMMAND_STDOUT-unset} ${PULUMI_COMMAND_STDERR-unset}"}
    outputs = LocalCommand().update(old, new, idle_operation())
    assert outputs["stdout"] == "before aside"
    new["addPreviousOutputInEnv"] = False  # type: ignore[assignment]
    outputs = LocalCommand().update(old, new, idle_operation())
    assert outputs["stdout"] == "unset unset"


def test_an_update_without_a_command_keeps_what_was_printed_before() -> None:
    printed = {"stdout": "a", "stderr": "b"}
    assert LocalCommand().update(recorded(printed), {}, idle_operation()) == printed
