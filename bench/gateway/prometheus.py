"""A real Prometheus that scrapes the replicas, from which a control plane learns how busy they
are."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench.gateway.processes import running

PORT = 9090
SCRAPE_INTERVAL_S = 5  # the platform's (slipway/planner/platform.py)


@contextmanager
def prometheus(program: Path, host: str, targets: Mapping[str, str], folder: Path) -> Iterator[str]:
    """Its URL. `targets` are the addresses of replicas by name."""
    config, data = folder / "prometheus.yml", folder / "prometheus"
    found = [
        {"targets": [address], "labels": {"replica": name}} for name, address in targets.items()
    ]
    scraped = {"job_name": "services", "static_configs": found}
    every = {"scrape_interval": f"{SCRAPE_INTERVAL_S}s"}
    config.write_text(json.dumps({"global": every, "scrape_configs": [scraped]}))  # JSON is YAML
    command: list[str | Path] = [
        program,
        f"--config.file={config}",
        f"--storage.tsdb.path={data}",
        f"--web.listen-address={host}:{PORT}",
    ]
    with running(command, log=folder / "prometheus.log"):
        yield f"http://{host}:{PORT}"
