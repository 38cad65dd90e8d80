"""Prepares the weights of a plan's models in this machine's cache, with the program that nodes run.

Local nodes share the cache: their tasks find the weights ready, and a wrong source is reported
before the environment is touched.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cli.environment import Environment
from cli.errors import CliError
from slipway.config.artifacts import requirements_digest
from slipway.config.errors import ConfigError
from slipway.config.model import Model
from slipway.plan.platform import PlatformPlan, ReplicaSpec, WeightsSpec
from toolchain.progress import Progress, amount

Event = Mapping[str, Any]


def prepare_weights(
    environment: Environment, plan: PlatformPlan, models: Mapping[str, Model], progress: Progress
) -> None:
    """Prepares the missing weights, one model after the other: each conversion takes memory. Those
    that hosts fetch are left to them.

    ConfigError for a mistake in a model's file, CliError for a failure of this machine.
    """
    for model in plan.models:
        weights = model.replica.weights
        if weights is None or weights.fetched_by_hosts:
            continue
        if not is_prepared(weights, environment.cache):
            _prepare(environment, models[model.name], model.replica, weights, progress)


def environment_of(weights: WeightsSpec, replica: ReplicaSpec, checkout: Path) -> str:
    """The folder of the environment that prepares weights on this machine. Replicas in containers
    have none of their own."""
    name = weights.python
    return replica.environments.get(name) or f"{name}-{requirements_digest(checkout, name)}"


def is_prepared(weights: WeightsSpec, cache: Path) -> bool:
    """Whether the folder exists. It is renamed into place once complete, and tasks verify its
    files."""
    return (cache / weights.directory).is_dir()


def _prepare(
    environment: Environment,
    model: Model,
    replica: ReplicaSpec,
    weights: WeightsSpec,
    progress: Progress,
) -> None:
    cache, name = environment.cache, model.settings.name
    folder_name = environment_of(weights, replica, environment.checkout)
    python = cache / "envs" / folder_name / "bin" / "python"
    program = cache / "bundles" / replica.bundle / weights.entrypoint
    with tempfile.TemporaryDirectory(prefix="slipway-weights-") as folder:
        path, stderr = Path(folder) / "weights.json", Path(folder) / "stderr"
        path.write_text(json.dumps(weights.document))
        with (
            stderr.open("w") as errors,
            subprocess.Popen(
                [python, program, "--document", path],
                # torch leaves temporary files behind; they are removed with this folder.
                env={
                    **environment.child_environment(),
                    "SLIPWAY_RUNTIME": str(cache),
                    "TMPDIR": folder,
                },
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            ) as process,
        ):
            try:
                error = _follow(process.stdout or (), f"weights of {name}", progress)
            except BaseException:
                process.terminate()
                raise
        if process.returncode:
            raise _failure(model, error or _unexplained(process.returncode, stderr.read_text()))


def _follow(lines: Iterable[str], name: str, progress: Progress) -> Event | None:
    """Shows the program's progress; returns the error that it ended with."""
    error = None
    for line in lines:
        event = json.loads(line)
        if event["event"] == "progress":
            progress(name, event["phase"].replace("_", " "), event["elapsed_s"], _amount(event))
        elif event["event"] == "error":
            error = event
    return error


def _amount(event: Event) -> str:
    received, total = event.get("received_bytes"), event.get("total_bytes")
    if received is None:
        return ""
    return amount(received, total)


def _unexplained(code: int, stderr: str) -> Event:
    lines = stderr.strip().splitlines() or ["no reason given"]
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    return {"message": f"{how}: {lines[-1]}"}


def _failure(model: Model, error: Event) -> ConfigError | CliError:
    fix = error.get("fix", "check that this machine has memory and disk space left")
    if key := error.get("key"):
        field = key.rpartition(".")[2]
        problem = model.origin.problem(
            tuple(key.split(".")),
            error["message"].removeprefix(f"{key}: "),
            value=getattr(model.settings.source, field, None),
            fix=fix,
        )
        return ConfigError([problem])
    return CliError(
        f"the weights of {model.settings.name} could not be prepared: {error['message']};"
        " nothing was changed",
        fix=f"{fix}, then run slipway up again",
    )
