"""What the commands plan that do not apply an environment."""

from __future__ import annotations

from pathlib import Path

from slipway.cli.environment import find
from slipway.cli.planning import plan_for_clients, plan_of
from tests.public_certificates import PublicAuthority, put


def test_the_gateway_is_asked_by_its_certificates_name_if_that_can_be_used(copied: Path) -> None:
    stack, authority = copied / "Pulumi.hosts.yaml", PublicAuthority()
    shown = "{pool: edge, certificate: {cert: tls/cert.pem, key: tls/key.pem}}"
    stack.write_text(f"{stack.read_text()}\n  slipway:gateway: {shown}\n")
    environment = find("hosts")
    assert plan_for_clients(environment).gateway.clients.scheme == "http"
    issued = authority.issue()
    put(copied / "tls", cert=authority.chain(issued), key=issued.key_pem)
    assert plan_for_clients(environment).gateway.clients.scheme == "https"
    assert plan_for_clients(environment).operator.envoys[0].listener.server_name
    assert plan_of(environment).gateway.clients.scheme == "http"
