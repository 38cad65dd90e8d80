"""Addresses of platform jobs whose node is not known at preview: Nomad fills them in on the
node."""

from __future__ import annotations

from ipaddress import ip_address

from components.nomad.jobspec import LEFT_DELIMITER, RIGHT_DELIMITER
from slipway.plan.endpoint import Endpoint

LOOPBACK = "127.0.0.1"
OWN_ADDRESS = "@address@"  # of a node of a range, which fills it in when it joins
IN_ARGUMENTS = "${meta.address}"  # of the node that runs the task
# In Go's raw-string quotes, because the file may be JSON, which would escape double quotes.
IN_FILES = f"{LEFT_DELIMITER} env `meta.address` {RIGHT_DELIMITER}"


def in_arguments(endpoint: Endpoint) -> Endpoint:
    """The form for a task's arguments and variables."""
    return endpoint if endpoint.host else endpoint.at(IN_ARGUMENTS)


def in_files(endpoint: Endpoint) -> Endpoint:
    """The form for a task's files."""
    return endpoint if endpoint.host else endpoint.at(IN_FILES)


def is_loopback(address: str) -> bool:
    return address != OWN_ADDRESS and ip_address(address).is_loopback


def beside(address: str) -> str:
    """Where what runs on a node finds its agents: at the node's address or, where the certificate
    does not have that, on loopback."""
    return LOOPBACK if address == OWN_ADDRESS else address


def listening(address: str) -> str:
    """Where a node's agents listen, as a list with spaces."""
    return f"{address} {LOOPBACK}" if address == OWN_ADDRESS else address


def interface_of(address: str) -> str:
    """The name of the interface with this address, in go-sockaddr's template language."""
    pattern = f"^{address.replace('.', '[.]')}(/|$)"  # the template writes it as 10.50.0.11/24
    return f'GetAllInterfaces | include "address" "{pattern}" | attr "name"'


def on_loopback(endpoint: Endpoint) -> str:
    """An address that only programs of the same host reach. It is the endpoint's own where that is
    on loopback: environments that share a machine have different ones."""
    own = endpoint.host
    return own if own and ip_address(own).is_loopback else LOOPBACK
