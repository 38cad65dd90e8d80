"""Operations on the machines of a fleet."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cli.clusters.both import clusters
from cli.console import say
from cli.environment import Environment, exports
from cli.errors import WRONG_INPUT, CliError
from cli.hosts import devices, forgetting
from cli.hosts.facts import HostFacts, look_at
from cli.hosts.fitness import host_checks
from cli.hosts.over_ssh import OverSsh, known_way
from cli.hosts.pythons import make_packages
from cli.hosts.roster import member, roster
from cli.hosts.unit_logs import show_journal
from cli.lifecycle.fleet import backend
from cli.lifecycle.fleet.access import ssh_of
from cli.lifecycle.fleet.prepared import log_of, prepared
from cli.lifecycle.fleet.up import up
from cli.lifecycle.protocol import Report
from cli.machine.checks import Check
from cli.machine.preparation import fill_cache
from cli.machine.ssh_agent import agent_for
from cli.progress import Phases, telling
from cli.pulumi.authorities import must_sign_now
from cli.pulumi.host_repairs import machines, removals
from cli.pulumi.process import Pulumi
from cli.pulumi.repairs import without_resources
from cli.reach.document import forwarding_of
from cli.reach.lease import held
from cli.reach.shell import shell_exports
from cli.snapshots import kept, restoring
from cli.snapshots.kept import Snapshot
from slipway.config.files import file_of_host
from slipway.inputs import load_inputs
from slipway.plan.platform import PlatformPlan, SshPlan
from stacks.planning import make_plan

NAMED = 6  # hosts in a line about progress


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOperations:
    """Operations on hosts that are machines of their own. Each reports on standard error, and
    raises CliError with a fix if it fails."""

    environment: Environment

    def reach(self, plan: PlatformPlan, pulumis: str) -> None:
        """Keeps the platform within reach of other programs until it is interrupted, and prints the
        variables that these programs need; `pulumis` are those of Pulumi, as lines for a shell."""
        name, ssh = self.environment.name, ssh_of(self.environment, plan)
        for server in plan.servers:
            known_way(ssh, server.name)
        with (
            agent_for(ssh) as agent,
            held(self.environment, forwarding_of(plan, ssh), agent) as lease,
        ):
            asked = plan.operator
            theirs = shell_exports(asked.consul.url, asked.nomad.url, self.environment.access)
            sys.stdout.write(pulumis + exports(agent) + theirs)
            sys.stdout.flush()
            say(f'"{name}" is within reach until Ctrl-C; the lines above are for another shell')
            with suppress(KeyboardInterrupt):
                lease.follow(name)

    def facts(self, plan: PlatformPlan) -> Mapping[str, HostFacts | CliError]:
        """The report of each host of the plan, or why there is none."""
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

    def checks(self, plan: PlatformPlan, host: str) -> Iterable[Check]:
        """The requirements on one host of the plan, of which nothing needs to run yet."""
        named = member(plan, host)
        return host_checks(self.environment, plan, ssh_of(self.environment, plan), named.name)

    def show_unit(
        self, plan: PlatformPlan, host: str, unit: str, *, lines: int | None, follow: bool
    ) -> None:
        """Prints what an agent of a host has logged."""
        named, ssh = member(plan, host), ssh_of(self.environment, plan)
        with agent_for(ssh) as agent:
            over_ssh = OverSsh(environment=self.environment, agent=agent)
            name = self.environment.name
            show_journal(over_ssh, ssh, name, named, unit, lines=lines, follow=follow)

    def look_at_devices_again(self, plan: PlatformPlan, host: str) -> None:
        """Lets the devices of a host have work again whose faults are gone."""
        if not devices.are_watched(plan, host):
            return
        ssh = ssh_of(self.environment, plan)
        with agent_for(ssh) as agent:
            over_ssh = OverSsh(environment=self.environment, agent=agent)
            devices.look_again(plan, ssh, over_ssh, host)

    def admit(self, host: str) -> Report:
        """`up`, with a host set up and admitted to the clusters as if it were new."""
        return up(self.environment, admitted_again=[host])

    def forget(self, plan: PlatformPlan, host: str, *, sure: bool) -> None:
        """Removes a host that is gone for good from the state and from the clusters, without asking
        the host. `sure`: the user confirms it although the files still name the host."""
        name = self.environment.name
        with prepared(self.environment, Phases(f"forget {name}"), plan) as (pulumi, agent):
            exported = backend.export(pulumi)
            gone = forgetting.recorded(exported, host, name)
            listed_in = self._file_of(host, plan)
            if listed_in and not sure:
                raise self._is_in_the_file(host, listed_in)
            with telling(lambda: f"waiting for {host}, which should not answer"):
                over_ssh = OverSsh(environment=self.environment, agent=agent)
                forgetting.must_be_silent(gone, over_ssh, name, listed_in)
            with clusters(plan, self.environment.access) as both:
                forgetting.must_be_lost(gone, both)
                if gone.server:
                    forgetting.must_leave_a_quorum(gone, both)
                forgetting.tell_clusters(gone, both)
            say(f"{host} has left Consul and Nomad")
            backend.change_state(pulumi, exported, without_resources(exported, gone.urns))
        for urn in gone.urns:
            say(f"no longer in the state: {urn.rpartition('::')[2]}")
        made = plan.ssh is not None and plan.ssh.makes_host_keys
        say(_then(name, host, listed=listed_in is not None, made=made))

    def snapshots(self, plan: PlatformPlan) -> Sequence[Snapshot]:
        """The snapshots that the environment's host keeps, oldest first."""
        ssh = ssh_of(self.environment, plan)
        with agent_for(ssh) as agent:
            over_ssh = OverSsh(environment=self.environment, agent=agent)
            return kept.kept(plan, ssh, over_ssh)

    def restore(self, snapshot: Snapshot, *, force: bool) -> None:
        """Sets up servers that have lost their data, and gives both clusters the states of the
        snapshot. `force`: also where servers still have data."""
        name = self.environment.name
        phases = Phases(f"restore {name}")
        inputs = load_inputs(self.environment.checkout, name)
        must_sign_now(inputs)
        plan = make_plan(inputs)
        ssh = ssh_of(self.environment, plan)
        fill_cache(self.environment, inputs, plan, phases)
        with (
            prepared(self.environment, phases, plan) as (pulumi, agent),
            tempfile.TemporaryDirectory(prefix="slipway-restore-") as folder,  # mode 0700
        ):
            over_ssh = OverSsh(environment=self.environment, agent=agent)
            if ssh.makes_host_keys and not restoring.have_leaders(plan, self.environment.access):
                with phases.phase("machines", "those that are gone, made again"):
                    self._make_machines(pulumi, plan, ssh, over_ssh)
            with phases.phase("servers", "what they still have"):
                found = restoring.standing(plan, ssh, over_ssh, self.environment.access)
                emptied = restoring.to_be_emptied(found, name, force=force)
            with phases.phase("snapshot", f"{snapshot.name}, from {kept.host_of(plan)}"):
                files = kept.fetch(plan, ssh, over_ssh, snapshot, Path(folder))
                restorer = restoring.Restorer(environment=self.environment, plan=plan, files=files)
                restorer.verify()
            exported = backend.export(pulumi)
            make_packages(self.environment, plan, exported, phases)
            with phases.phase("pulumi", "the servers, set up as new ones"):
                restoring.empty(ssh, over_ssh, removals(exported, emptied))
                again = backend.servers_again(pulumi, exported, plan)
                pulumi.up(log=log_of(self.environment), only=again)
            with phases.phase("restore", "both clusters"):
                restorer.apply()
            with (
                phases.phase("clusters", "until every host is back"),
                clusters(plan, self.environment.access) as both,
            ):
                restoring.end_the_snapshots_run(both)
                restoring.register_servers_again(plan, both)
                restoring.wait_for_everybody(plan, both)
        say(f'"{name}" has the state of {snapshot.name}; slipway up -s {name} applies the files')

    def _make_machines(
        self, pulumi: Pulumi, plan: PlatformPlan, ssh: SshPlan, over_ssh: OverSsh
    ) -> None:
        """Servers' machines that are gone, where `up` makes them: it cannot be run before the
        clusters have their states."""
        gone = machines(backend.export(pulumi), [server.name for server in plan.servers])
        if gone:
            pulumi.up(log=log_of(self.environment), only=gone, refreshed=True)
        restoring.wait_for_machines(plan, ssh, over_ssh)

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


def _some(hosts: Collection[str]) -> str:
    """The names of hosts, as far as they fit into a line."""
    return f"{len(hosts)} hosts" if len(hosts) > NAMED else ", ".join(sorted(hosts))


def _then(environment: str, host: str, *, listed: bool, made: bool) -> str:
    """`made`: `up` makes machines."""
    if not listed:
        return f"{host} is forgotten; slipway up -s {environment} brings the rest to the file"
    if made:
        return (
            f"{host} is forgotten; slipway up -s {environment} makes a machine with its address and"
            " key, once AWS has ended the old one"
        )
    return (
        f"{host} is forgotten; put the new machine's address and public key into the files, or"
        f" remove {host} there, then slipway up -s {environment}"
    )
