"""A control plane whose responses are recorded, and what a change costs it."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil

from bench.gateway.consul import Consul
from bench.gateway.own_gateway import PORT, XDS_PORT, Programs
from bench.gateway.processes import last_lines, processor_ms, running
from bench.gateway.replicas import NETWORK

RECORDER = Path(__file__).parents[1] / "in_services/ads_recorder.py"
RECORDER_PORT = 18_100
HOST = f"{NETWORK}.203"
QUIET_S = 1.0  # no response for so long: the change is done
HANG_S = 120.0

Responses = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    cpu_ms: float
    acknowledged_ms: float  # from the change in Consul to Envoy's last acknowledgement of it
    responses: Responses

    @property
    def kilobytes(self) -> float:
        return sum(int(each["bytes"]) for each in self.responses) / 1000

    @property
    def resources(self) -> Counter[str]:
        """Sent or removed, by type."""
        found: Counter[str] = Counter()
        for each in self.responses:
            found[each["type"]] += each["resources"] + each["removed"]
        return found


class ControlPlane:
    """A control plane whose responses are recorded in a file."""

    def __init__(self, process: psutil.Popen, recorded: Path) -> None:
        self._process = process
        self._recorded = recorded

    def idle_ms_per_s(self) -> float:
        """Processor time per second without a change."""
        cpu_ms, began_s = processor_ms([self._process]), time.monotonic()
        self.until_quiet(2 * QUIET_S)
        return (processor_ms([self._process]) - cpu_ms) / (time.monotonic() - began_s)

    def cost(self, change: Callable[[], None], idle_ms_per_s: float) -> Cost:
        before, cpu_ms, began_s = self._lines(), processor_ms([self._process]), time.monotonic()
        change()
        while len(self._lines()) == len(before):
            if time.monotonic() - began_s > HANG_S:
                raise SystemExit(f"no response to a change within {HANG_S:g} s")
            time.sleep(0.01)
        self.until_quiet(QUIET_S)
        idle_ms = idle_ms_per_s * (time.monotonic() - began_s)
        found = [json.loads(line) for line in self._lines()[len(before) :]]
        # By the machine's clock, which the recorder reads as well.
        last_s = max(each["acknowledged_s"] for each in found if "acknowledged_s" in each)
        return Cost(
            cpu_ms=processor_ms([self._process]) - cpu_ms - idle_ms,
            acknowledged_ms=(last_s - began_s) * 1e3,
            responses=[each for each in found if "type" in each],
        )

    def until_quiet(self, seconds: float) -> None:
        seen, since_s = len(self._lines()), time.monotonic()
        while time.monotonic() - since_s < seconds:
            time.sleep(0.05)
            if len(self._lines()) > seen:
                seen, since_s = len(self._lines()), time.monotonic()

    def _lines(self) -> list[str]:
        """Whole ones only."""
        text = self._recorded.read_text()
        return text[: text.rfind("\n") + 1].splitlines()


@contextmanager
def control_plane(
    programs: Programs, agent: Consul, *, models: int, folder: Path
) -> Iterator[ControlPlane]:
    """Once Envoy has so many models and nothing is sent any more."""
    recorded, log = folder / "responses", folder / "xds.log"
    ports = [f"{HOST}:{port}" for port in (RECORDER_PORT, XDS_PORT)]
    with (
        programs.control_plane(HOST, agent, log) as process,
        # -P: beside it is a program with the name of a package that it imports.
        running([programs.python, "-P", RECORDER, *ports], log=recorded) as recorder,
        programs.envoy(HOST, folder, xds_port=RECORDER_PORT),
    ):
        found, deadline_s = ControlPlane(process, recorded), time.monotonic() + HANG_S
        while _models() < models:
            ended = any(each.poll() is not None for each in (process, recorder))
            if ended or time.monotonic() > deadline_s:
                said = f"{last_lines(log)}\n{last_lines(recorded)}"
                raise SystemExit(f"Envoy does not list every model:\n{said}")
            time.sleep(0.2)
        found.until_quiet(2 * QUIET_S)
        yield found


def _models() -> int:
    """How many the gateway lists."""
    try:
        return len(httpx.get(f"http://{HOST}:{PORT}/v1/models").json()["data"])
    except (httpx.TransportError, ValueError, KeyError):
        return 0
