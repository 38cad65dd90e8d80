"""A simulated engine as a process of its own, for benchmarks that know its step times."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).resolve().parents[1] / "services/engine_sim/engine_sim.py"
ENDS_S = 20


@contextmanager
def simulated_engine(
    python: Path, document: Mapping[str, Any], address: str, ports: Mapping[str, int], folder: Path
) -> Iterator[None]:
    """Runs within the block, and may not listen yet when it begins. `ports` are OPENAI, GRPC, HTTP
    and METRICS; the document is written into the folder."""
    path = folder / f"{address}.json"
    path.write_text(json.dumps(document), "utf-8")
    process = subprocess.Popen(
        [python, PROGRAM, "--document", path],
        env={
            **os.environ,
            "SLIPWAY_ADDRESS": address,
            **{f"SLIPWAY_PORT_{name}": str(port) for name, port in ports.items()},
        },
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait(ENDS_S)
