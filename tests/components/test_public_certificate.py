"""The certificate for clients: the jobs that use it, how its key travels, and who waits for it."""

from __future__ import annotations

import datetime
import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pulumi
import pytest

from components.gateway import public_certificate
from components.gateway.certificate_gate import asked_from, certificate_document
from components.gateway.shared_address import shared_address_job
from components.nomad.jobspec import to_json
from slipway.certificates.public_certificate import PublicCertificate
from slipway.plan.platform import PlatformPlan
from stacks.recording import Recording
from tests.components.golden import assert_golden, assert_golden_text
from tests.components.platform_jobs import files, platform_jobs
from tests.components.platform_plan import platform_plan
from tests.components.test_platform import registered, without_secrets
from tests.public_certificates import NAME, Issued, PublicAuthority, put
from tests.unit.plan.samples import ROOT

SCHEMA = json.loads((ROOT / "schemas/certificate-gate.schema.json").read_text())
SAMPLE = PublicCertificate(
    name=NAME, fingerprint="0123456789abcdef" * 4, expires=datetime.date(2027, 1, 31)
)
AUTHORITY = PublicAuthority()
GATE = "certificate-shown"
VARIABLE = "envoy-public-certificate"


@pytest.fixture(scope="module")
def plan() -> PlatformPlan:
    return platform_plan(certificate=SAMPLE)


@pytest.mark.parametrize("name", ["envoy", "xds"])
def test_the_jobs_of_a_gateway_that_speaks_tls_are_rendered_whole(
    plan: PlatformPlan, name: str
) -> None:
    assert_golden(f"jobs/{name}-tls.json", json.loads(to_json(platform_jobs(plan)[name])))


def test_the_file_with_the_certificate_is_rendered_whole(plan: PlatformPlan) -> None:
    text = files(platform_jobs(plan)["envoy"])[public_certificate.PATH]
    assert_golden_text("files/envoy-public.json", text)


def test_other_jobs_are_those_of_a_gateway_without_tls(plan: PlatformPlan) -> None:
    with_tls, without = platform_jobs(plan), platform_jobs(platform_plan())
    changed = {name for name, job in with_tls.items() if to_json(job) != to_json(without[name])}
    assert changed == {"envoy", "xds"}


def test_a_shared_address_is_checked_over_tls(plan: PlatformPlan) -> None:
    shared = replace(plan, gateway=replace(plan.gateway, shared_address="127.77.0.40"))
    job = shared_address_job(shared, shared.gateway.envoys[0])
    assert_golden_text("files/keepalived-answers.txt", files(job)["local/answers.py"])
    (script,) = [line for line in files(job)["local/keepalived.conf"].splitlines() if "-IS" in line]
    assert script.strip().startswith('script "/usr/bin/python3 -IS ')
    assert script.endswith('/answers.py"')


def test_the_gates_document_is_rendered_whole(plan: PlatformPlan) -> None:
    document = certificate_document(plan)
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    assert_golden("node/certificate-shown.json", document)


def test_the_gate_asks_from_the_first_envoys_host(plan: PlatformPlan) -> None:
    assert asked_from(plan) == "edge-0"


@pytest.fixture
def issued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Issued:
    """Its files are in the current folder, as in a checkout."""
    made = AUTHORITY.issue()
    put(tmp_path / "tls", cert=AUTHORITY.chain(made), key=made.key_pem)
    monkeypatch.chdir(tmp_path)
    return made


def of(issued: Issued) -> PlatformPlan:
    return platform_plan(certificate=replace(SAMPLE, fingerprint=issued.fingerprint))


def resources(plan: PlatformPlan) -> Recording:
    return registered(plan)


def test_the_key_travels_in_a_secret_that_only_envoys_tasks_read(issued: Issued) -> None:
    recording = resources(of(issued))
    variable = recording[VARIABLE]
    assert variable.text("path") == "nomad/jobs/envoy/envoy"
    assert variable.is_secret("items")
    assert variable.inputs["items"]["value"] == {
        "cert": AUTHORITY.chain(issued),
        "key": issued.key_pem,
    }
    plain = json.dumps([without_secrets(each.inputs) for each in recording.by_urn.values()])
    assert issued.key_pem.splitlines()[1] not in plain
    assert issued.fingerprint in plain


def test_envoy_starts_after_it_and_the_gate_waits_for_envoy(issued: Issued) -> None:
    recording = resources(of(issued))
    assert VARIABLE in recording["envoy"].depends_on
    assert "envoy" in recording[GATE].depends_on
    assert recording[GATE].parent == "platform"


def test_another_certificate_changes_the_variable_and_runs_the_gate_again_and_nothing_else(
    issued: Issued, tmp_path: Path
) -> None:
    before = resources(of(issued)).registrations
    renewed = AUTHORITY.issue()
    put(tmp_path / "tls", cert=AUTHORITY.chain(renewed), key=renewed.key_pem)
    after = resources(of(renewed)).registrations
    changed = {name for name, found in after.items() if found.inputs != before[name].inputs}
    assert changed == {VARIABLE, GATE}


def test_without_a_certificate_there_is_neither(plan: PlatformPlan) -> None:
    names = resources(platform_plan()).registrations.keys()
    assert not names & {VARIABLE, GATE}


def test_only_certificates_and_the_key_are_taken_from_the_files(
    issued: Issued, tmp_path: Path
) -> None:
    """One file of both, with what `openssl` writes between them."""
    whole = f"Bag Attributes\n{issued.key_pem}{AUTHORITY.chain(issued)}"
    put(tmp_path / "tls", cert=whole, key=whole)
    items = public_certificate.read(of(issued).gateway.certificate)
    assert items == {"cert": AUTHORITY.chain(issued), "key": issued.key_pem}


@pytest.mark.parametrize("changed", ["cert", "key"])
def test_files_that_changed_after_they_were_checked_are_not_used(
    issued: Issued, tmp_path: Path, changed: str
) -> None:
    plan, other = of(issued), AUTHORITY.issue()
    texts = {"cert": AUTHORITY.chain(issued), "key": issued.key_pem}
    texts[changed] = {"cert": AUTHORITY.chain(other), "key": other.key_pem}[changed]
    put(tmp_path / "tls", **texts)
    with pytest.raises(pulumi.RunError, match="has changed since it was read"):
        resources(plan)
