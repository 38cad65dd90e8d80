"""Measure TTFT, TPOT and tokens per second of a model under load, beside the plan."""

from __future__ import annotations

import time
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.applied import Applied, AppliedModel
from cli.bench.document import bench_document
from cli.bench.load import Run
from cli.bench.made_prompts import declared_prompts, traced_prompts
from cli.bench.measurement import Measurement, Step, run_measurement
from cli.bench.openai_door import OpenAiDoor
from cli.bench.outcome import Door
from cli.bench.sizing import sizing_of
from cli.bench.workload import Workload
from cli.bench.written_prompts import read_prompts
from cli.console import print_tables, say, write_json
from cli.environment import Environment, find
from cli.errors import FAILED, INTERRUPTED, WRONG_INPUT, CliError
from cli.lifecycle.registry import lifecycle_of
from cli.options import DEFAULT_STACK, Json, Stack, in_a_folder
from cli.planning import plan_if_valid
from cli.progress import telling
from cli.protocols.asked_model import known_model, must_speak
from cli.views.bench_picture import draw_bench
from cli.views.bench_table import bench_table, step_name
from slipway.plan.platform import ModelPlan

app = typer.Typer(add_completion=False)

CLIENTS = "1,8,32"
MOST_CLIENTS = 900  # one process may have 1,024 files open on most machines
# Without a declared load.
INPUT_TOKENS, OUTPUT_TOKENS = 200, 100


class Protocol(StrEnum):
    HTTP = "http"
    GRPC = "grpc"


class Unit(StrEnum):
    MS = "ms"
    S = "s"


def _clients(text: str) -> str:
    """Refuses what is not a list of numbers before anything is read."""
    for each in text.split(","):
        if not each.strip().isdecimal() or not 1 <= int(each) <= MOST_CLIENTS:
            raise CliError(
                f'--concurrency: "{each.strip()}" is not a number of clients from 1 to'
                f" {MOST_CLIENTS}",
                fix="write numbers with commas between them, such as 1,8,32",
                exit_code=WRONG_INPUT,
            )
    return text


@app.command()
def bench(
    model: Annotated[str, typer.Argument(help="A model's name or alias.")],
    stack: Stack = DEFAULT_STACK,
    *,
    prompts: Annotated[
        Path | None,
        typer.Option(help="Prompts, one on each line; .jsonl: a text or an object each."),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            help="A trace (docs/replay.md), whose lengths and shared beginnings are asked."
        ),
    ] = None,
    unit: Annotated[
        Unit, typer.Option("--timestamp-unit", help="The unit of a trace's `timestamp`.")
    ] = Unit.MS,
    concurrency: Annotated[
        str,
        typer.Option(
            callback=_clients,
            help="Clients with one request in flight each; several numbers one after the other.",
        ),
    ] = CLIENTS,
    requests: Annotated[
        int | None,
        typer.Option(min=1, help="Requests of each step; default: 2 for each client, at least 8."),
    ] = None,
    protocol: Annotated[
        Protocol | None,
        typer.Option(help="http: OpenAI's; grpc: Triton's. Default: all that the model speaks."),
    ] = None,
    max_tokens: Annotated[
        int, typer.Option(min=1, help="Longest answer to a prompt of --prompts, in tokens.")
    ] = 128,
    timeout: Annotated[
        int,
        typer.Option("--timeout-s", min=1, help="Seconds after which a request has failed."),
    ] = 300,
    json: Json = False,
    png: Annotated[
        Path | None, typer.Option(callback=in_a_folder, help="Write a picture of the figures.")
    ] = None,
) -> None:
    """Measure TTFT, TPOT and tokens per second of a model under load, beside the plan."""
    if prompts is not None and trace is not None:
        raise CliError(
            "--prompts and --trace cannot be combined",
            fix="leave out one of them",
            exit_code=WRONG_INPUT,
        )
    environment = find(stack)
    clients = [int(each) for each in concurrency.split(",")]
    _must_all_ask(clients, requests)
    with lifecycle_of(environment).asked() as applied:
        known = known_model(applied, model)
        planned = _planned(environment, known.name)
        steps = [
            Step(protocol=each, clients=count, requests=requests or max(8, 2 * count))
            for each in _protocols(known, protocol)
            for count in clients
        ]
        if prompts is not None:
            workload = read_prompts(prompts, max_tokens=max_tokens)
        else:
            workload = _made(trace, unit, known, planned, steps)
        found = _measure(applied, known, steps, workload, timeout)
    document = _document(environment, applied, known, planned, workload, found=found)
    if json:
        write_json(document)
    else:
        print_tables(bench_table(document))
    if png is not None and found.measured:  # after the figures: they are not lost if it fails
        draw_bench(document, png)
        say(f"picture: {png}")
    if found.interrupted:
        raise typer.Exit(INTERRUPTED)
    if found.failed is not None:
        raise found.failed
    if not any(each.figures.answered for each in found.measured):
        raise typer.Exit(FAILED)


