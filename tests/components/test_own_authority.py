"""Authorities that the user brings, in the resources of a whole environment."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pulumi
import pytest
import yaml

import stacks.offline
from cli.environment import Environment
from cli.pulumi.offline import offline_preview
from slipway.certificates.own_authority import read_authorities
from slipway.inputs import PlanInputs
from slipway.plan.document import plan_to_json
from slipway.plan.preview import SECRET as SHOWN
from stacks.planning import make_plan
from stacks.platform import Platform
from stacks.recording import SECRET, SIGNATURE, Recording
from stacks.targets import load
from tests.components.platform_plan import TOOLS
from tests.components.recording import record
from tests.unit.certificates.own_authorities import Made, intermediate, made
from tests.unit.plan.samples import ARTIFACTS, ROOT, dev_inputs
from toolchain.settings import default_cache

LEAF = "tls:index/locallySignedCert:LocallySignedCert"
OWN = {"cert": "ca.pem", "key": "ca-key.pem"}
OTHER = {"cert": "other.pem", "key": "other-key.pem"}


def brought(folder: Path, *authorities: Any) -> PlanInputs:
    """The inputs of dev with these authorities, whose files are in `folder`."""
    artifacts = replace(ARTIFACTS, tools=TOOLS)
    inputs = dev_inputs(artifacts=artifacts, security={"authorities": list(authorities)})
    own = read_authorities(folder, inputs.environment, written={}, decrypted={})
    return replace(inputs, own_authorities=own)


def registered(inputs: PlanInputs, *, preview: bool = False) -> Recording:
    plan = make_plan(inputs)
    own = inputs.own_authorities
    return record(lambda: Platform("platform", plan, load("dev"), own), preview=preview)


def public(recording: Recording) -> str:
    """Everything that the state does not encrypt."""
    return json.dumps([_without_secrets(found.inputs) for found in recording.by_urn.values()])


def _without_secrets(value: Any) -> Any:
    if isinstance(value, Mapping):
        if value.get(SIGNATURE) == SECRET:
            return None
        return {key: _without_secrets(part) for key, part in value.items()}
    return [_without_secrets(part) for part in value] if isinstance(value, list) else value


def lines(pem: str) -> list[str]:
    return pem.splitlines()[1:-1]


def operators_certificate(recording: Recording) -> Mapping[str, str]:
    stdin = recording["operator-access"].inputs["stdin"]
    found: Mapping[str, str] = json.loads(stdin["value"])["certificate"]
    return found


def signers(recording: Recording) -> set[tuple[str, str]]:
    """(certificate, key) of whoever signs a leaf."""
    return {
        (leaf.text("caCertPem"), leaf.inputs["caPrivateKeyPem"]["value"])
        for leaf in recording.of_type(LEAF)
    }


def anchor(own: Made) -> str:
    return replace(own, chain=own.chain[:1]).pem


def test_it_signs_every_certificate_and_the_platform_makes_none(tmp_path: Path) -> None:
    own = made()
    own.write(tmp_path)
    recording = registered(brought(tmp_path, OWN))
    assert signers(recording) == {(own.pem, own.key_pem)}
    assert not list(recording.of_type("tls:index/selfSignedCert"))
    files = operators_certificate(recording)
    assert files["ca.pem"] == own.pem
    assert files["cert.pem"] == "-----BEGIN CERTIFICATE----- of certificate-operator"


def test_of_an_intermediate_everybody_trusts_only_itself_and_shows_it(tmp_path: Path) -> None:
    own = intermediate()
    own.write(tmp_path)
    recording = registered(brought(tmp_path, OWN))
    files = operators_certificate(recording)
    assert files["ca.pem"] == anchor(own)
    assert files["cert.pem"].endswith(f"of certificate-operator{anchor(own)}")
    assert signers(recording) == {(anchor(own), own.key_pem)}


def test_its_key_is_only_in_what_the_state_encrypts(tmp_path: Path) -> None:
    own = made()
    own.write(tmp_path)
    inputs = brought(tmp_path, OWN)
    recording = registered(inputs)
    everything = json.dumps([found.inputs for found in recording.by_urn.values()])
    for line in lines(own.key_pem):
        assert line in everything
        assert line not in public(recording)
        assert line not in plan_to_json(make_plan(inputs))
        assert line not in repr(inputs)


def test_the_plan_names_it_and_has_neither_certificate_nor_key(tmp_path: Path) -> None:
    own = made()
    own.write(tmp_path)
    text = plan_to_json(make_plan(brought(tmp_path, 1, OWN)))
    first, second = json.loads(text)["security"]["authorities"]
    assert first == 1
    assert second == {
        "fingerprint": own.fingerprint,
        "subject": "CN=own",
        "ends": own.chain[0].not_valid_after_utc.isoformat(),
        "leaf_valid_days": 365,
    }
    assert "BEGIN" not in text


def test_each_step_of_a_replacement_has_its_signer_and_what_is_trusted(tmp_path: Path) -> None:
    own, other = made(), made("other")
    own.write(tmp_path)
    other.write(tmp_path, "other")
    generated = "-----BEGIN CERTIFICATE----- of authority-certificate"
    for authorities, trusted in (
        ([1, OWN], generated + own.pem),
        ([OWN, 1], own.pem + generated),
        ([OWN, OTHER], own.pem + other.pem),
        ([OTHER, {"cert": "ca.pem"}], other.pem + own.pem),
    ):
        recording = registered(brought(tmp_path, *authorities))
        assert operators_certificate(recording)["ca.pem"] == trusted
        ((signer, _),) = signers(recording)
        assert trusted.startswith(signer)


def test_policies_see_which_authorities_are_trusted(tmp_path: Path) -> None:
    own = made()
    own.write(tmp_path)
    facts = registered(brought(tmp_path, OWN, 1), preview=True)["authority"].inputs["facts"]
    assert facts["authorities"] == [own.fingerprint, 1]


def test_in_its_last_year_certificates_are_shorter_and_do_not_follow_the_days(
    tmp_path: Path,
) -> None:
    """On which day it becomes how long is tested with the plan."""
    hours = []
    for days in (366, 364, 181, 121):
        made(days=days).write(tmp_path)
        leaf = next(iter(registered(brought(tmp_path, OWN)).of_type(LEAF)))
        hours.append((leaf.inputs["validityPeriodHours"] / 24, leaf.inputs["earlyRenewalHours"]))
    year, half, least = (365, 120 * 24), (180, 59 * 24), (120, 39 * 24)
    assert hours == [year, half, half, least]


def assert_shows_no_key(folder: Path, key: Mapping[str, str], **configured: Any) -> None:
    """An offline preview needs none, even of an authority that has expired."""
    for each in ROOT.iterdir():
        if not each.name.startswith((".", "Pulumi.dev")):
            (folder / each.name).symlink_to(each)
    own = made(days=-1)
    own.write(folder)
    document = yaml.safe_load((ROOT / "Pulumi.dev.yaml").read_text())
    entry = {"cert": "ca.pem", **key}
    document["config"] |= {"slipway:security": {"authorities": [entry]}, **configured}
    (folder / "Pulumi.dev.yaml").write_text(yaml.safe_dump(document))
    preview = offline_preview(Environment(name="dev", checkout=folder, cache=default_cache()))
    leaves = [found["inputs"] for found in preview["resources"] if found["type"] == LEAF]
    assert {(leaf["caCertPem"], leaf["caPrivateKeyPem"]) for leaf in leaves} == {(own.pem, SHOWN)}
    assert lines(own.key_pem)[1] not in json.dumps(preview)


@pytest.mark.thorough
def test_an_offline_preview_shows_no_key_of_a_file(tmp_path: Path) -> None:
    assert_shows_no_key(tmp_path, {"key": "ca-key.pem"})


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Offline previews do not start a Python of their own, which takes a second."""

    def run(_: object, **given: Any) -> SimpleNamespace:
        for name, value in given["env"].items():
            monkeypatch.setenv(name, value)
        resources = stacks.offline.run(json.loads(given["input"]))
        return SimpleNamespace(returncode=0, stdout=json.dumps(resources))

    monkeypatch.setenv("PULUMI_CONFIG", "{}")
    monkeypatch.setattr(subprocess, "run", run)
    yield
    pulumi.runtime.set_all_config({}, [])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.usefixtures("in_this_process")
def test_an_offline_preview_needs_no_key_of_a_variable(tmp_path: Path) -> None:
    assert_shows_no_key(tmp_path, {"key_variable": "CA_KEY"})


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.usefixtures("in_this_process")
def test_an_offline_preview_needs_no_key_of_the_configuration(tmp_path: Path) -> None:
    secret = {"pki:ca-key": {"secure": "v1:not-readable"}}
    assert_shows_no_key(tmp_path, {"key_secret": "pki:ca-key"}, **secret)
