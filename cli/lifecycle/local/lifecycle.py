"""The lifecycle of dev."""

# ruff: noqa: PLC0415 - each command loads only the libraries it needs

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cli.environment import FORWARDED, Environment, exports, unsets
from cli.errors import WRONG_INPUT, CliError
from cli.lifecycle.local.backend import own_pulumi
from cli.pulumi.plugins import known_kind, plugin_variables
from cli.pulumi.process import Pulumi
from cli.pulumi.state import StackState, read_state

if TYPE_CHECKING:
    from cli.applied import Applied
    from cli.hosts.facts import HostFacts
    from cli.lifecycle.protocol import Report
    from cli.machine.checks import Check
    from cli.snapshots.kept import Snapshot
    from slipway.plan.platform import PlatformPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalLifecycle:
    """The lifecycle where hosts are processes of this machine (protocol.Lifecycle)."""

    environment: Environment

    @property
    def credentials(self) -> Path:
        return self.environment.run

    def reaching(self, _plan: PlatformPlan) -> AbstractContextManager[Mapping[str, str]]:
        return nullcontext({})

    def asked(self) -> AbstractContextManager[Applied]:
        from cli.applied import require

        return nullcontext(require(self.environment))

    @property
    def when_silent(self) -> str:
        return f"stopped   (slipway start -s {self.environment.name} brings it back)"

    def reach(self, _plan: PlatformPlan) -> None:
        name = self.environment.name
        raise CliError(
            f'"{name}" runs on this machine, so every program here reaches it',
            fix=f'eval "$(slipway env -s {name})"; slipway status -s {name} shows its addresses',
            exit_code=WRONG_INPUT,
        )

    def host_facts(self, _plan: PlatformPlan) -> Mapping[str, HostFacts | CliError]:
        return {}

    def host_checks(self, _plan: PlatformPlan, host: str) -> Iterable[Check]:
        raise self._is_this_machine(host, "slipway doctor", "checks it")

    def show_unit(
        self, plan: PlatformPlan, host: str, unit: str, *, lines: int | None, follow: bool
    ) -> None:
        from cli.hosts.roster import member
        from cli.hosts.unit_logs import show_file

        logs = self.environment.logs
        show_file(logs, member(plan, host), unit, lines=lines, follow=follow)

    def forget(self, _plan: PlatformPlan, host: str, *, sure: bool) -> None:  # noqa: ARG002
        raise self._is_this_machine(host, "slipway start", "brings back what has died")

    def up(self) -> Report:
        from cli.lifecycle.local.up import up

        return up(self.environment)

    def admit(self, host: str) -> Report:
        raise self._is_this_machine(host, "slipway up", "brings it to the state in its files")

    def snapshots(self, _plan: PlatformPlan) -> Sequence[Snapshot]:
        raise self._takes_no_snapshots()

    def restore(self, _snapshot: Snapshot, *, force: bool) -> None:  # noqa: ARG002
        raise self._takes_no_snapshots()

    def start(self) -> None:
        from cli.lifecycle.local.processes import start

        start(self.environment)

    def stop(self) -> None:
        from cli.lifecycle.local.processes import stop

        stop(self.environment)

    def down(self) -> None:
        from cli.lifecycle.local.down import down

        down(self.environment)

    def machine_checks(self) -> Iterable[Check]:
        from cli.machine import checks

        return checks.machine(self.environment)

    def plan_checks(self, plan: PlatformPlan) -> Iterable[Check]:
        from cli.applied import recorded
        from cli.clusters.nomad import allocations_now
        from cli.machine import checks

        allocations = allocations_now(self.environment, recorded(self.environment))
        return [*checks.free_ports(plan, self.environment), checks.memory(plan, allocations)]

    def exports(self) -> str:
        kind = known_kind(self.environment)
        return unsets(FORWARDED) + exports(
            {**self.environment.variables(), **plugin_variables(kind)}
        )

    def pulumi(self) -> Pulumi:
        return own_pulumi(self.environment)

    def before_preview(self, plan: PlatformPlan, given: Sequence[str]) -> list[str]:
        from cli.lifecycle.local.preview import before_preview

        return before_preview(self.environment, plan, given)

    def state(self) -> StackState | None:
        return read_state(self.environment)

    def _takes_no_snapshots(self) -> CliError:
        name = self.environment.name
        return CliError(
            f'"{name}" has no snapshots: its servers and everything else are processes of this'
            " machine, and are lost together",
            fix=f"slipway start -s {name} brings back what has died; slipway down, then slipway up"
            " builds it anew",
            exit_code=WRONG_INPUT,
        )

    def _is_this_machine(self, host: str, instead: str, effect: str) -> CliError:
        name = self.environment.name
        return CliError(
            f'{host}: the hosts of "{name}" are processes of this machine',
            fix=f"{instead} -s {name} {effect}",
            exit_code=WRONG_INPUT,
        )
