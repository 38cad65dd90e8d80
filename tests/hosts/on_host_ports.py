"""Runs on a host of the bed: finds ports where tasks listen, and tries ports of other hosts.

    … scan      given the name of a job: where its tasks can be reached, on every address
    … connect   given [[address, port], …]: "connected", "refused", "dropped" or an error
    … ask       the same, where nobody says what he does not want to hear: "silent" or "answered"

What is given, and what is found, is JSON on standard input and output. Standard library only.
"""

from __future__ import annotations

import json
import re
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

ATTEMPTS = 3  # of the kernel, until a connection of which nothing is heard has failed
AT_ONCE = 64
ANYWHERE = ("0.0.0.0", "*", "::")


def scan(job: str) -> Iterator[dict[str, Any]]:
    own = list(addresses())
    shown = subprocess.run(
        ["ss", "-Hltnp"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    for line in shown:
        where = line.split()[3]
        place, _, port = where.rpartition(":")
        address = place.strip("[]").removeprefix("::ffff:")
        tasks = {task_of(pid, job) for pid in re.findall(r"pid=(\d+)", line)} - {""}
        for each in own if address in ANYWHERE else {address}.intersection(own):
            if tasks:
                yield {"task": ", ".join(sorted(tasks)), "address": each, "port": int(port)}


def task_of(pid: str, job: str) -> str:
    """Empty if the process belongs to no task of a job with this name."""
    with suppress(OSError):
        pairs = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
        known = dict(each.partition("=")[::2] for each in pairs)
        if known.get("NOMAD_JOB_ID", "").startswith(job):
            return known["NOMAD_TASK_NAME"]
    return ""


def addresses() -> Iterator[str]:
    """Of this host, as other hosts of the bed name them: their interfaces have the same names."""
    shown = subprocess.run(["ip", "-j", "address"], capture_output=True, text=True, check=True)
    for interface in json.loads(shown.stdout):
        for each in interface["addr_info"]:
            if interface["ifname"] != "lo":
                of_link = each["scope"] == "link"
                yield f"{each['local']}%{interface['ifname']}" if of_link else each["local"]


def connect(address: str, port: int) -> str:
    try:
        connected(address, port).close()
    except ConnectionRefusedError:
        return "refused"
    except TimeoutError:
        return "dropped"
    except OSError as error:
        return repr(error)
    return "connected"


def ask(address: str, port: int) -> str:
    """By HTTP, and by HTTP over TLS without a certificate of our own."""
    with connected(address, port) as plain:
        said = heard(plain, b"GET / HTTP/1.0\r\n\r\n")
    with connected(address, port) as plain:
        said += over_tls(plain)
    return "answered" if b"HTTP/" in said or b"{" in said else "silent"


def connected(address: str, port: int) -> socket.socket:
    (family, kind, protocol, _, place), *_ = socket.getaddrinfo(
        address, port, type=socket.SOCK_STREAM
    )
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_SYNCNT, ATTEMPTS)
    made.connect(place)
    return made


def over_tls(plain: socket.socket) -> bytes:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with context.wrap_socket(plain) as secured:
            return heard(secured, b"GET / HTTP/1.0\r\n\r\n")
    except OSError:  # among them those of TLS
        return b""


def heard(connection: socket.socket, said: bytes) -> bytes:
    with suppress(OSError):
        connection.sendall(said)
        return connection.recv(4096)
    return b""


def main() -> None:
    given = json.load(sys.stdin)
    if sys.argv[1] == "scan":
        json.dump(list(scan(given)), sys.stdout)
    else:
        outcome = {"connect": connect, "ask": ask}[sys.argv[1]]
        with ThreadPoolExecutor(AT_ONCE) as at_once:
            json.dump(list(at_once.map(lambda place: outcome(*place), given)), sys.stdout)


if __name__ == "__main__":
    main()
