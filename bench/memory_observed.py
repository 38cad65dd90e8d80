"""Compares the planner's memory with what vLLM servers printed at start.

    .venv/bin/python bench/memory_observed.py [--rows]

Prints a markdown table of the errors by class of model, of the rows that are held out and of the
others; with --rows, every row. Nothing is measured here: the logs are other people's
(tests/unit/planner/engines/vllm/observed.yaml says where from).
"""

from __future__ import annotations

import argparse
import datetime
import statistics
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from slipway.architectures.names import find_published  # noqa: E402
from slipway.config.base import Settings  # noqa: E402
from slipway.config.calibration import LayoutSettings  # noqa: E402
from slipway.config.catalog import Accelerator, Architecture, Catalog, load_catalog  # noqa: E402
from slipway.config.document import read_document  # noqa: E402
from slipway.config.validation import validated  # noqa: E402
from slipway.plan.figures import DeviceMemory, Layout, Precision  # noqa: E402
from slipway.planner.engines.vllm.memory import (  # noqa: E402
    default_batched_tokens,
    device_memory,
)
from slipway.planner.engines.vllm.precisions import is_quantized  # noqa: E402
from slipway.planner.engines.vllm.releases import release_of  # noqa: E402
from slipway.planner.quantization import SCHEMES  # noqa: E402
from slipway.planner.units import GIB  # noqa: E402
from slipway.planner.verdict import verdict  # noqa: E402

OBSERVED = "tests/unit/planner/engines/vllm/observed.yaml"
Failure = Literal["loading", "profiling", "no_cache", "too_long", "graphs"]
CLASSES = ("MLA", "MoE", "window", "quantized", "dense")

# vLLM's default of max_num_seqs by its default of max_num_batched_tokens: it chooses both by the
# device (vllm/engine/arg_utils.py).
SEQUENCES = {2_048: 256, 8_192: 1024, 16_384: 1024}


class Observed(Settings):
    """One start of a server. Sizes are GiB of one device, the names are explained in the file."""

    thread: Annotated[str, Field(pattern=r"[\w.-]+/[\w.-]+#\d+")]
    date: datetime.date
    engine: Literal["V0", "V1"] = "V1"
    model: str
    checkpoint: str | None = None
    weights: str
    kv: Literal["bf16", "fp8"] = "bf16"
    vllm: str
    device: str
    layout: LayoutSettings = LayoutSettings()
    utilization: float | None = None
    max_len: int | None = None
    batched_tokens: int | None = None
    sequences: int | None = None
    eager: bool = False
    untied: bool = False
    device_gib: float | None = None
    weights_gib: float | None = None
    activation_gib: float | None = None
    other_gib: float | None = None
    graphs_gib: float | None = None
    cache_gib: float | None = None
    kv_tokens: int | None = None
    at_once: float | None = None
    needed_gib: float | None = None
    failed: Failure | None = None
    served: bool = False
    inferred: Annotated[tuple[str, ...], Field(strict=False)] = ()
    note: str = ""

    @property
    def held_out(self) -> bool:
        """Whether it only judges."""
        return int(self.thread.rpartition("#")[2]) % 2 == 1


