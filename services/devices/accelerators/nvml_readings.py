# mypy: disable-error-code="import-untyped"
"""What NVML tells of one device: what it is, its figures, and its condition.

NVML answers "not supported" where a model or its driver lacks something, such as ECC on consumer
cards. That is no fault: such a reading is left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pynvml as nvml

from accelerators.driver import Accelerator, Figures
from accelerators.nvidia_signals import Reading

MEBIBYTE = 1 << 20
MILLIWATTS_PER_WATT = 1000.0
# What NVML answers when the driver itself is gone, not one device.
GONE = (
    nvml.NVML_ERROR_UNINITIALIZED,
    nvml.NVML_ERROR_DRIVER_NOT_LOADED,
    nvml.NVML_ERROR_LIBRARY_NOT_FOUND,
    nvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
)
# What it answers when it has lost a device.
LOST = (nvml.NVML_ERROR_GPU_IS_LOST, nvml.NVML_ERROR_RESET_REQUIRED, nvml.NVML_ERROR_UNKNOWN)
# Not among them: the power cap that software sets, with which a device runs at full load.
SLOWDOWNS = {
    nvml.nvmlClocksEventReasonHwSlowdown: "hardware slowdown",
    nvml.nvmlClocksEventReasonHwThermalSlowdown: "too hot",
    nvml.nvmlClocksEventReasonSwThermalSlowdown: "too warm",
    nvml.nvmlClocksEventReasonHwPowerBrakeSlowdown: "power brake",
}


def accelerator(handle: Any, driver: str) -> Accelerator:
    return Accelerator(
        uuid=nvml.nvmlDeviceGetUUID(handle),
        model=nvml.nvmlDeviceGetName(handle),
        memory_bytes=_memory_bytes(handle),
        driver=driver,
        pci_address=_pci_address(handle),
    )


def mig_enabled(handle: Any) -> bool:
    modes = reading(nvml.nvmlDeviceGetMigMode, handle)
    return modes is not None and modes[0] == nvml.NVML_DEVICE_MIG_ENABLE


def mig_instances(handle: Any, device: Accelerator) -> list[Accelerator]:
    """Slots without an instance answer "not found"."""
    slots = range(reading(nvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0)
    found = (reading(nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, slot) for slot in slots)
    return [_mig_instance(each, device) for each in found if each is not None]


def read(handle: Any) -> Reading:
    rows = reading(nvml.nvmlDeviceGetRemappedRows, handle)
    clocks = reading(nvml.nvmlDeviceGetCurrentClocksEventReasons, handle) or 0
    use = reading(nvml.nvmlDeviceGetUtilizationRates, handle)
    return Reading(
        monotonic_s=time.monotonic(),
        mig=mig_enabled(handle),
        uncorrected=_ecc(handle, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED),
        corrected=_ecc(handle, nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED),
        remap_pending=None if rows is None else bool(rows[2]),
        remap_failed=None if rows is None else bool(rows[3]),
        retirement_pending=reading(nvml.nvmlDeviceGetRetiredPagesPendingStatus, handle),
        recovery_action=_recovery_action(handle),
        lanes=reading(nvml.nvmlDeviceGetCurrPcieLinkWidth, handle),
        lanes_possible=reading(nvml.nvmlDeviceGetMaxPcieLinkWidth, handle),
        generation=reading(nvml.nvmlDeviceGetCurrPcieLinkGeneration, handle),
        generation_possible=reading(nvml.nvmlDeviceGetMaxPcieLinkGeneration, handle),
        busy_percent=use and use.gpu,
        power_limit_w=_watts(nvml.nvmlDeviceGetEnforcedPowerLimit, handle),
        default_power_limit_w=_watts(nvml.nvmlDeviceGetPowerManagementDefaultLimit, handle),
        slowdowns=frozenset(text for bit, text in SLOWDOWNS.items() if clocks & bit),
        links_up=_links_up(handle),
    )


def figures(handle: Any) -> Figures:
    """By the names that DCGM exporter gives them (its default-counters.csv)."""
    memory = reading(nvml.nvmlDeviceGetMemoryInfo, handle)
    use = reading(nvml.nvmlDeviceGetUtilizationRates, handle)
    rows = reading(nvml.nvmlDeviceGetRemappedRows, handle)
    values: dict[str, float | None] = {
        "DCGM_FI_DEV_GPU_TEMP": reading(
            nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU
        ),
        "DCGM_FI_DEV_SM_CLOCK": reading(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM),
        "DCGM_FI_DEV_MEM_CLOCK": reading(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_MEM),
        "DCGM_FI_DEV_POWER_USAGE": _watts(nvml.nvmlDeviceGetPowerUsage, handle),
        "DCGM_FI_DEV_GPU_UTIL": use and use.gpu,
        "DCGM_FI_DEV_MEM_COPY_UTIL": use and use.memory,
        "DCGM_FI_DEV_FB_FREE": memory and memory.free / MEBIBYTE,
        "DCGM_FI_DEV_FB_USED": memory and memory.used / MEBIBYTE,
        "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": _ecc(handle, nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED),
        "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": _ecc(handle, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED),
        "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS": rows and rows[0],
        "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": rows and rows[1],
        "DCGM_FI_DEV_ROW_REMAP_FAILURE": rows and rows[3],
    }
    return {name: float(value) for name, value in values.items() if value is not None}


def reading(call: Callable[..., Any], *arguments: Any) -> Any:
    """None if NVML has no answer. Raises NVMLError if the device or the driver is gone."""
    try:
        return call(*arguments)
    except nvml.NVMLError as error:
        if error.value in (*GONE, *LOST):
            raise
        return None


def _watts(call: Callable[[Any], int], handle: Any) -> float | None:
    milliwatts = reading(call, handle)
    return None if milliwatts is None else milliwatts / MILLIWATTS_PER_WATT


def _links_up(handle: Any) -> frozenset[int]:
    links = range(nvml.NVML_NVLINK_MAX_LINKS)
    return frozenset(link for link in links if reading(nvml.nvmlDeviceGetNvLinkState, handle, link))


def _ecc(handle: Any, errors: int) -> int | None:
    """Errors since the last reset or reboot."""
    found: int | None = reading(
        nvml.nvmlDeviceGetTotalEccErrors, handle, errors, nvml.NVML_VOLATILE_ECC
    )
    return found


def _recovery_action(handle: Any) -> int:
    """nvmlDeviceGpuRecoveryAction_t; older drivers do not know the field."""
    fields = [nvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION]
    values = reading(nvml.nvmlDeviceGetFieldValues, handle, fields)
    if values is None or values[0].nvmlReturn != nvml.NVML_SUCCESS:
        return int(nvml.NVML_GPU_RECOVERY_ACTION_NONE)
    return int(values[0].value.uiVal)


def _mig_instance(handle: Any, device: Accelerator) -> Accelerator:
    return replace(
        device,
        uuid=nvml.nvmlDeviceGetUUID(handle),
        model=nvml.nvmlDeviceGetName(handle),
        memory_bytes=_memory_bytes(handle),
    )


def _memory_bytes(handle: Any) -> int:
    """0 where the device has no memory of its own."""
    memory = reading(nvml.nvmlDeviceGetMemoryInfo, handle)
    return 0 if memory is None else int(memory.total)


def _pci_address(handle: Any) -> str:
    """As the kernel writes it, "0000:3b:00.0"; NVML gives the domain eight digits."""
    info = nvml.nvmlDeviceGetPciInfo(handle)
    return f"{info.domain:04x}:{info.bus:02x}:{info.device:02x}.0"
