"""A replica's settings, from the environment that the scheduler gives it."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from replica.errors import InputError

# The variable by which each vendor's device plugin says which devices a task has.
VISIBLE_DEVICES: Mapping[str, str] = {
    "nvidia": "NVIDIA_VISIBLE_DEVICES",
    "amd": "ROCR_VISIBLE_DEVICES",
}
NO_DEVICES = ("", "void", "none")
NODES = Path("/sys/devices/system/node")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    address: str
    port_openai: int
    port_grpc: int
    port_http: int
    port_metrics: int
    port_liveness: int | None  # None where the replica has no liveness page
    runtime: Path
    store: Path  # has the weights
    engine_cache: Path  # of what engines compile, and of facts about models
    scratch: Path  # a short path on a local disk: sockets are created below it
    replica_id: str  # 12 hexadecimal digits, stable over restarts of one allocation
    devices: Mapping[str, tuple[str, ...]]  # vendor -> what the scheduler gave this task of it
    numa_nodes: int  # of this host
    has_numactl: bool

    @property
    def ports(self) -> tuple[int, ...]:
        own = () if self.port_liveness is None else (self.port_liveness,)
        return (self.port_openai, self.port_grpc, self.port_http, self.port_metrics, *own)

    @property
    def engine_url(self) -> str:
        return f"http://{self.address}:{self.port_openai}"


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Raises InputError naming the variable that is missing or wrong."""

    def text(name: str) -> str:
        value = environment.get(name, "")
        if not value:
            raise InputError(f"environment: {name} is not set")
        return value

    def port(name: str) -> int:
        value = text(name)
        if not value.isdecimal() or not 0 < int(value) < 65536:
            raise InputError(f"environment: {name}={value} is not a port")
        return int(value)

    address = text("SLIPWAY_ADDRESS")
    port_openai = port("SLIPWAY_PORT_OPENAI")
    identity = environment.get("NOMAD_ALLOC_ID") or f"{address}:{port_openai}"
    return Settings(
        address=address,
        port_openai=port_openai,
        port_grpc=port("SLIPWAY_PORT_GRPC"),
        port_http=port("SLIPWAY_PORT_HTTP"),
        port_metrics=port("SLIPWAY_PORT_METRICS"),
        port_liveness=(
            port("SLIPWAY_PORT_LIVENESS") if "SLIPWAY_PORT_LIVENESS" in environment else None
        ),
        runtime=Path(text("SLIPWAY_RUNTIME")),
        store=Path(environment.get("SLIPWAY_STORE") or text("SLIPWAY_RUNTIME")),
        engine_cache=Path(
            environment.get("SLIPWAY_ENGINE_CACHE") or f"{text('SLIPWAY_RUNTIME')}/vllm"
        ),
        scratch=Path(text("SLIPWAY_SCRATCH")),
        replica_id=hashlib.sha256(identity.encode()).hexdigest()[:12],
        devices={
            vendor: _visible(environment.get(variable, ""))
            for vendor, variable in VISIBLE_DEVICES.items()
        },
        numa_nodes=len([*NODES.glob("node[0-9]*")]),
        has_numactl=shutil.which("numactl", path=environment.get("PATH")) is not None,
    )


def _visible(value: str) -> tuple[str, ...]:
    return () if value in NO_DEVICES else tuple(value.split(","))
