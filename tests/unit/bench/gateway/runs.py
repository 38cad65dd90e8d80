"""A run to begin from."""

from __future__ import annotations

from bench.gateway.contenders import OURS_AFFINITY
from bench.gateway.measurement import Run

RUN = Run(
    contender=OURS_AFFINITY,
    trace="uniform",
    concurrency=1,
    pair=0,
    ttft_p50_ms=4.0,
    ttft_p95_ms=5.0,
    ttft_p99_ms=6.0,
    hit_ratio=0.5,
    busiest_share=0.3,
    gateway_cpu_ms=1.0,
    client_cpu_ms=0.2,
    seconds=3.0,
    requests=400,
    errors={},
)
