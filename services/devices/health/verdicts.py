"""What each signal of an accelerator means, and from whom that is known.

Signals are ignored if a program caused them, or if they are no fault. A warning asks a person to
look; the device can be used. An unhealthy device gets no new work, and what runs on it is moved
away.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from accelerators import kinds
from accelerators.driver import Signal


class Verdict(Enum):
    IGNORE = "ignore"
    WARN = "warn"
    UNHEALTHY = "unhealthy"


@dataclass(frozen=True)
class Rule:
    """`meaning` ends a sentence that begins with the signal's name; `action` says what to do."""

    verdict: Verdict
    name: str
    meaning: str
    action: str
    source: str

    def reason(self, detail: str = "") -> str:
        details = f" ({detail})" if detail else ""
        return f"{self.name}: {self.meaning}{details}; {self.action}"


CATALOG = "https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html"
RECOVERY = (
    "https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/error-recovery-and-response-flags.html"
)
PAGES = "https://docs.nvidia.com/deploy/dynamic-page-retirement/index.html"
DCGM = "https://docs.nvidia.com/datacenter/dcgm/2.4/dcgm-api/dcgm-api-field-constants.html"
LINKS = "https://docs.nvidia.com/health-validation/reference/checks/nvlink"
SWITCHES = "https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/index.html"
STORM = "https://github.com/NVIDIA/DCGM/issues/313"
WIDTH = "https://github.com/NVIDIA/NVSentinel"
AMD_ECC = (
    "https://instinct.docs.amd.com/projects/gpu-operator/en/latest/metrics/ecc-error-injection.html"
)
KFD = "https://rocm.docs.amd.com/en/docs-6.1.2/conceptual/gpu-isolation.html"
AMD_RAS = "https://docs.kernel.org/6.8/gpu/amdgpu/ras.html"
AMD_PAGES = "https://www.mail-archive.com/amd-gfx@lists.freedesktop.org/msg117494.html"
AMD_RESET = "https://www.mail-archive.com/amd-gfx@lists.freedesktop.org/msg115459.html"
MIG = "https://docs.nvidia.com/datacenter/tesla/mig-user-guide/"

PROGRAM = "nothing to do to the device: look at the program that used it"
FOLLOWS = "nothing to do for this one: another error says more"
LOOK = "watch whether it recurs"
RESET_LATER = "reset the device when its work can be moved"
# The plugin itself has the device open.
RESET = "boot the host again, or stop its Nomad agent and reset the device"
REBOOT = "boot the host again; if it recurs, have the device replaced"
REPLACE = "have the device replaced"
COOL = "look at its cooling and its power supply"

IGNORE, WARN, UNHEALTHY = Verdict.IGNORE, Verdict.WARN, Verdict.UNHEALTHY