def _must_all_ask(clients: Sequence[int], requests: int | None) -> None:
    """A step of more clients than requests would be called after clients that never asked."""
    if requests is not None and requests < max(clients):
        raise CliError(
            f"--requests {requests}: {requests} of {max(clients)} clients would ask",
            fix=f"use --requests {max(clients)} or more, or --concurrency up to {requests}",
            exit_code=WRONG_INPUT,
        )


def _protocols(model: AppliedModel, chosen: Protocol | None) -> Sequence[str]:
    if chosen is None:
        return model.protocols
    must_speak(model, chosen, fix=f"leave out --protocol, or use {' or '.join(model.protocols)}")
    return [chosen.value]


def _planned(environment: Environment, model: str) -> ModelPlan | None:
    plan = plan_if_valid(environment)
    models = plan.models if plan else ()
    return next((each for each in models if each.name == model), None)


def _made(
    trace: Path | None,
    unit: Unit,
    model: AppliedModel,
    planned: ModelPlan | None,
    steps: Sequence[Step],
) -> Workload:
    """Made prompts of a trace's lengths, or of the declared load's."""
    salt = f"{time.time_ns()}"  # the caches of engines know the prompts of earlier runs
    if trace is not None:
        longest = planned.replica.document["engine"]["max_model_len"] if planned else None
        names = (model.name, *model.aliases)
        return traced_prompts(trace, unit=unit, names=names, max_model_len=longest, salt=salt)
    load = planned.load if planned else None
    input_tokens = round(load.input_tokens) if load else INPUT_TOKENS
    output_tokens = round(load.output_tokens) if load else OUTPUT_TOKENS
    whose = "of the declared load" if load else "as no load is declared"
    return declared_prompts(
        input_tokens,
        output_tokens,
        count=sum(step.requests for step in steps),
        source=f"made prompts, {input_tokens:,} + {output_tokens:,} tokens {whose}",
        salt=salt,
    )


def _document(
    environment: Environment,
    applied: Applied,
    model: AppliedModel,
    planned: ModelPlan | None,
    workload: Workload,
    *,
    found: Measurement,
) -> dict[str, Any]:
    sizing = None
    if planned is not None:
        sizing = sizing_of(environment, model.name, workload, found.measured, planned.goal)
    return bench_document(
        found,
        environment=environment.name,
        model=model.name,
        simulated=model.simulated,
        gateway=applied.gateway_http,
        source=workload.source,
        planned=planned,
        sizing=sizing,
    )


def _measure(
    applied: Applied,
    model: AppliedModel,
    steps: Sequence[Step],
    workload: Workload,
    timeout_s: int,
) -> Measurement:
    running: list[tuple[str, Step, Run]] = []

    def tell(step: Step, run: Run) -> None:
        name = step_name(step.protocol, step.clients)
        say(f"{name}: {step.requests} requests")
        running.append((name, step, run))

    def state() -> str:
        if not running:
            return "  waiting for the answer to a first question"
        name, step, run = running[-1]
        return f"  {name}: {len(run.outcomes)} of {step.requests}"

    doors = {each: _door(applied, model, each, timeout_s) for each in {s.protocol for s in steps}}
    with telling(state):
        return run_measurement(doors, steps, workload, tell)


def _door(applied: Applied, model: AppliedModel, protocol: str, timeout_s: int) -> Door:
    if protocol == Protocol.HTTP:
        return OpenAiDoor(
            gateway=applied.gateway_http,
            model=model.name,
            timeout_s=timeout_s,
            now_s=time.monotonic,
            tls=applied.tls.context() if applied.tls else None,
            server_name=applied.tls.name if applied.tls else None,
        )
    # Its import takes a third of a second.
    from cli.bench.triton_door import TritonDoor  # noqa: PLC0415

    return TritonDoor(
        gateway=applied.gateway_grpc,
        model=model.name,
        timeout_s=timeout_s,
        now_s=time.monotonic,
        tls=applied.tls,
    )
