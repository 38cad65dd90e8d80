"""The policy pack of this checkout, as `slipway preview` runs it."""

from __future__ import annotations

import json
import os
from pathlib import Path

from slipway.cli.environment import Environment
from slipway.cli.errors import CliError
from slipway.cli.progress import ToolchainProgress
from slipway.cli.pulumi.state import read_state
from toolchain.prepare import EnvironmentJob, prepare

# The policies' own environment: pulumi-policy needs another protobuf than the program has.
POLICY_ENVIRONMENT = "policies"
# The rule that asks what the environment costs now (policies/rules/cost.py), and the policies that
# report its advice, its unknowns and its waivers (policies/pulumi_pack.py).
_ASK_FOR_COST = ("change-over-budget", "could-not-be-evaluated", "advice", "waived")


def policy_arguments(environment: Environment) -> list[str]:
    """Makes the policies' environment; returns what `pulumi preview` needs to run them."""
    folder = policies_folder(environment)
    _link(folder / ".venv", make_policy_environment(environment))
    return [f"--policy-pack={folder}", f"--policy-pack-config={_configuration(environment)}"]


def policies_folder(environment: Environment) -> Path:
    return environment.checkout / "policies"


def make_policy_environment(environment: Environment) -> Path:
    requirements = policies_folder(environment) / "requirements.txt"
    job = EnvironmentJob(name=POLICY_ENVIRONMENT, requirements=requirements)
    return prepare([job], environment.cache, ToolchainProgress())[POLICY_ENVIRONMENT]


def usd_per_hour_before(environment: Environment) -> float:
    """What the environment costs as it was last brought up; 0 before that."""
    state = read_state(environment)
    return 0.0 if state is None else state.usd_per_hour


def _link(link: Path, target: Path) -> None:
    """Points the link that PulumiPolicy.yaml names at the environment."""
    if link.is_symlink() and link.readlink() == target:
        return
    if link.exists() and not link.is_symlink():
        raise CliError(
            f"{link} is not the link that Slipway keeps there",
            fix=f"move it away: mv {link} {link}.old",
        )
    staged = link.with_name(f".venv.{os.getpid()}")
    staged.symlink_to(target)
    staged.replace(link)


def _configuration(environment: Environment) -> Path:
    """The file that tells the policies what a preview does not: the cost before the change."""
    path = environment.pulumi_home / f"policies-{environment.name}.json"
    known = {"usd_per_hour_before": usd_per_hour_before(environment)}
    path.write_text(json.dumps(dict.fromkeys(_ASK_FOR_COST, known)))
    return path
