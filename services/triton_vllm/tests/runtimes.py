"""Where the programs under test run: on this machine, or each in a container of its own.

Containers are like the platform's (components/serving/nomad_job.py): the host's network, a root
that cannot be written to, no capabilities. Their image has the layout of Triton's stock image, and
the fake engine as its vLLM (services/testing/stock_image.py).
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Protocol

from stock_image import packed_by

SERVICE = Path(__file__).resolve().parent.parent
FAILING_TRITON = Path(__file__).with_name("failing_triton.py")
FAKE_ENGINE = Path(__file__).with_name("fake_vllm.py")
PLANNED_VLLM = "0.32.0"
SERVER, SAME_SERVER = (f"/opt/tritonserver/{folder}/tritonserver" for folder in ("bin", "sbin"))
SHARED_MEMORY = "dev/shm"
Output = IO[bytes] | int | None


class Process(Protocol):
    """What the tests use of subprocess.Popen."""

    @property
    def pid(self) -> int: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...


class Docker(Protocol):
    """What the runtime uses of a daemon."""

    def client(self, *words: str) -> str: ...
    def start_client(
        self, *words: str, stdout: Output, stderr: Output
    ) -> subprocess.Popen[bytes]: ...


class Runtime(Protocol):
    """Of programs that may write to one folder. `its_processes_outlive_it`: a program that is
    killed, which nothing else does."""

    its_processes_outlive_it: bool

    def document(self) -> dict[str, Any]:
        """What is particular in a replica's document."""

    def variables(self) -> dict[str, str]:
        """What is particular in a replica's environment."""

    def start(
        self, program: Sequence[str], variables: Mapping[str, str], stdout: Output, stderr: Output
    ) -> Process:
        """Starts a Python program with these variables beside those of this process."""

    def shared_memory(self, process: Process) -> Path:
        """The folder of a program's shared memory, which may end with it."""

    def fail_triton(self, how: str, times: int) -> dict[str, str]:
        """Has the next replica's Triton fail (failing_triton.py), given these variables."""


class OnHost:
    its_processes_outlive_it = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def document(self) -> dict[str, Any]:
        return {}

    def variables(self) -> dict[str, str]:
        vllm = fake_environment(self._folder)
        return {"SLIPWAY_ENV_TRITON": sys.prefix, "SLIPWAY_ENV_VLLM": str(vllm)}

    def start(
        self, program: Sequence[str], variables: Mapping[str, str], stdout: Output, stderr: Output
    ) -> Process:
        return subprocess.Popen(
            [sys.executable, *program],
            env={**os.environ, **variables},
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
        )

    def shared_memory(self, _process: Process) -> Path:
        return Path("/", SHARED_MEMORY)

    def fail_triton(self, how: str, times: int) -> dict[str, str]:
        """By an environment that differs in this one file."""
        prefix, folder = Path(sys.prefix), self._folder / "env"
        server = next(prefix.glob("lib/*/site-packages/pytriton/tritonserver/bin/tritonserver"))
        fake = server.relative_to(prefix)
        for parent, replaced in zip(reversed(fake.parents), fake.parts, strict=True):
            (folder / parent).mkdir()
            for entry in (prefix / parent).iterdir():
                if entry.name != replaced:
                    (folder / parent / entry.name).symlink_to(entry)
        words = [sys.executable, str(FAILING_TRITON), how, str(times), str(server)]
        _write_program(folder / fake, words)
        return {"SLIPWAY_ENV_TRITON": str(folder)}


class InContainers:
    """`image` is an ID that the daemon knows."""

    its_processes_outlive_it = False

    def __init__(
        self, folder: Path, *, daemon: Docker, image: str, options: Sequence[str] = ()
    ) -> None:
        self._folder, self._daemon, self._image = folder, daemon, image
        self._options = options
        shared = SERVICE.parent / "program"  # to which the service has a link
        read = (f"{each}:{each}:ro" for each in (SERVICE, shared))
        self._mounts = [f"{folder}:{folder}", *read]

    def document(self) -> dict[str, Any]:
        return {**on_accelerators(), "container": {"vllm": PLANNED_VLLM}}

    def variables(self) -> dict[str, str]:
        return {"NVIDIA_VISIBLE_DEVICES": "GPU-0"}

    def start(
        self, program: Sequence[str], variables: Mapping[str, str], stdout: Output, stderr: Output
    ) -> Process:
        name = f"slipway-test-{uuid.uuid4().hex[:12]}"
        self._daemon.client(
            *("create", "--name", name, "--init", "--network", "host", "--entrypoint", "python3"),
            *("--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"),
            *("--shm-size", "256m", "--tmpfs", "/tmp", *self._options),
            *(word for mount in self._mounts for word in ("--volume", mount)),
            *(word for each in variables.items() for word in ("--env", "=".join(each))),
            self._image,
            *program,
        )
        return ContainerProcess(self._daemon, name, stdout, stderr)

    def shared_memory(self, process: Process) -> Path:
        return Path(f"/proc/{process.pid}/root", SHARED_MEMORY)

    def fail_triton(self, how: str, times: int) -> dict[str, str]:
        """By a file over the image's server, which is there a second time."""
        script = self._folder / "tritonserver"
        _write_program(script, ["python3", str(FAILING_TRITON), how, str(times), SAME_SERVER])
        self._mounts.append(f"{script}:{SERVER}:ro")
        return {}


class ContainerProcess:
    """The program of a container, as a process of this machine."""

    def __init__(self, daemon: Docker, name: str, stdout: Output, stderr: Output) -> None:
        self._daemon, self._name = daemon, name
        # Collects the program's output, and ends with it.
        self.collector = daemon.start_client(
            "start", "--attach", name, stdout=stdout, stderr=stderr
        )

    @property
    def pid(self) -> int:
        """The container's first process passes on signals to the program, its only child."""
        first = self._daemon.client("inspect", "--format={{.State.Pid}}", self._name).strip()
        return int(Path(f"/proc/{first}/task/{first}/children").read_text().split()[0])

    def poll(self) -> int | None:
        return None if self.collector.poll() is None else self.wait()

    def wait(self, timeout: float | None = None) -> int:
        self.collector.wait(timeout)
        return int(self._daemon.client("wait", self._name))

    def terminate(self) -> None:
        self._daemon.client("kill", "--signal=TERM", self._name)

    def kill(self) -> None:
        with suppress(OSError):  # it has ended
            os.kill(self.pid, signal.SIGKILL)


def on_accelerators() -> dict[str, Any]:
    """What is particular in the document of a replica on one of NVIDIA's devices."""
    engine = {"kind": "vllm", "dtype": "auto", "max_model_len": 2048, "max_num_seqs": 8}
    engine |= {"gpu_memory_utilization": 0.9, "engine_args": {}}
    return {
        "engine": engine,
        "devices": {"vendor": "nvidia", "count": 1},
    }


def fake_environment(folder: Path) -> Path:
    """An environment folder whose python runs the fake engine whatever it is asked to run."""
    python = folder / "fake-env/bin/python"
    python.parent.mkdir(parents=True, exist_ok=True)
    _write_program(python, [sys.executable, str(FAKE_ENGINE)])
    return folder / "fake-env"


def load_stock_image(daemon: Docker, folder: Path) -> str:
    """The ID of the image that the daemon has then."""
    archive = folder / "image.tar"
    image = packed_by(Path(sys.executable), FAKE_ENGINE, PLANNED_VLLM, archive)
    daemon.client("load", f"--input={archive}")
    archive.unlink()
    return image


def _write_program(file: Path, words: Sequence[str]) -> None:
    file.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', encoding="utf-8")
    file.chmod(0o755)
