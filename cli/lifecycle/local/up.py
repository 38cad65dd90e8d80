"""`up` on this machine: prepare it, apply the program, and ask every model a question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cli.applied import Applied, AppliedModel, record, recorded
from cli.clusters.nomad import Nomad, allocations_now
from cli.clusters.readiness import ROUTE_TIMEOUT_S, wait_for_leader, wait_for_models
from cli.console import say
from cli.environment import Environment
from cli.errors import CliError
from cli.hosts.after_update import lasting_troubles
from cli.hosts.troubles import HERE, say_all
from cli.lifecycle.local import agents
from cli.lifecycle.local.backend import own_pulumi, prepare_stack
from cli.lifecycle.protocol import Report
from cli.machine import checks
from cli.machine.preparation import empty_cache, fill_cache
from cli.planning import must_be_valid_now, warn_of_certificate
from cli.progress import Phases
from cli.protocols.probe import QUESTION, STREAMED_TOKENS, Probe, ask, import_protocols
from cli.pulumi.authorities import must_follow, must_sign_now
from cli.pulumi.locks import exclusive
from cli.pulumi.plugins import describe, known_kind, prepare_plugins
from cli.pulumi.state import read_state
from cli.views.gateway_line import gateway_line
from slipway.inputs import PlanInputs, load_inputs
from slipway.plan.platform import PlatformPlan
from stacks.planning import make_plan

ANSWER_TOKENS = 24


def up(environment: Environment) -> Report:
    phases = Phases(f"up {environment.name}")
    if kind := known_kind(environment):  # otherwise it is printed once Pulumi is installed
        say(f"{environment.name}: {describe(environment, kind)}")
    with phases.phase("checks", "this machine"):
        checks.require(checks.machine(environment))
    with phases.phase("plan", f"Pulumi.{environment.name}.yaml and its models"):
        inputs = load_inputs(environment.checkout, environment.name)
        must_sign_now(inputs)
        must_be_valid_now(inputs)
        plan = make_plan(inputs)
        warn_of_certificate(inputs)
        before = recorded(environment)
        agents.must_stay(environment, before, plan)
        checks.require(checks.free_ports(plan, environment))
        checks.require([checks.memory(plan, allocations_now(environment, before))])
    with exclusive(environment):
        applied = _bring_up(environment, inputs, plan, phases)
        with phases.phase("probe", "both protocols of the gateway"):
            wait_for_models(applied, timeout_s=ROUTE_TIMEOUT_S)
            probes = [
                ask(applied, model, max_tokens=_length(applied, model)) for model in applied.models
            ]
        found = lasting_troubles(plan, environment.run, HERE)
        ready = all(probe.ready for probe in probes)
        if ready:
            empty_cache(environment, phases)
    document = _report(applied, probes, phases)
    document["troubles"] = [trouble.document for trouble in found]
    _show(document, probes)
    say_all(found)
    ready = ready and not any(trouble.absent for trouble in found)
    return Report(document=document, ready=ready)


def _bring_up(
    environment: Environment, inputs: PlanInputs, plan: PlatformPlan, phases: Phases
) -> Applied:
    was_known = known_kind(environment) is not None
    fill_cache(environment, inputs, plan, phases)
    _must_be_unchanged(environment, plan)
    environment.make_folders()
    kind = prepare_plugins(environment)
    if not was_known:
        say(f"{environment.name}: {describe(environment, kind)}")
    pulumi = own_pulumi(environment)
    with phases.phase("state", "Pulumi's state of the environment"):
        prepare_stack(
            pulumi,
            [model.stable.job_id for model in plan.models],
            [node.name for pool in plan.pools for node in pool.hosts],
        )
    must_follow(read_state(environment), plan)
    with phases.phase("agents", "those of an earlier run"):
        _restart(environment)
    applied = record(environment, plan)
    with phases.phase("pulumi", "resources"):
        pulumi.up(
            log=environment.logs / "pulumi.log",
            meanwhile=lambda: import_protocols(applied.models),
        )
    return applied


def _must_be_unchanged(environment: Environment, plan: PlatformPlan) -> None:
    """The program reads the files again, up to half an hour after they were checked; they must not
    have changed meanwhile."""
    inputs = load_inputs(environment.checkout, environment.name)
    if make_plan(inputs) != plan:
        raise CliError(
            f"the files of {environment.name} were changed while this command ran",
            fix="run the same command again: it continues from here",
        )


def _restart(environment: Environment) -> None:
    """A refresh asks Nomad and Consul, so agents of an earlier run must answer again."""
    before = recorded(environment)
    if not agents.has_agents(environment):
        return
    agents.start(environment, before)
    state = read_state(environment)
    if before is not None and state is not None and state.needs_cluster:
        with Nomad.of(environment, before) as nomad:
            wait_for_leader(nomad)


def _length(applied: Applied, model: AppliedModel) -> int:
    """The shown model gives a whole answer; a few tokens prove that the others stream."""
    return ANSWER_TOKENS if model == applied.shown_model else STREAMED_TOKENS


def _report(applied: Applied, probes: Sequence[Probe], phases: Phases) -> dict[str, Any]:
    shown = next(
        (p for p in probes if applied.shown_model and p.model == applied.shown_model.name), None
    )
    answer = (shown.openai or shown.grpc) if shown else None
    return {
        "gateway": applied.gateway,
        "models": {probe.model: {"ready": probe.ready} for probe in probes},
        "answer": answer.text.strip() if answer else "",
        "ttft_ms": round(answer.ttft_s * 1000) if answer else None,
        "seconds": round(phases.elapsed_s, 2),
        "phases": phases.seconds,
    }


def _show(report: dict[str, Any], probes: Sequence[Probe]) -> None:
    for probe in probes:
        if not probe.ready:
            say(f"  {probe.model}: no answer: {probe.error}", style="red")
            continue
        ttft = [
            f"{answer.ttft_s * 1000:.0f} ms over {protocol}"
            for protocol, answer in (("OpenAI SSE", probe.openai), ("gRPC", probe.grpc))
            if answer is not None
        ]
        say(f"  {probe.model}: ready; TTFT {', '.join(ttft)}")
    if report["answer"]:
        say(f"  {QUESTION}\n  {report['answer']}")
    say(gateway_line(report["gateway"]))
    times = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in report["phases"].items())
    say(f"up in {report['seconds']:.1f} s ({times})")
