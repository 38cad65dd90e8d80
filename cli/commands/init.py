"""Write the files of a new environment, from questions or options."""

# ruff: noqa: PLC0415 - the planner loads only when it is asked

from __future__ import annotations

from typing import Annotated

import typer

from cli.options import Json
from cli.scaffold.options import (
    S3,
    Credentials,
    InputTokens,
    OutputTokens,
    RequestsPerS,
    Revision,
    Simulated,
    TpotGoal,
    TtftGoal,
    Yes,
    finite,
)

app = typer.Typer(add_completion=False)

MACHINES, CLOUD, LOAD = "Machines of your own", "AWS", "Load and goal of the models, on fleets"


@app.command()
def init(
    stack: Annotated[
        str | None, typer.Option("--stack", "-s", help="The environment's name.")
    ] = None,
    *,
    target: Annotated[str | None, typer.Option("--target", help="dev, metal or aws.")] = None,
    network: Annotated[
        str | None, typer.Option("--network", metavar="CIDR", help="Its own network.")
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            metavar="[NAME=]MODEL",
            help="A model to serve, as `slipway models add` takes it. May be repeated.",
        ),
    ] = None,
    nodes: Annotated[
        int | None, typer.Option("--nodes", min=1, max=16, help="Of target dev. Default: 2.")
    ] = None,
    simulated: Simulated = False,
    revision: Revision = None,
    s3: S3 = None,
    credentials: Credentials = None,
    server: Annotated[
        list[str] | None,
        typer.Option("--server", metavar="NAME=ADDRESS", rich_help_panel=MACHINES),
    ] = None,
    host: Annotated[
        list[str] | None,
        typer.Option(
            "--host",
            metavar="NAME=ADDRESS",
            help="Of replicas. May be repeated.",
            rich_help_panel=MACHINES,
        ),
    ] = None,
    gateway_host: Annotated[
        list[str] | None,
        typer.Option("--gateway-host", metavar="NAME=ADDRESS", rich_help_panel=MACHINES),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option("--memory", help="Of each host, e.g. 64GiB.", rich_help_panel=MACHINES),
    ] = None,
    cores: Annotated[
        int | None,
        typer.Option("--cores", min=1, help="Of each host.", rich_help_panel=MACHINES),
    ] = None,
    accelerator: Annotated[
        str | None,
        typer.Option(
            "--accelerator",
            help="A key of catalog/accelerators.yaml; left out, hosts have none.",
            rich_help_panel=MACHINES,
        ),
    ] = None,
    accelerators_per_node: Annotated[
        int | None, typer.Option("--accelerators-per-node", min=1, rich_help_panel=MACHINES)
    ] = None,
    usd_per_hour: Annotated[
        float | None,
        typer.Option(
            "--usd-per-hour",
            min=0.01,
            callback=finite,
            help="What a host costs its owner.",
            rich_help_panel=MACHINES,
        ),
    ] = None,
    ssh_key: Annotated[
        str | None,
        typer.Option("--ssh-key", help="Default: the ssh-agent's.", rich_help_panel=MACHINES),
    ] = None,
    ssh_user: Annotated[
        str | None, typer.Option("--ssh-user", help="Default: root.", rich_help_panel=MACHINES)
    ] = None,
    pool: Annotated[
        list[str] | None,
        typer.Option(
            "--pool",
            metavar="NAME=INSTANCE:MIN..MAX[@ZONE]",
            help="Instances for replicas. May be repeated. Those with EFA are in one zone.",
            rich_help_panel=CLOUD,
        ),
    ] = None,
    region: Annotated[
        str | None, typer.Option("--region", rich_help_panel=CLOUD, help="Default: us-east-1.")
    ] = None,
    bucket: Annotated[
        str | None,
        typer.Option(
            "--bucket",
            help="For what hosts fetch. Without it the environment can only be planned.",
            rich_help_panel=CLOUD,
        ),
    ] = None,
    nvidia_image: Annotated[
        str | None,
        typer.Option(
            "--nvidia-image",
            help="An AMI or SSM parameter for instances with accelerators.",
            rich_help_panel=CLOUD,
        ),
    ] = None,
    authorized_key: Annotated[
        list[str] | None,
        typer.Option(
            "--authorized-key",
            metavar="FILE",
            help="A public key of the operators. May be repeated.",
            rich_help_panel=CLOUD,
        ),
    ] = None,
    clients: Annotated[
        list[str] | None,
        typer.Option(
            "--clients",
            metavar="CIDR",
            help="Who reaches the models through a load balancer.",
            rich_help_panel=CLOUD,
        ),
    ] = None,
    requests_per_s: RequestsPerS = None,
    input_tokens: InputTokens = None,
    output_tokens: OutputTokens = None,
    ttft_p95_ms: TtftGoal = None,
    tpot_p95_ms: TpotGoal = None,
    replace: Annotated[
        bool,
        typer.Option("--replace", help="Replace a stack file that is there; its secrets are kept."),
    ] = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Write the files of a new environment, from questions or options.

    Asks on a terminal for what no option says. Shows the files, and writes them on yes; with --json
    and without --yes nothing is written.
    """
    from cli.environment import CHECKOUT
    from cli.errors import WRONG_INPUT, CliError
    from cli.scaffold.expected import Expected
    from cli.scaffold.questions import Given, ask
    from cli.scaffold.starting import start
    from cli.scaffold.weights import Asked

    answers, models = ask(
        Given(
            name=stack,
            target=target,
            network=network,
            models=tuple(model or ()),
            nodes=nodes,
            servers=tuple(server or ()),
            hosts=tuple(host or ()),
            gateways=tuple(gateway_host or ()),
            memory=memory,
            cores=cores,
            accelerator=accelerator,
            accelerators_per_node=accelerators_per_node,
            usd_per_hour=usd_per_hour,
            ssh_key=ssh_key,
            ssh_user=ssh_user,
            pools=tuple(pool or ()),
            region=region,
            bucket=bucket,
            nvidia_image=nvidia_image,
            authorized_keys=tuple(authorized_key or ()),
            clients=tuple(clients or ()),
        ),
        CHECKOUT,
    )
    if len(models) > 1 and (s3 or revision):
        option = "--s3" if s3 else "--revision"
        raise CliError(
            f"{option} is of one model's weights, but {len(models)} are named",
            fix="name that model alone; `slipway models add` adds the others",
            exit_code=WRONG_INPUT,
        )
    wanted = [
        Asked(
            model=each,
            name=name,
            revision=revision,
            s3=s3,
            credentials=credentials,
            simulated=simulated,
        )
        for name, each in models
    ]
    expected = Expected(
        requests_per_s=requests_per_s,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        ttft_p95_ms=ttft_p95_ms,
        tpot_p95_ms=tpot_p95_ms,
    )
    start(answers, wanted, expected, CHECKOUT, replace_file=replace, yes=yes, json=json)
