"""The policy pack of this checkout, as `slipway preview` runs it."""

from __future__ import annotations

import json
import os
from pathlib import Path

from cli.environment import Environment
from cli.errors import CliError
from cli.progress import ToolchainProgress
from cli.pulumi.plugins import known_kind, start_server
from cli.pulumi.state import StackState, read_state
from toolchain.language_host.policies import SHARED_MODULES
from toolchain.prepare import EnvironmentJob, prepare

# The policies' own environment, because pulumi-policy needs another protobuf than the program.
POLICY_ENVIRONMENT = "policies"
# The rule that needs the current cost of the environment (policies/rules/cost.py), and the policies
# that report its advice, unknowns and waivers (policies/pulumi_pack.py).
_NEED_COST = ("change-over-budget", "could-not-be-evaluated", "advice", "waived")


def policy_arguments(environment: Environment, state: StackState | None) -> list[str]:
    """Creates the policies' environment; returns the arguments with which `pulumi preview` runs
    them. `state` is the environment as last brought up."""
    folder = policies_folder(environment)
    _link(folder / ".venv", make_policy_environment(environment))
    return [f"--policy-pack={folder}", f"--policy-pack-config={_configuration(environment, state)}"]


def start_policy_server(environment: Environment) -> None:
    """Starts the server whose fork runs the policies, because its imports take as long as planning.

    Without it the policies are a process of their own, as at the first preview, which installs
    their environment, and with Pulumi's official language host.
    """
    python = policies_folder(environment) / ".venv" / "bin" / "python"
    if known_kind(environment) == "registry-only" and python.exists():
        start_server(python, *SHARED_MODULES)


def policies_folder(environment: Environment) -> Path:
    return environment.checkout / "policies"


def make_policy_environment(environment: Environment) -> Path:
    requirements = policies_folder(environment) / "requirements.txt"
    job = EnvironmentJob(name=POLICY_ENVIRONMENT, requirements=requirements)
    return prepare([job], environment.cache, ToolchainProgress())[POLICY_ENVIRONMENT]


def usd_per_hour_before(environment: Environment) -> float:
    """The cost of the environment as last brought up; 0 before that."""
    return _usd_per_hour(read_state(environment))


def _usd_per_hour(state: StackState | None) -> float:
    return 0.0 if state is None else state.usd_per_hour


def _link(link: Path, target: Path) -> None:
    """Points the link named in PulumiPolicy.yaml to the environment."""
    if link.is_symlink() and link.readlink() == target:
        return
    if link.exists() and not link.is_symlink():
        raise CliError(
            f"{link} is not the link that Slipway creates there",
            fix=f"move it away: mv {link} {link}.old",
        )
    staged = link.with_name(f".venv.{os.getpid()}")
    staged.symlink_to(target)
    staged.replace(link)


def _configuration(environment: Environment, state: StackState | None) -> Path:
    """The file that tells the policies the cost before the change, which a preview does not
    contain."""
    path = environment.pulumi_home / f"policies-{environment.name}.json"
    known = {"usd_per_hour_before": _usd_per_hour(state)}
    path.write_text(json.dumps(dict.fromkeys(_NEED_COST, known)))
    return path
