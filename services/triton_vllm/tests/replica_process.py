"""A launcher under test, its processes and its shared memory."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from hang import HANG_S
from replica.processes import marked_processes

SERVICE = Path(__file__).resolve().parent.parent
MODEL, ALIAS = "smollm2", "Small_1.0-b"  # with every character that an alias may contain
REPLICA_HANG_S = 2 * HANG_S  # its processes start and end one after the other
GRPC_PORT, HTTP_PORT, METRICS_PORT, OPENAI_PORT = 8001, 8002, 8003, 8000


def document(**changes: Any) -> dict[str, Any]:
    """A valid replica document."""
    return {
        "schema_version": 2,
        "model": MODEL,
        "aliases": [ALIAS],
        "weights": "weights/none",
        "engine": {
            "kind": "vllm",
            "dtype": "float32",
            "max_model_len": 2048,
            "max_num_seqs": 8,
            "kv_cache_bytes": 1 << 30,
            "threads": 2,
            "engine_args": {},
        },
        "load_timeout_s": 3600,
        "drain_timeout_s": 3600,
        **changes,
    }


class ReplicaProcess:
    """Runs `launcher.py` on an address of its own; the fake engine unless told otherwise."""

    def __init__(self, folder: Path, address: str, **changes: Any) -> None:
        self.folder = folder
        self.log = folder / "stdout"
        self.address = address
        self.document = document(**changes)
        self.environment = {
            **os.environ,
            "PYTHONUNBUFFERED": "",  # the scheduler sets none
            "SLIPWAY_ADDRESS": address,
            "SLIPWAY_PORT_OPENAI": str(OPENAI_PORT),
            "SLIPWAY_PORT_GRPC": str(GRPC_PORT),
            "SLIPWAY_PORT_HTTP": str(HTTP_PORT),
            "SLIPWAY_PORT_METRICS": str(METRICS_PORT),
            "SLIPWAY_RUNTIME": str(folder),
            "SLIPWAY_SCRATCH": str(folder / "s"),
            "SLIPWAY_ENV_TRITON": sys.prefix,
            "SLIPWAY_ENV_VLLM": str(fake_environment(folder)),
        }
        self.launcher = SERVICE / "launcher.py"
        self.incarnation = ""
        self.folders_before = triton_folders()

    def start(self) -> ReplicaProcess:
        with self.log.open("ab") as stdout:
            return self._start(stdout)

    def start_collected(self) -> ReplicaProcess:
        """With a process that collects its output in a log, like the scheduler's."""
        with self.log.open("ab") as log:
            self.collector = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=log)
        assert self.collector.stdin is not None
        with self.collector.stdin as pipe:
            return self._start(pipe)

    def _start(self, stdout: IO[bytes]) -> ReplicaProcess:
        file = self.folder / "replica.json"
        file.write_text(json.dumps(self.document), encoding="utf-8")
        with (self.folder / "stderr").open("ab") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, str(self.launcher), "--document", str(file)],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
            )
        return self

    def wait_for(self, phase: str, times: int = 1) -> ReplicaProcess:
        """Until it has reached the phase so many times, earlier starts included."""
        wait_until(lambda: self._reached(phase, times) or self.process.poll() is not None)
        stderr = self.folder / "stderr"
        assert self._reached(phase, times), stderr.read_text(errors="replace")[-3000:]
        (file,) = (self.folder / "s").glob("r-*/incarnation")
        self.incarnation = file.read_text(encoding="utf-8")
        return self

    def _reached(self, phase: str, times: int) -> bool:
        return self.phases().count(phase) >= times

    def phases(self) -> list[str]:
        return [event["phase"] for event in self.events() if event["event"] == "progress"]

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def parts(self) -> dict[str, int]:
        """Every process of the replica by its kind; stubs and trackers are numbered."""
        found: dict[str, int] = {}
        for pid in sorted(self.marked()):
            try:
                words = Path(f"/proc/{pid}/cmdline").read_bytes()
            except OSError:
                continue  # ended meanwhile
            command = words.replace(b"\0", b" ").decode()
            name = next((n for n, sign in PART_SIGNS.items() if sign in command), command)
            while name in found:
                name += "+"
            found[name] = pid
        return found

    def marked(self) -> list[int]:
        return marked_processes(self.incarnation)

    def shared_memory(self) -> set[str]:
        """The entries that the replica noted as its own and that still exist in /dev/shm."""
        (ledger,) = (self.folder / "s").glob("r-*/shared-memory.json")
        return set(json.loads(ledger.read_text())) & shared_memory_names()

    def is_gone(self) -> bool:
        left = [*self.marked(), *(self.folder / "s").glob("r-*")]
        return not left and triton_folders() <= self.folders_before

    def release(self, streams: int = 1) -> None:
        """Lets so many streams of the fake engine go on whose prompts say `hold`."""
        for _ in range(streams):
            url = f"http://{self.address}:{OPENAI_PORT}/release"
            with urllib.request.urlopen(url, b"", timeout=HANG_S):
                pass

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(REPLICA_HANG_S)

    def end(self) -> None:
        """Ends what the test left."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self.incarnation:
            wait_until(self.is_gone)


PART_SIGNS = {
    "guard": "guard.py",
    "tritonserver": "bin/tritonserver",
    "stub": "triton_python_backend_stub",
    "tracker": "resource_tracker",
    "fork_server": "slipway: fork server",
    "engine": "spawn_main",
    "api_server": "--served-model-name",
}


def fake_environment(folder: Path) -> Path:
    """An environment folder whose python runs the fake engine whatever it is asked to run."""
    python = folder / "fake-env/bin/python"
    python.parent.mkdir(parents=True, exist_ok=True)
    fake = Path(__file__).with_name("fake_vllm.py")
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{fake}" "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    return folder / "fake-env"


def hold_engine(replica: ReplicaProcess) -> Path:
    """Has the fake engine wait, before it starts, for the file that is returned."""
    python = Path(replica.environment["SLIPWAY_ENV_VLLM"], "bin/python")
    go = python.with_name("go")
    start = python.read_text(encoding="utf-8").removeprefix("#!/bin/sh\n")
    waits = f'until [ -e "{go}" ]; do sleep 0.05; done'
    python.write_text(f"#!/bin/sh\n{waits}\n{start}", encoding="utf-8")
    return go


def fail_triton(replica: ReplicaProcess, how: str, times: int) -> None:
    """Has Triton fail so many times, each time once its stubs run (failing_triton.py)."""
    prefix, folder = Path(sys.prefix), replica.folder / "env"
    server = next(prefix.glob("lib/*/site-packages/pytriton/tritonserver/bin/tritonserver"))
    fake = server.relative_to(prefix)
    for parent, replaced in zip(reversed(fake.parents), fake.parts, strict=True):
        (folder / parent).mkdir()
        for entry in (prefix / parent).iterdir():
            if entry.name != replaced:
                (folder / parent / entry.name).symlink_to(entry)
    failing = Path(__file__).with_name("failing_triton.py")
    words = [sys.executable, str(failing), how, str(times), str(server)]
    (folder / fake).write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', encoding="utf-8")
    (folder / fake).chmod(0o755)
    replica.environment["SLIPWAY_ENV_TRITON"] = str(folder)


def triton_folders() -> set[Path]:
    """What Triton's Python backend creates in /tmp at its start, of every user."""
    return set(Path("/tmp").glob("python_env_*"))


def shared_memory_names() -> set[str]:
    """Everything in /dev/shm, of every user."""
    return {entry.name for entry in Path("/dev/shm").iterdir()}


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + REPLICA_HANG_S
    while not condition():
        assert time.monotonic() < deadline, "the condition never came true"
        time.sleep(0.02)
