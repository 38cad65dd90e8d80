"""Rows of bench/accelerator.py: whether this machine would be fit as a host of its own devices.

accelerator_host.py KNOWN DRIVER: the catalog's accelerators as JSON, and the oldest driver that
works.
"""

from __future__ import annotations

import json
import subprocess
import sys

from delivery.accelerators import NVIDIA, Wanted, accelerator_requirements, look_at


class Shell:
    """This machine, asked as a host is over SSH."""

    def run(self, command: str) -> str:
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
        return done.stdout


def row(what: str, found: str, verdict: str) -> None:
    print(json.dumps({"what": what, "found": found, "verdict": verdict}))


def main(known: str, driver: str) -> None:
    found = look_at(Shell(), NVIDIA)
    name = found.devices[0].name if found.devices else found.failed
    of_this_name = [each for each in json.loads(known) if name in each["names"]]
    if not of_this_name:
        row("catalog/accelerators.yaml", f"has no {name}", "")
        return
    wanted = Wanted(
        vendor=NVIDIA,
        count=len(found.devices),
        names=tuple(of_this_name[0]["names"]),
        memory_mib=of_this_name[0]["memory_mib"],
        driver=driver,
    )
    for each in accelerator_requirements(found, wanted):
        row(f"requirement: {each.name}", each.found, each.wrong and f"unfit: it {each.wrong}")


if __name__ == "__main__":
    main(*sys.argv[1:])
