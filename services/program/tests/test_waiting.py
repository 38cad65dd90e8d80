"""Waiting with a deadline: what is printed, and what an operator reads at the end."""

from __future__ import annotations

import pytest
from program import waiting
from program.errors import HostError

pytestmark = pytest.mark.usefixtures("clock")


def test_what_is_there_at_once_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert waiting.wait_until("Consul", lambda: None, timeout_s=60) == 0
    assert capsys.readouterr().out == ""


def test_the_last_thing_seen_is_printed_every_ten_seconds_and_named_at_the_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(HostError, match="Consul: gave up after 65 s: no leader is elected"):
        waiting.wait_until("Consul", lambda: "no leader is elected", timeout_s=65)
    assert capsys.readouterr().out == "Consul: no leader is elected\n" * 6
