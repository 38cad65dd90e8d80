"""An autoscaler that cannot see the load: Prometheus is stopped, or cannot read Envoy."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from tests.live.environments import Platform
from tests.live.processes import processes_of
from tests.waiting import until

LOOK_S = 1.0  # the status can only be polled
GIVEN_WATCH_S = 20  # to Nomad, which adds a sixteenth to it
CLOSED_PORT = 1


@contextmanager
def prometheus_stopped(platform: Platform) -> Iterator[None]:
    """Its connections stay open without an answer, which is worse than a refusal."""
    pid = _prometheus(platform)
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextmanager
def envoy_not_scraped(platform: Platform) -> Iterator[None]:
    """Prometheus runs, but Envoy's statistics refuse its connections."""
    pid = _prometheus(platform)
    path = Path(f"/proc/{pid}/cwd/local/prometheus.yml").resolve()
    before = path.read_text()
    config = yaml.safe_load(before)
    (services,) = [job for job in config["scrape_configs"] if job["job_name"] == "services"]
    services["relabel_configs"].append(
        {
            "source_labels": ["__meta_consul_service"],
            "regex": "envoy-metrics",
            "target_label": "__address__",
            "replacement": f"{platform.network}.32:{CLOSED_PORT}",
        }
    )
    try:
        path.write_text(yaml.safe_dump(config))
        os.kill(pid, signal.SIGHUP)
        yield
    finally:
        path.write_text(before)
        os.kill(pid, signal.SIGHUP)


def wait_until_blind(platform: Platform) -> str:
    """What `slipway status` says about it."""
    return until(lambda: str(platform.status()["autoscaler_blind"]), pause_s=LOOK_S)


def wait_until_seeing(platform: Platform) -> None:
    until(lambda: not platform.status()["autoscaler_blind"], pause_s=LOOK_S)


def counts_over(platform: Platform, job: str, seconds: float) -> set[int]:
    """Every count that the job is scaled to in about this time."""
    index, seen = 0, set[int]()
    for _ in range(1 + math.ceil(seconds / GIVEN_WATCH_S)):  # the first answers at once
        status, index = platform.watch_nomad(f"job/{job}/scale", index, at_most_s=GIVEN_WATCH_S)
        (group,) = status["TaskGroups"].values()
        seen.add(int(group["Desired"]))
    return seen


def _prometheus(platform: Platform) -> int:
    (process,) = [
        each for each in processes_of(platform.run) if each.kind == "prometheus of prometheus"
    ]
    return process.pid
