"""The lifecycle of fleets: `pulumi up` and `pulumi destroy`."""

# ruff: noqa: PLC0415 - each command loads only the libraries it needs

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cli.applied import Applied, planned
from cli.environment import (
    ASKED_BY_HAND,
    FORWARDED,
    Environment,
    exports,
    first_on_path,
    unsets,
)
from cli.errors import WRONG_INPUT, CliError
from cli.hosts.over_ssh import must_know_a_way
from cli.hosts.troubles import MACHINES, Fixes
from cli.lifecycle.fleet import access, backend
from cli.machine.checks import Check, operators_machine
from cli.planning import plan_for_clients, plan_if_valid
from cli.pulumi.locks import exclusive
from cli.pulumi.plugins import known_kind
from cli.pulumi.process import Pulumi
from cli.pulumi.state import StackState
from cli.reach.forwards import variables_of
from slipway.plan.platform import PlatformPlan

if TYPE_CHECKING:
    from cli.lifecycle.fleet.hosts import HostOperations
    from cli.lifecycle.protocol import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetLifecycle:
    """The lifecycle where hosts are machines that Pulumi creates or knows (protocol.Lifecycle)."""

    environment: Environment

    def up(self) -> Report:
        from cli.lifecycle.fleet.up import up

        return up(self.environment)

    def start(self) -> None:
        raise self._runs_elsewhere("started", "slipway up", "brings it to the state in its files")

    def stop(self) -> None:
        raise self._runs_elsewhere("stopped", "slipway down", "destroys it")

    def down(self) -> None:
        from cli.lifecycle.fleet.down import down

        down(self.environment)

    @property
    def credentials(self) -> Path:
        return self.environment.access

    def reaching(self, plan: PlatformPlan) -> AbstractContextManager[Mapping[str, str]]:
        return access.reaching(self.environment, plan)

    @contextmanager
    def asked(self) -> Iterator[Applied]:
        """The addresses in the plan of the files, because this machine has no record of the last
        `up`."""
        plan = plan_for_clients(self.environment)
        ssh = access.ssh_of(self.environment, plan)
        must_know_a_way(ssh, [server.name for server in plan.servers])
        with self.reaching(plan):
            yield planned(self.environment, plan, operator=self.credentials / "operator")

    @property
    def when_silent(self) -> str:
        name = self.environment.name
        return f"Nomad does not answer   (slipway hosts -s {name} shows what does, and why not)"

    @property
    def hosts(self) -> HostOperations:
        from cli.lifecycle.fleet.hosts import HostOperations

        return HostOperations(environment=self.environment)

    @property
    def host_fixes(self) -> Fixes:
        return MACHINES

    def machine_checks(self) -> Iterable[Check]:
        return operators_machine(self.environment)

    def plan_checks(self, _plan: PlatformPlan) -> Iterable[Check]:
        return ()

    def exports(self) -> str:
        unset = unsets([*FORWARDED, *ASKED_BY_HAND, *backend.variables_of_dev(self.environment)])
        plan, kind = plan_if_valid(self.environment), known_kind(self.environment)
        variables = backend.program_variables(self.environment, kind)
        variables["PATH"] = first_on_path(self.environment.cluster_tools, variables["PATH"])
        return unset + exports({**variables, **(variables_of(plan) if plan else {})})

    def pulumi(self) -> Pulumi:
        return backend.users_pulumi(self.environment)

    def before_preview(self, _plan: PlatformPlan, _given: Sequence[str]) -> list[str]:
        with exclusive(self.environment):
            backend.make_stack(self.pulumi())
        return []

    def state(self) -> StackState | None:
        return backend.stack_state(self.pulumi())

    def _runs_elsewhere(self, done: str, instead: str, effect: str) -> CliError:
        name = self.environment.name
        return CliError(
            f'"{name}" cannot be {done} from here: it runs on other machines, not as processes'
            " of this one",
            fix=f"{instead} -s {name} {effect}",
            exit_code=WRONG_INPUT,
        )
