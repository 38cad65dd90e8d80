"""Say whether a model fits, what remains for requests, and what would fit."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from slipway.cli.console import print_tables, say, write_json
from slipway.cli.environment import CHECKOUT
from slipway.cli.errors import FAILED, WRONG_INPUT, CliError
from slipway.cli.options import Json
from slipway.cli.views.tables import plain_table
from slipway.config.catalog import (
    HOW_TO_ADD_A_MODEL,
    Architecture,
    Catalog,
    load_catalog,
)
from slipway.config.errors import suggestion
from slipway.plan.figures import DeviceMemory, Layout, Precision
from slipway.planner.engines.vllm.memory import PART_SOURCES
from slipway.planner.engines.vllm.parallelism import DEVICES_PER_NODE
from slipway.planner.engines.vllm.precisions import engine_problems
from slipway.planner.memory.fit import Deployment, Fit, fit, replica_layout
from slipway.planner.memory.parameters import ParameterCount, count
from slipway.planner.memory.quantization import KV_BYTES, SCHEMES

app = typer.Typer(add_completion=False)

_GIB = 2**30

# Far beyond any replica: a larger number is a typing mistake, and every pipeline stage is computed.
_MOST_DEVICES = 1024

Devices = Annotated[
    int | None,
    typer.Option("--count", min=1, max=_MOST_DEVICES, help="Devices of one replica."),
]
Tensor = Annotated[
    int | None, typer.Option("--tp", min=1, max=_MOST_DEVICES, help="Tensor parallel.")
]
Pipeline = Annotated[
    int | None, typer.Option("--pp", min=1, max=_MOST_DEVICES, help="Pipeline parallel.")
]


@app.command(name="fit")
def fit_command(
    model: Annotated[str, typer.Argument(help="A key of catalog/models.yaml, or a hub name.")],
    *,
    gpu: Annotated[str, typer.Option("--gpu", help="A key of catalog/accelerators.yaml.")],
    devices: Devices = None,
    tensor: Tensor = None,
    pipeline: Pipeline = None,
    quant: Annotated[str | None, typer.Option("--quant", help=f"{', '.join(SCHEMES)}.")] = None,
    kv_dtype: Annotated[str, typer.Option("--kv-dtype", help=f"{', '.join(KV_BYTES)}.")] = "bf16",
    max_len: Annotated[
        int | None, typer.Option("--max-len", min=1, help="Tokens of the longest sequence.")
    ] = None,
    json: Json = False,
) -> None:
    """Say whether a model fits, what remains for requests, and what would fit."""
    catalog = load_catalog(CHECKOUT)
    key = find_model(model, catalog.models)
    architecture = catalog.models[key]
    accelerator = _known(gpu, catalog.accelerators, "--gpu", "catalog/accelerators.yaml")
    weights = architecture.published_weights if quant is None else quant
    per_node = _devices_per_node(catalog, accelerator)
    deployment = Deployment(
        accelerator=accelerator,
        layout=_layout(devices, tensor, pipeline, per_node),
        precision=Precision(
            weights=_known(weights, SCHEMES, "--quant", "slipway"),
            kv=_known(kv_dtype, KV_BYTES, "--kv-dtype", "slipway"),
        ),
        max_len=max_len,
    )
    answer = fit(architecture, deployment, catalog.accelerators, devices_per_node=per_node)
    notes = engine_problems(accelerator, catalog.accelerators[accelerator])
    if json:
        write_json(fit_document(key, architecture, answer) | {"notes": notes})
        return
    print_tables(fit_table(key, architecture, answer))
    for note in notes:
        say(f"note: {note}; only memory was checked")
    if not answer.feasible:
        raise typer.Exit(FAILED)


def find_model(name: str, known: Mapping[str, Architecture]) -> str:
    """The catalog key of a model named by key, in any case, or by its name on the hub."""
    wanted = name.lower()
    for key, architecture in known.items():
        if wanted == key or wanted in map(str.lower, architecture.hub):
            return key
    raise CliError(
        f'catalog/models.yaml has no model "{name}"',
        fix=f"{suggestion(wanted, known)}; or {HOW_TO_ADD_A_MODEL}",
        exit_code=WRONG_INPUT,
    )


def fit_document(model: str, architecture: Architecture, answer: Fit) -> dict[str, Any]:
    """The answer for scripts. `kv_bytes_per_token` is the whole model's, sizes are per device."""
    deployment, memory = answer.deployment, answer.memory
    parameters = count(architecture)
    return {
        "model": model,
        "gpu": deployment.accelerator,
        "count": deployment.layout.devices,
        "layout": dataclasses.asdict(deployment.layout),
        "precision": dataclasses.asdict(deployment.precision),
        "feasible": answer.feasible,
        "reasons": list(answer.reasons),
        "suggestions": list(answer.suggestions),
        "parameters": parameters.total,
        "active_parameters": parameters.active,
        "context": architecture.context,
        "max_len": answer.max_len,
        "weights_gib_per_gpu": round(memory.weights_bytes / _GIB, 3),
        "kv_bytes_per_token": answer.kv_bytes_per_token,
        "kv_bytes_per_token_per_gpu": memory.kv_bytes_per_token,
        "kv_tokens": answer.kv_tokens,
        "max_concurrent_requests": answer.max_concurrent_requests,
        "memory_gib_per_gpu": {
            name: round(size / _GIB, 3) for name, size in _parts(memory).items()
        },
        "sources": dict(PART_SOURCES),
    }


