"""What a host prints about itself, and what is read from it."""

from __future__ import annotations

import datetime
import os
import subprocess
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from cli.hosts.facts import read, script


def certificate(ends: datetime.datetime) -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a host")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1)
    builder = builder.not_valid_before(ends - datetime.timedelta(days=365)).not_valid_after(ends)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


def test_the_fuller_disk_the_first_end_and_inactive_units_are_read() -> None:
    later, sooner = (datetime.datetime(2027, 1, day, tzinfo=datetime.UTC) for day in (2, 1))
    said = (
        "free 900\nfree 500\nunit slipway-hosts-consul.service active\n"
        "unit slipway-hosts-log-collectors.service inactive\n"
        f"{certificate(later)}{certificate(sooner)}"
    )
    found = read(said, "hosts")
    assert found.free_bytes == 500
    assert found.certificate_ends == sooner
    assert found.inactive_units == {"log-collectors": "inactive"}


def test_a_host_to_which_nothing_was_brought_has_no_units_and_no_certificate() -> None:
    found = read("free 900\nfree 500\n", "hosts")
    assert found.certificate_ends is None
    assert found.inactive_units == {}


def test_the_script_runs_where_nothing_of_the_environment_is(tmp_path: Path) -> None:
    environ = {**os.environ, "HOME": str(tmp_path)}
    done = subprocess.run(
        ["sh", "-c", script("nowhere")], capture_output=True, text=True, check=True, env=environ
    )
    found = read(done.stdout, "nowhere")
    assert found.free_bytes > 0
    assert found.inactive_units == {}
