"""The requirements that a host must meet before anything is brought there."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from program.errors import HostError

from delivery.accelerators import Accelerators, accelerator_requirements, look_at
from delivery.containers import Docker, container_requirements, look_at_docker
from delivery.document import Delivery
from delivery.requirement import Requirement
from delivery.ssh import Connection

ARCHITECTURE = "x86_64"
OLDEST_GLIBC = (2, 35)  # that the tools and environments are built for
PYTHONS = ("3.10", "3.11", "3.12")  # that what hosts run is written and pinned for
# Environments that run only with the Python that they are made for.
ENGINES = ("triton", "vllm", "vllm_cuda")
LIBPYTHON = "libpython"  # Debian's packages of it
MISSING = "missing"
# A wrong clock makes certificates and join credentials invalid.
CLOCK_TOLERANCE_S = 30
MEBIBYTE, GIBIBYTE = 1 << 20, 1 << 30

LOOK = """
uname -m
ldd --version 2>/dev/null | head -n 1 | grep -o '[0-9.]*$' || echo unknown
/usr/bin/python3 -c 'import sys; print(*sys.version_info[:2], sep=".")' 2>/dev/null || echo missing
ps -p 1 -o comm= 2>/dev/null || cat /proc/1/comm
date +%s
place={folder}
while [ ! -d "$place" ]; do place=$(dirname "$place"); done
df -P -B 1 "$place" | tail -n 1 | awk '{{print $4}}'
store={store}
mountpoint -q "$store" 2> /dev/null && df -P -B 1 "$store" | tail -n 1 | awk '{{print $2}}' \
  || echo 0
