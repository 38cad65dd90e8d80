"""What Nomad, Consul and the routing table say about a platform's models."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Sequence
from typing import Any

import psutil

from tests.live.environments import Platform
from tests.live.processes import processes_of
from tests.waiting import HANG_S

SCALING_HANG_S = 600.0
WATCH_S = 60.0


def jobs(platform: Platform) -> list[dict[str, Any]]:
    """The jobs that should run: Nomad remembers stopped ones for hours."""
    return [job for job in platform.nomad("jobs?meta=true") if not job["Stop"]]


def job_of_each_model(platform: Platform) -> dict[str, str]:
    """The job of each model; during a change, the new one."""
    found = {}
    for job in sorted(jobs(platform), key=lambda job: int(job["SubmitTime"])):
        if job["Status"] == "running" and (model := (job["Meta"] or {}).get("slipway_model")):
            found[model] = job["ID"]
    return found


def replicas_of(platform: Platform, job: str) -> list[psutil.Process]:
    """The main processes of a job's replicas, which live as long as their replica."""
    return _processes(platform, f"simulator of {job}", f"launcher of {job}")


async def drained(replicas: Sequence[psutil.Process]) -> None:
    """Waits until replaced replicas have ended. AssertionError if they do not in time."""
    _, left = await asyncio.to_thread(psutil.wait_procs, replicas, HANG_S)
    assert left == []


def engines_of(platform: Platform, job: str) -> list[psutil.Process]:
    """vLLM's API servers."""
    return _processes(platform, f"API server of {job}")


def _processes(platform: Platform, *kinds: str) -> list[psutil.Process]:
    return [
        psutil.Process(process.pid)
        for process in processes_of(platform.run)
        if process.kind in kinds
    ]


def serving(platform: Platform, job: str) -> set[str]:
    """The allocations of a job that should run and pass their checks over both protocols.

    According to Consul: what Nomad's servers know about a task is a moment older.
    """
    running = {
        each["ID"]
        for each in platform.nomad(f"job/{job}/allocations")
        if each["DesiredStatus"] == "run"
    }
    services = {s["Name"] for s in platform.nomad(f"job/{job}")["TaskGroups"][0]["Services"]}
    for service in services:
        entries = platform.consul(f"health/service/{service}?passing=1")
        running &= {entry["Service"]["Meta"]["allocation"] for entry in entries}
    return running


def backends(platform: Platform, model: str) -> list[str]:
    """The services that a model's route points to."""
    (entry,) = platform.consul(f"kv/slipway/routes/{model}")
    route = json.loads(base64.b64decode(entry["Value"]))
    return [backend["service"] for backend in route["backends"]]


def wait_for_count(platform: Platform, job: str, count: int) -> None:
    """Waits until a job's count is this; a hang is an AssertionError."""
    deadline_s, index, wanted = time.monotonic() + SCALING_HANG_S, 0, -1
    while wanted != count:
        assert time.monotonic() < deadline_s, f"{wanted} replicas of {job} are wanted, not {count}"
        status, index = platform.watch_nomad(f"job/{job}/scale", index, at_most_s=WATCH_S)
        (group,) = status["TaskGroups"].values()
        wanted = group["Desired"]
