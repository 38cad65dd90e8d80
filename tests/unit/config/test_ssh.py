"""The public keys of hosts, from a file in OpenSSH's format."""

from __future__ import annotations

from pathlib import Path

import pytest

from slipway.config.ssh import read_host_keys

ED25519, RSA = "ssh-ed25519 AAAAC3Nz", "ssh-rsa AAAAB3Nz"


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ([f"10.50.0.11 {ED25519}"], {"10.50.0.11": ED25519}),
        ([f"rack1,10.50.0.11 {ED25519} of rack 1"], {"rack1": ED25519, "10.50.0.11": ED25519}),
        ([f"10.50.0.11 {RSA}", f"10.50.0.11 {ED25519}"], {"10.50.0.11": ED25519}),
        ([f"10.50.0.11 {ED25519}", f"10.50.0.11 {ED25519}2"], {"10.50.0.11": ED25519}),
        (["# of the rack", "", f"|1|c2FsdA==|aGFzaA== {ED25519}", "10.50.0.11"], {}),
        ([f"@revoked 10.50.0.11 {ED25519}"], {}),
    ],
    ids=["one", "name and address", "the preferred type", "the first", "no key", "revoked"],
)
def test_every_name_has_its_preferred_key(
    tmp_path: Path, lines: list[str], found: dict[str, str]
) -> None:
    path = tmp_path / "known_hosts"
    path.write_text("\n".join(lines))
    assert read_host_keys(path) == found


def test_an_environment_can_be_planned_before_its_hosts_exist(tmp_path: Path) -> None:
    assert read_host_keys(tmp_path / "known_hosts") == {}