class ObservedStarts(Settings):
    devices: Mapping[str, float]
    rows: Annotated[tuple[Observed, ...], Field(strict=False)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A start, and the planner's memory of its fullest device."""

    observed: Observed
    kind: str  # of CLASSES
    memory: DeviceMemory

    @property
    def weights_error(self) -> float | None:
        printed = self.observed.weights_gib
        return None if printed is None else self.memory.weights_bytes / GIB / printed - 1

    @property
    def is_inside_band(self) -> bool | None:
        """Whether the weights that were printed are within the error that the planner states."""
        printed = self.observed.weights_gib
        if printed is None:
            return None
        return abs(self.memory.weights_bytes - printed * GIB) <= self.memory.weights_error_bytes

    @property
    def is_judged_failure(self) -> bool:
        """Whether it failed for lack of the memory that is planned. Before CUDA graphs were taken
        from the KV cache, they needed what the utilization leaves, which is not."""
        failed, counts_graphs = self.observed.failed, release_of(self.observed.vllm).counts_graphs
        return failed is not None and (failed != "graphs" or counts_graphs)

    @property
    def is_promised(self) -> bool:
        """Whether the planner says that it fits."""
        return verdict(self.memory) == "fits"

    @property
    def tokens_error(self) -> float | None:
        """Of the tokens that the KV cache holds, or of its bytes where no tokens were printed; None
        where there was no cache, or where the settings are not known."""
        if not self._judges_cache:
            return None
        tokens, cache = self._printed_tokens, self.observed.cache_gib
        if tokens is not None:
            return self.memory.kv_tokens / tokens - 1
        if cache is None or cache <= 0:
            return None
        return self.memory.kv_cache_bytes / GIB / cache - 1

    @property
    def cache_error_gib(self) -> float | None:
        printed, tokens = self.observed.cache_gib, self.tokens_error
        if not self._judges_cache:
            return None
        if printed is not None:
            return self.memory.kv_cache_bytes / GIB - printed
        if tokens is None:
            return None
        return self.memory.kv_cache_bytes / GIB * (1 - 1 / (1 + tokens))

    @property
    def is_close(self) -> bool | None:
        """Whether the KV cache is within a quarter of what was printed, or within 2 GiB of it."""
        tokens, gib = self.tokens_error, self.cache_error_gib
        if tokens is None or gib is None:
            return None
        return abs(tokens) <= 0.25 or abs(gib) <= 2

    @property
    def is_cache_inside_band(self) -> bool | None:
        """Whether what was left is within the error that the planner states."""
        gib = self.cache_error_gib
        return None if gib is None else abs(gib) * GIB <= self.memory.error_bytes

    @property
    def _printed_tokens(self) -> float | None:
        """In sequences of full length: of models whose layers differ, older releases printed
        something else as the size of the cache."""
        row = self.observed
        if row.at_once is not None and row.max_len is not None:
            return row.at_once * row.max_len
        return row.kv_tokens

    @property
    def _judges_cache(self) -> bool:
        return self.observed.engine == "V1" and self.observed.utilization is not None


def load_observed() -> ObservedStarts:
    document = read_document(ROOT / OBSERVED, source=OBSERVED)
    return validated(ObservedStarts, document.values, document.origin)


def comparisons(starts: ObservedStarts, catalog: Catalog) -> Iterator[Comparison]:
    """Of the starts whose model and scheme the planner knows."""
    for observed in starts.rows:
        found = _loaded(observed, catalog.models)
        if found is None or found[1] not in SCHEMES:
            continue
        architecture, weights = found
        memory = _memory(observed, architecture, weights, starts.devices, catalog.accelerators)
        kind = _class_of(architecture, weights)
        yield Comparison(observed=observed, kind=kind, memory=memory)


def _loaded(
    observed: Observed, known: Mapping[str, Architecture]
) -> tuple[Architecture, str] | None:
    """What was loaded, and its scheme: the checkpoint's facts, where the catalog has them."""
    checkpoint = find_published(observed.checkpoint, known) if observed.checkpoint else None
    if checkpoint is not None:
        return checkpoint[1], checkpoint[1].published_weights
    architecture = known.get(observed.model)
    return None if architecture is None else (architecture, observed.weights)


def _class_of(architecture: Architecture, weights: str) -> str:
    """The one of several classes that is the hardest to plan."""
    if architecture.latent is not None:
        return "MLA"
    if architecture.experts is not None:
        return "MoE"
    if architecture.sliding_window is not None:
        return "window"
    return "quantized" if is_quantized(weights) else "dense"


def _memory(
    observed: Observed,
    architecture: Architecture,
    weights: str,
    devices: Mapping[str, float],
    accelerators: Mapping[str, Accelerator],
) -> DeviceMemory:
    mib = round((observed.device_gib or devices[observed.device]) * 1024)
    # What matters here is the memory, and whether there is FP8 arithmetic, as on every H100.
    known = accelerators[observed.device if observed.device in accelerators else "H100-80"]
    device = known.model_copy(update={"memory_mib": mib, "offered_mib": mib})
    release = release_of(observed.vllm)
    graphs = release.counts_graphs and not observed.eager
    untied = {"tied_embeddings": False} if observed.untied else {}
    return device_memory(
        architecture.model_copy(update=untied),
        device,
        layout=Layout(**observed.layout.model_dump()),
        precision=Precision(weights=weights, kv=observed.kv),
        max_len=observed.max_len or architecture.context,
        max_num_seqs=observed.sequences or SEQUENCES[default_batched_tokens(device)],
        max_batched_tokens=observed.batched_tokens,
        utilization=observed.utilization or 0.9,
        release=replace(release, counts_graphs=graphs),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", action="store_true")
    starts, catalog = load_observed(), load_catalog(ROOT)
    found = list(comparisons(starts, catalog))
    if parser.parse_args().rows:
        _print_rows(found)
        return
    print(f"{len(found)} of {len(starts.rows)} starts are of models that the planner knows.\n")
    print(
        "| rows | class | weights: rows | median | worst | KV tokens: rows | median | worst"
        " | failed starts | promised |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for held_out, name in ((True, "held out"), (False, "for adjusting")):
        half = [each for each in found if each.observed.held_out == held_out]
        for kind in CLASSES:
            if of_kind := [each for each in half if each.kind == kind]:
                print(f"| {name} | {kind} | {_errors(of_kind)} |")
        print(f"| {name} | all | {_errors(half)} |")
    print(f"\n{_share_of_close([each for each in found if each.observed.held_out])}")


def _share_of_close(held_out: Sequence[Comparison]) -> str:
    near = [abs(error) <= 0.08 for error in _known(each.weights_error for each in held_out)]
    inside = [each.is_inside_band for each in held_out if each.is_inside_band is not None]
    close = [each.is_close for each in held_out if each.is_close is not None]
    left = [each.is_cache_inside_band for each in held_out if each.is_cache_inside_band is not None]
    return (
        f"Held out: {sum(near)} of {len(near)} weights are within 8 %, {sum(inside)} inside the"
        f" error that is stated; {sum(close)} of {len(close)} KV caches are within 25 % or 2 GiB,"
        f" {sum(left)} of {len(left)} inside the error."
    )


def _errors(found: Sequence[Comparison]) -> str:
    weights = _known(each.weights_error for each in found)
    cache = _known(each.tokens_error for each in found)
    failed = [each for each in found if each.is_judged_failure]
    promised = sum(each.is_promised for each in failed)
    return " | ".join((*_summary(weights), *_summary(cache), str(len(failed)), str(promised)))


def _known(errors: Iterable[float | None]) -> list[float]:
    return [each for each in errors if each is not None]


def _summary(errors: Sequence[float]) -> tuple[str, str, str]:
    """(how many, their median size, the largest with its sign)"""
    if not errors:
        return "0", "-", "-"
    worst = max(errors, key=abs)
    return str(len(errors)), f"{statistics.median(map(abs, errors)):.1%}", f"{worst:+.1%}"


def _print_rows(found: Iterable[Comparison]) -> None:
    print("| thread | model | device | weights | KV tokens | GiB | failed | planned |")
    print("|---|---|---|---|---|---|---|---|")
    for each in found:
        row = each.observed
        cells = (
            row.thread,
            f"{row.model} {row.weights}",
            row.device,
            _or_dash(each.weights_error, "+.1%"),
            _or_dash(each.tokens_error, "+.1%"),
            _or_dash(each.cache_error_gib, "+.2f"),
            row.failed or "-",
            verdict(each.memory),
        )
        print(f"| {' | '.join(cells)} |")


def _or_dash(error: float | None, form: str) -> str:
    return "-" if error is None else format(error, form)


if __name__ == "__main__":
    main()
