"""The control plane's Prometheus metrics. Labels are resource types, a fixed number, and the models
with held replicas."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class Metrics:
    """Metrics in their own registry."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.envoys = Gauge("slipway_xds_envoys", "Connected Envoys", registry=self.registry)
        self.resources = Gauge(
            "slipway_xds_resources", "Resources served", ["type"], registry=self.registry
        )
        self.responses = self._counter("responses", "Responses sent")
        self.response_bytes = self._counter("response_bytes", "Bytes of responses sent")
        self.coalesced = Counter(
            "slipway_xds_coalesced_changes",
            "Changes that were published together with another one",
            registry=self.registry,
        )
        self.rejections = self._counter("rejections", "Responses an Envoy rejected")
        self.unanswered = self._counter("unanswered", "Responses not answered in time")
        self.ack_seconds = self._histogram("ack_seconds", "Response sent to acknowledged")
        self.convergence_seconds = self._histogram(
            "convergence_seconds", "Change seen in Consul to acknowledged by an Envoy"
        )
        self.consul_stale_seconds = Gauge(
            "slipway_xds_consul_stale_seconds",
            "Seconds since a query to Consul began to fail",
            registry=self.registry,
        )
        self.refused_routes = Gauge(
            "slipway_xds_refused_routes",
            "Route documents that are not valid",
            registry=self.registry,
        )
        self.refused_weights = Gauge(
            "slipway_xds_refused_weights",
            "Documents of replicas' weights that are not valid",
            registry=self.registry,
        )

    def count_held(self, by_model: Callable[[], Mapping[str, int]]) -> None:
        """A series for each model that has held replicas now; mostly there is none."""
        self.registry.register(_HeldReplicas(by_model))

    def _counter(self, name: str, text: str) -> Counter:
        return Counter(f"slipway_xds_{name}", text, ["type"], registry=self.registry)

    def _histogram(self, name: str, text: str) -> Histogram:
        return Histogram(
            f"slipway_xds_{name}", text, ["type"], buckets=_SECONDS, registry=self.registry
        )


class _HeldReplicas(Collector):
    def __init__(self, by_model: Callable[[], Mapping[str, int]]) -> None:
        self._by_model = by_model

    def describe(self) -> Iterator[GaugeMetricFamily]:
        yield GaugeMetricFamily(
            "slipway_xds_held_replicas",
            "Replicas in use although Consul takes them for unhealthy",
            labels=["model"],
        )

    def collect(self) -> Iterator[GaugeMetricFamily]:
        for family in self.describe():
            for model, count in sorted(self._by_model().items()):
                family.add_metric([model], count)
            yield family
