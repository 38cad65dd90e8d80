"""The engine's metrics, with vLLM's names and labels."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from simulator.core.scheduler import Limits, Scheduler

Family = CounterMetricFamily | GaugeMetricFamily

# Bucket bounds in seconds, as in vLLM.
_FIRST_TOKEN_S = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75),
    *(1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
_TOKEN_S = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5),
    *(0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
)
_REQUEST_S = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0),
    *(120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0),
)
_FINISHED_REASONS = ("stop", "length", "abort", "error")

disable_created_metrics()  # type: ignore[no-untyped-call]


class EngineMetrics:
    """Everything is zero, not absent, before the first request."""

    def __init__(self, model: str, scheduler: Scheduler, max_model_len: int) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(_SchedulerCollector(model, scheduler))
        cache = _cache_config(scheduler.limits, max_model_len)
        Gauge(
            "vllm:cache_config_info", "The KV cache.", tuple(cache), registry=self.registry
        ).labels(**cache).set(1)
        labels = {"model_name": model, "engine": "0"}

        def histogram(name: str, text: str, bounds: tuple[float, ...]) -> Histogram:
            family = Histogram(name, text, labels, buckets=bounds, registry=self.registry)
            return family.labels(**labels)

        def counter(name: str, text: str) -> Counter:
            return Counter(name, text, labels, registry=self.registry).labels(**labels)

        self.time_to_first_token = histogram(
            "vllm:time_to_first_token_seconds", "Time to first token.", _FIRST_TOKEN_S
        )
        self.inter_token_latency = histogram(
            "vllm:inter_token_latency_seconds", "Time between two tokens.", _TOKEN_S
        )
        self.time_per_output_token = histogram(
            "vllm:time_per_output_token_seconds", "Time between two tokens (older name).", _TOKEN_S
        )
        self.e2e_request_latency = histogram(
            "vllm:e2e_request_latency_seconds", "Arrival to last token.", _REQUEST_S
        )
        self.queue_time = histogram(
            "vllm:request_queue_time_seconds", "Time in the waiting queue.", _REQUEST_S
        )
        self.prompt_tokens = counter("vllm:prompt_tokens", "Prompt tokens computed or reused.")
        self.generation_tokens = counter("vllm:generation_tokens", "Tokens generated.")
        success = Counter(
            "vllm:request_success",
            "Requests finished, by reason.",
            (*labels, "finished_reason"),
            registry=self.registry,
        )
        self.finished = {
            reason: success.labels(**labels, finished_reason=reason) for reason in _FINISHED_REASONS
        }

    def between_tokens(self, seconds: float) -> None:
        self.inter_token_latency.observe(seconds)
        self.time_per_output_token.observe(seconds)


def _cache_config(limits: Limits, max_model_len: int) -> dict[str, str]:
    """The labels that are known here of vLLM's, which has all of its CacheConfig and no name of the
    model. Tokens and concurrency are in sequences of full length, as get_kv_cache_capacity in
    vllm/v1/core/kv_cache_utils.py counts them."""
    concurrency = limits.kv_blocks / -(-max_model_len // limits.block_size)
    return {
        "block_size": str(limits.block_size),
        "num_gpu_blocks": str(limits.kv_blocks),
        "kv_cache_size_tokens": str(int(concurrency * max_model_len)),
        "kv_cache_max_concurrency": str(concurrency),
        "engine": "0",
    }


class _SchedulerCollector(Collector):
    """Reads the scheduler when it is scraped."""

    def __init__(self, model: str, scheduler: Scheduler) -> None:
        self._labels = {"model_name": model, "engine": "0"}
        self._scheduler = scheduler

    def collect(self) -> Iterator[Family]:
        scheduler, counters = self._scheduler, self._scheduler.counters
        yield self._gauge("num_requests_running", "Requests in a batch.", len(scheduler.running))
        yield self._gauge("num_requests_waiting", "Requests queued.", len(scheduler.waiting))
        yield self._gauge("kv_cache_usage_perc", "KV blocks in use, 0 to 1.", scheduler.pool.usage)
        yield self._counter("num_preemptions", "Sequences preempted.", counters.preemptions)
        yield self._counter(
            "prefix_cache_queries", "Prompt tokens looked up.", counters.prefix_cache_queries
        )
        yield self._counter(
            "prefix_cache_hits", "Prompt tokens found cached.", counters.prefix_cache_hits
        )

    def _gauge(self, name: str, text: str, value: float) -> Family:
        family = GaugeMetricFamily(f"vllm:{name}", text, labels=tuple(self._labels))
        family.add_metric(tuple(self._labels.values()), value)
        return family

    def _counter(self, name: str, text: str, value: float) -> Family:
        family = CounterMetricFamily(f"vllm:{name}", text, labels=tuple(self._labels))
        family.add_metric(tuple(self._labels.values()), value)
        return family
