"""The gate after a change of the certificate for clients: waits until every Envoy shows it.

    certificate_shown.py apply      document in SLIPWAY_DOCUMENT
                                    (schemas/certificate-gate.schema.json)

It connects to each listener as a client does, and compares what it is shown. The plan has checked
the certificate already, so nothing is verified here.
"""

from __future__ import annotations

import hashlib
import socket
import ssl
from dataclasses import dataclass

from program.arguments import expect_apply
from program.document import JsonObject, parsing, read_document, read_secrets
from program.errors import HostError, exit_code
from program.waiting import say, wait_until

SCHEMA = "certificate-gate.schema.json"
SCHEMA_VERSION = 1
CONNECT_TIMEOUT_S = 2


@dataclass(frozen=True)
class Gate:
    server_name: str
    fingerprint: str  # SHA-256 of the certificate, hexadecimal
    listeners: dict[str, tuple[str, int]]  # Envoy -> host, port
    deadline_s: float


def read_gate(document: JsonObject) -> Gate:
    with parsing(SCHEMA):
        return Gate(
            server_name=document["server_name"],
            fingerprint=document["fingerprint"],
            listeners={name: _place(at) for name, at in document["listeners"].items()},
            deadline_s=document["deadline_s"],
        )


def _place(authority: str) -> tuple[str, int]:
    host, _, port = authority.rpartition(":")
    return host, int(port)


def apply(gate: Gate) -> None:
    try:
        took_s = wait_until("certificate", lambda: missing(gate), gate.deadline_s)
    except HostError as error:
        raise HostError(
            f"{error}\nClients may still be shown the certificate before.\n"
            "fix: slipway logs shows what that job says; then slipway up continues"
        ) from None
    count = len(gate.listeners)
    say(
        f"certificate: {count} of {count} Envoys show {gate.fingerprint[:16]}… for"
        f" {gate.server_name}, {took_s:.1f} s"
    )


def missing(gate: Gate) -> str | None:
    """The first Envoy that does not show the certificate, with its answer; None if all show it."""
    for name, place in gate.listeners.items():
        try:
            found = shown(place, gate.server_name)
        except OSError as error:
            return f"{name} at {place[0]}:{place[1]}: {error}"
        if found != gate.fingerprint:
            return f"{name} at {place[0]}:{place[1]} still shows {found[:16]}…"
    return None


def shown(place: tuple[str, int], server_name: str) -> str:
    """The fingerprint of the certificate that a client gets. Raises OSError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection(place, timeout=CONNECT_TIMEOUT_S) as connection,
        context.wrap_socket(connection, server_hostname=server_name) as client,
    ):
        return fingerprint(client.getpeercert(binary_form=True) or b"")


def fingerprint(certificate: bytes) -> str:
    """The fingerprint of a certificate in DER form."""
    return hashlib.sha256(certificate).hexdigest()


def run() -> None:
    expect_apply("certificate_shown.py")
    read_secrets()  # there are none, but its version is checked
    apply(read_gate(read_document(SCHEMA_VERSION)))


def main() -> int:
    return exit_code(run)
