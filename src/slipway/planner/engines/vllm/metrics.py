"""The metrics of vLLM's API server (vllm/v1/metrics/loggers.py)."""

from __future__ import annotations

from slipway.planner.engines.adapter import EngineMetrics, InfoLabel

METRICS = EngineMetrics(
    requests="vllm:request_success_total",
    input_tokens="vllm:prompt_tokens_total",
    output_tokens="vllm:generation_tokens_total",
    running="vllm:num_requests_running",
    kv_cache_usage="vllm:kv_cache_usage_perc",
    # Not num_gpu_blocks x block_size: blocks are of groups of layers, so a model with sliding
    # windows or states holds other numbers, and all engines of a replica show the sum of blocks
    # (update_kv_cache_capacity in v1/core/kv_cache_utils.py, v1/engine/core_client.py).
    kv_tokens=InfoLabel(metric="vllm:cache_config_info", label="kv_cache_size_tokens"),
    ttft="vllm:time_to_first_token_seconds",
    tpot="vllm:inter_token_latency_seconds",
)
