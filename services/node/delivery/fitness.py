"""What a host must be like before anything is brought there."""

from __future__ import annotations

import time
from dataclasses import dataclass

from program.errors import HostError

from delivery.document import Delivery
from delivery.ssh import Connection

ARCHITECTURE = "x86_64"
OLDEST_GLIBC = (2, 35)  # that the tools and environments are built for
# Certificates and join credentials are valid from a moment on.
CLOCK_TOLERANCE_S = 30
MEBIBYTE = 1 << 20

LOOK = """
uname -m
ldd --version 2>/dev/null | head -n 1 | grep -o '[0-9.]*$' || echo unknown
/usr/bin/python3 -c 'import sys; print(*sys.version_info[:2])' 2>/dev/null || echo missing
ps -p 1 -o comm= 2>/dev/null || cat /proc/1/comm
date +%s
mkdir -p {folder} && df -P -B 1 {folder} | tail -n 1 | awk '{{print $4}}'
cd {folder} && ls -d */* */*/* 2>/dev/null
true
"""


@dataclass(frozen=True)
class Found:
    """A host as it is."""

    architecture: str
    glibc: str
    python: str
    init: str
    clock_s: int
    free_bytes: int
    artifacts: frozenset[str]


def look(connection: Connection, folder: str) -> Found:
    lines = connection.run(LOOK.format(folder=folder)).splitlines()
    architecture, glibc, python, init, clock, free, *artifacts = (line.strip() for line in lines)
    return Found(architecture, glibc, python, init, int(clock), int(free), frozenset(artifacts))


def must_fit(found: Found, delivery: Delivery) -> None:
    """Raises HostError with everything that the host lacks."""
    problems = [
        f"{delivery.host} ({delivery.place.address}) {problem}\nfix: {fix}"
        for wrong, problem, fix in _requirements(found, delivery)
        if wrong
    ]
    if problems:
        raise HostError("\n".join(problems))


def must_have_room(found: Found, delivery: Delivery, needed_bytes: int) -> None:
    if needed_bytes > found.free_bytes:
        needed, free = needed_bytes // MEBIBYTE, found.free_bytes // MEBIBYTE
        raise HostError(
            f"{delivery.host} ({delivery.place.address}) has {free} MiB left for {delivery.folder},"
            f" which needs {needed} MiB more\nfix: make room on its disk, then run it again"
        )


def _requirements(found: Found, delivery: Delivery) -> list[tuple[bool, str, str]]:
    """(whether it is not met, what is wrong, what to do)"""
    skew_s = found.clock_s - round(time.time())
    wanted = ".".join(map(str, delivery.python))
    return [
        (
            found.architecture != ARCHITECTURE,
            f"is {found.architecture}; the tools are built for {ARCHITECTURE}",
            "use another host",
        ),
        (
            _version(found.glibc) < OLDEST_GLIBC,
            f"has glibc {found.glibc}; the tools need 2.35 or newer",
            "use Debian 12, Ubuntu 22.04 or newer",
        ),
        (
            found.python.split() != wanted.split("."),
            f"has Python {'.'.join(found.python.split())} as /usr/bin/python3; the environments"
            f" are made for {wanted}",
            f"install Python {wanted} there, or make the environments with the host's version",
        ),
        (
            found.init != "systemd",
            f"is run by {found.init}, not by systemd",
            "use a host with systemd",
        ),
        (
            abs(skew_s) > CLOCK_TOLERANCE_S,
            f"has a clock that is {abs(skew_s)} s {'ahead' if skew_s > 0 else 'behind'}",
            "synchronise it (systemctl enable --now systemd-timesyncd, or chrony)",
        ),
    ]


def _version(text: str) -> tuple[int, ...]:
    parts = text.split(".")
    return tuple(int(part) for part in parts) if all(p.isdigit() for p in parts) else (0,)
