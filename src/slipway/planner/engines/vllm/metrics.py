"""The metrics of vLLM's API server (vllm/v1/metrics/loggers.py)."""

from __future__ import annotations

from slipway.planner.engines.adapter import EngineMetrics

METRICS = EngineMetrics(
    requests="vllm:request_success_total",
    input_tokens="vllm:prompt_tokens_total",
    output_tokens="vllm:generation_tokens_total",
    running="vllm:num_requests_running",
    kv_cache_usage="vllm:kv_cache_usage_perc",
    ttft="vllm:time_to_first_token_seconds",
    tpot="vllm:inter_token_latency_seconds",
)
