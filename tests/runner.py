"""Runs suites in parallel lanes, and shows their output one after the other.

What failed runs once more, alone: a test that passes then is named, to be mended, and the run is
green.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from cli.console import results
from tests.recorder import RECORD_VARIABLE

# Lanes. All but the one that computes mostly wait, for replicas and agents; each takes two to seven
# minutes.
SERVICES, HOST_SERVICES, REPLICAS = "services", "services of hosts", "replicas"
CONTAINERS, AGENTS, SIMULATED = "containers", "agents", "simulated"
COMPUTING = "computing"
OWN_PLATFORMS, PLATFORM = LAST_LANES = "platforms of their own", "platform"
LEFTOVER_TIME = ("nice", "-n", "19")  # of processor time: tests of the waiting lanes have deadlines
LOOK_S = 1.0
TESTS_FAILED, NO_TESTS_COLLECTED = 1, 5  # pytest's exit codes


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """A command that ends with an exit code and a summary as its last line.

    `tests`, paths or node ids, end the command. Suites of a `lane` run one after the other, and
    the lanes in parallel; suites without a lane follow when all lanes have ended, and then the last
    lanes in parallel. What only computes does so in the time left over by all of them.
    """

    name: str
    command: tuple[str, ...]
    tests: tuple[str, ...] = ()
    folder: Path
    variables: Mapping[str, str] = field(default_factory=dict)
    lane: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a suite ended; its tests as tests/recorder.py wrote them down, else none."""

    suite: Suite
    code: int
    last_line: str
    passed: tuple[str, ...]
    failed: tuple[str, ...]


Found = list[tuple[Outcome, str]]  # with what the suite has shown


def run(suites: Sequence[Suite]) -> bool:
    """Runs all suites, and once more what failed, alone; repeats the suites' last lines.

    Returns whether all passed, at once or alone.
    """
    # A shell has its background jobs ignore Ctrl-C, and so would every command that a test runs.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    outcomes = list(_outcomes(suites))
    alone = {
        outcome.suite.name: _alone(outcome)
        for outcome in outcomes
        if outcome.code == TESTS_FAILED and outcome.failed
    }
    results.print()
    for outcome in outcomes:
        style = "yellow" if _mended(outcome, alone) else "red" if outcome.code else "green"
        results.print(f"{outcome.suite.name}: {outcome.last_line}", style=style, markup=False)
    passed_alone = [test for outcome in alone.values() for test in outcome.passed]
    if passed_alone:
        results.print("\npassed only alone:", style="yellow")
        results.print(*map(_from_here, passed_alone), sep="\n", markup=False)
    return all(outcome.code == 0 or _mended(outcome, alone) for outcome in outcomes)


def _alone(outcome: Outcome) -> Outcome:
    """Runs the failed tests once more, in one process, up to the first that fails again."""
    by_file = sorted(outcome.failed, key=lambda test: test.partition("::")[0])
    suite = outcome.suite
    one_process = ("-n0",) if any(option.startswith("-n") for option in suite.command) else ()
    command = (*suite.command, *one_process, "--exitfirst")
    name = f"{suite.name}, once more, alone"
    return _run(replace(suite, name=name, command=command, tests=tuple(by_file), lane=""), _show)


def _mended(outcome: Outcome, alone: Mapping[str, Outcome]) -> bool:
    """Whether each failed test has passed alone: neither skipped nor left out."""
    again = alone.get(outcome.suite.name)
    return again is not None and again.code == 0 and set(outcome.failed) <= set(again.passed)


def _from_here(test: str) -> str:
    path, _, name = test.partition("::")
    return f"{os.path.relpath(path)}::{name}"


def _outcomes(suites: Sequence[Suite]) -> Iterator[Outcome]:
    lanes = dict[str, list[Suite]]()
    for suite in suites:
        lanes.setdefault(suite.lane, []).append(suite)
    alone, computing = lanes.pop("", []), lanes.pop(COMPUTING, [])
    last = [lanes.pop(name) for name in LAST_LANES if name in lanes]
    # The longest lane is shown as it runs.
    waiting = [lanes[name] for name in sorted(lanes, key=SERVICES.__eq__)]
    if not waiting and not alone and not last:
        yield from (_run(suite, _show) for suite in computing)
        return
    with ThreadPoolExecutor() as pool:
        leftover = pool.submit(_captured, computing)
        yield from _beside_each_other(waiting)
        yield from (_run(suite, _show) for suite in alone)
        yield from _beside_each_other(last)
        yield from _shown(_with_an_equal_share(leftover))


def _with_an_equal_share(leftover: Future[Found]) -> Found:
    """Waits for what has run in the time left over, which a busy machine would never end. Where
    this user may not raise a priority, it stays as it is."""
    while not leftover.done():
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                process.nice(0)
        time.sleep(LOOK_S)
    return leftover.result()


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


def _captured(lane: Sequence[Suite]) -> Found:
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
    with TemporaryDirectory() as folder:
        record = Path(folder) / "tests.json"
        with subprocess.Popen(
            (*nice, *suite.command, *suite.tests),
            cwd=suite.folder,
            env={**_surroundings(), **suite.variables, RECORD_VARIABLE: str(record)},
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
        tests = json.loads(record.read_text()) if record.exists() else {}
    none_of_these = process.returncode == NO_TESTS_COLLECTED
    code = 0 if none_of_these else process.returncode
    return Outcome(suite, code, last, *(tuple(tests.get(key, ())) for key in ("passed", "failed")))


def _surroundings() -> dict[str, str]:
    """Without a ban on byte code, which container images often have: the tests start hundreds of
    Pythons, and each would compile the project again."""
    return {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}


def _show(text: str) -> None:
    results.print(text, end="", markup=False)
