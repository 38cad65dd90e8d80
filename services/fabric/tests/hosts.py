"""Two hosts as network namespaces that a cable joins."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

CARD = "fabric0"
ADDRESSES = ("10.250.77.1", "10.250.77.2")


def missing() -> str:
    """Why there can be no hosts here; empty if there can."""
    if os.geteuid():
        return "hosts in network namespaces need root"
    for program in ("ip", "nsenter", "tc", "unshare"):
        if shutil.which(program) is None:
            return f"hosts in network namespaces need the program {program}"
    probe = ["unshare", "--net", "ip", "link", "add", "probe", "type", "veth"]
    done = subprocess.run(probe, capture_output=True, text=True, check=False)
    return f"this machine allows no network namespaces: {done.stderr}" if done.returncode else ""


@dataclass(frozen=True)
class Host:
    address: str
    namespace: str

    def command(self, *command: str) -> list[str]:
        return ["nsenter", f"--net={self.namespace}", *command]

    def run(self, *command: str) -> str:
        done = subprocess.run(self.command(*command), capture_output=True, text=True, check=False)
        assert not done.returncode, done.stderr
        return done.stdout

    def limit(self, rate: str) -> None:
        """What the host sends. This kernel and others have tbf where netem is missing."""
        tbf = ("rate", rate, "burst", "64kb", "latency", "50ms")
        self.run("tc", "qdisc", "add", "dev", CARD, "root", "tbf", *tbf)


@contextmanager
def two_hosts() -> Iterator[tuple[Host, Host]]:
    with _namespace() as one, _namespace() as two:
        cable = ("ip", "link", "add", CARD, "netns", str(one), "type", "veth")
        subprocess.run([*cable, "peer", "name", CARD, "netns", str(two)], check=True)
        hosts = [
            Host(address, f"/proc/{pid}/ns/net")
            for address, pid in zip(ADDRESSES, (one, two), strict=True)
        ]
        for host in hosts:
            host.run("ip", "link", "set", "lo", "up")
            host.run("ip", "address", "add", f"{host.address}/24", "dev", CARD)
            host.run("ip", "link", "set", CARD, "up")
        yield hosts[0], hosts[1]


@contextmanager
def _namespace() -> Iterator[int]:
    """The process that holds it."""
    process = subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE)
    try:
        here = Path("/proc/self/ns/net").readlink()
        while Path(f"/proc/{process.pid}/ns/net").readlink() == here:
            time.sleep(0.005)  # unshare has not begun
        yield process.pid
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait()
