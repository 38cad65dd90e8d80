"""`up` of a fleet: apply the program, which waits for every replica."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from cli.console import say
from cli.environment import Environment
from cli.errors import CliError, InterruptedRunError
from cli.hosts.after_update import lasting_troubles
from cli.hosts.host_keys import with_host_keys
from cli.hosts.images import hosts_without_image
from cli.hosts.pythons import make_packages
from cli.hosts.troubles import MACHINES, say_all
from cli.lifecycle.fleet import backend
from cli.lifecycle.fleet.access import reaching
from cli.lifecycle.fleet.prepared import log_of, through, tools
from cli.lifecycle.protocol import Report
from cli.machine.preparation import empty_cache, fill_cache
from cli.planning import must_be_valid_now, warn_of_certificate
from cli.progress import Phases
from cli.pulumi.authorities import must_sign_now
from cli.pulumi.cloud_plugins import must_have_plugins
from cli.pulumi.process import Pulumi
from slipway.inputs import load_inputs
from slipway.plan.platform import PlatformPlan
from stacks.planning import make_plan


def up(environment: Environment, *, admitted_again: Sequence[str] = ()) -> Report:
    """Asks no model a question, because the gateway may not be reachable from here. The program's
    gates have waited for every replica. Hosts that are `admitted_again` are set up and admitted as
    if they were new."""
    phases = Phases(f"up {environment.name}")
    must_have_plugins(environment)
    with phases.phase("plan", f"Pulumi.{environment.name}.yaml and its models"):
        inputs = load_inputs(environment.checkout, environment.name)
        must_sign_now(inputs)
        must_be_valid_now(inputs)
        plan = make_plan(inputs)
        warn_of_certificate(inputs)
    if plan.ssh is not None:  # what the hosts get comes from this machine's cache
        fill_cache(environment, inputs, plan, phases)
    with tools(environment, phases) as pulumi:
        with phases.phase("stack", "in your Pulumi backend"):
            backend.make_stack(pulumi)
            plan = with_host_keys(pulumi, plan)
            exported = backend.prepare_state(pulumi, plan, admitted_again)
            leaving = backend.leaving(exported, plan)
        upgraded = make_packages(environment, plan, exported, phases, admitted_again)
        if upgraded:
            say(f"with another Python than before: {', '.join(sorted(upgraded))}")
        bereft = hosts_without_image(environment, plan, exported, phases)
        if bereft:
            say(f"without the image that they had: {', '.join(sorted(bereft))}")
        if upgraded or bereft:
            backend.deliver_again(pulumi, upgraded | bereft)
        with (
            reaching(environment, plan, leaving) as way,
            phases.phase("pulumi", "resources"),
            _hosts_left_named(pulumi, plan),
        ):
            through(way, pulumi).up(log=log_of(environment))
            # Machines that register themselves are known to nobody before.
            found = lasting_troubles(plan, environment.access, MACHINES) if plan.ssh else []
        outputs = _outputs(pulumi)
        empty_cache(environment, phases)
    for name, value in outputs.items():
        say(f"{name}  {json.dumps(value)}")
    say(f'"{environment.name}" is up in {phases.elapsed_s:.1f} s')
    document = {
        "outputs": outputs,
        "seconds": round(phases.elapsed_s, 2),
        "phases": phases.seconds,
        "troubles": [trouble.document for trouble in found],
    }
    say_all(found)
    return Report(document=document, ready=not any(trouble.absent for trouble in found))


@contextmanager
def _hosts_left_named(pulumi: Pulumi, plan: PlatformPlan) -> Iterator[None]:
    """Says what to do about hosts that could not be removed, if the change fails."""
    try:
        yield
    except InterruptedRunError:
        raise
    except CliError as error:
        for host in sorted(backend.hosts_left(pulumi, plan)):
            say(
                f"{host} is not removed yet; if it is gone for good:"
                f" slipway forget {host} -s {pulumi.environment.name}, then slipway up again",
                style="yellow",
            )
        raise error


def _outputs(pulumi: Pulumi) -> dict[str, Any]:
    stack = ("--stack", pulumi.environment.name)
    outputs: dict[str, Any] = json.loads(pulumi.output("stack", "output", *stack, "--json"))
    return outputs
