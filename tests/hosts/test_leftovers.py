"""Nothing of a test bed is left, whatever ends it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hosts import leftovers
from tests.hosts.bed import FOLDER, missing_to_run
from tests.hosts.conftest import ROOT, hosts_cache
from tests.waiting import until

pytestmark = pytest.mark.hosts

MAKER = """
import sys
from pathlib import Path
from tests.hosts.bed import NETWORK, bed
with bed({"lone": f"{NETWORK}.41"}, cache=Path(sys.argv[1]), hidden=()) as made:
    print(made.hosts["lone"].ssh("hostname"), flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def maker() -> Iterator[subprocess.Popen[str]]:
    """A process that has started a host."""
    if reason := missing_to_run():
        pytest.skip(reason)
    with subprocess.Popen(
        [sys.executable, "-c", MAKER, str(hosts_cache())],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "lone\n"
        yield process
        process.kill()


def left() -> list[str]:
    """Processes, links, folders, mounts and control groups of hosts."""
    found = [f"process {pid}" for pid in leftovers.processes()]
    found += [str(path) for path in (FOLDER, *_groups()) if path.exists()]
    links = subprocess.run(["ip", "link"], capture_output=True, text=True, check=True).stdout
    names = (leftovers.BRIDGE, leftovers.FABRIC, "swb-")
    found += [line for line in links.splitlines() if any(name in line for name in names)]
    mounts = Path("/proc/mounts").read_text().splitlines()
    return found + [line for line in mounts if str(FOLDER) in line]


def _groups() -> list[Path]:
    return [hierarchy / leftovers.GROUP for hierarchy in leftovers.hierarchies()]


def assert_nothing_is_left_soon() -> None:
    until(lambda: not left(), "the end of everything")


def test_the_end_of_a_bed_leaves_nothing(maker: subprocess.Popen[str]) -> None:
    assert left(), "what is looked for exists while a host runs"
    assert maker.stdin is not None
    maker.stdin.close()
    assert maker.wait(timeout=60) == 0
    assert left() == []


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "terminated"])
def test_a_bed_whose_maker_is_ended_leaves_nothing(
    maker: subprocess.Popen[str], how: signal.Signals
) -> None:
    maker.send_signal(how)
    maker.wait(timeout=60)
    assert_nothing_is_left_soon()
