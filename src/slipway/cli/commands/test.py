"""Run the project's own tests."""

from __future__ import annotations

import dataclasses
import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from slipway.cli.console import results
from slipway.cli.environment import CHECKOUT
from slipway.cli.errors import FAILED
from slipway.cli.options import PASS_THROUGH
from slipway.cli.progress import ToolchainProgress
from slipway.config.artifacts import REQUIREMENTS
from toolchain.pins import tool_pins
from toolchain.prepare import EnvironmentJob, Job, ToolJob, environment_folder, prepare
from toolchain.settings import default_cache

app = typer.Typer(add_completion=False)

FAST = "not binaries and not live"
BINARIES = "binaries and not live"
LIVE = "live"
ENGINE = "services/triton_vllm"
# The first two mostly wait for replicas and agents; each takes about three minutes.
REPLICAS, SERVICES, COMPUTING = "replicas", "services", "computing"
LEFTOVER_TIME = ("nice", "-n", "19")  # of the processors: the waiting lanes' tests have deadlines
REAL_ENGINE = "real and not kills"  # the live platform's engine is killed part by part as well
TYPED = ("src/slipway", "components", "stacks", "toolchain", "bench")
# Workers have addresses of their own: tests/workers.py
SIDE_BY_SIDE = ("-n", "logical", "--dist", "worksteal")
FILES_SIDE_BY_SIDE = ("-n", "logical", "--dist", "loadfile")  # a file's tests share a real agent
NO_TESTS_COLLECTED = 5  # pytest's exit code


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """A command with an exit code and a last line worth repeating.

    Suites of a `lane` run one after the other, and the lanes beside each other; a suite without
    one runs alone, when they have ended.
    """

    name: str
    command: tuple[str, ...]
    folder: Path
    variables: Mapping[str, str] = field(default_factory=dict)
    lane: str = ""


Outcome = tuple[Suite, int, str]  # its exit code and last line


@app.command(context_settings={**PASS_THROUGH, "help_option_names": ["--help"]})
def test(
    context: typer.Context,
    fast: Annotated[
        bool, typer.Option("--fast", help="Only what needs no binaries, and the linters.")
    ] = False,  # noqa: PT028  (a command, not a test)
) -> None:
    """Run the project's own tests (takes pytest arguments).

    Paths choose suites: `slipway test tests/unit`, `slipway test services/xds -k delta`.
    """
    cache = default_cache()
    suites = list(_fast_suites(context.args) if fast else _suites(context.args, cache))
    outcomes = list(_outcomes(suites))
    results.print()
    for suite, code, line in outcomes:
        results.print(f"{suite.name}: {line}", style="red" if code else "green", markup=False)
    if any(code for _, code, _ in outcomes):
        raise typer.Exit(FAILED)


def _fast_suites(arguments: Sequence[str]) -> Iterator[Suite]:
    yield _own_suite(*SIDE_BY_SIDE, "-m", FAST, *arguments)
    if not arguments:
        yield from _linters()


def _suites(arguments: Sequence[str], cache: Path) -> Iterator[Suite]:
    """Everything, or what the paths among the pytest arguments choose."""
    given = [argument for argument in arguments if _exists(argument)]
    options = [argument for argument in arguments if argument not in given]
    paths = [path for argument in given for path in _of_one_suite(argument)]
    parts = [part for part in _parts() if _chosen(part, paths)]
    own = [path for path in paths if not any(_belongs(path, part) for part in _parts())]
    made = prepare(_jobs(parts, whole=not paths), cache, ToolchainProgress())
    if not paths:
        for suite in (*_linters(), _mypy()):
            yield dataclasses.replace(suite, lane=COMPUTING)
    for part in parts:
        chosen = [_tests(path, part) for path in paths if _belongs(path, part)]
        python = made[_environment(part)] / "bin" / "python"
        chosen = chosen or [_tests(CHECKOUT / part, part)]
        yield _part_suite(part, python, cache, *options, *chosen)
    if ENGINE in parts and not arguments:
        yield _real_engine_suite(made[_environment(ENGINE)] / "bin" / "python", cache)
    if not arguments:
        yield _own_suite(*SIDE_BY_SIDE, "-m", FAST)
        binaries = _own_suite(*FILES_SIDE_BY_SIDE, "-m", BINARIES)
        yield dataclasses.replace(binaries, name="tests, with binaries")
        yield dataclasses.replace(_own_suite("-m", LIVE), name="tests, live")
    elif own or not paths:
        yield _own_suite(*options, *own)


def _real_engine_suite(python: Path, cache: Path) -> Suite:
    suite = _part_suite(ENGINE, python, cache, "-m", REAL_ENGINE, _tests(CHECKOUT / ENGINE, ENGINE))
    return dataclasses.replace(suite, name=f"{ENGINE}, real", lane="")


