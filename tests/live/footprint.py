"""An environment's footprint on the machine: processes, addresses, mounts, files elsewhere."""

from __future__ import annotations

from pathlib import Path

import psutil

from cli.environment import find
from tests.live import shared_memory
from tests.live.environments import Platform
from tests.live.processes import processes_of

NOTHING: dict[str, list[str]] = {
    "processes": [],
    "listening": [],
    "mounts": [],
    "shared memory": [],
    "state": [],
    "scratch": [],
}
# Links to Python environments in the cache. `./slipway` makes the first before any command runs;
# the policies' is left by `preview`.
LINKS = {Path(".venv"), Path("policies/.venv")}


def footprint(platform: Platform, shared: dict[str, int]) -> dict[str, list[str]]:
    """Everything of the environment that exists now; `shared` is what its processes once had in
    /dev/shm. Empty lists if nothing is left."""
    return {
        "processes": [
            f"{p.kind} (pid {p.pid})" for p in processes_of(platform.run, scratch(platform))
        ],
        "listening": _listening(platform.network),
        "mounts": _mounts(platform.checkout),
        "shared memory": shared_memory.unused(shared),
        "state": [str(platform.run)] if platform.run.exists() else [],
        "scratch": [str(path) for path in (scratch(platform),) if path.exists()],
    }


def scratch(platform: Platform) -> Path:
    return find(platform.name, checkout=platform.checkout).scratch


def shared_memory_of(platform: Platform) -> dict[str, int]:
    """What the environment's processes use in /dev/shm now."""
    processes = processes_of(platform.run, scratch(platform))
    return shared_memory.used_by(process.pid for process in processes)


def files_beside(platform: Platform) -> set[str]:
    """The checkout's files outside .slipway/ (Python's caches and `LINKS` apart)."""
    found = (path.relative_to(platform.checkout) for path in platform.checkout.rglob("*"))
    return {
        str(path)
        for path in found
        if path not in LINKS and not {".slipway", "__pycache__"}.intersection(path.parts)
    }


def _listening(network: str) -> list[str]:
    return sorted(
        f"{connection.laddr.ip}:{connection.laddr.port}"
        for connection in psutil.net_connections(kind="inet")
        if connection.status in (psutil.CONN_LISTEN, psutil.CONN_NONE)
        and connection.laddr
        and connection.laddr.ip.startswith(f"{network}.")
    )


def _mounts(checkout: Path) -> list[str]:
    points = (line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines())
    return sorted(point for point in points if Path(point).is_relative_to(checkout))
