"""The parts of the registry-only plugins that need neither the CLI nor a server."""

from typing import Any

import pytest
from google.protobuf.struct_pb2 import Struct  # type: ignore[import-untyped]

from tests.contract.jobs import SECOND_NS, sleeper
from tests.contract.operations import idle_operation, recorded
from toolchain.plugins.consul_keys import ConsulKeys
from toolchain.plugins.json_api import JsonApi
from toolchain.plugins.local_command import LocalCommand
from toolchain.plugins.nomad_acl_policy import NomadAclPolicy
from toolchain.plugins.nomad_job import NomadJob
from toolchain.plugins.nomad_job_outputs import computed
from toolchain.plugins.random_password import RandomPassword
from toolchain.plugins.resource import PartlyCreatedError, ProviderError, Resource
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
        (RandomPassword(), {"length": 2, "minNumeric": 3}, "length"),
        (RandomPassword(), {"length": 0}, "length"),
        (
            RandomPassword(),
            {"length": 9, "lower": False, "upper": False, "numeric": False, "special": False},
            "length",
        ),
        (LocalCommand(), {"create": "true", "assetPaths": ["*"]}, "assetPaths"),
        (JOB, {"jobspec": "job {}"}, "json"),
        (JOB, {"jobspec": "job {}", "json": True}, "jobspec"),
        (JOB, {"jobspec": '{"Job": {"Name": "x"}}', "json": True}, "jobspec"),
        (NomadAclPolicy(NOWHERE), {"rulesHcl": ""}, "name"),
        (ConsulKeys(NOWHERE, ""), {"keys": [{"path": "a", "name": "read"}]}, "keys"),
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
        (ConsulKeys(NOWHERE, ""), {"keys": UNKNOWN}),
        (ConsulKeys(NOWHERE, ""), {"keys": [{"path": "a", "value": UNKNOWN}]}),
        (LocalCommand(), {"create": UNKNOWN, "environment": {"A": UNKNOWN}}),
    ],
)
def test_unknown_inputs_pass_a_preview_of_create_and_update_without_network(
    resource: Resource, inputs: dict[str, Any]
) -> None:
    assert resource.check(inputs) == {}
    assert UNKNOWN in str(resource.planned(inputs, None))
    old = recorded({"jobspec": sleeper("a"), "namespace": "default", "keys": [], "stdout": ""})
    assert resource.diff(old, inputs).changed
    assert UNKNOWN in str(resource.planned(inputs, old))


def test_every_class_of_a_password_keeps_its_minimum() -> None:
    inputs = {"length": 8, "minLower": 2, "minUpper": 2, "minNumeric": 2, "minSpecial": 2}
    _, outputs = RandomPassword().create({**inputs, "overrideSpecial": "%"}, idle_operation())
    result = outputs["result"]
    assert len(result) == 8
    assert sum(character.islower() for character in result) == 2
    assert sum(character.isupper() for character in result) == 2
    assert sum(character.isdigit() for character in result) == 2
    assert result.count("%") == 2


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
    old = recorded({"namespace": "default", "keys": [{"path": "a"}], "datacenter": "dc1"})
    for resource in (JOB, NomadAclPolicy(NOWHERE), ConsulKeys(NOWHERE, "")):
        with pytest.raises(ProviderError, match="connection refused"):
            resource.read(old)


class AcceptsAndFallsSilent(JsonApi):
    """A Nomad that takes a job and then has no leader to ask."""

    def json(self, method: str, path: str, *_: Any, **__: Any) -> Any:
        assert (method, path) == ("POST", "/v1/jobs")
        return {"EvalID": "e"}

    def json_if_there(self, *_: Any, **__: Any) -> Any:
        raise ProviderError("HTTP 500: No cluster leader")


@pytest.mark.parametrize("detach", [True, False])
def test_a_job_that_was_accepted_is_kept_when_nomad_no_longer_answers(detach: bool) -> None:
    silent = AcceptsAndFallsSilent(address=NOWHERE.address, token_header="X-Token", token="")
    inputs = {"jobspec": sleeper("a"), "json": True, "detach": detach}
    with pytest.raises(PartlyCreatedError, match="error waiting for job 'a'") as failed:
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