def _part_suite(part: str, python: Path, cache: Path, *arguments: str) -> Suite:
    """In its own folder: a part has settings of its own, and imports itself from there."""
    variables = {}
    if part == ENGINE:
        vllm = environment_folder("vllm", CHECKOUT / REQUIREMENTS["vllm"], cache)
        variables = {"SLIPWAY_ENV_VLLM": str(vllm), "SLIPWAY_RUNTIME": str(cache)}
    command = _pytest(str(python), *arguments)
    return Suite(
        name=part,
        command=command,
        folder=CHECKOUT / part,
        variables=variables,
        lane=_lane(part),
    )


def _lane(part: str) -> str:
    if part == ENGINE:
        return REPLICAS
    return SERVICES if part.startswith("services/") else COMPUTING


def _tests(path: str | Path, part: str) -> str:
    """A part's folder means its tests: pytest looks for their settings from there upwards."""
    absolute = Path(path).absolute()
    return str(absolute / "tests" if absolute == CHECKOUT / part else absolute)


def _own_suite(*arguments: str) -> Suite:
    return Suite(name="tests", command=_pytest(sys.executable, *arguments), folder=CHECKOUT)


def _linters() -> Iterator[Suite]:
    tools = Path(sys.executable).parent
    for name, *arguments in (("ruff check", "check"), ("ruff format", "format", "--check")):
        yield Suite(name=name, command=(str(tools / "ruff"), *arguments, "."), folder=CHECKOUT)


def _mypy() -> Suite:
    return Suite(name="mypy", command=(sys.executable, "-m", "mypy", *TYPED), folder=CHECKOUT)


def _jobs(parts: Sequence[str], *, whole: bool) -> Iterator[Job]:
    for part in parts:
        requirements = CHECKOUT / part / "requirements-test.txt"
        yield EnvironmentJob(name=_environment(part), requirements=requirements)
    if whole:
        for tool in tool_pins():
            yield ToolJob(name=tool)
        for name, path in REQUIREMENTS.items():
            yield EnvironmentJob(name=name, requirements=CHECKOUT / path)


def _parts() -> list[str]:
    """What has an environment of its own: "policies", "services/xds", ..."""
    folders = [CHECKOUT / "policies", *(CHECKOUT / "services").glob("*")]
    found = [folder for folder in folders if (folder / "requirements-test.txt").is_file()]
    return sorted(folder.relative_to(CHECKOUT).as_posix() for folder in found)


def _of_one_suite(path: str) -> list[str]:
    """The path itself, or the suites below it where it is a folder of several."""
    folder = CHECKOUT / _relative(path)
    suites = [CHECKOUT / suite for suite in (*_parts(), "tests")]
    return [str(suite) for suite in suites if folder in suite.parents] or [path]


def _environment(part: str) -> str:
    return f"{part.rpartition('/')[2]}-test"


def _chosen(part: str, paths: Sequence[str]) -> bool:
    return not paths or any(_belongs(path, part) for path in paths)


def _belongs(path: str, part: str) -> bool:
    return f"{_relative(path)}/".startswith(f"{part}/")


def _exists(argument: str) -> bool:
    """Whether an argument is a path, perhaps with a test's name behind it."""
    return not argument.startswith("-") and Path(argument.partition("::")[0]).exists()


def _relative(path: str) -> str:
    return os.path.relpath(Path(path.partition("::")[0]).resolve(), CHECKOUT)


def _pytest(python: str, *arguments: str) -> tuple[str, ...]:
    return (python, "-m", "pytest", *arguments)


def _outcomes(suites: Sequence[Suite]) -> Iterator[Outcome]:
    lanes = dict[str, list[Suite]]()
    for suite in suites:
        lanes.setdefault(suite.lane, []).append(suite)
    alone = lanes.pop("", [])
    # The longest is shown as it runs.
    yield from _beside_each_other([lanes[name] for name in sorted(lanes, key=REPLICAS.__eq__)])
    yield from (_run(suite, _show) for suite in alone)


def _beside_each_other(lanes: Sequence[Sequence[Suite]]) -> Iterator[Outcome]:
    """The last lane is shown as it runs, each of the others when all have ended."""
    with ThreadPoolExecutor() as pool:
        hidden = pool.map(_captured, lanes[:-1])
        for suite in itertools.chain(*lanes[-1:]):
            yield _run(suite, _show)
    for outcome, output in itertools.chain(*hidden):
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
        env=os.environ | suite.variables,
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


def _show(text: str) -> None:
    results.print(text, end="", markup=False)