for file in {files}; do [ -e "$file" ] && echo "has $file"; done
cd {folder} 2>/dev/null && ls -d */* */*/* envs/*/lib/* 2>/dev/null
true
"""


@dataclass(frozen=True)
class Found:
    """A host as it is."""

    architecture: str
    glibc: str
    python: str  # "3.11"; "missing" where there is none
    init: str
    clock_s: int
    free_bytes: int
    store_bytes: int  # of the model store; 0 where it is not mounted or not asked for
    files: frozenset[str]  # of Debian packages
    artifacts: frozenset[str]
    accelerators: Accelerators | None = None  # None where none are wanted
    docker: Docker | None = None  # None where engines run bare


def look(connection: Connection, delivery: Delivery) -> Found:
    look = LOOK.format(
        folder=delivery.folder,
        store=shlex.quote(delivery.model_store.path if delivery.model_store else ""),
        files=" ".join(delivery.packages.values()),
    )
    lines = (line.strip() for line in connection.run(look).splitlines())
    architecture, glibc, python, init, clock, free, store, *listed = lines
    files = {line.removeprefix("has ") for line in listed if line.startswith("has ")}
    artifacts = frozenset(listed) - {f"has {file}" for file in files}
    wanted = delivery.accelerators
    return Found(
        architecture,
        glibc,
        python,
        init,
        int(clock),
        int(free),
        int(store),
        frozenset(files),
        artifacts,
        look_at(connection, wanted.vendor) if wanted else None,
        look_at_docker(connection, delivery.image) if delivery.image else None,
    )


def must_fit(found: Found, delivery: Delivery) -> None:
    """Raises HostError with everything that the host lacks."""
    _raise_if_any(requirements(found, delivery), delivery)


def must_have_room(found: Found, delivery: Delivery, needed_bytes: int) -> None:
    _raise_if_any([room(found, delivery, needed_bytes)], delivery)


def requirements(found: Found, delivery: Delivery) -> list[Requirement]:
    return [
        _architecture(found),
        _glibc(found),
        _python(found, delivery),
        _init(found),
        _clock(found),
        *(_package(found, name, file) for name, file in _packages(found, delivery).items()),
        *_accelerators(found, delivery),
        *_containers(found, delivery),
        *_model_store(found, delivery),
    ]


def room(found: Found, delivery: Delivery, needed_bytes: int) -> Requirement:
    free, needed = found.free_bytes // MEBIBYTE, needed_bytes // MEBIBYTE
    if needed_bytes <= found.free_bytes:
        return Requirement("disk", f"{free} MiB free for {delivery.folder}, {needed} MiB to bring")
    return Requirement(
        "disk",
        f"{free} MiB free",
        f"has {free} MiB left for {delivery.folder}, which needs {needed} MiB more",
        "make room on its disk, then run it again",
    )


def _raise_if_any(of: list[Requirement], delivery: Delivery) -> None:
    where = f"{delivery.host} ({delivery.place.address})"
    problems = [f"{where} {each.wrong}\nfix: {each.fix}" for each in of if each.wrong]
    if problems:
        raise HostError("\n".join(problems))


def _architecture(found: Found) -> Requirement:
    if found.architecture == ARCHITECTURE:
        return Requirement("architecture", found.architecture)
    return Requirement(
        "architecture",
        found.architecture,
        f"is {found.architecture}; the tools are built for {ARCHITECTURE}",
        "use another host",
    )


def _glibc(found: Found) -> Requirement:
    if _version(found.glibc) >= OLDEST_GLIBC:
        return Requirement("C library", f"glibc {found.glibc}")
    return Requirement(
        "C library",
        f"glibc {found.glibc}",
        f"has glibc {found.glibc}; the tools need 2.35 or newer",
        "use Debian 12, Ubuntu 22.04 or newer",
    )


def _python(found: Found, delivery: Delivery) -> Requirement:
    if found.python not in PYTHONS:
        has = "no Python" if found.python == MISSING else f"Python {found.python}"
        return Requirement(
            "Python",
            found.python,
            f"has {has} as /usr/bin/python3; what hosts run needs 3.10, 3.11 or 3.12",
            "use Ubuntu 22.04 or 24.04, or Debian 12",
        )
    if not _runs_its_engines(found, delivery):
        made_for = _made_for(delivery)
        return Requirement(
            "Python",
            found.python,
            f"has Python {found.python} as /usr/bin/python3; its engines run from environments made"
            f" for Python {made_for}",
            f"use a host with Python {made_for}, as Debian 12 has it",
        )
    return Requirement("Python", found.python)


def _runs_its_engines(found: Found, delivery: Delivery) -> bool:
    environments = {Path(artifact).name.rpartition("-")[0] for artifact in delivery.artifacts}
    return found.python == _made_for(delivery) or environments.isdisjoint(ENGINES)


def _made_for(delivery: Delivery) -> str:
    return ".".join(map(str, delivery.python))


def _init(found: Found) -> Requirement:
    if found.init == "systemd":
        return Requirement("init", found.init)
    return Requirement(
        "init",
        found.init,
        f"is run by {found.init}, not by systemd",
        "use a host with systemd",
    )


def _clock(found: Found) -> Requirement:
    skew_s = found.clock_s - round(time.time())
    says = f"{abs(skew_s)} s {'ahead' if skew_s > 0 else 'behind'}"
    if abs(skew_s) <= CLOCK_TOLERANCE_S:
        return Requirement("clock", says if skew_s else "as here")
    return Requirement(
        "clock",
        says,
        f"has a clock that is {says}",
        "synchronise it (systemctl enable --now systemd-timesyncd, or chrony)",
    )


def _packages(found: Found, delivery: Delivery) -> Mapping[str, str]:
    """libpython is for engines, which a host with another Python cannot run."""
    if _runs_its_engines(found, delivery):
        return delivery.packages
    return {
        name: file for name, file in delivery.packages.items() if not name.startswith(LIBPYTHON)
    }


def _package(found: Found, name: str, file: str) -> Requirement:
    if file in found.files:
        return Requirement(name, file)
    return Requirement(name, "missing", f"has no {file}", f"apt install {name} there")


def _accelerators(found: Found, delivery: Delivery) -> list[Requirement]:
    if found.accelerators is None or delivery.accelerators is None:
        return []
    return list(accelerator_requirements(found.accelerators, delivery.accelerators))


def _containers(found: Found, delivery: Delivery) -> list[Requirement]:
    if found.docker is None or delivery.image is None:
        return []
    return list(container_requirements(found.docker, delivery.image))


def _model_store(found: Found, delivery: Delivery) -> list[Requirement]:
    store = delivery.model_store
    if store is None:
        return []
    has, wanted = _gib(found.store_bytes), _gib(store.size_bytes)
    if found.store_bytes >= store.size_bytes:
        return [Requirement("model store", f"{has} at {store.path}")]
    if not found.store_bytes:
        return [
            Requirement(
                "model store",
                "not mounted",
                f"has nothing mounted at {store.path}, where its pool expects {wanted} for weights",
                "mount a disk there and list it in /etc/fstab, or weights fill the system's own",
            )
        ]
    return [
        Requirement(
            "model store",
            f"{has} at {store.path}",
            f"has {has} at {store.path}; its pool states {wanted}",
            "mount a larger disk there, or lower model_store.size of the pool",
        )
    ]


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / GIBIBYTE:.1f} GiB"


def _version(text: str) -> tuple[int, ...]:
    parts = text.split(".")
    return tuple(int(part) for part in parts) if all(p.isdigit() for p in parts) else (0,)
