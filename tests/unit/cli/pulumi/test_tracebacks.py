"""Which lines of Pulumi's output belong to a traceback."""

from __future__ import annotations

import pytest

from cli.pulumi.tracebacks import Tracebacks

# As CLI 3.259 prints what a program wrote to standard error.
PRINTED = """\
Traceback (most recent call last):
  File "/opt/pulumi/pulumi-language-python-exec", line 192, in <module>
    loop.run_until_complete(coro)
           ^^^^^^^^^^^^^^^
KeyboardInterrupt
During handling of the above exception, another exception occurred:
Traceback (most recent call last):
  File "/program/__main__.py", line 12, in serve
    ask()
grpc._channel._InactiveRpcError: <_InactiveRpcError of RPC that terminated with:
\tstatus = StatusCode.UNAVAILABLE
\tdetails = "Socket closed"
>""".splitlines()
COMMAND = " ~  command:local:Command gate updating (2s) [diff: ~create]; waits 5"


def left(*lines: str) -> list[str]:
    tracebacks = Tracebacks()
    return [line for line in lines if not tracebacks.covers(line)]


@pytest.mark.parametrize(
    "row",
    ["    pulumi:pulumi:Stack t-s running ", " +  pulumi:pulumi:Stack t-s creating (1s) "],
)
def test_rows_of_a_traceback_are_told_from_those_of_other_resources(row: str) -> None:
    lines = [row + text for text in PRINTED]
    after = "    pulumi:pulumi:Stack t-s  15 messages"
    words = f"{row}the environment has three pools"
    assert left(words, *lines[:3], COMMAND, *lines[3:], words, after) == [
        words,
        COMMAND,
        words,
        after,
    ]


@pytest.mark.parametrize("mark", ["", "error: "])
def test_diagnostics_keep_everything_but_tracebacks(mark: str) -> None:
    first = f"    {mark}{PRINTED[0]}"
    around = [
        "Diagnostics:",
        "  pulumi:pulumi:Stack (slipway-dev):",
        "  command:local:Command (gate):",
        "    error: interrupted: running '/bin/sh'",
        "    error: update canceled",
        "Resources:",
    ]
    traceback = [first, *(f"    {text}" for text in PRINTED[1:])]
    assert left(*around[:2], *traceback, *around[2:]) == around
    assert left(*around[:4], *traceback, *around[4:]) == around


def test_a_traceback_that_is_cut_off_by_the_diagnostics_takes_nothing_of_them() -> None:
    cut = [f"    pulumi:pulumi:Stack t-s running {text}" for text in PRINTED[:2]]
    assert left(*cut, "Diagnostics:", "    error: update canceled") == [
        "Diagnostics:",
        "    error: update canceled",
    ]


def test_a_traceback_that_is_cut_off_takes_nothing_of_the_next_resource() -> None:
    cut = [f"    {text}" for text in PRINTED[:2]]
    after = ["  command:local:Command (gate):", "    error: interrupted"]
    assert left("Diagnostics:", *cut, *after) == ["Diagnostics:", *after]


def test_the_program_that_failed_is_announced_by_a_line_of_its_own() -> None:
    announced = "    error: Program failed with an unhandled exception:"
    assert left("Diagnostics:", announced, f"    error: {PRINTED[0]}", "    KeyboardInterrupt") == [
        "Diagnostics:"
    ]
