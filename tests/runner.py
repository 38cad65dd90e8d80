"""Runs suites in parallel lanes, and shows their output one after the other."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from cli.console import results

# Lanes. All but the last mostly wait, for replicas and agents; each takes two to seven minutes.
SERVICES, REPLICAS, AGENTS, SIMULATED = "services", "replicas", "agents", "simulated"
COMPUTING = "computing"
LEFTOVER_TIME = ("nice", "-n", "19")  # of processor time: tests of the waiting lanes have deadlines
NO_TESTS_COLLECTED = 5  # pytest's exit code


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """A command that ends with an exit code and a summary as its last line.

    Suites of a `lane` run one after the other, and the lanes in parallel; suites without a lane
    follow when all lanes have ended, except the one that computes in the time left over.
    """

    name: str
    command: tuple[str, ...]
    folder: Path
    variables: Mapping[str, str] = field(default_factory=dict)
    lane: str = ""


Outcome = tuple[Suite, int, str]  # its exit code and last line


def run(suites: Sequence[Suite]) -> bool:
    """Runs all suites and repeats their last lines; returns whether all passed."""
    # A shell has its background jobs ignore Ctrl-C, and so would every command that a test runs.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    outcomes = list(_outcomes(suites))
    results.print()
    for suite, code, line in outcomes:
        results.print(f"{suite.name}: {line}", style="red" if code else "green", markup=False)
    return not any(code for _, code, _ in outcomes)


def _outcomes(suites: Sequence[Suite]) -> Iterator[Outcome]:
    lanes = dict[str, list[Suite]]()
    for suite in suites:
        lanes.setdefault(suite.lane, []).append(suite)
    alone, computing = lanes.pop("", []), lanes.pop(COMPUTING, [])
    # The longest lane is shown as it runs.
    waiting = [lanes[name] for name in sorted(lanes, key=SERVICES.__eq__)]
    if not waiting and not alone:
        yield from (_run(suite, _show) for suite in computing)
        return
    with ThreadPoolExecutor() as pool:
        leftover = pool.submit(_captured, computing)
        yield from _beside_each_other(waiting)
        yield from (_run(suite, _show) for suite in alone)
        yield from _shown(leftover.result())


def _beside_each_other(lanes: Sequence[Sequence[Suite]]) -> Iterator[Outcome]:
    """The last lane is shown as it runs, the others when all have ended."""
    with ThreadPoolExecutor() as pool:
        hidden = pool.map(_captured, lanes[:-1])
        for suite in itertools.chain(*lanes[-1:]):
            yield _run(suite, _show)
    yield from _shown(itertools.chain(*hidden))


def _shown(captured: Iterable[tuple[Outcome, str]]) -> Iterator[Outcome]:
    for outcome, output in captured:
        _show(output)
        yield outcome


def _captured(lane: Sequence[Suite]) -> list[tuple[Outcome, str]]:
    found = []
    for suite in lane:
        output = list[str]()
        outcome = _run(suite, output.append)
        found.append((outcome, "".join(output)))
    return found


def _run(suite: Suite, show: Callable[[str], None]) -> Outcome:
    """Runs a suite; shows its output as it comes."""
    show(f"── {suite.name}\n")
    last = ""
    nice = LEFTOVER_TIME if suite.lane == COMPUTING else ()
    with subprocess.Popen(
        (*nice, *suite.command),
        cwd=suite.folder,
        env={**_surroundings(), **suite.variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        bufsize=1,
    ) as process:
        for line in process.stdout or ():
            show(line)
            last = line.strip() or last
    none_of_these = process.returncode == NO_TESTS_COLLECTED
    return suite, 0 if none_of_these else process.returncode, last


def _surroundings() -> dict[str, str]:
    """Without a ban on byte code, which container images often have: the tests start hundreds of
    Pythons, and each would compile the project again."""
    return {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}


def _show(text: str) -> None:
    results.print(text, end="", markup=False)
