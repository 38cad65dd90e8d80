"""The lifecycle of fleets: `pulumi up` and `pulumi destroy`."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cli.applied import Applied, planned
from cli.clusters.both import clusters
from cli.console import say
from cli.environment import FORWARDED, Environment, exports, unsets
from cli.errors import WRONG_INPUT, CliError, InterruptedRunError
from cli.hosts import forgetting
from cli.hosts.facts import HostFacts, look_at
from cli.hosts.fitness import host_checks
from cli.hosts.over_ssh import OverSsh, known_way, must_know_a_way
from cli.hosts.roster import member, roster
from cli.hosts.unit_logs import show_journal
from cli.lifecycle.fleet import backend
from cli.lifecycle.protocol import Report
from cli.machine.checks import Check, operators_machine
from cli.machine.preparation import fill_cache
from cli.machine.ssh_agent import agent_for
from cli.planning import (
    must_be_valid_now,
    plan_environment,
    plan_for_clients,
    plan_of,
    warn_of_certificate,
)
from cli.progress import Phases, ToolchainProgress, telling
from cli.pulumi.authorities import must_sign_now
from cli.pulumi.host_repairs import removals
from cli.pulumi.locks import exclusive
from cli.pulumi.plugins import describe, known_kind, prepare_plugins
from cli.pulumi.process import Pulumi
from cli.pulumi.repairs import without_resources
from cli.pulumi.state import StackState
from cli.reach.document import forwarding_of
from cli.reach.forwards import variables_of
from cli.reach.lease import held, reaching
from cli.reach.shell import shell_exports
from cli.snapshots import kept, restoring
from cli.snapshots.kept import Snapshot
from slipway.config.errors import ConfigError
from slipway.config.files import file_of_host
from slipway.inputs import load_inputs
from slipway.plan.platform import PlatformPlan, SshPlan
from toolchain import resolve

NAMED = 6  # hosts in a line about progress


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetLifecycle:
    """The lifecycle where hosts are machines that Pulumi creates or knows (protocol.Lifecycle)."""

    environment: Environment

    def up(self) -> Report:
        """Asks no model: its gateway may not be reachable from here. The program's gates have
        waited for every replica."""
        return self._up(admitted_again=())

    def admit(self, host: str) -> Report:
        return self._up(admitted_again=[host])

    def _up(self, *, admitted_again: Sequence[str]) -> Report:
        phases = Phases()
        with phases.phase("plan", f"Pulumi.{self.environment.name}.yaml and its models"):
            inputs = load_inputs(self.environment.checkout, self.environment.name)
            must_sign_now(inputs)
            must_be_valid_now(inputs)
            plan = plan_environment(inputs)
            warn_of_certificate(inputs)
        if plan.ssh is not None:  # what the hosts get comes from this machine's cache
            fill_cache(self.environment, inputs, plan, phases)
        with self._tools(phases) as pulumi:
            with phases.phase("stack", "in your Pulumi backend"):
                backend.make_stack(pulumi)
                exported = backend.prepare_state(pulumi, plan, admitted_again)
                leaving = backend.leaving(exported, plan)
            with (
                self.reaching(plan, leaving) as way,
                phases.phase("pulumi", "resources"),
                self._hosts_left_named(pulumi, plan),
            ):
                _through(way, pulumi).up(log=self._log)
            outputs = _outputs(pulumi)
        for name, value in outputs.items():
            say(f"{name}  {json.dumps(value)}")
        say(f'"{self.environment.name}" is up in {phases.elapsed_s:.1f} s')
        document = {
            "outputs": outputs,
            "seconds": round(phases.elapsed_s, 2),
            "phases": phases.seconds,
        }
        return Report(document=document, ready=True)

    @property
    def credentials(self) -> Path:
        return self.environment.access

    @contextmanager
    def reaching(
        self, plan: PlatformPlan, leaving: Sequence[str] = ()
    ) -> Iterator[Mapping[str, str]]:
        with (
            agent_for(plan.ssh) as agent,
            reaching(self.environment, plan, agent, leaving) as variables,
        ):
            yield {**agent, **variables}

    @contextmanager
    def asked(self) -> Iterator[Applied]:
        """What the files say: what was brought up last is not recorded here."""
        plan = plan_for_clients(self.environment)
        must_know_a_way(self._reached(plan), [server.name for server in plan.servers])
        with self.reaching(plan):
            yield planned(self.environment, plan, operator=self.credentials / "operator")

    @property
    def when_silent(self) -> str:
        name = self.environment.name
        return f"Nomad does not answer   (slipway hosts -s {name} shows what does, and why not)"

    def reach(self, plan: PlatformPlan) -> None:
        name, ssh = self.environment.name, self._reached(plan)
        for server in plan.servers:
            known_way(ssh, server.name)
        with (
            agent_for(ssh) as agent,
            held(self.environment, forwarding_of(plan, ssh), agent) as lease,
        ):
            sys.stdout.write(
                self.exports() + exports(agent) + shell_exports(plan, self.credentials)
            )
            sys.stdout.flush()
            say(f'"{name}" is within reach until Ctrl-C; the lines above are for another shell')
            with suppress(KeyboardInterrupt):
                lease.follow(name)

    def host_facts(self, plan: PlatformPlan) -> Mapping[str, HostFacts | CliError]:
        if plan.ssh is None:
            return {}
        name, hosts, waiting = self.environment.name, plan.ssh.hosts, set(plan.ssh.hosts)
        try:
            with (
                telling(lambda: f"waiting for {_some(waiting)}"),
                agent_for(plan.ssh) as agent,
            ):
                over_ssh = OverSsh(environment=self.environment, agent=agent)
                return look_at(hosts, name, plan.ssh, over_ssh, waiting.discard)
        except CliError as error:  # of the operator's key
            return dict.fromkeys(hosts, error)

    def host_checks(self, plan: PlatformPlan, host: str) -> Iterable[Check]:
        named = member(plan, host)
        return host_checks(self.environment, plan, self._reached(plan), named.name)

    def show_unit(
        self, plan: PlatformPlan, host: str, unit: str, *, lines: int | None, follow: bool
    ) -> None:
        named, ssh = member(plan, host), self._reached(plan)
        with agent_for(ssh) as agent:
            over_ssh = OverSsh(environment=self.environment, agent=agent)
            name = self.environment.name
            show_journal(over_ssh, ssh, name, named, unit, lines=lines, follow=follow)

    def start(self) -> None:
        raise self._runs_elsewhere("started", "slipway up", "brings it to the state in its files")

    def stop(self) -> None:
        raise self._runs_elsewhere("stopped", "slipway down", "destroys it")

    def down(self) -> None:
        phases, plan = Phases(), self._plan_of_files()
        with self._prepared(phases, plan) as (pulumi, _):
            with phases.phase("stack", "in your Pulumi backend"):
                state = backend.stack_state(pulumi)
            if state is None:
                say(f'your Pulumi backend has no stack "{self.environment.name}"')
                return
            if state.protected:
                raise self._is_protected(state.protected)
            if plan is None and state.needs_ssh:
                say("down needs the files, because they say how the hosts are reached")
                plan_of(self.environment)  # raises what is wrong in them
            with phases.phase("pulumi", "destroying the resources"):
                pulumi.destroy(log=self._log)
            with phases.phase("state", "removing the empty stack"):
                backend.remove_empty_stack(pulumi)
        say(f'"{self.environment.name}" is down; Pulumi.{self.environment.name}.yaml stays')

    def forget(self, plan: PlatformPlan, host: str, *, sure: bool) -> None:
        name = self.environment.name
        with self._prepared(Phases(), plan) as (pulumi, agent):
            exported = backend.export(pulumi)
            gone = forgetting.recorded(exported, host, name)
            listed_in = self._file_of(host, plan)
            if listed_in and not sure:
                raise self._is_in_the_file(host, listed_in)
            with telling(lambda: f"waiting for {host}, which should not answer"):
                over_ssh = OverSsh(environment=self.environment, agent=agent)
                forgetting.must_be_silent(gone, over_ssh, name, listed_in)
            with clusters(plan, self.credentials) as both:
                forgetting.must_be_lost(gone, both)
                if gone.server:
                    forgetting.must_leave_a_quorum(gone, both)
                forgetting.tell_clusters(gone, both)
            say(f"{host} has left Consul and Nomad")
            backend.change_state(pulumi, exported, without_resources(exported, gone.urns))
        for urn in gone.urns:
            say(f"no longer in the state: {urn.rpartition('::')[2]}")
        say(_then(name, host, listed=listed_in is not None))

    def snapshots(self, plan: PlatformPlan) -> Sequence[Snapshot]:
        ssh = self._reached(plan)
        with agent_for(ssh) as agent:
            over_ssh = OverSsh(environment=self.environment, agent=agent)
            return kept.kept(plan, ssh, over_ssh)

    def restore(self, snapshot: Snapshot, *, force: bool) -> None:
        phases, name = Phases(), self.environment.name
        inputs = load_inputs(self.environment.checkout, name)
        must_sign_now(inputs)
        plan = plan_environment(inputs)
        ssh = self._reached(plan)
        fill_cache(self.environment, inputs, plan, phases)
        with (
            self._prepared(phases, plan) as (pulumi, agent),
            tempfile.TemporaryDirectory(prefix="slipway-restore-") as folder,  # mode 0700
        ):
            over_ssh = OverSsh(environment=self.environment, agent=agent)
            with phases.phase("servers", "what they still have"):
                found = restoring.standing(plan, ssh, over_ssh, self.credentials)
                emptied = restoring.to_be_emptied(found, name, force=force)
            with phases.phase("snapshot", f"{snapshot.name}, from {kept.host_of(plan)}"):
                files = kept.fetch(plan, ssh, over_ssh, snapshot, Path(folder))
                restorer = restoring.Restorer(environment=self.environment, plan=plan, files=files)
                restorer.verify()
            with phases.phase("pulumi", "the servers, set up as new ones"):
                exported = backend.export(pulumi)
                restoring.empty(ssh, over_ssh, removals(exported, emptied))
                pulumi.up(log=self._log, only=backend.servers_again(pulumi, exported, plan))
            with phases.phase("restore", "both clusters"):
                restorer.apply()
            with (
                phases.phase("clusters", "until every host is back"),
                clusters(plan, self.credentials) as both,
            ):
                restoring.end_the_snapshots_run(both)
                restoring.register_servers_again(plan, both)
                restoring.wait_for_everybody(plan, both)
        say(f'"{name}" has the state of {snapshot.name}; slipway up -s {name} applies the files')

    def machine_checks(self) -> Iterable[Check]:
        return operators_machine(self.environment)

    def plan_checks(self, _plan: PlatformPlan) -> Iterable[Check]:
        return ()

    def exports(self) -> str:
        unset = unsets([*FORWARDED, *backend.variables_of_dev(self.environment)])
        plan, kind = self._plan_of_files(), known_kind(self.environment)
        variables = backend.program_variables(self.environment, kind)
        return unset + exports({**variables, **(variables_of(plan) if plan else {})})

    def pulumi(self) -> Pulumi:
        return backend.users_pulumi(self.environment)

    def before_preview(self, _plan: PlatformPlan, _given: Sequence[str]) -> list[str]:
        with exclusive(self.environment):
            backend.make_stack(self.pulumi())
        return []

    def state(self) -> StackState | None:
        return backend.stack_state(self.pulumi())

    @property
    def _log(self) -> Path:
        # Not in the environment's own folder: that is for processes on this machine.
        return self.environment.pulumi_home / f"{self.environment.name}.log"

    @contextmanager
    def _prepared(
        self, phases: Phases, plan: PlatformPlan | None
    ) -> Iterator[tuple[Pulumi, Mapping[str, str]]]:
        """Pulumi with its plugins and with a way to the hosts, and the variables of that way; as in
        `_tools`."""
        way: AbstractContextManager[Mapping[str, str]] = (
            self.reaching(plan) if plan else nullcontext({})
        )
        with self._tools(phases) as pulumi, way as variables:
            yield _through(variables, pulumi), variables

    @contextmanager
    def _tools(self, phases: Phases) -> Iterator[Pulumi]:
        """Pulumi with its plugins, locked for one command at a time."""
        with exclusive(self.environment):
            with phases.phase("tools", "Pulumi and its plugins"):
                resolve.tools(["pulumi"], self.environment.cache, ToolchainProgress())
                kind = prepare_plugins(self.environment)
            say(f"{self.environment.name}: {describe(self.environment, kind)}")
            self.environment.access.mkdir(mode=0o700, parents=True, exist_ok=True)
            yield self.pulumi()

    @contextmanager
    def _hosts_left_named(self, pulumi: Pulumi, plan: PlatformPlan) -> Iterator[None]:
        """Says what to do about hosts that could not be removed, if the change fails."""
        try:
            yield
        except InterruptedRunError:
            raise
        except CliError as error:
            for host in sorted(backend.hosts_left(pulumi, plan)):
                say(
                    f"{host} is not removed yet; if it is gone for good:"
                    f" slipway forget {host} -s {self.environment.name}, then slipway up again",
                    style="yellow",
                )
            raise error

    def _plan_of_files(self) -> PlatformPlan | None:
        """None where the files are wrong, which must not prevent `down`."""
        try:
            return plan_of(self.environment)
        except ConfigError:
            return None

    def _reached(self, plan: PlatformPlan) -> SshPlan:
        if plan.ssh is None:
            raise CliError(
                f'the hosts of "{self.environment.name}" are not reached over SSH',
                fix="slipway hosts shows what the clusters know of them",
                exit_code=WRONG_INPUT,
            )
        return plan.ssh

    def _file_of(self, host: str, plan: PlatformPlan) -> str | None:
        """The file that names the host; None if none does."""
        if host not in {member.name for member in roster(plan)}:
            return None
        return file_of_host(self.environment.checkout, self.environment.name, host)

    def _is_in_the_file(self, host: str, file: str) -> CliError:
        name = self.environment.name
        return CliError(
            f"{file} still names {host}",
            fix=f"remove it there; or, if the machine is gone for good and another one takes its"
            f" place: slipway forget {host} -s {name} --yes",
            exit_code=WRONG_INPUT,
        )

    def _runs_elsewhere(self, done: str, instead: str, effect: str) -> CliError:
        name = self.environment.name
        return CliError(
            f'"{name}" cannot be {done} from here: it runs on other machines, not as processes'
            " of this one",
            fix=f"{instead} -s {name} {effect}",
            exit_code=WRONG_INPUT,
        )

    def _is_protected(self, urns: Sequence[str]) -> CliError:
        name = self.environment.name
        listed = "".join(f"\n    {urn}" for urn in urns)
        return CliError(
            f'"{name}" has protected resources; nothing was destroyed:{listed}',
            fix=f"to destroy them: slipway unprotect -s {name}, then slipway down -s {name}",
        )


def _some(hosts: Collection[str]) -> str:
    """Their names, as far as they fit into a line."""
    return f"{len(hosts)} hosts" if len(hosts) > NAMED else ", ".join(sorted(hosts))


def _then(environment: str, host: str, *, listed: bool) -> str:
    if not listed:
        return f"{host} is forgotten; slipway up -s {environment} brings the rest to the file"
    return (
        f"{host} is forgotten; put the new machine's address and public key into the files, or"
        f" remove {host} there, then slipway up -s {environment}"
    )


def _through(way: Mapping[str, str], pulumi: Pulumi) -> Pulumi:
    """The same Pulumi, told the way to the hosts."""
    return replace(pulumi, variables={**pulumi.variables, **way})


def _outputs(pulumi: Pulumi) -> dict[str, Any]:
    stack = ("--stack", pulumi.environment.name)
    outputs: dict[str, Any] = json.loads(pulumi.output("stack", "output", *stack, "--json"))
    return outputs
