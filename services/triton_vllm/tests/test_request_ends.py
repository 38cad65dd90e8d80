"""However a request ends, it is answered and no longer counted: a drain waits for the count.

The Triton model outside its stub, with senders and tensors that fail as Triton's can.
"""

from __future__ import annotations

import importlib
import json
import sys
import threading
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hang import HANG_S

FINAL = 1
NOBODY_LISTENS = "http://127.92.0.2:1"


class Gauge:
    """Triton's metric and its family in one."""

    GAUGE = 0
    value = 0

    def increment(self, step: int) -> None:
        self.value += step

    def Metric(self, labels: object) -> Gauge:  # noqa: N802 - Triton's name
        return self


class TritonError:
    INTERNAL, CANCELLED, INVALID_ARG, UNAVAILABLE = range(4)

    def __init__(self, message: str, code: int) -> None:
        self.message = message
        self.code = code


class Request:
    """A request and its response sender in one."""

    def __init__(self, *, sampling: str = "{}", cancelled: bool = False, failing: str = "") -> None:
        self._tensors = {"text_input": "a", "sampling_parameters": sampling}
        self._cancelled = cancelled
        self._failing = failing
        self.answered = threading.Event()

    def get_response_sender(self) -> Request:
        return self

    def parameters(self) -> str:
        return ""

    def elements(self, name: str) -> Any:
        if self._failing == name:
            raise RuntimeError(f"{name} cannot be read")
        return np.array([self._tensors[name]], dtype=np.object_)

    def tensor(self, name: str) -> Any:
        if name in self._tensors:
            return SimpleNamespace(as_numpy=lambda: self.elements(name))
        return None

    def is_cancelled(self) -> bool:
        return self._cancelled

    def send(self, response: Any, flags: int) -> None:
        assert flags == FINAL
        self.error: TritonError = response.error
        self.answered.set()
        if self._failing == "send":
            raise RuntimeError("no space left in shared memory")


@pytest.fixture
def gauge() -> Gauge:
    return Gauge()


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch, gauge: Gauge) -> ModuleType:
    """The module that Triton's stub loads. It asks for cancellations whenever it can."""
    triton: Any = ModuleType("triton_python_backend_utils")
    triton.MetricFamily = lambda **_facts: gauge
    triton.MetricFamily.GAUGE = Gauge.GAUGE
    triton.Logger = SimpleNamespace(log_error=print)
    triton.TRITONSERVER_RESPONSE_COMPLETE_FINAL = FINAL
    triton.InferenceResponse = SimpleNamespace
    triton.TritonError = TritonError
    triton.get_input_tensor_by_name = Request.tensor
    monkeypatch.setitem(sys.modules, triton.__name__, triton)
    monkeypatch.delitem(sys.modules, "model", raising=False)
    module = importlib.import_module("model")
    monkeypatch.setattr(module, "CANCELLATION_POLL_S", 0)
    return module


def run(backend: ModuleType, request: Request) -> None:
    """One request from Triton's call to the model's end."""
    model = backend.TritonPythonModel()
    engine = {"engine_url": {"string_value": NOBODY_LISTENS}}
    model.initialize({"model_config": json.dumps({"name": "smollm2", "parameters": engine})})
    try:
        model.execute([request])
        assert request.answered.wait(HANG_S), "no final response"
    finally:
        model.finalize()


def test_a_request_that_was_cancelled_before_it_began(backend: ModuleType, gauge: Gauge) -> None:
    request = Request(cancelled=True)
    run(backend, request)
    assert request.error.code == TritonError.CANCELLED
    assert gauge.value == 0


@pytest.mark.parametrize(
    ("sampling", "code"),
    [("{}", TritonError.UNAVAILABLE), ("{", TritonError.INVALID_ARG)],
    ids=["the engine's error", "our refusal"],
)
def test_a_request_whose_last_response_cannot_be_sent(
    backend: ModuleType, gauge: Gauge, sampling: str, code: int
) -> None:
    request = Request(sampling=sampling, failing="send")
    run(backend, request)
    assert request.error.code == code
    assert gauge.value == 0


def test_a_request_whose_tensors_cannot_be_read(backend: ModuleType, gauge: Gauge) -> None:
    request = Request(failing="text_input")
    run(backend, request)
    assert request.error.message == "RuntimeError: text_input cannot be read"
    assert gauge.value == 0
