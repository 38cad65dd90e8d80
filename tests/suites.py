"""Which suites `slipway test` runs: the linters, the services, the policies and the tests here."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from cli.environment import CHECKOUT
from cli.progress import ToolchainProgress
from slipway.config.artifacts import REQUIREMENTS
from tests.docker_programs import docker_programs, missing_to_run
from tests.runner import (
    AGENTS,
    COMPUTING,
    CONTAINERS,
    HOST_SERVICES,
    OWN_PLATFORMS,
    PLATFORM,
    REPLICAS,
    SERVICES,
    SIMULATED,
    Suite,
)
from toolchain.pins import tool_pins
from toolchain.prepare import EnvironmentJob, Job, ToolJob, environment_folder, prepare

RECORDER = Path(__file__).with_name("recorder.py")
NEEDS_NO_BINARIES = "not binaries and not live"
FAST = f"{NEEDS_NO_BINARIES} and not thorough"
FEW_EXAMPLES = ("--hypothesis-profile", "few examples")
BINARIES = "binaries and not live"
BESIDE = "live and beside"
LIVE = "live and not beside and not apart"
APART = "live and apart"
ENGINE = "services/triton_vllm"
ONLY_COMPUTES = ("policies", "services/fleet_replay")
OF_HOSTS = ("services/devices", "services/host")  # together as long as the other services
REAL_ENGINE = "real and not kills"  # tests/live kills the parts of a real engine as well
NEEDS_ACCELERATORS = ("vllm_cuda",)  # environments that no test can use
TYPED = ("src/slipway", "cli", "components", "stacks", "toolchain", "bench")
# Each worker has its own addresses: tests/workers.py
SIDE_BY_SIDE = ("-n", "logical", "--dist", "worksteal")
FILES_SIDE_BY_SIDE = (
    "-n",
    "logical",
    "--dist",
    "loadfile",
)  # the tests of a file share a real agent


def fast_suites(arguments: Sequence[str]) -> Iterator[Suite]:
    """The suites that need no binaries, no other environment and little computing."""
    paths, options = _split(arguments)
    yield _own_suite(*SIDE_BY_SIDE, "-m", FAST, *FEW_EXAMPLES, *options, tests=paths)
    if not arguments:
        yield from _linters()


def chosen_suites(arguments: Sequence[str], cache: Path) -> Iterator[Suite]:
    """All suites, or those chosen by the paths among the pytest arguments."""
    given, options = _split(arguments)
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
        suite = _part_suite(part, python, cache, *options, tests=chosen)
        yield suite
        if part == ENGINE and not options and not missing_to_run():
            yield _in_containers(suite, cache)
    if ENGINE in parts and not arguments:
        yield _real_engine_suite(made[_environment(ENGINE)] / "bin" / "python", cache)
    if not arguments:
        computing = _own_suite(*SIDE_BY_SIDE, "-m", NEEDS_NO_BINARIES)
        yield dataclasses.replace(computing, lane=COMPUTING)
        binaries = _own_suite(*FILES_SIDE_BY_SIDE, "-m", BINARIES)
        yield dataclasses.replace(binaries, name="tests, with binaries", lane=AGENTS)
        beside = _own_suite("-m", BESIDE)
        yield dataclasses.replace(beside, name="tests, live, beside others", lane=SIMULATED)
        apart = _own_suite("-m", APART)
        yield dataclasses.replace(apart, name="tests, live, apart", lane=OWN_PLATFORMS)
        yield dataclasses.replace(_own_suite("-m", LIVE), name="tests, live", lane=PLATFORM)
    elif own or not paths:
        yield _own_suite(*options, tests=own)


def _real_engine_suite(python: Path, cache: Path) -> Suite:
    suite = _part_suite(ENGINE, python, cache, "-m", REAL_ENGINE)
    return dataclasses.replace(suite, name=f"{ENGINE}, real", lane="")


def _in_containers(suite: Suite, cache: Path) -> Suite:
    """Those of its tests that start a replica, once more."""
    variables = {**suite.variables, "SLIPWAY_DOCKER": str(docker_programs(cache / "hosts"))}
    name = f"{suite.name}, in containers"
    return dataclasses.replace(suite, name=name, variables=variables, lane=CONTAINERS)


def _part_suite(
    part: str, python: Path, cache: Path, *options: str, tests: Sequence[str] = ()
) -> Suite:
    """Runs in the part's folder, from which it reads its settings and imports itself."""
    variables = {}
    if part == ENGINE:
        vllm = environment_folder("vllm", CHECKOUT / REQUIREMENTS["vllm"], cache)
        variables = {"SLIPWAY_ENV_VLLM": str(vllm), "SLIPWAY_RUNTIME": str(cache)}
    return Suite(
        name=part,
        command=_pytest(str(python), *options),
        tests=tuple(tests) or (_tests(CHECKOUT / part, part),),
        folder=CHECKOUT / part,
        variables=variables,
        lane=_lane(part),
    )


def _lane(part: str) -> str:
    if part == ENGINE:
        return REPLICAS
    if part in ONLY_COMPUTES:
        return COMPUTING
    return HOST_SERVICES if part in OF_HOSTS else SERVICES


def _tests(path: str | Path, part: str) -> str:
    """A part's folder stands for its tests, from where pytest looks upwards for settings."""
    absolute = Path(path).absolute()
    return str(absolute / "tests" if absolute == CHECKOUT / part else absolute)


def _own_suite(*options: str, tests: Sequence[str] = ()) -> Suite:
    command = _pytest(sys.executable, *options)
    return Suite(name="tests", command=command, tests=tuple(tests), folder=CHECKOUT)


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
            if name not in NEEDS_ACCELERATORS:
                yield EnvironmentJob(name=name, requirements=CHECKOUT / path)


def _parts() -> list[str]:
    """The parts with an environment of their own: "policies", "services/xds", ..."""
    folders = [CHECKOUT / "policies", *(CHECKOUT / "services").glob("*")]
    found = [folder for folder in folders if (folder / "requirements-test.txt").is_file()]
    return sorted(folder.relative_to(CHECKOUT).as_posix() for folder in found)


def _of_one_suite(path: str) -> list[str]:
    """The path itself, or the suites below it if it contains several."""
    folder = CHECKOUT / _relative(path)
    suites = [CHECKOUT / suite for suite in (*_parts(), "tests")]
    return [str(suite) for suite in suites if folder in suite.parents] or [path]


def _environment(part: str) -> str:
    return f"{part.rpartition('/')[2]}-test"


def _chosen(part: str, paths: Sequence[str]) -> bool:
    return not paths or any(_belongs(path, part) for path in paths)


def _belongs(path: str, part: str) -> bool:
    return f"{_relative(path)}/".startswith(f"{part}/")


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The paths among pytest's arguments, and its options."""
    paths = [argument for argument in arguments if _exists(argument)]
    return paths, [argument for argument in arguments if argument not in paths]


def _exists(argument: str) -> bool:
    """Whether an argument is a path, perhaps followed by a test's name."""
    return not argument.startswith("-") and Path(argument.partition("::")[0]).exists()


def _relative(path: str) -> str:
    return os.path.relpath(Path(path.partition("::")[0]).resolve(), CHECKOUT)


def _pytest(python: str, *options: str) -> tuple[str, ...]:
    return (python, str(RECORDER), *options)
