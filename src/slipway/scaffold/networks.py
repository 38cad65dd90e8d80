"""Networks and addresses that other environments of the checkout have already."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Network

from .request import RefusedError

FIRST_DEV = 77  # second part of 127.x.0.0/24


def is_network(text: str) -> bool:
    try:
        IPv4Network(text)
    except ValueError:
        return False
    return True


def must_be_apart(network: str, others: Mapping[str, str]) -> None:
    """Refuses a network that overlaps another environment's (name -> CIDR). A text that is no
    network is refused with the rest of the stack file."""
    if not is_network(network):
        return
    asked = IPv4Network(network)
    for name, cidr in others.items():
        if asked.overlaps(IPv4Network(cidr)):
            free = next(free_networks(asked, others), "another one")
            raise RefusedError(
                f"network {network} overlaps {cidr}, which is that of environment {name}",
                fix=f"use e.g. {free}",
            )


def free_networks(like: IPv4Network, others: Mapping[str, str]) -> Iterator[str]:
    """Networks of the same size that no environment has, the next ones first."""
    taken = [IPv4Network(cidr) for cidr in others.values()]
    supernet = like.supernet(new_prefix=8) if like.prefixlen > 8 else like
    step = max(like.num_addresses, 2**16)
    first = int(like.network_address)
    for offset in range(1, 200):
        address = first + offset * step
        if address > int(supernet.broadcast_address):
            return
        candidate = IPv4Network((address, like.prefixlen))
        if not any(candidate.overlaps(each) for each in taken):
            yield str(candidate)


def free_dev_network(others: Mapping[str, str]) -> str:
    """The first 127.x.0.0/24 from 127.77.0.0/24 on that no environment has."""
    first = IPv4Network(f"127.{FIRST_DEV}.0.0/24")
    if not any(first.overlaps(IPv4Network(each)) for each in others.values()):
        return str(first)
    return next(free_networks(first, others))
