"""`start` and `stop` on this machine: the processes of an environment, without Pulumi."""

from __future__ import annotations

from cli.applied import recorded, require
from cli.clusters.nomad import Nomad
from cli.clusters.readiness import ROUTE_TIMEOUT_S, wait_for_leader, wait_for_models
from cli.console import say
from cli.environment import Environment
from cli.lifecycle.local import agents
from cli.progress import Phases
from cli.pulumi.locks import clear_stale_locks, exclusive
from cli.views.gateway_line import gateway_line


def start(environment: Environment) -> None:
    applied = require(environment)
    phases = Phases(f"start {environment.name}")
    with exclusive(environment):
        environment.make_folders()  # the scratch folder does not survive a reboot
        with phases.phase("agents", "Consul and Nomad"):
            agents.start(environment, applied)
            with Nomad.of(environment, applied) as nomad:
                wait_for_leader(nomad)
        loading_s = max((model.load_timeout_s for model in applied.models), default=0)
        with phases.phase("models", "loading, until the gateway answers for each"):
            wait_for_models(applied, timeout_s=loading_s + ROUTE_TIMEOUT_S)
    say(gateway_line(applied.gateway))


def stop(environment: Environment) -> None:
    with exclusive(environment):
        clear_stale_locks(environment)  # a running update would start the agents again
        agents.stop(environment, recorded(environment))
    say(f"stopped; slipway start -s {environment.name} brings it back")
