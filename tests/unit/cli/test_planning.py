"""What the commands plan that do not apply an environment."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from cli.app import app
from cli.environment import find
from cli.planning import plan_for_clients, plan_of
from tests.public_certificates import PublicAuthority, issue, put


def with_certificate(checkout: Path) -> None:
    stack = checkout / "Pulumi.hosts.yaml"
    shown = "{pool: edge, certificate: {cert: tls/cert.pem, key: tls/key.pem}}"
    text = stack.read_text()  # Pulumi may have written its salt to the end
    stack.write_text(text.replace("config:\n", f"config:\n  slipway:gateway: {shown}\n"))


def test_the_gateway_is_asked_by_its_certificates_name_if_that_can_be_used(copied: Path) -> None:
    authority = PublicAuthority()
    with_certificate(copied)
    environment = find("hosts")
    assert plan_for_clients(environment).gateway.clients.scheme == "http"
    issued = authority.issue()
    put(copied / "tls", cert=authority.chain(issued), key=issued.key_pem)
    assert plan_for_clients(environment).gateway.clients.scheme == "https"
    assert plan_for_clients(environment).operator.envoys[0].listener.server_name
    assert plan_of(environment).gateway.clients.scheme == "http"


def test_an_expired_certificate_is_refused_by_up_only(runner: CliRunner, copied: Path) -> None:
    with_certificate(copied)
    expired = issue("llm.example.com", dns_names=["llm.example.com"], starts_in_days=-9, days=-1)
    put(copied / "tls", cert=expired.pem, key=expired.key_pem)
    addresses = ("10.77.0.11", "10.77.0.21", "10.77.0.31")
    known = "".join(f"{address} ssh-ed25519 AAAA\n" for address in addresses)
    (copied / "known_hosts").write_text(known)
    for command in (["preview", "--offline"], ["plan"]):
        shown = runner.invoke(app, [*command, "-s", "hosts"])
        assert shown.exit_code == 0, shown.stderr
        said = " ".join((shown.stdout + shown.stderr).split())
        assert "expired on" in said
        assert "slipway up refuses it" in said
    refused = runner.invoke(app, ["up", "-s", "hosts"])
    assert refused.exit_code == 2
    assert "slipway:gateway.certificate.cert: the certificate of CN=llm.example.com expired on" in (
        refused.stderr
    )
