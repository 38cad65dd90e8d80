"""Whether a model fits, as text and a table for people."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from cli.views.tables import plain_table
from slipway.architectures.parameters import count
from slipway.config.catalog import Architecture
from slipway.plan.figures import DeviceMemory
from slipway.planner.engines.registry import ENGINES
from slipway.planner.fit import Fit
from slipway.planner.quantization import describe_precision
from slipway.planner.units import GIB

_VERDICTS = {
    "fits": ("fits on", "bold green"),
    "may_fit": ("may fit on", "bold yellow"),
    "does_not_fit": ("does not fit on", "bold red"),
    "cannot_run": ("cannot run on", "bold red"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPart:
    """One line of a device's memory; `sign` says how it enters the KV cache, which is the sum."""

    key: str  # of MemorySources.parts
    sign: str
    size_bytes: int
    error_bytes: int = 0


def memory_parts(memory: DeviceMemory) -> tuple[MemoryPart, ...]:
    """The KV cache is `usable` less all that has a minus, to the byte."""
    taken = {
        "activations": memory.activations_bytes,
        "graphs": memory.graphs_bytes,
        "communication": memory.communication_bytes,
        "runtime": memory.runtime_bytes,
    }
    share = memory.engine_error_bytes / sum(taken.values()) if any(taken.values()) else 0.0
    return (
        MemoryPart(key="device", sign="", size_bytes=memory.device_bytes),
        MemoryPart(key="usable", sign="", size_bytes=memory.usable_bytes),
        MemoryPart(
            key="weights",
            sign="- ",
            size_bytes=memory.weights_bytes,
            error_bytes=memory.weights_error_bytes,
        ),
        *(
            MemoryPart(key=key, sign="- ", size_bytes=size, error_bytes=round(share * size))
            for key, size in taken.items()
        ),
        MemoryPart(
            key="kv_cache",
            sign="= ",
            size_bytes=memory.kv_cache_bytes,
            error_bytes=memory.error_bytes,
        ),
    )


def fit_table(model: str, architecture: Architecture, answer: Fit) -> RenderableType:
    """A replica that the engine refuses has no table: its memory would mean nothing."""
    said: tuple[RenderableType, ...] = (_verdict(model, answer), *_reasons(answer))
    if answer.verdict == "cannot_run":
        return Group(*said)
    return Group(*said, _memory(architecture, answer), _requests(architecture, answer))


def _verdict(model: str, answer: Fit) -> Text:
    deployment, layout = answer.deployment, answer.deployment.layout
    where = f"{layout.devices} x {deployment.accelerator} (tensor {layout.tensor}"
    where += f", pipeline {layout.pipeline})" if layout.pipeline > 1 else ")"
    words, style = _VERDICTS[answer.verdict]
    return Text(f"{model} {words} {where}, {describe_precision(deployment.precision)}", style=style)


def _reasons(answer: Fit) -> Iterator[Padding]:
    surely = "surely " if answer.verdict == "may_fit" else ""
    said = (
        *(f"why: {reason}" for reason in answer.reasons),
        *(f"{surely}fits with {option}" for option in answer.suggestions),
    )
    for line in said:
        yield Padding(Text(line), (0, 0, 0, 2), expand=False)


def _memory(architecture: Architecture, answer: Fit) -> Table:
    deployment = answer.deployment
    engine = ENGINES[deployment.engine]
    sources = engine.memory_sources(architecture, deployment.precision.weights).parts
    table = plain_table()
    table.add_column("per device", no_wrap=True)
    table.add_column("GiB", justify="right", no_wrap=True)
    table.add_column("error", justify="right", no_wrap=True)
    table.add_column("from", overflow="fold")
    for part in memory_parts(answer.memory):
        name = part.sign + part.key.replace("_", " ").replace("kv", "KV")
        error = f"± {part.error_bytes / GIB:.2f}" if part.error_bytes else ""
        table.add_row(name, f"{part.size_bytes / GIB:.2f}", error, sources[part.key])
    return table


def _requests(architecture: Architecture, answer: Fit) -> Table:
    table = plain_table()
    table.add_column("requests", overflow="fold")
    table.add_column("", justify="right", no_wrap=True)
    for name, value in _request_lines(architecture, answer):
        table.add_row(name, value)
    return table


def _request_lines(architecture: Architecture, answer: Fit) -> Iterator[tuple[str, str]]:
    parameters, memory = count(architecture), answer.memory
    yield "parameters", f"{parameters.total / 1e9:.2f} billion"
    if parameters.active != parameters.total:
        yield "of which active", f"{parameters.active / 1e9:.2f} billion"
    yield "KV cache per token, whole model", f"{answer.kv_bytes_per_token / 1024:.1f} KiB"
    if answer.verdict == "does_not_fit":
        return
    yield "tokens of KV cache", f"{answer.kv_tokens:,}"
    yield _length(answer), f"{answer.max_len:,} of {architecture.context:,}"
    decoding = memory.sequence.held_bytes(answer.max_len)
    yield "  its KV cache per device", _gib(decoding)
    if memory.longest_sequence_bytes != decoding:
        yield "  while its prompt is computed", _gib(memory.longest_sequence_bytes)
    most = answer.deployment.max_num_seqs * answer.deployment.layout.data
    yield f"such requests at once, at most {most:,}", f"{answer.max_concurrent_requests:,}"


def _length(answer: Fit) -> str:
    if answer.deployment.max_len is not None:
        return "longest sequence, as asked"
    return "longest sequence that surely fits" if answer.feasible else "shortest useful sequence"


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / GIB:.2f} GiB"
