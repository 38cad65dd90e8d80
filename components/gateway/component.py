"""Gateway: the address that clients use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
import pulumi_nomad as nomad

from components.base import SlipwayComponent
from components.certificates import identities
from components.certificates.component import CertificateAuthority, job_certificate
from components.gateway import public_certificate
from components.gateway.certificate_gate import DEADLINE_S as CERTIFICATE_DEADLINE_S
from components.gateway.certificate_gate import certificate_document
from components.gateway.job_gate import DEADLINE_S as JOB_DEADLINE_S
from components.gateway.job_gate import job_gate_document
from components.gateway.jobs import envoy_job, xds_job
from components.gateway.routes_gate import DEADLINE_S, gate_document
from components.gateway.shared_address import shared_address_job
from components.hosts.program import HostProgram, Hosts
from components.hosts.ssh import NO_SECRETS
from components.nomad.jobspec import Job, to_json
from slipway.plan.platform import CertificatePlan, EnvoyPlan, PlatformPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayArgs:
    plan: PlatformPlan
    authority: CertificateAuthority
    programs: Hosts
    gate_secrets: pulumi.Output[str]  # those of the models' gates


class Gateway(SlipwayComponent):
    """Envoy and the control plane that configures it, as two jobs.

    Owns both jobs, and the certificate that clients are shown; the routing table belongs to the
    models. Envoy keeps its last configuration while the control plane is away. A changed Envoy job
    closes its listener until the new Envoy has started; Envoys of several hosts change one after
    the other, the next once the one before it serves. So do the jobs that give a shared address to
    a host, whether or not their Envoys change.

    Attribute: `jobs`.
    """

    def __init__(
        self, name: str, args: GatewayArgs, *, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        gateway = args.plan.gateway
        clients = {"address": gateway.clients.host, "port": gateway.clients.port}
        super().__init__("Gateway", name, clients, opts)
        control_planes = [self._control_plane(args, envoy) for envoy in gateway.envoys]
        self.jobs = [*control_planes, *self._envoys(args, control_planes)]
        self.register_outputs({"http": gateway.clients.url})

    def _control_plane(self, args: GatewayArgs, envoy: EnvoyPlan) -> nomad.Job:
        issued = args.authority.issue(identities.control_plane(envoy))
        return self._secured(xds_job(args.plan, envoy), issued)

    def _envoys(self, args: GatewayArgs, control_planes: list[nomad.Job]) -> list[nomad.Job]:
        plan, jobs, before = args.plan, list[nomad.Job](), list[pulumi.Resource]()
        shown = _shown_to_clients(plan.gateway.certificate)
        for envoy, control_plane in zip(plan.gateway.envoys, control_planes, strict=True):
            if plan.gateway.shared_address:
                jobs.append(self._shared_address(args, envoy, control_plane, before))
                before = [*before, jobs[-1]]
            job = envoy_job(plan, envoy)
            variables = [self._public_certificate(envoy.name, shown)] if shown else []
            issued = args.authority.issue(identities.gateway(plan, envoy))
            jobs.append(self._secured(job, issued, *variables, *before))
            if envoy != plan.gateway.envoys[-1]:
                before = self._serves_again(args, envoy, job, jobs[-1])
        return jobs

    def _serves_again(
        self, args: GatewayArgs, envoy: EnvoyPlan, job: Job, changed: nomad.Job
    ) -> list[pulumi.Resource]:
        """What the next host waits for once the Envoy's `job` has `changed`. Another host has to be
        able to take the shared address: its keepalived, which may have changed alone, looks first
        whether Envoy serves."""
        envoys = self._serving(args, envoy, job, changed)
        if not args.plan.gateway.shared_address:
            return [envoys]
        return [envoys, self._serving(args, envoy, shared_address_job(args.plan, envoy), envoys)]

    def _shared_address(
        self,
        args: GatewayArgs,
        envoy: EnvoyPlan,
        control_plane: nomad.Job,
        before: list[pulumi.Resource],
    ) -> nomad.Job:
        """The job that gives the address to the Envoy's host. It gives the address away when it
        changes, so it changes in turn, too, and before its Envoy: one of an earlier version does
        not do so itself. Before both, the control plane has Envoy listen as it should."""
        serving = self._serving(args, envoy, xds_job(args.plan, envoy), control_plane)
        return self._job(shared_address_job(args.plan, envoy), serving, *before)

    def _serving(
        self, args: GatewayArgs, envoy: EnvoyPlan, job: Job, after: pulumi.Resource
    ) -> pulumi.Resource:
        """Waits until a job on the Envoy's host serves as it is now."""
        gate = HostProgram(
            bundle=args.plan.operator.bundle,
            script="job_serves.py",
            document=job_gate_document(args.plan, envoy, job),
            secrets=args.gate_secrets,
            removes=False,
            timeout_s=JOB_DEADLINE_S + 60,  # longer, so that its own last message is seen
        )
        return args.programs.run(gate, f"{job.id}-serves", self, depends_on=[after])

    def _secured(
        self, job: Job, files: pulumi.Output[Mapping[str, str]], *depends_on: pulumi.Resource
    ) -> nomad.Job:
        return self._job(job, job_certificate(self, job.id, files), *depends_on)

    def _public_certificate(
        self, job_id: str, items: pulumi.Output[Mapping[str, str]]
    ) -> pulumi.Resource:
        return nomad.Variable(
            f"{job_id}-public-certificate",
            path=public_certificate.variable_of(job_id),
            items=items,
            opts=self.child_options(),
        )

    def _job(self, job: Job, *depends_on: pulumi.Resource) -> nomad.Job:
        return nomad.Job(
            job.id,
            jobspec=to_json(job),
            json=True,
            rerun_if_dead=True,
            opts=self.child_options(depends_on=depends_on),
        )


def _shown_to_clients(
    certificate: CertificatePlan | None,
) -> pulumi.Output[Mapping[str, str]] | None:
    """The contents of the certificate's variables; secret, because they include the key."""
    if certificate is None:
        return None
    try:
        return pulumi.Output.secret(public_certificate.read(certificate))
    except (public_certificate.ChangedError, OSError, ValueError) as error:
        raise pulumi.RunError(f"{error}\nfix: run the same command again") from None


def certificate_gate(plan: PlatformPlan) -> HostProgram:
    """Waits until every Envoy shows clients the certificate of the plan. Another certificate
    changes the document, so the gate runs again."""
    return HostProgram(
        bundle=plan.node_agent.bundle,
        script="certificate_shown.py",
        document=certificate_document(plan),
        secrets=pulumi.Output.from_input(NO_SECRETS),
        removes=False,
        timeout_s=CERTIFICATE_DEADLINE_S + 60,  # longer, so that its own last message is seen
    )


def routes_gate(plan: PlatformPlan, *, secrets: pulumi.Output[str]) -> HostProgram:
    """Waits until every Envoy has acknowledged the routes. `secrets` are those of the models'
    gates.

    Pulumi deletes replaced jobs at the end of an update, after everything it creates or changes: a
    gate that depends on all routes runs before every deletion, and if it fails it prevents them. A
    route that moves changes the document, so the gate runs again.
    """
    return HostProgram(
        bundle=plan.operator.bundle,
        script="routes_acknowledged.py",
        document=gate_document(plan),
        secrets=secrets,
        removes=False,
        timeout_s=DEADLINE_S + 60,  # longer, so that its own last message is seen
    )
