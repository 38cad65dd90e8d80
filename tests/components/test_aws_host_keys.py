"""The SSH host keys of fixed hosts on AWS: OpenSSH reads them, and they stay the same."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_ssh_private_key,
)
from hypothesis import given
from hypothesis import strategies as st

from components.aws_hosts.host_keys import private_key, public_key

SEED = "a seed of no host"


@given(seed=st.text(min_size=1, max_size=64), host=st.from_regex(r"[a-z][a-z0-9-]{0,40}"))
def test_the_two_halves_belong_together(seed: str, host: str) -> None:
    key = load_ssh_private_key(private_key(seed, "prod", host).encode(), password=None)
    assert isinstance(key, Ed25519PrivateKey)
    written = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    assert written == public_key(seed, "prod", host)


def test_every_host_of_every_environment_has_its_own_and_always_the_same() -> None:
    named = [(env, host) for env in ("prod", "test") for host in ("edge-0", "edge-1")]
    keys = {public_key(SEED, *each) for each in named} | {public_key("other", *named[0])}
    assert len(keys) == len(named) + 1
    assert private_key(SEED, *named[0]) == private_key(SEED, *named[0])


@pytest.mark.binaries
def test_openssh_reads_the_private_key(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(private_key(SEED, "prod", "server-0"))
    file.chmod(0o600)
    command = ["ssh-keygen", "-y", "-f", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split()[:2] == public_key(SEED, "prod", "server-0").split()
    assert done.stdout.split()[2:] == ["server-0"]
