"""The families of Triton's metrics port that Slipway reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

_REASONS = ("REJECTED", "CANCELED", "BACKEND", "OTHER")


class TritonMetrics:
    """Unlike in Triton, a success is counted when the stream ends, and pending is correct.

    prometheus_client cannot write counters whose names do not end in `_total`, hence the few
    lines of text here.
    """

    def __init__(self, model: str, pending: Callable[[], int]) -> None:
        self._labels = f'model="{model}",version="1"'
        self._pending = pending
        self._success = 0
        self._failures = Counter(dict.fromkeys(_REASONS, 0))

    def success(self) -> None:
        self._success += 1

    def failure(self, reason: str) -> None:
        self._failures[reason] += 1

    def text(self) -> str:
        """The page in Prometheus' text format."""
        failures = {f'{self._labels},reason="{name}"': n for name, n in self._failures.items()}
        families = [
            ("success", "counter", "Requests that succeeded", {self._labels: self._success}),
            ("failure", "counter", "Requests that failed", failures),
            (
                "pending_request_count",
                "gauge",
                "Requests waiting for the engine",
                {self._labels: self._pending()},
            ),
        ]
        lines = []
        for suffix, kind, text, samples in families:
            base = "nv_inference_" if kind == "gauge" else "nv_inference_request_"
            lines += [f"# HELP {base}{suffix} {text}", f"# TYPE {base}{suffix} {kind}"]
            lines += [f"{base}{suffix}{{{labels}}} {value}" for labels, value in samples.items()]
        return "\n".join(lines) + "\n"
