"""The first `up` of bare hosts, interrupted at every phase: the next one completes it."""

from __future__ import annotations

import re
import signal

import pytest

from tests.hosts.conftest import ADDRESSES
from tests.hosts.environment import Checkout, must_complete

pytestmark = [pytest.mark.hosts, pytest.mark.soak]


def interrupted_at(checkout: Checkout, line: str) -> str:
    """What an `up` says that gets Ctrl-C once it shows a line with this pattern."""
    said = []
    with checkout.running("up") as process:
        assert process.stdout is not None
        for each in process.stdout:
            said.append(each)
            if re.search(line, each):
                process.send_signal(signal.SIGINT)
                break
        said.append(process.stdout.read())
        process.wait()
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
