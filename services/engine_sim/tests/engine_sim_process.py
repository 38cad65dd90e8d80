"""A simulated replica as a real process, on a loopback address of its own."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import psutil
from hang import HANG_S
from prometheus_client.parser import text_string_to_metric_families
from typing_extensions import Self

_SERVICE = Path(__file__).parent.parent
_LAST_BYTE = itertools.count(2)
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def document(**engine: Any) -> dict[str, Any]:
    """A replica.json of a small Llama; the arguments override its keys and its engine's."""
    others = {"model": "llama", "load_timeout_s": 60, "drain_timeout_s": 20}
    for name in others.keys() & engine.keys():
        others[name] = engine.pop(name)
    settings = {
        "kind": "sim",
        "architecture": "llama-3.1-8b",
        "profile": "h100-fp8",
        "max_model_len": 4096,
        "max_num_seqs": 64,
        "kv_cache_bytes": 4096 * 16 * 131072,
        "startup_s": 0,
        "engine_args": {},
    }
    return {
        "schema_version": 3,
        "aliases": ["small"],
        "engine": {**settings, **engine},
        **others,
    }


def free_address() -> str:
    return f"127.93.0.{next(_LAST_BYTE)}"


class SimProcess:
    """Starts on entry and waits for `wait_for`; killed on exit if it has not ended."""

    program = "engine_sim.py"

    def __init__(
        self,
        *,
        wait_for: Literal["ready", "listeners", "nothing", "end"] = "ready",
        address: str = "",
        options: Sequence[str] = (),
        variables: Mapping[str, str] | None = None,
        **engine: Any,
    ) -> None:
        self.address = address or free_address()
        self.openai = f"http://{self.address}:8000"
        self.grpc = f"{self.address}:8001"
        self.http = f"http://{self.address}:8002"
        self.metrics = f"http://{self.address}:8003"
        self._document = document(**engine)
        self._wait_for = wait_for
        self._options = options
        self._variables = variables or {}

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="engine-sim-")
        path = Path(self._folder.name) / "replica.json"
        path.write_text(json.dumps(self._document), "utf-8")
        self._log = (Path(self._folder.name) / "log").open("w+b")
        self.process = subprocess.Popen(
            [sys.executable, _SERVICE / self.program, "--document", path, *self._options],
            env={**os.environ, **self.environment(), **self._variables},
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        try:
            if self._wait_for == "end":
                self.process.wait(HANG_S)
            elif self._wait_for != "nothing":
                self.wait_for(self.openai + "/health", 200 if self._wait_for == "ready" else None)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end()

    def _end(self) -> None:
        self.process.kill()
        self.process.wait()
        self._log.close()
        self._folder.cleanup()

    def environment(self) -> dict[str, str]:
        return {
            "SLIPWAY_ADDRESS": self.address,
            "SLIPWAY_PORT_OPENAI": "8000",
            "SLIPWAY_PORT_GRPC": "8001",
            "SLIPWAY_PORT_HTTP": "8002",
            "SLIPWAY_PORT_METRICS": "8003",
            "SLIPWAY_PORT_LIVENESS": "8004",
            "VLLM_HOST_IP": self.address,
        }

    def log(self) -> str:
        return Path(self._log.name).read_text("utf-8")

    def wait_for_log(self, text: str) -> None:
        deadline = time.monotonic() + HANG_S
        while text not in self.log():
            assert time.monotonic() < deadline, f"{text!r} is not in the log:\n{self.log()}"
            time.sleep(0.02)

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def wait_for(self, url: str, status: int | None) -> None:
        """Waits until `url` answers with `status`, or with anything if it is None."""
        deadline = time.monotonic() + HANG_S
        seen: object = "nothing"
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise AssertionError(f"ended with {self.process.returncode}:\n{self.log()}")
            try:
                seen = self.call(url)[0]
            except OSError as error:
                seen = error
            if seen == status or (status is None and isinstance(seen, int)):
                return
            time.sleep(0.02)
        raise AssertionError(f"{url}: wanted {status}, saw {seen}\n{self.log()}")

    def call(
        self,
        url: str,
        body: object = None,
        *,
        method: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> tuple[int, str]:
        """Status and body; POST when there is a body."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, headers or {}, method=method)
        try:
            with _OPENER.open(request, timeout=HANG_S) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def set_faults(self, **faults: object) -> None:
        status, text = self.call(self.openai + "/sim/faults", faults, method="PUT")
        assert status == 200, text

    def clear_faults(self) -> None:
        assert self.call(self.openai + "/sim/faults", method="DELETE")[0] == 200

    def samples(self, url: str) -> dict[str, float]:
        """A metrics page as {name: value}, `name{reason}` where a reason tells samples apart."""
        _, text = self.call(url + "/metrics")
        values: dict[str, float] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                reason = sample.labels.get("finished_reason") or sample.labels.get("reason")
                bound = sample.labels.get("le")
                # The parser adds _total to counters that do not have it.
                name = sample.name if sample.name in text else sample.name.removesuffix("_total")
                if bound is None:
                    values[f"{name}{{{reason}}}" if reason else name] = sample.value
        return values

    def wait_for_sample(self, url: str, name: str, value: float) -> None:
        deadline = time.monotonic() + HANG_S
        while (seen := self.samples(url)[name]) != value:
            assert time.monotonic() < deadline, f"{name}: wanted {value}, last seen {seen}"
            time.sleep(0.02)


class WatchedSim(SimProcess):
    """An engine below its watcher, which is `process`."""

    program = "watcher.py"

    def __init__(self, *, stall_s: float = 3600, **others: Any) -> None:
        super().__init__(**others)
        self.live = f"http://{self.address}:8004/slipway/live"
        self._document = {**self._document, "schema_version": 4}
        self._document |= {"longest_step_s": 0.1, "stall_s": stall_s}

    @property
    def engine(self) -> psutil.Process:
        (child,) = psutil.Process(self.process.pid).children()
        return child

    def verdict(self) -> dict[str, Any]:
        """That of a look: the page answers before the watcher has looked for the first time."""
        deadline = time.monotonic() + HANG_S
        verdict: dict[str, Any] = {"part": ""}
        while not verdict["part"]:
            assert time.monotonic() < deadline, "the watcher does not look"
            verdict = json.loads(self.call(self.live)[1])
        return verdict