def fit_table(model: str, architecture: Architecture, answer: Fit) -> RenderableType:
    """The answer for people. Prints nothing itself."""
    return Group(_verdict(model, answer), *_reasons(answer), _memory(architecture, answer))


def _verdict(model: str, answer: Fit) -> Text:
    deployment, layout = answer.deployment, answer.deployment.layout
    where = f"{layout.devices} x {deployment.accelerator} (tensor {layout.tensor}"
    where += f", pipeline {layout.pipeline})" if layout.pipeline > 1 else ")"
    precision = f"{deployment.precision.weights} weights, {deployment.precision.kv} KV"
    if not answer.feasible:
        return Text(f"{model} does not fit on {where}, {precision}", style="bold red")
    return Text(f"{model} fits on {where}, {precision}", style="bold green")


def _reasons(answer: Fit) -> list[Text]:
    why = [Text(f"  why: {reason}") for reason in answer.reasons]
    return why + [Text(f"  fits with {option}") for option in answer.suggestions]


def _memory(architecture: Architecture, answer: Fit) -> Table:
    table = plain_table()
    table.add_column("per device")
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("from")
    for name, size in _parts(answer.memory).items():
        table.add_row(name.replace("_", " "), f"{size / _GIB:.2f} GiB", PART_SOURCES[name])
    table.add_section()
    for name, value in _requests(count(architecture), architecture, answer):
        table.add_row(name, value)
    return table


def _requests(
    parameters: ParameterCount, architecture: Architecture, answer: Fit
) -> list[tuple[str, str]]:
    rows = [("parameters", f"{parameters.total / 1e9:.2f} billion")]
    if parameters.active != parameters.total:
        rows.append(("of which active", f"{parameters.active / 1e9:.2f} billion"))
    rows.append(("KV cache per token, whole model", f"{answer.kv_bytes_per_token / 1024:.1f} KiB"))
    if not answer.feasible:
        return rows
    return [
        *rows,
        ("tokens of KV cache", f"{answer.kv_tokens:,}"),
        ("longest sequence", f"{answer.max_len:,} of {architecture.context:,}"),
        ("requests of that length at once", f"{answer.max_concurrent_requests:,}"),
    ]


def _parts(memory: DeviceMemory) -> dict[str, int]:
    return {
        "device": memory.device_bytes,
        "usable": memory.usable_bytes,
        "weights": memory.weights_bytes,
        "activations": memory.activations_bytes,
        "graphs": memory.graphs_bytes,
        "communication": memory.communication_bytes,
        "runtime": memory.runtime_bytes,
        "kv_cache": memory.kv_cache_bytes,
    }


def _known(name: str, known: Mapping[str, object], option: str, where: str) -> str:
    """`name` in the spelling of `known`."""
    for key in known:
        if key.lower() == name.lower():
            return key
    longer = [key for key in known if key.lower().startswith(name.lower())]  # H100 for H100-80
    raise CliError(
        f'{option}: {where} does not know "{name}"',
        fix=suggestion(name, longer or known),
        exit_code=WRONG_INPUT,
    )


def _devices_per_node(catalog: Catalog, accelerator: str) -> int:
    """Those of the catalog's largest machine with this accelerator."""
    found = (item for item in catalog.instances.values() if item.accelerator == accelerator)
    return max((item.accelerators for item in found), default=DEVICES_PER_NODE)


def _layout(
    devices: int | None, tensor: int | None, pipeline: int | None, devices_per_node: int
) -> Layout:
    try:
        return replica_layout(
            devices=devices, tensor=tensor, pipeline=pipeline, devices_per_node=devices_per_node
        )
    except ValueError as error:
        raise CliError(
            f"--count, --tp, --pp: {error}",
            fix="make --count the product of --tp and --pp, or leave --count out",
            exit_code=WRONG_INPUT,
        ) from None
