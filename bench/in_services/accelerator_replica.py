"""Rows of bench/accelerator.py: a small model on one device of this machine.

    accelerator_replica.py bare DEVICE VLLM        VLLM is the folder of an environment with vLLM
    accelerator_replica.py container DEVICE IMAGE  IMAGE is one that Docker has on this machine

The launcher is started as a task is, with the device's UUID in the variables of its plugin.
SLIPWAY_RUNTIME has the weights, or gets them (services/triton_vllm/tests/real_replica.py).
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from hang import HANG_S
from real_replica import DIRECTORY, prepared_runtime
from replica_process import MODEL, OPENAI_PORT, ReplicaProcess
from runtimes import InContainers, OnHost, Runtime, on_accelerators

ADDRESS = "127.92.2.1"
TOKENS = 128
LOAD_TIMEOUT_S = 1800


class ThisDocker:
    """Docker of this machine."""

    def client(self, *words: str) -> str:
        done = subprocess.run(["docker", *words], capture_output=True, text=True, check=True)
        return done.stdout

    def start_client(self, *words: str, stdout: Any, stderr: Any) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["docker", *words], stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr
        )


def row(what: str, found: str, verdict: str = "") -> None:
    print(json.dumps({"what": what, "found": found, "verdict": verdict}), flush=True)


def answer(replica: ReplicaProcess) -> tuple[str, float, float]:
    """A streamed answer: its text, the seconds to its first token, and tokens per second after."""
    body = {"model": MODEL, "prompt": "The capital of France is", "max_tokens": TOKENS}
    body |= {"stream": True, "temperature": 0}
    url = f"http://{replica.address}:{OPENAI_PORT}/v1/completions"
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    texts, times = [], [time.monotonic()]
    with urllib.request.urlopen(request, timeout=HANG_S) as reply:
        for line in reply:
            if line.startswith(b"data: {") and (choices := json.loads(line[6:])["choices"]):
                texts.append(choices[0]["text"])
                times.append(time.monotonic())
    first_s = times[1] - times[0]
    return "".join(texts), first_s, (len(texts) - 1) / (times[-1] - times[1])


def runtime_of(kind: str, folder: Path, image: str, weights: Path) -> Runtime:
    if kind == "bare":
        return OnHost(folder)
    mounted = f"{weights}:{weights}:ro"
    options = ("--runtime", "nvidia", "--volume", mounted)
    return InContainers(folder, daemon=ThisDocker(), image=image, options=options)


def main(kind: str, device: str, vllm_or_image: str) -> None:
    runtime_folder = prepared_runtime()
    folder = Path(tempfile.mkdtemp(prefix="slw-"))
    runtime = runtime_of(kind, folder, vllm_or_image, runtime_folder / DIRECTORY)
    replica = ReplicaProcess(
        folder, ADDRESS, runtime, weights=DIRECTORY, load_timeout_s=LOAD_TIMEOUT_S
    )
    replica.document |= on_accelerators()
    replica.environment |= {
        "NVIDIA_VISIBLE_DEVICES": device,
        "CUDA_VISIBLE_DEVICES": device,
        "SLIPWAY_STORE": str(runtime_folder),
    }
    if kind == "bare":
        replica.environment["SLIPWAY_ENV_VLLM"] = vllm_or_image
    began_s = time.monotonic()
    try:
        replica.start().wait_for("ready")
        row(f"{kind}: a small model is ready after", f"{time.monotonic() - began_s:.0f} s")
        text, first_s, tokens_per_s = answer(replica)
        row(f"{kind}: its answer", json.dumps(text[:40]), "yes" if text.strip() else "no")
        row(f"{kind}: first token, then", f"{1000 * first_s:.0f} ms, {tokens_per_s:.0f} tokens/s")
        code = replica.stop()
        row(f"{kind}: it drains and ends with", str(code), "yes" if code == 0 else "no")
    finally:
        replica.end()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
