"""The figures as Prometheus reads them, under the names of NVIDIA's DCGM exporter, so that its
dashboards and alerts fit (etc/default-counters.csv and its labels)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from health.watch import Known, Standing
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

LABELS = (
    "gpu", "UUID", "pci_bus_id", "modelName", "Hostname", "DCGM_FI_DRIVER_VERSION",
)  # fmt: skip
HEALTHY = "slipway_device_healthy"
HELP = {
    "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS": "Rows replaced after errors that were corrected.",
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": "Errors of the memory since the last reset, not corrected.",
    "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": "Errors of the memory since the last reset, corrected.",
    "DCGM_FI_DEV_FB_FREE": "Memory that is free, in MiB.",
    "DCGM_FI_DEV_FB_USED": "Memory in use, in MiB.",
    "DCGM_FI_DEV_GPU_TEMP": "Temperature, in degrees Celsius.",
    "DCGM_FI_DEV_GPU_UTIL": "Share of the time in which something was computed, in percent.",
    "DCGM_FI_DEV_MEM_CLOCK": "Clock of the memory, in MHz.",
    "DCGM_FI_DEV_MEM_COPY_UTIL": "Share of the time in which memory was copied, in percent.",
    "DCGM_FI_DEV_POWER_USAGE": "Power, in watts.",
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": "Whether a row could not be replaced.",
    "DCGM_FI_DEV_SM_CLOCK": "Clock of the processors, in MHz.",
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": "Rows replaced after errors that were not.",
    "DCGM_FI_DEV_XID_ERRORS": "Number of the last XID.",
    HEALTHY: "Whether tasks can be given the device; `reason` says why not.",
}


class Figures(Collector):
    """What `known` returns when Prometheus asks."""

    def __init__(self, host: str, known: Callable[[], Known]) -> None:
        self._host = host
        self._known = known

    def collect(self) -> Iterator[GaugeMetricFamily]:
        known = self._known()
        healthy = GaugeMetricFamily(HEALTHY, HELP[HEALTHY], labels=(*LABELS, "reason"))
        families: dict[str, GaugeMetricFamily] = {}
        for index, standing in enumerate(known.standings):
            labels = self._labels(index, standing)
            healthy.add_metric([*labels, "; ".join(standing.faults)], float(not standing.faults))
            for name, value in known.figures.get(standing.accelerator.uuid, {}).items():
                family = families.setdefault(
                    name, GaugeMetricFamily(name, HELP[name], labels=LABELS)
                )
                family.add_metric(labels, value)
        yield healthy
        yield from families.values()

    def _labels(self, index: int, standing: Standing) -> list[str]:
        device = standing.accelerator
        return [
            str(index),
            device.uuid,
            device.pci_address,
            device.model,
            self._host,
            device.driver,
        ]


def exposition(host: str, known: Callable[[], Known]) -> Callable[[], bytes]:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Figures(host, known))
    return lambda: bytes(generate_latest(registry))
