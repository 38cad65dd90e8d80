"""The SSH host keys of fixed hosts, derived from one seed: an operator knows a host by its key
before the host exists, and a machine that takes its place has the same one. Pure."""

from __future__ import annotations

import base64
import json
import struct

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from components import seeds

KIND = b"ssh-ed25519"
# As OpenSSH writes private keys (its PROTOCOL.key); nothing is encrypted.
MAGIC = b"openssh-key-v1\0"
CIPHER_BLOCK = 8
LINE = 70


def public_key(seed: str, environment: str, host: str) -> str:
    """As in known_hosts: "ssh-ed25519 AAAA…"."""
    encoded = base64.b64encode(_public_blob(_key(seed, environment, host))).decode()
    return f"{KIND.decode()} {encoded}"


def private_key(seed: str, environment: str, host: str) -> str:
    """The text of the file that sshd reads. The same at every call: OpenSSH's own writer puts
    random bytes into it, which would be a change at every update."""
    key, blob = _key(seed, environment, host), _public_blob(_key(seed, environment, host))
    raw, public = key.private_bytes_raw(), key.public_key().public_bytes_raw()
    check = seeds.private_bytes(seed, f"{_purpose(environment, host)}, check")[:4]
    secret = check * 2 + _text(KIND) + _text(public) + _text(raw + public) + _text(host.encode())
    padding = bytes(range(1, 1 + -len(secret) % CIPHER_BLOCK))
    content = (
        MAGIC
        + _text(b"none") * 2
        + _text(b"")
        + struct.pack(">I", 1)
        + _text(blob)
        + _text(secret + padding)
    )
    encoded = base64.b64encode(content).decode()
    lines = [encoded[place : place + LINE] for place in range(0, len(encoded), LINE)]
    name = "OPENSSH PRIVATE KEY"
    return "\n".join([f"-----BEGIN {name}-----", *lines, f"-----END {name}-----", ""])


def both_files(seed: str, environment: str, host: str) -> str:
    """The value of the host's secret, which services/aws/host_key.py reads."""
    private, public = (half(seed, environment, host) for half in (private_key, public_key))
    return json.dumps({"private": private, "public": f"{public} {host}\n"})


def _key(seed: str, environment: str, host: str) -> Ed25519PrivateKey:
    raw = seeds.private_bytes(seed, _purpose(environment, host))
    return Ed25519PrivateKey.from_private_bytes(raw)


def _purpose(environment: str, host: str) -> str:
    return f"SSH host key of {host} in {environment}"


def _public_blob(key: Ed25519PrivateKey) -> bytes:
    return _text(KIND) + _text(key.public_key().public_bytes_raw())


def _text(value: bytes) -> bytes:
    """A string of SSH's protocols (RFC 4251)."""
    return struct.pack(">I", len(value)) + value
