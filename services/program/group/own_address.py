"""The address of this host on the fabric."""

from __future__ import annotations

import fcntl
import socket
import struct

SIOCGIFADDR = 0x8915  # linux/sockios.h: the IPv4 address of an interface


def address_of(interface: str) -> str:
    """Raises OSError naming an interface that this host does not have, or that has no IPv4
    address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        request = struct.pack("256s", interface.encode()[:15])
        try:
            answer = fcntl.ioctl(asking.fileno(), SIOCGIFADDR, request)
        except OSError as error:
            raise OSError(error.errno, f"interface {interface}: {error.strerror}") from error
    return socket.inet_ntoa(answer[20:24])


def interface_with(address: str) -> str:
    """The interface that has this address; empty if none has it as its first."""
    for _, name in socket.if_nameindex():
        try:
            if address_of(name) == address:
                return name
        except OSError:  # an interface without an address
            continue
    return ""
