"""The first `up` of bare hosts, interrupted at every phase: the next one completes it."""

from __future__ import annotations

import re
import signal
import threading

import pytest

from tests.hosts.conftest import ADDRESSES
from tests.hosts.environment import Checkout, must_complete
from tests.waiting import HANG_S, until

pytestmark = [pytest.mark.hosts, pytest.mark.soak]


def interrupted_at(checkout: Checkout, line: str) -> str:
    """What an `up` says that gets Ctrl-C once it, or Pulumi in its log, shows this pattern."""
    said = list[str]()
    checkout.log_file.unlink(missing_ok=True)
    with checkout.running("up") as process:

        def read() -> None:
            assert process.stdout is not None
            for each in process.stdout:
                said.append(each)

        def shown() -> bool:
            return re.search(line, "".join(said) + checkout.log()) is not None

        reader = threading.Thread(target=read)
        reader.start()
        until(lambda: process.poll() is not None or shown(), line)
        process.send_signal(signal.SIGINT)
        process.wait(HANG_S)
        reader.join(HANG_S)
    assert process.returncode == 130, "".join(said)
    return "".join(said)


@pytest.mark.parametrize(
    "line",
    [
        r"stack: in your Pulumi backend",
        r"delivery-edge-0 creating|delivery-worker-0 creating",
        r"consul-acl creating",
        r"node-worker-0 creating",
        r"Job model-sim-a",
    ],
)
def test_an_interrupted_up_keeps_what_it_made(checkout: Checkout, line: str) -> None:
    assert "slipway up" in interrupted_at(checkout, line)


def test_the_next_up_completes_it(checkout: Checkout) -> None:
    checkout.slipway("up")
    must_complete(ADDRESSES["edge-0"])
