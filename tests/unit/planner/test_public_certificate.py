"""A gateway with a certificate for clients, as it is planned."""

from __future__ import annotations

import datetime
import json
from dataclasses import replace
from typing import Any

import jsonschema
import pytest

from slipway.certificates.public_certificate import PublicCertificate
from slipway.inputs import PlanInputs
from slipway.plan.document import plan_to_json
from slipway.plan.endpoint import Endpoint
from slipway.plan.platform import CertificatePlan
from stacks.planning import make_plan
from tests.unit.plan.samples import ROOT, hosts_inputs
from tests.unit.planner.test_edge_hosts import POOLS

NAME = "llm.example.com"
SHOWN = PublicCertificate(name=NAME, fingerprint="ab" * 32, expires=datetime.date(2027, 1, 31))
FILES = {"cert": "tls/fullchain.pem", "key": "~/tls/privkey.pem"}
SCHEMA = json.loads((ROOT / "schemas/plan.schema.json").read_text())


def inputs(files: dict[str, str], shown: PublicCertificate = SHOWN, **more: Any) -> PlanInputs:
    gateway = {"pool": "edge", "certificate": files, **more}
    return replace(hosts_inputs(pools=POOLS, gateway=gateway), certificate=shown)


def test_the_plan_has_the_files_and_the_fingerprint() -> None:
    plan = make_plan(inputs(FILES))
    assert plan.gateway.certificate == CertificatePlan(
        **FILES, fingerprint="ab" * 32, expires="2027-01-31"
    )
    jsonschema.Draft202012Validator(SCHEMA).validate(json.loads(plan_to_json(plan)))


@pytest.mark.parametrize(("more", "ca"), [({}, "system"), ({"ca": "tls/ca.pem"}, "tls/ca.pem")])
def test_clients_verify_the_name_at_every_address(more: dict[str, str], ca: str) -> None:
    gateway = make_plan(inputs(FILES | more, address="10.77.0.30")).gateway
    endpoint = Endpoint(scheme="https", host="10.77.0.31", port=8080, server_name=NAME, ca=ca)
    assert [each.listener for each in gateway.envoys] == [endpoint, endpoint.at("10.77.0.32")]
    assert gateway.clients == endpoint.at("10.77.0.30")


def test_only_what_clients_use_changes() -> None:
    with_tls, without = make_plan(inputs(FILES)), make_plan(hosts_inputs(pools=POOLS))
    plain = [replace(each, listener=in_plain(each.listener)) for each in with_tls.gateway.envoys]
    gateway = replace(
        with_tls.gateway, envoys=(*plain,), clients=plain[0].listener, certificate=None
    )
    seen = with_tls.operator
    operator = replace(
        seen,
        envoys=tuple(replace(each, listener=in_plain(each.listener)) for each in seen.envoys),
    )
    assert replace(with_tls, gateway=gateway, operator=operator) == without


def in_plain(listener: Endpoint) -> Endpoint:
    return replace(listener, scheme="http", server_name="", ca="")


def test_its_warnings_are_those_of_the_plan() -> None:
    warning = "tls/fullchain.pem expires on 2027-01-31: renew it"
    assert warning in make_plan(inputs(FILES, replace(SHOWN, warnings=(warning,)))).warnings
    assert warning not in make_plan(inputs(FILES)).warnings
