"""The allow-list of values that a comment may show.

Values are allowed by the last key of their path. Everything else is shown as "changed" without a
value.
"""

from __future__ import annotations

import re
from typing import Any

from slipway.diff.secrets import MASK, UNKNOWN, UNKNOWN_KEY, is_secret, is_secret_key

LONGEST_VALUE = 120  # characters

JOB = """
    Attempts CPU ChangeMode Cores Count Datacenters DelayFunction DestPath DeviceCount Driver
    Enabled Hook ID Image Label Limit MaxFiles MaxFileSizeMB MaxParallel Max MemoryMB MemoryMaxMB
    Min Mode Name NodePool Priority Sidecar SizeMB Sticky Type Unlimited command image
    Delay Grace Interval KillSignal KillTimeout ProgressDeadline ShutdownDelay Timeout
    FailuresBeforeCritical Path PortLabel Provider cooldown evaluation_interval
    slipway_digest slipway_model
"""
REPLICA = """
    dtype kind kv_cache_bytes kv_cache_dtype max_model_len max_num_seqs pipeline_parallel_size
    tensor_parallel_size expert_parallel_size threads quantization profile temperature
    gpu_memory_utilization max_num_batched_tokens load_timeout_s drain_timeout_s model weights
    directory file package sha256 revision repository
"""
DOCUMENTS = """
    address advertise_addr bind_addr client_addr consul deadline_s job_id max_replicas name
    node_name node_pool nomad pool port schema_version service surge timeout_s ready_timeout_s
    ready_url retry_join stop_timeout_s cpu_total_compute memory_total_mb scrape_interval
    evaluation_interval_s max_concurrent_requests_per_replica max_stream_duration_s
    stream_idle_timeout_s weight retention path delete nodes
"""
FACTS = """
    accelerator accelerators accelerators_per_node aliases architecture cooldown_s cpu_mhz
    environment fabric kind kv_bytes_per_token kv_cache_bytes kv_tokens market max_replicas
    meets_goal memory_bytes min_replicas models overhead_bytes parameters price_date
    replicas_needed servers spec_digest target target_inflight_per_replica total_bytes
    tpot_ms tpot_p95_ms ttft_ms ttft_p95_ms usd_per_hour usd_per_hour_at_most utilization
    weights_bytes envoy prometheus nomad-autoscaler tensor pipeline expert data
"""
CLOUD = """
    instanceType desiredCapacity minSize maxSize availabilityZone volumeSize volumeType encrypted
    amiId region engineVersion
"""
SHOWN_KEYS = frozenset(" ".join((JOB, REPLICA, DOCUMENTS, FACTS, CLOUD)).split())

# A content-hashed path on a node, which reveals only the version.
_PLACE = re.compile(r"(\$\{meta\.runtime\}|@cache@)/(bundles|envs|tools|weights)/[\w.@/+-]+")
_PLACE_IN_SHELL = re.compile(r'(?:exec )?"\$SLIPWAY_PYTHON" "\$SLIPWAY_CACHE/bundles/[\w./-]+" \w+')
_CREDENTIALS = re.compile(r"//[^/\s]*@")
_DURATIONS = frozenset(
    ["Delay", "Grace", "Interval", "KillTimeout", "ProgressDeadline", "ShutdownDelay", "Timeout"]
)
_NS_PER_S = 1_000_000_000


def shown(keys: tuple[str, ...], value: Any) -> str | None:
    """A value as text; None where it must not be shown or is not a single value.

    `keys` are its path: a name that suggests a secret hides everything below it.
    """
    if is_secret(value):
        return MASK
    if (isinstance(value, str) and UNKNOWN in value) or (
        isinstance(value, dict) and UNKNOWN_KEY in value
    ):
        return "(known after apply)"
    last = keys[-1] if keys else ""
    # Users choose the names of variables, and a URL may contain a password.
    is_named = last in SHOWN_KEYS and keys[-2:-1] not in (("Env",), ("environment",))
    allowed = (is_named and not _has_credentials(value)) or _is_place(value)
    # Most values are not allowed, so the path is checked last.
    if not allowed or isinstance(value, (dict, list)) or any(map(is_secret_key, keys)):
        return None
    if last in _DURATIONS and isinstance(value, int) and value % _NS_PER_S == 0 and value:
        return f"{value // _NS_PER_S} s"
    text = value if isinstance(value, str) else _scalar(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"


def _has_credentials(value: Any) -> bool:
    return isinstance(value, str) and bool(_CREDENTIALS.search(value))


def _is_place(value: Any) -> bool:
    return isinstance(value, str) and bool(
        _PLACE.fullmatch(value) or _PLACE_IN_SHELL.fullmatch(value)
    )


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    return f"{value:g}" if isinstance(value, float) and value != int(value) else str(int(value))
