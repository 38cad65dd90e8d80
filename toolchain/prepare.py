"""Prepares everything that a platform needs on this machine, in parallel.

Go builds run one after the other (each uses every core); archives, wheels and Python environments,
which wait for the network and the disk, run beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from toolchain import environments
from toolchain.built_instead import say_what_is_built
from toolchain.lanes import side_by_side
from toolchain.pins import tool_pin
from toolchain.progress import Progress, Step, silent
from toolchain.requirements import digest, for_python
from toolchain.resolve import resolve
from toolchain.settings import Settings


@dataclass(frozen=True, kw_only=True)
class ToolJob:
    """A pinned tool by name."""

    name: str


@dataclass(frozen=True, kw_only=True)
class EnvironmentJob:
    """The Python environment `<cache>/envs/<name>-<digest of requirements>`."""

    name: str
    requirements: Path


@dataclass(frozen=True, kw_only=True)
class PackagesJob:
    """The packages of that environment for hosts with another CPython, `python` ("3.10"): in
    `<cache>/envs/<name>-<digest of requirements>-python<python>`."""

    name: str
    requirements: Path
    python: str


Job = ToolJob | EnvironmentJob | PackagesJob


def prepare(jobs: Iterable[Job], cache: Path, progress: Progress = silent) -> dict[str, Path]:
    """Does all jobs; returns the main program of each tool and the folder of each environment.

    The first failure cancels the others and is raised (ToolchainError). What was finished or
    compiled by then is kept.
    """
    settings = Settings.read(cache)
    jobs = list(jobs)
    names = [_name(job) for job in jobs]
    if len(set(names)) < len(names):
        raise ValueError(f"two jobs have the same name: {sorted(names)}")
    pins = [tool_pin(job.name) for job in jobs if isinstance(job, ToolJob)]
    say_what_is_built(pins, settings, progress)
    return side_by_side({_name(job): _call(job, settings) for job in jobs}, progress)


def environment_folder(name: str, requirements: Path, cache: Path) -> Path:
    """Where the environment of a requirements file lies."""
    return cache / "envs" / f"{name}-{digest(requirements)}"


def packages_folder(environment: Path, python: str) -> Path:
    """Where the packages of an environment for another CPython lie."""
    return environment.with_name(f"{environment.name}-python{python}")


def _name(job: Job) -> str:
    return f"{job.name} for Python {job.python}" if isinstance(job, PackagesJob) else job.name


def _call(job: Job, settings: Settings) -> Callable[[Step], Path]:
    if isinstance(job, ToolJob):
        return partial(_tool, job.name, settings)
    target = environment_folder(job.name, job.requirements, settings.cache)
    if isinstance(job, PackagesJob):
        requirements, folder = (
            for_python(job.requirements, job.python),
            packages_folder(target, job.python),
        )
        return partial(environments.install_packages, requirements, job.python, folder)
    return partial(environments.install, job.requirements, target)


def _tool(name: str, settings: Settings, step: Step) -> Path:
    return resolve(tool_pin(name), settings, step).path
