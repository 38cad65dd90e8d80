"""Say whether a model fits, what remains for requests, and what would fit."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from cli.console import print_tables, write_json
from cli.environment import CHECKOUT
from cli.errors import FAILED, WRONG_INPUT, CliError
from cli.named_models import find_model
from cli.options import Json
from cli.views.fit_table import fit_table, memory_parts
from slipway.architectures.parameters import count
from slipway.config.catalog import Architecture, Catalog, load_catalog
from slipway.config.errors import suggestion
from slipway.plan.figures import Layout, Precision
from slipway.planner.engines.registry import ENGINES
from slipway.planner.fit import Deployment, Fit, fit, replica_layout
from slipway.planner.hardware import DEVICES_PER_NODE
from slipway.planner.quantization import KV_BYTES, SCHEMES
from slipway.planner.units import GIB

app = typer.Typer(add_completion=False)

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
    model: Annotated[
        str,
        typer.Argument(
            help="A key of catalog/models.yaml, a name on the hub that it lists, a config.json or"
            " the folder of one."
        ),
    ],
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
    max_num_seqs: Annotated[
        int,
        typer.Option(
            "--max-num-seqs", min=1, max=100_000, help="Requests decoded together at most."
        ),
    ] = 256,
    utilization: Annotated[
        float, typer.Option("--utilization", min=0.01, max=1, help="Share of the memory to use.")
    ] = 0.9,
    json: Json = False,
) -> None:
    """Say whether a model fits, what remains for requests, and what would fit."""
    catalog = load_catalog(CHECKOUT)
    key, architecture = find_model(model, catalog.models)
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
        max_num_seqs=max_num_seqs,
        utilization=utilization,
    )
    answer = fit(architecture, deployment, catalog.accelerators, devices_per_node=per_node)
    if json:
        write_json(fit_document(key, architecture, answer))
        return
    print_tables(fit_table(key, architecture, answer))
    if answer.verdict in {"does_not_fit", "cannot_run"}:
        raise typer.Exit(FAILED)


def fit_document(model: str, architecture: Architecture, answer: Fit) -> dict[str, Any]:
    """The answer for scripts. `kv_bytes_per_token` is the whole model's, sizes are per device, and
    a band is the lowest and the highest that the error of the estimates allows."""
    deployment, memory = answer.deployment, answer.memory
    parameters, parts = count(architecture), memory_parts(memory)
    sources = ENGINES[deployment.engine].memory_sources(architecture, deployment.precision.weights)
    return {
        "model": model,
        "gpu": deployment.accelerator,
        "count": deployment.layout.devices,
        "layout": dataclasses.asdict(deployment.layout),
        "precision": dataclasses.asdict(deployment.precision),
        "verdict": answer.verdict,
        "feasible": answer.feasible,
        "reasons": list(answer.reasons),
        "suggestions": list(answer.suggestions),
        "parameters": parameters.total,
        "active_parameters": parameters.active,
        "context": architecture.context,
        "max_len": answer.max_len,
        "weights_gib_per_gpu": _gib(memory.weights_bytes),
        "kv_bytes_per_token": answer.kv_bytes_per_token,
        "kv_bytes_per_token_per_gpu": memory.kv_bytes_per_token,
        "kv_tokens": answer.kv_tokens,
        "longest_sequence_bytes_per_gpu": memory.longest_sequence_bytes,
        "max_num_seqs": deployment.max_num_seqs,
        "max_concurrent_requests": answer.max_concurrent_requests,
        "memory_gib_per_gpu": {part.key: _gib(part.size_bytes) for part in parts},
        "memory_bytes_per_gpu": {part.key: part.size_bytes for part in parts},
        "band": {
            "weights_gib_per_gpu": _band(memory.weights_bytes, memory.weights_error_bytes),
            "kv_cache_gib_per_gpu": _band(memory.kv_cache_bytes, memory.error_bytes),
        },
        "sources": dict(sources.parts),
        "notes": [],
    }


def _band(size_bytes: int, error_bytes: int) -> list[float]:
    return [_gib(size_bytes - error_bytes), _gib(size_bytes + error_bytes)]


def _gib(size_bytes: int) -> float:
    return round(size_bytes / GIB, 3)


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
    """Those of the catalog's largest machine with this accelerator, else of the servers it is sold
    in."""
    found = (item for item in catalog.instances.values() if item.accelerator == accelerator)
    sold = catalog.accelerators[accelerator].devices_per_node or DEVICES_PER_NODE
    return max((item.accelerators for item in found), default=sold)


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
