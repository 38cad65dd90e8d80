"""A launcher under test, its processes and its shared memory."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from hang import HANG_S
from replica.processes import marked_processes
from runtimes import SERVICE, ContainerProcess, OnHost, Runtime

MODEL, ALIAS = "smollm2", "Small_1.0-b"  # with every character that an alias may contain
REPLICA_HANG_S = 2 * HANG_S  # its processes start and end one after the other
GRPC_PORT, HTTP_PORT, METRICS_PORT, OPENAI_PORT, LIVENESS_PORT = 8001, 8002, 8003, 8000, 8004


def document(**changes: Any) -> dict[str, Any]:
    """A valid replica document."""
    return {
        "schema_version": 4,
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
        "longest_step_s": 0.1,
        "stall_s": 3600,
        **changes,
    }


class ReplicaProcess:
    """Runs `launcher.py` on an address of its own; the fake engine unless told otherwise."""

    def __init__(
        self, folder: Path, address: str, runtime: Runtime | None = None, **changes: Any
    ) -> None:
        self.folder = folder
        self.log = folder / "stdout"
        self.address = address
        self.runtime = runtime or OnHost(folder)
        self.document = document(**self.runtime.document(), **changes)
        self.environment = {
            **self.runtime.variables(),
            "PYTHONUNBUFFERED": "",  # the scheduler sets none
            "SLIPWAY_ADDRESS": address,
            "SLIPWAY_PORT_OPENAI": str(OPENAI_PORT),
            "SLIPWAY_PORT_GRPC": str(GRPC_PORT),
            "SLIPWAY_PORT_HTTP": str(HTTP_PORT),
            "SLIPWAY_PORT_METRICS": str(METRICS_PORT),
            "SLIPWAY_PORT_LIVENESS": str(LIVENESS_PORT),
            "SLIPWAY_RUNTIME": str(folder),
            "SLIPWAY_SCRATCH": str(folder / "s"),
        }
        self.launcher = SERVICE / "launcher.py"
        self.incarnation = ""
        self.folders_before = triton_folders()

    def start(self) -> ReplicaProcess:
        with self.log.open("ab") as stdout:
            return self._start(stdout)

    def start_collected(self) -> ReplicaProcess:
        """With a process that collects its output in a log, like the scheduler's. Containers have
        their own."""
        with self.log.open("ab") as log:
            self._collector = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=log)
        assert self._collector.stdin is not None
        with self._collector.stdin as pipe:
            return self._start(pipe)

    @property
    def collectors(self) -> list[subprocess.Popen[bytes]]:
        """Of a replica that was started with one."""
        own = [self.process.collector] if isinstance(self.process, ContainerProcess) else []
        return [self._collector, *own]

    def _start(self, stdout: IO[bytes]) -> ReplicaProcess:
        file = self.folder / "replica.json"
        file.write_text(json.dumps(self.document), encoding="utf-8")
        with (self.folder / "stderr").open("ab") as stderr:
            program = [str(self.launcher), "--document", str(file)]
            self.process = self.runtime.start(program, self.environment, stdout, stderr)
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
        """The entries that the replica noted as its own and that still exist. It looks each second,
        so a replica that has started sooner has noted none yet."""
        (folder,) = (self.folder / "s").glob("r-*")
        ledger = folder / "shared-memory.json"
        wait_until(lambda: ledger.exists() or self.process.poll() is not None)
        return set(json.loads(ledger.read_text())) & self.shared_memory_names()

    def shared_memory_names(self) -> set[str]:
        """Everything in the shared memory where it runs."""
        folder = self.runtime.shared_memory(self.process)
        return {entry.name for entry in folder.iterdir()}

    def is_gone(self) -> bool:
        return not self.marked() and not self._left()

    def _left(self) -> set[Path]:
        """What is left of its folders. Those of a replica that was killed in a container end with
        the container, or when the next one starts with them."""
        if not self.runtime.its_processes_outlive_it:
            return set()
        return {*(self.folder / "s").glob("r-*")} | (triton_folders() - self.folders_before)

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


def hold_engine(replica: ReplicaProcess) -> Path:
    """Has the fake engine wait, before it starts, for the file that is returned."""
    go = replica.folder / "go"
    replica.environment["FAKE_VLLM_WAITS_FOR"] = str(go)
    return go


def fail_triton(replica: ReplicaProcess, how: str, times: int) -> None:
    """Has Triton fail so many times, each time once its stubs run (failing_triton.py)."""
    replica.environment |= replica.runtime.fail_triton(how, times)


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
