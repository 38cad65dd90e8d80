"""What Nomad is told about the accelerators: which there are, and their figures."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

from accelerators.driver import Accelerator, Figures, Reservation
from health.watch import Known, Standing

from nomad_plugin import messages

DEVICE_TYPE = "gpu"
MEBIBYTE = 1 << 20
READ_WRITE = "rw"


def fingerprint(vendor: str, known: Known) -> Any:
    """One group for each model; its memory is what each of its members has at least."""
    response = messages.FingerprintResponse()
    for model, standings in _by_model(known.standings):
        group = response.device_group.add(vendor=vendor, device_type=DEVICE_TYPE, device_name=model)
        _set_attributes(group, [each.accelerator for each in standings])
        for each in standings:
            device = group.devices.add(
                ID=each.accelerator.uuid,
                healthy=not each.faults,
                health_description="; ".join(each.faults or each.warnings),
            )
            device.hw_locality.pci_bus_id = each.accelerator.pci_address
    return response


def reservation(reserved: Reservation) -> Any:
    response = messages.ReserveResponse()
    response.container_res.envs.update(reserved.variables)
    for file in reserved.files:
        response.container_res.devices.add(task_path=file, host_path=file, permissions=READ_WRITE)
    return response


def stats(vendor: str, known: Known) -> Any:
    """The figures, for Nomad's statistics of allocations; the summary is the memory in use."""
    response = messages.StatsResponse()
    for model, standings in _by_model(known.standings):
        group = response.groups.add(vendor=vendor, type=DEVICE_TYPE, name=model)
        for each in standings:
            figures = known.figures.get(each.accelerator.uuid, {})
            _set_stats(group.instance_stats[each.accelerator.uuid], each.accelerator, figures)
    return response


def _by_model(standings: Iterable[Standing]) -> Iterable[tuple[str, list[Standing]]]:
    ordered = sorted(standings, key=lambda each: each.accelerator.model)
    grouped = itertools.groupby(ordered, key=lambda each: each.accelerator.model)
    return [(model, list(members)) for model, members in grouped]


def _set_attributes(group: Any, members: list[Accelerator]) -> None:
    memory = group.attributes["memory"]
    memory.int_val = min(each.memory_bytes for each in members) // MEBIBYTE
    memory.unit = "MiB"
    group.attributes["driver_version"].string_val = members[0].driver


def _set_stats(target: Any, accelerator: Accelerator, figures: Figures) -> None:
    used = figures.get("DCGM_FI_DEV_FB_USED")
    if used is not None:
        target.summary.float_numerator_val = used
        target.summary.float_denominator_val = accelerator.memory_bytes / MEBIBYTE
        target.summary.unit = "MiB"
        target.summary.desc = "memory in use"
    for name, value in figures.items():
        target.stats.attributes[name].float_numerator_val = value
    target.timestamp.GetCurrentTime()
