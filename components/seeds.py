"""Derives secrets from one random seed, so that a cluster has one secret resource in the state.

HMAC-SHA256 of the purpose, keyed by the seed: one derived secret reveals nothing about another.
"""

from __future__ import annotations

import base64
import hmac
import uuid

NAMESPACE = uuid.uuid5(uuid.NAMESPACE_DNS, "slipway")


def token(seed: str, purpose: str) -> str:
    """A secret UUID, the form of Consul's and Nomad's tokens."""
    return str(uuid.UUID(bytes=_derive(seed, purpose)[:16], version=4))


def gossip_key(seed: str, generation: int = 1) -> str:
    """32 bytes in base64, the form of Serf's encryption key (AES-256)."""
    purpose = "gossip" if generation == 1 else f"gossip, generation {generation}"
    return base64.b64encode(_derive(seed, purpose)).decode()


def number(seed: str, purpose: str) -> int:
    """512 secret bits, so that a remainder of them is evenly distributed."""
    halves = (_derive(seed, f"{purpose}, {half}") for half in ("first", "second"))
    return int.from_bytes(b"".join(halves), "big")


def private_bytes(seed: str, purpose: str) -> bytes:
    """32 secret bytes: a private key of Ed25519 (RFC 8032)."""
    return _derive(seed, purpose)


def public_id(name: str) -> str:
    """A stable UUID that is not secret: the accessor id of a token, known at preview."""
    return str(uuid.uuid5(NAMESPACE, name))


def _derive(seed: str, purpose: str) -> bytes:
    return hmac.digest(seed.encode(), purpose.encode(), "sha256")