# Numbers of XIDs -> verdict, meaning, action: the catalogue's immediate actions. It has more
# numbers than these, most of them unused; what is not here is a warning.
XIDS: tuple[tuple[tuple[int, ...], Verdict, str, str], ...] = (
    ((13,), IGNORE, "a program raised an exception of the graphics engine", PROGRAM),
    ((31,), IGNORE, "a program touched memory that is not its own", PROGRAM),
    ((11, 25, 32, 80), IGNORE, "a program sent commands that are not valid", PROGRAM),
    ((8,), IGNORE, "a program's commands took too long", PROGRAM),
    ((43,), IGNORE, "a program's channel was reset", PROGRAM),
    (
        (45,),
        IGNORE,
        "a program's channel was cleaned up after another error, or at its end",
        FOLLOWS,
    ),
    ((69,), IGNORE, "a program used a graphics class wrongly", PROGRAM),
    (
        (39, 40, 41, 70, 71, 72, 75, 76, 77, 85, *range(126, 136)),
        IGNORE,
        "a copy engine stopped a program's copy",
        PROGRAM,
    ),
    (
        (60, 68, 82, 83, 84, 86, 88, 89, *range(96, 106), 139),
        IGNORE,
        "a video, picture or optical flow engine stopped a program's work",
        PROGRAM,
    ),
    ((37, 38, 44, 66, 67, 141), IGNORE, "the firmware refused a program's call", PROGRAM),
    ((106, 107), IGNORE, "a test message of the board's management", FOLLOWS),
    ((137,), IGNORE, "a program used a peer's memory without permission", PROGRAM),
    ((152, 153), IGNORE, "an engine that serving does not use stopped", FOLLOWS),
    ((154,), IGNORE, "the driver changed its recovery action, which is read by itself", FOLLOWS),
    ((157, 160, 161), IGNORE, "a broken unit of the device was taken out of use", FOLLOWS),
    ((46, 109), UNHEALTHY, "the device stopped processing", RESET),
    ((48,), UNHEALTHY, "an error in its memory could not be corrected", RESET),
    ((54,), UNHEALTHY, "its auxiliary power is not connected", "plug the power cable in"),
    ((62,), UNHEALTHY, "its power controller halted", RESET),
    ((63,), WARN, "a row of its memory will be replaced at the next reset", RESET_LATER),
    ((64,), UNHEALTHY, "a broken row of its memory could not be replaced", RESET),
    ((74,), UNHEALTHY, "an NVLink failed", f"{RESET}; if it recurs, look at the link"),
    ((79,), UNHEALTHY, "it has fallen off the bus", REBOOT),
    ((92,), WARN, "its memory corrects errors at a high rate", LOOK),
    ((93,), WARN, "its information storage is nearly worn out", "plan to have it replaced"),
    ((94,), WARN, "an error in its memory ended one program and is contained", RESET_LATER),
    ((95,), UNHEALTHY, "an error in its memory is not contained", RESET),
    ((110,), UNHEALTHY, "it shut itself off after a security fault", RESET),
    ((119, 120), UNHEALTHY, "its system processor does not answer", RESET),
    ((121,), WARN, "the link between processor and device had an error", LOOK),
    ((136,), UNHEALTHY, "its NVLinks could not be trained", RESET),
    ((140,), UNHEALTHY, "an error in its memory was not recovered", RESET),
    ((143, 158), UNHEALTHY, "it could not be initialised, or does not answer", RESET),
    ((144, 145, 146, 147, 148, 149), WARN, "an NVLink had an error", LOOK),
    ((150,), UNHEALTHY, "an NVLink's management failed", RESET),
    ((151,), UNHEALTHY, "its keys could not be changed", "start the virtual machine again"),
    ((155,), UNHEALTHY, "an NVLink was shut off by software", RESET),
    ((156,), UNHEALTHY, "a broken unit will be taken out of use at the next reset", RESET),
    ((171, 172), UNHEALTHY, "an error in its memory could not be corrected", RESET),
)
UNKNOWN = Rule(WARN, "XID", "NVIDIA's catalogue has no action for it", LOOK, CATALOG)

# nvmlDeviceGpuRecoveryAction_t
ACTIONS: tuple[tuple[int, Verdict, str, str], ...] = (
    (1, UNHEALTHY, "its driver asks for a reset", RESET),
    (2, UNHEALTHY, "its driver asks for a reboot", REBOOT),
    (3, UNHEALTHY, "its driver asks for the end of all traffic between devices", RESET),
    (4, UNHEALTHY, "its driver asks for a reset once its work has ended", RESET),
    (5, WARN, "its driver asks for the recovery of its NVLink domain", "recover the IMEX domain"),
    (6, UNHEALTHY, "its driver asks for a reset of its bus", REBOOT),
    (7, UNHEALTHY, "its driver asks for a reboot of the whole system", REBOOT),
)

