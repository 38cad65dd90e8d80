"""The time from a new replica's start to its first token, by parts, and the longest allowed.

Parts marked A2 were measured in one start: Qwen3-32B in bfloat16 (65.5 GB) with vLLM on one
H100, 278 s in all (llm-d's report on pod snapshots, GKE).
"""

from __future__ import annotations

import math

from slipway.config.load import Load
from slipway.plan.figures import ColdStart, Figure
from slipway.planner.supply.supply import Supply

MEASURED = "measured once: Qwen3-32B, vLLM, 1 x H100 (llm-d pod snapshots, GKE)"
ASSUMED = "assumed, measured nowhere yet"

# From the request for a machine until its agents have registered: (value, low, high) in s.
NODE_BOOT_S = (150.0, 60.0, 300.0)

# The engine's image, compressed, and how fast a node pulls and unpacks it.
IMAGE_BYTES = 10e9
IMAGE_BYTES_PER_S = (150e6, 75e6, 400e6)
IMAGE_READY_S = 1.8  # A2: the image is on the node

# From an object store: a share of what the node's network sustains, and in the best case of what it
# carries in bursts, not counting the fabric between accelerators.
DOWNLOAD_SHARE = (0.5, 0.25, 0.9)
MOST_DOWNLOAD_GBPS = 100.0

LOAD_BYTES_PER_S = 65.5e9 / 130  # A2: from disk into the device, default loader
IMPORT_S = 73.0  # A2: Python, torch and vLLM
COMPILE_S = 73.0  # A2: profiling, torch.compile, CUDA graphs
SPREAD = 0.5  # another model, disk or version: 50 % to 150 % of it


def cold_start(supply: Supply, *, weight_bytes: int, cliff_s: Figure | None = None) -> ColdStart:
    """The cold start of a replica with `weight_bytes`; on a new node where the pool can grow."""
    parts = _node_parts(supply, weight_bytes) if supply.elastic else _ready_parts()
    parts |= {
        "load": _measured(
            weight_bytes / LOAD_BYTES_PER_S,
            f"{weight_bytes / 1e9:.1f} GB / {LOAD_BYTES_PER_S / 1e9:.2f} GB/s; {MEASURED}",
        ),
        "imports": _measured(IMPORT_S, MEASURED),
        "compile": _measured(COMPILE_S, MEASURED),
    }
    return ColdStart(parts=parts, total_s=_sum(parts), cliff_s=cliff_s)


def cliff(
    load: Load, *, capacity: float, slack_s: float, detection_s: float, source: str
) -> Figure | None:
    """The longest startup that keeps the load's ramp within the TTFT goal.

    Until a new replica starts, the running ones serve `capacity` requests/s and the excess queues
    (fluid approximation: G. F. Newell, "Applications of Queueing Theory", 1982, ch. 2). A request
    waits backlog / capacity, which must not exceed `slack_s`: the TTFT goal less the TTFT of a
    replica that is not overloaded. `detection_s` is the time until a replica is started. None
    without a ramp, or when it stays below the capacity.
    """
    ramp = load.ramp
    if ramp is None or ramp.to_requests_per_s <= capacity:
        return None
    slope = (ramp.to_requests_per_s - load.requests_per_s) / ramp.seconds
    spare = max(0.0, capacity - load.requests_per_s)
    until_full_s = spare / slope if slope > 0 else 0.0
    excess = max(0.0, load.requests_per_s - capacity)
    growing_s = ramp.seconds - until_full_s
    allowed = max(0.0, slack_s) * capacity
    backlog_then = excess * growing_s + slope * growing_s**2 / 2
    if backlog_then >= allowed:
        queueing_s = (math.sqrt(excess**2 + 2 * slope * allowed) - excess) / slope
    else:
        over = ramp.to_requests_per_s - capacity
        queueing_s = growing_s + (allowed - backlog_then) / over
    return Figure(
        value=max(0.0, until_full_s + queueing_s - detection_s),
        unit="s",
        basis="estimate",
        source=(
            f"{until_full_s:.0f} s until {capacity:.1f} requests/s are reached + {queueing_s:.0f} s"
            f" until the queue costs {slack_s:.1f} s - {detection_s:.0f} s to notice; {source}"
        ),
    )


def _node_parts(supply: Supply, weight_bytes: int) -> dict[str, Figure]:
    value, low, high = NODE_BOOT_S
    share, worst_share, best_share = DOWNLOAD_SHARE
    sustained_gbps, burst_gbps = (
        min(gbps, MOST_DOWNLOAD_GBPS) for gbps in (supply.sustained_gbps, supply.network_gbps)
    )
    network = _network(sustained_gbps, burst_gbps)
    rate, worst_rate, best_rate = IMAGE_BYTES_PER_S
    return {
        "node": _seconds(value, low, high, f"a machine boots and registers: {ASSUMED}"),
        "image": _seconds(
            IMAGE_BYTES / rate,
            IMAGE_BYTES / best_rate,
            IMAGE_BYTES / worst_rate,
            f"{IMAGE_BYTES / 1e9:.0f} GB / {rate / 1e6:.0f} MB/s: {ASSUMED}",
        ),
        "weights": _seconds(
            weight_bytes / (share * _bytes_per_s(sustained_gbps)),
            weight_bytes / (best_share * _bytes_per_s(burst_gbps)),
            weight_bytes / (worst_share * _bytes_per_s(sustained_gbps)),
            f"{weight_bytes / 1e9:.1f} GB over {share:.0%} of {network}: {ASSUMED}",
        ),
    }


def _network(sustained_gbps: float, burst_gbps: float) -> str:
    if sustained_gbps == burst_gbps:
        return f"{sustained_gbps:g} Gbit/s"
    return f"{sustained_gbps:g} Gbit/s sustained (up to {burst_gbps:g} in bursts)"


def _bytes_per_s(gbps: float) -> float:
    return gbps * 1e9 / 8


def _ready_parts() -> dict[str, Figure]:
    """On a running node, which has the image and the weights."""
    return {"image": _measured(IMAGE_READY_S, MEASURED)}


def _measured(seconds: float, source: str) -> Figure:
    """An estimate from a measurement made elsewhere."""
    return _seconds(seconds, seconds * (1 - SPREAD), seconds * (1 + SPREAD), source)


def _seconds(value: float, low: float, high: float, source: str) -> Figure:
    return Figure(value=value, unit="s", basis="estimate", source=source, low=low, high=high)


def _sum(parts: dict[str, Figure]) -> Figure:
    figures = parts.values()
    return Figure(
        value=sum(figure.value for figure in figures),
        unit="s",
        basis="estimate",
        source=" + ".join(parts),
        low=sum(figure.low or 0.0 for figure in figures),
        high=sum(figure.high or 0.0 for figure in figures),
    )