OTHERS: Mapping[str, Rule] = {
    kinds.UNCORRECTABLE_ECC: Rule(
        UNHEALTHY, "ECC", "errors in its memory could not be corrected", RESET, PAGES
    ),
    # Errors that are contained leave the device usable, and XIDs and the recovery action tell.
    kinds.REMAPPABLE_ECC: Rule(
        WARN, "ECC", "errors in its memory could not be corrected", RESET_LATER, RECOVERY
    ),
    kinds.CORRECTABLE_ECC: Rule(
        IGNORE, "ECC", "errors in its memory were corrected", FOLLOWS, WIDTH
    ),
    kinds.ECC_STORM: Rule(WARN, "ECC", "its memory corrects errors at a high rate", LOOK, STORM),
    kinds.ROW_REMAP_PENDING: Rule(
        WARN, "row remapping", "rows will be replaced at the next reset", RESET_LATER, RECOVERY
    ),
    kinds.ROW_REMAP_FAILED: Rule(
        UNHEALTHY, "row remapping", "no row is left to replace a broken one", REPLACE, RECOVERY
    ),
    kinds.PAGE_RETIREMENT_PENDING: Rule(
        WARN, "page retirement", "pages will be retired at the next reset", RESET_LATER, PAGES
    ),
    kinds.BAD_PAGES: Rule(
        UNHEALTHY, "bad pages", "its memory has more bad pages than allowed", REPLACE, AMD_PAGES
    ),
    kinds.LINK_DOWN: Rule(UNHEALTHY, "links", "a link to other devices is down", RESET, LINKS),
    kinds.SWITCH_FAILED: Rule(
        UNHEALTHY,
        "switch",
        "a switch between the devices failed",
        "stop all work on the host, reset all devices, and start the fabric manager",
        SWITCHES,
    ),
    kinds.LINK_FATAL: Rule(
        UNHEALTHY,
        "links",
        "an NVLink had a fatal error",
        f"{RESET}; then look at the link",
        CATALOG,
    ),
    kinds.PCIE_NARROW: Rule(
        WARN, "PCIe", "its link has fewer lanes than it should", "seat the card anew", WIDTH
    ),
    kinds.PCIE_SLOW: Rule(
        WARN, "PCIe", "its link is slower than it should be", "look at the slot and riser", WIDTH
    ),
    kinds.POWER_LIMITED: Rule(
        WARN, "power", "it may take much less power than it could", COOL, DCGM
    ),
    kinds.HARDWARE_SLOWDOWN: Rule(WARN, "slowdown", "its clocks are held down", COOL, DCGM),
    kinds.RESET: Rule(WARN, "reset", "its driver reset it, and it works again", LOOK, AMD_RESET),
    kinds.RESET_FAILED: Rule(
        UNHEALTHY, "reset", "its driver could not reset it", REBOOT, AMD_RESET
    ),
    kinds.RING_TIMEOUT: Rule(WARN, "ring", "a command took too long", LOOK, AMD_RESET),
    kinds.AMD_UNCORRECTABLE: Rule(
        UNHEALTHY, "RAS", "an error of its hardware could not be corrected", RESET, AMD_ECC
    ),
    kinds.LOST: Rule(UNHEALTHY, "lost", "its driver no longer finds it", REBOOT, CATALOG),
    kinds.DRIVER_GONE: Rule(
        UNHEALTHY, "driver", "the driver does not answer", "load the driver, or boot again", CATALOG
    ),
    kinds.NOT_READ: Rule(
        WARN, "plugin", "its state could not be read", "report it with the agent's log", CATALOG
    ),
    kinds.NO_NUMBER: Rule(
        UNHEALTHY,
        "driver",
        "it has no number of its own",
        "use whole devices, or a newer kernel",
        KFD,
    ),
    kinds.MIG_UNWANTED: Rule(
        UNHEALTHY, "MIG", "it is partitioned, and its pool wants it whole", "turn MIG off", MIG
    ),
    kinds.MIG_MISSING: Rule(
        UNHEALTHY, "MIG", "it is whole, and its pool wants instances", "turn MIG on", MIG
    ),
}

NUMBERED: Mapping[Signal, Rule] = {
    **{
        Signal(kinds.XID, number): Rule(verdict, f"XID {number}", meaning, action, CATALOG)
        for numbers, verdict, meaning, action in XIDS
        for number in numbers
    },
    **{
        Signal(kinds.RECOVERY_ACTION, code): Rule(verdict, "recovery", meaning, action, RECOVERY)
        for code, verdict, meaning, action in ACTIONS
    },
}


def judge(signal: Signal) -> Rule:
    """A signal that the tables do not have is a warning."""
    rule = NUMBERED.get(signal) or OTHERS.get(signal.kind)
    if rule is not None:
        return rule
    name = f"XID {signal.code}" if signal.kind == kinds.XID else f"{signal.kind} {signal.code}"
    return dataclasses.replace(UNKNOWN, name=name)
